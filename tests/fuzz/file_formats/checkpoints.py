"""Checkpoints: their index, their object graph, and the headers of layers in that."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tests.fuzz.file_formats.format import Format, refuses, written
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._formats import bundle, params_header

_WHERE = "params_header of a checkpoint"
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_LAYOUT = weights.Layout("rnn_tanh", 1, 1, 1)


class _Variables(Mapping):
    """A checkpoint that has a value for every key."""

    def __init__(self, graph: bytes):
        self._graph = graph

    def __getitem__(self, key: str) -> Any:
        if key == _GRAPH:
            return self._graph
        if "py_state" not in key:
            return np.zeros(4, np.float32)
        return params_header.to_text(_LAYOUT, "encoder" if "/1/" in key else "decoder")

    def __iter__(self) -> Iterator[str]:
        return iter([_GRAPH])

    def __len__(self) -> int:
        return 1


def _read_checkpoint(content: bytes, seed: str) -> str:
    outcome = "refused"
    for layer, slot in ((None, None), ("encoder", None), ("encoder", "momentums")):
        try:
            canonical = weights.checkpoint_to_canonical(_Variables(content), layer, slot)
        except ValueError as error:
            refuses(error, "`variables`", "`slot`")
        else:
            assert canonical.params.size == 4
            outcome = "read"
    return outcome


def _read_header(content: bytes, seed: str) -> str:
    try:
        layout, layer = params_header.from_text(content, _WHERE)
    except ValueError as error:
        return refuses(error, _WHERE)
    again = params_header.from_text(params_header.to_text(layout, layer), _WHERE)
    assert again == (params_header.resolved(layout), layer)
    return "read"


def _read_index(content: bytes, seed: str) -> str:
    """Before TensorFlow does, which no fuzzer here has."""
    path = written(content, "model.index")
    try:
        entries = bundle.entries(path)
    except (ValueError, OSError) as error:
        return refuses(error, path)
    assert sum(len(value) for _, value in entries) <= len(content)
    return "read"


FORMATS = {
    "index": Format(_read_index),
    "checkpoint": Format(_read_checkpoint),
    "header": Format(_read_header),
}
