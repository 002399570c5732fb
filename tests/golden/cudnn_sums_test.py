"""Built-in and own ops against sums that real cuDNN printed (tests/golden/cudnn/sums.csv)."""

import csv
import dataclasses
import pathlib

import numpy as np
import pytest

import tf_cudnn_rnn
from tests.helpers import running
from tests.reference import cases, judge

PATH = pathlib.Path(__file__).resolve().parent / "cudnn" / "sums.csv"
TENSORS = running.OUTPUTS + running.GRADIENTS
T, B, L, H = 20, 64, 2, 512

# The spread of cuDNN's own sums from GPU to GPU.
RELATIVE_TOLERANCE = 1.2e-5


def read_sums() -> list[dict[str, str]]:
    lines = [line for line in PATH.read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines))


ROWS = read_sums()


def params_of(config: judge.Config) -> np.ndarray:
    """As the file's head says, put together by the ops of this library."""
    network = (config.rnn_mode, L, H, H)
    size = int(tf_cudnn_rnn.params_size(*network, direction=config.direction))
    if config.direction == "bidirectional":
        return np.full([size], 1 / size, np.float32)
    named = tf_cudnn_rnn.params_to_canonical(np.zeros([size], np.float32), *network)
    filled = [
        (name, np.full(array.shape, 1 if len(array.shape) == 1 else 1 / np.prod(array.shape)))
        for name, array in named
    ]
    params = tf_cudnn_rnn.canonical_to_params(
        [(name, array.astype(np.float32)) for name, array in filled], *network
    )
    return params.numpy()


def case_of(row: dict[str, str]) -> cases.Case:
    config = judge.Config(row["rnn_mode"], L, H, H, row["direction"])
    k = L * config.D
    has_c = config.rnn_mode == "lstm"
    states = np.ones([k, B, H], np.float32)
    return cases.Case(
        config=config,
        x=np.ones([T, B, H], np.float32),
        h0=states,
        c0=states if has_c else np.zeros([], np.float32),
        params=params_of(config),
        sequence_lengths=np.full([B], T, np.int32),
        dy=np.ones([T, B, config.D * H], np.float32),
        dh_n=states,
        dc_n=states if has_c else np.zeros([], np.float32),
    )


def assert_sums(results: dict[str, np.ndarray], row: dict[str, str], label: str) -> int:
    """Compares each sum that the row has; returns how many these are."""
    compared = 0
    for name in TENSORS:
        if row[name]:
            found = np.sum(results[name], dtype=np.float64)
            expected = float(row[name])
            error = abs(found / expected - 1)
            assert error <= RELATIVE_TOLERANCE, (
                f"sum of {name} of {label}: {found:.6E} instead of {expected:.6E}, "
                f"off by {error:.2g}"
            )
            compared += 1
    return compared


@pytest.mark.parametrize("op", [running.V3, running.OWN_V3])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['direction']}-{row['rnn_mode']}")
def test_sums_are_those_of_cudnn(row, op):
    results = running.forward_backward(op, case_of(row))
    compared = assert_sums(results, row, f"{op} {row['direction']} {row['rnn_mode']}")
    assert compared == (7 if row["rnn_mode"] == "lstm" else 5)


def test_all_sums_are_there():
    assert {(row["direction"], row["rnn_mode"]) for row in ROWS} == {
        (direction, mode) for direction in judge.DIRECTIONS for mode in judge.RNN_MODES
    }
    assert sum(bool(row[name]) for row in ROWS for name in TENSORS) == 44


@pytest.mark.parametrize("name", ["y", "dh0", "dparams"])
def test_a_wrong_sum_is_seen(name):
    row = next(row for row in ROWS if row["rnn_mode"] == "gru")
    exact = {each: np.array([float(row[each] or 0)]) for each in TENSORS}
    assert assert_sums(exact, row, "the file") == 5
    with pytest.raises(AssertionError, match=f"sum of {name} of the file: .* off by 2e-05"):
        assert_sums(exact | {name: exact[name] * (1 + 2e-5)}, row, "the file")


def test_the_sums_see_a_missing_bias():
    row = next(row for row in ROWS if row["direction"] == "unidirectional")
    case = case_of(row)
    params = case.params.copy()
    for weights in judge.split_params(case.config, params):
        weights.bR[:] = 0
    results = running.forward_backward(running.OWN_V3, dataclasses.replace(case, params=params))
    with pytest.raises(AssertionError, match="sum of y of one bias: .* off by"):
        assert_sums(results, row, "one bias")
