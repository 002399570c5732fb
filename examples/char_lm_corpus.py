"""The text of char_lm.py: where it comes from, how it is cut, how it compresses."""

import bz2
import dataclasses
import functools
import gzip
import hashlib
import lzma
import math
import pathlib
import platform
import pydoc_data.topics
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

UNKNOWN = 0  # the id of every character that the training text lacks
# An unknown character is paid for by naming one of Unicode's code points.
UNKNOWN_BITS = math.log2(0x110000)


class CorpusError(ValueError):
    """A text that cannot be used. The message is one line for the user."""


@dataclasses.dataclass(frozen=True)
class Corpus:
    """A text, its last tenth held out."""

    name: str
    text: str

    @property
    def train(self) -> str:
        return self.text[: len(self.text) - len(self.text) // 10]

    @property
    def held_out(self) -> str:
        return self.text[len(self.train) :]

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @functools.cached_property
    def vocabulary(self) -> np.ndarray:
        """The code points of the training text, ascending; entry i has id i + 1."""
        return np.unique(_code_points(self.train))

    def encode(self, text: str) -> np.ndarray:
        """The ids of the characters of `text`."""
        code_points = _code_points(text)
        index = np.searchsorted(self.vocabulary, code_points)
        index = np.minimum(index, len(self.vocabulary) - 1)
        known = self.vocabulary[index] == code_points
        return np.where(known, index + 1, UNKNOWN).astype(np.int32)

    def train_streams(self, num_streams: int, steps: int) -> "Streams":
        """The training text; its first character is given, not predicted."""
        return Streams(self.encode(self.train), num_streams, steps)

    def held_out_streams(self, num_streams: int, steps: int) -> "Streams":
        """All of the held-out text, predicted from the character before it on."""
        ids = self.encode(self.train[-1] + self.held_out)
        return Streams(ids, min(num_streams, len(self.held_out)), steps)


def load(path: str = "") -> Corpus:
    """Reads the UTF-8 file at `path`, or Python's own documentation."""
    if not path:
        topics = pydoc_data.topics.topics
        return Corpus(
            f"pydoc_data.topics of Python {platform.python_version()}",
            "\n".join(topics[name] for name in sorted(topics)),
        )
    try:
        text = pathlib.Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        reason = error.strerror or error
        raise CorpusError(f"--corpus={path} cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise CorpusError(
            f"--corpus={path} is not UTF-8: byte 0x{byte:02x} at offset {error.start}"
        ) from error
    if not text:
        raise CorpusError(f"--corpus={path} is empty")
    if len(text) < 100:
        raise CorpusError(
            f"--corpus={path} is too short: it has {len(text)} characters, at least 100 are needed"
        )
    return Corpus(path, text)


def _code_points(text: str) -> np.ndarray:
    return np.frombuffer(text.encode("utf-32-le"), np.uint32).astype(np.int32)


class Chunk(NamedTuple):
    """Some time steps of all streams; row b is valid for `lengths[b]` steps."""

    inputs: np.ndarray  # [T, B], int32
    targets: np.ndarray  # [T, B], int32: the inputs one character later
    lengths: np.ndarray  # [B], int32

    @property
    def valid(self) -> np.ndarray:
        """[T, B]: whether a target is one of the text's."""
        return np.arange(len(self.targets))[:, np.newaxis] < self.lengths

    @property
    def num_unknown(self) -> int:
        """The number of targets that the training text lacks."""
        return int(np.sum(self.valid & (self.targets == UNKNOWN)))


class Streams:
    """A text as parallel streams, dealt out in chunks of `steps` characters.

    The text is cut into `num_streams` equal parts. Column b of a chunk continues
    column b of the chunk before it. Every character of the text but the first is a
    target exactly once; where the text does not fill the last streams, `lengths`
    ends them.
    """

    def __init__(self, ids: np.ndarray, num_streams: int, steps: int):
        self.num_targets = len(ids) - 1
        self.num_streams = num_streams
        self._steps = steps
        self._length = -(-self.num_targets // num_streams)
        padding = np.full(num_streams * self._length - self.num_targets, UNKNOWN)

        def columns(part: np.ndarray) -> np.ndarray:
            part = np.concatenate([part, padding]).astype(np.int32)
            return part.reshape(num_streams, self._length).T

        self._inputs = columns(ids[:-1])
        self._targets = columns(ids[1:])
        self._ends = np.clip(
            self.num_targets - self._length * np.arange(num_streams), 0, self._length
        )

    def __len__(self) -> int:
        """The number of chunks; the last one may have fewer steps."""
        return -(-self._length // self._steps)

    def bits_per_character(self, nats: float, num_unknown: int) -> float:
        """The mean cost of a target, unknown ones spelt out, of the costs of all of them."""
        return (nats / math.log(2.0) + num_unknown * UNKNOWN_BITS) / self.num_targets

    def __getitem__(self, index: int) -> Chunk:
        if not 0 <= index < len(self):
            raise IndexError(f"chunk {index} of {len(self)}")
        begin = index * self._steps
        inputs = self._inputs[begin : begin + self._steps]
        targets = self._targets[begin : begin + self._steps]
        lengths = np.clip(self._ends - begin, 0, len(inputs)).astype(np.int32)
        return Chunk(inputs, targets, lengths)


class Baseline(NamedTuple):
    """Bits per held-out character of one compressor."""

    compressor: str
    alone: float  # the held-out text by itself
    after: float  # what it adds to the compressed training text


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": functools.partial(gzip.compress, mtime=0),
    "bz2": bz2.compress,
    "xz": lzma.compress,
}


def baseline(compressor: str, corpus: Corpus) -> Baseline:
    """Compresses `corpus` with one of COMPRESSORS."""

    def bits(text: str) -> int:
        return 8 * len(COMPRESSORS[compressor](text.encode()))

    characters = len(corpus.held_out)
    return Baseline(
        compressor,
        alone=bits(corpus.held_out) / characters,
        after=(bits(corpus.text) - bits(corpus.train)) / characters,
    )
