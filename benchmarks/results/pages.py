"""The texts that are made of files of results: their pages, the summary, README's table."""

import pathlib
from collections.abc import Iterable

from benchmarks import bar_values, bars, labels, measured, report
from benchmarks.cases import INFERENCE, PASSES, TRAINING
from benchmarks.records import GIGABYTES, PEAK, Record
from benchmarks.results import accuracy, markdown, paths, tables
from benchmarks.results.files import (
    LEAST,
    MEAN,
    MEDIAN,
    MOST,
    ROOT,
    SHARE,
    TIMES,
    UNKNOWN,
    Figure,
    File,
    case_of,
    read_all,
)
from benchmarks.results.tables import Table

# README shows the newest file of this CPU, and of it these cases.
README_CPU = "amd-epyc-zen4"
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
MADE_OF = "<!-- Made of"

# What README and the summary show of each pass.
SHOWN_SIDES = {TRAINING: ("keras", "torch"), INFERENCE: ("keras", "torch", "onnx")}


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x"


def _ratio_cells(sides: dict[str, Record], base: str, others: Iterable[str]) -> list[str]:
    return [_times(measured.ratio(sides[base], [sides.get(other)])) for other in others]


def _commit_text(version: str) -> str:
    return version if version == UNKNOWN else version[:7]


def _table_of_pass(table: Table, pass_: str) -> list[str]:
    """One row a case, and the means by kind."""
    base, *others = table.sides(pass_)
    rows = table.rows(pass_)
    unit = rows[0][base].unit
    cells = [
        ["`CASES=`", "network", f"{labels.of_side(base)}, {unit}", *map(labels.of_side, others)]
    ]
    for sides in rows:
        record = sides[base]
        ratios = _ratio_cells(sides, base, others)
        name = f"`{record.case.removesuffix('_ragged')}`"
        cells.append([name, labels.of_network(record.to_case()), report.figure(record), *ratios])
    for mean in table.means(pass_) if len(rows) > 1 else ():
        ratios = [_times(mean.by_side.get(other)) for other in others]
        cells.append(["", f"**geometric mean of {mean.kind}: {_rows(mean.count)}**", "", *ratios])
    return markdown.table(cells)


def _rows(count: int) -> str:
    return f"{count} row{'s' if count > 1 else ''}"


def _range_cells(figures: list[Figure], statistic: str) -> str:
    found = [figure for figure in figures if figure.statistic == statistic]
    if not found:
        return ""
    (figure,) = found
    unit = figure.unit if figure.unit == TIMES else ""
    at = f" (`{figure.case}`)" if figure.case else ""
    return f"{figure.value:.3g}{unit}{at}"


def _ranges(file: File) -> list[str]:
    """The least, the mean and the most of groups without tables."""
    by_row: dict[tuple, list[Figure]] = {}
    for f in (*file.figures, *tables.random_ranges(file)):
        if f.statistic != MEDIAN:
            key = (f.group, f.version, f.rows, f.pass_, f.dtype, f.side, f.base, f.unit)
            by_row.setdefault(key, []).append(f)
    if not by_row:
        return []
    head = ["group", "commit", "rows", "pass", "what", "least", "geometric mean", "most"]
    cells = [head]
    for (group, version, rows, pass_, _, side, base, unit), figures in by_row.items():
        what = labels.of_side(side) + (f" / {labels.of_side(base)}" if base else "")
        if unit == SHARE:
            what += ", share of the multiply-add peak"
        elif unit != TIMES:
            what += f", {unit}"
        values = [_range_cells(figures, each) for each in (LEAST, MEAN, MOST)]
        cells.append([f"`{group}`", _commit_text(version), rows, pass_, what, *values])
    return [
        "## Ranges",
        "",
        *markdown.wrapped(
            "The least, the mean and the most of several rows, where the file has lines of them or "
            "not. Where a side is divided by another, 2x is twice the "
            "time or memory of the other. The commit is unknown where it was not noted."
        ),
        "",
        *markdown.table(cells),
        "",
    ]


def _bar_cells(verdict: bars.Verdict) -> list[str]:
    """The row of a bar, with digits enough to tell what is below what is required."""
    bar = verdict.bar
    worst = [bars.worst_of(values) for values in (verdict.values, verdict.best)]
    means = [bars.mean_of(values) for values in (verdict.values, verdict.best)]
    of_rows = bars.digits_of(bar.every, *(each.value for each in worst if each is not None))
    of_means = bars.digits_of(bar.mean, *means)

    def text(value: float | None, digits: int) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    reached, best = (
        [f"{text(row.value, of_rows)} (`{row.row}`)" if row else "", text(mean, of_means)]
        for row, mean in zip(worst, means, strict=True)
    )
    required = [text(bar.every, of_rows), text(bar.mean, of_means)]
    return [bar.what, *required, *reached, verdict.text, *best]


# Of a bar that many rows miss, the page names so many.
_NAMED_ROWS = 10


def _missed(verdict: bars.Verdict) -> str:
    """The rows that are below what a bar requires of each, the worst ones first."""
    best = {value.row: value.value for value in verdict.best}
    failed = sorted(verdict.failed, key=lambda value: value.value)

    def text(value: bar_values.Value) -> str:
        digits = bars.digits_of(verdict.bar.every, value.value)
        at_best = f", at best {best[value.row]:.2f}" if value.row in best else ""
        return f"`{value.row}` {value.value:.{digits}f}{at_best}"

    named = "; ".join(map(text, failed[:_NAMED_ROWS]))
    more = f"; and {len(failed) - _NAMED_ROWS} more" if len(failed) > _NAMED_ROWS else ""
    rows = f"{len(failed)} of {len(verdict.values)} rows"
    return f"* *{verdict.bar.what}*, {verdict.bar.every:.2f}: {rows}. {named}{more}."


def _missed_rows(found: list[bars.Verdict]) -> list[str]:
    missed = [_missed(verdict) for verdict in found if verdict.failed]
    if not missed:
        return []
    return [
        "Rows below what a bar requires of each:",
        "",
        *(line for text in missed for line in markdown.wrapped(text, "  ")),
        "",
    ]


def _bars(file: File) -> list[str]:
    """What the library must reach, and whether these figures do."""
    head = ["bar", "required: every row", "mean", "reached: worst row", "mean", ""]
    cells = [[*head, "at best: worst row", "mean"]]
    found = [verdict for verdict in bars.verdicts(tables.results_of(file)) if verdict.values]
    cells += [_bar_cells(verdict) for verdict in found]
    if not found:
        return []
    return [
        "## Bars",
        "",
        *markdown.wrapped(
            "What this library sets out to reach, and whether these figures do "
            "([what a bar is](../benchmarks.md#tables)). The columns after `at best` tell what "
            "they would be if each row took this library the least time that the machine allows, "
            "and TensorFlow's call no time; in inference of random shapes, the time of the runtime "
            "and of an empty call, after weights of the same size were read where that was "
            "measured; of slow steps, if they lost no more than rounds of a loop that counts. A "
            "row that took less counts as it is. What is required beyond that is out of reach. "
            "Bars whose rows are not in the file are left out."
        ),
        "",
        *markdown.table(cells),
        "",
        *_missed_rows(found),
    ]


def _peaks(file: File) -> list[str]:
    """The machine's own figures, by its best instruction set; the file has those of others."""
    results = tables.results_of(file)
    best = results.best_isa()
    cells = [[f"with {best}", "measured"]]
    for record in results.records:
        if record.experiment == PEAK and record.isa == best:
            is_read = record.unit == GIGABYTES
            name = f"read from {record.case.upper()}" if is_read else record.case.replace("_", "-")
            cells.append([name, f"{record.median:.0f} {record.unit}"])
    if len(cells) == 1:
        return []
    return ["## Peaks of the machine", "", *markdown.table(cells), ""]


def page(file: File) -> str:
    """The page of a file."""
    lines = [
        f"{MADE_OF} {file.path.name} by `python -m benchmarks.results render`; do not edit. -->",
        "",
        f"# {file.title}",
        "",
        *markdown.wrapped(
            "How the figures come about, and what they mean: [benchmarks](../benchmarks.md). The "
            f"figures of this page: [{file.path.name}]({file.path.name})."
        ),
        "",
        *markdown.table([["", ""], *([key, value] for key, value in file.preamble.items())]),
        "",
        *(line for note in file.notes for line in markdown.wrapped(f"* {note}", "  ")),
        *([""] if file.notes else []),
        *_bars(file),
    ]
    for table in tables.of_file(file):
        for pass_ in table.passes():
            base = labels.of_side(table.sides(pass_)[0])
            dtypes = {r.dtype for r in table.results.records if r.pass_ == pass_}
            lines += [
                f"## {table.group}, {pass_}",
                "",
                *markdown.wrapped(
                    f"Commit {_commit_text(table.version)}, {' and '.join(sorted(dtypes))}. First "
                    f"what `{base}` took, then how many times as much the others took: below 1.00x "
                    "the other needed less. A cell is empty where a side cannot do a case, or was "
                    "not measured; means are of the rows that have a figure."
                ),
                "",
                *_table_of_pass(table, pass_),
                "",
            ]
            if has_chart(table, pass_):
                chart = chart_path(file, table, pass_).name
                lines += [f"![{table.group}, {pass_}, case by case]({chart})", ""]
    return "\n".join(lines + _ranges(file) + _peaks(file)).rstrip("\n") + "\n"


def _link(file: File, folder: str) -> str:
    return f"[{file.preamble['cpu']}]({folder}/{file.page.name})"


def summary(files: list[File]) -> str:
    """For docs/benchmarks.md: the means of `gate`, of the rows of each file that has them."""
    head = ["geometric mean of"]
    for pass_, others in SHOWN_SIDES.items():
        head += [f"{pass_}: {labels.of_side(side)}" for side in others]
    lines: list[str] = []
    without_rows = []
    for file in files:
        table = tables.of_group(file, "gate")
        if table is None:
            without_rows.append(f"* {_link(file, 'results')}, {file.preamble['date']}")
            continue
        by_rows: dict[str, dict[tuple[str, str], float]] = {}
        for pass_ in table.passes():
            for mean in table.means(pass_):
                values = by_rows.setdefault(f"{mean.kind}: {_rows(mean.count)}", {})
                values.update({(pass_, side): value for side, value in mean.by_side.items()})
        keys = [(pass_, side) for pass_, sides in SHOWN_SIDES.items() for side in sides]
        cells = [head]
        for rows, values in by_rows.items():
            cells.append([rows, *(_times(values.get(key)) for key in keys)])
        source = (
            f"{_link(file, 'results')}, {file.preamble['date']}, {file.preamble['threads']} "
            f"threads, commit {_commit_text(table.version)}:"
        )
        lines += [*markdown.wrapped(source), "", *markdown.table(cells), ""]
    if without_rows:
        text = (
            "The cases of these runs were not kept, so no mean can be computed. Their pages have "
            "what was noted:"
        )
        lines += [*markdown.wrapped(text), "", *without_rows]
    return "\n".join(lines).rstrip("\n")


def readme(files: list[File]) -> str:
    """The table of README.

    Raises:
      ValueError: there is no file for it.
    """
    found = [file for file in files if file.path.stem[: -len("-2026-01-31")] == README_CPU]
    of_found = [(file, tables.of_group(file, "gate")) for file in found]
    chosen = next(((file, table) for file, table in of_found if table is not None), None)
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
        head += [f"{pass_}, ms", *map(labels.of_side, others)]
    cells = [head]
    for name in README_CASES:
        row = [labels.of_network(case_of(name))]
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
    return "\n".join([*markdown.wrapped(source), "", *markdown.table(cells)])


def between_markers(text: str, name: str, content: str) -> str:
    """Puts content between the markers of this name.

    Raises:
      ValueError: the markers are not there, or not once.
    """
    begin = f"{MADE_OF} docs/results by `python -m benchmarks.results render`: {name} -->"
    end = f"<!-- End of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise ValueError(f"there must be one line {begin!r}, and after it one {end!r}.")
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n\n{content}\n\n{end}{after}"


def has_chart(table: Table, pass_: str) -> bool:
    """Whether there is enough to draw."""
    return (
        pass_ in PASSES
        and len(table.rows(pass_)) > 1
        and any(mean.by_side for mean in table.means(pass_))
    )


def chart_path(file: File, table: Table, pass_: str) -> pathlib.Path:
    return file.path.with_name(f"{file.path.stem}-{table.group}-{pass_}.png")


def texts(root: pathlib.Path = ROOT) -> dict[pathlib.Path, str]:
    """What every generated text must be, by its path."""
    files = read_all(root)
    found = {file.page: page(file) for file in files}
    for path, name, content in (
        (root / "docs" / "benchmarks.md", "summary", summary(files)),
        (root / "README.md", "speed", readme(files)),
        (root / "docs" / "accuracy.md", "accuracy", accuracy.tables(accuracy.read_all(root))),
        (root / "docs" / "decisions" / "README.md", "paths", paths.table(paths.read_all(root))),
    ):
        try:
            found[path] = between_markers(path.read_text(), name, content)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    return found
