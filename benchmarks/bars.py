"""What this library must reach, and whether the figures of a run do."""

import functools
import itertools
import math
import statistics
from collections.abc import Callable, Iterable
from typing import NamedTuple

from benchmarks import records
from benchmarks.cases import INFERENCE, TRAINING, Case
from benchmarks.measured import (
    Results,
    geometric_mean,
    key_of,
    least_milliseconds,
    median_of,
    ratio,
)
from benchmarks.records import Record

# Shorter calls of the sweep are TensorFlow's more than the op's.
LONG_MILLISECONDS = 1.0


class Value(NamedTuple):
    """A figure that a bar is about; larger is better.

    Attributes:
      row: what it is a figure of, in words.
      value: the figure.
      key: of the row in a run's records, see `key_of`.
    """

    row: str
    value: float
    key: tuple[str, str, str]


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
    values: Callable[["Results"], Iterable[Value]]
    every: float | None = None
    mean: float | None = None
    best: Callable[["Results"], Iterable[Value]] | None = None


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


# ------------------------------------------------------------------------------------
# Values
# ------------------------------------------------------------------------------------


def _share(record: Record, milliseconds: float | None) -> float | None:
    """A time over the one that a side took: 0 if it failed, None if a figure is missing."""
    if record.failed:
        return 0.0
    return None if None in (milliseconds, record.median) else milliseconds / record.median


def _value(record: Record, value: float) -> Value:
    return Value(f"{record.case} {record.pass_}".strip(), value, key_of(record))


def _value_of_side(record: Record, value: float) -> Value:
    """Where a row has several values."""
    return Value(f"{record.case} {record.pass_}, {record.side}", value, key_of(record))


def _ratios(
    experiment: str,
    pass_: str | None,
    base: str,
    *others: str,
    where: Callable[[Case], bool] = lambda case: True,
    least_op_milliseconds: float = 0.0,
):
    """How many times as long the fastest of `others` took as `base`; 0 if that failed.

    Args:
      where: of which cases.
      least_op_milliseconds: leaves out rows in which the op took less. If it is not 0, the op is
        one of the sides.
    """

    def values(results: Results):
        for sides in results.rows(experiment, pass_):
            record = sides.get(base)
            if record is None or not where(record.to_case()):
                continue
            op = median_of(sides.get("op"))
            if least_op_milliseconds and op is not None and op < least_op_milliseconds:
                continue
            others_of_row = (sides.get(other) for other in others)
            value = 0.0 if record.failed else ratio(record, others_of_row)
            if value is not None:
                yield _value(record, value)

    return values


def _had_it_taken(value: Value, record: Record, milliseconds: float) -> Value:
    """A ratio if its base, `record`, took less: what it took says that this is possible, too."""
    return value._replace(value=value.value * max(1.0, record.median / milliseconds))


def _at_best(
    experiment: str, pass_: str | None, base: str, *others: str, least_op_milliseconds: float = 0.0
):
    """The ratios of `_ratios` if `base` took the least time; its call through TensorFlow aside.

    A row that took less stays as it is: see `least_milliseconds`.
    """
    measured = _ratios(
        experiment, pass_, base, *others, least_op_milliseconds=least_op_milliseconds
    )

    def values(results: Results):
        for value in measured(results):
            record = results.row(value.key)[base]
            if record.failed:
                continue
            passes = ("forward", "backward") if record.pass_ == TRAINING else ("forward",)
            least = [least_milliseconds(results, record.to_case(), each) for each in passes]
            if None not in least:
                yield _had_it_taken(value, record, sum(least))

    return values


def _is_large(case: Case) -> bool:
    return case.num_units >= 512 and case.batch >= 16


def _engine_shares(pass_: str, where: Callable[[Case], bool]):
    """What the least time is of the time that the engine took."""

    def values(results: Results):
        for sides in results.rows("engine", pass_):
            for name, record in sides.items():
                if not name.startswith("engine") or not where(record.to_case()):
                    continue
                if record.isa != results.best_isa() or record.threads != results.threads:
                    continue
                share = _share(record, least_milliseconds(results, record.to_case(), pass_))
                if share is not None:
                    yield _value(record, share)

    return values


def _streams_from_c(results: Results):
    """The time to read the weights, and 3 us, over that of a step of one sequence."""
    for sides in results.rows("streaming", INFERENCE):
        record = sides.get("stream_from_c")
        if record is None:
            continue
        read = results.nanoseconds_to_read(4 * record.to_case().matrix_elements)
        share = _share(record, None if read is None else read * 1e-6 + 3e-3)
        if share is not None:
            yield _value(record, share)


def _streams_and_tails(results: Results):
    """Yields (record, what nearly all of its steps take, all sides) of streams."""
    for sides in results.rows("streaming", INFERENCE):
        for name in ("stream_from_c", "stream"):
            record, slow = sides.get(name), sides.get(records.tail_of(name))
            if None not in (record, slow):
                yield record, slow, sides


def _steady_streams(results: Results):
    """Three times the median of a step of one sequence, over what 99.9 % of its steps take."""
    for record, slow, _ in _streams_and_tails(results):
        share = _share(slow, None if record.median is None else 3 * record.median)
        if share is not None:
            yield _value_of_side(record, share)


def _steady_streams_at_best(results: Results):
    """The same if steps lost no more than rounds of a loop that counts do."""
    for record, slow, sides in _streams_and_tails(results):
        name = "counting_loop"
        loop, slow_loop = sides.get(name), sides.get(records.tail_of(name))
        if None not in (record.median, slow.median, median_of(loop), median_of(slow_loop)):
            lost = slow_loop.median - loop.median
            at_best = min(slow.median, record.median + lost)
            yield _value_of_side(record, 3 * record.median / at_best)


def _doublings(results: Results):
    """2.2 times the time before over that of twice the work: steps, batch, or lengths."""
    for varied, pass_ in itertools.product(("steps", "batch", "lengths"), (INFERENCE, TRAINING)):
        found = [
            sides["op"]
            for sides in results.rows("scaling", pass_)
            if "op" in sides and sides["op"].case.startswith(varied)
        ]
        yield from (_value(record, 0.0) for record in found if record.failed)
        ran = sorted((r for r in found if r.median is not None), key=lambda r: r.flops)
        for less, more in itertools.pairwise(ran):
            yield _value(more, 2.2 * less.median / more.median)


def sweep_ratios(results: Results):
    """Yields (own, peer, ratio) of all random shapes: records, and how much longer peers took."""
    for sides in results.rows("sweep"):
        for own in ("op", "layer"):
            for peer in ("keras", "torch", "onnx"):
                value = ratio(sides.get(own), [sides.get(peer)])
                if value is not None:
                    yield sides[own], sides[peer], value


# Of random shapes that are no short calls.
_sweep = functools.partial(_ratios, "sweep", least_op_milliseconds=LONG_MILLISECONDS)
_sweep_at_best = functools.partial(_at_best, "sweep", least_op_milliseconds=LONG_MILLISECONDS)
# Of both passes of layers, and of layers that get a mask.
_layer = functools.partial(_ratios, "layer", None, least_op_milliseconds=LONG_MILLISECONDS)
_masked = functools.partial(_ratios, "ragged", None, least_op_milliseconds=LONG_MILLISECONDS)


_sweep_inference = _sweep(INFERENCE, "op", "torch", "onnx")


def _empty_call(results: Results) -> float | None:
    """Milliseconds of a call of TensorFlow that does next to nothing, None if not measured."""
    found = [median_of(sides.get("empty_call")) for sides in results.rows("streaming", INFERENCE)]
    times = [figure for figure in found if figure is not None]
    return statistics.median(times) if times else None


def _sweep_inference_at_best(results: Results):
    """If the op took what the runtime takes, whose weights are prepared, and an empty call.

    The call is one after as many weights as the case has, where it was measured, else one of
    single steps, which finds its code in the caches. Where neither was, or not the runtime,
    if the op took the least time.
    """
    by_least = _sweep_at_best(INFERENCE, "op", "torch", "onnx")(results)
    by_row = {value.key: value for value in by_least}
    warm_call = _empty_call(results)
    for value in _sweep_inference(results):
        op = results.row(value.key)["op"]
        if op.failed:
            continue
        sides = results.row(("runtime", *value.key[1:]))
        runtime, cold_call = median_of(sides.get("runtime")), median_of(sides.get("cold_call"))
        call = warm_call if cold_call is None else cold_call
        if None not in (call, runtime):
            yield _had_it_taken(value, op, runtime + call)
        elif value.key in by_row:
            yield by_row[value.key]


def _is_one_layer(case: Case) -> bool:
    return case.num_layers * case.num_dirs == 1


def _has_several_layers(case: Case) -> bool:
    return not _is_one_layer(case)


def _eager_calls(results: Results):
    """The time of an eager built-in op, and 10 us, over that of the library's own."""
    for sides in results.rows("streaming", INFERENCE):
        own, built_in = sides.get("eager"), sides.get("eager_built_in")
        if own is None or own.to_case().num_units != 64:
            continue
        built_in_time = median_of(built_in)
        share = _share(own, None if built_in_time is None else built_in_time + 0.01)
        if share is not None:
            yield _value(own, share)


def _against_one_thread(results: Results):
    if results.threads == 2:
        of_case = _ratios("threads", None, "op_2", "op_1", where=lambda case: case.batch >= 16)
        yield from of_case(results)


def _bfloat16(results: Results):
    yield from _ratios("bfloat16", None, "op_bfloat16", "op_float32")(results)


def _multiplies_bfloat16(preamble: dict[str, str]) -> bool:
    """Whether the engine multiplies bfloat16 as it is, by its own choice.

    Older files do not say which instruction set it chose. What it chooses by, they do: tile
    registers, or AVX-512 BF16 of AMD (kernels/engine/simd/isa.inc).
    """
    if "instruction_set" in preamble:
        return preamble["instruction_set"] in ("avx512_bf16", "avx512_amx")
    flags = preamble.get("isa", "").split()
    return "amx_bf16" in flags or ("avx512_bf16" in flags and "AMD" in preamble.get("cpu", ""))


def _fast_bfloat16(results: Results):
    if _multiplies_bfloat16(results.preamble):
        yield from _bfloat16(results)


def _int8(results: Results):
    """Of single steps with weights that are too large, in float, for the cores' own caches.

    Threads share the weights, and each core keeps its share.
    """

    def waits_for_weights(case: Case) -> bool:
        is_large = results.exceeds("l2", 4 * case.matrix_elements)
        return is_large and case.seq_length * case.batch == 1

    yield from _ratios("int8", INFERENCE, "int8", "float32", where=waits_for_weights)(results)


# ------------------------------------------------------------------------------------
# The bars
# ------------------------------------------------------------------------------------


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
            values(where=_is_one_layer),
            1 / 1.15,
            1 / 1.05,
        ),
        Bar(
            f"op against {of}s, {rows_of_stacks}, stacks and Bidirectional",
            values(where=_has_several_layers),
            mean=1 / 1.1,
        ),
    )


BARS = (
    Bar(
        "random shapes of 1 ms and more, training against PyTorch",
        _sweep(TRAINING, "op", "torch"),
        1.0,
        2.0,
        _sweep_at_best(TRAINING, "op", "torch"),
    ),
    Bar(
        "random shapes of 1 ms and more, inference against the faster of PyTorch and ONNX Runtime",
        _sweep_inference,
        0.95,
        1.3,
        _sweep_inference_at_best,
    ),
    Bar(
        "gate, training against PyTorch",
        _ratios("gate", TRAINING, "op", "torch"),
        1.1,
        2.0,
        _at_best("gate", TRAINING, "op", "torch"),
    ),
    Bar(
        "gate, training against Keras in a tf.function",
        _ratios("gate", TRAINING, "op", "keras"),
        1.8,
        3.5,
        _at_best("gate", TRAINING, "op", "keras"),
    ),
    Bar(
        "ragged against PyTorch, packed",
        _ratios("ragged", None, "op", "torch"),
        1.1,
        3.0,
        _at_best("ragged", None, "op", "torch"),
    ),
    Bar(
        "projection, training against PyTorch",
        _ratios("projection", TRAINING, "op", "torch"),
        2.0,
    ),
    *_layer_bars(
        "drop-in layer",
        "random shapes of 1 ms and more",
        "the same",
        functools.partial(_sweep, None, "layer", "op"),
    ),
    *_layer_bars(
        "masked drop-in layer",
        "ragged, calls of 1 ms and more",
        "the same",
        functools.partial(_masked, "layer", "op"),
    ),
    *_layer_bars(
        "drop-in layer",
        "gate, calls of 1 ms and more",
        "gate",
        functools.partial(_layer, "layer", "op"),
    ),
    *_layer_bars(
        "stateful drop-in layer",
        "calls of 1 ms and more",
        "gate",
        functools.partial(_layer, "stateful_layer", "op"),
    ),
    Bar(
        "op against CudnnRNN layer, calls of 1 ms and more",
        _layer("cudnn_layer", "op"),
        1 / 1.15,
        1 / 1.05,
    ),
    Bar("bfloat16 against float32", _bfloat16, 1.0),
    Bar("bfloat16 against float32, where its instructions are faster", _fast_bfloat16, mean=1.5),
    Bar(
        "engine, share of the least time, forward; H >= 512, B >= 16",
        _engine_shares("forward", _is_large),
        0.85,
    ),
    Bar(
        "engine, share of the least time, backward; H >= 512, B >= 16",
        _engine_shares("backward", _is_large),
        0.8,
    ),
    Bar(
        "engine, share of the least time, inference of one row; H 256 to 2048",
        _engine_shares(INFERENCE, lambda c: c.batch == 1 and c.num_units >= 256),
        0.85,
    ),
    Bar("two threads against one; B >= 16", _against_one_thread, 1.85),
    Bar("2.2 times / time for twice the steps, batch, lengths", _doublings, 1.0),
    Bar("limited to AVX2, against PyTorch", _ratios("avx2", None, "op", "torch"), 1.0),
    Bar(
        "streaming, (eager built-in op + 10 us) / eager own op; LSTM 64, GRU 64",
        _eager_calls,
        1.0,
    ),
    Bar(
        "streaming, runtime in C, (weights / bandwidth + 3 us) / time",
        _streams_from_c,
        1.0,
    ),
    Bar(
        "streaming, runtime in C against ONNX Runtime, called from Python",
        _ratios("streaming", INFERENCE, "stream_from_c", "onnx"),
        1.0,
    ),
    Bar(
        "streaming, runtime against ONNX Runtime, both called from Python",
        _ratios("streaming", INFERENCE, "stream", "onnx"),
        1.0,
    ),
    Bar(
        "streaming, 3 times the median / what 99.9 % of steps take",
        _steady_streams,
        1.0,
        best=_steady_streams_at_best,
    ),
    Bar("int8 against float32, one row, weights beyond the second-level caches", _int8, 2.0),
    Bar(
        "runtime, random shapes, against the faster of ONNX Runtime and PyTorch",
        _ratios("runtime", INFERENCE, "runtime", "onnx", "torch"),
        1.0,
        1.5,
        _at_best("runtime", INFERENCE, "runtime", "onnx", "torch"),
    ),
    Bar(
        "a SavedModel with is_training=True against one without",
        _ratios("training_flag", None, "is_training", "is_inference"),
        0.95,  # as fast, but for noise between two medians
    ),
    Bar("memory of a training step, PyTorch's / own", _ratios("memory", None, "op", "torch"), 1.0),
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
