"""Checks, before anything else here imports Keras, that it is the right one."""

import os

# What accelerate() and its files have been tested with: tests/keras/{accelerate,files}_test.py, on
# TensorFlow 2.19. Layers of another version probably work, as they override one method only;
# accelerate() replaces that method in Keras itself and is stricter.
TESTED_KERAS = tuple(f"3.{minor}" for minor in range(5, 16))


def require_keras() -> None:
    """Imports Keras.

    Raises:
      ImportError: it is not there, is Keras 2, or computes with another backend.
    """
    wanted = "tf_cudnn_rnn.keras needs Keras 3 with the TensorFlow backend"
    way_out = "Set KERAS_BACKEND=tensorflow before Keras is first imported."
    try:
        import keras
    except ImportError as error:  # of Keras, or of its backend
        backend = os.environ.get("KERAS_BACKEND")
        found = f"; KERAS_BACKEND is {backend!r}" if backend else ""
        raise ImportError(f"{wanted}{found}. {way_out} Importing it failed: {error}") from error
    version = keras.__version__
    if int(version.split(".")[0]) < 3:
        raise ImportError(
            f"{wanted}, but Keras {version} is installed. Run `pip install -U keras`."
        )
    if keras.backend.backend() != "tensorflow":
        raise ImportError(f"{wanted}, but the backend is {keras.backend.backend()!r}. {way_out}")
    if not hasattr(keras.layers.RNN, "inner_loop"):  # drop-ins would run in Keras' loop unnoticed
        raise ImportError(
            f"tf_cudnn_rnn.keras overrides RNN.inner_loop, which Keras {version} has not. Install "
            f"Keras {TESTED_KERAS[0]} to {TESTED_KERAS[-1]}."
        )
