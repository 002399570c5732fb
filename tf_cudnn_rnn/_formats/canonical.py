"""The form that every format is converted to and from.

A format is read into cells, one for each layer and direction, and written from them.
The letters are those of `_layout`; G is the number of gates.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, Layout, ParamName
from tf_cudnn_rnn._types import Array, Named, Of, RnnMode

# A layer's number in a name of a file. Other spellings of a number would be other names of it.
INDEX = r"(?:0|[1-9][0-9]{0,8})"

OF = get_args(Of)


def split(params: ArrayLike, layout: Layout) -> list[tuple[ParamName, Array]]:
    """Takes `params` [N] apart: (name, copy of the values) pairs in its order."""
    params = np.asarray(params)
    if params.shape != (layout.size,):
        raise ValueError(
            f"`params` must have shape [{layout.size}] for {layout}; got {list(params.shape)}."
        )
    return [
        (region.name, params[region.offset :][: region.size].reshape(region.shape).copy())
        for region in layout.regions
    ]


def checked(named: Named[ParamName, ArrayLike], layout: Layout) -> list[Array]:
    """Returns the arrays of `named` in the order of `params`, of one dtype, shapes checked."""
    arrays = [np.asarray(array) for array in layout.in_order(named)]
    dtypes = {array.dtype for array in arrays}
    if len(dtypes) > 1:
        names = listed(sorted(map(str, dtypes)))
        raise ValueError(f"All arrays in `named` must have one dtype; got {names}.")
    for region, array in zip(layout.regions, arrays, strict=True):
        if array.shape != region.shape:
            raise layout.wrong_shape(region, array.shape)
    return arrays


def join(arrays: Sequence[Array]) -> Array:
    """The inverse of `split`, for arrays in the order of `params`."""
    return np.concatenate([array.ravel() for array in arrays])


@dataclasses.dataclass(frozen=True, eq=False)
class Canonical:
    """All weights of a network, by name: what every `from_*` returns and every `to_*` takes.

    Attributes:
      layout: the network; its fields go by the ops' names.
      named: a mapping from each ParamName of the network to its array, in the order of
        `params`. (name, array) pairs in any order will do for the constructor.
      of: "weights", or "gradients" for gradients and what an optimiser keeps of them (Adam's
        and RMSprop's moments, momentum). Arrays of either kind lie in the same places, but
        where a format adds two biases up, each has the gradient of the sum; and constants
        such as TF1's forget bias have none.
      notes: what the reader had to assume or could not keep; empty if nothing.
    """

    layout: Layout
    named: Mapping[ParamName, Array]
    of: Of = "weights"
    notes: tuple[str, ...] = ()

    if TYPE_CHECKING:  # the constructor takes pairs, too

        def __init__(
            self,
            layout: Layout,
            named: Named[ParamName, ArrayLike],
            of: Of = "weights",
            notes: tuple[str, ...] = (),
        ) -> None: ...

    def __post_init__(self) -> None:
        check_of(self.of)
        arrays = checked(self.named, self.layout)
        names = [region.name for region in self.layout.regions]
        check_dtypes({str(names[0]): arrays[0]})  # all have the same
        object.__setattr__(self, "named", dict(zip(names, arrays, strict=True)))

    @property
    def params(self) -> Array:
        """The ops' vector [N], a copy."""
        return join(list(self.named.values()))

    @property
    def dtype(self) -> np.dtype:
        """That of all arrays."""
        return next(iter(self.named.values())).dtype

    def __repr__(self) -> str:
        return f"<Canonical {self.of} {self.dtype} {self.layout}>"


class Exported(NamedTuple):
    """What every `to_*` returns.

    Attributes:
      arrays: the weights as the other library stores them.
      notes: what could not be kept, one sentence each; empty if reading `arrays` back
        returns every bit.
    """

    arrays: Any
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        arrays = type(self.arrays).__name__
        if isinstance(self.arrays, Mapping | list | tuple):
            arrays += f" of {len(self.arrays)}"
        return f"<Exported {arrays}, notes={self.notes!r}>"


class Cell(NamedTuple):
    """One direction of one layer; gates in the order of `GATES`."""

    W: Array  # [G, H, in]
    R: Array  # [G, H, P]
    bW: Array  # [G, H]
    bR: Array  # [G, H]
    projection: Array | None = None  # [P, H]


# ------------------------------------------------------------------------------------
# Checks that readers share
# ------------------------------------------------------------------------------------


def listed(names: Iterable[str], limit: int = 8) -> str:
    """The first of `names`, for a message; "" if there are none.

    Args:
      names: may be many, or from a file; only the first are asked for.
      limit: how many are shown.
    """
    first = list(itertools.islice(names, limit + 1))
    more = ["..."] if len(first) > limit else []
    return ", ".join([*map(untrusted.shown, first[:limit]), *more])


def check_canonical(canonical: Any) -> None:
    """Raises TypeError unless `canonical` is one."""
    if not isinstance(canonical, Canonical):
        raise TypeError(
            f"`canonical` must be a weights.Canonical; got {type(canonical).__name__}. "
            "The `from_*` functions make one, `from_cudnn` from the ops' params."
        )


def check_of(of: str) -> None:
    """Raises ValueError unless `of` is known."""
    if of not in OF:
        raise ValueError(f"`of` must be one of {', '.join(OF)}; got {of!r}.")


def check_mode(rnn_mode: str) -> int:
    """Returns G of a known `rnn_mode`."""
    if rnn_mode not in GATES:
        raise ValueError(f"`rnn_mode` must be one of {', '.join(GATES)}; got {rnn_mode!r}.")
    return len(GATES[rnn_mode])


def check_direction(direction: str) -> int:
    """Returns D of a known `direction`."""
    if direction not in DIRECTIONS:
        raise ValueError(f"`direction` must be one of {', '.join(DIRECTIONS)}; got {direction!r}.")
    return len(DIRECTIONS[direction])


def gate_letters(G: int, size: str = "H") -> str:
    """Returns "4H" for 4 gates, "H" for one."""
    return size if G == 1 else f"{G}{size}"


def guess_mode(gates: int) -> str:
    """Says which networks have so many gates."""
    return {1: "a simple RNN", 3: "a GRU", 4: "an LSTM"}.get(gates, "none known here")


def wrong_gates(
    name: str, letters: str, shape: Sequence[int], rnn_mode: str, rows_first: bool
) -> ValueError:
    """The error for a recurrent kernel whose shape is not that of `rnn_mode`.

    Args:
      letters: the shape that it should have, such as "[H, 4H]".
      rows_first: whether the gates lie in the first of the last two axes.
    """
    hint = ""
    if len(shape) >= 2 and min(shape[-2:]) > 0:
        gates, units = shape[-2:] if rows_first else shape[:-3:-1]
        if gates % units == 0 and gates // units in (1, 3, 4):
            hint = f" {gates // units} gates make {guess_mode(gates // units)}."
        elif units % gates == 0 and units // gates in (3, 4):
            hint = " That is the transpose of " + guess_mode(units // gates) + "'s."
    return ValueError(
        f"`{name}` must have shape {letters} for `rnn_mode` {rnn_mode}; got {list(shape)}.{hint}"
    )


def check_shape(
    name: str, array: Array, letters: str, expected: Sequence[int], hint: str = ""
) -> None:
    """Raises ValueError if `array` does not have the shape that `letters` spell; -1 is any."""
    if array.shape != tuple(expected):
        if not hint and array.shape[::-1] == tuple(expected):
            hint = " It is transposed: is this another library's?"
        sizes = ", ".join("any" if size < 0 else str(size) for size in expected)
        raise ValueError(
            f"`{name}` must have shape {letters} = [{sizes}]; got {list(array.shape)}.{hint}"
        )


def is_of_ops(dtype: np.dtype) -> bool:
    """Whether the ops have a type: floats of at most 8 bytes, and ml_dtypes' bfloat16."""
    # Which is of kind V; and NumPy's longdouble is wider than any type of the ops.
    return (dtype.kind == "f" and dtype.itemsize <= 8) or dtype.name == "bfloat16"


def check_dtypes(arrays: Mapping[str, Any]) -> np.dtype:
    """Returns the one dtype, a floating-point one, of all arrays, or of their headers."""
    dtypes = {array.dtype: name for name, array in arrays.items()}
    if len(dtypes) > 1:
        found = listed(f"{dtype} (`{name}`)" for dtype, name in dtypes.items())
        raise ValueError(f"All arrays must have one dtype; got {found}.")
    ((dtype, name),) = dtypes.items()
    if not is_of_ops(dtype):
        raise ValueError(
            f"The arrays must have a floating-point dtype; got {untrusted.shown(str(dtype))}. The "
            f"ops have float16, bfloat16, float32 and float64 (`{untrusted.shown(name)}`)."
        )
    return dtype


# ------------------------------------------------------------------------------------
# Gates and biases
# ------------------------------------------------------------------------------------


def from_order(blocks: Array, order: Sequence[str], rnn_mode: str) -> Array:
    """Puts blocks [G, ...] that lie in a format's `order` of gates into that of `GATES`."""
    return blocks[[order.index(gate) for gate in GATES[rnn_mode]]]


def to_order(blocks: Array, order: Sequence[str], rnn_mode: str) -> Array:
    """The inverse of `from_order`."""
    return blocks[[GATES[rnn_mode].index(gate) for gate in order]]


def split_bias(bias: Array, of: str) -> tuple[Array, Array]:
    """Returns bW and bR for a format that keeps their sum.

    The sum goes into bR, so that it comes back to the bit. Its gradient is that of both.
    """
    return (np.zeros_like(bias) if of == "weights" else bias.copy()), bias


def merge_biases(bW: Array, bR: Array, of: str) -> Array:
    """The inverse of `split_bias`: the sum, or the gradient that both have."""
    if of == "weights":
        # Without arithmetic where it would change bits only: -0 + 0 is 0.
        return np.where(bW == 0, bR, np.where(bR == 0, bW, bW + bR))
    half = bW.dtype.type(0.5)
    return np.where(bW == bR, bW, half * bW + half * bR)


def merge_notes(
    cells: Sequence[Sequence[Cell]], what: str, of: str, gates: slice = slice(None)
) -> tuple[str, ...]:
    """Notes on what `merge_biases` loses for these gates of `cells`; `what` keeps one bias."""
    flat = [cell for layer in cells for cell in layer]
    if of == "weights":
        if any(np.any(cell.bW[gates] != 0) for cell in flat):
            return (
                f"Biases were added up, input_bias + recurrent_bias: {what} keeps one for both. "
                "Reading it back gives the sum as recurrent_bias.",
            )
    elif any(np.any(cell.bW[gates] != cell.bR[gates]) for cell in flat):
        return (
            f"{what} keeps one bias for two, whose gradients should be equal; they are not, and "
            "their mean was taken.",
        )
    return ()


# ------------------------------------------------------------------------------------
# Cells
# ------------------------------------------------------------------------------------


def from_cells(
    rnn_mode: RnnMode, cells: Sequence[Sequence[Cell]], of: Of, notes: Sequence[str] = ()
) -> Canonical:
    """Names the weights of `cells` [L][D]. Readers have checked all shapes."""
    untrusted.check_layers(len(cells), "The network")
    first = cells[0][0]
    num_proj = 0 if first.projection is None else first.projection.shape[0]
    layout = Layout(
        rnn_mode,
        num_layers=len(cells),
        num_units=first.W.shape[1],
        input_size=first.W.shape[2],
        direction="bidirectional" if len(cells[0]) == 2 else "unidirectional",
        num_proj=num_proj,
    )
    named = {}
    for layer, directions in enumerate(cells):
        for direction, cell in zip(DIRECTIONS[layout.direction], directions, strict=True):
            for kind, blocks in (
                ("input_kernel", cell.W),
                ("recurrent_kernel", cell.R),
                ("input_bias", cell.bW),
                ("recurrent_bias", cell.bR),
            ):
                for gate, block in zip(GATES[rnn_mode], blocks, strict=True):
                    named[ParamName(layer, direction, gate, kind)] = np.array(block, order="C")
            if cell.projection is not None:
                name = ParamName(layer, direction, "", "projection")
                named[name] = np.array(cell.projection, order="C")
    return Canonical(layout, named, of, tuple(notes))


def to_cells(
    canonical: Canonical, what: str, projection: str = ""
) -> tuple[list[list[Cell]], tuple[str, ...]]:
    """Returns the cells [L][D] of `canonical`, and notes.

    Skipped input products become products with the identity: no other format skips.

    Args:
      what: the format, for messages.
      projection: why it has no projection and what to do; empty if it has.
    """
    check_canonical(canonical)
    layout = canonical.layout
    if layout.has_projection and projection:
        raise ValueError(
            f"{what} cannot hold `num_proj` = {layout.num_proj} of {layout}: {projection}"
        )
    notes: tuple[str, ...] = ()
    cells: list[list[Cell]] = []
    for layer in range(layout.num_layers):
        cells.append([])
        for direction in DIRECTIONS[layout.direction]:

            def stack(kind: str, layer: int = layer, direction: str = direction) -> Array:
                gates = GATES[layout.rnn_mode]
                return np.stack(
                    [canonical.named[ParamName(layer, direction, gate, kind)] for gate in gates]
                )

            W = stack("input_kernel")
            if layer == 0 and layout.skips_input:
                H = layout.num_units
                kernel = np.eye(H) if canonical.of == "weights" else np.zeros([H, H])
                W = np.broadcast_to(kernel.astype(canonical.dtype), (W.shape[0], H, H))
                filled = "identity matrices" if canonical.of == "weights" else "zeros"
                notes = (
                    f"{what} cannot skip the input product: its first input kernels are {filled}, "
                    "and training would change them.",
                )
            name = ParamName(layer, direction, "", "projection")
            cells[-1].append(
                Cell(
                    W,
                    stack("recurrent_kernel"),
                    stack("input_bias"),
                    stack("recurrent_bias"),
                    canonical.named.get(name),
                )
            )
    return cells, notes


def check_no_bias(cells: Sequence[Sequence[Cell]], option: str) -> None:
    """Raises ValueError if a bias is not zero and yet `option` leaves it out."""
    for layer, directions in enumerate(cells):
        for cell in directions:
            if np.any(cell.bW != 0) or np.any(cell.bR != 0):
                raise ValueError(
                    f"`{option}` must be True: layer {layer} has biases other than zero, which "
                    "would be lost."
                )


NO_BIAS = "There are no biases; they were taken to be zero."


def convert_slots(
    slots: Mapping[str, Any],
    read: Callable[..., Canonical],
    write: Callable[[Canonical], Exported],
) -> dict[str, Exported]:
    """Takes what an optimiser keeps for the weights from one format to another.

    Moments of gradients lie where their weights lie, so the map is that of the weights, with
    one exception: where a format has one bias for two, both have the gradient of their sum. So
    it is copied to both, or taken once, and not halved or added up. Note that two biases that
    train move their sum twice as far in a step of Adam as one would.

    Args:
      slots: from names ("m", "v", "velocity", ...) to arrays as `read` takes them. Every slot
        must be computed from gradients, element by element, as those of SGD with momentum,
        Adam, AMSGrad, Adagrad, Adadelta and RMSprop are. An average of weights is not a slot
        in this sense: convert it like weights.
      read: such as `functools.partial(weights.from_keras, rnn_mode="lstm")`; called with
        `of="gradients"` besides.
      write: such as `weights.to_torch`.

    Returns:
      The same names, with what `write` returned.

    Raises:
      ValueError, TypeError: those of `read` and `write`.
    """
    return {name: write(read(arrays, of="gradients")) for name, arrays in slots.items()}
