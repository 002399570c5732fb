"""Recurrent layers of Keras as files for tf_cudnn_rnn.runtime."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

import keras

from tf_cudnn_rnn._types import Direction, RnnMode
from tf_cudnn_rnn.keras import _inner_loop, cudnn_rnn
from tf_cudnn_rnn.keras._models import STOCK_LAYERS, layers_of
from tf_cudnn_rnn.weights import Canonical, from_keras, quantize

_NETWORKS = (*STOCK_LAYERS, cudnn_rnn.CudnnRNN, keras.layers.Bidirectional)


def export_runtime(
    model: keras.Layer | Sequence[keras.Layer],
    path: str | os.PathLike[str],
    *,
    int8: bool = False,
) -> None:
    """Writes recurrent layers as one file for `tf_cudnn_rnn.runtime` and for programs in C.

    The file has a network's weights, in the layer's type, and nothing of what stands before and
    behind it in a model: embeddings and dense layers are the caller's.

    >>> tf_cudnn_rnn.keras.export_runtime(model.get_layer("encoder"), "encoder.safetensors")
    >>> network = tf_cudnn_rnn.runtime.Network.load("encoder.safetensors")

    Args:
      model: an LSTM, GRU or SimpleRNN, drop-in or Keras' own, or one in Bidirectional
        (merge_mode="concat"); or a CudnnRNN; or several of these in a list, each of which takes
        all steps of the one before; or a model that has just one of them.
      path: of the file, which is overwritten in place, as `runtime.Network.save` does. Its
        ending is `.safetensors`, or one that no other format has.
      int8: rounds the matrices to int8, a quarter of float32: see `weights.quantize`.

    Raises:
      TypeError: `model` is no Keras layer.
      ValueError: a layer is not built, or does what the runtime does not: other activations,
        `go_backwards`, another `merge_mode`, GRU with reset_after=False. Or the model has no
        recurrent layer, or several; or the layers of a list differ in kind or size. Or a weight
        is not finite, or a row is too long, with `int8`. Or `path` has the ending of another
        format.
    """
    from tf_cudnn_rnn import runtime  # a library of its own, which nothing else here needs

    layers = [model] if isinstance(model, keras.Layer) else list(model)
    for layer in layers:
        if not isinstance(layer, keras.Layer):
            raise TypeError(
                "`model` must be a Keras layer, a model, or a list of layers; got "
                f"{type(layer).__name__}."
            )
        if not layer.built:
            raise ValueError(
                f"`model` must be built; {layer.name!r} is not. Call it on data first."
            )
    if len(layers) == 1 and not isinstance(layers[0], _NETWORKS):
        layers = _only_one_of(layers[0])
    canonical = _canonical_of(layers)
    runtime.Network(quantize(canonical) if int8 else canonical).save(pathlib.Path(path))


def _only_one_of(model: keras.Layer) -> list[keras.Layer]:
    found = layers_of(model, _NETWORKS)
    inner = {
        id(layer)
        for wrapper in found
        if isinstance(wrapper, keras.layers.Bidirectional)
        for layer in (wrapper.forward_layer, wrapper.backward_layer)
    }
    outer = [layer for layer in found if id(layer) not in inner]
    if len(outer) != 1:
        names = ", ".join(layer.name for layer in outer) or "none"
        raise ValueError(
            f"`model` must have one recurrent layer; {model.name!r} has {names}. Pass the layer "
            "itself, or a list of those that stand on each other."
        )
    return outer


def _canonical_of(layers: list[keras.Layer]) -> Canonical:
    if len(layers) == 1 and isinstance(layers[0], cudnn_rnn.CudnnRNN):
        return Canonical(layers[0].layout, layers[0].canonical_weights())
    kinds = {_kind_of(layer) for layer in layers}
    if len(kinds) != 1:
        listed = ", ".join(sorted(f"{mode} {direction}" for mode, direction in kinds))
        raise ValueError(f"`model` must list layers of one kind and direction; got {listed}.")
    [(rnn_mode, direction)] = kinds
    return from_keras([layer.get_weights() for layer in layers], rnn_mode, direction=direction)


def _kind_of(layer: keras.Layer) -> tuple[RnnMode, Direction]:
    """The mode and the direction, once it is known that the runtime computes the same."""
    if isinstance(layer, keras.layers.Bidirectional):
        if layer.merge_mode != "concat":
            raise ValueError(
                f"`merge_mode` must be 'concat' for the runtime; that of {layer.name!r} is "
                f"{layer.merge_mode!r}."
            )
        modes = {_mode_of(layer.forward_layer, False), _mode_of(layer.backward_layer, True)}
        if len(modes) != 1:
            raise ValueError(
                f"`model` must have layers of one kind in both directions; {layer.name!r} has not."
            )
        return modes.pop(), "bidirectional"
    return _mode_of(layer, False), "unidirectional"


def _mode_of(layer: Any, goes_backwards: bool) -> RnnMode:
    if not isinstance(layer, STOCK_LAYERS):
        raise ValueError(
            f"`model` must be of LSTM, GRU and SimpleRNN layers, Bidirectional or not; "
            f"{layer.name!r} is {type(layer).__name__}. A CudnnRNN stands alone."
        )
    if layer.go_backwards is not goes_backwards:
        raise ValueError(
            f"`go_backwards` must be {goes_backwards} for the runtime; that of {layer.name!r} is "
            f"{layer.go_backwards}."
        )
    if reason := _inner_loop.obstacle(layer, training=False):
        raise ValueError(f"The runtime cannot do what {layer.name!r} does: {reason}.")
    return _inner_loop.rnn_mode_of(layer)
