"""The weights of a network as tensors: the differentiable side of weights.py.

Names come from the layout in Python, values from the ops.
"""

from __future__ import annotations

import tensorflow as tf

from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn._layout import Layout, ParamName
from tf_cudnn_rnn._types import Direction, InputMode, Named, RnnMode, TensorLike

# Matrices and biases. The op has an output for each, and would check the size only then.
_MANY = 10_000


def params_to_canonical(
    params: TensorLike,
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    input_mode: InputMode = "linear_input",
    num_proj: int = 0,
) -> list[tuple[ParamName, tf.Tensor]]:
    """Takes `params` apart: returns (name, values) pairs. Differentiable.

    They come in the order of `params`: all matrices, then all biases, each by layer,
    direction and gate. See ParamName for the shapes. With skip input the input
    kernels of layer 0 are there too, as [H, 0].

    Args:
      params: [N], N = params_size(rnn_mode, num_layers, ...).
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: as
        in `params_size`.

    Raises:
      ValueError: an option is out of range, or two contradict each other.
      tf.errors.InvalidArgumentError: `params` has another shape (ValueError while a
        tf.function is traced).
    """
    layout = Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode=input_mode,
        num_proj=num_proj,
    )
    params = tf.convert_to_tensor(params)
    if layout.num_regions > _MANY and params.shape.as_list() != [layout.size]:
        text = f"`params` must have shape [{layout.size}] for {layout}; got {params.shape}."
        if tf.executing_eagerly():
            raise tf.errors.InvalidArgumentError(None, None, text)
        raise ValueError(text)
    weights, biases = raw_ops.CudnnRNNParamsToCanonicalV2(
        num_layers=layout.num_layers,
        num_units=layout.num_units,
        input_size=layout.input_size,
        params=params,
        num_params_weights=len(layout.weights),
        num_params_biases=len(layout.biases),
        rnn_mode=layout.rnn_mode,
        input_mode=layout.input_mode,
        direction=layout.direction,
        num_proj=layout.num_proj,
    )
    names = [region.name for region in layout.regions]
    return list(zip(names, [*weights, *biases], strict=True))


def canonical_to_params(
    named: Named[ParamName, TensorLike],
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    input_mode: InputMode = "linear_input",
    num_proj: int = 0,
) -> tf.Tensor:
    """The inverse of `params_to_canonical`: returns `params` [N]. Differentiable.

    Args:
      named: (ParamName, tensor) pairs in any order, or a mapping from the one to the
        other. All tensors have one dtype, which `params` gets.
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: as
        in `params_size`.

    Raises:
      ValueError: names are missing, given twice or not of this network; a tensor has
        the wrong shape; an option is out of range.
    """
    layout = Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode=input_mode,
        num_proj=num_proj,
    )
    tensors = [tf.convert_to_tensor(tensor) for tensor in layout.in_order(named)]
    for region, tensor in zip(layout.regions, tensors, strict=True):
        if not tensor.shape.is_compatible_with(region.shape):
            raise layout.wrong_shape(region, tensor.shape)
    return raw_ops.CudnnRNNCanonicalToParamsV2(
        num_layers=layout.num_layers,
        num_units=layout.num_units,
        input_size=layout.input_size,
        weights=tensors[: len(layout.weights)],
        biases=tensors[len(layout.weights) :],
        rnn_mode=layout.rnn_mode,
        input_mode=layout.input_mode,
        direction=layout.direction,
        num_proj=layout.num_proj,
    )
