"""CudnnRNN with `separate_weights`: the same network, and variables to freeze one by one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras import cudnn_rnn_stacks as stacks
from tests.keras.cudnn_rnn_stacks import MODES, B, H, I, L, T
from tf_cudnn_rnn import weights
from tf_cudnn_rnn.keras import CudnnGRU, CudnnLSTM, CudnnRNN, to_fused, to_keras

# h5py reads Keras' variables in a way that NumPy 2 wants changed.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

GRID = [(mode, "bidirectional", {}) for mode in MODES] + [
    ("lstm", "bidirectional", {"num_proj": 2}),
    ("gru", "unidirectional", {"input_mode": "skip_input", "input_size": H}),
    ("lstm", "unidirectional", {"dtype": "mixed_bfloat16"}),
    ("gru", "bidirectional", {"dtype": "float16"}),
]


def pair(mode="gru", direction="bidirectional", **options) -> list[CudnnRNN]:
    """Two layers with the same weights: one variable, and several."""
    layers = [
        stacks.built(mode, direction=direction, separate_weights=separate, name="rnn", **options)
        for separate in (False, True)
    ]
    layers[1].set_canonical_weights(layers[0].canonical_weights())
    return layers


def part_of(vector, layout, k: int, kind: str) -> np.ndarray:
    """The elements of `params` that are a cell's variable."""
    directions = ["forward", "backward"][: 1 + (layout.direction == "bidirectional")]
    layer, d = divmod(k, len(directions))
    place = layer, directions[d], kind
    regions = [r for r in layout.regions if (r.name.layer, r.name.direction, r.name.kind) == place]
    return vector[regions[0].offset :][: sum(region.size for region in regions)]


def assert_same_weights(one: CudnnRNN, other: CudnnRNN):
    np.testing.assert_array_equal(one.params.numpy(), other.params.numpy())


@pytest.mark.parametrize(("mode", "direction", "options"), GRID)
def test_outputs_and_gradients_have_the_same_bits(mode, direction, options):
    layers = pair(mode, direction, return_sequences=True, **options)
    x = tf.constant(stacks.inputs(options.get("input_size", I)))
    outputs, gradients = [], []
    for layer in layers:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x)
            loss = tf.reduce_sum(tf.cast(y, tf.float64) * np.arange(y.shape[-1]))
        outputs.append(y)
        gradients.append(tape.gradient(loss, [x, *(v.value for v in layer.trainable_variables)]))
    np.testing.assert_array_equal(outputs[0], outputs[1])
    np.testing.assert_array_equal(gradients[0][0], gradients[1][0])
    vector, matrices = gradients[0][1].numpy(), iter(gradients[1][1:])
    for k, cell in enumerate(layers[1].cells):
        for variable in cell.trainable_variables:
            expected = part_of(vector, layers[1].layout, k, variable.name)
            np.testing.assert_array_equal(next(matrices).numpy().ravel(), expected)
    assert next(matrices, None) is None


def test_initial_weights_and_regularisers():
    options = {
        "kernel_initializer": keras.initializers.GlorotUniform(seed=1),
        "recurrent_initializer": keras.initializers.Orthogonal(seed=2),
        "kernel_regularizer": "l2",
        "bias_regularizer": "l1",
    }
    layers = [CudnnLSTM(H, L, separate_weights=it, **options) for it in (False, True)]
    for layer in layers:
        layer.build((B, T, I))
    assert_same_weights(*layers)
    np.testing.assert_allclose(sum(layers[0].losses), sum(layers[1].losses), rtol=1e-6)


def test_variables_have_names_and_shapes():
    layer = CudnnLSTM(H, 2, direction="bidirectional", num_proj=2, separate_weights=True, name="r")
    layer.build((B, T, I))
    found = {v.path: tuple(v.shape) for v in layer.variables}
    assert len(found) == 4 * 5
    assert found["r/layer_0_forward/input_kernel"] == (4 * H, I)
    assert found["r/layer_1_backward/input_kernel"] == (4 * H, 2 * 2)
    assert found["r/layer_1_backward/recurrent_kernel"] == (4 * H, 2)
    assert found["r/layer_1_backward/projection"] == (2, H)
    assert found["r/layer_1_backward/recurrent_bias"] == (4 * H,)
    assert layer.cells[3].projection.path == "r/layer_1_backward/projection"


# ------------------------------------------------------------------------------------
# Fine tuning
# ------------------------------------------------------------------------------------


def model_of(layer: keras.layers.Layer, optimizer="adam") -> keras.Model:
    keras.utils.set_random_seed(3)
    model = keras.Sequential([keras.Input([T, I]), layer, keras.layers.Dense(1)])
    if optimizer:
        model.compile(optimizer, "mse")
    return model


def separate(**options) -> CudnnGRU:
    return CudnnGRU(H, L, direction="bidirectional", separate_weights=True, name="rnn", **options)


def data() -> tuple[np.ndarray, np.ndarray]:
    x = stacks.inputs(dtype="float32")
    return x, x.sum(axis=(1, 2))[:, None]


def test_frozen_cells_stay_as_those_of_keras_do():
    model = model_of(separate())
    layer = model.layers[0]
    layer.cells[0].trainable = layer.cells[3].trainable = False
    model.compile("adam", "mse")
    stock = to_keras(model)
    stock.compile("adam", "mse", run_eagerly=True)  # Keras' loops take long to trace
    assert len(model.trainable_variables) == 2 * 4 + 2
    assert len(stock.trainable_variables) == 2 * 3 + 2
    before = [cell.get_weights() for cell in layer.cells]
    for one in (model, stock):
        one.fit(*data(), epochs=3, verbose=0)
    for k, (cell, old) in enumerate(zip(layer.cells, before, strict=True)):
        for array, previous in zip(cell.get_weights(), old, strict=True):
            assert np.array_equal(array, previous) == (k in (0, 3))
    expected = to_keras(model).get_weights()
    for one, other in zip(stock.get_weights(), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_rates_by_cell():
    layer = stacks.built("gru", separate_weights=True)
    reference = stacks.built("gru", separate_weights=True)
    optimizers = [keras.optimizers.SGD(rate) for rate in (0.5, 0.125)]
    for one, rates in ((layer, optimizers), (reference, None)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(one(stacks.inputs()) ** 2)
        by_cell = [[v for v in cell.trainable_variables] for cell in one.cells]
        gradients = tape.gradient(loss, tf.nest.map_structure(lambda v: v.value, by_cell))
        for k, (of_cell, variables) in enumerate(zip(gradients, by_cell, strict=True)):
            if rates:
                rates[k].apply(of_cell, variables)
            else:
                for gradient, variable in zip(of_cell, variables, strict=True):
                    variable.assign_sub((0.5, 0.125)[k] * gradient)
    np.testing.assert_allclose(layer.params.numpy(), reference.params.numpy(), atol=1e-12)


def test_a_constraint_of_one_cell():
    model = model_of(separate(), keras.optimizers.SGD(0.5))
    cell = model.layers[0].cells[1]
    cell.recurrent_kernel.constraint = keras.constraints.MaxNorm(0.25, axis=1)
    model.fit(*data(), verbose=0)
    norms = np.linalg.norm(cell.recurrent_kernel.numpy(), axis=1)
    assert norms.max() <= 0.25 + 1e-6 < np.linalg.norm(cell.input_kernel.numpy(), axis=1).max()


def test_constraints_are_those_of_keras():
    options = {
        "kernel_constraint": keras.constraints.MaxNorm(0.5),
        "recurrent_constraint": "unit_norm",
        "bias_constraint": keras.constraints.NonNeg(),
    }
    layers = [CudnnRNN.from_config(it.get_config()) for it in pair(dtype="float32", **options)]
    models = [model_of(layer, keras.optimizers.SGD(0.5)) for layer in layers]
    stacks.randomise(models[0])
    layers[1].set_canonical_weights(layers[0].canonical_weights())
    models[1].layers[1].set_weights(models[0].layers[1].get_weights())
    stock = to_keras(models[0])
    # Keras' loops take long to trace.
    stock.compile(keras.optimizers.SGD(0.5), "mse", run_eagerly=True)
    for model in (*models, stock):
        model.fit(*data(), epochs=2, verbose=0)
    assert_same_weights(*layers)
    kernel = layers[1].cells[2].input_kernel.numpy()
    np.testing.assert_array_less(np.linalg.norm(kernel, axis=1), 0.5 + 1e-5)
    for one, other in zip(stock.get_weights(), to_keras(models[0]).get_weights(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_weight_decay_without_biases():
    optimizer = keras.optimizers.AdamW(0.0, weight_decay=0.5)
    optimizer.exclude_from_weight_decay(var_names=["bias"])
    optimizer.learning_rate = 0.5
    layer = separate(bias_initializer="ones")
    model = model_of(layer, optimizer)
    with tf.GradientTape() as tape:
        loss = 0 * tf.reduce_sum(model(data()[0]))
    before = [v.numpy() for v in layer.trainable_variables]
    variables = model.trainable_variables
    optimizer.apply(tape.gradient(loss, [v.value for v in variables]), variables)
    for variable, old in zip(layer.trainable_variables, before, strict=True):
        factor = 1 if "bias" in variable.name else 1 - 0.5 * 0.5
        np.testing.assert_allclose(variable, factor * old, rtol=1e-6)


class LowRank(keras.layers.Layer):
    """Trains a matrix of low rank beside a frozen recurrent kernel."""

    def __init__(self, rnn, rank=1):
        super().__init__()
        self.rnn = rnn

    def build(self, input_shape):
        self.rnn.build(input_shape)
        self.rnn.trainable = False
        self.kernel = self.rnn.cells[0].recurrent_kernel
        rows, columns = self.kernel.shape
        self.a = self.add_weight(shape=(rows, 1), initializer="zeros", name="a")
        self.b = self.add_weight(shape=(1, columns), initializer="ones", name="b")

    def call(self, x):
        self.rnn.cells[0].recurrent_kernel = self.kernel + self.a @ self.b
        return self.rnn(x)


def test_a_matrix_of_low_rank_beside_a_frozen_kernel():
    rnn = separate()
    model = model_of(LowRank(rnn))
    before = rnn.get_weights()
    expected = model.predict(data()[0], verbose=0)
    rank = model.layers[0]
    assert len(model.trainable_variables) == 2 + 2
    model.fit(*data(), epochs=2, verbose=0)
    for one, other in zip(rnn.get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    assert rank.a.numpy().any()
    assert np.abs(model.predict(data()[0], verbose=0) - expected).max() > 1e-4


def test_what_stands_in_a_variables_place_is_checked():
    rnn = separate()
    model = model_of(rnn)
    variable = rnn.cells[1].input_kernel
    rnn.cells[1].input_kernel = tf.transpose(variable)  # as many elements
    with pytest.raises(
        ValueError,
        match=r"`input_kernel` of cell 'layer_0_backward' must have shape \[18, 3\]; got \[3, 18\]",
    ):
        model(data()[0])
    weights = separate()
    weights.build((None, None, I))
    before = rnn.cells[0].get_weights()
    with pytest.raises(ValueError, match="of cell 'layer_0_backward' must be a variable to be set"):
        rnn.set_canonical_weights(weights.canonical_weights())
    for one, other in zip(rnn.cells[0].get_weights(), before, strict=True):
        np.testing.assert_array_equal(one, other)
    rnn.cells[1].input_kernel = variable
    rnn.set_canonical_weights(weights.canonical_weights())
    assert_same_weights(rnn, weights)


# ------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------


def file_pair(optimizers=(None, None)) -> list[keras.Model]:
    layers = pair(dtype="float32")
    return [model_of(layer, it) for layer, it in zip(layers, optimizers, strict=True)]


@pytest.mark.parametrize("separate_weights", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_files_of_other_types(dtype, separate_weights, tmp_path):
    layer = stacks.built("gru", dtype=dtype, separate_weights=separate_weights)
    model = model_of(layer, None)
    model.save(tmp_path / "m.keras")
    loaded = keras.saving.load_model(tmp_path / "m.keras").layers[0]
    assert loaded.variable_dtype == dtype
    assert_same_weights(loaded, layer)


@pytest.mark.parametrize("source", [0, 1], ids=["from one variable", "from several"])
@pytest.mark.parametrize("file", ["m.weights.h5", "m.keras", "layer", "model"])
def test_files_and_checkpoints_of_both_kinds(source, file, tmp_path):
    models = file_pair()
    one, other = models[source], models[1 - source]
    stacks.randomise(one, seed=5)
    path = tmp_path / file
    if file == "m.weights.h5":
        one.save_weights(path)
        other.load_weights(path)
    elif file == "m.keras":
        one.save(path)
        other.load_weights(path)
        assert keras.saving.load_model(path).layers[0].separate_weights == bool(source)
    else:
        what = (lambda m: m.layers[0]) if file == "layer" else (lambda m: m)
        saved = tf.train.Checkpoint(it=what(one)).save(path)
        tf.train.Checkpoint(it=what(other)).restore(saved).assert_consumed()
        variables = {name for name, _ in tf.train.list_variables(saved)}
        assert not any("layer_0" in name or "_cells" in name for name in variables)
    assert_same_weights(one.layers[0], other.layers[0])


@pytest.mark.parametrize("source", [0, 1], ids=["from one variable", "from several"])
def test_a_checkpoint_is_restored_before_the_layer_is_built(source, tmp_path):
    layers = pair()
    saved = tf.train.Checkpoint(it=layers[source]).save(tmp_path / "c")
    later = CudnnRNN.from_config(layers[1 - source].get_config())
    tf.train.Checkpoint(it=later).restore(saved)
    later.build((B, T, I))
    assert_same_weights(later, layers[source])
    wrong = CudnnRNN.from_config(layers[1].get_config() | {"rnn_mode": "lstm"})
    tf.train.Checkpoint(it=wrong).restore(saved)
    with pytest.raises(ValueError, match="`rnn_mode` is gru there and lstm here"):
        wrong.build((B, T, I))


def test_weights_out_of_a_checkpoint_of_a_trained_model(tmp_path):
    trained, fresh = file_pair(("adam", None))
    trained.fit(*data(), verbose=0)
    saved = tf.train.Checkpoint(model=trained).save(tmp_path / "c")
    tf.train.Checkpoint(model=fresh).restore(saved).assert_existing_objects_matched()
    assert_same_weights(fresh.layers[0], trained.layers[0])


def test_readers_of_checkpoints_see_the_vector(tmp_path):
    layer = pair()[1]
    saved = tf.train.Checkpoint(it=layer).save(tmp_path / "c")
    reader = tf.train.load_checkpoint(saved)
    variables = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
    canonical = weights.checkpoint_to_canonical(variables)
    np.testing.assert_array_equal(canonical.params, layer.params.numpy())


@pytest.mark.parametrize("save", [keras.Model.export, tf.saved_model.save])
def test_a_saved_model_runs(save, tmp_path):
    model = model_of(separate(), None)
    save(model, str(tmp_path))
    loaded = tf.saved_model.load(tmp_path)
    x = data()[0]
    serve = loaded.signatures["serving_default"]
    np.testing.assert_array_equal(*serve(tf.constant(x)).values(), model(x))
    names = [name for name, _ in tf.train.list_variables(tmp_path / "variables" / "variables")]
    assert not any("/params/" in name for name in names)  # the vector besides the matrices


# ------------------------------------------------------------------------------------
# Configs and whole models
# ------------------------------------------------------------------------------------


def test_config_and_files_keep_what_is_frozen(tmp_path):
    model = model_of(separate(), None)
    model.layers[0].cells[2].trainable = False
    model.save(tmp_path / "m.keras")
    copies = [
        keras.models.clone_model(model),
        keras.saving.load_model(tmp_path / "m.keras"),
        to_fused_quietly(model),
    ]
    for copy in copies:
        layer = copy.layers[0]
        assert type(layer) is CudnnGRU and layer.separate_weights
        assert [cell.trainable for cell in layer.cells] == [True, True, False, True]
        assert len(layer.trainable_variables) == 3 * 4
    assert_same_weights(copies[1].layers[0], model.layers[0])
    assert_same_weights(copies[2].layers[0], model.layers[0])
    assert "frozen_cells" not in separate().get_config()


def to_fused_quietly(model):
    with pytest.warns(UserWarning, match="has no effect"):
        return to_fused(model)


def test_to_fused_leaves_a_cudnn_rnn_beside_a_stock_layer():
    layers = [separate(return_sequences=True), keras.layers.LSTM(H), keras.layers.Dense(1)]
    model = keras.Sequential([keras.Input([T, I]), *layers])
    fused = to_fused(model)
    assert type(fused.layers[0]) is CudnnGRU and fused.layers[1].use_fused == "auto"
    np.testing.assert_allclose(fused(data()[0]), model(data()[0]), atol=1e-6)


def test_freezing_the_layer_freezes_its_cells():
    layer = separate()
    layer.build((B, T, I))
    layer.trainable = False
    assert layer.trainable_variables == [] and len(layer.non_trainable_variables) == 4 * 4


def test_quantised_models():
    results = []
    for layer in pair(dtype="float32"):
        model = model_of(layer)
        with pytest.warns(UserWarning, match="does not have a `quantize"):
            model.quantize("int8")
        assert model.layers[1].quantization_mode == "int8"
        results.append(model(data()[0]))
    np.testing.assert_array_equal(*results)


def test_cells_need_the_option():
    layer = stacks.built()
    with pytest.raises(ValueError, match="`separate_weights` of layer 'cudnn_rnn.* must be True"):
        layer.cells  # noqa: B018
