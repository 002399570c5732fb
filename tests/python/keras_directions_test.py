"""KerasRNN in both directions, against two calls of it in one direction each."""

import numpy as np
import pytest
import tensorflow as tf

from tests.python.keras_steps_test import (
    CASES,
    FULL,
    LENGTHS,
    MASK,
    B,
    H,
    I,
    T,
    assert_close,
    of_op,
    second_derivatives,
    swap,
    values_and_gradients,
)
from tests.python.keras_weights_test import EPSILONS, random_weights
from tests.reference.judge import RNN_MODES
from tf_cudnn_rnn import raw_ops


def inputs_of(rnn_mode, dtype, time_major, has_bias=True):
    """input, input_h and input_c in the op's order of axes, and the weights of both directions."""
    rng = np.random.default_rng(0)
    x, h0, c0 = (
        swap(tf.cast(rng.normal(size=shape), dtype), time_major)
        for shape in ([B, T, I], [B, 2, H], [B, 2, H])
    )
    forward = random_weights(rnn_mode, I, H, dtype, has_bias)
    backward = [tf.reverse(weight, [0]) * 0.5 for weight in forward]
    return [x, h0, c0, *forward, *backward]


def halves_of(inputs):
    weights = inputs[3:]
    return weights[: len(weights) // 2], weights[len(weights) // 2 :]


def of_one_call(inputs, mask, lengths, rnn_mode, time_major):
    forward, backward = halves_of(inputs)
    inputs = [*inputs[:3], *forward]
    return of_op(inputs, mask, lengths, rnn_mode, time_major, backward_weights=backward)


def of_two_calls(inputs, mask, lengths, rnn_mode, time_major):
    direction_axis, time_axis = (0, 0) if time_major else (1, 1)
    x, *states = inputs[:3]
    states = zip(*(tf.split(state, 2, axis=direction_axis) for state in states), strict=True)
    (y, h, c), (y_back, h_back, c_back) = (
        of_op([x, *state, *weights], mask, lengths, rnn_mode, time_major, go_backwards=back)
        for state, weights, back in zip(states, halves_of(inputs), (False, True), strict=True)
    )
    return (
        tf.concat([y, tf.reverse(y_back, [time_axis])], axis=2),
        tf.concat([h, h_back], axis=direction_axis),
        tf.concat([c, c_back], axis=direction_axis) if rnn_mode == "lstm" else c,
    )


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, rnn_mode, time_major):
    inputs = inputs_of(rnn_mode, "float64", time_major, has_bias=case != "padding")
    ours, theirs = (
        values_and_gradients(run, inputs, *CASES[case], rnn_mode, time_major)
        for run in (of_one_call, of_two_calls)
    )
    assert_close(ours, theirs, 1e-13)


@pytest.mark.parametrize("dtype", EPSILONS)
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
def test_types(rnn_mode, dtype):
    for has_bias in (False, True):
        inputs = inputs_of(rnn_mode, dtype, time_major=False, has_bias=has_bias)
        ours, theirs = (
            values_and_gradients(run, inputs, MASK, FULL[:, 0], rnn_mode, False)
            for run in (of_one_call, of_two_calls)
        )
        assert_close(ours, theirs, 64 * EPSILONS[dtype])


@pytest.mark.parametrize("rnn_mode", RNN_MODES)
@pytest.mark.parametrize("case", ["any steps within lengths", "lengths", "all steps"])
def test_second_derivatives(case, rnn_mode):
    for time_major, has_bias in ((True, False), (False, True)):
        inputs = inputs_of(rnn_mode, "float64", time_major, has_bias)
        ours, theirs = (
            second_derivatives(run, inputs, *CASES[case], rnn_mode, time_major)
            for run in (of_one_call, of_two_calls)
        )
        assert_close(ours, theirs, 1e-11)


@pytest.mark.parametrize("batch", [1, 5, 37])
def test_many_steps_and_rows(batch):
    """The bits of the op that takes params, by several chunks, threads and routes."""
    rng = np.random.default_rng(3)
    steps, features, units = 60, 24, 65
    forward = random_weights("gru", features, units)
    backward = [tf.reverse(weight, [0]) * 0.5 for weight in forward]
    x = tf.constant(rng.normal(size=[steps, batch, features]), tf.float32)
    state = tf.zeros([2, batch, units])
    lengths = rng.integers(1, steps, batch, endpoint=True).astype(np.int32)
    vectors = [
        raw_ops.KerasToParams(
            kernel=kernel, recurrent_kernel=recurrent_kernel, biases=biases, rnn_mode="gru"
        )
        for kernel, recurrent_kernel, *biases in (forward, backward)
    ]
    num_biases = 6 * units
    params = tf.concat(
        [*(v[:-num_biases] for v in vectors), *(v[-num_biases:] for v in vectors)], axis=0
    )
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, h, _ = of_one_call([x, state, state, *forward, *backward], None, lengths, "gru", True)
        loss = tf.reduce_sum(y**2)
        y_params, h_params, *_ = raw_ops.CudnnRNNV3(
            input=x,
            input_h=state,
            input_c=state,
            params=params,
            sequence_lengths=lengths,
            rnn_mode="gru",
            direction="bidirectional",
        )
        loss_params = tf.reduce_sum(y_params**2)
    np.testing.assert_array_equal(y, y_params)
    np.testing.assert_array_equal(h, h_params)
    np.testing.assert_array_equal(tape.gradient(loss, x), tape.gradient(loss_params, x))


def test_a_graph_knows_the_shapes():
    @tf.function(input_signature=[tf.TensorSpec([None, None, I]), tf.TensorSpec([None, None, H])])
    def run(x, state):
        forward = random_weights("lstm", I, H)
        result = raw_ops.KerasRNN(
            input=x,
            input_h=state,
            input_c=state,
            kernel=forward[0],
            recurrent_kernel=forward[1],
            biases=forward[2:],
            sequence_lengths=LENGTHS,
            backward_weights=forward,
        )
        assert result.output.shape.as_list() == [None, B, 2 * H]
        assert result.output_h.shape == result.output_c.shape == [2, B, H]
        gradients = tf.gradients(result.output, [x, state, *forward])
        assert [g.shape[-1] for g in gradients] == [I, H, 4 * H, 4 * H, 4 * H]
        return result.output

    run.get_concrete_function()


def wrong_call(**changes):
    weights = random_weights("lstm", I, H)
    arguments = dict(
        input=tf.zeros([T, B, I]),
        input_h=tf.zeros([2, B, H]),
        input_c=tf.zeros([2, B, H]),
        kernel=weights[0],
        recurrent_kernel=weights[1],
        biases=weights[2:],
        sequence_lengths=LENGTHS,
        backward_weights=weights,
    )
    return raw_ops.KerasRNN(**arguments | changes)


WEIGHTS = random_weights("lstm", I, H)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            dict(backward_weights=WEIGHTS[:2]),
            "num_backward_weights must be 0 or, with num_biases = 1, 3, got 2",
        ),
        (dict(biases=[]), "num_backward_weights must be 0 or, with num_biases = 0, 2, got 3"),
        (dict(go_backwards=True), "go_backwards must be false and zero_output_for_mask true"),
        (dict(zero_output_for_mask=False), "zero_output_for_mask true, got false and false"),
        (
            dict(backward_weights=[WEIGHTS[1], *WEIGHTS[1:]]),
            "backward_weights[0] must have I = 3 rows",
        ),
        (
            dict(backward_weights=[WEIGHTS[0], WEIGHTS[0], WEIGHTS[2]]),
            "backward_weights[1] must have shape [H,4*H]",
        ),
        (
            dict(backward_weights=[*WEIGHTS[:2], tf.zeros([7])]),
            "backward_weights[2] must have shape [4*H] = [20]",
        ),
        (dict(backward_weights=[]), "input_h must hold one state a row, got 2"),
        (
            dict(input_h=tf.zeros([4, B, H]), input_c=tf.zeros([4, B, H])),
            "input_h must hold two states a row, got 4",
        ),
        (dict(input_h=tf.zeros([1, B, H]), input_c=tf.zeros([1, B, H])), "input_h"),
    ],
)
@pytest.mark.parametrize("in_graph", [False, True])
def test_wrong_calls_are_refused(changes, message, in_graph):
    function = tf.function(wrong_call) if in_graph else wrong_call
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
        function(**changes)
    assert message in str(error.value)
