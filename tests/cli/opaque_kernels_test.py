"""Variables of TensorFlow 1 that are all weights of a network, and do not tell it."""

import dataclasses
import shlex

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tf_cudnn_rnn import weights

LAYOUT = weights.Layout("lstm", 2, 5, 3, "bidirectional")
SIZES = ("--mode=lstm", "--layers=2", "--units=5", "--input-size=3", "--direction=bidirectional")
KEY = "some/cudnn_lstm/opaque_kernel"


@pytest.fixture(scope="module")
def params() -> np.ndarray:
    return np.random.default_rng(1).normal(size=LAYOUT.size).astype(np.float32)


def write_checkpoint(path, variables: dict[str, np.ndarray]) -> str:
    tf.raw_ops.SaveV2(
        prefix=str(path),
        tensor_names=list(variables),
        shape_and_slices=[""] * len(variables),
        tensors=[tf.constant(array) for array in variables.values()],
    )
    return str(path)


@pytest.fixture
def checkpoint(tmp_path, params) -> str:
    return write_checkpoint(tmp_path / "a.ckpt", {KEY: params, f"{KEY}/Adam": params * 0})


@pytest.fixture
def saved_model(tmp_path, params):
    folder = tmp_path / "saved"
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable(KEY, initializer=params, use_resource=True)
        v1.get_variable(f"{KEY}/Adam", initializer=params * 0, use_resource=True)
        x = v1.placeholder(tf.float32, [6, 4, LAYOUT.input_size])
        states = tf.zeros([4, 4, LAYOUT.num_units])
        y = tf.raw_ops.CudnnRNN(
            input=x,
            input_h=states,
            input_c=states,
            params=variable,
            direction=LAYOUT.direction,
            is_training=False,
        ).output
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y})
    return folder


def test_a_checkpoint_needs_the_sizes(run, checkpoint, params, tmp_path):
    result = run("inspect", checkpoint, "--json")
    (found,) = result.json["found"]
    assert result.code == 0 and found["name"] == KEY and found["parameters"] == LAYOUT.size
    command = shlex.split(found["how"])
    assert command[-8:] == "--mode MODE --layers L --units H --input-size I".split()
    target = tmp_path / "a.npz"
    result = run("convert", checkpoint, target, "--to=params")
    assert result.code == 2 and "pass --from tf1-cudnn" in result.err
    command = ("convert", checkpoint, target, "--to=params", "--from=tf1-cudnn")
    result = run(*command, *SIZES[:2])
    assert result.code == 2 and "pass --units, --input-size too" in result.err
    result = run(*command, *SIZES[:-1])
    assert result.code == 2 and f"`{KEY}` must have shape" in result.err
    result = run(*command, *SIZES)
    assert result.code == 0, result.err
    np.testing.assert_array_equal(np.load(target)["params"], params)


def test_one_of_several_is_chosen_by_its_scope(run, params, tmp_path):
    variables = {"a/opaque_kernel": params, "b/opaque_kernel": params + 1}
    checkpoint = write_checkpoint(tmp_path / "a.ckpt", variables)
    found = run("inspect", checkpoint, "--json").json["found"]
    assert [shlex.split(each["how"])[-2:] for each in found] == [["--scope", "a"], ["--scope", "b"]]
    sizes = dict(
        rnn_mode="lstm", num_layers=2, num_units=5, input_size=3, direction=LAYOUT.direction
    )
    with pytest.raises(ValueError, match="`scope` can say which"):
        weights.load(checkpoint, format="tf1-cudnn", **sizes)
    loaded = weights.load(checkpoint, format="tf1-cudnn", scope="b", **sizes)
    np.testing.assert_array_equal(loaded.params, params + 1)


def test_beside_variables_of_layers_there_is_nothing_to_ask(run, params, tmp_path):
    named = dict(
        weights.to_tf1_cudnn(
            weights.from_cudnn(params, **dataclasses.asdict(LAYOUT)), scope="s"
        ).arrays
    )
    variables = {**named, "s/opaque_kernel": params}
    checkpoint = write_checkpoint(tmp_path / "a.ckpt", variables)
    (found,) = run("inspect", checkpoint, "--json").json["found"]
    assert found["kind"] == "TensorFlow 1 (tf1-cudnn)"
    assert weights.load(checkpoint, format="tf1-cudnn").layout == LAYOUT


def test_beside_cells_of_another_kind_it_is_the_one(params, tmp_path):
    """Those of TensorFlow 1's own LSTM have a format of their own."""
    decoder = "dec/rnn/multi_rnn_cell/cell_0/basic_lstm_cell"
    variables = {
        f"{decoder}/kernel": np.zeros([7, 16], "f4"),
        f"{decoder}/bias": np.zeros(16, "f4"),
    }
    checkpoint = write_checkpoint(tmp_path / "a.ckpt", {"enc/opaque_kernel": params, **variables})
    sizes = {name: getattr(LAYOUT, name) for name in ("num_layers", "num_units", "input_size")}
    sizes |= {"rnn_mode": "lstm", "direction": "bidirectional"}
    loaded = weights.load(checkpoint, format="tf1-cudnn", **sizes)
    np.testing.assert_array_equal(loaded.params, params)


def test_sizes_that_the_variables_tell_are_refused(params, tmp_path):
    """As all that would change nothing."""
    canonical = weights.from_cudnn(params, **dataclasses.asdict(LAYOUT))
    variables = {**weights.to_tf1_cudnn(canonical, scope="a").arrays, "b/opaque_kernel": params}
    checkpoint = write_checkpoint(tmp_path / "a.ckpt", variables)
    assert weights.load(checkpoint, format="tf1-cudnn", scope="a").layout == LAYOUT
    for name, value in {"direction": "unidirectional", "num_proj": 2, "num_units": 5}.items():
        message = f"{name}= would change nothing when the variables tell the sizes"
        with pytest.raises(ValueError, match=message):
            weights.load(checkpoint, format="tf1-cudnn", scope="a", **{name: value})
    with pytest.raises(ValueError, match="does not tell its network: pass rnn_mode=, num_layers="):
        weights.load(checkpoint, format="tf1-cudnn", scope="b")
    sizes = {name: getattr(LAYOUT, name) for name in ("num_layers", "num_units", "input_size")}
    sizes |= {"rnn_mode": "lstm", "direction": "bidirectional", "scope": "b"}
    loaded = weights.load(checkpoint, format="tf1-cudnn", **sizes)
    np.testing.assert_array_equal(loaded.params, params)


def test_a_saved_model_tells_the_sizes(run, saved_model, params, tmp_path):
    (found,) = run("inspect", saved_model, "--json").json["weights"]
    assert found["name"] == KEY and found["num_units"] == LAYOUT.num_units
    target = tmp_path / "a.npz"
    command = shlex.split(found["how"])
    command[3] = str(target)
    result = run(*command[1:])
    assert result.code == 0, result.err
    np.testing.assert_array_equal(np.load(target)["params"], params)
    assert weights.load(saved_model).layout == LAYOUT


def test_a_layout_is_a_layout(params):
    with pytest.raises(TypeError, match="`layout` must be a tf_cudnn_rnn.weights.Layout, such as"):
        weights.from_tf1_cudnn({KEY: params}, "lstm", layout=("lstm", 2, 5, 3))
    assert tf_cudnn_rnn.params_size("lstm", 2, 5, 3, direction="bidirectional") == LAYOUT.size
