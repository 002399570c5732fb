"""Writes protocol buffers field by field, so that tests can write what no library would."""


def varint(value: int) -> bytes:
    """A number; a negative one as its 64 bits."""
    value &= 2**64 - 1
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])


def field(number: int, value: int | str | bytes) -> bytes:
    """A field of a number, or of a text, bytes or a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value
