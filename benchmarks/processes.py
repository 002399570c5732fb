"""The processes that the sides of a comparison live in, seen from the benchmark."""

import contextlib
import dataclasses
import json
import os
import pathlib
import select
import subprocess
import sys
import tempfile
from typing import IO

import numpy as np

from benchmarks import cases, drivers, labels, peers
from benchmarks.cases import Case

ROOT = pathlib.Path(__file__).resolve().parents[1]

# What limits every library to AVX2; those that do not know a variable ignore it.
AVX2_ENVIRONMENT = (
    ("TF_CUDNN_RNN_ISA", "avx2"),
    ("ONEDNN_MAX_CPU_ISA", "AVX2"),
    ("ATEN_CPU_CAPABILITY", "avx2"),
    ("MKL_ENABLE_INSTRUCTIONS", "AVX2"),
)


class SideError(Exception):
    """A side cannot do what it was asked; the message says why."""


@dataclasses.dataclass(frozen=True)
class Side:
    """One column of a comparison.

    Attributes:
      name: of the column.
      driver: a key of drivers.DRIVERS.
      dtype: "float32", "bfloat16", or "int8": float32 with weights in int8.
      threads: 0 for as many as the run has.
      environment: of its process.
    """

    name: str
    driver: str
    dtype: str = "float32"
    threads: int = 0
    environment: tuple[tuple[str, str], ...] = ()

    @property
    def is_own(self) -> bool:
        """Whether it is this library."""
        return self.driver.startswith("own_")


class Process:
    """One driver in its process, which is started at once and answers when it is asked."""

    def __init__(self, entry: drivers.Entry, python: str, threads: int, environment, log):
        self._log = log
        self._received = b""  # and not yet answered
        # What it leaves there goes with it: it is killed, and cannot tidy up itself.
        self._folder = tempfile.TemporaryDirectory(prefix="benchmark-")
        self._process = subprocess.Popen(
            [python, "-m", "benchmarks.worker", entry.module, entry.class_name, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            bufsize=1,
            cwd=ROOT,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "OMP_NUM_THREADS": str(threads),
                "TMPDIR": self._folder.name,
                **dict(environment),
            },
        )
        self.ask({"do": "start"})

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def ask(self, request: dict) -> None:
        """Sends a request, whose answer `answer` returns."""
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # `answer` tells how it ended

    def answer(self, seconds: float):
        """Returns the answer to the oldest request without one.

        Raises:
          SideError: the driver reports an error, the process has ended, or it says nothing for
            so many seconds; it is ended then.
        """
        line = self._line(seconds)
        if line is None:
            self.end()
            raise SideError(f"no answer within {seconds:.0f} s")
        if not line:
            code = self._process.wait()
            how = f"by signal {-code}" if code < 0 else f"with status {code}"
            raise SideError(f"the process ended {how}; its last words are in {self._log.name}")
        reply = json.loads(line)
        if "error" in reply:
            raise SideError(reply["error"])
        return reply["value"]

    def _line(self, seconds: float) -> bytes | None:
        """The next line; None if there is none within so many seconds, b"" at the end."""
        # Several may come at once. A file of Python's would keep all but the first from `select`.
        pipe = self._process.stdout.fileno()
        while b"\n" not in self._received:
            if not select.select([pipe], [], [], seconds)[0]:
                return None
            part = os.read(pipe, 1 << 16)
            if not part:
                return b""
            self._received += part
        line, _, self._received = self._received.partition(b"\n")
        return line

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        # Of a process that has ended by itself, a request may be left that it never read.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._folder.cleanup()


class Pool:
    """Starts a process for each driver, number of threads and environment that sides need.

    Attributes:
      folder: where the processes' messages go, a file each.
    """

    def __init__(
        self,
        threads: int,
        folder: pathlib.Path,
        answer_seconds: float = 900,
        registry: dict[str, drivers.Entry] = drivers.DRIVERS,
    ):
        self.threads = threads
        self.folder = folder
        self.answer_seconds = answer_seconds
        self._registry = registry
        self._processes: dict[tuple, Process] = {}
        self._logs: dict[pathlib.Path, IO[str]] = {}

    def __enter__(self) -> "Pool":
        self.folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *_) -> None:
        self.end()
        for log in self._logs.values():
            log.close()

    def start(self, sides) -> dict[str, str]:
        """Starts what is missing, all at once; returns errors by the sides' names."""
        errors = {}
        new = {}
        for side in sides:
            key = self._key(side)
            if key in self._processes and not self._processes[key].is_alive:
                self._processes.pop(key).end()
            if key not in self._processes:
                try:
                    self._processes[key] = self._new(side)
                    new[key] = side
                except SideError as error:
                    errors[side.name] = str(error)
        for key, side in new.items():
            try:
                self._processes[key].answer(self.answer_seconds)
            except SideError as error:
                errors[side.name] = f"does not start: {error}"
                self._processes.pop(key).end()
        return errors

    def build(self, sides, case: Case, pass_: str) -> dict[str, str]:
        """Makes a case ready in all sides at the same time; returns errors by their names."""
        errors = {}
        for side in sides:
            if self._key(side) in self._processes:
                self._processes[self._key(side)].ask(
                    {**_about("build", side, case, pass_), "name": side.name}
                )
        for side in sides:
            try:
                self._answer(side)
            except SideError as error:
                errors[side.name] = str(error)
        return errors

    def times(self, side: Side, seconds: float) -> list[float]:
        """Returns the seconds of each repetition of what was built.

        Raises:
          SideError: see Process.answer.
        """
        return self._request(side, {"do": "time", "name": side.name, "seconds": seconds})

    def arrays(self, side: Side) -> dict[str, np.ndarray]:
        """Returns the results of what was built.

        Raises:
          SideError: see Process.answer.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/arrays.npz"
            self._request(side, {"do": "arrays", "name": side.name, "path": path})
            with np.load(path) as file:
                return dict(file)

    def memory(self, side: Side, case: Case, pass_: str) -> int:
        """Returns the bytes that a step needs, measured in a process of its own.

        Raises:
          SideError: see Process.answer.
        """
        process = self._new(side)
        try:
            process.answer(self.answer_seconds)
            process.ask(_about("memory", side, case, pass_))
            return process.answer(self.answer_seconds)
        finally:
            process.end()

    def drop(self, sides) -> None:
        """Frees what the sides have built."""
        for side in sides:
            try:
                self._request(side, {"do": "drop"})
            except SideError:
                pass  # it has ended, and is started again when it is needed

    def end(self) -> None:
        """Ends all processes."""
        while self._processes:
            self._processes.popitem()[1].end()

    def _key(self, side: Side) -> tuple:
        return (side.driver, side.threads or self.threads, side.environment)

    def _new(self, side: Side) -> Process:
        entry = self._registry[side.driver]
        python = sys.executable if entry.environment == drivers.LIBRARY else peers.python()
        if python is None:
            raise SideError(f"{labels.of_driver(side.driver)} is not installed")
        path = self.folder / f"{side.driver}.log"
        if path not in self._logs:
            self._logs[path] = path.open("a")
        _, threads, environment = self._key(side)
        return Process(entry, python, threads, environment, self._logs[path])

    def _answer(self, side: Side):
        key = self._key(side)
        if key not in self._processes:
            raise SideError("the process has ended")
        try:
            return self._processes[key].answer(self.answer_seconds)
        except SideError:
            if not self._processes[key].is_alive:
                self._processes.pop(key).end()
            raise

    def _request(self, side: Side, request: dict):
        if self._key(side) in self._processes:
            self._processes[self._key(side)].ask(request)
        return self._answer(side)


def _about(do: str, side: Side, case: Case, pass_: str) -> dict:
    return {"do": do, "case": cases.to_json(case), "pass": pass_, "dtype": side.dtype}
