"""The classifier of brackets: its strings, its masks, its score."""

import itertools
import types

import brackets
import numpy as np
import pytest
from brackets import Grammar, Strings

from tests.examples import results


def test_classifier_is_nearly_always_right(capsys):
    assert brackets.main(["--kinds=2", "--steps=900", "--batch_size=64", "--max_pairs=12"]) == 0
    result = {name: float(value) for name, value in results.of(capsys.readouterr().out).items()}
    assert result["accuracy"] >= 0.99
    assert result["longer_than_average"] >= 0.98
    assert result["counter"] < 0.95


def test_too_little_training_is_a_failure(capsys):
    assert results.exit_status("brackets.py", "--steps=2", "--max_pairs=5") == 1
    assert float(results.of(capsys.readouterr().out)["accuracy"]) < 0.99


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max_pairs=4"], "--max_pairs must be at least 5; got 4"),
        (["--max_depth=0"], "--max_depth must be at least 1; got 0"),
        (["--units=-1"], "--units must be at least 1; got -1"),
        (["--learning_rate=nan"], "--learning_rate must be more than 0, and finite; got nan"),
        (["--seed=-1"], "--seed must be from 0 to 4294967295; got -1"),
        (["--kinds=1"], "argument --kinds: invalid choice: 1"),
    ],
)
def test_mistake_is_told(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        brackets.main(arguments)
    assert message in capsys.readouterr().err


# ------------------------------------------------------------------------------------
# The strings
# ------------------------------------------------------------------------------------


def vanishes(text: str) -> bool:
    """Whether crossing out neighbours that match leaves nothing: another definition."""
    before = None
    while before != text:
        before = text
        for pair in ("()", "[]", "{}", "<>"):
            text = text.replace(pair, "")
    return not text


def test_is_balanced_agrees_with_crossing_out():
    texts = ["".join(t) for n in range(7) for t in itertools.product("()[]", repeat=n)]
    balanced = [brackets.is_balanced(text) for text in texts]
    assert balanced == [vanishes(text) for text in texts]
    assert sum(balanced) == 1 + 2 + 2 * 4 + 5 * 8  # Catalan's numbers times the kinds


def depth(text: str) -> int:
    return max(np.cumsum([1 if bracket in "([{<" else -1 for bracket in text]))


def test_balanced_strings_have_the_pairs_the_kinds_and_the_depth_asked_for():
    grammar = Grammar(kinds=4, max_depth=3, rng=np.random.default_rng(2))
    texts = [grammar.balanced(pairs) for pairs in range(1, 40)]
    assert all(map(vanishes, texts))
    assert [len(text) for text in texts] == [2 * pairs for pairs in range(1, 40)]
    assert set("".join(texts)) == set("()[]{}<>")
    assert max(map(depth, texts)) == 3


def test_broken_strings_are_a_bracket_or_two_from_balanced(monkeypatch):
    grammar = Grammar(kinds=3, max_depth=4, rng=np.random.default_rng(3))
    sources = []
    draw = grammar.balanced
    monkeypatch.setattr(
        grammar, "balanced", lambda pairs: sources.append(draw(pairs)) or sources[-1]
    )
    distances = []
    for i in range(500):
        text = grammar.broken(1 + i % 20)
        assert not vanishes(text)
        places = [a != b for a, b in zip(text, sources[-1], strict=True)]
        distances.append(sum(places))
        if sum(places) == 2:  # exchanged: the number of each bracket is kept
            assert sorted(text) == sorted(sources[-1])
    assert 0.4 < np.mean(np.array(distances) == 2) < 0.6
    assert set(distances) == {1, 2}


def test_labels_are_balanced_and_lengths_say_nothing():
    grammar = Grammar(kinds=2, max_depth=4, rng=np.random.default_rng(4))
    drawn = [grammar.draw(1, 20) for _ in range(4000)]
    assert all(vanishes(text) == label for text, label in drawn)
    lengths = [np.array([len(t) for t, label in drawn if label == which]) for which in (0, 1)]
    assert 1900 < len(lengths[0]) < 2100
    assert abs(lengths[0].mean() - lengths[1].mean()) < 1.5
    assert lengths[0].min() == lengths[1].min() == 2
    assert lengths[0].max() == lengths[1].max() == 40


def test_counter_is_fooled_by_crossing_pairs_alone():
    for text, expected in [("([])", True), ("([)]", True), ("(]", False), (")(", False)]:
        assert brackets.looks_balanced_to_a_counter(text) == expected


def test_no_held_out_string_is_trained_on():
    """With strings so short that they come up again and again."""
    grammar = Grammar(kinds=2, max_depth=2, rng=np.random.default_rng(5))
    held_out = Strings([("()", True), ("[]", True), ("(]", False)], grammar, 8)
    seen = []

    class Model:
        def compile(self, *_):
            pass

        def train_on_batch(self, symbols, labels):
            seen.extend(["".join(" ([)]"[i] for i in row).strip() for row in symbols])
            return 0.0

        def predict_on_batch(self, symbols):
            return np.zeros([len(symbols), 1])

    options = types.SimpleNamespace(steps=20, batch_size=8, max_pairs=4, learning_rate=0.1)
    curve = brackets.LearningCurve("right", 0.9)
    brackets.train(Model(), grammar, held_out, options, curve)
    assert len(seen) == 160
    assert {"()", "[]", "(]"}.isdisjoint(seen)
    assert any(len(text) == 2 for text in seen)


# ------------------------------------------------------------------------------------
# The masks
# ------------------------------------------------------------------------------------


def test_padding_changes_nothing():
    grammar = Grammar(kinds=3, max_depth=4, rng=np.random.default_rng(6))
    drawn = [grammar.draw(1, 10) for _ in range(20)]
    model = brackets.build(kinds=3, units=5)
    short = model.predict_on_batch(Strings(drawn, grammar, 20).symbols)
    padded = model.predict_on_batch(Strings(drawn, grammar, 50).symbols)
    np.testing.assert_allclose(short, padded, rtol=0, atol=1e-6)
    assert short.std() > 1e-3
    assert model.layers[1].runs_fused
