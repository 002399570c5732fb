"""tools/test_matrix.py: which environments there are, and what is tested in them."""

import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def matrix(load):
    return load("tools/test_matrix.py")


def test_each_tensorflow_has_its_pythons(matrix):
    pairs = [(it.tensorflow, it.python) for it in matrix.ALL]
    assert len(set(pairs)) == len(pairs)
    for tensorflow in matrix.wheels.TENSORFLOWS:
        pythons = sorted(python for it, python in pairs if it == tensorflow)
        with_newest = ["3.13"] if tensorflow in ("2.20", "2.21") else []
        assert pythons == ["3.10", "3.11", "3.12", *with_newest]


def test_some_have_each_tensorflow_and_each_python(matrix):
    assert {it.tensorflow for it in matrix.SOME} == set(matrix.wheels.TENSORFLOWS)
    assert {it.python for it in matrix.SOME} == set(matrix.PYTHONS)


def test_what_is_tested_is_there(matrix):
    assert all((ROOT / name).exists() for name in [*matrix.TESTS, "tests/legacy"])
