"""The judge: what every kernel of this library is compared with.

NumPy, double precision, three plain loops (layer, direction, time); only batch rows
and features are vectorised. It shares no code with the kernels: the layout of
`params`, the equations, their derivatives and the dropout random numbers are stated
here a second time, on purpose.

Letters:

  T  time steps       B  batch            I  input features
  H  hidden units     P  features of h: `num_proj` if the LSTM projects, else H
  L  layers           D  directions (1 or 2)      G  gates (rnn 1, gru 3, lstm 4)
  k  pseudo-layer, k = layer * D + direction; direction 0 is forward
  N  params_size(config)

Time-major shapes: x [T, B, I], y [T, B, D*P], h0 and h_n [L*D, B, P], c0 and c_n
[L*D, B, H], params [N]. Batch-major: x [B, T, I], y [B, T, D*P], h0 and h_n
[B, L*D, P], c0 and c_n [B, L*D, H]; entry [b, k] is batch row b of pseudo-layer k.
A gradient is named d<tensor> and has the tensor's shape.
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

RNN_MODES = ("rnn_relu", "rnn_tanh", "lstm", "gru")
INPUT_MODES = ("linear_input", "skip_input", "auto_select")
DIRECTIONS = ("unidirectional", "bidirectional")

# Gate order inside `params`, cuDNN's.
INPUT, FORGET, CELL, OUTPUT = range(4)  # lstm
RESET, UPDATE, NEW = range(3)  # gru

_UINT64 = (1 << 64) - 1


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)


@dataclasses.dataclass(frozen=True)
class Config:
    """The options of one CudnnRNN op; the field names are the op's attributes."""

    rnn_mode: str
    num_layers: int
    num_units: int
    input_size: int
    direction: str = "unidirectional"
    input_mode: str = "linear_input"
    num_proj: int = 0
    dropout: float = 0.0
    time_major: bool = True

    def __post_init__(self) -> None:
        _require(self.rnn_mode in RNN_MODES, f"unknown rnn_mode {self.rnn_mode!r}")
        _require(self.direction in DIRECTIONS, f"unknown direction {self.direction!r}")
        _require(self.input_mode in INPUT_MODES, f"unknown input_mode {self.input_mode!r}")
        _require(
            min(self.num_layers, self.num_units, self.input_size) >= 1,
            f"num_layers, num_units and input_size must be positive, got {self}",
        )
        _require(
            0 <= self.num_proj <= self.num_units
            and (self.num_proj == 0 or self.rnn_mode == "lstm"),
            f"num_proj must be 0, or for lstm in [0, num_units], got {self}",
        )
        _require(
            self.input_mode != "skip_input" or self.input_size == self.num_units,
            f"skip_input needs input_size == num_units, got {self}",
        )
        _require(0.0 <= self.dropout <= 1.0, f"dropout must be in [0, 1], got {self}")

    def layout_options(self) -> dict:
        """Those that say where weights lie, as ops on `params` take them."""
        names = ("num_layers", "num_units", "input_size")
        names += ("rnn_mode", "direction", "input_mode", "num_proj")
        return {name: getattr(self, name) for name in names}

    @property
    def L(self) -> int:
        return self.num_layers

    @property
    def H(self) -> int:
        return self.num_units

    @property
    def I(self) -> int:
        return self.input_size

    @property
    def D(self) -> int:
        return {"unidirectional": 1, "bidirectional": 2}[self.direction]

    @property
    def G(self) -> int:
        return {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}[self.rnn_mode]

    @property
    def P(self) -> int:
        return self.num_proj if self.has_projection else self.num_units

    @property
    def has_projection(self) -> bool:
        """A projection to the same size is no projection, as in cuDNN."""
        return self.num_proj not in (0, self.num_units)

    @property
    def skip(self) -> bool:
        """Whether layer 0 adds its input to every gate instead of W x."""
        if self.input_mode == "auto_select":
            return self.input_size == self.num_units
        return self.input_mode == "skip_input"

    @property
    def dropout_rate(self) -> float:
        """`dropout` as the op sees it: a float attribute, so rounded to float32."""
        return float(np.float32(self.dropout))

    def layer_input_size(self, layer: int) -> int:
        """Features that `layer` reads: I, or D*P from the layer below."""
        return self.I if layer == 0 else self.D * self.P

    def skips_input(self, layer: int) -> bool:
        return self.skip and layer == 0


# ---------------------------------------------------------------------------------
# Layout of `params`
# ---------------------------------------------------------------------------------


class PseudoLayer(NamedTuple):
    """The weights of one layer and direction (or, alike, their gradients)."""

    W: np.ndarray  # [G, H, in]  in = layer_input_size(layer), 0 with skip input
    R: np.ndarray  # [G, H, P]
    projection: np.ndarray | None  # [P, H], None without projection
    bW: np.ndarray  # [G, H]
    bR: np.ndarray  # [G, H]


def _matrix_columns(config: Config, layer: int) -> int:
    """Columns of the W of `layer` as stored in `params`."""
    return 0 if config.skips_input(layer) else config.layer_input_size(layer)


def params_size(config: Config) -> int:
    """Number of elements of `params`."""
    G, H, P = config.G, config.H, config.P
    size = 0
    for layer in range(config.L):
        for _ in range(config.D):
            size += G * H * _matrix_columns(config, layer)  # W
            size += G * H * P  # R
            size += P * H if config.has_projection else 0
            size += 2 * G * H  # bW, bR
    return size


def split_params(config: Config, params: np.ndarray) -> list[PseudoLayer]:
    """Splits a vector `params` [N] into views, one PseudoLayer for each k.

    cuDNN's order without any padding: first the matrices of every pseudo-layer
    (W of each gate, R of each gate, projection), then the biases of every
    pseudo-layer (bW of each gate, bR of each gate). Matrices are row-major, a row
    for each output unit.

    The results are views: writing to them writes to `params`.
    """
    params = np.asarray(params)
    _require(
        params.shape == (params_size(config),),
        f"params must have shape [{params_size(config)}], got {params.shape}",
    )
    G, H, P = config.G, config.H, config.P
    offset = 0

    def take(*shape: int) -> np.ndarray:
        nonlocal offset
        size = int(np.prod(shape))
        view = params[offset : offset + size].reshape(shape)
        offset += size
        return view

    matrices = []
    for layer in range(config.L):
        for _ in range(config.D):
            W = take(G, H, _matrix_columns(config, layer))
            R = take(G, H, P)
            projection = take(P, H) if config.has_projection else None
            matrices.append((W, R, projection))

    pseudo_layers = []
    for W, R, projection in matrices:
        bW = take(G, H)
        bR = take(G, H)
        pseudo_layers.append(PseudoLayer(W, R, projection, bW, bR))
    _require(offset == params.size, "the layout does not cover params")
    return pseudo_layers


def canonical(config: Config, params: np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Returns `params` as the lists (weights, biases) of CudnnRNNParamsToCanonical.

    For each pseudo-layer, weights: G times W_g [H, in], G times R_g [H, P], then the
    projection [P, H] if there is one; biases: G times bW_g [H], G times bR_g [H].
    With skip input the W_g of layer 0 are [H, 0].
    """
    weights, biases = [], []
    for w in split_params(config, params):
        weights.extend(w.W[g].copy() for g in range(config.G))
        weights.extend(w.R[g].copy() for g in range(config.G))
        if w.projection is not None:
            weights.append(w.projection.copy())
        biases.extend(w.bW[g].copy() for g in range(config.G))
        biases.extend(w.bR[g].copy() for g in range(config.G))
    return weights, biases


def from_canonical(
    config: Config, weights: list[np.ndarray], biases: list[np.ndarray]
) -> np.ndarray:
    """The inverse of `canonical`: returns `params` [N]."""
    G, H = config.G, config.H
    params = np.zeros(params_size(config), dtype=np.asarray(weights[0]).dtype)
    weights, biases = list(weights), list(biases)
    for w in split_params(config, params):
        for g in range(G):
            w.W[g] = np.reshape(weights.pop(0), w.W[g].shape)
        for g in range(G):
            w.R[g] = np.reshape(weights.pop(0), w.R[g].shape)
        if w.projection is not None:
            w.projection[:] = np.reshape(weights.pop(0), w.projection.shape)
        for g in range(G):
            w.bW[g] = np.reshape(biases.pop(0), [H])
        for g in range(G):
            w.bR[g] = np.reshape(biases.pop(0), [H])
    _require(not weights and not biases, "too many canonical weights or biases")
    return params


# ---------------------------------------------------------------------------------
# Dropout
# ---------------------------------------------------------------------------------


def philox4x32_10(counter, key) -> np.ndarray:
    """Philox4x32-10 (Salmon et al., Parallel random numbers: as easy as 1, 2, 3).

    Args:
      counter: four counter words; numbers, or arrays that broadcast together.
      key: two key words, numbers.

    Returns:
      The four output words, uint32 [4, ...].
    """
    mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    c0, c1, c2, c3 = np.broadcast_arrays(*(np.asarray(c, np.uint64) for c in counter))
    k0, k1 = (int(k) for k in key)
    for _ in range(10):
        product0 = np.uint64(0xD2511F53) * c0  # 32 x 32 bits: fits in 64
        product1 = np.uint64(0xCD9E8D57) * c2
        high0, low0 = product0 >> shift, product0 & mask
        high1, low1 = product1 >> shift, product1 & mask
        c0 = high1 ^ c1 ^ np.uint64(k0)
        c1 = low1
        c2 = high0 ^ c3 ^ np.uint64(k1)
        c3 = low0
        k0 = (k0 + 0x9E3779B9) & 0xFFFFFFFF
        k1 = (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3]).astype(np.uint32)


def dropout_mask(config: Config, layer: int, T: int, B: int, key: int) -> np.ndarray:
    """Factors [T, B, D*P] that dropout applies to the output of `layer`.

    Element (t, b, j) is dropped iff its random word is below
    floor(dropout * 2^32); it is then 0, and 1 / (1 - dropout) otherwise. The word is
    word j % 4 of Philox4x32-10 at counter (j / 4, b, t, layer); key word 0 is the low
    half of the 64-bit `key`. So an element depends on its place and the key only.

    The mask is time-major for both layouts.
    """
    rate = config.dropout_rate
    t, b, j = np.indices((T, B, config.D * config.P))
    words = philox4x32_10((j // 4, b, t, layer), (key & 0xFFFFFFFF, key >> 32))
    word = np.choose(j % 4, words)
    keep = word.astype(np.uint64) >= np.uint64(int(rate * 2.0**32))
    scale = 1.0 / (1.0 - rate) if rate < 1.0 else 0.0
    return np.where(keep, scale, 0.0)


def seed64(seed: int, seed2: int) -> int:
    """The 64-bit seed of the attributes `seed` and `seed2`, both int32.

    As in TensorFlow, a negative `seed2` is sign-extended and so overwrites `seed`.
    """
    return ((seed << 32) & _UINT64) | (seed2 & _UINT64)


def builtin_key(seed: int, seed2: int, call: int = 0) -> int:
    """The dropout key of a built-in op.

    Args:
      seed, seed2: the op's attributes.
      call: training calls that the same kernel instance has served before.
    """
    return (seed64(seed, seed2) + call * 0x9E3779B97F4A7C15) & _UINT64


def own_key(rng_seed) -> int:
    """The dropout key of this library's own ops, from `rng_seed` [2] (64-bit)."""
    first, second = (int(s) & _UINT64 for s in rng_seed)
    return first ^ (((second << 32) | (second >> 32)) & _UINT64)


# ---------------------------------------------------------------------------------
# One step of one pseudo-layer, for n batch rows
# ---------------------------------------------------------------------------------


def _sigmoid(a: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(0.0, -a))  # 1 / (1 + exp(-a)) without overflow


class _Step(NamedTuple):
    """What the backward pass needs of a step."""

    t: int
    rows: np.ndarray  # [n]  batch rows for which t is not padding
    x: np.ndarray  # [n, in]
    h: np.ndarray  # [n, P]  before the step
    c: np.ndarray  # [n, H]  before the step
    from_h: np.ndarray  # [G, n, H]  R h + bR
    gates: np.ndarray  # [G, n, H]  activations
    c_next: np.ndarray  # [n, H]


def _step_forward(
    config: Config, skip: bool, w: PseudoLayer, t: int, rows, x, h, c
) -> tuple[np.ndarray, np.ndarray, _Step]:
    """Returns h [n, P] and c [n, H] after the step, and its record.

    The equations of the cuDNN documentation (cudnnRNNMode_t), with two biases:

      rnn   h' = act(W x + bW + R h + bR)
      lstm  i, f, o = sigmoid(W x + bW + R h + bR), g = tanh(likewise)
            c' = f c + i g,  m = o tanh(c'),  h' = m or projection m
      gru   r, z = sigmoid(W x + bW + R h + bR)
            n = tanh(W_n x + bW_n + r (R_n h + bR_n)),  h' = (1 - z) n + z h
    """
    # The two halves of each gate's pre-activation.
    from_x = np.stack([(x if skip else x @ w.W[g].T) + w.bW[g] for g in range(config.G)])
    from_h = np.stack([h @ w.R[g].T + w.bR[g] for g in range(config.G)])
    gates = np.zeros_like(from_x)
    c_next = c

    if config.rnn_mode == "rnn_relu":
        gates[0] = np.maximum(from_x[0] + from_h[0], 0.0)
        h_next = gates[0]
    elif config.rnn_mode == "rnn_tanh":
        gates[0] = np.tanh(from_x[0] + from_h[0])
        h_next = gates[0]
    elif config.rnn_mode == "lstm":
        gates[INPUT] = _sigmoid(from_x[INPUT] + from_h[INPUT])
        gates[FORGET] = _sigmoid(from_x[FORGET] + from_h[FORGET])
        gates[CELL] = np.tanh(from_x[CELL] + from_h[CELL])
        gates[OUTPUT] = _sigmoid(from_x[OUTPUT] + from_h[OUTPUT])
        c_next = gates[FORGET] * c + gates[INPUT] * gates[CELL]
        h_next = gates[OUTPUT] * np.tanh(c_next)
        if w.projection is not None:
            h_next = h_next @ w.projection.T
    else:
        gates[RESET] = _sigmoid(from_x[RESET] + from_h[RESET])
        gates[UPDATE] = _sigmoid(from_x[UPDATE] + from_h[UPDATE])
        gates[NEW] = np.tanh(from_x[NEW] + gates[RESET] * from_h[NEW])
        h_next = (1.0 - gates[UPDATE]) * gates[NEW] + gates[UPDATE] * h

    return h_next, c_next, _Step(t, rows, x, h, c, from_h, gates, c_next)


def _step_backward(
    config: Config,
    skip: bool,
    w: PseudoLayer,
    dw: PseudoLayer,
    step: _Step,
    dh_next: np.ndarray,
    dc_next: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Derivative of `_step_forward`: adds to `dw`, returns dx, dh, dc of the step.

    `dh_next` [n, P] and `dc_next` [n, H] belong to the state after the step.
    """
    x, h, c, gates = step.x, step.h, step.c, step.gates
    # Of the two halves of each gate's pre-activation, [G, n, H].
    dfrom_x = np.zeros_like(gates)
    dfrom_h = np.zeros_like(gates)
    dh = np.zeros_like(h)
    dc = dc_next

    if config.rnn_mode == "rnn_relu":
        dfrom_x[0] = np.where(gates[0] > 0.0, dh_next, 0.0)  # relu'(0) = 0, even of infinities
        dfrom_h[0] = dfrom_x[0]
    elif config.rnn_mode == "rnn_tanh":
        dfrom_x[0] = dh_next * (1.0 - gates[0] ** 2)
        dfrom_h[0] = dfrom_x[0]
    elif config.rnn_mode == "lstm":
        i, f, g, o = gates[INPUT], gates[FORGET], gates[CELL], gates[OUTPUT]
        tanh_c = np.tanh(step.c_next)
        dm = dh_next
        if w.projection is not None:
            dw.projection[:] += dh_next.T @ (o * tanh_c)
            dm = dh_next @ w.projection
        dc_next = dc_next + dm * o * (1.0 - tanh_c**2)
        dfrom_x[INPUT] = dc_next * g * i * (1.0 - i)
        dfrom_x[FORGET] = dc_next * c * f * (1.0 - f)
        dfrom_x[CELL] = dc_next * i * (1.0 - g**2)
        dfrom_x[OUTPUT] = dm * tanh_c * o * (1.0 - o)
        dfrom_h[:] = dfrom_x
        dc = dc_next * f
    else:
        r, z, n = gates[RESET], gates[UPDATE], gates[NEW]
        da_n = dh_next * (1.0 - z) * (1.0 - n**2)
        dfrom_x[RESET] = da_n * step.from_h[NEW] * r * (1.0 - r)
        dfrom_x[UPDATE] = dh_next * (h - n) * z * (1.0 - z)
        dfrom_x[NEW] = da_n
        dfrom_h[RESET] = dfrom_x[RESET]
        dfrom_h[UPDATE] = dfrom_x[UPDATE]
        dfrom_h[NEW] = da_n * r
        dh = dh_next * z

    dx = np.zeros_like(x)
    for gate in range(config.G):
        if skip:
            dx = dx + dfrom_x[gate]
        else:
            dx = dx + dfrom_x[gate] @ w.W[gate]
            dw.W[gate] += dfrom_x[gate].T @ x
        dh = dh + dfrom_h[gate] @ w.R[gate]
        dw.R[gate] += dfrom_h[gate].T @ h
        dw.bW[gate] += dfrom_x[gate].sum(axis=0)
        dw.bR[gate] += dfrom_h[gate].sum(axis=0)
    return dx, dh, dc


# ---------------------------------------------------------------------------------
# All layers, directions and steps
# ---------------------------------------------------------------------------------


class Forward(NamedTuple):
    """Results of `forward`; shapes at the top of this file."""

    y: np.ndarray
    h_n: np.ndarray
    c_n: np.ndarray  # rank 0 for modes other than lstm
    tape: Any  # for `backward` only


class Gradients(NamedTuple):
    """Results of `backward`: each has the shape of the tensor it belongs to."""

    dx: np.ndarray
    dh0: np.ndarray
    dc0: np.ndarray  # zeros for modes other than lstm
    dparams: np.ndarray


class _Tape(NamedTuple):
    params: np.ndarray  # [N]
    c0_shape: tuple[int, ...]  # as given
    T: int
    B: int
    steps: list[list[_Step]]  # [L*D] times the steps in the order they were taken
    masks: list[np.ndarray | None]  # [L]  factors on the output of each layer


def _swap_layout(config: Config, tensor: np.ndarray) -> np.ndarray:
    """Converts between the layout of `config` and time-major, either way."""
    return tensor if config.time_major else np.swapaxes(tensor, 0, 1)


def forward(
    config: Config,
    x,
    h0,
    c0,
    params,
    sequence_lengths=None,
    key: int | None = None,
) -> Forward:
    """Runs the network; shapes at the top of this file.

    Steps at or past a row's length are padding: x is not read there, y is zero, and
    the states stay as they are. So the backward direction begins at the last valid
    step, and a row of length 0 keeps its initial states.

    Args:
      c0: read for lstm only; for other modes anything of any shape.
      sequence_lengths: [B], each in [0, T]; None stands for T everywhere.
      key: 64-bit dropout key of a training call; None is inference, without dropout.
    """
    x = _swap_layout(config, np.asarray(x, np.float64))
    h0 = _swap_layout(config, np.asarray(h0, np.float64))
    c0_shape = np.shape(c0)
    params = np.array(params, np.float64)
    _require(
        x.ndim == 3 and x.shape[2] == config.I,
        f"x must have {config.I} features, got shape {x.shape} (time-major)",
    )
    T, B, _ = x.shape
    L, D, H, P = config.L, config.D, config.H, config.P
    _require(
        h0.shape == (L * D, B, P),
        f"h0 must have shape {(L * D, B, P)}, got {h0.shape} (time-major)",
    )
    if config.rnn_mode == "lstm":
        c0 = _swap_layout(config, np.asarray(c0, np.float64))
        _require(
            c0.shape == (L * D, B, H),
            f"c0 must have shape {(L * D, B, H)}, got {c0.shape} (time-major)",
        )
    else:
        c0 = np.zeros([L * D, B, H])
    lengths = np.full([B], T) if sequence_lengths is None else sequence_lengths
    lengths = np.asarray(lengths, np.int64)
    _require(
        lengths.shape == (B,) and bool(np.all((0 <= lengths) & (lengths <= T))),
        f"sequence_lengths must be {B} numbers in [0, {T}], got {lengths}",
    )

    weights = split_params(config, params)
    h_n = np.zeros_like(h0)
    c_n = np.zeros_like(c0)
    steps: list[list[_Step]] = []
    masks: list[np.ndarray | None] = []
    layer_input = x
    y = np.zeros([T, B, D * P])
    for layer in range(L):
        y = np.zeros([T, B, D * P])
        for direction in range(D):
            k = layer * D + direction
            h, c = h0[k].copy(), c0[k].copy()
            features = slice(direction * P, (direction + 1) * P)
            steps.append([])
            for t in range(T) if direction == 0 else reversed(range(T)):
                rows = np.flatnonzero(t < lengths)
                h[rows], c[rows], step = _step_forward(
                    config,
                    config.skips_input(layer),
                    weights[k],
                    t,
                    rows,
                    layer_input[t, rows],
                    h[rows],
                    c[rows],
                )
                y[t, rows, features] = h[rows]
                steps[k].append(step)
            h_n[k], c_n[k] = h, c

        drops = key is not None and config.dropout_rate > 0.0 and layer < L - 1
        masks.append(dropout_mask(config, layer, T, B, key) if drops else None)
        layer_input = y * masks[layer] if drops else y

    return Forward(
        y=_swap_layout(config, y),
        h_n=_swap_layout(config, h_n),
        c_n=_swap_layout(config, c_n) if config.rnn_mode == "lstm" else np.zeros([]),
        tape=_Tape(params, c0_shape, T, B, steps, masks),
    )


def backward(config: Config, tape, dy, dh_n, dc_n=None) -> Gradients:
    """Backpropagation through time, the derivative of `forward` step by step.

    Args:
      tape: of the `forward` call with the same `config`.
      dy: gradient of y; not read at padding.
      dh_n: gradient of h_n.
      dc_n: gradient of c_n; read for lstm only.
    """
    T, B = tape.T, tape.B
    L, D, H, P = config.L, config.D, config.H, config.P
    lstm = config.rnn_mode == "lstm"
    dy = _swap_layout(config, np.asarray(dy, np.float64))
    dh_n = _swap_layout(config, np.asarray(dh_n, np.float64))
    _require(dy.shape == (T, B, D * P), f"dy has shape {dy.shape} (time-major)")
    _require(dh_n.shape == (L * D, B, P), f"dh_n has shape {dh_n.shape} (time-major)")
    if lstm:
        dc_n = _swap_layout(config, np.asarray(dc_n, np.float64))
        _require(dc_n.shape == (L * D, B, H), f"dc_n has shape {dc_n.shape} (time-major)")
    else:
        dc_n = np.zeros([L * D, B, H])

    dparams = np.zeros_like(tape.params)
    weights = split_params(config, tape.params)
    dweights = split_params(config, dparams)
    dh0 = np.zeros_like(dh_n)
    dc0 = np.zeros_like(dc_n)
    dlayer_output = dy
    for layer in reversed(range(L)):
        if tape.masks[layer] is not None:
            dlayer_output = dlayer_output * tape.masks[layer]
        dlayer_input = np.zeros([T, B, config.layer_input_size(layer)])
        for direction in range(D):
            k = layer * D + direction
            dh, dc = dh_n[k].copy(), dc_n[k].copy()
            features = slice(direction * P, (direction + 1) * P)
            for step in reversed(tape.steps[k]):
                t, rows = step.t, step.rows
                dx_step, dh[rows], dc[rows] = _step_backward(
                    config,
                    config.skips_input(layer),
                    weights[k],
                    dweights[k],
                    step,
                    dh[rows] + dlayer_output[t, rows, features],
                    dc[rows],
                )
                dlayer_input[t, rows] += dx_step
            dh0[k], dc0[k] = dh, dc
        dlayer_output = dlayer_input

    return Gradients(
        dx=_swap_layout(config, dlayer_output),
        dh0=_swap_layout(config, dh0),
        dc0=_swap_layout(config, dc0) if lstm else np.zeros(tape.c0_shape),
        dparams=dparams,
    )
