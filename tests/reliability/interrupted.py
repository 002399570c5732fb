"""Programs that are cancelled, interrupted or ended while calls run. For processes of their own."""

import os
import signal
import sys
import threading
import time

import tensorflow as tf
from tensorflow.python.eager import cancellation

from tests.helpers import running, subprocesses
from tests.reference import judge
from tests.reliability import calls, crowd

_CONFIG = judge.Config("lstm", 1, 256, 256)


def _long_call(num_steps: int = 150) -> calls.Call:
    """By default some tenths of a second on two cores: what happens does so during a call."""
    case = running.random_case(3, _CONFIG, num_steps, 64, running.DTYPES["float"])
    tensors = running.tensors_of(case)
    return calls.Call(
        "long", lambda *tensors: list(running.call(running.OWN_V3, case, *tensors)[:3]), tensors
    )


class _Background:
    """Threads that call on and on, for programs to end while they do."""

    def __init__(self, functions):
        self._num_begun = [0] * len(functions)
        self.errors = []  # that ended a thread
        self.threads = [
            threading.Thread(target=self._run, args=[i, function], daemon=True)
            for i, function in enumerate(functions)
        ]
        for thread in self.threads:
            thread.start()

    def _run(self, i, function):
        try:
            while True:
                self._num_begun[i] += 1
                function()
        except Exception as error:
            self.errors.append(error)

    def wait_for_calls(self):
        """Returns while each thread is in its second call, or a later one."""
        while min(self._num_begun) < 2:
            assert not self.errors, self.errors
            time.sleep(0.01)


def cancel_and_interrupt() -> None:
    """Calls that are cancelled or interrupted end, and later ones work."""
    _cancel_function()
    _time_out_session()
    _close_session()
    _interrupt_calls()


# ---- Cancellation -----------------------------------------------------------


def _cancel_function():
    """A loop that would take hours ends soon after it is cancelled; then calls work as before."""
    call = calls.make("panels")
    expected = calls.bits(call.compute(*call.tensors))
    begun = threading.Event()

    @tf.function
    def loop():
        tf.py_function(begun.set, [], [])
        tensors = call.compute(*call.tensors)
        for _ in tf.range(10_000_000):
            tensors = call.compute(*call.tensors)
        return tensors

    for _ in range(3):
        manager = cancellation.CancellationManager()
        cancelable = manager.get_cancelable_function(loop.get_concrete_function())
        begun.clear()
        canceller = threading.Thread(target=lambda m=manager: begun.wait() and m.start_cancel())
        canceller.start()
        try:
            cancelable()
        except tf.errors.CancelledError:
            pass
        else:
            raise AssertionError("the loop was not cancelled")
        canceller.join()
        assert calls.bits(call.function()()) == expected


def _time_out_session():
    """Session.run ends once its time is over, and the session goes on working."""
    call = _long_call()
    graph = crowd.Graph(call)
    expected = calls.bits(call.compute(*call.tensors))
    num_timeouts = 0
    while num_timeouts < 3:
        try:
            graph.run(options=tf.compat.v1.RunOptions(timeout_in_ms=1))
        except tf.errors.DeadlineExceededError:
            num_timeouts += 1
        [tensors] = graph.run()
        assert calls.bits(tensors) == expected


def _close_session():
    """Calls that run in a session that is closed end, with their results or as cancelled."""
    call = calls.make("panels")
    graph = crowd.Graph(call)
    for _ in range(10):
        session = graph.session()
        background = _Background([lambda s=session: graph.run(s)] * 4)
        background.wait_for_calls()
        session.close()
        for thread in background.threads:
            thread.join()
        for error in background.errors:
            assert isinstance(error, tf.errors.CancelledError) or "closed" in str(error), error
    [tensors] = graph.run()
    assert calls.bits(tensors) == calls.bits(call.compute(*call.tensors))


# ---- Interrupts and ends ----------------------------------------------------


def _interrupt_calls():
    """Ctrl-C in the middle of a call raises KeyboardInterrupt after it, and calls go on working."""
    call = _long_call()
    expected = calls.bits(call.compute(*call.tensors))
    function = call.function()
    for compute in (function, lambda: call.compute(*call.tensors)):
        counts = _interrupt(compute)
        # The next call may begin before Python hears of the signal.
        assert counts["at the end"] <= counts["at the signal"] + 1, counts
        assert calls.bits(compute()) == expected


def _interrupt(compute) -> dict:
    """Interrupts this thread while it calls on and on; returns how many calls had begun."""
    counts = {"at the end": 0}

    def press_ctrl_c():
        while counts["at the end"] < 2:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)
        counts["at the signal"] = counts["at the end"]

    presser = threading.Thread(target=press_ctrl_c)
    try:
        presser.start()
        while True:
            counts["at the end"] += 1
            compute()
    except KeyboardInterrupt:
        pass
    presser.join()
    return counts


_STATUS = 7  # of programs that choose one
# From how a process ends to its exit status.
ENDS = {
    "sys.exit": _STATUS,
    "os._exit": _STATUS,
    "the end": 0,
    "SIGINT": -signal.SIGINT,
    "SIGTERM": -signal.SIGTERM,
}


def check_end(how: str, *, prepared: bool = False) -> None:
    """Checks that a process that ends in the middle of calls does so with the right status."""
    result = subprocesses.result_of(subprocesses.code_of(_end, how), prepared=prepared)
    ended = (result.stdout, result.returncode)
    assert ended == ("calls run\n", ENDS[how]), f"{ended}; stderr:\n{result.stderr}"
    assert "Fatal" not in result.stderr, result.stderr


def _end(how: str) -> None:
    long, short, both_passes = _long_call(), _long_call(num_steps=2), calls.make("together")
    # Gradients in functions alone: where Python ends in the middle of an eager gradient, TensorFlow
    # crashes, whichever op it is of (docs/reliability.md).
    background = _Background(
        [
            both_passes.function(),
            lambda: short.compute(*short.tensors),
            long.function(),
            lambda: long.compute(*long.tensors),
        ]
    )
    background.wait_for_calls()
    print("calls run", flush=True)
    if how == "sys.exit":
        sys.exit(_STATUS)
    elif how == "os._exit":
        os._exit(_STATUS)
    elif how in ("SIGINT", "SIGTERM"):
        os.kill(os.getpid(), ENDS[how] * -1)
        time.sleep(10_000)
