"""The tables of a file of results: medians case by case, and their means by kind of network."""

import collections
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import bar_values, measured, records
from benchmarks.cases import PASSES, Case, is_random
from benchmarks.experiments import ENGINE
from benchmarks.records import PEAK, Record
from benchmarks.results.files import LEAST, MEAN, MEDIAN, MOST, TIMES, Figure, File, case_of

KINDS = ("LSTM, batch 1 to 4", "LSTM, larger batches", "GRU and simple RNN")


def _kind(case: Case) -> str:
    if case.rnn_mode != "lstm":
        return KINDS[2]
    return KINDS[0] if case.batch <= 4 else KINDS[1]


class KindMean(NamedTuple):
    """The geometric means of rows of one kind, by side."""

    kind: str
    count: int
    by_side: dict[str, float]


class Table:
    """The medians of a group, all of one commit."""

    def __init__(self, file: File, group: str, figures: list[Figure]):
        self.group = group
        self.version = figures[0].version
        preamble = file.preamble | {"tf_cudnn_rnn": f"commit {self.version}"}
        self.results = measured.Results(preamble, _records(file, figures))

    def passes(self) -> list[str]:
        return list(dict.fromkeys(record.pass_ for record in self.results.records))

    def rows(self, pass_: str) -> list[dict[str, Record]]:
        """The sides of each row, the base first."""
        rows = []
        for sides in self.results.rows(self.group, pass_):
            base = next(iter(sides.values())).base
            rows.append({base: sides[base]} | sides)
        return rows

    def sides(self, pass_: str) -> list[str]:
        """All sides, the base first."""
        return list(dict.fromkeys(side for sides in self.rows(pass_) for side in sides))

    def means(self, pass_: str) -> list[KindMean]:
        """Of each kind of network, and of all."""
        by_kind: dict[str, list[dict[str, Record]]] = {}
        rows = self.rows(pass_)
        for kind in KINDS:
            by_kind[kind] = [s for s in rows if _kind(next(iter(s.values())).to_case()) == kind]
        by_kind = {kind: found for kind, found in by_kind.items() if found}
        if len(by_kind) > 1:
            by_kind["all"] = rows
        base, *others = self.sides(pass_)
        found = []
        for kind, of_kind in by_kind.items():
            by_side = {}
            for side in others:
                ratios = [measured.ratio(sides[base], [sides.get(side)]) for sides in of_kind]
                mean = measured.geometric_mean([ratio for ratio in ratios if ratio is not None])
                if mean is not None:
                    by_side[side] = mean
            found.append(KindMean(kind, len(of_kind), by_side))
        return found


def _records(file: File, figures: list[Figure]) -> list[Record]:
    """What the tables, charts and bars of a run are made of, of medians."""
    of_base = {
        (f.group, f.case, f.pass_): f for f in figures if f.side == f.base and f.unit != TIMES
    }
    return [_record(file, f, of_base[f.group, f.case, f.pass_]) for f in figures]


def _record(file: File, figure: Figure, base: Figure) -> Record:
    """A ratio becomes what it is of the base."""
    is_ratio = figure.unit == TIMES
    case = case_of(figure.case)
    names_isa = figure.group in (ENGINE, PEAK) and " " in figure.side
    return Record(
        experiment=figure.group,
        case=figure.case,
        pass_=figure.pass_,
        side=figure.side,
        base=figure.base,
        dtype=figure.dtype,
        threads=int(file.preamble["threads"]),
        isa=figure.side.rpartition(" ")[2] if names_isa else "",
        unit=base.unit if is_ratio else figure.unit,
        median=figure.value * (base.value if is_ratio else 1),
        flops=case.flops(figure.pass_) if figure.pass_ in PASSES else 0,
        network={} if case is None else records.network_of(case),
    )


def of_group(file: File, group: str) -> Table | None:
    """The table of a group, None if the file has no medians of it; without random networks."""
    found = [
        f
        for f in file.figures
        if f.group == group and f.statistic == MEDIAN and not is_random(f.case)
    ]
    return Table(file, group, found) if found else None


def of_file(file: File) -> list[Table]:
    """Those of all groups that have networks with names."""
    groups = dict.fromkeys(f.group for f in file.figures if f.group != PEAK)
    return [table for table in (of_group(file, group) for group in groups) if table is not None]


def results_of(file: File) -> measured.Results:
    """All medians of a file, as those of a run."""
    medians = [figure for figure in file.figures if figure.statistic == MEDIAN]
    return measured.Results(file.preamble, _records(file, medians))


def random_ranges(file: File) -> Iterator[Figure]:
    """Of random networks the least, the mean and the most, with and without short calls."""
    found = [f for f in file.figures if f.statistic == MEDIAN and is_random(f.case)]
    versions = {figure.group: figure.version for figure in found}
    results = measured.Results(file.preamble, _records(file, found))
    ratios = collections.defaultdict(list)  # of a side, what its base took, and the ratio
    for group in results.experiments():
        for sides in results.rows(group):
            base = sides[next(iter(sides.values())).base]
            for record in sides.values():
                if record is not base:
                    key = (group, record.pass_, record.dtype, record.side, record.base)
                    ratios[key].append((base.median, measured.ratio(base, [record])))
    for (group, pass_, dtype, side, base_side), pairs in ratios.items():
        for least_ms, suffix in ((0.0, ""), (bar_values.LONG_MILLISECONDS, " of 1 ms and more")):
            values = [ratio for base_ms, ratio in pairs if base_ms >= least_ms]
            if not values:
                continue
            for statistic, value in (
                (LEAST, min(values)),
                (MEAN, measured.geometric_mean(values)),
                (MOST, max(values)),
            ):
                yield Figure(
                    group=group,
                    version=versions[group],
                    case="",
                    pass_=pass_,
                    dtype=dtype,
                    side=side,
                    base=base_side,
                    statistic=statistic,
                    rows=f"{len(values)} random networks{suffix}",
                    unit=TIMES,
                    value=value,
                )
