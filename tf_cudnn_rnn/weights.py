"""The weights of a network as NumPy arrays, here and in other libraries. Needs no TensorFlow.

The ops keep all weights of a network in one vector, `params`: cuDNN's weight space
with two biases per gate. `params_to_canonical` takes it apart into named matrices and
vectors, and `canonical_to_params` puts it together again.

Every other format is read into a Canonical, and written from one:

  from_cudnn          to_cudnn          the ops' `params`
  from_keras          to_keras          LSTM, GRU, SimpleRNN, Bidirectional
  from_keras_cudnn    to_keras_cudnn    CuDNNLSTM and CuDNNGRU of Keras 2; see read_keras_h5
  from_torch          to_torch          state_dict of nn.LSTM, nn.GRU, nn.RNN; safetensors, npz
  from_onnx           to_onnx           nodes LSTM, GRU, RNN
  from_mxnet          to_mxnet          the fused operator RNN
  from_cntk           to_cntk           OptimizedRNNStack
  from_tf1_cudnn      to_tf1_cudnn      checkpoints of tf.contrib.cudnn_rnn
  from_tf1_lstm_cell  to_tf1_lstm_cell  BasicLSTMCell, LSTMCell, LSTMBlockCell
  checkpoint_to_canonical               tf.train.Checkpoint of tf_cudnn_rnn.keras.CudnnRNN

`read_keras_h5`, `read_npz` and `read_safetensors` read files, whoever wrote them.

A `to_*` returns the arrays and notes on what they could not keep. `convert_slots` takes an
optimiser's moments along. docs/guide/weights.md has the order of gates and biases of each.
"""

from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats.canonical import (
    Canonical,
    Exported,
    checked,
    convert_slots,
    join,
    split,
)
from tf_cudnn_rnn._formats.checkpoint import checkpoint_to_canonical
from tf_cudnn_rnn._formats.keras import (
    KerasLayer,
    from_keras,
    from_keras_cudnn,
    read_keras_h5,
    to_keras,
    to_keras_cudnn,
)
from tf_cudnn_rnn._formats.npz import read_npz
from tf_cudnn_rnn._formats.onnx import OnnxNode, from_onnx, to_onnx
from tf_cudnn_rnn._formats.safetensors import read_safetensors, write_safetensors
from tf_cudnn_rnn._formats.tf1 import (
    from_tf1_cudnn,
    from_tf1_lstm_cell,
    to_tf1_cudnn,
    to_tf1_lstm_cell,
)
from tf_cudnn_rnn._formats.torch import from_torch, to_torch
from tf_cudnn_rnn._formats.vectors import (
    from_cntk,
    from_cudnn,
    from_mxnet,
    to_cntk,
    to_cudnn,
    to_mxnet,
)
from tf_cudnn_rnn._layout import Layout, ParamName
from tf_cudnn_rnn._types import Array, Direction, InputMode, Named, RnnMode

__all__ = [
    "Canonical",
    "Exported",
    "KerasLayer",
    "Layout",
    "OnnxNode",
    "ParamName",
    "canonical_to_params",
    "checkpoint_to_canonical",
    "convert_slots",
    "from_cntk",
    "from_cudnn",
    "from_keras",
    "from_keras_cudnn",
    "from_mxnet",
    "from_onnx",
    "from_tf1_cudnn",
    "from_tf1_lstm_cell",
    "from_torch",
    "params_size",
    "params_to_canonical",
    "read_keras_h5",
    "read_npz",
    "read_safetensors",
    "to_cntk",
    "to_cudnn",
    "to_keras",
    "to_keras_cudnn",
    "to_mxnet",
    "to_onnx",
    "to_tf1_cudnn",
    "to_tf1_lstm_cell",
    "to_torch",
    "write_safetensors",
]


def params_size(
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    input_mode: InputMode = "linear_input",
    num_proj: int = 0,
) -> int:
    """Returns N, the number of elements of `params`.

    Args:
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      num_layers: L, the number of stacked layers.
      num_units: H, the hidden size (of an LSTM's cell, when it projects).
      input_size: I, the features of the network's input.
      direction: "unidirectional" or "bidirectional".
      input_mode: "linear_input"; "skip_input", by which layer 0 adds its input to
        every gate, without a kernel (needs I == H); or "auto_select", which skips
        if I == H.
      num_proj: P, the size to which an LSTM projects h; 0 (or H) for none.

    Raises:
      ValueError: an option is out of range, or two contradict each other.
    """
    return Layout(rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj).size


def params_to_canonical(
    params: ArrayLike,
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    input_mode: InputMode = "linear_input",
    num_proj: int = 0,
) -> list[tuple[ParamName, Array]]:
    """Takes `params` apart: returns (name, copy of the values) pairs.

    They come in the order of `params`: all matrices, then all biases, each by layer,
    direction and gate. See ParamName for the shapes. With skip input the input
    kernels of layer 0 are there too, as [H, 0].

    Args:
      params: [N].
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: as
        in `params_size`.

    Raises:
      ValueError: `params` has another shape, or an option is out of range.
    """
    layout = Layout(rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj)
    return split(params, layout)


def canonical_to_params(
    named: Named[ParamName, ArrayLike],
    rnn_mode: RnnMode,
    num_layers: int,
    num_units: int,
    input_size: int,
    *,
    direction: Direction = "unidirectional",
    input_mode: InputMode = "linear_input",
    num_proj: int = 0,
) -> Array:
    """The inverse of `params_to_canonical`: returns `params` [N].

    Args:
      named: (ParamName, array) pairs in any order, or a mapping from the one to the
        other. All arrays have one dtype, which `params` gets.
      rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj: as
        in `params_size`.

    Raises:
      ValueError: names are missing, given twice or not of this network; an array has
        the wrong shape; dtypes differ; an option is out of range.
    """
    layout = Layout(rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj)
    return join(checked(named, layout))
