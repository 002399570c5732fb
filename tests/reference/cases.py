"""Random inputs for the judge and for the kernels that are compared with it.

The letters are those of judge.py.
"""

import dataclasses

import numpy as np

from tests.reference import judge


@dataclasses.dataclass(frozen=True)
class Case:
    """Everything that one forward and one backward call read.

    The tensors have the layout that `config.time_major` asks for.
    """

    config: judge.Config
    x: np.ndarray
    h0: np.ndarray
    c0: np.ndarray  # rank 0 for modes other than lstm
    params: np.ndarray
    sequence_lengths: np.ndarray  # [B], int32
    dy: np.ndarray
    dh_n: np.ndarray
    dc_n: np.ndarray  # rank 0 for modes other than lstm

    TENSORS = ("x", "h0", "c0", "params", "dy", "dh_n", "dc_n")

    @property
    def T(self) -> int:
        return self.x.shape[0 if self.config.time_major else 1]

    @property
    def B(self) -> int:
        return self.x.shape[1 if self.config.time_major else 0]

    def __str__(self) -> str:
        lengths = self.sequence_lengths.tolist()
        return f"{self.config}, T={self.T}, B={self.B}, lengths={lengths}"

    def astype(self, dtype) -> "Case":
        """The case with every tensor rounded to `dtype`."""
        return dataclasses.replace(
            self, **{name: getattr(self, name).astype(dtype) for name in self.TENSORS}
        )

    def forward(self, key: int | None = None) -> judge.Forward:
        """The judge's forward results."""
        return judge.forward(
            self.config,
            self.x,
            self.h0,
            self.c0,
            self.params,
            self.sequence_lengths,
            key,
        )

    def forward_backward(self, key: int | None = None) -> tuple[judge.Forward, judge.Gradients]:
        """The judge's forward results and gradients."""
        forward = self.forward(key)
        gradients = judge.backward(self.config, forward.tape, self.dy, self.dh_n, self.dc_n)
        return forward, gradients

    def with_layout(self, time_major: bool) -> "Case":
        """The same case in the given layout."""
        if time_major == self.config.time_major:
            return self

        def swap(tensor):
            return np.ascontiguousarray(np.swapaxes(tensor, 0, 1))

        lstm = self.config.rnn_mode == "lstm"
        return dataclasses.replace(
            self,
            config=dataclasses.replace(self.config, time_major=time_major),
            x=swap(self.x),
            h0=swap(self.h0),
            c0=swap(self.c0) if lstm else self.c0,
            dy=swap(self.dy),
            dh_n=swap(self.dh_n),
            dc_n=swap(self.dc_n) if lstm else self.dc_n,
        )

    def padding(self) -> np.ndarray:
        """bool [T, B] (or [B, T] if batch-major): true at padding."""
        padding = np.arange(self.T)[:, None] >= self.sequence_lengths[None, :]
        return padding if self.config.time_major else padding.T

    def with_padding(self, value: float) -> "Case":
        """The same case with `value` at padding, in x and in dy."""
        x, dy = self.x.copy(), self.dy.copy()
        x[self.padding()] = value
        dy[self.padding()] = value
        return dataclasses.replace(self, x=x, dy=dy)


def ragged_lengths(
    rng: np.random.Generator, T: int, B: int, allow_zero: bool = False
) -> np.ndarray:
    """Unsorted random lengths [B], one of them T; with `allow_zero` also 0s."""
    lengths = rng.integers(0 if allow_zero else 1, T + 1, size=B, dtype=np.int32)
    if B > 0:
        lengths[rng.integers(B)] = T
    return lengths


def random_params(rng: np.random.Generator, config: judge.Config) -> np.ndarray:
    """Random params [N]; gates, units and both bias vectors all differ.

    The variance of a matrix is 1 / columns, so that values stay O(1) for any size.
    """
    params = np.empty(judge.params_size(config))
    for w in judge.split_params(config, params):
        for matrix in (w.W, w.R, w.projection):
            if matrix is not None and matrix.size > 0:
                matrix[:] = rng.normal(size=matrix.shape) / np.sqrt(matrix.shape[-1])
        w.bW[:] = rng.normal(size=w.bW.shape) * 0.3
        w.bR[:] = rng.normal(size=w.bR.shape) * 0.3
    return params


def random_case(
    rng: np.random.Generator,
    config: judge.Config,
    T: int,
    B: int,
    lengths=None,
) -> Case:
    """Random tensors for `config`, none of them zero or constant.

    Args:
      lengths: sequence_lengths [B]; None stands for T everywhere.
    """
    L, D, H, P = config.L, config.D, config.H, config.P
    lstm = config.rnn_mode == "lstm"
    case = Case(
        config=dataclasses.replace(config, time_major=True),
        x=rng.normal(size=[T, B, config.I]),
        h0=rng.normal(size=[L * D, B, P]) * 0.5,
        c0=rng.normal(size=[L * D, B, H]) * 0.5 if lstm else np.zeros([]),
        params=random_params(rng, config),
        sequence_lengths=np.full([B], T) if lengths is None else np.array(lengths),
        dy=rng.normal(size=[T, B, D * P]),
        dh_n=rng.normal(size=[L * D, B, P]),
        dc_n=rng.normal(size=[L * D, B, H]) if lstm else np.zeros([]),
    )
    case = dataclasses.replace(case, sequence_lengths=case.sequence_lengths.astype(np.int32))
    return case.with_layout(config.time_major)


def random_config(rng: np.random.Generator, max_size: int = 9, **fixed) -> judge.Config:
    """Draws every option at random; `fixed` fields are kept as given."""
    options = {
        "rnn_mode": str(rng.choice(judge.RNN_MODES)),
        "num_layers": int(rng.integers(1, 4)),
        "num_units": int(rng.integers(1, max_size + 1)),
        "input_size": int(rng.integers(1, max_size + 1)),
        "direction": str(rng.choice(judge.DIRECTIONS)),
        "input_mode": str(rng.choice(judge.INPUT_MODES)),
        "dropout": float(rng.choice([0.0, 0.25, 0.5])),
        "time_major": bool(rng.integers(2)),
    }
    options.update(fixed)
    if "num_proj" not in options:
        projects = options["rnn_mode"] == "lstm" and rng.integers(2) == 1
        options["num_proj"] = int(rng.integers(1, options["num_units"] + 1)) if projects else 0
    if options["input_mode"] == "skip_input" and "input_size" not in fixed:
        options["input_size"] = options["num_units"]
    return judge.Config(**options)
