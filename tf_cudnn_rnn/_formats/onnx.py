"""ONNX's LSTM, GRU and RNN: one node a layer."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._formats.canonical import Canonical, Cell, Exported
from tf_cudnn_rnn._types import Array, Of, RnnMode

# The rows of W and R, and the elements of B.
GATE_ORDER = {
    "lstm": ("input", "output", "forget", "cell"),
    "gru": ("update", "reset", "new"),
    "rnn_tanh": ("",),
    "rnn_relu": ("",),
}
OPS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
# For one direction, in lower case; ONNX does not care.
ACTIVATIONS: dict[RnnMode, tuple[str, ...]] = {
    "lstm": ("sigmoid", "tanh", "tanh"),
    "gru": ("sigmoid", "tanh"),
    "rnn_tanh": ("tanh",),
    "rnn_relu": ("relu",),
}
_OF_REVERSE = (
    " Read it as forward, and reverse its input. If it is half of a Keras Bidirectional, which is "
    "written as two nodes, read the weights from the model's .keras file."
)
_DEFAULT_ACTIVATIONS = {
    "LSTM": ACTIVATIONS["lstm"],
    "GRU": ACTIVATIONS["gru"],
    "RNN": ACTIVATIONS["rnn_tanh"],
}


class OnnxNode(NamedTuple):
    """One node, which is one layer.

    Attributes:
      op_type: "LSTM", "GRU" or "RNN".
      attributes: as in the node. Those left out have ONNX's defaults; note that
        linear_before_reset is 0 by default, and cuDNN's GRU is that of 1.
      W: [D, G*H, in].
      R: [D, G*H, H].
      B: [D, 2*G*H], input biases and then recurrent biases; None for zeros.
      P: peepholes [D, 3*H], which must be None or zero.
    """

    op_type: str
    attributes: Mapping[str, Any]
    W: Array
    R: Array
    B: Array | None = None
    P: Array | None = None


def _text(attributes: Mapping[str, Any], name: str, default: str, where: str) -> str:
    """Returns an attribute that is a text."""
    return _as_text(attributes.get(name, default), name, where)


def _as_text(value: Any, name: str, where: str) -> str:
    try:
        value = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        pass
    if not isinstance(value, str):
        raise ValueError(f"{where} must have a text for {name}; got {untrusted.shown(value)}.")
    return value


def _flag(attributes: Mapping[str, Any], name: str, where: str) -> bool:
    """Returns an attribute that is 0, the default, or another integer."""
    return _integer(attributes.get(name, 0), name, where) != 0


def _integer(value: Any, name: str, where: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise ValueError(
            f"{where} must have an integer for {name}; got {untrusted.shown(value)}."
        ) from None


def _activations(attributes: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Returns them in lower case; none for the default ones."""
    names = attributes.get("activations", ())
    if not isinstance(names, Sequence) or isinstance(names, str | bytes):
        raise ValueError(f"{where} must have a list for activations; got {untrusted.shown(names)}.")
    return tuple(_as_text(name, "activations", where).lower() for name in names)


def mode_of(node: OnnxNode, where: str) -> RnnMode:
    """Returns the rnn_mode of a node; ValueError if cuDNN cannot honour an attribute."""
    attributes = dict(node.attributes)
    if node.op_type not in list(OPS.values()):
        raise ValueError(
            f"{where} must be an LSTM, GRU or RNN; got op_type {untrusted.shown(node.op_type)!r}."
        )
    direction = _text(attributes, "direction", "forward", where)
    D = 2 if direction == "bidirectional" else 1
    activations = _activations(attributes, where)
    if not activations:
        activations = _DEFAULT_ACTIVATIONS[node.op_type] * D
    for rnn_mode, expected in ACTIVATIONS.items():
        if OPS[rnn_mode] == node.op_type and activations == expected * D:
            break
    else:
        raise ValueError(
            f"{where} must have the activations of cuDNN's {node.op_type}, the default ones "
            f"(or Relu for RNN); got {base.listed(activations)}."
        )
    if rnn_mode == "gru" and not _flag(attributes, "linear_before_reset", where):
        raise ValueError(
            f"{where} must have linear_before_reset = 1; got 0, the default, which resets before "
            "the recurrent product. No weights make a GRU of cuDNN equal to that."
        )
    if _flag(attributes, "input_forget", where):
        raise ValueError(f"{where} must have input_forget = 0; got {attributes['input_forget']}.")
    if attributes.get("clip") is not None:
        raise ValueError(
            f"{where} must not clip; got clip = {untrusted.shown(attributes['clip'])}."
        )
    if direction not in ("forward", "bidirectional"):
        raise ValueError(
            f"{where} must have direction forward or bidirectional; got "
            f"{untrusted.shown(direction)}." + (_OF_REVERSE if direction == "reverse" else "")
        )
    if node.P is not None and not _is_zero(node.P):
        raise ValueError(f"{where} must have no peepholes P, or zeros; cuDNN's LSTM has none.")
    return rnn_mode


def _is_zero(array: Any) -> bool:
    array = np.asarray(array)
    return array.dtype.kind in "biuf" and not np.any(array)


def from_onnx(nodes: OnnxNode | Iterable[OnnxNode], *, of: Of = "weights") -> Canonical:
    """Reads a stack of ONNX LSTM, GRU or RNN nodes. Needs no onnx package.

    Args:
      nodes: from the first layer to the last, all of one kind; a single node will do. With
        onnx, arrays come from `onnx.numpy_helper.to_array(initializer)` and attributes from
        `{a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}`.
      of: "weights", or "gradients"; see Canonical.

    Raises:
      ValueError: nodes differ in kind, an attribute asks for what cuDNN cannot compute, or
        shapes do not fit.
    """
    base.check_of(of)
    nodes = [nodes] if isinstance(nodes, OnnxNode) else list(nodes)
    if not nodes:
        raise ValueError("`nodes` must hold at least one node; got none.")
    untrusted.check_layers(len(nodes), "`nodes`")
    rnn_mode, D = _check(nodes, "`nodes`[{}]", "nodes[{}].")
    G = base.check_mode(rnn_mode)
    H = np.shape(nodes[0].R)[2]
    order = GATE_ORDER[rnn_mode]
    cells: list[list[Cell]] = []
    for node in nodes:
        W, R = np.asarray(node.W), np.asarray(node.R)
        B = np.zeros([D, 2 * G * H], W.dtype) if node.B is None else np.asarray(node.B)
        cells.append([])
        for d in range(D):
            bW, bR = B[d].reshape(2, G, H)
            blocks = (W[d].reshape(G, H, -1), R[d].reshape(G, H, H), bW, bR)
            cells[-1].append(Cell(*(base.from_order(block, order, rnn_mode) for block in blocks)))
    notes = (base.NO_BIAS,) if any(node.B is None for node in nodes) else ()
    return base.from_cells(rnn_mode, cells, of, notes)


def check_alone(node: OnnxNode) -> None:
    """Raises ValueError unless `from_onnx` reads a node; computes nothing."""
    _check([node], "It", "")


def check_stack(nodes: list[OnnxNode]) -> None:
    """Raises ValueError unless `from_onnx` reads nodes as one network; computes nothing."""
    _check(nodes, "`nodes`[{}]", "nodes[{}].")


def _check(nodes: list[OnnxNode], where: str, arrays: str) -> tuple[RnnMode, int]:
    """Checks that nodes are a stack, and that their arrays fit.

    Args:
      nodes: at least one.
      where: what a node is called, where {} stands for its number.
      arrays: what precedes the names of its arrays.

    Returns:
      The mode, and the number of directions.
    """
    modes = [mode_of(node, where.format(l)) for l, node in enumerate(nodes)]
    rnn_mode = modes[0]
    directions = [
        _text(node.attributes, "direction", "forward", where.format(l))
        for l, node in enumerate(nodes)
    ]
    for what, values in (("kind and activations", modes), ("direction", directions)):
        if len(set(values)) > 1:
            found = base.listed(dict.fromkeys(values))
            raise ValueError(f"All `nodes` must have the same {what}; got {found}.")
    D = 2 if directions[0] == "bidirectional" else 1
    G = base.check_mode(rnn_mode)
    GH = base.gate_letters(G)
    first = arrays.format(0)
    shape = np.shape(nodes[0].R)
    if len(shape) != 3 or not 0 < shape[2] * G == shape[1]:
        raise base.wrong_gates(f"{first}R", f"[{D}, {GH}, H]", shape, rnn_mode, rows_first=True)
    H = shape[2]
    if np.ndim(nodes[0].W) != 3 or np.shape(nodes[0].W)[2] == 0:
        base.check_shape(f"{first}W", np.asarray(nodes[0].W), f"[D, {GH}, I]", (D, G * H, -1))
    columns = np.shape(nodes[0].W)[2]
    every: dict[str, Array] = {}
    for l, node in enumerate(nodes):
        hidden_size = _integer(
            node.attributes.get("hidden_size", H), "hidden_size", where.format(l)
        )
        if hidden_size != H:
            raise ValueError(f"{where.format(l)} must have hidden_size {H}; got {hidden_size}.")
        name = arrays.format(l)
        W, R = np.asarray(node.W), np.asarray(node.R)
        letter = "I" if l == 0 else ("H" if D == 1 else "2H")
        base.check_shape(f"{name}W", W, f"[D, {GH}, {letter}]", (D, G * H, columns))
        base.check_shape(f"{name}R", R, f"[D, {GH}, H]", (D, G * H, H))
        every |= {f"{name}W": W, f"{name}R": R}
        if node.B is not None:
            B = np.asarray(node.B)
            base.check_shape(f"{name}B", B, f"[D, {2 * G}H]", (D, 2 * G * H))
            every[f"{name}B"] = B
        columns = D * H
    base.check_dtypes(every)
    return rnn_mode, D


def to_onnx(canonical: Canonical) -> Exported:
    """Writes ONNX nodes. Loses nothing, but a skipped input product becomes one with the identity.

    Returns:
      `arrays`: an OnnxNode for each layer. Between two bidirectional nodes stand a Transpose
      and a Reshape, from Y [T, 2, B, H] to X [T, B, 2H].

    Raises:
      ValueError: the network projects.
    """
    cells, notes = base.to_cells(
        canonical, "ONNX", "its LSTM does not project. PyTorch and MXNet do."
    )
    rnn_mode = canonical.layout.rnn_mode
    H = canonical.layout.num_units
    order = GATE_ORDER[rnn_mode]
    D = len(cells[0])
    attributes: dict[str, Any] = {
        "hidden_size": H,
        "direction": "bidirectional" if D == 2 else "forward",
    }
    if rnn_mode == "gru":
        attributes["linear_before_reset"] = 1
    if rnn_mode == "rnn_relu":
        attributes["activations"] = ["Relu"] * D
    nodes = []
    for directions in cells:
        ordered = [
            [base.to_order(blocks, order, rnn_mode) for blocks in cell[:4]] for cell in directions
        ]
        W, R = (
            np.stack([cell[i].reshape(-1, cell[i].shape[2]) for cell in ordered]) for i in (0, 1)
        )
        B = np.stack([np.concatenate([bW.ravel(), bR.ravel()]) for _, _, bW, bR in ordered])
        nodes.append(OnnxNode(OPS[rnn_mode], dict(attributes), W, R, B))
    return Exported(nodes, notes)
