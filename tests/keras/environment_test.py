"""tf_cudnn_rnn.keras where Keras is not what it needs: one ImportError."""

import keras
import pytest

from tests.helpers import subprocesses
from tf_cudnn_rnn.keras._environment import require_keras

# A process that has imported TensorFlow and Keras forgets Keras, and imports it for another
# backend, beginning with the part that TensorFlow begins with.
IMPORT = """
import contextlib, importlib, os, sys
os.environ["KERAS_BACKEND"] = {backend!r}
for name in [name for name in sys.modules if name.partition(".")[0] == "keras"]:
    del sys.modules[name]
with contextlib.suppress(ImportError):
    importlib.import_module("keras.src.optimizers")
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
    code = IMPORT.format(backend=backend, first=first)
    message = subprocesses.run_code(code, prepared=True)
    assert message.startswith("tf_cudnn_rnn.keras needs Keras 3 with the TensorFlow backend")
    assert backend in message
    assert "Set KERAS_BACKEND=tensorflow before Keras is first imported." in message


def test_a_keras_whose_loop_has_another_name(monkeypatch):
    monkeypatch.delattr(keras.layers.RNN, "inner_loop")
    with pytest.raises(ImportError, match=r"RNN.inner_loop, which Keras 3[.0-9]* has not. Install"):
        require_keras()


def test_keras_tries_no_op_of_its_own_for_both_directions():
    """Where Keras has one for a Bidirectional, it calls its halves no more, and so not ours."""
    backend = keras.src.backend
    for name in ("bidirectional_lstm", "bidirectional_gru"):
        if hasattr(backend, name):
            with pytest.raises(NotImplementedError):
                getattr(backend, name)()


def test_keras_2(monkeypatch):
    monkeypatch.setattr(keras, "__version__", "2.15.0")
    with pytest.raises(ImportError, match="Keras 2.15.0 is installed. Run `pip install -U keras`"):
        require_keras()
