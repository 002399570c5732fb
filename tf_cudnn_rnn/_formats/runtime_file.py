"""The files of tf_cudnn_rnn.runtime: a safetensors of weights, with their network as metadata.

The weights are `params`, or those of int8. docs/runtime.md describes both files.
runtime/weights_file.cc reads them for the runtime.
"""

import contextlib
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._formats import int8, params_header, safetensors, untrusted
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._formats.int8 import Int8Weights
from tf_cudnn_rnn._formats.vectors import of_layout
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, Layout
from tf_cudnn_rnn._types import Array

ARRAY = "params"
TYPES = ("float32", "float64", "float16", "bfloat16")  # in the order in which rnn_type has them
INT8_FORMAT = "tf_cudnn_rnn/int8"
_FORMATS = (params_header.FORMAT, INT8_FORMAT)
_VERSION = str(params_header.VERSION)  # of both
_NUMBER_BYTES = 10  # of a size
# What each text may be; "auto_select" is one of two of these.
_TEXTS = {
    "rnn_mode": GATES,
    "direction": DIRECTIONS,
    "input_mode": ("linear_input", "skip_input"),
}


class Header(NamedTuple):
    """What such a file says of itself.

    Attributes:
      layout: the network.
      dtype: of its weights; float32 if they are of int8, as that is what they stand for.
      has_int8_weights: whether they are.
    """

    layout: Layout
    dtype: np.dtype[Any]
    has_int8_weights: bool


def is_one(path: str | os.PathLike[str]) -> bool:
    """Whether a file's metadata say that it is one; OSError if it cannot be opened."""
    with contextlib.suppress(ValueError):
        return _metadata(path).get("format") in _FORMATS
    return False


def _metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    return safetensors.read_metadata(path, params_header.MAX_BYTES)


def read_header(path: str | os.PathLike[str]) -> Header:
    """Reads what such a file says, and compares it with what there is of arrays.

    Raises:
      ImportError: its weights are of bfloat16, and there is no ml_dtypes.
      OSError: it cannot be opened.
      ValueError: it is damaged, or of a later version, or another file.
    """
    path = os.fspath(path)
    metadata = _metadata(path)
    layout = _layout_of(metadata, path)
    headers = safetensors.read_safetensors_headers(path)
    has_int8_weights = metadata["format"] == INT8_FORMAT
    if has_int8_weights:
        rule = ", ".join(f"{name} of {dtype}" for name, dtype in int8.DTYPES.items())
        rule = f"{rule} and nothing else"
        is_right = {name: header.dtype.name for name, header in headers.items()} == int8.DTYPES
        expected: Mapping[str, int] = int8.sizes(layout)._asdict()
    else:
        rule = f"{ARRAY} alone, of {', '.join(TYPES)}"
        is_right = set(headers) == {ARRAY} and headers[ARRAY].dtype.name in TYPES
        expected = {ARRAY: layout.size}
    if not is_right:
        found = ", ".join(
            f"{untrusted.shown(name)} of {header.dtype}" for name, header in [*headers.items()][:8]
        )
        raise ValueError(f"{path} must hold {rule}; it holds {found or 'nothing'}.")
    for name, size in expected.items():
        if headers[name].shape != (size,):
            raise ValueError(
                f"{name} in {path} must have shape [{size}] for {layout}; it has "
                f"{untrusted.shown([*headers[name].shape])}."
            )
    dtype = np.dtype(np.float32) if has_int8_weights else headers[ARRAY].dtype
    return Header(layout, dtype, has_int8_weights)


def _layout_of(metadata: dict[str, str], path: str) -> Layout:
    found = metadata.get("format"), metadata.get("version")
    if found[0] not in _FORMATS or found[1] != _VERSION:
        raise ValueError(
            f"{path} must be a file of format {' or '.join(_FORMATS)}, version {_VERSION}; it has "
            f"{untrusted.shown(found[0])}, version {untrusted.shown(found[1])}. A later version "
            "needs a later tf_cudnn_rnn."
        )
    fields: dict[str, Any] = {}
    for field in dataclasses.fields(Layout):
        text = metadata.get(field.name, "")
        if field.name in _TEXTS:
            rule = f"one of {', '.join(_TEXTS[field.name])}"
            is_known = text in _TEXTS[field.name]
            fields[field.name] = text
        else:
            rule = "a number"
            is_known = text.isascii() and text.isdigit() and len(text) <= _NUMBER_BYTES
            fields[field.name] = int(text) if is_known else 0
        if not is_known:
            raise ValueError(
                f"{path} must have {rule} as {field.name} in its metadata; it has "
                f"{untrusted.shown(text) or 'nothing'}."
            )
    with untrusted.named(path):
        untrusted.check_layers(fields["num_layers"], "Its network")
        return Layout(**fields)


def read(path: str | os.PathLike[str]) -> Canonical:
    """Reads such a file; weights of int8 become float32.

    Raises: as `read_header`.
    """
    header = read_header(path)
    arrays = safetensors.read_safetensors(path)
    with untrusted.named(path):
        if header.has_int8_weights:
            return Int8Weights(header.layout, **arrays).dequantized()
        return of_layout(arrays[ARRAY], header.layout)


def write(path: str | os.PathLike[str], params: Array, layout: Layout) -> None:
    """Writes a file of `params`.

    Raises:
      OSError: it cannot be written.
      ValueError: the weights are of a type that it cannot have.
    """
    if params.dtype.name not in TYPES:
        raise ValueError(
            f"Weights of a file of tf_cudnn_rnn.runtime must be of {', '.join(TYPES)}; they are "
            f"of {params.dtype}."
        )
    _write(path, params_header.FORMAT, layout, {ARRAY: params})


def write_int8(path: str | os.PathLike[str], weights: Int8Weights) -> None:
    """Writes a file of weights of int8; OSError if it cannot be written."""
    arrays = {name: getattr(weights, name) for name in int8.DTYPES}
    _write(path, INT8_FORMAT, weights.layout, arrays)


def _write(
    path: str | os.PathLike[str], file_format: str, layout: Layout, arrays: Mapping[str, Array]
) -> None:
    fields = dataclasses.asdict(params_header.resolved(layout))
    metadata = {
        "format": file_format,
        "version": _VERSION,
        **{name: str(value) for name, value in fields.items()},
    }
    safetensors.write_safetensors(path, arrays, metadata)
