"""What a caller says of a file, and how messages call that where the caller stands."""

import dataclasses
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from tf_cudnn_rnn._types import Direction, InputMode, RnnMode


class Mistake(ValueError):
    """What is wrong with what was asked of a file, in a sentence that may not name the file."""


class Face(NamedTuple):
    """The words of messages that differ between Python and the command line.

    Attributes:
      names: of the choices.
      value: what follows such a name to say a value, which stands for {}.
      file: the file that is read, at the beginning of a sentence.
      inspect: the command that shows what is in a file.
      convert: what precedes options of the command that writes files.
      read: what is done with a file, at the beginning of a sentence.
    """

    names: Mapping[str, str]
    value: str
    file: str
    inspect: str
    convert: str
    read: str

    def says(self, choice: str, value: str) -> str:
        """A choice and its value, as one writes them."""
        return self.names[choice] + self.value.format(value)

    def check_used(self, given: Iterable[str], used: Container[str], when: str) -> None:
        """Raises Mistake if something is given that would change nothing when that is done."""
        wrong = [self.names[choice] for choice in given if choice not in used]
        if wrong:
            it = "it" if len(wrong) == 1 else "them"
            raise Mistake(f"{', '.join(wrong)} would change nothing when {when}: leave {it} out.")


@dataclasses.dataclass(frozen=True)
class Choices:
    """What of a file to read, and what the file does not tell. None is what is not said.

    Attributes:
      face: where the caller stands.
      format: a name of READERS.
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: of the network,
        as the ops call them.
      layer: the names of one layer, or of several, which make a stack.
      prefix: what precedes the names of PyTorch's arrays.
      scope: the variable scope of TensorFlow 1.
      forget_bias: what TensorFlow 1's cells add.
    """

    face: Face
    format: str | None = None
    rnn_mode: RnnMode | None = None
    num_layers: int | None = None
    num_units: int | None = None
    input_size: int | None = None
    direction: Direction | None = None
    input_mode: InputMode | None = None
    num_proj: int | None = None
    layer: tuple[str, ...] | None = None
    prefix: str | None = None
    scope: str | None = None
    forget_bias: float | None = None

    def given(self) -> list[str]:
        """The names of those that are said, without the format."""
        return [name for name in NAMES if name != "format" and getattr(self, name) is not None]


NAMES = tuple(field.name for field in dataclasses.fields(Choices) if field.name != "face")

_PYTHON = Face(
    names={name: f"{name}=" for name in NAMES},
    value='"{}"',
    file="The file",
    inspect="tf-cudnn-rnn inspect",
    convert="tf-cudnn-rnn convert ",
    read="Load",
)


def in_python(layer: Any = None, **given: Any) -> Choices:
    """The choices of a caller in Python.

    Raises:
      TypeError: `layer` is neither a text nor several.
    """
    if layer is not None:
        names = (layer,) if isinstance(layer, str) else layer
        is_list = isinstance(names, Sequence) and all(isinstance(name, str) for name in names)
        if not is_list or not names:
            raise TypeError(
                f"`layer` must be the name of a layer, or a list of names; got {layer!r}."
            )
        layer = tuple(names)
    return Choices(_PYTHON, layer=layer, **given)
