"""The csv files of docs/results/paths, which benchmarks/paths.py writes, and their table."""

import csv
import math
import pathlib
import re
import statistics
from typing import NamedTuple

from benchmarks.results import markdown
from benchmarks.results.files import ROOT, UNKNOWN, read_lines, write_lines

# What a file begins with.
PREAMBLE = ("cpu", "date", "threads", "isa", "caches", "system", "build", "environment")
REQUIRED = ("cpu", "date", "threads")

# The paths, in the order of the table, and the pages of docs/decisions that tell of them.
PAGES = {
    "forward of small calls reads weights in place": "weights-in-place",
    "the same in the order of Keras": "keras-weights",
    "prepared weights of small calls lie in dot panels": "dot-panels",
    "small calls of some more steps read a large R in place": "weights-in-place",
    "backward of small calls reads weights in place": "weights-in-place",
    "backward of several steps reads Keras' R in place": "backward-in-place",
    "backward of some more steps reads a large R in place": "backward-in-place",
    "what one product uses is packed in its turn": "packing-in-turn",
    "the batch is split into groups of rows": "split-of-work",
    "threads take parts of the batch through all layers": "batch-parts",
    "two directions run at once": "split-of-work",
    "threads take short steps in lockstep": "lockstep",
    "floats are multiplied in bfloat16 parts": "floats-in-parts",
}
# Of files from before they went; no longer in the table.
GONE = {"steps are made of parts", "large reserves are written past the caches"}


class Call(NamedTuple):
    """A line of a file: how long a call took with a path and without it.

    Attributes:
      path: one of PAGES, or of GONE.
      version: the commit of this library, or UNKNOWN.
      call: the network, the batch and the pass, in words.
      with_path, without_path: milliseconds.
    """

    path: str
    version: str
    call: str
    with_path: float
    without_path: float

    @property
    def gain(self) -> float:
        return self.without_path / self.with_path


class File(NamedTuple):
    """A file.

    Attributes:
      path: where it is.
      preamble: what its first lines say, but for the notes.
      notes: sentences, of paths that no call took and the like.
      calls: the lines.
    """

    path: pathlib.Path
    preamble: dict[str, str]
    notes: list[str]
    calls: list[Call]


def folder(root: pathlib.Path) -> pathlib.Path:
    return root / "docs" / "results" / "paths"


def write(file: File) -> None:
    """Writes a file."""
    lines = ([*texts, f"{a:.4g}", f"{b:.4g}"] for *texts, a, b in file.calls)
    write_lines(file.path, file.preamble, file.notes, Call._fields, lines)


def _milliseconds(row: dict, column: str) -> float:
    try:
        value = float(row[column])
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"`{column}` must be a positive number; got {row[column]!r}.")
    return value


def _call(row: dict) -> Call:
    if None in row or None in row.values():
        raise ValueError(f"must have {len(Call._fields)} cells.")
    if row["path"] not in PAGES and row["path"] not in GONE:
        raise ValueError(f"`path` must be one of {', '.join(PAGES)}; got {row['path']!r}.")
    if row["version"] != UNKNOWN and not re.fullmatch("[0-9a-f]{7,40}", row["version"]):
        raise ValueError(f"`version` must be a commit; got {row['version']!r}.")
    if not row["call"]:
        raise ValueError("`call` must not be empty.")
    times = (_milliseconds(row, "with_path"), _milliseconds(row, "without_path"))
    return Call(row["path"], row["version"], row["call"], *times)


def read(path: pathlib.Path) -> File:
    """Reads a file.

    Raises:
      ValueError: it is malformed; the message names the file and the line.
    """
    preamble, notes, lines, first = read_lines(path, REQUIRED)
    reader = csv.DictReader(lines, strict=True)
    if tuple(reader.fieldnames or ()) != Call._fields:
        raise ValueError(f"{path} must have the columns {Call._fields}; got {reader.fieldnames}.")
    calls: dict[tuple, Call] = {}
    for row in reader:
        try:
            call = _call(row)
            if calls.setdefault((call.path, call.call), call) is not call:
                raise ValueError(f"{call.path}, {call.call} is there twice.")
        except ValueError as error:
            raise ValueError(f"{path}:{first + reader.line_num}: {error}") from None
    return File(path, preamble, notes, list(calls.values()))


def read_all(root: pathlib.Path = ROOT) -> list[File]:
    """All files, by name."""
    return [read(path) for path in sorted(folder(root).glob("*.csv"))]


def _cell(calls: list[Call]) -> str:
    """How many times as long calls of one path take without it."""
    gains = [call.gain for call in calls]
    if not gains:
        return ""
    mean = statistics.geometric_mean(gains)
    if len(gains) == 1:
        return f"{mean:.2f}x"
    return f"{min(gains):.2f} to {max(gains):.2f}x, mean {mean:.2f}x"


def table(files: list[File]) -> str:
    """For docs/decisions/README.md: a row a path, a column a file."""
    if not files:
        return "Nothing has been measured yet."
    heads = [f"[{file.preamble['cpu']}](../results/paths/{file.path.name})" for file in files]
    rows = [["path", *heads]]
    for name, page in PAGES.items():
        cells = [_cell([call for call in file.calls if call.path == name]) for file in files]
        rows.append([f"[{name}]({page}.md)", *cells])
    return "\n".join(markdown.table(rows))
