"""From the variables of a Keras layer to the `params` of the ops. Differentiable.

Keras keeps one kernel [I, G*H], one recurrent kernel [H, G*H] and a bias, with the
gates side by side. `params` holds the gates' matrices transposed, one after another:
all input kernels, all recurrent kernels, then the input and the recurrent biases; see
tf_cudnn_rnn._layout. Only the gates of a GRU are in another order.
"""

import tensorflow as tf


def _flat_transposed(kernel: tf.Tensor) -> tf.Tensor:
    return tf.reshape(tf.transpose(kernel), [-1])


def _pack_lstm(kernel, recurrent_kernel, bias):
    # Both orders are input, forget, cell, output. Only the sum of cuDNN's biases counts.
    if bias is None:
        bias = tf.zeros([recurrent_kernel.shape[1]], kernel.dtype)
    return tf.concat(
        [
            _flat_transposed(kernel),
            _flat_transposed(recurrent_kernel),
            bias,
            tf.zeros_like(bias),
        ],
        axis=0,
    )


def _pack_gru(kernel, recurrent_kernel, bias):
    def reset_first(tensor):
        update, reset, new = tf.split(tensor, 3, axis=1)
        return tf.concat([reset, update, new], axis=1)

    if bias is None:
        bias = tf.zeros([2, recurrent_kernel.shape[1]], kernel.dtype)
    return tf.concat(
        [
            _flat_transposed(reset_first(kernel)),
            _flat_transposed(reset_first(recurrent_kernel)),
            tf.reshape(reset_first(bias), [-1]),  # [2, 3H]: input biases, recurrent biases
        ],
        axis=0,
    )


_PACK = {"lstm": _pack_lstm, "rnn_tanh": _pack_lstm, "rnn_relu": _pack_lstm, "gru": _pack_gru}


def pack(
    rnn_mode: str, kernel: tf.Tensor, recurrent_kernel: tf.Tensor, bias: tf.Tensor | None
) -> tf.Tensor:
    """Returns `params` [N] of one layer in one direction.

    Args:
      rnn_mode: as of the ops; G is 4 for "lstm", 3 for "gru", else 1.
      kernel: [I, G*H].
      recurrent_kernel: [H, G*H].
      bias: [G*H], or [2, 3*H] of a GRU (with reset_after); None for zeros.
    """
    return _PACK[rnn_mode](kernel, recurrent_kernel, bias)
