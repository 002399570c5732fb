"""What layers keep besides their weights, moved to layers of the same kind.

A vocabulary, or the mean and variance that a Normalization computes with, is in no weight. Keras
moves it to files and back by methods of the layer; here a dict and a folder stand for the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import keras


def copy(sources: Iterable[keras.Layer], targets: Iterable[keras.Layer]) -> None:
    """Gives the layers of one model what those of another keep: vocabularies, statistics.

    Args:
      sources: all layers of a built model whose state is more than their weights, and any others.
      targets: those of a model that was made of the same config. Their weights may change, too.

    Raises:
      ValueError: they have different layers that keep something.
    """
    for source, target in zip(_keepers(sources), _keepers(targets), strict=True):
        if _has_own_variables(source):
            store: dict[str, Any] = {}
            source.save_own_variables(store)
            target.load_own_variables(store)
        if _has_assets(source):
            with tempfile.TemporaryDirectory() as folder:
                source.save_assets(folder)
                target.load_assets(folder)


def _keepers(layers: Iterable[keras.Layer]) -> list[Any]:
    return [layer for layer in layers if _has_own_variables(layer) or _has_assets(layer)]


def _has_own_variables(layer: keras.Layer) -> bool:
    """Whether it does more than assign what a file has to its weights."""
    return type(layer).load_own_variables is not keras.Layer.load_own_variables


def _has_assets(layer: keras.Layer) -> bool:
    return hasattr(layer, "save_assets") and hasattr(layer, "load_assets")
