"""A few of the mutations that `python -m tests.fuzz.files` makes, and all of its corpus."""

import collections
import pathlib
import subprocess
import sys

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
