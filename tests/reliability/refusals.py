"""Calls of every op that must be refused, and the words in which they are."""

import numpy as np
import pytest
import tensorflow as tf

from tests.ops import calls

INVALID = tf.errors.InvalidArgumentError
# While a function is traced, TensorFlow makes others of it.
_INVALID_IN_A_GRAPH = (INVALID, ValueError)
MOST = 2**31 - 1

# Those that take a sequence, and those of them that take a reserve_space.
FORWARD = (*calls.FORWARD, calls.KERAS_RNN, calls.INT8)
READERS = (*calls.BACKPROP, calls.KERAS_RNN_BACKPROP, calls.READ_RESERVE)
WITH_LENGTHS = (*calls.V3, *calls.BACKPROP_V3, calls.KERAS_RNN, calls.INT8, *READERS[-2:])
WITH_KERAS_WEIGHTS = (calls.KERAS_RNN, calls.KERAS_RNN_BACKPROP, calls.KERAS_TO_PARAMS)
WITH_PARAMS = (*calls.FORWARD, *calls.BACKPROP, calls.READ_RESERVE)
# Those that take the sizes of a network, and those on one layer's weights as Keras keeps them.
SIZED = (*calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS)
KERAS_PARAMS = (calls.KERAS_TO_PARAMS, calls.KERAS_TO_PARAMS_BACKPROP)
ALL = (*FORWARD, *READERS, *SIZED, *KERAS_PARAMS)


def int32(*values) -> np.ndarray:
    return np.array(values, np.int32)


def assert_refused(op: str, message: str, graphs: bool = True, **changes) -> None:
    """In eager mode, and in graphs that know all shapes or none."""
    arguments = calls.arguments(op, **changes)
    with pytest.raises(INVALID, match=message):
        calls.function(op)(**arguments)
    if not graphs:
        return
    with pytest.raises(_INVALID_IN_A_GRAPH, match=message):
        calls.run_in_graph(op, arguments)
    # TensorFlow's own shape functions look at ranks alone, in words of their own.
    with pytest.raises(_INVALID_IN_A_GRAPH, match=f"{message}|Shape must be rank [0-9] but is"):
        calls.run_in_graph(op, arguments, lambda each: tf.TensorSpec(each.shape, each.dtype))
