"""A small part of what tests/fuzz/runtime.py draws, and that it sees what is wrong."""

import numpy as np
import pytest

from tests.fuzz import runtime as fuzz
from tf_cudnn_rnn import runtime


def test_calls_and_streams_go_as_they_should():
    fuzzer = fuzz.Fuzzer()
    fuzzer.run(seed=0, size=400)
    assert fuzzer.finding is None, fuzzer.finding
    assert {"valid", "ValueError", "TypeError"} == {outcome for _, outcome in fuzzer.counts}
    assert {use for use, _ in fuzzer.counts} == {"call", "stream"}
    assert fuzzer.counts["call", "valid"] > 30 and fuzzer.counts["stream", "valid"] > 10


def _taken_as_it_lies(array):
    return np.frombuffer(array.tobytes(order="A"), array.dtype.newbyteorder("=")).reshape(
        array.shape
    )


@pytest.mark.parametrize(
    "name, planted",
    [
        ("_dense", _taken_as_it_lies),
        ("_are_integers", lambda array: True),
        ("_check_range", lambda lengths, T: None),
    ],
)
def test_a_fault_is_found(name, planted, monkeypatch):
    monkeypatch.setattr(runtime, name, planted)
    fuzzer = fuzz.Fuzzer()
    fuzzer.run(seed=0, size=4000)
    assert fuzzer.finding is not None
