"""A recurrent part of a file, and all that were found. Nothing is loaded or run."""

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias

from tf_cudnn_rnn._cli import needs
from tf_cudnn_rnn._files import chosen
from tf_cudnn_rnn._layout import Layout

MOST = 1000  # parts that are looked at; a file may have as many as it likes

# A simple RNN's weights do not tell which.
SIMPLE = "rnn_tanh or rnn_relu"
MODE_OF_GATES = {**chosen.MODE_OF_GATES, 1: SIMPLE}


@dataclasses.dataclass
class Found:
    """A recurrent node, layer or set of weights. None is what the file does not tell.

    Attributes:
      name: where it is in the file; comes from the file.
      kind: the op, the class, or the library whose weights these are.
      rnn_mode, num_layers, num_units, input_size, direction, num_proj: of the network.
      parameters: how many weights it has.
      biases: of each gate: two as cuDNN has, one as most layers of Keras, or none.
      layer: what `convert --layer` calls it.
      converts: whether the file tells nothing that makes it another network than cuDNN's.
      runs: whether this library computes it here.
      how: with which call; or why not.
      needs: the packages that the call needs, NumPy aside.
      lacks: what of them is not here, or does not fit; then it does not run here, but would.
    """

    name: str
    kind: str
    rnn_mode: str | None = None
    num_layers: int | None = None
    num_units: int | None = None
    input_size: int | None = None
    direction: str | None = None
    num_proj: int | None = None
    parameters: int | None = None
    biases: int | None = None
    layer: str | None = None
    converts: bool = True
    runs: bool = True
    how: str = ""
    needs: tuple[str, ...] = ()
    lacks: str = ""

    def take(self, layout: Layout) -> None:
        """Takes the sizes over from a network."""
        for field in ("rnn_mode", "num_layers", "num_units", "input_size", "direction"):
            setattr(self, field, getattr(layout, field))
        self.num_proj = layout.num_proj if layout.has_projection else 0
        self.parameters = layout.size
        self.biases = 2


class Loop(NamedTuple):
    """A loop of small ops in a graph, as Keras exports its own recurrent layers."""

    key: tuple[Any, ...]


class Contents(NamedTuple):
    """What is in a file.

    Attributes:
      found: the first parts that are recurrent, MOST at most.
      more: how many come after these.
      loops: how many loops of small ops there are besides.
    """

    found: list[Found]
    more: int = 0
    loops: int = 0


# What looks at a part, which takes longer than to count it.
Look: TypeAlias = Callable[[], Found]


def looked_at(items: Iterable[Look | Loop]) -> Contents:
    """Looks at the first parts, and counts the others."""
    found: list[Found] = []
    more = 0
    loops = set()
    for item in items:
        if isinstance(item, Loop):
            loops.add(item.key)
        elif len(found) < MOST:
            found.append(item())
        else:
            more += 1
    lacking = functools.cache(needs.lacking)  # parts of a file mostly need the same
    for part in found:
        if part.runs and (lacks := lacking(part.needs)):
            part.runs, part.lacks = False, lacks
    return Contents(found, more, len(loops))


@contextlib.contextmanager
def runs_unless_refused(found: Found) -> Iterator[None]:
    """If a reader refuses what is read of a part, it does not run, and tells why."""
    try:
        yield
    except (ImportError, ValueError) as error:
        found.runs, found.how = False, str(error)


def num_biases(recurrent: Iterable[int], *bias: Iterable[int]) -> int | None:
    """The biases of each gate, by the shapes of a layer's recurrent kernel, and bias if any."""
    columns = [*recurrent][-1]
    number, rest = divmod(math.prod(bias[0]), columns) if bias and columns else (0, 0)
    return number if not rest and number in (0, 1, 2) else None
