"""Published results: docs/results/*.csv, and the pages, charts and tables that are made of them.

    make results                                    measures `gate`, writes a file and its page
    python -m benchmarks.results measure [CPU]      the same
    python -m benchmarks.results add RUN.csv [CPU]  publishes a run of `make bench`
    python -m benchmarks.results render             writes every page, chart and table anew

A file is called <CPU>-<date>.csv. CPU is a name such as amd-epyc-zen4; left out, it is made of what
the CPU calls itself. No page holds a figure that was typed: whoever wants to change one changes the
csv file, and renders. A chart is drawn anew if its csv file has changed, or if it was deleted.
"""

import csv
import dataclasses
import functools
import hashlib
import math
import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from typing import NamedTuple

from benchmarks import bars, cases, experiments, records, report
from benchmarks.cases import INFERENCE, TRAINING, Case
from benchmarks.records import GIGAFLOPS, MEBIBYTES, MILLISECONDS, Record

ROOT = pathlib.Path(__file__).resolve().parents[1]

# README shows the newest file of this CPU, and of it these cases.
README_CPU = "intel-xeon-granite-rapids"
README_CASES = (
    "lstm_512_b1",
    "lstm_512_b16",
    "lstm_512_b64",
    "lstm_256_b16",
    "lstm_64_b32",
    "gru_1024_b1",
    "gru_1024_b32",
    "relu_1760_b16",
    "blstm_512x3_b16",
    "lstmp_1024_512_b16",
)
# How what `render` writes begins.
_MADE_OF = "<!-- Made of"

# What README and the summary show of each pass.
SHOWN_SIDES = {TRAINING: ("keras", "torch"), INFERENCE: ("keras", "torch", "onnx")}

# Of one case.
MEDIAN = "median"
# Of the rows of a group.
LEAST, MEAN, MOST = "least", "mean", "most"
STATISTICS = (MEDIAN, LEAST, MEAN, MOST)
# The unit of a figure that says how many times as much the side took as the base.
TIMES = "x"
SHARE = "share"  # of the multiply-add peak
UNITS = (TIMES, MILLISECONDS, MEBIBYTES, GIGAFLOPS, SHARE)
PASSES = (TRAINING, INFERENCE, "forward", "backward", "")
# The commit of ranges that were noted without it.
UNKNOWN = "unknown"

SIDES = {
    "keras": "Keras",
    "keras_xla": "Keras, XLA",
    "keras_eager": "Keras, eager",
    "block_lstm": "BlockLSTMV2",
    "torch": "PyTorch",
    "onnx": "ONNX Runtime",
    "layer": "drop-in layer",
}


@dataclasses.dataclass(frozen=True)
class Figure:
    """A line of a file; the fields are its columns.

    Attributes:
      group: as in CASES=.
      version: the commit of this library, or UNKNOWN.
      case: what a median is of, or where the least or the most was found; "" if that is not known.
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

    def medians(self, group: str) -> "Table | None":
        """The rows of a group, None if the file has none."""
        found = [f for f in self.figures if f.group == group and f.statistic == MEDIAN]
        return Table(self, group, found) if found else None

    def tables(self) -> list["Table"]:
        """Those of all groups."""
        groups = dict.fromkeys(f.group for f in self.figures if f.statistic == MEDIAN)
        return [self.medians(group) for group in groups]


class Mean(NamedTuple):
    """The geometric means of rows of one kind, by side."""

    kind: str
    count: int
    by_side: dict[str, float]


class Table:
    """The medians of a group, all of one commit."""

    def __init__(self, file: File, group: str, figures: list[Figure]):
        self.group = group
        self.version = figures[0].version
        of_base = {(f.case, f.pass_): f for f in figures if f.side == f.base and f.unit != TIMES}
        preamble = file.preamble | {"tf_cudnn_rnn": f"commit {self.version}"}
        self.results = bars.Results(
            preamble, [_record(file, f, of_base[f.case, f.pass_]) for f in figures]
        )

    def passes(self) -> list[str]:
        return list(dict.fromkeys(record.pass_ for record in self.results.records))

    def rows(self, pass_: str) -> list[dict[str, Record]]:
        """The sides of each row, the base first."""
        rows = []
        for sides in self.results.rows(self.group, pass_):
            base = next(iter(sides.values())).base
            rows.append({base: sides[base]} | sides)
        return rows

    def sides(self, pass_: str) -> list[str]:
        """All sides, the base first."""
        return list(dict.fromkeys(side for sides in self.rows(pass_) for side in sides))

    def means(self, pass_: str) -> list[Mean]:
        """Of each kind of network, and of all."""
        by_kind: dict[str, list[dict[str, Record]]] = {}
        rows = self.rows(pass_)
        for kind in KINDS:
            by_kind[kind] = [s for s in rows if _kind(next(iter(s.values())).to_case()) == kind]
        by_kind = {kind: found for kind, found in by_kind.items() if found}
        if len(by_kind) > 1:
            by_kind["all"] = rows
        base, *others = self.sides(pass_)
        found = []
        for kind, of_kind in by_kind.items():
            by_side = {}
            for side in others:
                ratios = [bars.ratio(sides[base], [sides.get(side)]) for sides in of_kind]
                mean = bars.geometric_mean([ratio for ratio in ratios if ratio is not None])
                if mean is not None:
                    by_side[side] = mean
            found.append(Mean(kind, len(of_kind), by_side))
        return found


KINDS = ("LSTM, batch 1 to 4", "LSTM, larger batches", "GRU and simple RNN")


def _kind(case: Case) -> str:
    if case.rnn_mode != "lstm":
        return KINDS[2]
    return KINDS[0] if case.batch <= 4 else KINDS[1]


@functools.cache
def _known_cases() -> dict[str, Case]:
    return cases.read_cases()


def _case(name: str) -> Case | None:
    """A case of cases.csv, or the same with padding."""
    known = _known_cases()
    plain = name.removesuffix("_ragged")
    if plain not in known:
        return None
    return known[plain] if name == plain else known[plain].ragged()


def _record(file: File, figure: Figure, base: Figure) -> Record:
    """What the tables and charts of a run are made of; a ratio becomes what it is of the base."""
    is_ratio = figure.unit == TIMES
    return Record(
        experiment=figure.group,
        case=figure.case,
        pass_=figure.pass_,
        side=figure.side,
        base=figure.base,
        dtype=figure.dtype,
        threads=int(file.preamble["threads"]),
        isa="",
        unit=base.unit if is_ratio else figure.unit,
        median=figure.value * (base.value if is_ratio else 1),
        network=records.network_of(_case(figure.case)),
    )


# ------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------

_REQUIRED = ("cpu", "date", "threads", "versions")


def read(path: pathlib.Path) -> File:
    """Reads a file of results.

    Raises:
      ValueError: it is malformed; the message names the file and the line.
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
    missing = [key for key in _REQUIRED if not preamble.get(key)]
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
    reader = csv.DictReader(lines[first:], strict=True)
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

    one_of("group", [*experiments.EXPERIMENTS, experiments.ENGINE])
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
    if (is_median or row["case"]) and _case(row["case"]) is None:
        raise ValueError(f"`case` must be one of benchmarks/cases.csv; got {row['case']!r}.")
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
    file.path.parent.mkdir(parents=True, exist_ok=True)
    with file.path.open("w", newline="") as out:
        for key, value in file.preamble.items():
            out.write(f"# {key}: {value}\n")
        for note in file.notes:
            out.write(f"# note: {note}\n")
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(COLUMNS)
        for figure in file.figures:
            *texts, value = dataclasses.astuple(figure)
            writer.writerow([*texts, f"{value:.6g}"])


def read_all(root: pathlib.Path = ROOT) -> list[File]:
    """All files, the newest first."""
    files = [read(path) for path in sorted((root / "docs" / "results").glob("*.csv"))]
    return sorted(files, key=lambda file: file.preamble["date"], reverse=True)


# ------------------------------------------------------------------------------------
# From a run
# ------------------------------------------------------------------------------------


def slug(cpu: str) -> str:
    """What the CPU calls itself, as a part of a file's name."""
    words = re.sub(r"\((R|TM|C)\)", "", cpu, flags=re.IGNORECASE).partition("@")[0]
    return re.sub("[^a-z0-9]+", "-", words.lower()).strip("-")


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
    left_out: dict[str, list[str]] = {}
    for record in found:
        if _case(record.case) is None or not record.base:
            left_out.setdefault(record.experiment, [])
        elif record.median is not None:
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
    if not figures:
        raise ValueError(f"{path} has no figures of cases of benchmarks/cases.csv.")
    if left_out:
        notes.append(f"Left out, as their cases have no name: {', '.join(left_out)}.")
    date = preamble["date"].split()[0]
    name = f"{cpu or slug(preamble['cpu'])}-{date}.csv"
    kept = ("cpu", "isa", "cpus", "threads", "caches", "system", "build", "versions")
    chosen = {"date": date} | {key: preamble[key] for key in kept if preamble.get(key)}
    return File(root / "docs" / "results" / name, chosen, notes, figures)


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


# ------------------------------------------------------------------------------------
# Markdown
# ------------------------------------------------------------------------------------


def _wrapped(text: str, indent: str = "") -> list[str]:
    """A paragraph in lines of the length that the documents have."""
    return textwrap.wrap(
        text, 120, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _markdown(rows: list[list[str]]) -> list[str]:
    """A table; the first row is the head."""
    head, *body = [re.sub(r"\|  (?=\|)", "| ", f"| {' | '.join(row)} |") for row in rows]
    return [head, "|" + " --- |" * len(rows[0]), *body]


def network_label(case: Case) -> str:
    """A network and a batch in words, such as "LSTM 512, batch 16, 25 steps"."""
    mode = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "tanh RNN", "rnn_relu": "ReLU RNN"}
    name = mode[case.rnn_mode]
    if case.num_dirs == 2:
        name = f"bidirectional {name}"
    if case.num_layers > 1:
        name = f"{case.num_layers} {name}s"
    projected = f" projected to {case.output_size}" if case.layout.has_projection else ""
    steps = f"{case.seq_length} step{'s' if case.seq_length > 1 else ''}"
    sizes = f"{case.num_units}{projected}, batch {case.batch}, {steps}"
    different = f", input {case.input_size}" if case.input_size != case.num_units else ""
    ragged = f", {case.fill:.0%} of it without padding" if case.is_ragged else ""
    return f"{name} {sizes}{different}{ragged}"


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def _ratio_cells(sides: dict[str, Record], base: str, others: Iterable[str]) -> list[str]:
    return [_times(bars.ratio(sides[base], [sides.get(other)])) for other in others]


def _label(side: str) -> str:
    return SIDES.get(side, side)


def _commit_text(version: str) -> str:
    return version if version == UNKNOWN else version[:7]


def _table_of_pass(table: Table, pass_: str) -> list[str]:
    """One row a case, and the means by kind."""
    base, *others = table.sides(pass_)
    rows = table.rows(pass_)
    unit = rows[0][base].unit
    cells = [["`CASES=`", "network", f"{_label(base)}, {unit}", *map(_label, others)]]
    for sides in rows:
        record = sides[base]
        ratios = _ratio_cells(sides, base, others)
        name = f"`{record.case.removesuffix('_ragged')}`"
        cells.append([name, network_label(record.to_case()), report.figure(record), *ratios])
    for mean in table.means(pass_) if len(rows) > 1 else ():
        ratios = [_times(mean.by_side.get(other)) for other in others]
        cells.append(["", f"**geometric mean of {mean.kind}: {_rows(mean.count)}**", "", *ratios])
    return _markdown(cells)


def _rows(count: int) -> str:
    return f"{count} row{'s' if count > 1 else ''}"


def _range_cells(figures: list[Figure], statistic: str) -> str:
    found = [figure for figure in figures if figure.statistic == statistic]
    if not found:
        return ""
    (figure,) = found
    unit = figure.unit if figure.unit == TIMES else ""
    at = f" (`{figure.case}`)" if figure.case else ""
    return f"{figure.value:g}{unit}{at}"


def _ranges(file: File) -> list[str]:
    """The least, the mean and the most of groups whose rows are not in the file."""
    by_row: dict[tuple, list[Figure]] = {}
    for f in file.figures:
        if f.statistic != MEDIAN:
            key = (f.group, f.version, f.rows, f.pass_, f.dtype, f.side, f.base, f.unit)
            by_row.setdefault(key, []).append(f)
    if not by_row:
        return []
    head = ["group", "commit", "rows", "pass", "what", "least", "geometric mean", "most"]
    cells = [head]
    for (group, version, rows, pass_, _, side, base, unit), figures in by_row.items():
        what = _label(side) + (f" / {_label(base)}" if base else "")
        if unit == SHARE:
            what += ", share of the multiply-add peak"
        elif unit != TIMES:
            what += f", {unit}"
        values = [_range_cells(figures, each) for each in (LEAST, MEAN, MOST)]
        cells.append([f"`{group}`", _commit_text(version), rows, pass_, what, *values])
    return [
        "## Ranges",
        "",
        *_wrapped(
            "Of these the file has the least, the mean and the most of several rows. Where a side "
            "is divided by another, 2x is twice the time or memory of the other. The commit is "
            "unknown where it was not noted."
        ),
        "",
        *_markdown(cells),
        "",
    ]


def chart_path(file: File, table: Table, pass_: str) -> pathlib.Path:
    return file.path.with_name(f"{file.path.stem}-{table.group}-{pass_}.png")


def page(file: File) -> str:
    """The page of a file."""
    lines = [
        f"{_MADE_OF} {file.path.name} by `python -m benchmarks.results render`; do not edit. -->",
        "",
        f"# {file.title}",
        "",
        *_wrapped(
            "How the figures come about, and what they mean: [benchmarks](../benchmarks.md). The "
            f"figures of this page: [{file.path.name}]({file.path.name})."
        ),
        "",
        *_markdown([["", ""], *([key, value] for key, value in file.preamble.items())]),
        "",
        *(line for note in file.notes for line in _wrapped(f"* {note}", "  ")),
        *([""] if file.notes else []),
    ]
    for table in file.tables():
        for pass_ in table.passes():
            base = _label(table.sides(pass_)[0])
            dtypes = {r.dtype for r in table.results.records if r.pass_ == pass_}
            lines += [
                f"## {table.group}, {pass_}",
                "",
                *_wrapped(
                    f"Commit {_commit_text(table.version)}, {' and '.join(sorted(dtypes))}. First "
                    f"what `{base}` took, then how many times as much the others took: below 1.00x "
                    "the other needed less. A cell is empty where a side cannot do a case, or was "
                    "not measured; means are of the rows that have a figure."
                ),
                "",
                *_table_of_pass(table, pass_),
                "",
            ]
            if len(table.rows(pass_)) > 1:
                chart = chart_path(file, table, pass_).name
                lines += [f"![{table.group}, {pass_}, case by case]({chart})", ""]
    return "\n".join(lines + _ranges(file)).rstrip("\n") + "\n"


def _link(file: File, folder: str) -> str:
    return f"[{file.preamble['cpu']}]({folder}/{file.page.name})"


def summary(files: list[File]) -> str:
    """The means of `gate`, a table for each commit of each file, for docs/benchmarks.md."""
    head = ["geometric means"]
    for pass_, others in SHOWN_SIDES.items():
        head += [f"{pass_}: {_label(side)}" for side in others]
    lines: list[str] = []
    for file in files:
        for version, by_rows in _gate_means(file).items():
            cells = [head]
            for rows, values in by_rows.items():
                keys = [(pass_, side) for pass_, sides in SHOWN_SIDES.items() for side in sides]
                cells.append([rows, *(values.get(key, "") for key in keys)])
            source = (
                f"{_link(file, 'results')}, {file.preamble['date']}, {file.preamble['threads']} "
                f"threads, commit {_commit_text(version)}:"
            )
            lines += [*_wrapped(source), "", *_markdown(cells), ""]
    return "\n".join(lines).rstrip("\n")


def _gate_means(file: File) -> dict[str, dict[str, dict[tuple[str, str], str]]]:
    """By commit and by what the rows are, the means by pass and side: computed, or as noted."""
    found: dict[str, dict[str, dict[tuple[str, str], str]]] = {}

    def put(version: str, rows: str, pass_: str, side: str, text: str) -> None:
        found.setdefault(version, {}).setdefault(rows, {})[pass_, side] = text

    table = file.medians("gate")
    if table is not None:
        for pass_ in table.passes():
            for mean in table.means(pass_):
                for side, value in mean.by_side.items():
                    put(table.version, f"{mean.kind}: {mean.count}", pass_, side, _times(value))
    else:
        for f in file.figures:
            if (f.group, f.statistic, f.unit) == ("gate", MEAN, TIMES):
                put(f.version, f.rows, f.pass_, f.side, f"{f.value:g}x")
    return found


def readme(files: list[File]) -> str:
    """The table of README.

    Raises:
      ValueError: there is no file for it.
    """
    found = [file for file in files if file.path.stem[: -len("-2026-01-31")] == README_CPU]
    tables = [(file, file.medians("gate")) for file in found]
    chosen = next(((file, table) for file, table in tables if table is not None), None)
    if chosen is None:
        raise ValueError(
            f"README's table needs the cases of `gate` in docs/results/{README_CPU}-<date>.csv."
        )
    file, table = chosen
    by_pass = {
        pass_: {next(iter(sides.values())).case: sides for sides in table.rows(pass_)}
        for pass_ in SHOWN_SIDES
    }
    head = [""]
    for pass_, others in SHOWN_SIDES.items():
        head += [f"{pass_}, ms", *map(_label, others)]
    cells = [head]
    for name in README_CASES:
        row = [network_label(_case(name))]
        for pass_, others in SHOWN_SIDES.items():
            sides = by_pass[pass_].get(name)
            if sides is None:
                raise ValueError(f"README's table needs {name} {pass_}, which {file.path} lacks.")
            row += [report.figure(sides["op"]), *_ratio_cells(sides, "op", others)]
        cells.append(row)
    means = {pass_: {m.kind: m for m in table.means(pass_)} for pass_ in SHOWN_SIDES}
    for kind, mean in means[TRAINING].items():
        row = [f"**mean of {kind}: {_rows(mean.count)}**"]
        for pass_, others in SHOWN_SIDES.items():
            row += ["", *(_times(means[pass_][kind].by_side.get(other)) for other in others)]
        cells.append(row)
    source = (
        f"{_link(file, 'docs/results')}, {file.preamble['threads']} threads, float32, "
        f"{file.preamble['date']}, commit {_commit_text(table.version)}; the means are geometric, "
        "of all cases of the page, those included that are not shown here."
    )
    return "\n".join([*_wrapped(source), "", *_markdown(cells)])


def between_markers(text: str, name: str, content: str) -> str:
    """Puts content between the markers of this name.

    Raises:
      ValueError: the markers are not there, or not once.
    """
    begin = f"{_MADE_OF} docs/results by `python -m benchmarks.results render`: {name} -->"
    end = f"<!-- End of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"there must be one line {begin!r}, and after it one {end!r}.")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


# ------------------------------------------------------------------------------------
# Rendering
# ------------------------------------------------------------------------------------


def pages(root: pathlib.Path = ROOT) -> dict[pathlib.Path, str]:
    """What every generated text must be, by its path."""
    files = read_all(root)
    found = {file.page: page(file) for file in files}
    for path, name, content in (
        (root / "docs" / "benchmarks.md", "summary", summary(files)),
        (root / "README.md", "speed", readme(files)),
    ):
        try:
            found[path] = between_markers(path.read_text(), name, content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return found


def digest(file: File) -> str:
    """What a chart is stamped with: it tells which contents of the file it shows."""
    return hashlib.sha256(file.path.read_bytes()).hexdigest()


def charts(file: File) -> list[tuple[pathlib.Path, Table, str]]:
    """The charts that a file must have: path, table and pass."""
    return [
        (chart_path(file, table, pass_), table, pass_)
        for table in file.tables()
        for pass_ in table.passes()
        if len(table.rows(pass_)) > 1
    ]


def stamp_of(chart: pathlib.Path) -> str | None:
    """The digest that a chart has, None of a file that is none or has none."""
    # Pillow comes with matplotlib, and is needed for charts alone.
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(chart) as image:
            return image.text.get("Source")
    except (FileNotFoundError, UnidentifiedImageError):
        return None


def _is_generated(path: pathlib.Path) -> bool:
    """Whether `render` wrote it: what people add to the folder stays."""
    if path.suffix == ".md":
        return path.read_text().startswith(_MADE_OF)
    return stamp_of(path) is not None


def render(root: pathlib.Path = ROOT) -> list[pathlib.Path]:
    """Writes what is not as it must be; removes pages and charts of no file; returns the paths."""
    changed = []
    texts = pages(root)
    for path, text in texts.items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    wanted = set(texts)
    for file in read_all(root):
        for path, table, pass_ in charts(file):
            wanted.add(path)
            if stamp_of(path) != digest(file):
                from benchmarks import charts as drawing

                drawing.draw_speed(
                    table.results, table.group, pass_, path, metadata={"Source": digest(file)}
                )
                changed.append(path)
    folder = root / "docs" / "results"
    for path in sorted([*folder.glob("*.md"), *folder.glob("*.png")]):
        if path not in wanted and _is_generated(path):
            path.unlink()
            changed.append(path)
    return changed


def main(arguments: list[str]) -> None:
    """Does what the command line says."""
    try:
        match arguments:
            case ["render"]:
                for path in render():
                    print(path.relative_to(ROOT))
            case ["add", run]:
                print(add(pathlib.Path(run), None))
            case ["add", run, cpu]:
                print(add(pathlib.Path(run), cpu))
            case ["measure"]:
                print(measure(None))
            case ["measure", cpu]:
                print(measure(cpu))
            case _:
                sys.exit(__doc__)
    except ValueError as error:
        sys.exit(f"benchmarks.results: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
