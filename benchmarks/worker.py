"""Hosts one driver in one process: reads a JSON request a line, writes a JSON reply a line.

    python -m benchmarks.worker MODULE CLASS THREADS

A reply is {"value": ...}, or {"error": "..."} after which the next request may come. Requests:

  {"do": "start"}    null: the driver is imported
  {"do": "build", "name": ..., "case": ..., "pass": ..., "dtype": ...}
                     null: the case is ready under this name, and has run once
  {"do": "time", "name": ..., "seconds": s}
                     seconds of each repetition; see interface.Step.times
  {"do": "arrays", "name": ..., "path": p}
                     null: the results of one more run are in the file p, an .npz
  {"do": "memory", "case": ..., "pass": ..., "dtype": ...}
                     bytes that a step needs beyond the weights and the inputs
  {"do": "drop"}     null: all that was built is forgotten

It ends when its input does.
"""

import ctypes
import gc
import importlib
import json
import os
import pathlib
import re
import sys
import traceback

import numpy as np

from benchmarks import cases
from benchmarks.drivers.interface import Driver, Step, Unsupported
from benchmarks.records import UNSUPPORTED

_MEMORY_STEPS = 3


def _resident_bytes(field: str) -> int:
    """VmRSS, what is resident, or VmHWM, the most that was."""
    status = pathlib.Path("/proc/self/status").read_text()
    return 1024 * int(re.search(rf"^{field}:\s*(\d+) kB", status, re.MULTILINE)[1])


class _Host:
    """Answers requests."""

    def __init__(self, module: str, class_name: str, threads: int):
        self._place = (module, class_name, threads)
        self._driver: Driver | None = None
        self._steps: dict[str, Step] = {}

    def answer(self, request: dict):
        return getattr(self, f"_{request.pop('do')}")(**request)

    def _start(self) -> None:
        module, class_name, threads = self._place
        self._driver = getattr(importlib.import_module(module), class_name)(threads)

    def _make(self, fields: dict, pass_: str, dtype: str) -> Step:
        return self._driver.build(cases.from_json(fields), pass_, dtype)

    def _build(self, **request) -> None:
        step = self._make(request["case"], request["pass"], request["dtype"])
        step.run()
        self._steps[request["name"]] = step

    def _time(self, name: str, seconds: float) -> list[float]:
        return self._steps[name].times(seconds)

    def _arrays(self, name: str, path: str) -> None:
        step = self._steps[name]
        np.savez(path, **step.arrays(step.run()))

    def _memory(self, **request) -> int:
        # The first step of a process loads code and makes threads.
        small = cases.to_json(cases.from_json(request["case"]).small())
        self._make(small, request["pass"], request["dtype"]).run()
        self._drop()
        step = self._make(request["case"], request["pass"], request["dtype"])
        self._drop()
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes VmRSS
        before = _resident_bytes("VmRSS")
        for _ in range(_MEMORY_STEPS):
            step.run()
        return _resident_bytes("VmHWM") - before

    def _drop(self) -> None:
        self._steps.clear()
        gc.collect()
        try:
            ctypes.CDLL(None).malloc_trim(0)
        except AttributeError:  # another C library than glibc
            pass


def main() -> None:
    """Answers until there are no more requests."""
    # Whatever a library prints must not come between the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, class_name, threads = sys.argv[1:]
    host = _Host(module, class_name, int(threads))
    for line in sys.stdin:
        try:
            reply = {"value": host.answer(json.loads(line))}
        except Unsupported as error:
            reply = {"error": f"{UNSUPPORTED}{error}"}
        except Exception as error:  # whatever a peer cannot do is a cell without a figure
            traceback.print_exc()
            message = (str(error).strip() or "no message").splitlines()[0]
            reply = {"error": f"{type(error).__name__}: {message}"[:300]}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
