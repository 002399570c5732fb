"""Sizes of which some product overflows, or that nobody has the memory for: each is an error."""

import ast
import itertools
import json
import pathlib
import re
import time

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.fuzz import op_calls
from tests.helpers import subprocesses
from tests.ops import calls
from tests.ops.calls import zeros
from tests.reference import judge
from tests.reliability import refusals
from tests.reliability.refusals import INVALID, MOST, assert_refused, int32

BIDIRECTIONAL = {"direction": "bidirectional"}
# Sizes of LSTMs, of which N = 4 D H (I + H + 2).
ZERO_IN_32_BITS = {"num_units": 2**16, "input_size": 2**16 - 2}  # 2^35
ZERO_IN_64_BITS = {"num_units": 2**30, "input_size": 2**30 - 2, **BIDIRECTIONAL}  # 2^64
BYTES_ARE_ZERO = {"num_units": 2**29, "input_size": 2**29 - 2}  # 2^61, of 8 bytes each


@pytest.mark.parametrize("op", calls.PARAMS_SIZE)
def test_sizes_at_the_end_of_32_bits(op):
    # N = H (I + H + 2)
    network = {"rnn_mode": "rnn_relu", "num_units": 1}
    for size in (MOST - 2**10, MOST - 3, MOST):
        for T in (tf.float32, tf.float64):
            arguments = calls.arguments(op, **network, input_size=size - 3, T=T)
            assert calls.function(op)(**arguments).numpy().tolist() == [size]
    for input_size in (MOST - 2, MOST - 1, MOST):
        arguments = calls.arguments(op, **network, input_size=input_size)
        assert_refused(op, "params_size does not fit S = int32", **network, input_size=input_size)
        wide = calls.function(op)(**arguments | {"S": tf.int64})
        assert wide.numpy().tolist() == [input_size + 3]
    assert_refused(op, "params_size does not fit S = int32", **ZERO_IN_32_BITS)


@pytest.mark.parametrize("S", [tf.int32, tf.int64])
@pytest.mark.parametrize("op", calls.PARAMS_SIZE)
def test_sizes_that_are_zero_in_64_bits(op, S):
    assert_refused(op, "the size of params overflows", **ZERO_IN_64_BITS, S=S)
    most = {"num_layers": MOST, "num_units": MOST, "input_size": MOST}
    for rnn_mode, direction in itertools.product(judge.RNN_MODES, judge.DIRECTIONS):
        options = {"rnn_mode": rnn_mode, "direction": direction, "S": S}
        assert_refused(op, "the size of params overflows", **most, **options)


@pytest.mark.parametrize("sizes", [ZERO_IN_32_BITS, ZERO_IN_64_BITS, BYTES_ARE_ZERO], ids=str)
@pytest.mark.parametrize("op", calls.TO_CANONICAL + calls.TO_PARAMS)
def test_no_weights_for_sizes_that_overflow(op, sizes):
    count = 16 if "direction" in sizes else 8
    if op in calls.TO_CANONICAL:
        nothing = {"params": zeros(0)}
        if op in calls.TO_CANONICAL_V2:
            nothing |= {"num_params_weights": count, "num_params_biases": count}
        else:
            nothing["num_params"] = count
    else:
        nothing = {"weights": [zeros(0)] * count, "biases": [zeros(0)] * count}
    message = "the size of params overflows|Mismatching RNN parameter size|Params size mismatch"
    assert_refused(op, message, **nothing, **sizes)


@pytest.mark.parametrize("op", (*refusals.FORWARD, calls.READ_RESERVE))
def test_no_params_for_shapes_that_overflow(op):
    """Tensors of no rows have any sizes, without memory."""
    for H, I in ((2**16, 2**16 - 2), (2**30, 2**30 - 2), (2**40, 5), (2**59, 1), (1, 2**57)):
        for bidirectional in (False, True) if op != calls.KERAS_RNN else (False,):
            D = 1 + bidirectional
            states = {name: zeros(D, 0, H) for name in ("input_h", "input_c")}
            changes = {"input": zeros(4, 0, I), **states}
            if op == calls.INT8:
                changes["weights"] = zeros(0, dtype=np.int8)
            elif op != calls.KERAS_RNN:
                changes["params"] = zeros(0)
            if bidirectional:
                changes |= BIDIRECTIONAL
            if op in refusals.WITH_LENGTHS:
                changes["sequence_lengths"] = int32()
            message = "the size of params overflows|Mismatching RNN parameter size"
            message += "|kernel must have I = |weights must have shape|rows of at most 131072"
            with pytest.raises(INVALID, match=message):
                calls.function(op)(**calls.arguments(op, **changes))


def test_no_params_for_keras_weights_that_overflow():
    """Matrices of no columns have any rows, without memory."""
    op = calls.KERAS_TO_PARAMS
    for H in (2**29, 2**30, 2**40, 2**60):
        for rnn_mode in judge.RNN_MODES:
            weights = {"kernel": zeros(5, 0), "recurrent_kernel": zeros(H, 0), "biases": []}
            message = "the size of params overflows|recurrent_kernel must have shape"
            assert_refused(op, message, graphs=False, **weights, rnn_mode=rnn_mode)
    for I in (0, 2**40, 2**60):
        assert_refused(op, "kernel must have shape", graphs=False, kernel=zeros(I, 0))


@pytest.mark.parametrize("num_units", [2**16, 2**27, 2**29, 2**30, MOST])
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_no_keras_weights_for_sizes_that_overflow(rnn_mode, num_units):
    op = calls.KERAS_TO_PARAMS_BACKPROP
    for size in (0, 1, 176):
        message = "the size of params overflows|params_backprop must have as many elements"
        changes = {"params_backprop": zeros(size), "num_units": num_units, "rnn_mode": rnn_mode}
        assert_refused(op, message, **changes)


def _memory(name: str) -> int:
    """A line of the process's status, in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s*(\d+) kB", status).group(1)) * 1024


def print_memory_of_absurd_calls() -> None:
    """Prints by how many bytes calls of absurd sizes raised the peak of this process's memory."""
    absurd = []
    for op in refusals.SIZED:
        sizes = (2**20, MOST)
        for name in ("num_layers", "num_units", "input_size"):
            if op in calls.PARAMS_SIZE and name != "num_units":
                continue  # a size that fits
            absurd += [(op, {name: size}) for size in sizes]
        absurd.append((op, {"num_layers": MOST, "num_units": MOST, "input_size": MOST}))
    for op in (*refusals.FORWARD, calls.READ_RESERVE):
        nobody = {"sequence_lengths": int32()} if op in refusals.WITH_LENGTHS else {}
        for L, H in ((2**20, 4), (2**40, 4), (2**58, 4), (1, 2**40), (2**30, 2**30)):
            states = {name: zeros(L, 0, H) for name in ("input_h", "input_c")}
            absurd.append((op, {"input": zeros(4, 0, 5), **states, **nobody}))
    for H in (2**30, 2**40, 2**60):
        weights = {"kernel": zeros(H, 0), "recurrent_kernel": zeros(H, 0), "biases": [zeros(0)]}
        absurd.append((calls.KERAS_TO_PARAMS, weights))
        absurd.append((calls.KERAS_TO_PARAMS_BACKPROP, {"num_units": min(H, MOST)}))
    calls_to_make = [(op, calls.arguments(op, **changes)) for op, changes in absurd]
    # So that threads and arenas are there.
    for op in refusals.ALL:
        calls.function(op)(**calls.arguments(op))
        _refuse(op, calls.arguments(op, **_wrong(op)))
    before = _memory("VmPeak")
    for op, arguments in calls_to_make:
        _refuse(op, arguments)
    print(json.dumps([len(calls_to_make), _memory("VmPeak") - before, before]))


def _wrong(op: str) -> dict:
    if op == calls.INT8:
        return {"scales": zeros(1)}
    if op not in calls.KERAS:
        return {"dropout": 2.0}
    return {"num_units": -1} if op == calls.KERAS_TO_PARAMS_BACKPROP else {"kernel": zeros(1)}


def _refuse(op: str, arguments: dict) -> None:
    try:
        calls.function(op)(**arguments)
    except INVALID:
        return
    raise AssertionError(f"{op} took {arguments}")


def test_absurd_sizes_with_tiny_buffers_are_refused_before_memory_is_asked_for():
    count, growth, _ = json.loads(subprocesses.run(print_memory_of_absurd_calls))
    assert count > 60
    # Peaks of addresses, used or not: a thread's arena is 64 MiB, a tensor for these sizes GiB.
    assert growth <= 128 << 20, f"{growth >> 20} MiB"


def test_absurd_sizes_are_refused_at_once():
    for op in calls.TO_CANONICAL + calls.TO_PARAMS:
        start = time.process_time()
        with pytest.raises(INVALID):
            calls.function(op)(**calls.arguments(op, num_layers=MOST))
        # A loop over so many layers would take seconds of this thread.
        assert time.process_time() - start < 1, op


@pytest.mark.parametrize("op", (*refusals.FORWARD, calls.READ_RESERVE))
def test_absurd_states_are_refused_at_once(op):
    start = time.process_time()
    states = {name: zeros(2**40, 0, 4) for name in ("input_h", "input_c")}
    lengths = {"sequence_lengths": int32()} if op in refusals.WITH_LENGTHS else {}
    with pytest.raises(INVALID):
        calls.function(op)(**calls.arguments(op, input=zeros(4, 0, 5), **states, **lengths))
    assert time.process_time() - start < 1


_HUGE_MASK = """
import tensorflow as tf
from tf_cudnn_rnn import raw_ops

most = 2**40
shapes = [[most, None, 1], [1, most, 1], [1, None, 1], [1, 4], [1, 4], [None], [None, None]]
specs = [tf.TensorSpec(shape) for shape in shapes[:5]]
specs += [tf.TensorSpec(shapes[5], tf.int32), tf.TensorSpec(shapes[6], tf.bool)]
specs.append(tf.TensorSpec(None))

@tf.function(input_signature=specs)
def call(x, h, c, kernel, recurrent_kernel, lengths, mask, any):
    inputs = dict(
        input=x, input_h=h, input_c=c, kernel=kernel, recurrent_kernel=recurrent_kernel,
        sequence_lengths=lengths, masks=[mask],
    )
    output = raw_ops.KerasRNN(**inputs)[0]
    gradients = raw_ops.KerasRNNBackprop(
        **inputs, output=any, output_h=any, output_c=any, output_backprop=any,
        output_h_backprop=any, output_c_backprop=any, reserve_space=any,
    )
    return output, gradients[0]

print([output.shape.as_list() for output in call.get_concrete_function().outputs])
"""


def test_a_mask_of_sizes_whose_product_overflows():
    """No tensor has both, so nothing but the mask's rule brings them together."""
    shapes = ast.literal_eval(subprocesses.run_code(_HUGE_MASK, prepared=True))
    assert shapes == [[2**40, 2**40, 1], [2**40, None, 1]]


@pytest.mark.parametrize("op", op_calls.WITH_MASKS)
def test_masks_of_absurd_sizes(op):
    """Without elements they have any sizes, without memory."""
    for shape in ([2**40, 0], [0, 2**62], [2**40, 3, 0], [0] * 8):
        message = r"masks\[0\] must have shape"
        assert_refused(op, message, masks=[np.zeros(shape, bool)])


@pytest.mark.parametrize("time_major", [True, False])
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_an_empty_batch_has_any_number_of_steps(rnn_mode, time_major):
    """Their product with sizes overflows, as the sanitizer of undefined behaviour would see."""
    T, L, H, I = 2**59, 2, 17, 16
    params = tf.ones([tf_cudnn_rnn.params_size(rnn_mode, L, H, I)])
    states = zeros(L, 0, H) if time_major else zeros(0, L, H)
    output = tf_cudnn_rnn.raw_ops.CudnnRNNV3(
        input=tf.zeros([T, 0, I] if time_major else [0, T, I]),
        input_h=states,
        input_c=states,
        params=params,
        sequence_lengths=np.zeros([0], np.int32),
        rnn_mode=rnn_mode,
        dropout=0.5,
        rng_seed=[1, 2],
        time_major=time_major,
    ).output
    assert output.shape == ([T, 0, H] if time_major else [0, T, H])
