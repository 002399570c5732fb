"""Drop-in replacements for keras.layers.LSTM, GRU, SimpleRNN and Bidirectional."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import keras

from tf_cudnn_rnn._types import Activation, Constraint, Initializer, Regularizer, UseFused
from tf_cudnn_rnn.keras import _both_directions
from tf_cudnn_rnn.keras._drop_in import DropIn


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class LSTM(DropIn, keras.layers.LSTM):
    """keras.layers.LSTM, run by one fused op on the CPU.

    Put it where keras.layers.LSTM is. All arguments are Keras', and so are variables, config,
    files and results.

    >>> layer = tf_cudnn_rnn.keras.LSTM(32, return_sequences=True)
    >>> layer(tf.zeros([8, 20, 16])).shape, layer.runs_fused
    (TensorShape([8, 20, 32]), True)

    The op lacks some options: an activation other than tanh, a recurrent_activation other than
    sigmoid, unroll, and recurrent_dropout in training. A layer with one of these runs in Keras'
    loop, as slowly as Keras' layer, and warns once of each reason. Its `fallback_reason` says why.
    Where TensorFlow has a GPU of NVIDIA, "auto" leaves to Keras what it runs by cuDNN there.

    Args:
      use_fused: "auto", True (raise where it would fall back) or False (always use Keras'
        loop). Like `use_cudnn`, of which it is another name, it is not saved.
    """

    if TYPE_CHECKING:  # what Keras takes

        def __init__(
            self,
            units: int,
            activation: Activation = "tanh",
            recurrent_activation: Activation = "sigmoid",
            use_bias: bool = True,
            kernel_initializer: Initializer = "glorot_uniform",
            recurrent_initializer: Initializer = "orthogonal",
            bias_initializer: Initializer = "zeros",
            unit_forget_bias: bool = True,
            kernel_regularizer: Regularizer | None = None,
            recurrent_regularizer: Regularizer | None = None,
            bias_regularizer: Regularizer | None = None,
            activity_regularizer: Regularizer | None = None,
            kernel_constraint: Constraint | None = None,
            recurrent_constraint: Constraint | None = None,
            bias_constraint: Constraint | None = None,
            dropout: float = 0.0,
            recurrent_dropout: float = 0.0,
            seed: int | None = None,
            return_sequences: bool = False,
            return_state: bool = False,
            go_backwards: bool = False,
            stateful: bool = False,
            unroll: bool = False,
            use_cudnn: UseFused = "auto",
            *,
            use_fused: UseFused = "auto",
            **kwargs: Any,
        ) -> None: ...


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class GRU(DropIn, keras.layers.GRU):
    """keras.layers.GRU, run by one fused op on the CPU; see LSTM.

    It falls back to Keras' loop for reset_after=False, too.
    """

    if TYPE_CHECKING:  # what Keras takes

        def __init__(
            self,
            units: int,
            activation: Activation = "tanh",
            recurrent_activation: Activation = "sigmoid",
            use_bias: bool = True,
            kernel_initializer: Initializer = "glorot_uniform",
            recurrent_initializer: Initializer = "orthogonal",
            bias_initializer: Initializer = "zeros",
            kernel_regularizer: Regularizer | None = None,
            recurrent_regularizer: Regularizer | None = None,
            bias_regularizer: Regularizer | None = None,
            activity_regularizer: Regularizer | None = None,
            kernel_constraint: Constraint | None = None,
            recurrent_constraint: Constraint | None = None,
            bias_constraint: Constraint | None = None,
            dropout: float = 0.0,
            recurrent_dropout: float = 0.0,
            seed: int | None = None,
            return_sequences: bool = False,
            return_state: bool = False,
            go_backwards: bool = False,
            stateful: bool = False,
            unroll: bool = False,
            reset_after: bool = True,
            use_cudnn: UseFused = "auto",
            *,
            use_fused: UseFused = "auto",
            **kwargs: Any,
        ) -> None: ...


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class SimpleRNN(DropIn, keras.layers.SimpleRNN):
    """keras.layers.SimpleRNN, run by one fused op on the CPU; see LSTM.

    It falls back to Keras' loop for an activation other than tanh and relu.
    """

    if TYPE_CHECKING:  # what Keras takes

        def __init__(
            self,
            units: int,
            activation: Activation = "tanh",
            use_bias: bool = True,
            kernel_initializer: Initializer = "glorot_uniform",
            recurrent_initializer: Initializer = "orthogonal",
            bias_initializer: Initializer = "zeros",
            kernel_regularizer: Regularizer | None = None,
            recurrent_regularizer: Regularizer | None = None,
            bias_regularizer: Regularizer | None = None,
            activity_regularizer: Regularizer | None = None,
            kernel_constraint: Constraint | None = None,
            recurrent_constraint: Constraint | None = None,
            bias_constraint: Constraint | None = None,
            dropout: float = 0.0,
            recurrent_dropout: float = 0.0,
            return_sequences: bool = False,
            return_state: bool = False,
            go_backwards: bool = False,
            stateful: bool = False,
            unroll: bool = False,
            seed: int | None = None,
            *,
            use_fused: UseFused = "auto",
            **kwargs: Any,
        ) -> None: ...


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class Bidirectional(keras.layers.Bidirectional):
    """keras.layers.Bidirectional, whose two layers run as one op.

    All arguments are Keras', and so are variables, config, files and results.

    >>> layer = tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.LSTM(32))
    >>> layer(tf.zeros([8, 20, 16])).shape, layer.runs_as_one
    (TensorShape([8, 64]), True)

    Where one op cannot do it, the two layers are called one after the other, as Keras does: if
    they are no drop-ins or differ, have an activity_regularizer or fall back to Keras' loop, with
    dropout in training, and in graphs of built-in ops. So they are in graphs that train, where
    TensorFlow runs both at once.

    Attributes:
      runs_as_one: whether the last call ran as one op; None before the first.
    """

    runs_as_one: bool | None = None

    def call(
        self,
        sequences: Any,
        initial_state: Any = None,
        mask: Any = None,
        training: bool | None = None,
    ) -> Any:
        """Overrides Keras' two calls."""
        return _both_directions.call(self, sequences, initial_state, mask, training)
