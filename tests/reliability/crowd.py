"""Many threads make calls at the same time, in every way in which TensorFlow makes calls.

The functions here are for processes of their own: how many threads TensorFlow has is decided once
a process, by TF_NUM_INTRAOP_THREADS and TF_NUM_INTEROP_THREADS.
"""

import contextlib
import itertools
import os
import sys
import threading
import time
from concurrent import futures

import numpy as np
import tensorflow as tf

from tests.reliability import calls

# Threads that make calls. Many leave no threads of TensorFlow's to help them; few have helpers,
# who come and go as others' calls begin and end.
MANY, FEW = 16, 3
# Loops and pipelines hold several calls at once.
_NESTED = 4


class Crowd:
    """The ways to make calls: functions that return what the call gave, once or several times."""

    def __init__(self):
        self.calls = [calls.make(name) for name in calls.NAMES]
        self.expected = {call.name: calls.bits(call.compute(*call.tensors)) for call in self.calls}
        self.ways = {}  # from a name to a call and a function
        for call in self.calls:
            function = call.function()
            self._add("eager", call, lambda call=call: [call.compute(*call.tensors)])
            self._add("function", call, lambda function=function: [function()])
        # Loops take long to trace: each has a call that is cut to threads in another way.
        named = {call.name: call for call in self.calls}
        for name in ("panels", "projected"):
            self._add("map_fn", named[name], _map_fn(named[name]))
        for name in ("groups", "together"):
            self._add("while_loop", named[name], _while_loop(named[name]))
        for name in ("panels", "builtin"):
            self._add("dataset", named[name], _dataset(named[name]))
        self._add("dataset with threads of its own", named["groups"], _dataset(named["groups"], 2))
        for name in ("panels", "chunks"):
            graph = Graph(named[name])
            self._add("session", named[name], graph.run)
            self._add("session of its own", named[name], graph.run_in_another_session)
        self._add("another function", named["alone"], lambda: [named["alone"].function()()])

    def _add(self, way, call, function):
        self.ways[f"{call.name}, {way}"] = (call, function)

    def check(self, way: str) -> int:
        """Makes the call; returns how often it did, each time with the bits that it gives alone."""
        call, function = self.ways[way]
        results = function()
        for tensors in results:
            actual = calls.bits(tensors)
            for index, (a, b) in enumerate(zip(actual, self.expected[call.name], strict=True)):
                if a != b:
                    raise AssertionError(f"tensor {index} of {way} has other bits than alone")
        return len(results)

    def check_serially(self) -> int:
        """Makes each once, in this thread."""
        return sum(self.check(way) for way in self.ways)

    def check_at_once(self, num_threads: int, rounds: int = sys.maxsize, seconds: float = 1e9):
        """The threads take turns in all ways, again and again; returns how many calls they made.

        Args:
          rounds: each thread makes so many calls at most, ...
          seconds: ... and begins none when so many have passed.
        """
        end = time.monotonic() + seconds
        # Dealt out, so that all are met as soon as there have been as many calls.
        ways = _shuffled(np.random.default_rng(num_threads), list(self.ways))
        lock = threading.Lock()

        def work(_):
            count = 0
            for _ in range(rounds):
                if time.monotonic() > end:
                    break
                with lock:
                    way = next(ways)
                count += self.check(way)
            return count

        return sum(in_threads(work, num_threads))


def in_threads(function, num_threads: int) -> list:
    """Returns function(0), function(1), ..., which threads call at the same time."""
    start = threading.Barrier(num_threads)

    def call(thread):
        start.wait()
        return function(thread)

    with futures.ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(call, range(num_threads)))


def _shuffled(rng, names):
    """All names in another order each time."""
    while True:
        yield from rng.permutation(names)


def _map_fn(call):
    dtypes = [tensor.dtype for tensor in call.compute(*call.tensors)]

    @tf.function
    def run():
        return tf.map_fn(
            lambda _: call.compute(*call.tensors),
            tf.range(_NESTED),
            fn_output_signature=dtypes,
            parallel_iterations=_NESTED,
        )

    return lambda: list(zip(*[tensor.numpy() for tensor in run()], strict=True))


def _while_loop(call):
    @tf.function
    def run():
        def body(i, *_):
            return (i + 1, *call.compute(*call.tensors))

        zeros = [tf.zeros_like(tensor) for tensor in call.compute(*call.tensors)]
        return tf.while_loop(lambda i, *_: i < _NESTED, body, [0, *zeros])[1:]

    return lambda: [run()]


def _dataset(call, own_threads=None):
    options = tf.data.Options()
    if own_threads:
        options.threading.private_threadpool_size = own_threads
        options.threading.max_intra_op_parallelism = 1

    dataset = tf.data.Dataset.range(_NESTED).map(
        lambda _: tuple(call.compute(*call.tensors)), num_parallel_calls=_NESTED
    )
    return lambda: list(dataset.with_options(options))


class Graph:
    """A call in a graph of its own, as of TensorFlow 1."""

    def __init__(self, call):
        self._arrays = [tensor.numpy() for tensor in call.tensors]
        with tf.Graph().as_default() as self._graph:
            self._inputs = [
                tf.compat.v1.placeholder(array.dtype, array.shape) for array in self._arrays
            ]
            self._outputs = call.compute(*self._inputs)
        self._session = self.session()

    def session(self, **options):
        config = tf.compat.v1.ConfigProto(**options)
        return tf.compat.v1.Session(graph=self._graph, config=config)

    def run(self, session=None, **options):
        feed = dict(zip(self._inputs, self._arrays, strict=True))
        return [(session or self._session).run(self._outputs, feed, **options)]

    def run_in_another_session(self):
        """In a session that has threads of its own if TF_OVERRIDE_GLOBAL_THREADPOOL is set."""
        options = {"inter_op_parallelism_threads": 2, "intra_op_parallelism_threads": 3}
        with contextlib.closing(self.session(**options)) as session:
            return self.run(session)


def calls_at_once(rounds: int) -> None:
    """Prints how many calls were made, all of them with the bits that they give alone."""
    crowd = Crowd()
    assert MANY * rounds >= len(crowd.ways), "too few for all ways"
    count = crowd.check_serially()
    count += crowd.check_at_once(MANY, rounds)
    count += crowd.check_at_once(FEW, 4 * rounds)
    _check_that_each_call_has_its_own_masks(rounds)
    print(count)


def calls_on_one_core(rounds: int) -> None:
    """The same, whatever other cores this machine has."""
    os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:1])
    calls_at_once(rounds)


def calls_for(seconds: float, rounds_of_masks: int = 50) -> None:
    """The same for some time, and then rounds of calls that draw masks."""
    crowd = Crowd()
    count = crowd.check_serially()
    for num_threads in (MANY, FEW):
        count += crowd.check_at_once(num_threads, seconds=seconds / 2)
    _check_that_each_call_has_its_own_masks(rounds_of_masks)
    print(count)


def _check_that_each_call_has_its_own_masks(rounds: int) -> None:
    """Built-in ops count their calls: at once they draw the masks that they draw in turn."""
    call = calls.make_with_state(seed=5)
    in_turn, at_once = call.function(), call.function()  # each with a kernel of its own
    expected = [calls.bits(in_turn()) for _ in range(MANY * rounds)]
    actual = in_threads(
        lambda _: [calls.bits(at_once()) for _ in range(rounds)],
        MANY,
    )
    assert len({tuple(results) for results in expected}) == len(expected)
    assert sorted(expected) == sorted(itertools.chain(*actual))
