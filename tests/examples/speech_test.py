"""The speech model: the source's best labels, the network's score, the full size."""

import itertools

import numpy as np
import pytest
import speech
from speech import FEATURES, MarkovSource, Recognizer, Sequences

from tests.examples import results


def test_network_comes_close_to_the_bayes_rate(capsys):
    small = ["--states=5", "--units=24", "--max_length=30", "--held_out=300"]
    assert speech.main([*small, "--steps=80", "--learning_rate=0.02"]) == 0
    result = {name: float(value) for name, value in results.of(capsys.readouterr().out).items()}
    assert result["accuracy"] >= 0.95 * result["bayes"]
    # The task is no trivial one: nothing comes so close that looks at frames alone, or at
    # the past alone.
    assert result["frame_alone"] < result["past"] < 0.95 * result["bayes"] < 0.9


def test_too_little_training_is_a_failure(capsys):
    assert results.exit_status("speech.py", "--steps=2", "--held_out=20") == 1
    result = results.of(capsys.readouterr().out)
    assert float(result["accuracy"]) < 0.95 * float(result["bayes"])


def test_full_size_is_timed(capsys):
    small_batch = ["--batch_size=3", "--min_length=2", "--max_length=9"]
    assert speech.main(["--full", "--steps=1", *small_batch]) == 0
    out = capsys.readouterr().out
    # 2 directions x 4 gates x 512 x (inputs + 512 + 2 biases), and 1024 x 9000 + 9000.
    rnn = 2 * 4 * 512 * ((40 + 514) + (1024 + 514) + (1024 + 514))
    assert f" {rnn + 1025 * 9000:,} weights" in out
    result = {name: float(value) for name, value in results.of(out).items()}
    assert set(result) == {"ms_per_step", "frames_per_second", "gflops"}
    frames = result["frames_per_second"] * result["ms_per_step"] / 1e3
    assert 5 < frames < 28  # from 3 x 2 to 3 x 9
    assert result["gflops"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps=0"], "--steps must be at least 1"),
        (["--min_length=9", "--max_length=8"], "--min_length and --max_length"),
        (["--states=2"], "--states must be at least 3"),
        (["--batch_size=0"], "--batch_size must be at least 1"),
        (["--full", "--units=64"], "--units has no use with --full"),
        (["--full", "--picture="], "--picture has no use with --full"),
        (["--full", "--states=9001"], "--states must be at most 9000 with --full; got 9001"),
    ],
)
def test_mistake_is_told(capsys, arguments, message):
    with pytest.raises(SystemExit, match="2"):
        speech.main(arguments)
    assert message in capsys.readouterr().err


# ------------------------------------------------------------------------------------
# The source
# ------------------------------------------------------------------------------------


def posteriors(source: MarkovSource, frames: np.ndarray) -> np.ndarray:
    """p(state | all `frames`) [T, K], summed up over all paths."""
    K = len(source.prior)
    result = np.zeros([len(frames), K])
    for path in itertools.product(range(K), repeat=len(frames)):
        steps = source.transitions[path[:-1], path[1:]]
        distances = ((frames - source.means[list(path)]) ** 2).sum()
        p = source.prior[path[0]] * steps.prod() * np.exp(-0.5 * distances)
        result[range(len(frames)), path] += p
    return result / result.sum(axis=1, keepdims=True)


def test_likeliest_states_are_those_of_an_enumeration_of_all_paths():
    source = MarkovSource(4, np.random.default_rng(5), spread=0.15)
    sequences = source.draw(60, min_length=1, max_length=6)
    frame, past, best = (
        label(sequences)
        for label in (source.likeliest_from_frame, source.likeliest_from_past, source.likeliest)
    )
    different = 0
    for row, length in enumerate(sequences.lengths):
        # float64, or the products underflow.
        frames = sequences.frames[row, :length].astype(np.float64)
        expected = posteriors(source, frames).argmax(axis=1)
        np.testing.assert_array_equal(best[row, :length], expected)
        for t in range(length):
            assert past[row, t] == posteriors(source, frames[: t + 1])[-1].argmax()
            assert frame[row, t] == posteriors(source, frames[t : t + 1])[0].argmax()
        different += np.sum(past[row, :length] != expected)
        different += np.sum(frame[row, :length] != past[row, :length])
    assert different > 20  # or the three would not be told apart


def test_source_does_what_its_parameters_say():
    source = MarkovSource(5, np.random.default_rng(6))
    np.testing.assert_allclose(source.transitions.sum(axis=1), 1)
    np.testing.assert_allclose(source.prior @ source.transitions, source.prior)
    sequences = source.draw(400, min_length=50, max_length=60)
    assert sequences.lengths.min() == 50 and sequences.lengths.max() == 60
    assert np.all(sequences.frames[~sequences.valid] == 0)
    states = sequences.states
    errors = []  # of the means, in standard errors
    for state in range(5):
        following = np.bincount(states[:, 1:][states[:, :-1] == state], minlength=5)
        following = following / following.sum()
        np.testing.assert_allclose(following, source.transitions[state], atol=0.03)
        frames = sequences.frames[(states == state) & sequences.valid]
        errors.append((frames.mean(axis=0) - source.means[state]) * np.sqrt(len(frames)))
    assert np.abs(errors).max() < 4 and 0.85 < np.std(errors) < 1.15
    np.testing.assert_allclose(np.bincount(states[:, 0]) / 400, source.prior, atol=0.1)


def test_padding_is_not_read():
    model = Recognizer(units=3, classes=4)
    sequences = MarkovSource(4, np.random.default_rng(7)).draw(5, min_length=1, max_length=8)
    logits = model(sequences.frames, sequences.lengths)
    assert logits.shape == [sequences.lengths.sum(), 4]
    spoilt = sequences.frames.copy()
    spoilt[~sequences.valid] = np.nan
    np.testing.assert_array_equal(model(spoilt, sequences.lengths), logits)
    # Row after row: the second sequence alone gives its rows.
    first, second = sequences.lengths[:2]
    alone = model(sequences.frames[1:2, :second], sequences.lengths[1:2])
    np.testing.assert_allclose(logits[first : first + second], alone, atol=1e-6)


def test_valid_marks_the_frames_that_are_no_padding():
    frames = np.zeros([2, 3, FEATURES], np.float32)
    sequences = Sequences(frames, np.zeros([2, 3], np.int32), np.array([1, 3], np.int32))
    assert sequences.valid.tolist() == [[True, False, False], [True, True, True]]
