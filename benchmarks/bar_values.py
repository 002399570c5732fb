"""The figures that bars are about, picked out of the results of a run."""

import functools
import itertools
import statistics
from collections.abc import Callable
from typing import NamedTuple

from benchmarks import records
from benchmarks.cases import INFERENCE, TRAINING, Case
from benchmarks.measured import Results, key_of, least_milliseconds, median_of, ratio
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


def ratios(
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


def at_best(
    experiment: str, pass_: str | None, base: str, *others: str, least_op_milliseconds: float = 0.0
):
    """The ratios of `ratios` if `base` took the least time; its call through TensorFlow aside.

    A row that took less stays as it is: see `least_milliseconds`.
    """
    measured = ratios(experiment, pass_, base, *others, least_op_milliseconds=least_op_milliseconds)

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


def is_large(case: Case) -> bool:
    """H >= 512, B >= 16."""
    return case.num_units >= 512 and case.batch >= 16


def engine_shares(pass_: str, where: Callable[[Case], bool]):
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


def streams_from_c(results: Results):
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


def steady_streams(results: Results):
    """Three times the median of a step of one sequence, over what 99.9 % of its steps take."""
    for record, slow, _ in _streams_and_tails(results):
        share = _share(slow, None if record.median is None else 3 * record.median)
        if share is not None:
            yield _value_of_side(record, share)


def steady_streams_at_best(results: Results):
    """The same if steps lost no more than rounds of a loop that counts do."""
    for record, slow, sides in _streams_and_tails(results):
        name = "counting_loop"
        loop, slow_loop = sides.get(name), sides.get(records.tail_of(name))
        if None not in (record.median, slow.median, median_of(loop), median_of(slow_loop)):
            lost = slow_loop.median - loop.median
            slow_at_best = min(slow.median, record.median + lost)
            yield _value_of_side(record, 3 * record.median / slow_at_best)


def doublings(results: Results):
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
long_sweep_ratios = functools.partial(ratios, "sweep", least_op_milliseconds=LONG_MILLISECONDS)
long_sweep_at_best = functools.partial(at_best, "sweep", least_op_milliseconds=LONG_MILLISECONDS)
# Of both passes of layers, and of layers that get a mask.
layer_ratios = functools.partial(ratios, "layer", None, least_op_milliseconds=LONG_MILLISECONDS)
masked_layer_ratios = functools.partial(
    ratios, "ragged", None, least_op_milliseconds=LONG_MILLISECONDS
)

long_sweep_inference = long_sweep_ratios(INFERENCE, "op", "torch", "onnx")


def _empty_call(results: Results) -> float | None:
    """Milliseconds of a call of TensorFlow that does next to nothing, None if not measured."""
    found = [median_of(sides.get("empty_call")) for sides in results.rows("streaming", INFERENCE)]
    times = [figure for figure in found if figure is not None]
    return statistics.median(times) if times else None


def long_sweep_inference_at_best(results: Results):
    """If the op took what the runtime takes, whose weights are prepared, and an empty call.

    The call is one after as many weights as the case has, where it was measured, else one of
    single steps, which finds its code in the caches. Where neither was, or not the runtime,
    if the op took the least time.
    """
    by_least = long_sweep_at_best(INFERENCE, "op", "torch", "onnx")(results)
    by_row = {value.key: value for value in by_least}
    warm_call = _empty_call(results)
    for value in long_sweep_inference(results):
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


def is_one_layer(case: Case) -> bool:
    """One layer of one direction."""
    return case.num_layers * case.num_dirs == 1


def has_several_layers(case: Case) -> bool:
    return not is_one_layer(case)


def eager_calls(results: Results):
    """The time of an eager built-in op, and 10 us, over that of the library's own."""
    for sides in results.rows("streaming", INFERENCE):
        own, built_in = sides.get("eager"), sides.get("eager_built_in")
        if own is None or own.to_case().num_units != 64:
            continue
        built_in_time = median_of(built_in)
        share = _share(own, None if built_in_time is None else built_in_time + 0.01)
        if share is not None:
            yield _value(own, share)


def two_threads_against_one(results: Results):
    """How many times as long one thread takes as the two of the run; B >= 16."""
    if results.threads == 2:
        of_case = ratios("threads", None, "op_2", "op_1", where=lambda case: case.batch >= 16)
        yield from of_case(results)


def bfloat16_ratios(results: Results):
    """How many times as long the op takes in float32."""
    yield from ratios("bfloat16", None, "op_bfloat16", "op_float32")(results)


def _multiplies_bfloat16(preamble: dict[str, str]) -> bool:
    """Whether the engine multiplies bfloat16 as it is, by its own choice.

    A file that does not name its instruction set has what it is chosen by: tile registers, or
    AVX-512 BF16 of AMD (kernels/engine/simd/isa.inc).
    """
    if "instruction_set" in preamble:
        return preamble["instruction_set"] in ("avx512_bf16", "avx512_amx")
    flags = preamble.get("isa", "").split()
    return "amx_bf16" in flags or ("avx512_bf16" in flags and "AMD" in preamble.get("cpu", ""))


def fast_bfloat16_ratios(results: Results):
    """The same where the engine multiplies bfloat16 as it is."""
    if _multiplies_bfloat16(results.preamble):
        yield from bfloat16_ratios(results)


def int8_ratios(results: Results):
    """Of single steps with weights that are too large, in float, for the cores' own caches.

    Threads share the weights, and each core keeps its share.
    """

    def waits_for_weights(case: Case) -> bool:
        is_large = results.exceeds("l2", 4 * case.matrix_elements)
        return is_large and case.seq_length * case.batch == 1

    yield from ratios("int8", INFERENCE, "int8", "float32", where=waits_for_weights)(results)
