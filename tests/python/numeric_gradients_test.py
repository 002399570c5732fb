"""Gradients against central differences of the op itself, in double."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import running
from tests.reference import judge
from tf_cudnn_rnn import raw_ops

I, H, B, T = 3, 4, 3, 4

CONFIGS = {
    "relu": judge.Config("rnn_relu", 2, H, I, "bidirectional"),
    "relu_skip": judge.Config("rnn_relu", 1, H, H, input_mode="skip_input"),
    "tanh": judge.Config("rnn_tanh", 2, H, I),
    "tanh_skip": judge.Config("rnn_tanh", 2, H, H, "bidirectional", "skip_input"),
    "lstm": judge.Config("lstm", 2, H, I, "bidirectional", time_major=False),
    "lstm_projected": judge.Config("lstm", 2, H, I, "bidirectional", num_proj=2),
    "lstm_skip": judge.Config("lstm", 1, H, H, input_mode="skip_input"),
    "lstm_dropout": judge.Config("lstm", 3, H, I, dropout=0.4, num_proj=3),
    "gru": judge.Config("gru", 2, H, I, "bidirectional"),
    "gru_skip": judge.Config("gru", 2, H, H, input_mode="auto_select", time_major=False),
    "gru_dropout": judge.Config("gru", 2, H, I, "bidirectional", dropout=0.4),
}

# For the canonical ops, which are linear: fewer elements show as much.
SMALL_CONFIGS = {
    name: dataclasses.replace(
        config,
        num_units=2,
        input_size=3 if config.input_mode == "linear_input" else 2,
        num_proj=min(config.num_proj, 1),
    )
    for name, config in CONFIGS.items()
}

# The gradients' names, by position among the op's inputs.
INPUTS = ("x", "h0", "c0", "params")


def _central_differences(function, tensor: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """The gradient of a scalar function of a tensor, with an error of O(step^2).

    One graph calls it for all elements: to call it from Python for each takes longer.
    """
    moves = step * np.eye(tensor.size).reshape(-1, *tensor.shape)
    ends = tf.function(lambda moved: tf.map_fn(function, moved))
    difference = ends(tensor + moves) - ends(tensor - moves)
    return difference.numpy().reshape(tensor.shape) / (2 * step)


# The built-in op has the same kernel, but a gradient function of its own.
RNN_TESTS = [(name, running.OWN_V3) for name in CONFIGS] + [
    (name, running.V3) for name in ("lstm_projected", "gru_skip")
]


@pytest.mark.parametrize(("name", "op"), RNN_TESTS)
def test_rnn(name, op):
    case = running.random_case(40, CONFIGS[name], T, B, ragged=True)
    tensors = running.tensors_of(case)
    output_gradients = [tf.constant(d) for d in (case.dy, case.dh_n, case.dc_n)]

    def outputs(tensors):
        return list(running.call(op, case, *tensors)[:3])

    def loss(position, value):
        moved = list(tensors)
        moved[position] = value
        # Padding is where y is 0 whatever the input is, so it needs no exception.
        return tf.add_n(
            [tf.reduce_sum(y * dy) for y, dy in zip(outputs(moved), output_gradients, strict=True)]
        )

    with tf.GradientTape() as tape:
        tape.watch(tensors[:4])
        results = outputs(tensors)
    gradients = tape.gradient(results, tensors[:4], output_gradients)
    for position, input_name in enumerate(INPUTS):
        numeric = _central_differences(
            lambda value, position=position: loss(position, value), tensors[position].numpy()
        )
        np.testing.assert_allclose(
            gradients[position].numpy(),
            numeric,
            rtol=0,
            atol=1e-8 * max(1.0, np.abs(numeric).max()),
            err_msg=f"d{input_name} of {op}, seed 40: {case}",
        )
        used = input_name != "c0" or case.config.rnn_mode == "lstm"
        assert bool(np.any(numeric)) == used, f"d{input_name} tests nothing: {case}"


def _assert_gradients_agree(function, arrays, label):
    """Compares TensorFlow's gradients of a scalar function of arrays with differences."""
    tensors = [tf.constant(array) for array in arrays]
    graph = tf.function(function)
    ends = np.cumsum([array.size for array in arrays])[:-1]

    def of_one_vector(vector):
        parts = tf.split(vector, [array.size for array in arrays])
        return function(*map(tf.reshape, parts, [array.shape for array in arrays]))

    numeric = _central_differences(of_one_vector, np.concatenate([a.ravel() for a in arrays]))
    numeric = [
        part.reshape(array.shape)
        for part, array in zip(np.split(numeric, ends), arrays, strict=True)
    ]
    for run in (function, graph):
        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = run(*tensors)
        for gradient, expected in zip(tape.gradient(loss, tensors), numeric, strict=True):
            np.testing.assert_allclose(gradient, expected, atol=1e-8, err_msg=label)


@pytest.mark.parametrize("name", SMALL_CONFIGS)
def test_params_to_canonical(name):
    config = SMALL_CONFIGS[name]
    params = running.random_case(41, config, 1, 1).params
    weights, biases = judge.canonical(config, params)
    factors = [np.random.default_rng(42).normal(size=w.shape) for w in [*weights, *biases]]

    def function(params):
        outputs = raw_ops.CudnnRNNParamsToCanonicalV2(
            params=params,
            num_params_weights=len(weights),
            num_params_biases=len(biases),
            **config.layout_options(),
        )
        tensors = [*outputs.weights, *outputs.biases]
        # A few tensors go unused: their gradients arrive as None or zeros.
        return tf.add_n(
            [
                tf.reduce_sum(tensor * factor)
                for i, (tensor, factor) in enumerate(zip(tensors, factors, strict=True))
                if i % 3 != 1
            ]
        )

    _assert_gradients_agree(function, [params], str(config))


@pytest.mark.parametrize("flatten", [False, True], ids=["matrices", "flattened"])
@pytest.mark.parametrize("name", SMALL_CONFIGS)
def test_canonical_to_params(name, flatten):
    config = SMALL_CONFIGS[name]
    params = running.random_case(43, config, 1, 1).params
    weights, biases = judge.canonical(config, params)
    if flatten:
        weights = [matrix.ravel() for matrix in weights]
    factor = np.random.default_rng(44).normal(size=params.shape)

    def function(*tensors):
        result = raw_ops.CudnnRNNCanonicalToParamsV2(
            weights=tensors[: len(weights)],
            biases=tensors[len(weights) :],
            **config.layout_options(),
        )
        return tf.reduce_sum(result * factor)

    _assert_gradients_agree(function, [*weights, *biases], str(config))


def test_second_derivatives_of_the_canonical_ops():
    config = SMALL_CONFIGS["gru"]
    params = tf.constant(running.random_case(45, config, 1, 1).params)
    sizes = [len(tensors) for tensors in judge.canonical(config, params.numpy())]
    with tf.GradientTape() as outer:
        outer.watch(params)
        with tf.GradientTape() as inner:
            inner.watch(params)
            weights, biases = raw_ops.CudnnRNNParamsToCanonicalV2(
                params=params,
                num_params_weights=sizes[0],
                num_params_biases=sizes[1],
                **config.layout_options(),
            )
            loss = tf.add_n([tf.reduce_sum(w**3) for w in [*weights, *biases]])
        first = inner.gradient(loss, params)
    second = outer.gradient(first, params)
    np.testing.assert_allclose(first, 3 * params.numpy() ** 2, rtol=1e-12)
    np.testing.assert_allclose(second, 6 * params.numpy(), rtol=1e-12)
