"""to_keras() makes an equal model of stock layers of one with CudnnRNN."""

import dataclasses
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras import cudnn_rnn_stacks as stacks
from tests.keras.cudnn_rnn_stacks import LENGTHS, MASK, MODES, B, H, I, P, T
from tf_cudnn_rnn.keras import CudnnGRU, CudnnLSTM, CudnnRNN, to_keras
from tf_cudnn_rnn.keras._options import Options

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning"),
    # Keras says so of any Functional model within a model. It does hand masks on.
    pytest.mark.filterwarnings("ignore:.*was passed an input with a mask:UserWarning"),
]


def assert_equal(stock, model, data, tolerance=1e-12):
    for layer in stock._flatten_layers():
        assert type(layer).__module__.startswith("keras."), layer
    ours, theirs = tf.nest.flatten(model(data)), tf.nest.flatten(stock(data))
    for one, other in zip(theirs, ours, strict=True):
        assert one.dtype == other.dtype
        stacks.assert_close(one, other, tolerance=tolerance)


GRID = [  # each option with each other one, somewhere
    ("lstm", "bidirectional", False, "masking", True, True, False),
    ("lstm", "unidirectional", True, "lengths", False, True, True),
    ("lstm", "bidirectional", True, None, True, False, True),
    ("gru", "bidirectional", True, "mask", True, True, True),
    ("gru", "unidirectional", False, "masking", False, False, True),
    ("gru", "bidirectional", False, "lengths", True, False, False),
    ("rnn_tanh", "bidirectional", False, "mask", False, True, True),
    ("rnn_relu", "bidirectional", True, "masking", True, False, False),
    ("rnn_relu", "unidirectional", False, None, False, True, False),
]


@pytest.mark.parametrize(
    ("mode", "direction", "time_major", "mask", "initial", "sequences", "return_state"), GRID
)
def test_functional(mode, direction, time_major, mask, initial, sequences, return_state):
    layer = CudnnRNN(
        H,
        2,
        mode,
        direction,
        input_mode="skip_input" if mask else "linear_input",
        time_major=time_major,
        return_sequences=sequences,
        return_state=return_state,
        dropout=0.5,
        dtype="float64",
        name="rnn",
    )

    def swap(array):
        return array.swapaxes(0, 1) if time_major else array

    x = keras.Input(batch_shape=[None, None, H], dtype="float64")
    tensors, keywords, data = [x], {}, [stacks.inputs(H, time_major=time_major)]
    if mask == "masking":
        x = keras.layers.Masking(dtype="float64")(x)
        data[0] = np.where(swap(MASK)[..., None], data[0], 0)
    elif mask == "lengths":
        keywords["sequence_lengths"] = keras.Input(batch_shape=[None], dtype="int32")
        data.append(LENGTHS)
    elif mask == "mask":
        keywords["mask"] = keras.Input(batch_shape=[None, None], dtype="bool")
        data.append(swap(MASK))
    tensors += keywords.values()
    if initial:
        axis = 1 if time_major else 0
        shapes = [list(zero.shape) for zero in layer.get_initial_state(1)]
        for shape in shapes:
            shape[axis] = None
        states = [keras.Input(batch_shape=shape, dtype="float64") for shape in shapes]
        keywords["initial_state"] = tuple(states)
        tensors += states
        data += stacks.states(layer)
    model = keras.Model(tensors, layer(x, **keywords))
    stacks.randomise(model)
    stock = to_keras(model)
    assert_equal(stock, model, [tf.constant(array) for array in data])
    inner = stock.get_layer("rnn")
    assert [type(l).__name__ for l in inner.layers].count("Dropout") == 1


@pytest.mark.parametrize("policy", ["mixed_float16", "bfloat16"])
def test_sequential_and_nested(policy):
    model = keras.Sequential(
        [
            keras.Input([None, I]),
            keras.layers.Masking(),
            CudnnGRU(H, 2, direction="bidirectional", return_sequences=True, dtype=policy),
            tf_cudnn_rnn.keras.LSTM(H, return_sequences=True),
            keras.Sequential([keras.Input([None, H]), CudnnLSTM(H, 2, return_sequences=True)]),
            keras.layers.BatchNormalization(),
            keras.layers.TimeDistributed(keras.layers.Dense(2)),
        ]
    )
    stacks.randomise(model)
    x = np.where(MASK[..., None], stacks.inputs(dtype="float32"), 0)
    assert_equal(to_keras(model), model, x, tolerance={"mixed_float16": 2**-7}.get(policy, 2**-4))


@pytest.mark.parametrize("kind", ["functional", "sequential"])
def test_masks_reach_the_layers_after_it(kind):
    layers = [
        keras.layers.Masking(),
        CudnnGRU(H, 2, direction="bidirectional", return_sequences=True),
        keras.layers.GlobalAveragePooling1D(),  # of the valid steps
    ]
    inputs = keras.Input([None, I])
    if kind == "functional":
        y = inputs
        for layer in layers:
            y = layer(y)
        model = keras.Model(inputs, y)
    else:
        model = keras.Sequential([inputs, *layers])
    stacks.randomise(model)
    mask = MASK[MASK.any(axis=1)]  # of nothing there is no average
    x = np.where(mask[..., None], stacks.inputs(dtype="float32")[: len(mask)], 0)
    assert_equal(to_keras(model), model, x, tolerance=1e-6)
    of_all_steps = tf.reduce_mean(layers[1](x, mask=mask), axis=1)
    assert np.abs(model(x) - of_all_steps).max() > 0.01  # the mask matters there


def test_masks_of_time_major_layers():
    """A Sequential model's masks come with tensors, which are transposed here."""
    x = tf.transpose(tf.where(MASK[..., None], stacks.inputs(dtype="float32"), 0), [1, 0, 2])
    inputs = keras.Input(batch_shape=[None, None, I])
    masked = keras.layers.Masking()(inputs)
    model = keras.Model(inputs, CudnnGRU(H, time_major=True, name="rnn")(masked))
    stacks.randomise(model)
    assert_equal(to_keras(model), model, x, tolerance=1e-6)
    sequential = keras.Sequential(model.layers)
    np.testing.assert_array_equal(sequential(x), model(x))
    with pytest.raises(ValueError, match="Layer 'rnn' .* must be batch-major.*time_major=True"):
        to_keras(sequential)
    without = keras.Sequential([inputs, model.layers[-1]])
    assert_equal(to_keras(without), without, x, tolerance=1e-6)


def test_wrapped_single_and_stateful():
    layer = CudnnLSTM(H, 2, dtype="float64")
    model = keras.Sequential([keras.Input([2, T, I]), keras.layers.TimeDistributed(layer)])
    stacks.randomise(model)
    x = np.random.default_rng(0).normal(size=[B, 2, T, I])
    assert_equal(to_keras(model), model, x, tolerance=1e-6)  # the wrapper is in float32
    layer = stacks.built("gru", direction="bidirectional", return_state=True)
    assert_equal(to_keras(layer), layer, stacks.inputs())
    layer = CudnnLSTM(H, 2, stateful=True, dtype="float64")
    model = keras.Sequential([keras.Input(batch_shape=[B, T, I], dtype="float64"), layer])
    stacks.randomise(model)
    stock = to_keras(model)
    for _ in range(3):  # the states go on
        assert_equal(stock, model, stacks.inputs())


@pytest.mark.parametrize("time_major", [False, True])
def test_any_number_of_steps_and_rows(time_major):
    """Whatever the layer was built for."""
    layer = CudnnLSTM(H, time_major=time_major)
    layer(np.zeros([2, 2, I], "float32"))
    stock = to_keras(layer)
    x = stacks.inputs(dtype="float32")[:3]
    np.testing.assert_allclose(stock(x), layer(x), atol=1e-6)
    inputs = [keras.Input([T, I]), keras.Input([T + 2, I])]
    model = keras.Model(inputs, list(map(layer, inputs)))
    x = [x, np.concatenate([x, x[:, :2]], axis=1)]
    for one, other in zip(to_keras(model)(x), model(x), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_shared_layers():
    x = keras.Input([T, H])
    layer = CudnnGRU(H, 2, return_sequences=True, name="rnn")
    once = layer(x)
    model = keras.Model(x, layer(once))
    stacks.randomise(model)
    x = stacks.inputs(H, "float32")
    assert_equal(to_keras(model), model, x, tolerance=1e-6)
    both = keras.Model(model.input, {"once": once, "twice": model.output})
    assert_equal(to_keras(both), both, x, tolerance=1e-6)
    x, h = model.input, keras.Input([2, H])
    model = keras.Model([x, h], layer(layer(x), initial_state=[h]))
    with pytest.raises(ValueError, match="'rnn' must be called with the same arguments everywhere"):
        to_keras(model)


def test_the_file_needs_no_library(tmp_path):
    x = keras.Input([None, I])
    lengths = keras.Input([], dtype="int32")
    y, h = CudnnGRU(H, 2, direction="bidirectional", return_state=True)(x, sequence_lengths=lengths)
    model = keras.Model([x, lengths], [y, h])
    stacks.randomise(model)
    path = tmp_path / "model.keras"
    to_keras(model).save(path)
    with zipfile.ZipFile(path) as file:
        assert b"tf_cudnn_rnn" not in file.read("config.json")
    data = [stacks.inputs(dtype="float32"), LENGTHS]
    assert_equal(keras.saving.load_model(path), model, data, tolerance=1e-6)


def test_what_stock_layers_cannot_do():
    layer = stacks.built(num_proj=P, name="rnn")
    with pytest.raises(
        ValueError, match="'rnn' has num_proj=2, and no stock Keras layer proj.*as_='builtin'"
    ):
        to_keras(layer)

    @keras.saving.register_keras_serializable(package="cudnn_rnn_to_keras_test")
    class MadeInCode(keras.layers.Layer):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.inner = CudnnGRU(H, name="inner")

        def build(self, input_shape):
            self.inner.build(input_shape)

        def call(self, x):
            return self.inner(x)

    model = keras.Sequential([keras.Input([T, I]), MadeInCode()])
    with pytest.raises(ValueError, match="must name its layers in its config; .* makes inner in"):
        to_keras(model)
    with pytest.raises(ValueError, match="`model` must be built"):
        to_keras(CudnnGRU(H))


@pytest.mark.parametrize("mode", MODES)
def test_regularisers_come_along(mode):
    options = {
        "kernel_regularizer": keras.regularizers.L2(0.123),
        "recurrent_regularizer": keras.regularizers.L1(0.456),
    }
    layer = stacks.built(mode, direction="bidirectional", **options)
    np.testing.assert_allclose(sum(to_keras(layer).losses), sum(layer.losses), rtol=1e-6)


def test_an_activity_regularizer_has_no_place_in_stock_layers():
    layer = stacks.built("gru", activity_regularizer="l2")
    with pytest.raises(ValueError, match="`activity_regularizer` of layer .* must be None"):
        tf_cudnn_rnn.keras.to_keras(layer)


# What stock layers have of each argument of CudnnRNN, so that a new one is not lost unnoticed.
OPTIONS = {
    "of the same name": (
        *("return_state", "stateful", "kernel_regularizer", "recurrent_regularizer"),
        *("bias_regularizer", "kernel_constraint", "recurrent_constraint", "bias_constraint"),
    ),
    "another layer, wrapper or input, or units": (
        *("num_units", "num_layers", "rnn_mode", "direction", "dropout", "seed", "time_major"),
        "return_sequences",
    ),
    "other weights": ("input_mode",),
    "refused": ("num_proj",),
    "none: weights have their values": (
        *("kernel_initializer", "recurrent_initializer", "bias_initializer", "unit_forget_bias"),
        "separate_weights",
    ),
}


def test_each_option_of_the_layer_has_been_thought_of():
    thought_of = [name for names in OPTIONS.values() for name in names]
    assert sorted(thought_of) == sorted(field.name for field in dataclasses.fields(Options))


def test_options_of_the_same_name_are_handed_on():
    given = {
        "stateful": True,
        "return_state": True,
        **{
            f"{kind}_regularizer": keras.regularizers.L2(number)
            for number, kind in enumerate(("kernel", "recurrent", "bias"), 1)
        },
        **{
            f"{kind}_constraint": keras.constraints.MaxNorm(number)
            for number, kind in enumerate(("kernel", "recurrent", "bias"), 1)
        },
    }
    assert sorted(given) == sorted(OPTIONS["of the same name"])
    layer = CudnnGRU(H, separate_weights=True, name="rnn", **given)
    inputs = keras.Input(batch_shape=[B, T, I])
    stock = to_keras(keras.Model(inputs, layer(inputs)))
    (gru,) = (each for each in stock._flatten_layers() if isinstance(each, keras.layers.GRU))
    for name in given:
        one, other = getattr(gru, name), getattr(layer, name)
        assert type(one) is type(other), name
        if isinstance(one, bool):
            assert one == other, name
        else:
            assert one.get_config() == other.get_config(), name
