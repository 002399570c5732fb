"""What a run measured, by what it is about, and the least time that its machine would take."""

import collections
import functools
import math
from collections.abc import Iterable

from benchmarks import records
from benchmarks.cases import INFERENCE, Case
from benchmarks.records import Record

# Those of bfloat16 parts that a product of floats is made of (docs/decisions/floats-in-parts.md).
_PRODUCTS_OF_PARTS = 6


class Results:
    """The records of a run, by what they are about."""

    def __init__(self, preamble: dict[str, str], all_records: list[Record]):
        self.preamble = preamble
        self.records = all_records
        self.threads = int(preamble["threads"])
        self._by_row: dict[tuple, dict[str, Record]] = {}
        for record in all_records:
            self._by_row.setdefault(key_of(record), {})[record.side] = record

    def rows(self, experiment: str, pass_: str | None = None):
        """Yields the sides of each row, a record each."""
        for (name, _, row_pass), sides in self._by_row.items():
            if name == experiment and pass_ in (None, row_pass):
                yield sides

    def row(self, key: tuple[str, str, str]) -> dict[str, Record]:
        """The sides of the row that has this `key_of`; none if it was not measured."""
        return self._by_row.get(key, {})

    def experiments(self) -> list[str]:
        return list(dict.fromkeys(record.experiment for record in self.records))

    def best_isa(self) -> str | None:
        """The best instruction set of the machine, None if the engine's benchmark was not run.

        It is the one that the engine chooses by itself, for all passes; with a lower one it runs
        forward alone.
        """
        return self._best_isa

    @functools.cached_property
    def _best_isa(self) -> str | None:
        found = [record for record in self.records if record.experiment in ("engine", records.PEAK)]
        rows = collections.Counter(r.isa for r in found if r.pass_ == "backward")
        peaks = {r.isa: r.median for r in found if r.case == "multiply_add" and r.median}
        return max(peaks, key=lambda isa: (rows[isa], peaks[isa]), default=None)

    @functools.cached_property
    def _peaks(self) -> list[Record]:
        """Those of the machine: bars ask for them in each row."""
        return [record for record in self.records if record.experiment == records.PEAK]

    def rate(self, name: str, isa: str | None = None, threads: int | None = None) -> float | None:
        """A peak of the machine: GFLOP/s of "multiply_add", GB/s of a level of memory.

        Args:
          name: of the peak.
          isa: None for the best.
          threads: None for those of the run.
        """
        wanted = self.threads if threads is None else threads
        isa = self.best_isa() if isa is None else isa
        found = [
            record.median
            for record in self._peaks
            if (record.case, record.threads, record.isa) == (name, wanted, isa)
            and record.median is not None
        ]
        return max(found, default=None)

    def peak(self, isa: str | None = None, threads: int | None = None) -> float | None:
        """The multiply-add peak in GFLOP/s; see `rate`."""
        return self.rate("multiply_add", isa, threads)

    def product_peak(self, isa: str | None = None) -> float | None:
        """The GFLOP/s of a product of many rows: the peak, or that of floats in bfloat16 parts.

        Tile registers multiply these parts faster than vectors multiply floats
        (docs/decisions/floats-in-parts.md).
        """
        peak = self.peak(isa)
        of_parts = (self.rate("multiply_add_bfloat16", isa) or 0.0) / _PRODUCTS_OF_PARTS
        return None if peak is None else max(peak, of_parts)

    def nanoseconds_to_read(self, size: int, isa: str | None = None) -> float | None:
        """The least time in which all threads read so many bytes that they have read before.

        What the caches up to a level cannot hold comes from beyond it, and no faster than from the
        next level. Levels may work at once.
        """
        held, least = 0.0, 0.0
        for level, capacity in [*self._caches().items(), ("dram", math.inf)]:
            if size > held:
                rate = self.rate(level, isa)
                if rate is None:
                    return None
                least = max(least, (size - held) / rate)
            held += capacity
        return least

    def level_of(self, size: int) -> str:
        """The level of memory that holds so many bytes, spread over the threads, with room left."""
        for level, capacity in self._caches().items():
            if size < capacity:
                return level
        return "dram"

    def exceeds(self, level: str, size: int) -> bool:
        """Whether a level of the threads' caches cannot hold so many bytes."""
        return size > self._caches().get(level, 0)

    def _caches(self) -> dict[str, int]:
        """Bytes of each level, of all threads together."""
        found = {}
        for each in self.preamble.get("caches", "").split(", "):
            name, _, size = each.partition("=")
            if size:
                level, *shared = name.split()
                found[level] = int(size) * (1 if shared else self.threads)
        return found


def key_of(record: Record) -> tuple[str, str, str]:
    """What a row is found by: its group, its case and its pass."""
    return record.experiment, record.case, record.pass_


def median_of(record: Record | None) -> float | None:
    """None if it was not measured."""
    return None if record is None else record.median


def ratio(base: Record | None, others: Iterable[Record | None]) -> float | None:
    """How many times as long the fastest other took; None if a figure is missing."""
    figures = [figure for figure in map(median_of, others) if figure is not None]
    figure = median_of(base)
    return None if figure is None or not figures else min(figures) / figure


def geometric_mean(values: list[float]) -> float | None:
    """None of nothing."""
    if not values:
        return None
    return math.exp(sum(map(math.log, values)) / len(values)) if all(values) else 0.0


def least_milliseconds(
    results: Results, case: Case, pass_: str = INFERENCE, isa: str | None = None
) -> float | None:
    """The least time that a pass can take on the machine, None if its peaks are not known.

    Args:
      pass_: INFERENCE, or "forward" or "backward" of the engine.

    Forward, the input product of all valid steps is at the peak of products, or reads its matrix
    once. A step of the recurrence does the arithmetic of the rows that are active in it at the peak
    of multiply-adds, or reads the recurrent matrices: those of one layer and direction at a time,
    for their steps may come one after another. "backward" does the same with the matrices
    transposed, and the products that are their gradients, at the peak of products.
    """
    if pass_ not in (INFERENCE, "forward", "backward"):
        raise ValueError(f"`pass_` must be inference, forward or backward; got {pass_!r}.")
    input_elements = case.matrix_elements - case.recurrent_elements
    together = case.recurrent_elements_together
    peak, product_peak = results.peak(isa), results.product_peak(isa)
    read_input = results.nanoseconds_to_read(4 * input_elements, isa)
    read_together = results.nanoseconds_to_read(4 * together, isa)
    if None in (peak, product_peak, read_input, read_together):
        return None
    read_recurrent = read_together * (case.recurrent_elements / together)
    lengths = case.lengths
    rows = int(lengths.sum())
    nanoseconds = max(2 * rows * input_elements / product_peak, read_input)
    for t in range(int(lengths.max())):
        active = int((lengths > t).sum())
        nanoseconds += max(2 * active * case.recurrent_elements / peak, read_recurrent)
    if pass_ == "backward":
        nanoseconds += 2 * rows * case.matrix_elements / product_peak
    return nanoseconds * 1e-6
