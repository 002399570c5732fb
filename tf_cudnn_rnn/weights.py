"""The weights of a network as NumPy arrays. Needs no TensorFlow.

The ops keep all weights of a network in one vector, `params`: cuDNN's weight space
with two biases per gate. These functions take it apart into named matrices and
vectors, and put it together again.
"""

import numpy as np

from tf_cudnn_rnn._layout import Layout, ParamName

__all__ = ["ParamName", "canonical_to_params", "params_size", "params_to_canonical"]


def params_size(
    rnn_mode: str,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: str = "unidirectional",
    input_mode: str = "linear_input",
    num_proj: int = 0,
) -> int:
    """Returns N, the number of elements of `params`.

    Args:
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_layers: L, the number of stacked layers.
      num_units: H, the hidden size (of an LSTM's cell, when it projects).
      input_size: I, the features of the network's input.
      direction: "unidirectional" or "bidirectional".
      input_mode: "linear_input"; "skip_input", by which layer 0 adds its input to
        every gate, without a kernel (needs I == H); or "auto_select", which skips
        if I == H.
      num_proj: P, the size to which an LSTM projects h; 0 (or H) for none.

    Raises:
      ValueError: an option is out of range, or two contradict each other.
    """
    return Layout(rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj).size


def params_to_canonical(
    params: np.ndarray,
    rnn_mode: str,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: str = "unidirectional",
    input_mode: str = "linear_input",
    num_proj: int = 0,
) -> list[tuple[ParamName, np.ndarray]]:
    """Takes `params` apart: returns (name, copy of the values) pairs.

    They come in the order of `params`: all matrices, then all biases, each by layer,
    direction and gate. See ParamName for the shapes. With skip input the input
    kernels of layer 0 are there too, as [H, 0].

    Args:
      params: [N].
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: as
        in `params_size`.

    Raises:
      ValueError: `params` has another shape, or an option is out of range.
    """
    layout = Layout(rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj)
    params = np.asarray(params)
    if params.shape != (layout.size,):
        raise ValueError(
            f"`params` must have shape [{layout.size}] for {layout}; got {list(params.shape)}."
        )
    return [
        (name, params[offset : offset + int(np.prod(shape))].reshape(shape).copy())
        for name, offset, shape in layout.regions
    ]


def canonical_to_params(
    named,
    rnn_mode: str,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: str = "unidirectional",
    input_mode: str = "linear_input",
    num_proj: int = 0,
) -> np.ndarray:
    """The inverse of `params_to_canonical`: returns `params` [N].

    Args:
      named: (ParamName, array) pairs in any order, or a mapping from the one to the
        other. All arrays have one dtype, which `params` gets.
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: as
        in `params_size`.

    Raises:
      ValueError: names are missing, given twice or not of this network; an array has
        the wrong shape; dtypes differ; an option is out of range.
    """
    layout = Layout(rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj)
    arrays = [np.asarray(array) for array in layout.in_order(named)]
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1:
        names = ", ".join(sorted(map(str, dtypes)))
        raise ValueError(f"All arrays in `named` must have one dtype; got {names}.")
    for region, array in zip(layout.regions, arrays, strict=True):
        if array.shape != region.shape:
            raise layout.wrong_shape(region, array.shape)
    return np.concatenate([array.ravel() for array in arrays])
