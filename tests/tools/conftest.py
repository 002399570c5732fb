"""Lets tests call the programs of tools/, and configure.py, as modules."""

import importlib.util
import pathlib
import types
from collections.abc import Callable

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def load(monkeypatch) -> Callable[[str], types.ModuleType]:
    """A function from a program's path to a module of it, which nobody else has."""
    monkeypatch.syspath_prepend(ROOT / "tools")  # as programs there find each other

    def load(path: str) -> types.ModuleType:
        spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, ROOT / path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load
