"""`weights.load` and `runtime.Network.load`: from Python, all files that the command line reads."""

import inspect
import os
import pathlib
import pickle
import re
import typing
import warnings

import h5py
import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.cli.conftest import canonical_of
from tests.helpers import running, subprocesses
from tests.weights import golden
from tf_cudnn_rnn import runtime, weights
from tf_cudnn_rnn._cli import contents
from tf_cudnn_rnn._files import choices, kinds, readers
from tf_cudnn_rnn._formats import hdf5
from tf_cudnn_rnn._types import FileFormat

BOTH = "bidirectional"
SIZES = {"rnn_mode": "lstm", "num_layers": 1, "num_units": 4, "input_size": 3}
LSTM = canonical_of("lstm", direction=BOTH)
SKIPS = canonical_of("gru", inputs=4, input_mode="skip_input")


@pytest.fixture(scope="module")
def arrays(tmp_path_factory) -> pathlib.Path:
    """A folder with files of arrays, which tell little of themselves."""
    folder = tmp_path_factory.mktemp("arrays")
    np.savez(folder / "params.npz", params=LSTM.params)
    np.savez(folder / "mxnet.npz", parameters=weights.to_mxnet(LSTM).arrays)
    np.savez(folder / "cntk.npz", matrix=weights.to_cntk(LSTM).arrays)
    np.savez(folder / "projected.npz", parameters=canonical_of("lstm", num_proj=2).params)
    np.savez(folder / "skips.npz", params=SKIPS.params)
    for scope in ("one", "two"):
        np.savez(folder / f"{scope}.npz", **weights.to_tf1_cudnn(LSTM, scope=scope).arrays)
    cell = weights.to_tf1_lstm_cell(canonical_of("lstm"), forget_bias=0.5).arrays
    np.savez(folder / "cell.npz", **cell)
    state = weights.to_torch(canonical_of("rnn_relu"), prefix="a.").arrays
    state |= weights.to_torch(canonical_of("lstm"), prefix="b.").arrays
    weights.write_safetensors(folder / "two.safetensors", state)
    stack = weights.to_keras_cudnn(canonical_of("lstm", 2)).arrays
    hdf5.write_layers(str(folder / "stack.h5"), "CuDNNLSTM", stack)
    runtime.Network(LSTM).save(folder / "runtime.bin")
    return folder


def of_keras(folder, layer, rnn_mode, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras calls in NumPy
        model = keras.saving.load_model(folder / "model.keras")
    return weights.from_keras(model.get_layer(layer).get_weights(), rnn_mode, **options)


def of_encoder(folder):
    layer = keras.saving.load_model(folder / "own.keras").get_layer("encoder")
    return weights.Canonical(layer.layout, layer.canonical_weights())


def of_torch(path, rnn_mode="gru", **options):
    return weights.from_torch(path, rnn_mode, **options)


# Of each file: what does not stand in it, and the reader of arrays that gives the same.
FILES = {
    "gru.safetensors": [({}, lambda folder: of_torch(folder / "gru.safetensors"))],
    "gru.npz": [
        ({}, lambda folder: of_torch(folder / "gru.npz")),
        ({"format": "torch"}, lambda folder: of_torch(folder / "gru.npz")),
    ],
    "projected.safetensors": [
        ({}, lambda _: canonical_of("lstm", num_proj=2)),
        ({"prefix": "encoder.rnn."}, lambda _: canonical_of("lstm", num_proj=2)),
    ],
    "gru.onnx": [
        ({}, lambda _: canonical_of("gru", 2, direction=BOTH)),
        (
            {"layer": "GRU_Y_0"},
            lambda _: weights.from_onnx(
                weights.to_onnx(canonical_of("gru", 2, direction=BOTH)).arrays[0]
            ),
        ),
        ({"layer": ["GRU_Y_0", "GRU_Y_1"]}, lambda _: canonical_of("gru", 2, direction=BOTH)),
    ],
    "cudnn.h5": [({}, lambda _: LSTM), ({"format": "keras-cudnn"}, lambda _: LSTM)],
    "model.keras": [
        ({"layer": "both"}, lambda folder: of_keras(folder, "both", "lstm", direction=BOTH)),
        ({"layer": "gru"}, lambda folder: of_keras(folder, "gru", "gru")),
        ({"layer": "simple"}, lambda folder: of_keras(folder, "simple", "rnn_relu")),
    ],
    "model.weights.h5": [
        ({"layer": ("layers/gru",)}, lambda folder: of_keras(folder, "gru", "gru")),
        (
            {"layer": "simple_rnn", "rnn_mode": "rnn_tanh"},
            lambda folder: of_keras(folder, "simple", "rnn_tanh"),
        ),
    ],
    "own.keras": [({}, of_encoder), ({"layer": "encoder"}, of_encoder)],
    "own.weights.h5": [({}, of_encoder)],
    "checkpoint/own": [({}, of_encoder)],
    "own_export": [({}, of_encoder)],
    "saved_model": [({}, lambda _: canonical_of("lstm", 2, direction=BOTH))],
    "params.npz": [(SIZES | {"direction": BOTH}, lambda _: LSTM)],
    "mxnet.npz": [(SIZES | {"direction": BOTH}, lambda _: LSTM)],
    "cntk.npz": [(SIZES | {"direction": BOTH}, lambda _: LSTM)],
    "projected.npz": [(SIZES | {"num_proj": 2}, lambda _: canonical_of("lstm", num_proj=2))],
    "skips.npz": [
        (
            SIZES | {"rnn_mode": "gru", "input_size": 4, "input_mode": "skip_input"},
            lambda _: SKIPS,
        )
    ],
    "one.npz": [
        (
            {"format": "tf1-cudnn", "scope": "one"},
            lambda _: weights.from_tf1_cudnn(weights.to_tf1_cudnn(LSTM).arrays, "lstm"),
        )
    ],
    "cell.npz": [
        (
            {"format": "tf1-lstm-cell", "forget_bias": 0.5},
            lambda folder: weights.from_tf1_lstm_cell(
                weights.read_npz(folder / "cell.npz"), forget_bias=0.5
            ),
        )
    ],
    "two.safetensors": [
        ({"prefix": "b."}, lambda _: canonical_of("lstm")),
        ({"prefix": "a.", "rnn_mode": "rnn_relu"}, lambda _: canonical_of("rnn_relu")),
    ],
    "stack.h5": [
        (
            {"layer": ["cu_dnnlstm", "cu_dnnlstm_1"]},
            lambda _: weights.from_keras_cudnn(
                weights.to_keras_cudnn(canonical_of("lstm", 2)).arrays, "lstm"
            ),
        )
    ],
    "runtime.bin": [({}, lambda _: LSTM)],
}


def place_of(name, files, arrays) -> pathlib.Path:
    in_files = files / name
    return in_files if in_files.exists() or name.startswith("checkpoint") else arrays / name


@pytest.mark.parametrize(
    "name, number", [(name, n) for name, calls in FILES.items() for n in range(len(calls))]
)
def test_the_network_is_that_of_the_reader_of_arrays(files, arrays, name, number):
    given, expected = FILES[name][number]
    path = place_of(name, files, arrays)
    expected = expected(files if files in path.parents else arrays)
    found = weights.load(path, **given)
    assert found.layout == expected.layout
    golden.assert_bits(found.params, expected.params)
    network = runtime.Network.load(str(path), num_threads=2, **given)
    x = np.random.default_rng(5).normal(size=[2, 4, network.layout.input_size])
    x = x.astype(network.dtype)
    y, _ = runtime.Network(expected)(x)
    golden.assert_bits(network(x)[0], y)


def test_type_checkers_know_all_formats_and_choices():
    assert set(typing.get_args(FileFormat)) == set(readers.READERS)
    used = {choice for reader in readers.READERS.values() for choice in reader.choices}
    assert used | {"format"} == set(choices.NAMES)


@pytest.mark.parametrize(
    "name, given, says",
    [
        (
            "model.keras",
            {},
            'has 4 such layers, both, gru, other_gru, simple: choose with layer="NAME"',
        ),
        ("model.keras", {"layer": "no"}, "layer= must be one of both, gru, other_gru, simple; got"),
        ("gru.npz", {"layer": "a"}, "layer= would change nothing when this file is read as torch"),
        ("gru.npz", {"direction": BOTH, "scope": "a"}, "direction=, scope= would change nothing"),
        (
            "runtime.bin",
            {"rnn_mode": "lstm"},
            "rnn_mode= would change nothing when this file is read as runtime",
        ),
        ("runtime.bin", {"format": "torch"}, 'format="torch" reads: .*The file is another: file'),
        ("gru.onnx", {"format": "runtime"}, 'format="runtime" reads: file of tf_cudnn_rnn.runtime'),
        ("gru.onnx", {"layer": "a"}, "layer= must be one of GRU_Y_0, GRU_Y_1; got a"),
        ("two.safetensors", {}, "has several networks: choose with prefix="),
        (
            "two.safetensors",
            {"prefix": "a."},
            'pass rnn_mode="rnn_tanh" or rnn_mode="rnn_relu"',
        ),
        ("params.npz", {"rnn_mode": "lstm"}, "pass num_layers=, num_units=, input_size= too"),
        ("one.npz", {}, "Pass format=; .* which may be anything"),
        ("cudnn.h5", {"layer": "x"}, "There is no such layer in .*; `tf-cudnn-rnn inspect` shows"),
        (
            "model.keras",
            {"layer": "simple", "rnn_mode": "rnn_tanh"},
            "rnn_mode= must be rnn_relu, as the model in",
        ),
        ("model.keras", {"layer": ["both", "gru"]}, "same direction.* Load each of them alone"),
        ("model.keras", {"layer": "gru_1"}, "reset_after must be True"),
        ("params.npz", {"format": "canonical"}, "as tf-cudnn-rnn convert --to canonical writes it"),
    ],
)
def test_mistakes_are_named_as_python_spells_them(files, arrays, name, given, says):
    path = place_of(name, files, arrays)
    for load in (weights.load, runtime.Network.load):
        with pytest.raises(ValueError, match=says) as raised:
            load(path, **given)
        assert str(path) in str(raised.value) and "--from" not in str(raised.value)
        assert type(raised.value) is ValueError


@pytest.mark.parametrize("name", ["tf1-cudnn", "tf1-lstm-cell"])
def test_a_checkpoint_of_tensorflow_1_says_how_to_read_it(tmp_path, name):
    import tensorflow as tf

    write = weights.to_tf1_cudnn if name == "tf1-cudnn" else weights.to_tf1_lstm_cell
    arrays = write(canonical_of("lstm")).arrays
    path = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saver = tf.compat.v1.train.Saver({key: tf.Variable(arrays[key]) for key in arrays})
        session.run(tf.compat.v1.global_variables_initializer())
        saver.save(session, path)
    with pytest.raises(ValueError, match=f'one of TensorFlow 1: pass format="{name}"'):
        weights.load(path)
    assert weights.load(path, format=name).layout == canonical_of("lstm").layout


@pytest.mark.parametrize(
    "given, error, says",
    [
        ({"rnn_mode": "LSTM"}, ValueError, "`rnn_mode` must be one of rnn_relu, .*; got 'LSTM'"),
        ({"format": "pickle"}, ValueError, "`format` must be one of params, .*; got 'pickle'"),
        ({"direction": "both"}, ValueError, "`direction` must be one of"),
        ({"input_mode": "skip"}, ValueError, "`input_mode` must be one of"),
        ({"layer": 3}, TypeError, "`layer` must be the name of a layer, or a list"),
        ({"layer": []}, TypeError, "`layer` must be the name of a layer, or a list"),
        ({**SIZES, "num_units": "4"}, TypeError, "`num_units` must be an integer"),
        ({"mode": "lstm"}, TypeError, "mode"),
    ],
)
def test_values_that_no_file_has(arrays, given, error, says):
    for load in (weights.load, runtime.Network.load):
        with pytest.raises(error, match=says):
            load(arrays / "params.npz", **given)


KINDS = {
    kinds.Kind.SAVED_MODEL: "drop_ins",
    kinds.Kind.CHECKPOINT: "checkpoint/own",
    kinds.Kind.KERAS: "model.keras",
    kinds.Kind.KERAS_2_H5: "cudnn.h5",
    kinds.Kind.KERAS_3_H5: "model.weights.h5",
    kinds.Kind.SAFETENSORS: "gru.safetensors",
    kinds.Kind.RUNTIME: "runtime.bin",
    kinds.Kind.ONNX: "gru.onnx",
    kinds.Kind.NPZ: "gru.npz",
}


def test_each_kind_of_file_has_a_format_and_is_inspected(files, arrays):
    # Pickles are read if one asks for it, and inspected never.
    assert {*KINDS, kinds.Kind.PICKLE} == set(kinds.Kind) == set(contents.FINDERS)
    for kind, name in KINDS.items():
        found, path = kinds.recognise(str(place_of(name, files, arrays)))
        assert found is kind
        assert readers.guess(kind, path, choices.in_python()) in readers.READERS
        assert contents.find(kind, path, path).found


def test_networks_are_loaded_with_what_weights_are_loaded_with():
    ours = dict(inspect.signature(runtime.Network.load).parameters)
    assert ours.pop("num_threads").default == 1
    assert ours == dict(inspect.signature(weights.load).parameters)


def test_threads_are_counted_before_a_file_is_read(tmp_path):
    with pytest.raises(TypeError, match="num_threads"):
        runtime.Network.load(tmp_path / "none", num_threads="2")


@pytest.mark.parametrize("header_bytes", [384, 19_280])
@pytest.mark.parametrize("name", ["a.bin", "a.pt", "a.h5", "a.npz", "a"])
def test_safetensors_under_any_name(tmp_path, name, header_bytes):
    """Also where the size of its header makes it begin as a pickle does, or a zip file."""
    state = {"weight_ih_l0": np.ones([12, 3], "f4"), "weight_hh_l0": np.ones([12, 4], "f4")}
    weights.write_safetensors(tmp_path / "sound", state)
    content = (tmp_path / "sound").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = content[8 : 8 + size].rstrip().ljust(header_bytes)
    path = tmp_path / name
    path.write_bytes(header_bytes.to_bytes(8, "little") + header + content[8 + size :])
    assert path.read_bytes()[:2] in (b"\x80\1", b"PK")
    expected = weights.from_torch(state, "gru").params
    np.testing.assert_array_equal(weights.load(path).params, expected)


def test_the_name_of_a_cell_is_not_the_layers(tmp_path):
    cell = keras.layers.LSTMCell(4, name="my")
    model = keras.Sequential([keras.Input([None, 3]), keras.layers.RNN(cell, name="enc")])
    path = tf.train.Checkpoint(model=model).write(str(tmp_path / "a"))
    expected = weights.from_keras(model.layers[0].get_weights(), "lstm").params
    for name in ("enc", f"{model.name}/enc"):
        np.testing.assert_array_equal(weights.load(path, layer=name).params, expected)


def test_files_of_other_kinds(tmp_path):
    """What the command line says of each, inspect_test.py has."""
    (tmp_path / "model.pt").write_bytes(pickle.dumps({"weight": 1}))
    (tmp_path / "text.npz").write_text("text")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for load in (weights.load, runtime.Network.load):
        for name, says in {
            "model.pt": 'is a pickle, which may run code .* pass format="torch"',
            "text.npz": "is a text file",
            "folder": "is a folder with neither a saved_model.pb nor a checkpoint in it",
            "pipe": "is a pipe or a device",
        }.items():
            with pytest.raises(ValueError, match=f"{tmp_path / name} .*{says}"):
                load(tmp_path / name)
        with pytest.raises(FileNotFoundError, match="nowhere"):
            load(tmp_path / "nowhere.keras")
        with pytest.raises(ValueError, match="null byte"):
            load(f"{tmp_path}/a\0b")


NO_TENSORFLOW = """
import pathlib, sys
import tf_cudnn_rnn.runtime as runtime

assert not [name for name in sys.modules if name.startswith("tf_cudnn_rnn._files")]
files, arrays = map(pathlib.Path, {folders!r})
for path, given in (
    (files / "gru.safetensors", {{}}),
    (files / "gru.npz", {{}}),
    (files / "gru.onnx", {{}}),
    (files / "model.keras", {{"layer": "both"}}),
    (files / "model.weights.h5", {{"layer": "gru"}}),
    (files / "cudnn.h5", {{}}),
    (arrays / "runtime.bin", {{}}),
):
    network = runtime.Network.load(path, **given)
    assert network.layout.num_units in (4, 5)
assert not {{"tensorflow", "keras", "torch", "onnx"}} & set(sys.modules)
sys.modules["tensorflow"] = None
try:
    runtime.Network.load(files / "checkpoint" / "own")
except ImportError as error:
    print(error)
"""


def test_tensorflow_is_imported_for_its_own_files_alone(files, arrays):
    """And the readers only when there is a file to read."""
    printed = subprocesses.run_code(NO_TENSORFLOW.format(folders=(str(files), str(arrays))))
    assert "tensorflow" in printed


def test_convert_writes_the_file_of_the_runtime(run, tmp_path, files):
    made = tmp_path / "made.safetensors"
    assert run("convert", files / "gru.onnx", made, "--to", "runtime").code == 0
    runtime.Network.load(files / "gru.onnx").save(tmp_path / "saved.safetensors")
    assert made.read_bytes() == (tmp_path / "saved.safetensors").read_bytes()
    loaded = runtime.Network.load(made)
    assert loaded.layout == canonical_of("gru", 2, direction=BOTH).layout
    loaded.save(tmp_path / "again.safetensors")
    assert made.read_bytes() == (tmp_path / "again.safetensors").read_bytes()


def test_the_file_of_the_runtime_is_known_by_its_header(run, tmp_path, arrays):
    result = run("inspect", arrays / "runtime.bin", "--json")
    (found,) = result.json["found"]
    assert result.code == 0 and result.json["kind"] == "file of tf_cudnn_rnn.runtime"
    assert (found["rnn_mode"], found["num_units"], found["direction"]) == ("lstm", 4, BOTH)
    assert f"runtime.Network.load({str(arrays / 'runtime.bin')!r})" in found["how"]
    target = tmp_path / "a.npz"
    assert run("convert", arrays / "runtime.bin", target, "--to", "params").code == 0
    golden.assert_bits(weights.load(target).params, LSTM.params)
    result = run("convert", arrays / "runtime.bin", target, "--to=params", "--mode=lstm", "--force")
    assert (
        result.code == 2
        and "--mode would change nothing when this file is read as runtime" in result.err
    )
    # One of PyTorch of the same ending is none.
    state = weights.to_torch(LSTM).arrays
    weights.write_safetensors(tmp_path / "torch.safetensors", state, {"format": "pt"})
    assert run("inspect", tmp_path / "torch.safetensors", "--json").json["kind"] == (
        "safetensors file"
    )


@pytest.mark.parametrize("dtype", running.DTYPES)
def test_types_of_the_file_of_the_runtime(run, tmp_path, dtype):
    named = {name: array.astype(running.DTYPES[dtype]) for name, array in LSTM.named.items()}
    canonical = weights.Canonical(LSTM.layout, named)
    state = weights.to_torch(canonical).arrays
    weights.write_safetensors(tmp_path / "a.safetensors", state)
    made = tmp_path / "made.safetensors"
    assert run("convert", tmp_path / "a.safetensors", made, "--to", "runtime").code == 0
    assert runtime.Network.load(made).dtype == canonical.dtype
    golden.assert_bits(weights.load(made).params, canonical.params)


@pytest.mark.parametrize(
    "change, says",
    [
        ({"version": "2"}, "version 1; it has tf_cudnn_rnn/params, version 2"),
        ({"num_units": "7"}, r"must have shape \[\d+\] for .*num_units=7.*; it has"),
        ({"num_units": "0"}, "`num_units` must be positive"),
        ({"num_layers": "two"}, "a number as num_layers in its metadata; it has two"),
        ({"num_layers": "9" * 30}, "a number as num_layers in its metadata"),
        ({"num_layers": "9" * 10}, "must have at most 2000 layers; it has 9999999999"),
        ({"input_mode": "auto_select"}, "one of linear_input, skip_input as input_mode"),
        ({"direction": "x" * 5000}, "one of unidirectional, bidirectional as direction"),
        ({"rnn_mode": None}, "one of .* as rnn_mode in its metadata; it has nothing"),
    ],
)
def test_a_damaged_file_of_the_runtime(run, tmp_path, change, says):
    path = tmp_path / "a.safetensors"
    runtime.Network(LSTM).save(path)
    content = path.read_bytes()
    metadata = {
        **{"format": "tf_cudnn_rnn/params", "version": "1", "num_proj": "0"},
        **{name: str(value) for name, value in SIZES.items()},
        **{"direction": BOTH, "input_mode": "linear_input"},
    }
    weights.write_safetensors(path, {"params": LSTM.params}, metadata)
    assert path.read_bytes() == content
    metadata |= change
    metadata = {name: value for name, value in metadata.items() if value is not None}
    weights.write_safetensors(path, {"params": LSTM.params}, metadata)
    with pytest.raises(ValueError, match=f"{path}.*{says}") as raised:
        weights.load(path)
    assert len(str(raised.value)) < 1000
    with pytest.raises(ValueError, match=f"{path}: It is not the file of a network"):
        runtime.Network.load(path)
    assert run("inspect", path).code == 2


@pytest.mark.parametrize(
    "arrays_of, says",
    [
        ({"params": np.zeros(3, np.int32)}, "must hold params alone, .*; it holds params of int32"),
        ({}, "it holds nothing"),
        ({"params": np.zeros(3, np.float32), "b": np.zeros(1)}, "it holds .* of float64"),
        ({"params": np.zeros([2, 2], np.float32)}, r"must have shape \[\d+\]"),
    ],
)
def test_a_file_of_the_runtime_with_other_arrays(tmp_path, arrays_of, says):
    path = tmp_path / "a.safetensors"
    metadata = {name: str(value) for name, value in SIZES.items()}
    metadata |= {"format": "tf_cudnn_rnn/params", "version": "1", "num_proj": "0"}
    metadata |= {"direction": "unidirectional", "input_mode": "linear_input"}
    weights.write_safetensors(path, arrays_of, metadata)
    with pytest.raises(ValueError, match=f"{path}.*{says}"):
        weights.load(path)


@pytest.mark.parametrize("name", ["a\0b", "a\ud800b"])
def test_names_that_no_file_has(name):
    for read in (weights.load, weights.read_npz, weights.read_safetensors, weights.read_keras_h5):
        with pytest.raises(ValueError) as raised:
            read(name)
        assert ascii(name) in str(raised.value)


def test_a_file_that_cannot_be_read():
    """Of which the system does not tell the name."""
    for read in (weights.load, weights.read_npz):
        with pytest.raises(OSError) as raised:
            read("/proc/self/mem")
        assert raised.value.filename == "/proc/self/mem"


@pytest.mark.parametrize("choice", ["rnn_mode", "format", "direction", "input_mode"])
@pytest.mark.parametrize("value", [["lstm"], 3, {}])
def test_choices_that_are_no_text(choice, value):
    with pytest.raises(
        ValueError, match=f"`{choice}` must be one of .*; got {re.escape(str(value))}"
    ):
        weights.load("a.npz", **{choice: value})


@pytest.mark.filterwarnings("ignore")  # of a legacy format, and of what Keras calls in NumPy
def test_a_bidirectional_whose_forward_half_was_frozen(tmp_path):
    """Keras lists frozen weights after the others, here the backward half first."""
    both = keras.layers.Bidirectional(keras.layers.LSTM(4, bias_initializer="uniform"))
    model = keras.Sequential([keras.Input([None, 3]), both])
    expected = weights.from_keras(model.get_weights(), "lstm", direction=BOTH)
    both.forward_layer.trainable = False
    model.save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5") as file:
        (names,) = (
            item.attrs["weight_names"] for item in file["model_weights"].values() if len(item)
        )
    assert "backward" in names[0]  # or this tests nothing
    golden.assert_bits(weights.load(tmp_path / "m.h5").params, expected.params)


@pytest.mark.filterwarnings("ignore")  # of a legacy format, and of what Keras calls in NumPy
def test_lists_of_names_that_keras_splits(tmp_path):
    """It writes one of more than 63 KiB as `layer_names0`, `layer_names1` and so on."""
    lstm = keras.layers.LSTM(4, bias_initializer="uniform", name="l" * 1100)
    others = [keras.layers.Activation("relu") for _ in range(60)]
    keras.Sequential([keras.Input([None, 3]), lstm, *others]).save(tmp_path / "m.h5")
    with h5py.File(tmp_path / "m.h5", "a") as file:
        group = file["model_weights"]
        assert "layer_names" not in group.attrs and "layer_names1" in group.attrs
        layer = group[lstm.name]
        names = layer.attrs["weight_names"]
        del layer.attrs["weight_names"]
        layer.attrs["weight_names0"], layer.attrs["weight_names1"] = names[:2], names[2:]
    expected = weights.from_keras(lstm.get_weights(), "lstm")
    golden.assert_bits(weights.load(tmp_path / "m.h5").params, expected.params)


def test_modes_of_simple_rnns_in_saved_models(tmp_path):
    """The graph tells those of fused layers, and does not say whose they are."""
    fused = tf_cudnn_rnn.keras.SimpleRNN(4, activation="relu", return_sequences=True, name="fused")
    loop = keras.layers.RNN(keras.layers.SimpleRNNCell(4), name="loop")
    model = keras.Sequential([keras.Input([None, 3]), fused, loop])
    model.export(tmp_path / "two", verbose=False)
    with pytest.raises(ValueError, match="does not tell whether the simple RNN has tanh or ReLU"):
        weights.load(tmp_path / "two", layer="loop")
    for layer, mode in ((fused, "rnn_relu"), (loop, "rnn_tanh")):
        loaded = weights.load(tmp_path / "two", layer=layer.name, rnn_mode=mode)
        expected = weights.from_keras(layer.get_weights(), mode)
        assert loaded.layout == expected.layout
        golden.assert_bits(loaded.params, expected.params)

    keras.Sequential([keras.Input([None, 3]), fused]).export(tmp_path / "one", verbose=False)
    assert weights.load(tmp_path / "one").layout.rnn_mode == "rnn_relu"
    with pytest.raises(ValueError, match="must be rnn_relu, as the model in .* says; got rnn_tanh"):
        weights.load(tmp_path / "one", rnn_mode="rnn_tanh")
