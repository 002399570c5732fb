"""PyTorch's nn.LSTM, nn.GRU and nn.RNN: the arrays of their state_dict."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import torch_file, untrusted
from tf_cudnn_rnn._formats.canonical import Canonical, Cell, Exported
from tf_cudnn_rnn._formats.npz import read_some_npz
from tf_cudnn_rnn._formats.safetensors import read_some_safetensors
from tf_cudnn_rnn._types import Array, Of, RnnMode

# The rows of matrices, and the elements of biases.
GATE_ORDER = {
    "lstm": ("input", "forget", "cell", "output"),
    "gru": ("reset", "update", "new"),
    "rnn_tanh": ("",),
    "rnn_relu": ("",),
}

_KEY = re.compile(
    r"(?P<prefix>|.*\.)(?P<kind>weight_ih|weight_hh|weight_hr|bias_ih|bias_hh)"
    rf"_l(?P<layer>{base.INDEX})(?P<reverse>_reverse)?"
)


def _load(path: str | os.PathLike[str], prefix: str | None) -> dict[str, Any]:
    """Reads a file by its ending: the arrays of the RNN at `prefix`, and maybe others."""
    path = os.fspath(path)
    if path.endswith(torch_file.ENDINGS):
        tensors, size = torch_file.read(path)
        prefix = _find_prefix(tensors, prefix)
        chosen = {name: tensor for name, tensor in tensors.items() if is_at(prefix, name)}
        return torch_file.arrays(chosen, size, path)
    if path.endswith(".safetensors"):
        return read_some_safetensors(path, _is_of_an_rnn)
    if path.endswith(".npz") and _begins_like_zip(path):
        return read_some_npz(path, _is_of_an_rnn)
    raise ValueError(
        f"{path} must be a .safetensors, an .npz, or a .pt or .pth file. If torch.save wrote it, "
        'rename it, or take weights.load(path, format="torch"). Or write it anew in PyTorch, '
        "with safetensors.torch.save_file(state, path) or "
        "numpy.savez(path, **{name: t.numpy() for name, t in state.items()})."
    )


def _is_of_an_rnn(name: str) -> bool:
    return _KEY.fullmatch(name) is not None


def _begins_like_zip(path: str) -> bool:
    with untrusted.opened(path) as (file, _):
        return file.read(2) == b"PK"


def from_torch(
    state: Mapping[str, ArrayLike] | str | os.PathLike[str],
    rnn_mode: RnnMode,
    *,
    prefix: str | None = None,
    of: Of = "weights",
) -> Canonical:
    """Reads nn.LSTM (proj_size included), nn.GRU or nn.RNN of PyTorch.

    Args:
      state: a module's state_dict(), of tensors or arrays, or the path of a `.safetensors` or
        `.npz` file of one; or of a `.pt` or `.pth` file, which PyTorch reads by
        torch.load(weights_only=True):
        weight_ih_l0 [G*H, I], weight_hh_l0 [G*H, P], bias_ih_l0 [G*H], bias_hh_l0 [G*H],
        weight_hr_l0 [P, H] if it projects, and so on for each layer and, with "_reverse" at
        the end, the backward direction. Other entries are left alone. In a `.pt` they may be in
        a mapping inside, such as "state_dict".
      rnn_mode: "lstm", "gru", "rnn_tanh" or "rnn_relu"; nn.RNN does not store its nonlinearity.
      prefix: what precedes these names, such as "encoder.rnn."; None if `state` holds one RNN.
      of: "weights", or "gradients"; see Canonical.

    Raises:
      ImportError: `state` is a `.pt` or `.pth` file, and there is no PyTorch 2.6 or later.
      OSError: the file cannot be opened.
      ValueError: there is none or more than one RNN, arrays are missing, shapes do not fit, or
        the file is damaged, or forged.
    """
    base.check_mode(rnn_mode)
    base.check_of(of)
    path = state if isinstance(state, str | os.PathLike) else None
    with contextlib.nullcontext() if path is None else untrusted.named(path):
        state = state if path is None else _load(path, prefix)
        if not isinstance(state, Mapping):
            remedy = " Pass its state_dict()." if hasattr(state, "state_dict") else ""
            raise TypeError(
                f"`state` must be a mapping or a path; got {type(state).__name__}.{remedy}"
            )
        return _from_mapping(state, rnn_mode, prefix, of)


def is_at(prefix: str, name: str) -> bool:
    """Whether an array of this name is one of the RNN at `prefix`."""
    match = _KEY.fullmatch(name)
    return match is not None and match["prefix"] == prefix


def networks(state: Mapping[str, Any]) -> dict[str, dict[tuple[str, int, bool], Any]]:
    """The RNNs among arrays, or their headers, by prefix.

    Of each the arrays by kind ("weight_ih", ...), layer, and whether it is the backward one.
    """
    found: dict[str, dict[tuple[str, int, bool], Any]] = {}
    for key, value in state.items():
        if match := _KEY.fullmatch(key):
            name = match["kind"], int(match["layer"]), bool(match["reverse"])
            found.setdefault(match["prefix"], {})[name] = value
    return found


def _from_mapping(
    state: Mapping[str, ArrayLike], rnn_mode: RnnMode, prefix: str | None, of: Of
) -> Canonical:
    prefix = _find_prefix(state, prefix)
    arrays = {}
    for key in state:
        match = _KEY.fullmatch(key)
        if match and match["prefix"] == prefix:
            value: Any = state[key]
            is_tensor = hasattr(value, "detach")
            array = torch_file.as_array(value, key) if is_tensor else np.asarray(value)
            arrays[match["kind"], int(match["layer"]), bool(match["reverse"])] = array
    L, D, wanted = check(arrays, rnn_mode, prefix)
    G = base.check_mode(rnn_mode)
    H, _, P = _sizes(arrays, rnn_mode, prefix, "weight_hr" in wanted)
    cells: list[list[Cell]] = []
    for layer in range(L):
        cells.append([])
        for d in range(D):
            cell = {kind: arrays[kind, layer, bool(d)] for kind in wanted}
            zeros = np.zeros([G * H], cell["weight_ih"].dtype)
            blocks = (
                cell["weight_ih"].reshape(G, H, -1),
                cell["weight_hh"].reshape(G, H, P),
                cell.get("bias_ih", zeros).reshape(G, H),
                cell.get("bias_hh", zeros).reshape(G, H),
            )
            order = GATE_ORDER[rnn_mode]
            W, R, bW, bR = (base.from_order(block, order, rnn_mode) for block in blocks)
            cells[-1].append(Cell(W, R, bW, bR, cell.get("weight_hr")))
    return base.from_cells(rnn_mode, cells, of, () if "bias_ih" in wanted else (base.NO_BIAS,))


def check(
    arrays: Mapping[tuple[str, int, bool], Any], rnn_mode: RnnMode, prefix: str = ""
) -> tuple[int, int, list[str]]:
    """Checks that the arrays of an RNN, or their headers, fit each other.

    Args:
      arrays: as of `networks`.
      rnn_mode: of the RNN.
      prefix: for messages.

    Returns:
      How many layers and directions it has, and the kinds of arrays of each.

    Raises:
      ValueError: arrays are missing, or have other shapes or types.
    """
    G = base.check_mode(rnn_mode)
    base.check_dtypes({_key(prefix, *name): array for name, array in arrays.items()})
    L = 1 + max(layer for _, layer, _ in arrays)
    D = 2 if any(reverse for *_, reverse in arrays) else 1
    kinds = {kind for kind, *_ in arrays}
    bias = any(kind.startswith("bias") for kind in kinds)
    wanted = ["weight_ih", "weight_hh"] + (["bias_ih", "bias_hh"] if bias else [])
    wanted += ["weight_hr"] if "weight_hr" in kinds else []
    # A name may say any number of layers, so that this stops at the first few that are missing.
    missing = base.listed(
        _key(prefix, kind, layer, d)
        for layer in range(L)
        for d in range(D)
        for kind in wanted
        if (kind, layer, bool(d)) not in arrays
    )
    if missing:
        raise ValueError(
            f"`state` must hold {', '.join(wanted)} of each of {L} layers and {D} directions; "
            f"missing {missing}. The last layer is that of "
            f"{untrusted.shown(_key(prefix, *max(arrays, key=lambda name: name[1])))}."
        )
    untrusted.check_layers(L, "`state`")
    projects = "weight_hr" in kinds
    if projects and rnn_mode != "lstm":
        raise ValueError(f"Only an LSTM projects; got weight_hr for `rnn_mode` {rnn_mode}.")
    H, I, P = _sizes(arrays, rnn_mode, prefix, projects)
    GH = base.gate_letters(G)
    for layer in range(L):
        columns = I if layer == 0 else D * P
        letter = "I" if layer == 0 else ("P" if D == 1 else "2P")
        for d in range(D):
            for kind, letters, shape in (
                ("weight_ih", f"[{GH}, {letter}]", (G * H, columns)),
                ("weight_hh", f"[{GH}, P]", (G * H, P)),
                ("bias_ih", f"[{GH}]", (G * H,)),
                ("bias_hh", f"[{GH}]", (G * H,)),
                ("weight_hr", "[P, H]", (P, H)),
            ):
                if kind in wanted:
                    array = arrays[kind, layer, bool(d)]
                    base.check_shape(_key(prefix, kind, layer, d), array, letters, shape)
    return L, D, wanted


def _key(prefix: str, kind: str, layer: int, reverse: int) -> str:
    return f"{prefix}{kind}_l{layer}{'_reverse' if reverse else ''}"


def _find_prefix(state: Mapping[str, ArrayLike], prefix: str | None) -> str:
    prefixes = {match["prefix"]: None for match in map(_KEY.fullmatch, state) if match}
    listed = base.listed(map(repr, prefixes))
    if prefix is None:
        if len(prefixes) == 1:
            return next(iter(prefixes))
        if prefixes:
            raise ValueError(f"`prefix` must say which RNN to read; there are {listed}.")
    elif prefix in prefixes:
        return prefix
    wanted = f"`state` must hold {prefix or ''}weight_ih_l0 and its kind"
    if not prefixes:
        some = base.listed(map(str, state)) or "nothing"
        raise ValueError(f"{wanted}; found no RNN but {some}.")
    if prefixes == {"": None}:
        raise ValueError(f"{wanted}; found weight_ih_l0. Leave `prefix` out.")
    raise ValueError(f"{wanted}; found RNNs at {listed}. Pass `prefix` as it stands there.")


def _sizes(
    arrays: Mapping[tuple[str, int, bool], Any], rnn_mode: RnnMode, prefix: str, projects: bool
) -> tuple[int, int, int]:
    """Returns H, I and P, which the first layer's matrices tell."""
    G = base.check_mode(rnn_mode)
    GH = base.gate_letters(G)
    if not projects:  # whose gates tell another cell apart
        recurrent = arrays["weight_hh", 0, False]
        if recurrent.ndim != 2 or recurrent.shape[0] != G * recurrent.shape[1]:
            raise base.wrong_gates(
                f"{prefix}weight_hh_l0", f"[{GH}, H]", recurrent.shape, rnn_mode, rows_first=True
            )
    input_kernel = arrays["weight_ih", 0, False]
    if input_kernel.ndim != 2 or 0 in input_kernel.shape or input_kernel.shape[0] % G:
        raise ValueError(
            f"`{prefix}weight_ih_l0` must have shape [{GH}, I]; got {list(input_kernel.shape)}."
        )
    H, I = input_kernel.shape[0] // G, input_kernel.shape[1]
    if not projects:
        return H, I, H
    projection = arrays["weight_hr", 0, False]
    if projection.ndim != 2 or projection.shape[1] != H or not 0 < projection.shape[0] < H:
        raise ValueError(
            f"`{prefix}weight_hr_l0` must have shape [P, H] with H = {H} and P less; "
            f"got {list(projection.shape)}."
        )
    return H, I, projection.shape[0]


def to_torch(canonical: Canonical, *, prefix: str = "", bias: bool = True) -> Exported:
    """Writes the state_dict of nn.LSTM, nn.GRU or nn.RNN, as `from_torch` describes it.

    Loses nothing, but a skipped input product becomes one with the identity.

    Args:
      canonical: the weights.
      prefix: what precedes the names, such as "encoder.rnn.".
      bias: False for a module without biases.

    Returns:
      `arrays`: a dict of arrays, for `write_safetensors` or, through torch.from_numpy, for
      `module.load_state_dict`.

    Raises:
      ValueError: `bias` is False and a bias is not zero; or `prefix` does not end with a dot.
    """
    if prefix and not prefix.endswith("."):
        raise ValueError(
            "`prefix` must end with a dot, as what precedes the names of a module does; got "
            f"{prefix!r}."
        )
    cells, notes = base.to_cells(canonical, "PyTorch")
    rnn_mode = canonical.layout.rnn_mode
    order = GATE_ORDER[rnn_mode]
    if not bias:
        base.check_no_bias(cells, "bias")
    state: dict[str, Array] = {}
    for layer, directions in enumerate(cells):
        for d, cell in enumerate(directions):
            W, R, bW, bR = (base.to_order(blocks, order, rnn_mode) for blocks in cell[:4])
            state[_key(prefix, "weight_ih", layer, d)] = W.reshape(-1, W.shape[2])
            state[_key(prefix, "weight_hh", layer, d)] = R.reshape(-1, R.shape[2])
            if bias:
                state[_key(prefix, "bias_ih", layer, d)] = bW.ravel()
                state[_key(prefix, "bias_hh", layer, d)] = bR.ravel()
            if cell.projection is not None:
                state[_key(prefix, "weight_hr", layer, d)] = cell.projection.copy()
    return Exported(state, notes)
