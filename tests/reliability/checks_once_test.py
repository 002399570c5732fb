"""What a kernel checks is what it uses, though others write the tensor's memory meanwhile.

A reference variable of TF1 is updated by another op of its graph; a program that lent memory
through DLPack writes it when it likes. Numbers may come out wrong then, and nothing else.
"""

import functools
import tempfile
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import subprocesses
from tests.ops import calls

T, B, H = 50, 64, 4
_PARAMS = tf_cudnn_rnn.params_size("lstm", 2, H, H)
# Of lengths; the first one is right.
_VALUES = (T, 10**9, -(10**9), T + 1)

# A call that writes out of bounds ends the process within these.
SECONDS = 1
LONG_SECONDS = 60
PATIENT_SECONDS = 60


class _Writer:
    """Calls write() again and again on another thread."""

    def __init__(self, write):
        self._write = write
        self._stops = False
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        while not self._stops:
            self._write()

    def __enter__(self):
        self._thread.start()

    def __exit__(self, *_):
        self._stops = True
        self._thread.join()


def _count(seconds: float, run, *, why: str = "sequence_lengths", until_both: bool = False) -> None:
    """Prints how often run() came to an end, and how often it was refused.

    Args:
      until_both: goes on until there was one of each, for as long as a busy machine may need.
    """
    done = refused = 0
    end = time.monotonic() + seconds
    last_end = end + PATIENT_SECONDS if until_both else end
    while (now := time.monotonic()) < end or (now < last_end and not (done and refused)):
        try:
            run()
            done += 1
        except tf.errors.InvalidArgumentError as error:
            assert why in str(error), error
            refused += 1
    print(done, refused)


def _forward(lengths, **options):
    states = tf.zeros([2, B, H])
    return tf.raw_ops.CudnnRNNV3(
        input=tf.zeros([T, B, H]),
        input_h=states,
        input_c=states,
        params=tf.zeros([_PARAMS]),
        sequence_lengths=lengths,
        dropout=0.5,
        seed=1,
        **options,
    )


def _backward(lengths, forward, reserve_space=None):
    states = tf.zeros([2, B, H])
    return tf.raw_ops.CudnnRNNBackpropV3(
        input=tf.zeros([T, B, H]),
        input_h=states,
        input_c=states,
        params=tf.zeros([_PARAMS]),
        sequence_lengths=lengths,
        output=forward.output,
        output_h=forward.output_h,
        output_c=forward.output_c,
        output_backprop=forward.output,
        output_h_backprop=forward.output_h,
        output_c_backprop=forward.output_c,
        reserve_space=forward.reserve_space if reserve_space is None else reserve_space,
        host_reserved=forward.host_reserved,
        dropout=0.5,
        seed=1,
    )


def _inputs_of_keras(lengths) -> dict:
    states = tf.zeros([1, B, H])
    return {
        "input": tf.zeros([T, B, H]),
        "input_h": states,
        "input_c": states,
        "kernel": tf.zeros([H, 4 * H]),
        "recurrent_kernel": tf.zeros([H, 4 * H]),
        "biases": [tf.zeros([4 * H])],
        "sequence_lengths": lengths,
    }


def _forward_of_keras(lengths):
    return tf_cudnn_rnn.raw_ops.KerasRNN(**_inputs_of_keras(lengths))


def _backward_of_keras(lengths, forward):
    return tf_cudnn_rnn.raw_ops.KerasRNNBackprop(
        **_inputs_of_keras(lengths),
        output=forward.output,
        output_h=forward.output_h,
        output_c=forward.output_c,
        output_backprop=forward.output,
        output_h_backprop=forward.output_h,
        output_c_backprop=forward.output_c,
        reserve_space=forward.reserve_space,
    )


def _counting(mask, **options) -> dict:
    """Inputs of KerasRNN by which each output is the number of valid steps so far."""
    return {
        "input": tf.ones([T, B, 1]),
        "input_h": tf.zeros([1, B, 1]),
        "input_c": tf.zeros([]),
        "kernel": tf.ones([1, 1]),
        "recurrent_kernel": tf.ones([1, 1]),
        "sequence_lengths": tf.fill([B], T),
        "rnn_mode": "rnn_relu",
        "masks": [mask],
        **options,
    }


def _int8(lengths, scales=None):
    states = tf.zeros([1, B, H])
    return tf_cudnn_rnn.raw_ops.CudnnRNNInt8(
        input=tf.ones([T, B, H]),
        input_h=states,
        input_c=states,
        weights=tf.ones([8 * H * H], tf.int8),
        scales=tf.ones([8 * H]) if scales is None else scales,
        biases=tf.zeros([8 * H]),
        sequence_lengths=lengths,
    )


def _masks(lengths, reserve_space):
    """Of what _forward() returned."""
    states = tf.zeros([2, B, H])
    masks, _ = calls.function(calls.READ_RESERVE)(
        input=tf.zeros([T, B, H]),
        input_h=states,
        input_c=states,
        params=tf.zeros([_PARAMS]),
        sequence_lengths=lengths,
        reserve_space=reserve_space,
        M=tf.float32,
        dropout=0.5,
    )
    return masks


def reference_variable(seconds: float, of_one_step: bool) -> None:
    """Other steps write the lengths, or ops of the same one."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.Variable(np.full(B, T, np.int32), use_resource=False, trainable=False)
        writes = [variable.assign(np.full(B, value, np.int32)).op for value in _VALUES]
        forward = _forward(variable)
        gradients = _backward(variable, forward)
        ends = [tf.reduce_sum(forward.output), tf.reduce_sum(gradients.input_backprop)]
        session.run(v1.global_variables_initializer())
        if of_one_step:
            _count(seconds, lambda: session.run([ends, writes]))
        else:
            with _Writer(lambda: [session.run(write) for write in writes]):
                _count(seconds, lambda: session.run(ends))


def signature_of_a_saved_model(seconds: float) -> None:
    """A stranger's signature writes the lengths that it reads."""
    v1 = tf.compat.v1
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model"
        with tf.Graph().as_default(), v1.Session() as session:
            variable = v1.Variable(np.full(B, T, np.int32), use_resource=False, trainable=False)
            forward = _forward(variable)
            gradients = _backward(variable, forward)
            writes = [variable.assign(np.full(B, value, np.int32)) for value in _VALUES]
            outputs = {
                "end": tf.reduce_sum(forward.output) + tf.reduce_sum(gradients.input_backprop),
                "written": tf.stack([write[0] for write in writes]),
            }
            session.run(v1.global_variables_initializer())
            v1.saved_model.simple_save(session, path, {"variable": variable}, outputs)
        with tf.Graph().as_default(), v1.Session() as session:
            meta_graph = v1.saved_model.load(session, ["serve"], path)
            infos = meta_graph.signature_def["serving_default"].outputs
            assert "VariableV2" in {node.op for node in meta_graph.graph_def.node}
            names = [info.name for info in infos.values()]
            _count(seconds, lambda: session.run(names))


def reference_variable_of_other_shapes(seconds: float) -> None:
    """What a step has taken stays its own when the variable gets other memory."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.Variable(
            np.full(B, T, np.int32), use_resource=False, trainable=False, validate_shape=False
        )
        writes = [
            v1.assign(variable, np.full(size, T, np.int32), validate_shape=False).op
            for size in (B, 1, 1000, B)
        ]
        ends = tf.reduce_sum(_forward(variable).output)
        session.run(v1.global_variables_initializer())
        with _Writer(lambda: [session.run(write) for write in writes]):
            _count(seconds, lambda: session.run(ends))


def _lend(array: np.ndarray) -> tf.Tensor:
    tensor = tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    before = array.copy()
    array[...] = array == 0  # which changes any value
    assert np.array_equal(tensor, array), "the memory is not shared"
    array[...] = before
    return tensor


def lent_lengths(seconds: float) -> None:
    _count_both_passes(seconds, _forward, _backward)


def lent_lengths_beside_keras_weights(seconds: float) -> None:
    _count_both_passes(seconds, _forward_of_keras, _backward_of_keras)


def _count_both_passes(seconds: float, forward, backward) -> None:
    made = forward(tf.fill([B], T))

    def run(lengths):
        forward(lengths)
        backward(lengths, made)

    _count_with_lent_lengths(seconds, run)


def lent_lengths_of_a_reader(seconds: float) -> None:
    forward = _forward(tf.fill([B], T))
    _count_with_lent_lengths(seconds, lambda lengths: _masks(lengths, forward.reserve_space))


def lent_lengths_beside_int8_weights(seconds: float) -> None:
    _count_with_lent_lengths(seconds, _int8)


def lent_scales(seconds: float) -> None:
    """A call that was not refused has used what was checked."""
    scales = np.full(8 * H, 0.1, np.float32)
    lent = _lend(scales)
    lengths = tf.fill([B], T)

    def write():
        for value in (np.nan, 0.2, np.inf, 0.3, -1, 0.1):
            scales[-1] = value

    def run():
        output = _int8(lengths, lent).output
        assert np.isfinite(output).all()

    with _Writer(write):
        _count(seconds, run, why="scales must be finite", until_both=True)


def lent_masks(seconds: float) -> None:
    """Any mask is right. A call takes as many steps as it says that it took, and those alone."""
    mask = np.ones([T, B], bool)
    lent = _lend(mask)
    others = np.random.default_rng(1).random([8, T, B]) < 0.5
    counts = set()

    def write():
        for other in others:
            mask[...] = other

    def run():
        for go_backwards in (False, True):
            call = _counting(lent, go_backwards=go_backwards)
            outputs = tf_cudnn_rnn.raw_ops.KerasRNN(**call)
            output, last = outputs.output.numpy()[:, :, 0], outputs.output_h.numpy()[0, :, 0]
            valid = output > 0
            np.testing.assert_array_equal(output, np.where(valid, np.cumsum(valid, axis=0), 0))
            np.testing.assert_array_equal(last, np.sum(valid, axis=0))
            counts.add(last.tobytes())

    with _Writer(write):
        _count(seconds, run)
    assert len(counts) > 1, "no call saw another mask"


def lent_masks_of_backward(seconds: float) -> None:
    """Those of the forward call, or others, which are refused."""
    mask = np.ones([T, B], bool)
    forward = tf_cudnn_rnn.raw_ops.KerasRNN(**_counting(mask))
    call = _counting(_lend(mask), **forward._asdict())
    for name in ("output", "output_h", "output_c"):
        call[f"{name}_backprop"] = call[name]

    def write():
        for valid in (False, True):
            mask[1::2] = valid
            time.sleep(0.005)

    with _Writer(write):
        run = functools.partial(tf_cudnn_rnn.raw_ops.KerasRNNBackprop, **call)
        _count(seconds, run, why="reserve_space was made by", until_both=True)


def _count_with_lent_lengths(seconds: float, run) -> None:
    lengths = np.full(B + 1, T, np.int32)[1:]  # not at the beginning of a line
    lent = _lend(lengths)

    def write():
        # Wrong ones come and go for a while; then the right ones stay, for calls to come to an end.
        end = time.monotonic() + 0.08
        while time.monotonic() < end:
            for value in _VALUES:
                lengths[:] = value
        lengths[:] = T
        time.sleep(0.01)

    with _Writer(write):
        _count(seconds, lambda: run(lent), until_both=True)


def lent_reserve(seconds: float) -> None:
    lengths = tf.fill([B], T)
    forward = _forward(lengths)
    _count_with_lent_reserve(seconds, lambda lent: _backward(lengths, forward, lent))


def lent_reserve_of_a_reader(seconds: float) -> None:
    lengths = tf.fill([B], T)
    _count_with_lent_reserve(seconds, lambda lent: _masks(lengths, lent))


def _count_with_lent_reserve(seconds: float, run) -> None:
    """The header holds the dropout key, which must be bytes."""
    forward = _forward(tf.fill([B], T))
    reserve = forward.reserve_space.numpy().copy()
    key = reserve[8]
    lent = _lend(reserve)

    def write():
        for value in (-1, 0.5, 300, 1e30, np.nan, key):
            reserve[8] = value

    with _Writer(write):
        _count(seconds, lambda: run(lent), why="reserve_space was made by", until_both=True)


def lent_sizes(seconds: float) -> None:
    """Of ops that take the sizes of a network as tensors."""
    sizes = np.array([1, H, H], np.int32)
    num_layers, num_units, input_size = (_lend(sizes[k : k + 1].reshape([])) for k in range(3))
    network = {"num_layers": num_layers, "num_units": num_units, "input_size": input_size}
    size = tf_cudnn_rnn.params_size("lstm", 1, H, H)
    weights = [tf.zeros([H, H])] * 8
    biases = [tf.zeros([H])] * 8

    def write():
        for k, value in ((0, 2), (1, 2**31 - 1), (2, -1), (1, H + 1), (2, 2**30), (0, 0)):
            before = sizes[k]
            sizes[k] = value
            sizes[k] = before

    def run():
        tf.raw_ops.CudnnRNNParamsSize(**network, T=tf.float32, S=tf.int64)
        tf.raw_ops.CudnnRNNParamsToCanonicalV2(
            **network, params=tf.zeros([size]), num_params_weights=8, num_params_biases=8
        )
        tf.raw_ops.CudnnRNNCanonicalToParamsV2(**network, weights=weights, biases=biases)

    with _Writer(write):
        _count(seconds, run, why="", until_both=True)  # any of the sizes may be wrong


def lent_num_units(seconds: float) -> None:
    num_units = np.array([H], np.int32)
    lent = _lend(num_units.reshape([]))
    gradient = tf.zeros([tf_cudnn_rnn.params_size("lstm", 1, H, H)])

    def write():
        for value in (H, 2**31 - 1, -1, H + 1, 2**30, 0, 1):
            num_units[0] = value

    def run():
        tf_cudnn_rnn.raw_ops.KerasToParamsBackprop(params_backprop=gradient, num_units=lent)

    with _Writer(write):
        _count(seconds, run, why="", until_both=True)  # it may be no size, or one that does not fit


def lent_seeds(seconds: float) -> None:
    """Any two numbers are seeds: no call is refused."""
    seeds = np.array([1, 2], np.int64)
    lent = _lend(seeds)
    states = tf.zeros([2, B, H])

    def write():
        for value in (0, -1, 2**63 - 1, -(2**63), 7):
            seeds[:] = value

    def run():
        tf_cudnn_rnn.raw_ops.CudnnRNNV3(
            input=tf.ones([T, B, H]),
            input_h=states,
            input_c=states,
            params=tf.ones([_PARAMS]),
            sequence_lengths=tf.fill([B], T),
            dropout=0.5,
            rng_seed=lent,
        )

    with _Writer(write):
        _count(seconds, run, why="")  # there is no wrong seed, as the test asserts


_KINDS = {
    "other steps write a variable": lambda seconds: reference_variable(seconds, of_one_step=False),
    "one step writes a variable": lambda seconds: reference_variable(seconds, of_one_step=True),
    "a signature writes a variable": signature_of_a_saved_model,
    "a variable of other shapes": reference_variable_of_other_shapes,
    "lent lengths": lent_lengths,
    "lent lengths beside Keras' weights": lent_lengths_beside_keras_weights,
    "lent lengths beside int8 weights": lent_lengths_beside_int8_weights,
    "lent lengths of a reader": lent_lengths_of_a_reader,
    "lent masks": lent_masks,
    "lent masks of backward": lent_masks_of_backward,
    "lent scales": lent_scales,
    "a lent reserve": lent_reserve,
    "a lent reserve of a reader": lent_reserve_of_a_reader,
    "lent sizes": lent_sizes,
    "a lent num_units": lent_num_units,
    "lent seeds": lent_seeds,
}


# Of these none is wrong.
_ALL_RIGHT = {"lent masks", "lent seeds"}
# Whether steps of a session meet, nobody knows.
_WITHOUT_BOTH = {
    "other steps write a variable",
    "one step writes a variable",
    "a signature writes a variable",
    "a variable of other shapes",
    *_ALL_RIGHT,
}


def all_kinds(seconds: float) -> None:
    for kind, write_and_call in _KINDS.items():
        print(kind, end=": ", flush=True)
        write_and_call(seconds)


def _assert_all_kinds_end_well(seconds: float) -> None:
    printed = subprocesses.run(all_kinds, seconds)
    counts = dict(line.split(": ") for line in printed.splitlines())
    assert list(counts) == list(_KINDS)
    for kind in counts.keys() - _WITHOUT_BOTH:
        # Without both it would be no test.
        done, refused = map(int, counts[kind].split())
        assert done > 0 and refused > 0, printed
    for kind in _ALL_RIGHT:
        done, refused = map(int, counts[kind].split())
        assert done > 0 and refused == 0, printed
    for kind in _WITHOUT_BOTH:
        assert any(map(int, counts[kind].split())), printed


def test_while_others_write():
    _assert_all_kinds_end_well(SECONDS)


@pytest.mark.slow
def test_while_others_write_for_long():
    _assert_all_kinds_end_well(LONG_SECONDS)


def test_memory_that_is_not_aligned():
    """TensorFlow's own accessors abort the process where memory is not aligned to lines."""
    shifted = np.zeros(9, np.int64)[1:3]
    sizes = np.full(9, H, np.int32)[1:]
    lengths = _lend(np.full(B + 1, T, np.int32)[1:])
    states = tf.zeros([2, B, H])
    outputs = tf_cudnn_rnn.raw_ops.CudnnRNNV3(
        input=_lend(np.zeros(1 + T * B * H, np.float32)[1:].reshape(T, B, H)),
        input_h=states,
        input_c=states,
        params=_lend(np.zeros(1 + _PARAMS, np.float32)[1:]),
        sequence_lengths=lengths,
        rng_seed=_lend(shifted),
    )
    assert np.array_equal(outputs[0], np.zeros([T, B, H]))
    size = tf.raw_ops.CudnnRNNParamsSize(
        num_layers=_lend(np.ones(2, np.int32)[1:].reshape([])),
        num_units=_lend(sizes[:1].reshape([])),
        input_size=_lend(sizes[1:2].reshape([])),
        T=tf.float32,
        S=tf.int32,
        rnn_mode="lstm",
    )
    assert size.numpy()[0] == tf_cudnn_rnn.params_size("lstm", 1, H, H)
