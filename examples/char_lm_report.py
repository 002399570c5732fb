"""What char_lm.py tells while it trains: progress lines, a CSV file, a picture."""

import csv
import dataclasses
import math
import os
import pathlib
import shutil
import sys
from typing import TYPE_CHECKING, TextIO

from char_lm_corpus import Baseline

if TYPE_CHECKING:
    from char_lm_keras import Comparison


@dataclasses.dataclass(frozen=True)
class Row:
    """One line of the log: some training batches, or one validation."""

    kind: str  # "train" or "valid"
    step: int  # training batches so far
    epoch: float  # the passes over the training text that these are
    seconds: float
    loss: float  # mean of -log p of a character, in nats
    learning_rate: float | None = None
    ms_per_batch: float | None = None
    characters_per_second: float | None = None

    @property
    def bpc(self) -> float:
        return self.loss / math.log(2.0)

    @property
    def perplexity(self) -> float:
        return math.exp(min(self.loss, 700.0))


class Log:
    """The rows of a run, kept in a CSV file.

    Losses are written in full, so that two runs can be compared to the last bit.
    """

    _FIELDS = [field.name for field in dataclasses.fields(Row)]

    def __init__(self, path: pathlib.Path):
        self.rows: list[Row] = []
        self._path = path

    def add(self, row: Row) -> None:
        self.rows.append(row)
        self._write([row], mode="a" if self._path.exists() else "w")

    def resume(self, step: int) -> None:
        """Goes on with the rows of an earlier session, up to `step`."""
        if self._path.exists():
            self.rows = [row for row in _read(self._path) if row.step <= step]
        self._write(self.rows, mode="w")

    def _write(self, rows: list[Row], mode: str) -> None:
        with self._path.open(mode, newline="") as file:
            writer = csv.writer(file)
            if mode == "w":
                writer.writerow([*self._FIELDS, "bpc", "perplexity"])
            writer.writerows(map(self._cells, rows))

    def _cells(self, row: Row) -> list:
        return [*dataclasses.astuple(row), row.bpc, row.perplexity]


def _read(path: pathlib.Path) -> list[Row]:
    def number(cell: str) -> float | None:
        return float(cell) if cell else None

    with path.open(newline="") as file:
        return [
            Row(
                cells["kind"],
                int(cells["step"]),
                *(number(cells[field]) for field in Log._FIELDS[2:]),
            )
            for cells in csv.DictReader(file)
        ]


class Progress:
    """A progress bar in a terminal; elsewhere one line for each logged row."""

    def __init__(self, stream: TextIO | None = None):
        self._stream = stream or sys.stdout
        self._is_terminal = self._stream.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, row: Row, num_batches: int, seconds_left: float) -> None:
        """Draws the bar, in a terminal."""
        if not self._is_terminal:
            return
        epoch, batch = divmod(row.step - 1, num_batches)
        begin = f"epoch {epoch + 1} ["
        end = f"] {' '.join(_figures(row, seconds_left))}"
        columns = shutil.get_terminal_size().columns - 1
        width = max(3, min(40, columns - len(begin) - len(end)))
        text = begin + _bar((batch + 1) / num_batches, width) + end
        self._stream.write(f"\r{text[:columns]}\x1b[K")
        self._stream.flush()

    def line(self, row: Row, num_batches: int, seconds_left: float) -> None:
        """Reports a logged row."""
        if self._is_terminal:
            self.show(row, num_batches, seconds_left)
        else:
            epoch, batch = divmod(row.step - 1, num_batches)
            position = f"epoch {epoch + 1} {batch + 1:{len(str(num_batches))}}/{num_batches}"
            self.say(" | ".join([position, *_figures(row, seconds_left)]))

    def say(self, text: str = "") -> None:
        """Prints a line in place of the bar."""
        clear = "\r\x1b[K" if self._is_terminal else ""
        print(f"{clear}{text}", file=self._stream, flush=True)


class Silence(Progress):
    """The progress of a worker that is not the chief."""

    def show(self, row: Row, num_batches: int, seconds_left: float) -> None:
        pass

    def line(self, row: Row, num_batches: int, seconds_left: float) -> None:
        pass

    def say(self, text: str = "") -> None:
        pass


def _figures(row: Row, seconds_left: float) -> list[str]:
    return [
        f"{row.ms_per_batch:.0f} ms/batch",
        f"{row.characters_per_second / 1e3:.3g}k chars/s",
        f"loss {row.loss:.3f}",
        f"bpc {row.bpc:.3f}",
        f"ppl {row.perplexity:.3g}",
        f"ETA {clock(seconds_left)}",
    ]


def _bar(fraction: float, width: int) -> str:
    filled = round(width * fraction)
    return "=" * filled + (">" if filled < width else "") + " " * (width - filled - 1)


def clock(seconds: float) -> str:
    """Minutes and seconds, with hours if there are any."""
    minutes, seconds = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def quote(text: str) -> str:
    """A sample, set off from the rest of the output."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def keras_seconds(rows: list[Row], row: Row, ratio: float) -> float:
    """When `row` would come if training took `ratio` times as long; preparations do not."""
    first = next((row for row in rows if row.kind == "train"), None)
    begin = first.seconds - first.step * first.ms_per_batch / 1e3 if first else 0.0
    return begin + (row.seconds - begin) * ratio


def keras_rows(rows: list[Row], ratio: float) -> list[Row]:
    """The rows within the time of the run, if training took `ratio` times as long."""
    end = max((row.seconds for row in rows), default=0.0)
    return [row for row in rows if keras_seconds(rows, row, ratio) <= end]


def draw(
    rows: list[Row],
    baselines: list[Baseline],
    title: str,
    path: pathlib.Path,
    comparison: "Comparison | None" = None,
) -> None:
    """Draws bits per character against seconds, with a line for each compressor.

    `comparison` adds the curve of the held-out text as stock Keras would have drawn it.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    train = [row for row in rows if row.kind == "train"]
    valid = [row for row in rows if row.kind == "valid"]
    figure, axes = pyplot.subplots(figsize=(9.0, 5.5), layout="constrained")
    axes.plot(
        [row.seconds for row in train],
        [row.bpc for row in train],
        color="tab:blue",
        alpha=0.55,
        label="training text, while learning",
    )
    axes.plot(
        [row.seconds for row in valid],
        [row.bpc for row in valid],
        color="tab:red",
        linewidth=2.0,
        marker="o",
        markersize=5.0,
        label="held-out text",
    )
    end = max((row.seconds for row in rows), default=0.0)
    if comparison:
        for kind, style in ((train, "-"), (valid, "o--")):
            axes.plot(
                [keras_seconds(rows, row, comparison.ratio) for row in kind],
                [row.bpc for row in kind],
                style,
                color="tab:orange",
                alpha=0.55 if kind is train else 1.0,
                markersize=4.0,
                label=None
                if kind is train
                else f"where stock Keras would be ({comparison.ratio:.1f} times as long a batch)",
            )
        axes.set_xlim(right=1.03 * end)
    for style, color, label, bpc in _compressor_lines(baselines):
        axes.axhline(bpc, color=color, linestyle=style, label=f"{label}: {bpc:.2f}")
    if valid:
        best = min(valid, key=lambda row: row.bpc)
        axes.annotate(
            f"{best.bpc:.2f}",
            (best.seconds, best.bpc),
            textcoords="offset points",
            xytext=(0, 9),
            ha="center",
            color="tab:red",
            weight="bold",
        )
    shown = [row.bpc for row in valid] + [line.after for line in baselines]
    axes.set_ylim(max(0.0, min(shown, default=1.0) - 0.25), _top(train, valid, baselines))
    axes.set_xlim(left=0.0)
    cpu = f", on {comparison.cpu}" if comparison else ""
    axes.set_xlabel(f"seconds since the program started{cpu}")
    axes.set_ylabel("bits per character")
    axes.set_title(title)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right", framealpha=1.0)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _compressor_lines(baselines: list[Baseline]) -> list[tuple[str, str, str, float]]:
    """(style, color, label, bits per character) of the lines to draw."""
    lines = []
    for line in baselines:
        after = f"{line.compressor} after the training text"
        if line.compressor == "gzip":
            lines.append(("--", "black", "gzip, held-out text alone", line.alone))
            lines.append(("-", "black", after, line.after))
        else:
            style = {"bz2": "-.", "xz": ":"}[line.compressor]
            lines.append((style, "tab:green", after, line.after))
    return lines


def _top(train: list[Row], valid: list[Row], baselines: list[Baseline]) -> float:
    """The upper end of the axis, which may leave out the first steps."""
    wanted = [2.0 * line.alone for line in baselines] + [1.2 * row.bpc for row in valid]
    highest = max([row.bpc for row in train], default=8.0)
    return min(highest, max(wanted, default=8.0)) + 0.1
