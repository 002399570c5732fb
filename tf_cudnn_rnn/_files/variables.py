"""The recurrent parts of a checkpoint, and of a SavedModel's variables, which are one, too."""

import collections
import dataclasses
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from tf_cudnn_rnn._files import checkpoint, chosen
from tf_cudnn_rnn._files.choices import Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import checkpoint as checkpoint_format
from tf_cudnn_rnn._formats import saved_model, untrusted
from tf_cudnn_rnn._layout import GATES, Layout
from tf_cudnn_rnn._types import Direction, RnnMode

CUDNN_OPS = ("CudnnRNN", "CudnnRNNV2", "CudnnRNNV3")
OWN_OP = "TfCudnnRnn>CudnnRNNV3"
KERAS_OP = "TfCudnnRnn>KerasRNN"
INT8_OP = "TfCudnnRnn>CudnnRNNInt8"
_VARIABLES = os.path.join("variables", "variables")  # in a SavedModel's folder


class Part(NamedTuple):
    """A layer, or a vector of all weights of a network.

    Attributes:
      kind: "CudnnRNN", "Keras layer" or "params", the vector.
      path: in the checkpoint.
      aliases: what else it may be called.
      layout: of a network; None of a layer of Keras.
      direction: of it.
      keys: of a layer of Keras, its arrays in the order of `layer.get_weights()`; else the vector
        of all weights.
    """

    kind: str
    path: str
    aliases: tuple[str, ...]
    layout: Layout | None
    direction: Direction
    keys: list[str]


def prefix_of(kind: Kind, path: str) -> str:
    """What the names of a checkpoint's files begin with."""
    if kind is not Kind.SAVED_MODEL:
        return path
    return os.path.join(os.path.dirname(path), _VARIABLES)


def has_variables(kind: Kind, path: str) -> bool:
    """Whether there is a checkpoint, which a SavedModel may lack."""
    return os.path.exists(f"{prefix_of(kind, path)}.index")


def opened(kind: Kind, path: str) -> checkpoint.Variables:
    """The variables of a checkpoint or SavedModel.

    Raises:
      ImportError: there is no TensorFlow.
      Mistake: a SavedModel has no variables.
      ValueError: they cannot be read.
    """
    if not has_variables(kind, path):
        raise Mistake(
            f"{os.path.dirname(path) or '.'} is a SavedModel without variables: there is no "
            f"{prefix_of(kind, path)}.index. Its weights, if any, are constants of the graph, "
            "which are not read."
        )
    folder = os.path.dirname(path) if kind is Kind.SAVED_MODEL else None
    return checkpoint.Variables(prefix_of(kind, path), folder)


def find(kind: Kind, path: str, variables: checkpoint.Variables) -> dict[str, Part]:
    """The recurrent parts, by the name that chooses one.

    That is the layer's name, below those of its models, or the path in the checkpoint of one
    that has none of its own. A checkpoint without objects, as TensorFlow 1 writes it, has none
    but for the vectors of weights that the graph of a SavedModel tells.
    """
    if checkpoint_format.OBJECT_GRAPH not in variables:
        return dict(_vectors(path, variables, None)) if kind is Kind.SAVED_MODEL else {}
    parts: list[tuple[str, Part]] = []
    graph = checkpoint_format.read_graph(variables)
    for place, (name, layout, key) in checkpoint_format.find_layers(variables, graph).items():
        part = Part(
            "CudnnRNN",
            path=place,
            aliases=(name,),
            layout=layout,
            direction=layout.direction,
            keys=[key],
        )
        parts.append((name, part))
    for layer in checkpoint_format.find_keras_layers(graph):
        aliases = (layer.name.rpartition("/")[2],)
        part = Part(
            "Keras layer",
            path=layer.path,
            aliases=aliases,
            layout=None,
            direction=layer.direction,
            keys=layer.keys,
        )
        parts.append((layer.name, part))
    if kind is Kind.SAVED_MODEL:
        parts += _vectors(path, variables, graph)
    for key in (key for _, part in parts for key in part.keys):
        if key not in variables:
            raise ValueError(
                f"{prefix_of(kind, path)} must hold {untrusted.shown(key)}, as its objects say; it "
                "is missing."
            )
    counts = collections.Counter(name for name, _ in parts)
    return {
        name if name and counts[name] == 1 else part.path: part._replace(
            aliases=tuple(filter(None, (*part.aliases, part.path)))
        )
        for name, part in parts
    }


def _vectors(
    path: str, variables: checkpoint.Variables, graph: checkpoint_format.Graph | None
) -> list[tuple[str, Part]]:
    """The variables that are all weights of a network in a SavedModel's graph, by their sizes.

    Args:
      path: of the SavedModel.
      variables: of it.
      graph: of their objects; None if they have names alone.
    """
    networks: dict[int, set[Layout]] = {}
    for node in saved_model.read_nodes(path, frozenset((*CUDNN_OPS, OWN_OP))):
        layout = saved_model.layout_of(node)
        if layout is not None:
            networks.setdefault(layout.size, set()).add(layout)
    layouts: dict[str, Layout] = {}  # of each variable that may be a vector of weights
    for key, shape in variables.shapes.items():
        fitting = networks.get(shape[0], set()) if len(shape) == 1 else set()
        if len(fitting) == 1:
            (layouts[key],) = fitting
    found = []
    for name, key in checkpoint_format.find_vectors(graph, layouts).items():
        layer = name.removesuffix("/params")
        aliases = (layer.rpartition("/")[2],)
        layout = layouts[key]
        found.append(
            (
                layer,
                Part(
                    "params",
                    path=name,
                    aliases=aliases,
                    layout=layout,
                    direction=layout.direction,
                    keys=[key],
                ),
            )
        )
    return found


def simple_modes(
    kind: Kind, path: str, variables: checkpoint.Variables, parts: Mapping[str, Part]
) -> set[RnnMode]:
    """The mode of the only simple RNN in a SavedModel, if its graph tells it.

    Of several it tells none: what runs in Keras' loop is no layer there.

    Args:
      kind, path: of a SavedModel; a checkpoint has no graph.
      variables: of it.
      parts: all that `find` found.
    """
    if kind is not Kind.SAVED_MODEL:
        return set()
    recurrent = [tuple(variables.shapes[part.keys[1]]) for part in parts.values() if part.keys[1:]]
    simple = [shape for shape in recurrent if shape and chosen.gates_of(shape, shape[0]) == 1]
    return simple_modes_of_graph(path) if len(simple) == 1 else set()


def simple_modes_of_graph(path: str) -> set[RnnMode]:
    """The modes of all fused simple RNNs in the graph of the SavedModel at `path`."""
    nodes = saved_model.read_nodes(path, frozenset((KERAS_OP,)))
    modes = {node.attributes.get("rnn_mode", "lstm") for node in nodes}
    return {mode for mode in modes if GATES.get(mode) == ("",)}


@dataclasses.dataclass
class Shaped:
    """What is known of an array before it is read."""

    shape: tuple[int, ...]
    nbytes: int


def shaped(variables: checkpoint.Variables, keys: list[str]) -> list[Any]:
    """The shapes of variables, instead of their values."""
    return [Shaped(tuple(variables.shapes[key]), variables.nbytes(key)) for key in keys]
