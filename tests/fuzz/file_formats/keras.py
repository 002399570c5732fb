"""`.keras` files: archives as a whole, and the configs in them."""

import functools
import io
import json
import random
import zipfile

import h5py

from tests.fuzz.file_formats import command_line, mutations
from tests.fuzz.file_formats.format import (
    SEEDS,
    Format,
    Process,
    refuses,
    scratch,
    written,
)
from tests.fuzz.file_formats.hdf5 import read_here
from tf_cudnn_rnn._formats import hdf5, keras_file

_CONFIG, _WEIGHTS = "config.json", "model.weights.h5"


def _read_archive(content: bytes, seed: str) -> str:
    path = written(content, "model.keras")
    hdf5.limit(2 * len(content))  # the archive, and what is unpacked
    with read_here():
        try:
            keras_file.read_config(path)
            keras_file.read_arrays(path)
        except (ValueError, OSError) as error:
            command_line.read(path)
            return refuses(error, path)
        return command_line.read(path)


def _mutate_archive(rng: random.Random, content: bytes) -> bytes:
    def change(member: bytes) -> bytes:
        if member.startswith(b"{") and rng.random() < 0.7:
            return _mutate_config(rng, member)
        return mutations.mutate(rng, member)

    return mutations.mutate_member(rng, content, change)


@functools.cache
def _weights() -> bytes:
    """Arrays of all layers in the seeds."""
    path = scratch(_WEIGHTS)
    with h5py.File(path, "w") as file:
        for seed in ("stock", "own"):
            with h5py.File(SEEDS / "weights_h5" / f"{seed}.weights.h5") as other:
                for name in other["layers"]:
                    other.copy(f"layers/{name}", file.require_group("layers"))
    with open(path, "rb") as file:
        return file.read()


def _read_config(content: bytes, seed: str) -> str:
    """Reads a config, beside weights that are always the same."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(_CONFIG, content)
        file.writestr(_WEIGHTS, _weights())
    path = written(archive.getvalue(), "model.keras")
    with read_here():
        return command_line.read(path)


def _mutate_config(rng: random.Random, content: bytes) -> bytes:
    """Changes values in it."""
    config = json.loads(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        value, places = config, []
        while isinstance(value, dict | list) and value and (not places or rng.random() < 0.9):
            key = rng.choice(list(value)) if isinstance(value, dict) else rng.randrange(len(value))
            places.append((value, key))
            value = value[key]
        if not places:
            break
        holder, key = rng.choice(places[-2:])
        other, other_key = rng.choice(places)
        holder[key] = rng.choice([*mutations.ODD_VALUES, json.loads(json.dumps(other[other_key]))])
    return json.dumps(config).encode()


FORMATS = {
    "keras": Format(_read_archive, mutate=_mutate_archive, process=Process.LIMITED),
    "keras_config": Format(_read_config, mutate=_mutate_config),
}
