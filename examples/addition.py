"""Learns to add: reads "57+368" and writes "425", symbol by symbol.

An encoder LSTM reads the question. Its states h and c, all that it knows of the
question, become the initial states of a decoder LSTM, which writes the answer.

  python examples/addition.py
  python examples/addition.py --digits=2 --pairs=4000 --epochs=12

In training the decoder reads the right answer, one symbol late, in a single call
(teacher forcing). To answer it reads what it wrote itself: one step a call, and the
states go from call to call. Answers are written from the ones upwards, as on paper, so
that a carry is known when it is needed. Questions differ in length; symbol 0 is padding,
which the embedding masks.

The score is the share of held-out questions whose answer is right in every digit. Of a
held-out question a+b neither a+b nor b+a was trained on. The program fails below 95 %.
"""

import argparse
import sys
import time

import keras
import learning_curve
import number_options
import numpy as np
import tensorflow as tf
from learning_curve import LearningCurve

from tf_cudnn_rnn.keras import LSTM

REQUIRED = 0.95
HELD_OUT = 1000  # pairs

PADDING, START, END = range(3)
TEXT = "0123456789+"  # the symbols after these
NUM_SYMBOLS = 3 + len(TEXT)


def encode(texts: list[str], length: int) -> np.ndarray:
    """Returns int32 [len(texts), length]: symbols, then padding."""
    symbols = np.full([len(texts), length], PADDING, np.int32)
    for row, text in zip(symbols, texts, strict=True):
        row[: len(text)] = [3 + TEXT.index(character) for character in text]
    return symbols


def decode(symbols: np.ndarray) -> str:
    """The text before the first symbol that is none of TEXT."""
    text = ""
    for symbol in symbols:
        if symbol < 3:
            break
        text += TEXT[symbol - 3]
    return text


def number_of_pairs(digits: int) -> int:
    """How many pairs a <= b there are."""
    return 10**digits * (10**digits + 1) // 2


def draw_pairs(count: int, digits: int, rng: np.random.Generator) -> np.ndarray:
    """Returns int [count, 2], different pairs a <= b; short numbers come up as often as long."""
    pairs = set()
    while len(pairs) < count:
        a, b = rng.integers(10 ** rng.integers(1, digits + 1, size=2))
        pairs.add((min(a, b), max(a, b)))
    return rng.permutation(sorted(pairs))


class Questions:
    """Pairs of numbers as symbols."""

    def __init__(self, pairs: np.ndarray, digits: int):
        self.texts = [f"{a}+{b}" for a, b in pairs]
        self.sums = [str(a + b) for a, b in pairs]
        self.symbols = encode(self.texts, 2 * digits + 1)
        # What the decoder writes: a digit more than the numbers may have, and END.
        self.answers = encode([text[::-1] for text in self.sums], digits + 2)
        self.answers[np.arange(len(pairs)), [len(text) for text in self.sums]] = END
        # What it reads meanwhile.
        start = np.full([len(pairs), 1], START, np.int32)
        self.answers_so_far = np.concatenate([start, self.answers[:, :-1]], axis=1)


def split(count: int, digits: int, rng: np.random.Generator) -> tuple[Questions, Questions]:
    """Returns `count` pairs to train on, each both ways, and HELD_OUT others, one way each."""
    pairs = draw_pairs(HELD_OUT + count, digits, rng)
    held_out, training = pairs[:HELD_OUT], pairs[HELD_OUT:]
    held_out = np.where(rng.random([HELD_OUT, 1]) < 0.5, held_out, held_out[:, ::-1])
    training = np.concatenate([training, training[:, ::-1]])
    return Questions(training, digits), Questions(held_out, digits)


class Adder(keras.Model):
    """An encoder and a decoder that share nothing but states."""

    def __init__(self, units: int, answer_length: int):
        super().__init__()
        self.answer_length = answer_length
        self.embed_question = keras.layers.Embedding(NUM_SYMBOLS, 32, mask_zero=True)
        self.encoder = LSTM(units, return_state=True)
        self.embed_answer = keras.layers.Embedding(NUM_SYMBOLS, 32)
        self.decoder = LSTM(units, return_sequences=True, return_state=True)
        self.to_symbol = keras.layers.Dense(NUM_SYMBOLS)

    def call(self, inputs):
        """Logits of every symbol of the answer, given the right ones before it."""
        questions, answers_so_far = inputs
        logits, _ = self.write(answers_so_far, self.read(questions))
        return logits

    def read(self, questions):
        _, h, c = self.encoder(self.embed_question(questions))
        return [h, c]

    def write(self, symbols, states):
        """Reads `symbols` and returns the logits of those that follow, and the new states."""
        y, h, c = self.decoder(self.embed_answer(symbols), initial_state=states)
        return self.to_symbol(y), [h, c]

    @tf.function
    def answer(self, questions):
        """Writes the likeliest symbol, reads it, and so on (greedy decoding)."""
        states = self.read(questions)
        symbol = tf.fill([tf.shape(questions)[0], 1], START)
        written = []
        for _ in range(self.answer_length):
            logits, states = self.write(symbol, states)
            symbol = tf.argmax(logits, axis=-1, output_type=tf.int32)
            written.append(symbol)
        return tf.concat(written, axis=1)


def answers_of(model: Adder, questions: Questions) -> list[str]:
    return [decode(row)[::-1] for row in model.answer(questions.symbols).numpy()]


def exact(model: Adder, questions: Questions) -> float:
    """The share of answers that are right in every digit."""
    answers = answers_of(model, questions)
    return float(np.mean([a == b for a, b in zip(answers, questions.sums, strict=True)]))


class Report(keras.callbacks.Callback):
    """Says after each epoch how the held-out questions are answered."""

    def __init__(self, held_out: Questions, curve: LearningCurve):
        super().__init__()
        self._held_out = held_out
        self._curve = curve
        self._start = time.monotonic()

    def on_epoch_end(self, epoch, logs=None):
        score = exact(self.model, self._held_out)
        self._curve.add(score)
        print(
            f"epoch {epoch + 1} | loss {logs['loss']:.3f} | "
            f"held out: {score:.1%} exact | "
            f"{time.monotonic() - self._start:.0f} s",
            flush=True,
        )


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learns to add.")
    parser.add_argument(
        "--digits", type=int, default=3, help="digits of a number, at most (%(default)s)"
    )
    parser.add_argument(
        "--pairs", type=int, default=20_000, help="pairs to train on, both ways (%(default)s)"
    )
    parser.add_argument("--units", type=int, default=128, help="of either LSTM (%(default)s)")
    parser.add_argument(
        "--epochs", type=int, default=8, help="passes over the training sums (%(default)s)"
    )
    parser.add_argument(
        "--batch_size", type=int, default=64, help="sums of a step of training (%(default)s)"
    )
    parser.add_argument(
        "--learning_rate", type=float, default=0.005, help="at first; falls to 0 (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of weights and sums (%(default)s)")
    learning_curve.add_option(parser, "addition")
    options = parser.parse_args(argv)
    number_options.check(
        parser, options, ("learning_rate",), digits=1, pairs=1, units=1, epochs=0, batch_size=1
    )
    if options.digits > 18:
        parser.error(f"--digits must be at most 18, so that sums are int64; got {options.digits}")
    if options.pairs + HELD_OUT > number_of_pairs(options.digits):
        parser.error(
            f"--pairs={options.pairs} and {HELD_OUT} held-out pairs are more than the "
            f"{number_of_pairs(options.digits)} that --digits={options.digits} makes"
        )
    return options


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    keras.utils.set_random_seed(options.seed)
    rng = np.random.default_rng(options.seed)

    training, held_out = split(options.pairs, options.digits, rng)
    print(f"{len(training.texts)} questions to train on, {len(held_out.texts)} held out")

    model = Adder(options.units, answer_length=options.digits + 2)
    steps = options.epochs * -(-len(training.texts) // options.batch_size)
    schedule = keras.optimizers.schedules.CosineDecay(options.learning_rate, max(steps, 1))
    model.compile(
        keras.optimizers.Adam(schedule, global_clipnorm=1.0),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=PADDING),
    )
    curve = LearningCurve("held-out sums that are exact", REQUIRED)
    start = time.monotonic()
    model.fit(
        (training.symbols, training.answers_so_far),
        training.answers,
        batch_size=options.batch_size,
        epochs=options.epochs,
        callbacks=[Report(held_out, curve)],
        verbose=0,
    )

    for question, answer, right in zip(
        held_out.texts[:5], answers_of(model, held_out), held_out.sums, strict=False
    ):
        print(f"  {question} = {answer}" + ("" if answer == right else f", but it is {right}"))
    score = exact(model, held_out)
    curve.draw(options.picture, f"Sums of {options.digits}-digit numbers, letter by letter")
    print(f"result: exact={score:.4f} required={REQUIRED} seconds={time.monotonic() - start:.0f}")
    if score >= REQUIRED:
        return 0
    print(f"below the required {REQUIRED}: train longer (--epochs)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
