"""The op equals Keras' layers, given the same weights: values and gradients.

All in double, so that any difference but rounding shows.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tf_cudnn_rnn import ParamName

I, H, B, T = 5, 6, 4, 7

# Keras' gates in the order of its kernels' columns.
KERAS_GATES = {
    "lstm": ("input", "forget", "cell", "output"),
    "gru": ("update", "reset", "new"),
    "rnn_tanh": ("",),
    "rnn_relu": ("",),
}
RNN_MODES = tuple(KERAS_GATES)
LENGTHS = np.array([3, 7, 1, 5], np.int32)


@pytest.fixture(autouse=True)
def _seeded():
    """The same weights in every run: with some, a layer of ReLU passes nothing on."""
    keras.utils.set_random_seed(1)


def _layer(rnn_mode: str, **options) -> keras.layers.Layer:
    options |= {"return_sequences": True, "return_state": True, "dtype": "float64"}
    # Random biases, or a swap of gates would not show.
    options["bias_initializer"] = keras.initializers.RandomNormal(stddev=0.5, seed=1)
    if rnn_mode == "lstm":
        return keras.layers.LSTM(H, unit_forget_bias=False, **options)
    if rnn_mode == "gru":
        return keras.layers.GRU(H, reset_after=True, **options)
    return keras.layers.SimpleRNN(H, activation=rnn_mode.removeprefix("rnn_"), **options)


def _named(rnn_mode: str, weights, layer: int = 0, direction: str = "forward") -> dict:
    """Keras' kernel, recurrent kernel and bias as this library's named tensors."""
    kernel, recurrent_kernel, bias = weights
    named = {}
    for g, gate in enumerate(KERAS_GATES[rnn_mode]):
        columns = slice(g * H, (g + 1) * H)
        if rnn_mode == "gru":
            input_bias, recurrent_bias = bias[0, columns], bias[1, columns]
        else:
            # Keras has one bias; only the sum counts.
            input_bias, recurrent_bias = 0.25 * bias[columns], 0.75 * bias[columns]
        for kind, tensor in [
            ("input_kernel", tf.transpose(kernel[:, columns])),
            ("recurrent_kernel", tf.transpose(recurrent_kernel[:, columns])),
            ("input_bias", input_bias),
            ("recurrent_bias", recurrent_bias),
        ]:
            named[ParamName(layer, direction, gate, kind)] = tensor
    return named


def _run_op(rnn_mode, x, params, num_layers=1, direction="unidirectional", lengths=None):
    """Returns output, output_h and output_c (batch-major), from zero states."""
    num_states = num_layers * (2 if direction == "bidirectional" else 1)
    zeros = tf.zeros([B, num_states, H], tf.float64)
    return tf_cudnn_rnn.raw_ops.CudnnRNNV3(
        input=x,
        input_h=zeros,
        input_c=zeros,
        params=params,
        sequence_lengths=np.full([B], T, np.int32) if lengths is None else lengths,
        rnn_mode=rnn_mode,
        direction=direction,
        time_major=False,
    )[:3]


def _mask(lengths):
    return None if lengths is None else np.arange(T) < lengths[:, None]


def _inputs() -> tf.Tensor:
    return tf.constant(np.random.default_rng(50).normal(size=[B, T, I]))


def _assert_equal(actual, expected, label):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12, err_msg=label)


def _assert_same_gradients(tape, outputs, reference, sources, label):
    """Compares the gradients of a loss of `outputs` with those of `reference`."""
    factors = [np.random.default_rng(51).normal(size=tensor.shape) for tensor in reference]
    gradients = [
        tape.gradient(tensors, sources, [tf.constant(factor) for factor in factors])
        for tensors in (outputs, reference)
    ]
    for actual, expected in zip(*gradients, strict=True):
        assert float(tf.reduce_max(tf.abs(expected))) > 1e-3, label
        _assert_equal(actual, expected, label)


@pytest.mark.parametrize("lengths", [None, LENGTHS, LENGTHS * [1, 0, 1, 1]], ids=str)
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
def test_single_layer(rnn_mode, lengths):
    layer = _layer(rnn_mode, zero_output_for_mask=True)
    x = _inputs()
    layer.build(x.shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        expected = layer(x, mask=_mask(lengths))
        params = tf_cudnn_rnn.canonical_to_params(
            _named(rnn_mode, layer.weights), rnn_mode, 1, H, I
        )
        y, h_n, c_n = _run_op(rnn_mode, x, params, lengths=lengths)
        actual = [y, h_n[:, 0]] + ([c_n[:, 0]] if rnn_mode == "lstm" else [])
    label = f"{rnn_mode}, lengths {lengths}"
    for one, other in zip(actual, expected, strict=True):
        _assert_equal(one, other, label)
    sources = [x, *(variable.value for variable in layer.weights)]
    _assert_same_gradients(tape, actual, expected, sources, label)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "masked"])
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
def test_bidirectional(rnn_mode, lengths):
    layer = keras.layers.Bidirectional(_layer(rnn_mode), dtype="float64")
    x = _inputs()
    layer.build(x.shape)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        expected = layer(x, mask=_mask(lengths))
        named = {
            **_named(rnn_mode, layer.forward_layer.weights),
            **_named(rnn_mode, layer.backward_layer.weights, direction="backward"),
        }
        params = tf_cudnn_rnn.canonical_to_params(
            named, rnn_mode, 1, H, I, direction="bidirectional"
        )
        y, h_n, c_n = _run_op(rnn_mode, x, params, 1, "bidirectional", lengths)
        actual = [y]
        for d in range(2):
            actual += [h_n[:, d]] + ([c_n[:, d]] if rnn_mode == "lstm" else [])
    label = f"{rnn_mode}, bidirectional, lengths {lengths}"
    for one, other in zip(actual, expected, strict=True):
        _assert_equal(one, other, label)
    sources = [x, *(variable.value for variable in layer.weights)]
    _assert_same_gradients(tape, actual, expected, sources, label)


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
def test_stack(rnn_mode, direction):
    x = _inputs()
    layers, named = [], {}
    for _ in range(3):
        layer = _layer(rnn_mode)
        if direction == "bidirectional":
            layer = keras.layers.Bidirectional(layer, dtype="float64")
        layers.append(layer)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        expected = x
        for i, layer in enumerate(layers):
            expected = layer(expected, mask=_mask(LENGTHS))[0]
            if direction == "bidirectional":
                named |= _named(rnn_mode, layer.forward_layer.weights, i)
                named |= _named(rnn_mode, layer.backward_layer.weights, i, "backward")
            else:
                named |= _named(rnn_mode, layer.weights, i)
        params = tf_cudnn_rnn.canonical_to_params(named, rnn_mode, 3, H, I, direction=direction)
        y, _, _ = _run_op(rnn_mode, x, params, 3, direction, LENGTHS)
        # Keras repeats the last output of a masked row; the op gives zeros.
        valid = tf.constant(_mask(LENGTHS)[..., None], tf.float64)
        expected = expected * valid
    label = f"{rnn_mode}, {direction}, three layers"
    _assert_equal(y, expected, label)
    sources = [x, *(variable.value for layer in layers for variable in layer.weights)]
    _assert_same_gradients(tape, [y], [expected], sources, label)


def test_params_built_by_keras():
    """Keras packs an LSTM for the built-in op in the layout that we read."""
    layer = _layer("lstm")
    layer.build((B, T, I))
    ours = tf_cudnn_rnn.canonical_to_params(_named("lstm", layer.weights), "lstm", 1, H, I)
    kernel, recurrent_kernel, bias = (variable.numpy() for variable in layer.weights)
    # Of keras.src.backend.tensorflow.rnn: gates split, transposed, flattened, joined.
    blocks = [m.T.ravel() for m in np.split(kernel, 4, 1) + np.split(recurrent_kernel, 4, 1)]
    matrices = np.concatenate(blocks)
    np.testing.assert_array_equal(ours[: matrices.size], matrices)
    np.testing.assert_allclose(
        ours[matrices.size :].numpy().reshape(2, 4 * H).sum(axis=0), bias, rtol=1e-15
    )
