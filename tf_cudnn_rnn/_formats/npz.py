"""NumPy's .npz files: zip files of .npy files."""

import contextlib
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, TypeVar

import numpy as np

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import Array

_Item = TypeVar("_Item")  # what is read of each array

_PIECE = 1 << 20  # bytes
_NOTHING = ((), False, np.dtype(np.uint8))
_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_npz(path: str | os.PathLike[str]) -> dict[str, Array]:
    """Reads all arrays of an `.npz` file, which may come from anybody.

    np.load believes what such a file says of its sizes; this compares them with the bytes that
    are there. It runs no code from the file.

    Raises:
      OSError: it cannot be opened.
      ValueError: it is no such file, is damaged, holds objects or records, or would take much
        more memory than it has bytes.
    """
    return _read_all(path, _read)


def read_npz_headers(path: str | os.PathLike[str]) -> dict[str, untrusted.ArrayHeader]:
    """Reads what `read_npz` would, but for the arrays: their types and shapes."""
    return _read_all(path, _read_header)


def _read_all(
    path: str | os.PathLike[str], read: Callable[[zipfile.ZipFile, zipfile.ZipInfo, str], _Item]
) -> dict[str, _Item]:
    path = os.fspath(path)
    arrays = {}
    with untrusted.opened(path) as (file, size):
        archive = untrusted.open_zip(file, size, path)
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            where = f"{untrusted.shown(name)} in {path}"
            if name == member.filename:
                raise ValueError(f"{where} must be an array, whose name ends with .npy.")
            arrays[name] = read(archive, member, where)
    return arrays


def _read_header(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str
) -> untrusted.ArrayHeader:
    with _opened(archive, member, where) as (_, header, _):
        return header


def _read(archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str) -> Array:
    with _opened(archive, member, where) as (file, (dtype, shape), is_fortran):
        with untrusted.read_by("zipfile", where):
            array = np.empty(math.prod(shape), dtype)
            content = array.view(np.uint8) if array.size else array
            found = array.nbytes
            for begin in range(0, found, _PIECE):
                piece = file.read(min(_PIECE, found - begin))
                content[begin : begin + len(piece)] = np.frombuffer(piece, np.uint8)
            return array.reshape(shape, order="F" if is_fortran else "C")


@contextlib.contextmanager
def _opened(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, where: str
) -> Iterator[tuple[IO[bytes], untrusted.ArrayHeader, bool]]:
    """Opens a member whose size is one that it may have, and reads its header.

    Yields:
      The file, at the first element; the header; whether the first axis is the fastest.
    """
    with contextlib.ExitStack() as stack:
        with untrusted.read_by("NumPy", where):
            file = stack.enter_context(archive.open(member))
            version = np.lib.format.read_magic(file)
            read_header = _HEADERS.get(version)
            shape, is_fortran, dtype = read_header(file) if read_header else _NOTHING
            found = member.file_size - file.tell()
        if read_header is None:
            raise ValueError(f"{where} must be of version 1 or 2 of .npy; it is of {version}.")
        if dtype.kind not in "biufcSUV" or dtype.names or dtype.subdtype or not dtype.itemsize:
            raise ValueError(
                f"{where} must hold numbers or texts; it holds {untrusted.shown(str(dtype))}."
            )
        if len(shape) > untrusted.MAX_DIMENSIONS or not all(map(untrusted.is_size, shape)):
            raise ValueError(
                f"{where} must have a shape of up to {untrusted.MAX_DIMENSIONS} sizes; its shape "
                f"is {untrusted.shown(shape)}."
            )
        if math.prod(shape) * dtype.itemsize != found:
            raise ValueError(
                f"{where} must have the bytes of its shape {untrusted.shown(shape)} and type "
                f"{dtype}; it has {found}."
            )
        yield file, untrusted.ArrayHeader(dtype, shape), is_fortran
