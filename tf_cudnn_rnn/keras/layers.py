"""Drop-in replacements for keras.layers.LSTM, GRU and SimpleRNN."""

import keras

from tf_cudnn_rnn.keras._drop_in import DropIn


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class LSTM(DropIn, keras.layers.LSTM):
    """keras.layers.LSTM, run by one fused op on the CPU.

    All arguments are Keras', and so are variables, config, files and results. It falls back
    to Keras' loop for an activation other than tanh, a recurrent_activation other than
    sigmoid, unroll, and recurrent_dropout in training.

    Args:
      use_fused: "auto", True (raise where it would fall back) or False (always use Keras'
        loop). Like `use_cudnn`, of which it is another name, it is not saved.
    """


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class GRU(DropIn, keras.layers.GRU):
    """keras.layers.GRU, run by one fused op on the CPU; see LSTM.

    It falls back to Keras' loop for reset_after=False, too.
    """


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class SimpleRNN(DropIn, keras.layers.SimpleRNN):
    """keras.layers.SimpleRNN, run by one fused op on the CPU; see LSTM.

    It falls back to Keras' loop for an activation other than tanh and relu.
    """
