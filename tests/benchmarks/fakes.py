"""Made-up drivers and figures, with which the benchmark is tested without measuring."""

import contextlib
import dataclasses
import os
import pathlib
import tempfile
import time
import zlib

import numpy as np
import pytest

from benchmarks import accuracy, cases, engine, experiments, records
from benchmarks.drivers import LIBRARY, Entry
from benchmarks.drivers.interface import Driver, Step, Unsupported, require
from benchmarks.experiments import MEMORY, Row
from benchmarks.records import MEBIBYTES, MILLISECONDS, Record

PREAMBLE = {
    "date": "2026-01-02 03:04 UTC",
    "cpu": "A processor",
    "isa": "avx2 avx512_bf16 avx512f fma",
    "instruction_set": "avx512_bf16",
    "threads": "2",
    "caches": "l1=32768, l2=1048576, l3 (shared)=33554432",
    "tf_cudnn_rnn": "0.1.0, commit 0123456789ab",
}


LSTM = cases.Case("tiny_lstm", (), "lstm", 1, 1, 4, 0, 3, 2, 2, 0.0)
GRU = dataclasses.replace(LSTM, name="tiny_gru", rnn_mode="gru")


class Sleeper(Driver):
    """Takes a millisecond, and returns ones."""

    seconds = 1e-3

    def __init__(self, threads: int):
        print("what a library prints when it is loaded")

    def build(self, case, pass_, dtype) -> Step:
        require(case.rnn_mode != "gru", "sleeps through no GRU")
        return Step(self.run, lambda _: {"y": np.ones(3)})

    def run(self):
        print("or when it runs")
        time.sleep(self.seconds)


class Snail(Sleeper):
    """Takes so much longer that it is told from the sleeper on a busy machine, too."""

    seconds = 0.1


class Liar(Sleeper):
    """Returns zeros."""

    def build(self, case, pass_, dtype) -> Step:
        return Step(self.run, lambda _: {"y": np.zeros(3)})


class Choosy(Sleeper):
    """Lacks what every case needs."""

    def build(self, case, pass_, dtype) -> Step:
        raise Unsupported("takes nothing")


class Raiser(Driver):
    """Raises an error."""

    def __init__(self, threads: int):
        pass

    def build(self, case, pass_, dtype) -> Step:
        raise RuntimeError("no such thing\nas a second line")


class Mortal(Driver):
    """Ends its process when it is asked for a GRU, at its second run."""

    def __init__(self, threads: int):
        self._left = 2

    def build(self, case, pass_, dtype) -> Step:
        def run():
            self._left -= 1
            if self._left == 0 and case.rnn_mode == "gru":
                os._exit(7)
            time.sleep(1e-3)  # or there would be a million figures to report

        return Step(run, lambda _: {})


class Stillborn(Driver):
    """Cannot be made."""

    def __init__(self, threads: int):
        raise ImportError("its library is not there")

    def build(self, case, pass_, dtype) -> Step:
        raise NotImplementedError


class Mute(Sleeper):
    """Takes an hour."""

    seconds = 3600


class Litterer(Sleeper):
    """Keeps a temporary folder as long as it lives; says which, and what process it is."""

    def __init__(self, threads: int):
        self._folder = tempfile.TemporaryDirectory()
        print(f"process {os.getpid()} litters {self._folder.name}", flush=True)


class Glutton(Driver):
    """Takes 64 MiB for its step, which it then gives back."""

    def __init__(self, threads: int):
        pass

    def build(self, case, pass_, dtype) -> Step:
        return Step(lambda: np.ones([8, 2**20]).sum(), lambda _: {})


class Inexact(Driver):
    """Returns the truth, of which every second element is a thousandth too large."""

    def __init__(self, threads: int):
        pass

    def build(self, case, pass_, dtype) -> Step:
        def arrays(_):
            found = accuracy.truth(case)
            for array in found.values():
                array.reshape(-1)[::2] *= 1.001
            return found

        return Step(lambda: None, arrays)


_MADE_UP = (Sleeper, Snail, Liar, Choosy, Raiser, Mortal, Stillborn, Mute, Litterer, Glutton)
DRIVERS = {
    name.__name__.lower(): Entry(LIBRARY, __name__, name.__name__) for name in (*_MADE_UP, Inexact)
}


@contextlib.contextmanager
def without_tensorflow():
    """Processes of made-up drivers start in a tenth of the time without it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(pathlib.Path(__file__).parent / "without_tensorflow"))
        yield


def figures_of(rows: list[Row], speed=lambda side, case, pass_: 200.0) -> list[Record]:
    """Makes up a record for each side of each row, without any randomness.

    Args:
      speed: GFLOP/s of a side.
    """
    found = []
    for row in rows:
        tails = [
            dataclasses.replace(side, name=records.tail_of(side.name))
            for side in row.sides
            if side.name in row.tails
        ]
        for side in (*row.sides, *tails):
            refused = side.driver == "onnxruntime" and row.pass_ == cases.TRAINING
            unit = MEBIBYTES if row.measure == MEMORY else MILLISECONDS
            value = row.case.flops(row.pass_) / speed(side.name, row.case, row.pass_) * 1e-6
            shown = {} if refused else records.figures([value * f for f in (0.9, 1, 1, 1.1, 1.3)])
            found.append(
                records.of_case(
                    row.experiment,
                    row.case,
                    row.pass_,
                    side,
                    row.sides[0].name if len(row.sides) > 1 else "",
                    2,
                    unit,
                    error="ONNX Runtime infers" if refused else "",
                    rounds=5,
                    steps=50,
                    **shown,
                )
            )
    return found


def varied_speed(side: str, case, pass_: str) -> float:
    """Speeds that differ from row to row, the op's above most of the others'."""
    spread = zlib.crc32(f"{side} {case.name} {pass_}".encode()) % 1000 / 1000
    top = {"op": 450, "layer": 430, "keras_eager": 12, "keras": 110}.get(side, 220)
    return top * (0.55 + 0.6 * spread) * case.batch / (case.batch + 3)


def engine_report(share: float = 0.9) -> dict:
    """The JSON of the engine's benchmark, at this share of a peak of 500 GFLOP/s."""
    entries = []

    def add(name: str, milliseconds: float, **counters):
        for repetition in range(3):
            entries.append(
                {
                    "name": name,
                    "run_type": "iteration",
                    "iterations": 10,
                    "real_time": milliseconds * 1e6 * (1 + 0.01 * repetition),
                    "time_unit": "ns",
                    **counters,
                }
            )
        entries.append({"name": f"{name}_mean", "run_type": "aggregate", "real_time": 0.0})

    for isa, peak in (("avx512", 500.0), ("avx2", 250.0)):
        add(f"Peak/multiply_add/{isa}/threads:2", 1.0, flops_per_second=peak * 1e9)
        for level, rate in (("l1", 900), ("l2", 300), ("l3", 120), ("dram", 40)):
            name = f"Bandwidth/{level}/{isa}/threads:2"
            add(name, 1.0, bytes_per_second=rate * 1e9)
        for case in dict.fromkeys(c for name in engine.SETS for c in cases.in_set(name)):
            for pass_, work in (("forward", 1), ("inference", 1), ("backward", 2)):
                rate = share * peak * case.batch / (case.batch + 0.3)
                milliseconds = work * case.flops(cases.INFERENCE) / rate * 1e-6
                add(f"Engine/{case.name}/{pass_}/{isa}/threads:2/real_time", milliseconds)
    add("Kernel/product/avx512/threads:2", 1.0)
    return {"context": {}, "benchmarks": entries}


def engine_figures(share: float = 0.9) -> list[Record]:
    """The records of `engine_report`."""
    return engine.parse(engine_report(share))


def everything(speed=varied_speed, share: float = 0.9) -> list[Record]:
    """The records of a run of all groups, on two threads; see `figures_of` and `engine_report`."""
    rows, _ = experiments.plan(["all"], 2)
    return engine_figures(share) + figures_of(rows, speed)
