"""Runs a test's function in a fresh process."""

import os
import pathlib
import subprocess
import sys

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# Seconds after which a process is said to hang; far more than any test takes, for the machine may
# have other work.
_TIMEOUT = 1200

# What is done about warnings: "default" where another TensorFlow warns of matters of its own.
_WARNINGS = os.environ.get("TF_CUDNN_RNN_TEST_WARNINGS", "error")


def run(function, *arguments, environment=None) -> str:
    """Calls a top-level function with literal arguments; returns what it printed."""
    return run_code(code_of(function, *arguments), environment=environment)


def run_code(code: str, environment=None, cwd=_ROOT) -> str:
    """Runs Python code; returns what it printed. Fails with all it said."""
    result = result_of(code, environment, cwd)
    assert result.returncode == 0, f"{code}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def code_of(function, *arguments) -> str:
    """What calls a top-level function with literal arguments."""
    return (
        f"from {function.__module__} import {function.__name__}\n"
        f"{function.__name__}(*{arguments!r})"
    )


def result_of(code: str, environment=None, cwd=_ROOT) -> subprocess.CompletedProcess:
    """Runs Python code. A process that hangs ends with status 1 and the stacks of its threads."""
    watchdog = f"import faulthandler; faulthandler.dump_traceback_later({_TIMEOUT}, exit=True)\n"
    return subprocess.run(
        [sys.executable, "-W", _WARNINGS, "-c", watchdog + code],
        cwd=cwd,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **(environment or {})},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT + 60,  # if not even the watchdog ends it
    )
