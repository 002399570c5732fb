"""Formats that are cuDNN's vector, in other hands: cuDNN itself, MXNet, CNTK."""

from __future__ import annotations

import dataclasses
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats.canonical import Canonical, Exported
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Array, Direction, InputMode, Of, RnnMode


def read_vector(vector: Array, name: str, what: str, layout: Layout, of: Of) -> Canonical:
    """Takes apart a vector that is laid out as `params`.

    Args:
      vector: the weights [N].
      name: of the argument that it came in, for messages.
      what: what such a vector is called, for messages.
      layout: of the network.
      of: what the values are, as of `Canonical`.

    Raises:
      ValueError: it has another length.
    """
    check_vector(vector, name, what, layout)
    return Canonical(layout, base.split(vector, layout), of)


def check_vector(vector: Any, name: str, what: str, layout: Layout) -> None:
    """Raises ValueError unless a vector, or its header, fits `read_vector`."""
    base.check_dtypes({name: vector})
    if vector.shape != (layout.size,):
        raise ValueError(
            f"`{name}` must have shape [{layout.size}], {what} of {layout}; "
            f"got {list(vector.shape)}."
        )


def check_layout(layout: Any) -> None:
    """Raises TypeError unless `layout` is one."""
    if not isinstance(layout, Layout):
        raise TypeError(
            f"`layout` must be a weights.Layout; got {type(layout).__name__}, {layout!r}."
        )


def check_are_weights(canonical: Canonical, name: str) -> None:
    """Raises ValueError if what an argument has is gradients, or what an optimiser keeps."""
    if canonical.of != "weights":
        raise ValueError(f"`{name}` must be of weights; got {canonical.of}.")


def with_layout(
    weights: Canonical | ArrayLike, layout: Layout | None = None
) -> tuple[Array, Layout]:
    """The vector, and its layout, of the argument `weights`, which may be a Canonical.

    Raises:
      TypeError: there is a layout with a Canonical, or none with a vector, or it is no Layout.
      ValueError: the Canonical is of gradients.
    """
    if isinstance(weights, Canonical):
        if layout is not None:
            raise TypeError("`layout` must be left out: `weights` say it.")
        check_are_weights(weights, "weights")
        return weights.params, weights.layout
    if isinstance(weights, str | os.PathLike):
        raise TypeError(
            "`weights` must be a Canonical or a vector; got a path. Pass "
            f"weights.load({os.fspath(weights)!r})."
        )
    if hasattr(weights, "get_weights"):
        raise TypeError(
            f"`weights` must be a Canonical or a vector; got {type(weights).__name__}, a layer or "
            "model of Keras. Write its recurrent layers to a file with "
            "tf_cudnn_rnn.keras.export_runtime(model, path), and load that; or pass "
            'weights.from_keras(layer.get_weights(), "lstm").'
        )
    if (type(weights).__module__, type(weights).__name__) == ("tf_cudnn_rnn.runtime", "Network"):
        raise TypeError(
            "`weights` must be a Canonical or a vector; got a runtime.Network. Pass what it was "
            "made of, or `weights.load(path)` after `network.save(path)`."
        )
    if layout is None:
        raise TypeError("`layout` must say what network the vector `weights` is of.")
    check_layout(layout)
    return np.asarray(weights), layout


def of_layout(params: ArrayLike, layout: Layout, of: Of = "weights") -> Canonical:
    """`from_cudnn` of a vector whose layout is known."""
    return from_cudnn(params, **dataclasses.asdict(layout), of=of)


def from_cudnn(
    params: ArrayLike,
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    input_mode: InputMode = "linear_input",
    num_proj: int = 0,
    of: Of = "weights",
) -> Canonical:
    """Reads the `params` of the ops: cuDNN's weight space with two biases a gate.

    Args:
      params: [N].
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: as in
        `params_size`.
      of: "weights", or "gradients"; see Canonical.

    Raises:
      ValueError: `params` has another shape, or an option is out of range.
    """
    layout = Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode=input_mode,
        num_proj=num_proj,
    )
    return read_vector(np.asarray(params), "params", "cuDNN's weight space", layout, of)


def to_cudnn(canonical: Canonical) -> Exported:
    """Writes the `params` [N] of the ops. Loses nothing.

    Raises:
      TypeError: `canonical` is no `Canonical`.
    """
    base.check_canonical(canonical)
    return Exported(canonical.params, ())


def from_mxnet(
    parameters: ArrayLike,
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    num_proj: int = 0,
    of: Of = "weights",
) -> Canonical:
    """Reads the vector `parameters` of MXNet's fused operator `RNN`.

    Its order is cuDNN's: all i2h, h2h and h2r matrices by layer and direction, then all biases.

    Args:
      parameters: [N].
      rnn_mode: MXNet's `mode`, which has the same names.
      num_layers, num_units, input_size, direction: as in `params_size`; MXNet's `state_size` is
        `num_units`.
      num_proj: MXNet's `projection_size`, 0 for None.
      of: "weights", or "gradients"; see Canonical.

    Raises:
      ValueError: `parameters` has another shape, or an option is out of range.
    """
    if num_proj and num_proj == num_units:
        raise ValueError(
            f"`num_proj` must differ from `num_units`, got {num_proj} for both: MXNet would "
            "project, cuDNN takes it as no projection."
        )
    layout = Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode="linear_input",
        num_proj=num_proj,
    )
    return read_vector(np.asarray(parameters), "parameters", "MXNet's fused vector", layout, of)


def to_mxnet(canonical: Canonical) -> Exported:
    """Writes the vector `parameters` [N] of MXNet's fused operator `RNN`.

    Loses nothing, but a skipped input product becomes one with the identity.

    Raises:
      TypeError: `canonical` is no `Canonical`.
    """
    cells, notes = base.to_cells(canonical, "MXNet")
    return Exported(_linear(canonical, cells), notes)


def from_cntk(
    matrix: ArrayLike,
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    of: Of = "weights",
) -> Canonical:
    """Reads the weights of CNTK's OptimizedRNNStack.

    CNTK sees cuDNN's vector as a matrix [hiddenDims, n] whose first axis is the fastest. In
    NumPy that is [n, hiddenDims], and so CNTK's Python shows it.

    Args:
      matrix: [n, hiddenDims], the `value` of CNTK's parameter; or its transpose [hiddenDims, n]
        as `to_cntk` returns it. (n is always larger, so that one is known from the other.)
      rnn_mode: "lstm", "gru", "rnn_tanh" or "rnn_relu" for CNTK's `recurrent_op` "lstm", "gru",
        "rnnTanh" and "rnnReLU".
      num_layers, num_units, input_size, direction: as in `params_size`; `num_units` is CNTK's
        hiddenDims.
      of: "weights", or "gradients"; see Canonical.

    Raises:
      ValueError: `matrix` has another shape, or an option is out of range.
    """
    layout = Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
    )
    H = layout.num_units
    matrix = np.asarray(matrix)
    n = layout.size // H
    if matrix.shape == (H, n):
        matrix = matrix.T
    if matrix.shape != (n, H):
        raise ValueError(
            f"`matrix` must have shape [n, hiddenDims] = {[n, H]}, or [hiddenDims, n] as CNTK "
            f"itself calls it, for the {layout.size} weights of {layout}; "
            f"got {list(matrix.shape)}."
        )
    return read_vector(matrix.ravel(), "matrix", "CNTK's OptimizedRNNStack", layout, of)


def to_cntk(canonical: Canonical) -> Exported:
    """Writes the weights of CNTK's OptimizedRNNStack: [hiddenDims, n].

    The first axis is the fastest, as in CNTK; CNTK's Python has the axes the other way round
    and takes `arrays.T`. Loses nothing, but a skipped input product becomes one with the
    identity.

    Raises:
      ValueError: the network has no such matrix: it projects.
    """
    cells, notes = base.to_cells(
        canonical,
        "CNTK",
        projection="there is no [hiddenDims, n] view of it that OptimizedRNNStack would take, "
        "which knows no projection. MXNet and PyTorch have one.",
    )
    vector = _linear(canonical, cells)
    return Exported(vector.reshape(-1, canonical.layout.num_units).T, notes)


def _linear(canonical: Canonical, cells: list[list[base.Cell]]) -> Array:
    """Returns the vector of the same network with all its input kernels."""
    return base.from_cells(canonical.layout.rnn_mode, cells, canonical.of).params
