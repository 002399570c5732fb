"""Protocol buffers that hold graphs, read field by field.

A graph of ONNX or a SavedModel has its weights inside, and what is asked of it are a few small
fields. So no message is built: what nobody asks for is skipped, whatever its size. Each length is
compared with the bytes that are there, nothing recurses but what the caller asks for, and the
number of fields is bounded.
"""

import os
from collections.abc import Iterator

from tf_cudnn_rnn._formats import untrusted

MAX_BYTES = 2 << 30  # of any protocol buffer
# Less than a second, and 80 MB for their places. A node of a graph takes 3 to 20, most 6.
_MAX_FIELDS = 400_000
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
MAX_VARINT = 10  # bytes


class Damage(ValueError):
    """What is wrong with a message, without the file's name."""


def read_file(path: str | os.PathLike[str], what: str) -> memoryview:
    """Reads a file that is one message.

    Args:
      path: of the file.
      what: it should be, for messages.

    Raises:
      OSError: it cannot be opened.
      ValueError: it cannot be a protocol buffer.
    """
    with untrusted.opened(path) as (file, size):
        if size > MAX_BYTES:
            raise ValueError(f"{path} is no {what}: it must have at most {MAX_BYTES} bytes.")
        # A field's number is not 0. That ends here for a large file of zeros.
        if not size or not file.read(1)[0] >> 3:
            raise ValueError(f"{path} is no {what}.")
        file.seek(0)
        return memoryview(file.read(size))


class Fields:
    """Reads the fields of messages; knows how many it has read of a file."""

    def __init__(self) -> None:
        self._left = _MAX_FIELDS

    def of(self, message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
        """Yields the number and the value of each field: an integer, or bytes.

        Fixed-size numbers come as bytes, too.

        Raises:
          Damage: the message is none, or has too many fields.
        """
        position, end = 0, len(message)
        while position < end:
            self._left -= 1
            if self._left < 0:
                raise Damage(f"it has more than {_MAX_FIELDS} fields")
            tag = message[position]
            if tag < 0x80:  # which most are
                position += 1
            else:
                tag, position = varint(message, position, end)
            number, kind = tag >> 3, tag & 7
            if kind == _VARINT:
                value, position = varint(message, position, end)
                yield number, value
                continue
            if kind == _BYTES:
                length = message[position] if position < end else 0x80
                if length < 0x80:
                    position += 1
                else:
                    length, position = varint(message, position, end)
            elif kind in (_FIXED32, _FIXED64):
                length = 4 if kind == _FIXED32 else 8
            else:
                raise Damage(f"it has a field of kind {kind}")
            if length > end - position:
                raise Damage(f"it has a field of {length} bytes where {end - position} are left")
            yield number, message[position : position + length]
            position += length

    def last(self, message: memoryview, number: int) -> int | memoryview | None:
        """The value of a field that is there once; None if it is missing."""
        found = None
        for other, value in self.of(message):
            if other == number:
                found = value
        return found

    def first(self, message: memoryview, number: int) -> int | memoryview | None:
        """The value of a field where it first comes; None if it is missing.

        What comes after is not looked at: for many messages.
        """
        return next((value for other, value in self.of(message) if other == number), None)

    def integers(self, values: list[int | memoryview]) -> list[int]:
        """A repeated field of integers, packed or not."""
        found = []
        for value in values:
            if isinstance(value, int):
                found.append(signed(value))
                continue
            position = 0
            while position < len(value):
                self._left -= 1
                if self._left < 0:
                    raise Damage(f"it has more than {_MAX_FIELDS} fields")
                number, position = varint(value, position, len(value))
                found.append(signed(number))
        return found


def varint(message: memoryview, position: int, end: int) -> tuple[int, int]:
    """Returns a number of a message that ends at `end`, and the position after it."""
    value = shift = 0
    for place in range(position, min(end, position + MAX_VARINT)):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (2**64 - 1), place + 1
        shift += 7
    raise Damage("it has a number without an end")


def signed(value: int | memoryview | None) -> int:
    """A 64-bit integer of a field; 0 for one that is missing."""
    if not isinstance(value, int):
        if value is None:
            return 0
        raise Damage("it has bytes where a number must be")
    return value - 2**64 if value >= 2**63 else value


def part(value: int | memoryview) -> memoryview:
    """A message within a message."""
    if isinstance(value, int):
        raise Damage("it has a number where a message must be")
    return value


def text(value: int | memoryview | None, most: int = 4096) -> str:
    """A text of a field; "" for one that is missing."""
    if value is None:
        return ""
    content = part(value)
    if len(content) > most:
        raise Damage(f"it has a name of {len(content)} bytes; {most} are allowed")
    try:
        return bytes(content).decode()
    except UnicodeDecodeError:
        raise Damage("it has a name that is not UTF-8") from None
