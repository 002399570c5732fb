"""What has crashed recurrent ops before, or could be used to read memory: each must be an error.

The numbers are those of public advisories about TensorFlow and of its public issues. Where one is
about another recurrent op, the same trick is tried on these.
"""

import itertools
import json
import pathlib
import re
import time

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.ops import calls
from tests.ops.calls import zeros
from tests.python import running, subprocesses
from tests.reference import judge

INVALID = tf.errors.InvalidArgumentError
# While a function is traced, TensorFlow makes others of it.
INVALID_IN_A_GRAPH = (INVALID, ValueError)
MOST = 2**31 - 1
OTHERS = (*calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS)
ALL_OPS = (*calls.FORWARD, *calls.BACKPROP, *OTHERS)


def int32(*values) -> np.ndarray:
    return np.array(values, np.int32)


def assert_refused(op: str, message: str, graphs: bool = True, **changes) -> None:
    """In eager mode, and in graphs that know all shapes or none."""
    arguments = calls.arguments(op, **changes)
    with pytest.raises(INVALID, match=message):
        calls.function(op)(**arguments)
    if not graphs:
        return
    with pytest.raises(INVALID_IN_A_GRAPH, match=message):
        calls.run_in_graph(op, arguments)
    # TensorFlow's own shape functions look at ranks alone, in words of their own.
    with pytest.raises(INVALID_IN_A_GRAPH, match=f"{message}|Shape must be rank [0-9] but is"):
        calls.run_in_graph(op, arguments, lambda each: tf.TensorSpec(each.shape, each.dtype))


# ------------------------------------------------------------------------------------
# Public advisories
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", calls.V3)
def test_cve_2021_41221_shape_functions_read_dimensions_that_are_not_there(op):
    """CudnnRNNV3's shape function took the third dimension of whatever came."""
    arguments = {
        "input": tf.constant([0.1, 0.1]),
        "input_h": tf.constant([0.5]),
        "input_c": tf.constant([0.1, 0.1, 0.1]),
        "params": tf.constant([0.5, 0.5]),
        "sequence_lengths": tf.constant([-1, 0, 1]),
    }
    with pytest.raises(INVALID, match="RNN input must be a 3-D vector"):
        calls.function(op)(**arguments)
    with pytest.raises(ValueError, match="Shape must be rank 3|RNN input must be a 3-D vector"):
        tf.function(lambda: calls.function(op)(**arguments))()


@pytest.mark.parametrize("name", ["input", "input_h", "input_c", "params"])
@pytest.mark.parametrize("op", calls.FORWARD + calls.BACKPROP)
def test_cve_2021_41221_every_rank(op, name):
    right = calls.forward_arguments("CudnnRNN")[name].ndim
    for rank in {0, 1, 2, 3, 4, 8} - {right}:
        assert_refused(op, f"RNN {name} must be a {right}-D vector", **{name: zeros(*[1] * rank)})


@pytest.mark.parametrize("op", calls.FORWARD)
def test_cve_2020_26270_an_input_of_no_length_ended_the_process(op):
    assert_refused(op, "max_seq_length <= 0", input=zeros(0, 3, 5))
    assert_refused(op, "with I at least 1", input=zeros(4, 3, 0))
    nobody = {"input": zeros(4, 0, 5), "input_h": zeros(1, 0, 4), "input_c": zeros(1, 0, 4)}
    if op in calls.V3:
        nobody["sequence_lengths"] = int32()
    assert calls.function(op)(**calls.arguments(op, **nobody)).output.shape == (4, 0, 4)


@pytest.mark.parametrize("op", calls.V3)
def test_issues_33148_and_33069_and_43103_sequences_of_no_length(op):
    """cuDNN refused a batch if any sequence was empty."""
    for lengths in ([0, 0, 0], [4, 0, 1]):
        states = {name: np.full([1, 3, 4], 0.5, np.float32) for name in ("input_h", "input_c")}
        arguments = calls.arguments(op, sequence_lengths=int32(*lengths), **states)
        outputs = calls.function(op)(**arguments)
        empty = np.array(lengths) == 0
        assert not outputs.output.numpy()[:, empty].any()
        assert (outputs.output_h.numpy()[:, empty] == 0.5).all()
        assert (outputs.output_c.numpy()[:, empty] == 0.5).all()


# LSTMBlockCell, BlockLSTMGradV2 and GRUBlockCellGrad trusted the shapes of all tensors but one.
@pytest.mark.parametrize("op", calls.FORWARD + calls.BACKPROP)
def test_cve_2022_29200_and_2022_35964_and_2023_25658_any_tensor_of_any_shape(op):
    valid = calls.arguments(op)
    ignored = set() if op == "CudnnRNNBackpropV2" else {"host_reserved"}
    tried = 0
    for name in valid.keys() - ignored:
        value = np.asarray(valid[name])
        for shape in ([], [0], [1], [0, 0, 0], [1, 1, 1], [0, 3, 4], [2, 2, 2, 2], [7]):
            if list(value.shape) == shape:
                continue
            with pytest.raises(INVALID, match=name):
                calls.function(op)(**valid | {name: np.zeros(shape, value.dtype)})
            tried += 1
    assert tried >= 8 * (len(valid) - 2)


# ------------------------------------------------------------------------------------
# Reads beyond a tensor, and what ends TensorFlow's own process
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[], [4], [4, 2], [4, 2, 1, 1]], ids=len)
@pytest.mark.parametrize("op", calls.V3 + calls.BACKPROP_V3)
def test_too_few_sequence_lengths(op, lengths):
    """TensorFlow's kernel reads as many numbers as the batch has rows."""
    assert_refused(op, r"sequence_lengths must have shape \[B\]", sequence_lengths=int32(*lengths))


@pytest.mark.parametrize("length", [5, -1, MOST, -(2**31)])
@pytest.mark.parametrize("op", calls.V3 + calls.BACKPROP_V3)
def test_lengths_out_of_range(op, length):
    for place in range(3):
        lengths = int32(4, 2, 1)
        lengths[place] = length
        message = rf"sequence_lengths\[{place}\] must be in \[0, T\]"
        assert_refused(op, message, sequence_lengths=lengths)


@pytest.mark.parametrize("size", [0, 1, 16, 175, 177, 1000])
@pytest.mark.parametrize("op", calls.FORWARD + calls.BACKPROP + calls.TO_CANONICAL)
def test_params_of_another_size(op, size):
    """TensorFlow compares it with nothing; cuDNN reads beyond it."""
    assert_refused(op, "Mismatching RNN parameter size", params=zeros(size))


@pytest.mark.parametrize("shape", [[], [4], [3, 4]], ids=len)
@pytest.mark.parametrize("op", calls.FORWARD + calls.BACKPROP)
def test_states_without_three_dimensions(op, shape):
    """The CHECK of Tensor::dim_size() ends the process: input_c's rank was not looked at."""
    assert_refused(op, "RNN input_c must be a 3-D vector", input_c=zeros(*shape))
    assert_refused(op, "RNN input_h must be a 3-D vector", input_h=zeros(*shape))


@pytest.mark.parametrize("op", calls.TO_PARAMS)
def test_weights_that_do_not_fit(op):
    """CHECK failures "Number of params mismatch" and "Params size mismatch"."""
    weights = [zeros(4, 5)] * 4 + [zeros(4, 4)] * 4
    biases = [zeros(4)] * 8
    for place, shape in itertools.product((0, 7), ([], [0], [1], [3, 4], [2**40, 0])):
        graphs = shape == [3, 4]
        wrong = [*weights[:place], zeros(*shape), *weights[place + 1 :]]
        assert_refused(op, rf"weights\[{place}\] must have the", graphs, weights=wrong)
        wrong = [*biases[:place], zeros(*shape), *biases[place + 1 :]]
        assert_refused(op, rf"biases\[{place}\] must have the", graphs, biases=wrong)
    for count in (1, 2, 7, 9, 16):
        lists = {"weights": [zeros(4, 4)] * count, "biases": [zeros(4)] * count}
        assert_refused(op, "Number of params", count == 9, **lists)


@pytest.mark.parametrize("name", ["num_layers", "num_units", "input_size"])
@pytest.mark.parametrize("op", OTHERS)
def test_sizes_that_are_no_scalars(op, name):
    """The CHECK of Tensor::scalar()."""
    for value in (int32(1), int32(), int32(1, 1)):
        assert_refused(op, f"{name} is not a scalar", **{name: value})


@pytest.mark.parametrize("shape", [[], [0], [1], [3], [1, 2]], ids=str)
def test_host_reserved_of_another_shape(shape):
    """TensorFlow's kernel reads two numbers of a vector that it did not look at."""
    message = r"host_reserved must have shape \[2\]"
    assert_refused("CudnnRNNBackpropV2", message, host_reserved=np.zeros(shape, np.int8))


@pytest.mark.parametrize("op", [op for op in calls.BACKPROP if op != "CudnnRNNBackprop"])
def test_host_reserved_of_any_content(op):
    """It was an algorithm's number, used as it came. The CPU has one algorithm."""
    arguments = {name: tf.constant(value) for name, value in calls.arguments(op).items()}
    rng = np.random.default_rng(1)
    for name in ("output_backprop", "output_h_backprop", "output_c_backprop"):
        arguments[name] = tf.constant(rng.normal(size=arguments[name].shape).astype(np.float32))
    shapes = [[2]] if op == "CudnnRNNBackpropV2" else [[2], [], [0], [3, 3]]
    usual = calls.function(op)(**arguments)
    assert usual.params_backprop.numpy().any()
    for shape, value in itertools.product(shapes, (-128, -1, 1, 127)):
        arguments["host_reserved"] = np.full(shape, value, np.int8)
        for one, other in zip(calls.function(op)(**arguments), usual, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("T", [tf.bfloat16, tf.float16])
@pytest.mark.parametrize("op", calls.PARAMS_SIZE)
def test_types_whose_size_ended_the_process(op, T):
    """On GPUs, "Invalid RNN data type" is fatal."""
    assert calls.function(op)(**calls.arguments(op, T=T)).numpy().tolist() == [176]


# ------------------------------------------------------------------------------------
# Attributes
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dropout", [-1.0, -1e-45, -(2.0**-126), 1.0 + 2**-23, 1e39, -np.inf, np.inf, np.nan]
)
@pytest.mark.parametrize("op", ALL_OPS)
def test_dropout_out_of_range(op, dropout):
    graphs = dropout in (-1.0, -1e-45)
    assert_refused(op, r"dropout must be in \[0, 1\], got ", graphs, dropout=dropout)


@pytest.mark.parametrize("seed", [-(2**31), -1, MOST])
@pytest.mark.parametrize("op", running.OPS)
def test_seeds_at_their_limits(op, seed):
    config = judge.Config("gru", 2, 4, 5, dropout=0.5)
    case = running.random_case(40, config, 4, 3, np.float64)
    for seeds in ({"seed": seed}, {"seed2": seed}, {"seed": seed, "seed2": seed}):
        # In a function of its own, so that it is the kernel's first call.
        results = running.forward_backward(op, case, graph=True, **seeds)
        key = judge.builtin_key(seeds.get("seed", 0), seeds.get("seed2", 0))
        running.assert_judged(results, case, f"{op}, {seeds}, seed 40", key)


@pytest.mark.parametrize("value", [MOST + 1, -(2**31) - 1, 2**32, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("op", [op for op in ALL_OPS if not op.startswith(calls.OWN)])
def test_seeds_beyond_their_limits(op, value):
    for name in ("seed", "seed2"):
        with pytest.raises(INVALID, match=f"Attr {name} has value {value} out of range"):
            calls.function(op)(**calls.arguments(op), **{name: value})


@pytest.mark.parametrize("value", [MOST + 1, -(2**31) - 1, 2**63])
def test_seeds_of_own_ops_beyond_their_limits(value):
    op = calls.OWN + "CudnnRNNV3"
    arguments = calls.arguments(op)
    del arguments["rng_seed"]
    for name in ("seed", "seed2"):
        with pytest.raises(ValueError, match=f"`{name}` must fit in an int32; got {value}"):
            calls.function(op)(**arguments, **{name: value})


# ------------------------------------------------------------------------------------
# Sizes that overflow
# ------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("op", calls.FORWARD)
def test_no_params_for_shapes_that_overflow(op):
    """Tensors of no rows have any sizes, without memory."""
    for H, I in ((2**16, 2**16 - 2), (2**30, 2**30 - 2), (2**40, 5), (2**59, 1), (1, 2**57)):
        for bidirectional in (False, True):
            D = 1 + bidirectional
            states = {name: zeros(D, 0, H) for name in ("input_h", "input_c")}
            changes = {"input": zeros(4, 0, I), "params": zeros(0), **states}
            if bidirectional:
                changes |= BIDIRECTIONAL
            if op in calls.V3:
                changes["sequence_lengths"] = int32()
            message = "the size of params overflows|Mismatching RNN parameter size"
            with pytest.raises(INVALID, match=message):
                calls.function(op)(**calls.arguments(op, **changes))


def _memory(name: str) -> int:
    """A line of the process's status, in bytes."""
    status = pathlib.Path("/proc/self/status").read_text()
    return int(re.search(rf"{name}:\s*(\d+) kB", status).group(1)) * 1024


def print_memory_of_absurd_calls() -> None:
    """Prints by how many bytes calls of absurd sizes raised the peak of this process's memory."""
    absurd = []
    for op in OTHERS:
        sizes = (2**20, MOST)
        for name in ("num_layers", "num_units", "input_size"):
            if op in calls.PARAMS_SIZE and name != "num_units":
                continue  # a size that fits
            absurd += [(op, {name: size}) for size in sizes]
        absurd.append((op, {"num_layers": MOST, "num_units": MOST, "input_size": MOST}))
    for op in calls.FORWARD:
        nobody = {"sequence_lengths": int32()} if op in calls.V3 else {}
        for L, H in ((2**20, 4), (2**40, 4), (2**58, 4), (1, 2**40), (2**30, 2**30)):
            states = {name: zeros(L, 0, H) for name in ("input_h", "input_c")}
            absurd.append((op, {"input": zeros(4, 0, 5), **states, **nobody}))
    calls_to_make = [(op, calls.arguments(op, **changes)) for op, changes in absurd]
    # So that threads and arenas are there.
    for op in ALL_OPS:
        calls.function(op)(**calls.arguments(op))
        _refuse(op, calls.arguments(op, dropout=2.0))
    before = _memory("VmPeak")
    for op, arguments in calls_to_make:
        _refuse(op, arguments)
    print(json.dumps([len(calls_to_make), _memory("VmPeak") - before, before]))


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


# ------------------------------------------------------------------------------------
# Forged reserve_space
# ------------------------------------------------------------------------------------

HEADER = 96  # elements that tell the call


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("op", calls.BACKPROP)
def test_a_header_changed_in_any_place(op, dtype):
    dtype = running.DTYPES[dtype]
    forward = calls.forward_arguments(op.replace("Backprop", ""))
    changes = tuple((n, v.astype(dtype)) for n, v in forward.items() if v.dtype == np.float32)
    arguments = calls.backprop_arguments(op, changes)
    usual = arguments["reserve_space"].numpy()
    key = range(8, 16)  # of dropout: a byte each, and any byte
    for place in range(HEADER):
        values = [np.nan, np.inf, -1.0, 0.5, 256.0]
        if place not in key:
            values.append(7.0 if usual[place] != 7.0 else 8.0)
        for value in values if place in (*key, 0, 16, HEADER - 1) else values[-1:]:
            forged = usual.copy()
            forged[place] = value
            with pytest.raises(INVALID, match="reserve_space was made by a call of other options"):
                calls.function(op)(**arguments | {"reserve_space": forged})


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_a_true_header_before_any_body(rnn_mode, dtype):
    """Values may be any, for nothing in the body says where to read or to write."""
    config = judge.Config(rnn_mode, 2, 5, 3, "bidirectional", dropout=0.5, time_major=False)
    case = running.random_case(41, config, 4, 3, running.DTYPES[dtype], ragged=True)
    for op in (running.OWN_V3, running.V3):
        tensors = running.tensors_of(case)
        outputs = running.call(op, case, *tensors)
        reserve = outputs.reserve_space.numpy()
        backprop = calls.function(
            "CudnnRNNBackpropV3" if op == running.V3 else calls.OWN + "CudnnRNNBackpropV3"
        )
        for body in (np.nan, np.inf, -np.inf, 3e4, 0.0):
            reserve[HEADER:] = body
            gradients = backprop(
                **dict(zip(calls.forward_arguments("CudnnRNNV3"), tensors, strict=True)),
                **{name: getattr(outputs, name) for name in ("output", "output_h", "output_c")},
                output_backprop=case.dy,
                output_h_backprop=case.dh_n,
                output_c_backprop=case.dc_n,
                reserve_space=reserve,
                host_reserved=outputs.host_reserved,
                rnn_mode=rnn_mode,
                direction=config.direction,
                dropout=config.dropout,
                time_major=config.time_major,
            )
            assert gradients.input_backprop.shape == case.x.shape
            assert not gradients.input_backprop.numpy()[case.padding()].any()


# ------------------------------------------------------------------------------------
# What one call leaves behind
# ------------------------------------------------------------------------------------


def _all_outputs(dtype) -> dict:
    """Bytes of every output of ops of each kind, by name; what padding holds is NaN."""
    found = {}
    for rnn_mode, time_major, training in itertools.product(
        judge.RNN_MODES, (True, False), (True, False)
    ):
        num_proj = 3 if rnn_mode == "lstm" and not time_major else 0
        config = judge.Config(
            *(rnn_mode, 2, 7, 5, "bidirectional"),
            num_proj=num_proj,
            dropout=0.5,
            time_major=time_major,
        )
        case = running.random_case(42, config, 6, 5, dtype, ragged=True).with_padding(np.nan)
        for op in (running.OWN_V3, running.V3):
            tensors = running.tensors_of(case)
            with tf.GradientTape() as tape:
                tape.watch(tensors[:4])
                outputs = running.call(op, case, *tensors, is_training=training)
            named = outputs._asdict()
            if training:
                gradients = [tf.constant(d) for d in (case.dy, case.dh_n, case.dc_n)]
                sources = tape.gradient(list(outputs[:3]), tensors[:4], gradients)
                named |= dict(zip(running.GRADIENTS, sources, strict=True))
            for name, value in named.items():
                label = f"{name} of {op}, {rnn_mode}, {time_major=}, {training=}"
                found[label] = value.numpy().tobytes()
    for op in calls.FORWARD[:2]:
        arguments = calls.arguments(op)
        for is_training in (True, False):
            outputs = calls.function(op)(**arguments, is_training=is_training)
            for name, value in outputs._asdict().items():
                found[f"{name} of {op}, {is_training=}"] = value.numpy().tobytes()
    for op in OTHERS:
        flat = tf.nest.flatten(calls.function(op)(**calls.arguments(op)))
        found |= {f"output {i} of {op}": value.numpy().tobytes() for i, value in enumerate(flat)}
    return found


def _leave(value: float, dtype) -> None:
    """Fills scratch, outputs and reserve_space of large calls with a value."""
    for rnn_mode in judge.RNN_MODES:
        config = judge.Config(rnn_mode, 3, 64, 48, "bidirectional", dropout=0.5)
        case = running.random_case(43, config, 12, 16, dtype)
        for name in case.TENSORS:
            getattr(case, name)[...] = value
        running.forward_backward(running.OWN_V3, case)
        running.forward_backward(running.V3, case)


def print_outputs(value: float) -> None:
    """Prints what calls return in memory that was full of `value`, and how marked memory looks."""
    results = {}
    for name, dtype in running.DTYPES.items():
        before = _all_outputs(dtype)
        _leave(value, dtype)
        after = _all_outputs(dtype)
        reset = {k for k in before if before[k] != after[k]}
        assert not reset, f"not the same after a call full of {value}: {sorted(reset)}"
        results[name] = {label: outputs.hex() for label, outputs in after.items()}
    unset = tf.raw_ops.Empty(shape=[64], dtype=tf.float32, init=False).numpy()
    print(json.dumps([results, unset.tobytes().hex()]))


def test_no_call_sees_what_another_left():
    """Memory is marked, once so and once otherwise; not a bit of any output may tell."""
    runs = []
    for mark, value in (("1", 12345.678), ("170", float("nan"))):
        # The second one makes the built-in ops drop the same in each call.
        environment = {"MALLOC_PERTURB_": mark, "TF_CUDNN_RESET_RND_GEN_STATE": "1"}
        printed = subprocesses.run_code(
            f"from {__name__} import print_outputs\nprint_outputs(float('{value}'))",
            environment=environment,
        )
        runs.append(json.loads(printed))
    (one, one_mark), (other, other_mark) = runs
    # What was never written does differ.
    assert one_mark == "fe" * 256 and other_mark == "55" * 256
    for dtype in running.DTYPES:
        assert len(one[dtype]) > 100
        assert one[dtype].keys() == other[dtype].keys()
        differ = [label for label in one[dtype] if one[dtype][label] != other[dtype][label]]
        assert not differ, f"{dtype}: {differ}"


def _in_a_graph(op: str, case):
    """All outputs of a call whose kernel is new, and drops what its first call does."""

    def run(*tensors):
        return running.call(op, case, *tensors)

    return tf.function(run)(*running.tensors_of(case))


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_padding_of_the_caller_is_in_no_output(rnn_mode):
    secret = np.float32(54321.987)
    config = judge.Config(rnn_mode, 2, 7, 5, "bidirectional")
    case = running.random_case(44, config, 6, 5, np.float32, ragged=True).with_padding(secret)
    assert (case.x == secret).sum() > 10
    for op in (running.OWN_V3, running.V3):
        outputs, without = (_in_a_graph(op, one) for one in (case, case.with_padding(0.0)))
        for name, value in outputs._asdict().items():
            assert not (value.numpy() == secret).any(), name
            assert value.numpy().tobytes() == getattr(without, name).numpy().tobytes(), name


def test_the_library_says_which_ops_it_has():
    """So that this file knows of all of them."""
    own = {op.removeprefix(calls.OWN) for op in ALL_OPS if op.startswith(calls.OWN)}
    keras = {name for name in tf_cudnn_rnn.raw_ops.__all__ if name.startswith("Keras")}
    assert own | keras == set(tf_cudnn_rnn.raw_ops.__all__)
