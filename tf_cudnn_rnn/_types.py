"""The types of what users pass and get, for annotations. Needs no TensorFlow."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from numpy.typing import NDArray

RnnMode: TypeAlias = Literal["rnn_relu", "rnn_tanh", "lstm", "gru"]
Direction: TypeAlias = Literal["unidirectional", "bidirectional"]
InputMode: TypeAlias = Literal["linear_input", "skip_input", "auto_select"]
UseFused: TypeAlias = Literal["auto"] | bool
Contents: TypeAlias = Literal["own", "builtin", "stock"]  # of graphs
Of: TypeAlias = Literal["weights", "gradients"]
# Of files that `weights.load` reads.
FileFormat: TypeAlias = Literal[
    "params",
    "canonical",
    "runtime",
    "torch",
    "keras",
    "keras-cudnn",
    "onnx",
    "mxnet",
    "cntk",
    "tf1-cudnn",
    "tf1-lstm-cell",
    "checkpoint",
]

Array: TypeAlias = NDArray[Any]

# TensorFlow and Keras tell type checkers nothing. So these are names for readers alone.
TensorLike: TypeAlias = Any  # what tf.convert_to_tensor takes
DType: TypeAlias = Any  # what tf.as_dtype takes
Activation: TypeAlias = Any  # what keras.activations.get takes, and so on
Constraint: TypeAlias = Any
Initializer: TypeAlias = Any
Regularizer: TypeAlias = Any

# Sizes of axes; None for what is not known yet.
Shape: TypeAlias = tuple[int | None, ...]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
# Values by name: a mapping, or pairs in any order.
Named: TypeAlias = Mapping[_Key, _Value] | Iterable[tuple[_Key, _Value]]
