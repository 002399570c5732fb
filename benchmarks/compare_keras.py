"""Times a training step and inference of the fused ops beside Keras' layers.

Keras' layer, the drop-in layer and the op run in one process, in turn, so that a
machine whose speed drifts slows all; what counts are the ratios of the medians.

    make bench
    .venv/bin/python benchmarks/compare_keras.py --cases lstm_512x64 --runs 21
"""

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf
from absl import app, flags

import tf_cudnn_rnn
import tf_cudnn_rnn.keras

_CASES = flags.DEFINE_list("cases", None, "names of cases to run; default all")
_RUNS = flags.DEFINE_integer("runs", 11, "timed runs of each side", lower_bound=3)


class Case(NamedTuple):
    rnn_mode: str
    units: int
    batch: int
    steps: int
    input_size: int


CASES = {
    "lstm_512x16": Case("lstm", 512, 16, 25, 512),
    "lstm_512x64": Case("lstm", 512, 64, 25, 512),
    "lstm_128x32": Case("lstm", 128, 32, 100, 64),
    "lstm_512x1": Case("lstm", 512, 1, 25, 512),
    "gru_512x16": Case("gru", 512, 16, 25, 512),
    "gru_512x64": Case("gru", 512, 64, 25, 512),
    "rnn_tanh_512x64": Case("rnn_tanh", 512, 64, 25, 512),
}

_KERAS_LAYERS = {
    "lstm": keras.layers.LSTM,
    "gru": keras.layers.GRU,
    "rnn_tanh": keras.layers.SimpleRNN,
}


_DROP_INS = {
    "lstm": tf_cudnn_rnn.keras.LSTM,
    "gru": tf_cudnn_rnn.keras.GRU,
    "rnn_tanh": tf_cudnn_rnn.keras.SimpleRNN,
}


class Steps(NamedTuple):
    """Functions without arguments: one step of training, one of inference."""

    train: Callable[[], object]
    infer: Callable[[], object]


def layer_steps(layers, case: Case, x: np.ndarray, dy: np.ndarray) -> Steps:
    layer = layers[case.rnn_mode](case.units, return_sequences=True)
    x, dy = tf.constant(x), tf.constant(dy)
    layer(x)

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(layer(x, training=True) * dy)
        return tape.gradient(loss, [x, *layer.trainable_variables])

    @tf.function
    def infer():
        return layer(x, training=False)

    return Steps(train, infer)


def op_steps(case: Case, x: np.ndarray, dy: np.ndarray) -> Steps:
    size = tf_cudnn_rnn.params_size(case.rnn_mode, 1, case.units, case.input_size)
    scale = case.units**-0.5
    params = tf.Variable(tf.random.uniform([size], -scale, scale))
    x = tf.constant(x.transpose(1, 0, 2))
    dy = tf.constant(dy.transpose(1, 0, 2))
    state = tf.zeros([1, case.batch, case.units])
    lengths = tf.fill([case.batch], case.steps)

    def forward(is_training):
        return tf_cudnn_rnn.raw_ops.CudnnRNNV3(
            input=x,
            input_h=state,
            input_c=state,
            params=params,
            sequence_lengths=lengths,
            rnn_mode=case.rnn_mode,
            is_training=is_training,
        ).output

    @tf.function
    def train():
        with tf.GradientTape() as tape:
            tape.watch([x, state])
            loss = tf.reduce_sum(forward(is_training=True) * dy)
        return tape.gradient(loss, [x, state, params])

    @tf.function
    def infer():
        return forward(is_training=False)

    return Steps(train, infer)


def milliseconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    tf.nest.map_structure(lambda t: t.numpy(), step())
    return 1e3 * (time.perf_counter() - start)


def interleaved_medians(steps: list[Callable[[], object]], runs: int) -> list[float]:
    for step in steps:  # trace and warm up
        milliseconds(step)
        milliseconds(step)
    times = [[milliseconds(step) for step in steps] for _ in range(runs)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def main(_):
    names = _CASES.value or list(CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise app.UsageError(
            f"--cases: no case {', '.join(unknown)}; there are {', '.join(CASES)}."
        )
    print(f"medians of {_RUNS.value} runs, milliseconds; speed-ups over Keras' layer")
    print(f"{'case':<18}{'':<12}{'Keras':>8}{'layer':>16}{'op':>16}{'layer / op':>12}")
    rng = np.random.default_rng(0)
    for name in names:
        case = CASES[name]
        shape = (case.batch, case.steps, case.input_size)
        x = rng.standard_normal(shape, dtype=np.float32)
        dy = rng.standard_normal((*shape[:2], case.units), dtype=np.float32)
        sides = [
            layer_steps(_KERAS_LAYERS, case, x, dy),
            layer_steps(_DROP_INS, case, x, dy),
            op_steps(case, x, dy),
        ]
        for kind in Steps._fields:
            stock, layer, op = interleaved_medians(
                [getattr(side, kind) for side in sides], _RUNS.value
            )
            cells = "".join(f"{ms:8.2f} {stock / ms:6.2f}x" for ms in (layer, op))
            print(f"{name:<18}{kind:<12}{stock:8.2f}{cells}{layer / op:11.2f}x", flush=True)


if __name__ == "__main__":
    app.run(main)
