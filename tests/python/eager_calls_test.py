"""Eager calls of the own ops go TensorFlow's fast way, which its built-in ops go.

A call with an argument that it does not take, such as a list in place of a tensor or an int in
place of a float attribute, goes a slow way in Python, of some 60 us.
"""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from tests.ops import calls
from tf_cudnn_rnn import _library


@pytest.fixture
def slow_ways(monkeypatch) -> list[str]:
    """The ops that went the slow way."""
    found = []
    library = _library.load()
    suffix = "_eager_fallback"
    for name in [name for name in dir(library) if name.endswith(suffix)]:
        op = name.removesuffix(suffix)
        namespace = inspect.unwrap(getattr(library, op)).__globals__
        slow = namespace[name]

        def record(*args, op=op, slow=slow, **kwargs):
            found.append(op)
            return slow(*args, **kwargs)

        monkeypatch.setitem(namespace, name, record)
    assert found == []
    return found


def _with_tensors(arguments: dict) -> dict:
    def convert(value):
        if isinstance(value, list):
            return [convert(element) for element in value]
        return tf.constant(value) if isinstance(value, np.ndarray) else value

    return {name: convert(value) for name, value in arguments.items()}


OWN_OPS = [
    op
    for op in (
        *(*calls.FORWARD, calls.INT8, *calls.BACKPROP),
        *(*calls.TO_CANONICAL, *calls.TO_PARAMS, *calls.KERAS),
    )
    if op.startswith(calls.OWN)
]


@pytest.mark.parametrize("op", OWN_OPS)
@pytest.mark.parametrize("takes", ["tensors", "arrays"])
def test_calls_go_the_fast_way(op, takes, slow_ways):
    arguments = calls.arguments(op)
    slow_ways.clear()  # of the call before a backward one
    if takes == "tensors":
        arguments = _with_tensors(arguments)
    function = calls.function(op)
    if "dropout" in inspect.signature(function).parameters:
        arguments["dropout"] = 0
    function(**arguments)
    assert slow_ways == []


def test_seeds_do_not_stand_in_the_way(slow_ways):
    arguments = _with_tensors(calls.forward_arguments(calls.OWN + "CudnnRNNV3"))
    del arguments["rng_seed"]
    for seeds in ({}, {"seed": 3}, {"seed": -1, "seed2": -(2**31)}):
        calls.function(calls.OWN + "CudnnRNNV3")(**arguments, **seeds)
    assert slow_ways == []


def test_in_a_graph_seeds_are_constants():
    arguments = _with_tensors(calls.forward_arguments(calls.OWN + "CudnnRNNV3"))
    del arguments["rng_seed"]
    calls.function(calls.OWN + "CudnnRNNV3")(**arguments, seed=5)  # whose tensor is at hand

    @tf.function(autograph=False)
    def call(**tensors):
        return calls.function(calls.OWN + "CudnnRNNV3")(**tensors, seed=5).output

    graph = call.get_concrete_function(**arguments)
    assert graph.captured_inputs == []


def test_a_slow_way_is_seen(slow_ways):
    arguments = _with_tensors(calls.forward_arguments(calls.OWN + "CudnnRNNV3"))
    arguments["rng_seed"] = [1, 2]
    calls.function(calls.OWN + "CudnnRNNV3")(**arguments)
    assert len(slow_ways) == 1
