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
MAKERS = ["make_train_function", "make_test_function", "make_predict_function"]


@pytest.fixture(autouse=True)
def _keras_is_left_as_it_was():
    before = [vars(cls).get("inner_loop") for cls in CLASSES]
    assert before[2] is None  # SimpleRNN inherits it
    makers = [getattr(keras.Model, name) for name in MAKERS]
    yield
    assert [vars(cls).get("inner_loop") for cls in CLASSES] == before
    assert [getattr(keras.Model, name) for name in MAKERS] == makers
    assert not vars(keras.Model).keys() & set(MAKERS)


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
    with accelerate() as acceleration:  # a layer that exists
        actual = pairs.outputs_and_gradients(stock, x, mask=mask)
        assert stock.runs_fused
        assert repr(acceleration) == "<acceleration of all keras.layers.LSTM, GRU and SimpleRNN>"
    assert repr(acceleration) == "<acceleration of no layers>"
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


def test_a_loop_of_ones_own_is_left_alone():
    class Doubled(keras.layers.SimpleRNN):
        def inner_loop(self, *args, **kwargs):
            self.ran = True
            return super().inner_loop(*args, **kwargs)

    layer = Doubled(H)
    other = keras.layers.SimpleRNN(H)
    model = keras.Sequential(
        [keras.layers.RepeatVector(T), layer, keras.layers.RepeatVector(T), other]
    )
    with accelerate(model):
        model(tf.zeros([2, I]))
    assert layer.ran and other.runs_fused
    assert not hasattr(layer, "runs_fused")


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


def test_what_must_run_fused_and_cannot_is_told_by_the_name_of_its_argument():
    layer = keras.layers.LSTM(3, activation="relu", use_cudnn=True)
    never = keras.layers.LSTM(3, use_cudnn=False)
    with tf_cudnn_rnn.keras.accelerate():
        with pytest.raises(ValueError, match="has use_cudnn=True but .* Pass use_cudnn='auto'"):
            layer(tf.zeros([2, 4, 3]))
        never(tf.zeros([2, 4, 3]))
    assert never.fallback_reason == "use_cudnn is False"


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


def test_after_the_block_models_run_in_keras_loop_again(monkeypatch):
    model, (x, _) = _model(), _x_and_y()
    layer = model.layers[0]
    with accelerate():
        expected = model.predict(x, verbose=0)
        assert layer.runs_fused
    assert layer.runs_fused  # the last call did
    traced = []
    loop = keras.layers.LSTM.inner_loop

    def recorded(self, *args, **kwargs):
        traced.append(self)
        return loop(self, *args, **kwargs)

    monkeypatch.setattr(keras.layers.LSTM, "inner_loop", recorded)
    np.testing.assert_allclose(model.predict(x, verbose=0), expected, atol=1e-6)
    assert traced == [layer]


def test_undone_after_an_error():
    with pytest.raises(KeyError), accelerate():
        raise KeyError


def test_fit():
    x, y = pairs.inputs("float32"), np.zeros([len(MASK), 1], np.float32)
    losses = []
    for accelerated in (False, True):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.layers.LSTM(H), keras.layers.Dense(1)])
        model.compile("sgd", "mse", run_eagerly=not accelerated)  # the loop takes long to trace
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


# ------------------------------------------------------------------------------------
# What was traced before
# ------------------------------------------------------------------------------------


def _model(layer=None):
    model = keras.Sequential([layer or keras.layers.LSTM(H), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def _x_and_y():
    return pairs.inputs("float32"), np.zeros([len(MASK), 1], np.float32)


USES = {
    "fit": lambda model, x, y: model.fit(x, y, verbose=0),
    "evaluate": lambda model, x, y: model.evaluate(x, y, verbose=0),
    "predict": lambda model, x, y: model.predict(x, verbose=0),
    "train_on_batch": lambda model, x, y: model.train_on_batch(x, y),
}


@pytest.mark.parametrize("use", list(USES))
def test_a_model_that_was_used_before_is_traced_again(use):
    model, (x, y) = _model(), _x_and_y()
    USES[use](model, x, y)
    with accelerate():
        assert not hasattr(model.layers[0], "runs_fused")
        USES[use](model, x, y)
        assert model.layers[0].runs_fused


def test_it_is_traced_again_once():
    model, (x, y) = _model(), _x_and_y()
    with accelerate():
        model.fit(x, y, verbose=0)
        function = model.train_function
        model.fit(x, y, verbose=0)
        with accelerate():
            model.fit(x, y, verbose=0)
        assert model.train_function is function


def test_a_model_without_stock_layers_is_not_traced_again():
    model, (x, y) = _model(tf_cudnn_rnn.keras.LSTM(H)), _x_and_y()
    model.fit(x, y, verbose=0)
    function = model.train_function
    with accelerate():
        model.fit(x, y, verbose=0)
    assert model.train_function is function


# ------------------------------------------------------------------------------------
# One model
# ------------------------------------------------------------------------------------


def test_one_model():
    one, other, (x, y) = _model(), _model(), _x_and_y()
    one.fit(x, y, verbose=0)
    expected = one.predict(x, verbose=0)
    acceleration = accelerate(one)
    assert repr(acceleration) == f"<acceleration of {one.name!r}: {one.layers[0].name}>"
    np.testing.assert_allclose(one.predict(x, verbose=0), expected, atol=1e-6)
    assert one.layers[0].runs_fused
    other.run_eagerly = True  # Keras' loop takes long to trace
    other.fit(x, y, verbose=0)
    assert not hasattr(other.layers[0], "runs_fused")
    acceleration.undo()
    acceleration.undo()  # once more does nothing
    assert repr(acceleration) == f"<acceleration of {one.name!r}: no layers>"
    one.layers[0].runs_fused = None
    np.testing.assert_array_equal(one.predict(x, verbose=0), expected)
    assert one.layers[0].runs_fused is None


def test_one_model_twice():
    model, x = _model(), _x_and_y()[0]
    first = accelerate(model)
    with accelerate(model):
        first.undo()
        model(x)
        assert model.layers[0].runs_fused
    model.layers[0].runs_fused = None
    model(x)
    assert model.layers[0].runs_fused is None


def test_layers_at_any_depth_and_models_inside():
    inner = keras.Sequential(
        [keras.layers.Bidirectional(keras.layers.GRU(H)), keras.layers.Dense(1)]
    )
    inner.compile("sgd", "mse")
    x, y = _x_and_y()
    inner.fit(x, y, verbose=0)
    model = keras.Sequential([inner, keras.layers.Dense(1)])
    with accelerate(model):
        inner.fit(x, y, verbose=0)
        assert inner.layers[0].forward_layer.runs_fused
        assert inner.layers[0].backward_layer.runs_fused


def test_one_layer():
    layer = keras.layers.SimpleRNN(H)
    with accelerate(layer):
        layer(pairs.inputs("float32"))
    assert layer.runs_fused


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_an_accelerated_model_is_saved_as_it_is(tmp_path):
    model, x = _model(), _x_and_y()[0]
    expected = model.predict(x, verbose=0)
    with accelerate(model):
        model.save(tmp_path / "model.keras")
        clone = keras.models.clone_model(model)
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(x, verbose=0), expected)
    clone(x)
    for copy in (loaded, clone):
        assert type(copy.layers[0]) is keras.layers.LSTM
        assert not hasattr(copy.layers[0], "runs_fused")


def test_nothing_to_accelerate_is_told():
    model = _model(tf_cudnn_rnn.keras.LSTM(H))
    with pytest.warns(UserWarning, match="has no effect: the model has no keras.layers.LSTM"):
        accelerate(model).undo()


@pytest.mark.parametrize("model", ["model.keras", keras.layers.LSTM])
def test_no_model(model):
    with pytest.raises(TypeError, match="`model` must be a Keras model or layer; got"):
        accelerate(model)


def test_what_somebody_has_set_stays():
    both = keras.layers.Bidirectional(keras.layers.LSTM(H))
    alone = keras.layers.GRU(H, return_sequences=True)
    x = pairs.inputs("float32")
    model = keras.Sequential([alone, both])
    model(x)
    keras_call, keras_loop = both.call, alone.inner_loop
    both.call = lambda *args, **kwargs: 3 * keras_call(*args, **kwargs)
    alone.inner_loop = lambda *args, **kwargs: (
        [-one for one in keras_loop(*args, **kwargs)[:2]] + [keras_loop(*args, **kwargs)[2]]
    )
    expected = model(x)
    with accelerate(model):
        np.testing.assert_allclose(model(x), expected, atol=1e-6)
        assert both.forward_layer.runs_fused and not hasattr(alone, "runs_fused")
    np.testing.assert_array_equal(model(x), expected)


def test_what_somebody_sets_meanwhile_stays():
    layer = keras.layers.LSTM(H)
    with accelerate(layer):
        keras_loop = layer.inner_loop
        layer.inner_loop = own = lambda *args, **kwargs: keras_loop(*args, **kwargs)
        with pytest.warns(UserWarning, match="no keras.layers.LSTM, .* that runs Keras' loop"):
            accelerate(layer).undo()
        assert layer.inner_loop is own
    assert layer.inner_loop is own


def test_xla_does_not_compile_while_all_layers_are_accelerated():
    layer = keras.layers.LSTM(H)
    with accelerate():
        with accelerate(layer):
            layer(pairs.inputs("float32"))
        assert not layer.supports_jit
    assert layer.supports_jit


@pytest.mark.parametrize("whole", [False, True])
def test_xla_compiles_again_after_the_end(whole):
    layer = keras.layers.LSTM(H)
    with accelerate(None if whole else layer):
        layer(pairs.inputs("float32"))
        assert layer.runs_fused and not layer.supports_jit
        ours = tf_cudnn_rnn.keras.LSTM(H)
        ours(pairs.inputs("float32"))
    assert layer.supports_jit
    assert not ours.supports_jit
