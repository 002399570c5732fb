"""The csv files of docs/results: lines of `# key: value`, then a line for each figure."""

import csv
import dataclasses
import functools
import math
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from benchmarks import experiments
from benchmarks.cases import INFERENCE, TRAINING, Case
from benchmarks.records import GIGABYTES, GIGAFLOPS, MEBIBYTES, MILLISECONDS, PEAK

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Of one case.
MEDIAN = "median"
# Of the rows of a group.
LEAST, MEAN, MOST = "least", "mean", "most"
STATISTICS = (MEDIAN, LEAST, MEAN, MOST)
# The unit of a figure that says how many times as much the side took as the base.
TIMES = "x"
SHARE = "share"  # of the multiply-add peak
UNITS = (TIMES, MILLISECONDS, MEBIBYTES, GIGAFLOPS, GIGABYTES, SHARE)
PASSES = (TRAINING, INFERENCE, "forward", "backward", "")
# The commit of ranges that were noted without it.
UNKNOWN = "unknown"


def published(preamble: Mapping[str, str], keys: Iterable[str]) -> dict[str, str]:
    """Returns what a published file begins with: of a run's preamble these keys that are set."""
    kept = {key: preamble[key] for key in keys if preamble.get(key)}
    if "date" in kept:  # without the time
        kept["date"] = kept["date"].split()[0]
    if "system" in kept:  # a kernel's release tells of a host what nobody needs
        kept["system"] = re.sub(r"^(\w+)-\S+-with-glibc", r"\1, glibc ", kept["system"])
    return kept


def slug(cpu: str) -> str:
    """What the CPU calls itself, as a part of a file's name."""
    words = re.sub(r"\((R|TM|C)\)", "", cpu, flags=re.IGNORECASE).partition("@")[0]
    return re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")


def published_name(preamble: Mapping[str, str], cpu: str | None) -> str:
    """Returns the name of a published file that begins so; `cpu`, if any, is part of it."""
    return f"{cpu or slug(preamble['cpu'])}-{preamble['date']}.csv"


@dataclasses.dataclass(frozen=True)
class Figure:
    """A line of a file; the fields are its columns.

    Attributes:
      group: as in CASES=, or PEAK, the machine's own.
      version: the commit of this library, or UNKNOWN.
      case: what a median is of, of a peak its name; or where the least or the most was found, ""
        if that is not known.
      pass_: one of PASSES; "" if it is none, or both.
      dtype: of the side.
      side: what was measured.
      base: the side that the others are divided by; "" if none.
      statistic: MEDIAN of one case, or LEAST, MEAN, MOST of several.
      rows: of which ones, in words; "" of a median.
      unit: of the value.
      value: positive.
    """

    group: str
    version: str
    case: str
    pass_: str
    dtype: str
    side: str
    base: str
    statistic: str
    rows: str
    unit: str
    value: float


COLUMNS = [field.name.rstrip("_") for field in dataclasses.fields(Figure)]


class File(NamedTuple):
    """A file of results.

    Attributes:
      path: of the csv file.
      preamble: what its first lines say, but for the notes.
      notes: sentences for the page.
      figures: the lines.
    """

    path: pathlib.Path
    preamble: dict[str, str]
    notes: list[str]
    figures: list[Figure]

    @property
    def page(self) -> pathlib.Path:
        return self.path.with_suffix(".md")

    @property
    def title(self) -> str:
        return f"{self.preamble['cpu']}, {self.preamble['date']}"


@functools.cache
def _known_cases() -> dict[str, Case]:
    return experiments.all_cases()


def case_of(name: str) -> Case | None:
    """The case of this name, None if no group has it."""
    return _known_cases().get(name)


_REQUIRED = ("cpu", "date", "threads", "versions")


def read_lines(
    path: pathlib.Path, required: Iterable[str]
) -> tuple[dict[str, str], list[str], list[str], int]:
    """Returns a file's preamble, its notes, the other lines, and how many lines come before these.

    Raises:
      ValueError: it is malformed, or not called <cpu>-<date>.csv; the message names the line.
    """
    preamble: dict[str, str] = {}
    notes: list[str] = []
    lines = path.read_text().splitlines()
    first = next((i for i, line in enumerate(lines) if not line.startswith("# ")), len(lines))
    for number, line in enumerate(lines[:first], 1):
        key, colon, value = line[2:].partition(": ")
        if not colon:
            raise ValueError(f"{path}:{number}: must be `# key: value`; got {line!r}.")
        if key == "note":
            notes.append(value)
        elif key in preamble:
            raise ValueError(f"{path}:{number}: {key!r} is there twice.")
        else:
            preamble[key] = value
    missing = [key for key in required if not preamble.get(key)]
    if missing:
        raise ValueError(f"{path}: must begin with lines `# key: value` for {', '.join(missing)}.")
    if not preamble["threads"].isdigit():
        raise ValueError(f"{path}: `threads` must be a number; got {preamble['threads']!r}.")
    if not re.fullmatch(rf"[a-z0-9-]+-{re.escape(preamble['date'])}", path.stem) or not (
        re.fullmatch(r"\d{4}-\d\d-\d\d", preamble["date"])
    ):
        raise ValueError(
            f"{path}: must be called <cpu>-<date>.csv, with the date as in 2026-01-31; its `date` "
            f"is {preamble['date']!r}."
        )
    return preamble, notes, lines[first:], first


def read(path: pathlib.Path) -> File:
    """Reads a file of results.

    Raises:
      ValueError: it is malformed; the message names the file and the line.
    """
    preamble, notes, lines, first = read_lines(path, _REQUIRED)
    reader = csv.DictReader(lines, strict=True)
    if reader.fieldnames != COLUMNS:
        raise ValueError(f"{path} must have the columns {COLUMNS}; got {reader.fieldnames}.")
    figures = []
    for row in reader:
        try:
            figures.append(_figure(row))
        except ValueError as error:
            raise ValueError(f"{path}:{first + reader.line_num}: {error}") from None
    file = File(path, preamble, notes, figures)
    try:
        _check_tables(figures)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    return file


def _figure(row: dict) -> Figure:
    if None in row or None in row.values():
        raise ValueError(f"must have {len(COLUMNS)} cells.")

    def one_of(column: str, allowed: Iterable[str]) -> None:
        if row[column] not in allowed:
            shown = ", ".join(each or "nothing" for each in allowed)
            raise ValueError(f"`{column}` must be one of {shown}; got {row[column]!r}.")

    one_of("group", [*experiments.EXPERIMENTS, experiments.ENGINE, PEAK])
    one_of("pass", PASSES)
    one_of("statistic", STATISTICS)
    one_of("unit", UNITS)
    is_median = row["statistic"] == MEDIAN
    if not re.fullmatch("[0-9a-f]{7,40}", row["version"]) and (
        is_median or row["version"] != UNKNOWN
    ):
        raise ValueError(
            f"`version` must be a commit, without changes to it; got {row['version']!r}."
        )
    is_network = row["group"] != PEAK and (is_median or row["case"])
    if is_network and case_of(row["case"]) is None:
        raise ValueError(f"`case` must be one of a group's; got {row['case']!r}.")
    if is_median == bool(row["rows"]):
        raise ValueError(f"`rows` must be empty of a median, and of nothing else: {row['rows']!r}.")
    if not row["side"] or not row["dtype"]:
        raise ValueError("`side` and `dtype` must not be empty.")
    if (is_median or row["unit"] == TIMES) and not row["base"]:
        raise ValueError("`base` must not be empty of a median, nor of a ratio.")
    try:
        value = float(row["value"])
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"`value` must be a positive number; got {row['value']!r}.")
    texts = {field.name: row[field.name.rstrip("_")] for field in dataclasses.fields(Figure)}
    return Figure(**texts | {"value": value})


def _check_tables(figures: list[Figure]) -> None:
    """Raises ValueError if lines do not go together."""
    seen = set()
    versions: dict[str, str] = {}
    of_base = {
        (f.group, f.case, f.pass_)
        for f in figures
        if f.statistic == MEDIAN and f.side == f.base and f.unit != TIMES
    }
    for figure in figures:
        key = dataclasses.replace(figure, value=0.0, unit="")
        what = " ".join(filter(None, (figure.group, figure.case, figure.pass_, figure.side)))
        if figure.statistic != MEDIAN:
            what = f"{what}, {figure.statistic} of {figure.rows}"
        if key in seen:
            raise ValueError(f"{what} is there twice.")
        seen.add(key)
        if figure.statistic == MEDIAN:
            version = versions.setdefault(figure.group, figure.version)
            if version != figure.version:
                raise ValueError(
                    f"all rows of {figure.group!r} must be of one commit; got {version} and "
                    f"{figure.version}."
                )
            if (figure.group, figure.case, figure.pass_) not in of_base:
                raise ValueError(f"{what} has no line of its base {figure.base!r} with a time.")


def write(file: File) -> None:
    """Writes a file of results."""
    rows = (dataclasses.astuple(figure) for figure in file.figures)
    lines = ([*texts, f"{value:.6g}"] for *texts, value in rows)
    write_lines(file.path, file.preamble, file.notes, COLUMNS, lines)


def write_lines(
    path: pathlib.Path,
    preamble: Mapping[str, str],
    notes: Iterable[str],
    columns: Sequence[str],
    lines: Iterable[Sequence[str]],
) -> None:
    """Writes what `read_lines` reads: a preamble with notes, and a table."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        for key, value in preamble.items():
            out.write(f"# {key}: {value}\n")
        for note in notes:
            out.write(f"# note: {note}\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(lines)


def read_all(root: pathlib.Path = ROOT) -> list[File]:
    """All files, the newest first."""
    files = [read(path) for path in sorted((root / "docs" / "results").glob("*.csv"))]
    return sorted(files, key=lambda file: file.preamble["date"], reverse=True)
