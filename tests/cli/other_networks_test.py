"""Layers of Keras with the weights of a network of cuDNN that compute something else.

By its weights alone nobody can tell one from the other; but a file with a model tells.
"""

import json

import keras
import numpy as np
import pytest
from keras.layers import GRU, LSTM, Bidirectional, SimpleRNN

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


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("name", OTHERS)
def test_another_network_is_refused(run, tmp_path, name, ending):
    make, reason, runs = OTHERS[name]
    path = save(make(), tmp_path / f"a{ending}")
    for load in (weights.load, runtime.Network.load):
        with pytest.raises(ValueError) as refused:
            load(path, layer="net")
        assert reason in str(refused.value) and path in str(refused.value)
    result = run("convert", path, tmp_path / "b.npz", "--to", "params", "--layer", "net")
    assert result.code == 2 and reason in " ".join(result.err.split())
    _, found = json.loads(run("inspect", path, "--json").out)["found"]
    assert (found["runs"], found["converts"], found["layer"]) == (runs, False, "net")
    assert "--layer net" not in run("inspect", path).out
    # Of a layer in Bidirectional, the message of the one that reads names which.
    assert runs or found["how"] == f"{reason.rpartition(' layer ')[2]}. Keras' own loop runs it"


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


def test_layers_that_read_keras_h5_returns(tmp_path):
    """They know of what the file says; whoever passes their arrays alone knows better."""
    path = save(lstm(recurrent_activation="hard_sigmoid"), tmp_path / "a.h5")
    layer = weights.read_keras_h5(path)["net"]
    with pytest.raises(ValueError, match="recurrent_activation must be sigmoid; .* its `arrays`"):
        weights.from_keras(layer, "lstm")
    assert weights.from_keras(layer.arrays, "lstm").layout.num_units == 2
