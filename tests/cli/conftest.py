"""What the tests of the command line share: a way to call it, and files of all kinds."""

import json
import pathlib
import re
import warnings
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli.main import main
from tf_cudnn_rnn._formats import hdf5, onnx_file


class Result(NamedTuple):
    """What a call of the program gave."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out, parse_constant=lambda text: pytest.fail(f"{text} in JSON"))


# How `main` says what it did not expect.
INTERNAL = re.compile(r"tf-cudnn-rnn: \w+(Error|Exception|Exit|Interrupt): ")


@pytest.fixture
def run(capsys):
    """Calls the program. An exception that leaves it would be a traceback.

    An error that no check of ours has put into words is one as well, unless `of_others` says that
    it comes from others' code, as a model's layers may raise any.
    """

    def call(*arguments, of_others: bool = False) -> Result:
        capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        if err:
            assert err.startswith("tf-cudnn-rnn: ") and err.count("\n") == 1, err
        assert of_others or not INTERNAL.match(err), err
        return Result(code, out, err)

    return call


def canonical_of(rnn_mode="lstm", layers=1, units=4, inputs=3, **options) -> weights.Canonical:
    size = weights.params_size(rnn_mode, layers, units, inputs, **options)
    params = np.random.default_rng(3).normal(size=size).astype(np.float32)
    return weights.from_cudnn(params, rnn_mode, layers, units, inputs, **options)


class Network(tf.Module):
    """A graph with TensorFlow's op, as a GPU would have made it, and an own op."""

    def __init__(self):
        super().__init__()
        self.params = tf.Variable(canonical_of(layers=2, direction="bidirectional").params)

    @tf.function(input_signature=[tf.TensorSpec([None, 2, 3])])
    def __call__(self, x):
        zeros = tf.zeros([4, 2, 4])
        return tf.raw_ops.CudnnRNNV3(
            input=x,
            input_h=zeros,
            input_c=zeros,
            params=self.params,
            sequence_lengths=tf.fill([2], tf.shape(x)[0]),
            direction="bidirectional",
            is_training=False,
        ).output


@pytest.fixture(scope="session")
def files(tmp_path_factory) -> pathlib.Path:
    """A folder with one good file of each kind; none is to be changed."""
    folder = tmp_path_factory.mktemp("files")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras calls in NumPy
        write(folder)
    return folder


def write(folder: pathlib.Path) -> None:
    keras.utils.set_random_seed(4)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input([None], dtype="int32"),
            layers.Embedding(20, 3, mask_zero=True),
            layers.Bidirectional(layers.LSTM(4, return_sequences=True, name="inner"), name="both"),
            layers.GRU(5, return_sequences=True, name="gru"),
            layers.GRU(5, reset_after=False, return_sequences=True, name="other_gru"),
            layers.SimpleRNN(2, activation="relu", name="simple"),
        ]
    )
    model.save(folder / "model.keras")
    model.save_weights(folder / "model.weights.h5")

    stack = tf_cudnn_rnn.keras.CudnnLSTM(4, num_layers=2, num_proj=2, name="encoder")
    own = keras.Sequential([keras.Input([None, 3]), stack, layers.Dense(1)], name="own")
    own.save(folder / "own.keras")
    own.save_weights(folder / "own.weights.h5")
    tf.train.Checkpoint(model=own).write(str(folder / "checkpoint" / "own"))
    own.export(folder / "own_export", verbose=False)

    for name, kind in {"drop_ins": tf_cudnn_rnn.keras, "stock": layers}.items():
        model = keras.Sequential(
            [
                keras.Input([5, 3]),
                kind.Bidirectional(kind.LSTM(4, return_sequences=True), name="both"),
                kind.GRU(5, return_sequences=True, name="gru"),
                kind.SimpleRNN(2, activation="relu", use_bias=False, name="simple"),
            ],
            name="model",
        )
        model.compile("sgd", "mse")
        # The shortest way to the variables leads through the optimiser.
        checkpoint = tf.train.Checkpoint(model=model, optimizer=model.optimizer)
        checkpoint.write(str(folder / "checkpoint" / name))
        model.save_weights(folder / f"{name}.weights.h5")
        if name == "drop_ins":
            model.export(folder / "drop_ins", verbose=False)

    tf.saved_model.save(Network(), str(folder / "saved_model"))

    state = weights.to_torch(canonical_of("gru", 2, direction="bidirectional")).arrays
    weights.write_safetensors(folder / "gru.safetensors", state)
    np.savez(folder / "gru.npz", **state)
    state = weights.to_torch(canonical_of("lstm", num_proj=2), prefix="encoder.rnn.").arrays
    weights.write_safetensors(folder / "projected.safetensors", state)

    nodes = weights.to_onnx(canonical_of("gru", 2, direction="bidirectional")).arrays
    (folder / "gru.onnx").write_bytes(onnx_file.model_bytes(nodes))
    old = weights.to_keras_cudnn(canonical_of("lstm", direction="bidirectional")).arrays
    hdf5.write_layers(folder / "cudnn.h5", "CuDNNLSTM", old)
