"""The gradients of this library's own ops. Importing it registers them.

TensorFlow brings those of the built-in ops, but for their backward ops.
"""

import functools

import numpy as np
import tensorflow as tf

from tf_cudnn_rnn import _second_order, raw_ops
from tf_cudnn_rnn._types import Direction


def _options(op, *more: str) -> dict:
    """The attributes that an op and its gradient have in common."""
    names = ("rnn_mode", "input_mode", "direction", "dropout", "num_proj", *more)
    return {name: op.get_attr(name) for name in names}


def _zeros_for_none(gradients, tensors) -> list:
    """Replaces each None in `gradients` by zeros of the shape of the tensor."""
    return [
        tf.zeros_like(tensor) if gradient is None else gradient
        for gradient, tensor in zip(gradients, tensors, strict=True)
    ]


@tf.RegisterGradient("TfCudnnRnn>CudnnRNNV3")
def _rnn_gradient(op, *output_gradients):
    if not op.get_attr("is_training"):
        raise ValueError(f"To use {op.type} in gradients, is_training must be set to True.")
    gradients = list(output_gradients[:3])
    if all(gradient is None for gradient in gradients):
        return [None] * 6
    outputs = list(op.outputs)
    gradients = _zeros_for_none(gradients, outputs[:3])
    backprop = raw_ops.CudnnRNNBackpropV3(
        input=op.inputs[0],
        input_h=op.inputs[1],
        input_c=op.inputs[2],
        params=op.inputs[3],
        sequence_lengths=op.inputs[4],
        output=outputs[0],
        output_h=outputs[1],
        output_c=outputs[2],
        output_backprop=gradients[0],
        output_h_backprop=gradients[1],
        output_c_backprop=gradients[2],
        reserve_space=outputs[3],
        host_reserved=outputs[4],
        **_options(op, "time_major"),
    )
    return [*backprop, None, None]  # None for sequence_lengths and rng_seed


@tf.RegisterGradient("TfCudnnRnn>CudnnRNNInt8")
def _int8_gradient(op, *output_gradients):
    """An error of the type that TensorFlow raises where there is no gradient."""
    del output_gradients
    raise LookupError(
        f"{op.type} has no gradient: weights in int8 are for inference. Train with "
        "tf_cudnn_rnn.raw_ops.CudnnRNNV3 and weights of float, and quantize these with "
        "tf_cudnn_rnn.weights.quantize afterwards. If nothing in front of the op is to learn, "
        "pass its outputs on through tf.stop_gradient."
    )


# The inputs of the backward ops.
_BACKPROP_INPUTS = (
    "input",
    "input_h",
    "input_c",
    "params",
    "output",
    "output_h",
    "output_c",
    "output_backprop",
    "output_h_backprop",
    "output_c_backprop",
    "reserve_space",
)
_BACKPROP_V2_INPUTS = (*_BACKPROP_INPUTS, "host_reserved")
_BACKPROP_V3_INPUTS = (*_BACKPROP_INPUTS[:4], "sequence_lengths", *_BACKPROP_V2_INPUTS[4:])


def _backprop_gradient(names, op, *upstream):
    """The gradient of a backward op with inputs of these `names`.

    The outputs of the forward op and its reserve_space are functions of the other inputs.
    What comes back for those is the whole derivative, by way of these, too; so they have
    none of their own, which would count that part twice.
    """
    if all(gradient is None for gradient in upstream):
        return [None] * len(names)
    tensors = dict(zip(names, op.inputs, strict=True))
    has_v3_options = "sequence_lengths" in names
    options = _second_order.Options(
        # Bytes in eager mode, strings in a graph.
        rnn_mode=tf.compat.as_str(op.get_attr("rnn_mode")),
        input_mode=tf.compat.as_str(op.get_attr("input_mode")),
        direction=tf.compat.as_str(op.get_attr("direction")),
        dropout=float(np.float32(op.get_attr("dropout"))),  # as the op has it
        num_proj=op.get_attr("num_proj") if has_v3_options else 0,
        time_major=op.get_attr("time_major") if has_v3_options else True,
        may_follow_cudnn=op.type == "CudnnRNNBackpropV3" and not op.get_attr("time_major"),
    )
    is_lstm = options.rnn_mode == "lstm"
    inputs = ["input", "input_h", *(["input_c"] if is_lstm else []), "params"]
    output_gradients = ["output_backprop", "output_h_backprop"]
    if is_lstm:
        output_gradients.append("output_c_backprop")
    upstream = dict(zip(names[:4], _zeros_for_none(upstream, list(op.inputs)[:4]), strict=True))
    if has_v3_options:
        lengths = tensors["sequence_lengths"]
    else:
        time, batch = tf.unstack(tf.shape(tensors["input"])[:2])
        lengths = tf.fill([batch], time)
    gradients = _second_order.backprop_gradients(
        options,
        inputs=[tensors[name] for name in inputs],
        output_gradients=[tensors[name] for name in output_gradients],
        upstream=[upstream[name] for name in inputs],
        sequence_lengths=lengths,
        reserve_space=tensors["reserve_space"],
    )
    named = dict(zip(inputs + output_gradients, [*gradients[0], *gradients[1]], strict=True))
    if not is_lstm:
        for name in ("input_c", "output_c_backprop"):
            named[name] = tf.zeros_like(tensors[name])
    return [named.get(name) for name in names]


for _name, _inputs in (
    ("TfCudnnRnn>CudnnRNNBackpropV3", _BACKPROP_V3_INPUTS),
    ("CudnnRNNBackprop", _BACKPROP_INPUTS),
    ("CudnnRNNBackpropV2", _BACKPROP_V2_INPUTS),
    ("CudnnRNNBackpropV3", _BACKPROP_V3_INPUTS),
):
    try:
        tf.RegisterGradient(_name)(functools.partial(_backprop_gradient, _inputs))
    except KeyError:  # one of a built-in op that somebody else brought
        pass


tf.no_gradient("TfCudnnRnn>CudnnRNNParamsSize")  # an integer
# Its outputs depend on no value of an input: masks on the seed, the order of states on the call.
tf.no_gradient("TfCudnnRnn>CudnnRNNReadReserve")


# The canonical ops copy every element once, in one direction or the other, so each
# is the other's inverse and also its adjoint.


@tf.RegisterGradient("TfCudnnRnn>CudnnRNNParamsToCanonicalV2")
def _params_to_canonical_gradient(op, *output_gradients):
    if all(gradient is None for gradient in output_gradients):
        return [None] * 4
    num_weights = op.get_attr("num_params_weights")
    gradients = _zeros_for_none(output_gradients, op.outputs)
    dparams = raw_ops.CudnnRNNCanonicalToParamsV2(
        num_layers=op.inputs[0],
        num_units=op.inputs[1],
        input_size=op.inputs[2],
        weights=gradients[:num_weights],
        biases=gradients[num_weights:],
        **_options(op),
    )
    return [None, None, None, dparams]


@tf.RegisterGradient("TfCudnnRnn>CudnnRNNCanonicalToParamsV2")
def _canonical_to_params_gradient(op, dparams):
    num_weights = op.get_attr("num_params_weights")
    num_biases = op.get_attr("num_params_biases")
    if dparams is None:
        return [None] * (3 + num_weights + num_biases)
    weights, biases = raw_ops.CudnnRNNParamsToCanonicalV2(
        num_layers=op.inputs[0],
        num_units=op.inputs[1],
        input_size=op.inputs[2],
        params=dparams,
        num_params_weights=num_weights,
        num_params_biases=num_biases,
        **_options(op),
    )
    # The op takes matrices of any shape, flattened ones for instance.
    gradients = [
        tf.reshape(gradient, tf.shape(tensor))
        for gradient, tensor in zip([*weights, *biases], list(op.inputs)[3:], strict=True)
    ]
    return [None, None, None, *gradients]


@tf.RegisterGradient("TfCudnnRnn>KerasRNN")
def _keras_rnn_gradient(op, *output_gradients):
    if not op.get_attr("is_training"):
        raise ValueError(f"To use {op.type} in gradients, is_training must be set to True.")
    if all(gradient is None for gradient in output_gradients[:3]):
        return [None] * len(op.inputs)
    call = _KerasCall(op, num_between=0)
    sequences, input_h, input_c, *weights = call.differentiable
    kernel, recurrent_kernel, *biases = call.forward_of(weights)
    outputs = list(op.outputs)
    gradients = _zeros_for_none(output_gradients[:3], outputs[:3])
    *backprop, dbiases, dbackward = raw_ops.KerasRNNBackprop(
        input=sequences,
        input_h=input_h,
        input_c=input_c,
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        biases=biases,
        sequence_lengths=call.lengths,
        output=outputs[0],
        output_h=outputs[1],
        output_c=outputs[2],
        output_backprop=gradients[0],
        output_h_backprop=gradients[1],
        output_c_backprop=gradients[2],
        reserve_space=outputs[3],
        rnn_mode=call.rnn_mode,
        time_major=call.time_major,
        masks=call.masks,
        backward_weights=call.backward_of(weights),
        **call.steps,
    )
    return call.gradients_of_inputs([*backprop, *dbiases, *dbackward])


class _KerasCall:
    """The inputs of KerasRNN or its gradient by what they are.

    Attributes:
      differentiable: input, input_h, input_c and the weights, those of the backward direction, if
        there are any, at the end.
      lengths: sequence_lengths.
      between: what the gradient takes between lengths and masks.
      masks: none or one.
      rnn_mode, time_major: the attributes.
      steps: those of which steps are valid, and of what is put out at others.
    """

    def __init__(self, op, num_between: int):
        self.num_biases = op.get_attr("num_biases")
        num_backward, num_masks = op.get_attr("num_backward_weights"), op.get_attr("num_masks")
        inputs = list(op.inputs)
        end = 5 + self.num_biases
        masks_end = end + 1 + num_between + num_masks
        self.differentiable = inputs[:end] + inputs[masks_end:]
        self.lengths = inputs[end]
        self.between = inputs[end + 1 : end + 1 + num_between]
        self.masks = inputs[end + 1 + num_between : masks_end]
        self.rnn_mode = tf.compat.as_str(op.get_attr("rnn_mode"))
        self.time_major = op.get_attr("time_major")
        self.steps = {name: op.get_attr(name) for name in ("go_backwards", "zero_output_for_mask")}
        self._num_directions = 2 if num_backward else 1

    def forward_of(self, weights) -> list:
        """kernel, recurrent_kernel and, if there is one, bias of the forward direction."""
        return weights[: 2 + self.num_biases]

    def backward_of(self, weights) -> list:
        """The same of the backward direction; nothing if there is none."""
        return weights[2 + self.num_biases :]

    def directions_of(self, weights) -> list[list]:
        """The weights of each direction."""
        return [self.forward_of(weights), self.backward_of(weights)][: self._num_directions]

    def gradients_of_inputs(self, of_differentiable, of_between=()) -> list:
        """Gradients in the order of the op's inputs; lengths and masks have none."""
        end = 5 + self.num_biases
        return [
            *of_differentiable[:end],
            None,
            *of_between,
            *[None] * len(self.masks),
            *of_differentiable[end:],
        ]

    @property
    def direction(self) -> Direction:
        """The attribute of the ops that take params."""
        return "unidirectional" if self._num_directions == 1 else "bidirectional"

    def params(self, weights) -> tf.Tensor:
        """The params of the call: matrices of all directions, then biases of all."""
        vectors = [
            raw_ops.KerasToParams(
                kernel=kernel,
                recurrent_kernel=recurrent_kernel,
                biases=biases,
                rnn_mode=self.rnn_mode,
            )
            for kernel, recurrent_kernel, *biases in self.directions_of(weights)
        ]
        if len(vectors) == 1:
            return vectors[0]
        matrices, biases = zip(
            *(tf.split(vector, self._sizes(weights)) for vector in vectors), strict=True
        )
        return tf.concat([*matrices, *biases], axis=0)

    def weight_gradients(self, dparams, weights) -> list:
        """Of the weights, from that of their params."""
        if self._num_directions == 1:
            vectors = [dparams]
        else:
            matrices, biases = self._sizes(weights)
            pieces = tf.split(dparams, [matrices, matrices, biases, biases])
            vectors = [tf.concat([pieces[k], pieces[2 + k]], axis=0) for k in range(2)]
        recurrent_kernel = weights[1]
        return [
            gradient
            for vector in vectors
            for gradient in _keras_weight_gradients(
                vector, recurrent_kernel, self.num_biases, self.rnn_mode
            )
        ]

    def _sizes(self, weights) -> list:
        """Elements of the matrices of one direction in params, and of its biases."""
        kernel, recurrent_kernel, *_ = weights
        gates_size = tf.shape(recurrent_kernel)[1]
        return [tf.size(kernel) + tf.size(recurrent_kernel), 2 * gates_size]


@tf.RegisterGradient("TfCudnnRnn>KerasRNNBackprop")
def _keras_rnn_backprop_gradient(op, *upstream):
    """By way of the backward op that takes params, whose gradient is known."""
    if all(gradient is None for gradient in upstream):
        return [None] * len(op.inputs)
    call = _KerasCall(op, num_between=7)
    if call.masks or call.steps != {"go_backwards": False, "zero_output_for_mask": True}:
        return _masked_keras_rnn_backprop_gradient(call, upstream)
    y, h_n, c_n, *incoming, reserve_space = call.between
    # One tensor may be several inputs, and a tape tells tensors apart, not inputs.
    differentiated = list(map(tf.identity, [*call.differentiable, *incoming]))
    sequences, input_h, input_c, *weights = differentiated[:-3]
    dy, dh_n, dc_n = differentiated[-3:]
    with tf.GradientTape() as tape:
        tape.watch(differentiated)
        *state_gradients, dparams = raw_ops.CudnnRNNBackpropV3(
            input=sequences,
            input_h=input_h,
            input_c=input_c,
            params=call.params(weights),
            sequence_lengths=call.lengths,
            output=y,
            output_h=h_n,
            output_c=c_n,
            output_backprop=dy,
            output_h_backprop=dh_n,
            output_c_backprop=dc_n,
            reserve_space=reserve_space,
            host_reserved=tf.zeros([], tf.int8),
            rnn_mode=call.rnn_mode,
            direction=call.direction,
            time_major=call.time_major,
        )
        results = [*state_gradients, *call.weight_gradients(dparams, weights)]
    gradients = tape.gradient(results, differentiated, _zeros_for_none(upstream, results))
    return _of_keras_backprop(call, gradients)


def _of_keras_backprop(call: _KerasCall, gradients) -> list:
    # The outputs of the forward op have none of their own; see _backprop_gradient.
    return call.gradients_of_inputs(gradients[:-3], [None, None, None, *gradients[-3:], None])


def _masked_keras_rnn_backprop_gradient(call: _KerasCall, upstream) -> list:
    """The same of any steps, which are moved to the front around the op that takes params."""
    # One tensor may be several inputs, and a tape tells tensors apart, not inputs.
    differentiated = list(map(tf.identity, [*call.differentiable, *call.between[3:6]]))
    inputs = differentiated[:-3]
    with tf.GradientTape() as tape:
        tape.watch(differentiated)
        with tf.GradientTape() as inner:
            inner.watch(inputs)
            outputs = _run_valid_steps(call, inputs)
        gradients = differentiated[-3:][: len(outputs)]
        results = _zeros_for_none(inner.gradient(outputs, inputs, gradients), inputs)
    gradients = tape.gradient(results, differentiated, _zeros_for_none(upstream, results))
    return _of_keras_backprop(call, gradients)


def _run_valid_steps(call: _KerasCall, inputs) -> list:
    """What KerasRNN puts out, and its final states, by an op that knows lengths alone."""
    sequences, input_h, input_c, *weights = inputs

    def swap(tensor):
        return tf.transpose(tensor, [1, 0, 2]) if call.time_major else tensor

    sequences = swap(sequences)  # [B, T, I]
    valid = tf.sequence_mask(call.lengths, tf.shape(sequences)[1])
    for mask in call.masks:
        valid &= tf.transpose(mask) if call.time_major else mask
    if call.steps["go_backwards"]:
        sequences, valid = (tf.reverse(tensor, [1]) for tensor in (sequences, valid))
    order = tf.argsort(tf.cast(~valid, tf.int32), axis=1, stable=True)
    is_lstm = call.rnn_mode == "lstm"
    output, *states, _, _ = raw_ops.CudnnRNNV3(
        input=tf.gather(sequences, order, axis=1, batch_dims=1),
        input_h=swap(input_h),
        input_c=swap(input_c) if is_lstm else input_c,
        params=call.params(weights),
        sequence_lengths=tf.reduce_sum(tf.cast(valid, tf.int32), axis=1),
        rnn_mode=call.rnn_mode,
        direction=call.direction,
        time_major=False,
    )
    count = tf.cumsum(tf.cast(valid, tf.int32), axis=1)
    has_output = valid if call.steps["zero_output_for_mask"] else count > 0
    spread = tf.gather(output, tf.maximum(count - 1, 0), axis=1, batch_dims=1)
    output = tf.where(has_output[:, :, None], spread, tf.zeros_like(spread))
    return list(map(swap, [output, *states][: 3 if is_lstm else 2]))


def _keras_weight_gradients(dparams, recurrent_kernel, num_biases, rnn_mode) -> list:
    kernel, recurrent_kernel, biases = raw_ops.KerasToParamsBackprop(
        params_backprop=dparams,
        num_units=recurrent_kernel.shape[0] or tf.shape(recurrent_kernel)[0],
        num_biases=num_biases,
        rnn_mode=rnn_mode,
    )
    return [kernel, recurrent_kernel, *biases]


# These two are linear, and each other's adjoints.


@tf.RegisterGradient("TfCudnnRnn>KerasToParams")
def _keras_to_params_gradient(op, dparams):
    return _keras_weight_gradients(
        dparams, op.inputs[1], op.get_attr("num_biases"), op.get_attr("rnn_mode")
    )


@tf.RegisterGradient("TfCudnnRnn>KerasToParamsBackprop")
def _keras_to_params_backprop_gradient(op, *output_gradients):
    kernel, recurrent_kernel, *biases = _zeros_for_none(output_gradients, op.outputs)
    dparams = raw_ops.KerasToParams(
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        biases=biases,
        rnn_mode=op.get_attr("rnn_mode"),
    )
    return [dparams, None]  # None for num_units
