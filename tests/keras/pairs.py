"""Pairs of a drop-in and its Keras parent with the same weights, and their comparison."""

import itertools

import keras
import numpy as np
import tensorflow as tf

import tf_cudnn_rnn.keras

I, H, T = 5, 6, 7

LAYERS = ("LSTM", "GRU", "SimpleRNN")
# What to vary where the recurrence counts: SimpleRNN has two modes.
MODES = {
    "lstm": ("LSTM", {}),
    "gru": ("GRU", {}),
    "tanh": ("SimpleRNN", {}),
    "relu": ("SimpleRNN", {"activation": "relu"}),
}

# Each kind of mask is a row of one batch.
MASK = np.array(
    [
        [1, 1, 1, 1, 1, 1, 1],  # full
        [0, 0, 0, 0, 0, 0, 0],  # empty
        [0, 0, 0, 1, 1, 1, 1],  # padded on the left
        [1, 1, 0, 0, 0, 0, 0],  # padded on the right
        [0, 1, 0, 0, 1, 1, 0],  # holes, and both ends
        [1, 0, 1, 1, 0, 0, 1],
        [0, 0, 0, 0, 0, 0, 1],
    ],
    bool,
)
B = len(MASK)


def inputs(dtype="float64", seed=0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=[B, T, I]).astype(dtype)


def states(layer, seed=1) -> list[tf.Tensor]:
    rng = np.random.default_rng(seed)
    return [tf.constant(rng.normal(size=[B, H]), layer.compute_dtype) for _ in layer.state_size]


def randomise(layer: keras.layers.Layer) -> None:
    """Random values in every weight, biases included: equal ones would hide swapped gates."""
    rng = np.random.default_rng(2)
    layer.set_weights([rng.normal(scale=0.5, size=w.shape) for w in layer.get_weights()])


def pair(name: str, *, wrap=lambda layer: layer, shape=(B, T, I), **options):
    """Returns a built drop-in and its parent, with equal weights, each passed to `wrap`."""
    options = {"dtype": "float64", **options}
    ours = wrap(getattr(tf_cudnn_rnn.keras, name)(H, **options))
    theirs = wrap(getattr(keras.layers, name)(H, **options))
    return with_equal_weights(ours, theirs, shape)


def with_equal_weights(ours, theirs, shape=(B, T, I)):
    """Builds two layers, gives both the same random weights, and returns them."""
    for layer in (ours, theirs):
        layer.build(shape)
    randomise(ours)
    theirs.set_weights(ours.get_weights())
    return ours, theirs


def all_options(*names: str) -> list[dict]:
    """Every combination of these boolean options."""
    values = itertools.product([False, True], repeat=len(names))
    return [dict(zip(names, combination, strict=True)) for combination in values]


def outputs_and_gradients(layer, x, *, initial_state=None, **call):
    """Returns the outputs, and the gradients of a loss that weighs each element differently.

    The gradients are for x, the initial states, and the trainable weights.
    """
    x = tf.constant(x)
    initial_state = initial_state or []
    with tf.GradientTape() as tape:
        tape.watch([x, *initial_state])
        if initial_state:
            call["initial_state"] = initial_state
        outputs = tf.nest.flatten(layer(x, **call))
        loss = tf.add_n(
            [
                tf.reduce_sum(
                    tf.cast(output, tf.float64) * np.random.default_rng(k).normal(size=output.shape)
                )
                for k, output in enumerate(outputs)
            ]
        )
    sources = [x, *initial_state, *(v.value for v in layer.trainable_variables)]
    gradients = tape.gradient(loss, sources, unconnected_gradients="zero")
    return [t.numpy() for t in outputs], [t.numpy() for t in gradients]


def assert_same(ours, theirs, x, *, tolerance=1e-12, label="", **call) -> None:
    """Compares outputs and gradients of a pair; `tolerance` is relative to the largest value."""
    for what, actual, expected in zip(
        ("output", "gradient"),
        outputs_and_gradients(ours, x, **call),
        outputs_and_gradients(theirs, x, **call),
        strict=True,
    ):
        assert len(actual) == len(expected), label
        for k, (one, other) in enumerate(zip(actual, expected, strict=True)):
            where = f"{what} {k} of {ours.name}, {label}, {sorted(call)}"
            assert one.shape == other.shape and one.dtype == other.dtype, where
            one, other = one.astype(np.float64), other.astype(np.float64)
            largest = max(1.0, np.max(np.abs(other), initial=0.0))
            np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * largest, err_msg=where)
