"""Tells balanced strings of brackets from almost balanced ones.

  ([]{})[()]   balanced
  ([]{)}[()]   not: two brackets are exchanged, and nothing else tells

A classifier of whole strings that are from 2 to some dozens of brackets long. An
embedding masks the padding, the LSTM stops at the end of each string, and its last
output decides.

  python examples/brackets.py
  python examples/brackets.py --kinds=2 --steps=900

Half of the strings are broken, each in one place or two, so that guessing gets 50 %. Of
the broken ones half keep the number of brackets of every kind. A program that counts
open brackets, kind by kind, cannot see all of that; its score is printed. To see it an
LSTM must learn to remember which brackets are open, and in what order. It does if the
strings are short at first, and get longer as it learns; long ones from the start teach
it to count, and no more.

The score is the share of held-out strings that are classified rightly, none of which
occurred in training. The program fails below 99 %.
"""

import argparse
import sys
import time

import keras
import learning_curve
import number_options
import numpy as np
from learning_curve import LearningCurve

from tf_cudnn_rnn.keras import LSTM

REQUIRED = 0.99
HELD_OUT = 2000  # strings
SHORTEST_HELD_OUT = 8  # brackets; there are too few shorter strings to hold out any
OPENING, CLOSING = "([{<", ")]}>"


class Grammar:
    """Draws strings.

    Args:
      kinds: kinds of brackets.
      max_depth: brackets open at the same time, at most.
    """

    def __init__(self, kinds: int, max_depth: int, rng: np.random.Generator):
        self.brackets = OPENING[:kinds] + CLOSING[:kinds]
        self._kinds = kinds
        self._max_depth = max_depth
        self._rng = rng

    def balanced(self, pairs: int) -> str:
        text = ""
        awaited = []  # closing brackets, the next one last
        while pairs or awaited:
            may_open = pairs and len(awaited) < self._max_depth
            if may_open and (not awaited or self._rng.random() < 0.5):
                kind = self._rng.integers(self._kinds)
                text += OPENING[kind]
                awaited.append(CLOSING[kind])
                pairs -= 1
            else:
                text += awaited.pop()
        return text

    def broken(self, pairs: int) -> str:
        """A balanced string with one bracket replaced, or two exchanged."""
        exchange = self._rng.random() < 0.5 and pairs > 1
        while True:
            text = list(self.balanced(pairs))
            if exchange:
                i, j = self._rng.choice(len(text), size=2, replace=False)
                text[i], text[j] = text[j], text[i]
            else:
                text[self._rng.integers(len(text))] = self._rng.choice(list(self.brackets))
            if not is_balanced("".join(text)):
                return "".join(text)

    def draw(self, min_pairs: int, max_pairs: int) -> tuple[str, bool]:
        """A string, and whether it is balanced."""
        pairs = self._rng.integers(min_pairs, max_pairs + 1)
        if self._rng.random() < 0.5:
            return self.balanced(pairs), True
        return self.broken(pairs), False


def is_balanced(text: str) -> bool:
    awaited = []
    for bracket in text:
        if bracket in OPENING:
            awaited.append(CLOSING[OPENING.index(bracket)])
        elif not awaited or awaited.pop() != bracket:
            return False
    return not awaited


def looks_balanced_to_a_counter(text: str) -> bool:
    """Whether every kind of brackets is balanced if the others are left out."""
    return all(
        is_balanced("".join(bracket for bracket in text if bracket in pair))
        for pair in zip(OPENING, CLOSING, strict=True)
    )


class Strings:
    """Strings as symbols: 0 is padding."""

    def __init__(self, drawn: list[tuple[str, bool]], grammar: Grammar, length: int):
        self.texts = [text for text, _ in drawn]
        self.labels = np.array([label for _, label in drawn], np.float32)
        self.lengths = np.array([len(text) for text in self.texts])
        # All batches get the same shape, hence one graph. Padding costs next to nothing:
        # the work of the op follows the lengths.
        self.symbols = np.zeros([len(drawn), length], np.int32)
        for row, text in zip(self.symbols, self.texts, strict=True):
            row[: len(text)] = [1 + grammar.brackets.index(bracket) for bracket in text]


def build(kinds: int, units: int) -> keras.Model:
    return keras.Sequential(
        [
            keras.layers.Embedding(1 + 2 * kinds, 16, mask_zero=True),
            LSTM(units),
            keras.layers.Dense(1),
        ]
    )


def right(model: keras.Model, strings: Strings) -> np.ndarray:
    """Which strings are classified rightly."""
    logits = np.asarray(model.predict_on_batch(strings.symbols))[:, 0]
    return (logits > 0) == (strings.labels > 0.5)


def train(
    model: keras.Model,
    grammar: Grammar,
    held_out: Strings,
    options: argparse.Namespace,
    curve: LearningCurve,
) -> None:
    schedule = keras.optimizers.schedules.CosineDecay(options.learning_rate, max(options.steps, 1))
    model.compile(
        keras.optimizers.Adam(schedule, global_clipnorm=1.0),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    forbidden = set(held_out.texts)
    start = time.monotonic()
    losses = []
    max_pairs = min(3, options.max_pairs)
    longer_at = 0
    for step in range(options.steps):
        batch = []
        while len(batch) < options.batch_size:
            text, label = grammar.draw(1, max_pairs)
            if text not in forbidden:
                batch.append((text, label))
        strings = Strings(batch, grammar, 2 * options.max_pairs)
        losses.append(float(model.train_on_batch(strings.symbols, strings.labels)))
        settled = step >= longer_at + 20 and np.mean(losses[-20:]) < 0.1
        if settled and max_pairs < options.max_pairs:
            max_pairs += 1
            longer_at = step
        if (step + 1) % max(1, options.steps // 10) == 0:
            score = right(model, held_out).mean()
            curve.add(score)
            print(
                f"step {step + 1} | up to {2 * max_pairs} brackets | "
                f"loss {np.mean(losses[-100:]):.3f} | "
                f"held out: {score:.2%} right | "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Learns which strings of brackets balance.")
    parser.add_argument(
        "--kinds", type=int, default=3, choices=range(2, 5), help="of brackets (%(default)s)"
    )
    parser.add_argument(
        "--max_depth", type=int, default=4, help="open brackets, at most (%(default)s)"
    )
    parser.add_argument(
        "--max_pairs", type=int, default=20, help="brackets of a string / 2 (%(default)s)"
    )
    parser.add_argument("--units", type=int, default=64, help="of the LSTM (%(default)s)")
    parser.add_argument("--steps", type=int, default=1500, help="batches to train on (%(default)s)")
    parser.add_argument(
        "--batch_size", type=int, default=128, help="strings of a step of training (%(default)s)"
    )
    parser.add_argument(
        "--learning_rate", type=float, default=0.01, help="at first; falls to 0 (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of weights and strings (%(default)s)")
    learning_curve.add_option(parser, "brackets")
    options = parser.parse_args(argv)
    number_options.check(
        parser,
        options,
        ("learning_rate",),
        max_depth=1,
        max_pairs=SHORTEST_HELD_OUT // 2 + 1,  # or none would be longer than the average
        units=1,
        steps=0,
        batch_size=1,
    )
    return options


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    keras.utils.set_random_seed(options.seed)
    grammar = Grammar(options.kinds, options.max_depth, np.random.default_rng(options.seed))

    drawn = [grammar.draw(SHORTEST_HELD_OUT // 2, options.max_pairs) for _ in range(HELD_OUT)]
    held_out = Strings(drawn, grammar, 2 * options.max_pairs)
    for text, label in drawn[:4]:
        print(f"  {text}  {'balanced' if label else 'not balanced'}")
    counter = [looks_balanced_to_a_counter(text) == label for text, label in drawn]
    print(
        f"held out: {HELD_OUT} strings of {held_out.lengths.min()} to {held_out.lengths.max()} "
        f"brackets, {held_out.labels.mean():.1%} balanced; a counter gets {np.mean(counter):.1%}"
    )

    model = build(options.kinds, options.units)
    start = time.monotonic()
    curve = LearningCurve(
        "held-out strings that are right", REQUIRED, {"a counter": np.mean(counter)}
    )
    train(model, grammar, held_out, options, curve)
    curve.draw(options.picture, "Do the brackets balance?")

    is_right = right(model, held_out)
    score = is_right.mean()
    longer = is_right[held_out.lengths > held_out.lengths.mean()].mean()
    print(
        f"result: accuracy={score:.4f} longer_than_average={longer:.4f} "
        f"counter={np.mean(counter):.4f} required={REQUIRED} "
        f"seconds={time.monotonic() - start:.0f}"
    )
    if score >= REQUIRED:
        return 0
    print(f"below the required {REQUIRED}: train longer (--steps)", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
