"""Weights of 8 bits: matrices of int8, with a scale for each row. docs/runtime.md is their page."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import vectors
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._layout import Layout, Region
from tf_cudnn_rnn._types import Array

MOST = 127  # that `quantize` gives; not -128, so that a weight and its negative are as exact
MAX_DEPTH = 131072  # kMaxDepth of network/int8_weights.h: the elements of a row
DTYPES = {"weights": "int8", "scales": "float32", "biases": "float32"}
_NOTE = "The matrices are of int8: what was rounded off when they were made so is lost."


class Sizes(NamedTuple):
    """How many elements each vector of Int8Weights has."""

    weights: int
    scales: int
    biases: int


def sizes(layout: Layout) -> Sizes:
    """Those of a network; at once, for any number of layers."""
    D, G, H = layout.num_directions, layout.num_gates, layout.num_units
    rows = layout.num_layers * (2 * G * H + (layout.num_proj if layout.has_projection else 0))
    without_kernel = G * H if layout.skips_input else 0
    biases = 2 * G * H * layout.num_layers * D
    return Sizes(layout.size - biases, D * (rows - without_kernel), biases)


def _check_depth(layout: Layout) -> None:
    """Raises ValueError if rows are so long that nothing here computes with int8 weights."""
    above = layout.num_directions * layout.output_features if layout.num_layers > 1 else 0
    depth = max(layout.input_size, above, layout.num_units)
    if depth > MAX_DEPTH:
        raise ValueError(
            f"`weights` must have rows of at most {MAX_DEPTH} elements to be quantized; got "
            f"{depth} (the larger of num_units and of what enters a layer) of {layout}. Use them "
            "in float32."
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Int8Weights:
    """A network whose matrices are of int8: what `quantize` returns, and `runtime.Network` takes.

    A weight is its int8 times the scale of its row. A row is what one unit of one gate multiplies
    by, or, of a projection, what makes one feature of h. Biases stay as they are.

    Attributes:
      layout: the network; its fields go by the ops' names.
      weights: int8 [N - K]: the matrices, in the order of `params` [N], in which they precede all
        biases. `quantize` gives -127 to 127.
      scales: float32 [M], one for each row of each matrix, in the order of `weights`. Each is
        finite, and not negative.
      biases: float32 [K], in the order of `params`; K is 2 * G * H * L * D for G gates.

    Raises:
      TypeError: `layout` is no Layout.
      ValueError: an array has another type or shape, or a value is out of range.
    """

    layout: Layout
    weights: Array
    scales: Array
    biases: Array

    def __repr__(self) -> str:
        return f"<Int8Weights {self.layout}>"

    def __post_init__(self) -> None:
        vectors.check_layout(self.layout)
        expected = sizes(self.layout)._asdict()
        for name, dtype in DTYPES.items():
            array = np.asarray(getattr(self, name))
            if array.dtype.name != dtype or array.shape != (expected[name],):
                raise ValueError(
                    f"`{name}` must be of {dtype} and have shape [{expected[name]}] for "
                    f"{self.layout}; got {array.dtype} {list(array.shape)}."
                )
            array = np.require(array, dtype, ["C_CONTIGUOUS", "ALIGNED"])
            object.__setattr__(self, name, array)
        is_scale = np.isfinite(self.scales) & (self.scales >= 0)
        _check("`scales` must be finite, and not negative", self.scales, is_scale)

    @property
    def nbytes(self) -> int:
        """The bytes of the three arrays."""
        return self.weights.nbytes + self.scales.nbytes + self.biases.nbytes

    def dequantized(self) -> Canonical:
        """The same network in float32, which has four times the bytes; a note says what is lost."""
        named = []
        row = 0
        for region in self.layout.weights:
            matrix = self.weights[region.offset :][: region.size].reshape(region.shape)
            named.append((region.name, matrix * self.scales[row : row + region.shape[0], None]))
            row += region.shape[0] if region.size else 0  # a kernel that is skipped has no scales
        for region in self.layout.biases:
            bias = self.biases[region.offset - self.weights.size :][: region.size]
            named.append((region.name, bias.copy()))
        return Canonical(self.layout, named, notes=(_NOTE,))


def _check(rule: str, values: Array, is_right: Array) -> None:
    """Raises ValueError with the first value for which `is_right` is not."""
    if not is_right.all():
        place = int(np.argmin(is_right))
        raise ValueError(f"{rule}; the one at {place} is {values[place]!s}.")


def quantize(weights: Canonical | ArrayLike, layout: Layout | None = None) -> Int8Weights:
    """Rounds the matrices of a network to int8, for inference by `tf_cudnn_rnn.runtime`.

    The scale of a row is its largest magnitude / 127, in float32, and an int8 is the weight /
    scale, rounded to the nearest integer, halves to the even one. So a weight is off by half a
    scale at most. Rows of zeros have scale 0. Weights of other types become float32 first.

    >>> runtime.Network(weights.quantize(weights.load("model.keras"))).save("int8.safetensors")

    Args:
      weights: what `load` or a `from_*` returned, or the ops' vector `params` [N].
      layout: of the vector.

    Returns:
      A quarter of the bytes, about.

    Raises:
      TypeError: `layout` is missing, given for a Canonical, or no Layout.
      ValueError: the vector is not one of such a network, these are gradients, or a weight is not
        finite in float32; of biases, those that float32 makes infinite. The text names the matrix.
        Or `num_units`, or what enters a layer, is above 131,072, the longest row of int8 weights.
    """
    if isinstance(weights, Int8Weights):
        raise TypeError(
            "`weights` must not be quantized yet; got Int8Weights. Use them as they are."
        )
    params, layout = vectors.with_layout(weights, layout)
    vectors.check_vector(params, "weights", "cuDNN's weight space", layout)
    _check_depth(layout)
    number = sizes(layout)
    values, scales = np.empty(number.weights, np.int8), np.empty(number.scales, np.float32)
    biases = np.empty(number.biases, np.float32)
    row = 0
    # A weight below what float32 holds is zero, and a scale may be.
    with np.errstate(over="ignore", under="ignore"):
        for region in layout.weights:
            if not region.size:  # where the input product is skipped
                continue
            matrix = _float32(params, region)
            scale = np.abs(matrix).max(axis=1) / np.float32(MOST)
            rounded = np.rint(matrix / np.where(scale > 0, scale, np.float32(1))[:, None])
            values[region.offset :][: region.size] = rounded.clip(-MOST, MOST).ravel()
            scales[row : row + scale.size] = scale
            row += scale.size
        for region in layout.biases:
            biases[region.offset - number.weights :][: region.size] = _float32(params, region)
    return Int8Weights(layout, values, scales, biases)


def _float32(params: Array, region: Region) -> Array:
    """A part of `params` in float32, which no value may leave."""
    given: Any = params[region.offset :][: region.size].reshape(region.shape)
    converted = given.astype(np.float32)
    is_right = np.isfinite(converted)
    if len(region.shape) == 1:  # a bias is not rounded any further, whatever it is
        is_right |= ~np.isfinite(given)
    if not is_right.all():
        place = np.unravel_index(np.argmin(is_right), region.shape)
        raise ValueError(
            f"`weights` must be finite in float32 to be quantized; {region.name} has "
            f"{given[place]!s} at {[int(index) for index in place]}."
        )
    return converted
