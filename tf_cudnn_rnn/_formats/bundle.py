"""The `.index` of a TensorFlow checkpoint, taken apart before TensorFlow sees it.

TensorFlow reads checkpoints of its own, and ends the process where an entry is none. So the
entries are looked at first. The file is a sorted table of LevelDB: blocks of keys and values, the
last of which tells where the others are. What TensorFlow does not write is refused, so that there
is one way to read the rest.
"""

import os
import struct
from collections.abc import Iterator

from tf_cudnn_rnn._formats import untrusted, wire

_MAGIC = 0xDB4775248B80FB57
_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of a block: how it is stored, and a checksum, which TensorFlow compares
_STORED = 0
_MAX_BYTES = 64 << 20
_MAX_ENTRIES = 100_000
_MAX_KEY_BYTES = 4096
_MAX_VALUE_BYTES = 1 << 16  # of an entry, some hundred for most
_MAX_ALL_KEY_BYTES = 32 << 20  # keys are stored without what they share with those before


def entries(path: str | os.PathLike[str]) -> list[tuple[bytes, memoryview]]:
    """Returns the keys and values of an index, in order.

    Raises:
      OSError: it cannot be opened.
      ValueError: it is no such file, or is damaged.
    """
    path = os.fspath(path)
    with untrusted.opened(path) as (file, size):
        if size > _MAX_BYTES:
            raise ValueError(f"{path} must have at most {_MAX_BYTES} bytes; it has {size}.")
        content = memoryview(file.read(size))
    try:
        return _entries(content)
    except wire.Damage as error:
        raise ValueError(f"{path} is no index of a checkpoint, or is damaged: {error}.") from None


def _entries(content: memoryview) -> list[tuple[bytes, memoryview]]:
    footer = content[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise wire.Damage("it does not end as a table of LevelDB does")
    _, position = _handle(footer, 0)
    place, _ = _handle(footer, position)
    found: list[tuple[bytes, memoryview]] = []
    key_bytes = 0
    for _, value in _block(content, place):
        for key, entry in _block(content, _handle(value, 0)[0]):
            if found and key <= found[-1][0]:
                raise wire.Damage("its keys are not in order")
            if len(entry) > _MAX_VALUE_BYTES:
                raise wire.Damage(f"it has an entry of {len(entry)} bytes")
            key_bytes += len(key)
            if len(found) >= _MAX_ENTRIES or key_bytes > _MAX_ALL_KEY_BYTES:
                raise wire.Damage(
                    f"it has more than {_MAX_ENTRIES} entries, or keys of more than "
                    f"{_MAX_ALL_KEY_BYTES} bytes"
                )
            found.append((key, entry))
    return found


def _handle(content: memoryview, position: int) -> tuple[tuple[int, int], int]:
    """The place and size of a block, and the position behind them."""
    place, position = wire.varint(content, position, len(content))
    size, position = wire.varint(content, position, len(content))
    return (place, size), position


def _block(content: memoryview, handle: tuple[int, int]) -> Iterator[tuple[bytes, memoryview]]:
    """Yields the keys and values of a block."""
    place, size = handle
    if size < 4 or place + size + _TRAILER_BYTES > len(content):
        raise wire.Damage(f"it has a block of {size} bytes at {place}, which is not there")
    if content[place + size] != _STORED:
        raise wire.Damage("it is compressed, which TensorFlow does not do")
    block = content[place : place + size]
    # Where keys are stored whole. A search begins at any of these.
    (count,) = struct.unpack("<I", block[-4:])
    end = size - 4 - 4 * count
    if count < 1 or end < 0:
        raise wire.Damage(f"it has a block of {count} restarts in {size} bytes")
    restarts = set(struct.unpack(f"<{count}I", block[end:-4]))
    position, key = 0, b""
    wholes = set()
    while position < end:
        begin = position
        shared, position = wire.varint(block, position, end)
        more, position = wire.varint(block, position, end)
        length, position = wire.varint(block, position, end)
        if shared > len(key) or shared + more > _MAX_KEY_BYTES or more + length > end - position:
            raise wire.Damage(f"it has a key of {shared} and {more} bytes, or a value of {length}")
        if not shared:
            wholes.add(begin)
        key = key[:shared] + bytes(block[position : position + more])
        yield key, block[position + more : position + more + length]
        position += more + length
    if end and (not restarts <= wholes or len(restarts) < count or 0 not in restarts):
        raise wire.Damage("it has restarts that are no entries")
