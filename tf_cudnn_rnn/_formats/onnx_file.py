"""The nodes LSTM, GRU and RNN of an `.onnx` file, without the package onnx.

The order of gates is in `onnx.py`; here stands the file.
"""

import collections
import functools
import math
import os
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._formats import bfloat16, untrusted, wire
from tf_cudnn_rnn._formats.onnx import OPS, OnnxNode
from tf_cudnn_rnn._formats.onnx_constants import (
    ADVICE,
    INT64,
    MAX_INTEGERS,
    Constants,
    Missing,
    Node,
    NotComputed,
    Tensor,
)
from tf_cudnn_rnn._types import Array

MAX_BYTES = wire.MAX_BYTES

# Numbers of fields, and types, of onnx.proto.
_MODEL_VERSION, _MODEL_PRODUCER, _MODEL_GRAPH, _MODEL_OPSET = 1, 2, 7, 8
_GRAPH_NODE, _GRAPH_NAME, _GRAPH_INITIALIZER, _GRAPH_INPUT, _GRAPH_OUTPUT = 1, 2, 5, 11, 12
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OP, _NODE_ATTRIBUTE = 1, 2, 3, 4, 5
_NODE_DOMAIN = 7
_ATTRIBUTE_NAME, _ATTRIBUTE_F, _ATTRIBUTE_I, _ATTRIBUTE_S, _ATTRIBUTE_T = 1, 2, 3, 4, 5
_ATTRIBUTE_INTS, _ATTRIBUTE_STRINGS, _ATTRIBUTE_TYPE = 8, 9, 20
_TYPE_INT, _TYPE_STRING, _TYPE_INTS, _TYPE_STRINGS = 2, 3, 7, 8
_DIMS, _DATA_TYPE, _FLOAT_DATA, _TENSOR_NAME, _RAW_DATA, _DOUBLE_DATA = 1, 2, 4, 8, 9, 10
_INT64_DATA, _EXTERNAL_DATA = 7, 13
_MAX_NODES = 20_000  # that are recurrent
_FLOAT, _INT64, _FLOAT16, _DOUBLE, _BFLOAT16 = 1, 7, 10, 11, 16
_DTYPES = {
    _FLOAT: "<f4",
    _INT64: INT64,
    _FLOAT16: "<f2",
    _DOUBLE: "<f8",
    _BFLOAT16: "bfloat16",
}
_CODES = {
    "float32": _FLOAT,
    "int64": _INT64,
    "float16": _FLOAT16,
    "float64": _DOUBLE,
    "bfloat16": _BFLOAT16,
}

_OPSET, _IR_VERSION = 17, 8  # of 2022, which runtimes have
# Of a node's inputs.
_X, _W, _R, _B, _P = 0, 1, 2, 3, 7
_NAMES = {_W: "W", _R: "R", _B: "B", _P: "P"}


class FileNode(NamedTuple):
    """A recurrent node.

    Attributes:
      name: of the node; that of its first output if it has none.
      op_type: "LSTM", "GRU" or "RNN".
      attributes: as in the node.
      tensors: W, R, B and P, of which the latter two may be left out.
      input: the name of the tensor X; "" if there is none.
      output: that of Y; "" if there is none.
      constants: computes tensors of the graph in inference, of which further ones are known.
    """

    name: str
    op_type: str
    attributes: dict[str, Any]
    tensors: dict[str, Tensor | Missing]
    input: str
    output: str
    constants: Callable[[Mapping[str, Tensor]], Constants]

    def as_arrays(self) -> OnnxNode:
        """The node with its weights, which are not copied; ValueError if they are not there."""
        arrays = {}
        for name, tensor in self.tensors.items():
            if isinstance(tensor, Missing):
                raise ValueError(
                    f"Node {untrusted.shown(self.name)} must have its {name} in the file; "
                    f"{tensor.why}"
                )
            arrays[name] = self._array(tensor)
        if not {"W", "R"} <= arrays.keys():
            raise ValueError(f"Node {untrusted.shown(self.name)} must have weights W and R.")
        return OnnxNode(self.op_type, self.attributes, **arrays)

    def _array(self, tensor: Tensor) -> Array:
        where = f"node {untrusted.shown(self.name)}"
        if tensor.dtype in ("", INT64):
            raise ValueError(f"Weights of {where} must be floating-point numbers.")
        if tensor.content is None:
            raise ValueError(
                f"Weights of {where} must be stored as raw or as float data; they are stored in "
                "a way that is not known here."
            )
        dtype = _numpy_dtype(tensor.dtype, where)
        size = math.prod(tensor.shape) * dtype.itemsize
        if size != len(tensor.content):
            raise ValueError(
                f"Weights of {where} must have the bytes of their shape "
                f"{list(tensor.shape)}, {size}; they have {len(tensor.content)}."
            )
        return np.frombuffer(tensor.content, dtype).reshape(tensor.shape)


def _numpy_dtype(name: str, where: str) -> np.dtype[Any]:
    if name != "bfloat16":
        return np.dtype(name)
    return bfloat16.dtype(f"A weight of {where}")


def read_nodes(path: str | os.PathLike[str]) -> list[FileNode]:
    """Returns the recurrent nodes of an `.onnx` file's graph, in its order.

    Those in the bodies of loops and conditions are left out.

    Raises:
      OSError: it cannot be opened.
      ValueError: it is no ONNX model, or is damaged.
    """
    path = os.fspath(path)
    message = wire.read_file(path, "ONNX model")
    fields = wire.Fields()
    try:
        graph = fields.last(message, _MODEL_GRAPH)
        if graph is None:
            raise wire.Damage("it has no graph")
        nodes = _nodes(fields, wire.part(graph), untrusted.most_shared(len(message)))
    except wire.Damage as error:
        raise ValueError(f"{path} is no ONNX model, or is damaged: {error}.") from None
    tensors = [tensor for node in nodes for tensor in node.tensors.values()]
    used = (tensor.content for tensor in tensors if isinstance(tensor, Tensor))
    used_bytes = sum(len(content) for content in used if content is not None)
    untrusted.check_shared(used_bytes, len(message), f"The recurrent nodes of {path}")
    return nodes


def _nodes(fields: wire.Fields, graph: memoryview, most_bytes: int) -> list[FileNode]:
    nodes, wanted = [], []
    tensors = {}
    ops = {op.encode() for op in OPS.values()}
    for number, value in fields.of(graph):
        if number == _GRAPH_INITIALIZER:
            name, tensor = _tensor(fields, wire.part(value))
            tensors[name] = tensor
        elif number == _GRAPH_NODE:
            nodes.append(wire.part(value))
            op = fields.first(wire.part(value), _NODE_OP)
            op = b"" if op is None else bytes(wire.part(op)[:100])
            if op in ops:
                wanted.append(wire.part(value))
                if len(wanted) > _MAX_NODES:
                    raise wire.Damage(f"it has more than {_MAX_NODES} recurrent nodes")
            elif op == b"Constant":
                tensors |= _constant(fields, wire.part(value))
    sources = _Sources(nodes)
    constants = Constants(tensors, sources.node, most_bytes)

    def with_tensors(known: Mapping[str, Tensor]) -> Constants:
        every = collections.ChainMap({**known}, tensors)
        return Constants(every, sources.node_of_inference, most_bytes)

    return [_node(fields, node, constants, with_tensors) for node in wanted]


class _Sources:
    """The nodes of a graph, by what they compute.

    Most files have their weights as initializers. So nodes are not sorted before one is asked for.
    What that takes is not taken from the file: other nodes are read where this goes too far.
    """

    def __init__(self, nodes: Iterable[memoryview]):
        self._fields = wire.Fields()
        self._nodes = nodes
        self._read: dict[str, Node] = {}

    @functools.cached_property
    def _by_output(self) -> dict[str, memoryview]:
        return {name: node for node in self._nodes for name in _ends(self._fields, node)[1]}

    def node(self, output: str) -> Node | None:
        """The node that computes a tensor; NotComputed if the graph has too many to look for it."""
        try:
            if output not in self._read and output in self._by_output:
                self._read[output] = self._node(output)
        except wire.Damage as error:
            raise NotComputed(
                f"it is computed by a graph whose nodes are not all read: {error}. {ADVICE}"
            ) from None
        return self._read.get(output)

    def node_of_inference(self, output: str) -> Node | None:
        """Likewise, where Dropout does nothing."""
        node = self.node(output)
        if node is not None and node.op.split(" ")[0] == "Dropout":
            return Node("Identity", node.inputs[:1], {})
        return node

    def _node(self, output: str) -> Node:
        op = domain = ""
        inputs, outputs = [], []
        attributes = {}
        for number, value in self._fields.of(self._by_output[output]):
            if number == _NODE_INPUT:
                inputs.append(wire.text(value))
            elif number == _NODE_OUTPUT:
                outputs.append(wire.text(value))
            elif number == _NODE_OP:
                op = wire.text(value)
            elif number == _NODE_DOMAIN:
                domain = wire.text(value)
            elif number == _NODE_ATTRIBUTE:
                key, content = _attribute(self._fields, wire.part(value))
                attributes[key] = content
        if domain not in ("", "ai.onnx"):
            op = f"{domain}.{op}"
        if len(outputs) > 1:
            op = f"{op} of {len(outputs)} outputs"
        return Node(op, inputs, attributes)


def mistake_of_names(nodes: Iterable[FileNode]) -> str | None:
    """What is wrong with the names of a file's nodes, by which they are chosen; None if nothing."""
    counts = collections.Counter(node.name for node in nodes)
    twice = next((name for name, count in counts.items() if count > 1), None)
    if twice is None:
        return None
    return (
        "Recurrent nodes must have names of their own; several have the name "
        f"{untrusted.shown(twice) or '(empty)'}"
    )


def _ends(fields: wire.Fields, node: memoryview) -> tuple[list[str], list[str]]:
    """The names of a node's inputs and outputs."""
    inputs, outputs = [], []
    for number, value in fields.of(node):
        if number == _NODE_INPUT:
            inputs.append(wire.text(value))
        elif number == _NODE_OUTPUT:
            outputs.append(wire.text(value))
    return inputs, outputs


def _constant(fields: wire.Fields, node: memoryview) -> dict[str, Tensor]:
    """What a node Constant gives, if that is a tensor, or integers."""
    outputs = []
    tensor = None
    for number, value in fields.of(node):
        if number == _NODE_OUTPUT:
            outputs.append(wire.text(value))
        elif number == _NODE_ATTRIBUTE:
            tensor = _constant_value(fields, wire.part(value)) or tensor
    return {} if tensor is None else dict.fromkeys(outputs, tensor)


def _constant_value(fields: wire.Fields, attribute: memoryview) -> Tensor | None:
    name = ""
    tensor = None
    integers = []
    for number, value in fields.of(attribute):
        if number == _ATTRIBUTE_NAME:
            name = wire.text(value)
        elif number == _ATTRIBUTE_T:
            _, tensor = _tensor(fields, wire.part(value))
        elif number in (_ATTRIBUTE_I, _ATTRIBUTE_INTS):
            integers.append(value)
    if name not in ("value_int", "value_ints"):
        return tensor
    numbers = fields.integers(integers)
    return _integers(numbers, () if name == "value_int" else (len(numbers),))


def _integers(numbers: list[int], shape: tuple[int, ...]) -> Tensor:
    return Tensor(shape, INT64, memoryview(np.array(numbers, INT64).tobytes()))


def _tensor(fields: wire.Fields, message: memoryview) -> tuple[str, Tensor]:
    name = ""
    dims, integers = [], []
    kind = 0
    content = None
    is_elsewhere = False
    for number, value in fields.of(message):
        if number == _TENSOR_NAME:
            name = wire.text(value)
        elif number == _DIMS:
            dims.append(value)
        elif number == _DATA_TYPE:
            kind = wire.signed(value)
        elif number in (_RAW_DATA, _FLOAT_DATA, _DOUBLE_DATA):
            # Numbers that are packed lie as raw ones do. A writer that does not pack them gives
            # several fields, of which the last one is too short, which shows.
            content = wire.part(value)
        elif number == _INT64_DATA:
            integers.append(value)
        elif number == _EXTERNAL_DATA:
            is_elsewhere = True
    shape = tuple(fields.integers(dims))
    if len(shape) > untrusted.MAX_DIMENSIONS or not all(map(untrusted.is_size, shape)):
        raise wire.Damage(f"{untrusted.shown(name)} has the shape {untrusted.shown(shape)}")
    # Sizes and positions; any others would take long to read, and are not asked for.
    if kind == _INT64 and integers and math.prod(shape) <= MAX_INTEGERS:
        return name, _integers(fields.integers(integers), shape)
    content = None if is_elsewhere else content
    return name, Tensor(shape, _DTYPES.get(kind, ""), content, is_elsewhere)


def _node(
    fields: wire.Fields,
    node: memoryview,
    constants: Constants,
    with_tensors: Callable[[Mapping[str, Tensor]], Constants],
) -> FileNode:
    name = op = ""
    inputs, outputs = _ends(fields, node)
    attributes = {}
    for number, value in fields.of(node):
        if number == _NODE_NAME:
            name = wire.text(value)
        elif number == _NODE_OP:
            op = wire.text(value)
        elif number == _NODE_ATTRIBUTE:
            key, content = _attribute(fields, wire.part(value))
            attributes[key] = content
    found = {
        letter: constants.find(inputs[index])
        for index, letter in _NAMES.items()
        if index < len(inputs) and inputs[index]
    }
    output = outputs[0] if outputs else ""
    return FileNode(
        name=name or output,
        op_type=op,
        attributes=attributes,
        tensors=found,
        input=inputs[_X] if inputs else "",
        output=output,
        constants=with_tensors,
    )


def _attribute(fields: wire.Fields, message: memoryview) -> tuple[str, Any]:
    """An attribute that recurrent nodes have; the bytes of any other."""
    name = ""
    value: Any = None
    strings, integers = [], []
    for number, content in fields.of(message):
        if number == _ATTRIBUTE_NAME:
            name = wire.text(content)
        elif number == _ATTRIBUTE_I:
            value = wire.signed(content)
        elif number == _ATTRIBUTE_S:
            value = wire.text(content)
        elif number == _ATTRIBUTE_F:
            (value,) = struct.unpack("<f", _four_bytes(content))
        elif number == _ATTRIBUTE_STRINGS:
            strings.append(wire.text(content))
        elif number == _ATTRIBUTE_INTS:
            integers.append(content)
    return name, strings or fields.integers(integers) or value


def _four_bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int) or len(value) != 4:
        raise wire.Damage("it has a number that is no float")
    return value


# ------------------------------------------------------------------------------------
# Writing
# ------------------------------------------------------------------------------------


def _number(value: int) -> bytes:
    """A varint."""
    value &= 2**64 - 1
    content = bytearray()
    while value >= 0x80:
        content.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*content, value])


def _field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return _number(number << 3) + _number(value)
    value = value.encode() if isinstance(value, str) else value
    return _number(number << 3 | 2) + _number(len(value)) + value


def _written_tensor(name: str, array: Array) -> bytes:
    code = _CODES[array.dtype.name]
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    dims = b"".join(_field(_DIMS, size) for size in array.shape)
    return (
        dims
        + _field(_DATA_TYPE, code)
        + _field(_TENSOR_NAME, name)
        + _field(_RAW_DATA, little.tobytes())
    )


def _written_attribute(name: str, value: int | str | list[int] | list[str]) -> bytes:
    content = _field(_ATTRIBUTE_NAME, name)
    if isinstance(value, int):
        return content + _field(_ATTRIBUTE_I, value) + _field(_ATTRIBUTE_TYPE, _TYPE_INT)
    if isinstance(value, str):
        return content + _field(_ATTRIBUTE_S, value) + _field(_ATTRIBUTE_TYPE, _TYPE_STRING)
    are_texts = isinstance(value[0], str)
    number = _ATTRIBUTE_STRINGS if are_texts else _ATTRIBUTE_INTS
    content += b"".join(_field(number, item) for item in value)
    return content + _field(_ATTRIBUTE_TYPE, _TYPE_STRINGS if are_texts else _TYPE_INTS)


def _written_node(
    op: str, inputs: Iterable[str], output: str, attributes: Mapping[str, Any]
) -> bytes:
    return (
        b"".join(_field(_NODE_INPUT, name) for name in inputs)
        + _field(_NODE_OUTPUT, output)
        + _field(_NODE_NAME, f"{op}_{output}")
        + _field(_NODE_OP, op)
        + b"".join(
            _field(_NODE_ATTRIBUTE, _written_attribute(name, value))
            for name, value in attributes.items()
        )
    )


def _value_info(name: str, code: int, sizes: Iterable[int | str]) -> bytes:
    """An input or output of a graph; a size is a number, or the name of one that varies."""
    dims = b"".join(
        _field(1, _field(1, size) if isinstance(size, int) else _field(2, size)) for size in sizes
    )
    tensor_type = _field(1, code) + _field(2, dims)
    return _field(1, name) + _field(2, _field(1, tensor_type))


def model_bytes(nodes: list[OnnxNode]) -> bytes:
    """A model of a stack of nodes, as `to_onnx` returns them: x [T, B, I] to y [T, B, D*H].

    States begin with zeros.
    """
    first = nodes[0]
    D, _, input_size = first.W.shape
    H = first.R.shape[2]
    code = _CODES[first.W.dtype.name]
    content = []
    initializers = [
        # Of Reshape, 0 is "as it was" and -1 "what is left".
        _written_tensor("y_shape", np.array([0, 0, -1], np.int64)),
    ]
    x = "x"
    for l, node in enumerate(nodes):
        arrays = {"W": node.W, "R": node.R}
        if node.B is not None:
            arrays["B"] = node.B
        initializers += [_written_tensor(f"{name}_{l}", a) for name, a in arrays.items()]
        inputs = [x, *(f"{name}_{l}" for name in arrays)]
        content.append(_written_node(node.op_type, inputs, f"Y_{l}", node.attributes))
        # Y is [T, D, B, H].
        x = "y" if l == len(nodes) - 1 else f"x_{l + 1}"
        content.append(_written_node("Transpose", [f"Y_{l}"], f"Y_{l}_t", {"perm": [0, 2, 1, 3]}))
        content.append(_written_node("Reshape", [f"Y_{l}_t", "y_shape"], x, {}))
    graph = (
        b"".join(_field(_GRAPH_NODE, node) for node in content)
        + _field(_GRAPH_NAME, "network")
        + b"".join(_field(_GRAPH_INITIALIZER, tensor) for tensor in initializers)
        + _field(_GRAPH_INPUT, _value_info("x", code, ["T", "B", input_size]))
        + _field(_GRAPH_OUTPUT, _value_info("y", code, ["T", "B", D * H]))
    )
    return (
        _field(_MODEL_VERSION, _IR_VERSION)
        + _field(_MODEL_PRODUCER, "tf_cudnn_rnn")
        + _field(_MODEL_GRAPH, graph)
        + _field(_MODEL_OPSET, _field(2, _OPSET))
    )
