"""What a format tells the fuzzer, and what all readers of it share."""

import enum
import functools
import pathlib
import random
import tempfile
from collections.abc import Callable
from typing import NamedTuple

# What this library and Keras wrote, as tests/golden has files of others; see write_seeds.py.
SEEDS = pathlib.Path(__file__).parents[1] / "seeds"


class Process(enum.Enum):
    """Where a file is read.

    OWN: in the fuzzer's process, where atheris sees which lines run.
    APART: in a fork, as a crash would end the fuzzer. It is a finding.
    LIMITED: in a fork under limits, as the library itself reads HDF5 files in another process.
      When that ends early, the library refuses the file.
    """

    OWN = enum.auto()
    APART = enum.auto()
    LIMITED = enum.auto()


class Format(NamedTuple):
    """A format of files.

    Attributes:
      read: the target. It takes the content of a file, which may be anything, and the path of its
        seed. It returns what became of it, "read" or "refused", and raises whatever is a finding.
      golden: patterns of files in tests/golden that are its seeds.
      mutate: changes a file such that it still looks like one; None if nothing need be kept.
      process: where each file is read.
    """

    read: Callable[[bytes, str], str]
    golden: tuple[str, ...] = ()
    mutate: Callable[[random.Random, bytes], bytes] | None = None
    process: Process = Process.OWN


@functools.cache
def scratch(name: str) -> str:
    """A path in a folder of its own, one for each process and name; whoever starts these cleans."""
    return tempfile.mkdtemp() + "/" + name


def written(content: bytes, name: str) -> str:
    """Writes a file of this name, and returns its path."""
    path = scratch(name)
    pathlib.Path(path).write_bytes(content)
    return path


def refuses(error: Exception, *places: str) -> str:
    """Checks the text of a refusal, which must name one of these."""
    text = str(error)
    assert any(place in text for place in places), f"it does not say where: {text}"
    assert len(text) < 3000, f"it is {len(text)} characters long"
    return "refused"


def mode_of(seed: str) -> str:
    """The mode of the network in a seed, by its name."""
    stem = pathlib.Path(seed).stem
    found = [mode for mode in ("rnn_tanh", "rnn_relu", "gru") if mode in stem]
    return {"model": "gru"}.get(stem, found[0] if found else "lstm")
