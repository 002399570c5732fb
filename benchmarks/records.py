"""The CSV file of a run: `# key: value` lines, then a line for each figure; FINISHED at the end."""

import csv
import dataclasses
import pathlib
import statistics
from collections.abc import Callable, Sequence

from benchmarks import cases
from benchmarks.cases import Case

MILLISECONDS = "ms"
MEBIBYTES = "MiB"
GIGAFLOPS = "GFLOP/s"
GIGABYTES = "GB/s"

PEAK = "peak"  # the group of the machine's own figures


# The key of the line that ends the file of a run that was not cut short.
FINISHED = "finished"

# What an error begins with if the side lacks something that the case needs.
UNSUPPORTED = "not supported: "


@dataclasses.dataclass(frozen=True)
class Record:
    """One figure: what one side needed for one case.

    Attributes:
      experiment: the group that was run.
      case: its name; of a peak, "multiply_add", or the level of memory.
      pass_: cases.INFERENCE, cases.TRAINING, or of the engine "forward" or "backward"; "" of a
        peak.
      side: the column.
      base: the side that the others are divided by; "" if none.
      dtype, threads, isa: of the side; `isa` is "" unless it is limited or known.
      unit: of the four figures that follow.
      median, minimum, lower, upper: over rounds; the last two are quartiles. None if the side
        has no figure.
      rounds, steps: how many rounds, and how many repetitions in all of them.
      error: why there is no figure; "" if there is one.
      flops: of the pass; 0 of a peak.
      network: the columns of cases.csv, but for the name and the sets, and `fill`.
    """

    experiment: str
    case: str
    pass_: str
    side: str
    base: str
    dtype: str
    threads: int
    isa: str
    unit: str
    median: float | None
    minimum: float | None = None
    lower: float | None = None
    upper: float | None = None
    rounds: int = 0
    steps: int = 0
    error: str = ""
    flops: int = 0
    network: dict = dataclasses.field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether the side ought to have a figure, and has none."""
        return bool(self.error) and not self.error.startswith(UNSUPPORTED)

    @property
    def gigaflops(self) -> float | None:
        """The rate that a time is, in GFLOP/s."""
        if self.median is None or self.unit != MILLISECONDS:
            return None
        return self.flops / self.median * 1e-6

    def to_case(self) -> Case:
        """The case that this is a figure of."""
        return Case(name=self.case, sets=(), **self.network)


_NETWORK_NAMES = {*cases.COLUMNS, "fill"} - {"name", "sets"}
_NETWORK = [f for f in dataclasses.fields(Case) if f.name in _NETWORK_NAMES]
_FIELDS = [f for f in dataclasses.fields(Record) if f.name != "network"]
COLUMNS = [f.name.rstrip("_") for f in _FIELDS] + [f.name for f in _NETWORK] + ["gflops_per_s"]


def network_of(case: Case) -> dict:
    """The columns that describe a case."""
    return {field.name: getattr(case, field.name) for field in _NETWORK}


# Per cent of the steps that a tail covers.
TAIL_PERCENT = 99.9


def tail_of(side: str) -> str:
    """The column that says what TAIL_PERCENT of a side's steps take at most."""
    return f"{side}, {TAIL_PERCENT} %"


def is_tail(side: str) -> bool:
    """Whether a column is one of `tail_of`."""
    return side.endswith(tail_of(""))


def without_tail(side: str) -> str:
    """The side that a column of `tail_of` is about."""
    return side.removesuffix(tail_of(""))


def figures(values: list[float]) -> dict[str, float]:
    """The median and its spread, of one value a round."""
    lower, median, upper = (
        statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    )
    return {"median": median, "minimum": min(values), "lower": lower, "upper": upper}


def medians_of(runs: Sequence[list[Record]], is_own: Callable[[Record], bool]) -> list[Record]:
    """One record of each that the runs have in the same places; none of what has no figure.

    If a side of this library, as `is_own` tells, failed in one of them, it has failed.
    """
    medians = []
    for same in zip(*runs, strict=True):
        figured = [record for record in same if record.median is not None]
        crashed = next((record for record in same if record.failed and is_own(record)), None)
        if crashed is not None:
            medians.append(crashed)
        elif figured:
            medians.append(
                dataclasses.replace(
                    figured[0],
                    **figures([record.median for record in figured]),
                    rounds=sum(record.rounds for record in figured),
                    steps=sum(record.steps for record in figured),
                )
            )
    return medians


def to_row(record: Record) -> dict[str, str]:
    """The cells of a record by column; a missing figure is an empty cell."""
    values = {f.name.rstrip("_"): getattr(record, f.name) for f in _FIELDS}
    values |= record.network
    values["gflops_per_s"] = record.gigaflops
    return {name: _text(values.get(name)) for name in COLUMNS}


def _text(value) -> str:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _from_row(row: dict[str, str]) -> Record:
    def value(kind, text):
        return None if text == "" and kind is not str else kind(text)

    kinds = {"int": int, "float": float, "str": str, "float | None": float}

    def read(field):
        name = field.name.rstrip("_")
        return value(kinds[getattr(field.type, "__name__", str(field.type))], row[name])

    values = {f.name: read(f) for f in _FIELDS}
    network = {f.name: read(f) for f in _NETWORK} if row[_NETWORK[0].name] else {}
    return Record(**values, network=network)


def counted(all_records: list[Record]) -> list[Record]:
    """Without those of rows that were measured again later: the last measurement counts."""

    def key(record: Record) -> tuple:
        of = record.experiment, record.case, record.pass_, record.side
        return (*of, record.threads, record.isa)

    last = {key(record): record for record in all_records}
    return list(last.values())


class Writer:
    """Writes records as they come."""

    def __init__(self, path: pathlib.Path, preamble: dict[str, str]):
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("w", newline="")
        for key, value in preamble.items():
            self._file.write(f"# {key}: {' '.join(str(value).split())}\n")
        self._writer = csv.DictWriter(self._file, COLUMNS)
        self._writer.writeheader()
        self._file.flush()

    def write(self, record: Record) -> None:
        self._writer.writerow(to_row(record))
        self._file.flush()

    def finish(self) -> None:
        """Ends the file of a run that has measured all that it was asked for."""
        self._file.write(f"# {FINISHED}: yes\n")
        self.close()

    def close(self) -> None:
        """Closes the file, of a run that was cut short if `finish` was not called."""
        self._file.close()


def read(path: pathlib.Path) -> tuple[dict[str, str], list[Record]]:
    """Returns the preamble of a file, and the records that count (`counted`).

    Raises:
      ValueError: the file has other columns.
    """
    with path.open(newline="") as file:
        lines = file.readlines()
    preamble = [line[2:].rstrip("\r\n") for line in lines if line.startswith("# ")]
    reader = csv.DictReader(line for line in lines if not line.startswith("# "))
    if reader.fieldnames != COLUMNS:
        raise ValueError(f"{path} must have the columns {COLUMNS}; got {reader.fieldnames}.")
    found = counted([_from_row(row) for row in reader])
    return dict(line.split(": ", 1) for line in preamble if ": " in line), found


def of_case(
    experiment: str, case: Case, pass_: str, side, base: str, threads: int, unit: str, **rest
) -> Record:
    """Makes the record of a side (processes.Side)."""
    isa = dict(side.environment).get("TF_CUDNN_RNN_ISA", "")
    return Record(
        experiment=experiment,
        case=case.name,
        pass_=pass_,
        side=side.name,
        base=base,
        dtype=side.dtype,
        threads=side.threads or threads,
        isa=isa,
        unit=unit,
        flops=case.flops(pass_) if pass_ in cases.PASSES else 0,
        network=network_of(case),
        **{"median": None, **rest},
    )
