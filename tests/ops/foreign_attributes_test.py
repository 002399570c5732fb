"""Attributes of other ops in the nodes of a graph, which TensorFlow lets pass.

A graph from a stranger may have them. Read, they would tell a kernel of lists or types that its
tensors are not: it would write beyond them. So they must change nothing.
"""

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

import tf_cudnn_rnn
from tests.ops import calls

# Of an op's node: what other ops of the family define, with values that would matter.
FOREIGN = {
    "T": tf.float64,
    "input_mode": "skip_input",
    "direction": "bidirectional",
    "dropout": 0.5,
    "num_proj": 2,
    "time_major": False,
    "is_training": True,
    "num_params": 4,
    "num_params_weights": 64,
    "num_params_biases": 64,
    "num_biases": 0,
    "num_masks": 1,
    "num_backward_weights": 3,
    "go_backwards": True,
    "zero_output_for_mask": False,
}
OPS = (
    *calls.FORWARD,
    *calls.BACKPROP,
    *calls.PARAMS_SIZE,
    *calls.TO_CANONICAL,
    *calls.TO_PARAMS,
    *calls.KERAS,
    calls.READ_RESERVE,
    calls.INT8,
)


def _random(value):
    """An array of floats in the place of zeros."""
    if isinstance(value, list):
        return list(map(_random, value))
    if isinstance(value, np.ndarray) and value.dtype in (np.float32, np.int8):
        values = np.random.default_rng(value.size).integers(0, 9, value.shape)
        return (values / (8 if value.dtype == np.float32 else 1)).astype(value.dtype)
    return value


def _graph_of(op: str) -> tf.compat.v1.GraphDef:
    """A graph that holds one call of `op`, of name "call"."""
    arguments = calls.arguments(op)
    # What a forward call returned belongs to its inputs.
    if op not in (*calls.BACKPROP, calls.KERAS_RNN_BACKPROP, calls.READ_RESERVE):
        arguments = {name: _random(value) for name, value in arguments.items()}
    arguments = tf.nest.map_structure(
        lambda value: value.numpy() if tf.is_tensor(value) else value, arguments
    )
    with tf.Graph().as_default() as graph:
        calls.function(op)(**arguments, name="call")
    return graph.as_graph_def()


def _run(graph_def: tf.compat.v1.GraphDef) -> list[np.ndarray]:
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        outputs = graph.get_operation_by_name("call").outputs
        with tf.compat.v1.Session(graph=graph) as session:
            results = session.run(outputs)
    for output, result in zip(outputs, results, strict=True):
        assert output.shape.is_compatible_with(result.shape)
    return results


def _set(attribute, value) -> None:
    if isinstance(value, tf.DType):
        attribute.type = value.as_datatype_enum
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.i = value
    elif isinstance(value, float):
        attribute.f = value
    else:
        attribute.s = value.encode()


@pytest.mark.parametrize("op", OPS)
def test_they_change_nothing(op):
    graph_def = _graph_of(op)
    expected = _run(graph_def)
    (node,) = (node for node in graph_def.node if node.name == "call")
    defined = {attribute.name for attribute in op_def_registry.get(node.op).attr}
    foreign = {name: value for name, value in FOREIGN.items() if name not in defined}
    assert foreign
    for name, value in foreign.items():
        _set(node.attr[name], value)
    for result, wanted in zip(_run(graph_def), expected, strict=True):
        np.testing.assert_array_equal(result, wanted)


def test_all_attributes_of_the_family_are_tried():
    own = [f"TfCudnnRnn>{name}" for name in tf_cudnn_rnn.raw_ops.__all__]
    family = [op for op in calls.FORWARD + calls.TO_CANONICAL if not op.startswith(calls.OWN)]
    names = {a.name for op in own + family for a in op_def_registry.get(op).attr}
    assert names - set(FOREIGN) == {"rnn_mode", "S", "seed", "seed2"}
