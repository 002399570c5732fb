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


def test_what_failed_takes_the_place_of_nothing_that_passed(matrix, tmp_path, monkeypatch):
    page = tmp_path / "compatibility.md"
    page.write_text("<!-- Made by `make test-matrix ARGS=--publish` -->\n<!-- end -->\n")
    monkeypatch.setattr(matrix, "PAGE", page)
    first, second, *_ = matrix.SOME
    matrix.publish([matrix.Outcome(first, passed=338)])
    before = page.read_text()
    assert "| 338 | passed |" in before
    matrix.publish([matrix.Outcome(first, problem="failed"), matrix.Outcome(second, problem="no")])
    assert page.read_text() == before
