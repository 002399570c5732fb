"""The csv files of docs/results/accuracy, which benchmarks/accuracy.py writes, and their table."""

import csv
import math
import pathlib
from typing import NamedTuple

from benchmarks import cases, labels
from benchmarks.results import markdown
from benchmarks.results.files import ROOT, read_lines, write_lines

# As the drivers name results.
TENSORS = ("y", "dx", "dh0", "dW", "dR", "db")
SIDES = ("op", "layer", "keras", "torch")
# What a file begins with.
PREAMBLE = ("cpu", "date", "commit", "threads", "isa", "system", "build", "versions", "environment")
REQUIRED = ("cpu", "date", "commit", "threads", "versions")
# The unit of the table's figures.
UNIT = 1e-7


class Error(NamedTuple):
    """A line of a file: how far a side's tensor is from the truth, relative to it."""

    case: str
    side: str
    tensor: str
    value: float


class File(NamedTuple):
    """A file.

    Attributes:
      path: where it is.
      preamble: what its first lines say, but for the notes.
      notes: sides that have no errors of a case, and why.
      errors: the lines.
    """

    path: pathlib.Path
    preamble: dict[str, str]
    notes: list[str]
    errors: list[Error]


def folder(root: pathlib.Path) -> pathlib.Path:
    return root / "docs" / "results" / "accuracy"


def write(file: File) -> None:
    """Writes a file."""
    lines = ([*texts, f"{value:.3g}"] for *texts, value in file.errors)
    write_lines(file.path, file.preamble, file.notes, Error._fields, lines)


def read(path: pathlib.Path) -> File:
    """Reads a file.

    Raises:
      ValueError: it is malformed; the message names the file and the line.
    """
    preamble, notes, lines, first = read_lines(path, REQUIRED)
    reader = csv.DictReader(lines, strict=True)
    if tuple(reader.fieldnames or ()) != Error._fields:
        raise ValueError(f"{path} must have the columns {Error._fields}; got {reader.fieldnames}.")
    errors = []
    known = {"case": {c.name for c in cases.accuracy_cases()}, "side": SIDES, "tensor": TENSORS}
    for row in reader:
        where = f"{path}:{first + reader.line_num}"
        if None in row or None in row.values():
            raise ValueError(f"{where}: must have {len(Error._fields)} cells.")
        for column, allowed in known.items():
            if row[column] not in allowed:
                raise ValueError(
                    f"{where}: `{column}` must be one of {', '.join(sorted(allowed))}; got "
                    f"{row[column]!r}."
                )
        try:
            value = float(row["value"])
        except ValueError:
            value = math.nan
        if not 0 <= value < math.inf:
            raise ValueError(f"{where}: `value` must be a number from 0; got {row['value']!r}.")
        error = Error(row["case"], row["side"], row["tensor"], value)
        if error[:-1] in {other[:-1] for other in errors}:
            raise ValueError(f"{where}: {' '.join(error[:-1])} is there twice.")
        errors.append(error)
    return File(path, preamble, notes, errors)


def read_all(root: pathlib.Path = ROOT) -> list[File]:
    """All files, the newest first."""
    found = [read(path) for path in sorted(folder(root).glob("*.csv"))]
    return sorted(found, key=lambda file: file.preamble["date"], reverse=True)


def _section(file: File) -> list[str]:
    """The table of one file, a row a case."""
    values = {error[:-1]: error.value for error in file.errors}
    sides = [side for side in SIDES if any(error.side == side for error in file.errors)]
    found = []
    for case in cases.accuracy_cases():
        cells = [labels.of_network(case)]
        for tensor in TENSORS:
            of_tensor = [values.get((case.name, side, tensor)) for side in sides]
            cells.append(" / ".join("–" if v is None else f"{v / UNIT:.2g}" for v in of_tensor))
        if any(error.case == case.name for error in file.errors):
            found.append(cells)
    link = f"results/accuracy/{file.path.name}"
    preamble = file.preamble
    source = (
        f"[{preamble['cpu']}]({link}), {preamble['date']}, commit {preamble['commit'][:7]}, "
        f"{preamble['versions']}; in a cell {' / '.join(map(labels.of_side, sides))}, times "
        f"{UNIT:.0e}; – where a side cannot do the case:"
    )
    most = ["**most: op / Keras**"]
    for tensor in TENSORS:
        ratios = [
            values[case, "op", tensor] / value
            for (case, side, of), value in values.items()
            if side == "keras" and of == tensor and value > 0 and (case, "op", of) in values
        ]
        most.append(f"**{max(ratios):.1f}x**" if ratios else "")
    return [
        *markdown.wrapped(source),
        "",
        *markdown.table([["", *TENSORS], *found, most]),
    ]


def tables(files: list[File]) -> str:
    """For docs/accuracy.md."""
    if not files:
        return "Nothing has been measured yet."
    return "\n\n".join("\n".join(_section(file)) for file in files)
