"""`.safetensors` files; the reference implementation judges."""

import json
import random

import safetensors

from tests.fuzz.file_formats import command_line, mutations
from tests.fuzz.file_formats.format import Format, mode_of, refuses, written
from tf_cudnn_rnn import weights


def _read(content: bytes, seed: str) -> str:
    path = written(content, "model.safetensors")
    command_line.read(path)
    try:
        arrays = weights.read_safetensors(path)
    except (ValueError, OSError) as error:
        return refuses(error, path)
    # What is read here the reference implementation reads, too, and finds the same.
    for name, entry in safetensors.deserialize(content):
        array = arrays.pop(name)
        assert list(array.shape) == entry["shape"], name
        assert array.tobytes() == bytes(entry["data"]), name
    assert not arrays, f"only here there is {list(arrays)}"
    try:
        canonical = weights.from_torch(path, mode_of(seed))
    except (ValueError, OSError) as error:
        return refuses(error, path)
    assert canonical.params.size == canonical.layout.size
    return "read"


def mutate(rng: random.Random, content: bytes) -> bytes:
    """Changes the header's text, or a value in it."""
    size = int.from_bytes(content[:8], "little")
    text, data = content[8 : 8 + size], content[8 + size :]
    if rng.random() < 0.5:
        text = mutations.mutate(rng, text)
    else:
        header = json.loads(text)
        names = list(header)
        entry = header[rng.choice(names)]
        key = rng.choice(list(entry))
        entry[key] = rng.choice(
            [*mutations.ODD_VALUES, entry[key], header[rng.choice(names)].get(key)]
        )
        text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


FORMATS = {"safetensors": Format(_read, ("torch/*.safetensors",), mutate)}
