"""Where memory runs out, calls end in ResourceExhaustedError, never with the process.

The limit is on addresses, so that it is ours alone. TensorFlow's own ops end such processes: a
matmul that has as little left as the first of these calls does. So nothing else runs meanwhile.
"""

import ast
import collections
import resource

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import subprocesses

# The C library takes from the system what is larger than this, and gives it back: otherwise it
# keeps what earlier calls had.
_ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "65536"}


_REFUSALS = {
    "tables": "needs more memory for its tables than the system has left, for inputs of shapes",
    "scratch": "The scratch memory of this call",
    "tensor": "OOM when allocating tensor",  # TensorFlow's words
}


def _bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def _outcome(call, room: int) -> str:
    """How the call ends if the process may take so many bytes more than it has."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.setrlimit(resource.RLIMIT_AS, (_bytes() + room, resource.RLIM_INFINITY))
    try:
        call()
        return "done"
    except tf.errors.ResourceExhaustedError as error:
        message = error.message
        [outcome] = [name for name, words in _REFUSALS.items() if words in message]
        return outcome
    finally:
        resource.setrlimit(resource.RLIMIT_AS, unlimited)


class _Rnn:
    """Calls of one network, whose tensors are there before memory gets scarce."""

    def __init__(self, ops, T, B, I=1, H=1, lengths=None, layers=1, direction="unidirectional"):
        directions = 2 if direction == "bidirectional" else 1
        states = tf.zeros([layers * directions, B, H])
        size = tf_cudnn_rnn.params_size("lstm", layers, H, I, direction=direction)
        self._ops = ops
        self._inputs = {
            "input": tf.zeros([T, B, I]),
            "input_h": states,
            "input_c": states,
            "params": tf.zeros([size]),
            "sequence_lengths": tf.fill([B], T) if lengths is None else tf.constant(lengths),
            "direction": direction,
        }
        self._seed = {} if ops is tf.raw_ops else {"rng_seed": tf.constant([1, 2], tf.int64)}
        self._forward = None

    def infer(self):
        return self._ops.CudnnRNNV3(**self._inputs, **self._seed, is_training=False)

    def train(self):
        return self._ops.CudnnRNNV3(**self._inputs, **self._seed)

    def backward(self):
        made = self._forward = self._forward or self.train()
        return self._ops.CudnnRNNBackpropV3(
            **self._inputs,
            output=made.output,
            output_h=made.output_h,
            output_c=made.output_c,
            output_backprop=made.output,
            output_h_backprop=made.output_h,
            output_c_backprop=made.output_c,
            reserve_space=made.reserve_space,
            host_reserved=made.host_reserved,
        )


def _int8(T: int, B: int, I: int, H: int, num_proj: int = 0):
    """Inference with weights in int8."""
    P = num_proj or H
    inputs = {
        "input": tf.zeros([T, B, I]),
        "input_h": tf.zeros([1, B, P]),
        "input_c": tf.zeros([1, B, H]),
        "weights": tf.zeros([4 * H * (I + P) + num_proj * H], tf.int8),
        "scales": tf.zeros([8 * H + num_proj]),
        "biases": tf.zeros([8 * H]),
        "sequence_lengths": tf.fill([B], T),
        "num_proj": num_proj,
    }
    return lambda: tf_cudnn_rnn.raw_ops.CudnnRNNInt8(**inputs)


def _masked(T: int, B: int):
    """Inference of steps with holes between them."""
    states = tf.zeros([1, B, 1])
    inputs = {
        "input": tf.zeros([T, B, 1]),
        "input_h": states,
        "input_c": states,
        "kernel": tf.zeros([1, 4]),
        "recurrent_kernel": tf.zeros([1, 4]),
        "sequence_lengths": tf.fill([B], T),
        "masks": [tf.constant(np.random.default_rng(1).random([T, B]) < 0.5)],
        "is_training": False,
    }
    return lambda: tf_cudnn_rnn.raw_ops.KerasRNN(**inputs)


def _calls(rows: int) -> dict:
    """Calls by name; the largest tables have so many rows."""
    own, built_in = tf_cudnn_rnn.raw_ops, tf.raw_ops
    lengths = np.random.default_rng(1).integers(0, 64, rows // 16).astype(np.int32)
    params = tf.zeros([tf_cudnn_rnn.params_size("lstm", 1, 128, 128)])
    layer = tf_cudnn_rnn.keras.LSTM(2)
    batch = tf.zeros([rows // 16, 4, 2])
    layer.build(batch.shape)
    matrices = tf_cudnn_rnn.params_to_canonical(params, "lstm", 1, 128, 128)
    return {
        "a large batch": _Rnn(own, 1, rows).infer,
        "a large batch, training": _Rnn(built_in, 1, rows, direction="bidirectional").train,
        "a large batch, backward": _Rnn(built_in, 1, rows // 4).backward,
        "many steps": _Rnn(own, rows, 1).infer,
        "many steps, backward": _Rnn(own, rows // 4, 1).backward,
        "lengths": _Rnn(own, 64, rows // 16, lengths=lengths).backward,
        "a mask": _masked(64, rows // 16),
        "a team": _Rnn(own, 20, 32, 256, 256).infer,
        "a team, backward": _Rnn(built_in, 20, 32, 256, 256).backward,
        "layers": _Rnn(own, 4, 16, 16, 16, layers=64, direction="bidirectional").train,
        "int8, a large batch": _int8(1, rows // 4, 1, 1),
        "int8, a team": _int8(20, 32, 256, 256),
        "int8, scales": _int8(1, 1, 1, min(rows, 1 << 17), num_proj=1),
        "a layer": lambda: layer(batch),
        "params": lambda: tf_cudnn_rnn.params_to_canonical(params, "lstm", 1, 128, 128),
        "matrices": lambda: tf_cudnn_rnn.canonical_to_params(matrices, "lstm", 1, 128, 128),
    }


def _print_outcomes(calls: dict, rooms) -> None:
    for name, call in calls.items():
        call()  # what TensorFlow makes at the first call is its own affair
        # All memory that it takes is to be new.
        outcomes = collections.Counter()
        for room in rooms:
            tf_cudnn_rnn.release_scratch()
            outcomes[_outcome(call, room)] += 1
        print(name, dict(outcomes), sep=": ", flush=True)


def little_memory() -> None:
    # From nothing to enough; and the first pages one by one.
    rooms = [*range(0, 16 << 12, 1 << 12), *range(1 << 18, 12 << 20, 3 << 17)]
    _print_outcomes(_calls(1 << 16), rooms)


def large_calls() -> None:
    """With 100 MB and 300 MB, calls of all sizes."""
    for log_rows in range(10, 24):
        print(log_rows)
        _print_outcomes(_calls(1 << log_rows), [100 << 20, 300 << 20])


def test_little_memory():
    printed = subprocesses.run(little_memory, environment=_ENVIRONMENT)
    outcomes = dict(line.split(": ", 1) for line in printed.splitlines())
    # The process came to the end of its memory in each place where a call takes some. Which call
    # comes to its end where depends on the instruction set, and on what the process has left over.
    places = {place for text in outcomes.values() for place in ast.literal_eval(text)}
    assert places == {*_REFUSALS, "done"}, printed
    for name in ("a large batch", "many steps", "a mask", "int8, scales"):
        assert all(place in outcomes[name] for place in ("tables", "done")), printed
    for name in ("a large batch", "a team", "int8, a large batch", "int8, a team"):
        assert all(place in outcomes[name] for place in ("scratch", "done")), printed


@pytest.mark.slow
def test_large_calls():
    subprocesses.run(large_calls)


def huge_call(num_steps: int, batch: int, call: str) -> None:
    """More rows, or steps, than the machine has memory for, or they work."""
    # Or the system, which promises more than it has, ends a process, this one or another.
    with open("/proc/meminfo") as file:
        [available] = [int(line.split()[1]) for line in file if line.startswith("MemAvailable:")]
    room = available * 1024 * 3 // 4
    rnn = _Rnn(tf_cudnn_rnn.raw_ops, num_steps, batch)
    print(_outcome(getattr(rnn, call), room))


@pytest.mark.slow
@pytest.mark.parametrize("call", ["infer", "backward"])
@pytest.mark.parametrize(("num_steps", "batch"), [(1, 300_000_000), (300_000_000, 1)])
def test_huge_calls(num_steps, batch, call):
    subprocesses.run(huge_call, num_steps, batch, call)
