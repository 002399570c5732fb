"""Labels the frames of speech-like sequences with three bidirectional LSTM layers.

The model is the speech model of CNTK's documentation: 40 features a frame, three
bidirectional layers of 512, a softmax over 9000 classes. Speech is not at hand, so a
hidden Markov source stands in for it: a chain of hidden states, each frame being the
mean of its state plus noise. The task is to name the state of every frame. The means
are close to each other, so that a frame alone does not tell; its neighbours do.

  python examples/speech.py         # trains a small model, a minute or so
  python examples/speech.py --full  # times training steps of the full size

Of such a source the best possible score is known. With the true parameters the
forward-backward algorithm gives the probability of each state given all frames, and the
likeliest state is right as often as anything can be (the Bayes rate). Given a frame
alone, or the frames up to it, lower rates follow likewise. The program fails unless the
model, which knows none of the parameters, reaches 95 % of the Bayes rate on held-out
sequences and leaves any classifier of single frames behind.

Lengths are ragged. What is padded costs nothing: neither in the LSTM, which gets the
lengths, nor in the softmax, which gets the valid frames only.
"""

import argparse
import sys
import time
from typing import NamedTuple

import keras
import learning_curve
import number_options
import numpy as np
import tensorflow as tf
from learning_curve import LearningCurve

from tf_cudnn_rnn.keras import CudnnLSTM

REQUIRED = 0.95  # of the Bayes rate
FEATURES = 40
LAYERS = 3
FULL_UNITS, FULL_CLASSES = 512, 9000


class Sequences(NamedTuple):
    """A batch: B sequences of up to T frames."""

    frames: np.ndarray  # float32 [B, T, FEATURES]
    states: np.ndarray  # int32 [B, T]
    lengths: np.ndarray  # int32 [B]

    @property
    def valid(self) -> np.ndarray:
        """Which frames are no padding, bool [B, T]."""
        return np.arange(self.frames.shape[1]) < self.lengths[:, np.newaxis]


class MarkovSource:
    """Draws sequences, and labels them as well as can be.

    Attributes:
      means: [K, FEATURES], the mean frame of each state.
      transitions: [K, K], the probability to go from one state to another.
      prior: [K], how often each state occurs, in the long run as in the first frame.

    Args:
      num_states: K.
      spread: standard deviation of the means of the states; that of the noise is 1.
      stay: probability to stay in a state; otherwise one of two others follows.
    """

    def __init__(
        self,
        num_states: int,
        rng: np.random.Generator,
        spread: float = 0.25,
        stay: float = 0.6,
    ):
        self._rng = rng
        self.means = rng.normal(size=[num_states, FEATURES]) * spread
        self.transitions = np.eye(num_states) * stay
        # A circle through all states, so that each is reached, and shortcuts.
        circle = rng.permutation(num_states)
        for state, following in zip(circle, np.roll(circle, 1), strict=True):
            shortcut = rng.choice(np.setdiff1d(circle, [state, following]))
            self.transitions[state, [following, shortcut]] = (1 - stay) * rng.dirichlet([2, 2])
        self.prior = np.linalg.matrix_power(self.transitions, 1000)[0]

    def draw(self, count: int, min_length: int, max_length: int) -> Sequences:
        """Padded to `max_length`, so that all batches have one shape."""
        lengths = self._rng.integers(min_length, max_length + 1, count, dtype=np.int32)
        states = np.zeros([count, max_length], np.int32)
        states[:, 0] = self._rng.choice(len(self.prior), size=count, p=self.prior)
        steps = self.transitions.cumsum(axis=1)[:, :-1]
        for t in range(1, max_length):
            states[:, t] = (self._rng.random([count, 1]) > steps[states[:, t - 1]]).sum(axis=1)
        frames = self.means[states] + self._rng.normal(size=[count, max_length, FEATURES])
        sequences = Sequences(frames.astype(np.float32), states, lengths)
        sequences.frames[~sequences.valid] = 0
        return sequences

    def likeliest_from_frame(self, sequences: Sequences) -> np.ndarray:
        """The likeliest state given that frame alone."""
        return (self._likelihoods(sequences) * self.prior).argmax(axis=2)

    def likeliest_from_past(self, sequences: Sequences) -> np.ndarray:
        """The likeliest state given the frames up to that one."""
        return self._forward(sequences).argmax(axis=2)

    def likeliest(self, sequences: Sequences) -> np.ndarray:
        """The likeliest state given all frames."""
        return (self._forward(sequences) * self._backward(sequences)).argmax(axis=2)

    def _likelihoods(self, sequences: Sequences) -> np.ndarray:
        """p(frame | state) [B, T, K], each frame's times a constant."""
        logs = sequences.frames @ self.means.T - 0.5 * (self.means**2).sum(axis=1)
        return np.exp(logs - logs.max(axis=2, keepdims=True))

    def _forward(self, sequences: Sequences) -> np.ndarray:
        """p(state | frames up to it) [B, T, K]."""
        result = self._likelihoods(sequences)
        predicted = self.prior
        for t in range(result.shape[1]):
            result[:, t] *= predicted
            result[:, t] /= result[:, t].sum(axis=1, keepdims=True)
            predicted = result[:, t] @ self.transitions
        return result

    def _backward(self, sequences: Sequences) -> np.ndarray:
        """p(frames after it | state) [B, T, K], each step's times a constant."""
        likelihoods = self._likelihoods(sequences)
        result = np.ones_like(likelihoods)
        for t in reversed(range(result.shape[1] - 1)):
            later = (likelihoods[:, t + 1] * result[:, t + 1]) @ self.transitions.T
            later /= later.sum(axis=1, keepdims=True)
            result[:, t] = np.where(sequences.valid[:, t + 1, np.newaxis], later, 1)
        return result


class Recognizer(keras.Model):
    """Bidirectional layers and a softmax."""

    def __init__(self, units: int, classes: int):
        super().__init__()
        self.rnn = CudnnLSTM(
            units, num_layers=LAYERS, direction="bidirectional", return_sequences=True
        )
        self.to_class = keras.layers.Dense(classes)

    def call(self, frames, lengths):
        """Returns the logits [sum of lengths, classes] of all valid frames, row after row."""
        y = self.rnn(frames, sequence_lengths=lengths)
        return self.to_class(tf.boolean_mask(y, tf.sequence_mask(lengths, tf.shape(frames)[1])))


class Trainer:
    """Takes training steps."""

    def __init__(self, model: Recognizer, learning_rate):
        self._model = model
        self._optimizer = keras.optimizers.Adam(learning_rate, global_clipnorm=1.0)

    def step(self, sequences: Sequences) -> float:
        """Learns from a batch and returns the mean loss of a frame, in nats."""
        labels = sequences.states[sequences.valid]
        return float(self._step(sequences.frames, sequences.lengths, labels))

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, FEATURES]),
            tf.TensorSpec([None], tf.int32),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def _step(self, frames, lengths, labels):
        with tf.GradientTape() as tape:
            logits = self._model(frames, lengths, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        variables = self._model.trainable_variables
        self._optimizer.apply(tape.gradient(loss, variables), variables)
        return loss


def accuracy(model: Recognizer, sequences: Sequences) -> float:
    logits = model(sequences.frames, sequences.lengths).numpy()
    return float(np.mean(logits.argmax(axis=1) == sequences.states[sequences.valid]))


def train(options: argparse.Namespace) -> bool:
    """Trains the small model. Returns whether it reaches what is required."""
    source = MarkovSource(options.states, np.random.default_rng(options.seed))
    held_out = source.draw(options.held_out, options.min_length, options.max_length)

    def score(states: np.ndarray) -> float:
        return float(np.mean((states == held_out.states)[held_out.valid]))

    bayes = score(source.likeliest(held_out))
    past = score(source.likeliest_from_past(held_out))
    frame = score(source.likeliest_from_frame(held_out))
    print(
        f"held out: {options.held_out} sequences, {held_out.lengths.sum():,} frames, "
        f"{options.states} states\n"
        f"the best that can be done with a frame alone {frame:.1%}, "
        f"with the frames up to it {past:.1%}, with all frames {bayes:.1%} (Bayes rate)",
        flush=True,
    )

    model = Recognizer(options.units, options.states)
    schedule = keras.optimizers.schedules.CosineDecay(options.learning_rate, max(options.steps, 1))
    trainer = Trainer(model, schedule)
    levels = {"Bayes rate": bayes, "frames up to it": past, "a frame alone": frame}
    curve = LearningCurve("held-out frames that are right", REQUIRED * bayes, levels)
    start = time.monotonic()
    for step in range(options.steps):
        batch = source.draw(options.batch_size, options.min_length, options.max_length)
        loss = trainer.step(batch)
        if (step + 1) % max(1, options.steps // 10) == 0:
            score_now = accuracy(model, held_out)
            curve.add(score_now)
            print(
                f"step {step + 1} | loss {loss:.3f} | "
                f"held out: {score_now:.1%} right | "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )

    reached = accuracy(model, held_out)
    curve.draw(options.picture, "States of a hidden Markov source")
    print(
        f"result: accuracy={reached:.4f} bayes={bayes:.4f} of_bayes={reached / bayes:.4f} "
        f"past={past:.4f} frame_alone={frame:.4f} required={REQUIRED} "
        f"seconds={time.monotonic() - start:.0f}"
    )
    # A task that single frames solve would say nothing.
    passed = reached >= REQUIRED * bayes and reached >= frame + 0.05
    if not passed:
        print(f"below the required {REQUIRED} of bayes: train longer (--steps)", file=sys.stderr)
    return passed


def time_full_size(options: argparse.Namespace) -> bool:
    """Times training steps of the full size. Returns whether the loss stayed finite."""
    source = MarkovSource(options.states, np.random.default_rng(options.seed))
    model = Recognizer(FULL_UNITS, FULL_CLASSES)
    trainer = Trainer(model, 1e-4)

    def timed_step() -> tuple[int, float, float]:
        batch = source.draw(options.batch_size, options.min_length, options.max_length)
        begin = time.monotonic()
        loss = trainer.step(batch)
        return int(batch.lengths.sum()), loss, time.monotonic() - begin

    timed_step()  # traces the graph, and makes the weights
    weights = model.count_params()
    print(
        f"{FEATURES} features, {LAYERS} bidirectional layers of {FULL_UNITS}, "
        f"{FULL_CLASSES} classes: {weights:,} weights",
        flush=True,
    )
    all_frames = all_seconds = 0
    for step in range(options.steps):
        frames, loss, seconds = timed_step()
        all_frames += frames
        all_seconds += seconds
        print(
            f"step {step + 1} | {frames} frames | loss {loss:.3f} | {1e3 * seconds:.0f} ms",
            flush=True,
        )
    # Each weight takes part in one multiplication and addition a frame to predict, and in
    # two more for the gradients.
    gflops = 6e-9 * weights * all_frames / all_seconds
    print(
        f"result: ms_per_step={1e3 * all_seconds / options.steps:.0f} "
        f"frames_per_second={all_frames / all_seconds:.0f} gflops={gflops:.1f}"
    )
    return bool(np.isfinite(loss))


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Labels frames of a hidden Markov source.")
    parser.add_argument("--full", action="store_true", help="time the full size")
    parser.add_argument(
        "--units", type=int, default=48, help="of a layer and direction (%(default)s)"
    )
    parser.add_argument("--states", type=int, default=12, help="of the source (%(default)s)")
    parser.add_argument("--steps", type=int, help="batches (default: 500, or 5 of the full size)")
    parser.add_argument("--batch_size", type=int, default=32, help="sequences (%(default)s)")
    parser.add_argument(
        "--min_length", type=int, default=10, help="frames of a sequence (%(default)s)"
    )
    parser.add_argument(
        "--max_length",
        type=int,
        default=60,
        help="time steps of the longest sequence (%(default)s)",
    )
    parser.add_argument("--held_out", type=int, default=500, help="sequences (%(default)s)")
    parser.add_argument(
        "--learning_rate", type=float, default=0.01, help="at first; falls to 0 (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (%(default)s)")
    learning_curve.add_option(parser, "speech")
    options = parser.parse_args(argv)
    # What the timing has no use for: the full size is fixed, and nothing is learned or drawn.
    for name in ("units", "held_out", "learning_rate", "picture"):
        if options.full and getattr(options, name) != parser.get_default(name):
            parser.error(f"--{name} has no use with --full, which times a network of a fixed size")
    if options.steps is None:
        options.steps = 5 if options.full else 500
    number_options.check(
        parser,
        options,
        ("learning_rate",),
        units=1,
        states=3,
        steps=1,
        batch_size=1,
        held_out=1,
    )
    if not 1 <= options.min_length <= options.max_length:
        parser.error("--min_length and --max_length must be in that order, and at least 1")
    if options.full and options.states > FULL_CLASSES:
        parser.error(f"--states must be at most {FULL_CLASSES} with --full; got {options.states}")
    return options


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    keras.utils.set_random_seed(options.seed)
    passed = time_full_size(options) if options.full else train(options)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
