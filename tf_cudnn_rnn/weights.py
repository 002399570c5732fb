"""The weights of a network as NumPy arrays, here and in other libraries. Needs no TensorFlow.

The ops keep all weights of a network in one vector, `params`: cuDNN's weight space
with two biases per gate. `params_to_canonical` takes it apart into named matrices and
vectors, and `canonical_to_params` puts it together again.

`load` reads a file of any kind into a Canonical. Of arrays, every format is read into one, and
written from one:

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

`quantize` rounds the matrices of a network to int8, for tf_cudnn_rnn.runtime.

A `to_*` returns the arrays and notes on what they could not keep. `convert_slots` takes an
optimiser's moments along. docs/guide/weights.md has the order of gates and biases of each.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

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
from tf_cudnn_rnn._formats.int8 import Int8Weights, quantize
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
from tf_cudnn_rnn._types import Array, Direction, FileFormat, InputMode, Named, RnnMode

__all__ = [
    "Canonical",
    "Exported",
    "Int8Weights",
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
    "load",
    "params_size",
    "params_to_canonical",
    "quantize",
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


def __dir__() -> list[str]:
    return __all__


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
    return Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode=input_mode,
        num_proj=num_proj,
    ).size


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
    layout = Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode=input_mode,
        num_proj=num_proj,
    )
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
    layout = Layout(
        rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode=input_mode,
        num_proj=num_proj,
    )
    return join(checked(named, layout))


def load(
    path: str | os.PathLike[str],
    *,
    format: FileFormat | None = None,
    rnn_mode: RnnMode | None = None,
    num_layers: int | None = None,
    num_units: int | None = None,
    input_size: int | None = None,
    direction: Direction | None = None,
    input_mode: InputMode | None = None,
    num_proj: int | None = None,
    layer: str | Sequence[str] | None = None,
    prefix: str | None = None,
    scope: str | None = None,
    forget_bias: float | None = None,
) -> Canonical:
    """Reads the network in a file, which may be of any kind.

    What is in the file tells its kind: `.keras`, `.h5`, `.weights.h5`, `.safetensors`, `.onnx`,
    `.npz`, the folder of a SavedModel, or a checkpoint of TensorFlow, by its path without an
    ending. It may come from anybody: nothing in it is run, and a pickle, such as torch.save
    writes, is read with format="torch" alone: by PyTorch, which takes the tensors and nothing
    else. Pass only what the file does not tell. `tf-cudnn-rnn inspect` shows what is in one.

    >>> canonical = weights.load("model.keras", layer="encoder")

    Args:
      path: of the file or folder.
      format: how the weights lie in it, where that may be several things. "tf1-cudnn" and
        "tf1-lstm-cell" of an `.npz` file, or of a checkpoint, are never told by the file, and
        neither is "torch" of a `.pt` file.
      rnn_mode: of a simple RNN, whose weights do not tell its activation; of a vector.
      num_layers, num_units, input_size: of a vector, which tells nothing: the `params` of the ops
        (unless a header is beside them), MXNet's `parameters` and CNTK's `matrix` in `.npz` files.
      direction: of a vector, or of layers of Keras 2.
      input_mode: of a vector of the ops.
      num_proj: of a vector of the ops or of MXNet.
      layer: the name of one of several layers, as `inspect` shows it; a list of names makes a
        stack of them, the first one at the bottom.
      prefix: what precedes the names of one of several networks of PyTorch, with its dot.
      scope: the variable scope of one of several networks of TensorFlow 1.
      forget_bias: what TensorFlow 1's cells add, 1.0 if None.

    Returns:
      The network and its weights. Its notes say what was assumed.

    Raises:
      ImportError: something that is needed to read it is not installed: h5py for HDF5, ml_dtypes
        for bfloat16, TensorFlow for checkpoints and SavedModels, PyTorch for `.pt` files.
      OSError: it cannot be opened.
      TypeError: a size is no integer.
      ValueError: it is of no kind that is known, or damaged; or it has several networks, or does
        not tell something that is to be passed; or an argument does not fit it, or would change
        nothing. The text names the file, and the arguments.
    """
    from tf_cudnn_rnn._files import readers  # which most programs do not need
    from tf_cudnn_rnn._files.choices import in_python
    from tf_cudnn_rnn._formats import hdf5

    choices = in_python(
        format=format,
        rnn_mode=rnn_mode,
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        direction=direction,
        input_mode=input_mode,
        num_proj=num_proj,
        layer=layer,
        prefix=prefix,
        scope=scope,
        forget_bias=forget_bias,
    )
    with hdf5.one_call():
        return readers.find(path, choices).read()
