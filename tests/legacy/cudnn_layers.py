"""CuDNNLSTM and CuDNNGRU equal LSTM and GRU(reset_after=True) of Keras 2.

environments_test.py runs these tests, in processes of their own.

Both layers get the same weights through Keras' own conversion, that of its `.h5` files. In
double, so that any difference but rounding shows, except where a file is in single.
"""

import functools
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tf_keras
from tf_keras.src.layers import CuDNNGRU, CuDNNLSTM

import tf_cudnn_rnn
from tests.keras.covering import covering_array
from tf_cudnn_rnn import weights

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "tf_keras"
T, B, I, H = 5, 4, 3, 6
LAYERS = {
    "lstm": (CuDNNLSTM, functools.partial(tf_keras.layers.LSTM, unroll=True)),
    "gru": (CuDNNGRU, functools.partial(tf_keras.layers.GRU, reset_after=True, unroll=True)),
}

# Keras 2 and h5py call NumPy, and Keras 2 calls itself, in ways that are outdated.
pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:You are saving your model as an HDF5 file:UserWarning"),
]


def inputs(seed=0, dtype="float64") -> np.ndarray:
    return np.random.default_rng(seed).normal(size=[B, T, I]).astype(dtype)


def randomise(model) -> None:
    """Random values in every weight, biases included: equal ones would hide swapped gates."""
    rng = np.random.default_rng(2)
    model.set_weights([rng.normal(scale=0.5, size=w.shape) for w in model.get_weights()])


class OfOneLayer(tf_keras.Model):
    """Gives a layer Keras' way of loading weights, without a graph, which takes long to trace."""

    def __init__(self, layer, dtype):
        super().__init__(dtype=dtype)
        self.rnn = layer
        self(tf.zeros([B, T, I], dtype))  # builds it

    def call(self, x):
        return self.rnn(x)


def pair(mode, folder, *, wrap=lambda layer: layer, batch=None, dtype="float64", **options):
    """Returns a model of the CuDNN layer and one of the plain layer, with the same weights.

    Given the batch's size, both are graphs.
    """
    models = []
    for make in LAYERS[mode]:
        layer = wrap(make(H, name="rnn", dtype=dtype, **options))
        if batch is None:
            models.append(OfOneLayer(layer, dtype))
        else:
            x = tf_keras.Input([T, I], batch_size=batch, dtype=dtype)
            models.append(tf_keras.Model(x, layer(x)))
    randomise(models[0])
    move_weights(*models, folder)
    return models


def move_weights(source, target, folder) -> None:
    source.save_weights(str(folder / "weights.h5"))
    target.load_weights(str(folder / "weights.h5"))


def assert_close(actual, expected, tolerance=1e-12) -> None:
    actual, expected = tf.nest.flatten(actual), tf.nest.flatten(expected)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert one.shape == other.shape
        other = np.asarray(other, np.float64)
        assert np.abs(other).max() > 1e-3  # or the comparison would say little
        np.testing.assert_allclose(np.asarray(one, np.float64), other, rtol=0, atol=tolerance)


def test_the_environment():
    """What the environment's name promises."""
    if os.environ.get("TF_USE_LEGACY_KERAS") == "1":
        assert tf.compat.v1.keras.layers.CuDNNLSTM is CuDNNLSTM
        assert tf.compat.v1.keras.layers.CuDNNGRU is CuDNNGRU
        assert tf.keras.layers.LSTM is tf_keras.layers.LSTM
    else:
        assert tf.keras.__version__.startswith("3.")
        assert tf.keras.layers.LSTM is not tf_keras.layers.LSTM


# ------------------------------------------------------------------------------------
# Layers
# ------------------------------------------------------------------------------------


def outputs_and_gradients(layer, x, states):
    """Outputs, the gradients of x and the states, and those of the weights."""
    with tf.GradientTape() as tape:
        tape.watch([x, *states])
        outputs = tf.nest.flatten(layer(x, initial_state=states or None))
        rng = np.random.default_rng(3)
        loss = tf.add_n([tf.reduce_sum(y * rng.normal(size=y.shape)) for y in outputs])
    sources, weights = tape.gradient(loss, ([x, *states], layer.trainable_variables))
    return outputs, sources, [gradient.numpy() for gradient in weights]


@pytest.mark.parametrize("mode", LAYERS)
def test_outputs_and_gradients(mode, tmp_path):
    names = ("return_sequences", "return_state", "time_major", "go_backwards")
    cases = covering_array(
        {name: (False, True) for name in names},
        # Of both, the CuDNN layers of Keras reverse the batch.
        lambda case: not (case.get("time_major") and case.get("go_backwards")),
    )
    for options in cases:
        models = pair(mode, tmp_path, **options)
        ours, theirs = (model.get_layer("rnn") for model in models)
        x = tf.constant(inputs())
        if options["time_major"]:
            x = tf.transpose(x, [1, 0, 2])
        states = []
        if options["return_sequences"] == options["return_state"]:  # in half of the cases
            rng = np.random.default_rng(1)
            states = [tf.constant(rng.normal(size=[B, H])) for _ in ours.states]
        *actual, gradients = outputs_and_gradients(ours, x, states)
        *expected, expected_gradients = outputs_and_gradients(theirs, x, states)
        assert_close(actual, expected)
        # The variables have another order inside.
        converted = tf_cudnn_rnn.weights.convert_slots(
            {"gradients": gradients},
            functools.partial(tf_cudnn_rnn.weights.from_keras_cudnn, rnn_mode=mode),
            tf_cudnn_rnn.weights.to_keras,
        )
        assert_close(converted["gradients"][0], expected_gradients, 1e-11)


@pytest.mark.parametrize("mode", LAYERS)
def test_stateful(mode, tmp_path):
    ours, theirs = pair(mode, tmp_path, stateful=True, batch=B, return_sequences=True)
    first = ours.predict(inputs(), verbose=0)
    assert_close(first, theirs.predict(inputs(), verbose=0))
    second = ours.predict(inputs(), verbose=0)
    assert np.abs(second - first).max() > 1e-2
    assert_close(second, theirs.predict(inputs(), verbose=0))
    ours.reset_states()
    np.testing.assert_array_equal(ours.predict(inputs(), verbose=0), first)


@pytest.mark.parametrize("mode", LAYERS)
@pytest.mark.parametrize("merge_mode", ["concat", None])
def test_bidirectional(mode, merge_mode, tmp_path):
    wrap = functools.partial(tf_keras.layers.Bidirectional, merge_mode=merge_mode)
    for return_sequences in (False, True):
        options = {"wrap": wrap, "return_sequences": return_sequences}
        ours, theirs = pair(mode, tmp_path, **options)
        assert_close(ours(inputs()), theirs(inputs()))


@pytest.mark.parametrize("mode", LAYERS)
def test_time_distributed(mode, tmp_path):
    models = []
    for make in LAYERS[mode]:
        x = tf_keras.Input([2, T, I], dtype="float64")
        layer = tf_keras.layers.TimeDistributed(make(H, dtype="float64", name="rnn"))
        models.append(tf_keras.Model(x, layer(x)))
    randomise(models[0])
    # Keras converts no weights inside this wrapper.
    canonical = tf_cudnn_rnn.weights.from_keras_cudnn(models[0].get_weights(), mode)
    models[1].set_weights(tf_cudnn_rnn.weights.to_keras(canonical).arrays[0])
    x = np.stack([inputs(seed=1), inputs(seed=2)], axis=1)
    assert_close(models[0](x), models[1](x))


@pytest.mark.parametrize("mode", LAYERS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "mixed_float16", "mixed_bfloat16"])
def test_types(mode, dtype, tmp_path):
    cudnn_layer, _ = LAYERS[mode]
    layer = cudnn_layer(H, return_sequences=True, dtype=dtype)
    x = inputs()
    expected = pair(mode, tmp_path, return_sequences=True)[1]
    layer(tf.cast(x, layer.compute_dtype))
    randomise(layer)
    y = layer(tf.cast(x, layer.compute_dtype))
    assert y.dtype == layer.compute_dtype
    # Weights, inputs and h are rounded to the type; the sums have I + H = 9 products of them.
    epsilon = {"float32": 2**-24, "float16": 2**-11, "bfloat16": 2**-8}[layer.compute_dtype]
    assert_close(tf.cast(y, tf.float64), expected(x), 16 * epsilon)


def test_masks_are_refused_by_keras():
    model = tf_keras.Sequential([tf_keras.layers.Masking(), CuDNNLSTM(H)])
    with pytest.raises(ValueError, match="Masking is not supported for CuDNN RNNs"):
        model(inputs())


# ------------------------------------------------------------------------------------
# Models and files
# ------------------------------------------------------------------------------------


def model_of(make):
    """Two layers, one of them in both directions, whose names do not tell their class."""
    return tf_keras.Sequential(
        [
            tf_keras.Input([T, I]),
            make(H, return_sequences=True, name="first"),
            tf_keras.layers.Bidirectional(make(H, name="inner"), name="second"),
            tf_keras.layers.Dense(1, name="head"),
        ]
    )


def data():
    x = inputs(dtype="float32")
    return x, x.sum(axis=(1, 2))[:, None]


@pytest.mark.parametrize(("mode", "eagerly"), [("lstm", False), ("gru", True)])
def test_models(mode, eagerly, tmp_path):
    """Training, all that follows it, and training that goes on where it was saved."""
    x, y = data()
    cudnn, plain = LAYERS[mode]
    model = model_of(cudnn)
    randomise(model)
    model.compile("adam", "mse", run_eagerly=eagerly)
    losses = model.fit(x, y, epochs=5, batch_size=2, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < losses[0]

    prediction = model.predict(x, verbose=0)
    expected = model_of(plain)
    move_weights(model, expected, tmp_path)
    # In single, through two layers of at most 12 + 6 products: some tens of roundings.
    assert_close(prediction, expected(x), 5e-6)
    error = np.mean((prediction - y) ** 2)
    np.testing.assert_allclose(model.evaluate(x, y, verbose=0), error, rtol=1e-5)

    model.save(tmp_path / "model.h5")
    loaded = tf_keras.models.load_model(tmp_path / "model.h5")
    loaded.run_eagerly = eagerly  # which a file does not tell
    assert type(loaded.layers[0]) is cudnn
    assert type(loaded.layers[1].backward_layer) is cudnn
    np.testing.assert_array_equal(loaded(x), model(x))
    losses = [
        it.fit(x, y, epochs=3, batch_size=2, shuffle=False, verbose=0).history["loss"]
        for it in (model, loaded)
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)


def test_training_takes_the_same_course(tmp_path):
    """A GRU has as many biases as a CuDNNGRU, so that each step is the same."""
    x, y = inputs(), inputs(seed=1)[:, 0, :1]
    losses = []
    # To trace the plain layer takes longer than its few steps.
    for rnn, eagerly in zip(pair("gru", tmp_path), (False, True), strict=True):
        head = tf_keras.layers.Dense(1, kernel_initializer="ones", dtype="float64")
        model = tf_keras.Sequential([rnn, head])
        model.compile(tf_keras.optimizers.SGD(0.05), "mse", run_eagerly=eagerly)
        history = model.fit(x, y, epochs=6, batch_size=2, shuffle=False, verbose=0)
        losses.append(history.history["loss"])
    assert losses[0][-1] < 0.5 * losses[0][0]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)


@pytest.mark.parametrize("mode", LAYERS)
def test_weights_files_go_both_ways(mode, tmp_path):
    x, _ = data()
    cudnn, plain = LAYERS[mode]
    trained, ours, again = (model_of(make) for make in (plain, cudnn, cudnn))
    randomise(trained)
    move_weights(trained, ours, tmp_path)
    assert_close(ours(x), trained(x), 5e-6)
    move_weights(ours, again, tmp_path)
    for one, other in zip(again.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_array_equal(one, other)


# How each file of Keras 2 calls layers `one` and `two`.
FILES = {
    "a.h5": ["one", "two"],
    "a.keras": ["one", "two"],
    "a.weights.h5": ["layers/{}", "layers/{}_1"],
    "checkpoint": ["one", "two"],
    "exported": ["one", "two"],
}


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", LAYERS)
def test_weights_are_read_from_every_file(mode, direction, tmp_path):
    cudnn, _ = LAYERS[mode]
    layers = [cudnn(H, return_sequences=True, name=name) for name in ("one", "two")]
    class_name = "cu_dnnlstm" if mode == "lstm" else "cu_dnngru"
    if direction == "bidirectional":
        layers = [tf_keras.layers.Bidirectional(layer, name=layer.name) for layer in layers]
        class_name = "bidirectional"
    x = tf_keras.Input([None, I])
    model = tf_keras.Model(x, layers[1](layers[0](x)))
    randomise(model)
    arrays = [layer.get_weights() for layer in layers]
    expected = weights.from_keras_cudnn(arrays, mode, direction=direction).named
    for name, keys in FILES.items():
        path = tmp_path / name
        if name == "a.weights.h5" or name == "checkpoint":
            model.save_weights(path / "a" if name == "checkpoint" else path)
        elif name == "exported":
            model.export(path)
        else:
            model.save(path)
        found = weights.load(path, layer=[key.format(class_name) for key in keys]).named
        assert found.keys() == expected.keys()
        for key in expected:
            np.testing.assert_array_equal(found[key], expected[key], err_msg=f"{name} {key}")


def test_layers_that_are_no_stack(tmp_path):
    x = tf_keras.Input([None, I])
    y = CuDNNLSTM(H, return_sequences=True, name="one")(x)
    model = tf_keras.Model(x, tf_keras.layers.LSTM(H, name="two")(y))
    model.save(tmp_path / "a.keras")
    message = "the same kind, .* got .*lstm CuDNNLSTM or CuDNNGRU, .*lstm today's"
    with pytest.raises(ValueError, match=message):
        weights.load(tmp_path / "a.keras", layer=["one", "two"])
    weights.load(tmp_path / "a.keras", layer="one")
    backwards = tf_keras.Model(x, CuDNNLSTM(H, go_backwards=True, name="one")(x))
    backwards.save(tmp_path / "b.keras")
    message = "go_backwards must be False; it is True.* tf_cudnn_rnn.weights.from_keras_cudnn"
    with pytest.raises(ValueError, match=message):
        weights.load(tmp_path / "b.keras")


@pytest.mark.skipif(
    tf_keras.__version__.startswith("2.16."), reason="it cannot read what tf_keras 2.21 writes"
)
@pytest.mark.parametrize("name", ["lstm", "lstm_bidirectional", "gru", "gru_bidirectional"])
def test_golden_files(name):
    with np.load(GOLDEN / f"{name}.npz") as golden:
        x, y = golden["x"], golden["out_y"]
    model = tf_keras.models.load_model(GOLDEN / f"{name}.h5", compile=False)
    kinds = {type(getattr(layer, "layer", layer)) for layer in model.layers}
    assert kinds == {LAYERS[name.partition("_")[0]][0]}
    # Both in single: sums of at most 15 products, five steps, two layers.
    assert_close(model(x), y, 2e-6)
    if name == "lstm":
        model.set_weights([np.zeros_like(w) for w in model.get_weights()])
        model.load_weights(GOLDEN / "lstm_weights.h5")
        assert_close(model(x), y, 2e-6)


def test_export(tmp_path, capfd):
    x, _ = data()
    model = model_of(CuDNNGRU)
    randomise(model)
    model.export(str(tmp_path / "model"))
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    # In a graph TensorFlow makes one op of the head's, whose last bit may differ.
    assert_close(loaded.serve(x), model(x), 1e-6)
    capfd.readouterr()  # it describes the model at length
