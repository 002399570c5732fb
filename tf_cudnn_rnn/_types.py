"""The types of what users pass and get, for annotations. Needs no TensorFlow."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

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

# What is a tensor, or what tf.convert_to_tensor makes one of, no type checker is told.
TensorLike: TypeAlias = Any


class _HasName(Protocol):
    @property
    def name(self) -> Any: ...


DType: TypeAlias = str | type[Any] | _HasName  # tf.DType, np.dtype, or a policy of Keras
# What Keras makes of a name, of a config, or what does it itself.
_Named: TypeAlias = str | Mapping[str, Any] | Callable[..., Any]
Activation: TypeAlias = _Named | None
Constraint: TypeAlias = _Named
Initializer: TypeAlias = _Named | NDArray[Any]
Regularizer: TypeAlias = _Named

# Sizes of axes; None for what is not known yet.
Shape: TypeAlias = tuple[int | None, ...]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
# Values by name: a mapping, or pairs in any order.
Named: TypeAlias = Mapping[_Key, _Value] | Iterable[tuple[_Key, _Value]]
