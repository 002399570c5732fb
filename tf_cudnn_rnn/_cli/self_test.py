"""A test of a second: small networks, forward and backward, beside plain NumPy loops.

The runtime, which does without TensorFlow, has no backward.
"""

import types
from typing import Any, NamedTuple, get_args

import numpy as np

from tf_cudnn_rnn._formats import vectors
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, Layout, ParamName
from tf_cudnn_rnn._types import Array, Direction, RnnMode

# Two layers in both directions, of sizes that no vector of the kernels divides.
_T, _B, _I, _H, _L = 6, 5, 7, 19, 2
_DIRECTION: Direction = "bidirectional"
_STEP = 1e-5  # of differences; errors of float64 are then some 1e-10
# Of results around 1. Float32 sums of this length are good to 1e-6.
_MOST_FORWARD = 2e-5
_MOST_BACKWARD = 2e-5


class Result(NamedTuple):
    """What one network gave.

    Attributes:
      rnn_mode: of the network.
      forward_error: the largest of the outputs, in float32.
      backward_error: the largest of the derivatives along random directions, in float64, as a
        part of their size.
    """

    rnn_mode: RnnMode
    forward_error: float
    backward_error: float

    @property
    def passed(self) -> bool:
        # A comparison with NaN is false.
        return is_right(self.forward_error) and self.backward_error <= _MOST_BACKWARD


def _sigmoid(a: Array) -> Array:
    return 1 / (1 + np.exp(-a))


def _loop(layout: Layout, x: Array, params: Array) -> Array:
    """The outputs [T, B, D*H] of a network without initial states, by the equations."""
    named = dict(vectors.of_layout(params, layout).named)
    for layer in range(layout.num_layers):
        outputs = []
        for direction in DIRECTIONS[layout.direction]:

            def gates(kind: str, layer: int = layer, direction: str = direction) -> list[Array]:
                names = GATES[layout.rnn_mode]
                return [named[ParamName(layer, direction, gate, kind)] for gate in names]

            W, R = gates("input_kernel"), gates("recurrent_kernel")
            bW, bR = gates("input_bias"), gates("recurrent_bias")
            h = c = np.zeros([x.shape[1], layout.num_units])
            steps = x if direction == "forward" else x[::-1]
            states = []
            for step in steps:
                a = [step @ kernel.T + bias for kernel, bias in zip(W, bW, strict=True)]
                b = [h @ kernel.T + bias for kernel, bias in zip(R, bR, strict=True)]
                if layout.rnn_mode == "lstm":
                    i, f, g, o = (left + right for left, right in zip(a, b, strict=True))
                    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
                    h = _sigmoid(o) * np.tanh(c)
                elif layout.rnn_mode == "gru":
                    r, z = _sigmoid(a[0] + b[0]), _sigmoid(a[1] + b[1])
                    h = (1 - z) * np.tanh(a[2] + r * b[2]) + z * h
                elif layout.rnn_mode == "rnn_tanh":
                    h = np.tanh(a[0] + b[0])
                else:
                    h = np.maximum(a[0] + b[0], 0)
                states.append(h)
            outputs.append(np.stack(states if direction == "forward" else states[::-1]))
        x = np.concatenate(outputs, axis=-1)
    return x


def _test(tf: types.ModuleType, rnn_mode: RnnMode) -> Result:
    layout = Layout(rnn_mode, num_layers=_L, num_units=_H, input_size=_I, direction=_DIRECTION)
    random = np.random.default_rng(7)
    x = random.normal(size=[_T, _B, _I])
    params = random.normal(size=layout.size, scale=0.3)
    dy = random.normal(size=[_T, _B, 2 * _H])

    def run(dtype: str, x: Any, params: Any) -> Any:
        zeros = tf.zeros([_L * 2, _B, _H], dtype)
        # The built-in op, which a graph would call.
        return tf.raw_ops.CudnnRNNV3(
            input=x,
            input_h=zeros,
            input_c=zeros if rnn_mode == "lstm" else tf.zeros([], dtype),
            params=params,
            sequence_lengths=[_T] * _B,
            rnn_mode=rnn_mode,
            direction=_DIRECTION,
        ).output

    with tf.device("CPU:0"):
        y = run("float32", tf.constant(x, tf.float32), tf.constant(params, tf.float32)).numpy()
        forward_error = float(np.max(np.abs(y - _loop(layout, x, params))))
        tensors = [tf.constant(x), tf.constant(params)]
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = tf.reduce_sum(run("float64", *tensors) * dy)
        gradients = [gradient.numpy() for gradient in tape.gradient(loss, tensors)]

    errors = []
    for moved in range(2):
        along = [np.zeros_like(x), np.zeros_like(params)]
        along[moved] = random.normal(size=along[moved].shape)
        ends = [
            np.sum(dy * _loop(layout, x + step * along[0], params + step * along[1]))
            for step in (_STEP, -_STEP)
        ]
        expected = (ends[0] - ends[1]) / (2 * _STEP)
        found = np.sum(gradients[moved] * along[moved])
        scale = np.sqrt(np.sum(gradients[moved] ** 2))
        errors.append(abs(found - expected) / scale)
    return Result(rnn_mode, forward_error, float(np.max(errors)))


def run_runtime() -> dict[RnnMode, float]:
    """Tests tf_cudnn_rnn.runtime, forward; returns the largest error of the outputs of each mode.

    Raises:
      ImportError: its library is not there, or damaged.
      ValueError: the environment variable TF_CUDNN_RNN_ISA is wrong.
    """
    from tf_cudnn_rnn import runtime

    errors = {}
    for rnn_mode in get_args(RnnMode):
        layout = Layout(rnn_mode, num_layers=_L, num_units=_H, input_size=_I, direction=_DIRECTION)
        random = np.random.default_rng(7)
        x = random.normal(size=[_T, _B, _I])
        params = random.normal(size=layout.size, scale=0.3)
        network = runtime.Network(params.astype(np.float32), layout)
        y, _ = network(x.astype(np.float32), time_major=True)
        errors[rnn_mode] = float(np.max(np.abs(y - _loop(layout, x, params))))
    return errors


def is_right(forward_error: float) -> bool:
    """Whether outputs in float32 with such an error are those of the equations."""
    return forward_error <= _MOST_FORWARD  # a comparison with NaN is false


def run(tf: types.ModuleType) -> list[Result]:
    """Tests all modes; `tf` is TensorFlow, with the library loaded."""
    return [_test(tf, rnn_mode) for rnn_mode in get_args(RnnMode)]
