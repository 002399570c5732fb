"""Files of networks whose bytes are changed at random."""

import pathlib

import numpy as np

import tf_cudnn_rnn.runtime as runtime


def outcomes_of(path: pathlib.Path, content: bytes, end: int) -> set[str]:
    """How 500 files with up to three other bytes before `end` load: "loaded" or "refused"."""
    rng = np.random.default_rng(8)
    outcomes = set()
    for _ in range(500):
        spoilt = bytearray(content)
        for place in rng.integers(0, end, rng.integers(1, 4)):
            spoilt[place] = rng.integers(0, 256)
        path.write_bytes(spoilt)
        try:
            runtime.Network.load(path)
            outcomes.add("loaded")
        except ValueError as error:
            assert path.name in str(error)
            outcomes.add("refused")
    return outcomes
