"""The same call gives the same bits, and rows have nothing to do with each other."""

import contextlib
import dataclasses
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from tests.helpers import running, subprocesses
from tests.reference import cases, judge
from tests.reliability import determinism

_POOLS = (1, 2, 3, 4, 8, 128)


# Until the process that began it ends, or for ten minutes.
_BUSY = """
import os, signal
signal.alarm(600)
parent = os.getppid()
while os.getppid() == parent:
    pass
"""


@contextlib.contextmanager
def _other_work():
    """Twice as many processes as CPUs, up to 16, that only take time."""
    with contextlib.ExitStack() as stack:
        for _ in range(min(2 * len(os.sched_getaffinity(0)), 16)):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", _BUSY]))
            stack.callback(process.kill)  # before it is waited for
        yield


def test_processes_and_pools_of_any_size_have_the_same_bits_also_under_load():
    # One is no fork, or both would have the addresses and the hash seeds of the same parent.
    in_one_process = json.loads(
        subprocesses.run_code(
            subprocesses.code_of(determinism.print_digests),
            environment={"TF_NUM_INTRAOP_THREADS": "3"},
        )
    )
    with _other_work():
        result = subprocesses.result_of(
            subprocesses.code_of(determinism.print_digests_of_pools, _POOLS),
            {
                "TF_NUM_INTRAOP_THREADS": "1",
                "TF_OVERRIDE_GLOBAL_THREADPOOL": "1",
                "TF_CUDNN_RNN_LOG": "plan",
            },
            prepared=True,
        )
    assert result.returncode == 0, result.stderr
    in_another, of_pools = json.loads(result.stdout)
    assert in_another == in_one_process
    for name, by_size in of_pools.items():
        assert by_size == {str(size): in_one_process[name] for size in _POOLS}, name

    # Dropout acts, and goes on from step to step.
    steps = [value for name, value in in_one_process.items() if "step" in name]
    assert len(set(steps)) == len(steps) == 6

    # The calls are of all the kinds that this is about.
    plans = result.stderr
    assert {int(match) for match in re.findall(r" threads=(\d+)", plans)} >= set(_POOLS)
    assert "directions=together" in plans
    assert "rank_groups=2" in plans
    for kind in ("training", "backward"):
        assert re.search(rf": {kind} .* batch_parts=2", plans), kind
    for route in ("packed", "packed_in_turn", "rows_in_place", "columns_in_place"):
        assert re.search(rf"[=,]{route}[, ]", plans), route


# (T, B): a small call, few rows, groups of rows, several chunks of time.
_SHAPES = [(4, 3), (30, 2), (9, 67), (60, 12)]


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_a_row_does_not_depend_on_the_other_rows(rnn_mode, dtype):
    for seed, (num_steps, batch) in enumerate(_SHAPES):
        config = judge.Config(rnn_mode, 2, 35, 19, "bidirectional")
        case = running.random_case(seed, config, num_steps, batch, running.DTYPES[dtype])
        row = seed % batch
        expected = _results_of(row, case)
        for what, value in [("other lengths", None), ("NaN", np.nan)]:
            other = _with_other_rows(case, row, value)
            actual = _results_of(row, other)
            for name, bits in expected.items():
                assert actual[name] == bits, f"{name} beside rows with {what}: {case}"


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_more_rows_and_steps_change_no_bits_beyond_the_limits_of_the_faq(rnn_mode, dtype):
    config = judge.Config(rnn_mode, 2, 35, 19, "bidirectional")
    num_steps, batch, row = 20, 6, 2
    case = running.random_case(5, config, 2 * num_steps, 4 * batch, running.DTYPES[dtype])
    lengths = np.minimum(case.sequence_lengths, num_steps)
    case = dataclasses.replace(case, sequence_lengths=lengths)
    part = dataclasses.replace(
        case,
        x=case.x[:num_steps, :batch],
        dy=case.dy[:num_steps, :batch],
        sequence_lengths=lengths[:batch],
        **{
            name: getattr(case, name)[:, :batch]
            for name in ("h0", "c0", "dh_n", "dc_n")
            if getattr(case, name).ndim
        },
    )
    expected = _results_of(row, part)
    for name, bits in _results_of(row, case).items():
        # Outputs and gradients of inputs have steps, of which the others are padding.
        assert bits[: len(expected[name])] == expected[name], name


def _with_other_rows(case: cases.Case, row: int, value: float | None) -> cases.Case:
    """All rows but one are filled with `value`, or keep their values and have other lengths."""
    if value is None:
        lengths = cases.ragged_lengths(np.random.default_rng(4), case.T, case.B, True)
        lengths[row] = case.sequence_lengths[row]
        return dataclasses.replace(case, sequence_lengths=lengths)
    changed = {}
    for name in ("x", "h0", "c0", "dy", "dh_n", "dc_n"):
        tensor = getattr(case, name).copy()
        if tensor.ndim:
            tensor[:, np.arange(case.B) != row] = value
        changed[name] = tensor
    return dataclasses.replace(case, **changed)


def _results_of(row: int, case: cases.Case) -> dict[str, bytes]:
    results = running.forward_backward(running.OWN_V3, case)
    return {
        name: value[:, row].tobytes()
        for name, value in results.items()
        if name != "dparams" and value.ndim
    }
