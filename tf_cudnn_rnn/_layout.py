"""Where every weight lies in `params`: names, shapes and offsets.

The only other statement of this layout is network/params_layout.h; a test
compares the two. Plain Python, so that it works without TensorFlow.

The letters of this package's docstrings:

  T  time steps       B  batch            I  input features, `input_size`
  H  hidden units     P  features of h: `num_proj` if the LSTM projects, else H
  L  layers           D  directions, 1 or 2
  k  pseudo-layer, k = layer * D + direction; direction 0 is forward
  N  number of elements of `params`
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import operator
import reprlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from tf_cudnn_rnn._types import Direction, InputMode, Named, RnnMode

# In cuDNN's order. A simple RNN has one gate, which needs no name.
GATES = {
    "rnn_relu": ("",),
    "rnn_tanh": ("",),
    "lstm": ("input", "forget", "cell", "output"),
    "gru": ("reset", "update", "new"),
}
DIRECTIONS = {
    "unidirectional": ("forward",),
    "bidirectional": ("forward", "backward"),
}
INPUT_MODES = ("linear_input", "skip_input", "auto_select")
_MANY = 10_000  # weights of a network


class ParamName(NamedTuple):
    """Says which weight of a network a matrix or vector is.

    Attributes:
      layer: from 0.
      direction: "forward" or "backward".
      gate: "input", "forget", "cell" or "output" of an LSTM; "reset", "update" or
        "new" of a GRU; "" for a simple RNN and for a projection.
      kind: one of "input_kernel" [H, in], "recurrent_kernel" [H, P],
        "projection" [P, H], "input_bias" [H] and "recurrent_bias" [H]. A kernel
        multiplies from the left, y = kernel x; `in` is I in layer 0 (0 if the layer
        skips the input product) and D*P above it.
    """

    layer: int
    direction: str
    gate: str
    kind: str

    def __str__(self) -> str:
        gate = [self.gate] if self.gate else []
        return "/".join([f"layer_{self.layer}", self.direction, *gate, self.kind])


class Region(NamedTuple):
    """The elements of `params` that hold one weight, row after row."""

    name: ParamName
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


SIZE_LIMIT = 2**31  # the ops take 32-bit integers


def integer(option: str, value: Any) -> int:
    """Returns `value` as a Python int; a TypeError names the option otherwise."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(f"`{option}` must be an integer; got {value!r}.") from None


def _shown_item(pair: Any) -> str:
    """What stands for a pair of a name and its value, for a message."""
    if isinstance(pair, tuple) and len(pair) == 2:
        return f"a value named {reprlib.repr(pair[0])}, which is no ParamName"
    return f"an item of type {type(pair).__name__}"


def _first(names: list[ParamName], limit: int = 8) -> str:
    """The first of many names, for a message."""
    more = ["..."] if len(names) > limit else []
    return ", ".join([*map(str, names[:limit]), *more])


@dataclasses.dataclass(frozen=True)
class Layout:
    """The layout of the `params` of one network; fields go by the ops' names."""

    rnn_mode: RnnMode
    num_layers: int
    num_units: int
    input_size: int
    direction: Direction = "unidirectional"
    input_mode: InputMode = "linear_input"
    num_proj: int = 0

    def __post_init__(self) -> None:
        for option, allowed in [
            ("rnn_mode", GATES),
            ("direction", DIRECTIONS),
            ("input_mode", INPUT_MODES),
        ]:
            value = getattr(self, option)
            if value not in allowed:
                raise ValueError(f"`{option}` must be one of {', '.join(allowed)}; got {value!r}.")
        for option in ("num_layers", "num_units", "input_size", "num_proj"):
            value = integer(option, getattr(self, option))
            object.__setattr__(self, option, value)
            if value < (0 if option == "num_proj" else 1):
                rule = "not be negative" if option == "num_proj" else "be positive"
                raise ValueError(f"`{option}` must {rule}; got {value}.")
            if value >= SIZE_LIMIT:
                raise ValueError(f"`{option}` must be below 2^31, as the ops take it; got {value}.")
        if self.num_proj > 0 and self.rnn_mode != "lstm":
            raise ValueError(
                "`num_proj` must be 0 for any `rnn_mode` other than lstm; "
                f"got {self.num_proj} for {self.rnn_mode}."
            )
        if self.num_proj > self.num_units:
            raise ValueError(
                f"`num_proj` must be at most `num_units`; got {self.num_proj} and {self.num_units}."
            )
        if self.input_mode == "skip_input" and self.input_size != self.num_units:
            raise ValueError(
                "`input_size` must equal `num_units` for skip_input; "
                f"got {self.input_size} and {self.num_units}."
            )

    @property
    def num_directions(self) -> int:
        """D: 2 if bidirectional, else 1."""
        return len(DIRECTIONS[self.direction])

    @property
    def num_gates(self) -> int:
        """G: 4 of an LSTM, 3 of a GRU, 1 of a simple RNN."""
        return len(GATES[self.rnn_mode])

    @property
    def output_features(self) -> int:
        """P, the size of h of each layer and direction: that of the projection, or H."""
        return self.num_proj if self.has_projection else self.num_units

    @property
    def has_projection(self) -> bool:
        """A projection to the same size is none, as in cuDNN."""
        return self.num_proj not in (0, self.num_units)

    @property
    def skips_input(self) -> bool:
        """Whether layer 0 adds its input to every gate, without a kernel."""
        # For auto_select this is the rule; for skip_input it has been checked.
        return self.input_mode != "linear_input" and self.input_size == self.num_units

    @functools.cached_property
    def weights(self) -> tuple[Region, ...]:
        """The matrices, in the order of `params` and of the canonical ops."""
        return tuple(self._weights())

    def _weights(self) -> Iterator[Region]:
        H, P = self.num_units, self.output_features
        offset = 0
        for layer in range(self.num_layers):
            if layer > 0:
                columns = self.num_directions * P
            else:
                columns = 0 if self.skips_input else self.input_size
            for direction in DIRECTIONS[self.direction]:
                kinds = [
                    *((gate, "input_kernel", (H, columns)) for gate in GATES[self.rnn_mode]),
                    *((gate, "recurrent_kernel", (H, P)) for gate in GATES[self.rnn_mode]),
                    *([("", "projection", (P, H))] if self.has_projection else []),
                ]
                for gate, kind, shape in kinds:
                    yield Region(ParamName(layer, direction, gate, kind), offset, shape)
                    offset += shape[0] * shape[1]

    @functools.cached_property
    def biases(self) -> tuple[Region, ...]:
        """The bias vectors, which follow all matrices, in order."""
        return tuple(self._biases())

    def _biases(self) -> Iterator[Region]:
        G, D = self.num_gates, self.num_directions
        offset = self.size - self.num_layers * D * 2 * G * self.num_units
        for layer in range(self.num_layers):
            for direction in DIRECTIONS[self.direction]:
                for kind in ("input_bias", "recurrent_bias"):
                    for gate in GATES[self.rnn_mode]:
                        name = ParamName(layer, direction, gate, kind)
                        yield Region(name, offset, (self.num_units,))
                        offset += self.num_units

    @property
    def regions(self) -> tuple[Region, ...]:
        """All of `params`: the matrices, then the biases, without gaps.

        There are as many as the network has layers, which anybody can say: compare `size` or
        `num_regions` with what is there before.
        """
        return self.weights + self.biases

    @property
    def num_regions(self) -> int:
        """How many there are, at once."""
        G, D = self.num_gates, self.num_directions
        return self.num_layers * D * (4 * G + self.has_projection)

    @property
    def size(self) -> int:
        """N, the number of elements of `params`; at once, for any number of layers."""
        H, P, D, G = self.num_units, self.output_features, self.num_directions, self.num_gates
        recurrent = G * H * (P + 2) + (P * H if self.has_projection else 0)
        first = G * H * (0 if self.skips_input else self.input_size) + recurrent
        upper = G * H * D * P + recurrent
        return D * (first + (self.num_layers - 1) * upper)

    def in_order(self, named: Named[ParamName, Any]) -> list[Any]:
        """Returns the values of `named` in the order of `regions`.

        Args:
          named: (name, value) pairs in any order, or a mapping of names to values.

        Raises:
          ValueError: names are missing, given twice or not of this network.
        """
        pairs = named.items() if isinstance(named, Mapping) else named
        values = {}
        duplicate = []
        for pair in pairs:
            try:
                name, value = pair
                name = ParamName(*name)
                hash(name)
            except (TypeError, ValueError):
                raise ValueError(
                    "`named` must hold (ParamName, value) pairs, as params_to_canonical "
                    f"returns them; got {_shown_item(pair)}."
                ) from None
            if name in values:
                duplicate.append(name)
            values[name] = value
        names: Iterable[ParamName] = (
            region.name for region in itertools.chain(self._weights(), self._biases())
        )
        unknown = []
        # Anybody can say a number of layers. If it is beyond what is there, something is missing,
        # and the search for it stops at the first few.
        if self.num_regions <= max(len(values), _MANY):
            names = dict.fromkeys(names)
            unknown = [name for name in values if name not in names]
        problems = [
            f"{what} {_first(found)}"
            for what, found in [
                ("missing", list(itertools.islice((n for n in names if n not in values), 9))),
                ("given more than once", duplicate),
                ("not part of this network", unknown),
            ]
            if found
        ]
        if problems:
            raise ValueError(
                f"`named` must hold each of the {self.num_regions} weights and biases "
                f"of {self} once: {'; '.join(problems)}."
            )
        return [values[name] for name in names]

    def wrong_shape(self, region: Region, shape: Any) -> ValueError:
        """The error for a value of `region` that came with `shape`."""
        return ValueError(
            f"{region.name} must have shape {list(region.shape)} in {self}; got {list(shape)}."
        )


class LayerSplit(NamedTuple):
    """The sizes of the parts of `params` that a loop over layers reads, in their order.

    They are `first_weights`, then `upper_weights` for each layer above the first, then
    `layer_biases` for each layer.
    """

    first_weights: Any  # the matrices of layer 0, both directions
    upper_weights: Any  # those of any layer above, which are alike
    layer_biases: Any  # the biases of any layer


def split_by_layer(
    rnn_mode: str, direction: str, num_units: Any, size: Callable[[int], Any]
) -> LayerSplit:
    """Splits `params` where sizes may be known in a graph only.

    Args:
      rnn_mode, direction: of the network.
      num_units: H, of a type that can be multiplied by an int, such as a scalar tensor.
      size: returns N of such a network with so many layers, in the same type.
    """
    layer_biases = 2 * len(DIRECTIONS[direction]) * len(GATES[rnn_mode]) * num_units
    of_one = size(1)
    return LayerSplit(of_one - layer_biases, size(2) - of_one - layer_biases, layer_biases)
