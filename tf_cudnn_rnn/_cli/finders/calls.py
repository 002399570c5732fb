"""Commands and calls that run what was found, for people to paste."""

import os
import shlex
from collections.abc import Iterable
from typing import Any

LOAD_WEIGHTS = "model.load_weights({}), of a model whose layers are those of tf_cudnn_rnn.keras"
LOAD_OWN = "import tf_cudnn_rnn.keras; keras.saving.load_model({})"
HDF5 = (".h5", ".hdf5")
_NO_COMMAND = "it has characters that cannot be printed, so that no command is shown here"


class Conversion(str):
    """A command of `convert`, or what stands for one that cannot be shown.

    Attributes:
      options: the names of those that are given.
    """

    options: frozenset[str]

    def __new__(cls, text: str, options: Iterable[str]) -> "Conversion":
        self = super().__new__(cls, text)
        self.options = frozenset(options)
        return self

    def __deepcopy__(self, memo: Any) -> "Conversion":
        return self


def convert(shown_path: str, target: str, to: str, **options: str) -> Conversion:
    """A command line of `convert` that a shell takes as it is meant, whatever the names are."""
    given = [name for name, value in options.items() if value]
    if not all(map(str.isprintable, (shown_path, *options.values()))):
        return Conversion(f"`tf-cudnn-rnn convert` reads it; {_NO_COMMAND}", given)
    # Neither a path nor a value may look like an option.
    source = f"./{shown_path}" if shown_path.startswith("-") else shown_path
    words = ["tf-cudnn-rnn", "convert", source, target]
    for name, value in {"from": options.pop("source_format", ""), "to": to, **options}.items():
        option = f"--{name.replace('_', '-')}"
        if value:
            words += [f"{option}={value}"] if value.startswith("-") else [option, value]
    return Conversion(shlex.join(words), given)


def python(text: str, argument: str) -> str:
    """A call in Python, which has {} where its argument belongs."""
    if not argument.isprintable():
        return f"{text.format('PATH')}; {_NO_COMMAND}"
    return text.format(repr(argument))


def keras(text: str, path: str, *endings: str) -> str:
    """A call of Keras, which takes no path with another ending than these."""
    if path.endswith(endings):
        return python(text, path)
    renamed = os.path.splitext(path)[0] + endings[0]
    where = (
        f"rename it to {renamed}" if renamed.isprintable() else f"give it the ending {endings[0]}"
    )
    return f"{where}, as Keras goes by the ending, then {python(text, renamed)}"
