"""CuDNNLSTM and CuDNNGRU of Keras 2 work on the CPU, wherever Keras 2 may be found."""

import pytest

from tests.helpers import subprocesses

# Each in a process of its own, where TF_USE_LEGACY_KERAS can be set before TensorFlow is imported.
RUN = """
import sys, pytest
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/legacy/cudnn_layers.py", "-k", {}]))
"""


@pytest.mark.parametrize(
    ("environment", "which"),
    # The layers are the same ones in both; what may differ is how models and files find them. The
    # training of a graph is below.
    [({}, "test"), ({"TF_USE_LEGACY_KERAS": "1"}, "environment or models and gru or golden")],
    ids=["beside Keras 3", "as tf.keras"],
)
def test_layers(environment, which):
    subprocesses.run_code(RUN.format(repr(which)), environment=environment, prepared=True)


# Programs of TensorFlow 1 build a graph first, and have their own training loop in Keras.
VERSION_1 = """
import warnings
warnings.simplefilter("ignore")  # it is all deprecated

import numpy as np
import tensorflow.compat.v1 as tf
import tf_cudnn_rnn
import tf_keras

tf.disable_v2_behavior()
layers = tf.keras.layers
model = tf.keras.Sequential([
    layers.CuDNNLSTM(4, return_sequences=True, input_shape=[5, 3]),
    layers.Bidirectional(layers.CuDNNGRU(4)),
    layers.Dense(1),
])
x = np.random.default_rng(0).normal(size=[8, 5, 3]).astype(np.float32)
y = x.sum(axis=(1, 2))[:, None]
model.compile("adam", "mse")
losses = model.fit(x, y, epochs=4, verbose=0).history["loss"]
assert losses[-1] < losses[0], losses
graph = tf.keras.backend.get_session().graph
types = {operation.type for operation in graph.get_operations()}
assert types & {"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}, types

if tf_keras.__version__.startswith("2.16."):
    raise SystemExit  # it cannot read what 2.21 writes
golden = np.load("tests/golden/tf_keras/lstm.npz")
model = tf.keras.models.load_model("tests/golden/tf_keras/lstm.h5")
np.testing.assert_allclose(model.predict(golden["x"]), golden["out_y"], rtol=0, atol=2e-6)
"""


def test_graphs_and_sessions():
    subprocesses.run_code(VERSION_1, environment={"TF_USE_LEGACY_KERAS": "1"})


def test_keras_2_needs_the_library_for_this():
    """Or the tests here would say nothing about it."""
    code = """
import tensorflow as tf
from tf_keras.src.layers import CuDNNGRU
try:
    CuDNNGRU(2)(tf.zeros([1, 2, 3]))
except Exception as error:
    print(type(error).__name__, error)
"""
    message = subprocesses.run_code(code, prepared=True)
    assert "Could not find device for node: {{node CudnnRNN" in message
