"""CudnnRNNInt8 against the judge, for all options; what it refuses; that it has no gradient.

Each label holds the seed that makes the case again.
"""

import dataclasses
import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import running, running_int8, subprocesses
from tests.ops import calls
from tests.reference import cases, int8, judge
from tf_cudnn_rnn import runtime, weights

# Sizes: I, H, B, T, L and D*P all differ, so that no two can be mixed up.
I, H, B, T = 3, 5, 4, 6


def _configs():
    for rnn_mode, direction, num_layers, input_mode, num_proj in itertools.product(
        judge.RNN_MODES, judge.DIRECTIONS, (1, 2), judge.INPUT_MODES, (0, 2, H)
    ):
        if not num_proj or rnn_mode == "lstm":
            input_size = I if input_mode == "linear_input" else H
            yield judge.Config(rnn_mode, num_layers, H, input_size, direction, input_mode, num_proj)


@pytest.mark.parametrize("config", list(_configs()), ids=str)
def test_grid(config):
    for seed, (time_major, ragged) in enumerate(itertools.product([True, False], repeat=2)):
        layout = dataclasses.replace(config, time_major=time_major)
        case = running_int8.random_case(seed, layout, T, B, ragged)
        running_int8.assert_judged(running_int8.forward(case), case.case, f"seed {seed}")


@pytest.mark.parametrize("seed", range(12))
def test_random_options(seed):
    rng = np.random.default_rng(seed)
    config = cases.random_config(rng, max_size=40, dropout=0.0)
    num_steps, batch = rng.integers(1, 9, size=2)
    lengths = cases.ragged_lengths(rng, num_steps, batch, allow_zero=True)
    case = running_int8.quantized(cases.random_case(rng, config, num_steps, batch, lengths))
    eager = running_int8.forward(case)
    running_int8.assert_judged(eager, case.case, f"seed {seed}")
    for unknown_shapes in (False, True):
        results = running_int8.forward(case, graph=True, unknown_shapes=unknown_shapes)
        running.assert_same_bits(results, eager, f"a graph, seed {seed}")


# All rows are ragged; sizes are for several tiles and threads, with rests.
LARGE = {
    "lstm": (judge.Config("lstm", 1, 300, 130), 20, 33),
    "gru": (judge.Config("gru", 2, 129, 65, "bidirectional", time_major=False), 19, 17),
    "relu": (judge.Config("rnn_relu", 1, 200, 200), 12, 64),
    "tanh": (judge.Config("rnn_tanh", 2, 33, 33, input_mode="skip_input"), 18, 7),
    "projected": (judge.Config("lstm", 2, 160, 70, "bidirectional", num_proj=67), 15, 9),
    "one row": (judge.Config("lstm", 2, 256, 64), 30, 1),
    "one step": (judge.Config("gru", 1, 128, 256), 1, 70),
    "many rows": (judge.Config("lstm", 1, 24, 12), 3, 600),
}


@pytest.mark.parametrize("name", LARGE)
def test_large(name):
    config, num_steps, batch = LARGE[name]
    case = running_int8.random_case(6, config, num_steps, batch, ragged=True)
    running_int8.assert_judged(running_int8.forward(case), case.case, f"{name}, seed 6")


def test_weights_as_small_as_zero_and_the_least_integer():
    config = judge.Config("gru", 1, H, I)
    case = running_int8.random_case(1, config, T, B)
    weights = case.weights._replace(
        weights=np.full_like(case.weights.weights, -128),
        scales=np.where(np.arange(case.weights.scales.size) % 3, case.weights.scales, -0.0).astype(
            np.float32
        ),
    )
    params = int8.params_of(config, weights)
    case = running_int8.Int8Case(dataclasses.replace(case.case, params=params), weights)
    running_int8.assert_judged(running_int8.forward(case), case.case, "seed 1")


def test_an_empty_batch():
    case = running_int8.random_case(1, judge.Config("lstm", 2, H, I), T, 0)
    assert running_int8.forward(case)["y"].shape == (T, 0, H)


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_padding_is_not_read_and_a_sick_row_touches_no_other(rnn_mode):
    config = judge.Config(rnn_mode, 2, 33, 17, "bidirectional")
    case = running_int8.random_case(2, config, T, B, ragged=True)
    expected = running_int8.forward(case)
    padded = dataclasses.replace(case, case=case.case.with_padding(np.nan))
    running.assert_same_bits(running_int8.forward(padded), expected, "NaN in padding")
    sick = 2  # of T steps
    for value in (np.nan, np.inf):
        x = case.case.x.copy()
        x[2, sick, 1] = value
        sick_case = dataclasses.replace(case, case=dataclasses.replace(case.case, x=x))
        results = running_int8.forward(sick_case)
        others = np.arange(B) != sick
        for name in ("y", "h_n"):
            np.testing.assert_array_equal(results[name][:, others], expected[name][:, others])
        assert np.isnan(results["h_n"][:, sick]).all()


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_weights_that_the_package_quantizes_and_the_bits_of_its_runtime(rnn_mode):
    config = judge.Config(rnn_mode, 2, 33, 17, "bidirectional")
    drawn = running.random_case(7, config, T, B, np.float32, ragged=True)
    case = running_int8.quantized(drawn)
    layout = weights.Layout(rnn_mode, 2, 33, 17, "bidirectional")
    found = weights.quantize(drawn.params, layout)
    for name, expected in case.weights._asdict().items():
        np.testing.assert_array_equal(getattr(found, name), expected, err_msg=name)
    results = running_int8.forward(case)
    x, h0, c0, lengths = (getattr(case.case, n) for n in ("x", "h0", "c0", "sequence_lengths"))
    state = runtime.State(h0, c0 if rnn_mode == "lstm" else None)
    y, state = runtime.Network(found)(x, lengths, state, time_major=True)
    np.testing.assert_array_equal(y, results["y"])
    np.testing.assert_array_equal(state.h, results["h_n"])
    if rnn_mode == "lstm":
        np.testing.assert_array_equal(state.c, results["c_n"])


# ------------------------------------------------------------------------------------
# Gradients
# ------------------------------------------------------------------------------------

NO_GRADIENT = "TfCudnnRnn>CudnnRNNInt8 has no gradient: .* tf_cudnn_rnn.raw_ops.CudnnRNNV3"


def _call(**changes):
    return calls.function(calls.INT8)(**{**calls.arguments(calls.INT8), **changes})


@pytest.mark.parametrize("name", ["input", "input_h", "input_c", "scales", "biases"])
def test_there_is_no_gradient(name):
    value = tf.constant(calls.arguments(calls.INT8)[name])

    def gradient(value):
        with tf.GradientTape() as tape:
            tape.watch(value)
            outputs = _call(**{name: value})
        return tape.gradient(outputs.output, value)

    with pytest.raises(LookupError, match=NO_GRADIENT):
        gradient(value)
    with pytest.raises(LookupError, match=NO_GRADIENT):
        tf.function(gradient, autograph=False)(value)
    with tf.Graph().as_default():
        placeholder = tf.compat.v1.placeholder(tf.float32, value.shape)
        with pytest.raises(LookupError, match=NO_GRADIENT):
            tf.gradients(_call(**{name: placeholder}).output_h, placeholder)
    with pytest.raises(LookupError, match=NO_GRADIENT):
        with tf.autodiff.ForwardAccumulator(value, tf.ones_like(value)):
            _call(**{name: value})


def test_a_tape_that_needs_no_gradient_of_it_is_not_disturbed():
    weight = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = weight * _call().output
        y += weight * tf.stop_gradient(_call(biases=weight * tf.ones([32])).output)
        loss = tf.reduce_sum(y + weight)
    assert tape.gradient(loss, weight).numpy() != 0


# ------------------------------------------------------------------------------------
# Types
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights, dtype",
    [
        (np.zeros(144, np.float32), "float32"),
        (tf.zeros([144]), "float32"),
        (tf.zeros([144], tf.int32), "int32"),
        (np.zeros(144, np.uint8), "uint8"),
        ([0.5] * 144, "float64"),
        ([128] * 144, "int64"),
    ],
    ids=["array", "tensor", "integers", "unsigned", "list", "list of large integers"],
)
@pytest.mark.parametrize("is_graph", [False, True])
def test_weights_that_tensorflow_would_change(weights, dtype, is_graph):
    def call():
        return _call(weights=weights)

    message = f"`weights` must be int8; got {dtype}. tf_cudnn_rnn.weights.quantize"
    with pytest.raises(TypeError, match=message):
        (tf.function(call, autograph=False) if is_graph else call)()


@pytest.mark.parametrize("kind", [list, tuple, np.array, tf.constant, tf.Variable])
def test_weights_of_every_kind_that_is_right(kind):
    config = judge.Config("lstm", 1, 4, 5)
    case = running_int8.random_case(3, config, 4, 3)
    tensors = running_int8.tensors_of(case)
    expected = running_int8.call(case, tensors).output
    weights = case.weights.weights
    if kind in (list, tuple):
        weights = kind(weights.tolist())
    else:
        weights = kind(weights)
    found = running_int8.call(case, {**tensors, "weights": weights}).output
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["input", "input_h", "input_c", "scales", "biases"])
def test_other_floats_are_refused(name):
    tensors = calls.arguments(calls.INT8)
    value = tf.constant(tensors[name], tf.float64)
    # TensorFlow checks types in several places, in words that depend on what the others are.
    for others in (tensors, {key: np.asarray(tensor) for key, tensor in tensors.items()}):
        for call in (_call, tf.function(_call)):
            with pytest.raises(TypeError, match=f"`{name}` must be float32; got float64. Pass tf"):
                call(**{**others, name: value})


def test_weights_of_an_object_that_holds_all_three():
    small = weights.quantize(np.zeros(160, np.float32), weights.Layout("lstm", 1, 4, 4))
    with pytest.raises(TypeError, match="got Int8Weights, which holds all three: pass its `weigh"):
        _call(weights=small)


def test_lengths_of_another_type():
    with pytest.raises(TypeError, match="`sequence_lengths` must be int32; got int64"):
        _call(sequence_lengths=tf.constant([4, 2, 1], tf.int64))


# ------------------------------------------------------------------------------------
# Processes, threads, saved models
# ------------------------------------------------------------------------------------

# From the name to a config, T and B: work is cut in all ways.
_OF_THREADS = {
    "panels": (judge.Config("lstm", 1, 256, 64), 10, 8),
    "groups": (judge.Config("gru", 1, 128, 64), 12, 64),
    "together": (judge.Config("lstm", 1, 64, 32, "bidirectional"), 40, 4),
    "one row": (judge.Config("rnn_tanh", 2, 256, 96, time_major=False), 30, 1),
    "projected": (judge.Config("lstm", 2, 96, 40, "bidirectional", num_proj=48), 14, 17),
}


def write_results(path: str) -> None:
    """Of cases of a seed."""
    results = {}
    for name, (config, num_steps, batch) in _OF_THREADS.items():
        case = running_int8.random_case(4, config, num_steps, batch, ragged=True)
        for output, value in running_int8.forward(case).items():
            results[f"{output} of {name}"] = value
    np.savez(path, **results)


def test_bits_do_not_depend_on_threads(tmp_path):
    results = []
    for num_threads in ("1", "2", "5"):
        path = str(tmp_path / f"{num_threads}.npz")
        subprocesses.run(write_results, path, environment={"TF_NUM_INTRAOP_THREADS": num_threads})
        results.append(dict(np.load(path)))
    for others in results[1:]:
        running.assert_same_bits(others, results[0], "another number of threads")


def _saved_case() -> running_int8.Int8Case:
    config = judge.Config("gru", 2, H, I, "bidirectional", time_major=False)
    return running_int8.random_case(5, config, T, B, ragged=True)


def run_saved_model(directory: str) -> None:
    """In a process that has not made it."""
    model = tf.saved_model.load(directory)
    tensors = running_int8.tensors_of(_saved_case())
    inputs = {name: tensors[name] for name in ("input", "input_h", "input_c", "sequence_lengths")}
    outputs = model.signatures["serving_default"](**inputs)
    np.savez(pathlib.Path(directory, "outputs.npz"), **outputs)


def test_a_saved_model_gives_the_same_bits(tmp_path):
    case = _saved_case()
    tensors = running_int8.tensors_of(case)

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            names = ("weights", "scales", "biases")
            self.weights = {name: tf.Variable(tensors[name], trainable=False) for name in names}

        @tf.function
        def run(self, input, input_h, input_c, sequence_lengths):
            inputs = {"input": input, "input_h": input_h, "input_c": input_c}
            inputs["sequence_lengths"] = sequence_lengths
            outputs = running_int8.call(case, {**self.weights, **inputs})
            return dict(zip(running.OUTPUTS, outputs, strict=True))

    model = Model()
    specs = {name: tf.TensorSpec(None, tensor.dtype) for name, tensor in tensors.items()}
    for name in model.weights:
        del specs[name]
    tf.saved_model.save(model, str(tmp_path), model.run.get_concrete_function(**specs))
    subprocesses.run(run_saved_model, str(tmp_path))
    results = dict(np.load(tmp_path / "outputs.npz"))
    running.assert_same_bits(results, running_int8.forward(case), "a saved model")
    running_int8.assert_judged(results, case.case, "a saved model, seed 5")


def test_the_log_tells_of_it():
    code = subprocesses.code_of(_call)
    result = subprocesses.result_of(code, {"TF_CUDNN_RNN_LOG": "plan,calls"}, prepared=True)
    assert result.returncode == 0, result.stderr
    found = [line for line in result.stderr.splitlines() if line.startswith("tf_cudnn_rnn ")]
    _, plan, call = found  # the machine comes first
    assert plan.startswith("tf_cudnn_rnn plan: inference lstm float32 ")
    assert " T=4 B=3 " in plan and " weights=int8 " in plan
    assert call.startswith("tf_cudnn_rnn call: ") and call.endswith(
        plan.removeprefix("tf_cudnn_rnn plan: ")
    )


def test_it_runs_on_the_cpu_where_a_gpu_is_asked_for():
    was_soft = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(True)
    try:
        with tf.device("/GPU:0"):
            output = _call().output
    finally:
        tf.config.set_soft_device_placement(was_soft)
    assert output.device.endswith("CPU:0")
    assert tf_cudnn_rnn.raw_ops.CudnnRNNInt8.__doc__
