"""Writes the seeds of the fuzzer of files that this library and Keras write, in tests/fuzz/seeds.

    .venv/bin/python -m tests.fuzz.write_seeds

They need not be written anew: mutations go by their bytes. The seeds of `checkpoint` and `header`
are older than this. PyTorch's are written where it is installed, or found by PYTHONPATH.
"""

import importlib.util
import pathlib
import tempfile
import zipfile

import h5py
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

# As tests/fuzz/file_formats/torch.py takes them: a kind of step; of a tensor then its name in three
# parts, its type, shape and way.
_TORCH_OBJECTS = {
    "lstm": [
        *(0, 0, 0),
        *(0, 0, 0, 0, 0, 0, 0),
        *(0, 0, 1, 0, 0, 1, 0),
        *(0, 0, 2, 0, 0, 2, 0),
        *(0, 0, 3, 0, 0, 2, 2),
    ],
    # Of bfloat16, in a mapping called state_dict
    "gru": [
        *(1, 0, 0),
        *(4, 2),
        *(0, 0, 0, 0, 1, 5, 0),
        *(0, 0, 1, 0, 1, 6, 2),
        *(5,),
        *(6, 9, 0),
    ],
    # One of 3000 tensors, under 3000 names
    "many_names": [
        *(0, 0, 0),
        *(4, 1),
        *(0, 0, 0, 0, 0, 0, 0),
        *(7, 1, 0, 2),
        *(5,),
        *(7, 1, 1, 2),
    ],
    # Of bfloat16, 270 MB in a view of one number
    "large_view": [
        *(0, 0, 0),
        *(0, 0, 0, 0, 1, 18, 3),
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


def _write_small_h5() -> None:
    """One layer, without what Keras has beside it: a mutation more often changes what is read."""
    with h5py.File(_path("weights_h5/small.weights.h5"), "w") as file:
        group = file.create_group("layers/gru/cell/vars")
        for name, shape in enumerate([(1, 3), (1, 3), (2, 3)]):
            group.create_dataset(str(name), data=np.ones(shape, np.float32))


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


def _write_torch() -> None:
    """As PyTorch does today, in a mapping with something else, and as before 1.6."""
    import torch

    for name, holds, options in (
        ("lstm", _canonical("lstm", num_proj=2), {}),
        ("gru", _canonical("gru", 2, direction="bidirectional"), {}),
        ("rnn_tanh", _canonical("rnn_tanh"), {"_use_new_zipfile_serialization": False}),
    ):
        arrays = weights.to_torch(holds).arrays
        state = {key: torch.from_numpy(array) for key, array in arrays.items()}
        if name == "gru":
            state = {key: tensor.bfloat16() for key, tensor in state.items()}
            state = {"epoch": 3, "state_dict": state, "optimizer": {"lr": 0.1}}
        torch.save(state, _path(f"pt/{name}.pt"), **options)


def main() -> None:
    """Writes them all."""
    _write_onnx()
    _write_keras()
    _write_small_h5()
    _write_saved_models()
    _write_indexes()
    _write_runtime()
    if importlib.util.find_spec("torch"):
        _write_torch()
    for name, steps in _OBJECTS.items():
        _path(f"h5_objects/{name}").write_bytes(bytes(steps))
    for name, steps in _TORCH_OBJECTS.items():
        _path(f"pt_objects/{name}").write_bytes(bytes(steps))


if __name__ == "__main__":
    main()
