"""Inside accelerate() Keras' own layers run fused, and nothing else changes."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras import pairs
from tests.keras.pairs import LAYERS, MASK, H, I, T
from tf_cudnn_rnn.keras import _accelerate, accelerate

CLASSES = [getattr(keras.layers, name) for name in LAYERS]


@pytest.fixture(autouse=True)
def _keras_is_left_as_it_was():
    before = [vars(cls).get("inner_loop") for cls in CLASSES]
    assert before[2] is None  # SimpleRNN inherits it
    yield
    assert [vars(cls).get("inner_loop") for cls in CLASSES] == before


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("mask", [None, MASK], ids=["full", "masked"])
def test_same_results(name, mask):
    layer, _ = pairs.pair(name, return_sequences=True, return_state=True)
    stock = getattr(keras.layers, name)(
        H, return_sequences=True, return_state=True, dtype="float64"
    )
    stock.build((None, T, I))
    stock.set_weights(layer.get_weights())
    mask = None if mask is None else tf.constant(mask)
    x = pairs.inputs()
    expected = pairs.outputs_and_gradients(stock, x, mask=mask)
    with accelerate():  # a layer that exists
        actual = pairs.outputs_and_gradients(stock, x, mask=mask)
        assert stock.runs_fused
    for one, other in zip(actual[0] + actual[1], expected[0] + expected[1], strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-11)
    after = pairs.outputs_and_gradients(stock, x, mask=mask)
    np.testing.assert_array_equal(after[0][0], expected[0][0])


def test_layers_to_come_wrapped_ones_and_subclasses():
    class Subclass(keras.layers.GRU):
        pass

    x = pairs.inputs("float32")
    with accelerate():
        wrapped = keras.layers.Bidirectional(keras.layers.SimpleRNN(H))
        wrapped(x)
        subclass = Subclass(H)
        subclass(x)
        other = keras.layers.RNN(keras.layers.LSTMCell(H))
        other(x)
    assert wrapped.backward_layer.runs_fused and subclass.runs_fused
    assert not hasattr(other, "runs_fused")


def test_falls_back_as_the_drop_ins():
    x = pairs.inputs("float32")
    with accelerate():
        relu = keras.layers.LSTM(H, activation="relu")
        relu(x)
        assert relu.fallback_reason == "activation must be tanh; got relu"
        off = keras.layers.LSTM(H, use_cudnn=False)
        off(x)
        assert off.runs_fused is False
        ours = tf_cudnn_rnn.keras.LSTM(H, activation="relu")
        ours(x)
        assert ours.runs_fused is False


def test_call_and_undo():
    layer = keras.layers.LSTM(H)
    x = pairs.inputs("float32")
    acceleration = accelerate()
    try:
        with accelerate():
            pass
        layer(x)  # the inner block has not ended the outer one
        assert layer.runs_fused
    finally:
        acceleration.undo()
    acceleration.undo()  # once more does nothing
    layer.runs_fused = None
    layer(x)
    assert layer.runs_fused is None


def test_undone_after_an_error():
    with pytest.raises(KeyError), accelerate():
        raise KeyError


def test_fit():
    x, y = pairs.inputs("float32"), np.zeros([len(MASK), 1], np.float32)
    losses = []
    for accelerated in (False, True):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.layers.LSTM(H), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        if accelerated:
            with accelerate():
                history = model.fit(x, y, epochs=3, verbose=0)
            assert model.layers[0].runs_fused
        else:
            history = model.fit(x, y, epochs=3, verbose=0)
        losses.append(history.history["loss"])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-5)


def test_untested_keras(monkeypatch):
    monkeypatch.setattr(_accelerate.keras, "__version__", "3.99.1")
    with pytest.raises(RuntimeError, match=r"tested with Keras 3.*; found 3\.99\.1\. Use the lay"):
        accelerate()


@pytest.mark.parametrize("layer_class", [keras.layers.LSTM, keras.layers.SimpleRNN])
def test_what_xla_compiles_runs_in_the_loop(layer_class):
    model = keras.Sequential([keras.Input([5, 3]), layer_class(4)])
    model.compile("sgd", "mse", jit_compile=True)
    x, y = np.ones([8, 5, 3], np.float32), np.ones([8, 4], np.float32)
    with accelerate():
        model.fit(x, y, verbose=0)
        assert model.layers[0].fallback_reason.startswith("jit_compile must be False")
    assert model.jit_compile
