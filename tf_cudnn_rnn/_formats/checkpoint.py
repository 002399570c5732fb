"""Checkpoints of tf.train.Checkpoint that hold recurrent layers; variables of SavedModels are such.

Keys tell little: a variable has the shortest of its paths, which may lead through the
optimiser, and whose slots are whose the keys do not say at all. The object graph in the
checkpoint does. It is a protocol buffer, which protobuf reads without TensorFlow.
"""

from __future__ import annotations

import collections
import functools
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import params_header, untrusted, vectors
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Direction, Of

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Attributes of keras.CudnnRNN; its checkpoints have them as names.
PARAMS = "params"
HEADER = "params_header"


# A graph of a model with 10,000 variables and their slots has some 3 MB. protobuf takes up to 30
# bytes of memory for one.
_MAX_GRAPH_BYTES = 4 << 20
_MAX_OBJECTS = 200_000  # nodes and their children
_MAX_PATH = 4096  # characters
_MAX_LAYERS = 1000
_MAX_ALL_PATHS = 1 << 20  # characters of the paths to what is chosen
_MAX_ALL_HEADERS = 1 << 20  # bytes; one has some 300

# Of a variable of Keras: the layer's name below those of its models, the cell's, if it has one, as
# CuDNNLSTM and CuDNNGRU have not, and its own.
_KERNEL = re.compile(r"(?P<layer>.+?)(?:/(?:[^/]+_)?cell(?:_\d+)?)?/kernel")
# Of a Bidirectional's layers.
_WAY = re.compile(r"(?P<layer>.+)/(?P<way>forward|backward)_(?P<inner>[^/]+)")
_WAYS = ("forward", "backward")
_HALVES = ("/forward_layer", "/backward_layer")
_OF_CELL = ("kernel", "recurrent_kernel", "bias")


_NO_CHILDREN: Mapping[str, int] = {}


class _Node(NamedTuple):
    """A TrackableObject.

    Attributes:
      children: the index of each child, by name.
      keys: the checkpoint keys of its values.
      name: of a variable; "" if it is none, or has none.
    """

    children: Mapping[str, int]
    keys: tuple[str, ...]
    name: str


class Graph:
    """The objects of a checkpoint.

    Attributes:
      nodes: all of them.
      parents: of each that can be reached, by the shortest path: the index of the one before,
        and the name there; None for the root.
    """

    def __init__(self, nodes: list[_Node]):
        self.nodes = nodes
        self.parents, self._lengths = _parents(nodes)
        self._left = _MAX_ALL_PATHS

    def path(self, index: int) -> str:
        """The shortest path to a node that can be reached.

        Raises:
          ValueError: the paths that were asked for are longer than those of any model. Objects
            share the beginnings of theirs, so that they could be longer than the file by far.
        """
        self._left -= self._lengths[index]
        if self._left < 0:
            raise ValueError(
                f"`variables`[{OBJECT_GRAPH!r}] must give its layers and variables paths of at "
                f"most {_MAX_ALL_PATHS} characters together; they have more."
            )
        names = []
        while (parent := self.parents[index]) is not None:
            index, name = parent
            names.append(name)
        return "/".join(reversed(names))


@functools.cache
def _protobuf() -> tuple[Any, type[Exception]]:
    """TrackableObjectGraph, of trackable_object_graph.proto in TensorFlow, and what it raises.

    It has the fields that are read here; protobuf skips others.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    except ImportError as error:
        raise ImportError(
            "checkpoint_to_canonical needs protobuf, which is not installed."
        ) from error
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"int32": field.TYPE_INT32, "string": field.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="graph.proto", package="g", syntax="proto3")
    for name, fields in {
        "Reference": [("node_id", 1, "int32", False), ("local_name", 2, "string", False)],
        "Tensor": [("full_name", 2, "string", False), ("checkpoint_key", 3, "string", False)],
        "Object": [("children", 1, "Reference", True), ("attributes", 2, "Tensor", True)],
        "Graph": [("nodes", 1, "Object", True)],
    }.items():
        fields_of_message = file.message_type.add(name=name).field
        for field_name, number, kind, repeated in fields:
            fields_of_message.add(
                name=field_name,
                number=number,
                label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL,
                type=kinds.get(kind, field.TYPE_MESSAGE),
                type_name=None if kind in kinds else f".g.{kind}",
            )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    graph = message_factory.GetMessageClass(pool.FindMessageTypeByName("g.Graph"))
    return graph, message.DecodeError


def read_graph(variables: Mapping[str, Any]) -> Graph:
    """Reads the objects of a checkpoint.

    Args:
      variables: as of `checkpoint_to_canonical`; no other values are asked for.

    Raises:
      ImportError: protobuf is missing.
      ValueError: the checkpoint is damaged.
    """
    what = f"`variables`[{OBJECT_GRAPH!r}]"
    content = _scalar(variables[OBJECT_GRAPH], what)
    if len(content) > _MAX_GRAPH_BYTES:
        raise ValueError(
            f"{what} must have at most {_MAX_GRAPH_BYTES} bytes; it has {len(content)}."
        )
    graph, decode_error = _protobuf()
    try:
        return Graph(_nodes(graph.FromString(content)))
    except (decode_error, _Damage) as error:
        reason = untrusted.shown(str(error))
        raise ValueError(
            f"{what} must be a TrackableObjectGraph; it is damaged ({reason}). Read the "
            "checkpoint again, or write it anew."
        ) from None


class _Damage(Exception):
    """What is wrong with a graph that protobuf can read."""


def _nodes(graph: Any) -> list[_Node]:
    count = len(graph.nodes)
    left = _MAX_OBJECTS - count
    nodes = []
    for node in graph.nodes:
        # Each look at a field costs as much as all else: most nodes have neither or one.
        references, attributes = node.children, node.attributes
        left -= len(references)
        if left < 0:
            raise _Damage(f"more than {_MAX_OBJECTS} objects and children")
        children = _NO_CHILDREN
        if references:
            children = {child.local_name: child.node_id for child in references}
            if min(children.values()) < 0 or max(children.values()) >= count:
                raise _Damage(f"a child that is none of its {count} objects")
        keys: tuple[str, ...] = ()
        name = ""
        if attributes:
            keys = tuple([value.checkpoint_key for value in attributes])
            name = attributes[0].full_name
        nodes.append(_Node(children, keys, name))
    return nodes


def _parents(
    nodes: list[_Node],
) -> tuple[dict[int, tuple[int, str] | None], dict[int, int]]:
    """The parents of `Graph`, and the lengths of the paths."""
    if not nodes:
        raise _Damage("no objects")
    parents: dict[int, tuple[int, str] | None] = {0: None}
    lengths = {0: 0}
    queue = collections.deque([0])
    while queue:
        index = queue.popleft()
        for name, child in nodes[index].children.items():
            if child not in parents:
                parents[child] = index, name
                lengths[child] = lengths[index] + 1 + len(name)
                if lengths[child] > _MAX_PATH:
                    raise _Damage(f"a path of more than {_MAX_PATH} characters")
                queue.append(child)
    return parents, lengths


def _slots_of(graph: Graph, params: int) -> dict[str, dict[str, int]]:
    """What optimisers keep for a variable: by name, without underscores, and optimiser's path."""
    slots: dict[str, dict[str, int]] = collections.defaultdict(dict)
    optimizers = 0
    positions: dict[int, str | None] = {}  # of the variable in each list, which many may share
    for index in graph.parents:
        children = graph.nodes[index].children
        trained = children.get("_trainable_variables")
        if trained is None:
            continue
        if trained not in positions:
            # It is there once, if at all.
            items = graph.nodes[trained].children.items()
            positions[trained] = next((place for place, node in items if node == params), None)
        position = positions[trained]
        if position is None:
            continue
        lists = {name: graph.nodes[child].children for name, child in children.items()}
        lists.pop("_trainable_variables")
        lists.pop("_variables", None)
        optimizers += 1
        if optimizers > _MAX_LAYERS:
            raise ValueError(f"`variables` must hold at most {_MAX_LAYERS} optimisers of a layer.")
        path = graph.path(index)
        for name, items in lists.items():
            if position in items:
                slots[name.lstrip("_")][path] = items[position]
    return slots


def _slot(slots: dict[str, dict[str, int]], slot: str, what: str) -> int:
    """The node of one of `_slots_of`'s.

    Args:
      slot: its name, or the optimiser's path, "/" and its name.
      what: the variable that it is kept for.
    """
    optimizer, slash, name = slot.rpartition("/")
    found = slots.get(name.lstrip("_"), {})
    if slash:
        found = {path: node for path, node in found.items() if path == optimizer}
    if not found:
        paths = {path for by_path in slots.values() for path in by_path}
        raise ValueError(
            f"`slot` must be what the optimiser keeps for {what}, which is "
            f"{base.listed(sorted(slots)) or 'nothing'}; got {slot!r}."
            + (
                f" Of optimisers there is {base.listed(map(repr, sorted(paths)))}."
                if slash and paths
                else ""
            )
        )
    if len(found) > 1:
        whole = [f"{path}/{name.lstrip('_')}" for path in sorted(found)]
        raise ValueError(
            f"`slot` must name one of the {len(found)} optimisers that keep it for {what}: "
            f"{' or '.join(map(repr, whole[:8]))}; got {slot!r}."
        )
    (node,) = found.values()
    return node


def _layers(
    variables: Mapping[str, Any], graph: Graph
) -> dict[str, tuple[str | None, Layout, int]]:
    """Of each CudnnRNN layer, by path, its name, network and `params` node."""
    found: dict[str, tuple[str | None, Layout, int]] = {}
    headers: dict[str, tuple[Layout, str | None]] = {}  # by key, which many may share
    header_bytes = 0
    for index in graph.parents:
        children = graph.nodes[index].children
        if HEADER not in children or PARAMS not in children:
            continue
        if len(found) == _MAX_LAYERS:
            raise ValueError(f"`variables` must hold at most {_MAX_LAYERS} CudnnRNN layers.")
        path = graph.path(index)
        where = f"{untrusted.shown(path)}/{HEADER}"
        key = _key(variables, graph.nodes[children[HEADER]], where)
        if key not in headers:
            where = f"`variables` has {where}, which"
            text = _scalar(variables[key], where)
            header_bytes += len(text)
            # One that is too long alone is refused as such.
            if header_bytes > _MAX_ALL_HEADERS and len(text) <= params_header.MAX_BYTES:
                raise ValueError(
                    f"`variables` must hold at most {_MAX_ALL_HEADERS} bytes of headers in all; "
                    f"there are more up to {untrusted.shown(path)}/{HEADER}."
                )
            headers[key] = params_header.from_text(text, where)
        layout, name = headers[key]
        found[path] = name, layout, children[PARAMS]
    return found


def find_layers(variables: Mapping[str, Any], graph: Graph) -> dict[str, tuple[str, Layout, str]]:
    """The CudnnRNN layers in a checkpoint, by path: name ("" if unknown), network, and key.

    Args:
      variables: as of `checkpoint_to_canonical`; of its values only headers are asked for.
      graph: of its objects.

    Raises:
      ValueError: the checkpoint is damaged.
    """
    found: dict[str, tuple[str, Layout, str]] = {}
    for path, (name, layout, params) in sorted(_layers(variables, graph).items()):
        key = _key(variables, graph.nodes[params], f"{untrusted.shown(path)}/{PARAMS}")
        found[path] = name or "", layout, key
    return found


class Layer(NamedTuple):
    """A layer LSTM, GRU or SimpleRNN, of Keras or tf_cudnn_rnn.keras, or one in Bidirectional.

    Attributes:
      name: of it, below those of its models: "sequential/lstm"; "" if it is not known.
      path: in the checkpoint.
      direction: "bidirectional" or "unidirectional".
      keys: of its arrays, in the order of `layer.get_weights()`.
    """

    name: str
    path: str
    direction: Direction
    keys: list[str]


def find_keras_layers(graph: Graph) -> list[Layer]:
    """The recurrent layers of Keras in a checkpoint, or among a SavedModel's variables.

    What `model.export` writes has no layers, only a list of variables, whose names tell.

    Raises:
      ValueError: there are too many, or their paths are too long.
    """
    parts: dict[str, dict[str, Layer]] = {}
    for count, (place, cell) in enumerate(_cells(graph)):
        if count >= 2 * _MAX_LAYERS:
            raise ValueError(f"`variables` must hold at most {_MAX_LAYERS} recurrent layers.")
        name = match["layer"] if (match := _KERNEL.fullmatch(cell[0].name)) else ""
        whole, way = place, ""
        # CuDNNLSTM and CuDNNGRU have no cell.
        layer_place = place[: -len("/cell")] if f"/{place}".endswith("/cell") else place
        if layer_place != place:  # whatever its cell is called
            name = cell[0].name.removesuffix("/kernel").rpartition("/")[0]
        if layer_place.endswith(_HALVES):
            whole, way = layer_place.rsplit("/", 1)
            way = way.removesuffix("_layer")
            place = layer_place
        elif layer_place != place:
            whole = place = layer_place
        elif (match := _WAY.fullmatch(name)) and "/" in name:  # in a list of variables
            whole, way = f"{match['layer']} {match['inner']}", match["way"]
        keys = [key for node in cell for key in node.keys[:1]]
        if len(keys) == len(cell):
            layer = Layer(name, place, "unidirectional", keys)
            parts.setdefault(whole, {}).setdefault(way, layer)
    return list(_joined(parts))


def _joined(parts: dict[str, dict[str, Layer]]) -> Iterator[Layer]:
    """The layers, of which those of a Bidirectional have two parts."""
    for whole, ways in parts.items():
        if set(ways) == set(_WAYS):
            first, second = (ways[way] for way in _WAYS)
            name = first.name.rpartition("/")[0]
            keys = first.keys + second.keys
            yield Layer(name, whole, "bidirectional", keys)
        elif "" in ways:
            yield ways[""]
        else:
            # A name alone makes no half; an object of Bidirectional does, which lacks the other.
            yield from (layer for layer in ways.values() if not layer.path.endswith(_HALVES))


def _cells(graph: Graph) -> Iterator[tuple[str, list[_Node]]]:
    """The path, and the variables kernel, recurrent_kernel and, if any, bias of each cell.

    One with further variables is another cell, and is left out.
    """
    seen = set()
    lists = []
    for index in graph.parents:
        children = graph.nodes[index].children
        if "kernel" in children and "recurrent_kernel" in children:
            seen.add(children["kernel"])
            cell = [graph.nodes[children[name]] for name in _OF_CELL if name in children]
            if not _has_others(graph, children):
                yield graph.path(index), cell
        parent = graph.parents[index]
        if parent is not None and parent[1] == "variables":
            lists.append(index)
    for index in lists:
        children = graph.nodes[index].children
        order = [child for name, child in sorted(children.items(), key=_number)]
        nodes = [graph.nodes[child] for child in order]
        others = _beside_cells(nodes)
        for place, node in enumerate(nodes):
            if order[place] in seen or not node.name.endswith("/kernel"):
                continue
            base_name = node.name.removesuffix("kernel")
            if base_name in others:
                continue
            wanted = [f"{base_name}{name}" for name in _OF_CELL]
            cell = nodes[place : place + 3]
            while cell and [item.name for item in cell] != wanted[: len(cell)]:
                cell.pop()
            if len(cell) > 1:
                seen.add(order[place])
                yield f"{graph.path(index)}/{place}", cell


def _has_others(graph: Graph, children: Mapping[str, int]) -> bool:
    """Whether a cell has further variables, or layers that have some, such as one that normalises.

    Args:
      graph: of the checkpoint.
      children: of the cell.
    """
    own = {children[name] for name in _OF_CELL if name in children}
    for name, child in children.items():
        # What only draws numbers changes no network.
        if child in own or "seed_generator" in name:
            continue
        inner = graph.nodes[child].children.values()
        if any(graph.nodes[node].keys for node in (child, *inner) if node not in own):
            return True
    return False


def _beside_cells(nodes: list[_Node]) -> set[str]:
    """What the names of a cell's variables begin with, of those that have others beside or below.

    Of rnn/cell/peephole that is rnn/cell/, and of rnn/cell/norm/gamma, too.
    """
    found = set()
    for node in nodes:
        layer, _, name = node.name.rpartition("/")
        if "seed_generator" in node.name:
            continue
        if name not in _OF_CELL:
            found.add(f"{layer}/")
        found.add(f"{layer.rpartition('/')[0]}/")
    return found


def _number(item: tuple[str, int]) -> tuple[int, str]:
    """Sorts what is numbered."""
    name, _ = item
    return (int(name) if name.isdecimal() and len(name) < 10 else 0), name


def find_vectors(graph: Graph | None, keys: Collection[str]) -> dict[str, str]:
    """The keys of variables, by Keras' names, or else their paths.

    Args:
      graph: of a checkpoint; None if it has none, and variables go by their keys.
      keys: of the variables that may be asked for; of no others a name is made.

    Raises:
      ValueError: there are too many, or their paths are too long.
    """
    if graph is None:
        # Without what optimisers keep: of rnn/kernel for example rnn/kernel/Adam.
        names = [key for key in keys if key.rpartition("/")[0] not in keys]
        _check_vectors(len(names))
        return dict(zip(names, names, strict=True))
    wanted = [
        index
        for index in graph.parents
        if len(graph.nodes[index].keys) == 1 and graph.nodes[index].keys[0] in keys
    ]
    _check_vectors(len(wanted))
    found: dict[str, str] = {}
    for index in wanted:
        node = graph.nodes[index]
        path = graph.path(index)
        if not path.startswith("_all_variables/"):
            is_of_keras = "/" in node.name and node.name not in found
            found[node.name if is_of_keras else path] = node.keys[0]
    return found


def _check_vectors(count: int) -> None:
    # What `model.export` writes has them twice.
    if count > 2 * _MAX_LAYERS:
        raise ValueError(f"`variables` must hold at most {_MAX_LAYERS} vectors of weights.")


def checkpoint_to_canonical(
    variables: Mapping[str, Any],
    layer: str | None = None,
    slot: str | None = None,
    of: Of = "weights",
) -> Canonical:
    """Reads a tf_cudnn_rnn.keras.CudnnRNN layer, or an optimiser's slot of it, in a checkpoint.

    The layer keeps all its weights in one vector, and so do tf.train.Checkpoint and Keras'
    optimisers; a header beside it in the checkpoint tells which network it is of.

    Args:
      variables: a mapping of checkpoint keys to arrays, such as
        `{key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}` of
        `reader = tf.train.load_checkpoint(path)`. (Of one from a stranger, see `load`, which reads
        it as a whole.) It must have the key
        "_CHECKPOINTABLE_OBJECT_GRAPH", which that has.
      layer: the layer's name, or its path in the checkpoint; None if there is one.
      slot: an optimiser's list of slots, "momentums" or "velocities" of Keras' Adam for example,
        to read that; pass `of`="gradients", too. (Keras' attribute may begin with an
        underscore, which is not needed.) If several optimisers keep it, put the path of one in
        the checkpoint before it: "optimizer/momentums".
      of: "weights", or "gradients"; see Canonical.

    For `convert_slots`:

      read = functools.partial(weights.checkpoint_to_canonical, variables, "encoder")
      weights.convert_slots({"m": "momentums", "v": "velocities"}, read, weights.to_torch)

    Raises:
      ImportError: protobuf is missing.
      ValueError: there is none or more than one such layer, or slot of it; or the checkpoint is
        damaged.
    """
    base.check_of(of)
    if OBJECT_GRAPH not in variables:
        some = base.listed(sorted(variables)) or "nothing"
        raise ValueError(
            f"`variables` must be all of a checkpoint that tf.train.Checkpoint wrote, with "
            f"{OBJECT_GRAPH}; found {some}."
        )
    graph = read_graph(variables)
    every = _layers(variables, graph)
    found = {path: every[path] for path in sorted(every) if layer in (None, every[path][0], path)}
    if len(found) != 1:
        listed = base.listed(f"{name!r} ({path})" for path, (name, *_) in found.items()) or "none"
        named = "" if layer is None else f" of the name or path {layer!r}"
        raise ValueError(
            f"`variables` must hold one CudnnRNN layer{named}; found {listed}."
            + (" `layer` can say which." if found else "")
        )
    ((path, (_, layout, params)),) = found.items()
    what = f"{untrusted.shown(path)}/{PARAMS}"
    if slot is not None:
        params = _slot(_slots_of(graph, params), slot, what)
    vector = variables[_key(variables, graph.nodes[params], what)]
    with untrusted.named(f"`variables`, {what}"):
        return vectors.of_layout(vector, layout, of)


def _scalar(value: Any, what: str) -> bytes:
    """A string tensor as TensorFlow returns it, or as NumPy wraps it."""
    if isinstance(value, np.ndarray | np.generic) and value.size == 1:
        value = value.item()
    value = value.encode() if isinstance(value, str) else value
    if not isinstance(value, bytes):
        raise ValueError(f"{what} must be one text; got {untrusted.shown(value)}.")
    return value


def _key(variables: Mapping[str, Any], node: _Node, what: str) -> str:
    """The key of a value, which must be there."""
    if not node.keys or node.keys[0] not in variables:
        raise ValueError(f"`variables` must hold {what}, the key {base.listed(node.keys) or '-'}.")
    return node.keys[0]
