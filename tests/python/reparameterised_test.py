"""Weights that are functions of others: weight normalisation, against stock Keras layers.

Every matrix is w = g * v / |v|, row by row of the gates. The two models share v, g and the
biases, so their losses agree in each step if outputs and gradients do.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras

I, H, B, T = 3, 4, 5, 6
STEPS = 8

# mode -> the stock layer, the order of Keras' gates, and whether there are two biases
LAYERS = {
    "lstm": ("LSTM", ("input", "forget", "cell", "output"), False),
    "gru": ("GRU", ("update", "reset", "new"), True),
    "rnn_tanh": ("SimpleRNN", ("",), False),
}


class _Normalised:
    """The weights of a stack of layers: v and g of each matrix, and the biases."""

    def __init__(self, mode: str, num_layers: int, directions: tuple[str, ...]):
        rng = np.random.default_rng(70)

        def variable(*shape):
            return tf.Variable(rng.normal(size=shape))

        _, gates, has_two_biases = LAYERS[mode]
        self._v, self._g, self._biases = {}, {}, {}
        for layer in range(num_layers):
            columns = I if layer == 0 else len(directions) * H
            for direction in directions:
                for gate in gates:
                    for kind, size in (("input_kernel", columns), ("recurrent_kernel", H)):
                        name = tf_cudnn_rnn.ParamName(layer, direction, gate, kind)
                        self._v[name], self._g[name] = variable(H, size), variable(H, 1)
                    kinds = ["input_bias"] + ["recurrent_bias"] * has_two_biases
                    for kind in kinds:
                        name = tf_cudnn_rnn.ParamName(layer, direction, gate, kind)
                        self._biases[name] = variable(H)

    @property
    def variables(self) -> list[tf.Variable]:
        return [*self._v.values(), *self._g.values(), *self._biases.values()]

    def tensors(self) -> dict:
        """The matrices and biases that the layers compute with, by name."""
        matrices = {
            name: self._g[name] * v / tf.norm(v, axis=1, keepdims=True)
            for name, v in self._v.items()
        }
        return matrices | {name: tf.convert_to_tensor(bias) for name, bias in self._biases.items()}


def _keras_weights(mode: str, named: dict, layer: int, direction: str) -> list[tf.Tensor]:
    """The kernel, the recurrent kernel and the bias of a stock layer."""
    _, gates, has_two_biases = LAYERS[mode]

    def side_by_side(kind):
        tensors = [named[tf_cudnn_rnn.ParamName(layer, direction, g, kind)] for g in gates]
        return tf.concat([tf.transpose(t) for t in tensors], axis=-1)

    bias = side_by_side("input_bias")
    if has_two_biases:
        bias = tf.stack([bias, side_by_side("recurrent_bias")])
    return [side_by_side("input_kernel"), side_by_side("recurrent_kernel"), bias]


def _run_keras(library, mode, directions, num_layers):
    """Returns a function of x and named weights: layers of `library`, one upon the other."""
    name = LAYERS[mode][0]
    layers = {}
    for k in range(num_layers):
        for direction in directions:
            layers[k, direction] = getattr(library, name)(
                H, return_sequences=True, go_backwards=direction == "backward", dtype="float64"
            )
            layers[k, direction].build([None, None, I if k == 0 else len(directions) * H])

    def run(x, named):
        for k in range(num_layers):
            outputs = []
            for direction in directions:
                layer = layers[k, direction]
                weights = _keras_weights(mode, named, k, direction)
                fixed = [v.value for v in layer.non_trainable_variables]
                y, _ = layer.stateless_call(weights, fixed, x)
                outputs.append(tf.reverse(y, [1]) if direction == "backward" else y)
            x = tf.concat(outputs, axis=-1)
        return x

    return run


def _run_op(mode, directions, num_layers):
    """The same by one op, through canonical_to_params."""
    direction = "bidirectional" if len(directions) == 2 else "unidirectional"

    def run(x, named):
        if not LAYERS[mode][2]:  # Keras has one bias, the op two
            named = named | {
                name._replace(kind="recurrent_bias"): tf.zeros_like(bias)
                for name, bias in named.items()
                if name.kind == "input_bias"
            }
        state = tf.zeros([B, num_layers * len(directions), H], tf.float64)
        return tf_cudnn_rnn.raw_ops.CudnnRNNV3(
            input=x,
            input_h=state,
            input_c=state,
            params=tf_cudnn_rnn.canonical_to_params(
                named, mode, num_layers, H, I, direction=direction
            ),
            sequence_lengths=[T] * B,
            rnn_mode=mode,
            direction=direction,
            time_major=False,
        ).output

    return run


def _losses(run, weights: _Normalised, graph: bool) -> list[float]:
    """Trains for some steps; returns the loss before each."""
    rng = np.random.default_rng(71)
    x = tf.constant(rng.normal(size=[B, T, I]))
    target = tf.constant(rng.uniform(-1, 1, size=[B, T, H]))
    variables = weights.variables
    momenta = [tf.Variable(tf.zeros_like(v)) for v in variables]

    def step():
        with tf.GradientTape() as tape:
            y = run(x, weights.tensors())
            loss = tf.reduce_mean((y[..., :H] - target) ** 2)
        gradients = tape.gradient(loss, variables)
        for variable, momentum, gradient in zip(variables, momenta, gradients, strict=True):
            momentum.assign(0.8 * momentum + gradient)
            variable.assign_sub(momentum)
        return loss

    if graph:
        step = tf.function(step)
    return [float(step()) for _ in range(STEPS)]


@pytest.mark.parametrize(
    ("mode", "num_layers", "directions", "graph"),
    [
        ("lstm", 1, ("forward", "backward"), True),
        ("gru", 2, ("forward",), False),
        ("rnn_tanh", 2, ("forward", "backward"), False),
    ],
)
def test_weight_normalisation(mode, num_layers, directions, graph):
    arguments = (mode, directions, num_layers)
    stock, drop_in, op = (
        _losses(run, _Normalised(mode, num_layers, directions), in_graph)
        for run, in_graph in (
            # Keras' loop takes long to trace.
            (_run_keras(keras.layers, *arguments), False),
            (_run_keras(tf_cudnn_rnn.keras, *arguments), graph),
            (_run_op(*arguments), graph),
        )
    )
    assert stock[-1] < 0.9 * stock[0]
    np.testing.assert_allclose(drop_in, stock, rtol=1e-10)
    np.testing.assert_allclose(op, stock, rtol=1e-10)
