"""Keras: today's layers, and CuDNNLSTM and CuDNNGRU of Keras 2."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import hdf5, keras_config
from tf_cudnn_rnn._formats.canonical import Canonical, Cell, Exported
from tf_cudnn_rnn._formats.keras_config import LAYERS, LEGACY_LAYERS
from tf_cudnn_rnn._types import Array, Direction, Of, RnnMode

# The columns of kernels, and the elements of biases. The legacy layers are alike.
GATE_ORDER = {
    "lstm": ("input", "forget", "cell", "output"),
    "gru": ("update", "reset", "new"),
    "rnn_tanh": ("",),
    "rnn_relu": ("",),
}
NO_PROJECTION = "no layer of Keras projects. PyTorch and MXNet do."


class KerasLayer(NamedTuple):
    """One layer of a Keras 2 file.

    Attributes:
      class_name: such as "CuDNNLSTM" or "Bidirectional(CuDNNLSTM)"; "" if the file, having
        weights only, does not tell.
      arrays: its weights, in the order of `layer.get_weights()`.
      config: what the file's model says of it, an object with class_name and config; None if the
        file has weights only. By it a layer is refused that is another network than cuDNN's.
    """

    class_name: str
    arrays: list[Array]
    config: Mapping[str, Any] | None = None


# Of one layer, or of each layer of a stack.
KerasArrays: TypeAlias = (
    KerasLayer | Sequence[ArrayLike] | Sequence[KerasLayer | Sequence[ArrayLike]]
)


def read_keras_h5(path: str | os.PathLike[str]) -> dict[str, KerasLayer]:
    """Reads the layers with weights of an `.h5` file of Keras 2, by name.

    Their arrays are for `from_keras`, or those of CuDNNLSTM and CuDNNGRU for
    `from_keras_cudnn`. Needs h5py.

    The file may come from anybody: another process reads it, within bounds of time and memory,
    which takes about a third of a second to start.

    Raises:
      ImportError: h5py is missing.
      OSError: the file cannot be opened.
      ValueError: the file is another one, or is damaged; or it names other files, by links,
        external storage or virtual datasets.
    """
    try:
        import h5py  # noqa: F401
    except ImportError as error:
        raise ImportError("read_keras_h5 needs h5py, which is not installed.") from error

    return {
        layer.name: KerasLayer(layer.class_name, layer.arrays, layer.config)
        for layer in hdf5.read(os.fspath(path))
    }


def _as_layers(
    layers: Any, D: int, allowed: tuple[str, ...], rnn_mode: RnnMode, advice: str
) -> list[list[Array]]:
    """Returns the arrays of each layer, whatever `layers` is: one, or several in a list."""
    one = isinstance(layers, KerasLayer)
    for item in layers if isinstance(layers, list | tuple) else [layers]:
        if hasattr(item, "get_weights"):
            raise TypeError(
                f"`layers` must hold the arrays of layers; got a {type(item).__name__} itself. "
                "Pass its get_weights()."
            )
    if one or not any(isinstance(item, list | tuple) for item in layers):
        layers = [layers]
    result = []
    for layer in layers:
        if isinstance(layer, KerasLayer):
            expected = [f"Bidirectional({name})" if D == 2 else name for name in allowed]
            if layer.class_name and layer.class_name not in expected:
                if keras_config.is_wrapped(layer.class_name) and D == 1:
                    advice = " Pass `direction`='bidirectional' for a Bidirectional."
                raise ValueError(
                    f"The layer must be a {' or '.join(expected)}; got a "
                    f"{layer.class_name}.{advice}"
                )
            if layer.config and (reason := keras_config.network_obstacle(layer.config)):
                is_of_use = keras_config.weights_are_of_use(reason)
                all_the_same = " If that is meant, pass its `arrays`." if is_of_use else ""
                raise ValueError(
                    "The layer must be a network of cuDNN, or its weights would compute something "
                    f"else: {reason}.{all_the_same}"
                )
            modes = keras_config.simple_modes([layer.config])
            if modes and rnn_mode not in modes:
                raise ValueError(
                    f"`rnn_mode` must be {modes.pop()}, as the layer's `config` says; got "
                    f"{rnn_mode}."
                )
            layer = layer.arrays
        result.append([np.asarray(array) for array in layer])
    return result


def _names(l: int, D: int, count: int, layers: int) -> list[str]:
    """Names arrays like Keras, for messages."""
    names = ("kernel", "recurrent_kernel", "bias")[:count]
    where = [f"layers[{l}] "] if layers > 1 else [""]
    return [
        f"{where[0]}{direction}{name}"
        for direction in (("",) if D == 1 else ("forward ", "backward "))
        for name in names
    ]


def _read(
    layers: list[list[Array]], rnn_mode: RnnMode, direction: str, of: Of, legacy: bool
) -> Canonical:
    G = base.check_mode(rnn_mode)
    D = base.check_direction(direction)
    base.check_of(of)
    GH = base.gate_letters(G)
    cells: list[list[Cell]] = []
    notes: tuple[str, ...] = ()
    every: dict[str, Array] = {}
    H = 0
    columns = 0
    for l, arrays in enumerate(layers):
        counts = [3 * D] if legacy else [3 * D, 2 * D]
        if len(arrays) not in counts:
            hint = ""
            if not arrays:
                hint = " A layer has none until it is built: call it, or layer.build(shape)."
            elif D == 1 and len(arrays) in (4, 6):
                hint = " Bidirectional layers have 4 or 6: pass `direction`='bidirectional'."
            elif D == 2 and len(arrays) in (2, 3):
                hint = " An unidirectional layer has 2 or 3."
            raise ValueError(
                f"`layers`[{l}] must hold {' or '.join(map(str, counts))} arrays, kernel, "
                f"recurrent_kernel{' and bias' if legacy else ' and, if any, bias'}"
                f"{' of either direction' if D == 2 else ''}; got {len(arrays)}.{hint}"
            )
        count = len(arrays) // D
        names = _names(l, D, count, len(layers))
        every.update(zip(names, arrays, strict=True))
        if l == 0:
            shape = arrays[1].shape
            if len(shape) != 2 or not 0 < shape[0] * G == shape[1]:
                raise base.wrong_gates(names[1], f"[H, {GH}]", shape, rnn_mode, rows_first=False)
            H = shape[0]
            if arrays[0].ndim != 2 or arrays[0].shape[0] == 0:
                base.check_shape(names[0], arrays[0], f"[I, {GH}]", (-1, G * H))
            columns = arrays[0].shape[0]
        cells.append([])
        for d in range(D):
            kernel, recurrent, *bias = arrays[d * count : (d + 1) * count]
            kernel_name, recurrent_name, *bias_name = names[d * count : (d + 1) * count]
            letter = "I" if l == 0 else ("H" if D == 1 else "2H")
            units = recurrent.shape[0] if recurrent.ndim else 0
            if l and units != H and recurrent.shape == (units, G * units):
                raise ValueError(
                    "All `layers` must have the same number of units, as cuDNN's networks have; "
                    f"layers[0] has {H}, layers[{l}] has {units}. Read each of them alone."
                )
            base.check_shape(kernel_name, kernel, f"[{letter}, {GH}]", (columns, G * H))
            base.check_shape(recurrent_name, recurrent, f"[H, {GH}]", (H, G * H))
            W, R = (_legacy_blocks(m, H) if legacy else _blocks(m, H) for m in (kernel, recurrent))
            if bias:
                bW, bR = _read_bias(bias[0], bias_name[0], rnn_mode, H=H, of=of, legacy=legacy)
            else:
                bW = bR = np.zeros([G, H], kernel.dtype)
                notes = (base.NO_BIAS,)
            order = GATE_ORDER[rnn_mode]
            cells[-1].append(
                Cell(*(base.from_order(blocks, order, rnn_mode) for blocks in (W, R, bW, bR)))
            )
        columns = D * H
    base.check_dtypes(every)
    return base.from_cells(rnn_mode, cells, of, notes)


def _blocks(kernel: Array, H: int) -> Array:
    """[in, G*H] to [G, H, in]."""
    return kernel.T.reshape(-1, H, kernel.shape[0])


def _legacy_blocks(kernel: Array, H: int) -> Array:
    """[in, G*H] to [G, H, in], where a gate's [in, H] columns are cuDNN's [H, in] in memory."""
    return np.stack(
        [
            np.ascontiguousarray(kernel[:, column : column + H]).reshape(H, -1)
            for column in range(0, kernel.shape[1], H)
        ]
    )


def _read_bias(
    bias: Array, name: str, rnn_mode: RnnMode, H: int, of: str, legacy: bool
) -> tuple[Array, Array]:
    """Returns bW and bR [G, H] in Keras' order."""
    G = base.check_mode(rnn_mode)
    hint = ""
    if not legacy and rnn_mode in LEGACY_LAYERS and bias.shape == (2 * G * H,):
        hint = f" {LEGACY_LAYERS[rnn_mode]} has such a bias: use from_keras_cudnn."
    elif legacy and bias.shape in ((G * H,), (2, G * H)):
        hint = f" {LAYERS[rnn_mode]} has such a bias: use from_keras."
    if rnn_mode == "gru" and bias.shape == (3 * H,):
        hint = (
            " It is that of a GRU with reset_after=False, which resets before the recurrent "
            "product; no weights make a GRU of cuDNN, which resets after it, equal to that."
        )
    if legacy:
        base.check_shape(name, bias, f"[{2 * G}H]", (2 * G * H,), hint)
        bW, bR = bias.reshape(2, G, H)
    elif rnn_mode == "gru":
        base.check_shape(name, bias, "[2, 3H]", (2, 3 * H), hint)
        bW, bR = bias.reshape(2, G, H)
    else:
        base.check_shape(name, bias, f"[{base.gate_letters(G)}]", (G * H,), hint)
        bW, bR = base.split_bias(bias.reshape(G, H), of)
    return bW, bR


def from_keras(
    layers: KerasArrays,
    rnn_mode: RnnMode,
    *,
    direction: Direction = "unidirectional",
    of: Of = "weights",
) -> Canonical:
    """Reads Keras' LSTM, GRU (reset_after=True) and SimpleRNN, Bidirectional or not.

    Args:
      layers: what `layer.get_weights()` returns, or a list of that for a stack: kernel
        [in, G*H], recurrent_kernel [H, G*H] and, unless use_bias=False, bias [4H] (LSTM),
        [2, 3H] (GRU) or [H] (SimpleRNN); Bidirectional has the forward layer's, then the
        backward layer's. A bias that stands for two becomes recurrent_bias. Or what
        `read_keras_h5` returns for a layer.
      rnn_mode: "lstm", "gru", "rnn_tanh" or "rnn_relu": a SimpleRNN's weights do not tell its
        activation.
      direction: "bidirectional" for Bidirectional layers, which must concatenate
        (merge_mode="concat").
      of: "weights", or "gradients"; see Canonical.

    Raises:
      ValueError: there are too few or too many arrays, or one has another shape, such as that
        of another kind of layer or another library; or a file says that the layer is another
        network than cuDNN's.
    """
    base.check_mode(rnn_mode)
    D = base.check_direction(direction)
    advice = " CuDNNLSTM and CuDNNGRU are for from_keras_cudnn."
    layers = _as_layers(layers, D, (LAYERS[rnn_mode],), rnn_mode, advice)
    return _read(layers, rnn_mode, direction, of, legacy=False)


def to_keras(canonical: Canonical, *, use_bias: bool = True) -> Exported:
    """Writes the weights of a stack of Keras layers.

    Returns:
      `arrays`: for each layer a list for `layer.set_weights()`, as `from_keras` describes it.
      Layers of a bidirectional network are Bidirectional(..., merge_mode="concat"), of a GRU
      reset_after=True.

      `notes`: an LSTM and a SimpleRNN keep the sum of the two biases, which is all that their
      results depend on.

    Raises:
      ValueError: the network projects; or `use_bias` is False and a bias is not zero.
    """
    cells, notes = base.to_cells(canonical, "Keras", NO_PROJECTION)
    rnn_mode, of = canonical.layout.rnn_mode, canonical.of
    if not use_bias:
        base.check_no_bias(cells, "use_bias")
    elif rnn_mode != "gru":
        notes += base.merge_notes(cells, f"Keras' {LAYERS[rnn_mode]}", of)
    order = GATE_ORDER[rnn_mode]
    layers: list[list[Array]] = []
    for directions in cells:
        layers.append([])
        for cell in directions:
            W, R, bW, bR = (base.to_order(blocks, order, rnn_mode) for blocks in cell[:4])
            layers[-1] += [_columns(W), _columns(R)]
            if use_bias:
                layers[-1].append(
                    np.stack([bW.ravel(), bR.ravel()])
                    if rnn_mode == "gru"
                    else base.merge_biases(bW, bR, of).ravel()
                )
    return Exported(layers, notes)


def _columns(blocks: Array) -> Array:
    """The inverse of `_blocks`."""
    return np.ascontiguousarray(blocks.reshape(-1, blocks.shape[2]).T)


def from_keras_cudnn(
    layers: KerasArrays,
    rnn_mode: RnnMode,
    *,
    direction: Direction = "unidirectional",
    of: Of = "weights",
) -> Canonical:
    """Reads CuDNNLSTM and CuDNNGRU of Keras 2, Bidirectional or not.

    Args:
      layers: kernel [in, G*H], recurrent_kernel [H, G*H] and bias [8H] (CuDNNLSTM) or [6H]
        (CuDNNGRU), once for each direction; or a layer of `read_keras_h5`; or a list of either
        for a stack. The kernels are those of Keras' LSTM and GRU in shape only: in each gate's
        columns lie cuDNN's numbers, not transposed.
      rnn_mode: "lstm" or "gru".
      direction: "bidirectional" for Bidirectional layers.
      of: "weights", or "gradients"; see Canonical.

    Raises:
      ValueError: the arrays, or the file's layer, are of another kind.
    """
    _check_legacy_mode(rnn_mode)
    D = base.check_direction(direction)
    advice = " LSTM, GRU and SimpleRNN are for from_keras."
    layers = _as_layers(layers, D, (LEGACY_LAYERS[rnn_mode],), rnn_mode, advice)
    return _read(layers, rnn_mode, direction, of, legacy=True)


def to_keras_cudnn(canonical: Canonical) -> Exported:
    """Writes the weights of a stack of CuDNNLSTM or CuDNNGRU of Keras 2.

    Loses nothing, but a skipped input product becomes one with the identity.

    Returns:
      `arrays`: for each layer a list for `layer.set_weights()`, as `from_keras_cudnn`
      describes it.

    Raises:
      ValueError: the network projects, or is a simple RNN.
    """
    base.check_canonical(canonical)
    rnn_mode = canonical.layout.rnn_mode
    _check_legacy_mode(rnn_mode)
    cells, notes = base.to_cells(canonical, "Keras", NO_PROJECTION)
    order = GATE_ORDER[rnn_mode]
    layers: list[list[Array]] = []
    for directions in cells:
        layers.append([])
        for cell in directions:
            W, R, bW, bR = (base.to_order(blocks, order, rnn_mode) for blocks in cell[:4])
            layers[-1] += [
                np.concatenate([block.reshape(block.shape[::-1]) for block in blocks], axis=1)
                for blocks in (W, R)
            ]
            layers[-1].append(np.concatenate([bW.ravel(), bR.ravel()]))
    return Exported(layers, notes)


def _check_legacy_mode(rnn_mode: str) -> None:
    if rnn_mode not in LEGACY_LAYERS:
        base.check_mode(rnn_mode)
        raise ValueError(
            f"`rnn_mode` must be lstm or gru, got {rnn_mode}: Keras 2 had CuDNNLSTM and CuDNNGRU."
        )
