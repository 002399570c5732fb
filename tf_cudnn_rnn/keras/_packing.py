"""From the variables of a Keras layer to the `params` of the built-in ops, by stock ops.

Keras keeps one kernel [I, G*H], one recurrent kernel [H, G*H] and a bias, with the
gates side by side. `params` holds the gates' matrices transposed, one after another:
all input kernels, all recurrent kernels, then the input and the recurrent biases; see
tf_cudnn_rnn._layout. Only the gates of a GRU are in another order.
"""

import tensorflow as tf


def pack(
    rnn_mode: str, kernel: tf.Tensor, recurrent_kernel: tf.Tensor, bias: tf.Tensor | None = None
) -> tf.Tensor:
    """Returns `params` [N] of one layer in one direction. Differentiable.

    raw_ops.KerasToParams does the same faster; this is for graphs that must do without own
    ops.

    Args:
      rnn_mode: as of the ops; G is 4 for "lstm", 3 for "gru", else 1.
      kernel: [I, G*H].
      recurrent_kernel: [H, G*H].
      bias: [G*H], or [2, 3*H] of a GRU (with reset_after); None for zeros.
    """
    if bias is None:
        shape = kernel.shape[1:] if rnn_mode != "gru" else [2, *kernel.shape[1:]]
        bias = tf.zeros(shape, kernel.dtype)
    if rnn_mode == "gru":
        kernel, recurrent_kernel, bias = map(_reset_first, (kernel, recurrent_kernel, bias))
    else:  # only the sum of cuDNN's biases counts
        bias = tf.stack([bias, tf.zeros_like(bias)])
    flat = [tf.transpose(kernel), tf.transpose(recurrent_kernel), bias]
    return tf.concat([tf.reshape(tensor, [-1]) for tensor in flat], axis=0)


def _reset_first(tensor: tf.Tensor) -> tf.Tensor:
    update, reset, new = tf.split(tensor, 3, axis=1)
    return tf.concat([reset, update, new], axis=1)
