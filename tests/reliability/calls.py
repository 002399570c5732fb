"""Calls of many kinds, each of which gives the same bits whenever and wherever it runs."""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tests.helpers import running, running_int8
from tests.reference import judge
from tf_cudnn_rnn import keras

Config = judge.Config

# (config, T, B, type, lengths differ). Sizes are for the ways in which the engine cuts work, and
# for the routes of weights (docs/design.md, "The plan").
_CASES = {
    "panels": (Config("lstm", 1, 256, 64), 10, 8, "float", False),
    "groups": (Config("gru", 1, 128, 64), 12, 64, "float", True),
    "together": (Config("lstm", 1, 64, 32, "bidirectional"), 40, 8, "float", True),
    "in_place": (Config("lstm", 1, 320, 128), 4, 3, "float", False),
    "one_row": (Config("gru", 2, 160, 96), 30, 1, "float", False),
    "chunks": (Config("rnn_relu", 1, 96, 64, time_major=False), 45, 24, "float", True),
    "projected": (
        Config("lstm", 2, 96, 40, "bidirectional", num_proj=48, dropout=0.3),
        14,
        17,
        "float",
        True,
    ),
    "double": (Config("rnn_tanh", 2, 128, 128, input_mode="skip_input"), 24, 12, "double", True),
    "half": (Config("gru", 1, 96, 64, "bidirectional"), 16, 16, "half", True),
    "bfloat16": (Config("lstm", 1, 128, 64), 16, 24, "bfloat16", True),
    "alone": (Config("gru", 1, 7, 5), 6, 3, "float", True),
}
NAMES = (*_CASES, "builtin", "layer", "int8")


@dataclasses.dataclass(frozen=True)
class Call:
    """A forward and backward pass, or inference, with inputs of its own."""

    name: str
    compute: Callable[..., list[tf.Tensor]]  # traced or run eagerly
    tensors: tuple[tf.Tensor, ...]  # what it takes

    def function(self):
        """Another tf.function, which takes nothing."""
        return tf.function(lambda: self.compute(*self.tensors))


def make(name: str) -> Call:
    """Makes the call of NAMES, with the same numbers in every process."""
    if name == "layer":
        return _layer_call()
    if name == "int8":
        return _int8_call()
    if name == "builtin":
        return _op_call(name, running.V3, "groups")
    options = {"rng_seed": [3, 4]} if _CASES[name][0].dropout else {}
    return _op_call(name, running.OWN_V3, name, **options)


def make_with_state(seed: int) -> Call:
    """A built-in op with dropout, whose kernel takes another mask at each call."""
    return _op_call("builtin with dropout", running.V3, "projected", seed=seed, seed2=6)


def _op_call(name, op, case_name, **options) -> Call:
    config, num_steps, batch, dtype, ragged = _CASES[case_name]
    case = running.random_case(1, config, num_steps, batch, running.DTYPES[dtype], ragged)

    def compute(*tensors):
        return running.call_and_differentiate(op, case, *tensors, **options)

    return Call(name, compute, running.tensors_of(case))


def _layer_call() -> Call:
    rng = np.random.default_rng(2)
    layer = keras.LSTM(48, return_sequences=True)
    x = tf.constant(rng.normal(size=[6, 20, 24]), tf.float32)
    layer.build(x.shape)
    layer.set_weights([rng.normal(size=weight.shape) * 0.1 for weight in layer.weights])

    def compute(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, mask=tf.sequence_mask([20, 3, 0, 7, 19, 1], 20))
        return [y, *tape.gradient(y, [x, *[weight.value for weight in layer.weights]])]

    return Call("layer", compute, (x,))


def _int8_call() -> Call:
    config = judge.Config("lstm", 2, 192, 64, "bidirectional", num_proj=96)
    case = running_int8.random_case(3, config, 12, 9, ragged=True)
    tensors = running_int8.tensors_of(case)

    def compute(*values):
        return list(running_int8.call(case, dict(zip(tensors, values, strict=True))))

    return Call("int8", compute, tuple(tensors.values()))


def bits(tensors) -> list[bytes]:
    """What tensors hold, bit by bit."""
    return [np.asarray(tensor).tobytes() for tensor in tensors]
