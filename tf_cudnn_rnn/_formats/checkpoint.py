"""Checkpoints of tf.train.Checkpoint that hold layers of tf_cudnn_rnn.keras.

Keys tell little: a variable has the shortest of its paths, which may lead through the
optimiser, and whose slots are whose the keys do not say at all. The object graph in the
checkpoint does. It is a protocol buffer, simple enough to be read without TensorFlow.
"""

import collections
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import params_header, vectors
from tf_cudnn_rnn._formats.canonical import Canonical

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Attributes of keras.CudnnRNN; its checkpoints have them as names.
PARAMS = "params"
HEADER = "params_header"


@dataclasses.dataclass
class _Node:
    """A TrackableObject: the numbers are those of trackable_object_graph.proto."""

    children: dict[str, int] = dataclasses.field(default_factory=dict)
    keys: list[str] = dataclasses.field(default_factory=list)


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yields (number, value) of a protocol buffer; a value is an int or bytes."""
    position = 0

    def varint() -> int:
        nonlocal position
        value = shift = 0
        while True:
            byte = message[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while position < len(message):
        tag = varint()
        wire_type = tag & 7
        if wire_type == 0:
            yield tag >> 3, varint()
            continue
        length = {1: 8, 5: 4}.get(wire_type) or varint()
        if position + length > len(message):
            raise IndexError
        yield tag >> 3, message[position : position + length]
        position += length


def _nodes(graph: bytes) -> list[_Node]:
    nodes = []
    for number, content in _fields(graph):
        if number != 1:
            continue
        node = _Node()
        for field, value in _fields(content):
            if field == 1:
                reference = dict(_fields(value))
                node.children[reference[2].decode()] = reference.get(1, 0)
            elif field == 2:
                node.keys.append(dict(_fields(value)).get(3, b"").decode())
        nodes.append(node)
    return nodes


def _paths(nodes: list[_Node]) -> dict[int, str]:
    """The shortest path to each node."""
    paths = {0: ""}
    queue = collections.deque([0])
    while queue:
        index = queue.popleft()
        for name, child in nodes[index].children.items():
            if child not in paths:
                paths[child] = f"{paths[index]}/{name}".lstrip("/")
                queue.append(child)
    return paths


def _object_graph(variables: Mapping[str, Any]) -> tuple[list[_Node], dict[int, str]]:
    """Returns the nodes, and the paths of those that can be reached."""
    try:
        nodes = _nodes(_scalar(variables[OBJECT_GRAPH]))
        return nodes, _paths(nodes)
    # An end too early, a lack of fields, and fields of other types.
    except (IndexError, KeyError, UnicodeDecodeError, AttributeError, TypeError):
        raise ValueError(
            f"`variables`[{OBJECT_GRAPH!r}] must be a TrackableObjectGraph; it is damaged. Read "
            "the checkpoint again, or write it anew."
        ) from None


def _slots_of(nodes: list[_Node], paths: dict[int, str], params: int) -> dict[str, dict[str, int]]:
    """What optimisers keep for a variable: by name, without underscores, and optimiser's path."""
    slots = collections.defaultdict(dict)
    for index, path in paths.items():
        children = nodes[index].children
        lists = {name: nodes[child].children for name, child in children.items()}
        trained = lists.get("_trainable_variables", {})
        for position, variable in trained.items():
            if variable == params:
                for name, items in lists.items():
                    if position in items and name not in ("_trainable_variables", "_variables"):
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
            f"{', '.join(sorted(slots)) or 'nothing'}; got {slot!r}."
            + (
                f" Of optimisers there is {', '.join(map(repr, sorted(paths)))}."
                if slash and paths
                else ""
            )
        )
    if len(found) > 1:
        whole = [f"{path}/{name.lstrip('_')}" for path in sorted(found)]
        raise ValueError(
            f"`slot` must name one of the {len(found)} optimisers that keep it for {what}: "
            f"{' or '.join(map(repr, whole))}; got {slot!r}."
        )
    (node,) = found.values()
    return node


def checkpoint_to_canonical(
    variables: Mapping[str, Any],
    layer: str | None = None,
    slot: str | None = None,
    of: str = "weights",
) -> Canonical:
    """Reads a tf_cudnn_rnn.keras.CudnnRNN layer, or an optimiser's slot of it, in a checkpoint.

    The layer keeps all its weights in one vector, and so do tf.train.Checkpoint and Keras'
    optimisers; a header beside it in the checkpoint tells which network it is of.

    Args:
      variables: a mapping of checkpoint keys to arrays, such as
        `{key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}` of
        `reader = tf.train.load_checkpoint(path)`. It must have the key
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
      ValueError: there is none or more than one such layer, or slot of it; or the checkpoint is
        damaged.
    """
    base.check_of(of)
    if OBJECT_GRAPH not in variables:
        some = ", ".join(sorted(variables)[:8]) or "nothing"
        raise ValueError(
            f"`variables` must be all of a checkpoint that tf.train.Checkpoint wrote, with "
            f"{OBJECT_GRAPH}; found {some}."
        )
    nodes, paths = _object_graph(variables)
    found = {}
    for index, path in sorted(paths.items()):
        children = nodes[index].children
        if HEADER in children and PARAMS in children:
            header = _scalar(_value(variables, nodes[children[HEADER]], f"{path}/{HEADER}"))
            layout, name = params_header.from_text(header, f"{path}/{HEADER}")
            if layer is None or layer in (name, path):
                found[path] = name, layout, children[PARAMS]
    if len(found) != 1:
        listed = ", ".join(f"{name!r} ({path})" for path, (name, *_) in found.items()) or "none"
        named = "" if layer is None else f" of the name or path {layer!r}"
        raise ValueError(
            f"`variables` must hold one CudnnRNN layer{named}; found {listed}."
            + (" `layer` can say which." if found else "")
        )
    ((path, (_, layout, params)),) = found.items()
    if slot is not None:
        params = _slot(_slots_of(nodes, paths, params), slot, f"{path}/{PARAMS}")
    vector = _value(variables, nodes[params], f"{path}/{PARAMS}")
    return vectors.from_cudnn(vector, **dataclasses.asdict(layout), of=of)


def _scalar(value: Any) -> bytes:
    """A string tensor as TensorFlow returns it, or as NumPy wraps it."""
    value = value.item() if hasattr(value, "item") else value
    return value.encode() if isinstance(value, str) else value


def _value(variables: Mapping[str, Any], node: _Node, what: str) -> Any:
    if not node.keys or node.keys[0] not in variables:
        raise ValueError(f"`variables` must hold {what}, the key {', '.join(node.keys) or '-'}.")
    return variables[node.keys[0]]
