"""What calls leave behind in the process: nothing but scratch, which has a bound.

TensorFlow keeps a kernel for every new set of attributes, some 50 KB each, whichever op it is. So
calls of ours are compared with as many of one of its own.
"""

import gc
import resource

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import subprocesses

# What the C library and Python keep back for a while comes and goes by less.
_NOISE = 2 << 20


def _resident() -> int:
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _growth(call, count: int, warm_up: int) -> int:
    """By how many bytes `count` calls make the process larger, after some others."""
    for i in range(warm_up):
        call(i)
    before = _resident()
    for i in range(count):
        call(warm_up + i)
    return _resident() - before


def _sequences(T, B, H, lengths=None):
    states = tf.zeros([1, B, H])
    return {
        "input": tf.zeros([T, B, H]),
        "input_h": states,
        "input_c": states,
        "sequence_lengths": tf.constant([T] * B if lengths is None else lengths),
    }


def _inputs(T=3, B=2, H=4, lengths=None):
    params = tf.zeros([tf_cudnn_rnn.params_size("lstm", 1, H, H)])
    return _sequences(T, B, H, lengths) | {"params": params}


def _inputs_of_keras(T=3, B=2, H=4):
    matrix = tf.zeros([H, 4 * H])
    return _sequences(T, B, H) | {"kernel": matrix, "recurrent_kernel": matrix}


def _inputs_of_int8(T=3, B=2, H=4):
    scales = tf.zeros([8 * H])
    weights = {"weights": tf.zeros([8 * H * H], tf.int8), "scales": scales, "biases": scales}
    return _sequences(T, B, H) | weights


# ---- Calls of changing shapes ----------------------------------------------------------------


def changing_shapes(count: int) -> None:
    """Prints the growth with the scratch that is kept, and without."""
    shapes = np.random.default_rng(1)

    def call(i):
        T, B, H = (int(shapes.integers(1, most)) for most in (60, 40, 96))
        if i % 2:
            op, weights = tf_cudnn_rnn.raw_ops.KerasRNN, "kernel"
            inputs = _inputs_of_keras(T, B, H) | {"masks": [shapes.random([T, B]) < 0.5]}
        else:
            op, weights = tf_cudnn_rnn.raw_ops.CudnnRNNV3, "params"
            inputs = _inputs(T, B, H, shapes.integers(0, T + 1, B).astype(np.int32))
        with tf.GradientTape() as tape:
            tape.watch(inputs[weights])
            output = op(**inputs)[0]
        tape.gradient(output, inputs[weights])

    # The first ones fill TensorFlow's caches, and the C library's.
    growth = _growth(call, count, warm_up=count // 2)
    released = tf_cudnn_rnn.release_scratch()
    assert tf_cudnn_rnn.release_scratch() == 0
    print(growth, released)


def _assert_flat(count: int) -> None:
    """Fails if memory grows in three processes: what the C library keeps differs among them."""
    growths = []
    for _ in range(3):
        growth, released = map(int, subprocesses.run(changing_shapes, count).split())
        # Blocks as they are kept, forward's and backward's, of the largest call.
        assert 0 < released < 64 << 20
        if growth < _NOISE + released:
            return
        growths.append(growth)
    raise AssertionError(f"{count} calls: {growths} bytes in three processes")


def test_calls_of_changing_shapes_leave_nothing():
    _assert_flat(400)


@pytest.mark.slow
def test_ten_thousand_calls_of_changing_shapes_leave_nothing():
    _assert_flat(10_000)


def released_scratch() -> None:
    """A large call's scratch stays until it is released."""
    inputs = _inputs(T=20, B=256, H=512)
    tf_cudnn_rnn.raw_ops.CudnnRNNV3(**inputs)
    kept = _resident()
    released = tf_cudnn_rnn.release_scratch()
    print(released, kept - _resident())
    before = tf_cudnn_rnn.raw_ops.CudnnRNNV3(**inputs)[0]
    assert np.array_equal(before, tf.zeros_like(before))


def test_release_scratch():
    released, shrunk = map(int, subprocesses.run(released_scratch).split())
    assert 8 << 20 < released <= 256 << 20
    assert shrunk > released / 2  # not all of it need have been touched


# ---- Failures, and new attributes ------------------------------------------------------------


def _refuse(call, error=tf.errors.InvalidArgumentError) -> None:
    with pytest.raises(error):
        call()


def failures() -> dict:
    right, wrong = _inputs(), _inputs(lengths=[3, 9])
    flat = right | {"input": tf.zeros([6])}
    matrix = tf.zeros([3, 4])
    own = tf_cudnn_rnn.raw_ops.CudnnRNNV3
    keras, int8 = tf_cudnn_rnn.raw_ops.KerasRNN, tf_cudnn_rnn.raw_ops.CudnnRNNInt8
    masked = _inputs_of_keras() | {"masks": [tf.ones([2, 3], tf.bool)]}
    scaled = _inputs_of_int8() | {"scales": tf.fill([32], -1.0)}
    return {
        "a length": lambda _: _refuse(lambda: tf.raw_ops.CudnnRNNV3(**wrong)),
        "an attribute": lambda _: _refuse(lambda: tf.raw_ops.CudnnRNNV3(**right, dropout=2.0)),
        "a rank": lambda _: _refuse(lambda: tf.raw_ops.CudnnRNNV3(**flat)),
        "own": lambda _: _refuse(lambda: own(**wrong)),
        "a mask": lambda _: _refuse(lambda: keras(**masked)),
        "scales": lambda _: _refuse(lambda: int8(**scaled)),
        "TensorFlow's": lambda _: _refuse(lambda: tf.raw_ops.MatMul(a=matrix, b=matrix)),
    }


def refused_graphs() -> dict:
    """Traces that a shape function ends, each of a new graph."""
    flat = _inputs() | {"input": tf.zeros([6])}
    vector = tf.zeros([4])
    matrix = tf.zeros([3, 4])
    calls = {
        "a rank": lambda: tf.raw_ops.CudnnRNNV3(**flat),
        "own": lambda: tf_cudnn_rnn.raw_ops.CudnnRNNV3(**flat),
        "own vector": lambda: tf_cudnn_rnn.params_to_canonical(vector, "lstm", 1, 2, 2),
        "TensorFlow's": lambda: tf.raw_ops.MatMul(a=matrix, b=matrix),
    }

    def traced(call):
        function = tf.function(call, autograph=False)
        return lambda _: _refuse(function.get_concrete_function, ValueError)

    return {name: traced(call) for name, call in calls.items()}


def new_attributes() -> dict:
    inputs = _inputs()
    own = tf_cudnn_rnn.raw_ops.CudnnRNNV3
    cell = {
        "seq_len_max": tf.constant(3, tf.int64),
        "x": inputs["input"],
        "cs_prev": tf.zeros([2, 4]),
        "h_prev": tf.zeros([2, 4]),
        "w": tf.zeros([8, 16]),
        "wci": tf.zeros([4]),
        "wcf": tf.zeros([4]),
        "wco": tf.zeros([4]),
        "b": tf.zeros([16]),
    }
    return {
        "a seed": lambda i: tf.raw_ops.CudnnRNNV3(**inputs, seed=i),
        "own": lambda i: own(**inputs, dropout=1 / (2 + i)),
        "TensorFlow's": lambda i: tf.raw_ops.BlockLSTMV2(**cell, cell_clip=float(i)),
    }


KINDS = {
    "failures": failures,
    "refused_graphs": refused_graphs,
    "new_attributes": new_attributes,
}


def growths(kind: str, count: int) -> None:
    for name, call in KINDS[kind]().items():
        print(name, _growth(call, count, warm_up=100), sep=": ")


def _assert_about_as_of_tensorflow(kind: str, count: int) -> None:
    """Calls leave hardly more than as many of an op of TensorFlow's."""
    printed = subprocesses.run(growths, kind, count)
    growth = {name: int(number) for name, number in (p.split(": ") for p in printed.splitlines())}
    theirs = growth.pop("TensorFlow's")
    for name, ours in growth.items():
        assert ours < 1.5 * theirs + _NOISE, f"{name}: {ours} bytes, {theirs} of TensorFlow's op"


@pytest.mark.parametrize(
    "count", [1000, pytest.param(20_000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_failures_leave_what_tensorflow_keeps_of_them(count):
    """TensorFlow keeps the text of each error. Ours are longer, by a third at most."""
    _assert_about_as_of_tensorflow("failures", count)


@pytest.mark.parametrize(
    "count", [200, pytest.param(5000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_refused_graphs_leave_what_tensorflow_keeps_of_them(count):
    """A shape function refuses an op while a graph is traced, each time anew."""
    _assert_about_as_of_tensorflow("refused_graphs", count)


@pytest.mark.parametrize(
    "count", [200, pytest.param(3000, marks=pytest.mark.slow)], ids=["some", "many"]
)
def test_new_attributes_leave_what_tensorflow_keeps_of_them(count):
    """BlockLSTM has about as many inputs, outputs and attributes, which is what is kept."""
    _assert_about_as_of_tensorflow("new_attributes", count)


# ---- More than 2^31 elements -----------------------------------------------------------------


def vector_of_more_than_2_31_elements(with_backward: bool) -> None:
    """A call with params that 32 bits cannot count, in float16."""
    H = 16384
    size = tf_cudnn_rnn.params_size("lstm", 1, H, H)
    assert size > 1 << 31
    # Biases of the output gate and of the cell, from the recurrent side: the last of params.
    output_bias = np.random.default_rng(1).normal(size=H).astype(np.float16)
    params = np.zeros(size, np.float16)
    params[-H:] = output_bias
    params[-2 * H : -H] = 0.5
    states = tf.zeros([1, 1, H], tf.float16)
    inputs = {
        "input": tf.ones([1, 1, H], tf.float16),
        "input_h": states,
        "input_c": states,
        "params": tf.experimental.dlpack.from_dlpack(params.__dlpack__()),  # not copied
        "sequence_lengths": tf.constant([1]),
    }
    made = tf.raw_ops.CudnnRNNV3(**inputs)
    sigmoid = 1 / (1 + np.exp(-output_bias.astype(np.float32)))
    m = np.tanh(0.5 * np.tanh(0.5))  # of the cell, whose input gate is half open
    np.testing.assert_allclose(made.output[0, 0], m * sigmoid, atol=2e-3)
    if not with_backward:
        return
    gradients = tf.raw_ops.CudnnRNNBackpropV3(
        **inputs,
        output=made.output,
        output_h=made.output_h,
        output_c=made.output_c,
        output_backprop=tf.ones_like(made.output),
        output_h_backprop=states,
        output_c_backprop=states,
        reserve_space=made.reserve_space,
        host_reserved=made.host_reserved,
    )
    np.testing.assert_allclose(
        gradients.params_backprop[-H:], m * sigmoid * (1 - sigmoid), atol=2e-3
    )


@pytest.mark.slow
@pytest.mark.parametrize("with_backward", [False, True], ids=["5_GB", "20_GB"])
def test_a_vector_of_more_than_2_31_elements(with_backward):
    subprocesses.run(vector_of_more_than_2_31_elements, with_backward)
