"""Commands and calls that run what was found, for people to paste."""

import os
import shlex
from collections.abc import Iterable
from typing import Any

LOAD_WEIGHTS = "model.load_weights({}), of a model whose layers are those of tf_cudnn_rnn.keras"
LOAD_OWN = "import keras, tf_cudnn_rnn.keras; keras.saving.load_model({})"
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


def convert(shown_path: str, target: str, to: str, **options: str | None) -> Conversion:
    """A command line of `convert` that a shell takes as it is meant, whatever the names are.

    Options that are None are left out.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not all(map(str.isprintable, (shown_path, *given.values()))):
        return Conversion(f"`tf-cudnn-rnn convert` reads it; {_NO_COMMAND}", given)
    source = f"./{shown_path}" if shown_path.startswith("-") else shown_path
    words = ["tf-cudnn-rnn", "convert", source, target]
    source_format = given.get("source_format")
    if source_format is not None:
        words += option("from", source_format)
    words += option("to", to)
    for name, value in given.items():
        if name != "source_format":
            words += option(name, value)
    return Conversion(shlex.join(words), given)


def option(name: str, value: str) -> list[str]:
    """The words of an option, whose value may be empty, or begin as an option does."""
    text = f"--{name.replace('_', '-')}"
    return [f"{text}={value}"] if not value or value.startswith("-") else [text, value]


def vector_target(dtype: str) -> tuple[str, str]:
    """A file for weights that not every format has, by the name of their type, and its format.

    An .npz keeps no bfloat16.
    """
    if dtype == "bfloat16":
        return "network.safetensors", "runtime"
    return "params.npz", "params"


def python(text: str, argument: str) -> str:
    """A call in Python, which has {} where its argument belongs."""
    if not argument.isprintable():
        return f"{text.format('PATH')}; {_NO_COMMAND}"
    return text.format(repr(argument))


def keras(text: str, path: str, *endings: str, but: str | None = None) -> str:
    """A call of Keras, which takes no path with another ending than these, nor one with `but`."""
    stem = os.path.splitext(path)[0]
    if but is not None and path.endswith(but):
        stem = path.removesuffix(but)
    elif path.endswith(endings):
        return python(text, path)
    renamed = stem + endings[0]
    where = (
        f"rename it to {renamed}" if renamed.isprintable() else f"give it the ending {endings[0]}"
    )
    return f"{where}, as Keras goes by the ending, then {python(text, renamed)}"
