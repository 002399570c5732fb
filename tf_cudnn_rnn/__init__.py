"""CPU kernels for TensorFlow's CudnnRNN ops: fused LSTM, GRU and simple RNN.

Importing this package is enough for `tf.raw_ops.CudnnRNNV3` and its family, and for
graphs and SavedModels that hold such ops, to run on the CPU, gradients included.

  raw_ops              this library's own, stateless ops; used like tf.raw_ops
  params_size          the number of weights of a network
  params_to_canonical  takes the weight vector apart: named matrices (tensors)
  canonical_to_params  puts it together again
  weights              the same for NumPy arrays, without TensorFlow
  runtime              networks on NumPy arrays, without TensorFlow: `import tf_cudnn_rnn.runtime`
  keras                Keras layers; imports Keras when it is first used
  library_path         where the shared library is, for programs in C, C++, Go or Java
  instruction_set      what the kernels use of the CPU: "avx512", "avx2", ...
  release_scratch      gives back the memory that is kept for the next calls
"""

import importlib
import sys
from typing import TYPE_CHECKING

from tf_cudnn_rnn import _program

_program.begin()  # before what takes time

from tf_cudnn_rnn import _library, weights  # noqa: E402
from tf_cudnn_rnn._library import instruction_set, library_path, release_scratch  # noqa: E402
from tf_cudnn_rnn.weights import ParamName, params_size  # noqa: E402

__version__ = "0.2.0.dev0"

__all__ = [
    "ParamName",
    "canonical_to_params",
    "instruction_set",
    "library_path",
    "params_size",
    "params_to_canonical",
    "raw_ops",
    "release_scratch",
    "weights",
]

_is_for_runtime = _program.is_imported_for("tf_cudnn_rnn.runtime")
# The runtime does without TensorFlow; where that is there already, its graphs find their kernels.
if not _program.is_command_line() and (not _is_for_runtime or "tensorflow" in sys.modules):
    try:
        if _library.has_tensorflow():
            from tf_cudnn_rnn import _gradients, raw_ops  # noqa: F401
            from tf_cudnn_rnn.params import canonical_to_params, params_to_canonical
    except Exception:  # TensorFlow's own, too, where it is broken
        # These modules do not need it. What does raises the same again when it is used.
        if not _is_for_runtime and not _program.is_imported_for("tf_cudnn_rnn.weights"):
            raise


def __dir__() -> list[str]:
    return [*__all__, "__version__", "keras", "runtime"]


if TYPE_CHECKING:
    from tf_cudnn_rnn import keras, runtime  # noqa: F401

else:  # or type checkers would believe in any name

    def __getattr__(name):
        if name == "runtime":
            return importlib.import_module("tf_cudnn_rnn.runtime")
        if name in __all__ or name == "keras":  # whose name a star import should leave alone
            if not _library.has_tensorflow():
                raise _library.needs_tensorflow(f"tf_cudnn_rnn.{name}")
            if name in ("canonical_to_params", "params_to_canonical"):
                return getattr(importlib.import_module("tf_cudnn_rnn.params"), name)
            if name == "raw_ops":  # after an import for the runtime: with their gradients
                importlib.import_module("tf_cudnn_rnn._gradients")
            return importlib.import_module(f"tf_cudnn_rnn.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
