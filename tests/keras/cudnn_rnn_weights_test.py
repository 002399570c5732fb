"""The weights of CudnnRNN: how they start, what files and checkpoints hold of them."""

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.keras import cudnn_rnn_stacks as stacks
from tests.keras.cudnn_rnn_stacks import B, H, I, P, T
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._formats import params_header
from tf_cudnn_rnn.keras import CudnnGRU, CudnnLSTM, CudnnRNN, CudnnRNNRelu, CudnnRNNTanh

# h5py reads Keras' variables in a way that NumPy 2 wants changed.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")


def group_arrays(layer) -> dict[str, np.ndarray]:
    params = layer.params.numpy()
    return {
        str(group.name): params[group.offset :][: group.size].reshape(group.shape)
        for group in params_header.groups(layer.layout)
    }


# ------------------------------------------------------------------------------------
# Initial values
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rnn_mode", stacks.MODES)
def test_each_matrix_starts_with_its_own_fan_in(rnn_mode):
    units, input_size = 48, 10
    layer = CudnnRNN(units, 2, rnn_mode, "bidirectional")
    layer.build((None, None, input_size))
    G = {"lstm": 4, "gru": 3}.get(rnn_mode, 1)
    arrays = group_arrays(layer)
    assert len(arrays) == 2 * 2 * 4
    for name, array in arrays.items():
        if name.endswith("input_kernel"):
            fan_in = input_size if name.startswith("layer_0") else 2 * units
            limit = np.sqrt(6 / (fan_in + G * units))
            assert array.shape == (G * units, fan_in)
            assert 0.95 * limit < np.abs(array).max() <= limit
            np.testing.assert_allclose(array.std(), limit / np.sqrt(3), rtol=0.1)
        elif name.endswith("recurrent_kernel"):
            assert array.shape == (G * units, units)
            np.testing.assert_allclose(array.T @ array, np.eye(units), atol=1e-5)
        else:
            expected = np.zeros([G, units])
            if rnn_mode == "lstm" and name.endswith("recurrent_bias"):
                expected[1] = 1  # input, forget, cell, output
            np.testing.assert_array_equal(array, expected.ravel())
    kernels = [a.tobytes() for name, a in arrays.items() if name.endswith("kernel")]
    assert len(set(kernels)) == len(kernels)  # drawn one by one


def test_projections_start_like_kernels():
    layer = CudnnLSTM(40, 2, num_proj=8, direction="bidirectional")
    layer.build((None, None, 10))
    for name, array in group_arrays(layer).items():
        if name.endswith("projection"):
            limit = np.sqrt(6 / (40 + 8))
            assert array.shape == (8, 40) and 0.9 * limit < np.abs(array).max() <= limit


def test_initial_values_are_those_of_keras():
    """With the same seed, one layer of Keras' own draws the same kernels."""
    options = {
        "kernel_initializer": keras.initializers.GlorotUniform(seed=5),
        "recurrent_initializer": keras.initializers.Orthogonal(seed=6),
    }
    ours = CudnnLSTM(H, **options, recurrent_regularizer="l2")
    theirs = keras.layers.LSTM(H, **options)
    ours.build((None, None, I)), theirs.build((None, None, I))
    canonical = weights.Canonical(ours.layout, ours.canonical_weights())
    (kernel, _, bias), *_ = weights.to_keras(canonical).arrays
    np.testing.assert_array_equal(kernel, theirs.cell.kernel.numpy())
    np.testing.assert_array_equal(bias, theirs.cell.bias.numpy())


def test_initialisers():
    options = {"bias_initializer": "ones", "unit_forget_bias": False}
    layer = CudnnGRU(H, 2, kernel_initializer=keras.initializers.RandomNormal(seed=1), **options)
    again = CudnnGRU(H, 2, kernel_initializer=keras.initializers.RandomNormal(seed=1), **options)
    layer.build((None, None, H)), again.build((None, None, H))
    arrays, same = group_arrays(layer), group_arrays(again)
    np.testing.assert_array_equal(
        arrays["layer_1/forward/input_kernel"], same["layer_1/forward/input_kernel"]
    )
    first, second = (arrays[f"layer_{l}/forward/input_kernel"] for l in range(2))
    assert not np.any(first == second)  # one seed does not make layers alike
    np.testing.assert_array_equal(arrays["layer_0/forward/input_bias"], np.ones(3 * H))
    np.testing.assert_array_equal(arrays["layer_0/forward/recurrent_bias"], np.ones(3 * H))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_initial_values_of_other_types(dtype):
    layer = CudnnLSTM(32, dtype=dtype)
    layer.build((None, None, 10))
    assert layer.params.dtype == dtype
    R = group_arrays(layer)["layer_0/forward/recurrent_kernel"].astype(np.float64)
    tolerance = {"float16": 2e-3, "bfloat16": 2e-2, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(R.T @ R, np.eye(32), atol=tolerance)


@pytest.mark.parametrize("separate_weights", [False, True])
@pytest.mark.parametrize("options", [{}, {"recurrent_regularizer": "l2"}])
def test_a_kernel_that_is_skipped_has_no_penalty(options, separate_weights):
    layer = CudnnLSTM(
        H,
        input_mode="skip_input",
        kernel_regularizer="l2",
        kernel_constraint="max_norm",
        separate_weights=separate_weights,
        **options,
    )
    layer.build((None, None, H))
    assert len(layer.losses) == len(options)


def test_regularisers_see_matrices():
    class Recorder(keras.regularizers.Regularizer):
        def __init__(self, factor):
            self.factor, self.shapes = factor, []

        def __call__(self, x):
            self.shapes.append(tuple(x.shape))
            return self.factor * tf.reduce_sum(tf.square(x))

    kernel, recurrent, bias = Recorder(2.0), Recorder(3.0), Recorder(5.0)
    layer = stacks.built(
        "lstm",
        num_proj=P,
        kernel_regularizer=kernel,
        recurrent_regularizer=recurrent,
        bias_regularizer=bias,
    )
    with tf.GradientTape() as tape:
        (loss,) = layer.losses
    assert kernel.shapes == [(I, 4 * H), (H, P), (P, 4 * H), (H, P)]
    assert recurrent.shapes == [(P, 4 * H)] * 2
    assert bias.shapes == [(4 * H,)] * 4
    factor = np.concatenate(
        [
            np.full(
                region.size,
                {"input_kernel": 2.0, "projection": 2.0, "recurrent_kernel": 3.0}.get(
                    region.name.kind, 5.0
                ),
            )
            for region in layer.layout.regions
        ]
    )
    params = layer.params.numpy()
    np.testing.assert_allclose(loss, np.sum(factor * params**2), rtol=1e-12)
    np.testing.assert_allclose(
        tape.gradient(loss, layer.params.value), 2 * factor * params, rtol=1e-12
    )
    assert stacks.built("lstm").losses == []


# ------------------------------------------------------------------------------------
# By name
# ------------------------------------------------------------------------------------


def test_canonical_weights():
    layer = stacks.built("gru", direction="bidirectional", dtype="float32")
    named = layer.canonical_weights()
    assert len(named) == 2 * 2 * 12
    name = tf_cudnn_rnn.ParamName(1, "backward", "new", "recurrent_kernel")
    assert named[name].shape == (H, H)
    named[name][:] = 0
    np.testing.assert_raises(
        AssertionError, np.testing.assert_array_equal, layer.canonical_weights()[name], 0
    )
    layer.set_canonical_weights(named)
    for key, array in layer.canonical_weights().items():
        np.testing.assert_array_equal(array, named[key])
    # From elsewhere, through a converter.
    canonical = weights.Canonical(layer.layout, named)
    torch = weights.to_torch(canonical).arrays
    other = stacks.built("gru", direction="bidirectional", dtype="float32")
    stacks.randomise(other, seed=9)
    other.set_canonical_weights(weights.from_torch(torch, "gru"))
    np.testing.assert_array_equal(other.params.numpy(), layer.params.numpy())
    with pytest.raises(ValueError, match="`rnn_mode` is gru there and rnn_tanh here"):
        stacks.built("rnn_tanh", direction="bidirectional").set_canonical_weights(canonical)
    with pytest.raises(ValueError, match="`canonical` must be of weights; got gradients"):
        layer.set_canonical_weights(weights.Canonical(layer.layout, named, of="gradients"))
    del named[name]
    with pytest.raises(ValueError, match="missing layer_1/backward/new/recurrent_kernel"):
        layer.set_canonical_weights(named)
    with pytest.raises(ValueError, match="must be built before its weights are known"):
        CudnnGRU(H).canonical_weights()


CONFIGS = [
    (CudnnRNN, {"rnn_mode": "gru", "num_layers": 3, "direction": "bidirectional"}),
    (CudnnLSTM, {"num_proj": 2, "dropout": 0.5, "num_layers": 2, "seed": 3, "time_major": True}),
    (CudnnGRU, {"input_mode": "auto_select", "return_sequences": True, "return_state": True}),
    (CudnnRNNTanh, {"kernel_regularizer": "l2", "recurrent_regularizer": "l1", "name": "x"}),
    (CudnnRNNRelu, {"stateful": True, "bias_initializer": "ones", "dtype": "mixed_float16"}),
]


@pytest.mark.parametrize(("cls", "options"), CONFIGS)
def test_config(cls, options):
    layer = cls(H, **options)
    config = layer.get_config()
    again = cls.from_config(config)
    assert again.get_config() == config
    for name, value in options.items():
        if name not in ("dtype", "kernel_regularizer", "recurrent_regularizer", "bias_initializer"):
            assert getattr(again, name) == value
    modes = {CudnnLSTM: "lstm", CudnnGRU: "gru", CudnnRNNTanh: "rnn_tanh", CudnnRNNRelu: "rnn_relu"}
    assert again.rnn_mode == modes.get(cls, "gru")
    serialised = keras.saving.serialize_keras_object(layer)
    assert serialised["registered_name"] == f"tf_cudnn_rnn>{cls.__name__}"
    assert type(keras.saving.deserialize_keras_object(serialised)) is cls


# ------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------


def model_of(**options) -> keras.Model:
    """Several layers, of which one projects and one skips its input."""
    x = keras.Input([None, H])
    y = CudnnLSTM(
        H, 2, direction="bidirectional", input_mode="skip_input", num_proj=P, return_sequences=True,
        dropout=0.5, **options,
    )(x)  # fmt: skip
    y = CudnnRNNRelu(H, return_sequences=True)(y)
    y, h = CudnnGRU(H, 2, return_state=True)(y)
    model = keras.Model(x, [y, keras.layers.Dense(2)(h[:, 0])])
    stacks.randomise(model)
    return model


def assert_same_outputs(one, other):
    x = stacks.inputs(H, "float32")
    for a, b in zip(one(x), other(x), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("suffix", [".keras", ".weights.h5", ".weights.json"])
def test_files(suffix, tmp_path):
    model = model_of()
    path = tmp_path / f"model{suffix}"
    if suffix == ".keras":
        model.save(path)
        loaded = keras.saving.load_model(path)
        assert [type(layer) for layer in loaded.layers] == [type(layer) for layer in model.layers]
    else:
        loaded = model_of()
        for variable in loaded.weights:
            variable.assign(tf.zeros(variable.shape))
        more = (
            {"max_shard_size": 1.5e-6} if suffix == ".weights.json" else {}
        )  # GB, so several files
        model.save_weights(path, **more)
        loaded.load_weights(path)
    assert_same_outputs(model, loaded)


def test_what_the_file_says(tmp_path):
    """Readable without this library: named matrices, and a header in JSON."""
    layer = stacks.built("lstm", num_proj=P, direction="bidirectional", dtype="float32")
    keras.Sequential([keras.Input([T, I]), layer]).save_weights(tmp_path / "a.weights.h5")
    with h5py.File(tmp_path / "a.weights.h5") as file:
        variables = file["layers/cudnn_rnn/vars"]
        assert bytes(variables["header"][()]).decode() == (
            '{"format": "tf_cudnn_rnn/params", "version": 1, "rnn_mode": "lstm", "num_layers": 2, '
            '"num_units": 6, "input_size": 3, "direction": "bidirectional", '
            '"input_mode": "linear_input", "num_proj": 2, '
            '"gates": ["input", "forget", "cell", "output"], "params_size": 768}'
        )
        named = layer.canonical_weights()
        kernel = variables["layer_1/backward/input_kernel"][()].reshape(4, H, 2 * P)
        for gate, block in zip(("input", "forget", "cell", "output"), kernel, strict=True):
            name = tf_cudnn_rnn.ParamName(1, "backward", gate, "input_kernel")
            np.testing.assert_array_equal(block, named[name])
        name = tf_cudnn_rnn.ParamName(0, "forward", "", "projection")
        np.testing.assert_array_equal(variables["layer_0/forward/projection"], named[name])
        assert set(variables) == {"header", "layer_0", "layer_1"}  # no anonymous buffer


WRONG = [
    ("rnn_relu", {}, "`rnn_mode` is rnn_tanh there and rnn_relu here"),
    ("rnn_tanh", {"num_layers": 1}, "`num_layers` is 2 there and 1 here"),
    ("rnn_tanh", {"input_mode": "skip_input"}, "`input_mode` is linear_input there and skip_input"),
    ("rnn_tanh", {"direction": "bidirectional"}, "`direction` is unidirectional there and bidir"),
    ("gru", {"num_layers": 1}, "rnn_tanh there and gru here; `num_layers` is 2 there and 1 here"),
]


def one_layer(rnn_mode="rnn_tanh", **options) -> keras.Sequential:
    layer = CudnnRNN(H, rnn_mode=rnn_mode, **{"num_layers": 2, "name": "rnn", **options})
    return keras.Sequential([keras.Input([T, H]), layer])


@pytest.mark.parametrize(("rnn_mode", "options", "message"), WRONG)
def test_another_network_is_refused(rnn_mode, options, message, tmp_path):
    saved, model = one_layer(), one_layer(rnn_mode, **options)
    saved.save_weights(tmp_path / "a.weights.h5")
    with pytest.raises(ValueError, match="weights the file holds: ") as raised:
        model.load_weights(tmp_path / "a.weights.h5")
    assert message in str(raised.value) and "'rnn'" in str(raised.value)
    path = tf.train.Checkpoint(model=saved).write(str(tmp_path / "checkpoint"))
    with pytest.raises(ValueError, match="weights the checkpoint holds: ") as raised:
        tf.train.Checkpoint(model=model).restore(path)
    assert message in str(raised.value)


def test_other_contents_are_refused(tmp_path):
    path = tmp_path / "a.weights.h5"
    stock = keras.Sequential([keras.Input([T, H]), keras.layers.Dense(H, name="rnn")])
    stock.save_weights(path)
    with h5py.File(path, "a") as file:
        file.move("layers/dense", "layers/cudnn_rnn")
    model = one_layer()
    with pytest.raises(ValueError, match="their `header` in the file; found 0, 1. .*set_canonical"):
        model.load_weights(path)

    def edited(change):
        model.save_weights(path)
        with h5py.File(path, "a") as file:
            change(file["layers/cudnn_rnn/vars"])
        with pytest.raises(ValueError) as raised:
            model.load_weights(path)
        return str(raised.value)

    def set_header(variables, old, new):
        text = bytes(variables["header"][()]).decode()
        assert old in text
        del variables["header"]
        variables["header"] = np.frombuffer(text.replace(old, new).encode(), np.uint8)

    kernel = "layer_1/forward/input_kernel"
    assert f"must hold {kernel}, which is missing" in edited(lambda v: v.pop(kernel))

    def transpose(variables):
        del variables["layer_0/forward/input_bias"]
        variables["layer_0/forward/input_bias"] = np.zeros([H, 1])

    assert "must have shape [6]; got [6, 1]" in edited(transpose)
    assert "version 1; got tf_cudnn_rnn/params, version 2. A later" in edited(
        lambda v: set_header(v, '"version": 1', '"version": 2')
    )
    assert "header in JSON with `format`" in edited(lambda v: set_header(v, "{", ""))
    assert "contradicts itself" in edited(lambda v: set_header(v, 'size": 168', 'size": 169'))
    assert "damaged header: 'num_proj'" in edited(lambda v: set_header(v, "num_proj", "proj"))


def test_options_that_mean_the_same_load(tmp_path):
    saved = one_layer("lstm", input_mode="skip_input", num_proj=H)
    saved.save_weights(tmp_path / "a.weights.h5")
    model = one_layer("lstm", input_mode="auto_select")
    model.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(model.get_weights()[0], saved.get_weights()[0])


def test_checkpoints_and_optimiser_slots(tmp_path):
    def trained(steps):
        model = one_layer("lstm")
        stacks.randomise(model)
        model.compile("adam", "mse")
        if steps:
            model.fit(stacks.inputs(H, "float32"), np.ones([B, H]), epochs=steps, verbose=0)
        return model

    saved, model = trained(2), trained(0)
    checkpoint = tf.train.Checkpoint(model=saved, optimizer=saved.optimizer)
    path = checkpoint.save(str(tmp_path / "checkpoint"))
    model.optimizer.build(model.trainable_variables)
    restored = tf.train.Checkpoint(model=model, optimizer=model.optimizer).restore(path)
    restored.assert_consumed()
    assert len(model.optimizer.variables) == 4
    for one, other in zip(
        [*model.weights, *model.optimizer.variables],
        [*saved.weights, *saved.optimizer.variables],
        strict=True,
    ):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
    # A layer that is built afterwards is checked, too.
    late = keras.Sequential([CudnnRNN(H, 2, "gru")])
    tf.train.Checkpoint(model=late).restore(path)
    with pytest.raises(ValueError, match="`rnn_mode` is lstm there and gru here"):
        late.build((None, T, H))
