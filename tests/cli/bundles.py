"""Writes the `.index` of a checkpoint, honest or not, with checksums that are right."""

import functools
import struct

from tests.weights.protobufs import varint
from tf_cudnn_rnn._formats import bundle


@functools.cache
def _crc32c_table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


def checksum(content: bytes) -> bytes:
    """As LevelDB stores it."""
    table, value = _crc32c_table(), 0xFFFFFFFF
    for byte in content:
        value = table[(value ^ byte) & 255] ^ value >> 8
    value ^= 0xFFFFFFFF
    return (((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def block(entries: list[tuple[bytes, bytes]], restarts: tuple[int, ...] = (0,), kind: int = 0):
    """A block, of which each key is stored whole, and what comes behind it."""
    content = bytearray()
    for key, value in entries:
        content += b"\0" + varint(len(key)) + varint(len(value)) + key + value
    content += struct.pack(f"<{len(restarts)}I", *restarts) + struct.pack("<I", len(restarts))
    content.append(kind)
    return bytes(content) + checksum(content)


def index(content: bytes) -> bytes:
    """A table of one block of data."""
    handles = block([(b"\xff", varint(0) + varint(len(content) - 5))])
    footer = varint(0) + varint(0) + varint(len(content)) + varint(len(handles) - 5)
    return content + handles + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def entries(path) -> dict[bytes, bytes]:
    """Those of an index."""
    return {key: bytes(value) for key, value in bundle.entries(path)}
