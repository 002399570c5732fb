"""tf_cudnn_rnn.keras where Keras is not what it needs: one ImportError."""

import keras
import pytest

from tests.python import subprocesses
from tf_cudnn_rnn.keras._environment import require_keras

IMPORT = """
import {first}
try:
    import tf_cudnn_rnn.keras
except ImportError as error:
    print(error)
"""


# Keras imports numpy's backend; jax, which is not installed, fails within Keras.
@pytest.mark.parametrize("backend", ["numpy", "jax"])
@pytest.mark.parametrize("first", ["sys", "tf_cudnn_rnn"])
def test_another_backend(backend, first):
    message = subprocesses.run_code(
        IMPORT.format(first=first), environment={"KERAS_BACKEND": backend}
    )
    assert message.startswith("tf_cudnn_rnn.keras needs Keras 3 with the TensorFlow backend")
    assert backend in message
    assert "Set KERAS_BACKEND=tensorflow before Keras is first imported." in message


def test_keras_2(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "2.15.0")
    with pytest.raises(ImportError, match="Keras 2.15.0 is installed. Run `pip install -U keras`"):
        require_keras()
