"""What this library must reach, and whether the figures of a run do."""

import functools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from benchmarks import bar_values
from benchmarks.bar_values import Value
from benchmarks.cases import INFERENCE, TRAINING
from benchmarks.measured import Results, geometric_mean


class Bar(NamedTuple):
    """A requirement on some rows of a run.

    Attributes:
      what: in words.
      values: picks them out of the results; none if they were not measured.
      every: the least value of each row, None if there is no such requirement.
      mean: that of the geometric mean, likewise.
      best: the values if the op took the least time that can be told, or what it took if that was
        less: of the machine (`least_milliseconds`), or of calls with the same engine. What is
        required beyond these is out of reach.
    """

    what: str
    values: Callable[[Results], Iterable[Value]]
    every: float | None = None
    mean: float | None = None
    best: Callable[[Results], Iterable[Value]] | None = None


class Verdict(NamedTuple):
    """How a run meets a bar, and how it would at best."""

    bar: Bar
    values: list[Value]
    best: list[Value]

    @property
    def worst(self) -> Value | None:
        return worst_of(self.values)

    @property
    def mean(self) -> float | None:
        return mean_of(self.values)

    @property
    def failed(self) -> list[Value]:
        """The rows that are below what is required of every row."""
        least = -math.inf if self.bar.every is None else self.bar.every
        return [value for value in self.values if value.value < least]

    @property
    def text(self) -> str:
        if not self.values:
            return "not measured"
        mean = self.bar.mean is None or self.mean >= self.bar.mean
        return "FAIL" if self.failed or not mean else "pass"


def worst_of(values: list[Value]) -> Value | None:
    """The least one; None of nothing."""
    return min(values, key=lambda each: each.value, default=None)


def mean_of(values: list[Value]) -> float | None:
    """The geometric mean; None of nothing."""
    return geometric_mean([each.value for each in values])


def digits_of(required: float | None, *figures: float | None) -> int:
    """How many digits behind the point show which figures are below what is required: mostly 2."""
    if required is None:
        return 2
    below = [figure for figure in figures if figure is not None and figure < required]

    def shown(digits: int) -> bool:
        return all(f"{figure:.{digits}f}" != f"{required:.{digits}f}" for figure in below)

    return next((digits for digits in range(2, 6) if shown(digits)), 6)


def _layer_bars(of: str, rows: str, rows_of_stacks: str, values) -> tuple[Bar, Bar]:
    """What one layer may take beside its op, and what a stack or both directions may.

    Args:
      of: what is compared with the op.
      rows, rows_of_stacks: which, in words.
      values: picks the figures of cases, `where` a function says so.
    """
    return (
        Bar(
            f"op against {of}, {rows}, one layer",
            values(where=bar_values.is_one_layer),
            1 / 1.15,
            1 / 1.05,
        ),
        Bar(
            f"op against {of}s, {rows_of_stacks}, stacks and Bidirectional",
            values(where=bar_values.has_several_layers),
            mean=1 / 1.1,
        ),
    )


BARS = (
    Bar(
        "random shapes of 1 ms and more, training against PyTorch",
        bar_values.long_sweep_ratios(TRAINING, "op", "torch"),
        1.0,
        2.0,
        bar_values.long_sweep_at_best(TRAINING, "op", "torch"),
    ),
    Bar(
        "random shapes of 1 ms and more, inference against the faster of PyTorch and ONNX Runtime",
        bar_values.long_sweep_inference,
        0.95,
        1.3,
        bar_values.long_sweep_inference_at_best,
    ),
    Bar(
        "gate, training against PyTorch",
        bar_values.ratios("gate", TRAINING, "op", "torch"),
        1.1,
        2.0,
        bar_values.at_best("gate", TRAINING, "op", "torch"),
    ),
    Bar(
        "gate, training against Keras in a tf.function",
        bar_values.ratios("gate", TRAINING, "op", "keras"),
        1.8,
        3.5,
        bar_values.at_best("gate", TRAINING, "op", "keras"),
    ),
    Bar(
        "ragged against PyTorch, packed",
        bar_values.ratios("ragged", None, "op", "torch"),
        1.1,
        3.0,
        bar_values.at_best("ragged", None, "op", "torch"),
    ),
    Bar(
        "projection, training against PyTorch",
        bar_values.ratios("projection", TRAINING, "op", "torch"),
        2.0,
    ),
    *_layer_bars(
        "drop-in layer",
        "random shapes of 1 ms and more",
        "the same",
        functools.partial(bar_values.long_sweep_ratios, None, "layer", "op"),
    ),
    *_layer_bars(
        "masked drop-in layer",
        "ragged, calls of 1 ms and more",
        "the same",
        functools.partial(bar_values.masked_layer_ratios, "layer", "op"),
    ),
    *_layer_bars(
        "drop-in layer",
        "gate, calls of 1 ms and more",
        "gate",
        functools.partial(bar_values.layer_ratios, "layer", "op"),
    ),
    *_layer_bars(
        "stateful drop-in layer",
        "calls of 1 ms and more",
        "gate",
        functools.partial(bar_values.layer_ratios, "stateful_layer", "op"),
    ),
    Bar(
        "op against CudnnRNN layer, calls of 1 ms and more",
        bar_values.layer_ratios("cudnn_layer", "op"),
        1 / 1.15,
        1 / 1.05,
    ),
    Bar("bfloat16 against float32", bar_values.bfloat16_ratios, 1.0),
    Bar(
        "bfloat16 against float32, where its instructions are faster",
        bar_values.fast_bfloat16_ratios,
        mean=1.5,
    ),
    Bar(
        "engine, share of the least time, forward; H >= 512, B >= 16",
        bar_values.engine_shares("forward", bar_values.is_large),
        0.85,
    ),
    Bar(
        "engine, share of the least time, backward; H >= 512, B >= 16",
        bar_values.engine_shares("backward", bar_values.is_large),
        0.8,
    ),
    Bar(
        "engine, share of the least time, inference of one row; H 256 to 2048",
        bar_values.engine_shares(INFERENCE, lambda c: c.batch == 1 and c.num_units >= 256),
        0.85,
    ),
    Bar("two threads against one; B >= 16", bar_values.two_threads_against_one, 1.85),
    Bar("2.2 times / time for twice the steps, batch, lengths", bar_values.doublings, 1.0),
    Bar("limited to AVX2, against PyTorch", bar_values.ratios("avx2", None, "op", "torch"), 1.0),
    Bar(
        "streaming, (eager built-in op + 10 us) / eager own op; LSTM 64, GRU 64",
        bar_values.eager_calls,
        1.0,
    ),
    Bar(
        "streaming, runtime in C, (weights / bandwidth + 3 us) / time",
        bar_values.streams_from_c,
        1.0,
    ),
    Bar(
        "streaming, runtime in C against ONNX Runtime, called from Python",
        bar_values.ratios("streaming", INFERENCE, "stream_from_c", "onnx"),
        1.0,
    ),
    Bar(
        "streaming, runtime against ONNX Runtime, both called from Python",
        bar_values.ratios("streaming", INFERENCE, "stream", "onnx"),
        1.0,
    ),
    Bar(
        "streaming, 3 times the median / what 99.9 % of steps take",
        bar_values.steady_streams,
        1.0,
        best=bar_values.steady_streams_at_best,
    ),
    Bar(
        "int8 against float32, one row, weights beyond the second-level caches",
        bar_values.int8_ratios,
        2.0,
    ),
    Bar(
        "runtime, random shapes, against the faster of ONNX Runtime and PyTorch",
        bar_values.ratios("runtime", INFERENCE, "runtime", "onnx", "torch"),
        1.0,
        1.5,
        bar_values.at_best("runtime", INFERENCE, "runtime", "onnx", "torch"),
    ),
    Bar(
        "a SavedModel with is_training=True against one without",
        bar_values.ratios("training_flag", None, "is_training", "is_inference"),
        0.95,  # as fast, but for noise between two medians
    ),
    Bar(
        "skipped input against linear input",
        bar_values.ratios("skip_input", None, "skip_input", "linear_input"),
        0.95,  # it has less to do, but for noise between two medians
    ),
    Bar(
        "memory of a training step, PyTorch's / own",
        bar_values.ratios("memory", None, "op", "torch"),
        1.0,
    ),
)


def verdicts(results: Results) -> list[Verdict]:
    """How a run meets every bar."""
    return [
        Verdict(bar, list(bar.values(results)), list(bar.best(results)) if bar.best else [])
        for bar in BARS
    ]


def slow_keys(results: Results) -> set[tuple[str, str, str]]:
    """The `key_of` of all rows that have a figure below what a bar requires of every row.

    The others of `Verdict.failed` have none: this library failed, which is no noise.
    """
    failed = (value for verdict in verdicts(results) for value in verdict.failed)
    return {value.key for value in failed if value.value}
