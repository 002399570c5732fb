"""The model of char_lm.py in stock Keras layers, and how long its training steps take beside it."""

import dataclasses
import itertools
import pathlib
import re
import statistics
import time

import keras
import numpy as np
import tensorflow as tf
from char_lm_corpus import Streams
from char_lm_model import CharLM, Config
from char_lm_training import Adam, Learner

from tf_cudnn_rnn import weights

ROUNDS = 5
STEPS = 4  # of either side in a round


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Medians of training steps that took turns in one process."""

    ours_ms: float
    keras_ms: float
    cpu: str

    @property
    def ratio(self) -> float:
        """How many times as long Keras takes."""
        return self.keras_ms / self.ours_ms


class KerasLearner(tf.Module):
    """What Learner is, of keras.layers: same weights, same steps."""

    def __init__(self, model: CharLM, num_streams: int, dropout: float, clip: float):
        super().__init__()
        config = model.config
        self._dropout, self._clip = dropout, clip
        self.embedding = tf.Variable(model.embedding)
        self.softmax_kernel = tf.Variable(model.softmax_kernel)
        self.softmax_bias = tf.Variable(model.softmax_bias)
        self.rnns = [_layer(config) for _ in range(config.num_layers)]
        canonical = weights.from_cudnn(model.rnn_params.numpy(), *config.network)
        sizes = [config.embedding_size] + [config.num_units] * (config.num_layers - 1)
        arrays, _ = weights.to_keras(canonical)
        for rnn, size, its_arrays in zip(self.rnns, sizes, arrays, strict=True):
            rnn.build([num_streams, None, size])
            rnn.set_weights(its_arrays)
        self._num_states = 2 if config.rnn_mode == "lstm" else 1
        self._states = [
            tf.Variable(tf.zeros([num_streams, config.num_units]), trainable=False)
            for _ in range(config.num_layers * self._num_states)
        ]
        self._variables = [self.embedding, self.softmax_kernel, self.softmax_bias]
        self._variables += [v.value for rnn in self.rnns for v in rnn.trainable_variables]
        self.optimizer = Adam(tuple(self._variables))

    @tf.function
    def step(self, inputs, targets, lengths, seed, learning_rate):
        """Learns from one chunk [T, B] and carries the state on. Returns its mean loss."""
        with tf.GradientTape() as tape:
            x = tf.gather(self.embedding, tf.transpose(inputs))  # Keras has the batch first
            states = []
            for k, rnn in enumerate(self.rnns):
                x = self._drop(x, seed, k)
                begin = k * self._num_states
                before = self._states[begin : begin + self._num_states]
                x, *after = rnn(x, initial_state=[tf.convert_to_tensor(s) for s in before])
                states += after
            x = self._drop(x, seed, len(self.rnns))
            logits = tf.tensordot(x, self.softmax_kernel, 1) + self.softmax_bias
            nats = tf.nn.sparse_softmax_cross_entropy_with_logits(tf.transpose(targets), logits)
            loss = tf.reduce_sum(nats) / tf.cast(tf.reduce_sum(lengths), tf.float32)
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, self._variables)]
        if self._clip > 0.0:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip)
        self.optimizer.apply(gradients, tuple(self._variables), learning_rate)
        for variable, state in zip(self._states, states, strict=True):
            variable.assign(state)
        return loss

    def _drop(self, x: tf.Tensor, seed: tf.Tensor, salt: int) -> tf.Tensor:
        if self._dropout == 0.0:
            return x
        seed = seed + tf.constant([salt << 32, 0], tf.int64)
        return tf.nn.experimental.stateless_dropout(x, self._dropout, seed)


def _layer(config: Config) -> keras.layers.RNN:
    options = dict(return_sequences=True, return_state=True)
    if config.rnn_mode == "lstm":
        return keras.layers.LSTM(config.num_units, **options)
    if config.rnn_mode == "gru":
        return keras.layers.GRU(config.num_units, **options)
    activation = config.rnn_mode.removeprefix("rnn_")
    return keras.layers.SimpleRNN(config.num_units, activation=activation, **options)


def compare(
    vocabulary: np.ndarray,
    config: Config,
    train: Streams,
    dropout: float,
    clip: float,
    seed: int,
) -> Comparison:
    """Times steps of a new model on the first chunks of the text, in turns with Keras'."""
    model = CharLM(vocabulary, config, seed)
    ours = Learner(model, train.num_streams, dropout, clip)
    theirs = KerasLearner(model, train.num_streams, dropout, clip)
    # The last chunk may be shorter, and Keras' layers here take full ones.
    chunks = itertools.cycle(train[i] for i in range(max(1, min(STEPS, len(train) - 1))))
    times = {ours: [], theirs: []}
    for turn in range(ROUNDS + 1):  # the first one traces
        for learner in (ours, theirs):
            for _ in range(STEPS if turn else 1):
                chunk = next(chunks)
                begin = time.perf_counter()
                learner.step(*chunk, tf.constant([seed, turn], tf.int64), 0.001).numpy()
                if turn:
                    times[learner].append(1e3 * (time.perf_counter() - begin))
    return Comparison(*(statistics.median(times[learner]) for learner in times), cpu_name())


def cpu_name() -> str:
    """As Linux tells it."""
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    match = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return match[1] if match else "an unknown CPU"
