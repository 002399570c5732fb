"""The adding machine: its questions, how its states go on, its score."""

import addition
import numpy as np
import pytest
from addition import END, PADDING, START, Adder, Questions

from tests.examples import results


def test_held_out_sums_are_exact(capsys):
    small = ["--digits=2", "--pairs=4000", "--units=64", "--batch_size=64"]
    assert addition.main([*small, "--epochs=8", "--learning_rate=0.012"]) == 0
    assert float(results.of(capsys.readouterr().out)["exact"]) >= 0.95


def test_too_little_training_is_a_failure(capsys):
    assert results.exit_status("addition.py", "--pairs=50", "--epochs=1", "--units=4") == 1
    assert float(results.of(capsys.readouterr().out)["exact"]) < 0.95


def test_more_pairs_than_there_are_is_a_mistake(capsys):
    with pytest.raises(SystemExit, match="2"):
        addition.main(["--digits=2", "--pairs=4051"])
    assert "are more than the 5050 that --digits=2 makes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("--digits=0", "--digits must be at least 1; got 0"),
        ("--digits=19", "--digits must be at most 18, so that sums are int64; got 19"),
        ("--pairs=0", "--pairs must be at least 1; got 0"),
        ("--epochs=-1", "--epochs must be at least 0; got -1"),
        ("--learning_rate=0", "--learning_rate must be more than 0, and finite; got 0.0"),
    ],
)
def test_mistake_is_told(argument, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        addition.main([argument])
    assert message in capsys.readouterr().err


def test_number_of_pairs():
    pairs = {(min(a, b), max(a, b)) for a in range(10) for b in range(10)}
    assert addition.number_of_pairs(1) == len(pairs)


def test_questions_are_written_as_said():
    questions = Questions(np.array([[57, 368], [9, 1]]), digits=3)
    assert questions.texts == ["57+368", "9+1"]
    assert questions.sums == ["425", "10"]
    assert addition.encode(["0+9"], 4).tolist() == [[3, 13, 12, PADDING]]
    assert questions.symbols.tolist() == [[8, 10, 13, 6, 9, 11, 0], [12, 13, 4, 0, 0, 0, 0]]
    assert questions.answers.tolist() == [[8, 5, 7, END, 0], [3, 4, END, 0, 0]]  # ones first
    assert questions.answers_so_far.tolist() == [[START, 8, 5, 7, END], [START, 3, 4, END, 0]]
    for text in ("0", "425+7", ""):
        assert addition.decode(addition.encode([text], 7)[0]) == text


def test_no_held_out_pair_is_trained_on_either_way():
    training, held_out = addition.split(4000, 2, np.random.default_rng(1))

    def pairs(questions):
        return [tuple(map(int, text.split("+"))) for text in questions.texts]

    assert len(pairs(training)) == 8000 and len(pairs(held_out)) == addition.HELD_OUT
    both_ways = {pair for a, b in pairs(training) for pair in ((a, b), (b, a))}
    assert both_ways.isdisjoint(pairs(held_out))
    assert {(b, a) for a, b in pairs(training)} == set(pairs(training))
    assert len(set(pairs(held_out))) == addition.HELD_OUT
    for questions in (training, held_out):
        assert questions.sums == [str(a + b) for a, b in pairs(questions)]
    swapped = np.mean([a > b for a, b in pairs(held_out)])
    assert 0.4 < swapped < 0.6


def test_answering_step_by_step_equals_reading_the_answer_at_once():
    """So the states are handed over: from encoder to decoder, and from step to step."""
    questions = Questions(np.random.default_rng(2).integers(1000, size=[50, 2]), digits=3)
    model = Adder(units=8, answer_length=5)
    written = model.answer(questions.symbols).numpy()
    start = np.full([50, 1], START, np.int32)
    so_far = np.concatenate([start, written[:, :-1]], axis=1)
    logits = model((questions.symbols, so_far)).numpy()
    np.testing.assert_array_equal(logits.argmax(axis=2), written)
    assert len(np.unique(written, axis=0)) > 1  # the answer depends on the question
    assert model.encoder.runs_fused and model.decoder.runs_fused


def test_a_question_with_more_padding_gets_the_same_answer():
    questions = Questions(np.array([[1, 2], [345, 678]]), digits=3)
    model = Adder(units=8, answer_length=5)
    padded = np.pad(questions.symbols, [(0, 0), (0, 6)])
    expected = model((questions.symbols, questions.answers_so_far))
    np.testing.assert_allclose(model((padded, questions.answers_so_far)), expected, atol=1e-6)
