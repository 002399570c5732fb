"""Writes the seeds of the fuzzer of files that this library and Keras write, in tests/fuzz/seeds.

    .venv/bin/python -m tests.fuzz.write_seeds

They need not be written anew: mutations go by their bytes. The seeds of `checkpoint` and `header`
are older than this.
"""

import pathlib
import tempfile
import zipfile

import keras
import numpy as np
import tensorflow as tf

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import runtime, weights
from tf_cudnn_rnn._formats import onnx_file

FOLDER = pathlib.Path(__file__).parent / "seeds"
# As tests/fuzz/file_formats/hdf5.py takes them.
_OBJECTS = {
    # layers/lstm/cell/vars: 0 [3, 16], 1 [4, 16], 2 [16]
    "keras_3": [
        *(0, 0, 0, 1, 0, 2, 0, 3),
        *(2, 4, 0, 0, 0, 0),
        *(2, 5, 0, 1, 0, 0),
        *(2, 6, 0, 2, 0, 0),
    ],
    # `layer_names` of one CuDNNLSTM, first/first: kernel, recurrent kernel and bias
    "keras_2": [
        *(3, 0, 1, 16, 0, 0),
        *(3, 2, 0, 2, 1),
        *(0, 16),
        *(3, 1, 3, 18, 19, 20, 0, 0),
        *(2, 18, 0, 0, 0, 0),
        *(2, 19, 0, 1, 0, 0),
        *(2, 20, 0, 3, 0, 0),
    ],
}


def _canonical(rnn_mode="lstm", layers=1, dtype=np.float32, **options) -> weights.Canonical:
    size = weights.params_size(rnn_mode, layers, 4, 3, **options)
    params = np.random.default_rng(3).normal(size=size).astype(dtype)
    return weights.from_cudnn(params, rnn_mode, layers, 4, 3, **options)


def _path(name: str) -> pathlib.Path:
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _write_onnx() -> None:
    for name, canonical in {
        "gru": _canonical("gru", 2, direction="bidirectional"),
        "lstm": _canonical("lstm"),
        "rnn_relu": _canonical("rnn_relu", dtype=np.float16),
    }.items():
        nodes = weights.to_onnx(canonical).arrays
        _path(f"onnx/{name}.onnx").write_bytes(onnx_file.model_bytes(nodes))


def _models() -> dict[str, keras.Model]:
    keras.utils.set_random_seed(4)
    layers = keras.layers
    stock = [
        keras.Input([None, 3]),
        layers.Bidirectional(layers.LSTM(4, return_sequences=True), name="both"),
        layers.GRU(2, name="gru", return_sequences=True),
        layers.SimpleRNN(2, activation="relu", name="simple"),
    ]
    stack = tf_cudnn_rnn.keras.CudnnLSTM(4, num_layers=2, num_proj=2, name="encoder")
    return {
        "stock": keras.Sequential(stock),
        "own": keras.Sequential([keras.Input([None, 3]), stack]),
        "drop_in": keras.Sequential([keras.Input([5, 3]), tf_cudnn_rnn.keras.GRU(2, name="gru")]),
    }


def _write_keras() -> None:
    for name, model in _models().items():
        model.save(_path(f"keras/{name}.keras"))
        model.save_weights(_path(f"weights_h5/{name}.weights.h5"))
        with zipfile.ZipFile(_path(f"keras/{name}.keras")) as archive:
            _path(f"keras_config/{name}").write_bytes(archive.read("config.json"))


class _Network(tf.Module):
    """A graph with TensorFlow's op."""

    def __init__(self):
        super().__init__()
        self.params = tf.Variable(_canonical(layers=2, direction="bidirectional").params)

    @tf.function(input_signature=[tf.TensorSpec([None, 2, 3])])
    def __call__(self, x):
        states = tf.zeros([4, 2, 4])
        lengths = tf.fill([2], tf.shape(x)[0])
        return tf.raw_ops.CudnnRNNV3(
            input=x,
            input_h=states,
            input_c=states,
            params=self.params,
            sequence_lengths=lengths,
            direction="bidirectional",
            is_training=False,
        ).output


def _write_saved_models() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(_Network(), f"{folder}/network")
        for name in ("own", "drop_in"):  # Keras' own loops are of 200 KB
            _models()[name].export(f"{folder}/{name}", verbose=False)
        for path in pathlib.Path(folder).iterdir():
            content = (path / "saved_model.pb").read_bytes()
            _path(f"saved_model/{path.name}.pb").write_bytes(content)


def _write_indexes() -> None:
    """Of a few keys, and of many, which share their beginnings."""
    with tempfile.TemporaryDirectory() as folder:
        for count in (3, 40):
            names = [f"{'long_' * (count > 3)}name_{number}" for number in range(count)]
            tf.raw_ops.SaveV2(
                prefix=f"{folder}/{count}",
                tensor_names=names,
                shape_and_slices=[""] * count,
                tensors=[np.float32(1)] * count,
            )
            content = pathlib.Path(f"{folder}/{count}.index").read_bytes()
            _path(f"index/{count}").write_bytes(content)


def _write_runtime() -> None:
    for name, canonical in {
        "lstm": _canonical("lstm", num_proj=2),
        "gru": _canonical("gru", 2, np.float16, direction="bidirectional"),
    }.items():
        runtime.Network(canonical).save(_path(f"runtime/{name}.safetensors"))
        int8 = weights.quantize(canonical)
        runtime.Network(int8).save(_path(f"runtime_int8/{name}.safetensors"))


def main() -> None:
    """Writes them all."""
    _write_onnx()
    _write_keras()
    _write_saved_models()
    _write_indexes()
    _write_runtime()
    for name, steps in _OBJECTS.items():
        _path(f"h5_objects/{name}").write_bytes(bytes(steps))


if __name__ == "__main__":
    main()
