"""Measures this library beside every peer.

    make bench                              everything; hours
    make bench CASES=quick                  five minutes
    make bench CASES=gate,ragged            some groups
    make bench CASES=lstm_512_b16           a case of benchmarks/cases.csv
    make bench CASES=quick ARGS="--check"   whether all sides compute the same

docs/benchmarks.md tells what the figures mean.
"""

import dataclasses
import datetime
import functools
import os
import pathlib
import sys
from collections.abc import Iterator

from absl import app, flags

from benchmarks import (
    cases,
    check,
    drivers,
    engine,
    experiments,
    labels,
    machine,
    measuring,
    peers,
    records,
    report,
)
from benchmarks.experiments import Row
from benchmarks.measured import Results
from benchmarks.measuring import Progress
from benchmarks.processes import Pool
from benchmarks.records import Record

ROOT = pathlib.Path(__file__).resolve().parents[1]

_CASES = flags.DEFINE_list("cases", [experiments.ALL], "groups of cases, and names of cases")
_SIDES = flags.DEFINE_list("sides", None, "the columns to measure besides the first; default all")
_PASSES = flags.DEFINE_list("passes", None, "inference, training; default both")
_ROUNDS = flags.DEFINE_integer("rounds", 5, "turns of each side", lower_bound=1)
_SECONDS = flags.DEFINE_float(
    "seconds", 0.15, "the length of a turn, which is one step at least", lower_bound=0.0
)
_PAUSE = flags.DEFINE_float(
    "pause",
    0.05,
    "seconds before a turn, in which the threads of the side before go to sleep",
    lower_bound=0.0,
)
_THREADS = flags.DEFINE_integer("threads", None, "of every side; default all CPUs", lower_bound=1)
_AGAIN = flags.DEFINE_integer(
    "again", 3, "how often rows that fail a bar are measured again before they count", lower_bound=0
)
_TIMEOUT = flags.DEFINE_float(
    "timeout", 900, "seconds after which a side that is silent is ended", lower_bound=0.0
)
_SHARE = flags.DEFINE_string(
    "share", "1/1", "k/n: every n-th case, from the k-th on; the engine's own with the first"
)
_OUTPUT = flags.DEFINE_string("output", None, "the CSV file; default runs/bench/<time>.csv")
_CHECK = flags.DEFINE_bool("check", False, "compare results on small cases, and measure nothing")
_PEERS = flags.DEFINE_bool("peers", True, "install and measure what lives in .venv-peers")
_CHARTS = flags.DEFINE_bool("charts", True, "draw charts beside the CSV file")


def noise() -> str | None:
    """Says so if the machine is not quiet."""
    busy = machine.busy_cpus()
    load = os.getloadavg()[0]
    if busy <= 0.1 and load <= 0.5:
        return None
    return (
        f"others used the machine when this began ({busy:.1f} of {machine.num_cpus()} CPUs busy, "
        f"load average {load:.1f}): single rows may be wrong by any factor"
    )


# ------------------------------------------------------------------------------------
# The program
# ------------------------------------------------------------------------------------


def _check_sides(rows: list[Row]) -> None:
    known = dict.fromkeys(side.name for row in rows for side in row.sides)
    unknown = [name for name in _SIDES.value or () if name not in known]
    if unknown:
        raise app.UsageError(
            f"--sides: must be of {', '.join(known)}, which these cases have; got "
            f"{', '.join(unknown)}"
        )


def selected(rows: list[Row], missing_drivers: set[str]) -> list[Row]:
    """The rows that the flags leave."""
    number, count = _share()
    found = []
    for row in rows:
        if _PASSES.value and row.pass_ not in _PASSES.value:
            continue
        base, *others = row.sides
        if _SIDES.value:
            others = [side for side in others if side.name in _SIDES.value]
        others = [side for side in others if side.driver not in missing_drivers]
        if base.driver not in missing_drivers:
            found.append(dataclasses.replace(row, sides=(base, *others)))
    cases_of_groups = dict.fromkeys((row.experiment, row.case.name) for row in found)
    chosen = set(list(cases_of_groups)[number - 1 :: count])
    return [row for row in found if (row.experiment, row.case.name) in chosen]


def _missing_drivers() -> set[str]:
    """Of drivers.DRIVERS, those that cannot run, after an attempt to install them."""
    if not _PEERS.value:
        return {key for key, e in drivers.DRIVERS.items() if e.environment == drivers.PEERS}
    missing = peers.ensure()
    for driver in missing:
        name = labels.of_driver(driver)
        print(f"{name} could not be installed: its columns are left out.", flush=True)
    return set(missing)


def _share() -> tuple[int, int]:
    """The numbers k and n of --share."""
    number, _, count = _SHARE.value.partition("/")
    if not (number.isdigit() and count.isdigit() and 1 <= int(number) <= int(count)):
        raise app.UsageError(f"--share: must be k/n with k from 1 to n; got {_SHARE.value!r}")
    return int(number), int(count)


def _run_engine(preamble: dict[str, str], threads: int) -> Iterator[Record]:
    print("The engine's own benchmark ...", flush=True)
    try:
        binary = engine.build()
        yield from measuring.measure_engine(
            binary, preamble, threads, _ROUNDS.value, again=_AGAIN.value
        )
    except engine.EngineError as error:
        print(f"Rows of the engine are left out, or not run again: {error}.", flush=True)


def _draw(path: pathlib.Path) -> None:
    try:
        from benchmarks import charts
    except ImportError as error:
        print(f"No charts: {error}.")
        return
    for chart in charts.draw(path):
        print(f"chart: {chart}")


def main(argv: list[str]) -> None:
    """Runs what the flags ask for."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown arguments {argv[1:]}; pass names with --cases=...")
    threads = _THREADS.value or machine.num_cpus()
    for pass_ in _PASSES.value or ():
        if pass_ not in cases.PASSES:
            raise app.UsageError(f"--passes: must be of {', '.join(cases.PASSES)}; got {pass_!r}")
    try:
        rows, has_engine = experiments.plan(_CASES.value, threads)
    except ValueError as error:
        raise app.UsageError(f"--cases: {error}") from None
    _check_sides(rows)
    number, _ = _share()
    has_engine = has_engine and number == 1  # or the figures of shares would be there twice
    missing = _missing_drivers()
    started = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    path = pathlib.Path(_OUTPUT.value or ROOT / "runs" / "bench" / f"{started}.csv")
    logs = path.with_suffix(".logs")
    if _CHECK.value:
        with Pool(threads, logs, _TIMEOUT.value) as pool:
            left_out = {*missing, *drivers.NOT_COMPARED}
            sys.exit(check.report(pool, [key for key in drivers.DRIVERS if key not in left_out]))
    rows = selected(rows, missing)
    preamble = machine.stamp(threads, _CASES.value)
    preamble["rounds"] = f"{_ROUNDS.value} of {_SECONDS.value} s, {_PAUSE.value} s before each"
    preamble["again"] = str(_AGAIN.value)
    warning = noise()
    if warning:
        preamble["warning"] = warning
    for key, value in preamble.items():
        print(f"{key}: {value}", flush=True)
    found: list[Record] = []
    writer = records.Writer(path, preamble)
    is_whole = False
    try:
        if has_engine:
            for record in _run_engine(preamble, threads):
                writer.write(record)
                found.append(record)
        progress = Progress(rows)
        with Pool(threads, logs, _TIMEOUT.value) as pool:
            measure_row = functools.partial(
                measuring.measure,
                pool,
                rounds=_ROUNDS.value,
                seconds=_SECONDS.value,
                pause=_PAUSE.value,
            )
            for row in rows:
                of_row = measure_row(row)
                for record in of_row:
                    writer.write(record)
                found += of_row
                print(progress.line(of_row), flush=True)
            failed = measuring.failed(rows, Results(preamble, found))
            if failed and _AGAIN.value:
                print(f"Rows that fail a bar, {_AGAIN.value} times in turns:", flush=True)
                for record in measuring.again(failed, _AGAIN.value, measure_row):
                    writer.write(record)
                    found.append(record)
        writer.finish()
        is_whole = True
    except KeyboardInterrupt:
        print("\nInterrupted; this is what there is.")
    finally:
        writer.close()
    print(report.summary(Results(preamble, records.counted(found))))
    print(f"\nfigures: {path}")
    if _CHARTS.value:
        _draw(path)
    if not is_whole:
        sys.exit(130)


if __name__ == "__main__":
    app.run(main)
