"""A few of the mutations that `python -m tests.fuzz.files` makes, and all of its corpus."""

import collections
import io
import pathlib
import pickle
import re
import subprocess
import sys
import types

import numpy as np
import pytest

from tests.fuzz import file_formats
from tests.weights import measured

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_few_mutations():
    """In a process without TensorFlow, whose forks are small."""
    command = [sys.executable, "-m", "tests.fuzz.files", "--mutations=5", "--processes=2"]
    result = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    for name in file_formats.FORMATS:
        assert f"\n{name}: " in result.stdout


@pytest.mark.parametrize("name", file_formats.FORMATS)
def test_mutations_are_read_and_refused(name):
    """A fuzzer whose inputs all end alike would see little."""
    outcomes = collections.Counter()
    for seed, content in list(file_formats.golden_files(name).items())[:2]:
        for number in range(15):
            mutated = file_formats.mutation(name, seed, content, number)
            assert mutated == file_formats.mutation(name, seed, content, number)
            outcome = measured.run(file_formats.FORMATS[name].read, mutated, seed, keep=True)
            outcomes[outcome.value] += 1
    assert outcomes["read"] >= 3 and outcomes["refused"] >= 6, outcomes
    assert set(outcomes) <= {"read", "refused"}


def _check_some_that_take_much() -> list[str]:
    from tests.fuzz import files  # which does without TensorFlow, as the process of this does

    def read(content, seed):
        np.ones({b"large": 400_000_000, b"small": 300_000_000}.get(content, 1), np.uint8)
        return "read"

    file_formats.FORMATS["npz"] = file_formats.FORMATS["npz"]._replace(read=read)
    return [files.check("npz", "", content) for content in (b"large", b"", b"small", b"large")]


def test_each_input_that_takes_much_memory_is_found():
    """Also after one that took more, in the same process."""
    outcome = measured.run(_check_some_that_take_much, keep=True)
    sizes = [re.sub(r"\d\d MB", "xx MB", found) for found in outcome.value]
    assert sizes == ["it took 4xx MB", "read", "it took 3xx MB", "it took 4xx MB"]


def test_a_core_that_is_slow_may_take_longer(monkeypatch):
    monkeypatch.setattr(measured, "loop_seconds", lambda: 0.13)
    assert measured.seconds_allowed(2.5) == 4.0
    monkeypatch.setattr(measured, "loop_seconds", lambda: 0.01)
    assert measured.seconds_allowed(2.5) == measured.seconds_allowed(1.5) == 2.0


def _outcome(seconds: float, megabytes: int = 1, error: str = "") -> measured.Outcome:
    return measured.Outcome(error, "", None, seconds, megabytes * 1_000_000)


@pytest.mark.parametrize(
    ("outcomes", "counts"),
    [
        ([_outcome(1.9)], _outcome(1.9)),
        ([_outcome(2.1), _outcome(1.9)], _outcome(1.9)),
        ([_outcome(2.3), _outcome(2.1), _outcome(2.2)], _outcome(2.1)),
        ([_outcome(2.1, megabytes=300), _outcome(1.9)], _outcome(1.9, megabytes=300)),
        ([_outcome(2.1), _outcome(20, error="killed")], _outcome(20, error="killed")),
    ],
)
def test_a_call_that_takes_too_long_is_made_again(monkeypatch, outcomes, counts):
    answers = io.BytesIO(b"".join(map(pickle.dumps, outcomes)))
    process = types.SimpleNamespace(stdin=io.BytesIO(), stdout=answers)
    monkeypatch.setattr(measured, "_server", lambda with_tensorflow: process)
    assert measured.run(len, "") == counts
    assert not answers.read()
