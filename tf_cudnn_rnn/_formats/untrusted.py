"""Bounds for files that a stranger may have written.

A number in a file is a claim. What a reader spends follows the bytes that are there: it compares
before it allocates or loops. Well-kept readers do the reading (json, zipfile, NumPy, h5py,
protobuf); here stands what holds them to that, and turns what they raise into a ValueError that
names the file and the place.

Memory: a reader takes at most 200 MB and twice the file's size, before it refuses. Of these,
arrays have what `Allowance` tells, and the rest is for the readers themselves.
"""

import contextlib
import errno
import io
import json
import math
import os
import reprlib
import stat
import struct
import zipfile
from collections.abc import Iterator
from typing import IO, Any, NamedTuple, cast

import numpy as np

# Of arrays in a compressed file; what is larger must be stored as it is.
_ALLOWANCE_BYTES = 48 << 20
# Of JSON. In a header of safetensors this is 75,000 arrays, and a value takes up to 100 bytes.
MAX_JSON_BYTES = 8 << 20
_MAX_JSON_VALUES = 1_000_000
_MAX_JSON_DEPTH = 100
# NumPy 1 has no more.
MAX_DIMENSIONS = 32
# Of a network. One of float32 and one unit takes 64 bytes of a file, and 16 arrays here.
MAX_LAYERS = 2000
_MAX_MEMBERS = 10_000
_DIRECTORY_ENTRY = b"PK\x01\x02"  # of a zip file; each member has one
# Of an entry: what comes before the sizes of its name, of what is beside it, and of its comment.
_ENTRY = struct.Struct("<28s3H12s")
_MAX_EXTRA = 1024  # of 64-bit sizes, times and the like
# What ends it: signature, four numbers of disks and members, the directory's size and place, and
# the size of a comment.
_END = struct.Struct("<4s4H2LH")
_END_BEGINS = b"PK\x05\x06"
# What may come before that: an end of 64 bits, and what leads to it, by its address.
_END_64 = struct.Struct("<4sQ2H2L4Q")
_END_64_BEGINS = b"PK\x06\x06"
_LOCATOR = struct.Struct("<4sLQL")
_LOCATOR_BEGINS = b"PK\x06\x07"
_MAX_DIRECTORY_BYTES = 32 << 20
_SIZES_64 = 1  # a kind of what a directory has beside a member's name
_ENCRYPTED = 1
_ZIP_BEGINS = (b"PK\x03\x04", b"PK\x05\x06")
_MAX_SHOWN = 200


class ArrayHeader(NamedTuple):
    """What a file says of an array, known to fit the bytes that are there."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """As an array has it."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """As an array has it."""
        return math.prod(self.shape) * self.dtype.itemsize


def shown(value: Any) -> str:
    """`value`, which comes from a file, for a message: short, and printable."""
    if not isinstance(value, str):
        return reprlib.repr(value)
    if value.isprintable() and len(value) <= _MAX_SHOWN:
        return value
    return ascii(value[:_MAX_SHOWN]) + ("..." if len(value) > _MAX_SHOWN else "")


def is_size(value: Any) -> bool:
    """Whether `value` can be a size of NumPy's, which are 64-bit integers."""
    return type(value) is int and 0 <= value < 2**63


@contextlib.contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[io.BufferedReader, int]]:
    """Opens a file to read: yields it, and its size in bytes.

    Raises:
      OSError: it cannot be opened, or read.
      ValueError: it is a pipe or a device, which may have no end; or no file can have that name.
    """
    with named(path):
        # A pipe without a writer would block.
        opened_file = open(path, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK))
    with opened_file as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError(f"{os.fspath(path)} must be a file; it is a pipe or a device.")
        with named(path):
            yield file, status.st_size


def stored_bytes(path: str | os.PathLike[str]) -> int:
    """The bytes of a file, without holes, as far as the file system tells."""
    status = os.stat(path)
    return min(status.st_size, 512 * status.st_blocks) if status.st_blocks else status.st_size


@contextlib.contextmanager
def named(path: str | os.PathLike[str]) -> Iterator[None]:
    """Puts the name of the file before errors that do not have it."""
    path = os.fsdecode(path)
    name = path if path.isprintable() else ascii(path)  # which any stream takes
    try:
        yield
    except ValueError as error:
        if path in str(error) or name in str(error):
            raise
        raise ValueError(f"{name}: {error}") from error
    except OSError as error:
        if error.filename is not None or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error
    except MemoryError as error:
        raise OSError(errno.ENOMEM, "It does not fit into memory", path) from error


class Refused(ValueError):
    """What of a sound file is refused, in words of ours, while a reader of others reads it."""


@contextlib.contextmanager
def read_by(reader: str, what: str) -> Iterator[None]:
    """Turns whatever a reader of others raises into a ValueError; a Refused keeps its words.

    Which classes that can be, none of them says: zipfile, for example, has six.

    Args:
      reader: for messages.
      what: the place and the file.
    """
    try:
        yield
    except Refused as refusal:
        raise ValueError(str(refusal)) from refusal
    except Exception as error:
        text = shown(f"{type(error).__name__}: {error}")
        raise ValueError(
            f"{what} is damaged, or forged: {reader} says {text}. If it was cut off on its way, "
            "fetch it again."
        ) from error


def load_json(text: bytes | str, what: str) -> Any:
    """Parses JSON, in which no object has a key twice.

    Raises:
      ValueError: it is none, or too deep or long to be read; begins with `what`.
    """
    if len(text) > MAX_JSON_BYTES:
        raise ValueError(
            f"{what} has {len(text)} bytes of JSON; it must have {MAX_JSON_BYTES} at most."
        )
    if isinstance(text, bytes):
        values = sum(map(text.count, (b"[", b"{", b",", b":")))
    else:
        values = sum(map(text.count, "[{,:"))
    if values > _MAX_JSON_VALUES:
        raise ValueError(
            f"{what} has up to {values} values in JSON; it must have {_MAX_JSON_VALUES} at most."
        )
    try:
        text = text.decode() if isinstance(text, bytes) else text
        value = json.loads(text, object_pairs_hook=_unique)
        if "\\u" in text:  # which can make half a character
            json.dumps(value, ensure_ascii=False).encode()
    except KeyError as error:
        key = shown(error.args[0])
        raise ValueError(f"{what} has the key {key} twice in one object of JSON.") from None
    except RecursionError:
        value = None
        depth = _MAX_JSON_DEPTH + 1
    except ValueError as error:
        raise ValueError(f"{what} is no JSON.") from error
    else:
        depth = _depth(value)
    if depth > _MAX_JSON_DEPTH:
        raise ValueError(
            f"{what} has lists in lists of JSON; it must have {_MAX_JSON_DEPTH} levels at most."
        )
    return value


def _depth(value: Any) -> int:
    """How many levels of lists and objects `value` has; stops at one too many."""
    depth = 0
    level = [value]
    while level and depth <= _MAX_JSON_DEPTH:
        inner = [item for item in level if isinstance(item, dict | list)]
        depth += bool(inner)
        level = [
            part for item in inner for part in (item.values() if isinstance(item, dict) else item)
        ]
    return depth


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen = set()
        for key, _ in pairs:
            if key in seen:
                raise KeyError(key)
            seen.add(key)
    return result


class _WhileOpened:
    """A file of which zipfile reads the end and the directory: what it reads is bounded.

    A directory has no bounds of its own, and zipfile makes an object of each member. Where it looks
    for the directory, and which of several ends it believes, differs with its version; all read it
    at once.
    """

    def __init__(self, file: io.BufferedReader, path: str):
        self._file = file
        self._path = path
        self.is_open = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def read(self, size: int | None = -1) -> bytes:
        if self.is_open:
            return self._file.read(size)
        most = _MAX_DIRECTORY_BYTES
        if size is not None and size > most:
            raise Refused(
                f"The directory of {self._path}, a zip file, must have at most {most} bytes; it "
                f"has {size}."
            )
        data = self._file.read(most if size is None or size < 0 else size)
        count = data.count(_DIRECTORY_ENTRY)
        if count > _MAX_MEMBERS:
            raise Refused(
                f"{self._path} must hold at most {_MAX_MEMBERS} members; it holds {count}."
            )
        self._check_entries(data)
        return data

    def _check_entries(self, data: bytes) -> None:
        """Refuses a directory with long records of its own kinds, each of which zipfile copies."""
        position = 0
        while data.startswith(_DIRECTORY_ENTRY, position):
            entry = data[position : position + _ENTRY.size]
            if len(entry) < _ENTRY.size:
                return
            _, name, extra, comment, _ = _ENTRY.unpack(entry)
            if extra > _MAX_EXTRA:
                raise Refused(
                    f"The members of {self._path}, a zip file, must have at most {_MAX_EXTRA} "
                    f"bytes beside their names; one has {extra}."
                )
            position += _ENTRY.size + name + extra + comment


def open_zip(file: io.BufferedReader, size: int, path: str) -> zipfile.ZipFile:
    """Opens a zip file of `size` bytes, whose members together are not too large.

    Each is stored or deflated, as those that NumPy and Keras write.

    Raises:
      ValueError: it is none, or holds something else.
    """
    # zipfile would read one that has something before it, which NumPy does not.
    file.seek(0)
    if file.read(4) not in _ZIP_BEGINS:
        raise ValueError(f"{path} is no zip file: it must begin with PK.")
    guarded = _WhileOpened(file, path)
    with read_by("zipfile", path):
        archive = zipfile.ZipFile(cast(IO[bytes], guarded))
    guarded.is_open = True
    allowance = Allowance(size)
    seen = set()
    for member in archive.infolist():
        where = f"{shown(member.filename)} in {path}"
        if member.filename in seen:
            raise ValueError(f"{where} must be there once; it is there twice.")
        seen.add(member.filename)
        is_known = member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if not is_known or member.flag_bits & _ENCRYPTED:
            raise ValueError(
                f"{where} must be stored or deflated, and not encrypted; it has method "
                f"{member.compress_type} and flags {member.flag_bits:#x}."
            )
        allowance.take(member.file_size, where)
    return archive


def check_unambiguous(
    archive: zipfile.ZipFile, file: io.BufferedReader, size: int, path: str
) -> None:
    """Checks that another reader of zip files finds the same in one as zipfile does.

    zipfile takes what is right before the end for the directory, whatever the end says of its
    place. Of a member's sizes of 64 bits it may take the second.

    Args:
      archive: what `open_zip` made of the file.
      file: the file.
      size: of it.
      path: of it, for messages.

    Raises:
      ValueError: it may find other members, or other sizes.
    """
    begin = size - _END.size
    signature, *_, length, place, comment = _END.unpack(_piece(file, begin, _END.size))
    is_one = signature == _END_BEGINS and comment == 0
    locator = _piece(file, max(0, begin - _LOCATOR.size), _LOCATOR.size)
    if locator.startswith(_LOCATOR_BEGINS) and begin >= _LOCATOR.size + _END_64.size:
        begin -= _LOCATOR.size + _END_64.size
        signature, *_, length, place = _END_64.unpack(_piece(file, begin, _END_64.size))
        is_one &= signature == _END_64_BEGINS and _LOCATOR.unpack(locator)[2] == begin
    if not is_one or place + length != begin:
        raise ValueError(
            f"{path} must have one directory of its members, right before its end, and no comment: "
            "readers of zip files look for it in different places."
        )
    for member in archive.infolist():
        extra, found = member.extra, 0
        while len(extra) >= 4:
            kind, length = struct.unpack_from("<2H", extra)
            extra = extra[4 + length :]
            found += kind == _SIZES_64
        if found > 1:
            raise ValueError(f"{shown(member.filename)} in {path} must have its size once.")


def _piece(file: io.BufferedReader, begin: int, size: int) -> bytes:
    file.seek(begin)
    return file.read(size)


def check_layers(number: int, where: str) -> None:
    """Raises ValueError if a file says that a network has more layers than anybody's."""
    if number > MAX_LAYERS:
        raise ValueError(f"{where} must have at most {MAX_LAYERS} layers; it has {number}.")


def most_shared(size: int) -> int:
    """The bytes of all arrays that a file of `size` bytes may refer to, or compute."""
    return _ALLOWANCE_BYTES + size


def check_shared(used: int, size: int, where: str) -> None:
    """Raises ValueError if what refers to arrays of a file has far more bytes than the file.

    Args:
      used: the bytes of all arrays, each counted as often as something refers to it.
      size: of the file.
      where: for the message.
    """
    most = most_shared(size)
    if used > most:
        raise ValueError(
            f"{where} must have at most {most} bytes of weights, as the file has {size}; they "
            f"refer to {used}, the same bytes again and again."
        )


class Allowance:
    """The bytes that all arrays of a file may have when they are unpacked."""

    def __init__(self, size: int):
        """Begins with that of a file of `size` bytes."""
        self._size = size
        self._left = self._all = _ALLOWANCE_BYTES + size + size // 2

    def take(self, count: int, what: str) -> None:
        """Takes `count` bytes for `what`; ValueError if they are not left."""
        self._left -= count
        if self._left < 0:
            raise ValueError(
                f"{what} would take {count} bytes. All arrays must fit into {self._all}, as the "
                f"file has {self._size}; if it is to be trusted, write it without compression."
            )
