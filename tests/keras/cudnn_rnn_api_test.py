"""CudnnRNN as a Keras layer: shapes, masks, states, models, and what it refuses."""

import copy
import inspect
import pickle

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras import cudnn_rnn_stacks as stacks
from tests.keras.cudnn_rnn_stacks import LENGTHS, MASK, B, H, I, L, P, T
from tf_cudnn_rnn.keras import CudnnGRU, CudnnLSTM, CudnnRNN, CudnnRNNRelu, CudnnRNNTanh

OPTIONS = [
    {"return_sequences": sequences, "return_state": state, "time_major": time_major}
    for sequences in (False, True)
    for state in (False, True)
    for time_major in (False, True)
]


# ------------------------------------------------------------------------------------
# Shapes
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_shapes(mode, options):
    more = {"num_proj": P} if mode == "lstm" else {}
    layer = CudnnRNN(H, L, mode, "bidirectional", **options, **more)
    features, k = (P if mode == "lstm" else H), 2 * L
    x = stacks.inputs(dtype="float32", time_major=options["time_major"])
    first = (T, B) if options["time_major"] else (B, T)
    y = (*first, 2 * features) if options["return_sequences"] else (B, 2 * features)
    states = [(k, B, n) if options["time_major"] else (B, k, n) for n in (features, H)]
    states = states if mode == "lstm" else states[:1]
    expected = (y, *states) if options["return_state"] else y
    assert layer.compute_output_shape(x.shape) == expected
    eager = layer(x)
    symbolic = layer(keras.Input(batch_shape=x.shape))
    assert isinstance(eager, tuple) == isinstance(symbolic, tuple) == options["return_state"]
    for outputs in (eager, symbolic):
        shapes = [tuple(output.shape) for output in tf.nest.flatten(outputs)]
        assert shapes == (list(expected) if options["return_state"] else [expected])
    # Unknown sizes stay unknown, in tf.function too.
    spec = tf.TensorSpec([None, None, I])
    outputs = tf.nest.flatten(tf.function(layer).get_concrete_function(spec).outputs)
    for output, shape in zip(outputs, shapes, strict=True):
        assert output.shape.rank == len(shape) and output.shape[-1] == shape[-1]
    unknown = layer.compute_output_shape((None, None, I))
    assert tf.nest.flatten(unknown)[-1] == shapes[-1][-1]


@pytest.mark.parametrize("call", [{}, {"sequence_lengths": np.zeros([0], np.int32)}])
def test_a_batch_of_nothing(call):
    layer = stacks.built(direction="bidirectional", return_sequences=True, return_state=True)
    y, h, c = layer(np.zeros([0, T, I]), **call)
    assert y.shape == [0, T, 2 * H] and h.shape == c.shape == [0, 2 * L, H]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(np.zeros([0, T, I]), mask=np.zeros([0, T], bool))[0])
    np.testing.assert_array_equal(tape.gradient(loss, layer.params.value), 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"inputs": np.zeros([B, I])}, "expected ndim=3, found ndim=2"),
        ({"inputs": np.zeros([B, T, I + 1])}, "expected axis -1 of input shape to have value 3"),
        ({"initial_state": [np.zeros([B, L, H])]}, r"rnn_mode lstm, must be \(h, c\); got 1 tens"),
        (
            {"initial_state": [np.zeros([B, L, H]), np.zeros([L, B, P])]},
            r"`initial_state`\[1\].* must have shape \[B, L\*D, H\] = \[4, 2, 6\]; got \[2, 4, 2\]",
        ),
        (
            {"sequence_lengths": [1, 2]},
            r"`sequence_lengths` of layer .* must have shape \[B\] = \[4\]; got \[2",
        ),
        (
            {"sequence_lengths": np.ones([B], "float32")},
            r"`sequence_lengths` of layer .* must be integers; got float64. Pass np\.asarray",
        ),
        (
            {"mask": MASK[:, :3]},
            r"`mask` .* first two dimensions of the input = \[4, 5\]; got \[4, 3",
        ),
        ({"sequence_lengths": np.int32(3)}, r"must have shape \[B\] = \[4\]; got \[\]"),
        ({"mask": np.True_}, r"`mask` .* first two dimensions of the input = \[4, 5\]; got \[\]"),
        ({"sequence_lengths": LENGTHS, "mask": MASK}, "either `mask` or `sequence_lengths`; got b"),
    ],
)
def test_wrong_calls(call, message):
    layer = stacks.built(name="rnn")
    call = {"inputs": stacks.inputs(), **call}
    with pytest.raises(ValueError, match=message):
        layer(**call)
    if "ndim" in message or "axis" in message or "got [2" in message.replace("\\", ""):
        return
    symbolic = tf.nest.map_structure(
        lambda a: keras.Input(batch_shape=a.shape, dtype=a.dtype), call
    )
    with pytest.raises(ValueError, match=message):
        layer(**symbolic)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_units": 0}, "`num_units` must be positive; got 0"),
        ({"num_layers": 0}, "`num_layers` must be positive; got 0"),
        ({"rnn_mode": "LSTM"}, "`rnn_mode` must be one of rnn_relu, .*; got 'LSTM'"),
        ({"direction": "both"}, "`direction` must be one of"),
        ({"input_mode": "skip"}, "`input_mode` must be one of"),
        ({"num_proj": 3, "rnn_mode": "gru"}, "`num_proj` must be 0 for any `rnn_mode` other"),
        ({"num_proj": H + 1}, "`num_proj` must be at most `num_units`"),
        ({"go_backwards": True}, "`go_backwards` must be left out of CudnnRNN; got True. Pass dir"),
        ({"layers": 3}, "Unrecognized keyword arguments"),
        ({"dtype": "int32"}, "`dtype` must be one of float16, .*; got int32"),
        ({"dtype": "complex64"}, "`dtype` must be one of float16, .*; got complex64"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(ValueError, match=message):
        CudnnRNN(**{"num_units": H, **options})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_units": "4"}, "`num_units` must be an integer; got '4'"),
        ({"num_layers": 1.0}, "`num_layers` must be an integer; got 1.0"),
        ({"num_proj": "2"}, "`num_proj` must be an integer; got '2'"),
        ({"num_proj": 0.0}, "`num_proj` must be an integer; got 0.0"),
        ({"dropout": None}, "`dropout` must be a real number; got None"),
        ({"dropout": "0.5"}, "`dropout` must be a real number; got '0.5'"),
        ({"kernel_initializer": None}, "`kernel_initializer` must be an initializer; got None. L"),
        ({"bias_initializer": None}, "`bias_initializer` must be an initializer; got None. L"),
        ({"time_major": "yes"}, "`time_major` must be True or False; got 'yes'"),
        ({"return_sequences": None}, "`return_sequences` must be True or False; got None"),
        ({"stateful": 2}, "`stateful` must be True or False; got 2"),
    ],
)
def test_options_of_wrong_types(options, message):
    with pytest.raises(TypeError, match=message):
        CudnnRNN(**{"num_units": H, **options})


def test_dropout_can_be_set():
    x = stacks.inputs(dtype="float32")
    layer = CudnnLSTM(H, L, dropout=0.5, seed=1)
    assert np.any(layer(x, training=True) != layer(x))
    layer.dropout = 0
    np.testing.assert_array_equal(layer(x, training=True), layer(x))
    layer.dropout = 0.9
    assert layer.get_config()["dropout"] == 0.9
    assert np.any(layer(x, training=True) != layer(x))
    with pytest.raises(ValueError, match=r"`dropout` must be in \[0, 1\]; got 2"):
        layer.dropout = 2
    assert layer.dropout == 0.9


def test_dropout_cannot_be_set_in_a_layer_made_without():
    layer = CudnnLSTM(H, L, name="rnn")
    layer.dropout = 0
    with pytest.raises(ValueError, match=r"`dropout` of layer 'rnn' must stay 0, .*; got 0.5"):
        layer.dropout = 0.5
    other = CudnnLSTM.from_config(layer.get_config() | {"dropout": 0.5})
    assert other.dropout == 0.5
    CudnnLSTM(H, 1).dropout = 0.5  # acts between layers, of which there are none


def test_sizes_of_numpy_are_kept_as_those_of_python():
    sizes = {"num_units": H, "num_layers": L, "num_proj": P, "dropout": 0.5}
    layer = CudnnLSTM(**{name: np.asarray(size)[()] for name, size in sizes.items()})
    config = layer.get_config()
    assert {name: config[name] for name in sizes} == sizes
    assert {type(config[name]) for name in sizes} == {int, float}


@pytest.mark.parametrize("cls", [CudnnLSTM, CudnnGRU, CudnnRNNTanh, CudnnRNNRelu])
def test_classes_of_one_mode(cls):
    mode = cls(H).rnn_mode
    assert mode.replace("_", "") == cls.__name__.removeprefix("Cudnn").lower()
    with pytest.raises(ValueError, match=f"of {cls.__name__}, which is always {mode!r}; got 'x'"):
        cls(H, rnn_mode="x")


def test_bidirectional_names_the_option_instead():
    with pytest.raises(ValueError, match="Pass direction='bidirectional' instead of putting") as e:
        keras.layers.Bidirectional(CudnnLSTM(H))
    assert len(str(e.value)) < 200


@pytest.mark.parametrize("time_major", [False, True])
def test_sequences_without_a_step(time_major):
    layer = stacks.built(name="rnn", time_major=time_major)
    shape, letters = ((0, B, I), "T, B, I") if time_major else ((B, 0, I), "B, T, I")
    message = rf"`inputs` of layer 'rnn' must have shape \[{letters}\] with T at least 1; got \["
    for x in (np.zeros(shape), keras.Input(batch_shape=shape)):
        with pytest.raises(ValueError, match=message + ", ".join(map(str, shape))):
            layer(x)


def test_sizes_that_show_when_it_is_built():
    with pytest.raises(ValueError, match="`input_size` must equal `num_units` for skip_input"):
        CudnnRNN(H, input_mode="skip_input")(stacks.inputs(dtype="float32"))
    with pytest.raises(ValueError, match=r"the input size, must be known; got shape \(4, 5, None"):
        CudnnRNN(H).build((B, T, None))


# ------------------------------------------------------------------------------------
# Masks
# ------------------------------------------------------------------------------------


def test_masks_of_layers_are_used_and_handed_on():
    masked = np.where(MASK[..., None], stacks.inputs(dtype="float32"), 0)
    inputs = keras.Input([None, I])
    y = keras.layers.Masking()(inputs)
    layer = stacks.built("gru", return_sequences=True, dtype="float32")
    for model in (
        keras.Model(inputs, layer(y)),
        keras.Sequential([inputs, keras.layers.Masking(), layer]),
    ):
        np.testing.assert_array_equal(model(masked), layer(masked, mask=MASK))
    x = keras.layers.Masking()(masked)
    np.testing.assert_array_equal(layer(x)._keras_mask, MASK)
    last = CudnnGRU(H)(layer(x))  # the layer above sees the mask
    assert not hasattr(last, "_keras_mask")
    assert np.all(last.numpy()[~MASK.any(1)] == 0)


def test_the_mask_of_inputs_counts_beside_other_tensors():
    """Keras hands it on only to calls with one tensor."""
    layer = stacks.built("gru", dtype="float32")
    masked = np.where(MASK[..., None], stacks.inputs(dtype="float32"), 0)
    states = stacks.states(layer)
    expected = layer(masked, initial_state=states, mask=MASK)
    x = keras.layers.Masking()(masked)
    np.testing.assert_array_equal(layer(x, initial_state=states), expected)
    with pytest.raises(ValueError, match="A mask may also have come with `inputs`"):
        layer(x, sequence_lengths=LENGTHS)
    inputs, h = keras.Input([T, I]), keras.Input([L, H])
    model = keras.Model([inputs, h], layer(keras.layers.Masking()(inputs), initial_state=[h]))
    np.testing.assert_array_equal(model([tf.constant(masked), states[0]]), expected)


def test_compute_mask():
    mask = tf.constant(MASK)
    assert CudnnLSTM(H).compute_mask(None, mask) is None
    assert CudnnLSTM(H, return_sequences=True).compute_mask(None, mask) is mask
    assert CudnnLSTM(H, return_state=True).compute_mask(None, mask) == [None, None, None]
    layer = CudnnGRU(H, return_sequences=True, return_state=True)
    assert layer.compute_mask(None, [mask]) == [mask, None]


@pytest.mark.parametrize("mask", [MASK.astype(np.int32), MASK[..., None], [tf.constant(MASK)]])
def test_masks_of_any_type(mask):
    layer = stacks.built("gru", return_sequences=True)
    np.testing.assert_array_equal(
        layer(stacks.inputs(), mask=mask), layer(stacks.inputs(), mask=MASK)
    )


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("rank", [2, 3, None])
def test_masks_of_unknown_sizes(rank, time_major):
    layer = stacks.built("gru", return_sequences=True, time_major=time_major, name="rnn")
    mask = tf.TensorSpec(None if rank is None else [None] * rank, tf.bool)
    signature = [tf.TensorSpec([None, None, I], tf.float64), mask]
    run = tf.function(lambda x, mask: layer(x, mask=mask), input_signature=signature)

    def outer_major(array):
        array = array.swapaxes(0, 1) if time_major else array
        return array[..., None] if rank == 3 and array.ndim == 2 else array

    x = outer_major(stacks.inputs())
    expected = layer(x, mask=outer_major(MASK))
    np.testing.assert_array_equal(run(x, outer_major(MASK)), expected)
    for wrong in (MASK[:, :3], MASK[:, [0, *range(T)]], MASK[:2], MASK[:1], MASK.T):
        message = r"`mask` of layer .*rnn.* must have the first two dimensions of the input =\] \["
        message += " ".join(map(str, x.shape[:2]))
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            run(x, outer_major(wrong))
    if rank is None:
        with pytest.raises(tf.errors.InvalidArgumentError, match="`mask` of layer .*rnn"):
            run(x, MASK[0])


@pytest.mark.parametrize(
    "lengths", [LENGTHS.tolist(), LENGTHS.astype(np.int64), tf.constant(LENGTHS)]
)
def test_lengths_of_any_type(lengths):
    layer = stacks.built("gru", return_sequences=True)
    y = layer(stacks.inputs(), sequence_lengths=lengths)
    np.testing.assert_array_equal(y, layer(stacks.inputs(), sequence_lengths=LENGTHS))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "uint32", "int64", "uint64"])
def test_lengths_of_any_integer_type(dtype):
    layer = stacks.built("gru", return_sequences=True)
    y = layer(stacks.inputs(), sequence_lengths=tf.constant(LENGTHS.astype(dtype)))
    np.testing.assert_array_equal(y, layer(stacks.inputs(), sequence_lengths=LENGTHS))


@pytest.mark.parametrize(
    "lengths", [[2**32 + 1] * B, [-(2**32) + 1] * B, np.full(B, 2**63 + 1, np.uint64)], ids=str
)
def test_lengths_beyond_int32_are_out_of_range(lengths):
    layer = stacks.built("gru")
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"must be in \[0, T\] = \[0, 5\], got"
    ):
        layer(stacks.inputs(), sequence_lengths=lengths)


# ------------------------------------------------------------------------------------
# States
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("time_major", [False, True])
def test_stateful(time_major):
    options = {"direction": "bidirectional", "time_major": time_major, "return_state": True}
    shape = (T, B, I) if time_major else (B, T, I)
    layer = stacks.built("lstm", stateful=True, **options)
    plain = stacks.built("lstm", **options)
    x = stacks.inputs(time_major=time_major)
    _, *states = plain(x)
    expected = plain(x, initial_state=states)
    assert layer.states[0].shape == states[0].shape
    layer(x)
    for one, other in zip(layer(x), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    for variable, state in zip(layer.states, expected[1:], strict=True):
        np.testing.assert_array_equal(variable.numpy(), state)
    for reset in (layer.reset_state, layer.reset_states):
        reset()
        np.testing.assert_array_equal(layer(x)[0], plain(x)[0])
    # As in Keras, weights fit any batch size; and initial states can be given.
    assert len(layer.weights) == 1 and plain.states is None
    np.testing.assert_array_equal(layer(x, initial_state=states)[0], expected[0])
    with pytest.raises(ValueError, match="the size of its states, 4; got 3"):
        layer(x[:, :3] if time_major else x[:3])
    with pytest.raises(ValueError, match="stateful=True, so its batch size must be known"):
        CudnnRNN(H, stateful=True).build((None, None, I))
    plain.reset_state()
    assert shape == x.shape


def test_stateful_models_are_saved_and_exported(tmp_path):
    def model_of():
        layer = CudnnGRU(H, 2, stateful=True)
        return keras.Sequential([keras.Input(batch_shape=[B, T, I]), layer])

    model = model_of()
    x = stacks.inputs(dtype="float32")
    model.export(tmp_path / "model", verbose=False)
    path = tf.train.Checkpoint(model=model).save(str(tmp_path / "checkpoint"))
    expected = [model(x).numpy() for _ in range(2)]
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_allclose([loaded.serve(x) for _ in range(2)], expected, atol=1e-6)
    other = model_of()
    tf.train.Checkpoint(model=other).restore(path).assert_consumed()
    np.testing.assert_array_equal([other(x) for _ in range(2)], expected)


def test_encoder_and_decoder():
    source, target = keras.Input([None, I], name="source"), keras.Input([None, I], name="target")
    encoder = CudnnLSTM(H, 2, num_proj=P, return_state=True)
    decoder = CudnnLSTM(H, 2, num_proj=P, return_sequences=True)
    _, *states = encoder(source)
    model = keras.Model([source, target], decoder(target, initial_state=states))
    data = [stacks.inputs(dtype="float32", seed=k) for k in (1, 2)]
    expected = decoder(data[1], initial_state=encoder(data[0])[1:])
    np.testing.assert_array_equal(model(data), expected)
    again = keras.Model.from_config(model.get_config())
    again.set_weights(model.get_weights())
    np.testing.assert_array_equal(again(data), expected)
    np.testing.assert_allclose(model.predict(data, verbose=0), expected, atol=1e-6)


# ------------------------------------------------------------------------------------
# Models
# ------------------------------------------------------------------------------------


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.rnn = CudnnGRU(H, 2, direction="bidirectional", dropout=0.1, seed=1)
        self.dense = keras.layers.Dense(1)

    def call(self, inputs, training=False):
        return self.dense(self.rnn(inputs, training=training))


def models() -> dict:
    inputs = keras.Input([None, I])
    y = CudnnGRU(H, 2, direction="bidirectional", dropout=0.1, seed=1)(inputs)
    return {
        "functional": keras.Model(inputs, keras.layers.Dense(1)(y)),
        "sequential": keras.Sequential(
            [CudnnGRU(H, 2, direction="bidirectional", dropout=0.1, seed=1), keras.layers.Dense(1)]
        ),
        "subclassed": Subclassed(),
    }


def loss_histories(kinds) -> list[list[float]]:
    x, y = stacks.inputs(dtype="float32"), np.ones([B, 1], np.float32)
    histories = []
    for name, model in models().items():
        if name in kinds:
            model(x)
            stacks.randomise(model)
            model.compile(keras.optimizers.Adam(0.05), "mse")
            history = model.fit(x, y, epochs=4, shuffle=False, verbose=0).history["loss"]
            assert min(history) < 0.7 * history[0], name
            histories.append(history)
    return histories


def test_all_kinds_of_models_learn_alike():
    first, *others = loss_histories(["functional", "sequential", "subclassed"])
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-5)


def test_mixed_precision_learns():
    (expected,) = loss_histories(["sequential"])
    keras.config.set_dtype_policy("mixed_float16")
    try:
        (actual,) = loss_histories(["sequential"])
    finally:
        keras.config.set_dtype_policy("float32")
    np.testing.assert_allclose(actual[0], expected[0], rtol=2e-3)  # then Keras scales the loss


def test_wrapped_and_frozen():
    layer = CudnnGRU(H, trainable=False)
    model = keras.Sequential([keras.Input([2, T, I]), keras.layers.TimeDistributed(layer)])
    x = np.random.default_rng(0).normal(size=[B, 2, T, I]).astype("float32")
    expected = tf.stack([layer(x[:, k]) for k in range(2)], axis=1)
    np.testing.assert_allclose(model(x), expected, atol=1e-6)
    assert model.trainable_weights == [] and len(model.non_trainable_weights) == 1


def test_activity_regularizer():
    layer = stacks.built("gru", activity_regularizer="l2")
    y = layer(stacks.inputs())
    # Versions of Keras differ in whether they divide by the batch.
    identity = keras.layers.Activation("linear", activity_regularizer="l2")
    identity(y)
    np.testing.assert_allclose(layer.losses[0], identity.losses[0], rtol=1e-6)
    assert layer.losses[0] > 0.0


@pytest.mark.parametrize("cls", [CudnnRNN, CudnnLSTM, CudnnGRU, CudnnRNNTanh, CudnnRNNRelu])
def test_errors_of_the_constructor_name_the_class(cls):
    name = cls.__name__
    with pytest.raises(TypeError, match=rf"^{name}.__init__\(\) missing 1 .*'num_units'"):
        cls()
    with pytest.raises(TypeError, match=rf"^{name}.__init__\(\) got multiple .*'num_units'"):
        cls(3, num_units=3)
    with pytest.raises(ValueError, match=rf"Unrecognized keyword arguments passed to {name}: "):
        cls(3, layers=2)
    for other, ours in [
        ("units", "`num_units`: `units` are those of LSTM, GRU and SimpleRNN"),
        ("hidden_size", "`num_units`"),
        ("proj_size", "`num_proj`"),
        ("bidirectional", "`direction`, 'unidirectional' or 'bidirectional'"),
        ("batch_first", "`time_major`, which is the opposite"),
        ("bias", "`unit_forget_bias=False`, by which the biases"),
        ("input_size", "nothing: the first input tells it"),
        ("activation", "an LSTM, GRU or SimpleRNN of tf_cudnn_rnn.keras"),
        ("recurrent_dropout", "an LSTM, GRU or SimpleRNN of tf_cudnn_rnn.keras"),
    ]:
        with pytest.raises(
            TypeError, match=f"^{name} takes no `{other}`. In its place take {ours}"
        ):
            cls(**{other: 3})
    if cls is not CudnnRNN:
        with pytest.raises(TypeError, match=rf"^{name}.__init__\(\) takes from 2 to 3 positional"):
            cls(3, 2, "bidirectional")


def test_ragged_inputs_are_padded_by_the_caller():
    ragged = tf.RaggedTensor.from_row_lengths(tf.zeros([5, 2]), [3, 2])
    layer = CudnnLSTM(3)
    with pytest.raises(ValueError, match=r"padded to one length; .* Pass inputs.to_tensor\(\)"):
        layer(ragged)
    lengths = tf.cast(ragged.row_lengths(), tf.int32)
    assert layer(ragged.to_tensor(), sequence_lengths=lengths).shape[0] == 2


def test_flags_may_be_numpys_or_numbers():
    layer = CudnnRNN(H, return_sequences=np.True_, time_major=np.int64(1), stateful=0)
    config = layer.get_config()
    flags = [config[name] for name in ("return_sequences", "time_major", "stateful")]
    assert flags == [True, True, False] and set(map(type, flags)) == {bool}


def test_flags_that_were_none_when_a_layer_was_saved():
    """As version 0.1.0 let them be."""
    config = CudnnRNN(H, return_sequences=True).get_config() | {"return_state": None}
    layer = CudnnRNN.from_config(config)
    assert layer.return_state is False and layer.return_sequences is True


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"sequence_lengths": 3}, r"`sequence_lengths` of layer 'rnn' must have shape \[B\]"),
        ({"sequence_lengths": "abcd"}, r"`sequence_lengths` of layer 'rnn' must have shape \[B\]"),
        ({"sequence_lengths": [*"abcd"]}, "`sequence_lengths` of layer 'rnn' must be integers"),
        ({"mask": True}, "`mask` of layer 'rnn' must have the first two dimensions"),
        ({"mask": "x"}, "`mask` of layer 'rnn' must have the first two dimensions"),
        (
            {"mask": tf.RaggedTensor.from_row_lengths(tf.ones([9], tf.bool), [1, 2, 2, 4])},
            r"`mask` of layer 'rnn' must be a tensor, .*; got a RaggedTensor. Pass mask.to_tensor",
        ),
        (
            {"inputs": tf.sparse.from_dense(np.ones([B, T, I], "float32"))},
            r"`inputs` of layer 'rnn' must be a dense tensor; .* Pass tf.sparse.to_dense",
        ),
        ({"inputs": np.ones([B, T, I], "complex64")}, "must be of real numbers; got complex64"),
    ],
)
def test_what_is_no_tensor_of_numbers(call, message):
    layer = stacks.built(name="rnn")
    with pytest.raises(ValueError, match=message):
        layer(**{"inputs": stacks.inputs(), **call})
    if "Ragged" in message:  # by its place, as Keras lets tensors alone be passed
        with pytest.raises(ValueError, match=message):
            layer(stacks.inputs(), None, None, call["mask"])


def test_complex_inputs_of_a_graph_are_refused():
    with pytest.raises(ValueError, match="must be of real numbers; got complex64"):
        CudnnLSTM(H)(keras.Input([T, I], dtype="complex64"))


def test_a_subclass_may_have_names_of_its_own():
    class Mine(CudnnLSTM):
        def __init__(self, units, hidden_size=2):
            super().__init__(units, hidden_size)

    assert Mine(units=3).num_units == 3
    assert Mine(3, hidden_size=4).num_layers == 4


@pytest.mark.parametrize("calls", ["named", "any"])
def test_a_subclass_may_take_no_mask(calls):
    class Residual(CudnnGRU):
        def call(self, inputs, training=False):
            return inputs + super().call(inputs, training=training)

    class Any(CudnnGRU):
        def call(self, inputs, **options):
            return inputs + super().call(inputs, **options)

    layer = {"named": Residual, "any": Any}[calls](I, return_sequences=True)
    x = stacks.inputs()
    np.testing.assert_array_equal(layer(x), x + CudnnGRU.call(layer, x))


def test_masks_and_lengths_may_be_lists():
    layer, x = stacks.built("lstm"), stacks.inputs()
    mask = np.arange(T) < np.arange(1, B + 1)[:, None]
    expected = layer(x, mask=mask)
    np.testing.assert_array_equal(layer(x, mask=mask.tolist()), expected)
    lengths = mask.sum(axis=1).tolist()
    np.testing.assert_array_equal(layer(x, sequence_lengths=lengths), expected)
    np.testing.assert_array_equal(layer(x, mask=[*mask]), expected)
    np.testing.assert_array_equal(layer(x, mask=mask[:, :, None].tolist()), expected)
    for wrong in ([[True, False]], [True, False]):
        with pytest.raises(ValueError, match=r"`mask` of layer .* must have the first two dim"):
            layer(x, mask=wrong)
    with pytest.raises(ValueError, match=r"rows of the same length; got lengths \[1, 2\]"):
        layer(x, mask=[[True], [True, False]])
    assert layer(x[:0], sequence_lengths=[]).shape[0] == 0


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_a_layer_that_was_never_built(tmp_path):
    """As a branch of a model that is not called; Keras saves and copies such layers, too."""
    layer = CudnnLSTM(H, num_layers=2)
    for again in (copy.deepcopy(layer), copy.copy(layer), pickle.loads(pickle.dumps(layer))):
        assert again.get_config() == layer.get_config() and not again.built

    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.rnn, self.dense = CudnnLSTM(H), keras.layers.Dense(1)

        def build(self, shape):
            self.dense.build(shape)

        def call(self, x):
            return self.dense(x)

    def made():
        model = Model()
        model(np.zeros([1, I], "float32"))
        return model

    model, again = made(), made()
    model.save_weights(tmp_path / "a.weights.h5")
    again.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(*(m.dense.kernel.numpy() for m in (again, model)))
    model.rnn(stacks.inputs())
    model.save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(ValueError, match="must be built before its weights are known"):
        again.rnn.load_own_variables({"header": np.zeros(3, np.uint8)})


def test_tools_may_look_at_all_attributes():
    """What a layer does not have is no error for them, and one with a message for others."""
    layer = CudnnLSTM(H)
    assert not hasattr(layer, "cells") and not hasattr(layer, "layout")
    assert "params" not in dict(inspect.getmembers(layer))
    with pytest.raises(ValueError, match="`separate_weights` of layer 'rnn' must be True"):
        stacks.built(name="rnn").cells  # noqa: B018


def test_a_repr_names_the_class():
    assert repr(CudnnLSTM(3, name="rnn")) == "<CudnnLSTM name=rnn, built=False>"
    assert "_OfOneMode" not in CudnnLSTM.__init__.__qualname__ + CudnnLSTM.__doc__
