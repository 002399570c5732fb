"""What is measured: the cases of cases.csv, random ones, and the arithmetic that a case costs.

The letters are those of `tf_cudnn_rnn.raw_ops`: T steps, B batch, I input features, H units,
P features of h, L layers, D directions, G gates. cases.csv is also read by the C++ benchmark.
Needs no TensorFlow, so that every peer's process can import it.
"""

import csv
import dataclasses
import functools
import pathlib
import zlib
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tf_cudnn_rnn import weights

PATH = pathlib.Path(__file__).with_name("cases.csv")

INFERENCE = "inference"
TRAINING = "training"
PASSES = (INFERENCE, TRAINING)

# Of a ragged batch, sum of lengths / (B T).
RAGGED_FILL = 0.6

_RNN_MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
_RANDOM = "random_"  # with a number, the name of a case that no list has


@dataclasses.dataclass(frozen=True)
class Case:
    """One network and one batch; the fields but the last two are the columns of cases.csv.

    Attributes:
      name: as in CASES=name.
      sets: the groups that the case belongs to.
      rnn_mode, num_layers, num_dirs, num_units, input_size: as of the ops; D is 1 or 2.
      num_proj: P if the LSTM projects, else 0.
      seq_length: T.
      batch: B.
      dropout: between layers, in training.
      fill: sum of lengths / (B T); 1 for a batch without padding.
      one_sign: whether x is nowhere negative, and dy 1 everywhere but at padding: sums over rows
        have terms of one sign, as those of a mean loss may.
    """

    name: str
    sets: tuple[str, ...]
    rnn_mode: str
    num_layers: int
    num_dirs: int
    num_units: int
    num_proj: int
    input_size: int
    seq_length: int
    batch: int
    dropout: float
    fill: float = 1.0
    one_sign: bool = dataclasses.field(default=False, repr=False)  # draws the same values

    def __post_init__(self) -> None:
        _ = self.layout  # whose errors name the network's options
        for field in ("seq_length", "batch"):
            if getattr(self, field) < 1:
                raise ValueError(f"`{field}` must be positive; got {getattr(self, field)}.")
        if not 0 <= self.dropout <= 1:
            raise ValueError(f"`dropout` must be in [0, 1]; got {self.dropout}.")
        if not 0 < self.fill <= 1:
            raise ValueError(f"`fill` must be in (0, 1]; got {self.fill}.")

    @property
    def direction(self) -> str:
        if self.num_dirs not in (1, 2):
            raise ValueError(f"`num_dirs` must be 1 or 2; got {self.num_dirs}.")
        return ("unidirectional", "bidirectional")[self.num_dirs - 1]

    @functools.cached_property
    def layout(self) -> weights.Layout:
        """Where the weights lie in `params`."""
        return self.layout_of("linear_input")

    def layout_of(self, input_mode: str) -> weights.Layout:
        """The same of an op with this `input_mode`."""
        return weights.Layout(
            self.rnn_mode,
            self.num_layers,
            self.num_units,
            self.input_size,
            self.direction,
            input_mode=input_mode,
            num_proj=self.num_proj,
        )

    @property
    def output_size(self) -> int:
        """P, the features of h in one direction."""
        return self.num_proj if self.layout.has_projection else self.num_units

    @property
    def is_ragged(self) -> bool:
        return self.fill < 1

    @functools.cached_property
    def lengths(self) -> np.ndarray:
        """int32 [B], unsorted; evenly spread, with the mean `fill` * T but for rounding."""
        low, high = (2 * self.fill - 1, 1) if self.fill >= 0.5 else (0, 2 * self.fill)
        if self.batch == 1:
            low = high = self.fill
        spread = np.linspace(low, high, self.batch) * self.seq_length
        lengths = np.clip(np.rint(spread), 1, self.seq_length).astype(np.int32)
        np.random.default_rng([self.seq_length, self.batch]).shuffle(lengths)
        lengths.flags.writeable = False  # all who ask get this one
        return lengths

    @functools.cached_property
    def matrix_elements(self) -> int:
        """Elements of all matrices: what one step reads."""
        return sum(region.size for region in self.layout.weights)

    @functools.cached_property
    def recurrent_elements(self) -> int:
        """Elements of the matrices that must be read in every step, one after the other."""
        return sum(r.size for r in self.layout.weights if r.name.kind != "input_kernel")

    @property
    def recurrent_elements_together(self) -> int:
        """Those that a step of one layer and direction reads, and the next step reads again."""
        return self.recurrent_elements // (self.num_layers * self.num_dirs)

    def flops(self, pass_: str) -> int:
        """Floating-point operations of the matrix products; two for a multiply-add.

        Only valid steps count. Training is forward and backward, three times forward: backward
        has two products, for the gradients of the data and of the weights, for each of forward.
        """
        forward = 2 * int(self.lengths.sum()) * self.matrix_elements
        return {INFERENCE: 1, TRAINING: 3}[pass_] * forward

    def ragged(self, fill: float = RAGGED_FILL) -> "Case":
        """The same with padding."""
        return dataclasses.replace(self, name=f"{self.name}_ragged", fill=fill)

    def small(self) -> "Case":
        """The same in a few milliseconds: few steps and units, odd sizes odd, ratios alike."""
        largest = max(self.num_units, self.input_size)
        scale = -(-largest // 96)

        def reduced(size: int) -> int:
            if size == 0 or scale == 1:
                return size
            smaller = max(1, size // scale)
            return smaller + (smaller - size) % 2

        return dataclasses.replace(
            self,
            num_units=reduced(self.num_units),
            num_proj=reduced(self.num_proj),
            input_size=reduced(self.input_size),
            seq_length=min(self.seq_length, 5),
        )


# Of cases.csv.
COLUMNS = [f.name for f in dataclasses.fields(Case) if f.name not in ("fill", "one_sign")]


class Arrays(NamedTuple):
    """The values of a case, the same in every process; float32, time-major."""

    x: np.ndarray  # [T, B, I]
    h0: np.ndarray  # [L*D, B, P]
    c0: np.ndarray  # [L*D, B, H]
    params: np.ndarray  # [N]
    lengths: np.ndarray  # [B], int32
    dy: np.ndarray  # [T, B, D*P], the gradient of the loss; 0 at padding


def arrays_of(case: Case) -> Arrays:
    """Draws the values of a case; they depend on its sizes alone."""
    sizes = dataclasses.replace(case, name="", sets=(), dropout=0.0)
    rng = np.random.default_rng(zlib.crc32(repr(sizes).encode()))
    T, B, H, P = case.seq_length, case.batch, case.num_units, case.output_size
    k, D = case.num_layers * case.num_dirs, case.num_dirs
    lengths = case.lengths
    dy = rng.standard_normal((T, B, D * P), np.float32)
    if case.one_sign:
        dy[:] = 1
    dy[np.arange(T)[:, None] >= lengths] = 0
    params = rng.random(case.layout.size, np.float32) * 2 - 1
    params *= np.float32(H**-0.5)  # as PyTorch initialises
    # Multiples of 2^-16: libraries that keep one bias for two add them up without an error.
    biases = params[case.matrix_elements :]
    biases[:] = np.rint(biases * 2**16) / 2**16
    x = rng.standard_normal((T, B, case.input_size), np.float32)
    return Arrays(
        x=np.abs(x) if case.one_sign else x,
        h0=rng.uniform(-0.5, 0.5, (k, B, P)).astype(np.float32),
        c0=rng.uniform(-0.5, 0.5, (k, B, H)).astype(np.float32),
        params=params,
        lengths=lengths,
        dy=dy,
    )


def canonical_of(
    case: Case, params: np.ndarray, input_mode: str = "linear_input"
) -> weights.Canonical:
    """The weights of a case in the form that `tf_cudnn_rnn.weights` converts."""
    return weights.from_cudnn(
        params,
        case.rnn_mode,
        case.num_layers,
        case.num_units,
        case.input_size,
        direction=case.direction,
        input_mode=input_mode,
        num_proj=case.num_proj,
    )


def weight_gradients(gradients: weights.Canonical) -> dict[str, np.ndarray]:
    """Those of the input kernels "dW", of recurrent kernels and projections "dR", of biases "db".

    Each is one vector of all layers, directions and gates.
    """
    kinds = {"dW": ("input_kernel",), "dR": ("recurrent_kernel", "projection")}
    kinds["db"] = ("input_bias", "recurrent_bias")
    return {
        name: np.concatenate([a.ravel() for n, a in gradients.named.items() if n.kind in of])
        for name, of in kinds.items()
    }


def read_cases(path: pathlib.Path = PATH) -> dict[str, Case]:
    """Returns the cases of a file by name.

    Raises:
      ValueError: the columns are others, a value is out of range, or a name comes twice.
    """
    found = {}
    with path.open(newline="") as file:
        reader = csv.DictReader(file)
        if reader.fieldnames != COLUMNS:
            raise ValueError(f"{path} must have the columns {COLUMNS}; got {reader.fieldnames}.")
        for line, row in enumerate(reader, start=2):
            if None in row or None in row.values():
                raise ValueError(f"{path}:{line} must have {len(COLUMNS)} values.")
            integers = {key: int(value) for key, value in row.items() if key.startswith("num_")}
            try:
                case = Case(
                    name=row["name"],
                    sets=tuple(row["sets"].split()),
                    rnn_mode=row["rnn_mode"],
                    input_size=int(row["input_size"]),
                    seq_length=int(row["seq_length"]),
                    batch=int(row["batch"]),
                    dropout=float(row["dropout"]),
                    **integers,
                )
            except ValueError as error:
                raise ValueError(f"{path}:{line}: {error}") from None
            if case.name in found:
                raise ValueError(f"{path}:{line}: the name {case.name} comes twice.")
            found[case.name] = case
    return found


def write_cases(path: pathlib.Path, cases: Iterable[Case]) -> None:
    """Writes a file that `read_cases` reads; it has no column for padding."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for case in cases:
            texts = {"sets": " ".join(case.sets), "dropout": f"{case.dropout:g}"}
            writer.writerow(dataclasses.asdict(case) | texts)


def in_set(name: str, cases: dict[str, Case] | None = None) -> list[Case]:
    """Returns the cases of a set, in the order of the file.

    Raises:
      ValueError: there is no such set.
    """
    cases = read_cases() if cases is None else cases
    found = [case for case in cases.values() if name in case.sets]
    if not found:
        sets = sorted({each for case in cases.values() for each in case.sets})
        raise ValueError(f"There is no set {name!r} of cases; there are {', '.join(sets)}.")
    return found


def is_random(name: str) -> bool:
    """Whether a case is one of `random_cases`."""
    return name.startswith(_RANDOM)


def random_cases(count: int, seed: int = 0) -> list[Case]:
    """Draws cases of all kinds, to find those that no list has.

    Odd units, inputs much wider or narrower than the units, batches between the sizes of tiles,
    one step, deep stacks, both directions, projections, padding. None takes more than
    40 GFLOP forward, nor more than 60 MB for its weights.

    Args:
      count: of cases.
      seed: other ones give other cases, with other names.
    """
    prefix = f"{_RANDOM}{seed}_" if seed else _RANDOM
    rng = np.random.default_rng(seed)

    def log_uniform(low: int, high: int) -> int:
        return int(np.rint(np.exp(rng.uniform(np.log(low), np.log(high)))))

    found: list[Case] = []
    while len(found) < count:
        H = log_uniform(8, 1536)
        if rng.random() < 0.5:
            H |= 1
        I = [H, log_uniform(1, 2048), max(1, H // 16), 8 * H][rng.integers(4)]
        rnn_mode = _RNN_MODES[rng.choice(4, p=(0.4, 0.3, 0.15, 0.15))]
        projects = rnn_mode == "lstm" and H > 1 and rng.random() < 0.2
        L = int(rng.choice((1, 2, 3, 6), p=(0.6, 0.2, 0.1, 0.1)))
        case = Case(
            name=f"{prefix}{len(found)}",
            sets=(),
            rnn_mode=rnn_mode,
            num_layers=L,
            num_dirs=1 + int(rng.random() < 0.3),
            num_units=H,
            num_proj=int(rng.integers(1, H)) if projects else 0,
            input_size=I,
            seq_length=1 if rng.random() < 0.15 else log_uniform(2, 150),
            batch=1 if rng.random() < 0.2 else log_uniform(2, 96),
            dropout=0.2 if L > 1 and rng.random() < 0.3 else 0.0,
            fill=RAGGED_FILL if rng.random() < 0.3 else 1.0,
        )
        if case.flops(INFERENCE) <= 40e9 and case.matrix_elements <= 15e6:
            found.append(case)
    return found


def accuracy_cases() -> list[Case]:
    """Those whose results are compared with exact ones: all modes, few rows (T * B) and many."""
    sizes = [  # rnn_mode, L, D, H, P, I, T, B
        ("lstm", 1, 1, 64, 0, 64, 25, 1),
        ("lstm", 1, 1, 256, 0, 256, 25, 16),
        ("lstm", 1, 1, 128, 0, 128, 32, 16),
        ("lstm", 1, 1, 512, 0, 512, 25, 64),
        ("lstm", 1, 1, 128, 0, 128, 400, 32),
        ("lstm", 1, 1, 256, 128, 256, 50, 16),
        ("lstm", 2, 2, 64, 0, 40, 100, 8),
        ("gru", 1, 1, 128, 0, 128, 32, 16),
        ("gru", 1, 1, 512, 0, 512, 25, 64),
        ("gru", 1, 1, 128, 0, 128, 400, 32),
        ("gru", 1, 1, 64, 0, 64, 1000, 64),
        ("rnn_tanh", 1, 1, 128, 0, 128, 32, 16),
        ("rnn_tanh", 1, 1, 128, 0, 128, 400, 32),
        ("rnn_relu", 1, 1, 128, 0, 128, 32, 16),
    ]
    found = []
    for rnn_mode, L, D, H, P, I, T, B in sizes:
        name = f"{rnn_mode}_{H}" + (f"_{P}" if P else "") + (f"x{L}" if L > 1 else "")
        found.append(Case(f"{name}_t{T}_b{B}", (), rnn_mode, L, D, H, P, I, T, B, 0.0))
    found = [case if case.num_layers == 1 else case.ragged() for case in found]
    one_sign = [
        dataclasses.replace(case, name=f"{case.name}_one_sign", one_sign=True)
        for case in found
        if case.num_layers == 1 and case.num_units <= 128
    ]
    return found + one_sign


def to_json(case: Case) -> dict:
    """The case as what JSON can hold."""
    return dataclasses.asdict(case)


def from_json(fields: dict) -> Case:
    """The inverse of `to_json`."""
    return Case(**{**fields, "sets": tuple(fields["sets"])})
