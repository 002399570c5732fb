"""Runs a test's function in a fresh process."""

import os
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(function, *arguments, environment=None) -> str:
    """Calls a top-level function with literal arguments; returns what it printed."""
    code = (
        f"from {function.__module__} import {function.__name__}\n"
        f"{function.__name__}(*{arguments!r})"
    )
    return run_code(code, environment=environment)


def run_code(code: str, environment=None, cwd=_ROOT) -> str:
    """Runs Python code; returns what it printed. Fails with all it said."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=cwd,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
        capture_output=True,
        text=True,
        # Far more than any test takes, for the machine may have other work.
        timeout=1200,
    )
    assert result.returncode == 0, f"{code}\n{result.stdout}\n{result.stderr}"
    return result.stdout
