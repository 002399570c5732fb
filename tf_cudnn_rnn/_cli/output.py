"""What all commands print, and the errors that end them."""

import contextlib
import json
import os
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from tf_cudnn_rnn import _program

WIDTH = 80  # columns, at most
_NARROWEST = 40
_LABEL = 20
# Work that takes less shows no progress.
_PATIENCE = 0.5  # seconds
_INTERVAL = 0.2

# Exit codes.
GOOD = 0
FAILED = 1  # a check or a comparison
WRONG = 2  # use or input; argparse's, too
INTERRUPTED = _program.INTERRUPTED
PIPE_CLOSED = 141


class UserError(Exception):
    """What is wrong with what the user asked for, in a sentence."""


def say(message: str) -> None:
    """Writes a message to stderr, after the program's name."""
    with contextlib.suppress(OSError):  # nobody is there to be told; the exit code says it, too
        line = f"{_program.NAME}: {printable(' '.join(message.split()))}"
        print(line, file=sys.stderr, flush=True)


def printable(text: str) -> str:
    """`text` with escapes for what is not printable, as a terminal would obey some of it."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def print_json(value: Any) -> None:
    """Writes a JSON object to stdout."""
    print(json.dumps(value, indent=2, allow_nan=False))


def width() -> int:
    """Columns of the terminal, if there is one or COLUMNS tells them; WIDTH at most."""
    if "COLUMNS" in os.environ or sys.stdout.isatty():
        return max(_NARROWEST, min(WIDTH, shutil.get_terminal_size().columns))
    return WIDTH


def wrapped(text: str, indent: int = 0) -> str:
    """`text` in lines of a terminal; long names and commands are not broken."""
    return textwrap.fill(
        printable(text.translate({ord("\n"): " ", ord("\t"): " "})),
        width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def labelled(label: str, text: str) -> str:
    """`text` beside its label, in lines of a terminal."""
    lines = wrapped(text, _LABEL).splitlines() or [""]
    return "\n".join([f"{label:<{_LABEL}}{lines[0].strip()}", *lines[1:]])


def table(rows: Sequence[Sequence[str]], indent: int = 2) -> str:
    """Rows below each other: the first column to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        lines.append((" " * indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def count(number: int, noun: str) -> str:
    """A number and its noun: 1 layer, 2 layers."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def parameters(number: int, biases: int | None) -> str:
    """A number of weights in words, and which it is: other libraries count fewer biases.

    Args:
      number: of the weights.
      biases: of each gate; None if it is not known.
    """
    words = {0: ", without biases", 1: ", with one bias a gate", 2: ", with two biases a gate"}
    return count(number, "parameter") + ("" if biases is None else words[biases])


def size(nbytes: int) -> str:
    """Bytes as people read them."""
    value = float(nbytes)
    for unit in ("bytes", "KB", "MB", "GB"):
        if value < 1000 or unit == "GB":
            break
        value /= 1000
    return f"{nbytes} bytes" if unit == "bytes" else f"{value:.3g} {unit}"


class Progress:
    """A line on stderr that says how far the work is; none where stderr is no terminal."""

    def __init__(self) -> None:
        self._shows = sys.stderr.isatty()
        self._length = 0

    def show(self, text: str) -> None:
        """Replaces the line."""
        if self._shows:
            text = printable(text)[: width() - 1]
            sys.stderr.write("\r" + text.ljust(self._length))
            sys.stderr.flush()
            self._length = len(text)

    def clear(self) -> None:
        """Removes the line."""
        if self._length:
            sys.stderr.write("\r" + " " * self._length + "\r")
            sys.stderr.flush()
            self._length = 0


def _transferred() -> int:
    """How many bytes this process has read and written so far; 0 where nobody counts."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/io") as file:
            # rchar and wchar come first.
            return sum(int(file.readline().split()[1]) for _ in range(2))
    return 0


@contextlib.contextmanager
def progress_of(what: str, nbytes: int) -> Iterator[None]:
    """Shows how far the block is that reads or writes so many bytes, if it takes long."""
    if not sys.stderr.isatty():
        yield
        return
    progress = Progress()
    done = threading.Event()
    start = time.monotonic()
    before = _transferred()

    def watch() -> None:
        wait = _PATIENCE
        while not done.wait(wait):
            wait = _INTERVAL
            part = min(0.99, (_transferred() - before) / max(nbytes, 1))
            seconds = time.monotonic() - start
            progress.show(f"{what}: {part:.0%} of {size(nbytes)}, {seconds:.0f} s")

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        progress.clear()
