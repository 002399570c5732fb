"""TensorFlow 1: variables of tf.contrib.cudnn_rnn and of the LSTM cells, by checkpoint key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import untrusted, vectors
from tf_cudnn_rnn._formats.canonical import Canonical, Cell, Exported
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Array, Of, RnnMode

# The columns of `kernel`; of `gates/kernel` without the candidate, which stands alone.
GATE_ORDER = {
    "lstm": ("input", "cell", "forget", "output"),
    "gru": ("reset", "update", "new"),
    "rnn_tanh": ("",),
    "rnn_relu": ("",),
}
CUDNN_CELLS = {
    "lstm": "cudnn_compatible_lstm_cell",
    "gru": "cudnn_compatible_gru_cell",
    "rnn_tanh": "basic_rnn_cell",
    "rnn_relu": "basic_rnn_cell",
}
# BasicLSTMCell; LSTMCell and LSTMBlockCell; LSTMBlockFusedCell.
LSTM_CELLS = ("basic_lstm_cell", "lstm_cell", "lstm_fused_cell")

_LEAVES = (
    r"kernel|recurrent_kernel|bias|projection/kernel|projection/bias|w_[fio]_diag"
    r"|gates/kernel|gates/bias|candidate/kernel|candidate/bias"
    r"|candidate/(?:input|hidden)_projection/(?:kernel|bias)|opaque_kernel"
)
_GRU_LEAVES = (
    "gates/kernel",
    "gates/bias",
    "candidate/input_projection/kernel",
    "candidate/input_projection/bias",
    "candidate/hidden_projection/kernel",
    "candidate/hidden_projection/bias",
)
_PATH = re.compile(
    r"(?:(?P<scope>.+?)/)??"
    rf"(?:stack_bidirectional_rnn/cell_(?P<stacked>{base.INDEX})/bidirectional_rnn/(?P<way>fw|bw)"
    r"|bidirectional_rnn/(?P<only>fw|bw)"
    rf"|(?:rnn/)?multi_rnn_cell/cell_(?P<layer>{base.INDEX})"
    r"|rnn)"
    r"/(?P<cell>[^/]+)"
)
# LSTMBlockFusedCell runs all steps itself, in no rnn of TensorFlow.
_FUSED = re.compile(r"(?:(?P<scope>.+)/)?(?P<cell>lstm_fused_cell(?:_\d+)?)")


# The key and the array of each leaf, and those of each layer and direction.
_Leaves: TypeAlias = dict[str, tuple[str, Array]]
_Grid: TypeAlias = list[list[_Leaves]]


class _Place(NamedTuple):
    scope: str
    layer: int
    backward: bool


class Network(NamedTuple):
    """A network: its scope and cell, and the keys of its first layer's leaves, and of all."""

    scope: str
    cell: str
    num_layers: int
    is_bidirectional: bool
    first: dict[str, str]
    keys: list[str]


def networks(keys: Iterable[str]) -> list[Network]:
    """The networks that the two readers can find by their scopes."""
    key_pattern = re.compile(rf"(?P<path>.*?)/(?P<leaf>{_LEAVES})")
    cells = (*CUDNN_CELLS.values(), *LSTM_CELLS)
    found: dict[tuple[str, str], dict[_Place, dict[str, str]]] = {}
    for key in sorted(keys):
        match = key_pattern.fullmatch(key)
        path = _matched(match["path"]) if match else None
        cell = re.sub(r"_\d+$", "", path["cell"]) if path else None
        if match and path and cell in cells:
            place = _place(path)
            places = found.setdefault((place.scope, cell), {})
            places.setdefault(place, {})[match["leaf"]] = key
    return [
        Network(
            scope=scope,
            cell=cell,
            num_layers=1 + max(place.layer for place in places),
            is_bidirectional=any(place.backward for place in places),
            first=places.get(_Place(scope, 0, False), {}),
            keys=[key for leaves in places.values() for key in leaves.values()],
        )
        for (scope, cell), places in found.items()
        # That is Keras' cell of this name.
        if not any("recurrent_kernel" in leaves for leaves in places.values())
    ]


def opaque_keys(keys: Iterable[str]) -> list[str]:
    """The variables that are all weights of a network, of which nothing else tells the sizes."""
    keys = list(keys)
    cells = CUDNN_CELLS.values()
    scopes = {network.scope for network in networks(keys) if network.cell in cells}
    vector = re.compile(r"(?:(?P<scope>.+)/)?opaque_kernel")
    matches = ((key, vector.fullmatch(key)) for key in sorted(keys))
    return [key for key, match in matches if match and (match["scope"] or "") not in scopes]


def _matched(path: str) -> re.Match[str] | None:
    """What the path of a cell tells."""
    return _PATH.fullmatch(path) or _FUSED.fullmatch(path)


def _place(path: re.Match[str]) -> _Place:
    told = path.groupdict()
    way = told.get("way") or told.get("only")
    layer = told.get("stacked") or told.get("layer") or 0
    return _Place(path["scope"] or "", int(layer), way == "bw")


def _find(
    variables: Mapping[str, ArrayLike], cells: tuple[str, ...], scope: str | None, slot: str | None
) -> dict[_Place, dict[str, str]]:
    """Returns the keys of each place's leaves, for cells of these names."""
    # A cell's own name may be numbered: basic_lstm_cell_1.
    named = "|".join(cells)
    suffix = f"/{re.escape(slot)}" if slot else ""
    key_pattern = re.compile(rf"(?P<path>.*?)/(?P<leaf>{_LEAVES}){suffix}")
    found: dict[_Place, dict[str, str]] = {}
    twice: dict[str, tuple[str, str]] = {}  # by scope, the first keys of one leaf
    for key in variables:
        match = key_pattern.fullmatch(key)
        path = _matched(match["path"]) if match else None
        if not match or not path or not re.fullmatch(rf"(?:{named})(?:_\d+)?", path["cell"]):
            continue
        leaves = found.setdefault(_place(path), {})
        other = leaves.setdefault(match["leaf"], key)
        if other != key:
            twice.setdefault(_place(path).scope, (other, key))
    scopes = sorted({place.scope for place in found})
    if scope is None and len(scopes) > 1:
        listed = base.listed(map(repr, scopes))
        raise ValueError(f"`scope` must say which network to read; there are {listed}.")
    if scope is not None and scopes:
        if scope not in scopes:
            allowed = f"one of {base.listed(map(repr, scopes))}" if any(scopes) else "left out"
            raise ValueError(f"`scope` must be {allowed}; got {scope!r}.")
        found = {place: leaves for place, leaves in found.items() if place.scope == scope}
    for place in found:
        if place.scope in twice:
            one, other = map(untrusted.shown, twice[place.scope])
            raise ValueError(
                f"`variables` must hold one cell in each place; {one} and {other} are in the same. "
                "Pass those of one of them alone."
            )
    if not found:
        some = base.listed(sorted(variables)) or "nothing"
        hint = ""
        if any(key.endswith(f"candidate/kernel{suffix}") for key in variables):
            hint = (
                " candidate/kernel is that of GRUCell and GRUBlockCell, which reset before the "
                "recurrent product; no weights make a GRU of cuDNN equal to that."
            )
        elif any(key.endswith(f"opaque_kernel{suffix}") for key in variables):
            hint = " For an opaque_kernel, pass from_tf1_cudnn the network's `layout`."
        raise ValueError(
            f"`variables` must hold those of a {' or '.join(cells)}"
            f"{f' in {scope!r}' if scope else ''}{f', slot {slot!r}' if slot else ''}; "
            f"found {some}.{hint}"
        )
    return found


def _last_key(found: dict[_Place, dict[str, str]]) -> str:
    """A key that tells the number of layers."""
    return next(iter(found[max(found, key=lambda place: place.layer)].values()))


def _grid(
    found: dict[_Place, dict[str, str]], variables: Mapping[str, ArrayLike], leaves: tuple[str, ...]
) -> _Grid:
    """Returns the arrays of each layer [L] and direction [D], none missing or left over."""
    L = 1 + max(place.layer for place in found)
    D = 1 + max(place.backward for place in found)
    (scope,) = {place.scope for place in found}
    grid: _Grid = []
    for layer in range(L):
        grid.append([])
        for backward in (False, True)[:D]:
            keys = found.get(_Place(scope, layer, backward), {})
            missing = [leaf for leaf in leaves if leaf not in keys]
            extra = [keys[leaf] for leaf in keys if leaf not in (*leaves, "projection/kernel")]
            if missing or extra:
                found_text = f" besides {base.listed(sorted(keys.values()))}" if keys else ""
                what = f"missing {', '.join(missing)}{found_text}" if missing else ""
                what += "; " if missing and extra else ""
                what += f"cuDNN's networks have no {base.listed(extra)}" if extra else ""
                raise ValueError(
                    f"Layer {layer}{', backward' if backward else ''}, of {L} layers and "
                    f"{D} directions, must have {', '.join(leaves)}; {what}. The last layer is "
                    f"that of {untrusted.shown(_last_key(found))}."
                )
            grid[-1].append({leaf: (key, np.asarray(variables[key])) for leaf, key in keys.items()})
    return grid


def _from_grid(
    grid: _Grid, rnn_mode: RnnMode, of: Of, forget_bias: float, notes: tuple[str, ...] = ()
) -> Canonical:
    """Reads the arrays of `_grid`."""
    G = base.check_mode(rnn_mode)
    GH = base.gate_letters(G)
    D = len(grid[0])
    cells: list[list[Cell]] = []
    base.check_dtypes(dict(pair for layer in grid for leaves in layer for pair in leaves.values()))
    sizes = None
    for layer, directions in enumerate(grid):
        cells.append([])
        for leaves in directions:
            if rnn_mode == "gru":
                kernel_name, _ = leaves["candidate/hidden_projection/kernel"]
                bias_name, bias = leaves["candidate/hidden_projection/bias"]
                H = bias.size
            else:
                kernel_name, _ = leaves["kernel"]
                bias_name, bias = leaves["bias"]
                H = bias.size // G
            if bias.ndim != 1 or bias.size == 0 or (rnn_mode != "gru" and bias.size % G):
                letters = "[H]" if rnn_mode == "gru" else f"[{GH}]"
                raise ValueError(
                    f"`{bias_name}` must have shape {letters}; got {list(bias.shape)}."
                )
            P = H
            projection = None
            if "projection/kernel" in leaves:
                name, projection = leaves["projection/kernel"]
                if projection.ndim != 2 or not 0 < projection.shape[1] <= H:
                    raise ValueError(
                        f"`{name}` must have shape [H, P]; got {list(projection.shape)}."
                    )
                P = projection.shape[1]
                base.check_shape(name, projection, "[H, P]", (H, P))
                if P == H:
                    raise ValueError(
                        f"`{name}` must have shape [H, P] with P less than H, got {[H, P]}: cuDNN "
                        "takes a projection to the same size as none."
                    )
            if sizes is None:
                sizes = H, P
            elif sizes != (H, P):
                raise ValueError(
                    f"All layers must have the same H and P; `{kernel_name}` has {H} and {P}, "
                    f"the first layer {sizes[0]} and {sizes[1]}."
                )
            columns = None if not cells[0] else (D * P if layer else cells[0][0].W.shape[2])
            order = GATE_ORDER[rnn_mode]
            if rnn_mode == "gru":
                W, R, bW, bR = _read_gru(leaves, H, columns, of)
            else:
                W, R, bW, bR = _read_kernel(leaves, rnn_mode, H=H, P=P, columns=columns, of=of)
            if forget_bias and of == "weights":
                bW[order.index("forget")] = forget_bias
            W, R, bW, bR = (base.from_order(block, order, rnn_mode) for block in (W, R, bW, bR))
            cells[-1].append(Cell(W, R, bW, bR, None if projection is None else projection.T))
    return base.from_cells(rnn_mode, cells, of, notes)


def _input_size(
    name: str, kernel: Array, letters: str, rest: int, width: int, columns: int | None
) -> int:
    """Checks a kernel [in + rest, width] and returns in, which is `columns` if that is known."""
    if columns is None:
        if kernel.ndim != 2 or kernel.shape[1] != width or kernel.shape[0] <= rest:
            hint = ""
            if kernel.ndim == 2 and kernel.shape[0] == width and kernel.shape[1] > rest:
                hint = " It is transposed: is this another library's?"
            raise ValueError(
                f"`{name}` must have shape {letters} with {width} columns and more than {rest} "
                f"rows; got {list(kernel.shape)}.{hint}"
            )
        return kernel.shape[0] - rest
    base.check_shape(name, kernel, letters, (columns + rest, width))
    return columns


def _read_kernel(
    leaves: _Leaves, rnn_mode: RnnMode, H: int, P: int, columns: int | None, of: str
) -> tuple[Array, Array, Array, Array]:
    G = base.check_mode(rnn_mode)
    GH = base.gate_letters(G)
    name, kernel = leaves["kernel"]
    columns = _input_size(
        name, kernel, letters=f"[in + P, {GH}]", rest=P, width=G * H, columns=columns
    )
    rows = kernel.T.reshape(G, H, columns + P)
    bW, bR = base.split_bias(leaves["bias"][1].reshape(G, H), of)
    return rows[:, :, :columns], rows[:, :, columns:], bW, bR


def _read_gru(
    leaves: _Leaves, H: int, columns: int | None, of: str
) -> tuple[Array, Array, Array, Array]:
    name, gates = leaves["gates/kernel"]
    columns = _input_size(name, gates, letters="[in + H, 2H]", rest=H, width=2 * H, columns=columns)
    expected = {
        "gates/bias": ("[2H]", (2 * H,)),
        "candidate/input_projection/kernel": ("[in, H]", (columns, H)),
        "candidate/input_projection/bias": ("[H]", (H,)),
        "candidate/hidden_projection/kernel": ("[H, H]", (H, H)),
        "candidate/hidden_projection/bias": ("[H]", (H,)),
    }
    for leaf, (letters, shape) in expected.items():
        base.check_shape(*leaves[leaf], letters, shape)
    rows = gates.T.reshape(2, H, columns + H)
    new_W, new_bW, new_R, new_bR = (leaves[leaf][1] for leaf in list(expected)[1:])
    bW, bR = base.split_bias(leaves["gates/bias"][1].reshape(2, H), of)
    return (
        np.concatenate([rows[:, :, :columns], new_W.T[None]]),
        np.concatenate([rows[:, :, columns:], new_R.T[None]]),
        np.concatenate([bW, new_bW[None]]),
        np.concatenate([bR, new_bR[None]]),
    )


def from_tf1_cudnn(
    variables: Mapping[str, ArrayLike],
    rnn_mode: RnnMode,
    *,
    scope: str | None = None,
    layout: Layout | None = None,
    slot: str | None = None,
    of: Of = "weights",
) -> Canonical:
    """Reads CudnnLSTM, CudnnGRU, CudnnRNNTanh or CudnnRNNRelu of tf.contrib.cudnn_rnn.

    Their checkpoints hold TF-canonical weights, under the keys of the cells that can take their
    place on a CPU (CudnnCompatibleLSTMCell in a MultiRNNCell, ...), and mostly an
    `opaque_kernel` too.

    Args:
      variables: a mapping of checkpoint keys to arrays, such as
        `{key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}` of
        `reader = tf.train.load_checkpoint(path)`. In each layer and direction: kernel
        [in + P, 4H], bias [4H] and, if it projects, projection/kernel [H, P] of an LSTM;
        kernel [in + H, H] and bias [H] of a simple RNN; gates/kernel [in + H, 2H], gates/bias
        [2H], and kernel and bias of candidate/input_projection ([in, H], [H]) and
        candidate/hidden_projection ([H, H], [H]) of a GRU.
      rnn_mode: "lstm", "gru", "rnn_tanh" or "rnn_relu"; the last two have the same keys.
      scope: what precedes "rnn/multi_rnn_cell" or "stack_bidirectional_rnn" (or
        "opaque_kernel") in the keys, without a slash at the end; None if there is one network.
      layout: of the network, to read the bare `opaque_kernel` [N], which does not tell it.
      slot: such as "Adam" or "Adam_1" to read an optimiser's variables, `<key>/Adam`, instead;
        pass `of`="gradients", too.
      of: "weights", or "gradients"; see Canonical.

    A bias that stands for two becomes recurrent_bias. (TensorFlow 1 halves it.)

    Raises:
      TypeError: `layout` is none.
      ValueError: there is none or more than one network, variables are missing or of cells
        that cuDNN does not have, or shapes do not fit.
    """
    base.check_mode(rnn_mode)
    base.check_of(of)
    if layout is not None:
        if not isinstance(layout, Layout):
            raise TypeError(
                "`layout` must be a tf_cudnn_rnn.weights.Layout, such as "
                f"Layout({rnn_mode!r}, num_layers, num_units, input_size); got {layout!r:.99}."
            )
        return _from_opaque(variables, rnn_mode, scope=scope, layout=layout, slot=slot, of=of)
    found = _find(variables, (CUDNN_CELLS[rnn_mode],), scope, slot)
    leaves = _GRU_LEAVES if rnn_mode == "gru" else ("kernel", "bias")
    return _from_grid(_grid(found, variables, leaves), rnn_mode, of, forget_bias=0.0)


def _from_opaque(
    variables: Mapping[str, ArrayLike],
    rnn_mode: str,
    scope: str | None,
    layout: Layout,
    slot: str | None,
    of: Of,
) -> Canonical:
    if layout.rnn_mode != rnn_mode:
        raise ValueError(f"`layout` must be of an {rnn_mode}; got {layout}.")
    suffix = "opaque_kernel" + (f"/{slot}" if slot else "")
    every = [key for key in variables if key == suffix or key.endswith(f"/{suffix}")]
    wanted = f"{scope}/{suffix}" if scope else suffix
    keys = [key for key in every if scope is None or key == wanted]
    if len(keys) != 1:
        listed = base.listed(sorted(keys or variables)) or "nothing"
        raise ValueError(
            f"`variables` must hold one {wanted}; found {listed}."
            + (" `scope` can say which." if keys else "")
        )
    what = "cuDNN's weight space"
    return vectors.read_vector(np.asarray(variables[keys[0]]), keys[0], what, layout, of)


def from_tf1_lstm_cell(
    variables: Mapping[str, ArrayLike],
    *,
    forget_bias: float = 1.0,
    scope: str | None = None,
    slot: str | None = None,
    of: Of = "weights",
) -> Canonical:
    """Reads BasicLSTMCell, LSTMCell, LSTMBlockCell or LSTMBlockFusedCell of TensorFlow 1.

    Args:
      variables: a mapping of checkpoint keys to arrays: kernel [in + P, 4H], bias [4H] and, if
        it projects, projection/kernel [H, P], of each layer (MultiRNNCell) and direction
        (bidirectional_rnn, stack_bidirectional_rnn).
      forget_bias: what the cell adds to the forget gate whenever it runs, and does not store.
        It becomes the input_bias of that gate. TensorFlow's default is 1.
      scope: what precedes "rnn", "bidirectional_rnn", "stack_bidirectional_rnn" or, of
        LSTMBlockFusedCell, the cell in the keys, without a slash at the end; None if there is one
        network.
      slot: as in `from_tf1_cudnn`.
      of: "weights", or "gradients"; see Canonical. The forget bias has no gradient.

    Raises:
      ValueError: there is none or more than one network, variables are missing or of cells
        that cuDNN does not have (peepholes, for example), or shapes do not fit.
    """
    base.check_of(of)
    found = _find(variables, LSTM_CELLS, scope, slot)
    grid = _grid(found, variables, ("kernel", "bias"))
    return _from_grid(grid, "lstm", of, forget_bias)


# ------------------------------------------------------------------------------------
# Writing
# ------------------------------------------------------------------------------------


def _prefix(scope: str, L: int, D: int, layer: int, d: int, cell: str, multi: bool) -> str:
    way = ("fw", "bw")[d]
    if D == 2 and (L > 1 or multi):
        path = f"stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{way}"
    elif D == 2:
        path = f"bidirectional_rnn/{way}"
    elif L > 1 or multi:
        path = f"rnn/multi_rnn_cell/cell_{layer}"
    else:
        path = "" if _FUSED.fullmatch(cell) else "rnn"
    return "".join(f"{part}/" for part in (scope, path, cell) if part)


def _kernel(W: Array, R: Array) -> Array:
    """[G, H, in] and [G, H, P] to [in + P, G*H]."""
    rows = np.concatenate([W, R], axis=2)
    return np.ascontiguousarray(rows.reshape(-1, rows.shape[2]).T)


def to_tf1_cudnn(canonical: Canonical, *, scope: str = "", opaque: bool = False) -> Exported:
    """Writes the checkpoint variables of tf.contrib.cudnn_rnn, as `from_tf1_cudnn` describes them.

    Args:
      canonical: the weights.
      scope: the variable scope around the layer, such as "encoder" ("" for none); with
        `opaque`, of the layer itself, such as "encoder/cudnn_lstm".
      opaque: whether to write the bare `opaque_kernel` and not the TF-canonical variables.

    Returns:
      `arrays`: a dict from keys to arrays.

      `notes`: TF-canonical weights keep the sum of the two biases of a gate, but for the
      candidate of a GRU. An opaque_kernel loses nothing.

    Raises:
      TypeError: `canonical` is no `Canonical`.
    """
    base.check_canonical(canonical)
    if opaque:
        key = f"{scope}/opaque_kernel" if scope else "opaque_kernel"
        return Exported({key: canonical.params}, ())
    rnn_mode, of = canonical.layout.rnn_mode, canonical.of
    cells, notes = base.to_cells(canonical, "TF-canonical weights")
    if rnn_mode == "gru":
        notes += base.merge_notes(cells, "gates/bias", of, slice(0, 2))
    else:
        notes += base.merge_notes(cells, "the bias of TF-canonical weights", of)
    variables: dict[str, Array] = {}
    for layer, directions in enumerate(cells):
        for d, cell in enumerate(directions):
            prefix = _prefix(
                scope,
                L=len(cells),
                D=len(directions),
                layer=layer,
                d=d,
                cell=CUDNN_CELLS[rnn_mode],
                multi=True,
            )
            W, R, bW, bR = (
                base.to_order(blocks, GATE_ORDER[rnn_mode], rnn_mode) for blocks in cell[:4]
            )
            if rnn_mode == "gru":
                values = (
                    _kernel(W[:2], R[:2]),
                    base.merge_biases(bW[:2], bR[:2], of).ravel(),
                    np.ascontiguousarray(W[2].T),
                    bW[2],
                    np.ascontiguousarray(R[2].T),
                    bR[2],
                )
                names = [prefix + leaf for leaf in _GRU_LEAVES]
                variables |= dict(zip(names, values, strict=True))
            else:
                variables[prefix + "kernel"] = _kernel(W, R)
                variables[prefix + "bias"] = base.merge_biases(bW, bR, of).ravel()
                if cell.projection is not None:
                    variables[prefix + "projection/kernel"] = np.array(cell.projection.T, order="C")
    return Exported(variables, notes)


def to_tf1_lstm_cell(
    canonical: Canonical,
    *,
    forget_bias: float = 1.0,
    cell_name: str = "basic_lstm_cell",
    scope: str = "",
) -> Exported:
    """Writes the checkpoint variables of TensorFlow 1's LSTM cells.

    Args:
      canonical: the weights of an LSTM.
      forget_bias: what the cell will add to the forget gate; it is taken off here.
      cell_name: "basic_lstm_cell", "lstm_cell" (LSTMCell, LSTMBlockCell) or "lstm_fused_cell".
        Only LSTMCell projects.
      scope: the variable scope around the network; "" for none.

    Returns:
      `arrays`: a dict from keys to arrays, as `from_tf1_lstm_cell` describes it.

      `notes`: the cells keep the sum of the two biases of a gate.

    Raises:
      ValueError: the network is no LSTM, or it projects and the cell does not.
    """
    base.check_canonical(canonical)
    layout, of = canonical.layout, canonical.of
    if layout.rnn_mode != "lstm":
        raise ValueError(
            f"TensorFlow 1's LSTM cells cannot hold {layout}: `rnn_mode` must be lstm."
        )
    if cell_name not in LSTM_CELLS:
        raise ValueError(f"`cell_name` must be one of {', '.join(LSTM_CELLS)}; got {cell_name!r}.")
    only = "" if cell_name == "lstm_cell" else "only LSTMCell projects, `cell_name` lstm_cell."
    cells, notes = base.to_cells(canonical, cell_name, only)
    order = GATE_ORDER["lstm"]
    forget = order.index("forget")
    bare: list[list[Cell]] = []  # the cells without the constant
    variables: dict[str, Array] = {}
    for layer, directions in enumerate(cells):
        bare.append([])
        for d, cell in enumerate(directions):
            prefix = _prefix(
                scope,
                L=len(cells),
                D=len(directions),
                layer=layer,
                d=d,
                cell=cell_name,
                multi=False,
            )
            W, R, bW, bR = (base.to_order(blocks, order, "lstm") for blocks in cell[:4])
            if of == "weights":
                bW[forget] -= bW.dtype.type(forget_bias)
            bare[-1].append(Cell(W, R, bW, bR))
            variables[prefix + "kernel"] = _kernel(W, R)
            variables[prefix + "bias"] = base.merge_biases(bW, bR, of).ravel()
            if cell.projection is not None:
                variables[prefix + "projection/kernel"] = np.array(cell.projection.T, order="C")
    notes += base.merge_notes(bare, cell_name, of)
    return Exported(variables, notes)
