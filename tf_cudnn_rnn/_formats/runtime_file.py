"""The file of tf_cudnn_rnn.runtime: a safetensors of `params`, with its network as metadata.

docs/runtime.md describes it. runtime/weights_file.cc reads it for the runtime.
"""

import contextlib
import dataclasses
import os
from typing import Any

from tf_cudnn_rnn._formats import params_header, safetensors, untrusted
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._formats.vectors import from_cudnn
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, Layout
from tf_cudnn_rnn._types import Array

ARRAY = "params"
TYPES = ("float32", "float64", "float16", "bfloat16")  # in the order in which rnn_type has them
_NUMBER_BYTES = 10  # of a size
# What each text may be; "auto_select" is one of two of these.
_TEXTS = {
    "rnn_mode": GATES,
    "direction": DIRECTIONS,
    "input_mode": ("linear_input", "skip_input"),
}


def is_one(path: str | os.PathLike[str]) -> bool:
    """Whether a file's metadata say that it is one; OSError if it cannot be opened."""
    with contextlib.suppress(ValueError):
        return _metadata(path).get("format") == params_header.FORMAT
    return False


def _metadata(path: str | os.PathLike[str]) -> dict[str, str]:
    return safetensors.read_metadata(path, params_header.MAX_BYTES)


def read_header(path: str | os.PathLike[str]) -> tuple[Layout, untrusted.ArrayHeader]:
    """Reads what such a file says: its network, and the type and shape of the vector.

    Raises:
      ImportError: its weights are of bfloat16, and there is no ml_dtypes.
      OSError: it cannot be opened.
      ValueError: it is damaged, or of a later version, or another file.
    """
    layout = _layout_of(_metadata(path), os.fspath(path))
    headers = safetensors.read_safetensors_headers(path)
    if set(headers) != {ARRAY} or headers[ARRAY].dtype.name not in TYPES:
        found = ", ".join(
            f"{untrusted.shown(name)} of {header.dtype}" for name, header in [*headers.items()][:8]
        )
        raise ValueError(
            f"{os.fspath(path)} must hold {ARRAY} alone, of {', '.join(TYPES)}; it holds "
            f"{found or 'nothing'}."
        )
    if headers[ARRAY].shape != (layout.size,):
        raise ValueError(
            f"{ARRAY} in {os.fspath(path)} must have shape [{layout.size}] for {layout}; it has "
            f"{untrusted.shown([*headers[ARRAY].shape])}."
        )
    return layout, headers[ARRAY]


def _layout_of(metadata: dict[str, str], path: str) -> Layout:
    found = metadata.get("format"), metadata.get("version")
    if found != (params_header.FORMAT, str(params_header.VERSION)):
        raise ValueError(
            f"{path} must be a file of format {params_header.FORMAT}, version "
            f"{params_header.VERSION}; it has {untrusted.shown(found[0])}, version "
            f"{untrusted.shown(found[1])}. A later version needs a later tf_cudnn_rnn."
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
    """Reads such a file.

    Raises: as `read_header`.
    """
    layout, _ = read_header(path)
    params = safetensors.read_safetensors(path)[ARRAY]
    with untrusted.named(path):
        return from_cudnn(params, **dataclasses.asdict(layout))


def write(path: str | os.PathLike[str], params: Array, layout: Layout) -> None:
    """Writes such a file.

    Raises:
      OSError: it cannot be written.
      ValueError: the weights are of a type that it cannot have.
    """
    if params.dtype.name not in TYPES:
        raise ValueError(
            f"Weights of a file of tf_cudnn_rnn.runtime must be of {', '.join(TYPES)}; they are "
            f"of {params.dtype}."
        )
    fields = dataclasses.asdict(params_header.resolved(layout))
    metadata = {
        "format": params_header.FORMAT,
        "version": str(params_header.VERSION),
        **{name: str(value) for name, value in fields.items()},
    }
    safetensors.write_safetensors(path, {ARRAY: params}, metadata)
