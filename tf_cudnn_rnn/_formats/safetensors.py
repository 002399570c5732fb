"""The safetensors file format: a JSON header, then raw little-endian arrays."""

import json
import math
import os
from collections.abc import Mapping

import numpy as np

_MAX_HEADER = 100_000_000  # bytes, as in the reference implementation

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


def _dtype(name: str, where: str) -> np.dtype:
    if name == "BF16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError(f"{where} is of type BF16, which needs ml_dtypes.") from error
        return np.dtype(ml_dtypes.bfloat16)
    if name not in _DTYPES:
        known = ", ".join([*_DTYPES, "BF16"])
        raise ValueError(f"{where} must have one of the types {known}; got {name}.")
    return np.dtype(_DTYPES[name])


def read_safetensors(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads all arrays of a `.safetensors` file. Runs no code from the file.

    Raises:
      ImportError: it holds bfloat16 arrays, and ml_dtypes is missing.
      ValueError: it is no such file, or is damaged.
    """
    path = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header_size = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= header_size <= min(size - 8, _MAX_HEADER):
            raise ValueError(
                f"{path} is no safetensors file: its first 8 bytes must tell the size of a header "
                f"within its {size} bytes; they say {header_size}."
            )
        try:
            header = json.loads(file.read(header_size).decode())
        except ValueError as error:
            raise ValueError(f"{path} is no safetensors file: its header is no JSON.") from error
        data = file.read()
    if not isinstance(header, dict):
        raise ValueError(f"{path} is no safetensors file: its header is no JSON object.")
    arrays = {}
    covered = 0
    header.pop("__metadata__", None)
    for name, entry in sorted(header.items(), key=lambda item: _begin(path, item)):
        where = f"{name} in {path}"
        dtype = _dtype(entry["dtype"], where)
        shape = entry["shape"]
        begin, end = entry["data_offsets"]
        needed = math.prod(shape) * dtype.itemsize
        if begin != covered or end - begin != needed or end > len(data):
            raise ValueError(
                f"{where} must lie in {needed} bytes from byte {covered} of {len(data)}; "
                f"its offsets are {begin} and {end}."
            )
        arrays[name] = np.frombuffer(data[begin:end], dtype).reshape(shape).copy()
        covered = end
    if covered != len(data):
        raise ValueError(
            f"{path} must end with its last array, at byte {covered} of its data; "
            f"it has {len(data)}."
        )
    return arrays


def _begin(path: str, item: tuple[str, dict]) -> tuple[int, int]:
    """Returns the offsets of a header's entry, once it is known to be well formed."""
    name, entry = item

    def natural(values, count=None):
        return (
            isinstance(values, list)
            and (count is None or len(values) == count)
            and all(type(value) is int and value >= 0 for value in values)
        )

    if not (
        isinstance(entry, dict)
        and isinstance(entry.get("dtype"), str)
        and natural(entry.get("shape"))
        and natural(entry.get("data_offsets"), 2)
    ):
        raise ValueError(
            f"{path} must give dtype, shape and data_offsets of {name}; it says {entry}."
        )
    return tuple(entry["data_offsets"])


def write_safetensors(
    path: str | os.PathLike,
    arrays: Mapping[str, np.ndarray],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a `.safetensors` file, as the reference implementation would.

    Args:
      path: is overwritten.
      arrays: of any shapes and types that the format knows, bfloat16 included.
      metadata: texts about the file.

    Raises:
      ValueError: an array is of a type that the format does not know.
    """
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
        entries.append((-_RANKS.index(code), str(name), code, array.shape, array.astype(little)))
    header = {}
    if metadata is not None:
        header["__metadata__"] = dict(sorted(metadata.items()))
    offset = 0
    entries.sort(key=lambda entry: entry[:2])
    for _, name, code, shape, array in entries:
        end = offset + array.nbytes
        header[name] = {"dtype": code, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little"))
        file.write(text)
        for *_, array in entries:
            file.write(array.tobytes())
