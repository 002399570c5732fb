"""configure.py: which compilers' warnings are errors."""

import pytest


@pytest.fixture
def configure(load):
    return load("configure.py")


@pytest.mark.parametrize(
    ("body", "known"),
    [
        ("echo 12.2.0", True),
        ("echo 9.4.0", False),
        ("echo 13.1.0", False),
        ("echo 120.0", False),
        ("echo no such option >&2; exit 1", False),  # as Clang says
        ("exit 0", False),
    ],
)
def test_warnings_are_errors_where_they_are_known(body, known, configure, monkeypatch, tmp_path):
    compiler = tmp_path / "cc"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = -dumpfullversion ] || exit 1\n{body}\n')
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    assert configure.has_known_gcc() is known


def test_a_compiler_that_is_missing(configure, monkeypatch):
    monkeypatch.setenv("CC", "/no/such/compiler")
    assert not configure.has_known_gcc()
