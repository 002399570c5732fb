"""What the drivers that run in TensorFlow share."""

import numpy as np
import tensorflow as tf

from benchmarks import cases


def set_threads(threads: int) -> None:
    """Settles TensorFlow's threads; before its first op."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def to_array(tensor) -> np.ndarray:
    """The tensor as float64 if it is, else as float32."""
    return (tensor if tensor.dtype == tf.float64 else tf.cast(tensor, "float32")).numpy()


def step_function(forward, pass_: str, dy: tf.Tensor, variables=()):
    """Returns the pass as a function of the inputs of `forward`.

    Args:
      forward: takes tensors, returns (y, final states).
      pass_: inference calls it; training also returns the gradients with respect to all its
        inputs, then to the variables.
      dy: the gradient of the loss with respect to y.
      variables: weights that are not inputs.
    """
    if pass_ == cases.INFERENCE:
        return forward

    def train(*inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            y, states = forward(*inputs)
        return y, states, tape.gradient(y, [*inputs, *variables], output_gradients=dy)

    return train


def traced_step(forward, pass_: str, dy: tf.Tensor, variables=()):
    """`step_function` in a tf.function."""
    return tf.function(step_function(forward, pass_, dy, variables), autograph=False)
