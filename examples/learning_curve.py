"""What a program has learned and when, as a picture. matplotlib, if it is installed, draws it."""

import argparse
import pathlib
import time


class LearningCurve:
    """Scores of a run, on held-out data, by the seconds at which they were reached.

    Used as:

        curve = LearningCurve("sums that are exact, of all held-out ones", REQUIRED)
        curve.add(score)
        curve.draw(path)
    """

    def __init__(self, score: str, required: float, others: dict[str, float] | None = None):
        """`required` and `others` (by their names) are levels to compare with."""
        self._score = score
        self._levels = {"required": required, **(others or {})}
        self._points: list[tuple[float, float]] = []
        self._start = time.monotonic()

    def add(self, score: float) -> None:
        """Notes a score that has just been reached."""
        self._points.append((time.monotonic() - self._start, score))

    def draw(self, path: str, title: str) -> None:
        """Draws the curve and the levels; prints where, or why not."""
        if not path:
            return
        pyplot = drawing_by()
        if pyplot is None:
            return
        from matplotlib import ticker

        figure, axes = pyplot.subplots(figsize=(8.0, 4.5), layout="constrained")
        if self._points:
            axes.plot(*zip(*self._points, strict=True), color="tab:red", marker="o", markersize=4)
        for (name, level), style in zip(self._levels.items(), ("-", "--", ":", "-."), strict=False):
            axes.axhline(level, color="black", linestyle=style, label=f"{name}: {level:.1%}")
        axes.set_xlim(left=0.0)
        axes.set_xlabel("seconds of training")
        axes.set_ylabel(self._score)
        axes.yaxis.set_major_formatter(ticker.PercentFormatter(1.0, decimals=0))
        axes.set_title(title)
        axes.grid(alpha=0.3)
        axes.legend(loc="lower right")
        save(figure, path)


def drawing_by():
    """matplotlib.pyplot, that needs no screen; None, and says so, if it is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("There is no picture: matplotlib is not installed.")
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save(figure, path: str) -> None:
    """Writes a figure of pyplot's, closes it, and prints where it is, or why it is nowhere."""
    from matplotlib import pyplot

    try:
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=120)
    except (OSError, ValueError) as error:  # a folder is in the way, or the format is unknown
        print(f"There is no picture: {path} cannot be written: {error}")  # the result follows
    else:
        print(f"Picture: {path}")
    finally:
        pyplot.close(figure)


def add_option(parser: argparse.ArgumentParser, name: str) -> None:
    """Adds --picture."""
    parser.add_argument(
        "--picture", default=f"runs/{name}.png", help='where to draw the curve; "" for nowhere'
    )
