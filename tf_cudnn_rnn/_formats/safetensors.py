"""The safetensors file format: a JSON header, then raw little-endian arrays."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import bfloat16, endings, untrusted
from tf_cudnn_rnn._types import Array

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "<i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "<u1",
    "BOOL": "?",
}
# By alignment, then in this order, as the reference implementation sorts.
_RANKS = ("BOOL", "U8", "I8", "I16", "U16", "F16", "BF16", "I32", "U32", "F32", "F64", "I64", "U64")


class _Entry(NamedTuple):
    """An array in a file, and how many bytes it has there."""

    header: untrusted.ArrayHeader
    num_bytes: int


def _dtype(name: str, where: str) -> np.dtype[Any]:
    """The type of that name.

    One that NumPy lacks, such as those of 8 bits and fewer, is no error before somebody wants such
    an array: it is a structure whose one field has the name.
    """
    if name == "BF16":
        return bfloat16.dtype(where)
    return np.dtype(_DTYPES[name] if name in _DTYPES else [(name, "V1")])


def _check_type(header: untrusted.ArrayHeader, where: str) -> None:
    """Raises ValueError if NumPy lacks the type of an array."""
    if header.dtype.names:
        known = ", ".join([*_DTYPES, "BF16"])
        raise ValueError(
            f"{where} must have one of the types {known}; got "
            f"{untrusted.shown(header.dtype.names[0])}."
        )


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Reads all arrays of a `.safetensors` file. Runs no code from the file.

    Raises:
      ImportError: it holds bfloat16 arrays, and ml_dtypes is missing.
      OSError: it cannot be opened.
      ValueError: it is no such file, or is damaged.
    """
    return read_some_safetensors(path, lambda name: True)


def read_some_safetensors(
    path: str | os.PathLike[str], is_wanted: Callable[[str], bool]
) -> dict[str, Array]:
    """Reads the arrays of some names, and passes the others over. Raises: as `read_safetensors`."""
    path = os.fspath(path)
    arrays = {}
    with untrusted.opened(path) as (file, size):
        for name, entry in _entries(file, size, path).items():
            if is_wanted(name):
                _check_type(entry.header, f"{untrusted.shown(name)} in {path}")
                arrays[name] = _read_array(file, *entry.header)
            else:
                file.seek(entry.num_bytes, os.SEEK_CUR)
    return arrays


def read_safetensors_headers(path: str | os.PathLike[str]) -> dict[str, untrusted.ArrayHeader]:
    """Reads what `read_safetensors` would, but for the arrays: their types and shapes.

    A type that NumPy lacks is a structure whose one field has the type's name.
    """
    path = os.fspath(path)
    with untrusted.opened(path) as (file, size):
        return {name: entry.header for name, entry in _entries(file, size, path).items()}


def read_metadata(path: str | os.PathLike[str], max_bytes: int) -> dict[str, str]:
    """Reads the texts about a file, whose header has so many bytes at most.

    Raises:
      OSError: it cannot be opened.
      ValueError: its header is damaged, or larger, or it is no such file.
    """
    path = os.fspath(path)
    with untrusted.opened(path) as (file, size):
        return _read_header(file, _header_size(file, size, path), path, max_bytes)[1]


def _header_size(file: io.BufferedReader, size: int, path: str) -> int:
    header_size = int.from_bytes(file.read(8), "little")
    if size < 8 or not 2 <= header_size <= size - 8:
        raise ValueError(
            f"{path} is no safetensors file: its first 8 bytes must tell the size of a header "
            f"within its {size} bytes; they say {header_size}."
        )
    return header_size


def _entries(file: io.BufferedReader, size: int, path: str) -> dict[str, _Entry]:
    """Reads the header of a file: its arrays, in the order in which they come next."""
    header_size = _header_size(file, size, path)
    header, _ = _read_header(file, header_size, path)
    data_size = size - 8 - header_size
    arrays = {}
    covered = 0
    for name, entry in sorted(header.items(), key=lambda item: _begin(path, item)):
        where = f"{untrusted.shown(name)} in {path}"
        begin, end = entry["data_offsets"]
        found = untrusted.ArrayHeader(_dtype(entry["dtype"], where), tuple(entry["shape"]))
        needed = found.nbytes
        if found.dtype.names:  # of which the bytes are not known
            needed = max(end - begin, 0)
        if begin != covered or end - begin != needed or end > data_size:
            raise ValueError(
                f"{where} must lie in {needed} bytes from byte {covered} of {data_size}; "
                f"its offsets are {begin} and {end}."
            )
        arrays[name] = _Entry(found, needed)
        covered = end
    if covered != data_size:
        raise ValueError(
            f"{path} must end with its last array, at byte {covered} of its data; "
            f"it has {data_size}."
        )
    return arrays


def _read_header(
    file: io.BufferedReader, size: int, path: str, max_bytes: int = untrusted.MAX_JSON_BYTES
) -> tuple[dict[str, Any], dict[str, str]]:
    """Reads the header that comes next: what it says of each array, and its metadata."""
    what = f"{path} is no safetensors file: its header"
    if size > max_bytes:
        raise ValueError(f"{what} has {size} bytes; it must have {max_bytes} at most.")
    header = untrusted.load_json(file.read(size), what)
    if not isinstance(header, dict):
        raise ValueError(f"{what} is no JSON object.")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(x, str) for x in metadata.values()):
        raise ValueError(
            f"{what} must have texts in __metadata__; it has {untrusted.shown(metadata)}."
        )
    return header, metadata


def _read_array(file: io.BufferedReader, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """Reads the array that comes next; its bytes are known to be there."""
    array = np.empty(shape, dtype)
    if array.size and file.readinto(array.reshape(-1).view(np.uint8).data) != array.nbytes:
        raise ValueError("It became shorter while it was read.")
    return array


def _begin(path: str, item: tuple[str, Any]) -> tuple[int, int]:
    """Returns the offsets of a header's entry, once it is known to be well formed."""
    name, entry = item

    def sizes(values: Any, least: int, most: int) -> bool:
        return (
            isinstance(values, list)
            and least <= len(values) <= most
            and all(map(untrusted.is_size, values))
        )

    if not (
        isinstance(entry, dict)
        and isinstance(entry.get("dtype"), str)
        and entry["dtype"]
        and sizes(entry.get("shape"), 0, untrusted.MAX_DIMENSIONS)
        and sizes(entry.get("data_offsets"), 2, 2)
    ):
        raise ValueError(
            f"{path} must give dtype, shape and data_offsets of {untrusted.shown(name)}; it says "
            f"{untrusted.shown(entry)}. A shape has up to {untrusted.MAX_DIMENSIONS} sizes."
        )
    return tuple(entry["data_offsets"])


def write_safetensors(
    path: str | os.PathLike[str],
    arrays: Mapping[str, ArrayLike],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a `.safetensors` file, as the reference implementation would.

    Args:
      path: is overwritten in place. `load` knows such a file by the ending `.safetensors`.
      arrays: of any shapes and types that the format knows, bfloat16 included.
      metadata: texts about the file.

    Raises:
      TypeError: `arrays` is no mapping.
      ValueError: an array is of a type that the format does not know, or `path` has the ending
        of another format.
    """
    endings.check("path", path, endings.SAFETENSORS)
    if not isinstance(arrays, Mapping):
        raise TypeError(
            f"`arrays` must be a dict of arrays by name; got {type(arrays).__name__}. What a "
            "`to_torch` returns has them: pass its `arrays`."
        )
    entries = []
    for name, array in arrays.items():
        array = np.asarray(array)
        little = array.dtype.newbyteorder("<")
        code = "BF16" if little.name == "bfloat16" else None
        for key, text in _DTYPES.items():
            if little == np.dtype(text):
                code = key
        if code is None:
            raise ValueError(
                f"`arrays`[{name!r}] must be of a type that safetensors files hold, one of "
                f"{', '.join([*_DTYPES, 'BF16'])}; got {array.dtype}."
            )
        entries.append(
            (-_RANKS.index(code), str(name), code, array.shape, array.astype(little, copy=False))
        )
    header: dict[str, Any] = {}
    if metadata is not None:
        header["__metadata__"] = dict(sorted(metadata.items()))
    offset = 0
    entries.sort(key=lambda entry: entry[:2])
    for _, name, code, shape, array in entries:
        end = offset + array.nbytes
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    content = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    content += b" " * (-len(content) % 8)
    with open(path, "wb") as file:
        file.write(len(content).to_bytes(8, "little"))
        file.write(content)
        for *_, array in entries:
            file.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
