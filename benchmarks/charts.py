"""The charts of a run, made of its CSV file.

.venv/bin/python -m benchmarks.charts runs/bench/<time>.csv
"""

import pathlib
import sys

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

from benchmarks import measured, records  # noqa: E402
from benchmarks.cases import INFERENCE, TRAINING, Case  # noqa: E402
from benchmarks.measured import Results  # noqa: E402

# Okabe and Ito's colours, which differ for the colour-blind, too.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000")
_MARKERS = "osD^vP*"
_LINES = ("-", "--", ":")
# Sides have the same colour in most charts: their places in this table.
_LABELS = {
    "keras": "Keras, tf.function",
    "keras_xla": "Keras, XLA",
    "keras_eager": "Keras, eager",
    "block_lstm": "TensorFlow BlockLSTMV2",
    "torch": "PyTorch",
    "onnx": "ONNX Runtime",
    "layer": "drop-in layer",
    "op": "tf_cudnn_rnn's op",
    "op_from_c": "tf_cudnn_rnn's op, from C",
    "runtime": "tf_cudnn_rnn's runtime",
    "stream": "tf_cudnn_rnn's stream",
    "stream_from_c": "tf_cudnn_rnn's stream, from C",
    "empty_call": "empty tf.function",
    "cold_call": "empty tf.function after weights",
    "counting_loop": "a loop that counts",
    "op_float32": "op, float32",
    "torch_bfloat16": "PyTorch, bfloat16",
    "is_inference": "is_training=False",
}
_MODES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "tanh RNN", "rnn_relu": "ReLU RNN"}
_WIDTH = 9.0  # inches
_DPI = 130


def _label_of(case: Case) -> str:
    """A case in a line, such as "LSTM 2 x 650, batch 20, 35 steps"."""
    layers = f"{case.num_layers} x " if case.num_layers > 1 else ""
    ways = "bidirectional " if case.num_dirs == 2 else ""
    projection = f" to {case.output_size}" if case.output_size != case.num_units else ""
    steps = f"{case.seq_length} step{'s' if case.seq_length > 1 else ''}"
    network = f"{ways}{_MODES[case.rnn_mode]} {layers}{case.num_units}{projection}"
    dropout = ", dropout" if case.dropout > 0 else ""
    return f"{network}, B {case.batch}, {steps}{dropout}"


def _duration(milliseconds: float) -> str:
    if milliseconds < 1:
        return f"{1e3 * milliseconds:.3g} us"
    return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"


def _colours_of(sides: list[str]) -> dict[str, str]:
    """That of each side: its own, or the next one that no side before it has."""
    names = list(_LABELS)
    found: dict[str, str] = {}
    for side in sides:
        first = names.index(side) if side in names else len(side)
        turned = [_COLOURS[(first + i) % len(_COLOURS)] for i in range(len(_COLOURS))]
        free = [colour for colour in turned if colour not in found.values()]
        found[side] = (free or turned)[0]
    return found


def _legend(figure: Figure, title: str, handles, labels) -> None:
    """Puts the title and the legend on top of a chart."""
    figure.legend(
        handles,
        labels,
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
    rows = []
    for sides in results.rows(experiment, pass_):
        base = sides.get(next(iter(sides.values())).base)
        if base is None or base.median is None:
            continue
        ratios = {
            n: measured.ratio(base, [r])
            for n, r in sides.items()
            if n != base.side and not records.is_tail(n)
        }
        ratios = {name: value for name, value in ratios.items() if value is not None}
        if ratios:
            rows.append((base, ratios))
    if not rows:
        return None
    names = list(dict.fromkeys(name for _, ratios in rows for name in ratios))
    bar = 0.13  # inches
    gap = 0.13
    tops = []
    height = 0.0
    for _, ratios in rows:
        tops.append(height)
        height += bar * len([n for n in names if n in ratios]) + gap
    figure, axes = plt.subplots(figsize=(_WIDTH, height + 1.9), layout="constrained")
    longest = max(max(ratios.values()) for _, ratios in rows)
    shortest = min(min(ratios.values()) for _, ratios in rows)
    axes.set_xscale("log")
    left, right = min(0.8, shortest / 1.2), max(2.2, longest * 1.5)
    axes.set_xlim(left, right)
    shown = set()
    labels = []
    colours = _colours_of(names)
    for top, (base, ratios) in zip(tops, rows, strict=True):
        present = [n for n in names if n in ratios]
        for i, name in enumerate(present):
            y = top + bar * (i + 0.5)
            value = ratios[name]
            # From 1 outwards: to the right this library is faster, to the left it is slower.
            axes.barh(
                y,
                value - 1,
                left=1,
                height=bar * 0.9,
                color=colours[name],
                label=None if name in shown else _LABELS.get(name, name),
            )
            shown.add(name)
            axes.text(
                max(value, 1) * 1.02,
                y,
                f"{value:.2g}x" if value < 100 else f"{value:.0f}x",
                va="center",
                fontsize=6.5,
            )
        labels.append(f"{_label_of(base.to_case())}\n{_duration(base.median)}")
    centres = [
        top + bar * len([n for n in names if n in ratios]) / 2
        for top, (_, ratios) in zip(tops, rows, strict=True)
    ]
    axes.set_yticks(centres, labels, fontsize=7.5)
    axes.set_ylim(height, -gap)
    axes.axvline(1, color="black", linewidth=1)
    ticks = [0.1, 0.25, 0.5, *(2**k for k in range(10))]
    axes.set_xticks([tick for tick in ticks if left <= tick <= right])
    axes.xaxis.set_major_formatter(FuncFormatter(_ratio_text))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    what = {INFERENCE: "Inference", TRAINING: "Training step"}[pass_]
    base_side = rows[0][0].side
    base_name = _LABELS.get(base_side, base_side.replace("_", " "))
    axes.set_xlabel(f"times as long as {base_name} takes (right of 1x: {base_name} is faster)")
    _legend(figure, f"{what}, cases of {experiment!r}", *axes.get_legend_handles_labels())
    note = f"Below each case: the median of {base_name}. B is the batch."
    return _finish(figure, results, path, note, metadata)


def _draw_roofs(axes, results: Results, isa: str | None, largest: int) -> None:
    """Draws the share of the peak that the bandwidth of each level of memory allows."""
    peak = results.peak(isa)
    for level in ("l2", "l3", "dram"):
        bandwidth = results.rate(level, isa)
        if bandwidth is None:
            continue
        # A weight, 4 bytes, is used in a multiply-add for each row of the batch.
        per_row = bandwidth / 4 * 2 / peak
        batches = [1 + i / 20 for i in range(20 * (largest - 1) + 1)]
        shares = [min(1.0, per_row * batch) for batch in batches]
        axes.plot(batches, shares, color="#999999", linewidth=0.9, linestyle=":", zorder=0)
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


def _roofline(results: Results, path: pathlib.Path):
    """The share of the multiply-add peak against the batch, by what holds the weights."""
    passes = ("forward", "inference", "backward", "training")
    found: dict[str, dict[tuple, list]] = {pass_: {} for pass_ in passes}
    best = results.best_isa()
    for pass_ in passes:
        for sides in results.rows("engine", pass_):
            for record in sides.values():
                peak = results.peak(record.isa, record.threads)
                fits = record.side.startswith("engine") and record.isa == best
                if not fits or record.threads != results.threads or None in (peak, record.median):
                    continue
                case = record.to_case()
                level = results.level_of(4 * case.recurrent_elements_together)
                key = (case.rnn_mode, case.num_units, level)
                found[pass_].setdefault(key, []).append((case.batch, record.gigaflops / peak))
    chosen = [pass_ for pass_ in ("inference", "forward", "backward") if found[pass_]]
    keys = sorted({key for pass_ in chosen for key in found[pass_]})
    if not keys:
        return None
    figure, all_axes = plt.subplots(
        1, len(chosen), figsize=(_WIDTH, 5.2), sharey=True, layout="constrained", squeeze=False
    )
    highest = 1.0
    for axes, pass_ in zip(all_axes[0], chosen, strict=True):
        for i, key in enumerate(keys):
            points = sorted(found[pass_].get(key, []))
            if points:
                axes.plot(
                    *zip(*points, strict=True),
                    color=_COLOURS[i % len(_COLOURS)],
                    marker=_MARKERS[i // len(_COLOURS) % len(_MARKERS)],
                    linestyle=_LINES[i // len(_COLOURS) % 3],
                    markersize=5,
                )
        batches = sorted({b for points in found[pass_].values() for b, _ in points})
        _draw_roofs(axes, results, best, batches[-1])
        axes.set_xscale("log", base=2)
        axes.set_xticks(batches, [str(b) for b in batches])
        axes.minorticks_off()
        shares = [share for points in found[pass_].values() for _, share in points]
        highest = max(highest, *shares)
        axes.set_ylim(0, 1.05 * highest)  # above 1 if others disturbed the peak's measurement
        axes.axhline(1, color="black", linewidth=0.8)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:.0%}"))
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_title(pass_, fontsize=9)
        axes.set_xlabel("batch")
    all_axes[0][0].set_ylabel("share of the multiply-add peak")
    handles = [
        plt.Line2D(
            [],
            [],
            color=_COLOURS[i % len(_COLOURS)],
            marker=_MARKERS[i // len(_COLOURS) % len(_MARKERS)],
            linestyle=_LINES[i // len(_COLOURS) % 3],
            label=f"{_MODES[mode]} {units}, recurrent weights in {level.upper()}",
        )
        for i, (mode, units, level) in enumerate(keys)
    ]
    handles.append(plt.Line2D([], [], color="#999999", linestyle=":", label="what memory allows"))
    title = "The engine alone, against the machine's peak"
    _legend(figure, title, handles, [handle.get_label() for handle in handles])
    note = (
        f"Peak: {results.peak(best):.0f} GFLOP/s, measured, {best}. Dotted: a recurrent product "
        "that reads its weights at the bandwidth of a level of memory."
    )
    return _finish(figure, results, path, note)


_SCALINGS = {
    "steps": ("time steps T", lambda case: case.seq_length),
    "batch": ("batch B", lambda case: case.batch),
    "units": ("units H = input size", lambda case: case.num_units),
    "lengths": ("sum of lengths", lambda case: int(case.lengths.sum())),
}


def _scaling(results: Results, path: pathlib.Path):
    """Time against T, B, H, the sum of lengths, and threads."""
    panels: dict[str, dict[str, list]] = {}
    for pass_ in (INFERENCE, TRAINING):
        for sides in results.rows("scaling", pass_):
            for record in sides.values():
                varied = record.case.rpartition("_")[0]
                if record.median is not None and varied in _SCALINGS:
                    x = _SCALINGS[varied][1](record.to_case())
                    panels.setdefault(varied, {}).setdefault(pass_, []).append((x, record.median))
    speedups = _thread_speedups(results)
    count = len(panels) + bool(speedups)
    if count == 0:
        return None
    columns = min(3, count)
    lines = -(-count // columns)
    figure, all_axes = plt.subplots(
        lines, columns, figsize=(_WIDTH, 3.1 * lines + 0.9), layout="constrained", squeeze=False
    )
    places = iter(all_axes.flat)
    for varied, of_pass in panels.items():
        axes = next(places)
        for i, (pass_, points) in enumerate(of_pass.items()):
            xs, ys = zip(*sorted(points), strict=True)
            axes.plot(xs, ys, color=_COLOURS[i], marker=_MARKERS[i], markersize=5, label=pass_)
            power = 2 if varied == "units" else 1
            ideal = [ys[0] * (x / xs[0]) ** power for x in xs]
            axes.plot(xs, ideal, color="#999999", linewidth=0.9, linestyle="--", zorder=0)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log", base=2)
        ticks = sorted({x for points in of_pass.values() for x, _ in points})
        axes.set_xticks(ticks, [str(x) for x in ticks])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:g}"))
        axes.minorticks_off()
        axes.set_xlabel(_SCALINGS[varied][0])
        axes.set_ylabel("ms")
        axes.grid(color="#dddddd", linewidth=0.6)
    if speedups:
        axes = next(places)
        for i, (name, points) in enumerate(speedups.items()):
            xs, ys = zip(*sorted(points.items()), strict=True)
            axes.plot(
                xs, ys, color=_COLOURS[i + 2], marker=_MARKERS[i + 2], markersize=5, label=name
            )
        axes.plot(xs, xs, color="#999999", linewidth=0.9, linestyle="--", zorder=0)
        axes.set_xticks(xs, [str(x) for x in xs])
        axes.set_xlabel("threads")
        axes.set_ylabel("times as fast as one thread")
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_ylim(bottom=0)
    for axes in places:
        axes.set_visible(False)
    drawn = [axes for axes in all_axes.flat if axes.get_visible()]
    handles = {}
    for axes in drawn:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    handles["in proportion (units: squared)"] = plt.Line2D([], [], color="#999999", linestyle="--")
    _legend(figure, "Time against the size of the work", handles.values(), handles.keys())
    note = "LSTM 512, B 16, 25 steps, one of them varied; lengths: B 64, 100 steps."
    note += " Threads: geometric mean of training and inference, B >= 16." if speedups else ""
    return _finish(figure, results, path, note)


def _thread_speedups(results: Results) -> dict[str, dict[int, float]]:
    """By side, the geometric mean of how much faster n threads are than one."""
    found: dict[str, dict[int, list[float]]] = {}
    for sides in results.rows("threads"):
        for record in sides.values():
            name = record.side.rpartition("_")[0]
            value = measured.ratio(record, [sides.get(f"{name}_1")])
            if value is not None and record.to_case().batch >= 16:
                label = _LABELS.get(name, f"{name} on n threads")
                found.setdefault(label, {}).setdefault(record.threads, []).append(value)
    return {
        name: {threads: measured.geometric_mean(values) for threads, values in of_threads.items()}
        for name, of_threads in found.items()
    }


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
    for name in sys.argv[1:]:
        for target in draw(pathlib.Path(name)):
            print(target)


if __name__ == "__main__":
    main()
