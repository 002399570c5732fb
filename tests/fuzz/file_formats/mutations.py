"""Changes to the bytes of files, of which the same number always gives the same."""

import io
import random
import zipfile
from collections.abc import Callable

_NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_TOKENS = [
    *(
        b"PK\1\2",
        b"PK\3\4",
        b"PK\5\6",
        b"\x93NUMPY",
        b"'<f4'",
        b"'|O'",
        b"'<f2'",
        b"'>f8'",
        b"(",
        b")",
    ),
    *(
        b"[",
        b"{",
        b'"',
        b",",
        b":",
        b"null",
        b"1e999",
        b"-",
        b"9" * 30,
        b"\\ud800",
        b"GCOL",
        b"OHDR",
    ),
    *(b"TREE", b"HEAP", b"SNOD", b"\xff" * 8, b"\0" * 8, b"\x80" * 9, b"\x0a\x00"),
]


def mutate(rng: random.Random, content: bytes) -> bytes:
    """Changes a few bytes: flips, numbers, pieces moved, left out or doubled, an early end."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if not data:
            return bytes(data)
        at = rng.randrange(len(data))
        kind = rng.randrange(9)
        length = rng.choice((1, 2, 4, 8, 16, rng.randrange(1, len(data) + 1)))
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind in (2, 3):
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice((*_NUMBERS, len(data), rng.randrange(len(data))))
            data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == 4:
            token = rng.choice(_TOKENS)
            data[at : at + rng.choice((0, len(token)))] = token
        elif kind == 5:
            del data[at : at + length]
        elif kind == 6:
            data[at:at] = data[at : at + length]
        elif kind == 7:
            other = rng.randrange(len(data))
            data[at : at + length] = data[other : other + length]
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def mutate_member(rng: random.Random, content: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """Changes a member of a zip file, or its name, so that the checksums are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            member = old.read(name)
            if name == chosen:
                member = change(member)
                name = rng.choice([name, name, name, rng.choice(names), name[:-4], "é\0" + name])
            info = zipfile.ZipInfo(name)
            info.compress_type = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            new.writestr(info, member)
    return out.getvalue()


# In place of a value in JSON.
ODD_VALUES = [
    *(0, -1, 1, 8, 2**31, 2**63, 2**64, 10**30, 1.5, True, None, "F32", "BF16", "F8_E4M3"),
    *([], {}, [0], [1], [2, 4], [0, 0], [0, 8], [2**62, 4], [-1, 1], [[1]], "x" * 1000, "\ud800"),
    [1] * 65,
]
