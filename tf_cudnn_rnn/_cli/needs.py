"""What calls need besides NumPy, and whether that is here. TensorFlow is not imported for it."""

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterable

from tf_cudnn_rnn import _library

TENSORFLOW = "tensorflow"
KERAS = "keras"
KERAS_2 = "tf_keras"
RUNTIME = "tf_cudnn_rnn.runtime"
LAYERS = (TENSORFLOW, KERAS)  # of tf_cudnn_rnn.keras


def lacking(packages: Iterable[str]) -> str:
    """Why what needs these packages cannot run here, in sentences; "" if nothing is known."""
    return next(filter(None, (_CHECKS[package]() for package in packages)), "")


def _is_there(module: str) -> bool:
    with contextlib.suppress(ImportError, ValueError):
        return importlib.util.find_spec(module) is not None
    return False


def _keras() -> str:
    """As keras/_environment.py says it, which imports Keras."""
    wanted = "tf_cudnn_rnn.keras needs Keras 3 with the TensorFlow backend"
    if not _is_there(KERAS):
        return f"{wanted}; Keras is not installed: run `pip install keras`."
    version = _library.installed_version(KERAS)
    if version and version.startswith(("1.", "2.")):
        return f"{wanted}, but Keras {version} is installed. Run `pip install -U keras`."
    backend = keras_backend()
    if backend != "tensorflow":
        return f"{wanted}, but the backend is {backend!r}. Set KERAS_BACKEND=tensorflow."
    return ""


def keras_backend() -> str:
    """The backend with which Keras would be imported."""
    return os.environ.get("KERAS_BACKEND") or _backend_in_file()


def _backend_in_file() -> str:
    """What Keras' own file says, which counts where no variable does."""
    home = os.path.expanduser("~")
    folder = os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
    path = os.path.join(os.environ.get("KERAS_HOME", folder), "keras.json")
    with contextlib.suppress(OSError, ValueError), open(os.path.expanduser(path)) as file:
        config = json.load(file)
        if isinstance(config, dict) and isinstance(config.get("backend"), str):
            return config["backend"]
    return "tensorflow"


def _keras_2() -> str:
    if _is_there(KERAS_2):
        return ""
    return "It needs Keras 2, which is not installed: run `pip install tf_keras`."


def _runtime() -> str:
    try:
        from tf_cudnn_rnn import runtime  # noqa: F401
    except ImportError as error:
        return str(error)
    return ""


_CHECKS = {
    TENSORFLOW: _library.obstacle,
    KERAS: _keras,
    KERAS_2: _keras_2,
    RUNTIME: _runtime,
}
