"""Chooses inputs for tests/fuzz/corpus, of formats that atheris cannot follow.

    .venv/bin/python -m tests.fuzz.keep --mutations=2000 --formats keras weights_h5

Some formats are read in forks, from which no coverage comes home to atheris. This reads each
mutation in a fork, too, and asks there which lines of the library's Python run, and which errors
are raised. A mutation is kept if it reaches what neither a seed nor one that is kept already does:
first those that reach most for their bytes, and never more than --bytes of a format. It adds to a
corpus; what it cannot know is whether an input was hard to find.
"""

import argparse
import os
import pathlib
import pickle
import re
import sys
import types
import warnings
from collections.abc import Iterator
from typing import Any

from tests.fuzz import files  # which does without TensorFlow, as forks are cheaper then

file_formats = files.file_formats

_LIBRARY = str(pathlib.Path(__file__).resolve().parents[2] / "tf_cudnn_rnn") + os.sep
# What differs from file to file in a message.
_VARYING = re.compile(r"/\S+|'[^']*'|\"[^\"]*\"|b'.*'|\[[^\]]*\]|[\d.,]+")

Reached = frozenset[Any]


def _reached_here(name: str, seed: str, content: bytes) -> Reached:
    """The lines that one input runs, and the errors."""
    reached: set[Any] = set()

    def local(frame: types.FrameType, event: str, argument: Any) -> Any:
        if event == "line":
            reached.add((frame.f_code.co_filename.removeprefix(_LIBRARY), frame.f_lineno))
        elif event == "exception" and isinstance(argument[1], ValueError | OSError):
            reached.add(_VARYING.sub("#", str(argument[1]))[:200])
        return local

    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename.startswith(_LIBRARY) else None

    sys.settrace(trace)
    try:
        file_formats.FORMATS[name].read(content, seed)
    finally:
        sys.settrace(None)
    return frozenset(reached)


def reached(name: str, seed: str, content: bytes) -> Reached:
    """What one input reaches, in a fork; nothing if that crashes, or runs too long."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        try:
            found = pickle.dumps(_reached_here(name, seed, content))
            with os.fdopen(writing, "wb") as pipe:
                pipe.write(found)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    return pickle.loads(found) if found else frozenset()


def _mutations(name: str, count: int) -> Iterator[tuple[str, bytes]]:
    for seed, content in file_formats.golden_files(name).items():
        for number in range(1, count + 1):
            yield seed, file_formats.mutation(name, seed, content, number)


def choose(name: str, count: int, most_bytes: int) -> tuple[list[bytes], int, int]:
    """The mutations of a format that are worth to be kept.

    Returns:
      These, how many lines and errors they reach that no seed does, and how many all mutations do.
    """
    known: set[Any] = set()
    for seed, content in (file_formats.golden_files(name) | file_formats.corpus(name)).items():
        known |= reached(name, seed, content)
    known_before = len(known)
    left: dict[bytes, Reached] = {}
    for seed, content in _mutations(name, count):
        new = reached(name, seed, content) - known
        if new:
            left[content] = new
    reachable = len(frozenset().union(*left.values()))
    kept: list[bytes] = []
    while left:
        best = max(left, key=lambda content: len(left[content]) / (1000 + len(content)))
        if len(best) <= most_bytes:
            kept.append(best)
            most_bytes -= len(best)
            known |= left[best]
        del left[best]
        left = {content: new - known for content, new in left.items() if new - known}
    return kept, len(known) - known_before, reachable


def main() -> None:
    """Parses the flags."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=1000, help="of each seed")
    parser.add_argument("--bytes", type=int, default=40_000, help="of a format, at most")
    parser.add_argument("--formats", nargs="+", required=True, choices=file_formats.FORMATS)
    flags = parser.parse_args()
    for name in flags.formats:
        kept, new, reachable = choose(name, flags.mutations, flags.bytes)
        for content in kept:
            files.keep(name, content)
        print(
            f"{name}: {len(kept)} kept, of {sum(map(len, kept))} bytes; they reach {new} of "
            f"{reachable} lines and errors that mutations reach and seeds do not",
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of zipfile, about what we do on purpose
    with files.scratch_in_memory():
        main()
