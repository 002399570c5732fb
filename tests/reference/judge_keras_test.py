"""The judge against Keras' own CPU layers in double precision.

Keras shares neither the layout nor the equations' code with the judge: LSTM,
GRU(reset_after=True) and SimpleRNN, values and gradients, both directions, masked.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.reference import cases, judge

Config = judge.Config

# Keras' gate order in terms of cuDNN's. Numbers, not the judge's names for them: a
# judge that swapped two names must fail here.
KERAS_GATES = {
    "rnn_relu": (0,),
    "rnn_tanh": (0,),
    "lstm": (0, 1, 2, 3),  # input, forget, cell, output: the same
    "gru": (1, 0, 2),  # update, reset, new; cuDNN has reset first
}


def _keras_layer(config: judge.Config, go_backwards: bool):
    options = {
        "return_sequences": True,
        "return_state": True,
        "go_backwards": go_backwards,
        "zero_output_for_mask": True,
        "dtype": "float64",
    }
    if config.rnn_mode == "lstm":
        return keras.layers.LSTM(config.H, **options)
    if config.rnn_mode == "gru":
        return keras.layers.GRU(config.H, reset_after=True, **options)
    activation = {"rnn_relu": "relu", "rnn_tanh": "tanh"}[config.rnn_mode]
    return keras.layers.SimpleRNN(config.H, activation=activation, **options)


def _keras_weights(config: judge.Config, w: judge.PseudoLayer, combine_biases):
    """Returns (kernel [in, G*H], recurrent_kernel [H, G*H], bias).

    GRU has bias [2, 3*H]; the others have one vector [G*H], for which
    `combine_biases` makes one of bW and bR.
    """
    order = KERAS_GATES[config.rnn_mode]
    kernel = np.concatenate([w.W[g].T for g in order], axis=1)
    recurrent_kernel = np.concatenate([w.R[g].T for g in order], axis=1)
    bW = np.concatenate([w.bW[g] for g in order])
    bR = np.concatenate([w.bR[g] for g in order])
    if config.rnn_mode == "gru":
        return kernel, recurrent_kernel, np.stack([bW, bR])
    return kernel, recurrent_kernel, combine_biases(bW, bR)


def _sum(bW, bR):
    return bW + bR


def _either(dbW, dbR):
    """The gradient of bW + bR is that of bW and that of bR."""
    np.testing.assert_array_equal(dbW, dbR)
    return dbW


@pytest.mark.parametrize("lengths", [[6, 6, 6], [4, 6, 1], [5, 0, 6]], ids=str)
@pytest.mark.parametrize("direction", judge.DIRECTIONS)
@pytest.mark.parametrize("num_layers", [1, 2])
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_judge_equals_keras(rnn_mode, num_layers, direction, lengths):
    config = Config(rnn_mode, num_layers, 5, 4, direction, time_major=False)
    case = cases.random_case(np.random.default_rng(num_layers), config, 6, len(lengths), lengths)
    forward, gradients = case.forward_backward()
    lstm = rnn_mode == "lstm"
    w = judge.split_params(config, case.params)

    x, h0, c0 = tf.constant(case.x), tf.constant(case.h0), tf.constant(case.c0)
    mask = tf.sequence_mask(lengths, case.T)
    layers = []
    for k in range(config.L * config.D):
        layer = _keras_layer(config, go_backwards=k % config.D == 1)
        layer.build([case.B, case.T, config.layer_input_size(k // config.D)])
        layer.set_weights(_keras_weights(config, w[k], _sum))
        layers.append(layer)

    h_n, c_n = [], []
    with tf.GradientTape() as tape:
        tape.watch([x, h0, c0])
        y = x
        for layer in range(config.L):
            outputs = []
            for d in range(config.D):
                k = layer * config.D + d
                state = [h0[:, k], c0[:, k]] if lstm else [h0[:, k]]
                output, *state = layers[k](y, mask=mask, initial_state=state)
                # go_backwards reverses input and mask, but not the output.
                outputs.append(output[:, ::-1] if d == 1 else output)
                h_n.append(state[0])
                c_n.append(state[1] if lstm else None)
            y = tf.concat(outputs, axis=2)
        h_n = tf.stack(h_n, axis=1)
        loss = tf.reduce_sum(y * case.dy) + tf.reduce_sum(h_n * case.dh_n)
        if lstm:
            c_n = tf.stack(c_n, axis=1)
            loss += tf.reduce_sum(c_n * case.dc_n)
    variables = [layer.trainable_variables for layer in layers]
    dx, dh0, dc0, dvariables = tape.gradient(loss, [x, h0, c0, variables])

    def assert_close(actual, expected, name):
        np.testing.assert_allclose(
            actual, expected, rtol=0, atol=1e-12, err_msg=f"{name} of {case}"
        )

    assert_close(forward.y, y, "y")
    assert_close(forward.h_n, h_n, "h_n")
    assert_close(gradients.dx, dx, "dx")
    assert_close(gradients.dh0, dh0, "dh0")
    if lstm:
        assert_close(forward.c_n, c_n, "c_n")
        assert_close(gradients.dc0, dc0, "dc0")
    dw = judge.split_params(config, gradients.dparams)
    for k in range(config.L * config.D):
        expected = dvariables[k]
        for actual, variable, gradient in zip(
            _keras_weights(config, dw[k], _either),
            variables[k],
            expected,
            strict=True,
        ):
            assert_close(actual, gradient, f"d{variable.path} of pseudo-layer {k}")
