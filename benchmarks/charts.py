"""The charts of a run, made of its CSV file.

.venv/bin/python -m benchmarks.charts runs/bench/<time>.csv
"""

import itertools
import pathlib
import sys
import textwrap
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

from benchmarks import chart_data, labels, records  # noqa: E402
from benchmarks.cases import INFERENCE, TRAINING  # noqa: E402
from benchmarks.chart_data import SpeedRow  # noqa: E402
from benchmarks.measured import Results  # noqa: E402
from benchmarks.records import MEBIBYTES, Record  # noqa: E402

# Okabe and Ito's colours, which differ for the colour-blind, too.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_MARKERS = "osD^vP*"
_LINES = ("-", "--", ":")
# What tells bars of one colour from each other.
_HATCHES = ("", "//////", "......", "xxxxxx", "||||||")
# These look the same in all charts.
_COLOUR_OF = dict(
    zip(
        ("keras", "keras_xla", "keras_eager", "block_lstm", "torch", "onnx", "layer"),
        _COLOURS,
        strict=True,
    )
)
_GREY, _PALE = "#999999", "#dddddd"
_WIDTH = 9.0  # inches
_LONGEST_LABEL = 110  # characters of a line as wide as the axes
_DPI = 130


class Style(NamedTuple):
    """How the bars of a side look."""

    colour: str
    hatch: str


def styles_of(sides: list[str]) -> dict[str, Style]:
    """That of each side of a chart, no two alike; some sides have the same in all charts."""
    found = {side: Style(_COLOUR_OF[side], "") for side in sides if side in _COLOUR_OF}
    all_styles = itertools.starmap(
        lambda hatch, colour: Style(colour, hatch), itertools.product(_HATCHES, _COLOURS)
    )
    free = (style for style in all_styles if style not in found.values())
    return {side: found[side] if side in found else next(free) for side in sides}


def _amount(record: Record) -> str:
    """A median with its unit."""
    value = record.median
    if record.unit == MEBIBYTES:
        return f"{value:.3g} MiB" if value < 1000 else f"{value:.0f} MiB"
    if value < 1:
        return f"{1e3 * value:.3g} us"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def _legend(figure: Figure, title: str, handles, texts) -> None:
    """Puts the title and the legend on top of a chart."""
    figure.legend(
        handles,
        texts,
        loc="outside upper center",
        ncols=3,
        fontsize=8,
        frameon=False,
        title=title,
        title_fontsize=11,
    )


def _finish(
    figure: Figure,
    results: Results,
    path: pathlib.Path,
    note: str = "",
    metadata: dict[str, str] | None = None,
) -> pathlib.Path:
    """Writes where the figures come from below a chart, and saves it."""
    p = results.preamble
    commit = p.get("tf_cudnn_rnn", "").partition("commit ")[2]
    source = f"{p.get('cpu', '')}, {p.get('threads', '')} threads, {p.get('date', '')}"
    source += f", commit {commit}" if commit else ""
    warning = f"Warning: {p['warning']}." if "warning" in p else ""
    text = "\n".join(line for line in (note, source, warning) if line)
    figure.supxlabel(text, fontsize=7.5, color="#555555", x=0.01, ha="left")
    figure.savefig(path, dpi=_DPI, metadata=metadata)
    plt.close(figure)
    return path


def _ratio_text(value: float, _=None) -> str:
    return f"{value:g}x"


_BAR = 0.13  # inches, of one side
_GAP = 0.13  # between cases
_LINE = 0.125  # of the text beside the bars
_TEXT_WIDTH = 50  # characters in a line of it


def draw_speed(
    results: Results,
    experiment: str,
    pass_: str,
    path: pathlib.Path,
    metadata: dict[str, str] | None = None,
) -> pathlib.Path | None:
    """Draws how many times as long each peer takes, case by case; None if there is nothing to draw.

    Args:
      metadata: texts that go into the file, by PNG's keys.
    """
    rows = chart_data.speed_rows(results, experiment, pass_)
    if not rows:
        return None
    texts = [text_of(row) for row in rows]
    heights = [
        max(_BAR * len(row.ratios) + _GAP, _LINE * (1.5 + text.count("\n")))
        for row, text in zip(rows, texts, strict=True)
    ]
    figure, axes = plt.subplots(figsize=(_WIDTH, sum(heights) + 1.9), layout="constrained")
    centres = [
        end - height / 2 for end, height in zip(itertools.accumulate(heights), heights, strict=True)
    ]
    _draw_bars(axes, rows, centres)
    axes.set_yticks(centres, texts, fontsize=7.5)
    axes.set_ylim(sum(heights), 0)
    _set_ratio_axis(axes, [ratio for row in rows for ratio in row.ratios.values()])
    base = rows[0].base
    name = labels.with_owner(base.side)
    if base.unit == MEBIBYTES:
        about, hint = f"times as much as {name} needs", f"(right of 1x: {name} needs less)"
    else:
        about, hint = f"times as long as {name} takes", f"(right of 1x: {name} is faster)"
    one_line = f"{about} {hint}"
    axes.set_xlabel(one_line if len(one_line) <= _LONGEST_LABEL else f"{about}\n{hint}")
    what = {INFERENCE: "Inference", TRAINING: "Training step"}[pass_]
    _legend(figure, f"{what}, cases of {experiment!r}", *axes.get_legend_handles_labels())
    return _finish(figure, results, path, f"Below each case: the median of {name}.", metadata)


def text_of(row: SpeedRow) -> str:
    """What stands beside the bars of a case."""
    # Lines end behind commas: other spaces become some that do not break.
    text = labels.of_network(row.base.to_case()).replace(" ", "\N{NO-BREAK SPACE}")
    lines = textwrap.wrap(text.replace(",\N{NO-BREAK SPACE}", ", "), _TEXT_WIDTH)
    return "\n".join([*lines, _amount(row.base)])


def _draw_bars(axes, rows: list[SpeedRow], centres: list[float]) -> None:
    """From 1 outwards: to the right the base needs less, to the left more."""
    sides = list(dict.fromkeys(side for row in rows for side in row.ratios))
    styles = styles_of(sides)
    labelled = set()
    for row, centre in zip(rows, centres, strict=True):
        present = [side for side in sides if side in row.ratios]
        for i, side in enumerate(present):
            y = centre + _BAR * (i - (len(present) - 1) / 2)
            value = row.ratios[side]
            axes.barh(
                y,
                value - 1,
                left=1,
                height=_BAR * 0.9,
                color=styles[side].colour,
                hatch=styles[side].hatch,
                edgecolor="white" if styles[side].hatch else styles[side].colour,
                linewidth=0,
                label=None if side in labelled else labels.with_owner(side),
            )
            labelled.add(side)
            text = f"{value:.2g}x" if value < 100 else f"{value:.0f}x"
            axes.text(max(value, 1) * 1.02, y, text, va="center", fontsize=6.5)


def _set_ratio_axis(axes, ratios: list[float]) -> None:
    """A logarithmic axis around 1x."""
    axes.set_xscale("log")
    left, right = min(0.8, min(ratios) / 1.2), max(2.2, max(ratios) * 1.5)
    axes.set_xlim(left, right)
    axes.axvline(1, color="black", linewidth=1)
    ticks = [0.1, 0.25, 0.5, *(2**k for k in range(10))]
    axes.set_xticks([tick for tick in ticks if left <= tick <= right])
    axes.xaxis.set_major_formatter(FuncFormatter(_ratio_text))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.grid(axis="x", color=_PALE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)


def _draw_roofs(axes, results: Results, largest: int) -> None:
    """Draws the share of the peak that the bandwidth of each level of memory allows."""
    for level in ("l2", "l3", "dram"):
        per_row = chart_data.share_per_row(results, level)
        if per_row is None:
            continue
        batches = [1 + i / 20 for i in range(20 * (largest - 1) + 1)]
        shares = [min(1.0, per_row * batch) for batch in batches]
        axes.plot(batches, shares, color=_GREY, linewidth=0.9, linestyle=":", zorder=0)
        # Along the slope, where the line has not reached the peak.
        at = min(1.6, 1 / per_row) if per_row < 1 else 1.0
        axes.annotate(
            level.upper(),
            (at, min(1.0, per_row * at)),
            xytext=(2, 4) if per_row < 1 else (2, -9),
            textcoords="offset points",
            fontsize=7,
            color="#555555",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )


def _curve(i: int) -> dict:
    """The look of the i-th curve of a chart of many."""
    of_colour = i // len(_COLOURS)
    return {
        "color": _COLOURS[i % len(_COLOURS)],
        "marker": _MARKERS[of_colour % len(_MARKERS)],
        "linestyle": _LINES[of_colour % len(_LINES)],
    }


def _roofline(results: Results, path: pathlib.Path) -> pathlib.Path | None:
    """The share of the multiply-add peak against the batch, by what holds the weights."""
    found = chart_data.shares_of_peak(results)
    all_weights = sorted({weights for of_pass in found.values() for weights in of_pass})
    if not all_weights:
        return None
    curves = {weights: _curve(i) for i, weights in enumerate(all_weights)}
    figure, all_axes = plt.subplots(
        1, len(found), figsize=(_WIDTH, 5.2), sharey=True, layout="constrained", squeeze=False
    )
    for axes, (pass_, of_pass) in zip(all_axes[0], found.items(), strict=True):
        for weights in sorted(of_pass):
            axes.plot(*zip(*of_pass[weights], strict=True), markersize=5, **curves[weights])
        batches = sorted({batch for points in of_pass.values() for batch, _ in points})
        _draw_roofs(axes, results, batches[-1])
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, [str(b) for b in batches])
        axes.minorticks_off()
        axes.axhline(1, color="black", linewidth=0.8)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
        axes.grid(color=_PALE, linewidth=0.6)
        axes.set_title(pass_, fontsize=9)
        axes.set_xlabel("batch")
    shares = [s for of_pass in found.values() for points in of_pass.values() for _, s in points]
    # Above 1 if others disturbed the peak's measurement; all axes share it.
    all_axes[0][0].set_ylim(0, 1.05 * max(1.0, *shares))
    all_axes[0][0].set_ylabel("share of the multiply-add peak")
    handles = [
        plt.Line2D(
            [],
            [],
            label=f"{labels.MODES[weights.rnn_mode]} {weights.num_units}, "
            f"recurrent weights in {weights.level.upper()}",
            **curve,
        )
        for weights, curve in curves.items()
    ]
    handles.append(plt.Line2D([], [], color=_GREY, linestyle=":", label="what memory allows"))
    title = "The engine alone, against the machine's peak"
    _legend(figure, title, handles, [handle.get_label() for handle in handles])
    note = (
        f"Peak: {results.peak():.0f} GFLOP/s, measured, {results.best_isa()}. Dotted: a recurrent "
        "product that reads its weights at the bandwidth of a level of memory."
    )
    return _finish(figure, results, path, note)


# What is said of chart_data.VARIED, and the power of it that the work grows with.
_VARIED = {
    "steps": ("time steps T", 1),
    "batch": ("batch B", 1),
    "units": ("units H = input size", 2),
    "lengths": ("sum of lengths", 1),
}


def _scaling(results: Results, path: pathlib.Path) -> pathlib.Path | None:
    """Time against T, B, H, the sum of lengths, and threads."""
    panels, speedups = chart_data.scaling(results), chart_data.thread_speedups(results)
    count = len(panels) + bool(speedups)
    if count == 0:
        return None
    columns = min(3, count)
    lines = -(-count // columns)
    figure, all_axes = plt.subplots(
        lines, columns, figsize=(_WIDTH, 3.1 * lines + 0.9), layout="constrained", squeeze=False
    )
    drawn = list(all_axes.flat)[:count]
    for axes in list(all_axes.flat)[count:]:
        axes.set_visible(False)
    for axes, (varied, of_pass) in zip(drawn, panels.items(), strict=False):
        _draw_times(axes, varied, of_pass)
    if speedups:
        _draw_speedups(drawn[-1], speedups)
    handles = {}
    for axes in drawn:
        axes.grid(color=_PALE, linewidth=0.6)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    handles["in proportion (units: squared)"] = plt.Line2D([], [], color=_GREY, linestyle="--")
    _legend(figure, "Time against the size of the work", handles.values(), handles.keys())
    note = "LSTM 512, B 16, 25 steps, one of them varied; lengths: B 64, 100 steps."
    note += " Threads: geometric mean of training and inference, B >= 16." if speedups else ""
    return _finish(figure, results, path, note)


def _draw_times(axes, varied: str, of_pass: dict[str, list[tuple[int, float]]]) -> None:
    """Milliseconds against what is varied."""
    name, power = _VARIED[varied]
    for i, (pass_, points) in enumerate(of_pass.items()):
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, color=_COLOURS[i], marker=_MARKERS[i], markersize=5, label=pass_)
        ideal = [ys[0] * (x / xs[0]) ** power for x in xs]
        axes.plot(xs, ideal, color=_GREY, linewidth=0.9, linestyle="--", zorder=0)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    ticks = sorted({x for points in of_pass.values() for x, _ in points})
    axes.set_xticks(ticks, [str(x) for x in ticks])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
    axes.minorticks_off()
    axes.set_xlabel(name)
    axes.set_ylabel("ms")


def _draw_speedups(axes, speedups: dict[str, dict[int, float]]) -> None:
    """How much faster sides are with more threads."""
    # The first two colours are those of the passes, in the panels beside it.
    for i, (side, points) in enumerate(speedups.items(), start=2):
        label = f"{labels.with_owner(side)} on n threads"
        look = {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
        axes.plot(list(points), list(points.values()), markersize=5, label=label, **look)
    threads = sorted({n for points in speedups.values() for n in points})
    axes.plot(threads, threads, color=_GREY, linewidth=0.9, linestyle="--", zorder=0)
    axes.set_xticks(threads, [str(n) for n in threads])
    axes.set_xlabel("threads")
    axes.set_ylabel("times as fast as one thread")
    axes.set_ylim(bottom=0)


def draw(path: pathlib.Path) -> list[pathlib.Path]:
    """Draws what a CSV file has figures for, beside it; returns the paths of the pictures."""
    results = Results(*records.read(path))
    drawn = []
    for experiment in results.experiments():
        if experiment not in ("engine", "peak", "scaling", "threads", "memory", "sweep"):
            for pass_ in (TRAINING, INFERENCE):
                target = path.with_name(f"{path.stem}_{experiment}_{pass_}.png")
                drawn.append(draw_speed(results, experiment, pass_, target))
    drawn.append(_roofline(results, path.with_name(f"{path.stem}_roofline.png")))
    drawn.append(_scaling(results, path.with_name(f"{path.stem}_scaling.png")))
    return [target for target in drawn if target is not None]


def main() -> None:
    """Draws the charts of the files that the command line names."""
    try:
        for name in sys.argv[1:]:
            for target in draw(pathlib.Path(name)):
                print(target)
    except (OSError, ValueError) as error:
        sys.exit(f"benchmarks.charts: {error}")


if __name__ == "__main__":
    main()
