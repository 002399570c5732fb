"""Weights in int8, for the judge: how they are made of params, and what they mean.

Stated here a second time, as the judge states the layout of params. The letters are those of
judge.py, and N, M and K: the elements of all matrices, the rows of all matrices, the biases.
"""

from typing import NamedTuple

import numpy as np

from tests.reference import judge


class Int8(NamedTuple):
    """What CudnnRNNInt8 takes in the place of params."""

    weights: np.ndarray  # int8 [N]
    scales: np.ndarray  # float32 [M]
    biases: np.ndarray  # float32 [K]


def _matrices(w: judge.PseudoLayer) -> list[np.ndarray]:
    """Those of a pseudo-layer, [rows, columns] each, in the order of params."""
    gates = [*w.W, *w.R]
    if w.projection is not None:
        gates.append(w.projection)
    return [matrix for matrix in gates if matrix.size > 0]  # with skip input W has no columns


def quantize(config: judge.Config, params: np.ndarray) -> Int8:
    """Rounds each row to 127 steps of its largest magnitude, on either side of zero."""
    weights, scales, biases = [], [], []
    for w in judge.split_params(config, np.asarray(params, np.float32)):
        for matrix in _matrices(w):
            for row in matrix:
                scale = np.float32(np.abs(row).max()) / np.float32(127)
                steps = row / scale if scale > 0 else np.zeros_like(row)
                weights.append(np.clip(np.rint(steps), -127, 127))
                scales.append(scale)
        biases += [*w.bW, *w.bR]
    return Int8(
        np.concatenate(weights).astype(np.int8),
        np.array(scales, np.float32),
        np.concatenate(biases).astype(np.float32),
    )


def params_of(config: judge.Config, int8: Int8) -> np.ndarray:
    """The params that these weights mean, in double."""
    params = np.zeros(judge.params_size(config))
    weight = scale = bias = 0
    for w in judge.split_params(config, params):
        for matrix in _matrices(w):
            for row in matrix:
                integers = int8.weights[weight : weight + row.size].astype(np.float64)
                row[:] = integers * float(int8.scales[scale])
                weight, scale = weight + row.size, scale + 1
        for vector in (*w.bW, *w.bR):
            vector[:] = int8.biases[bias : bias + vector.size]
            bias += vector.size
    assert (weight, scale, bias) == tuple(map(len, int8)), "the layout does not cover the weights"
    return params
