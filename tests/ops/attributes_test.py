"""What an op is told, its gradient is told: an attribute that is forgotten would be the default."""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import op_def_registry

import tf_cudnn_rnn
from tf_cudnn_rnn import raw_ops

T, B, I, H, L = 3, 2, 4, 4, 2
NETWORK = {
    "rnn_mode": "gru",
    "input_mode": "skip_input",
    "direction": "bidirectional",
    "dropout": 0.5,
    "num_proj": 2,
    "time_major": False,
}
# Each attribute that an op and its gradient have in common, other than its default.
CALLS: list[Any] = [
    *(("CudnnRNNV3", "CudnnRNNBackpropV3", {name: value}) for name, value in NETWORK.items()),
    ("KerasRNN", "KerasRNNBackprop", {"rnn_mode": "gru"}),
    ("KerasRNN", "KerasRNNBackprop", {"time_major": False}),
    ("KerasRNN", "KerasRNNBackprop", {"go_backwards": True}),
    ("KerasRNN", "KerasRNNBackprop", {"zero_output_for_mask": False}),
    ("KerasToParams", "KerasToParamsBackprop", {"rnn_mode": "gru"}),
]
# Of how many tensors, of which type, and what is no business of gradients.
COUNTS = {"num_biases", "num_masks", "num_backward_weights"}
FORWARD_ALONE = {"is_training"}


def _attributes(op: str) -> set[str]:
    found = op_def_registry.get(f"TfCudnnRnn>{op}")
    return {a.name for a in found.attr if a.type != "type"} - COUNTS


def _call(op: str, options: dict):
    """The output of a call, and what to differentiate it by."""
    mode = options.get("rnn_mode", "lstm")
    is_batch_major = not options.get("time_major", True)
    G = {"lstm": 4, "gru": 3}[mode]
    x = tf.zeros([B, T, I] if is_batch_major else [T, B, I])
    lengths = tf.fill([B], T)
    kernels = [tf.zeros([I, G * H]), tf.zeros([H, G * H])]
    bias = tf.zeros([2, G * H] if mode == "gru" else [G * H])
    if op == "KerasToParams":
        params = raw_ops.KerasToParams(
            kernel=kernels[0], recurrent_kernel=kernels[1], biases=[bias], **options
        )
        return params, kernels[0]
    if op == "KerasRNN":
        state = tf.zeros([B, 1, H] if is_batch_major else [1, B, H])
        result = raw_ops.KerasRNN(
            input=x,
            input_h=state,
            input_c=state,
            kernel=kernels[0],
            recurrent_kernel=kernels[1],
            biases=[bias],
            sequence_lengths=lengths,
            masks=[tf.ones([B, T] if is_batch_major else [T, B], tf.bool)],
            **options,
        )
        return result.output, x
    P = options.get("num_proj", H)
    D = 2 if options.get("direction") else 1
    network = {name: value for name, value in options.items() if name in NETWORK}
    network = {k: v for k, v in network.items() if k not in ("rnn_mode", "dropout", "time_major")}
    size = tf_cudnn_rnn.params_size(mode, L, H, I, **network)
    shape = (B, L * D) if is_batch_major else (L * D, B)
    result = raw_ops.CudnnRNNV3(
        input=x,
        input_h=tf.zeros([*shape, P]),
        input_c=tf.zeros([*shape, H]),
        params=tf.zeros([size]),
        sequence_lengths=lengths,
        **options,
    )
    return result.output, x


@pytest.mark.parametrize(
    "op, backward, options",
    CALLS,
    ids=lambda value: value if isinstance(value, str) else "-".join(value),
)
def test_gradients_get_the_attributes_of_their_ops(op, backward, options):
    with tf.Graph().as_default() as graph:
        output, by = _call(op, options)
        tf.gradients(output, by)
    nodes = {node.type: node for node in graph.get_operations()}
    (name, value), *_ = options.items()
    for each in (op, backward):
        found = nodes[f"TfCudnnRnn>{each}"].get_attr(name)
        found = tf.compat.as_str(found) if isinstance(found, bytes) else found
        np.testing.assert_equal(found, value)


@pytest.mark.parametrize("op, backward", sorted({call[:2] for call in CALLS}))
def test_each_attribute_is_looked_at(op, backward):
    """A new one: CONTRIBUTING.md, "Add an attribute to an op"."""
    of_forward = _attributes(op) - FORWARD_ALONE
    assert of_forward == _attributes(backward)
    assert of_forward == {name for call in CALLS if call[0] == op for name in call[2]}
