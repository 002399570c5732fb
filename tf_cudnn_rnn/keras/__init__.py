"""Keras layers that run as one fused op on the CPU.

LSTM, GRU, SimpleRNN, Bidirectional   drop-in replacements for those of keras.layers
CudnnRNN              several layers and directions, projection, skip input, as one op
CudnnLSTM, CudnnGRU, CudnnRNNTanh, CudnnRNNRelu   the same, by mode
accelerate            makes those of keras.layers themselves run fused
to_fused              the same model of drop-ins, of one that is in memory
load_model            the same, of a .keras file
to_keras              the same model of stock layers, for everybody else
export, export_as     what a SavedModel holds: own ops, built-in ops, or Keras' loop
export_onnx           an ONNX file with nodes LSTM, GRU and RNN
export_runtime        a file of recurrent layers for tf_cudnn_rnn.runtime, which needs no TensorFlow
"""

from tf_cudnn_rnn import _library
from tf_cudnn_rnn.keras._environment import require_keras

_library.load()
require_keras()

from tf_cudnn_rnn.keras._accelerate import accelerate  # noqa: E402
from tf_cudnn_rnn.keras._models import export, export_as, load_model, to_fused, to_keras  # noqa: E402
from tf_cudnn_rnn.keras._onnx_files import export_onnx  # noqa: E402
from tf_cudnn_rnn.keras._runtime_files import export_runtime  # noqa: E402
from tf_cudnn_rnn.keras.cudnn_rnn import (  # noqa: E402
    CudnnGRU,
    CudnnLSTM,
    CudnnRNN,
    CudnnRNNRelu,
    CudnnRNNTanh,
)
from tf_cudnn_rnn.keras.layers import GRU, LSTM, Bidirectional, SimpleRNN  # noqa: E402

__all__ = [
    "Bidirectional",
    "CudnnGRU",
    "CudnnLSTM",
    "CudnnRNN",
    "CudnnRNNRelu",
    "CudnnRNNTanh",
    "GRU",
    "LSTM",
    "SimpleRNN",
    "accelerate",
    "export",
    "export_as",
    "export_onnx",
    "export_runtime",
    "load_model",
    "to_fused",
    "to_keras",
]


def __dir__() -> list[str]:
    return __all__
