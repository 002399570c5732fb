"""What .keras and .weights.h5 files hold of a CudnnRNN.

Each weight is a named matrix, all gates of a layer and direction in one. A header explains them,
so that a file of another network is refused rather than misread. Where dropout acts between
layers there is the state of its seed besides.
"""

import numpy as np

from tf_cudnn_rnn._formats import params_header
from tf_cudnn_rnn._layout import Layout

_HEADER = "header"
_DROPOUT_SEED = "dropout_seed"
_WHERE = "the file"


def write(store, layout: Layout, params: np.ndarray, dropout_seed: np.ndarray | None) -> None:
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


def read_params(store, layout: Layout, layer: str) -> np.ndarray:
    """Returns `params` [N] of what `write` wrote.

    Args:
      store: of Keras.
      layout: of the network that the weights are for.
      layer: its name, for messages.

    Raises:
      ValueError: the weights are of another network, or of another kind of layer.
    """
    keys = _keys(store)
    if _HEADER not in keys:
        raise ValueError(
            f"Layer {layer!r} must find the named matrices of a CudnnRNN and their "
            f"`{_HEADER}` in the file; found {', '.join(sorted(keys)) or 'nothing'}. "
            "Weights of other layers: tf_cudnn_rnn.weights and set_canonical_weights."
        )
    params_header.check_same(np.asarray(store[_HEADER]).tobytes(), layout, layer, _WHERE)
    groups = [group for group in params_header.groups(layout) if group.size]
    return np.concatenate([_group_array(store, group).ravel() for group in groups])


def read_dropout_seed(store) -> np.ndarray | None:
    """Returns the state of the seed of dropout; None if the file has none."""
    return store[_DROPOUT_SEED] if _DROPOUT_SEED in _keys(store) else None


def _keys(store) -> set[str]:
    # Keras' sharded store loses its place when it is asked for a key that it does not have.
    return set(store.keys())


def _group_array(store, group: params_header.Group) -> np.ndarray:
    """Reads one group of a file, checked."""
    try:
        array = np.asarray(store[str(group.name)])
    except KeyError:
        raise ValueError(f"{_WHERE} must hold {group.name}, which is missing.") from None
    if array.shape != group.shape:
        raise ValueError(
            f"{group.name} in {_WHERE} must have shape {list(group.shape)}; "
            f"got {list(array.shape)}."
        )
    return array
