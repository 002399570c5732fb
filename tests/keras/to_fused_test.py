"""to_fused() makes an equal model of drop-ins of one that is in memory."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras import pairs
from tests.keras.files_test import assert_same_model, is_drop_in, model_of, recurrent_layers
from tests.keras.pairs import LAYERS, H, I, T
from tf_cudnn_rnn.keras import load_model, to_fused, to_keras


@pytest.mark.parametrize("name", LAYERS)
def test_layers_at_any_depth(name):
    model = model_of(keras.layers, name)
    pairs.randomise(model)
    fused = to_fused(model)
    assert len(recurrent_layers(fused)) == 5
    assert all(map(is_drop_in, recurrent_layers(fused)))
    assert not any(map(is_drop_in, recurrent_layers(model)))
    assert [it.name for it in fused._flatten_layers()] == [
        it.name for it in model._flatten_layers()
    ]
    assert_same_model(fused, model)
    assert all(layer.runs_fused for layer in recurrent_layers(fused))
    # A copy: changing one leaves the other alone.
    model.set_weights([np.zeros_like(w) for w in model.get_weights()])
    assert all(w.any() for w in fused.get_weights())


def test_one_layer():
    _, stock = pairs.pair("GRU", return_sequences=True)
    fused = to_fused(stock)
    assert type(fused) is tf_cudnn_rnn.keras.GRU
    np.testing.assert_allclose(fused(pairs.inputs()), stock(pairs.inputs()), atol=1e-12)


def compiled(**options) -> keras.Model:
    keras.utils.set_random_seed(3)
    layers = [keras.layers.LSTM(H, name="rnn"), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([T, I]), *layers])
    optimizer = keras.optimizers.Adam(0.01)
    # Eagerly by default: a graph takes far longer to make than these few steps.
    defaults = {"optimizer": optimizer, "loss": "mse", "metrics": ["mae"], "run_eagerly": True}
    model.compile(**{**defaults, **options})
    return model


def data() -> tuple[np.ndarray, np.ndarray]:
    x = pairs.inputs("float32")
    return x, x.sum(axis=(1, 2))[:, None]


def trained(**options) -> keras.Model:
    model = compiled(**options)
    model.fit(*data(), epochs=2, verbose=0)
    return model


@pytest.mark.parametrize(("optimizer", "eagerly"), [("adam", False), ("rmsprop", True)])
def test_training_goes_on(optimizer, eagerly):
    model = trained(optimizer=optimizer, run_eagerly=eagerly)
    fused = to_fused(model)
    back = to_keras(fused)
    assert type(back.layers[0]) is keras.layers.LSTM
    histories = [m.fit(*data(), epochs=3, verbose=0).history for m in (model, fused, back)]
    assert {"loss", "mae"} <= histories[0].keys()
    for history in histories[1:]:
        np.testing.assert_allclose(history["loss"], histories[0]["loss"], rtol=1e-5)
    assert int(fused.optimizer.iterations) == 5


def own_activation(x):
    return keras.ops.tanh(x)


def own_loss(y, predicted):
    return keras.ops.mean((y - predicted) ** 2)


class OwnLoss(keras.losses.Loss):
    def call(self, y, predicted):
        return own_loss(y, predicted)


class OwnMetric(keras.metrics.MeanSquaredError):
    pass


class OwnSchedule(keras.optimizers.schedules.LearningRateSchedule):
    def __call__(self, step):
        return 0.01

    def get_config(self):
        return {}


@pytest.mark.parametrize(
    "options",
    [
        lambda: {"loss": own_loss},
        lambda: {"loss": lambda y, predicted: keras.ops.mean((y - predicted) ** 2)},
        lambda: {"loss": OwnLoss()},
        lambda: {"metrics": [OwnMetric(name="own"), own_loss]},
        lambda: {"optimizer": keras.optimizers.SGD(OwnSchedule(), momentum=0.5)},
    ],
    ids=["loss", "lambda", "class of a loss", "metrics", "schedule"],
)
def test_own_objects_of_compile_need_no_registration(options):
    model = trained(**options())
    fused = to_fused(model)
    back = to_keras(fused)
    histories = [m.fit(*data(), epochs=2, verbose=0).history for m in (model, fused, back)]
    for history in histories[1:]:
        assert history.keys() == histories[0].keys()
        np.testing.assert_allclose(history["loss"], histories[0]["loss"], rtol=1e-5)


def _dense_between(*activations) -> keras.Model:
    layers = [keras.layers.Dense(I, activation=activation) for activation in activations]
    return keras.Sequential([keras.Input([T, I]), *layers, keras.layers.LSTM(H)])


def test_own_functions_of_layers_need_no_registration():
    model = _dense_between(own_activation)
    assert_same_model(to_fused(model), model)
    assert to_fused(model).layers[0].activation is own_activation


def test_an_own_function_of_the_name_of_an_activation_is_refused():
    """A config has the name alone, and Keras would take its own."""

    def tanh(x):
        return 0.5 * tf.tanh(x)

    model = keras.Sequential([keras.Input([T, I]), keras.layers.LSTM(H, activation=tanh)])
    with pytest.raises(ValueError, match="'tanh' has the name of an activation of Keras"):
        to_fused(model)
    model = _dense_between(keras.saving.register_keras_serializable("to_fused_test")(tanh))
    assert_same_model(to_fused(model), model)


def _sharing(where: str) -> tuple[keras.Model, keras.Layer]:
    """A model that calls one layer twice, and the layer."""
    layer = keras.layers.LSTM(I, return_sequences=True, name="shared")
    inner = keras.Sequential([keras.Input([T, I]), layer])
    x = keras.Input([T, I])
    if where == "one model":
        return keras.Model(x, layer(layer(x))), layer
    if where == "one inner model":
        return keras.Model(x, inner(inner(x))), layer
    if where == "an own model":
        return _Holder(inner), layer
    if where == "a wrapper":
        again = keras.layers.Bidirectional(layer)
        again.forward_layer = layer
        return keras.Model(x, again(layer(x))), layer
    return keras.Model(x, layer(inner(x))), layer


@keras.saving.register_keras_serializable("to_fused_test")
class _Holder(keras.Model):
    """Knows a layer of its inner model."""

    def __init__(self, inner, **options):
        super().__init__(**options)
        self.inner = inner
        self.known = inner.layers[0]

    def call(self, x):
        return self.known(self.inner(x))

    def get_config(self):
        return {"inner": keras.saving.serialize_keras_object(self.inner)}

    @classmethod
    def from_config(cls, config):
        return cls(keras.saving.deserialize_keras_object(config["inner"]))


@pytest.mark.parametrize("where", ["one model", "one inner model", "an own model"])
def test_layers_that_are_called_twice_stay_one(where):
    model, layer = _sharing(where)
    x = pairs.inputs("float32")
    expected = model(x)
    fused = to_fused(model)
    assert len(fused.weights) == len(layer.weights)
    np.testing.assert_allclose(fused(x), expected, atol=1e-6)


@pytest.mark.parametrize("where", ["two models", "a wrapper"])
@pytest.mark.parametrize("convert", [to_fused, to_keras])
def test_layers_in_two_places_are_refused(where, convert):
    with pytest.raises(ValueError, match="'shared' is in several models or wrappers"):
        convert(_sharing(where)[0])


def test_what_keras_cannot_make_again_is_said_with_the_way_out():
    def another():
        def own_activation(x):
            return x

        return own_activation

    with pytest.raises(ValueError, match="two classes or functions.*own_activation.*accelerate"):
        to_fused(_dense_between(own_activation, another()))
    with pytest.raises(ValueError, match="two classes .*register_keras_serializable"):
        to_keras(_dense_between(own_activation, another()))
    model = keras.Sequential(
        [
            keras.Input([T, I]),
            keras.layers.LSTM(H, kernel_initializer=lambda *_, **__: np.ones([I, 4 * H])),
        ]
    )
    with pytest.raises(ValueError, match="`model` must be of what Keras can make again.*accelerat"):
        to_fused(model)


def test_a_model_that_has_not_been_trained_or_compiled():
    fused = to_fused(compiled())
    fused.fit(*data(), verbose=0)
    model = keras.Sequential([keras.Input([T, I]), keras.layers.LSTM(H)])
    assert not to_fused(model).compiled


def test_state_of_frozen_layers_is_not_mistaken():
    model = trained()
    model.get_layer("rnn").trainable = False
    with pytest.warns(UserWarning, match="optimiser of 'sequential.*starts anew"):
        fused = to_fused(model)
    assert not fused.get_layer("rnn").trainable
    assert int(fused.optimizer.iterations) == 0


def test_own_layers_functions_and_losses():
    class Twice(keras.layers.Layer):
        def call(self, x):
            return 2 * x

    layers = [Twice(), keras.layers.LSTM(H), keras.layers.Lambda(lambda x: x + 1)]
    model = keras.Sequential([keras.Input([T, I]), *layers])
    x = pairs.inputs("float32")
    for make in (to_fused, to_keras):
        np.testing.assert_allclose(make(model)(x), model(x), atol=1e-6)


def test_a_cell_stays():
    layers = [
        keras.layers.GRU(H, return_sequences=True),
        keras.layers.RNN([keras.layers.LSTMCell(H), keras.layers.GRUCell(H)]),
    ]
    fused = to_fused(keras.Sequential([keras.Input([T, I]), *layers]))
    assert type(fused.layers[0]) is tf_cudnn_rnn.keras.GRU
    assert type(fused.layers[1]) is keras.layers.RNN


class InCode(keras.Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rnn = keras.layers.LSTM(H, name="inside")

    def build(self, shape):
        self.rnn.build(shape)

    def call(self, x):
        return self.rnn(x)


class WithoutConfig(InCode):
    def get_config(self):
        raise NotImplementedError


class OwnLstm(keras.layers.LSTM):
    pass


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (InCode(), "InCode makes inside in code, or of subclasses"),
        (WithoutConfig(), "must have a config of which to make another one; WithoutConfig has"),
        (keras.Sequential([OwnLstm(H, name="own")]), "Sequential makes own in code, or of sub"),
    ],
    ids=["in code", "without config", "a subclass"],
)
def test_what_is_for_accelerate(model, message):
    model(tf.zeros([2, T, I]))
    with pytest.raises(ValueError, match=f"{message}.*Call tf_cudnn_rnn.keras.accelerate.model."):
        to_fused(model)


class WithoutArguments(InCode):
    """As most people write it: its config has arguments that it does not take."""

    def __init__(self):
        super().__init__()


def test_a_class_that_keras_cannot_make_again():
    model = WithoutArguments()
    model(tf.zeros([2, T, I]))
    for make, way_out in ((to_fused, "Call .*accelerate"), (to_keras, "Register its own classes")):
        with pytest.raises(ValueError, match=rf"WithoutArguments is not: .*\. {way_out}"):
            make(model)


def test_it_says_what_is_wrong():
    with pytest.raises(ValueError, match="`model` must be built, or it has no weights"):
        to_fused(keras.layers.LSTM(H))
    with pytest.raises(TypeError, match="got str. For a .keras file there is .*load_model"):
        to_fused("model.keras")
    dense = keras.Sequential([keras.Input([I]), keras.layers.Dense(1)])
    with pytest.warns(UserWarning, match="to_fused.* has no effect: the model has no"):
        to_fused(dense)


def test_load_model_of_a_model_says_what_to_call():
    with pytest.raises(TypeError, match=r"got the model 'sequential.*to_fused\(model\).*accelera"):
        load_model(compiled())


def _adapted(split: str) -> keras.Model:
    words = keras.layers.TextVectorization(output_sequence_length=T, split=split, standardize=None)
    words.adapt(["one\ntwo three\n", "two three", "three"])
    scale = keras.layers.Normalization()
    scale.adapt(100 + 50 * np.random.default_rng(1).normal(size=[100, I]))
    texts, numbers = keras.Input([], dtype="string"), keras.Input([T, I])
    embedded = keras.layers.Embedding(words.vocabulary_size(), I)(words(texts))
    joined = keras.layers.Concatenate()([embedded, scale(numbers)])
    return keras.Model([texts, numbers], keras.layers.LSTM(H)(joined))


@pytest.mark.parametrize("split", ["whitespace", "character"])  # of which an end of line is one
def test_what_layers_learned_by_adapt_comes_along(split):
    """It is in no weight: a vocabulary, and what a Normalization computes with."""
    model = _adapted(split)
    numbers = 100 + 50 * pairs.inputs("float32")
    inputs = [tf.constant(["two\none"] * len(numbers)), tf.constant(numbers)]
    expected = model(inputs)
    fused = to_fused(model)
    np.testing.assert_allclose(fused(inputs), expected, atol=1e-6)
    np.testing.assert_allclose(to_keras(fused)(inputs), expected, atol=1e-6)


@pytest.mark.parametrize("separate_weights", [False, True])
def test_what_layers_learned_by_adapt_comes_along_with_a_stack(separate_weights):
    scale = keras.layers.Normalization()
    scale.adapt(100 + 50 * np.random.default_rng(1).normal(size=[100, I]))
    stack = tf_cudnn_rnn.keras.CudnnLSTM(H, num_layers=2, separate_weights=separate_weights)
    model = keras.Sequential([keras.Input([T, I]), scale, stack])
    x = 100 + 50 * pairs.inputs("float32")
    np.testing.assert_allclose(to_keras(model)(x), model(x), atol=1e-6)


@pytest.mark.parametrize("is_adapted", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_oov_indices": 2, "mask_token": "-"},
        {"output_mode": "tf_idf"},
        {"output_mode": "tf_idf", "max_tokens": 9, "pad_to_max_tokens": True},
        {"vocabulary": ["seven"]},
    ],
    ids=str,
)
def test_lookups(options, is_adapted):
    lookup = keras.layers.StringLookup(**options)
    if is_adapted and "vocabulary" in options:
        lookup.set_vocabulary(["one", "two", "a\nb"])
    elif is_adapted:
        lookup.adapt(["one", "two", "two", "a\nb"])
    texts, numbers = keras.Input([2], dtype="string"), keras.Input([T, I])
    model = keras.Model([texts, numbers], [lookup(texts), keras.layers.LSTM(H)(numbers)])
    copy = next(one for one in to_fused(model).layers if type(one) is keras.layers.StringLookup)
    assert copy.get_vocabulary() == lookup.get_vocabulary()
    if is_adapted:
        x = tf.constant([["two", "a\nb"], ["one", "three"]])
        np.testing.assert_array_equal(copy(x), lookup(x))


def test_lookups_of_integers_and_of_subclasses():
    class Words(keras.layers.StringLookup):
        def load_assets(self, folder):
            super().load_assets(folder)
            self.was_loaded = True

    integers, words = keras.layers.IntegerLookup(), Words()
    integers.adapt([5, 7, 7])
    words.adapt(["one", "two"])
    inputs = [keras.Input([2], dtype=dtype) for dtype in ("int64", "string")] + [
        keras.Input([T, I])
    ]
    outputs = [integers(inputs[0]), words(inputs[1]), keras.layers.LSTM(H)(inputs[2])]
    fused = to_fused(keras.Model(inputs, outputs))
    for layer in (integers, words):
        copy = fused.get_layer(layer.name)
        assert copy.get_vocabulary() == layer.get_vocabulary()
    assert fused.get_layer(words.name).was_loaded


class _Table(keras.layers.Layer):
    """Keeps what a file has, as it came: a variable's value, and an array."""

    def __init__(self, **options):
        super().__init__(**options)
        self.weight = self.add_weight(shape=[I], initializer="ones")
        self.table, self.array = self.weight, np.ones(I)

    def call(self, x):
        return x * self.table * self.array

    def save_own_variables(self, store):
        store.update({"table": self.weight, "array": self.array})

    def load_own_variables(self, store):
        self.table, self.array = store["table"], store["array"]


def test_nothing_is_shared_with_a_copy():
    model = keras.Sequential([keras.Input([T, I]), _Table(), keras.layers.LSTM(H)])
    x = pairs.inputs("float32")
    fused = to_fused(model)
    expected = fused(x).numpy()
    model.layers[0].weight.assign(np.zeros(I))
    model.layers[0].array[:] = 0
    np.testing.assert_array_equal(fused(x), expected)


@pytest.mark.parametrize("make", [to_fused, to_keras])
def test_cells_and_variables_stay_frozen(make):
    model = compiled() if make is to_fused else to_fused(compiled())
    model.get_layer("rnn").cell.bias.trainable = False
    model.compile("adam", "mse", run_eagerly=True)
    model.fit(*data(), verbose=0)
    made = make(model)
    assert int(made.optimizer.iterations) == int(model.optimizer.iterations) > 0
    frozen = made.get_layer("rnn").cell.bias.numpy()
    made.fit(*data(), verbose=0)
    np.testing.assert_array_equal(made.get_layer("rnn").cell.bias, frozen)
    assert not np.array_equal(made.get_layer("rnn").cell.kernel, model.get_layer("rnn").cell.kernel)


@pytest.fixture
def mixed_float16():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.usefixtures("mixed_float16")
@pytest.mark.parametrize("scales", [False, True])
def test_losses_are_scaled_as_before(scales):
    optimizer = to_fused(compiled(auto_scale_loss=scales)).optimizer
    assert isinstance(optimizer, keras.optimizers.LossScaleOptimizer) == scales


def test_an_optimiser_of_other_variables_starts_anew():
    """Shapes alone do not tell: here two layers of one shape take turns in training."""
    layers = [keras.layers.Dense(I, name=name) for name in ("one", "other")]
    model = keras.Sequential([keras.Input([T, I]), *layers, keras.layers.LSTM(1)])
    layers[1].trainable = False
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), "mse", run_eagerly=True)
    model.fit(*data(), verbose=0)
    assert any(v.numpy().any() for v in to_fused(model).optimizer.variables[2:])
    layers[0].trainable, layers[1].trainable = False, True
    with pytest.warns(UserWarning, match="has state of other variables than those"):
        fused = to_fused(model)
    assert not any(v.numpy().any() for v in fused.optimizer.variables[2:])
