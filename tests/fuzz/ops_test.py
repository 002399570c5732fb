"""A small part of what tests/fuzz/ops.py draws, and that it sees what is wrong."""

import re

import numpy as np
import pytest
import tensorflow as tf

from tests.fuzz import drawing, op_calls, op_draws, op_results, op_runs, op_worker, ops

CALLS = 10 * len(op_calls.OPS)


def test_calls_go_as_the_rules_say():
    fuzzer = ops.Fuzzer()
    fuzzer.run_batch(seed=0, size=CALLS)
    assert not fuzzer.findings, "\n".join(fuzzer.findings)
    assert {op for op, _, _ in fuzzer.counts} == set(op_calls.OPS)
    assert {mode for _, mode, _ in fuzzer.counts} == {"eager", "function", "graph"}
    outcomes = {outcome for _, _, outcome in fuzzer.counts}
    assert {"judged", "InvalidArgumentError", "ValueError"} <= outcomes
    assert fuzzer.calls >= CALLS * 0.9


def _wrong_value(run, call, arrays):
    """The last of the first values is off by one."""
    outputs = run(call, arrays)
    name, first = next(iter(outputs.items()))
    if first.size:
        outputs[name] = first.copy()
        outputs[name].flat[-1] = np.float64(first.flat[-1]) + 1
    return outputs


def _accepted(run, call, arrays):
    """What is refused comes to an end."""
    try:
        return run(call, arrays)
    except op_runs.Refused:
        return {}


def _refused(run, call, arrays):
    """A valid call is refused, too."""
    run(call, arrays)
    raise op_runs.Refused("running", tf.errors.InvalidArgumentError(None, None, "Wrong."))


def _other_words(run, call, arrays):
    """The error says something else."""
    try:
        return run(call, arrays)
    except op_runs.Refused as refused:
        error = tf.errors.InvalidArgumentError(None, None, "Wrong.")
        raise op_runs.Refused(refused.phase, error) from None


def _other_error(run, call, arrays):
    try:
        return run(call, arrays)
    except op_runs.Refused as refused:
        raise op_runs.Refused(refused.phase, RuntimeError(str(refused.error))) from None


@pytest.mark.parametrize(
    "op", ["CudnnRNNV3", "own KerasRNNBackprop", "CudnnRNNParamsToCanonicalV2"]
)
@pytest.mark.parametrize(
    "planted, says",
    [
        (_wrong_value, "off by|has other values|padding is not"),
        (_accepted, "accepted, but breaks"),
        (_refused, "a valid call was refused"),
        (_other_words, "says none of"),
        (_other_error, "not one of"),
    ],
)
def test_a_fault_is_found(op, planted, says, monkeypatch):
    run = op_runs.RUN["eager"]
    monkeypatch.setitem(op_runs.RUN, "eager", lambda call, arrays: planted(run, call, arrays))
    found = []

    @drawing.draws(op_draws.calls_of(op), seed=0, size=100)
    def make_all(call):
        if call["mode"] == "eager" and not found:
            try:
                op_worker.make(call)
            except (op_results.Finding, AssertionError) as finding:
                found.append(str(finding))

    make_all()
    assert found and re.search(says, found[0])
