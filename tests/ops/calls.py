"""Valid calls of every op, for tests to change one thing in each.

The sizes differ: T = 4, B = 3, I = 5, H = 4, L = D = 1, and so N = 176 for lstm.
"""

import functools

import numpy as np
import tensorflow as tf

import tf_cudnn_rnn
from tf_cudnn_rnn import _library

OWN = "own "  # begins the names of this library's own ops
BUILT_IN_FORWARD = ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
FORWARD = (*BUILT_IN_FORWARD, OWN + "CudnnRNNV3")
BACKPROP = tuple(op.replace("RNN", "RNNBackprop") for op in FORWARD)
# With sequence_lengths, num_proj and time_major.
V3 = tuple(op for op in FORWARD if op.endswith("V3"))
BACKPROP_V3 = tuple(op for op in BACKPROP if op.endswith("V3"))
PARAMS_SIZE = ("CudnnRNNParamsSize", OWN + "CudnnRNNParamsSize")
TO_CANONICAL_V2 = ("CudnnRNNParamsToCanonicalV2", OWN + "CudnnRNNParamsToCanonicalV2")
TO_CANONICAL = ("CudnnRNNParamsToCanonical", *TO_CANONICAL_V2)
TO_PARAMS_V2 = ("CudnnRNNCanonicalToParamsV2", OWN + "CudnnRNNCanonicalToParamsV2")
TO_PARAMS = ("CudnnRNNCanonicalToParams", *TO_PARAMS_V2)
# Those without a namesake in TensorFlow.
KERAS_RNN, KERAS_RNN_BACKPROP = OWN + "KerasRNN", OWN + "KerasRNNBackprop"
KERAS_TO_PARAMS, KERAS_TO_PARAMS_BACKPROP = OWN + "KerasToParams", OWN + "KerasToParamsBackprop"
KERAS = (KERAS_RNN, KERAS_RNN_BACKPROP, KERAS_TO_PARAMS, KERAS_TO_PARAMS_BACKPROP)
READ_RESERVE = OWN + "CudnnRNNReadReserve"
INT8 = OWN + "CudnnRNNInt8"


def zeros(*shape, dtype=np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def function(op: str):
    """The raw op of that name."""
    if op == READ_RESERVE:
        return _library.load().tf_cudnn_rnn_cudnn_rnn_read_reserve
    if op.startswith(OWN):
        return getattr(tf_cudnn_rnn.raw_ops, op.removeprefix(OWN))
    return getattr(tf.raw_ops, op)


def forward_arguments(op: str, **changes) -> dict:
    arguments = {
        "input": zeros(4, 3, 5),
        "input_h": zeros(1, 3, 4),
        "input_c": zeros(1, 3, 4),
    }
    weights = {KERAS_RNN: keras_weights, INT8: int8_weights}
    arguments |= weights[op]() if op in weights else {"params": zeros(176)}
    if op in (*V3, *weights):
        arguments["sequence_lengths"] = np.array([4, 2, 1], np.int32)
    if op.startswith(OWN) and op not in weights:
        arguments["rng_seed"] = np.array([1, 2], np.int64)
    return arguments | changes


def backprop_arguments(op: str, forward_changes=(), **changes) -> dict:
    """Arguments that belong together, except `changes`.

    Args:
      forward_changes: what the forward call, too, does differently, as pairs.
    """
    forward_op = op.replace("Backprop", "")
    forward = forward_arguments(forward_op, **dict(forward_changes))
    outputs = function(forward_op)(**forward)._asdict()
    gradients = {
        f"{name}_backprop": tf.zeros_like(outputs[name])
        for name in ("output", "output_h", "output_c")
    }
    for name in ("rng_seed", "is_training"):
        forward.pop(name, None)
    return forward | outputs | gradients | changes


def read_reserve_arguments(**changes) -> dict:
    arguments = forward_arguments(OWN + "CudnnRNNV3")
    reserve_space = function(OWN + "CudnnRNNV3")(**arguments).reserve_space
    del arguments["rng_seed"]
    return arguments | {"reserve_space": reserve_space, "M": tf.float32} | changes


def keras_weights() -> dict:
    return {"kernel": zeros(5, 16), "recurrent_kernel": zeros(4, 16), "biases": [zeros(16)]}


def int8_weights() -> dict:
    return {"weights": zeros(144, dtype=np.int8), "scales": zeros(32), "biases": zeros(32)}


def keras_to_params_arguments(op: str, **changes) -> dict:
    if op == KERAS_TO_PARAMS:
        return keras_weights() | changes
    return {"params_backprop": zeros(176), "num_units": 4} | changes


def canonical_arguments(op: str, **changes) -> dict:
    arguments = {"num_layers": 1, "num_units": 4, "input_size": 5}
    if op in TO_CANONICAL:
        arguments["params"] = zeros(176)
        if op in TO_CANONICAL_V2:
            arguments |= {"num_params_weights": 8, "num_params_biases": 8}
        else:
            arguments["num_params"] = 8
    else:
        arguments["weights"] = [zeros(4, 5)] * 4 + [zeros(4, 4)] * 4
        arguments["biases"] = [zeros(4)] * 8
    return arguments | changes


def size_arguments(op: str, **changes) -> dict:
    del op
    return {
        "num_layers": 1,
        "num_units": 4,
        "input_size": 5,
        "T": tf.float32,
        "S": tf.int32,
    } | changes


def arguments(op: str, **changes) -> dict:
    """Valid arguments of `op`, except `changes`."""
    if op in (*FORWARD, KERAS_RNN, INT8):
        return forward_arguments(op, **changes)
    if op in (*BACKPROP, KERAS_RNN_BACKPROP):
        return backprop_arguments(op, **changes)
    if op == READ_RESERVE:
        return read_reserve_arguments(**changes)
    if op in KERAS:
        return keras_to_params_arguments(op, **changes)
    if op in PARAMS_SIZE:
        return size_arguments(op, **changes)
    return canonical_arguments(op, **changes)


def _is_tensor(value) -> bool:
    return isinstance(value, np.ndarray | tf.Tensor)


def run_in_graph(op: str, arguments: dict, specification=None):
    """Runs `op` in a function whose tensors are placeholders.

    Args:
      specification: tensor -> tf.TensorSpec; by default nothing is known of shapes.
    """
    scalars = ("num_layers", "num_units", "input_size")
    arguments = {
        name: np.asarray(value, np.int32) if name in scalars else value
        for name, value in arguments.items()
    }
    tensors = {
        name: value
        for name, value in arguments.items()
        if _is_tensor(value) or (isinstance(value, list) and value and _is_tensor(value[0]))
    }
    tensors = tf.nest.map_structure(tf.convert_to_tensor, tensors)
    others = {name: value for name, value in arguments.items() if name not in tensors}
    signature = tf.nest.map_structure(specification or _unknown_shape, tensors)
    if specification is not None:
        return _graph(op, signature, others)(tensors)
    # Tensors of all shapes can go through the same one, which takes long to trace.
    key = repr((op, signature, others))
    if key not in _GRAPHS:
        _GRAPHS[key] = _graph(op, signature, others)
    return _GRAPHS[key](tensors)


_GRAPHS = {}  # that know no shapes, by all that they do know


def _graph(op: str, signature: dict, others: dict):
    """A function of `op` that takes tensors as `signature` tells."""

    @functools.partial(tf.function, input_signature=[signature])
    def run(tensors):
        return function(op)(**tensors, **others)

    return run


def _unknown_shape(tensor) -> tf.TensorSpec:
    return tf.TensorSpec(None, tensor.dtype)
