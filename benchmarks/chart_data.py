"""What the charts of a run show, picked out of its results; needs no matplotlib."""

from typing import NamedTuple

from benchmarks import measured, records
from benchmarks.cases import INFERENCE, TRAINING, Case
from benchmarks.measured import Results
from benchmarks.records import Record


class SpeedRow(NamedTuple):
    """A case of a chart of speeds.

    Attributes:
      base: the record that the others are divided by; it has a figure.
      ratios: how many times as much each other side took, of those with figures; no tails.
    """

    base: Record
    ratios: dict[str, float]


def speed_rows(results: Results, experiment: str, pass_: str) -> list[SpeedRow]:
    """The cases in which a side can be compared with the base."""
    rows = []
    for sides in results.rows(experiment, pass_):
        base = sides.get(next(iter(sides.values())).base)
        if base is None or base.median is None:
            continue
        ratios = {
            name: measured.ratio(base, [record])
            for name, record in sides.items()
            if name != base.side and not records.is_tail(name)
        }
        ratios = {name: value for name, value in ratios.items() if value is not None}
        if ratios:
            rows.append(SpeedRow(base, ratios))
    return rows


class Weights(NamedTuple):
    """The recurrent weights of a curve of the roofline, and the level of memory they fit."""

    rnn_mode: str
    num_units: int
    level: str


# By the pass and the weights: (batch, share of the multiply-add peak), in the order of batches.
Shares = dict[str, dict[Weights, list[tuple[int, float]]]]


def shares_of_peak(results: Results) -> Shares:
    """What the engine reaches with the best instruction set and all threads of the run."""
    found: Shares = {}
    best = results.best_isa()
    peak = results.peak(best)
    for pass_ in ("inference", "forward", "backward"):
        for sides in results.rows("engine", pass_):
            for record in sides.values():
                fits = record.side.startswith("engine") and record.isa == best
                if not fits or record.threads != results.threads or None in (peak, record.median):
                    continue
                case = record.to_case()
                level = results.level_of(4 * case.recurrent_elements_together)
                weights = Weights(case.rnn_mode, case.num_units, level)
                points = found.setdefault(pass_, {}).setdefault(weights, [])
                points.append((case.batch, record.gigaflops / peak))
                points.sort()
    return found


def share_per_row(results: Results, level: str) -> float | None:
    """The share of the peak that one row of a batch may reach by the bandwidth of a level."""
    peak, bandwidth = results.peak(), results.rate(level)
    if None in (peak, bandwidth):
        return None
    # A weight, 4 bytes, is used in a multiply-add for each row of the batch.
    return bandwidth / 4 * 2 / peak


def _varied(case: Case, name: str) -> int:
    """How much there is in a case of what its name says is varied."""
    return {
        "steps": case.seq_length,
        "batch": case.batch,
        "units": case.num_units,
        "lengths": int(case.lengths.sum()),
    }[name]


VARIED = ("steps", "batch", "units", "lengths")


def scaling(results: Results) -> dict[str, dict[str, list[tuple[int, float]]]]:
    """By what is varied, one of VARIED, and the pass: (how much of it, milliseconds), ordered."""
    found: dict[str, dict[str, list[tuple[int, float]]]] = {}
    for pass_ in (INFERENCE, TRAINING):
        for sides in results.rows("scaling", pass_):
            for record in sides.values():
                name = record.case.rpartition("_")[0]
                if record.median is not None and name in VARIED:
                    points = found.setdefault(name, {}).setdefault(pass_, [])
                    points.append((_varied(record.to_case(), name), record.median))
                    points.sort()
    return found


def thread_speedups(results: Results) -> dict[str, dict[int, float]]:
    """By side, the geometric mean of how much faster n threads are than one; B >= 16."""
    found: dict[str, dict[int, list[float]]] = {}
    for sides in results.rows("threads"):
        for record in sides.values():
            name = record.side.rpartition("_")[0]
            value = measured.ratio(record, [sides.get(f"{name}_1")])
            if value is not None and record.to_case().batch >= 16:
                found.setdefault(name, {}).setdefault(record.threads, []).append(value)
    return {
        name: {
            threads: measured.geometric_mean(values) for threads, values in sorted(of_side.items())
        }
        for name, of_side in found.items()
    }
