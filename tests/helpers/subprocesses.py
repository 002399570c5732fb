"""Runs a test's function or code in a fresh process."""

import atexit
import contextlib
import functools
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

_ROOT = pathlib.Path(__file__).resolve().parents[2]

# Seconds after which a process is said to hang; far more than any test takes, for the machine may
# have other work.
_TIMEOUT = 1200

# What is done about warnings: "default" where another TensorFlow warns of matters of its own.
_WARNINGS = os.environ.get("TF_CUDNN_RNN_TEST_WARNINGS", "error")

_QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3"}

# Beginnings of variables that nothing has read yet where TensorFlow has only been imported, or
# that are read again (PYTHONPATH, by `prepared`).
_READ_LATER = (
    "TF_CUDNN_RNN_",
    "TF_NUM_INTRAOP_THREADS",
    "TF_NUM_INTEROP_THREADS",
    "TF_OVERRIDE_GLOBAL_THREADPOOL",
    "TF_CONFIG",
    "PYTEST_",
    "PYTHONPATH",
)

# A watchdog; and Ctrl-C, which a shell's background job ignores, and so would all that it starts.
_BEGINNING = """\
import faulthandler, signal
faulthandler.dump_traceback_later({}, exit=True)
signal.signal(signal.SIGINT, signal.default_int_handler)
"""

_REPLY = 100  # bytes, more than the longest number has


def run(function, *arguments, environment=None) -> str:
    """Calls a top-level function with literal arguments; returns what it printed."""
    return run_code(code_of(function, *arguments), environment=environment, prepared=True)


def run_code(code: str, environment=None, cwd=_ROOT, *, prepared=False) -> str:
    """Runs Python code; returns what it printed. Fails with all it said."""
    result = result_of(code, environment, cwd, prepared=prepared)
    assert result.returncode == 0, f"{code}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def code_of(function, *arguments) -> str:
    """What calls a top-level function with literal arguments."""
    return (
        f"from {function.__module__} import {function.__name__}\n"
        f"{function.__name__}(*{arguments!r})"
    )


def result_of(
    code: str, environment=None, cwd=_ROOT, *, prepared=False
) -> subprocess.CompletedProcess:
    """Runs Python code. A process that hangs ends with status 1 and the stacks of its threads.

    Args:
      prepared: TensorFlow and Keras may have been imported before, which spares seconds. They
        are not where a variable of `environment` must be there first. Processes that were
        prepared share addresses, hash seeds and the states of generators.
    """
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = start(code, environment, cwd, out, err, prepared=prepared)
        try:
            process.wait(_TIMEOUT + 60)  # if not even the watchdog ends it
        finally:
            end(process)
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(code, process.returncode, out.read(), err.read())


def start(code: str, environment, cwd, out, err, *, prepared: bool):
    """Starts Python code as `result_of` does; returns a Popen, or the like of one, to `end`."""
    variables = {**os.environ, **_QUIET, **(environment or {})}
    code = _BEGINNING.format(_TIMEOUT) + code
    if prepared and _prepared_suits(variables):
        return _Forked(code, variables, cwd, out, err)
    return subprocess.Popen(
        [sys.executable, "-W", _WARNINGS, "-c", code],
        cwd=cwd,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=err,
        start_new_session=True,
    )


def end(process) -> None:
    """Kills what `start` started, if it still runs, and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _prepared_suits(variables) -> bool:
    ours = _prepared()[1]
    return all(
        name.startswith(_READ_LATER)
        for name in variables.keys() | ours.keys()
        if variables.get(name) != ours.get(name)
    )


@functools.cache
def _prepared() -> tuple[socket.socket, dict[str, str]]:
    """Starts `prepared`; returns where it takes requests, and its environment."""
    ours, theirs = _pair()
    variables = {**os.environ, **_QUIET}
    process = subprocess.Popen(
        [sys.executable, "-W", _WARNINGS, "-m", "tests.helpers.prepared"],
        cwd=_ROOT,
        env=variables,
        stdin=theirs,
        start_new_session=True,  # a Ctrl-C is for the tests
    )
    theirs.close()

    @atexit.register
    def finish():
        ours.close()  # which it waits for
        process.wait()

    return ours, variables


def _pair() -> tuple[socket.socket, socket.socket]:
    """Two ends of a socket that keeps messages apart."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class _Forked:
    """A fork of `prepared`, with those methods of subprocess.Popen that tests call."""

    def __init__(self, code, variables, cwd, out, err):
        request = {"code": code, "environment": variables, "cwd": str(cwd)}
        self._replies, theirs = _pair()
        descriptors = [out.fileno(), err.fileno(), theirs.fileno()]
        socket.send_fds(_prepared()[0], [json.dumps(request).encode()], descriptors)
        theirs.close()
        self.pid = self._receive()
        self.returncode = None

    def wait(self, timeout=None) -> int:
        if self.returncode is None:
            self._replies.settimeout(timeout)
            self.returncode = self._receive()
            self._replies.close()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(timeout=0)
        except BlockingIOError:
            return None

    def _receive(self) -> int:
        reply = self._replies.recv(_REPLY)
        if not reply:
            raise RuntimeError("The process that forks for tests has ended; see what it said.")
        return int(reply)
