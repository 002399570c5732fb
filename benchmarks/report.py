"""The tables at the end of a run: ratios by experiment, their means, and the bars."""

from collections.abc import Iterable

from benchmarks import bar_values, bars, measured
from benchmarks.measured import Results
from benchmarks.records import Record


def table(rows: list[list[str]]) -> list[str]:
    """Aligns columns, the first to the left; the first row is the head."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * len(lines[0]), *lines[1:]]


def figure(record: Record | None) -> str:
    """A median with its unit left out; "-" for none."""
    if record is None or record.median is None:
        return "-"
    value = record.median
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def _times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def _sides_of(rows: Iterable[dict[str, Record]]) -> list[str]:
    return list(dict.fromkeys(side for sides in rows for side in sides))


def _experiment(results: Results, name: str) -> list[str]:
    rows = list(results.rows(name))
    bases = {record.base for sides in rows for record in sides.values()}
    lines = []
    for base in sorted(bases):
        chosen = [sides for sides in rows if any(r.base == base for r in sides.values())]
        others = [side for side in _sides_of(chosen) if side != base]
        unit = next(iter(chosen[0].values())).unit
        title = f"{name}: {unit}" + (f"; how many times that of {base}" if base else "")
        cells = [["", *([base] if base else []), *others]]
        ratios: dict[str, list[tuple[float, str]]] = {other: [] for other in others}
        for sides in chosen:
            first = next(iter(sides.values()))
            label = f"{first.case} {first.pass_}".strip()
            row = [label, *([figure(sides.get(base))] if base else [])]
            for other in others:
                value = measured.ratio(sides.get(base), [sides.get(other)]) if base else None
                if value is not None:
                    ratios[other].append((value, label))
                row.append(_times(value) if base else figure(sides.get(other)))
            cells.append(row)
        if base and any(ratios.values()):
            means = [measured.geometric_mean([v for v, _ in ratios[other]]) for other in others]
            cells.append(["geometric mean", "", *map(_times, means)])
            worst = [min(ratios[other], default=(None, "")) for other in others]
            cells.append(["worst row", "", *(_times(value) for value, _ in worst)])
        lines += ["", title, *table(cells)]
        worst = [f"{other}: {min(values)[1]}" for other, values in ratios.items() if values]
        if worst and len(chosen) > 1:
            lines.append(f"worst rows: {'; '.join(worst)}")
    return lines


def _errors(results: Results) -> list[str]:
    by_reason: dict[tuple[str, str], list[str]] = {}
    for record in results.records:
        if record.error:
            key = (record.side, record.error)
            by_reason.setdefault(key, []).append(f"{record.case} {record.pass_}".strip())
    lines = []
    for (side, error), rows in by_reason.items():
        some = ", ".join(dict.fromkeys(rows)) if len(rows) <= 3 else f"{len(rows)} rows"
        lines.append(f"  {side}: {error} ({some})")
    return ["", "Without a figure:", *lines] if lines else []


def _slower(results: Results) -> list[str]:
    """Every random shape on which this library took longer than a peer."""
    lines = []
    for own, peer, value in bar_values.sweep_ratios(results):
        if value < 1:
            network = ", ".join(f"{name}={field}" for name, field in own.network.items())
            lines.append(
                f"  {value:.2f}x {own.side} against {peer.side}, {own.case} {own.pass_}: "
                f"{figure(own)} {own.unit}; {network}"
            )
    if not list(results.rows("sweep")):
        return []
    return ["", "Random shapes on which a peer was faster:", *(sorted(lines) or ["  none"])]


def _bars(results: Results) -> list[str]:
    if not results.records:
        return []
    head = ["bar", "required: every row", "mean", "reached: worst row", "mean", "", "which row"]
    cells = [head]
    unmeasured = []
    for verdict in bars.verdicts(results):
        if not verdict.values:
            unmeasured.append(verdict.bar.what)
            continue
        bar = verdict.bar
        of_rows = bars.digits_of(bar.every, verdict.worst.value)
        of_mean = bars.digits_of(bar.mean, verdict.mean)
        cells.append(
            [
                bar.what,
                "" if bar.every is None else f"{bar.every:.{of_rows}f}",
                "" if bar.mean is None else f"{bar.mean:.{of_mean}f}",
                f"{verdict.worst.value:.{of_rows}f}",
                f"{verdict.mean:.{of_mean}f}",
                verdict.text,
                verdict.worst.row,
            ]
        )
    if len(cells) == 1:
        return ["", "Bars: none is about these rows; benchmarks/bars.py has them all."]
    lines = ["", "Bars: required, and reached", *table(cells)]
    if unmeasured:
        lines += ["", "Bars without a figure in this run:", *(f"  {w}" for w in unmeasured)]
    return lines


def summary(results: Results) -> str:
    """All tables."""
    lines = []
    for name in results.experiments():
        lines += _experiment(results, name)
    lines += _slower(results) + _errors(results) + _bars(results)
    if "warning" in results.preamble:
        lines += ["", f"Warning: {results.preamble['warning']}."]
    return "\n".join(lines)
