"""What all cases are made of, and the list of them."""

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

CASES: dict[str, Callable] = {}
MB = 1_000_000


class Attack(NamedTuple):
    """A call to be refused.

    Attributes:
      read: the function.
      arguments: its arguments.
      size: the bytes that are really there.
      names: what the message must say: the file, or the place.
    """

    read: Callable[..., Any]
    arguments: tuple
    size: int
    names: tuple[str, ...]


def case(build: Callable) -> Callable:
    CASES[build.__name__] = build
    return build


def of_file(read: Callable[..., Any], path, *arguments: Any, names: tuple[str, ...] = ()) -> Attack:
    size = os.stat(path).st_size if os.path.isfile(path) else 0
    return Attack(read, (path, *arguments), size, (str(path), *names))


def of_mapping(read: Callable, mapping: dict, *arguments, names: tuple[str, ...] = ()) -> Attack:
    size = sum(len(str(key)) for key in mapping)
    size += sum(len(v) if isinstance(v, bytes) else np.asarray(v).nbytes for v in mapping.values())
    return Attack(functools.partial(read, mapping, *arguments), (), size, names)
