"""What the fuzzer of files needs to know of each format: seeds, how to read, and who judges.

A file that is read must hold what another reader finds in it, as far as there is one, and a
refusal must name the file. Where the command line reads a format, `inspect` and `convert` read
each file, too.
"""

import functools
import pathlib
import random
from collections.abc import Iterable

from tests.fuzz.file_formats import (
    checkpoints,
    graphs,
    hdf5,
    keras,
    mutations,
    npz,
    runtime,
    safetensors,
    torch,
)
from tests.fuzz.file_formats.format import SEEDS, Format, Process
from tests.weights import golden

__all__ = ["CORPUS", "FORMATS", "Process", "corpus", "golden_files", "mutation"]

_ROOT = golden.FOLDER.parent
CORPUS = _ROOT / "fuzz" / "corpus"

FORMATS: dict[str, Format] = {
    **safetensors.FORMATS,
    **npz.FORMATS,
    **hdf5.FORMATS,
    **keras.FORMATS,
    **graphs.FORMATS,
    **checkpoints.FORMATS,
    **runtime.FORMATS,
    **torch.FORMATS,
}


@functools.cache
def golden_files(name: str) -> dict[str, bytes]:
    """What libraries wrote in a format, by path."""
    golden_paths = [
        path for pattern in FORMATS[name].golden for path in golden.FOLDER.glob(pattern)
    ]
    return _contents([*golden_paths, *(SEEDS / name).glob("*")])


@functools.cache
def corpus(name: str) -> dict[str, bytes]:
    """What was found worth to be kept of a format, by path."""
    return _contents((CORPUS / name).glob("*"))


def _contents(paths: Iterable[pathlib.Path]) -> dict[str, bytes]:
    return {str(path.relative_to(_ROOT)): path.read_bytes() for path in sorted(paths)}


def mutation(name: str, seed: str, content: bytes, number: int) -> bytes:
    """The mutation of this number of a seed, 0 being none; always the same."""
    if number == 0:
        return content
    rng = random.Random(f"{name} {seed} {number}")
    structured = FORMATS[name].mutate
    if structured is not None and rng.random() < 0.5:
        try:
            return structured(rng, content)
        except Exception:  # a seed that is damaged already
            pass
    return mutations.mutate(rng, content)
