"""From runs of the benchmark to a file of results."""

import pathlib
import re
import subprocess
import sys
from collections.abc import Sequence

from benchmarks import experiments, measured, records
from benchmarks.results.files import (
    MEDIAN,
    ROOT,
    Figure,
    File,
    case_of,
    published,
    published_name,
    write,
)
from benchmarks.results.rendering import render, require_commit

# What a file begins with.
_PREAMBLE = (
    *("date", "cpu", "isa", "instruction_set", "cpus", "threads", "caches"),
    *("system", "build", "versions"),
)

_WITHOUT_PEERS = (records.PEAK, experiments.ENGINE)


def from_runs(paths: Sequence[pathlib.Path], cpu: str | None, root: pathlib.Path = ROOT) -> File:
    """Makes a file of results of csv files of runs on one machine; it is not written yet.

    Raises:
      ValueError: the runs are not fit to be published, or not together.
    """
    figures: list[Figure] = []
    notes: list[str] = []
    preambles = []
    for path in paths:
        preamble, found = records.read(path)
        version = preamble.get("tf_cudnn_rnn", "").partition("commit ")[2]
        if not re.fullmatch("[0-9a-f]{7,40}", version):
            raise ValueError(
                f"{path}: results must be of a commit, without changes to it; got {version!r}."
            )
        missing = [key for key in ("date", "threads") if key not in preamble]
        if missing:
            raise ValueError(f"{path} must have a line `# {missing[0]}: ...`, as runs write it.")
        if records.FINISHED not in preamble:
            raise ValueError(f"{path}: the run was cut short. Run its groups again, to the end.")
        _require_own_figures(path, int(preamble["threads"]), found)
        of_run = _figures(found, version)
        if not of_run:
            raise ValueError(f"{path} has no figures of groups that are published.")
        figures += of_run
        if "rounds" in preamble:
            notes.append(f"Rounds: {preamble['rounds']}.")
        if preamble.get("again", "0") != "0":
            notes.append(
                "Rows that failed a bar were measured again, and the medians of "
                f"{preamble['again']} such measurements count; rows that passed were not."
            )
        preambles.append(preamble)
    warned = [preamble["warning"] for preamble in preambles if "warning" in preamble]
    if len(preambles) == 1:
        notes += [f"{warning[0].upper()}{warning[1:]}." for warning in warned]
    elif warned:
        notes.append(
            f"When {len(warned)} of the {len(preambles)} runs of this page began, others used the "
            "machine, or had done so in the minute before: single rows may be wrong by any factor."
        )
    latest = max(preamble["date"] for preamble in preambles)
    kept = published(preambles[0] | {"date": latest}, _PREAMBLE)
    for path, preamble in zip(paths, preambles, strict=True):
        for key in ("cpu", "instruction_set", "threads", "caches", "build", "versions"):
            if preamble.get(key) != preambles[0].get(key):
                raise ValueError(
                    f"{path}: must have the same `{key}` as {paths[0]}; got {preamble.get(key)!r}."
                )
    path = root / "docs" / "results" / published_name(kept, cpu)
    return File(path, kept, list(dict.fromkeys(notes)), figures)


def _require_own_figures(path: pathlib.Path, threads: int, found: list[records.Record]) -> None:
    """Of a row that failed a page would say nothing, where the run printed FAIL."""
    own = experiments.own_sides(threads)
    failed = [
        f"{record.experiment}, {record.case} {record.pass_}: {record.side}"
        for record in found
        if record.failed and (record.experiment in _WITHOUT_PEERS or record.side in own)
    ]
    if failed:
        raise ValueError(
            f"{path}: each side of this library must have a figure; these failed: "
            f"{'; '.join(failed)}. Run their groups again."
        )


def _figures(found: list[records.Record], version: str) -> list[Figure]:
    """Those of rows whose base has a figure, and the machine's peaks."""
    bases: dict[tuple, records.Record] = {}
    for record in found:
        # The engine's rows have none: the first one is the best instruction set's.
        if record.side == record.base or not record.base:
            bases.setdefault(measured.key_of(record), record)
    figures = []
    for record in found:
        base = record if record.experiment == records.PEAK else bases.get(measured.key_of(record))
        is_known = record.experiment == records.PEAK or case_of(record.case) is not None
        if not is_known or base is None or None in (record.median, base.median):
            continue
        figures.append(
            Figure(
                group=record.experiment,
                version=version,
                case=record.case,
                pass_=record.pass_,
                dtype=record.dtype,
                side=record.side,
                base=base.side,
                statistic=MEDIAN,
                rows="",
                unit=record.unit,
                value=record.median,
            )
        )
    return figures


def add(paths: Sequence[pathlib.Path], cpu: str | None, root: pathlib.Path = ROOT) -> pathlib.Path:
    """Publishes runs on one machine; returns their page."""
    file = from_runs(paths, cpu, root)
    if file.path.exists():
        raise ValueError(f"{file.path} is there already; to replace it, delete it and add again.")
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
    require_commit(machine.commit())
    output = ROOT / "runs" / "bench" / "results.csv"
    arguments = ("--cases=gate", "--nocharts", f"--output={output}")
    ran = subprocess.run([sys.executable, "-m", "benchmarks.run", *arguments], cwd=ROOT)
    if ran.returncode != 0:
        raise ValueError(f"nothing is published: the run ended with status {ran.returncode}.")
    return add([output], cpu)
