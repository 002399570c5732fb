"""Layers of Keras in files: what a class of somebody's own adds, and where models keep layers."""

import warnings

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_cudnn_rnn import weights

layers = keras.layers


class Peepholes(layers.LSTMCell):
    """A cell with a variable more."""

    def build(self, input_shape):
        super().build(input_shape)
        self.peephole = self.add_weight(shape=[self.units], name="peephole")


class Normalised(layers.LSTMCell):
    """A cell with a layer in it."""

    def build(self, input_shape):
        super().build(input_shape)
        self.norm = layers.LayerNormalization()
        self.norm.build([None, self.units])


class Attributes(keras.Model):
    """A model that keeps layers in all ways."""

    def __init__(self):
        super().__init__()
        self.encoder = layers.LSTM(4, return_sequences=True)
        self.several = [layers.GRU(4, return_sequences=True)]
        self.by_name = {"last": layers.LSTM(2)}

    def call(self, x):
        return self.by_name["last"](self.several[0](self.encoder(x)))


def save_weights(model, path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras calls in NumPy
        model.save_weights(path)


@pytest.fixture(scope="module", params=["weights.h5", "checkpoint", "SavedModel"])
def written(request, tmp_path_factory):
    """A model with cells of somebody's own, and a plain layer that draws masks."""
    folder = tmp_path_factory.mktemp("cells")
    x = keras.Input([None, 3])
    y = layers.RNN(Peepholes(4), return_sequences=True, name="peepholes")(x)
    y = layers.RNN(Normalised(4), return_sequences=True, name="normalised")(y)
    model = keras.Model(x, layers.LSTM(4, dropout=0.5, name="plain")(y), name="model")
    plain = model.get_layer("plain").get_weights()
    if request.param == "weights.h5":
        save_weights(model, folder / "model.weights.h5")
        return folder / "model.weights.h5", plain
    if request.param == "checkpoint":
        tf.train.Checkpoint(model=model).write(str(folder / "model"))
        return folder / "model", plain
    model.export(folder / "model", verbose=False)
    return folder / "model", plain


def equal(read: weights.Canonical, arrays, rnn_mode="lstm", **options) -> None:
    np.testing.assert_array_equal(
        read.params, weights.from_keras(arrays, rnn_mode, **options).params
    )


def test_cells_with_further_variables_are_no_layers(written):
    path, plain = written
    equal(weights.load(path), plain)
    for name in ("peepholes", "normalised", "layers/rnn", "layers/rnn_1"):
        with pytest.raises(ValueError, match="layer= must be one of"):
            weights.load(path, layer=name)


def test_layers_in_all_attributes(tmp_path):
    model = Attributes()
    model.compile("adam", "mse")
    model.fit(np.zeros([2, 5, 3]), np.zeros([2, 2]), verbose=0)
    path = tmp_path / "model.weights.h5"
    save_weights(model, path)
    equal(weights.load(path, layer="encoder"), model.encoder.get_weights())
    equal(weights.load(path, layer="layers/gru"), model.several[0].get_weights(), "gru")
    equal(weights.load(path, layer="by_name/lstm"), model.by_name["last"].get_weights())


@pytest.mark.parametrize("names", [("forward_a",), ("backward_a",), ("forward_a", "forward_b")])
def test_names_of_halves_make_none_alone(tmp_path, names):
    """What `export` writes has names alone, and these are of layers in a model in the model."""
    stack = [layers.LSTM(4, return_sequences=True, name=name) for name in names]
    inner = keras.Sequential(stack, name="inner")
    outer = keras.Sequential([keras.Input([None, 4]), inner], name="outer")
    outer.export(tmp_path / "model", verbose=False)
    for layer in stack:
        read = weights.load(tmp_path / "model", layer=f"outer/inner/{layer.name}")
        equal(read, layer.get_weights())


def write_h5(path, name: str, keys) -> list[np.ndarray]:
    """A file of weights alone, as Keras 2 writes it."""
    shapes = ([4, 16], [4, 16], [16])
    random = np.random.default_rng(1)
    arrays = [random.normal(size=shapes[i % 3]).astype(np.float32) for i in range(len(keys))]
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [name.encode()]
        group = file.create_group(name)
        group.attrs["weight_names"] = [key.encode() for key in keys]
        for key, array in zip(keys, arrays, strict=True):
            group[key] = array
    return arrays


def keys_of(*prefixes: str) -> list[str]:
    leaves = ("kernel:0", "recurrent_kernel:0", "bias:0")
    return [f"{prefix}/{leaf}" for prefix in prefixes for leaf in leaves]


def test_arrays_of_two_layers_make_no_bidirectional(tmp_path):
    path = tmp_path / "old.h5"
    for prefixes in (
        ("lstm/lstm_cell", "lstm_1/lstm_cell"),
        ("forward_a/lstm_cell", "forward_b/lstm_cell"),
    ):
        write_h5(path, "inner", keys_of(*prefixes))
        with pytest.raises(ValueError, match="There is no such layer"):
            weights.load(path)
        with pytest.raises(ValueError, match="There is no such layer"):
            weights.load(path, layer="inner")
    arrays = write_h5(path, "both", keys_of("both/forward_a/cell", "both/backward_a/cell"))
    equal(weights.load(path), arrays, direction="bidirectional")
