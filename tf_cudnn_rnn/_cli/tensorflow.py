"""TensorFlow, and the library in it, for the commands that need them."""

import os
import re
import types

from tf_cudnn_rnn import _library

_LONGEST = 1000  # characters of a message


def quiet() -> None:
    """Keeps TensorFlow from writing what is no error to stderr; works before its first import."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")


def reason(error: Exception) -> str:
    """What an error of TensorFlow or Keras says, in one line and without names of nodes."""
    text = getattr(error, "message", None) or str(error)
    text = re.sub(r"\[\[\{\{[^{}]*\}\}\]\]|\{\{[^{}]*\}\}|\[Op:[^\]]*\]", "", text)
    return " ".join(text.split())[:_LONGEST] or type(error).__name__


def load() -> types.ModuleType:
    """Returns TensorFlow, with this library's ops and gradients, as `import tf_cudnn_rnn` has it.

    Raises:
      ImportError: there is no TensorFlow, no library, or the one was not built for the other.
    """
    quiet()
    _library.load()
    import tensorflow as tf

    from tf_cudnn_rnn import _gradients  # noqa: F401 registers them

    return tf
