"""The states of a CudnnRNN: those it is given, those it keeps, and the output they hold."""

from typing import Any

import keras
import tensorflow as tf

from tf_cudnn_rnn.keras._shapes import Shapes, swap


def checked(initial_state: Any, inputs: Any, shapes: Shapes, layer: str) -> list[Any] | None:
    """Returns `initial_state` as a list, its number and known shapes checked; None for None.

    Args:
      initial_state: of the call.
      inputs: of the call.
      shapes: of the layer.
      layer: its name, for messages.

    Raises:
      ValueError: there are more or fewer, or one has another shape.
    """
    if initial_state is None:
        return None
    if not isinstance(initial_state, list | tuple):
        initial_state = [initial_state]
    if len(initial_state) != len(shapes.state_size):
        names = "(h, c)" if shapes.rnn_mode == "lstm" else "(h,)"
        raise ValueError(
            f"`initial_state` of layer {layer!r}, rnn_mode {shapes.rnn_mode}, must be "
            f"{names}; got {len(initial_state)} tensors."
        )
    expected = shapes.states(inputs.shape[shapes.batch_axis])
    letters = "[L*D, B, {}]" if shapes.time_major else "[B, L*D, {}]"
    for k, (state, shape) in enumerate(zip(initial_state, expected, strict=True)):
        if not tf.TensorShape(state.shape).is_compatible_with(shape):
            raise ValueError(
                f"`initial_state`[{k}] of layer {layer!r} must have shape "
                f"{letters.format('PH'[k])} = {list(shape)}; got {list(state.shape)}."
            )
    return list(initial_state)


class StateVariables(tf.Module):
    """What a stateful layer keeps from batch to batch.

    As in Keras' layers the states are not among the weights, which fit any batch size. Keras
    does not see them in here; TensorFlow does, and writes them to checkpoints and SavedModels.

    Attributes:
      states: the variables, h and, for an LSTM, c.
    """

    def __init__(self, shapes: Shapes, batch_size: int | None, dtype: str, layer: str):
        """Makes them, zero.

        Args:
          shapes: of the layer.
          batch_size: of all batches to come.
          dtype: of the variables.
          layer: its name, for messages.

        Raises:
          ValueError: the batch size is not known.
        """
        super().__init__()
        if batch_size is None:
            raise ValueError(
                f"Layer {layer!r} has stateful=True, so its batch size must be known; got "
                "None. Give the model a keras.Input(batch_shape=...)."
            )
        self.states = [
            keras.Variable(tf.zeros(shape), trainable=False, dtype=dtype, name="rnn_state")
            for shape in shapes.states(batch_size)
        ]

    def check_batch(self, inputs: tf.Tensor, shapes: Shapes, layer: str) -> None:
        """Checks that `inputs` have the batch size of the states, as far as it is known.

        Raises:
          ValueError: they have another one.
        """
        batch = inputs.shape[shapes.batch_axis]
        expected = self.states[0].shape[shapes.batch_axis]
        if batch is not None and batch != expected:
            raise ValueError(
                f"Layer {layer!r} has stateful=True, so each batch must have the size of its "
                f"states, {expected}; got {batch}."
            )

    def keep(self, states: list[tf.Tensor]) -> None:
        """Starts the next batch with these."""
        for variable, state in zip(self.states, states, strict=True):
            variable.assign(tf.cast(state, variable.dtype))

    def reset(self) -> None:
        """Starts the next batch with zeros."""
        for variable in self.states:
            variable.assign(tf.zeros_like(variable.value))


def last_output(h: tf.Tensor, lengths: tf.Tensor | None, shapes: Shapes) -> tf.Tensor:
    """[B, D*P]: the final h of the last layer; zero in rows of no length, if known."""
    h = h if shapes.time_major else swap(h)
    D = shapes.num_directions
    last = tf.concat(tf.unstack(h[-D:], num=D), axis=-1)
    if lengths is None:
        return last
    return tf.where((lengths > 0)[:, None], last, tf.zeros_like(last))
