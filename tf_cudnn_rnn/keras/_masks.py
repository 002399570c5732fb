"""Runs any mask through ops that know lengths only.

Keras' rule for a masked step is: hold the states, and repeat the last output (or put
zeros). So masked steps do not exist for the recurrence, which may as well run over the
valid ones alone, moved to the front:

  mask    0 1 0 1 1      x  . a . b c      y  0 A A B C    or zeros: 0 A 0 B C
  length  3              ->  a b c . .      <-  A B C 0 0

This has neither a condition nor a second path, and costs a gather in and one out.
"""

import tensorflow as tf


class Compaction:
    """Where the valid steps go, and where their outputs come back.

    Attributes:
      lengths: int32 [B], the number of valid steps of each row.
    """

    def __init__(self, mask: tf.Tensor, go_backwards: bool = False):
        """Plans for `mask` [B, T], boolean.

        Args:
          mask: True where a step is valid.
          go_backwards: take the steps from the last to the first.
        """
        # From here on "time" is the order in which Keras goes through the steps.
        self._mask = tf.reverse(mask, [1]) if go_backwards else mask
        count = tf.cumsum(tf.cast(self._mask, tf.int32), axis=1)  # valid steps up to this one
        self._count = count
        self.lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=1)
        order = tf.argsort(tf.cast(~self._mask, tf.int32), axis=1, stable=True)
        self._order = tf.shape(mask)[1] - 1 - order if go_backwards else order

    def compact(self, sequences: tf.Tensor) -> tf.Tensor:
        """Moves the valid steps of `sequences` [B, T, I] to the front."""
        return tf.gather(sequences, self._order, axis=1, batch_dims=1)

    def expand(self, outputs: tf.Tensor, zero_output: bool) -> tf.Tensor:
        """Gives each step of `outputs` [B, T, H] its place, and masked ones their value."""
        index = tf.maximum(self._count - 1, 0)
        has_output = self._mask if zero_output else self._count > 0
        spread = tf.gather(outputs, index, axis=1, batch_dims=1)
        return tf.where(has_output[:, :, None], spread, tf.zeros_like(spread))

    def last_output(self, output_h: tf.Tensor, zero_output: bool) -> tf.Tensor:
        """The output [B, H] of the last step, masked or not, given the final state."""
        has_output = self._mask[:, -1] if zero_output else self.lengths > 0
        return tf.where(has_output[:, None], output_h, tf.zeros_like(output_h))
