"""What layers keep besides their weights, moved to layers of the same kind.

A vocabulary, or the mean and variance that a Normalization computes with, is in no weight. Keras
moves it to files and back by methods of the layer; here a dict and a folder stand for the file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from typing import Any

import keras
import numpy as np

_LOOKUPS = (keras.layers.StringLookup, keras.layers.IntegerLookup)


def copy(sources: Iterable[keras.Layer], targets: Iterable[keras.Layer]) -> None:
    """Gives the layers of one model what those of another keep: vocabularies, statistics.

    Args:
      sources: all layers of a built model.
      targets: those of a model that was made of the same config. Their weights may change, too.

    Raises:
      ValueError: they have different layers that keep something.
    """
    ones, others = _keepers(sources), _keepers(targets)
    if [type(one) for one in ones] != [type(other) for other in others]:
        raise ValueError(
            "`model` must have the same layers when it is made again of its config: those that "
            f"keep more than weights are {_names(ones)}, and of the copy {_names(others)}."
        )
    for one, other in zip(ones, others, strict=True):
        if type(one) in _LOOKUPS:
            _copy_vocabulary(one, other)
            continue
        if _loads_in_its_own_way(one):
            store: dict[str, Any] = {}
            one.save_own_variables(store)
            # Arrays, as from a file: a layer may keep what it is given.
            other.load_own_variables({name: _as_array(value) for name, value in store.items()})
        if _has_assets(one):
            with tempfile.TemporaryDirectory() as folder:
                one.save_assets(folder)
                other.load_assets(folder)


def _keepers(layers: Iterable[keras.Layer]) -> list[Any]:
    return [
        layer
        for layer in layers
        if (_loads_in_its_own_way(layer) or _has_assets(layer))
        # Its vocabulary is that of a lookup, a layer inside.
        and type(layer) is not keras.layers.TextVectorization
    ]


def _names(layers: list[keras.Layer]) -> str:
    return ", ".join(f"{one.name} ({type(one).__name__})" for one in layers) or "none"


def _loads_in_its_own_way(layer: keras.Layer) -> bool:
    """Whether it does more, or else, than assign what a file has to its variables."""
    return type(layer).load_own_variables is not keras.Layer.load_own_variables


def _as_array(value: Any) -> Any:
    return np.array(value.numpy() if hasattr(value, "numpy") else value)


def _has_assets(layer: keras.Layer) -> bool:
    return hasattr(layer, "save_assets") and hasattr(layer, "load_assets")


def _copy_vocabulary(source: Any, target: Any) -> None:
    """Not by a file, in which Keras has a word a line: words may have ends of lines in them."""
    if not source.get_vocabulary(include_special_tokens=False):
        return  # it was never adapted
    words = source.get_vocabulary()
    weights = None
    if source.output_mode == "tf_idf":
        weights = source.idf_weights_const.numpy()[: len(words)]  # what is more is padding
    target.set_vocabulary(words, weights)
