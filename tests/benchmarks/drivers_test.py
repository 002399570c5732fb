"""benchmarks/drivers: every peer computes what the op does, from the same weights."""

import functools
import importlib
import shutil
import time

import numpy as np
import pytest

from benchmarks import cases, check, drivers, peers, processes, records
from benchmarks.cases import INFERENCE, PASSES, TRAINING
from benchmarks.drivers import tensorflow
from benchmarks.drivers.interface import Step, Unsupported
from benchmarks.processes import Side
from tests.reference import judge

CASES = {case.name: case for case in check.check_cases()}

# What each driver is tried with.
SOME = ("lstm", "gru_both_ways_ragged", "relu", "lstm_stack")
TRIED = {
    "own_layer": SOME,
    "own_eager": ("lstm_ragged",),
    "built_in_eager": ("lstm_ragged",),
    "keras_function": SOME,
    "keras_xla": ("lstm",),
    "keras_eager": ("gru_both_ways_ragged",),
    "block_lstm": ("lstm",),
    "own_stateful": ("lstm_ragged", "gru", "relu", "lstm_stack"),
    "own_cudnn_layer": ("gru_both_ways_ragged", "relu", "lstm_stack", "lstm_projection"),
    "own_saved": ("lstm_ragged",),
    "own_saved_training": ("lstm_ragged",),
    "own_c": ("lstm",),
    "own_runtime": tuple(CASES),
    "own_stream": ("one_step",),
    "own_stream_c": ("one_step",),
    "torch": tuple(CASES),
    "onnxruntime": tuple(name for name in CASES if "projection" not in name),
}
INFER_ONLY = (
    *("own_eager", "built_in_eager", "own_saved", "own_saved_training", "own_c", "onnxruntime"),
    *("own_runtime", "own_stream", "own_stream_c"),
)

# (driver, case, pass) and what it says to it.
REFUSED = [
    ("own_layer", "lstm_projection", INFERENCE, "no layer of Keras projects"),
    ("keras_eager", "lstm_projection", TRAINING, "no layer of Keras projects"),
    ("own_stateful", "lstm_both_ways", TRAINING, "a stateful layer of one direction is measured"),
    ("block_lstm", "gru", INFERENCE, "BlockLSTMV2 is an LSTM"),
    ("block_lstm", "lstm_stack", INFERENCE, "BlockLSTMV2 has one layer"),
    ("block_lstm", "lstm_both_ways", INFERENCE, "BlockLSTMV2 has one direction"),
    ("block_lstm", "lstm_projection", INFERENCE, "BlockLSTMV2 does not project"),
    ("block_lstm", "lstm_ragged", INFERENCE, "BlockLSTMV2 has one length for all rows"),
    ("own_skip_input", "lstm", TRAINING, "an input that is skipped has H features"),
    ("own_saved", "lstm", TRAINING, "a SavedModel predicts"),
    ("empty_call", "lstm", TRAINING, "an empty call has no gradients"),
    ("counting_loop", "lstm", TRAINING, "a loop has no gradients"),
    ("own_c", "lstm", TRAINING, "the program infers"),
    ("own_runtime", "lstm", TRAINING, "the runtime infers"),
    ("own_stream", "lstm", INFERENCE, "a stream takes one step at a time"),
]


@pytest.fixture(scope="module", autouse=True)
def threads_that_are_settled():
    """TensorFlow's drivers run in the tests' process, whose threads are as they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensorflow, "set_threads", lambda threads: None)
        yield


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with processes.Pool(2, tmp_path_factory.mktemp("logs"), 1200) as made:
        yield made


@functools.cache
def driver(key: str):
    entry = drivers.DRIVERS[key]
    return getattr(importlib.import_module(entry.module), entry.class_name)(2)


@functools.cache
def lacking() -> list[str]:
    return peers.lacking()


def results(pool, key: str, name: str, pass_: str, dtype="float32") -> dict:
    if drivers.DRIVERS[key].environment == drivers.LIBRARY:
        step = driver(key).build(CASES[name], pass_, dtype)
        return step.arrays(step.run())
    if key in lacking():
        pytest.skip(f"{key} is not installed; `make bench` makes its environment")
    side = Side(key, key, dtype)
    assert not pool.start([side]) and not pool.build([side], CASES[name], pass_)
    return pool.arrays(side)


@functools.cache
def own_results(name: str, pass_: str) -> dict:
    return results(None, "own_op", name, pass_)


def test_all_are_tried():
    assert {"own_op", *drivers.NOT_COMPARED, *TRIED} == set(drivers.DRIVERS)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_a_loop_takes_about_as_long_as_a_step():
    case = cases.Case("step", (), "lstm", 1, 1, 128, 0, 128, 1, 1, 0.0)
    step = driver(drivers.COUNTING_LOOP).build(case, INFERENCE, "float32")
    # Others may use the machine, which makes most rounds longer at worst.
    assert 1e-6 < np.min(step.times(0.01)) < 1e-4
    assert len(step.run(5)) == 5 and not step.arrays(None)


@pytest.mark.parametrize("key", [drivers.EMPTY_CALL, drivers.COLD_CALL])
def test_an_empty_call_has_a_step_of_the_inputs_and_outputs_of_the_op(key):
    step = driver(key).build(CASES["lstm"], INFERENCE, "float32")
    y, (h, c) = step.run()
    arrays = cases.arrays_of(CASES["lstm"])
    shapes = [(1, 1, a.shape[2]) for a in (arrays.x, arrays.h0, arrays.c0)]
    assert [y.shape, h.shape, c.shape] == shapes
    assert step.before() == (arrays.params.sum() if key == drivers.COLD_CALL else None)
    assert not step.arrays(None)


def test_what_comes_before_a_pass_comes_before_each_and_is_not_timed(monkeypatch):
    done = []
    now = 0.0  # on a clock that nothing else moves

    def take(name: str, seconds: float) -> None:
        nonlocal now
        done.append(name)
        now += seconds

    monkeypatch.setattr(time, "perf_counter", lambda: now)
    step = Step(lambda: take("run", 0.25), lambda results: {}, lambda: take("before", 2.0))
    # A turn of nine seconds has time for four times both.
    assert step.times(9.0) == [0.25] * 4
    assert done == ["before", "run"] * 5  # the first warms up
    # What takes as long as its turn is not done again.
    done.clear()
    assert step.times(0.25) == [0.25] and done == ["before", "run"]


@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_a_skipped_input_is_what_the_judge_computes(mode):
    case = cases.Case("skip", (), mode, 2, 1, 8, 0, 8, 4, 3, 0.0)
    config = judge.Config(mode, 2, 8, 8, input_mode="skip_input")
    arrays = cases.arrays_of(case)
    params = arrays.params[: judge.params_size(config)]
    assert len(params) < len(arrays.params)
    forward = judge.forward(config, arrays.x, arrays.h0, arrays.c0, params, arrays.lengths)
    none = (np.zeros_like(forward.h_n), np.zeros_like(forward.c_n))
    gradients = judge.backward(config, forward.tape, arrays.dy, *none)
    canonical = cases.canonical_of(case, gradients.dparams, "skip_input")
    expected = {"y": forward.y, "h_n": forward.h_n, "dx": gradients.dx, "dh0": gradients.dh0}
    expected |= cases.weight_gradients(canonical)
    step = driver(drivers.SKIP_INPUT).build(case, TRAINING, "float32")
    found = step.arrays(step.run())
    assert check.differences(found, expected) == []


@pytest.mark.parametrize(("key", "name"), [(k, n) for k, names in TRIED.items() for n in names])
def test_a_driver_computes_what_the_op_does(key, name, pool):
    for pass_ in PASSES:
        if key in INFER_ONLY and pass_ == TRAINING:
            continue
        found = results(pool, key, name, pass_)
        expected = {"y", "h_n", "c_n"}
        if key == "own_stream_c":  # which hands out y alone
            expected = {"y"}
        if pass_ == TRAINING:
            expected |= {"dx", "dh0", "dc0", "dW", "dR", "db"}
        if key == "own_stateful":  # its first states are variables, not inputs
            expected -= {"dh0", "dc0"}
        if CASES[name].rnn_mode != "lstm":
            expected -= {"c_n", "dc0"}
        assert set(found) == expected
        assert check.differences(own_results(name, pass_), found) == [], pass_
        # As a constant, or a forgotten weight, would not.
        assert all(np.ptp(array) > 0.01 for array in found.values())


@pytest.mark.parametrize(("key", "name", "pass_", "message"), REFUSED)
def test_what_a_driver_refuses(key, name, pass_, message):
    with pytest.raises(Unsupported, match=message):
        driver(key).build(CASES[name], pass_, "float32")


@pytest.mark.parametrize(
    ("name", "pass_", "message"),
    [
        ("lstm", TRAINING, "ONNX Runtime infers"),
        ("lstm_projection", INFERENCE, "ONNX's LSTM does not project"),
    ],
)
def test_what_onnx_runtime_refuses(name, pass_, message, pool):
    if "onnxruntime" in lacking():
        pytest.skip("onnxruntime is not installed; `make bench` makes its environment")
    side = Side("onnx", "onnxruntime")
    assert not pool.start([side])
    assert pool.build([side], CASES[name], pass_) == {"onnx": f"{records.UNSUPPORTED}{message}"}


@pytest.mark.parametrize("key", ["own_op", "torch"])
def test_bfloat16(key, pool):
    own = own_results("lstm", TRAINING)
    for name, array in results(pool, key, "lstm", TRAINING, "bfloat16").items():
        error = np.max(np.abs(array - own[name])) / np.max(np.abs(own[name]))
        assert 1e-5 < error < 0.05, name  # rounded, and no more


def test_differences_are_seen():
    own = {"y": np.array([1.0, 10.0]), "dx": np.ones(3)}
    assert check.differences(own, {"y": np.array([1.0, 10.0005])}) == []
    for other, message in (
        ({"y": np.array([1.0, 10.002])}, "y differs from the op's by 0.002"),
        ({"y": np.array([1.0, np.nan])}, "y differs from the op's by nan"),
        ({"dx": np.ones(4)}, "dx has shape (4,), the op's (3,)"),
        ({}, "there are no results"),
    ):
        assert check.differences(own, other) == [message]


def test_lengths_are_those_of_the_case():
    """A driver that ignored them would be fast."""
    ragged = cases.arrays_of(CASES["lstm_ragged"])
    padding = np.arange(ragged.x.shape[0])[:, None] >= ragged.lengths
    for pass_ in PASSES:
        assert padding.any() and not own_results("lstm_ragged", pass_)["y"][padding].any()


@pytest.mark.parametrize("key", ["own_op", "own_layer", "keras_function", "torch"])
def test_float64_is_float64(key, pool):
    for name, array in results(pool, key, "gru", TRAINING, "float64").items():
        assert array.dtype == np.float64, name
        # Rounded to float32, it would be the same.
        assert np.any(array != array.astype(np.float32)), name
