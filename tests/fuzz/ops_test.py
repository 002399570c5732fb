"""A small part of what tests/fuzz/ops.py draws, and that it sees what is wrong."""

from tests.fuzz import op_calls, ops

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
