"""Lets the tests import the modules of examples/ as its programs do."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))


@pytest.fixture(autouse=True)
def _pictures_go_elsewhere(tmp_path, monkeypatch):
    """What programs write into runs/ by default they write into a folder of the test."""
    monkeypatch.chdir(tmp_path)
