"""The model of char_lm.py: embedding, stacked fused RNN, softmax.

The letters of the shapes:

  T  time steps          B  streams side by side     L  layers     H  `nhid`
  V  symbols, id 0 being every character that the training text lacks
"""

import dataclasses
import math
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from char_lm_corpus import UNKNOWN

import tf_cudnn_rnn
from tf_cudnn_rnn import ParamName

RNN_MODES = {
    "LSTM": "lstm",
    "GRU": "gru",
    "RNN_TANH": "rnn_tanh",
    "RNN_RELU": "rnn_relu",
}


@dataclasses.dataclass(frozen=True)
class Config:
    """The shape of a model."""

    rnn_mode: str  # a value of RNN_MODES
    num_layers: int
    num_units: int
    embedding_size: int

    @property
    def network(self) -> tuple[str, int, int, int]:
        """What the functions of tf_cudnn_rnn ask about a network, in their order."""
        return self.rnn_mode, self.num_layers, self.num_units, self.embedding_size


class State(NamedTuple):
    """What a stream carries from chunk to chunk; only an LSTM uses c."""

    h: tf.Tensor  # [L, B, H]
    c: tf.Tensor  # [L, B, H]


class Dropout(NamedTuple):
    """The masks of one training step: same seed, same masks."""

    rate: float
    seed: tf.Tensor  # [2], int64


class CharLM(tf.Module):
    """Predicts the next character of every stream."""

    def __init__(self, vocabulary: np.ndarray, config: Config, seed: int):
        """`vocabulary`: the code points of ids 1, 2, ..., ascending."""
        super().__init__()
        self.config = config
        self.vocabulary = tf.constant(vocabulary, tf.int32)
        rng = np.random.default_rng(seed)
        symbols = len(vocabulary) + 1
        self.embedding = tf.Variable(
            rng.uniform(-1.0, 1.0, [symbols, config.embedding_size]).astype(np.float32)
        )
        self.rnn_params = tf.Variable(_initial_params(config, rng))
        self.softmax_kernel = tf.Variable(_glorot_uniform((config.num_units, symbols), rng))
        self.softmax_bias = tf.Variable(tf.zeros([symbols]))

    def describe(self) -> str:
        """The network and its size, in a line."""
        config = self.config
        sizes = {
            "embedding": self.embedding,
            "RNN": self.rnn_params,
            "softmax kernel": self.softmax_kernel,
            "bias": self.softmax_bias,
        }
        parts = [f"{name} {math.prod(part.shape):,}" for name, part in sizes.items()]
        total = sum(math.prod(part.shape) for part in sizes.values())
        return (
            f"Model: {config.rnn_mode.upper()} {config.num_layers} x {config.num_units}, "
            f"embedding {config.embedding_size}: "
            f"{total:,} parameters ({', '.join(parts)})"
        )

    def named_weights(self) -> dict[ParamName, tf.Tensor]:
        """The matrices and biases of the RNN."""
        return dict(tf_cudnn_rnn.params_to_canonical(self.rnn_params, *self.config.network))

    def zero_state(self, num_streams: int | tf.Tensor) -> State:
        zeros = tf.zeros([self.config.num_layers, num_streams, self.config.num_units])
        return State(zeros, zeros)

    def __call__(
        self,
        inputs: tf.Tensor,
        lengths: tf.Tensor,
        state: State,
        dropout: Dropout | None = None,
    ) -> tuple[tf.Tensor, State]:
        """Returns the logits [T, B, V] and the state after the last steps.

        Args:
          inputs: [T, B], ids.
          lengths: [B], the valid steps of each stream.
          state: the state before the first step.
          dropout: given to train, None to predict.
        """
        config = self.config
        state_shape = [config.num_layers, None, config.num_units]
        x = tf.gather(self.embedding, inputs)
        arguments = dict(
            input_h=tf.ensure_shape(state.h, state_shape),
            input_c=tf.ensure_shape(state.c, state_shape),
            params=self.rnn_params,
            sequence_lengths=lengths,
            rnn_mode=config.rnn_mode,
        )
        if dropout is None:
            # TensorFlow's own op, which this library runs on the CPU: a SavedModel
            # with such nodes also works where TensorFlow finds a GPU.
            rnn = tf.raw_ops.CudnnRNNV3(input=x, is_training=False, **arguments)
            y = rnn.output
        else:
            x = _drop(x, dropout, salt=1)
            rnn = tf_cudnn_rnn.raw_ops.CudnnRNNV3(
                input=x, dropout=dropout.rate, rng_seed=dropout.seed, **arguments
            )
            y = _drop(rnn.output, dropout, salt=2)
        logits = tf.tensordot(y, self.softmax_kernel, 1) + self.softmax_bias
        c = rnn.output_c if config.rnn_mode == "lstm" else state.c
        return logits, State(rnn.output_h, c)

    def nats(
        self,
        inputs: tf.Tensor,
        targets: tf.Tensor,
        lengths: tf.Tensor,
        state: State,
        dropout: Dropout | None = None,
    ) -> tuple[tf.Tensor, State]:
        """Returns -log p of all valid `targets` [T, B], summed, and the new state."""
        logits, state = self(inputs, lengths, state, dropout)
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(targets, logits)
        valid = tf.sequence_mask(lengths, tf.shape(inputs)[0], tf.float32)
        return tf.reduce_sum(nats * tf.transpose(valid)), state


def _initial_params(config: Config, rng: np.random.Generator) -> tf.Tensor:
    """`params` with each matrix drawn for its own size, and open forget gates."""
    zeros = tf.zeros([tf_cudnn_rnn.params_size(*config.network)])
    named = []
    for name, tensor in tf_cudnn_rnn.params_to_canonical(zeros, *config.network):
        value = np.zeros(tensor.shape, np.float32)
        if name.kind == "input_kernel":
            value = _glorot_uniform(tensor.shape, rng)
        elif name.kind == "recurrent_kernel":
            value = _orthogonal(tensor.shape[0], rng)
        elif name.kind == "input_bias" and name.gate == "forget":
            value = np.ones(tensor.shape, np.float32)
        named.append((name, tf.constant(value)))
    return tf_cudnn_rnn.canonical_to_params(named, *config.network)


def _glorot_uniform(shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    limit = math.sqrt(6.0 / sum(shape))
    return rng.uniform(-limit, limit, shape).astype(np.float32)


def _orthogonal(size: int, rng: np.random.Generator) -> np.ndarray:
    q, r = np.linalg.qr(rng.standard_normal([size, size]))
    return (q * np.sign(np.diag(r))).astype(np.float32)


def _drop(x: tf.Tensor, dropout: Dropout, salt: int) -> tf.Tensor:
    """Drops features outside of the RNN, whose op drops between its layers."""
    if dropout.rate == 0.0:
        return x
    seed = dropout.seed + tf.constant([salt << 32, 0], tf.int64)
    return tf.nn.experimental.stateless_dropout(x, dropout.rate, seed)


class Generator(tf.Module):
    """Text generation as one graph: the signature of the exported SavedModel."""

    def __init__(self, model: CharLM):
        super().__init__()
        self.model = model

    @tf.function(
        input_signature=[
            tf.TensorSpec([], tf.string, "prime"),
            tf.TensorSpec([], tf.int32, "length"),
            tf.TensorSpec([], tf.float32, "temperature"),
            tf.TensorSpec([], tf.int32, "seed"),
        ]
    )
    def generate(self, prime, length, temperature, seed):
        """Continues `prime`.

        Args:
          prime: UTF-8. Characters unknown to the model are read as one symbol.
          length: the number of characters to add.
          temperature: divides the logits; 0 takes the likeliest character.
          seed: same seed, same text.

        Returns:
          {"text": `prime` and its continuation, which holds known characters only}.
        """
        checks = [
            tf.debugging.assert_non_negative(length, "`length` must not be negative"),
            tf.debugging.Assert(
                (temperature >= 0.0) & tf.math.is_finite(temperature),
                ["`temperature` must be finite and not negative; got", temperature],
            ),
        ]
        with tf.control_dependencies(checks):
            length = tf.identity(length)
            temperature = tf.identity(temperature)
        # Reading begins at a line break, so that an empty prime works too.
        code_points = tf.strings.unicode_decode("\n" + prime, "UTF-8")
        logits, state = self._read(self._encode(code_points), self.model.zero_state(1))

        def write_one(i, text, logits, state):
            ids = self._choose(logits, temperature, tf.stack([seed, i]))
            text = text.write(i, self.model.vocabulary[ids - 1])
            logits, state = self._read(ids[tf.newaxis], state)
            return i + 1, text, logits, state

        text = tf.TensorArray(tf.int32, length, element_shape=[])
        _, text, _, _ = tf.while_loop(lambda i, *_: i < length, write_one, (0, text, logits, state))
        return {"text": prime + tf.strings.unicode_encode(text.stack(), "UTF-8")}

    def _read(self, ids: tf.Tensor, state: State) -> tuple[tf.Tensor, State]:
        """Reads `ids` [T] and returns the logits [V] that follow."""
        logits, state = self.model(ids[:, tf.newaxis], tf.shape(ids), state)
        return logits[-1, 0], state

    def _encode(self, code_points: tf.Tensor) -> tf.Tensor:
        vocabulary = self.model.vocabulary
        index = tf.searchsorted(vocabulary, code_points)
        index = tf.minimum(index, tf.size(vocabulary) - 1)
        known = tf.gather(vocabulary, index) == code_points
        return tf.where(known, index + 1, UNKNOWN)

    def _choose(self, logits: tf.Tensor, temperature: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        """Draws the id of a known character."""
        known = logits[UNKNOWN + 1 :]
        likeliest = tf.argmax(known, output_type=tf.int32)
        drawn = tf.random.stateless_categorical(
            known[tf.newaxis] / tf.maximum(temperature, 1e-6), 1, seed, tf.int32
        )[0, 0]
        return UNKNOWN + 1 + tf.where(temperature > 0.0, drawn, likeliest)

    def export(self, path: str) -> None:
        """Writes a SavedModel whose default signature is `generate`."""
        tf.saved_model.save(self, path, signatures=self.generate)
