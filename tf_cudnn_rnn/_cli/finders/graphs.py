"""Recurrent nodes of SavedModels and of ONNX files."""

import contextlib
import functools
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tf_cudnn_rnn._cli import needs
from tf_cudnn_rnn._cli.finders import calls
from tf_cudnn_rnn._cli.finders.found import MOST, Found, Look, Loop, num_biases, runs_unless_refused
from tf_cudnn_rnn._files import variables
from tf_cudnn_rnn._formats import onnx, onnx_file, onnx_stacks, saved_model, untrusted
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, INPUT_MODES

_OTHER_OPS = ("BlockLSTM", "BlockLSTMV2", "GRUBlockCell", "LSTMBlockCell")


def in_saved_model(path: str, shown_path: str) -> Iterator[Look | Loop]:
    """The recurrent nodes and loops of the graphs."""
    folder = shown_path if os.path.isdir(shown_path) else os.path.dirname(shown_path)
    call = "import tensorflow as tf, tf_cudnn_rnn; tf.saved_model.load({})"
    call = calls.python(call, folder or ".")
    own = (variables.OWN_OP, variables.KERAS_OP, variables.INT8_OP)
    recurrent = (*variables.CUDNN_OPS, *own)
    nodes = saved_model.read_nodes(path, frozenset((*recurrent, *_OTHER_OPS, *saved_model.LOOPS)))
    seen = set()
    for node in nodes:
        if node.op in saved_model.LOOPS:
            yield Loop(node.key)
            continue
        # Each signature has a copy.
        if node.key in seen:
            continue
        seen.add(node.key)
        yield functools.partial(_graph_node, node, call)


def _graph_node(node: saved_model.Node, call: str) -> Found:
    found = Found(node.name, node.op, how=call, needs=(needs.TENSORFLOW,))
    if node.op in _OTHER_OPS:
        found.how = "TensorFlow's own CPU kernel runs it, as it does without this library"
        found.runs = False
    elif node.op == variables.KERAS_OP:
        _take_keras_node(found, node)
    else:
        _take_cudnn_node(found, node)
    return found


def _known(
    found: Found, attributes: dict[str, Any], name: str, default: str, known: Iterable[str]
) -> str | None:
    """An attribute that is a word; None if the op does not know it, and then it does not run."""
    value: str = attributes.get(name, default)
    if value in known:
        return value
    found.runs = False
    found.how = f"{name} must be one of {', '.join(known)}; it is {untrusted.shown(value)}"
    return None


def _take_cudnn_node(found: Found, node: saved_model.Node) -> None:
    attributes = node.attributes
    found.rnn_mode = _known(found, attributes, "rnn_mode", "lstm", GATES)
    found.direction = _known(found, attributes, "direction", "unidirectional", DIRECTIONS)
    _known(found, attributes, "input_mode", "linear_input", INPUT_MODES)
    found.num_proj = attributes.get("num_proj", 0)
    if found.num_proj < 0:
        found.runs, found.how = False, f"num_proj must not be negative; it is {found.num_proj}"
        found.num_proj = None
    found.input_size = node.size(0, -1)
    # c keeps H where h is projected.
    found.num_units = node.size(2 if found.num_proj else 1, -1)
    states = node.size(1, 0 if attributes.get("time_major", True) else 1)
    if states and found.direction:
        found.num_layers = states // len(DIRECTIONS[found.direction])
    found.parameters, found.biases = node.size(3, 0), 2
    if node.op == variables.INT8_OP:  # whose matrices and biases are two inputs
        counts = [found.parameters, node.size(5, 0)]
        found.parameters = None if None in counts else sum(filter(None, counts))


def _take_keras_node(found: Found, node: saved_model.Node) -> None:
    found.rnn_mode = _known(found, node.attributes, "rnn_mode", "lstm", GATES)
    has_both = node.attributes.get("num_backward_weights", 0) != 0
    found.direction = "bidirectional" if has_both else "unidirectional"
    found.num_layers, found.num_proj = 1, 0
    found.input_size = node.size(3, 0)
    found.num_units = node.size(4, 0)
    weights = node.inputs[3 : 5 + node.attributes.get("num_biases", 1)]
    shapes = [shape for shape in weights if shape and min(shape) > 0]
    if found.input_size and found.num_units and len(shapes) == len(weights):
        found.parameters = len(DIRECTIONS[found.direction]) * sum(map(math.prod, shapes))
        found.biases = num_biases(*shapes[1:])


def in_onnx(path: str, shown_path: str) -> Iterator[Look]:
    """The recurrent nodes."""
    nodes = onnx_file.read_nodes(path)
    mistake = onnx_file.mistake_of_names(nodes)
    # `convert` takes all of them if no other is said.
    is_one = len(nodes) <= MOST and _are_a_stack(nodes)
    for node in nodes:
        options = {} if is_one else {"layer": node.name}
        yield functools.partial(_onnx_node, node, shown_path, options, mistake)


def _are_a_stack(nodes: Sequence[onnx_file.FileNode]) -> bool:
    """Whether nodes are one network of several layers, or of one."""
    if len(nodes) == 1:
        return True
    if not nodes or onnx_stacks.first_break(nodes):
        return False
    with contextlib.suppress(ValueError):
        onnx.check_stack([node.as_arrays() for node in nodes])
        return True
    return False


def _onnx_node(
    node: onnx_file.FileNode, shown_path: str, options: Mapping[str, str], mistake: str | None
) -> Found:
    found = Found(node.name, node.op_type, layer=node.name)
    direction = node.attributes.get("direction", "forward")
    found.direction = "bidirectional" if direction == "bidirectional" else "unidirectional"
    found.num_layers, found.num_proj = 1, 0
    with runs_unless_refused(found):
        arrays = node.as_arrays()
        found.rnn_mode = onnx.mode_of(arrays, "It")
        if arrays.W.ndim == arrays.R.ndim == 3:
            found.input_size, found.num_units = arrays.W.shape[2], arrays.R.shape[2]
        weights = (array for array in arrays[2:] if array is not None)
        found.parameters = sum(array.size for array in weights)
        found.biases = 2 if arrays.B is not None else 0
        onnx.check_alone(arrays)
        if mistake:
            raise ValueError(mistake)
        found.how = calls.convert(shown_path, "model.keras", "keras", **options)
    return found
