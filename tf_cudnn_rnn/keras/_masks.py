"""Checks masks, and runs any of them through ops that know lengths only.

The drop-ins' op takes masks as they are. For the built-in ops, and for ONNX, this helps.

The rule for a masked step is: hold the states, and put zeros out; or, as Keras has it by
default, the output of the step before. So masked steps do not exist for the recurrence, which
may as well run over the valid ones alone, moved to the front:

  mask    0 1 0 1 1      x  . a . b c      y  0 A 0 B C    or repeated: 0 A A B C
  length  3              ->  a b c . .      <-  A B C 0 0, of whose zeros masked steps take one

That costs a gather in and one out. Where the mask is padding at the end of rows, by far the
commonest one, the valid steps are at the front already, and zeros are where they have to be.
Whether it is so is seen when the call runs.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tf_cudnn_rnn.keras._shapes import swap


def single(mask: Any) -> Any:
    """The mask of a call; Keras hands a list of them to a layer that was called on a list.

    Raises:
      ValueError: it is a list of rows, not all of which have the same length.
    """
    if not isinstance(mask, list | tuple):
        return mask
    if not all(map(_is_row, mask)):
        return mask[0]
    lengths = sorted({len(row) for row in mask if not np.isscalar(row)})
    if len(lengths) > 1:
        raise ValueError(f"`mask` must have rows of the same length; got lengths {lengths}.")
    return tf.convert_to_tensor(mask)


def _is_row(item: Any) -> bool:
    """Whether an item of a list is a row of one mask, and not a mask."""
    if isinstance(item, list | tuple) or np.isscalar(item):
        return True
    return hasattr(item, "shape") and tf.TensorShape(item.shape).rank == 1


def check_shape(mask: Any, inputs: Any, layer_name: str, one_row_will_do: bool = False) -> None:
    """Checks what is known of the shape of a mask.

    Args:
      mask: [B, T] or [B, T, 1], or whatever came instead.
      inputs: [B, T, I]. If the layer is time-major, B and T change places in both.
      layer_name: for the message.
      one_row_will_do: whether B may be 1 for any batch, as in Keras' loop.

    Raises:
      ValueError: the mask has another shape.
    """
    first, second = inputs.shape[:2]
    shape = tf.TensorShape(mask.shape if hasattr(mask, "shape") else np.shape(mask))
    rows = [first, 1] if one_row_will_do else [first]
    if not any(
        shape.is_compatible_with(allowed)
        for row in rows
        for allowed in ([row, second], [row, second, 1])
    ):
        raise ValueError(
            f"{_rule(layer_name, one_row_will_do)} = {[first, second]}; got {shape.as_list()}."
        )


def as_matrix(
    mask: Any, inputs: tf.Tensor, layer_name: str, one_row_will_do: bool = False
) -> tf.Tensor:
    """Returns a mask of any type as booleans [B, T].

    What of its shape is not known yet is checked when the graph runs; where all is known, this
    adds nothing to the graph.

    Args:
      mask, inputs, layer_name, one_row_will_do: as of check_shape, which it calls.
    """
    mask = tf.convert_to_tensor(mask)
    check_shape(mask, inputs, layer_name, one_row_will_do)
    if not (mask.shape.is_fully_defined() and inputs.shape[:2].is_fully_defined()):
        mask = _checked_as_it_runs(mask, inputs, layer_name, one_row_will_do)
    if mask.shape.rank == 3:
        mask = tf.squeeze(mask, axis=2)
    mask = tf.cast(mask, tf.bool)
    if one_row_will_do and (mask.shape[0] is None or mask.shape[0] != inputs.shape[0]):
        mask = tf.broadcast_to(mask, tf.shape(inputs)[:2])
    return mask


def _rule(layer_name: str, one_row_will_do: bool) -> str:
    return (
        f"`mask` of layer {layer_name!r} must have the first two dimensions of the input"
        f"{' (or one row for all)' if one_row_will_do else ''}"
    )


def _checked_as_it_runs(
    mask: tf.Tensor, inputs: tf.Tensor, layer_name: str, one_row_will_do: bool
) -> tf.Tensor:
    rule = _rule(layer_name, one_row_will_do)
    if mask.shape.rank is None:
        is_matrix = tf.debugging.assert_rank(mask, 2, message=rule)
        with tf.control_dependencies([is_matrix]):
            mask = tf.identity(mask)
        mask.set_shape([None, None])
    shape, expected = tf.shape(mask), tf.shape(inputs)[:2]
    if mask.shape.rank == 3:
        expected = tf.concat([expected, [1]], axis=0)
    fits = tf.equal(shape, expected)
    if one_row_will_do:
        fits |= tf.equal(shape, [1, -1, -1][: mask.shape.rank])
    # Shapes are on the host, so this is one op, without a condition around it.
    check = tf.debugging.Assert(tf.reduce_all(fits), [f"{rule} =", expected, "; got", shape])
    with tf.control_dependencies([check]):
        return tf.identity(mask)


def last_output(
    output_h: tf.Tensor, mask: tf.Tensor, go_backwards: bool, zero_output: bool
) -> tf.Tensor:
    """The output [B, H] of the last step that a layer of Keras takes, masked or not.

    Args:
      output_h: the final state [B, H].
      mask: [B, T], boolean.
      go_backwards: whether steps are taken from the last to the first.
      zero_output: whether masked steps have zeros, or what the step before has.
    """
    if zero_output:
        has_output = mask[:, 0 if go_backwards else -1]
    else:
        has_output = tf.reduce_any(mask, axis=1)
    return tf.where(has_output[:, None], output_h, tf.zeros_like(output_h))


class Compaction:
    """Where the valid steps go, and where their outputs come back.

    Attributes:
      lengths: int32 [B], the number of valid steps of each row.
    """

    def __init__(
        self,
        mask: tf.Tensor,
        *,
        is_for_own_kernel: bool,
        go_backwards: bool = False,
        time_major: bool = False,
    ):
        """Plans for `mask` [B, T], boolean, or [T, B] if `time_major`.

        Args:
          mask: True where a step is valid.
          is_for_own_kernel: whether this library computes what the graph says. Graphs for GPUs and
            for ONNX have no condition, and rely on nothing in padding.
          go_backwards: take the steps from the last to the first; not with an own kernel.
          time_major: whether sequences are [T, B, .], too.
        """
        # "Time" is the order in which Keras goes through the steps.
        self._mask = tf.reverse(mask, [1]) if go_backwards else mask
        self._go_backwards = go_backwards
        self._is_for_own_kernel = is_for_own_kernel
        self._time_major = time_major
        time_axis = 0 if time_major else 1
        self.lengths = tf.reduce_sum(tf.cast(mask, tf.int32), axis=time_axis)
        self._is_padding = None
        if is_for_own_kernel:
            steps = tf.range(tf.shape(mask)[time_axis])
            padding = steps[:, None] < self.lengths if time_major else steps < self.lengths[:, None]
            self._is_padding = tf.reduce_all(tf.equal(mask, padding))

    def compact(self, sequences: tf.Tensor) -> tf.Tensor:
        """Moves the valid steps of `sequences` [B, T, I] to the front."""

        def gather(sequences: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
            order = tf.argsort(tf.cast(~mask, tf.int32), axis=1, stable=True)
            if self._go_backwards:
                order = tf.shape(order)[1] - 1 - order
            return tf.gather(sequences, order, axis=1, batch_dims=1)

        return self._unless_padding(sequences, gather)

    def expand(self, outputs: tf.Tensor, zero_output: bool) -> tf.Tensor:
        """Gives each step of `outputs` [B, T, H] its place, and masked ones their value.

        Args:
          outputs: zeros from each row's length on, as this library's kernels leave them. A row with
            a masked step has at least one such step, of which zeros are taken.
          zero_output: whether masked steps have zeros, as they must with an own kernel, or what the
            step before has.
        """

        def gather(outputs: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
            # Valid steps up to this one.
            count = tf.cumsum(tf.cast(mask, tf.int32), axis=1)
            if self._is_for_own_kernel:
                index = tf.where(mask, count - 1, self.lengths[:, None])
                return tf.gather(outputs, index, axis=1, batch_dims=1)
            has_output = mask if zero_output else count > 0
            spread = tf.gather(outputs, tf.maximum(count - 1, 0), axis=1, batch_dims=1)
            return tf.where(has_output[:, :, None], spread, tf.zeros_like(spread))

        return self._unless_padding(outputs, gather)

    def _unless_padding(
        self, tensor: tf.Tensor, gather: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
    ) -> tf.Tensor:
        """gather(sequences, mask), both batch-major, where that is more than the sequences."""

        def gathered() -> tf.Tensor:
            if self._time_major:
                return swap(gather(swap(tensor), swap(self._mask)))
            return gather(tensor, self._mask)

        if self._is_padding is None:
            return gathered()
        result = tf.cond(self._is_padding, lambda: tensor, gathered)
        result.set_shape(tensor.shape)
        return result
