"""Files go both ways between drop-ins and stock layers."""

import pathlib
import sys
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.helpers import subprocesses
from tests.keras import pairs
from tests.keras.pairs import LAYERS, H, I
from tf_cudnn_rnn.keras import layers as drop_ins
from tf_cudnn_rnn.keras import load_model, to_keras

# h5py reads Keras' variables in a way that NumPy 2 wants changed.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def model_of(module, name: str) -> keras.Model:
    """All places that a layer can have: alone, in two wrappers, and in a nested model."""
    keras.utils.set_random_seed(1)
    layer = getattr(module, name)
    inputs = keras.Input([None, I], name="x")
    nested = keras.Sequential(
        [keras.Input([None, 2 * H]), layer(H, return_sequences=True)], name="nested"
    )
    y = module.Bidirectional(layer(H, return_sequences=True, use_bias=False))(inputs)
    y = nested(y)
    y = layer(H, return_sequences=True, go_backwards=True)(y)
    y = keras.layers.Reshape([-1, 1, H])(y)
    y = keras.layers.TimeDistributed(layer(H))(y)
    return keras.Model(inputs, y)


def recurrent_layers(model) -> list:
    return [layer for layer in model._flatten_layers() if isinstance(layer, keras.layers.RNN)]


def is_drop_in(layer) -> bool:
    return isinstance(layer, (drop_ins.LSTM, drop_ins.GRU, drop_ins.SimpleRNN))


def assert_same_model(one, other):
    for a, b in zip(one.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)
    x = pairs.inputs("float32")[:, :3]
    np.testing.assert_allclose(one(x), other(x), rtol=0, atol=2e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_weights_files(name, tmp_path):
    models = model_of(tf_cudnn_rnn.keras, name), model_of(keras.layers, name)
    for source, target in (models, models[::-1]):
        pairs.randomise(source)
        source.save_weights(tmp_path / "model.weights.h5")
        target.load_weights(tmp_path / "model.weights.h5")
        assert_same_model(source, target)


@pytest.mark.parametrize("name", LAYERS)
def test_keras_file_of_drop_ins(name, tmp_path):
    model = model_of(tf_cudnn_rnn.keras, name)
    pairs.randomise(model)
    model.save(tmp_path / "model.keras")
    for load in (keras.saving.load_model, load_model):
        loaded = load(tmp_path / "model.keras")
        assert len(recurrent_layers(loaded)) == 5 and all(map(is_drop_in, recurrent_layers(loaded)))
        assert_same_model(loaded, model)


@pytest.mark.parametrize("name", LAYERS)
def test_keras_file_of_drop_ins_without_the_library(name, tmp_path):
    model = model_of(tf_cudnn_rnn.keras, name)
    path = str(tmp_path / "model.keras")
    model.save(path)
    x = pairs.inputs("float32")
    np.save(path + ".x.npy", x)
    np.save(path + ".y.npy", model(x))
    code = f"""
import keras, numpy as np, sys
names = ("{name}", "Bidirectional")
custom_objects = {{"tf_cudnn_rnn>" + name: getattr(keras.layers, name) for name in names}}
model = keras.saving.load_model({path!r}, custom_objects=custom_objects)
assert "tf_cudnn_rnn" not in sys.modules
y = np.load({path!r} + ".y.npy")
np.testing.assert_allclose(model(np.load({path!r} + ".x.npy")), y, rtol=0, atol=2e-6)
"""
    subprocesses.run_code(code, prepared=True)


def test_keras_files_say_what_they_need_where_the_library_is_missing(tmp_path):
    """As far as Keras lets them: its sentence on the class goes on with the module to import."""
    classes = [tf_cudnn_rnn.keras.LSTM, tf_cudnn_rnn.keras.CudnnGRU]
    for cls in classes:
        inputs = keras.Input([None, I])
        model = keras.Model(inputs, keras.layers.TimeDistributed(keras.layers.Dense(2))(inputs))
        model = keras.Sequential([model, cls(H)])
        model.save(tmp_path / f"{cls.__name__}.keras")
    code = f"""
import keras, sys
sys.modules["tf_cudnn_rnn"] = None  # not to be imported
for name in {[cls.__name__ for cls in classes]!r}:
    try:
        keras.saving.load_model({str(tmp_path)!r} + f"/{{name}}.keras")
    except Exception as error:
        print("----", error)
"""
    _, *said = subprocesses.run_code(code, prepared=True).split("----")
    assert len(said) == 2
    for message, cls in zip(said, classes, strict=True):
        lines = [line for line in message.splitlines() if f"class '{cls.__name__}'" in line]
        assert any(f"'module': '{cls.__module__}', 'class_name'" in line for line in lines), message
        assert keras.saving.get_registered_object(f"tf_cudnn_rnn>{cls.__name__}") is cls
        assert cls.__module__ in sys.modules and "._" not in cls.__module__


@pytest.mark.parametrize("name", LAYERS)
def test_stock_keras_file_loads_fused(name, tmp_path):
    model = model_of(keras.layers, name)
    pairs.randomise(model)
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    for variable in model.optimizer.variables[2:]:  # the moments
        variable.assign(np.random.default_rng(1).random(variable.shape))
    path = tmp_path / "model.keras"
    model.save(path)
    before = path.read_bytes()
    loaded = load_model(path)
    assert path.read_bytes() == before
    assert len(recurrent_layers(loaded)) == 5 and all(map(is_drop_in, recurrent_layers(loaded)))
    assert_same_model(loaded, model)
    for one, other in zip(loaded.optimizer.variables, model.optimizer.variables, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not load_model(path, compile=False).compiled
    # Back again: what the loaded model saves is a file of drop-ins.
    loaded.save(tmp_path / "again.keras")
    assert_same_model(load_model(str(tmp_path / "again.keras")), model)


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("model.h5", r"Call tf_cudnn_rnn\.keras\.to_fused\(keras\.saving\.load_model"),
        ("model.weights.h5", "It has weights alone: .* load_weights"),
        ("model.onnx", "`tf-cudnn-rnn inspect` shows"),
    ],
)
def test_only_keras_files(tmp_path, name, advice):
    path = tmp_path / name
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=f"must be a .keras file; got .*{name}. {advice}"):
        load_model(path)


def test_a_keras_file_that_is_cut_off(tmp_path):
    """As a download that broke off; no other function reads it."""
    path = tmp_path / "a.keras"
    keras.Sequential([keras.Input([3, 2]), keras.layers.Dense(2)]).save(path)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"a\.keras is damaged, or forged") as error:
        load_model(path)
    assert "must be a .keras file" not in str(error.value)


def test_a_saved_model_is_for_tensorflow(tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"")
    with pytest.raises(ValueError, match="must be a .keras file; .*tf.saved_model.load"):
        load_model(tmp_path)


def test_files_that_do_not_exist(tmp_path):
    with pytest.raises(ValueError, match=r"`filepath` must name a file; there is no .*a\.keras"):
        load_model(tmp_path / "a.keras")


@keras.saving.register_keras_serializable(package="tests")
class LSTM(keras.layers.LSTM):
    pass


def test_classes_of_others_stay(tmp_path):
    model = keras.Sequential([keras.Input([None, I]), LSTM(H), keras.layers.Dense(1)])
    model.save(tmp_path / "model.keras")
    assert type(load_model(tmp_path / "model.keras").layers[0]) is LSTM


@pytest.mark.parametrize("name", LAYERS)
def test_to_keras(name, tmp_path):
    model = model_of(tf_cudnn_rnn.keras, name)
    pairs.randomise(model)
    stock = to_keras(model)
    assert len(recurrent_layers(stock)) == 5
    assert [type(layer).__module__.split(".")[0] for layer in recurrent_layers(stock)] == (
        ["keras"] * 5
    )
    assert_same_model(stock, model)
    stock.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        assert b"tf_cudnn_rnn" not in file.read("config.json")
    # A copy: changing one leaves the other alone.
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    assert all(w.any() for w in stock.get_weights())


def test_to_keras_of_a_layer():
    ours, theirs = pairs.pair("GRU", return_sequences=True)
    stock = to_keras(ours)
    assert type(stock) is keras.layers.GRU
    x = pairs.inputs()
    np.testing.assert_array_equal(stock(x), theirs(x))


@keras.saving.register_keras_serializable(package="tests")
class InCode(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rnn = tf_cudnn_rnn.keras.LSTM(H, name="inside")

    def call(self, x):
        return self.rnn(x)


def test_to_keras_says_what_it_cannot_do():
    with pytest.raises(ValueError, match="`model` must be built"):
        to_keras(tf_cudnn_rnn.keras.LSTM(H, name="fresh"))
    model = InCode()
    model(pairs.inputs("float32"))
    with pytest.raises(ValueError, match="InCode makes inside in code"):
        to_keras(model)


def test_checkpoint(tmp_path):
    models = model_of(tf_cudnn_rnn.keras, "LSTM"), model_of(keras.layers, "LSTM")
    pairs.randomise(models[0])
    path = tf.train.Checkpoint(model=models[0]).save(tmp_path / "checkpoint")
    status = tf.train.Checkpoint(model=models[1]).restore(path)
    status.assert_existing_objects_matched()
    assert_same_model(*models)
    assert pathlib.Path(path + ".index").exists()
