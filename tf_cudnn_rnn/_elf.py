"""How long a shared library has to be.

The dynamic loader maps what a library's headers say, and does not ask whether the file has it: the
first access beyond its end kills the process (SIGBUS), with no word on what is wrong.
"""

import os
import struct

# ELF for 64 bits, little-endian, as all of our libraries are.
_MAGIC = b"\x7fELF\x02\x01"
_HEADER = struct.Struct("<16s2HI3QI6H")
_SEGMENT = struct.Struct("<2I6Q")
_SECTION = struct.Struct("<2I4Q2I2Q")
_NOT_IN_FILE = 8  # SHT_NOBITS, such as .bss


def needed_bytes(path: str | os.PathLike[str]) -> int:
    """The bytes that a library must have, as its headers say; 0 if it is none that we know.

    Of headers that are not there whole, it is what they themselves need.

    Raises:
      OSError: it cannot be read.
    """
    with open(path, "rb") as file:
        begin = file.read(_HEADER.size)
        if not begin.startswith(_MAGIC):
            return 0
        if len(begin) < _HEADER.size:
            return _HEADER.size
        fields = _HEADER.unpack(begin)
        segments, sections = fields[5], fields[6]
        num_segments, num_sections = fields[10], fields[12]
        needed = max(
            segments + num_segments * _SEGMENT.size, sections + num_sections * _SECTION.size
        )
        if needed > os.fstat(file.fileno()).st_size:
            return needed
        file.seek(segments)
        for _ in range(num_segments):
            _, _, offset, _, _, size, _, _ = _SEGMENT.unpack(file.read(_SEGMENT.size))
            needed = max(needed, offset + size)
        file.seek(sections)
        for _ in range(num_sections):
            _, kind, _, _, offset, size, *_ = _SECTION.unpack(file.read(_SECTION.size))
            if kind != _NOT_IN_FILE:
                needed = max(needed, offset + size)
        return needed


def fault(path: str | os.PathLike[str]) -> str | None:
    """Says that a part of a library is missing, of which loading it would die; None if none is.

    Raises:
      OSError: it cannot be read.
    """
    needed, size = needed_bytes(path), os.path.getsize(path)
    if size >= needed:
        return None
    return f"{path} is not whole: it must have {needed} bytes, as its headers say; it has {size}."
