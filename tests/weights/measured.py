"""Runs a reader in a process of its own, and tells what it cost and how it ended.

A small process, mostly without TensorFlow, forks for each call: what is measured then is the reader
alone.
"""

import atexit
import faulthandler
import functools
import gc
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

SECONDS = 2.0  # of a core as fast as that of `_LOOP_SECONDS`, or faster; see `seconds_allowed`
BASE_BYTES = 200_000_000
# Beyond this a reader is taken to hang. It is far above SECONDS, as the machine may have other
# work; SECONDS is compared with the processors' time.
_PATIENCE = 60.0
# What `loop_seconds` took on an AMD EPYC (Zen 3), beside other work, in Python 3.11.
_LOOP_SECONDS = 0.065
_TRIES = 3


class Outcome(NamedTuple):
    """How a call ended.

    Attributes:
      error: the class of what it raised; "" if it returned; "killed" if it was too slow, or died.
      message: of the error.
      value: what it returned.
      seconds: of processors' time, its child processes included.
      peak_bytes: of memory beyond what there was before, that of a child process included.
      seconds_allowed: what a call may take on a core that is as slow as this one was.
    """

    error: str
    message: str
    value: Any
    seconds: float
    peak_bytes: int
    seconds_allowed: float = SECONDS


def _status(field: str) -> int:
    """A size of /proc/self/status, in bytes."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise LookupError(field)


class Meter:
    """What this process takes from now on. A process has one at a time."""

    def __init__(self) -> None:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")  # lets the peak begin anew, which would never fall
        self._bytes, self._seconds = _status("VmRSS"), _seconds()

    def seconds(self) -> float:
        """Of processors' time, child processes included."""
        return _seconds() - self._seconds

    def peak_bytes(self) -> int:
        """Of memory beyond what there was, without child processes."""
        return _status("VmHWM") - self._bytes


def _seconds() -> float:
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return sum(usage.ru_utime + usage.ru_stime for usage in (own, children))


def loop_seconds() -> float:
    """Seconds that some Python takes which makes many small objects, as readers do.

    Other work on the same caches slows that down more than a loop whose objects are few. What this
    process holds already does not count.
    """
    gc.freeze()
    start = time.process_time()
    entries = {}
    for number in range(50_000):
        name = f"{number:x}"
        entries[name] = {"name": name, "shape": [number]}
    sorted(entries.values(), key=lambda entry: entry["name"])
    seconds = time.process_time() - start
    gc.unfreeze()
    return seconds


def seconds_allowed(seconds: float) -> float:
    """What may be taken by a call of this process that has just taken `seconds`.

    On a slow core, or one that shares its caches with other work, it is more than `SECONDS`, by
    as much as this core is slower for `loop_seconds`. Where that does not matter, it is not asked.
    """
    if seconds < SECONDS:
        return SECONDS
    return SECONDS * max(1.0, *(loop_seconds() / _LOOP_SECONDS for _ in range(5)))


def _run(read: Callable[..., Any], arguments: tuple, keep: bool) -> Outcome:
    meter = Meter()
    error, message, value = "", "", None
    try:
        value = read(*arguments)
    except BaseException as raised:
        error, message = type(raised).__name__, str(raised)
        for kind in (ValueError, OSError):  # subclasses will do
            if isinstance(raised, kind):
                error = kind.__name__
    seconds = meter.seconds()
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    peak = meter.peak_bytes() + children
    allowed = seconds_allowed(seconds)
    return Outcome(error, message, value if keep else None, seconds, peak, allowed)


def run(
    read: Callable[..., Any], *arguments: Any, keep: bool = False, with_tensorflow: bool = False
) -> Outcome:
    """Calls `read(*arguments)` in a process of its own.

    A call that takes longer than is allowed is made again, twice at most, and the fastest counts:
    other work on the same cores slows some seconds down, and what follows them not. Of memory, the
    most counts. One that is killed is not made again.

    Args:
      read: can be pickled, as can its arguments.
      arguments: of `read`.
      keep: whether to bring home what it returns.
      with_tensorflow: whether that process has imported TensorFlow.
    """
    process = _server(with_tensorflow)
    outcomes: list[Outcome] = []
    for _ in range(_TRIES):
        pickle.dump((read, arguments, keep), process.stdin)
        process.stdin.flush()
        outcome = pickle.load(process.stdout)
        if outcome.error == "killed":
            return outcome
        outcomes.append(outcome)
        if outcome.seconds < outcome.seconds_allowed:
            break
    fastest = min(outcomes, key=lambda outcome: outcome.seconds / outcome.seconds_allowed)
    return fastest._replace(peak_bytes=max(outcome.peak_bytes for outcome in outcomes))


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
