"""Measures rows: sides take turns, and rows that fail a bar are measured again."""

import dataclasses
import math
import pathlib
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np

from benchmarks import bars, engine, records, report
from benchmarks.experiments import MEMORY, Row
from benchmarks.measured import Results, ratio
from benchmarks.processes import Pool, Side, SideError
from benchmarks.records import MEBIBYTES, MILLISECONDS, Record


def measure(pool: Pool, row: Row, rounds: int, seconds: float, pause: float) -> list[Record]:
    """Measures one row; a side that fails has a record without a figure."""
    if row.measure == MEMORY:
        return _measure_memory(pool, row, rounds)
    errors = pool.start(row.sides)
    alive = [side for side in row.sides if side.name not in errors]
    errors |= pool.build(alive, row.case, row.pass_)
    turns: dict[str, list[list[float]]] = {side.name: [] for side in row.sides}
    for turn in range(rounds):
        first = turn % len(row.sides)
        for side in (*row.sides[first:], *row.sides[:first]):
            if side.name in errors:
                continue
            time.sleep(pause)
            try:
                times = pool.times(side, seconds)
            except SideError as error:
                errors[side.name] = str(error)
                continue
            turns[side.name].append([1e3 * seconds for seconds in times])
    pool.drop([side for side in row.sides if side.name not in errors])
    found = []
    for side in row.sides:
        of_side, error = turns[side.name], errors.get(side.name, "")
        steps = sum(map(len, of_side))
        medians = [statistics.median(times) for times in of_side]
        found.append(_record(pool, row, side, MILLISECONDS, error, medians, steps))
        if side.name in row.tails:
            tail = dataclasses.replace(side, name=records.tail_of(side.name))
            slow = [] if error else [_tail(of_side)]
            found.append(_record(pool, row, tail, MILLISECONDS, error, slow, steps))
    return found


def _tail(turns: list[list[float]]) -> float:
    """What TAIL_PERCENT of the steps take at most, without the first tenth of each turn."""
    # A turn may begin in a fresh process.
    warm = [time for times in turns for time in times[len(times) // 10 :]]
    return float(np.percentile(warm, records.TAIL_PERCENT))


def _measure_memory(pool: Pool, row: Row, rounds: int) -> list[Record]:
    """Of a fresh process in each round: what a library keeps for later differs between them."""
    found = []
    for side in row.sides:
        values, error = [], ""
        try:
            for _ in range(rounds):
                values.append(pool.memory(side, row.case, row.pass_) / 2**20)
        except SideError as refused:
            error = str(refused)
        found.append(_record(pool, row, side, MEBIBYTES, error, values, len(values)))
    return found


def _record(
    pool: Pool, row: Row, side: Side, unit: str, error: str, values: list[float], steps: int
) -> Record:
    figures = {} if error or not values else records.figures(values)
    return records.of_case(
        row.experiment,
        row.case,
        row.pass_,
        side,
        row.sides[0].name if len(row.sides) > 1 else "",
        pool.threads,
        unit,
        rounds=len(values),
        steps=steps,
        error=error,
        **figures,
    )


class Progress:
    """Says after each row what it found, and how long the rest takes."""

    def __init__(self, rows: list[Row]):
        self._costs = [self._cost(row) for row in rows]
        self._start = time.monotonic()
        self._done = 0

    @staticmethod
    def _cost(row: Row) -> float:
        # In seconds of some machine: tracing, short turns, and long steps in every turn.
        return len(row.sides) * (2 + 10 * row.case.flops(row.pass_) / 100e9)

    def line(self, found: list[Record]) -> str:
        self._done += 1
        elapsed = time.monotonic() - self._start
        left = elapsed * sum(self._costs[self._done :]) / sum(self._costs[: self._done])
        position = f"{self._done:{len(str(len(self._costs)))}}/{len(self._costs)}"
        base, *others = found
        cells = [f"{base.side} {report.figure(base)} {base.unit}"]
        for other in others:
            value = ratio(base, [other])
            cells.append(f"{other.side} {'-' if value is None else f'{value:.2f}x'}")
        name = f"{base.experiment} {base.case} {base.pass_}"
        return f"[{position}, {_duration(left)} left] {name}: {', '.join(cells)}"


def _duration(seconds: float) -> str:
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{minutes} min"


def measure_engine(
    binary: pathlib.Path, preamble: dict[str, str], threads: int, rounds: int, again: int
) -> Iterator[Record]:
    """Yields the engine's rows, then medians of `again` more runs of those that fail a bar.

    Raises:
      EngineError: it fails, or writes no JSON.
    """
    found = engine.run(binary, threads, rounds)
    yield from found
    failed_rows = [key[1:] for key in sorted(bars.slow_keys(Results(preamble, found)))]
    if failed_rows and again:
        print(f"Rows of the engine that fail a bar, {again} times in turns ...", flush=True)
        yield from engine.again(binary, failed_rows, threads, rounds, again)


# ------------------------------------------------------------------------------------
# Once more
# ------------------------------------------------------------------------------------


def failed(rows: list[Row], results: Results) -> list[Row]:
    """Those rows that are below what a bar requires of every row."""
    keys = bars.slow_keys(results)
    return [row for row in rows if (row.experiment, row.case.name, row.pass_) in keys]


def again(
    rows: list[Row], times: int, measure_row: Callable[[Row], list[Record]]
) -> Iterator[Record]:
    """Measures rows so many times more, in turns; yields the medians of these measurements.

    A peer that fails each time has none: what was measured of it before still counts.
    """
    runs: dict[Row, list[list[Record]]] = {row: [] for row in rows}
    progress = Progress(rows * times)
    for turn in range(times):
        for row in rows:
            runs[row].append(measure_row(row))
            print(progress.line(runs[row][-1]), flush=True)
            if turn == times - 1:
                own = row.own_sides()
                yield from records.medians_of(runs[row], lambda r, own=own: r.side in own)
