"""Runs a reader in a process of its own, and tells what it cost and how it ended.

A small process, mostly without TensorFlow, forks for each call: what is measured then is the reader
alone.
"""

import atexit
import faulthandler
import functools
import os
import pathlib
import pickle
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, NamedTuple

SECONDS = 2.0
BASE_BYTES = 200_000_000
# Beyond this a reader is taken to hang. It is far above SECONDS, as the machine may have other
# work; SECONDS is compared with the processors' time.
_PATIENCE = 60.0


class Outcome(NamedTuple):
    """How a call ended.

    Attributes:
      error: the class of what it raised; "" if it returned; "killed" if it was too slow, or died.
      message: of the error.
      value: what it returned.
      seconds: of processors' time, its child processes included.
      peak_bytes: of memory beyond what there was before, that of a child process included.
    """

    error: str
    message: str
    value: Any
    seconds: float
    peak_bytes: int


def _status(field: str) -> int:
    """A size of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise LookupError(field)


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _seconds() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in (own, children))


def _run(read: Callable[..., Any], arguments: tuple, keep: bool) -> Outcome:
    _reset_peak()
    before, start = _status("VmRSS"), _seconds()
    error, message, value = "", "", None
    try:
        value = read(*arguments)
    except BaseException as raised:
        error, message = type(raised).__name__, str(raised)
        for kind in (ValueError, OSError):  # subclasses will do
            if isinstance(raised, kind):
                error = kind.__name__
    seconds = _seconds() - start
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    peak = _status("VmHWM") - before + children
    return Outcome(error, message, value if keep else None, seconds, peak)


def run(
    read: Callable[..., Any], *arguments: Any, keep: bool = False, with_tensorflow: bool = False
) -> Outcome:
    """Calls `read(*arguments)` in a process of its own.

    Args:
      read: can be pickled, as can its arguments.
      arguments: of `read`.
      keep: whether to bring home what it returns.
      with_tensorflow: whether that process has imported TensorFlow.
    """
    process = _server(with_tensorflow)
    pickle.dump((read, arguments, keep), process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


@functools.cache
def _server(with_tensorflow: bool) -> subprocess.Popen:
    code = (
        "import tensorflow\n"
        if with_tensorflow
        else "import sys; sys.modules['tensorflow'] = None\n"
    )
    code += "from tests.weights import measured; measured.serve()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=pathlib.Path(__file__).resolve().parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    atexit.register(process.communicate)  # which ends it
    return process


def serve() -> None:
    """What the small process does."""
    import h5py  # noqa: F401 now, and not in each call

    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    with tempfile.TemporaryDirectory() as tempfile.tempdir:
        while True:
            try:
                request = pickle.load(requests)
            except EOFError:
                return
            pickle.dump(fork(*request), answers)
            answers.flush()


def fork(read: Callable[..., Any], arguments: tuple, keep: bool = False) -> Outcome:
    """Calls `read(*arguments)` in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            faulthandler.disable()  # a crash is an outcome
            os.close(reading)
            # What a hostile file can do to this machine stays bounded, too.
            resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
            space = _status("VmSize") + 6_000_000_000
            resource.setrlimit(resource.RLIMIT_AS, (space, space))
            outcome = pickle.dumps(_run(read, arguments, keep))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(outcome)
        finally:
            os._exit(0)
    os.close(writing)
    content = bytearray()
    deadline = time.monotonic() + _PATIENCE
    while select.select([reading], [], [], max(0.0, deadline - time.monotonic()))[0]:
        chunk = os.read(reading, 1 << 20)
        if not chunk:
            break
        content += chunk
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    usage = os.wait4(child, 0)[2]
    if not content:
        seconds = usage.ru_utime + usage.ru_stime
        return Outcome("killed", "it hung, or crashed", None, seconds, usage.ru_maxrss * 1024)
    return pickle.loads(content)
