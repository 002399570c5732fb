"""What stands beside the weights of keras.CudnnRNN in files and checkpoints.

A header, which says what network they are of, and in files of Keras the names of the
matrices. A vector of weights tells neither: an rnn_tanh and an rnn_relu, for example,
have vectors of the same length.
"""

import contextlib
import itertools
import json
import math
from typing import Any, NamedTuple

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._layout import GATES, SIZE_LIMIT, Layout, ParamName, Region

FORMAT = "tf_cudnn_rnn/params"
VERSION = 1
# Of its bytes, beside the arrays of an .npz file.
NPZ_KEY = "header"
MAX_BYTES = 1 << 16  # a name and ten numbers
_LAYOUT_FIELDS = (
    "rnn_mode",
    "num_layers",
    "num_units",
    "input_size",
    "direction",
    "input_mode",
    "num_proj",
)


class Group(NamedTuple):
    """The matrices or biases of all gates of one layer, direction and kind.

    They lie next to each other in `params`, so together they are one matrix [G*H, in] (or
    [G*H, P]), or one vector [G*H], gates in the order of `GATES`. A projection [P, H] stands
    alone.

    Attributes:
      name: of the group, with no gate.
      offset: where it begins in `params`.
      shape: [G*H, in], [G*H, P], [G*H] or, of a projection, [P, H].
    """

    name: ParamName
    offset: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def groups(layout: Layout) -> list[Group]:
    """All groups of a network, in the order of `params`, without gaps."""

    def without_gate(region: Region) -> ParamName:
        return region.name._replace(gate="")

    result = []
    for name, gates in itertools.groupby(layout.regions, without_gate):
        gates = list(gates)
        rows, *columns = gates[0].shape
        result.append(Group(name, gates[0].offset, (len(gates) * rows, *columns)))
    return result


def resolved(layout: Layout) -> Layout:
    """The layout that says the same about `params`, of those that do."""
    return Layout(
        layout.rnn_mode,
        num_layers=layout.num_layers,
        num_units=layout.num_units,
        input_size=layout.input_size,
        direction=layout.direction,
        input_mode="skip_input" if layout.skips_input else "linear_input",
        num_proj=layout.num_proj if layout.has_projection else 0,
    )


def to_text(layout: Layout, layer: str | None = None) -> str:
    """The header, a JSON object.

    Args:
      layout: of the network.
      layer: the layer's name, if it is to be found by it; not compared.
    """
    layout = resolved(layout)
    header = {
        "format": FORMAT,
        "version": VERSION,
        **{field: getattr(layout, field) for field in _LAYOUT_FIELDS},
        "gates": GATES[layout.rnn_mode],
        "params_size": layout.size,
    }
    return json.dumps(header if layer is None else {"layer": layer, **header})


def from_text(text: str | bytes, where: str) -> tuple[Layout, str | None]:
    """Reads what `to_text` wrote: returns the layout and the layer's name.

    Args:
      text: the header.
      where: it comes from, for messages.

    Raises:
      ValueError: it is another kind of header, damaged, or of a later version.
    """
    if len(text) > MAX_BYTES:
        raise ValueError(
            f"{where} must have a header of at most {MAX_BYTES} bytes; it has {len(text)}."
        )
    header = None
    with contextlib.suppress(ValueError):
        header = untrusted.load_json(text, where)
    if not isinstance(header, dict) or not {"format", "version"} <= header.keys():
        raise ValueError(
            f"{where} must have a header in JSON with `format` and `version`; got {text[:60]!r}."
        )
    found = header["format"], header["version"]
    if found != (FORMAT, VERSION):
        raise ValueError(
            f"{where} must have a header of format {FORMAT}, version {VERSION}; got "
            f"{untrusted.shown(found[0])}, version {untrusted.shown(found[1])}. A later version "
            "needs a later tf_cudnn_rnn."
        )
    try:
        fields = {field: header[field] for field in _LAYOUT_FIELDS}
        large = [field for field, value in fields.items() if _is_large(value)]
        if large:
            raise ValueError(f"`{large[0]}` must be below {SIZE_LIMIT}.")
        layout = Layout(**fields)
        implied = {"gates": list(GATES[layout.rnn_mode]), "params_size": layout.size}
        said = {field: header[field] for field in implied}
        layer = header.get("layer")
        if not isinstance(layer, str | None):
            raise ValueError(f"`layer` must be a text; got {untrusted.shown(layer)}.")
        untrusted.check_layers(layout.num_layers, "Its network")
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{where} has a damaged header: {error}") from error
    if said != implied:
        raise ValueError(
            f"{where} has a header that contradicts itself: {layout} has {implied}, but it says "
            f"{untrusted.shown(said)}."
        )
    return layout, layer


def _is_large(value: Any) -> bool:
    return isinstance(value, int) and value >= SIZE_LIMIT


def check_same(text: str | bytes, layout: Layout, layer: str, where: str) -> None:
    """Raises ValueError unless the header is that of a network like `layout`.

    Args:
      text: the header.
      layout: of the layer that is to take the weights.
      layer: its name.
      where: the header comes from; the weights there are those of another network if it
        raises.
    """
    saved, here = from_text(text, where)[0], resolved(layout)
    differences = [
        f"`{field}` is {getattr(saved, field)} there and {getattr(here, field)} here"
        for field in _LAYOUT_FIELDS
        if getattr(saved, field) != getattr(here, field)
    ]
    if differences:
        raise ValueError(
            f"Layer {layer!r} must have the network whose weights {where} holds: "
            f"{'; '.join(differences)}."
        )
