"""How long the rows of a batch are: the steps of the inputs, `sequence_lengths`, or a mask."""

from typing import Any

import numpy as np
import tensorflow as tf

from tf_cudnn_rnn.keras import _masks
from tf_cudnn_rnn.keras._shapes import Shapes


def check(inputs: Any, sequence_lengths: Any, mask: Any, shapes: Shapes, layer: str) -> None:
    """Checks what is known of the arguments of a call.

    Args:
      inputs: [B, T, I], or [T, B, I] of a layer that is time-major.
      sequence_lengths: [B], or None.
      mask: as `inputs` without I, or None.
      shapes: of the layer.
      layer: its name, for messages.

    Raises:
      ValueError: one has a wrong shape or type, or two contradict each other.
    """
    if inputs.shape[shapes.time_axis] == 0:
        raise ValueError(
            f"`inputs` of layer {layer!r} must have shape "
            f"{'[T, B, I]' if shapes.time_major else '[B, T, I]'} with T at least 1; got "
            f"{list(inputs.shape)}."
        )
    if mask is not None:
        _masks.check_shape(mask, inputs, layer)
    if sequence_lengths is None:
        return
    if mask is not None:
        raise ValueError(
            f"Layer {layer!r} must be given either `mask` or `sequence_lengths`; got "
            "both. A mask may also have come with `inputs` from an earlier layer: leave "
            "`sequence_lengths` out then."
        )
    sequence_lengths = _as_array(sequence_lengths)
    batch, shape = inputs.shape[shapes.batch_axis], tf.TensorShape(sequence_lengths.shape)
    if not shape.is_compatible_with([batch]):
        raise ValueError(
            f"`sequence_lengths` of layer {layer!r} must have shape [B] = [{batch}]; got "
            f"{shape.as_list()}."
        )
    dtype = tf.as_dtype(sequence_lengths.dtype)
    if not dtype.is_integer:
        raise ValueError(
            f"`sequence_lengths` of layer {layer!r} must be integers; got {dtype.name}. Pass "
            "np.asarray(sequence_lengths, np.int32)."
        )


def as_int32(lengths: Any) -> tf.Tensor:
    """Lengths of any integer type; what int32 does not hold stays out of range."""
    lengths = tf.convert_to_tensor(_as_array(lengths))
    if lengths.dtype == tf.int32:
        return lengths
    return tf.cast(tf.clip_by_value(tf.cast(lengths, tf.int64), -1, tf.int32.max), tf.int32)


def _as_array(lengths: Any) -> Any:
    """What comes from Python as an array, and no numbers as integers; a tensor as it is."""
    if hasattr(lengths, "shape"):
        return lengths
    if not isinstance(lengths, list | tuple):
        return np.asarray(lengths)
    return np.asarray(lengths) if len(lengths) > 0 else np.zeros([0], np.int32)
