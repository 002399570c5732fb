"""`bench`: tables, models, and the sentence in the end. How fast anything is, no test says."""

import itertools
import pathlib
import re
import time
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.cli import inspect_test
from tf_cudnn_rnn import _machine, raw_ops
from tf_cudnn_rnn._cli import models, output, timing

SENTENCE = re.compile(
    r"training \d+\.\dx, prediction \d+\.\dx as fast as Keras on this machine\n\Z"
)
SHORT = ("--seconds", "0.2", "--batch", "2", "--steps", "3")
SMALL = (*SHORT, "--units", "5", "--input-size", "4")


def save(model: keras.Model, path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras calls in NumPy
        model.save(path)


# Each mode, and what sizes may ask for: layers and directions, together and alone.
@pytest.mark.parametrize(
    ("rnn_mode", "options", "title"),
    [
        ("lstm", ("--layers", "2", "--bidirectional"), "LSTM 2 x 5, bidirectional"),
        ("gru", ("--bidirectional",), "GRU 5, bidirectional"),
        ("rnn_tanh", ("--layers", "2"), "tanh RNN 2 x 5"),
        ("rnn_relu", (), "ReLU RNN 5"),
    ],
)
def test_a_network_of_given_sizes(run, rnn_mode, options, title):
    result = run("bench", *SMALL, "--mode", rnn_mode, *options)
    assert result.code == 0, result.err
    assert f"{title}, input 4, batch 2, 3 steps" in result.out
    assert SENTENCE.search(result.out)
    assert max(map(len, result.out.splitlines())) <= 80


def test_networks_by_default(run):
    result = run("bench", *SHORT, "--json")
    facts = result.json
    titles = [item["title"] for item in facts["results"]]
    assert titles == [
        "LSTM 256, input 256, batch 2, 3 steps",
        "GRU 256, input 256, batch 2, 3 steps",
    ]
    for item in facts["results"]:
        assert item["rounds"] >= 1
        names = [row["name"] for row in item["rows"]]
        assert names[:3] == ["tf_cudnn_rnn, the op", "tf_cudnn_rnn.keras", "Keras"]
        for row in item["rows"][:3]:
            assert row["training_ms"] > 0 and row["prediction_ms"] > 0
        assert item["rows"][2]["training_vs_keras"] == 1
    assert facts["machine"]["instruction_set"] == tf_cudnn_rnn.instruction_set()
    assert SENTENCE.search(facts["summary"] + "\n") and not facts["problems"]


def test_more_threads_than_processors(run, monkeypatch):
    """TensorFlow would start as many, and hang."""
    monkeypatch.setattr(_machine, "num_cpus", lambda: 2)
    result = run("bench", *SMALL, "--threads", "3")
    assert result.code == 2 and not result.out
    assert result.err == (
        "tf-cudnn-rnn: --threads must be at most 2, the processors of this process; got 3.\n"
    )


def test_a_model_with_an_embedding(run, tmp_path):
    layers = [
        keras.layers.Embedding(20, 3, mask_zero=True),
        keras.layers.SimpleRNN(4, return_sequences=True),
        keras.layers.GRU(5, reset_after=False, name="other_gru"),
    ]
    save(keras.Sequential([keras.Input([None], dtype="int32"), *layers]), tmp_path / "a.keras")
    result = run("bench", tmp_path / "a.keras", *SHORT)
    assert result.code == 0, result.err
    assert SENTENCE.search(result.out)
    assert "other_gru ran in Keras' loop: reset_after must be True; got False" in result.out


def test_a_model_with_several_inputs_and_outputs(run, tmp_path):
    layers = keras.layers
    words = keras.Input([None], name="words")  # floats, as Keras makes them
    rest = keras.Input([3, 2], name="rest")
    x = layers.Embedding(7, 3)(words)
    x = layers.LSTM(4)(x)
    y = tf_cudnn_rnn.keras.GRU(3)(rest)
    inputs = {"words": words, "rest": rest}
    save(keras.Model(inputs, {"x": layers.Dense(1)(x), "y": y}), tmp_path / "a.keras")
    result = run("bench", tmp_path / "a.keras", *SHORT, "--json")
    assert result.code == 0, result.err
    assert result.json["results"][0]["rows"][1]["name"] == "Keras"


# A tensor in a list, in a dictionary, and by itself, as most models are written.
@pytest.mark.parametrize("structure", [lambda x: x, lambda x: [x], lambda x: {"x": x}])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_functional_model_of_one_input(run, tmp_path, structure, dtype):
    layers = keras.layers
    x = keras.Input([4, 3] if dtype == "float32" else [4], dtype=dtype, name="x")
    y = x if dtype == "float32" else layers.Embedding(7, 3, mask_zero=True)(x)
    y = layers.Dense(1)(layers.LSTM(4)(y))
    save(keras.Model(structure(x), y), tmp_path / "a.keras")
    result = run("bench", tmp_path / "a.keras", *SHORT)
    assert result.code == 0, result.err
    assert SENTENCE.search(result.out)
    said = " ".join(result.out.split())
    assert f"a.keras, input {[2, 4, 3] if dtype == 'float32' else [2, 4]}" in said
    assert "note: --steps 3 is not used" in said and "--batch 2 is not used" not in said


def test_what_embeddings_look_up_is_there(files):
    model = keras.saving.load_model(files / "model.keras", compile=False)
    values = models.inputs(tf, model, 50, 60).numpy()
    assert values.dtype == np.int32 and values.shape == (50, 60)
    # 0 would be padding.
    assert set(values.ravel()) == set(range(1, 20))


def test_wrong_outputs_are_found(run, monkeypatch):
    right = raw_ops.CudnnRNNV3

    def op(**arguments):
        result = right(**arguments)
        return result._replace(output=result.output + 0.01)

    monkeypatch.setattr(raw_ops, "CudnnRNNV3", op)
    result = run("bench", *SMALL)
    assert result.code == 1 and "computes other outputs than" in " ".join(result.out.split())


def test_wrong_outputs_of_a_model_are_found(run, tmp_path, monkeypatch):
    layer = keras.layers.GRU(4, return_sequences=True)
    save(keras.Sequential([keras.Input([3, 2]), layer]), tmp_path / "model.keras")
    right = raw_ops.KerasRNN

    def op(**arguments):
        result = right(**arguments)
        return result._replace(output=result.output * 1.1)

    monkeypatch.setattr(raw_ops, "KerasRNN", op)
    result = run("bench", tmp_path / "model.keras", *SHORT, "--json")
    assert result.code == 1 and "Predictions differ by" in result.json["problems"][0]


def test_errors_of_tensorflow_are_sentences(run, monkeypatch):
    def op(**arguments):
        raise tf.errors.InvalidArgumentError(
            None, None, "{{function_node x}} It is\nwrong. [[{{a}}]] [Op:<f>]"
        )

    monkeypatch.setattr(raw_ops, "CudnnRNNV3", op)
    result = run("bench", *SMALL)
    assert result.code == 2
    assert result.err == "tf-cudnn-rnn: TensorFlow says: It is wrong.\n"


def test_nan_is_no_agreement():
    assert models.disagreement([np.ones(2)], [np.array([1, np.nan])])
    assert models.disagreement([np.ones(2)], [np.array([1, 1.0001])]) is None


def without_recurrence(path):
    save(keras.Sequential([keras.Input([3]), keras.layers.Dense(1)]), path)


def save_arrays(path):
    with path.open("wb") as file:
        np.savez(file, x=1)


def cut_off(path):
    """As a download that broke off."""
    without_recurrence(path)
    path.write_bytes(path.read_bytes()[:-100])


def with_code(path):
    layer = keras.layers.Lambda(lambda x: x)
    save(keras.Sequential([keras.Input([3, 2]), keras.layers.LSTM(2), layer]), path)


# What Keras need not look at takes no time; before it loads a file, a line says so.
@pytest.mark.parametrize(
    "name, write, says, loads",
    [
        ("none.keras", lambda path: None, "No such file", False),
        ("a.keras", lambda path: path.write_bytes(b"no model"), "must be a .keras file", False),
        ("a.h5", lambda path: path.write_bytes(b"no model"), "must be a .keras file", False),
        ("saved_model", pathlib.Path.mkdir, "must be a .keras file", False),
        ("a.keras", cut_off, "a.keras is damaged, or forged", False),
        ("a.keras", save_arrays, "must be a .keras file", False),
        ("a.keras", without_recurrence, "has no layer LSTM, GRU or SimpleRNN", True),
        ("a.keras", with_code, "Keras cannot load", True),
        (
            "a.keras",
            lambda path: inspect_test.keras_archive(path, b'{"class_name": "LSTM", "config": {}}'),
            "Keras cannot load",
            True,
        ),
    ],
)
def test_files_that_cannot_be_measured(run, tmp_path, name, write, says, loads):
    write(tmp_path / name)
    result = run("bench", tmp_path / name, *SHORT)
    assert result.code == 2 and says in result.err
    assert bool(result.out) == loads


def test_a_projection_has_no_counterpart_in_keras(run, files):
    result = run("bench", files / "own.keras", *SHORT)
    assert result.code == 2 and "no stock Keras layer projects" in result.err


@pytest.mark.parametrize("option", ["--units", "--layers", "--steps", "--batch"])
def test_huge_sizes(run, option):
    result = run("bench", option, 2**31 - 1, "--seconds", "1")
    assert result.code == 2 and "of memory" in result.err


def test_available_memory():
    assert _machine.available_memory() > 1 << 20


def test_all_take_turns(monkeypatch):
    calls = []
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    sides = [
        timing.Side(name, {pass_: lambda name=name: calls.append(name) for pass_ in passes})
        for name, passes in {"a": timing.PASSES, "b": (timing.PREDICTION,)}.items()
    ]
    # An hour goes by at each look at the clock, so that there is one round, of a call each.
    clock = itertools.count(step=3600)
    monkeypatch.setattr(time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(time, "perf_counter", lambda: float(next(clock)))
    times = timing.measure(sides, 60, output.Progress())
    assert times.rounds == 1
    # Each twice at first: to trace, and to see what a call costs.
    assert calls == ["a", "a", "a", "a", "b", "b"] + ["a", "a", "b"]
    assert times.ratio("a", "b", timing.PREDICTION) == 1
    assert times.ratio("a", "b", timing.TRAINING) is None


def test_a_model_has_its_own_sizes(run, files):
    result = run("bench", files / "model.keras", "--units", "128", "--bidirectional")
    assert result.code == 2 and "without --units, --bidirectional" in result.err
