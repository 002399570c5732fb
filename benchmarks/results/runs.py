"""From a run of the benchmark to a file of results."""

import collections
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator

from benchmarks import bars, cases, records
from benchmarks.results.files import (
    LEAST,
    MEAN,
    MEDIAN,
    MOST,
    ROOT,
    TIMES,
    Figure,
    File,
    case_of,
    published,
    published_name,
    write,
)
from benchmarks.results.rendering import render

# What a file begins with.
_PREAMBLE = ("date", "cpu", "isa", "cpus", "threads", "caches", "system", "build", "versions")


def from_run(path: pathlib.Path, cpu: str | None, root: pathlib.Path = ROOT) -> File:
    """Makes a file of results of a run's csv file; it is not written yet.

    Raises:
      ValueError: the run is not fit to be published.
    """
    preamble, found = records.read(path)
    version = preamble.get("tf_cudnn_rnn", "").partition("commit ")[2]
    if not re.fullmatch("[0-9a-f]{7,40}", version):
        raise ValueError(
            f"{path}: results must be of a commit, without changes to it; got {version!r}."
        )
    figures = []
    notes = [f"Rounds: {preamble['rounds']}."] if "rounds" in preamble else []
    if "warning" in preamble:
        notes.append(f"{preamble['warning'][0].upper()}{preamble['warning'][1:]}.")
    left_out = []
    of_base = {
        (record.experiment, record.case, record.pass_)
        for record in found
        if record.side == record.base and record.median is not None
    }
    for record in found:
        if _is_random(record):
            continue
        if case_of(record.case) is None or not record.base:
            left_out.append(record.experiment)
        elif record.median is not None and (
            (record.experiment, record.case, record.pass_) in of_base
        ):
            figures.append(
                Figure(
                    group=record.experiment,
                    version=version,
                    case=record.case,
                    pass_=record.pass_,
                    dtype=record.dtype,
                    side=record.side,
                    base=record.base,
                    statistic=MEDIAN,
                    rows="",
                    unit=record.unit,
                    value=record.median,
                )
            )
    figures += _ranges(bars.Results(preamble, list(filter(_is_random, found))), version)
    if not figures:
        raise ValueError(f"{path} has no figures of cases of benchmarks/cases.csv.")
    if left_out:
        groups = ", ".join(dict.fromkeys(left_out))
        notes.append(f"Left out, as there is no table for them: rows of {groups}.")
    kept = published(preamble, _PREAMBLE)
    path = root / "docs" / "results" / published_name(kept, cpu)
    return File(path, kept, notes, figures)


def _is_random(record: records.Record) -> bool:
    return cases.is_random(record.case) and bool(record.base)


def _ranges(results: bars.Results, version: str) -> Iterator[Figure]:
    """Of random networks the least, the mean and the most, with and without short calls."""
    times = collections.defaultdict(list)  # of a side, those of its base and what it took of them
    for group in results.experiments():
        for sides in results.rows(group):
            for record in sides.values():
                base = sides.get(record.base)
                value = bars.ratio(base, [record])
                if value is not None and record is not base:
                    key = (group, record.pass_, record.dtype, record.side, record.base)
                    times[key].append((base.median, value))
    for (group, pass_, dtype, side, base), pairs in times.items():
        for least_ms, suffix in ((0.0, ""), (bars.LONG_MILLISECONDS, " of 1 ms and more")):
            ratios = [ratio for base_ms, ratio in pairs if base_ms >= least_ms]
            if not ratios:
                continue
            for statistic, value in (
                (LEAST, min(ratios)),
                (MEAN, bars.geometric_mean(ratios)),
                (MOST, max(ratios)),
            ):
                yield Figure(
                    group=group,
                    version=version,
                    case="",
                    pass_=pass_,
                    dtype=dtype,
                    side=side,
                    base=base,
                    statistic=statistic,
                    rows=f"{len(ratios)} random networks{suffix}",
                    unit=TIMES,
                    value=value,
                )


def add(path: pathlib.Path, cpu: str | None, root: pathlib.Path = ROOT) -> pathlib.Path:
    """Publishes a run; returns its page."""
    file = from_run(path, cpu, root)
    if file.path.exists():
        raise ValueError(
            f"{file.path} is there already; to put {path} in its place, delete it and add that one."
        )
    write(file)
    try:
        render(root)
    except ValueError:
        file.path.unlink()
        raise
    return file.page


def measure(cpu: str | None) -> pathlib.Path:
    """Runs `gate` and publishes it; returns the page."""
    # Needs the built library, which nothing else here does.
    from benchmarks import machine

    # The run takes long: what cannot be published is refused before it.
    commit = machine.commit()
    if not re.fullmatch("[0-9a-f]+", commit):
        raise ValueError(f"results must be of a commit, without changes to it; here is {commit!r}.")
    output = ROOT / "runs" / "bench" / "results.csv"
    arguments = ("--cases=gate", "--nocharts", f"--output={output}")
    subprocess.run([sys.executable, "-m", "benchmarks.run", *arguments], cwd=ROOT, check=True)
    return add(output, cpu)
