"""KerasToParams and its gradients, against transpositions by NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn._layout import GATES, Layout
from tf_cudnn_rnn.keras._packing import pack

# The place of each of the ops' gates in Keras' order.
KERAS_PLACE = {"lstm": [0, 1, 2, 3], "gru": [1, 0, 2], "rnn_tanh": [0], "rnn_relu": [0]}
SIZES = [(1, 1), (3, 5), (64, 64), (65, 63), (17, 130), (130, 16)]
EPSILONS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
DTYPES = list(EPSILONS)


def random_weights(rnn_mode, input_size, num_units, dtype="float32", has_bias=True):
    """Values that every type tells apart only by place, which is all that matters here."""
    random = np.random.default_rng(0)
    gates_size = len(GATES[rnn_mode]) * num_units
    shapes = [[input_size, gates_size], [num_units, gates_size]]
    if has_bias:
        shapes.append([2, gates_size] if rnn_mode == "gru" else [gates_size])
    return [tf.cast(random.normal(size=shape), dtype) for shape in shapes]


def expected_params(rnn_mode, kernel, recurrent_kernel, bias=None):
    """By the names of the layout, one matrix after the other."""
    input_size, num_units = kernel.shape[0], recurrent_kernel.shape[0]

    def gate_columns(matrix, gate):
        place = KERAS_PLACE[rnn_mode][GATES[rnn_mode].index(gate)]
        return matrix[..., place * num_units : (place + 1) * num_units]

    if bias is None:
        bias = np.zeros([2, kernel.shape[1]], kernel.dtype)
    elif rnn_mode != "gru":
        bias = np.stack([bias, np.zeros_like(bias)])
    sources = {
        "input_kernel": kernel,
        "recurrent_kernel": recurrent_kernel,
        "input_bias": bias[0],
        "recurrent_bias": bias[1],
    }
    layout = Layout(rnn_mode, 1, num_units, input_size)
    return np.concatenate(
        [gate_columns(sources[r.name.kind], r.name.gate).T.reshape(-1) for r in layout.regions]
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("rnn_mode", GATES)
def test_params_hold_each_weight_where_the_layout_says(rnn_mode, has_bias, dtype):
    for input_size, num_units in SIZES:
        weights = random_weights(rnn_mode, input_size, num_units, dtype, has_bias)
        params = raw_ops.KerasToParams(
            kernel=weights[0],
            recurrent_kernel=weights[1],
            biases=weights[2:],
            rnn_mode=rnn_mode,
        )
        expected = expected_params(rnn_mode, *(w.numpy() for w in weights))
        np.testing.assert_array_equal(params.numpy(), expected)
        stock = pack(rnn_mode, *(weights if has_bias else [*weights, None]))
        np.testing.assert_array_equal(stock.numpy(), expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("rnn_mode", GATES)
def test_gradients_return_each_element_to_its_place(rnn_mode, has_bias, dtype):
    for input_size, num_units in SIZES:
        weights = random_weights(rnn_mode, input_size, num_units, dtype, has_bias)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(weights)
            stock = pack(rnn_mode, *(weights if has_bias else [*weights, None]))
            own = raw_ops.KerasToParams(
                kernel=weights[0],
                recurrent_kernel=weights[1],
                biases=weights[2:],
                rnn_mode=rnn_mode,
            )
        dparams = tf.cast(np.random.default_rng(1).normal(size=own.shape), dtype)
        for mine, theirs in zip(
            tape.gradient(own, weights, dparams),
            tape.gradient(stock, weights, dparams),
            strict=True,
        ):
            np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


@pytest.mark.parametrize("rnn_mode", GATES)
def test_second_gradient_is_the_map_itself(rnn_mode):
    weights = random_weights(rnn_mode, 5, 7)
    with tf.GradientTape() as outer:
        dparams = tf.random.stateless_normal([Layout(rnn_mode, 1, 7, 5).size], [1, 2])
        outer.watch(dparams)
        with tf.GradientTape() as inner:
            inner.watch(weights)
            params = raw_ops.KerasToParams(
                kernel=weights[0],
                recurrent_kernel=weights[1],
                biases=weights[2:],
                rnn_mode=rnn_mode,
            )
        gradients = inner.gradient(params, weights, dparams)
    second = outer.gradient(gradients, dparams, weights)
    np.testing.assert_array_equal(
        second.numpy(), expected_params(rnn_mode, *(w.numpy() for w in weights))
    )


def test_graph_of_unknown_shapes_runs():
    unknown = tf.TensorSpec(None, tf.float32)

    @tf.function(input_signature=[unknown, unknown, unknown])
    def gradients(kernel, recurrent_kernel, bias):
        with tf.GradientTape() as tape:
            tape.watch([kernel, recurrent_kernel, bias])
            params = raw_ops.KerasToParams(
                kernel=kernel, recurrent_kernel=recurrent_kernel, biases=[bias], rnn_mode="gru"
            )
            loss = tf.reduce_sum(params**2) / 2
        return tape.gradient(loss, [kernel, recurrent_kernel, bias])

    weights = random_weights("gru", 3, 5)
    for weight, gradient in zip(weights, gradients(*weights), strict=True):
        np.testing.assert_array_equal(gradient.numpy(), weight.numpy())


def test_shapes_are_inferred():
    @tf.function
    def trace(kernel, recurrent_kernel, bias):
        params = raw_ops.KerasToParams(
            kernel=kernel, recurrent_kernel=recurrent_kernel, biases=[bias], rnn_mode="gru"
        )
        assert params.shape == [3 * 5 * (3 + 5 + 2)]
        back = raw_ops.KerasToParamsBackprop(params_backprop=params, num_units=5, rnn_mode="gru")
        assert back.kernel_backprop.shape == [3, 15]
        assert back.recurrent_kernel_backprop.shape == [5, 15]
        assert back.biases_backprop[0].shape == [2, 15]
        return params

    trace.get_concrete_function(*random_weights("gru", 3, 5))


REFUSED = {
    "recurrent_kernel must have shape": dict(recurrent_kernel=[5, 16]),
    "recurrent_kernel must have shape [H,4*H]": dict(recurrent_kernel=[20]),
    "kernel must have shape [I,4*H] = [?,20]": dict(kernel=[3, 15]),
    "biases[0] must have shape [4*H] = [20]": dict(bias=[2, 20]),
    "num_units must be at least 1, got 0": dict(recurrent_kernel=[0, 0], kernel=[3, 0], bias=[0]),
    "input_size must be at least 1, got 0": dict(kernel=[0, 20]),
}


@pytest.mark.parametrize("message", REFUSED)
@pytest.mark.parametrize("in_graph", [False, True])
def test_wrong_shapes_are_refused(message, in_graph):
    shapes = dict(kernel=[3, 20], recurrent_kernel=[5, 20], bias=[20]) | REFUSED[message]

    def call(kernel, recurrent_kernel, bias):
        return raw_ops.KerasToParams(
            kernel=kernel, recurrent_kernel=recurrent_kernel, biases=[bias], rnn_mode="lstm"
        )

    function = tf.function(call) if in_graph else call
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
        function(**{name: tf.zeros(shape) for name, shape in shapes.items()})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("size", "num_units", "message"),
    [
        ([201], 5, "num_units = 5 and some input_size, that is 160 + a multiple of 20"),
        ([140], 5, "a multiple of 20, got [140]"),
        ([200, 1], 5, "params_backprop must have shape [N], got [200,1]"),
        ([200], 0, "num_units must be at least 1, got 0"),
        ([200], -1, "num_units must be at least 1, got -1"),
        ([200], [5], "num_units is not a scalar"),
    ],
)
def test_wrong_gradients_are_refused(size, num_units, message):
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
        raw_ops.KerasToParamsBackprop(params_backprop=tf.zeros(size), num_units=num_units)
    assert message in str(error.value)


def test_gradients_of_any_size_need_units():
    """Shape functions may not know the size."""

    @tf.function(input_signature=[tf.TensorSpec(None)])
    def gradients(params_backprop):
        return raw_ops.KerasToParamsBackprop(params_backprop=params_backprop, num_units=0)

    with pytest.raises(ValueError, match="num_units must be at least 1, got 0"):
        gradients.get_concrete_function()


def test_two_biases_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError, match="num_biases must be 0 or 1, got 2"):
        raw_ops.KerasToParams(
            kernel=tf.zeros([3, 20]),
            recurrent_kernel=tf.zeros([5, 20]),
            biases=[tf.zeros([20])] * 2,
        )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("rnn_mode", GATES)
@pytest.mark.parametrize("B", [3, 7])
def test_keras_rnn_equals_the_op_on_packed_params(B, rnn_mode, has_bias, time_major, dtype):
    T, I, H = 5, 4, 17
    weights = random_weights(rnn_mode, I, H, dtype, has_bias)
    x = tf.cast(tf.random.stateless_normal([T, B, I] if time_major else [B, T, I], [1, 2]), dtype)
    state = tf.cast(
        tf.random.stateless_normal([1, B, H] if time_major else [B, 1, H], [3, 4]), dtype
    )
    lengths = tf.constant([5, 0, 3, 1, 5, 4, 2][:B])
    call = dict(sequence_lengths=lengths, rnn_mode=rnn_mode, time_major=time_major)

    def run(op, weights_of):
        with tf.GradientTape() as tape:
            tape.watch([x, state, *weights])
            result = op(input=x, input_h=state, input_c=state, **weights_of(), **call)
            loss = tf.reduce_sum(result.output**2) + tf.reduce_sum(result.output_h)
            loss += tf.reduce_sum(result.output_c**2)
        return [*result[:3], *tape.gradient(loss, [x, state, *weights])]

    def keras_weights():
        return dict(kernel=weights[0], recurrent_kernel=weights[1], biases=weights[2:])

    ours = run(raw_ops.KerasRNN, keras_weights)
    packed = run(
        raw_ops.CudnnRNNV3,
        lambda: dict(params=raw_ops.KerasToParams(**keras_weights(), rnn_mode=rnn_mode)),
    )
    # In small calls each layout of weights has its own order of additions, unless it is packed, as
    # 16-bit types of odd sizes are.
    is_small = T * B <= 32 and dtype in ("float32", "float64")
    for mine, theirs in zip(ours, packed, strict=True):
        mine, theirs = (tf.cast(value, tf.float64).numpy() for value in (mine, theirs))
        scale = np.max(np.abs(theirs), initial=1)
        atol = 64 * EPSILONS[dtype] * scale if is_small else 0
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=atol)


def keras_rnn_of(shapes):
    defaults = dict(
        input=[5, 2, 3],
        input_h=[1, 2, 4],
        input_c=[1, 2, 4],
        kernel=[3, 16],
        recurrent_kernel=[4, 16],
        bias=[16],
        sequence_lengths=[2],
    )
    tensors = {
        name: tf.zeros(shape, tf.int32 if name == "sequence_lengths" else tf.float32)
        for name, shape in (defaults | shapes).items()
    }
    biases = [tensors.pop(name) for name in ("bias", "second_bias") if name in tensors]
    return raw_ops.KerasRNN(biases=biases, **tensors)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (dict(kernel=[4, 16]), "kernel must have I = 3 rows for an input of shape [5,2,3]"),
        (
            dict(recurrent_kernel=[5, 20], kernel=[3, 20], bias=[20]),
            "recurrent_kernel must have H = 4 rows",
        ),
        (dict(recurrent_kernel=[4, 12]), "recurrent_kernel must have shape [H,4*H] = [?,16]"),
        (dict(bias=[2, 16]), "biases[0] must have shape [4*H] = [16]"),
        (
            dict(input_h=[2, 2, 4], input_c=[2, 2, 4]),
            "input_h must hold one state a row, got 2",
        ),
        (dict(input_c=[1, 2, 5]), "input_h and input_c must have the same shape"),
        (dict(sequence_lengths=[3]), "sequence_lengths must have shape [B] = [2]"),
        (dict(input=[5, 2]), "input must have shape [T,B,I]"),
        (dict(second_bias=[16]), "num_biases must be 0 or 1, got 2"),
    ],
)
@pytest.mark.parametrize("in_graph", [False, True])
def test_keras_rnn_refuses_wrong_shapes(shapes, message, in_graph):
    function = tf.function(keras_rnn_of) if in_graph else keras_rnn_of
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
        function(shapes)
    assert message in str(error.value)


def test_keras_rnn_infers_shapes():
    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, 3]),
            tf.TensorSpec([None, 1, 4]),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def trace(x, state, lengths):
        result = raw_ops.KerasRNN(
            input=x,
            input_h=state,
            input_c=state,
            kernel=tf.zeros([3, 16]),
            recurrent_kernel=tf.zeros([4, 16]),
            sequence_lengths=lengths,
            time_major=False,
        )
        assert result.output.shape.as_list() == [None, None, 4]
        assert result.output_h.shape.as_list() == [None, 1, 4]
        return result.output

    trace.get_concrete_function()


@pytest.mark.parametrize("rnn_mode", GATES)
def test_keras_rnn_has_second_derivatives(rnn_mode):
    T, B, I, H = 4, 2, 3, 5
    weights = random_weights(rnn_mode, I, H, "float64")
    x = tf.random.stateless_normal([T, B, I], [1, 2], dtype=tf.float64)
    state = tf.random.stateless_normal([1, B, H], [3, 4], dtype=tf.float64)
    watched = [x, state, *weights]

    def second(run):
        with tf.GradientTape() as outer:
            outer.watch(watched)
            with tf.GradientTape() as inner:
                inner.watch(watched)
                result = run()
                loss = tf.reduce_sum(result.output**2) + tf.reduce_sum(result.output_h**3)
            penalty = sum(tf.reduce_sum(g**2) for g in inner.gradient(loss, watched))
        return outer.gradient(penalty, watched)

    call = dict(input=x, input_h=state, input_c=state, sequence_lengths=[4, 2], rnn_mode=rnn_mode)
    keras_weights = dict(kernel=weights[0], recurrent_kernel=weights[1], biases=weights[2:])
    ours = second(lambda: raw_ops.KerasRNN(**keras_weights, **call))
    packed = second(
        lambda: raw_ops.CudnnRNNV3(
            params=raw_ops.KerasToParams(**keras_weights, rnn_mode=rnn_mode), **call
        )
    )
    for mine, theirs in zip(ours, packed, strict=True):
        np.testing.assert_allclose(mine.numpy(), theirs.numpy(), rtol=1e-12, atol=1e-14)


def test_keras_rnn_backprop_refuses_another_call():
    arguments = dict(
        input=tf.zeros([5, 2, 3]),
        input_h=tf.zeros([1, 2, 4]),
        input_c=tf.zeros([1, 2, 4]),
        kernel=tf.zeros([3, 16]),
        recurrent_kernel=tf.zeros([4, 16]),
        biases=[tf.zeros([16])],
        sequence_lengths=[5, 3],
    )
    y, h, c, reserve = raw_ops.KerasRNN(**arguments)
    arguments |= dict(output=y, output_h=h, output_c=c, reserve_space=reserve)
    arguments |= dict(output_backprop=y, output_h_backprop=h, output_c_backprop=c)
    raw_ops.KerasRNNBackprop(**arguments)
    for change, message in [
        (dict(kernel=tf.zeros([3, 20])), "kernel must have shape [I,4*H] = [?,16]"),
        (dict(kernel=tf.zeros([2, 16])), "kernel must have I = 3 rows"),
        (dict(output_backprop=tf.zeros([5, 2, 5])), "Invalid output_backprop shape"),
        (dict(reserve_space=reserve[:-1]), "reserve_space must have the"),
        (dict(reserve_space=tf.zeros([])), "is_training=False"),
        (dict(sequence_lengths=[5, 4]), "reserve_space"),
        (dict(time_major=False, input=tf.zeros([2, 5, 3])), "shape"),
    ]:
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)) as error:
            raw_ops.KerasRNNBackprop(**arguments | change)
        assert message in str(error.value)
