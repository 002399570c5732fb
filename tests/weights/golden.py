"""What other libraries wrote (tests/golden), and the judge's opinion of it."""

import pathlib

import numpy as np

from tests.reference import judge
from tf_cudnn_rnn import weights

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden"


def load(name: str) -> dict[str, np.ndarray]:
    """The arrays of an .npz file."""
    with np.load(FOLDER / name) as file:
        return dict(file)


def under(arrays: dict, prefix: str) -> dict[str, np.ndarray]:
    """Those whose names begin with `prefix`, without it."""
    return {
        key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)
    }


def config_of(canonical: weights.Canonical) -> judge.Config:
    layout = canonical.layout
    return judge.Config(
        layout.rnn_mode,
        layout.num_layers,
        layout.num_units,
        layout.input_size,
        layout.direction,
        layout.input_mode,
        layout.num_proj,
    )


def run(canonical: weights.Canonical, x, h0=None, c0=None) -> judge.Forward:
    """Runs the judge on time-major x; initial states are zeros."""
    config = config_of(canonical)
    B = x.shape[1]
    states = config.L * config.D
    h0 = np.zeros([states, B, config.P]) if h0 is None else h0
    if config.rnn_mode == "lstm":
        c0 = np.zeros([states, B, config.H]) if c0 is None else c0
    return judge.forward(config, x, h0, c0, canonical.params)


def check_outputs(canonical: weights.Canonical, x, expected: dict, h0=None, c0=None) -> None:
    """Compares the judge's results with those of the library that wrote the weights."""
    result = run(canonical, x, h0, c0)
    assert "y" in expected
    for name, theirs in expected.items():
        if theirs.size == 0:
            continue
        ours = getattr(result, name)
        assert ours.std() > 0.04  # or the comparison would say little
        # Both are in float32 there: sums of at most 15 products, five steps, two layers.
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6, err_msg=name)


def assert_bits(ours, theirs, label: str = "") -> None:
    """Equal to the bit, in shape and type too."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.dtype == theirs.dtype, label
    assert ours.shape == theirs.shape, label
    assert ours.tobytes() == theirs.tobytes(), label


def assert_same(ours, theirs, label: str = "") -> None:
    """`assert_bits` for dicts and (nested) lists of arrays."""
    if isinstance(theirs, dict):
        assert sorted(ours) == sorted(theirs), label
        for key in theirs:
            assert_same(ours[key], theirs[key], f"{label} {key}")
    elif isinstance(theirs, list | tuple) and not isinstance(theirs, str):
        assert len(ours) == len(theirs), label
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{label}[{i}]")
    elif isinstance(theirs, np.ndarray):
        assert_bits(ours, theirs, label)
    else:
        assert ours == theirs, label
