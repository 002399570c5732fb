"""HDF5 files and `.keras` files that are sound, and cost much: each pass over them is a part of it.

A reader may read them or refuse them, in time and memory that follow their size.
"""

import json
import os
import pathlib
import zipfile

import h5py
import numpy as np

from tests.weights.hostile.checkpoints import HEADER

_CELL = ((3, 16), (4, 16), (16,))  # of an LSTM
_SMALL_OBJECTS = "[" + ",".join(['{"a":0}'] * 240_000) + "]"
# What HDF5 begins a file with.
_MAGIC = b"\x89HDF\r\n\x1a\n"


def _write(path: pathlib.Path, groups: int = 0, zeros: int = 0) -> pathlib.Path:
    """A layer LSTM of Keras 3, and empty groups, or an array of zeros, that nobody asks for."""
    with h5py.File(path, "w", libver="latest") as file:
        cell = file.create_group("layers/lstm/cell/vars")
        for index, shape in enumerate(_CELL):
            cell[str(index)] = np.zeros(shape, np.float32)
        if zeros:
            file["layers/zeros"] = np.zeros(zeros, np.float32)
        if groups:
            deep = file.create_group("layers/" + "/".join("d" * 20))
            for number in range(groups):
                deep.create_group(f"{number:x}")
    return path


def _pack(folder: pathlib.Path, config: str, metadata: str = "{}", **options) -> pathlib.Path:
    weights = _write(folder / "weights.h5", **options)
    with zipfile.ZipFile(folder / "model.keras", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", config)
        archive.writestr("metadata.json", metadata)
        archive.write(weights, "model.weights.h5")
    weights.unlink()
    return folder / "model.keras"


def of_deep_groups(folder):
    return _write(folder / "model.weights.h5", groups=1700)


def of_very_many_groups(folder):
    return _write(folder / "model.weights.h5", groups=9000)


def packed_zeros_and_groups(folder):
    return _pack(folder, "{}", groups=5000, zeros=9_000_000)


def packed_json(folder):
    return _pack(folder, _SMALL_OBJECTS, _SMALL_OBJECTS)


def packed_json_and_groups(folder):
    levels = "[" * 80 + _SMALL_OBJECTS + "]" * 80
    return _pack(folder, levels, levels, groups=5000, zeros=9_000_000)


def stored_json(folder):
    """JSON that is not packed, as Keras writes it."""
    path = _pack(folder, "{}")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", _SMALL_OBJECTS)
        archive.writestr("metadata.json", _SMALL_OBJECTS)
        archive.write(_write(folder / "weights.h5", groups=1700), "model.weights.h5")
    return path


def packed_headers(folder):
    """Of 400 layers CudnnRNN, each with a header of 64 KB, which HDF5 packs into a few bytes."""
    path = folder / "model.weights.h5"
    text = json.dumps({**HEADER, "x": [0] * 32_000}, separators=(",", ":"))
    header = np.frombuffer(text.encode().ljust(1 << 16), np.uint8)
    with h5py.File(path, "w", libver="latest") as file:
        for number in range(400):
            group = file.create_group(f"layers/{number}/vars")
            group.create_dataset("header", data=header, compression="gzip")
    return path


def of_holes(folder):
    """20 GB, of which a file system keeps eight bytes."""
    path = folder / "model.weights.h5"
    path.write_bytes(_MAGIC)
    os.truncate(path, 20 << 30)
    return path


COSTLY = {
    build.__name__: build
    for build in (
        of_deep_groups,
        of_very_many_groups,
        packed_zeros_and_groups,
        packed_json,
        packed_json_and_groups,
        stored_json,
        packed_headers,
        of_holes,
    )
}
