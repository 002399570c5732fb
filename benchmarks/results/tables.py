"""The tables of a file of results: medians case by case, and their means by kind of network."""

from typing import NamedTuple

from benchmarks import bars, records
from benchmarks.cases import Case
from benchmarks.records import Record
from benchmarks.results.files import MEDIAN, TIMES, Figure, File, case_of

KINDS = ("LSTM, batch 1 to 4", "LSTM, larger batches", "GRU and simple RNN")


def _kind(case: Case) -> str:
    if case.rnn_mode != "lstm":
        return KINDS[2]
    return KINDS[0] if case.batch <= 4 else KINDS[1]


class Mean(NamedTuple):
    """The geometric means of rows of one kind, by side."""

    kind: str
    count: int
    by_side: dict[str, float]


class Table:
    """The medians of a group, all of one commit."""

    def __init__(self, file: File, group: str, figures: list[Figure]):
        self.group = group
        self.version = figures[0].version
        of_base = {(f.case, f.pass_): f for f in figures if f.side == f.base and f.unit != TIMES}
        preamble = file.preamble | {"tf_cudnn_rnn": f"commit {self.version}"}
        self.results = bars.Results(
            preamble, [_record(file, f, of_base[f.case, f.pass_]) for f in figures]
        )

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

    def means(self, pass_: str) -> list[Mean]:
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
                ratios = [bars.ratio(sides[base], [sides.get(side)]) for sides in of_kind]
                mean = bars.geometric_mean([ratio for ratio in ratios if ratio is not None])
                if mean is not None:
                    by_side[side] = mean
            found.append(Mean(kind, len(of_kind), by_side))
        return found


def _record(file: File, figure: Figure, base: Figure) -> Record:
    """What the tables and charts of a run are made of; a ratio becomes what it is of the base."""
    is_ratio = figure.unit == TIMES
    return Record(
        experiment=figure.group,
        case=figure.case,
        pass_=figure.pass_,
        side=figure.side,
        base=figure.base,
        dtype=figure.dtype,
        threads=int(file.preamble["threads"]),
        isa="",
        unit=base.unit if is_ratio else figure.unit,
        median=figure.value * (base.value if is_ratio else 1),
        network=records.network_of(case_of(figure.case)),
    )


def of_group(file: File, group: str) -> Table | None:
    """The table of a group, None if the file has no medians of it."""
    found = [f for f in file.figures if f.group == group and f.statistic == MEDIAN]
    return Table(file, group, found) if found else None


def of_file(file: File) -> list[Table]:
    """Those of all groups."""
    groups = dict.fromkeys(f.group for f in file.figures if f.statistic == MEDIAN)
    return [of_group(file, group) for group in groups]


def network_label(case: Case) -> str:
    """A network and a batch in words, such as "LSTM 512, batch 16, 25 steps"."""
    mode = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "tanh RNN", "rnn_relu": "ReLU RNN"}
    name = mode[case.rnn_mode]
    if case.num_dirs == 2:
        name = f"bidirectional {name}"
    if case.num_layers > 1:
        name = f"{case.num_layers} {name}s"
    projected = f" projected to {case.output_size}" if case.layout.has_projection else ""
    steps = f"{case.seq_length} step{'s' if case.seq_length > 1 else ''}"
    sizes = f"{case.num_units}{projected}, batch {case.batch}, {steps}"
    different = f", input {case.input_size}" if case.input_size != case.num_units else ""
    ragged = f", {case.fill:.0%} of it without padding" if case.is_ragged else ""
    one_sign = ", one sign" if case.one_sign else ""
    return f"{name} {sizes}{different}{ragged}{one_sign}"
