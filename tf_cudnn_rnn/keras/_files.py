"""What .keras and .weights.h5 files hold of a CudnnRNN.

Each weight is a named matrix, all gates of a layer and direction in one. A header explains them,
so that a file of another network is refused rather than misread. Where dropout acts between
layers there is the state of its seed besides.
"""

import contextlib
import os
from typing import Any

import numpy as np

from tf_cudnn_rnn._formats import canonical, hdf5, params_header, untrusted
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Array

_HEADER = "header"
_DROPOUT_SEED = "dropout_seed"
_WHERE = "the file"
_MAX_ITEM_BYTES = 8
_MAX_SEED_BYTES = 16


def write(store: Any, layout: Layout, params: Array, dropout_seed: Array | None) -> None:
    """Writes a layer.

    Args:
      store: of Keras, a mapping of names to arrays.
      layout: of the network.
      params: its weights [N].
      dropout_seed: the state [2] of the seed of dropout, if it has one.
    """
    store[_HEADER] = np.frombuffer(params_header.to_text(layout).encode(), np.uint8)
    for group in params_header.groups(layout):
        if group.size:
            values = params[group.offset : group.offset + group.size]
            store[str(group.name)] = values.reshape(group.shape)
    if dropout_seed is not None:
        store[_DROPOUT_SEED] = dropout_seed


def read_params(store: Any, layout: Layout, layer: str) -> Array:
    """Returns `params` [N] of what `write` wrote.

    Args:
      store: of Keras.
      layout: of the network that the weights are for.
      layer: its name, for messages.

    Raises:
      ValueError: the weights are of another network, or of another kind of layer.
    """
    with _named(store):
        return _read_params(store, layout, layer)


def _named(store: Any) -> contextlib.AbstractContextManager[None]:
    """Puts the path of the file before errors, if the store tells it."""
    path = getattr(store, "path_or_io", None)
    return untrusted.named(path) if isinstance(path, os.PathLike) else contextlib.nullcontext()


def _read_params(store: Any, layout: Layout, layer: str) -> Array:
    keys = _keys(store)
    if _HEADER not in keys:
        raise ValueError(
            f"Layer {layer!r} must find the named matrices of a CudnnRNN and their "
            f"`{_HEADER}` in the file; found {canonical.listed(sorted(keys)) or 'nothing'}. "
            "Weights of other layers: tf_cudnn_rnn.weights and set_canonical_weights."
        )
    header = _read(store, _HEADER, params_header.MAX_BYTES)
    params_header.check_same(header.tobytes(), layout, layer, _WHERE)
    groups = [group for group in params_header.groups(layout) if group.size]
    return np.concatenate([_group_array(store, group).ravel() for group in groups])


def read_dropout_seed(store: Any) -> Array | None:
    """Returns the state [2] of the seed of dropout; None if the file has none."""
    if _DROPOUT_SEED not in _keys(store):
        return None
    with _named(store):
        state = _read(store, _DROPOUT_SEED, _MAX_SEED_BYTES)
        if state.shape != (2,) or state.dtype.kind not in "iu":
            raise ValueError(
                f"{_DROPOUT_SEED} in {_WHERE} must have two integers; got {state.dtype} "
                f"{list(state.shape)}."
            )
    return state


def _read(store: Any, name: str, most: int) -> Array:
    """Reads an array of at most so many bytes, which it has in the file."""
    _check_size(store, name, most)
    return np.asarray(store[name])


def _check_size(store: Any, name: str, most: int) -> None:
    """Raises ValueError if an array is larger, before it is read.

    An HDF5 file can say any size of what takes no place in it. Keras' stores return what they
    have read, and believe up to 4 GiB. (Of files in shards this sees one.)
    """
    group: Any = getattr(store, "_h5_entry_group", None)
    if not hasattr(group, "id") or name not in group:
        return  # another kind of store or shard, or nothing, which the caller tells
    where = f"{name} in {_WHERE}"
    nbytes, stored = hdf5.sizes(hdf5.member(group, name, where, "Dataset"), where)
    if nbytes > most or (stored is not None and stored < nbytes):
        raise ValueError(
            f"{where} must have at most {most} bytes, all of them in the file; it says {nbytes}"
            f"{'' if stored is None else f' and has {stored}'}."
        )


def _keys(store: Any) -> set[str]:
    # Keras' sharded store loses its place when it is asked for a key that it does not have.
    return set(store.keys())


def _group_array(store: Any, group: params_header.Group) -> Array:
    """Reads one group of a file, checked."""
    try:
        array = _read(store, str(group.name), group.size * _MAX_ITEM_BYTES)
    except KeyError:
        raise ValueError(f"{_WHERE} must hold {group.name}, which is missing.") from None
    if array.shape != group.shape:
        raise ValueError(
            f"{group.name} in {_WHERE} must have shape {list(group.shape)}; "
            f"got {list(array.shape)}."
        )
    return array
