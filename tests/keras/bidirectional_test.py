"""tf_cudnn_rnn.keras.Bidirectional: one op where one can do it, and Keras' two calls elsewhere.

grid_test.py has all options of the layers inside, as with any wrapper.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras import pairs
from tests.keras.pairs import LAYERS, MASK, B, H, I, T
from tf_cudnn_rnn.keras import accelerate, export_as

KERAS_RNN = "TfCudnnRnn>KerasRNN"


def ops_of(layer, **call) -> list[str]:
    """The ops of the graph that a call becomes."""
    function = tf.function(lambda x: layer(x, **call))
    graph = function.get_concrete_function(tf.TensorSpec([None, None, I])).graph
    return [node.op for node in graph.as_graph_def().node]


def pair(name="LSTM", merge_mode="concat", **options):
    """The wrapper around a drop-in, and Keras' around its parent, with equal weights."""
    made = []
    for module in (tf_cudnn_rnn.keras, keras.layers):
        layer = getattr(module, name)(H, dtype="float64", **options)
        made.append(module.Bidirectional(layer, merge_mode=merge_mode, dtype="float64"))
    return pairs.with_equal_weights(*made)


@pytest.mark.parametrize("return_sequences", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_call_is_one_op(name, return_sequences):
    layer = tf_cudnn_rnn.keras.Bidirectional(
        getattr(tf_cudnn_rnn.keras, name)(H, return_sequences=return_sequences)
    )
    assert layer.runs_as_one is None
    for call in ({}, {"mask": MASK[:1]}):
        ops = ops_of(layer, **call)
        assert ops.count(KERAS_RNN) == 1
        assert "ReverseV2" not in ops and "ConcatV2" not in ops
    assert layer.runs_as_one
    for half in (layer.forward_layer, layer.backward_layer):
        assert half.runs_fused and half.fallback_reason is None


@pytest.mark.parametrize(("inter_op_threads", "count"), [(0, 2), (2, 2), (1, 1)])
def test_graphs_that_train(monkeypatch, inter_op_threads, count):
    """TensorFlow runs two ops at once, if it may."""
    monkeypatch.setattr(
        tf.config.threading, "get_inter_op_parallelism_threads", lambda: inter_op_threads
    )
    layer = tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.LSTM(H))
    assert ops_of(layer, training=True).count(KERAS_RNN) == count
    assert layer.runs_as_one is (count == 1)
    layer(pairs.inputs("float32"), training=True)  # eagerly
    assert layer.runs_as_one


@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("merge_mode", ["concat", "sum", "mul", "ave", None])
@pytest.mark.parametrize("name", LAYERS)
def test_given_states(name, merge_mode, mask):
    ours, theirs = pair(name, merge_mode, return_sequences=name == "GRU", return_state=True)
    states = [
        *pairs.states(ours.forward_layer, seed=1),
        *pairs.states(ours.backward_layer, seed=2),
    ]
    mask = None if mask is None else tf.constant(mask)
    pairs.assert_same(ours, theirs, pairs.inputs(), initial_state=states, mask=mask)
    assert ours.runs_as_one


@pytest.mark.parametrize("name", LAYERS)
def test_kept_states(name):
    ours, theirs = pair(name, stateful=True, return_sequences=True)
    x = pairs.inputs()
    for _ in range(2):
        np.testing.assert_allclose(ours(x), theirs(x), rtol=0, atol=1e-12)
    assert ours.runs_as_one
    for one, other in zip(ours.states, theirs.states, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
    ours.reset_state()
    theirs.reset_state()
    np.testing.assert_allclose(ours(x), theirs(x), rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match="the batch size of the input sequences must be the same"):
        ours(x[:-1])


def custom_backward(module):
    return dict(backward_layer=module.LSTM(H + 1, go_backwards=True, return_sequences=True))


@pytest.mark.parametrize(
    ("options", "wrapper", "training"),
    [
        ({"dropout": 0.5}, None, True),
        ({"activity_regularizer": "l2"}, None, False),
        ({"go_backwards": True}, None, False),
        ({"activation": "relu"}, None, False),
        ({"use_fused": False}, None, False),
        ({}, custom_backward, False),
    ],
)
def test_what_one_op_cannot_do(options, wrapper, training):
    def made(module):
        keras.utils.set_random_seed(1)
        own = {key: value for key, value in options.items() if key != "use_fused"}
        kept = options if module is tf_cudnn_rnn.keras else own
        if options.get("go_backwards"):  # of the forward layer, and then not of the other
            more = dict(backward_layer=module.LSTM(H, return_sequences=True))
        else:
            more = wrapper(module) if wrapper else {}
        layer = module.Bidirectional(module.LSTM(H, return_sequences=True, **kept), **more)
        return layer, layer(pairs.inputs("float32"), training=training)

    (ours, y), (theirs, y_keras) = made(tf_cudnn_rnn.keras), made(keras.layers)
    assert ours.runs_as_one is False
    np.testing.assert_allclose(y, y_keras, rtol=0, atol=2e-6)
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-5)


def test_layers_that_compute_something_else():
    class Doubled(tf_cudnn_rnn.keras.LSTM):
        def call(self, *args, **kwargs):
            return 2 * super().call(*args, **kwargs)

    class Looped(tf_cudnn_rnn.keras.LSTM):
        def inner_loop(self, *args, **kwargs):
            return keras.layers.RNN.inner_loop(self, *args, **kwargs)

    x = pairs.inputs("float32")
    with keras.saving.custom_object_scope({"Doubled": Doubled, "Looped": Looped}):
        for layer in (Doubled(H), Looped(H), keras.layers.LSTM(H)):
            wrapper = tf_cudnn_rnn.keras.Bidirectional(layer)
            theirs = keras.layers.Bidirectional(layer)
            wrapper(x), theirs(x)
            theirs.set_weights(wrapper.get_weights())
            np.testing.assert_allclose(wrapper(x), theirs(x), rtol=0, atol=2e-6)
            assert wrapper.runs_as_one is False


@keras.saving.register_keras_serializable("bidirectional_test")
class Tripled(keras.layers.LSTM):
    def __call__(self, *args, **kwargs):
        return 3 * super().__call__(*args, **kwargs)


def call_that_was_set(half):
    call = half.call
    half.call = lambda *args, **kwargs: 3 * call(*args, **kwargs)


def states_that_were_set(half):
    half.get_initial_state = lambda batch_size: [tf.ones([batch_size, H])] * 2


def states_that_were_set_on_the_cell(half):
    half.cell.get_initial_state = lambda batch_size: [tf.ones([batch_size, H])] * 2


@pytest.mark.parametrize("of_model", [False, True])
@pytest.mark.parametrize(
    "change",
    [None, call_that_was_set, states_that_were_set, states_that_were_set_on_the_cell],
)
def test_calls_that_somebody_replaced(change, of_model):
    x = pairs.inputs("float32")
    layer = keras.layers.Bidirectional(keras.layers.LSTM(H) if change else Tripled(H))
    model = keras.Sequential([keras.Input([T, I]), layer])
    if change:
        change(layer.forward_layer)
    expected = layer(x)
    with accelerate(model if of_model else None):
        np.testing.assert_allclose(layer(x), expected, rtol=0, atol=2e-6)
    assert layer.runs_as_one is False


@pytest.mark.parametrize(
    ("as_", "op", "count"), [("own", KERAS_RNN, 1), ("builtin", "CudnnRNNV3", 2)]
)
def test_contents_of_graphs(as_, op, count):
    layer = tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.GRU(H))
    with export_as(as_):
        assert ops_of(layer).count(op) == count


def test_stock_graphs_have_loops():
    layer = tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.GRU(H))
    with export_as("stock"):
        ops = ops_of(layer)
    assert not any("Cudnn" in op or "KerasRNN" in op for op in ops)


@pytest.mark.parametrize("of_model", [False, True])
def test_accelerated(of_model):
    model = keras.Sequential(
        [
            keras.Input([None, I]),
            keras.layers.Bidirectional(keras.layers.GRU(H, return_sequences=True)),
            keras.layers.Bidirectional(keras.layers.RNN(keras.layers.GRUCell(H))),
        ]
    )
    x = pairs.inputs("float32")
    expected = model(x)
    with accelerate(model if of_model else None):
        np.testing.assert_allclose(model(x), expected, rtol=0, atol=2e-6)
        assert model.layers[0].runs_as_one
        assert ops_of(model.layers[0]).count(KERAS_RNN) == 1
        if of_model:
            with accelerate(model):
                pass
            assert ops_of(model.layers[0]).count(KERAS_RNN) == 1
    assert KERAS_RNN not in ops_of(model.layers[0])
    np.testing.assert_array_equal(model(x), expected)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_there_and_back(tmp_path):
    model = keras.Sequential(
        [keras.Input([None, I]), keras.layers.Bidirectional(keras.layers.LSTM(H), name="both")]
    )
    pairs.randomise(model)
    x = pairs.inputs("float32")
    model.save(tmp_path / "stock.keras")
    fused = tf_cudnn_rnn.keras.to_fused(model)
    fused.save(tmp_path / "fused.keras")
    for ours in (
        fused,
        tf_cudnn_rnn.keras.load_model(tmp_path / "stock.keras"),
        keras.saving.load_model(tmp_path / "fused.keras"),
    ):
        [layer] = ours.layers
        assert type(layer) is tf_cudnn_rnn.keras.Bidirectional and layer.name == "both"
        np.testing.assert_allclose(ours(x), model(x), rtol=0, atol=2e-6)
        assert layer.runs_as_one
        [stock] = tf_cudnn_rnn.keras.to_keras(ours).layers
        assert type(stock) is keras.layers.Bidirectional
        np.testing.assert_array_equal(stock(x), model(x))


def test_fit():
    losses = []
    for module in (tf_cudnn_rnn.keras, keras.layers):
        keras.utils.set_random_seed(1)
        model = keras.Sequential(
            [
                keras.Input([T, I]),
                keras.layers.Masking(),
                module.Bidirectional(module.GRU(H, return_sequences=True)),
                module.Bidirectional(module.SimpleRNN(H), merge_mode="sum"),
                keras.layers.Dense(1),
            ]
        )
        model.compile("adam", "mse", jit_compile=False)
        x = np.where(MASK[..., None], pairs.inputs("float32"), 0)
        history = model.fit(x, np.ones([B, 1]), epochs=3, shuffle=False, verbose=0)
        losses.append(history.history["loss"])
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_wrong_states_are_refused():
    layer = tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.LSTM(H))
    x, state = pairs.inputs("float32"), tf.zeros([B, H])
    with pytest.raises(ValueError, match=r"`initial_state`\[1\] of layer 'backward_lstm"):
        layer(x, initial_state=[state, state, state, tf.zeros([B, H + 1])])
    with pytest.raises(ValueError, match="must be"):
        layer(x, initial_state=[state] * 2)
    with pytest.raises(ValueError, match=r"`mask` of layer 'bidirectional"):
        layer(x, mask=tf.ones([B, T + 1], tf.bool))


def test_own_initial_states_are_used():
    class Ones(tf_cudnn_rnn.keras.LSTM):
        def get_initial_state(self, batch_size):
            return [tf.ones([batch_size, H])] * 2

    x = pairs.inputs("float32")
    with keras.saving.custom_object_scope({"Ones": Ones}):
        wrapper, theirs = (
            module.Bidirectional(Ones(H)) for module in (tf_cudnn_rnn.keras, keras.layers)
        )
    wrapper(x), theirs(x)
    theirs.set_weights(wrapper.get_weights())
    np.testing.assert_array_equal(wrapper(x), theirs(x))


@pytest.mark.parametrize("of_halves", ["float32", "mixed_float16", "float64"])
@pytest.mark.parametrize("of_wrapper", ["float32", "mixed_bfloat16", "float64"])
def test_types_that_differ(of_wrapper, of_halves):
    """Weights are rounded to the type of the halves alone."""
    made = []
    for module in (tf_cudnn_rnn.keras, keras.layers):
        layer = tf_cudnn_rnn.keras.GRU(H, dtype=of_halves, return_state=True)
        made.append(module.Bidirectional(layer, dtype=of_wrapper))
    ours, theirs = pairs.with_equal_weights(*made)
    x = pairs.inputs("float32")
    for one, other in zip(ours(x), theirs(x), strict=True):
        assert one.dtype == other.dtype
        one, other = (tf.cast(value, "float64") for value in (one, other))
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def test_halves_that_are_not_built():
    layer = tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.LSTM(H))
    assert layer.call(tf.constant(pairs.inputs("float32"))).shape == (B, 2 * H)
    assert layer.forward_layer.built and not layer.runs_as_one


def test_accelerated_layers_do_not_ask_for_xla():
    model = keras.Sequential([keras.Input([T, I]), keras.layers.Bidirectional(keras.layers.GRU(H))])
    x = pairs.inputs("float32")
    with accelerate(model):
        model(x)
        for half in (model.layers[0].forward_layer, model.layers[0].backward_layer):
            assert half.runs_fused and not half.supports_jit


class Subclass(keras.layers.Bidirectional):
    """One whose call is Keras' own."""


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_accelerations_of_the_wrapper_and_of_a_half(order):
    model = keras.Sequential([keras.Input([T, I]), Subclass(keras.layers.GRU(H))])
    [wrapper] = model.layers
    x = pairs.inputs("float32")
    both = [accelerate(model), accelerate(wrapper.forward_layer)]
    model(x)
    assert wrapper.runs_as_one
    for k in order:
        both[k].undo()
    assert "call" not in wrapper.__dict__
    assert KERAS_RNN not in ops_of(wrapper)


def test_what_is_made_in_code_is_no_stock_model():
    @keras.saving.register_keras_serializable(package="bidirectional_test")
    class Outer(keras.layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.inner = tf_cudnn_rnn.keras.Bidirectional(keras.layers.LSTM(H))

        def build(self, shape):
            self.inner.build(shape)

        def call(self, x):
            return self.inner(x)

    model = keras.Sequential([keras.Input([T, I]), Outer()])
    with pytest.raises(ValueError, match="makes .* in code"):
        tf_cudnn_rnn.keras.to_keras(model)
