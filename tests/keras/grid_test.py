"""A drop-in does what its Keras parent does, over a grid of all options.

Values and gradients, states, losses, what an optimiser's step makes of the variables, config,
names and order of variables, and files. Cases are chosen so that every two values of options
meet, and those that a fused layer can have meet in a fused layer.
"""

import contextlib

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.helpers import running, subprocesses
from tests.keras import beginnings, covering
from tests.keras.pairs import LAYERS
from tf_cudnn_rnn.keras import accelerate

# h5py reads Keras' variables in a way that NumPy 2 wants changed.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

I = 3  # features of the input
N = 2  # what TimeDistributed distributes over

MERGE_MODES = ("concat", "sum", "mul", "ave", "no merge")  # of Bidirectional

# The usual value first.
OPTIONS = {
    "layer": LAYERS,
    "wrapper": (None, *MERGE_MODES, "TimeDistributed"),
    # Arguments of the constructor.
    "units": (4, 1, 9),
    "activation": ("tanh", "relu", "softsign", None),
    "recurrent_activation": ("sigmoid", "hard_sigmoid"),
    "use_bias": (True, False),
    "initializers": (None, "others"),
    "unit_forget_bias": (True, False),
    "regularizers": (None, "weights", "activity"),
    "constraints": (None, "weights"),
    "dropout": (0.0, 0.4),
    "recurrent_dropout": (0.0, 0.3),
    "seed": (None, 7),
    "return_sequences": (False, True),
    "return_state": (False, True),
    "go_backwards": (False, True),
    "stateful": (False, True),
    "unroll": (False, True),
    "zero_output_for_mask": (False, True),
    "reset_after": (True, False),
    "implementation": (2, 1),
    "dtype": ("float32", "float64", "float16", "bfloat16", "mixed_float16", "mixed_bfloat16"),
    # Of the call.
    "mask": (None, "full", "right", "left", "random", "empty rows"),
    "initial_state": (False, True),
    "training": (None, False, True),
    "batch": (6, 1),
    # Of 6 rows these are more than 16, few, and more than 32; of 1 row they are few, of which more
    # than 8 steps count as many. The engine tells all of them apart. Keras' loop takes its time by
    # steps, not rows.
    "steps": (3, 1, 9),
    "execution": ("eager", "tf.function"),
}
ONLY_OF = {
    "recurrent_activation": ("LSTM", "GRU"),
    "unit_forget_bias": ("LSTM",),
    "implementation": ("LSTM", "GRU"),
    "reset_after": ("GRU",),
}
# What "initializers" and so on stand for.
GROUPS = {
    "initializers": {
        "others": {
            "kernel_initializer": "he_normal",
            "recurrent_initializer": "glorot_normal",
            "bias_initializer": "random_normal",
        }
    },
    "regularizers": {
        "weights": {
            "kernel_regularizer": "l1",
            "recurrent_regularizer": "l2",
            "bias_regularizer": keras.regularizers.L1L2(0.1, 0.2),
        },
        "activity": {"activity_regularizer": "l2"},
    },
    "constraints": {
        "weights": {
            "kernel_constraint": "max_norm",
            "recurrent_constraint": "unit_norm",
            "bias_constraint": "non_neg",
        }
    },
}
OF_THE_CALL = ("mask", "initial_state", "training", "batch", "steps", "execution")


def applies(case: covering.Case, option: str) -> bool:
    if case["layer"] not in ONLY_OF.get(option, LAYERS):
        return False
    # TimeDistributed has one input and one output.
    return case["wrapper"] != "TimeDistributed" or option not in ("return_state", "initial_state")


def works_in_keras(case: covering.Case) -> bool:
    # The usual initialiser of recurrent kernels, orthogonal, knows no bfloat16.
    if case.get("dtype") == "bfloat16" and case.get("initializers", "others") is None:
        return False
    if case.get("wrapper") in MERGE_MODES:
        # Bidirectional makes the other direction itself, ...
        if case.get("go_backwards"):
            return False
        # ... and multiplies a generator to tell the masks of states.
        if case.get("stateful") and case.get("return_state"):
            return False
    return True


def runs_fused(case: covering.Case) -> bool:
    """What the documentation says."""
    activations = ("tanh", "relu") if case.get("layer") == "SimpleRNN" else ("tanh",)
    fits = (
        case.get("activation", "tanh") in activations
        and case.get("recurrent_activation", "sigmoid") == "sigmoid"
        and case.get("reset_after", True)
        and not case.get("unroll", False)
    )
    if case.get("training"):
        fits = fits and not case.get("recurrent_dropout")
        fits = fits and not (case.get("dropout") and case.get("implementation") == 1)
    return fits


FUSED = covering.covering_array(
    OPTIONS, lambda case: works_in_keras(case) and runs_fused(case), applies
)
CASES = FUSED + covering.covering_array(OPTIONS, works_in_keras, applies, covered=FUSED)


def label(case: covering.Case) -> str:
    """What is unusual about the case."""
    unusual = {name: value for name, value in case.items() if value != OPTIONS[name][0]}
    unusual.pop("layer", None)
    return f"{case['layer']} " + " ".join(f"{name}={value}" for name, value in unusual.items())


def grid(cases):
    """One test a case. Its name has the options that tell most; the test prints all."""
    options = ("layer", "wrapper", "dtype", "mask")
    names = ["_".join(str(case[name]) for name in options if case.get(name)) for case in cases]
    ids = [f"{k}-{name}" for k, name in enumerate(names)]
    return pytest.mark.parametrize("case", cases, ids=ids)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_two_values_meet(layer):
    options = {
        name: values
        for name, values in OPTIONS.items()
        if name not in ("layer", "wrapper") and applies({"layer": layer, "wrapper": None}, name)
    }
    for cases, allowed in (
        (FUSED, lambda case: works_in_keras(case) and runs_fused({"layer": layer, **case})),
        (CASES, works_in_keras),
    ):
        met = set().union(*map(covering.pairs_of, cases))
        for case in covering.all_pairs(options):
            assert not allowed(case) or covering.pairs_of(case) <= met, case
    assert all(map(runs_fused, FUSED))


# ------------------------------------------------------------------------------------
# What a case computes
# ------------------------------------------------------------------------------------


def make_layer(case: covering.Case, module) -> keras.layers.Layer:
    """The layer of `module` that the case describes, in its wrapper, unbuilt."""
    options = {}
    for option, value in case.items():
        if option in GROUPS:
            options |= GROUPS[option].get(value, {})
        elif option not in ("layer", "wrapper", *OF_THE_CALL):
            options[option] = value
    beginnings.reset_names()  # those of seed generators are counted
    beginnings.seed(4)
    layer = getattr(module, case["layer"])(name="rnn", **options)
    wrapper = case["wrapper"]
    if wrapper == "TimeDistributed":
        return keras.layers.TimeDistributed(layer, name="wrapper", dtype=case["dtype"])
    if wrapper is not None:
        merge_mode = None if wrapper == "no merge" else wrapper
        return module.Bidirectional(
            layer, merge_mode=merge_mode, name="wrapper", dtype=case["dtype"]
        )
    return layer


def recurrent_layers(layer: keras.layers.Layer) -> list[keras.layers.RNN]:
    return [it for it in layer._flatten_layers() if isinstance(it, keras.layers.RNN)]


def leading_shape(case: covering.Case) -> tuple[int, ...]:
    return (case["batch"], *([N] if case["wrapper"] == "TimeDistributed" else []), case["steps"])


def make_mask(case: covering.Case) -> np.ndarray | None:
    shape, rng = leading_shape(case), np.random.default_rng(5)
    steps = np.arange(case["steps"])
    lengths = rng.integers(1, case["steps"] + 1, size=[*shape[:-1], 1])
    masks = {
        None: None,
        "full": np.ones(shape, bool),
        "right": steps < lengths,
        "left": steps >= case["steps"] - lengths,
        "random": rng.random(shape) < 0.6,
        "empty rows": (steps < lengths)
        & (np.arange(case["batch"]) > 0).reshape([-1] + [1] * (len(shape) - 1)),
    }
    return masks[case["mask"]]


def randomise(layer: keras.layers.Layer) -> None:
    """Random weights that let nothing die out or blow up in 9 steps."""
    rng = np.random.default_rng(2)
    for variable in layer.trainable_variables:
        fan_in = 4 if variable.name == "bias" else variable.shape[0]
        variable.assign(rng.normal(scale=0.7 / np.sqrt(fan_in), size=variable.shape))


def described(layer: keras.layers.Layer) -> list:
    """Configs, and all there is to know about variables but their values."""
    config = layer.get_config()
    inner = [config.pop(key) for key in ("layer", "backward_layer") if key in config]
    return [
        # Of a wrapped layer all but the class, which is the difference between the two.
        config,
        [it["config"] for it in inner],
        [it.get_config() for it in recurrent_layers(layer)],
        [(v.path, v.name, v.shape, v.dtype, v.trainable) for v in layer.variables],
        [type(v.regularizer) for v in layer.variables],
        [type(v.constraint) for v in layer.variables],
    ]


def compute(
    case: covering.Case, layer: keras.layers.Layer, in_function: bool = False
) -> dict[str, list]:
    """Everything that comes of calling `layer`, as lists of arrays by name."""
    rng = np.random.default_rng(3)
    x = tf.constant(rng.normal(size=[*leading_shape(case), I]), layer.compute_dtype)
    call = {"training": case["training"], "mask": make_mask(case)}
    if call["mask"] is not None:
        call["mask"] = tf.constant(call["mask"])
    states = []
    if case.get("initial_state"):
        for it in recurrent_layers(layer):
            for _ in it.state_size:
                state = rng.normal(size=[case["batch"], case["units"]])
                states.append(tf.constant(state, layer.compute_dtype))
        call["initial_state"] = states
    variables = [variable.value for variable in layer.trainable_variables]

    def step():
        with tf.GradientTape() as tape:
            tape.watch([x, *states])
            outputs = tf.nest.flatten(layer(x, **call))
            losses = [tf.cast(loss, tf.float64) for loss in layer.losses]
            weights = [np.random.default_rng(k).normal(size=y.shape) for k, y in enumerate(outputs)]
            weighted = [
                tf.reduce_sum(tf.cast(y, tf.float64) * w)
                for y, w in zip(outputs, weights, strict=True)
            ]
            total = tf.add_n(weighted + losses)
        sources = {"inputs": [x], "states": states, "variables": variables}
        gradients = tape.gradient(total, sources, unconnected_gradients="zero")
        return {"outputs": outputs, "losses": losses} | {
            f"gradients of {name}": values for name, values in gradients.items()
        }

    if in_function:
        step = tf.function(step)
    results = {}
    for k in range(2 if case["stateful"] else 1):
        results |= {f"{name}, call {k + 1}": values for name, values in step().items()}
    if case["constraints"]:
        gradients = results["gradients of variables, call 1"]
        optimizer = keras.optimizers.SGD(0.1)
        optimizer.apply([tf.cast(g, tf.float32) for g in gradients], layer.trainable_variables)
        results["trained"] = [variable.value for variable in layer.trainable_variables]
    results["other variables"] = [v.value for v in layer.non_trainable_variables]
    return {name: [np.asarray(value) for value in values] for name, values in results.items()}


def tolerance(case: covering.Case) -> float:
    """Relative to the largest value of a tensor."""
    # 9 steps, and gradients that are sums over them, of sums of at most 12 products.
    if case["dtype"] in ("float32", "float64"):
        return {"float32": 2e-5, "float64": 1e-12}[case["dtype"]]
    # Keras rounds every intermediate value to the type, the op only what it keeps.
    return 2**-7 if "bfloat16" not in case["dtype"] else 2**-4


def assert_same(actual: dict, expected: dict, tolerance: float) -> None:
    assert actual.keys() == expected.keys()
    for name in expected:
        for k, (one, other) in enumerate(zip(actual[name], expected[name], strict=True)):
            where = f"{name} [{k}]"
            assert one.shape == other.shape and one.dtype == other.dtype, where
            if one.dtype.kind in "iu":  # of the seed's state
                np.testing.assert_array_equal(one, other, where)
                continue
            one, other = one.astype(np.float64), other.astype(np.float64)
            largest = np.max(np.abs(other), initial=0.0)
            atol = tolerance * max(largest, 0.1)
            np.testing.assert_allclose(one, other, rtol=0, atol=atol, err_msg=where)


def built_layer(case: covering.Case, module) -> keras.layers.Layer:
    layer = make_layer(case, module)
    layer.build((*leading_shape(case), I))
    return layer


@grid(CASES)
def test_like_its_parent(case):
    print(label(case))
    ours, theirs = (built_layer(case, module) for module in (tf_cudnn_rnn.keras, keras.layers))
    assert described(ours) == described(theirs)
    for layer in recurrent_layers(ours):
        assert type(layer).from_config(layer.get_config()).get_config() == layer.get_config()
    for one, other in zip(ours.variables, theirs.variables, strict=True):
        np.testing.assert_array_equal(one, other, one.path)
    shape = (*leading_shape(case), I)
    assert ours.compute_output_shape(shape) == theirs.compute_output_shape(shape)

    for layer in (ours, theirs):
        randomise(layer)
    fused, in_function = runs_fused(case), case["execution"] == "tf.function"
    # To trace or to optimise Keras' loop takes seconds, and tells nothing about the drop-in.
    with contextlib.nullcontext() if fused else running.graphs_as_traced():
        actual = compute(case, ours, in_function)
    expected = compute(case, theirs)
    for layer in recurrent_layers(ours):
        assert layer.runs_fused is fused, layer.fallback_reason
    # Keras' loop is Keras' loop.
    assert_same(actual, expected, tolerance(case) if fused or in_function else 0)


@grid(FUSED[::6])
def test_accelerated(case):
    print(label(case))
    results = []
    for context in (contextlib.nullcontext, accelerate):
        with context():
            layer = built_layer(case, keras.layers)
            randomise(layer)
            results.append(compute(case, layer))
    assert all(it.runs_fused for it in recurrent_layers(layer))
    assert_same(results[1], results[0], tolerance(case))


# ------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------

# What bears on variables, and some of what is in the config only.
OF_FILES = {name: values[:1] for name, values in OPTIONS.items()} | {
    "layer": LAYERS,
    "wrapper": (None, "concat", "TimeDistributed"),
    "activation": ("tanh", None),
    "use_bias": (True, False),
    "initializers": (None, "others"),
    "regularizers": (None, "weights"),
    "constraints": (None, "weights"),
    "dropout": (0.0, 0.4),
    "return_sequences": (False, True),
    "stateful": (False, True),
    "reset_after": (True, False),
    "dtype": ("float32", "bfloat16", "mixed_float16"),
}
FILES = covering.covering_array(OF_FILES, works_in_keras, applies)


def model_of(case: covering.Case, module) -> keras.Model:
    layer = make_layer(case, module)
    x = keras.Input(batch_shape=(*leading_shape(case), I), dtype=layer.compute_dtype)
    return keras.Model(x, layer(x), name="model")


def contents(path) -> dict[str, np.ndarray]:
    """The arrays of an .h5 file by their names."""
    arrays = {}

    def visit(name, item):
        if isinstance(item, h5py.Dataset):
            arrays[name] = item[()]

    with h5py.File(path) as file:
        file.visititems(visit)
    return arrays


def load(path, case: covering.Case, module, custom_objects=None) -> keras.Model:
    """Loads a `.keras` file as one of layers of `module`."""
    beginnings.reset_names()
    beginnings.seed(4)
    load_model = keras.saving.load_model
    if module is tf_cudnn_rnn.keras:
        load_model = tf_cudnn_rnn.keras.load_model
    model = load_model(path, custom_objects)
    for layer in recurrent_layers(model):
        assert type(layer) is getattr(module, case["layer"])
    return model


def facts(case: covering.Case, model: keras.Model) -> tuple[list, dict]:
    """What there is to know about `model`, which this calls."""
    variables = [np.asarray(variable.value) for variable in model.variables]
    x = tf.constant(np.random.default_rng(3).normal(size=model.input_shape))
    outputs = [np.asarray(y) for y in tf.nest.flatten(model(x))]
    return described(model.layers[-1]), {"variables": variables, "outputs": outputs}


@grid(FILES)
def test_files_go_both_ways(case, tmp_path, monkeypatch):
    print(label(case))
    ours, theirs = (model_of(case, module) for module in (tf_cudnn_rnn.keras, keras.layers))
    for source, target in ((ours, theirs), (theirs, ours)):
        randomise(source)
        for variable in target.trainable_variables:
            variable.assign(tf.zeros_like(variable))
        source.save_weights(tmp_path / "source.weights.h5")
        target.load_weights(tmp_path / "source.weights.h5")
        for one, other in zip(target.variables, source.variables, strict=True):
            np.testing.assert_array_equal(one, other, one.path)
        target.save_weights(tmp_path / "target.weights.h5")
        one, other = (contents(tmp_path / f"{name}.weights.h5") for name in ("source", "target"))
        assert list(one) == list(other) and len(one) >= len(source.trainable_variables)
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], name)

    ours.save(tmp_path / "ours.keras")
    theirs.save(tmp_path / "theirs.keras")
    described_as, expected = facts(case, load(tmp_path / "theirs.keras", case, keras.layers))

    def check(model):
        as_, actual = facts(case, model)
        assert as_ == described_as
        assert_same(actual, expected, tolerance(case))

    check(load(tmp_path / "theirs.keras", case, tf_cudnn_rnn.keras))
    # As if the library were not there: what is registered has precedence over custom_objects.
    names = (case["layer"], "Bidirectional")
    custom_objects = {f"tf_cudnn_rnn>{name}": getattr(keras.layers, name) for name in names}
    for registered in custom_objects:
        monkeypatch.delitem(keras.saving.get_custom_objects(), registered)
    check(load(tmp_path / "ours.keras", case, keras.layers, custom_objects))


# Runs with and without the library; `model` is given.
GO_ON = """
fit = {"epochs": 3, "batch_size": 4, "shuffle": False, "verbose": 0}
losses = model.fit(x, y, **fit).history["loss"]
"""


def test_training_goes_on_without_the_library(tmp_path):
    """The optimiser's state finds its variables again."""
    keras.utils.set_random_seed(6)
    model = keras.Sequential(
        [
            keras.Input([5, I]),
            keras.layers.Masking(),
            tf_cudnn_rnn.keras.LSTM(4, return_sequences=True),
            keras.layers.Bidirectional(tf_cudnn_rnn.keras.GRU(3, kernel_regularizer="l2")),
            keras.layers.Dense(1),
        ]
    )
    rng = np.random.default_rng(1)
    x = rng.normal(size=[16, 5, I]).astype(np.float32)
    x[:8, 3:] = 0
    y = x.sum(axis=(1, 2))[:, None]
    model.compile(keras.optimizers.Adam(0.02, clipnorm=1.0), "mse")
    names = {"model": model, "x": x, "y": y}
    exec(GO_ON, names)
    model.save(tmp_path / "model.keras")
    exec(GO_ON, names)
    np.savez(tmp_path / "data.npz", x=x, y=y, losses=names["losses"])
    code = f"""
import keras, numpy as np, sys
data = np.load({str(tmp_path / "data.npz")!r})
x, y = data["x"], data["y"]
custom_objects = {{
    "tf_cudnn_rnn>LSTM": keras.layers.LSTM, "tf_cudnn_rnn>GRU": keras.layers.GRU
}}
model = keras.saving.load_model({str(tmp_path / "model.keras")!r}, custom_objects)
{GO_ON}
assert "tf_cudnn_rnn" not in sys.modules
assert losses[-1] < 0.9 * losses[0]
# In single, over twelve steps of Adam, which takes each gradient's sign first of all.
np.testing.assert_allclose(losses, data["losses"], rtol=1e-3)
"""
    subprocesses.run_code(code, prepared=True)


# ------------------------------------------------------------------------------------
# What Keras cannot do
# ------------------------------------------------------------------------------------


def _call(layer, shape=(2, 5, I), dtype="float32", **call):
    return layer(tf.zeros(shape, dtype), **call)


FAILS_IN_KERAS = {
    "bfloat16 and orthogonal": lambda layer: _call(layer(4, dtype="bfloat16")),
    "Bidirectional of go_backwards": lambda layer: _call(
        keras.layers.Bidirectional(layer(4, go_backwards=True))
    ),
    "Bidirectional, stateful, with states and a mask": lambda layer: _call(
        keras.layers.Bidirectional(layer(4, stateful=True, return_state=True)),
        mask=tf.ones([2, 5], tf.bool),
    ),
    "TimeDistributed with states": lambda layer: _call(
        keras.layers.TimeDistributed(layer(4, return_state=True, return_sequences=True)),
        (2, N, 5, I),
    ),
    "stateful without a batch size": lambda layer: layer(4, stateful=True).build((None, 5, I)),
    "units": lambda layer: layer(0),
    "activation": lambda layer: layer(4, activation="nonsense"),
    "unknown option": lambda layer: layer(4, go_forwards=True),
    "rank": lambda layer: _call(layer(4), (2, I)),
    "another batch, stateful": lambda layer: [
        _call(it, (batch, 5, I)) for it in [layer(4, stateful=True)] for batch in (2, 3)
    ],
}
# Found out by the op, in words of its own.
FAILS_IN_THE_LOOP = {
    "another input size": lambda layer: [
        _call(it, (2, 5, size)) for it in [layer(4)] for size in (I, I + 1)
    ],
    "size of states": lambda layer: _call(layer(4), initial_state=[tf.zeros([2, 5])] * 2),
    "batch of states": lambda layer: _call(layer(4), initial_state=[tf.zeros([3, 4])] * 2),
    "length of the mask": lambda layer: _call(layer(4), mask=tf.ones([2, 6], tf.bool)),
    "batch of the mask": lambda layer: _call(layer(4), mask=tf.ones([3, 5], tf.bool)),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("case", FAILS_IN_KERAS)
def test_fails_like_its_parent(case, name):
    messages = []
    for module in (keras.layers, tf_cudnn_rnn.keras):
        beginnings.reset_names()
        with pytest.raises(Exception) as error:  # noqa: B017, PT011
            FAILS_IN_KERAS[case](getattr(module, name))
        messages.append(f"{type(error.value).__name__}: {error.value}")
    print(messages[0])
    assert messages[0] == messages[1]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("case", FAILS_IN_THE_LOOP)
def test_fails_where_its_parent_fails(case, name):
    for module in (keras.layers, tf_cudnn_rnn.keras):
        with pytest.raises((tf.errors.InvalidArgumentError, ValueError)) as error:
            FAILS_IN_THE_LOOP[case](getattr(module, name))
        print(error.value)
