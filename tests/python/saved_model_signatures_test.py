"""Signatures of unknown batch and time, called in processes that only load the SavedModels.

One such process imports the library, another does not. So this file imports neither the
library nor anything that does, except in functions that run here.
"""

import pathlib
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.docs import pages
from tests.helpers import subprocesses
from tests.reference import cases, judge

PAGE = "docs/serving.md"

# Streams need one direction. The second layer and the projection make states unlike outputs.
CONFIG = judge.Config("lstm", 2, 5, 3, num_proj=2)
RAW_MODELS = {
    "own": {"op": "own V3", "is_training": False},
    "own_training": {"op": "own V3", "is_training": True},
    "builtin": {"op": "V3", "is_training": False},
    "builtin_training": {"op": "V3", "is_training": True},
}
LENGTHS = {"1x1": [1], "3x7": [7, 0, 4], "5x2": [1, 2, 0, 2, 1]}  # batch x time
KERAS_MODELS = ("keras_export", "keras_save")
I, H = 16, 32  # as in docs/serving.md


def run_block(index: int, variables: dict) -> None:
    """Runs one of the two programs of the page."""
    blocks = list(pages.blocks(PAGE, "python"))
    assert len(blocks) == 2
    pages.run(PAGE, *blocks[index], variables)


def raw_case(size: str) -> cases.Case:
    time = int(size.partition("x")[2])
    rng = np.random.default_rng(len(size) + time)
    return cases.random_case(rng, CONFIG, time, len(LENGTHS[size]), LENGTHS[size]).astype(
        np.float32
    )


def padded_sequences(size: str, features: int) -> np.ndarray:
    """A batch of sequences whose padding, zeros, stands at the end."""
    batch, time = map(int, size.split("x"))
    x = np.random.default_rng(time).normal(size=[batch, time, features]).astype(np.float32)
    x[np.arange(time) >= np.array(LENGTHS[size])[:, None]] = 0
    return x


# ------------------------------------------------------------------------------------
# Saved in this process
# ------------------------------------------------------------------------------------


def save_raw_model(path, op, is_training) -> None:
    from tests.helpers import running

    case = raw_case("3x7")

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            # The params of all cases are these: a model has one set of weights.
            self.params = tf.Variable(case.params)

        @tf.function(
            input_signature=[
                tf.TensorSpec([None, None, CONFIG.input_size]),
                tf.TensorSpec([None, None, CONFIG.num_proj]),
                tf.TensorSpec([None, None, CONFIG.num_units]),
                tf.TensorSpec([None], tf.int32),
            ]
        )
        def predict(self, x, h, c, lengths):
            y, h, c, *_ = running.call(
                op, case, x, h, c, self.params, lengths, is_training=is_training
            )
            return {"y": y, "h_n": h, "c_n": c}

    model = Model()
    tf.saved_model.save(model, path, signatures=model.predict)


def keras_model(dropout=0.0):
    import keras

    from tests.keras import pairs
    from tf_cudnn_rnn.keras import GRU, LSTM

    inputs = keras.Input([None, I])
    y = keras.layers.Masking()(inputs)
    y = keras.layers.Bidirectional(LSTM(6, return_sequences=True))(y)
    model = keras.Model(inputs, keras.layers.Dense(2)(GRU(5, dropout=dropout)(y)))
    pairs.randomise(model)
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of all models and of their results elsewhere, and the Keras layers by name."""
    directory = tmp_path_factory.mktemp("signatures")
    for name, options in RAW_MODELS.items():
        save_raw_model(str(directory / name), **options)
    # tf.saved_model.save cannot save the random state of Keras' dropout, whosesoever the layer.
    models = {"keras_export": keras_model(dropout=0.5), "keras_save": keras_model()}
    models["keras_export"].export(directory / "keras_export", verbose=False)
    tf.saved_model.save(models["keras_save"], str(directory / "keras_save"))
    variables = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        run_block(0, variables)
    subprocesses.run(run_models, str(directory))
    return directory, {**models, "archive": variables["rnn"]}


# ------------------------------------------------------------------------------------
# Loaded in another one
# ------------------------------------------------------------------------------------


def run_models(directory: str) -> None:
    """Calls every model with every size, and writes what it returns."""
    import os

    os.chdir(directory)
    variables = {}
    run_block(1, variables)
    assert "tf_cudnn_rnn.keras" not in sys.modules
    assert variables["outputs"]["y"].shape == [8, 20, H]

    results = {}

    def call(key, signature, **inputs):
        outputs = signature(**{name: tf.constant(value) for name, value in inputs.items()})
        results.update({f"{key}/{name}": value.numpy() for name, value in outputs.items()})
        return {name: value.numpy() for name, value in outputs.items()}

    for name in RAW_MODELS:
        predict = tf.saved_model.load(name).signatures["serving_default"]
        for size in LENGTHS:
            case = raw_case(size)
            inputs = {"x": case.x, "h": case.h0, "c": case.c0}
            call(f"{name}/{size}", predict, **inputs, lengths=case.sequence_lengths)
        # The same in steps: the states go out and in.
        for t in range(case.T):
            lengths = np.clip(case.sequence_lengths - t, 0, 1)
            inputs["x"] = case.x[t : t + 1]
            outputs = call(f"{name}/step{t}", predict, **inputs, lengths=lengths)
            inputs |= {"h": outputs["h_n"], "c": outputs["c_n"]}
        empty = {"x": case.x[:, :0], "h": case.h0[:, :0], "c": case.c0[:, :0]}
        call(f"{name}/empty", predict, **empty, lengths=np.zeros([0], np.int32))

    for name in KERAS_MODELS:
        signature = tf.saved_model.load(name).signatures["serving_default"]
        (argument,) = signature.structured_input_signature[1]
        for size in LENGTHS:
            call(f"{name}/{size}", signature, **{argument: padded_sequences(size, I)})

    signatures = variables["model"].signatures
    for size, lengths in LENGTHS.items():
        x = padded_sequences(size, I)
        call(f"archive/{size}", signatures["serve"], x=x, lengths=np.array(lengths, np.int32))
        for wrong in (-1, x.shape[1] + 1):
            wrong_lengths = tf.constant([*lengths[:-1], wrong])
            try:
                signatures["serve"](x=tf.constant(x), lengths=wrong_lengths)
            except tf.errors.InvalidArgumentError:
                continue
            raise AssertionError(f"the documented archive takes a length of {wrong}")
        h = c = np.zeros([len(x), H], np.float32)
        for t in range(x.shape[1]):
            outputs = call(
                f"archive/{size}/step{t}", signatures["stream"], x=x[:, t : t + 1], h=h, c=c
            )
            h, c = outputs["h"], outputs["c"]

    np.savez(pathlib.Path(directory, "results.npz"), **results)


def outputs_of(saved, key: str) -> dict:
    with np.load(saved[0] / "results.npz") as results:
        pattern = re.compile(re.escape(key) + "/([a-z_0-9]+)$")
        return {m[1]: results[m[0]] for m in map(pattern.match, results.files) if m}


def only(outputs: dict) -> np.ndarray:
    (value,) = outputs.values()
    return value


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", RAW_MODELS)
def test_ops_give_the_judges_numbers_for_every_size(name, size, saved):
    from dataclasses import replace

    from tests.helpers import running

    case = replace(raw_case(size), params=raw_case("3x7").params)
    actual = outputs_of(saved, f"{name}/{size}")
    assert actual.keys() == {"y", "h_n", "c_n"}
    running.assert_judged(actual, case, f"{name}, {size}")


@pytest.mark.parametrize("name", RAW_MODELS)
def test_steps_give_what_the_sequence_gives(name, saved):
    *_, size = LENGTHS  # the last one
    case = raw_case(size)
    whole = outputs_of(saved, f"{name}/{size}")
    steps = [outputs_of(saved, f"{name}/step{t}") for t in range(case.T)]
    y = np.concatenate([step["y"] for step in steps])
    np.testing.assert_allclose(y, whole["y"], rtol=0, atol=1e-6)
    for state in ("h_n", "c_n"):
        np.testing.assert_allclose(steps[-1][state], whole[state], rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", RAW_MODELS)
def test_a_batch_of_0(name, saved):
    outputs = outputs_of(saved, f"{name}/empty")
    assert outputs["y"].shape == (2, 0, CONFIG.num_proj)
    assert outputs["h_n"].shape == (2, 0, CONFIG.num_proj)
    assert outputs["c_n"].shape == (2, 0, CONFIG.num_units)


@pytest.mark.parametrize("op", ["own", "builtin"])
def test_is_training_does_not_change_what_is_predicted(op, saved):
    nodes = {}
    for name in (op, f"{op}_training"):
        model = tf.saved_model.load(str(saved[0] / name))
        graph = model.signatures["serving_default"].graph.as_graph_def()
        nodes[name] = [
            node.attr["is_training"].b
            for function in graph.library.function
            for node in function.node_def
            if node.op.endswith("CudnnRNNV3")
        ]
    assert not any(nodes[op]) and nodes[op]
    assert all(nodes[f"{op}_training"]) and nodes[f"{op}_training"]
    for size in LENGTHS:
        expected = outputs_of(saved, f"{op}/{size}")
        for key, actual in outputs_of(saved, f"{op}_training/{size}").items():
            np.testing.assert_array_equal(actual, expected[key])


@pytest.mark.parametrize("size", LENGTHS)
@pytest.mark.parametrize("name", KERAS_MODELS)
def test_models_give_the_numbers_of_stock_layers(name, size, saved):
    from tf_cudnn_rnn.keras import to_keras

    expected = to_keras(saved[1][name])(padded_sequences(size, I))
    actual = only(outputs_of(saved, f"{name}/{size}"))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6)


@pytest.mark.parametrize("size", LENGTHS)
def test_the_documented_archive_gives_the_numbers_of_stock_layers(size, saved):
    from tf_cudnn_rnn.keras import to_keras

    layer = to_keras(saved[1]["archive"])
    x = padded_sequences(size, I)
    mask = np.arange(x.shape[1]) < np.array(LENGTHS[size])[:, None]
    y, h, _ = layer(x, mask=tf.constant(mask))
    actual = outputs_of(saved, f"archive/{size}")
    np.testing.assert_allclose(actual["y"], y, rtol=0, atol=2e-6)
    np.testing.assert_allclose(actual["h"], h, rtol=0, atol=2e-6)

    y, h, c = layer(x)
    steps = [outputs_of(saved, f"archive/{size}/step{t}") for t in range(x.shape[1])]
    stream = np.concatenate([step["y"] for step in steps], axis=1)
    np.testing.assert_allclose(stream, y, rtol=0, atol=2e-6)
    np.testing.assert_allclose(steps[-1]["h"], h, rtol=0, atol=2e-6)
    np.testing.assert_allclose(steps[-1]["c"], c, rtol=0, atol=2e-6)


# ------------------------------------------------------------------------------------
# Without the library
# ------------------------------------------------------------------------------------


def print_errors(directory: str) -> None:
    """Prints what TensorFlow says of own and of built-in nodes, after lines of =."""
    assert "tf_cudnn_rnn" not in sys.modules
    case = raw_case("3x7")
    arguments = {"x": case.x, "h": case.h0, "c": case.c0, "lengths": case.sequence_lengths}
    arguments = {name: tf.constant(value) for name, value in arguments.items()}

    def print_error(error):
        print(f"====\n{type(error).__name__}: {error}")

    try:
        tf.saved_model.load(str(pathlib.Path(directory, "own")))
    except Exception as error:
        print_error(error)
    predict = tf.saved_model.load(str(pathlib.Path(directory, "builtin"))).signatures
    try:
        predict["serving_default"](**arguments)
    except Exception as error:
        print_error(error)
    assert "tf_cudnn_rnn" not in sys.modules


def test_the_errors_without_the_library_are_the_documented_ones(saved):
    _, *errors = subprocesses.run(print_errors, str(saved[0])).split("====\n")
    documented = [text for _, text in pages.blocks(PAGE, "text")]
    assert len(errors) == len(documented) == 2
    for error, text in zip(errors, documented, strict=True):
        pattern = re.escape(text.rstrip("\n"))
        for placeholder in ("<host>", "<node>", "<attributes>"):
            pattern = pattern.replace(re.escape(placeholder), ".+")
        assert re.match(pattern, error), error
