"""CudnnRNN computes what stacks of stock Keras layers compute, forward and backward.

In double, so that any difference but rounding shows.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from tests.keras import cudnn_rnn_stacks as stacks
from tests.keras.cudnn_rnn_stacks import DIRECTIONS, LENGTHS, MASK, MODES, B, H, I, P, T
from tf_cudnn_rnn import raw_ops


def assert_equal_to_stack(layer, x, initial_state=None, stack_mask=None, **call) -> None:
    """Compares outputs, states, and the gradients of x, initial states and weights."""
    stack = stacks.Stack(layer)
    x = tf.constant(x)
    initial_state = initial_state or []
    sources = [x, *initial_state]
    keyword = {"initial_state": initial_state} if initial_state else {}
    with tf.GradientTape() as tape:
        tape.watch(sources)
        ours = layer(x, **keyword, **call)
        loss = stacks.weighed(ours)
    *gradients, dparams = tape.gradient(loss, [*sources, layer.params.value])
    with tf.GradientTape() as tape:
        tape.watch(sources)
        theirs = stack(x, mask=stack_mask, **keyword)
        loss = stacks.weighed(theirs)
    expected = tape.gradient(loss, [*sources, *stack.variables], unconnected_gradients="zero")
    assert len(ours) == len(theirs)
    for k, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        stacks.assert_close(one, other, label=f"output {k}")
    for k, one in enumerate(gradients):
        stacks.assert_close(one, expected[k], label=f"gradient {k}")
    of_params = stack.params_gradient(expected[len(sources) :], layer)
    stacks.assert_close(dparams, of_params, label="gradient of params")


@pytest.mark.parametrize(
    ("mode", "direction"), [*itertools.product(MODES, ["bidirectional"]), ("lstm", DIRECTIONS[0])]
)
def test_full_and_shorter_rows(mode, direction):
    layer = stacks.built(mode, direction=direction, return_sequences=True, return_state=True)
    x = stacks.inputs()
    assert_equal_to_stack(layer, x)
    of_lengths = tf.sequence_mask(LENGTHS, T)
    assert_equal_to_stack(layer, x, stacks.states(layer), of_lengths, sequence_lengths=LENGTHS)


@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_masks_of_any_shape(mode, return_sequences):
    layer = stacks.built(
        mode, direction="bidirectional", return_sequences=return_sequences, return_state=True
    )
    mask = tf.constant(MASK)
    assert_equal_to_stack(layer, stacks.inputs(), stacks.states(layer), mask, mask=mask)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_last_outputs_of_lengths(direction):
    layer = stacks.built("gru", direction=direction, return_state=True)
    mask = tf.sequence_mask(LENGTHS, T)
    states = stacks.states(layer)
    assert_equal_to_stack(layer, stacks.inputs(), states, mask, sequence_lengths=LENGTHS)
    y, _ = layer(stacks.inputs(), initial_state=states, sequence_lengths=LENGTHS)
    np.testing.assert_array_equal(y[1], np.zeros(y.shape[1]))  # the row without a step


@pytest.mark.parametrize(("mode", "input_mode"), [("lstm", "skip_input"), ("gru", "auto_select")])
def test_skip_input_is_an_identity_kernel(mode, input_mode):
    layer = stacks.built(
        mode,
        input_size=H,
        direction="bidirectional",
        input_mode=input_mode,
        return_sequences=True,
        return_state=True,
    )
    assert layer.layout.weights[0].shape == (H, 0)
    assert_equal_to_stack(layer, stacks.inputs(H))


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_projection_is_that_of_the_op(direction):
    layer = stacks.built(num_proj=P, direction=direction, return_sequences=True, return_state=True)
    x, (h, c) = tf.constant(stacks.inputs()), stacks.states(layer)
    results = []
    for run in (
        lambda: layer(x, initial_state=(h, c), sequence_lengths=LENGTHS),
        lambda: raw_ops.CudnnRNNV3(
            input=x,
            input_h=h,
            input_c=c,
            params=layer.params.value,
            sequence_lengths=LENGTHS,
            direction=direction,
            num_proj=P,
            time_major=False,
        )[:3],
    ):
        with tf.GradientTape() as tape:
            tape.watch([x, h, c])
            outputs = run()
            loss = stacks.weighed(outputs)
        results.append([*outputs, *tape.gradient(loss, [x, h, c, layer.params.value])])
    D = DIRECTIONS.index(direction) + 1
    assert results[0][0].shape == [B, T, D * P]
    assert results[0][1].shape == [B, 2 * D, P] and results[0][2].shape == [B, 2 * D, H]
    for one, other in zip(*results, strict=True):
        stacks.assert_close(one, other)


@pytest.mark.parametrize("call", ["full", "lengths", "mask"])
@pytest.mark.parametrize("return_sequences", [False, True])
def test_time_major_is_the_transpose(return_sequences, call):
    options = {
        "direction": "bidirectional",
        "num_proj": P,
        "return_sequences": return_sequences,
        "return_state": True,
    }
    batch_major = stacks.built(**options)
    time_major = stacks.built(**options, time_major=True)
    x, (h, c) = stacks.inputs(), stacks.states(batch_major)
    keywords = {"full": {}, "lengths": {"sequence_lengths": LENGTHS}, "mask": {"mask": MASK}}[call]
    expected = batch_major(x, initial_state=(h, c), **keywords)
    if call == "mask":
        keywords = {"mask": MASK.T}

    def swap(tensor):
        return tf.transpose(tensor, [1, 0, 2])

    y, h, c = time_major(swap(x), initial_state=(swap(h), swap(c)), **keywords)
    stacks.assert_close(swap(y) if return_sequences else y, expected[0])
    stacks.assert_close(swap(h), expected[1])
    stacks.assert_close(swap(c), expected[2])


def test_masked_steps_are_not_read_and_put_out_zero():
    layer = stacks.built("gru", direction="bidirectional", return_sequences=True)
    x = stacks.inputs()
    y = layer(x, mask=MASK)
    poisoned = np.where(MASK[..., None], x, np.nan)
    np.testing.assert_array_equal(layer(poisoned, mask=MASK), y)
    np.testing.assert_array_equal(y.numpy()[~MASK], 0)
    assert np.all(np.any(y.numpy()[MASK] != 0, axis=-1))


@pytest.mark.parametrize(
    "policy", ["float32", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"]
)
def test_types(policy):
    options = {"direction": "bidirectional", "return_sequences": True, "return_state": True}
    double = stacks.built(**options)
    layer = stacks.built(**options, dtype=policy)
    assert layer.params.dtype == ("float32" if policy.startswith("mixed") else policy)
    with tf.GradientTape() as tape:
        outputs = layer(stacks.inputs(dtype="float32"), mask=MASK)
        loss = stacks.weighed(outputs)
    gradient = tape.gradient(loss, layer.params.value)
    assert {output.dtype for output in outputs} == {tf.as_dtype(layer.compute_dtype)}
    assert gradient.dtype == layer.params.dtype
    with tf.GradientTape() as tape:
        expected = double(stacks.inputs(), mask=MASK)
        loss = stacks.weighed(expected)
    eps = {"float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}[layer.compute_dtype]
    for one, other in zip(outputs, expected, strict=True):
        stacks.assert_close(tf.cast(one, tf.float64), other, tolerance=8 * eps)
    stacks.assert_close(
        tf.cast(gradient, tf.float64),
        tape.gradient(loss, double.params.value),
        tolerance=8 * eps,
    )


def test_integers_become_floats():
    layer = stacks.built("rnn_tanh", dtype="float32")
    x = np.arange(B * T * I, dtype=np.int32).reshape(B, T, I) % 5
    np.testing.assert_array_equal(layer(x), layer(x.astype(np.float32)))
