"""Layers of Keras with the weights of a network of cuDNN that compute something else.

By its weights alone nobody can tell one from the other; but a file with a model tells.
"""

import json
import pathlib
import zipfile

import keras
import numpy as np
import pytest
from keras.layers import (
    GRU,
    LSTM,
    RNN,
    Bidirectional,
    GRUCell,
    LSTMCell,
    SimpleRNN,
    SimpleRNNCell,
    TimeDistributed,
)

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import runtime, weights

pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

ENDINGS = (".keras", ".h5")


def lstm(**options) -> LSTM:
    return LSTM(2, return_sequences=True, **options)


def backwards(cls=LSTM, **options):
    return cls(2, return_sequences=True, go_backwards=True, **options)


# How to make each, what is said of it, and whether this library computes it in a model of Keras.
OTHERS = {
    "relu": (lambda: lstm(activation="relu"), "activation must be tanh; it is relu", False),
    "hard_sigmoid": (
        lambda: lstm(recurrent_activation="hard_sigmoid"),
        "recurrent_activation must be sigmoid; it is hard_sigmoid",
        False,
    ),
    "reset_before": (
        lambda: GRU(2, reset_after=False, use_bias=False),
        "reset_after must be True; a GRU without it is another network",
        False,
    ),
    "backwards": (backwards, "go_backwards must be False; it is True", True),
    "simple": (
        lambda: SimpleRNN(2, activation="sigmoid"),
        "activation must be tanh or relu; it is sigmoid",
        False,
    ),
    "sum": (
        lambda: Bidirectional(lstm(), merge_mode="sum"),
        "merge_mode must be concat; it is sum",
        True,
    ),
    "none": (
        lambda: Bidirectional(lstm(), merge_mode=None),
        "merge_mode must be concat; it is None",
        True,
    ),
    "both_relu": (
        lambda: Bidirectional(lstm(activation="relu")),
        "of its forward layer activation must be tanh; it is relu",
        False,
    ),
    "swapped": (
        lambda: Bidirectional(backwards(), backward_layer=lstm()),
        "of its forward layer go_backwards must be False; it is True",
        True,
    ),
    "half_hard": (
        lambda: Bidirectional(
            lstm(), backward_layer=backwards(recurrent_activation="hard_sigmoid")
        ),
        "of its backward layer recurrent_activation must be sigmoid; it is hard_sigmoid",
        False,
    ),
    "halves": (
        lambda: Bidirectional(
            SimpleRNN(2, return_sequences=True),
            backward_layer=backwards(SimpleRNN, activation="relu"),
        ),
        "its backward layer must have the class and activation of its forward layer",
        True,
    ),
}

# Those of which only a .keras file tells where their arrays are.
IN_KERAS_ALONE = {
    "cell": (
        lambda: RNN(LSTMCell(2, activation="relu")),
        "activation must be tanh; it is relu",
        False,
    ),
    "cell_backwards": (
        lambda: RNN(LSTMCell(2), go_backwards=True),
        "go_backwards must be False; it is True",
        False,
    ),
    "cell_reset_before": (
        lambda: RNN(GRUCell(2, reset_after=False, use_bias=False)),
        "reset_after must be True; a GRU without it is another network",
        False,
    ),
    "sum_of_cells": (
        lambda: Bidirectional(RNN(SimpleRNNCell(2), return_sequences=True), merge_mode="sum"),
        "merge_mode must be concat; it is sum",
        None,  # which inspect looks into
    ),
}
CASES = [(name, ending) for name in OTHERS for ending in ENDINGS]
CASES += [(name, ".keras") for name in IN_KERAS_ALONE]

# And the mode of these, which are networks of cuDNN.
NETWORKS = {
    "lstm": (lstm, "lstm"),
    "gru": (lambda: GRU(2, use_bias=False), "gru"),
    "relu": (lambda: SimpleRNN(2, activation="relu"), "rnn_relu"),
    "tanh": (lambda: SimpleRNN(2), "rnn_tanh"),
    "both": (lambda: Bidirectional(lstm()), "lstm"),
    "both_relu": (lambda: Bidirectional(SimpleRNN(2, activation="relu")), "rnn_relu"),
    "halves": (lambda: Bidirectional(lstm(), backward_layer=backwards()), "lstm"),
}


def save(layer, path) -> str:
    """Two recurrent layers, of which the last is named "net"."""
    layer.name = "net"
    first = keras.layers.SimpleRNN(3, return_sequences=True, activation="relu", name="first")
    keras.Sequential([keras.Input([None, 3]), first, layer]).save(path)
    return str(path)


@pytest.mark.parametrize("name, ending", CASES)
def test_another_network_is_refused(run, tmp_path, name, ending):
    make, reason, runs = (OTHERS | IN_KERAS_ALONE)[name]
    path = save(make(), tmp_path / f"a{ending}")
    for load in (weights.load, runtime.Network.load):
        with pytest.raises(ValueError) as refused:
            load(path, layer="net")
        text = str(refused.value)
        assert reason in text and path in text
        # Arrays of a GRU that is another cell would be of no use.
        assert ("from_keras." in text) == ("reset_after" not in reason)
    result = run("convert", path, tmp_path / "b.npz", "--to", "params", "--layer", "net")
    assert result.code == 2 and reason in " ".join(result.err.split())
    if runs is None:
        return
    _, found = json.loads(run("inspect", path, "--json").out)["found"]
    assert (found["runs"], found["converts"], found["layer"]) == (runs, False, "net")
    assert "--layer net" not in run("inspect", path).out
    # Of a layer in Bidirectional, the message of the one that reads names which.
    if not runs and name in OTHERS:
        assert found["how"] == f"{reason.rpartition(' layer ')[2]}. Keras' own loop runs it"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_read(run, tmp_path, name, ending):
    make, mode = NETWORKS[name]
    layer = make()
    path = save(layer, tmp_path / f"a{ending}")
    found = weights.load(path, layer="net")
    direction = "bidirectional" if isinstance(layer, Bidirectional) else "unidirectional"
    expected = weights.from_keras(layer.get_weights(), mode, direction=direction)
    assert found.layout == expected.layout
    np.testing.assert_array_equal(found.params, expected.params)
    _, told = json.loads(run("inspect", path, "--json").out)["found"]
    assert (told["runs"], told["converts"], told["rnn_mode"]) == (True, True, mode)
    assert "--layer net" in run("inspect", path).out


def test_another_mode_than_the_models(tmp_path):
    path = save(SimpleRNN(2, activation="relu"), tmp_path / "a.h5")
    with pytest.raises(ValueError, match="rnn_mode= must be rnn_relu, as the model in .* says"):
        weights.load(path, layer="net", rnn_mode="rnn_tanh")


def test_another_direction_than_the_models(tmp_path):
    path = save(Bidirectional(lstm(), name="net"), tmp_path / "a.h5")
    with pytest.raises(ValueError, match='direction="unidirectional" must be what the file says'):
        weights.load(path, layer="net", direction="unidirectional")
    found = weights.load(path, layer="net", direction="bidirectional")
    assert found.layout == weights.load(path, layer="net").layout


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_layer_of_somebodys_own_whose_config_names_a_layer(tmp_path, ending):
    @keras.saving.register_keras_serializable(package="test_other_networks")
    class Reader(keras.layers.Layer):
        def get_config(self):
            return {**super().get_config(), "layer": "net"}

    path = str(tmp_path / f"a{ending}")
    keras.Sequential([keras.Input([4, 3]), lstm(name="net"), Reader()]).save(path)
    assert weights.load(path, layer="net").layout.num_units == 2


def test_layers_that_read_keras_h5_returns(tmp_path):
    """They know of what the file says; whoever passes their arrays alone knows better."""
    path = save(lstm(recurrent_activation="hard_sigmoid"), tmp_path / "a.h5")
    layer = weights.read_keras_h5(path)["net"]
    with pytest.raises(ValueError, match="recurrent_activation must be sigmoid; .* its `arrays`"):
        weights.from_keras(layer, "lstm")
    assert weights.from_keras(layer.arrays, "lstm").layout.num_units == 2
    simple = weights.read_keras_h5(path)["first"]
    with pytest.raises(ValueError, match="`rnn_mode` must be rnn_relu, as the layer's `config`"):
        weights.from_keras(simple, "rnn_tanh")
    assert weights.from_keras(simple, "rnn_relu").layout.num_units == 3


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("mode", [None, "rnn_tanh", "rnn_relu"])
def test_a_stack_of_two_activations(run, tmp_path, mode, ending):
    path = save(SimpleRNN(3), tmp_path / f"a{ending}")
    with pytest.raises(
        ValueError, match="must have the same activation, .* rnn_relu, .* rnn_tanh. Load"
    ):
        weights.load(path, layer=["first", "net"], rnn_mode=mode)


def test_a_layer_in_a_wrapper(run, tmp_path):
    path = str(tmp_path / "a.keras")
    for activation in ("tanh", "relu"):
        layer = TimeDistributed(lstm(activation=activation, name="inner"))
        keras.Sequential([keras.Input([4, None, 3]), layer]).save(path)
        (found,) = json.loads(run("inspect", path, "--json").out)["found"]
        assert (found["layer"], found["converts"]) == ("inner", activation == "tanh")
        if activation == "tanh":
            assert weights.load(path).layout.num_units == 2
        else:
            with pytest.raises(ValueError, match="activation must be tanh; it is relu"):
                weights.load(path)


@pytest.mark.parametrize("ending", ENDINGS)
def test_drop_ins(run, tmp_path, ending):
    """An .h5 file has names of classes that say whose they are."""
    layers = tf_cudnn_rnn.keras
    both = layers.Bidirectional(layers.GRU(2, return_sequences=True), name="both")
    path = str(tmp_path / f"a{ending}")
    keras.Sequential([keras.Input([None, 3]), layers.LSTM(4, return_sequences=True), both]).save(
        path
    )
    first, second = json.loads(run("inspect", path, "--json").out)["found"]
    assert (first["rnn_mode"], second["rnn_mode"], second["direction"]) == (
        "lstm",
        "gru",
        "bidirectional",
    )
    assert first["runs"] and second["runs"]
    expected = weights.from_keras(both.get_weights(), "gru", direction="bidirectional")
    np.testing.assert_array_equal(weights.load(path, layer="both").params, expected.params)


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_drop_in_that_is_another_network(run, tmp_path, ending):
    path = save(tf_cudnn_rnn.keras.LSTM(2, activation="relu"), tmp_path / f"a{ending}")
    _, found = json.loads(run("inspect", path, "--json").out)["found"]
    assert (found["runs"], found["converts"]) == (False, False)
    assert found["how"].startswith("activation must be tanh; it is relu. Keras' own loop")


# What somebody may write in the place of a layer's config: it is refused, or means nothing.
STRANGE = [None, 3, "LSTM", [], ["LSTM"], {}, {"class_name": ["LSTM"]}, {"class_name": {"a": 1}}]
STRANGE += [{"class_name": "LSTM", "config": value} for value in (None, [], {"activation": []})]


@pytest.mark.parametrize("strange", STRANGE, ids=repr)
def test_strange_configs_end_in_a_sentence(run, tmp_path, strange):
    path = pathlib.Path(
        save(Bidirectional(lstm(), backward_layer=backwards()), tmp_path / "a.keras")
    )
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    for key in ("layer", "backward_layer"):
        config = json.loads(members["config.json"])
        config["config"]["layers"][-1]["config"][key] = strange
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in members.items():
                text = json.dumps(config) if name == "config.json" else content
                archive.writestr(name, text)
        assert run("inspect", str(path)).code in (0, 1, 2)
        try:
            weights.load(path, layer="net")
        except ValueError as error:
            assert str(path) in str(error)
