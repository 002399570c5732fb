"""NumPy's .npz files: zip files of .npy files."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import zipfile
from collections.abc import Callable, Iterator
from typing import IO, TypeAlias, TypeVar

import numpy as np

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import Array

_Item = TypeVar("_Item")  # what is read of each array

_PIECE = 1 << 20  # bytes
# Of a header's length, by the version.
_LENGTHS = {(1, 0): 2, (2, 0): 4}
# NumPy reads one as Python does, which takes a microsecond for a byte or two. Spaces at its end
# are left out: writers make room for arrays that grow.
_MAX_HEADER_BYTES = 1024
# Of all that differ; those that are alike are parsed once. Of usual ones these are 3,000 shapes.
_MAX_HEADERS_BYTES = 1 << 18
_MAX_SPACES = 1 << 16


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


def read_some_npz(
    path: str | os.PathLike[str], is_wanted: Callable[[str], bool]
) -> dict[str, Array]:
    """Reads the arrays of some names, and passes the others over. Raises: as `read_npz`."""
    return _read_all(path, _read, is_wanted)


def _any(name: str) -> bool:
    del name
    return True


def read_npz_headers(
    path: str | os.PathLike[str], is_wanted: Callable[[str], bool] = _any
) -> dict[str, untrusted.ArrayHeader]:
    """Reads what `read_some_npz` would, but for the arrays: their types and shapes."""
    return _read_all(path, _read_header, is_wanted)


def read_npz_names(path: str | os.PathLike[str]) -> list[str]:
    """The names of all arrays. That is quick: no header is looked at."""
    path = os.fspath(path)
    with untrusted.opened(path) as (file, size):
        members = untrusted.open_zip(file, size, path).infolist()
    return [_name_of(member, path) for member in members]


def _name_of(member: zipfile.ZipInfo, path: str) -> str:
    name = member.filename.removesuffix(".npy")
    if name == member.filename:
        raise ValueError(
            f"{untrusted.shown(name)} in {path} must be an array, whose name ends with .npy."
        )
    return name


class _Headers:
    """Reads the headers of a file, and knows how many bytes of them it has parsed."""

    def __init__(self) -> None:
        self._left = _MAX_HEADERS_BYTES
        self._seen: set[bytes] = set()

    def read(self, file: IO[bytes], where: str) -> tuple[untrusted.ArrayHeader, bool]:
        """Reads what an .npy file begins with, and whether the first axis is the fastest."""
        length = 0
        text = b""
        with untrusted.read_by("NumPy", where):
            version = np.lib.format.read_magic(file)
            if version in _LENGTHS:
                length = int.from_bytes(_exactly(file, _LENGTHS[version]), "little")
            if length <= _MAX_SPACES:
                text = _exactly(file, length).rstrip(b" \n")  # as headers are padded
        if version not in _LENGTHS:
            raise ValueError(f"{where} must be of version 1 or 2 of .npy; it is of {version}.")
        if length > _MAX_SPACES or len(text) > _MAX_HEADER_BYTES:
            raise ValueError(
                f"{where} must have a header of at most {_MAX_HEADER_BYTES} bytes; it has "
                f"{len(text) or length}."
            )
        if text not in self._seen:
            self._seen.add(text)
            self._left -= len(text)
        if self._left < 0:
            raise ValueError(
                f"Headers of arrays that differ must have at most {_MAX_HEADERS_BYTES} bytes "
                f"together; they have more up to {where}."
            )
        with untrusted.read_by("NumPy", where):
            return _parsed(text)


def _exactly(file: IO[bytes], size: int) -> bytes:
    content = file.read(size)
    if len(content) != size:
        raise ValueError("EOF: the header is cut off")
    return content


@functools.lru_cache(maxsize=10_000)  # as many as members, as a file is read more than once
def _parsed(header: bytes) -> tuple[untrusted.ArrayHeader, bool]:
    """What NumPy says of a header."""
    file = io.BytesIO((len(header) + 1).to_bytes(4, "little") + header + b"\n")
    shape, is_fortran, dtype = np.lib.format.read_array_header_2_0(file)
    return untrusted.ArrayHeader(dtype, shape), is_fortran


_Read: TypeAlias = Callable[[zipfile.ZipFile, zipfile.ZipInfo, _Headers, str], _Item]


def _read_all(
    path: str | os.PathLike[str],
    read: _Read[_Item],
    is_wanted: Callable[[str], bool] = _any,
) -> dict[str, _Item]:
    path = os.fspath(path)
    arrays = {}
    headers = _Headers()
    with untrusted.opened(path) as (file, size):
        archive = untrusted.open_zip(file, size, path)
        for member in archive.infolist():
            name = _name_of(member, path)
            if is_wanted(name):
                where = f"{untrusted.shown(name)} in {path}"
                arrays[name] = read(archive, member, headers, where)
    return arrays


def _read_header(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, headers: _Headers, where: str
) -> untrusted.ArrayHeader:
    with _opened(archive, member, headers, where) as (_, header, _):
        return header


def _read(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, headers: _Headers, where: str
) -> Array:
    with _opened(archive, member, headers, where) as (file, (dtype, shape), is_fortran):
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
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, headers: _Headers, where: str
) -> Iterator[tuple[IO[bytes], untrusted.ArrayHeader, bool]]:
    """Opens a member whose size is one that it may have, and reads its header.

    Yields:
      The file, at the first element; the header; whether the first axis is the fastest.
    """
    with contextlib.ExitStack() as stack:
        with untrusted.read_by("NumPy", where):
            file = stack.enter_context(archive.open(member))
        (dtype, shape), is_fortran = headers.read(file, where)
        found = member.file_size - file.tell()
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
