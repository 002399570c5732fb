"""tf.config.experimental.enable_op_determinism() asks for a seed wherever dropout draws."""

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import running, subprocesses
from tests.reference import judge

_REFUSAL = "dropout must have a seed when op determinism is enabled"
_BUILT_IN_OPS = (running.V3, running.V2, running.V1)


def _y(op: str, layers: int = 2, dropout: float = 0.5, graph: bool = False, **options):
    config = judge.Config("lstm", layers, 3, 3, dropout=dropout)
    case = running.random_case(1, config, T=5, B=4, dtype=np.float32)
    return running.forward(op, case, graph=graph, **options)["y"]


def with_determinism() -> None:
    before = {op: _y(op) for op in _BUILT_IN_OPS}  # whose kernels TensorFlow keeps
    tf.config.experimental.enable_op_determinism()
    for op in _BUILT_IN_OPS:
        for graph in (False, True):
            with pytest.raises(tf.errors.InvalidArgumentError, match=_REFUSAL):
                _y(op, graph=graph)
        # What draws nothing needs no seed.
        _y(op, is_training=False)
        _y(op, dropout=0.0)
        _y(op, layers=1)
        seeded = _y(op, seed=1)
        assert not np.array_equal(seeded, before[op])
        # A kernel's first call draws as the own op does.
        assert np.array_equal(_y(op, seed2=7), _y(running.OWN_V3, seed2=7))
    # Seeds of own ops are inputs, and 0 is one like any other.
    assert np.array_equal(_y(running.OWN_V3), _y(running.OWN_V3))
    layer = tf_cudnn_rnn.keras.CudnnLSTM(3, num_layers=2, dropout=0.5)
    with pytest.raises(RuntimeError, match="must have a `seed` for its dropout"):
        layer(tf.zeros([2, 3, 4]), training=True)


def trained_bits() -> None:
    """Prints what a model is after some steps."""
    import keras

    keras.utils.set_random_seed(7)
    tf.config.experimental.enable_op_determinism()
    model = keras.Sequential(
        [
            keras.Input((5, 4)),
            tf_cudnn_rnn.keras.CudnnLSTM(
                8, num_layers=2, dropout=0.5, seed=3, return_sequences=True
            ),
            tf_cudnn_rnn.keras.GRU(8),
            keras.layers.Dense(1),
        ]
    )
    model.compile("adam", "mse")
    x = np.random.default_rng(1).normal(size=(32, 5, 4)).astype(np.float32)
    model.fit(x, x[:, 0, :1], epochs=2, batch_size=8, verbose=0)
    print(b"".join(weight.numpy().tobytes() for weight in model.weights).hex())


def test_built_in_dropout_needs_a_seed():
    subprocesses.run(with_determinism)


def test_training_is_repeatable():
    # One is no fork, or both would have the addresses and the hash seeds of the same parent.
    apart = subprocesses.run_code(subprocesses.code_of(trained_bits))
    assert subprocesses.run(trained_bits) == apart
