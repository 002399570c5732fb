"""The recurrent nodes of a SavedModel, without TensorFlow.

tf.saved_model.load imports the graph and restores the weights; this reads the names, attributes
and shapes of a few nodes.
"""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

from tf_cudnn_rnn._formats import untrusted, wire
from tf_cudnn_rnn._layout import DIRECTIONS, Layout

# Numbers of fields, of saved_model.proto, meta_graph.proto, graph.proto, function.proto,
# node_def.proto, attr_value.proto and tensor_shape.proto in TensorFlow.
_META_GRAPH, _GRAPH_DEF = 2, 2
_NODE, _LIBRARY, _FUNCTION = 1, 2, 1
_FUNCTION_NODE, _SIGNATURE, _ARG_ATTR = 3, 1, 7
_INPUT_ARG = 2
_NAME, _OP, _INPUT, _ATTR = 1, 2, 3, 5
_KEY, _VALUE = 1, 2
_LIST, _S, _I, _B, _SHAPE = 1, 2, 3, 5, 7
_DIM, _UNKNOWN_RANK, _DIM_SIZE = 2, 3, 1

LOOPS = ("While", "StatelessWhile")
_MAX_NODES = 20_000  # that are wanted
_TEXTS = ("rnn_mode", "direction", "input_mode")
_NUMBERS = ("num_proj", "num_biases", "num_backward_weights")
_FLAGS = ("time_major",)
_SHAPES = "_output_shapes"

Shape: TypeAlias = list[int] | None  # -1 for a size that is not known


class Node(NamedTuple):
    """A node of a graph.

    Attributes:
      name, op: of the node.
      attributes: the texts, numbers and flags among those that recurrent ops have, if they are
        not the default.
      inputs: the shape of each input, as far as the file tells.
    """

    name: str
    op: str
    attributes: dict[str, Any]
    inputs: list[Shape]

    def size(self, number: int, axis: int) -> int | None:
        """A size of the shape of an input; None if it is not known."""
        shape = self.inputs[number] if number < len(self.inputs) else None
        if not shape or not -len(shape) <= axis < len(shape):
            return None
        return shape[axis] if shape[axis] > 0 else None

    @property
    def key(self) -> tuple[Any, ...]:
        """Equal for copies of a node, whose names are those of a function that is there twice."""
        attributes = tuple(sorted(self.attributes.items()))
        shapes = tuple(None if shape is None else tuple(shape) for shape in self.inputs)
        return self.name, self.op, attributes, shapes


def layout_of(node: Node) -> Layout | None:
    """The network of a node of a CudnnRNN op; None if its attributes and shapes do not tell all."""
    attributes = node.attributes
    direction = attributes.get("direction", "unidirectional")
    num_proj = attributes.get("num_proj", 0)
    states = node.size(1, 0 if attributes.get("time_major", True) else 1)
    # c keeps H where h is projected.
    num_units = node.size(2 if num_proj else 1, -1)
    input_size = node.size(0, -1)
    if states is None or num_units is None or input_size is None or direction not in DIRECTIONS:
        return None
    try:
        return Layout(
            attributes.get("rnn_mode", "lstm"),
            num_layers=states // len(DIRECTIONS[direction]),
            num_units=num_units,
            input_size=input_size,
            direction=direction,
            input_mode=attributes.get("input_mode", "linear_input"),
            num_proj=num_proj,
        )
    except (TypeError, ValueError):  # of a forged file
        return None


class _Graph:
    """The nodes of a graph or a function, found by name."""

    def __init__(self, fields: wire.Fields, nodes: list[memoryview], shapes: dict[str, Shape]):
        self.fields = fields
        self.nodes = nodes
        self.arguments = shapes
        self._by_name: dict[str, memoryview] | None = None
        self._shapes: dict[str, Shape] = {}

    def shape_of(self, tensor: str) -> Shape:
        """The shape of "node", "node:0" or "node:output:0"; None if the file does not tell."""
        name, *place = tensor.split(":")
        if name in self.arguments:
            return self.arguments[name]
        if self._by_name is None:
            self._by_name = {wire.text(self.fields.first(node, _NAME)): node for node in self.nodes}
        node = self._by_name.get(name)
        if node is None or (place and place[-1] != "0"):
            return None
        if name not in self._shapes:
            shapes = _attributes(self.fields, node).get(_SHAPES) or [None]
            self._shapes[name] = shapes[0]
        return self._shapes[name]


def read_nodes(path: str | os.PathLike[str], ops: frozenset[str]) -> list[Node]:
    """Returns the nodes of these ops in a `saved_model.pb`, of all graphs and functions.

    Raises:
      OSError: it cannot be opened.
      ValueError: it is no SavedModel, or is damaged.
    """
    path = os.fspath(path)
    message = wire.read_file(path, "SavedModel")
    try:
        nodes = []
        for node in _nodes(message, ops):
            nodes.append(node)
            if len(nodes) > _MAX_NODES:
                raise wire.Damage(f"it has more than {_MAX_NODES} recurrent nodes")
        return nodes
    except wire.Damage as error:
        raise ValueError(f"{path} is no SavedModel, or is damaged: {error}.") from None


def _nodes(message: memoryview, ops: frozenset[str]) -> Iterator[Node]:
    fields = wire.Fields()
    names = {op.encode() for op in ops}
    found_graph = False
    for number, meta_graph in fields.of(message):
        if number != _META_GRAPH:
            continue
        for number, graph_def in fields.of(wire.part(meta_graph)):
            if number != _GRAPH_DEF:
                continue
            found_graph = True
            for graph in _graphs(fields, wire.part(graph_def)):
                for node in graph.nodes:
                    op = fields.first(node, _OP)
                    if op is not None and bytes(wire.part(op)[:100]) in names:
                        yield _read(graph, node)
    if not found_graph:
        raise wire.Damage("it has no graph")


def _graphs(fields: wire.Fields, graph_def: memoryview) -> Iterator[_Graph]:
    """The graph itself, and its functions."""
    nodes = []
    libraries = []
    for number, value in fields.of(graph_def):
        if number == _NODE:
            nodes.append(wire.part(value))
        elif number == _LIBRARY:
            libraries.append(wire.part(value))
    yield _Graph(fields, nodes, {})
    for library in libraries:
        for number, function in fields.of(library):
            if number == _FUNCTION:
                yield _function(fields, wire.part(function))


def _function(fields: wire.Fields, function: memoryview) -> _Graph:
    nodes, names, shapes = [], [], {}
    for number, value in fields.of(function):
        if number == _FUNCTION_NODE:
            nodes.append(wire.part(value))
        elif number == _SIGNATURE:
            names = [
                wire.text(fields.last(wire.part(argument), _NAME))
                for kind, argument in fields.of(wire.part(value))
                if kind == _INPUT_ARG
            ]
        elif number == _ARG_ATTR:
            index = wire.signed(fields.last(wire.part(value), _KEY))
            attributes = fields.last(wire.part(value), _VALUE)
            if attributes is not None:
                found = _attributes(fields, wire.part(attributes), field=1).get(_SHAPES)
                shapes[index] = found[0] if found else None
    by_name = {name: shapes.get(index) for index, name in enumerate(names)}
    return _Graph(fields, nodes, by_name)


def _read(graph: _Graph, node: memoryview) -> Node:
    fields = graph.fields
    name = op = ""
    inputs = []
    for number, value in fields.of(node):
        if number == _NAME:
            name = wire.text(value)
        elif number == _OP:
            op = wire.text(value)
        elif number == _INPUT:
            inputs.append(wire.text(value))
    attributes = _attributes(fields, node)
    attributes.pop(_SHAPES, None)
    # "^name" is no tensor, only what must come before.
    shapes = [graph.shape_of(tensor) for tensor in inputs if not tensor.startswith("^")]
    return Node(name, op, attributes, shapes)


def _attributes(fields: wire.Fields, message: memoryview, field: int = _ATTR) -> dict[str, Any]:
    """The attributes of a node that are of use here."""
    found: dict[str, Any] = {}
    for number, entry in fields.of(message):
        if number != field:
            continue
        key = wire.text(fields.last(wire.part(entry), _KEY))
        value = fields.last(wire.part(entry), _VALUE)
        if value is None or key not in (*_TEXTS, *_NUMBERS, *_FLAGS, _SHAPES):
            continue
        value = wire.part(value)
        if key in _TEXTS:
            found[key] = wire.text(fields.last(value, _S))
        elif key in _NUMBERS:
            found[key] = wire.signed(fields.last(value, _I))
        elif key in _FLAGS:
            found[key] = wire.signed(fields.last(value, _B)) != 0
        else:
            shapes = fields.last(value, _LIST)
            found[key] = [] if shapes is None else _shapes(fields, wire.part(shapes))
    return found


def _shapes(fields: wire.Fields, message: memoryview) -> list[Shape]:
    return [
        _shape(fields, wire.part(value)) for number, value in fields.of(message) if number == _SHAPE
    ]


def _shape(fields: wire.Fields, message: memoryview) -> Shape:
    sizes = []
    for number, value in fields.of(message):
        if number == _UNKNOWN_RANK and value:
            return None
        if number == _DIM:
            sizes.append(wire.signed(fields.last(wire.part(value), _DIM_SIZE)))
    if len(sizes) > untrusted.MAX_DIMENSIONS:
        raise wire.Damage(f"it has a shape of {len(sizes)} sizes")
    return sizes
