"""A drop-in does what its Keras parent does, whatever the options.

In double, unless a type is the subject, so that any difference but rounding shows.
"""

import collections
import functools
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras import beginnings, pairs
from tests.keras.pairs import LAYERS, MASK, MODES, B, H, I, T
from tf_cudnn_rnn import raw_ops

# ------------------------------------------------------------------------------------
# Values and gradients
# ------------------------------------------------------------------------------------

# The first three decide together what a masked step gives.
OPTIONS = [
    options | {"use_bias": sum(options.values()) % 2 == 0}
    for options in pairs.all_options("return_sequences", "go_backwards", "zero_output_for_mask")
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("mode", MODES)
def test_grid(mode, options):
    name, more = MODES[mode]
    ours, theirs = pairs.pair(name, return_state=True, **options, **more)
    mask, states = tf.constant(MASK), pairs.states(ours)
    # Without a mask there is nothing to zero: cases that differ in that alone share the calls.
    unmasked = states if options["zero_output_for_mask"] else None
    for call in (
        {"mask": mask},
        {"mask": mask, "initial_state": states},
        {"mask": None, "initial_state": unmasked},
    ):
        pairs.assert_same(ours, theirs, pairs.inputs(), label=mode, **call)
        assert ours.runs_fused and ours.fallback_reason is None


@pytest.mark.parametrize("name", LAYERS)
def test_without_states(name):
    for return_sequences in (False, True):
        ours, theirs = pairs.pair(name, return_sequences=return_sequences)
        pairs.assert_same(ours, theirs, pairs.inputs(), mask=tf.constant(MASK))
        assert ours(pairs.inputs()).shape == ([B, T, H] if return_sequences else [B, H])


def test_random_masks():
    rng = np.random.default_rng(3)
    ours, theirs = pairs.pair("LSTM", return_sequences=True, return_state=True)
    x = pairs.inputs()
    for density in (0.1, 0.3, 0.5, 0.7, 0.9):
        mask = tf.constant(rng.random([B, T]) < density)
        for one, other in zip(ours(x, mask=mask), theirs(x, mask=mask), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12, err_msg=str(mask))


def test_fully_masked_rows():
    layer, _ = pairs.pair("LSTM", return_sequences=True, return_state=True)
    states = pairs.states(layer)
    y, h, c = layer(pairs.inputs(), mask=tf.zeros([B, T], tf.bool), initial_state=states)
    np.testing.assert_array_equal(y, np.zeros([B, T, H]))
    np.testing.assert_array_equal(h, states[0])
    np.testing.assert_array_equal(c, states[1])


def test_masked_steps_are_not_read():
    layer, _ = pairs.pair("GRU", return_sequences=True)
    x = pairs.inputs()
    poisoned = np.where(MASK[..., None], x, np.nan)
    mask = tf.constant(MASK)
    np.testing.assert_array_equal(layer(poisoned, mask=mask), layer(x, mask=mask))


@pytest.mark.parametrize(
    "mask",
    [MASK, MASK.astype(np.int32), MASK.astype(np.float32), MASK[..., None], [tf.constant(MASK)]],
    ids=["array", "int", "float", "column", "list"],
)
def test_masks_of_any_type(mask):
    layer, _ = pairs.pair("LSTM")
    x, states = tf.constant(pairs.inputs()), pairs.states(layer)
    expected = layer.inner_loop(x, states, tf.constant(MASK))[0]
    np.testing.assert_array_equal(layer.inner_loop(x, states, mask)[0], expected)


@pytest.mark.parametrize("policy", ["float16", "bfloat16", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("name", LAYERS)
def test_types_of_16_bits(name, policy):
    # Keras' orthogonal initialiser knows no bfloat16.
    options = {"dtype": policy, "recurrent_initializer": "glorot_uniform"}
    ours, theirs = pairs.pair(name, return_sequences=True, return_state=True, **options)
    assert [v.dtype for v in ours.variables] == [v.dtype for v in theirs.variables]
    x = pairs.inputs(tf.as_dtype(ours.compute_dtype).as_numpy_dtype)
    # Keras rounds every intermediate value to the type, the op only what it keeps.
    tolerance = {"float16": 2**-7, "bfloat16": 2**-4}[ours.compute_dtype]
    for mask in (None, tf.constant(MASK)):
        pairs.assert_same(ours, theirs, x, mask=mask, tolerance=tolerance, label=policy)
    assert ours.runs_fused


@pytest.mark.parametrize("name", LAYERS)
def test_float32(name):
    ours, theirs = pairs.pair(name, dtype="float32", return_sequences=True, return_state=True)
    mask = tf.constant(MASK)
    pairs.assert_same(ours, theirs, pairs.inputs("float32"), mask=mask, tolerance=2e-6)


def test_integers_become_floats():
    ours, theirs = pairs.pair("LSTM", dtype="float32")
    x = np.arange(B * T * I, dtype=np.int32).reshape(B, T, I) % 5
    np.testing.assert_allclose(ours(x), theirs(x), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_draws_what_keras_draws(name):
    ours, theirs = pairs.pair(name, dropout=0.4, seed=9, return_sequences=True)
    x = pairs.inputs()
    # Keras draws in inference, too.
    without = ours(x).numpy()
    np.testing.assert_allclose(without, theirs(x), rtol=0, atol=1e-12)
    for _ in range(2):  # the second call draws another mask
        pairs.assert_same(ours, theirs, x, mask=tf.constant(MASK), training=True)
    assert ours.runs_fused
    assert np.abs(ours(x, training=True).numpy() - without).max() > 1e-3
    np.testing.assert_array_equal(ours(x).numpy(), without)


@pytest.mark.parametrize("name", LAYERS)
def test_dropout_after_a_call_that_failed(name):
    """The mask of that call, which had other rows, is not that of the next."""
    options = {"dropout": 0.5, "recurrent_dropout": 0.2}
    layer = getattr(tf_cudnn_rnn.keras, name)(H, use_fused=True, **options)
    with pytest.raises(ValueError, match="recurrent_dropout must be 0 in training"):
        layer(pairs.inputs(), training=True)
    layer.use_cudnn = "auto"
    layer(pairs.inputs()[:2], training=True)


@pytest.mark.parametrize("name", LAYERS)
def test_regularisers_and_constraints(name):
    ours, theirs = pairs.pair(
        name,
        kernel_regularizer="l2",
        recurrent_regularizer="l1",
        bias_regularizer="l2",
        activity_regularizer="l2",
        kernel_constraint="non_neg",
    )
    x = pairs.inputs()
    ours(x), theirs(x)
    # Keras' SimpleRNN forgets its activity_regularizer.
    assert len(ours.losses) == len(theirs.losses) >= 3
    np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-12)
    assert type(ours.kernel_constraint) is type(theirs.kernel_constraint)


# ------------------------------------------------------------------------------------
# Which path runs
# ------------------------------------------------------------------------------------

UNFUSED = {
    "activation": ("LSTM", {"activation": "relu"}, "activation must be tanh; got relu"),
    "linear": ("GRU", {"activation": None}, "activation must be tanh; got linear"),
    "elu": ("SimpleRNN", {"activation": "elu"}, "activation must be tanh or relu; got elu"),
    "recurrent_activation": (
        "GRU",
        {"recurrent_activation": "hard_sigmoid"},
        "recurrent_activation must be sigmoid; got hard_sigmoid",
    ),
    "unroll": ("SimpleRNN", {"unroll": True}, "unroll must be False; got True"),
    "reset_before": ("GRU", {"reset_after": False}, "reset_after must be True; got False"),
}
UNFUSED_IN_TRAINING = {
    "recurrent_dropout": ("LSTM", {"recurrent_dropout": 0.5}, "recurrent_dropout must be 0 in"),
    "implementation": ("GRU", {"dropout": 0.5, "implementation": 1}, "implementation must be 2"),
    "all_dropped": ("SimpleRNN", {"dropout": 1.0}, "dropout must be less than 1 in training"),
}


@pytest.mark.parametrize("case", UNFUSED)
def test_falls_back_and_says_why(case, caplog):
    name, options, reason = UNFUSED[case]
    ours, theirs = pairs.pair(name, return_sequences=True, return_state=True, **options)
    assert ours.runs_fused is None
    with caplog.at_level(logging.WARNING, "tf_cudnn_rnn"):
        pairs.assert_same(ours, theirs, pairs.inputs(), mask=tf.constant(MASK), tolerance=0)
        ours(pairs.inputs())
    assert ours.runs_fused is False
    assert ours.fallback_reason == reason
    assert [record.getMessage() for record in caplog.records] == [  # once
        f"Layer {ours.name!r} runs in Keras' loop: {reason}."
    ]
    with pytest.raises(ValueError, match=f"cannot run fused: {reason}. Pass use_fused='auto'"):
        getattr(tf_cudnn_rnn.keras, name)(H, use_fused=True, **options)


def test_warns_of_each_reason_once_whatever_runs_between(caplog):
    layer = tf_cudnn_rnn.keras.LSTM(H, recurrent_dropout=0.5)
    with caplog.at_level(logging.WARNING, "tf_cudnn_rnn"):
        for training in (True, False, True, False, True):
            layer(pairs.inputs(), training=training)
            assert layer.runs_fused is not training
    assert len(caplog.records) == 1


def test_another_cell_runs_in_the_loop():
    class Doubled(keras.layers.LSTMCell):
        def call(self, inputs, states, training=False):
            return super().call(2 * inputs, states, training=training)

    def with_it(base):
        class Layer(base):
            def __init__(self):
                super().__init__(H, dtype="float64")
                self.cell = Doubled(H, dtype="float64")

        layer = Layer()
        layer.build((B, T, I))
        pairs.randomise(layer)
        return layer

    ours, theirs = with_it(tf_cudnn_rnn.keras.LSTM), with_it(keras.layers.LSTM)
    np.testing.assert_array_equal(ours(pairs.inputs()), theirs(pairs.inputs()))
    assert ours.fallback_reason == "the cell must be Keras' own; got Doubled"


@pytest.mark.parametrize("name", LAYERS)
def test_a_cell_whose_call_was_replaced(name):
    ours, theirs = pairs.pair(name)
    for layer in (ours, theirs):
        call = layer.cell.call
        layer.cell.call = lambda x, states, call=call, **rest: call(2 * x, states, **rest)
    np.testing.assert_array_equal(ours(pairs.inputs()), theirs(pairs.inputs()))
    assert ours.fallback_reason == (
        "the cell's call must be Keras' own; got another, set on the cell"
    )


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "float64"])
def test_a_cell_computes_in_its_own_type(name, policy):
    ours, theirs = pairs.pair(name, dtype="float32", return_state=True)
    x = tf.constant(pairs.inputs("float32"))
    for layer in (ours, theirs):
        layer.dtype_policy = policy
    for actual, expected in zip(ours(x), theirs(x), strict=True):
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)
    assert ours.fallback_reason == (
        f"the cell must have the layer's compute dtype, {ours.compute_dtype}; got float32"
    )


@pytest.mark.parametrize("case", UNFUSED_IN_TRAINING)
def test_falls_back_in_training_alone(case):
    name, options, reason = UNFUSED_IN_TRAINING[case]
    ours, theirs = pairs.pair(name, seed=4, return_sequences=True, **options)
    theirs.use_cudnn = False  # "auto" fails on the masks of implementation 1
    x = pairs.inputs()
    pairs.assert_same(ours, theirs, x)
    assert ours.runs_fused
    pairs.assert_same(ours, theirs, x, training=True, tolerance=0)
    assert ours.runs_fused is False and reason in ours.fallback_reason
    strict = getattr(tf_cudnn_rnn.keras, name)(H, use_fused=True, **options)
    strict(x)
    with pytest.raises(ValueError, match=reason):
        strict(x, training=True)


@pytest.mark.parametrize("name", LAYERS)
def test_use_fused(name, caplog):
    layer, x = getattr(tf_cudnn_rnn.keras, name), pairs.inputs("float32")
    assert layer(H).use_fused == "auto"
    strict = layer(H, use_fused=True)
    strict(x)
    assert strict.runs_fused
    slow = layer(H, use_fused=False)
    slow(x)
    assert not slow.runs_fused and slow.fallback_reason == "use_fused is False"
    assert not caplog.records  # as asked
    assert not layer(H).supports_jit
    for wrong in ("yes", 2, None):
        message = f"`use_fused` must be 'auto', True or False; got {wrong!r}"
        with pytest.raises(ValueError, match=message):
            layer(H, use_fused=wrong)


@pytest.mark.parametrize("name", LAYERS)
def test_use_fused_as_another_kind_of_flag(name):
    layer, x = getattr(tf_cudnn_rnn.keras, name), pairs.inputs("float32")
    for no in (0, np.False_):
        slow = layer(H, use_fused=no)
        slow(x)
        assert slow.runs_fused is False and slow.use_fused is False
    for yes in (1, np.True_):
        with pytest.raises(ValueError, match="has use_fused=True but cannot run fused"):
            layer(H, activation="softplus", use_fused=yes)


def test_a_model_asked_for_xla_warns_and_trains():
    model = keras.Sequential([keras.Input([T, I]), tf_cudnn_rnn.keras.SimpleRNN(H)])
    with pytest.warns(UserWarning, match="doesn't support `jit_compile=True`"):
        model.compile("sgd", "mse", jit_compile=True)
    model.fit(pairs.inputs("float32"), np.zeros([B, H]), verbose=0)
    assert model.layers[0].runs_fused


@pytest.mark.parametrize("name", ["LSTM", "GRU"])
def test_use_cudnn_is_another_name(name):
    layer = getattr(tf_cudnn_rnn.keras, name)
    assert layer(H, use_cudnn=False).use_fused is False
    assert layer(H, use_cudnn=True, use_fused=True).use_fused is True
    with pytest.raises(ValueError, match="got use_fused=True, use_cudnn=False"):
        layer(H, use_cudnn=False, use_fused=True)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("use_fused", ["auto", True, False])
def test_bidirectional_hands_use_fused_on(name, use_fused):
    layer = getattr(tf_cudnn_rnn.keras, name)(H, use_fused=use_fused)
    wrapper = keras.layers.Bidirectional(layer)
    wrapper(pairs.inputs("float32"))
    for half in (wrapper.forward_layer, wrapper.backward_layer):
        assert half.use_fused is use_fused or half.use_fused == use_fused == "auto"
        assert half.runs_fused is (use_fused is not False)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("wrap", [lambda layer: layer, tf_cudnn_rnn.keras.Bidirectional])
def test_complex_inputs_are_refused(name, wrap):
    """As Keras' layers refuse them, in other words; a cast would drop the imaginary part."""
    layer = wrap(getattr(tf_cudnn_rnn.keras, name)(H, name="mine"))
    with pytest.raises(ValueError, match="mine'? must be of real numbers; got complex64"):
        layer(np.ones([B, T, 3], "complex64"))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("wrap", [lambda layer: layer, tf_cudnn_rnn.keras.Bidirectional])
def test_other_features_than_the_layer_was_built_for(name, wrap):
    layer = wrap(getattr(tf_cudnn_rnn.keras, name)(H, name="mine"))
    layer(tf.zeros([B, T, 3]))
    message = r"mine'? must have 3 features in each step, .*; got shape \[2, 5, 4\]"
    with pytest.raises(ValueError, match=message):
        layer(tf.zeros([2, 5, 4]))


def _operations(function) -> collections.Counter[str]:
    """How often each op is in a graph and the functions that it calls."""
    graph = function.graph
    nodes = list(graph.as_graph_def().node)
    for definition in graph.as_graph_def().library.function:
        nodes += definition.node_def
    return collections.Counter(node.op for node in nodes)


_CONDITIONS = {"If", "StatelessIf", "Case"}
_LOOPS = {"While", "StatelessWhile"}


def _masked_operations(layer) -> collections.Counter[str]:
    function = tf.function(lambda x, mask: layer(x, mask=mask))
    return _operations(function.get_concrete_function(pairs.inputs(), tf.constant(MASK)))


def test_a_masked_layer_has_one_op_and_no_loop():
    layer, theirs = pairs.pair("LSTM", return_sequences=True)
    assert _masked_operations(layer)["TfCudnnRnn>KerasRNN"] == 1
    assert not _masked_operations(layer).keys() & _LOOPS
    assert _masked_operations(theirs).keys() & _LOOPS


def test_a_masked_layer_has_no_condition_in_a_graph_for_gpus():
    layer, _ = pairs.pair("LSTM", return_sequences=True)
    with tf_cudnn_rnn.keras.export_as("builtin"), pytest.warns(UserWarning, match="has a mask"):
        found = _masked_operations(layer)
    assert found["CudnnRNNV3"] == 1
    assert not found.keys() & (_CONDITIONS | _LOOPS)


_PADDING = np.arange(T) < (np.arange(B) % (T + 1))[:, None]


def _count_gathers(monkeypatch) -> list:
    found = []
    gather = tf.gather
    monkeypatch.setattr(tf, "gather", lambda *args, **kw: found.append(0) or gather(*args, **kw))
    return found


_MOVES = {"GatherV2", "GatherNd", "ReverseV2", "ReverseSequence", "Transpose", "ScatterNd"}
_COPIES = {"Cast", "ConcatV2", "Split", "SplitV", "Pack", "Unpack"}


def _training_operations(layer, mask, initial_state=None) -> collections.Counter[str]:
    """Of a call and its gradients."""

    @tf.function(autograph=False)
    def gradients(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            results = layer(x, mask=mask, initial_state=initial_state)
            loss = sum(tf.reduce_sum(y) for y in tf.nest.flatten(results))
        return tape.gradient(loss, [x, *layer.trainable_variables])

    return _operations(gradients.get_concrete_function(pairs.inputs()))


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("mask", [None, MASK])
def test_nothing_is_moved_or_copied_around_the_op(name, mask):
    mask = None if mask is None else tf.constant(mask)
    options = ("return_sequences", "go_backwards", "zero_output_for_mask", "stateful")
    for chosen in pairs.all_options(*options):
        layer, _ = pairs.pair(name, **chosen, return_state=True)
        for initial_state in (None, pairs.states(layer)):
            found = _training_operations(layer, mask, initial_state)
            assert found["TfCudnnRnn>KerasRNN"] == found["TfCudnnRnn>KerasRNNBackprop"] == 1
            moved = found.keys() & (_MOVES | _COPIES | _CONDITIONS | _LOOPS)
            assert not moved, (chosen, initial_state)


@pytest.mark.parametrize("mask", [None, MASK])
def test_bidirectional_reverses_outputs_and_nothing_else(mask):
    layer, _ = pairs.pair("LSTM", return_sequences=True, wrap=keras.layers.Bidirectional)
    found = _training_operations(layer, None if mask is None else tf.constant(mask))
    assert {op: found[op] for op in found.keys() & (_MOVES | _CONDITIONS | _LOOPS)} == {
        "ReverseV2": 2  # Keras' own, and its gradient
    }


def test_padding_moves_nothing_in_a_stack(monkeypatch):
    layer = tf_cudnn_rnn.keras.CudnnLSTM(H, num_layers=2, return_sequences=True)
    x = tf.constant(pairs.inputs("float32"))
    expected = layer(x, sequence_lengths=tf.constant(_PADDING.sum(axis=1), tf.int32))
    gathers = _count_gathers(monkeypatch)
    np.testing.assert_array_equal(layer(x, mask=tf.constant(_PADDING)), expected)
    assert not gathers


def test_a_time_major_stack_moves_masked_steps_alone():
    """Those of a mask that is no padding, in the branches of its conditions."""
    layer = tf_cudnn_rnn.keras.CudnnLSTM(H, num_layers=2, return_sequences=True, time_major=True)
    x = tf.constant(pairs.inputs("float32").transpose(1, 0, 2))
    function = tf.function(lambda x, mask: layer(x, mask=mask))
    mask = tf.constant(_PADDING.T)
    graph = function.get_concrete_function(x, mask).graph.as_graph_def()
    assert not {node.op for node in graph.node} & _MOVES
    np.testing.assert_array_equal(
        function(x, mask),
        layer(x, sequence_lengths=tf.constant(_PADDING.sum(axis=1), tf.int32)),
    )
    other = tf_cudnn_rnn.keras.CudnnLSTM(H, num_layers=2, return_sequences=True)
    other.build([B, T, I])
    other.set_weights(layer.get_weights())
    expected = other(tf.transpose(x, [1, 0, 2]), mask=tf.constant(MASK))
    np.testing.assert_array_equal(
        function(x, tf.constant(MASK.T)), tf.transpose(expected, [1, 0, 2])
    )


@pytest.mark.parametrize("zero_output", [False, True])
def test_one_graph_has_the_gradients_of_all_masks(zero_output):
    both = pairs.pair("GRU", return_sequences=True)
    functions = []
    for layer in both:
        layer.zero_output_for_mask = zero_output

        @tf.function(
            input_signature=[tf.TensorSpec([B, T, I], "float64"), tf.TensorSpec([B, T], bool)]
        )
        def gradients(x, mask, layer=layer):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = layer(x, mask=mask)
                loss = tf.reduce_sum(y * y)
            return tape.gradient(loss, [x, *layer.trainable_weights])

        functions.append(gradients)
    x = tf.constant(pairs.inputs())
    for mask in (_PADDING, MASK, np.ones_like(MASK), np.zeros_like(MASK)):
        ours, theirs = (function(x, tf.constant(mask)) for function in functions)
        for gradient, expected in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)


def test_what_is_kept_for_gradients(monkeypatch):
    kept = []
    original = raw_ops.KerasRNN

    def spy(**arguments):
        kept.append(arguments["is_training"])
        return original(**arguments)

    monkeypatch.setattr(raw_ops, "KerasRNN", spy)
    layer, _ = pairs.pair("LSTM")
    x = tf.constant(pairs.inputs())
    layer(x)
    layer(x, training=True)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=False)
    assert tape.gradient(y, x) is not None
    tf.function(layer)(x)  # a graph may be differentiated later, and keeps nothing if not
    assert kept == [False, False, True, True]


# ------------------------------------------------------------------------------------
# Config, names, states, shapes
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_config_and_variables(name):
    for chosen in pairs.all_options("return_sequences", "return_state"):
        chosen |= {"go_backwards": True, "stateful": True, "zero_output_for_mask": True}
        beginnings.reset_names()
        ours = getattr(tf_cudnn_rnn.keras, name)(H, **chosen, dropout=0.1, use_fused=True)
        beginnings.reset_names()
        theirs = getattr(keras.layers, name)(H, **chosen, dropout=0.1)
        assert ours.get_config() == theirs.get_config()
        assert ours.__class__.from_config(ours.get_config()).get_config() == ours.get_config()
        for layer in (ours, theirs):
            layer.build((B, T, I))
        described = [
            [(v.path, v.name, tuple(v.shape), v.dtype, v.trainable) for v in layer.variables]
            for layer in (ours, theirs)
        ]
        assert described[0] == described[1]
        x = keras.KerasTensor((B, T, I))
        assert ours.compute_output_shape(x.shape) == theirs.compute_output_shape(x.shape)


def test_positional_arguments():
    assert tf_cudnn_rnn.keras.LSTM(3, "relu", "tanh", False).get_config()["activation"] == "relu"


@pytest.mark.parametrize("name", LAYERS)
def test_initial_weights(name):
    weights = []
    for module in (tf_cudnn_rnn.keras, keras.layers):
        beginnings.seed(6)
        layer = getattr(module, name)(H)
        layer.build((B, T, I))
        weights.append(layer.get_weights())
    for one, other in zip(*weights, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", LAYERS)
def test_stateful(name):
    ours, theirs = pairs.pair(name, stateful=True, return_sequences=True)
    x, mask = pairs.inputs(), tf.constant(MASK)
    first = ours(x, mask=mask).numpy()
    np.testing.assert_allclose(first, theirs(x, mask=mask), rtol=0, atol=1e-12)
    second = ours(x, mask=mask).numpy()
    assert np.abs(second - first).max() > 1e-3
    np.testing.assert_allclose(second, theirs(x, mask=mask), rtol=0, atol=1e-12)
    ours.reset_state()
    np.testing.assert_array_equal(ours(x, mask=mask), first)
    assert ours.runs_fused


@pytest.mark.parametrize("name", LAYERS)
def test_batch_of_nothing(name):
    layer = getattr(tf_cudnn_rnn.keras, name)(H, return_sequences=True, return_state=True)
    x = tf.zeros([0, T, I])
    for mask in (None, tf.zeros([0, T], tf.bool)):
        with tf.GradientTape() as tape:
            y, h, *_ = layer(x, mask=mask)
            loss = tf.reduce_sum(y) + tf.reduce_sum(h)
        assert y.shape == [0, T, H] and h.shape == [0, H]
        for gradient in tape.gradient(loss, [v.value for v in layer.trainable_variables]):
            assert not gradient.numpy().any()


@pytest.mark.parametrize("go_backwards", [False, True])
def test_unknown_sizes(go_backwards):
    ours, theirs = pairs.pair("GRU", return_sequences=True, go_backwards=go_backwards)
    signature = [tf.TensorSpec([None, None, I], tf.float64), tf.TensorSpec([None, None], tf.bool)]

    @tf.function(input_signature=signature)
    def run(x, mask):
        y = ours(x, mask=mask)
        assert y.shape.as_list() == [None, None, H]
        return y

    for batch, steps in ((B, T), (2, 3), (1, 1)):
        x, mask = pairs.inputs()[:batch, :steps], MASK[:batch, :steps]
        expected = theirs(x, mask=tf.constant(mask))
        np.testing.assert_allclose(run(x, mask), expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------
# Masks and states that do not fit
# ------------------------------------------------------------------------------------

# For an input [3, 5, I].
WRONG_MASKS = [(3, 2), (3, 7), (3, 1), (2, 5), (4, 5), (0, 5), (3, 5, 2), (3, 2, 1), (5,), ()]
# TensorFlow's Assert writes \' for '.
MASK_RULE = (
    r"`mask` of layer \\?'rnn\\?' must have the first two dimensions of the input \(or one row"
)


def _of_unknown_sizes(layer, rank):
    """`layer` as a function of an input and a mask of which a graph knows nothing but ranks."""
    mask = tf.TensorSpec(None if rank is None else [None] * rank, tf.bool)
    signature = [tf.TensorSpec([None, None, I]), mask]
    return tf.function(lambda x, mask: layer(x, mask=mask), input_signature=signature)


@functools.cache
def _named_rnn(name):
    """A layer, and `_of_unknown_sizes` of it, which traces once for each rank."""
    layer = getattr(tf_cudnn_rnn.keras, name)(H, return_sequences=True, name="rnn")
    return layer, functools.cache(functools.partial(_of_unknown_sizes, layer))


@pytest.mark.parametrize("shape", WRONG_MASKS, ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_masks_that_do_not_fit(name, shape):
    layer, of_unknown_sizes = _named_rnn(name)
    x, mask = tf.zeros([3, 5, I]), tf.ones(shape, tf.bool)
    message = MASK_RULE + r" for all\) = \[3, 5\]; got \[" + ", ".join(map(str, shape)) + r"\]"
    for call in (layer, tf.function(lambda x, mask: layer(x, mask=mask))):
        with pytest.raises(ValueError, match=message):
            call(x, mask=mask)
    if len(shape) < 2:
        with pytest.raises(ValueError, match=MASK_RULE):
            of_unknown_sizes(len(shape))(x, mask)
    else:
        with pytest.raises(tf.errors.InvalidArgumentError, match=MASK_RULE):
            of_unknown_sizes(len(shape))(x, mask)
    with pytest.raises(tf.errors.InvalidArgumentError, match=MASK_RULE):
        of_unknown_sizes(None)(x, mask)


def test_what_is_known_of_a_mask_is_checked_when_it_is_traced():
    layer = tf_cudnn_rnn.keras.LSTM(H, name="rnn")
    run = tf.function(lambda x, mask: layer(x, mask=mask))
    specs = [tf.TensorSpec([None, 5, I]), tf.TensorSpec([None, 2], tf.bool)]
    message = MASK_RULE + r" for all\) = \[None, 5\]; got \[None, 2\]"
    with pytest.raises(ValueError, match=message):
        run.get_concrete_function(*specs)


@pytest.mark.parametrize("go_backwards", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_one_row_of_a_mask_is_for_all(name, go_backwards):
    ours, theirs = pairs.pair(
        name, dtype="float32", return_sequences=True, go_backwards=go_backwards
    )
    x, row = tf.constant(pairs.inputs("float32")[:3, :5]), tf.constant(MASK[4:5, :5])
    expected = ours(x, mask=tf.repeat(row, 3, axis=0))
    np.testing.assert_allclose(expected, theirs(x, mask=row), rtol=0, atol=2e-6)
    for layer in (ours, theirs):
        for mask in (row, row[..., None]):
            calls = [layer]
            # All layers of Keras share the loop that reads masks, forwards and backwards, and it
            # takes long to trace.
            if layer is ours or (name == "LSTM" and not go_backwards):
                calls += [
                    tf.function(lambda x, mask, layer=layer: layer(x, mask=mask)),
                    lambda x, mask, layer=layer: _of_unknown_sizes(layer, mask.shape.rank)(x, mask),
                ]
            for call in calls:
                np.testing.assert_allclose(call(x, mask=mask), expected, rtol=0, atol=2e-6)
    assert ours.runs_fused
    np.testing.assert_array_equal(_of_unknown_sizes(ours, None)(x, row), expected)
    assert _of_unknown_sizes(ours, 2)(x[:0], row).shape == [0, 5, H]


def test_only_unknown_sizes_are_checked_as_the_graph_runs():
    layer, _ = pairs.pair("LSTM", return_sequences=True, dtype="float32")
    function = tf.function(lambda x, mask: layer(x, mask=mask))
    x, mask = tf.constant(pairs.inputs("float32")), tf.constant(MASK)
    checks = {"Assert", "BroadcastTo", "LogicalOr"}
    known = _operations(function.get_concrete_function(x, mask))
    assert not known.keys() & checks
    unknown = _operations(_of_unknown_sizes(layer, 2).get_concrete_function())
    assert unknown.keys() >= checks
    # Not one condition more: where the mask is padding, no step moves.
    for operation in _CONDITIONS | _LOOPS:
        assert unknown[operation] == known[operation]


@pytest.mark.parametrize("name", ["LSTM", "CudnnLSTM"])
def test_saved_models_check_masks(name, tmp_path):
    layer = getattr(tf_cudnn_rnn.keras, name)(H, return_sequences=True, name="rnn")
    inputs = [keras.Input([None, I], name="x"), keras.Input([None], dtype="bool", name="mask")]
    model = keras.Model(inputs, layer(inputs[0], mask=inputs[1]))
    x, mask = tf.constant(pairs.inputs("float32")), tf.constant(MASK)
    model.export(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_allclose(loaded.serve([x, mask]), model([x, mask]), rtol=0, atol=1e-6)
    message = "`mask` of layer .*rnn.* must have the first two dimensions of the input"
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        loaded.serve([x, mask[:, :5]])
    model.compile()
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match=message):
        model.predict([x, mask[:, :5]], verbose=0)


@pytest.mark.parametrize(
    ("name", "states", "message"),
    [
        (
            "LSTM",
            [(B, H + 1), (B, H + 1)],
            f"[0] of layer 'rnn' must have shape [B, units] = [{B}, {H}]; got [{B}, {H + 1}]",
        ),
        (
            "LSTM",
            [(B, H), (B, H + 1)],
            f"[1] of layer 'rnn' must have shape [B, units] = [{B}, {H}]; got [{B}, {H + 1}]",
        ),
        ("LSTM", [(2, H), (2, H)], f"[B, units] = [{B}, {H}]; got [2, {H}]"),
        ("LSTM", [(1, H + 1)] * 2, f"[B, units] = [{B}, {H}]; got [1, {H + 1}]"),
        ("LSTM", [(B, H)], "must be [h, c]; got 1 tensors"),
        ("LSTM", [(B, H)] * 3, "must be [h, c]; got 3 tensors"),
        ("GRU", [(B, 1, H)], f"[B, units] = [{B}, {H}]; got [{B}, 1, {H}]"),
        ("SimpleRNN", [(B - 1, H)], f"[B, units] = [{B}, {H}]; got [{B - 1}, {H}]"),
        ("SimpleRNN", [(B, H)] * 2, "must be [h]; got 2 tensors"),
    ],
)
def test_states_that_do_not_fit(name, states, message):
    layer = getattr(tf_cudnn_rnn.keras, name)(H, name="rnn")
    x, states = tf.constant(pairs.inputs("float32")), [tf.zeros(shape) for shape in states]
    for call in (layer, tf.function(lambda x, initial_state: layer(x, initial_state))):
        with pytest.raises(ValueError, match=r"`initial_state`.* of layer 'rnn' must") as error:
            call(x, initial_state=states)
        assert message in str(error.value) and "num_proj" not in str(error.value)


# Keras adds such a state to all rows, in eager mode.
@pytest.mark.parametrize("mask", [None, MASK])
@pytest.mark.parametrize("name", ["LSTM", "GRU", "SimpleRNN"])
def test_one_row_of_a_state_is_for_all(name, mask):
    ours, theirs = pairs.pair(name)
    x, states = pairs.inputs(), [state[:1] for state in pairs.states(ours)]
    expected = theirs(x, initial_state=states, mask=mask)
    np.testing.assert_allclose(ours(x, initial_state=states, mask=mask), expected, atol=1e-12)
    vectors = [state[0] for state in states]
    np.testing.assert_allclose(ours(x, initial_state=vectors, mask=mask), expected, atol=1e-12)
    graph = tf.function(lambda x, states: ours(x, initial_state=states, mask=mask))
    graph = graph.get_concrete_function(
        tf.TensorSpec([None, None, I], x.dtype), [tf.TensorSpec([1, H], x.dtype)] * len(states)
    )
    np.testing.assert_allclose(graph(x, states), expected, atol=1e-12)


@pytest.mark.parametrize("name", ["LSTM", "GRU", "SimpleRNN"])
def test_an_input_without_features_runs_in_keras_loop(name):
    layer = getattr(tf_cudnn_rnn.keras, name)(H)
    assert layer(np.zeros([2, 4, 0], "float32")).shape == (2, H)
    assert layer.fallback_reason == "the input must have at least one feature; got 0"
    with pytest.raises(ValueError, match="cannot run fused: the input must have at least one"):
        getattr(tf_cudnn_rnn.keras, name)(H, use_fused=True)(np.zeros([2, 4, 0], "float32"))


def test_a_gru_ignores_a_second_state():
    ours, theirs = pairs.pair("GRU")
    states = [*pairs.states(ours), tf.zeros([2, 2], tf.float64)]
    expected = theirs(pairs.inputs(), initial_state=states)
    for use_fused in (True, False):  # and in Keras' loop
        ours.use_cudnn = use_fused
        actual = ours(pairs.inputs(), initial_state=states)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


# ------------------------------------------------------------------------------------
# Wrapped, and in models
# ------------------------------------------------------------------------------------


MERGE_MODES = ("concat", "sum", "mul", "ave", None)
BIDIRECTIONAL = [  # every two of the three meet
    (name, (i + k) % 2 == 0, merge_mode)
    for i, name in enumerate(LAYERS)
    for k, merge_mode in enumerate(MERGE_MODES)
]


@pytest.mark.parametrize(("name", "return_sequences", "merge_mode"), BIDIRECTIONAL)
def test_bidirectional(name, return_sequences, merge_mode):
    def wrap(layer):
        return keras.layers.Bidirectional(layer, merge_mode=merge_mode, dtype="float64")

    ours, theirs = pairs.pair(name, wrap=wrap, return_sequences=return_sequences, return_state=True)
    for mask in (None, tf.constant(MASK)):
        pairs.assert_same(ours, theirs, pairs.inputs(), mask=mask, label=str(merge_mode))
    assert ours.forward_layer.runs_fused and ours.backward_layer.runs_fused
    assert type(ours.backward_layer) is getattr(tf_cudnn_rnn.keras, name)


@pytest.mark.parametrize("name", LAYERS)
def test_time_distributed(name):
    def wrap(layer):
        return keras.layers.TimeDistributed(layer, dtype="float64")

    ours, theirs = pairs.pair(name, wrap=wrap, shape=(2, 2, T, I), return_sequences=True)
    x = np.random.default_rng(5).normal(size=[2, 2, T, I])
    mask = tf.constant(MASK[1:5].reshape(2, 2, T))
    for options in ({}, {"mask": mask}):
        pairs.assert_same(ours, theirs, x, **options)
    assert ours.layer.runs_fused

    # Here Keras vectorises, over as many steps as there are rows in the batch, by mistake.
    @tf.function(input_signature=[tf.TensorSpec([None, None, T, I], tf.float64)])
    def run(x):
        return ours(x)

    np.testing.assert_allclose(run(x), theirs(x), rtol=0, atol=1e-12)

    specs = [tf.TensorSpec([None, 2, T, I], tf.float64), tf.TensorSpec([None, 2, T], tf.bool)]
    masked = tf.function(lambda x, mask: ours(x, mask=mask), input_signature=specs)
    np.testing.assert_allclose(masked(x, mask), theirs(x, mask=mask), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", LAYERS)
def test_weights_keep_their_bits_in_a_wrapper_of_another_type(name):
    """TimeDistributed runs its layer's `call`, and what it reads would be cast to bfloat16."""

    def wrap(layer):
        return keras.layers.TimeDistributed(layer, dtype="mixed_bfloat16")

    ours, theirs = pairs.pair(name, wrap=wrap, shape=(2, 2, T, I), return_sequences=True)
    x = np.random.default_rng(5).normal(size=[2, 2, T, I])
    expected = theirs(x)
    np.testing.assert_allclose(ours(x), expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(tf.function(ours)(x), expected, rtol=0, atol=1e-12)
    assert ours.layer.runs_fused

    both = keras.layers.Bidirectional(ours.layer, dtype="float64")
    both(x[0])
    accelerated = tf_cudnn_rnn.keras.Bidirectional.from_config(both.get_config())
    accelerated(x[0])
    accelerated.set_weights(both.get_weights())
    expected, actual = (wrap(layer)(x) for layer in (both, accelerated))
    assert accelerated.runs_as_one
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-12)


def _classifier(module, name):
    keras.utils.set_random_seed(8)
    layer = getattr(module, name)
    return keras.Sequential(
        [
            keras.Input([None]),
            keras.layers.Embedding(20, I, mask_zero=True),
            layer(H, recurrent_regularizer="l2", kernel_constraint="max_norm", dropout=0.2, seed=1),
            keras.layers.Dense(3, activation="softmax"),
        ]
    )


@pytest.mark.parametrize("name", LAYERS)
def test_fit(name):
    """Training with masks, dropout and clipping takes the same course."""
    rng = np.random.default_rng(7)
    x, labels = rng.integers(0, 20, size=[24, T]), rng.integers(0, 3, size=[24])
    x[3] = 0  # all masked
    histories, models = [], []
    for module in (tf_cudnn_rnn.keras, keras.layers):
        model = _classifier(module, name)
        optimizer = keras.optimizers.SGD(0.1, momentum=0.9, clipnorm=1.0)
        # To trace Keras' loop takes longer than these few steps.
        eagerly = module is keras.layers
        model.compile(optimizer, "sparse_categorical_crossentropy", run_eagerly=eagerly)
        history = model.fit(x, labels, batch_size=8, epochs=3, shuffle=False, verbose=0)
        histories.append(history.history["loss"])
        models.append(model)
    np.testing.assert_allclose(histories[0], histories[1], rtol=1e-5)
    assert histories[0][-1] < histories[0][0]
    for one, other in zip(models[0].get_weights(), models[1].get_weights(), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5)
    np.testing.assert_allclose(
        models[0].predict(x, verbose=0), models[1](x, training=False), rtol=0, atol=1e-5
    )
    assert models[0].layers[1].runs_fused


@pytest.mark.parametrize("name", LAYERS)
def test_states_handed_over(name):
    """An encoder's final states start a decoder."""

    def model(module):
        layer = getattr(module, name)
        source, target = keras.Input([None, I]), keras.Input([None, I])
        _, *states = layer(H, return_state=True)(source)
        outputs = layer(H, return_sequences=True)(target, initial_state=states)
        return keras.Model([source, target], outputs)

    ours, theirs = model(tf_cudnn_rnn.keras), model(keras.layers)
    pairs.randomise(ours)
    theirs.set_weights(ours.get_weights())
    data = [pairs.inputs("float32", seed=1), pairs.inputs("float32", seed=2)]
    np.testing.assert_allclose(ours(data), theirs(data), rtol=0, atol=2e-6)


# ------------------------------------------------------------------------------------
# Arguments
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LAYERS)
def test_arguments_that_are_called_otherwise_here(name):
    layer = getattr(tf_cudnn_rnn.keras, name)
    for other, here in [
        ("num_units", "`units`."),
        ("batch_first", "nothing: inputs are [B, T, I]."),
        ("bias", "`use_bias`."),
        ("hidden_size", "`units`."),
        ("num_layers", "a layer for each, or a CudnnRNN for all."),
        ("bidirectional", "keras.layers.Bidirectional around it."),
        ("proj_size", "a CudnnLSTM, which can project."),
    ]:
        with pytest.raises(TypeError) as error:
            layer(**{other: 3})
        assert str(error.value) == f"{name} takes no `{other}`. In its place take {here}"
