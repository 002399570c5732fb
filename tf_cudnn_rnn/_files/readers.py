"""What reads each format of files into Canonical, and which format a file has."""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from tf_cudnn_rnn._files import (
    chosen,
    keras_layers,
    kinds,
    npz_files,
    other_libraries,
    tensorflow_variables,
)
from tf_cudnn_rnn._files.choices import Choices, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import hdf5, keras_config, npz, runtime_file, untrusted
from tf_cudnn_rnn._formats import torch as torch_format
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, INPUT_MODES


class Reader(NamedTuple):
    """What reads a format.

    Attributes:
      read: takes the kind of the file, its path and the choices.
      choices: of those, the ones in use.
      measure: takes what `read` takes, and returns the bytes of the weights, or 0 if they are not
        known before they are read; None where no file has too many for another format.
    """

    read: Callable[[Kind, str, Choices], Canonical]
    choices: tuple[str, ...] = ()
    measure: Callable[[Kind, str, Choices], int] | None = None


def _read_runtime(kind: Kind, path: str, choices: Choices) -> Canonical:
    chosen.check_kind(kind, (Kind.RUNTIME,), "runtime", choices)
    return runtime_file.read(path)


def _measure_runtime(kind: Kind, path: str, choices: Choices) -> int:
    chosen.check_kind(kind, (Kind.RUNTIME,), "runtime", choices)
    header = runtime_file.read_header(path)
    return header.layout.size * header.dtype.itemsize


_NETWORK = ("rnn_mode", "num_layers", "num_units", "input_size", "direction")

READERS = {
    "params": Reader(
        npz_files.read_params, (*_NETWORK, "input_mode", "num_proj"), npz_files.measure
    ),
    "canonical": Reader(npz_files.read_canonical, (), npz_files.measure),
    "runtime": Reader(_read_runtime, (), _measure_runtime),
    "torch": Reader(
        other_libraries.read_torch, ("rnn_mode", "prefix"), other_libraries.measure_torch
    ),
    "keras": Reader(keras_layers.read, ("rnn_mode", "layer", "direction"), keras_layers.measure),
    "keras-cudnn": Reader(keras_layers.read_cudnn, ("rnn_mode", "layer", "direction")),
    "onnx": Reader(other_libraries.read_onnx, ("layer",)),
    "mxnet": Reader(npz_files.read_mxnet, (*_NETWORK, "num_proj"), npz_files.measure),
    "cntk": Reader(npz_files.read_cntk, _NETWORK, npz_files.measure),
    "tf1-cudnn": Reader(tensorflow_variables.read_tf1_cudnn, (*_NETWORK, "num_proj", "scope")),
    "tf1-lstm-cell": Reader(tensorflow_variables.read_tf1_lstm_cell, ("forget_bias", "scope")),
    "checkpoint": Reader(
        tensorflow_variables.read_checkpoint,
        ("rnn_mode", "layer"),
        tensorflow_variables.measure_checkpoint,
    ),
}


def choices_of(kind: Kind, path: str, name: str) -> set[str]:
    """The choices that a format's reader uses for this file."""
    used = set(READERS[name].choices)
    if kind is Kind.NPZ and name == "params" and npz_files.HEADER in npz.read_npz_names(path):
        return set()  # the header tells all
    if name == "keras" and kind is not Kind.KERAS_2_H5:
        used.discard("direction")  # which these files tell
    return used


def guess(kind: Kind, path: str, choices: Choices) -> str:
    """The format of a file, by its kind and contents.

    Raises:
      Mistake: it may be several, or none.
    """
    if kind in (Kind.KERAS, Kind.KERAS_3_H5):
        return "keras"
    if kind is Kind.KERAS_2_H5:
        layers = hdf5.read_headers(path)
        wanted = choices.layer or [layer.name for layer in layers]
        chosen = [layer for layer in layers if layer.is_one and layer.name in wanted]
        has_legacy = any(keras_config.is_legacy(each.class_name, each.arrays) for each in chosen)
        if has_legacy and any(_is_recurrent(layer.class_name) for layer in chosen):
            says = choices.face.says
            raise Mistake(
                f"Pass {says('format', 'keras')} or {says('format', 'keras-cudnn')}; the file has "
                "both."
            )
        return "keras-cudnn" if has_legacy else "keras"
    if kind is Kind.SAFETENSORS:
        return "torch"
    if kind is Kind.RUNTIME:
        return "runtime"
    if kind is Kind.ONNX:
        return "onnx"
    if kind in (Kind.CHECKPOINT, Kind.SAVED_MODEL):
        return "checkpoint"
    if kind is Kind.PICKLE:
        raise Mistake(kinds.refusal_of_pickle(path, f"pass {choices.face.says('format', 'torch')}"))
    if kind is Kind.NPZ:
        names = npz.read_npz_names(path)
        if npz_files.HEADER in names:
            return "params" if npz_files.VECTORS["params"] in names else "canonical"
        if torch_format.networks(dict.fromkeys(names)):
            return "torch"
        for name, key in npz_files.VECTORS.items():
            if key in names:
                return name
        raise Mistake(
            f"Pass {choices.face.names['format']}; {path} holds "
            f"{base.listed(names) or 'nothing'}, which may be anything."
        )
    raise AssertionError(kind)


def _is_recurrent(class_name: str) -> bool:
    return keras_config.bare(class_name) in keras_config.LAYERS.values()


class Found(NamedTuple):
    """A file, and how to read it.

    Attributes:
      kind, path: see `kinds.recognise`.
      format: a name of READERS.
      choices: all of which are of use.
    """

    kind: Kind
    path: str
    format: str
    choices: Choices

    @property
    def is_of_the_runtime(self) -> bool:
        """Whether the library of tf_cudnn_rnn.runtime reads it."""
        return self.kind is Kind.RUNTIME and self.format == "runtime"

    def read(self) -> Canonical:
        """Reads the network that was chosen.

        Raises:
          ImportError: something that is needed for that is not installed.
          OSError: it cannot be opened.
          ValueError: it is damaged, or the choices do not fit it; the text names the file.
        """
        with _refusing(self.path):
            return READERS[self.format].read(self.kind, self.path, self.choices)


@contextlib.contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Makes each Mistake a ValueError that names the file."""
    with untrusted.named(path):
        try:
            yield
        except Mistake as error:
            raise ValueError(str(error)) from None


def find(path: str | os.PathLike[str], choices: Choices) -> Found:
    """Tells how to read a file.

    Raises:
      ImportError: something that is needed to tell is not installed.
      OSError: it cannot be opened.
      ValueError: it is of no kind that is known, or a choice has no such value, or would change
        nothing.
    """
    known: dict[str, Collection[str]] = {
        "format": READERS,
        "rnn_mode": GATES,
        "direction": DIRECTIONS,
        "input_mode": INPUT_MODES,
    }
    for choice, values in known.items():
        value = getattr(choices, choice)
        if value is not None and (not isinstance(value, str) or value not in values):
            raise ValueError(f"`{choice}` must be one of {', '.join(values)}; got {value!r}.")
    kind, place = kinds.recognise(os.fsdecode(path))
    with _refusing(place):
        name = choices.format or guess(kind, place, choices)
        used = choices_of(kind, place, name)
        choices.face.check_used(choices.given(), used, f"this file is read as {name}")
    return Found(kind, place, name, choices)
