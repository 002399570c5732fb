"""KerasRNN on any valid steps, in either order, against the op on each row's valid steps alone."""

import numpy as np
import pytest
import tensorflow as tf

from tests.python.keras_weights_test import EPSILONS, random_weights
from tests.reference.judge import RNN_MODES
from tf_cudnn_rnn import raw_ops

T, I, H = 6, 3, 5
MASK = np.array(
    [
        [1, 1, 1, 1, 1, 1],  # full
        [0, 0, 0, 0, 0, 0],  # empty
        [0, 0, 1, 1, 1, 1],  # padded on the left
        [1, 1, 0, 0, 0, 0],  # padded on the right
        [0, 1, 0, 0, 1, 0],  # holes, and both ends
        [1, 0, 1, 1, 0, 1],
    ],
    bool,
)
B = len(MASK)
PADDING = np.arange(T) < np.array([6, 0, 4, 2, 1, 3])[:, None]
FULL = np.full([B, T], T)
LENGTHS = np.array([6, 6, 5, 4, 6, 5], np.int32)


def swap(tensor, time_major):
    return tf.transpose(tensor, [1, 0, 2]) if time_major else tensor


def inputs_of(rnn_mode, dtype, time_major, has_bias=True):
    """input, input_h and input_c in the op's order of axes, and weights."""
    rng = np.random.default_rng(0)
    x, h0, c0 = (
        swap(tf.cast(rng.normal(size=shape), dtype), time_major)
        for shape in ([B, T, I], [B, 1, H], [B, 1, H])
    )
    return [x, h0, c0, *random_weights(rnn_mode, I, H, dtype, has_bias)]


def of_op(inputs, mask, lengths, rnn_mode, time_major, **options):
    masks = [] if mask is None else [tf.constant(mask.T if time_major else mask)]
    return raw_ops.KerasRNN(
        input=inputs[0],
        input_h=inputs[1],
        input_c=inputs[2],
        kernel=inputs[3],
        recurrent_kernel=inputs[4],
        biases=inputs[5:],
        sequence_lengths=lengths,
        rnn_mode=rnn_mode,
        time_major=time_major,
        masks=masks,
        **options,
    )[:3]


def of_rows(
    inputs, mask, lengths, rnn_mode, time_major, go_backwards=False, zero_output_for_mask=True
):
    """The same row by row: the op that knows no masks runs a row's valid steps."""
    x, h0, c0 = (swap(tensor, time_major) for tensor in inputs[:3])
    params = raw_ops.KerasToParams(
        kernel=inputs[3], recurrent_kernel=inputs[4], biases=inputs[5:], rnn_mode=rnn_mode
    )
    rows = []
    for row in range(B):
        order = range(T)[::-1] if go_backwards else range(T)
        valid = [t < lengths[row] and (mask is None or mask[row, t]) for t in range(T)]
        places = [t for t in order if valid[t]]
        y, h, c = None, h0[row], c0[row]
        if places:
            y, h, c = raw_ops.CudnnRNNV3(
                input=tf.stack([x[row, t] for t in places])[:, None],
                input_h=h[None],
                input_c=c[None],
                params=params,
                sequence_lengths=[len(places)],
                rnn_mode=rnn_mode,
            )[:3]
            y, h, c = y[:, 0], h[0], c[0] if rnn_mode == "lstm" else c0[row]
        outputs, last = [], tf.zeros([H], x.dtype)
        for t in order:
            if valid[t]:
                last = y[places.index(t)]
            outputs.append(last if valid[t] or not zero_output_for_mask else tf.zeros_like(last))
        rows.append((tf.stack(outputs), h, c))
    y, h, c = (tf.stack([row[i] for row in rows]) for i in range(3))
    c = swap(c, time_major) if rnn_mode == "lstm" else tf.zeros([], x.dtype)
    return swap(y, time_major), swap(h, time_major), c


def loss_of(outputs):
    rng = np.random.default_rng(1)
    return sum(
        tf.reduce_sum(tf.cast(rng.normal(size=output.shape), output.dtype) * output**2)
        for output in outputs
    )


def values_and_gradients(run, inputs, *arguments, **options):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = run(inputs, *arguments, **options)
        loss = loss_of(outputs)
    gradients = tape.gradient(loss, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [*outputs, *gradients]


def assert_close(ours, theirs, tolerance):
    for mine, other in zip(ours, theirs, strict=True):
        mine, other = (tf.cast(value, tf.float64).numpy() for value in (mine, other))
        scale = np.max(np.abs(other), initial=1)
        np.testing.assert_allclose(mine, other, rtol=0, atol=tolerance * scale)


CASES = {
    "any steps": (MASK, FULL[:, 0]),
    "any steps within lengths": (MASK, LENGTHS),
    "padding": (PADDING, FULL[:, 0]),
    "lengths": (None, LENGTHS),
    "all steps": (None, FULL[:, 0]),
    "no step": (np.zeros_like(MASK), FULL[:, 0]),
}


@pytest.mark.parametrize("zero_output", [True, False])
@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients(case, rnn_mode, go_backwards, zero_output):
    options = dict(go_backwards=go_backwards, zero_output_for_mask=zero_output)
    time_major = go_backwards == zero_output
    inputs = inputs_of(rnn_mode, "float64", time_major)
    ours, theirs = (
        values_and_gradients(run, inputs, *CASES[case], rnn_mode, time_major, **options)
        for run in (of_op, of_rows)
    )
    assert_close(ours, theirs, 1e-13)


@pytest.mark.parametrize("dtype", EPSILONS)
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
def test_types(rnn_mode, dtype):
    for go_backwards in (False, True):
        inputs = inputs_of(rnn_mode, dtype, time_major=False, has_bias=not go_backwards)
        options = dict(go_backwards=go_backwards, zero_output_for_mask=False)
        ours, theirs = (
            values_and_gradients(run, inputs, MASK, FULL[:, 0], rnn_mode, False, **options)
            for run in (of_op, of_rows)
        )
        assert_close(ours, theirs, 64 * EPSILONS[dtype])


def second_derivatives(run, inputs, *arguments, **options):
    """Gradients of a loss of those that values_and_gradients() returns."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = loss_of(values_and_gradients(run, inputs, *arguments, **options)[3:])
    return tape.gradient(loss, inputs, unconnected_gradients=tf.UnconnectedGradients.ZERO)


@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize("rnn_mode", RNN_MODES)
def test_second_derivatives(rnn_mode, go_backwards):
    for zero_output, time_major, case in (
        (True, True, "any steps within lengths"),
        (False, False, "any steps"),
        (False, True, "lengths"),
    ):
        options = dict(go_backwards=go_backwards, zero_output_for_mask=zero_output)
        inputs = inputs_of(rnn_mode, "float64", time_major)
        ours, theirs = (
            second_derivatives(run, inputs, *CASES[case], rnn_mode, time_major, **options)
            for run in (of_op, of_rows)
        )
        assert_close(ours, theirs, 1e-11)


@pytest.mark.parametrize("go_backwards", [False, True])
def test_many_steps_and_rows(go_backwards):
    """Of several chunks, and of threads and routes that few rows do not take."""
    rng = np.random.default_rng(3)
    batch, steps, features, units = 37, 60, 24, 65
    weights = random_weights("lstm", features, units)
    x = tf.constant(rng.normal(size=[batch, steps, features]), tf.float32)
    state = tf.zeros([batch, 1, units])
    mask = rng.random([batch, steps]) < 0.7
    order = np.argsort(~mask, axis=1, kind="stable")
    counts = mask.sum(axis=1)
    if go_backwards:
        for row, count in zip(order, counts, strict=True):
            row[:count] = row[:count][::-1].copy()
    call = dict(
        input_h=state,
        input_c=state,
        kernel=weights[0],
        recurrent_kernel=weights[1],
        biases=weights[2:],
        time_major=False,
    )
    with tf.GradientTape() as tape:
        tape.watch([x, *weights])
        y, h, c, _ = raw_ops.KerasRNN(
            input=x,
            sequence_lengths=np.full([batch], steps),
            masks=[mask],
            go_backwards=go_backwards,
            **call,
        )
        loss = tf.reduce_sum(y**2)
    ours = [h, c, *tape.gradient(loss, [x, *weights])]
    with tf.GradientTape() as tape:
        tape.watch([x, *weights])
        compact, h, c, _ = raw_ops.KerasRNN(
            input=tf.gather(x, order, axis=1, batch_dims=1), sequence_lengths=counts, **call
        )
        loss = tf.reduce_sum(compact**2)
    theirs = [h, c, *tape.gradient(loss, [x, *weights])]
    for mine, other in zip(ours, theirs, strict=True):  # the engine sees the same rows
        np.testing.assert_array_equal(mine.numpy(), other.numpy())
    expected = np.zeros(y.shape, np.float32)
    for row, count in enumerate(counts):
        places = order[row, :count]
        expected[row, steps - 1 - places if go_backwards else places] = compact[row, :count]
    np.testing.assert_array_equal(y.numpy(), expected)


def test_what_is_not_valid_is_not_read():
    inputs = inputs_of("gru", "float32", time_major=False)
    expected = values_and_gradients(of_op, inputs, MASK, FULL[:, 0], "gru", False)
    inputs[0] = tf.where(MASK[:, :, None], inputs[0], np.nan)
    found = values_and_gradients(of_op, inputs, MASK, FULL[:, 0], "gru", False)
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(mine.numpy(), other.numpy())


def _call(masks, time_major=True):
    state = tf.zeros([1, B, H] if time_major else [B, 1, H])
    return raw_ops.KerasRNN(
        input=tf.zeros([T, B, I] if time_major else [B, T, I]),
        input_h=state,
        input_c=state,
        kernel=tf.zeros([I, 4 * H]),
        recurrent_kernel=tf.zeros([H, 4 * H]),
        sequence_lengths=FULL[:, 0],
        masks=masks,
        time_major=time_major,
    )


@pytest.mark.parametrize(
    ("masks", "time_major", "message"),
    [
        ([tf.zeros([T, 7], tf.bool)], True, "masks[0] must have shape [T,B] = [6,6], got [6,7]"),
        ([tf.zeros([B, T - 1], tf.bool)], False, "masks[0] must have shape [B,T] = [6,6], got"),
        ([tf.zeros([T, B, 1], tf.bool)], True, "pass one value for each step of each row of input"),
        ([tf.zeros([T], tf.bool)], True, "masks[0] must have shape [T,B] = [6,6], got [6]"),
        ([tf.zeros([T, B], tf.bool)] * 2, True, "num_masks must be 0 or 1, got 2"),
    ],
)
@pytest.mark.parametrize("in_graph", [False, True])
def test_wrong_masks_are_refused(masks, time_major, message, in_graph):
    function = tf.function(_call) if in_graph else _call
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
        function(masks, time_major)
    assert message in str(error.value)


def test_backward_refuses_the_reserve_of_other_steps():
    inputs = inputs_of("lstm", "float32", time_major=True)
    arguments = dict(
        input=inputs[0],
        input_h=inputs[1],
        input_c=inputs[2],
        kernel=inputs[3],
        recurrent_kernel=inputs[4],
        biases=inputs[5:],
        sequence_lengths=FULL[:, 0],
    )
    given = dict(masks=[MASK.T], go_backwards=True)
    y, h, c, reserve = raw_ops.KerasRNN(**arguments, **given)
    arguments |= dict(output=y, output_h=h, output_c=c, reserve_space=reserve)
    arguments |= dict(output_backprop=y, output_h_backprop=h, output_c_backprop=c)
    raw_ops.KerasRNNBackprop(**arguments, **given)
    moved = np.roll(MASK, 1, axis=1)  # as many steps in each row, but others
    for change in (dict(masks=[moved.T]), dict(masks=[]), dict(go_backwards=False)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="reserve_space"):
            raw_ops.KerasRNNBackprop(**arguments, **given | change)


def test_a_graph_of_unknown_shapes_learns_from_the_mask():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, I]),
            tf.TensorSpec([None, 1, H]),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([B, T], tf.bool),
        ]
    )
    def run(x, state, lengths, mask):
        result = raw_ops.KerasRNN(
            input=x,
            input_h=state,
            input_c=state,
            kernel=tf.zeros([I, 4 * H]),
            recurrent_kernel=tf.zeros([H, 4 * H]),
            sequence_lengths=lengths,
            masks=[mask],
            time_major=False,
        )
        assert result.output.shape == [B, T, H]
        return result.output

    run.get_concrete_function()


def test_graphs_of_before_load():
    """Their nodes lack the attributes that came with masks and with a second direction."""
    inputs = inputs_of("lstm", "float32", time_major=True)

    def run(*inputs):
        return values_and_gradients(of_op, list(inputs), None, LENGTHS, "lstm", True)

    specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs]
    graph = tf.function(run, autograph=False).get_concrete_function(*specs).graph
    definition = graph.as_graph_def()
    ours = [node for node in definition.node if node.op.startswith("TfCudnnRnn>KerasRNN")]
    assert len(ours) == 2
    for node in ours:
        for name in (
            "num_masks",
            "go_backwards",
            "zero_output_for_mask",
            "num_backward_weights",
        ):
            del node.attr[name]
    sources = [tensor.name for tensor in graph.inputs]
    targets = [tensor.name for tensor in graph.outputs]
    loaded = tf.compat.v1.wrap_function(lambda: tf.import_graph_def(definition, name=""), []).prune(
        sources, targets
    )
    for mine, expected in zip(loaded(*inputs), run(*inputs), strict=True):
        np.testing.assert_array_equal(mine.numpy(), expected.numpy())


@pytest.mark.parametrize("time_major", [True, False])
def test_backwards_without_rows(time_major):
    x, h0, c0, *weights = inputs_of("lstm", tf.float32, time_major)
    none = [swap(swap(tensor, time_major)[:0], time_major) for tensor in (x, h0, c0)]
    with tf.GradientTape() as tape:
        tape.watch(weights)
        output, *_ = raw_ops.KerasRNN(
            input=none[0],
            input_h=none[1],
            input_c=none[2],
            kernel=weights[0],
            recurrent_kernel=weights[1],
            biases=weights[2:],
            sequence_lengths=tf.zeros([0], tf.int32),
            time_major=time_major,
            go_backwards=True,
        )
        loss = tf.reduce_sum(output)
    assert output.shape == ([T, 0, H] if time_major else [0, T, H])
    for gradient in tape.gradient(loss, weights):
        assert not np.any(gradient)
