"""Other ways to the gradients: recomputation, persistent tapes, tapes around graphs."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import running
from tests.reference import judge

OWN = {"rng_seed": np.array([3, 4], np.int64)}

CASES = {
    # The built-in op would draw another mask when it is called again.
    "own": (running.OWN_V3, judge.Config("rnn_tanh", 2, 4, 3, dropout=0.4), OWN),
    "builtin": (running.V3, judge.Config("lstm", 1, 4, 3, time_major=False), {}),
}


def _call(name: str):
    """Returns a function of x, h0, c0 and params that returns three outputs, and arguments."""
    op, config, options = CASES[name]
    case = running.random_case(60, config, 5, 3, ragged=True)

    def function(*inputs):
        return tuple(running.call(op, case, *inputs, case.sequence_lengths, **options)[:3])

    return function, list(running.tensors_of(case)[:4])


def _loss(outputs):
    return tf.add_n([tf.reduce_sum(tf.sin(output)) for output in outputs])


def _plain(function, inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = _loss(function(*inputs))
    return tape.gradient(loss, inputs)


def _second(function, inputs):
    """The gradient of the gradient's norm, by two tapes."""
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        norm = tf.add_n([tf.reduce_sum(g**2) for g in _plain(function, inputs)])
    return tape.gradient(norm, inputs)


def _assert_same(actual, expected):
    assert any(np.any(e) for e in expected)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-13)


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
@pytest.mark.parametrize("name", CASES)
def test_recompute_grad(name, graph):
    """The second forward call drops what the first one did."""
    function, inputs = _call(name)
    calls = []

    def counted(*inputs):
        calls.append(None)
        return function(*inputs)

    run = functools.partial(_plain, tf.recompute_grad(counted))
    actual = (tf.function(run) if graph else run)(inputs)
    _assert_same(actual, _plain(function, inputs))
    assert len(calls) == 2, "nothing was recomputed"


@pytest.mark.parametrize("around_graph", [False, True], ids=["op", "function"])
@pytest.mark.parametrize("name", CASES)
def test_persistent_tape(name, around_graph):
    function, inputs = _call(name)
    run = tf.function(function) if around_graph else function
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        outputs = run(*inputs)
        losses = [_loss(outputs), _loss(outputs[:1]), tf.reduce_sum(outputs[1])]
    # More than once, in any order, each input by itself.
    for _ in range(2):
        for loss, part in zip(reversed(losses), (slice(1, 2), slice(1), slice(3)), strict=True):
            scale = tf.cos if part != slice(1, 2) else tf.ones_like
            with tf.GradientTape() as plain:
                plain.watch(inputs)
                outputs = function(*inputs)[part]
            expected = plain.gradient(outputs, inputs, [scale(output) for output in outputs])
            _assert_same([tape.gradient(loss, x) for x in inputs], expected)


@pytest.mark.parametrize("around_graph", [False, True], ids=["op", "function"])
@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("graphs_as_traced")
def test_persistent_tape_of_its_own_gradients(name, around_graph):
    """A persistent tape that is asked within its context records the backward pass."""
    function, inputs = _call(name)
    run = tf.function(function) if around_graph else function
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(inputs)
        loss = _loss(run(*inputs))
        gradients = tape.gradient(loss, inputs)
        norm = tf.add_n([tf.reduce_sum(g**2) for g in gradients])
    _assert_same(gradients, _plain(function, inputs))
    _assert_same(tape.gradient(norm, inputs), _second(function, inputs))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.usefixtures("graphs_as_traced")
def test_second_gradients_of_graphs(name):
    """All of it in one graph, or tapes around a graph."""
    function, inputs = _call(name)
    expected = _second(function, inputs)
    _assert_same(_second(tf.function(function), inputs), expected)
    _assert_same(tf.function(functools.partial(_second, function))(inputs), expected)
