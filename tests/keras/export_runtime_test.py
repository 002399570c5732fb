"""Layers of Keras as files for tf_cudnn_rnn.runtime."""

import keras
import numpy as np
import pytest

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import runtime, weights

B, T, I, H = 3, 6, 4, 5
LIBRARIES = {"stock": keras.layers, "drop-in": tf_cudnn_rnn.keras}


def _x(dtype=np.float32):
    return np.random.default_rng(2).normal(size=[B, T, I]).astype(dtype)


def _exported(model, tmp_path):
    tf_cudnn_rnn.keras.export_runtime(model, tmp_path / "network.safetensors")
    return runtime.Network.load(tmp_path / "network.safetensors")


def _assert_same(network, layer, x):
    """Of what the layer gives for all steps."""
    expected = np.asarray(layer(x))
    np.testing.assert_allclose(network(x)[0], expected, rtol=0, atol=2e-6)
    assert np.abs(expected).max() > 0.1


def _with_random_weights(layer):
    rng = np.random.default_rng(3)
    layer.set_weights([rng.normal(scale=0.4, size=w.shape) for w in layer.get_weights()])
    return layer


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("LSTM", {}),
        ("GRU", {}),
        ("SimpleRNN", {}),
        ("SimpleRNN", {"activation": "relu"}),
        ("LSTM", {"use_bias": False}),
    ],
    ids=["LSTM", "GRU", "tanh", "relu", "no bias"],
)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_one_layer(name, options, library, bidirectional, tmp_path):
    layer = getattr(LIBRARIES[library], name)(H, return_sequences=True, **options)
    if bidirectional:
        layer = keras.layers.Bidirectional(layer)
    x = _x()
    layer(x)
    _with_random_weights(layer)
    network = _exported(layer, tmp_path)
    _assert_same(network, layer, x)
    assert network.layout.direction == ("bidirectional" if bidirectional else "unidirectional")


def test_the_layer_of_a_model(tmp_path):
    model = keras.Sequential(
        [
            keras.Input([T, I]),
            tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.GRU(H)),
            keras.layers.Dense(1),
        ]
    )
    network = _exported(model, tmp_path)
    expected = model.layers[0](_x())
    y, state = network(_x())
    np.testing.assert_allclose(y[:, -1, :H], expected[:, :H], rtol=0, atol=2e-6)
    np.testing.assert_allclose(np.hstack(state.h), expected, rtol=0, atol=2e-6)


def test_layers_that_stand_on_each_other(tmp_path):
    layers = [tf_cudnn_rnn.keras.LSTM(H, return_sequences=True) for _ in range(2)]
    model = keras.Sequential([keras.Input([T, I]), *layers])
    network = _exported(layers, tmp_path)
    assert network.layout.num_layers == 2
    np.testing.assert_allclose(network(_x())[0], model(_x()), rtol=0, atol=2e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_a_network_of_our_own(dtype, tmp_path):
    layer = tf_cudnn_rnn.keras.CudnnRNN(
        H, 2, "lstm", direction="bidirectional", num_proj=3, return_sequences=True, dtype=dtype
    )
    x = keras.ops.cast(_x(), dtype).numpy()
    layer(x)
    network = _exported(layer, tmp_path)
    assert network.dtype.name == dtype
    np.testing.assert_array_equal(network(x)[0], np.asarray(layer(x, training=False)))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", ["LSTM", "GRU", "SimpleRNN"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_int8(name, library, dtype, tmp_path):
    layer = keras.layers.Bidirectional(
        getattr(LIBRARIES[library], name)(H, return_sequences=True, dtype=dtype), dtype=dtype
    )
    model = keras.Sequential([keras.Input([T, I], dtype=dtype), layer, keras.layers.Dense(1)])
    _with_random_weights(layer)
    path = tmp_path / "int8.safetensors"
    tf_cudnn_rnn.keras.export_runtime(model, path, int8=True)
    network = runtime.Network.load(path)
    assert network.has_int8_weights and network.dtype == np.float32
    rnn_mode = {"LSTM": "lstm", "GRU": "gru", "SimpleRNN": "rnn_tanh"}[name]
    exact = weights.from_keras(layer.get_weights(), rnn_mode, direction="bidirectional")
    np.testing.assert_array_equal(
        weights.load(path).params, weights.quantize(exact).dequantized().params
    )
    expected = np.asarray(layer(_x(dtype)))
    error = np.abs(network(_x())[0] - expected).max()
    assert 1e-5 < error < 0.02 < 0.1 < np.abs(expected).max()


def test_int8_of_a_network_of_our_own(tmp_path):
    layer = tf_cudnn_rnn.keras.CudnnRNN(H, 2, "lstm", num_proj=3, return_sequences=True)
    x = _x()
    expected = np.asarray(layer(x))
    tf_cudnn_rnn.keras.export_runtime(layer, tmp_path / "int8.safetensors", int8=True)
    network = runtime.Network.load(tmp_path / "int8.safetensors")
    assert network.has_int8_weights and network.layout.num_proj == 3
    np.testing.assert_allclose(network(x)[0], expected, rtol=0, atol=0.02)


def test_int8_of_what_is_not_finite(tmp_path):
    layer = keras.layers.GRU(H)
    layer(_x())
    kernel, *others = layer.get_weights()
    kernel[1, 2] = np.nan
    layer.set_weights([kernel, *others])
    with pytest.raises(ValueError, match="layer_0/forward/update/input_kernel has nan"):
        tf_cudnn_rnn.keras.export_runtime(layer, tmp_path / "int8.safetensors", int8=True)
    assert not (tmp_path / "int8.safetensors").exists()


def _built(layer):
    layer(_x())
    return layer


REFUSED = {
    "activation": (lambda k: k.LSTM(H, activation="relu"), "activation must be tanh; got relu"),
    "gates": (
        lambda k: k.GRU(H, recurrent_activation="hard_sigmoid"),
        "recurrent_activation must be sigmoid",
    ),
    "reset": (lambda k: k.GRU(H, reset_after=False), "reset_after must be True; got False"),
    "backwards": (lambda k: k.LSTM(H, go_backwards=True), "`go_backwards` must be False"),
    "merged": (lambda k: k.Bidirectional(k.LSTM(H), merge_mode="sum"), "`merge_mode` must be"),
    "other": (lambda k: k.Dense(H), "must have one recurrent layer; .* has none"),
    "two": (
        lambda k: keras.Sequential([k.LSTM(H, return_sequences=True), k.GRU(H, name="two")]),
        "must have one recurrent layer; .*, two. Pass the layer itself",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_runtime_does_not_do(case, tmp_path):
    make, message = REFUSED[case]
    with pytest.raises(ValueError, match=message):
        _exported(_built(make(keras.layers)), tmp_path)
    assert not (tmp_path / "network.safetensors").exists()


def test_lists_that_do_not_fit(tmp_path):
    layers = keras.layers
    for listed, message in [
        ([layers.LSTM(H), layers.GRU(H)], "one kind and direction; got gru unidirectional, lstm"),
        ([layers.LSTM(H), layers.Dense(H)], "must be of LSTM, GRU"),
    ]:
        with pytest.raises(ValueError, match=message):
            _exported([_built(layer) for layer in listed], tmp_path)
    with pytest.raises(ValueError, match="must be built"):
        _exported(layers.LSTM(H), tmp_path)
    with pytest.raises(TypeError, match="got str"):
        _exported(["encoder"], tmp_path)


@pytest.mark.parametrize("take", [runtime.Network, weights.quantize])
def test_layers_in_place_of_weights(take):
    for given, cls in [(keras.layers.GRU(H), "GRU"), (keras.Sequential(), "Sequential")]:
        with pytest.raises(TypeError, match=f"got {cls}, a layer or .*keras.export_runtime"):
            take(given)
