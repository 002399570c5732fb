"""Weights among the variables of checkpoints and SavedModels."""

import functools
from collections.abc import Iterator, Mapping, Sequence

from tf_cudnn_rnn._cli.finders import arrays, calls
from tf_cudnn_rnn._cli.finders.found import SIMPLE, Found, Look
from tf_cudnn_rnn._cli.finders.layers import take_arrays
from tf_cudnn_rnn._files import checkpoint, variables
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import RnnMode


def in_checkpoint(path: str, shown_path: str) -> Iterator[Look]:
    """The weights of layers, and the networks of TensorFlow 1."""
    every = variables.opened(Kind.CHECKPOINT, path)
    yield from parts(Kind.CHECKPOINT, path, shown_path, every)
    yield from arrays.in_tf1(every.shapes, shown_path)


def parts(kind: Kind, path: str, shown_path: str, every: checkpoint.Variables) -> Iterator[Look]:
    """The weights of layers among variables."""
    with untrusted.named(path):
        parts = variables.find(kind, path, every)
    simple = list(variables.simple_modes(kind, path, every, parts))
    for name, part in parts.items():
        options = {"layer": name} if len(parts) > 1 else {}
        yield functools.partial(
            _part, name, part, every, simple=simple, options=options, shown_path=shown_path
        )


def _part(
    name: str,
    part: variables.Part,
    every: checkpoint.Variables,
    simple: Sequence[RnnMode],
    options: Mapping[str, str],
    shown_path: str,
) -> Found:
    found = Found(name, part.kind, layer=name)
    if part.layout is not None:
        found.take(part.layout)
    else:
        take_arrays(found, variables.shaped(every, part.keys), part.direction)
        if found.rnn_mode == SIMPLE and len(simple) == 1:
            found.rnn_mode = simple[0]
    if found.runs:
        mode = "rnn_tanh" if found.rnn_mode == SIMPLE else None
        target = calls.vector_target(every.dtype_name(part.keys[0]))
        found.how = calls.convert(shown_path, *target, **options, mode=mode)
    return found
