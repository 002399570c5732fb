"""The shapes of what a CudnnRNN takes and returns."""

import dataclasses
from typing import Any

import keras
import tensorflow as tf

from tf_cudnn_rnn._layout import DIRECTIONS
from tf_cudnn_rnn._types import Direction, RnnMode, Shape


@dataclasses.dataclass(frozen=True)
class Shapes:
    """The options of a CudnnRNN on which shapes depend, and what follows from them.

    A size that is not known yet is None, as in Keras.
    """

    rnn_mode: RnnMode
    num_layers: int
    num_units: int
    num_proj: int | None
    direction: Direction
    time_major: bool
    return_sequences: bool
    return_state: bool

    @classmethod
    def of(cls, layer: keras.layers.Layer) -> "Shapes":
        """Those of a CudnnRNN as it is now, built or not."""
        return cls(**{field.name: getattr(layer, field.name) for field in dataclasses.fields(cls)})

    @property
    def batch_axis(self) -> int:
        """Of sequences and of states."""
        return 1 if self.time_major else 0

    @property
    def time_axis(self) -> int:
        """Of sequences."""
        return 1 - self.batch_axis

    @property
    def num_directions(self) -> int:
        """D."""
        return len(DIRECTIONS[self.direction])

    @property
    def num_states(self) -> int:
        """L*D, the entries of a state."""
        return self.num_directions * self.num_layers

    @property
    def state_size(self) -> list[int]:
        """The features of h and, for an LSTM, c."""
        sizes = [self.num_proj or self.num_units]
        return sizes + [self.num_units] if self.rnn_mode == "lstm" else sizes

    def states(self, batch: Any) -> list[tuple[Any, ...]]:
        """Of h and, for an LSTM, c."""
        k = self.num_states
        return [(k, batch, n) if self.time_major else (batch, k, n) for n in self.state_size]

    def output(self, input_shape: Shape) -> Shape:
        """Of the sequences, or of the last step."""
        features = self.num_directions * self.state_size[0]
        if self.return_sequences:
            return (*input_shape[:2], features)
        return (input_shape[self.batch_axis], features)

    def returned(self, input_shape: Shape) -> Shape | tuple[Shape, ...]:
        """Of what a call returns: a shape, or a tuple of them if return_state."""
        output = self.output(input_shape)
        if not self.return_state:
            return output
        return (output, *self.states(input_shape[self.batch_axis]))


def check_real(inputs: Any, layer_name: str) -> None:
    """Raises ValueError for complex inputs, of which a cast would drop the imaginary part."""
    if tf.as_dtype(inputs.dtype).is_complex:
        raise ValueError(
            f"The input of layer {layer_name!r} must be of real numbers; got "
            f"{tf.as_dtype(inputs.dtype).name}. Pass the real and imaginary parts side by side."
        )


def swap(tensor: tf.Tensor) -> tf.Tensor:
    """Exchanges the first two axes."""
    return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.rank)])


def full_lengths(sequences: tf.Tensor, batch_axis: int) -> tf.Tensor:
    """The lengths, int32 [B], of rows that have all steps: [B, T, I], or [T, B, I] with axis 1.

    What is known of the shape is not asked of the tensor, for in eager mode each op is a call.
    """
    shape: Any = sequences.shape[:2].as_list()
    if None in shape:
        shape = tf.shape(sequences)
    return tf.fill([shape[batch_axis]], shape[1 - batch_axis])
