"""What holds for any weights: no reference implementation is needed to see it."""

import dataclasses
import hashlib
import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import running, subprocesses
from tests.reference import cases, judge

MODES = judge.RNN_MODES

# Large enough for several vectors, tiles and chunks in each dimension.
I, H, B, T = 37, 70, 11, 23


def _ops(dtype: str = "float") -> tuple:
    """The built-in op shares the own one's kernel: one type shows that it hands all on."""
    return (running.OWN_V3, running.V3) if dtype == "float" else (running.OWN_V3,)


def _config(rnn_mode: str, **options) -> judge.Config:
    options = {"direction": "bidirectional", "time_major": False, **options}
    if rnn_mode == "lstm":
        options.setdefault("num_proj", 41)
    return judge.Config(rnn_mode, 2, H, I, **options)


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", MODES)
def test_padding_is_never_read(rnn_mode, dtype):
    case = running.random_case(20, _config(rnn_mode), T, B, running.DTYPES[dtype], ragged=True)
    assert case.padding().any()
    for op in _ops(dtype):
        clean = running.forward_backward(op, case.with_padding(0.0))
        for value in (np.nan, np.inf):
            running.assert_same_bits(
                running.forward_backward(op, case.with_padding(value)),
                clean,
                f"{op}, padding {value}, seed 20: {case}",
            )
        for name in ("y", "dx"):
            assert not clean[name][case.padding()].any(), f"{name} of {op} at padding: {case}"


@pytest.mark.parametrize("rnn_mode", MODES)
def test_some_steps_and_then_the_rest_equal_all_steps(rnn_mode):
    # In one direction only: the other one starts with what comes last.
    config = _config(rnn_mode, direction="unidirectional", time_major=True)
    case = running.random_case(21, config, T, B, np.float32, ragged=True)
    whole = running.forward_backward(running.OWN_V3, case)
    for first_steps in (1, 8, T - 1):
        lengths = case.sequence_lengths
        first = dataclasses.replace(
            case,
            x=case.x[:first_steps],
            dy=case.dy[:first_steps],
            sequence_lengths=np.minimum(lengths, first_steps),
        )
        states = running.forward(running.OWN_V3, first)
        second = dataclasses.replace(
            case,
            x=case.x[first_steps:],
            dy=case.dy[first_steps:],
            sequence_lengths=np.maximum(lengths - first_steps, 0),
            h0=states["h_n"],
            c0=states["c_n"] if rnn_mode == "lstm" else case.c0,
        )
        after = running.forward_backward(running.OWN_V3, second)
        # The gradients of the states in between go back into the first part.
        first = dataclasses.replace(first, dh_n=after["dh0"], dc_n=after["dc0"])
        before = running.forward_backward(running.OWN_V3, first)
        both = {
            "y": np.concatenate([before["y"], after["y"]]),
            "h_n": after["h_n"],
            "c_n": after["c_n"],
            "dx": np.concatenate([before["dx"], after["dx"]]),
            "dh0": before["dh0"],
            "dc0": before["dc0"],
            "dparams": before["dparams"] + after["dparams"],
        }
        for name, value in both.items():
            np.testing.assert_allclose(
                value,
                whole[name],
                rtol=0,
                atol=running.tolerance(case, name, whole[name]),
                err_msg=f"{name}, {first_steps} steps first, seed 21: {case}",
            )


def test_a_reversed_sequence_gives_the_backward_direction():
    config = judge.Config("gru", 1, H, I, "bidirectional")
    case = running.random_case(22, config, T, B, np.float32)
    half = case.params.size // 2
    weights, biases = judge.canonical(config, case.params)
    assert sum(matrix.size for matrix in weights) % 2 == 0 and case.params.size == 2 * half
    # The same weights in both directions.
    weights[len(weights) // 2 :] = weights[: len(weights) // 2]
    biases[len(biases) // 2 :] = biases[: len(biases) // 2]
    h0 = np.stack([case.h0[0], case.h0[0]])
    case = dataclasses.replace(case, params=judge.from_canonical(config, weights, biases), h0=h0)
    there = running.forward(running.OWN_V3, case)["y"]
    back = running.forward(running.OWN_V3, dataclasses.replace(case, x=case.x[::-1].copy()))["y"]
    np.testing.assert_array_equal(there[..., :H], back[::-1, :, H:])
    np.testing.assert_array_equal(there[..., H:], back[::-1, :, :H])


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", MODES)
def test_backward_twice_gives_the_same_bits(rnn_mode, dtype):
    case = running.random_case(23, _config(rnn_mode), T, B, running.DTYPES[dtype], ragged=True)
    for op in _ops(dtype):
        tensors = running.tensors_of(case)
        gradients = [tf.constant(d) for d in (case.dy, case.dh_n, case.dc_n)]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(tensors[:4])
            outputs = running.call(op, case, *tensors)
        before = [np.asarray(tensor.numpy()) for tensor in (*tensors, *outputs)]
        results = []
        for _ in range(2):
            again = tape.gradient(list(outputs[:3]), tensors[:4], gradients)
            results.append([np.asarray(tensor.numpy()) for tensor in again])
        after = [np.asarray(tensor.numpy()) for tensor in (*tensors, *outputs)]
        first, second = results
        for one, other in zip([*first, *before], [*second, *after], strict=True):
            np.testing.assert_array_equal(one, other, err_msg=f"{op}, seed 23: {case}")


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", MODES)
def test_a_row_does_not_depend_on_the_batch(rnn_mode, dtype):
    case = running.random_case(24, _config(rnn_mode), T, B, running.DTYPES[dtype], ragged=True)
    whole = running.forward_backward(running.OWN_V3, case)
    batch_first = [name for name in whole if name != "dparams"]
    for rows in ([0], [4], [10, 3], list(range(9, -1, -1))):
        some = dataclasses.replace(
            case,
            **{name: getattr(case, name)[rows] for name in ("x", "h0", "dy", "dh_n")},
            sequence_lengths=case.sequence_lengths[rows],
        )
        if rnn_mode == "lstm":
            some = dataclasses.replace(some, c0=case.c0[rows], dc_n=case.dc_n[rows])
        results = running.forward_backward(running.OWN_V3, some)
        # Small calls add in another order.
        is_small = T * len(rows) <= 32
        for name in batch_first:
            if whole[name].ndim > 0:
                expected = whole[name][rows]
                np.testing.assert_allclose(
                    results[name].astype(np.float64),
                    expected.astype(np.float64),
                    rtol=0,
                    atol=running.tolerance(some, name, expected) if is_small else 0,
                    err_msg=f"{name} of rows {rows}: {case}",
                )


@pytest.mark.parametrize("time", [T, 2])
@pytest.mark.parametrize("rnn_mode", MODES)
def test_a_row_does_not_depend_on_what_other_rows_hold(rnn_mode, time):
    case = running.random_case(24, _config(rnn_mode), time, B, np.float32, ragged=True)
    others = running.random_case(240, _config(rnn_mode), time, B, np.float32, ragged=True)
    kept = [0, 4, 7]

    def mixed(name):
        values = getattr(others, name).copy()
        values[kept] = getattr(case, name)[kept]
        return values

    names = ["x", "h0", "dy", "dh_n", "sequence_lengths"]
    if rnn_mode == "lstm":
        names += ["c0", "dc_n"]
    other = dataclasses.replace(case, **{name: mixed(name) for name in names})
    assert np.any(other.sequence_lengths != case.sequence_lengths)
    results = running.forward_backward(running.OWN_V3, other)
    for name, value in running.forward_backward(running.OWN_V3, case).items():
        if name != "dparams" and value.ndim > 0:
            np.testing.assert_array_equal(
                results[name][kept], value[kept], err_msg=f"{name}, seeds 24 and 240: {case}"
            )


@pytest.mark.parametrize("rnn_mode", MODES)
def test_batch_major_is_time_major_transposed(rnn_mode):
    case = running.random_case(25, _config(rnn_mode), T, B, np.float32, ragged=True)
    batch_major = running.forward_backward(running.OWN_V3, case)
    time_major = running.forward_backward(running.OWN_V3, case.with_layout(True))
    for name, value in batch_major.items():
        if value.ndim == 3:
            value = np.swapaxes(value, 0, 1)
        np.testing.assert_array_equal(value, time_major[name], err_msg=f"{name}: {case}")


@pytest.mark.parametrize("dropout", [0.0, 0.4])
@pytest.mark.parametrize("rnn_mode", MODES)
def test_outputs_are_the_same_if_nothing_is_saved(rnn_mode, dropout):
    """In a graph that uses the outputs alone, training takes the path of inference."""
    config = _config(rnn_mode, dropout=dropout)
    case = running.random_case(26, config, T, B, np.float32, ragged=True)
    for op in _ops():
        saved = running.forward(op, case, seed=2601)
        unsaved = running.forward(op, case, graph=True, seed=2601)
        running.assert_same_bits(unsaved, saved, f"{op}, seed 26: {case}")
        if dropout == 0.0:
            inference = running.forward(op, case, graph=True, is_training=False)
            running.assert_same_bits(inference, saved, f"{op}, inference, seed 26: {case}")


def report_peak_memory(uses_reserve):
    """Prints the peak, in MiB, of a process that runs one training call of a graph."""
    # 5 H float values per step and row: a reserve of 512 MiB, beside 100 MiB of x and y. With more
    # units the products, of H^2, would take seconds.
    time, batch, units = 400, 512, 128

    @tf.function
    def call():
        result = tf.raw_ops.CudnnRNNV3(
            input=tf.zeros([time, batch, 8]),
            input_h=tf.zeros([1, batch, units]),
            input_c=tf.zeros([1, batch, units]),
            params=tf.zeros([tf_cudnn_rnn.params_size("lstm", 1, units, 8)]),
            sequence_lengths=tf.fill([batch], time),
            is_training=True,
        )
        used = [result.output[-1]] + ([result.reserve_space[:100]] if uses_reserve else [])
        return used

    call()
    # Not ru_maxrss, which a process inherits from the one that starts it.
    status = pathlib.Path("/proc/self/status").read_text()
    print(int(re.search(r"VmHWM:\s*(\d+) kB", status).group(1)) // 1024)


def test_nothing_is_saved_for_nobody():
    saved, unsaved = (
        int(subprocesses.run(report_peak_memory, uses_reserve)) for uses_reserve in (True, False)
    )
    assert saved - unsaved > 400, f"peaks of {saved} and {unsaved} MiB"


def print_refusals(first: str) -> None:
    """Prints how an op and `instruction_set` refuse what the environment says, a line each."""
    case = running.random_case(28, _config("gru"), T, B, np.float32)
    asks = {
        "op": lambda: running.forward(running.OWN_V3, case),
        "function": tf_cudnn_rnn.instruction_set,
    }
    for name in (first, *(asks.keys() - {first})):
        try:
            asks[name]()
        except (ValueError, tf.errors.OpError) as error:
            print(" ".join(str(error).split()))


# What comes first decides for the process.
@pytest.mark.parametrize(("name", "first"), [("avx521", "function"), ("AVX2", "op")])
def test_unknown_instruction_sets_are_refused(name, first):
    refusals = subprocesses.run(print_refusals, first, environment={"TF_CUDNN_RNN_ISA": name})
    assert len(refusals.splitlines()) == 2
    lists = set()
    for refusal in refusals.splitlines():
        match = re.search(f'one of the instruction sets of this build, (.*); got "{name}"', refusal)
        lists.add(match[1])
    assert len(lists) == 1 and lists.pop().endswith(", scalar")  # the op's is that of the build


def print_instruction_set():
    print(tf_cudnn_rnn.instruction_set())


def test_the_instruction_set_in_use_has_a_name():
    # kernels_test.py asks for lesser ones.
    best = subprocesses.run(print_instruction_set, environment={"TF_CUDNN_RNN_ISA": ""}).strip()
    environment = {"TF_CUDNN_RNN_ISA": best}
    assert subprocesses.run(print_instruction_set, environment=environment) == f"{best}\n"


# Not bfloat16: TensorFlow's own check cannot look at a bfloat16 scalar of any op.
@pytest.mark.parametrize("dtype", ["float", "double", "half"])
@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_check_numerics_stays_quiet(graph, dtype):
    tf.debugging.enable_check_numerics()
    try:
        for rnn_mode in MODES:
            config = _config(rnn_mode, dropout=0.3)
            case = running.random_case(27, config, T, B, running.DTYPES[dtype], ragged=True)
            case = case.with_padding(0.0)
            for op in _ops(dtype) if graph else (running.OWN_V3, running.V3):
                running.forward_backward(op, case, graph=graph)
                running.forward(op, case, graph=graph, is_training=False)
            full = running.random_case(
                28, _config(rnn_mode, time_major=True, num_proj=0), T, B, running.DTYPES[dtype]
            )
            for op in running.OPS if dtype == "float" else (running.OWN_V3,):
                running.forward_backward(op, full, graph=graph)
    finally:
        tf.debugging.disable_check_numerics()


@pytest.mark.parametrize("dtype", running.DTYPES)
def test_reserve_space_holds_finite_values(dtype):
    for rnn_mode in MODES:
        # Activations near their limits, and a dropout key with all kinds of bytes.
        config = _config(rnn_mode, dropout=0.5)
        case = running.random_case(29, config, T, B, running.DTYPES[dtype], ragged=True)
        case = dataclasses.replace(case, x=case.x * np.asarray(30, case.x.dtype))
        key = {"rng_seed": [0x0123456789ABCDEF, -1]}
        outputs = running.call(running.OWN_V3, case, *running.tensors_of(case), **key)
        assert np.isfinite(outputs.reserve_space.numpy().astype(np.float64)).all(), str(case)


# ------------------------------------------------------------------------------------
# Threads
# ------------------------------------------------------------------------------------

# Sizes that are worth several threads in every phase, and odd ones.
THREAD_CASES = {
    "lstm": (judge.Config("lstm", 2, 200, 130, "bidirectional", dropout=0.2), 12, 45),
    "lstm_projected": (judge.Config("lstm", 2, 150, 67, num_proj=90), 15, 50),
    "gru": (judge.Config("gru", 2, 193, 129, time_major=False), 17, 40),
    "rnn_tanh": (judge.Config("rnn_tanh", 2, 256, 256, "bidirectional"), 20, 64),
    "rnn_relu_one_row": (judge.Config("rnn_relu", 1, 512, 300), 20, 1),
    "lstm_one_row": (judge.Config("lstm", 1, 256, 300), 30, 1),
}


def print_hashes(num_threads: int) -> None:
    """Prints a hash of each result, computed with that many threads."""
    tf.config.threading.set_intra_op_parallelism_threads(num_threads)
    hashes = {}
    for name, (config, num_steps, batch) in THREAD_CASES.items():
        for dtype in running.DTYPES:
            case = running.random_case(
                30, config, num_steps, batch, running.DTYPES[dtype], ragged=batch > 1
            )
            results = running.forward_backward(running.OWN_V3, case, rng_seed=[5, 6])
            for tensor, value in results.items():
                assert np.isfinite(value.astype(np.float64)).all(), f"{tensor}: {case}"
                digest = hashlib.sha256(value.tobytes()).hexdigest()
                hashes[f"{tensor} of {name}, {dtype}, seed 30"] = digest
    print(json.dumps(hashes))


def test_results_do_not_depend_on_the_number_of_threads():
    one, two, three = (
        json.loads(subprocesses.run(print_hashes, num_threads)) for num_threads in (1, 2, 3)
    )
    assert len(one) == len(THREAD_CASES) * len(running.DTYPES) * 7
    assert two == one
    assert three == one


def test_concurrent_calls_give_the_same_bits():
    config = _config("lstm", dropout=0.3)
    case = running.random_case(31, config, T, B, np.float32, ragged=True)
    tensors = running.tensors_of(case)

    @tf.function
    def run():
        # Independent nodes of one graph: TensorFlow runs them side by side.
        return [
            tf_cudnn_rnn.raw_ops.CudnnRNNV3(
                input=tensors[0] + 0.0 * tf.random.stateless_uniform([], [i, 0]),
                input_h=tensors[1],
                input_c=tensors[2],
                params=tensors[3],
                sequence_lengths=tensors[4],
                direction=config.direction,
                num_proj=config.num_proj,
                dropout=config.dropout,
                time_major=config.time_major,
                rng_seed=[3, 4],
            ).output
            for i in range(8)
        ]

    first, *others = run()
    running.assert_judged({"y": first.numpy()}, case, "seed 31", judge.own_key([3, 4]))
    for other in others:
        np.testing.assert_array_equal(other.numpy(), first.numpy())


def test_lengths_sorted_or_not_give_the_same_rows():
    case = running.random_case(32, _config("gru"), T, B, np.float32, ragged=True)
    order = np.argsort(-case.sequence_lengths, kind="stable")
    fields = ("x", "h0", "dy", "dh_n", "sequence_lengths")
    in_order = dataclasses.replace(case, **{name: getattr(case, name)[order] for name in fields})
    unsorted = running.forward_backward(running.OWN_V3, case)
    results = running.forward_backward(running.OWN_V3, in_order)
    for name in ("y", "h_n", "dx", "dh0"):
        np.testing.assert_array_equal(results[name], unsorted[name][order], err_msg=name)


def test_cases_can_be_made_again():
    """A label's seed and config are all that it takes to repeat a failure."""
    config = _config("lstm")
    one, other = (running.random_case(33, config, T, B, ragged=True) for _ in range(2))
    for name in cases.Case.TENSORS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
