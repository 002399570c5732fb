"""Every op against the judge: outputs and all four gradients, for all options.

Each label holds the seed that makes the case again.
"""

import dataclasses
import itertools
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import running, subprocesses
from tests.reference import cases, judge

# Sizes: I, H, B, T, L and D*P all differ, so that no two can be mixed up.
I, H, B, T = 3, 5, 4, 6


def _grid_configs():
    for rnn_mode, direction, num_layers, input_mode, num_proj in itertools.product(
        judge.RNN_MODES, judge.DIRECTIONS, (1, 2), judge.INPUT_MODES, (0, 2, H)
    ):
        if num_proj and rnn_mode != "lstm":
            continue
        yield judge.Config(
            rnn_mode,
            num_layers,
            H,
            # auto_select means skip_input here; the random draws also have I != H.
            I if input_mode == "linear_input" else H,
            direction,
            input_mode,
            num_proj,
        )


def _id(config: judge.Config) -> str:
    return (
        f"{config.rnn_mode}-{config.direction[:3]}-L{config.num_layers}-{config.input_mode}"
        f"-P{config.num_proj}"
    )


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("config", list(_grid_configs()), ids=_id)
def test_grid(config, dtype):
    for seed, (time_major, ragged) in enumerate(itertools.product([True, False], repeat=2)):
        layout = dataclasses.replace(config, time_major=time_major)
        case = running.random_case(seed, layout, T, B, running.DTYPES[dtype], ragged)
        for op in running.OPS:
            if running.serves(op, case):
                results = running.forward_backward(op, case)
                running.assert_judged(results, case, f"{op}, seed {seed}")


def _random_case(seed: int, **options) -> cases.Case:
    rng = np.random.default_rng(seed)
    options.setdefault("num_layers", int(rng.integers(2, 4)))
    options.setdefault("dropout", 0.0)
    config = cases.random_config(rng, max_size=20, **options)
    num_steps, batch = rng.integers(1, 9, size=2)
    lengths = cases.ragged_lengths(rng, num_steps, batch, allow_zero=True)
    return cases.random_case(rng, config, num_steps, batch, lengths)


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("seed", range(12))
def test_random_options_eager(seed, dtype):
    case = _random_case(seed).astype(running.DTYPES[dtype])
    for op in (running.OWN_V3, running.V3):
        results = running.forward_backward(op, case)
        running.assert_judged(results, case, f"{op}, eager, seed {seed}")


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("unknown_shapes", [False, True], ids=["shapes", "no_shapes"])
@pytest.mark.parametrize("seed", range(100, 104))
def test_random_options_in_a_graph(seed, unknown_shapes, dtype):
    case = _random_case(seed).astype(running.DTYPES[dtype])
    for op in (running.OWN_V3, running.V3):
        results = running.forward_backward(op, case, graph=True, unknown_shapes=unknown_shapes)
        running.assert_judged(results, case, f"{op}, graph, seed {seed}")


@pytest.mark.parametrize(
    ("rnn_mode", "dtype"),
    [*((mode, "float") for mode in judge.RNN_MODES), ("gru", "double"), ("lstm", "half")],
)
@pytest.mark.parametrize("op", running.OPS)
def test_full_sequences_in_a_graph(op, rnn_mode, dtype):
    config = judge.Config(rnn_mode, 2, H, I, "bidirectional")
    case = running.random_case(7, config, T, B, running.DTYPES[dtype])
    results = running.forward_backward(op, case, graph=True)
    running.assert_judged(results, case, f"{op}, graph, seed 7")


# Sizes that reach every tile, its remainder, every chunk of time and every thread. All
# rows are ragged. Two things were chosen so that float can meet its tolerance: the seed,
# for with 5 one element of relu_vanilla_200 is 1e-7 instead of 0, which changes the
# gradient; and the depth of tanh_vanilla_200, whose recurrence amplifies rounding (with
# two layers a plain loop in float is off by 2.5e-6, too).
LARGE_SEED = 6
LARGE = {
    "lstm_hundreds": (judge.Config("lstm", 1, 300, 130), 40, 70),
    "gru_hundreds": (judge.Config("gru", 1, 300, 130), 40, 70),
    "relu_vanilla_200": (judge.Config("rnn_relu", 1, 200, 200), 30, 64),
    "tanh_vanilla_200": (judge.Config("rnn_tanh", 1, 200, 100, "bidirectional"), 20, 33),
    "lstm_tail_17": (judge.Config("lstm", 3, 17, 33, "bidirectional"), 21, 9),
    "gru_tail_33": (judge.Config("gru", 2, 33, 65, "bidirectional", time_major=False), 19, 17),
    "lstm_tail_65": (judge.Config("lstm", 2, 65, 17, "bidirectional", num_proj=31), 33, 10),
    "relu_tail_65": (judge.Config("rnn_relu", 2, 65, 31, time_major=False), 23, 31),
    "tanh_tail_33": (judge.Config("rnn_tanh", 2, 33, 33, input_mode="skip_input"), 18, 7),
    "lstm_projected": (judge.Config("lstm", 2, 160, 70, num_proj=67, time_major=False), 25, 40),
    "gru_skip": (judge.Config("gru", 2, 129, 129, input_mode="auto_select"), 17, 34),
    "lstm_one_row": (judge.Config("lstm", 2, 128, 64, "bidirectional"), 50, 1),
    "gru_one_step": (judge.Config("gru", 1, 128, 256), 1, 130),
    "lstm_many_rows": (judge.Config("lstm", 1, 24, 12), 5, 600),
    "lstm_many_steps": (judge.Config("lstm", 1, 16, 8), 700, 3),
}


def _large_case(name: str, dtype: str) -> cases.Case:
    config, num_steps, batch = LARGE[name]
    # The judge, which is slow, computes once for both: double gets the numbers of float.
    drawn = running.DTYPES["float" if dtype == "double" else dtype]
    case = running.random_case(LARGE_SEED, config, num_steps, batch, drawn, ragged=True)
    return case.astype(running.DTYPES[dtype])


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("name", LARGE)
def test_large(name, dtype):
    case = _large_case(name, dtype)
    results = running.forward_backward(running.OWN_V3, case)
    running.assert_judged(results, case, f"{running.OWN_V3}, {name}, seed {LARGE_SEED}")


def assert_tails_judged(isa: str) -> None:
    """Compares the cases whose sizes are no multiples of anything, in all types."""
    has_it = isa == "scalar" or f" {isa} " in pathlib.Path("/proc/cpuinfo").read_text()
    assert tf_cudnn_rnn.instruction_set() == (isa if has_it else "scalar")
    for name in (name for name in LARGE if "tail" in name):
        for dtype in running.DTYPES:
            case = _large_case(name, dtype)
            results = running.forward_backward(running.OWN_V3, case)
            running.assert_judged(results, case, f"{running.OWN_V3}, {name}, seed {LARGE_SEED}")


@pytest.mark.parametrize("isa", ["scalar", "avx2"])
def test_lesser_instruction_sets(isa):
    """The tests above ran the best one that this machine has."""
    subprocesses.run(assert_tails_judged, isa, environment={"TF_CUDNN_RNN_ISA": isa})


@pytest.mark.parametrize("op", running.OPS)
def test_large_full_sequences(op):
    config = judge.Config("lstm", 2, 200, 100)
    case = running.random_case(6, config, 35, 20, np.float32)
    running.assert_judged(running.forward_backward(op, case), case, f"{op}, seed 6")


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
@pytest.mark.parametrize("op", running.OPS)
def test_inference(op, rnn_mode, graph):
    # Dropout is set, and must not act.
    config = judge.Config(rnn_mode, 2, H, I, "bidirectional", dropout=0.5)
    case = running.random_case(8, config, T, B, np.float32)
    results = running.forward(op, case, graph=graph, is_training=False)
    running.assert_judged(results, case, f"{op}, seed 8")


@pytest.mark.parametrize("op", running.OPS)
def test_the_other_outputs(op):
    case = running.random_case(9, judge.Config("lstm", 2, H, I), T, B, np.float32)
    for is_training in (True, False):
        outputs = running.call(op, case, *running.tensors_of(case), is_training=is_training)
        assert outputs.reserve_space.dtype == tf.float32
        assert outputs.reserve_space.shape.rank == (1 if is_training else 0)
        if op == running.V1:
            assert len(outputs) == 4
            continue
        assert outputs.host_reserved.dtype == tf.int8
        v2_training = op == running.V2 and is_training
        assert outputs.host_reserved.numpy().tolist() == ([0, 0] if v2_training else 0)


def test_a_batch_of_no_rows():
    for rnn_mode, time_major in itertools.product(judge.RNN_MODES, [True, False]):
        config = judge.Config(rnn_mode, 2, H, I, "bidirectional", time_major=time_major)
        case = running.random_case(10, config, T, 0, np.float32)
        for op in (running.OWN_V3, running.V3):
            results = running.forward_backward(op, case)
            running.assert_judged(results, case, f"{op}, no rows")
            assert not results["dparams"].any()


def test_rows_that_are_all_empty():
    for rnn_mode in judge.RNN_MODES:
        config = judge.Config(rnn_mode, 2, H, I, "bidirectional")
        case = running.random_case(11, config, T, B, np.float32)
        case = dataclasses.replace(case, sequence_lengths=np.zeros([B], np.int32))
        for op in (running.OWN_V3, running.V3):
            results = running.forward_backward(op, case)
            running.assert_judged(results, case, f"{op}, empty rows")
            np.testing.assert_array_equal(results["h_n"], case.h0)
            np.testing.assert_array_equal(results["dh0"], case.dh_n)


@pytest.mark.parametrize("c0_shape", [(), (0,), (2, B, H)], ids=str)
@pytest.mark.parametrize("op", running.OPS)
def test_modes_without_a_cell_state_take_any_input_c(op, c0_shape):
    case = running.random_case(12, judge.Config("gru", 2, H, I), T, B, np.float32)
    case = dataclasses.replace(case, c0=np.full(c0_shape, np.nan, np.float32))
    running.assert_judged(running.forward_backward(op, case), case, f"{op}, c0 {c0_shape}")


# ------------------------------------------------------------------------------------
# Dropout
# ------------------------------------------------------------------------------------


def _dropout_case(dropout: float, **options) -> cases.Case:
    config = judge.Config("lstm", 3, H, I, "bidirectional", dropout=dropout, num_proj=3)
    config = dataclasses.replace(config, **options)
    return running.random_case(13, config, T, B, np.float32, ragged=True)


@pytest.mark.parametrize("time_major", [True, False], ids=["time_major", "batch_major"])
@pytest.mark.parametrize("dropout", [0.1, 0.5, 1.0])
@pytest.mark.parametrize(
    "rng_seed", [[0, 0], [5, 0], [-3, 1 << 40], [1 << 62, -(1 << 63)]], ids=str
)
def test_own_op_drops_by_its_rng_seed(rng_seed, dropout, time_major):
    case = _dropout_case(dropout, time_major=time_major)
    key = judge.own_key(rng_seed)
    for graph in (False, True):
        for _ in range(2):  # the op is a function of its inputs
            results = running.forward_backward(running.OWN_V3, case, graph=graph, rng_seed=rng_seed)
            running.assert_judged(results, case, f"rng_seed {rng_seed}, graph {graph}", key)


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
@pytest.mark.parametrize("dtype", running.DTYPES)
def test_dropout_in_every_mode_and_type(rnn_mode, dtype):
    case = _dropout_case(0.25, rnn_mode=rnn_mode, num_proj=0).astype(running.DTYPES[dtype])
    results = running.forward_backward(running.OWN_V3, case, rng_seed=[77, 1])
    running.assert_judged(results, case, "rng_seed [77, 1]", judge.own_key([77, 1]))


@pytest.mark.parametrize(
    "seeds", [(0, 0), (3, 4), (-1, 7), (9, -2), (2**31 - 1, -(2**31))], ids=str
)
def test_own_op_makes_its_rng_seed_from_two_seeds(seeds):
    case = _dropout_case(0.5)
    results = running.forward_backward(running.OWN_V3, case, seed=seeds[0], seed2=seeds[1])
    running.assert_judged(results, case, f"seeds {seeds}", judge.builtin_key(*seeds))


def test_rng_seed_can_be_a_tensor_that_changes():
    case = _dropout_case(0.5)

    @tf.function
    def run(rng_seed, *tensors):
        return running.call(running.OWN_V3, case, *tensors, rng_seed=rng_seed).output

    for rng_seed in ([1, 2], [3, 4]):
        y = run(tf.constant(rng_seed, tf.int64), *running.tensors_of(case))
        running.assert_judged(
            {"y": y.numpy()}, case, f"rng_seed {rng_seed}", judge.own_key(rng_seed)
        )


# A built-in op's state is its kernel's, and kernels with equal attributes are shared in
# eager mode: each test below has seeds of its own.


@pytest.mark.parametrize("op", [running.V3, running.V2, running.V1])
def test_built_in_ops_advance_with_each_training_call(op):
    case = running.random_case(14, judge.Config("gru", 3, H, I, dropout=0.5), T, B, np.float32)
    seeds = {"seed": 1401, "seed2": -1402}
    for call in range(3):
        # Inference neither drops nor counts.
        inference = running.forward(op, case, is_training=False, **seeds)
        running.assert_judged(inference, case, f"{op}, inference before call {call}")
        key = judge.builtin_key(*seeds.values(), call)
        results = running.forward_backward(op, case, **seeds)
        running.assert_judged(results, case, f"{op}, call {call}", key)


def test_built_in_op_in_a_graph_starts_from_its_seed_and_advances():
    case = _dropout_case(0.5)

    @tf.function
    def run(*tensors):
        with tf.GradientTape() as tape:
            tape.watch(tensors[0])
            outputs = running.call(running.V3, case, *tensors, seed=1501, seed2=1502)
        dx = tape.gradient(outputs.output, tensors[0], tf.constant(case.dy))
        return outputs.output, dx

    unused = dataclasses.replace(case, dh_n=np.zeros_like(case.dh_n), dc_n=np.zeros_like(case.dc_n))
    for call in range(3):
        y, dx = run(*running.tensors_of(case))
        key = judge.builtin_key(1501, 1502, call)
        results = {"y": y.numpy(), "dx": dx.numpy()}
        expected = running.judged(unused, key)
        for name, value in results.items():
            allowed = running.tolerance(case, name, expected[name])
            np.testing.assert_allclose(
                value, expected[name], rtol=0, atol=allowed, err_msg=f"{name}, call {call}"
            )


def test_dropout_acts_even_if_nobody_uses_the_reserve_space():
    case = _dropout_case(0.5)

    @tf.function
    def run(*tensors):
        return running.call(running.V3, case, *tensors, seed=1601, seed2=1602).output

    for call in range(2):
        y = run(*running.tensors_of(case)).numpy()
        running.assert_judged({"y": y}, case, f"call {call}", judge.builtin_key(1601, 1602, call))


def test_built_in_op_can_restart_at_every_call(monkeypatch):
    monkeypatch.setenv("TF_CUDNN_RESET_RND_GEN_STATE", "true")
    case = _dropout_case(0.5)
    for _ in range(2):
        results = running.forward_backward(running.V3, case, seed=1701, seed2=1702)
        running.assert_judged(results, case, "reset", judge.builtin_key(1701, 1702))


@pytest.mark.parametrize("value", ["0", "false", "False"])
def test_built_in_op_goes_on_where_the_variable_says_so(value, monkeypatch):
    monkeypatch.setenv("TF_CUDNN_RESET_RND_GEN_STATE", value)
    case = _dropout_case(0.5)
    seeds = {"seed": 1703, "seed2": 1704 + len(value) + value.istitle()}  # a kernel of its own
    for call in range(2):
        results = running.forward_backward(running.V3, case, **seeds)
        running.assert_judged(results, case, "goes on", judge.builtin_key(*seeds.values(), call))


def test_a_variable_that_says_neither_is_refused(monkeypatch):
    monkeypatch.setenv("TF_CUDNN_RESET_RND_GEN_STATE", "2")
    message = (
        'the environment variable TF_CUDNN_RESET_RND_GEN_STATE must be "0", "1", "false" or '
        '"true", got "2"; set one of these, or unset it.'
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(message)):
        running.forward_backward(running.V3, _dropout_case(0.5), seed=1708)


def test_gradients_that_arrive_at_the_reserve_space_are_ignored():
    """As TensorFlow's gradient of CudnnRNNV3 does: nothing is known of what it holds."""
    case = _dropout_case(0.0)
    results = {}
    for weight in (0.0, 7.0):
        tensors = running.tensors_of(case)
        with tf.GradientTape() as tape:
            tape.watch(tensors[:4])
            outputs = running.call(running.OWN_V3, case, *tensors)
            loss = tf.reduce_sum(outputs.output) + weight * tf.reduce_sum(outputs.reserve_space)
        gradients = tape.gradient(loss, tensors[:4])
        results[weight] = {str(i): gradient.numpy() for i, gradient in enumerate(gradients)}
    running.assert_same_bits(results[0.0], results[7.0], "with and without")


def test_first_built_in_call_equals_own_op():
    case = _dropout_case(0.5)
    seeds = {"seed": 1801, "seed2": 1802}
    running.assert_same_bits(
        running.forward_backward(running.V3, case, **seeds),
        running.forward_backward(running.OWN_V3, case, **seeds),
        "V3 and own V3",
    )


def test_dropout_does_not_act_on_a_single_layer():
    case = _dropout_case(1.0, num_layers=1)
    for op, options in [
        (running.OWN_V3, {"rng_seed": [1, 1]}),
        (running.V3, {"seed": 1901}),
    ]:
        results = running.forward_backward(op, case, **options)
        running.assert_judged(results, running.with_options(case, dropout=0.0), op)


# ------------------------------------------------------------------------------------
# Batch-major states
# ------------------------------------------------------------------------------------


def test_built_in_op_can_read_batch_major_states_as_gpu_kernels_do(monkeypatch):
    monkeypatch.setenv("TF_CUDNN_RNN_BATCH_MAJOR_STATES", "cudnn")
    config = judge.Config("lstm", 2, H, I, "bidirectional", time_major=False)
    documented = running.random_case(15, config, T, B, np.float32, ragged=True)

    def reinterpreted(states):
        """The memory of [L*D, B, features] declared to be [B, L*D, features]."""
        return np.swapaxes(states, 0, 1).reshape(states.shape)

    states = {
        name: reinterpreted(getattr(documented, name)) for name in ("h0", "c0", "dh_n", "dc_n")
    }
    case = dataclasses.replace(documented, **states)
    # The seed makes it another kernel, which reads the environment anew.
    results = running.forward_backward(running.V3, case, seed=2001)
    expected = running.judged(documented)
    for name in ("h_n", "c_n", "dh0", "dc0"):
        expected[name] = reinterpreted(expected[name])
    for name, value in results.items():
        allowed = running.tolerance(case, name, expected[name])
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=allowed, err_msg=name)
