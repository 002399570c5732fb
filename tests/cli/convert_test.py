"""`convert`: all formats there and back, and files that stay whole whatever happens."""

import json
import os
import resource
import signal
import subprocess
import sys
import time

import h5py
import keras
import numpy as np
import onnx
import pytest

from tests.cli import inspect_test, main_test
from tests.cli.conftest import canonical_of
from tests.reference import judge
from tests.weights import golden, hostile, pytorch
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli import formats, replacing
from tf_cudnn_rnn._files import kinds, readers
from tf_cudnn_rnn._formats import hdf5, onnx_file
from tf_cudnn_rnn._formats import torch as torch_format

# What each format needs to be read again, beside its file.
OPTIONS = {
    "params": (),
    "canonical": (),
    "runtime": (),
    "torch": (),
    "keras": (),
    "keras-cudnn": ("--from", "keras-cudnn"),
    "onnx": (),
    "mxnet": ("--layers", "1", "--units", "4", "--input-size", "3"),
    "cntk": ("--layers", "1", "--units", "4", "--input-size", "3"),
    "tf1-cudnn": ("--from", "tf1-cudnn"),
    "tf1-lstm-cell": ("--from", "tf1-lstm-cell", "--forget-bias", "0"),
}


def write_params(path, canonical) -> None:
    formats.FORMATS["params"].write(str(path), canonical, None)


def read_params(path) -> weights.Canonical:
    return readers.READERS["params"].read(kinds.Kind.NPZ, str(path), None)


def merged(canonical: weights.Canonical) -> weights.Canonical:
    """The same network for formats that keep the sum of two biases."""
    named = dict(canonical.named)
    for name in named:
        if name.kind == "input_bias":
            named[name] = np.zeros_like(named[name])
    return weights.Canonical(canonical.layout, named)


def test_what_programs_read(run, tmp_path):
    """Of the file that was written, and what it could not keep."""
    canonical = canonical_of("lstm")
    write_params(tmp_path / "in.npz", canonical)
    target = tmp_path / "out.keras"
    told = run("convert", tmp_path / "in.npz", target, "--to", "keras", "--json").json
    nbytes = target.stat().st_size
    plain = run("convert", tmp_path / "in.npz", target, "--to", "keras", "--force").out
    assert told["source"] == str(tmp_path / "in.npz") and told["target"] == str(target)
    assert (told["from"], told["to"]) == ("params", "keras")
    assert weights.Layout(**told["layout"]) == canonical.layout
    assert told["parameters"] == canonical.params.size
    assert told["bytes"] == nbytes
    assert told["notes"] and all(note in " ".join(plain.split()) for note in told["notes"])


def test_every_format_is_tested():
    assert set(OPTIONS) | {"checkpoint"} == set(formats.FORMATS) == set(readers.READERS)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
def test_there_and_back(run, tmp_path, name, direction):
    canonical = merged(canonical_of("lstm", direction=direction))
    write_params(tmp_path / "first.npz", canonical)
    middle = tmp_path / f"middle{formats.FORMATS[name].endings[0]}"
    added = ("--forget-bias", "0") if name == "tf1-lstm-cell" else ()
    result = run("convert", tmp_path / "first.npz", middle, "--to", name, *added)
    assert result.code == 0, result.err
    assert f"lstm, 1 layer, input 3, units 4, {direction}" in " ".join(result.out.split())
    vector = ("--mode", "lstm", "--direction", direction) if name in ("mxnet", "cntk") else ()
    back = tmp_path / "back.npz"
    result = run("convert", middle, back, "--to", "params", *OPTIONS[name], *vector)
    assert result.code == 0, result.err
    # The readers of TensorFlow 1's cells need to be told the mode, or know it.
    golden.assert_bits(read_params(back).params, canonical.params)


@pytest.mark.parametrize("name", ["canonical", "torch", "keras", "onnx"])
@pytest.mark.parametrize("rnn_mode", ["gru", "rnn_tanh", "rnn_relu"])
def test_other_modes(run, tmp_path, name, rnn_mode):
    canonical = canonical_of(rnn_mode, layers=2)
    canonical = canonical if rnn_mode == "gru" else merged(canonical)
    keras.utils.clear_session()  # names of layers follow from those that this process made
    write_params(tmp_path / "first.npz", canonical)
    middle = tmp_path / f"middle{formats.FORMATS[name].endings[0]}"
    assert run("convert", tmp_path / "first.npz", middle, "--to", name).code == 0
    mode = ("--mode", rnn_mode) if rnn_mode != "gru" and name in ("torch", "keras") else ()
    chosen = {"rnn_tanh": "simple_rnn", "rnn_relu": "simple_rnn", "gru": "gru"}[rnn_mode]
    layers = ("--layer", chosen, "--layer", f"{chosen}_1") if name == "keras" else ()
    back = tmp_path / "back.npz"
    result = run("convert", middle, back, "--to", "params", *mode, *layers)
    assert result.code == 0, result.err
    golden.assert_bits(read_params(back).params, canonical.params)
    if mode:
        result = run("convert", middle, back, "--to", "params", *layers, "--force")
        if name == "keras":  # the model's config tells
            golden.assert_bits(read_params(back).params, canonical.params)
        else:
            assert result.code == 2 and "--mode rnn_tanh" in result.err


@pytest.mark.parametrize(
    "name, options, layout",
    [
        ("own.keras", (), (2, 4, 3, 2)),
        ("own.weights.h5", ("--layer", "cudnn_lstm"), (2, 4, 3, 2)),
        ("checkpoint/own", (), (2, 4, 3, 2)),
        ("model.keras", ("--layer", "bidirectional"), (1, 4, 3, 0)),
        ("model.keras", ("--layer", "layers/bidirectional"), (1, 4, 3, 0)),
        ("model.keras", ("--layer", "both"), (1, 4, 3, 0)),
        ("own.keras", ("--layer", "encoder"), (2, 4, 3, 2)),
        ("saved_model", (), (2, 4, 3, 0)),
        ("own_export", (), (2, 4, 3, 2)),
        ("projected.safetensors", (), (1, 4, 3, 2)),
        ("gru.npz", (), (2, 4, 3, 0)),
        ("cudnn.h5", (), (1, 4, 3, 0)),
    ],
)
def test_files_of_others(run, tmp_path, files, name, options, layout):
    result = run("convert", files / name, tmp_path / "a.npz", "--to", "params", *options)
    assert result.code == 0, result.err
    found = read_params(tmp_path / "a.npz").layout
    assert (found.num_layers, found.num_units, found.input_size, found.num_proj) == layout


@pytest.mark.parametrize("layer, number", [("both", 0), ("gru", 1), ("simple", 2)])
@pytest.mark.parametrize("source", ["checkpoint/drop_ins", "checkpoint/stock", "drop_ins"])
def test_layers_of_keras_in_checkpoints(run, tmp_path, files, source, layer, number):
    """Bit for bit what Keras saved in another file."""
    kind = ("bidirectional", "gru", "simple_rnn")[number]
    mode = ("--mode", "rnn_relu") if layer == "simple" else ()
    weights_file = f"{source.removeprefix('checkpoint/')}.weights.h5"
    expected = tmp_path / "expected.npz"
    arguments = ("--to", "params", *mode)
    assert run("convert", files / weights_file, expected, *arguments, "--layer", kind).code == 0
    for name in (layer, f"model/{layer}"):
        found = tmp_path / "found.npz"
        mode = () if source == "drop_ins" else mode  # its graph tells
        arguments = ("--to", "params", "--force", *mode, "--layer", name)
        result = run("convert", files / source, found, *arguments)
        assert result.code == 0, result.err
        assert read_params(found).layout == read_params(expected).layout
        golden.assert_bits(read_params(found).params, read_params(expected).params)


def test_the_network_of_a_saved_model(run, tmp_path, files):
    """CudnnRNN layers and vectors of all weights, whose sizes the graph tells."""
    run("convert", files / "own.keras", tmp_path / "own.npz", "--to", "params")
    run("convert", files / "own_export", tmp_path / "export.npz", "--to", "params")
    own, export = (read_params(tmp_path / f"{name}.npz") for name in ("own", "export"))
    assert own.layout == export.layout
    golden.assert_bits(own.params, export.params)
    run("convert", files / "saved_model", tmp_path / "network.npz", "--to", "params")
    expected = canonical_of(layers=2, direction="bidirectional").params
    golden.assert_bits(read_params(tmp_path / "network.npz").params, expected)


def test_a_saved_model_without_variables(run, tmp_path, files):
    (tmp_path / "saved_model.pb").write_bytes((files / "drop_ins/saved_model.pb").read_bytes())
    result = run("convert", tmp_path, tmp_path / "a.npz", "--to", "params")
    assert result.code == 2 and f"{tmp_path} is a SavedModel without variables" in result.err


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_a_name_of_keras_goes_before_the_end_of_a_path(run, tmp_path):
    """The second model of a process has layers of other numbers than its file."""
    layers = [
        keras.layers.LSTM(size, return_sequences=True, name=f"lstm_{size}") for size in (1, 2)
    ]
    keras.Sequential([keras.Input([None, 3]), *layers]).save(tmp_path / "a.keras")
    for name, units in {"lstm_1": 1, "lstm_2": 2, "lstm": 1, "layers/lstm_1": 2}.items():
        arguments = (tmp_path / "a.npz", "--to", "params", "--force", "--layer", name)
        assert run("convert", tmp_path / "a.keras", *arguments).code == 0
        assert read_params(tmp_path / "a.npz").layout.num_units == units


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_equal_names_in_models_of_a_model(run, tmp_path):
    x = y = keras.Input([None, 3])
    for units in (1, 2):
        layer = keras.layers.GRU(units, return_sequences=True, name="gru")
        y = keras.Sequential([layer], name=f"part_{units}")(y)
    keras.Model(x, y).save(tmp_path / "a.keras")
    found = run("inspect", tmp_path / "a.keras", "--json").json["found"]
    assert [item["name"] for item in found] == ["gru", "gru"]
    arguments = (tmp_path / "a.npz", "--to", "params", "--force", "--layer")
    result = run("convert", tmp_path / "a.keras", *arguments, "gru")
    assert result.code == 2 and "--layer gru may be any of layers/sequential/" in result.err
    for item, units in zip(found, (1, 2), strict=True):
        assert run("convert", tmp_path / "a.keras", *arguments, item["layer"]).code == 0
        assert read_params(tmp_path / "a.npz").layout.num_units == units


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_a_layer_with_another_activation(run, tmp_path):
    """Its weights fit anywhere, and compute something else there."""
    layer = keras.layers.LSTM(2, activation="relu", name="a")
    keras.Sequential([keras.Input([None, 3]), layer]).save(tmp_path / "a.keras")
    result = run("convert", tmp_path / "a.keras", tmp_path / "a.npz", "--to", "params")
    assert result.code == 2
    assert "activation must be tanh; it is relu" in result.err


def test_layers_of_different_sizes_are_no_stack(run, tmp_path, files):
    stack = ("--layer", "model/gru", "--layer", "model/simple")
    options = (tmp_path / "a.npz", "--to", "params")
    result = run("convert", files / "checkpoint/drop_ins", *options, *stack)
    assert result.code == 2
    assert (
        "All layers of a stack must have the same number of units, as cuDNN's networks have; got "
        "model/gru 5, model/simple 2. Convert each of them alone." in result.err
    )
    stack = ("--layer", "both", "--layer", "gru")
    result = run("convert", files / "model.keras", *options, *stack)
    assert result.code == 2
    assert "must have the same direction" in result.err


def huge_safetensors(path) -> None:
    """3 GB of an LSTM, most of which are holes."""
    H = 13_700
    shapes = {"weight_ih_l0": [4 * H, 1], "weight_hh_l0": [4 * H, H]}
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    content = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(len(content).to_bytes(8, "little") + content)
        file.truncate(8 + len(content) + end)


def test_weights_too_large_for_onnx_are_not_read(run, tmp_path, monkeypatch):
    huge_safetensors(tmp_path / "a.safetensors")
    monkeypatch.setattr(torch_format, "from_torch", lambda *_, **__: pytest.fail("They were read."))
    result = run("convert", tmp_path / "a.safetensors", tmp_path / "a.onnx", "--to", "onnx")
    assert result.code == 2
    assert result.err == (
        "tf-cudnn-rnn: The weights must have at most 2.15 GB for --to onnx, as a protocol buffer "
        "ends at 2 GiB; they have 3 GB. --to torch has no limit.\n"
    )


@pytest.mark.parametrize(
    "name, options",
    [
        ("own.keras", ()),
        ("model.weights.h5", ("--layer", "gru")),
        ("checkpoint/drop_ins", ("--layer", "gru")),
        ("own_export", ()),
        ("gru.npz", ()),
        ("gru.safetensors", ()),
    ],
)
def test_weights_are_measured_before_they_are_read(
    run, tmp_path, files, monkeypatch, name, options
):
    onnx = formats.FORMATS["onnx"]._replace(max_bytes=500)
    monkeypatch.setitem(formats.FORMATS, "onnx", onnx)
    for source, entry in readers.READERS.items():
        fail = entry._replace(read=lambda *_: pytest.fail("They were read."))
        monkeypatch.setitem(readers.READERS, source, fail)
    result = run("convert", files / name, tmp_path / "a.onnx", "--to", "onnx", *options)
    assert result.code == 2 and "at most 500 bytes for --to onnx" in result.err


def test_of_large_files_only_what_is_chosen_is_read(run, tmp_path, files, monkeypatch):
    """Of other arrays, nothing but their headers."""
    read = []
    received = hdf5.receive
    monkeypatch.setattr(hdf5, "receive", lambda *a: read.extend(got := [*received(*a)]) or got)
    options = (tmp_path / "a.npz", "--to", "params", "--force")
    assert run("convert", files / "model.weights.h5", *options, "--layer", "gru").code == 0
    assert {name.rpartition("/cell/")[0] for name, *_ in read} == {"layers/gru"}
    read.clear()
    assert run("inspect", files / "own.weights.h5").code == 0
    assert [name for name, *_ in read] == ["layers/cudnn_lstm/vars/header"]


def test_a_keras_model_computes_what_the_network_does(run, tmp_path):
    import keras

    canonical = canonical_of("gru", 2, direction="bidirectional")
    write_params(tmp_path / "a.npz", canonical)
    assert run("convert", tmp_path / "a.npz", tmp_path / "a.keras", "--to", "keras").code == 0
    model = keras.saving.load_model(tmp_path / "a.keras")
    x = np.random.default_rng(1).normal(size=[5, 2, 3]).astype(np.float32)
    y = model(x.transpose(1, 0, 2)).numpy().transpose(1, 0, 2)
    np.testing.assert_allclose(golden.run(canonical, x).y, y, atol=2e-6)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_a_keras_model_of_bfloat16(run, tmp_path):
    policy = {"dtype": "bfloat16", "recurrent_initializer": "glorot_uniform"}
    model = keras.Sequential([keras.Input([None, 3]), keras.layers.GRU(4, **policy)])
    model.save(tmp_path / "m.keras")
    made = tmp_path / "o.safetensors"
    assert run("convert", tmp_path / "m.keras", made, "--to", "torch").code == 0
    kernel = weights.read_safetensors(made)["weight_ih_l0"]
    assert kernel.dtype.name == "bfloat16"
    z, r, n = np.split(model.get_weights()[0].T, 3)  # Keras' order of gates
    np.testing.assert_array_equal(kernel, np.concatenate([r, z, n]))

    refused = run("convert", made, tmp_path / "o.h5", "--to", "keras-cudnn")
    assert refused.code == 2 and "got bfloat16, which no layer of Keras 2" in refused.err

    # The same bytes without the text that says what they are.
    model.save_weights(tmp_path / "m.weights.h5")
    with h5py.File(tmp_path / "m.weights.h5", "a") as file:
        arrays = []
        file.visititems(lambda _, item: arrays.append(item) if "dtype" in item.attrs else None)
        assert len(arrays) == 3
        del arrays[0].attrs["dtype"]
    result = run("convert", tmp_path / "m.weights.h5", tmp_path / "o.npz", "--to", "torch")
    assert (result.code, "must hold numbers; it holds |V2" in result.err) == (2, True), result


def test_onnx_files_hold_what_to_onnx_returns(run, tmp_path):
    canonical = canonical_of("rnn_relu", 2, direction="bidirectional")
    write_params(tmp_path / "a.npz", canonical)
    assert run("convert", tmp_path / "a.npz", tmp_path / "a.onnx", "--to", "onnx").code == 0
    nodes = onnx_file.read_nodes(tmp_path / "a.onnx")
    for found, expected in zip(nodes, weights.to_onnx(canonical).arrays, strict=True):
        node = found.as_arrays()
        assert node.attributes == expected.attributes
        golden.assert_same([node.W, node.R, node.B], [expected.W, expected.R, expected.B])


def test_notes_are_printed(run, tmp_path):
    write_params(tmp_path / "a.npz", canonical_of("lstm"))
    result = run("convert", tmp_path / "a.npz", tmp_path / "a.keras", "--to", "keras")
    assert "note: Biases were added up" in result.out


def test_the_reference_is_what_it_was(run, tmp_path):
    """The other way round: a vector by its sizes alone is that of the judge."""
    config = judge.Config("lstm", 1, 4, 3)
    params = np.arange(judge.params_size(config), dtype=np.float32)
    np.savez(tmp_path / "a.npz", params=params)
    sizes = ("--mode", "lstm", "--layers", "1", "--units", "4", "--input-size", "3")
    result = run("convert", tmp_path / "a.npz", tmp_path / "b.npz", "--to", "params", *sizes)
    assert result.code == 0, result.err
    golden.assert_bits(read_params(tmp_path / "b.npz").params, params)


# ------------------------------------------------------------------------------------
# Mistakes, and files from strangers
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, target, options, says",
    [
        ("none.npz", "a.npz", ("--to", "params"), "No such file"),
        ("gru.npz", "a.keras", ("--to", "params"), "must end with .npz for --to params; got /"),
        ("gru.npz", "none/a.npz", ("--to", "params"), "folder that exists"),
        (
            "gru.npz",
            "a.npz",
            ("--to", "params", "--from", "onnx"),
            "reads: ONNX model. SRC is another: NumPy file",
        ),
        ("gru.npz", "a.npz", ("--to", "params", "--mode", "lstm"), "shape"),
        ("gru.npz", "a.npz", ("--to", "params", "--prefix", "x."), "x."),
        ("gru.npz", "a.npz", ("--to", "tf1-lstm-cell"), "`rnn_mode` must be lstm"),
        ("model.keras", "a.npz", ("--to", "params"), "choose with --layer"),
        ("model.keras", "a.npz", ("--to", "params", "--layer", "no"), "--layer must be one of"),
        (
            "model.keras",
            "a.npz",
            ("--to", "params", "--layer", "gru_1"),
            "reset_after must be True",
        ),
        ("own.keras", "a.keras", ("--to", "keras"), "no layer of Keras projects"),
        ("other.npz", "a.npz", ("--to", "params"), "Pass --from"),
        ("vector.npz", "a.npz", ("--to", "mxnet"), "pass --mode, --layers, --units, --input-size"),
    ],
)
def test_mistakes(run, tmp_path, files, source, target, options, says):
    for name, arrays in {"other": {"a": np.zeros(3)}, "vector": {"params": np.zeros(9)}}.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    path = files / source if (files / source).exists() else tmp_path / source
    before = sorted(tmp_path.iterdir())
    result = run("convert", path, tmp_path / target, *options)
    assert result.code == 2 and says in result.err
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", inspect_test.HOSTILE)
@pytest.mark.filterwarnings("default")
def test_hostile_files_end_in_a_sentence(run, tmp_path, name):
    attack = hostile.CASES[name](tmp_path)
    result = run(
        "convert", attack.arguments[0], tmp_path / "out.npz", "--to", "params", "--mode", "lstm"
    )
    assert result.code == 2 and str(attack.arguments[0]) in result.err
    assert inspect_test.OTHERS.get(name, hostile.said_of(name)) in result.err
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    "header", [b"{}", b"\xff", b'{"format": "tf_cudnn_rnn/params", "version": 1}', b"[" * 1000]
)
def test_hostile_headers(run, tmp_path, header):
    arrays = {"header": np.frombuffer(header, np.uint8), "params": np.zeros(3, np.float32)}
    np.savez(tmp_path / "a.npz", **arrays)
    for command in (("inspect",), ("convert",)):
        target = (tmp_path / "b.npz", "--to", "params") if command == ("convert",) else ()
        result = run(*command, tmp_path / "a.npz", *target)
        assert result.code == 2 and "header" in result.err


# ------------------------------------------------------------------------------------
# Files that stay whole
# ------------------------------------------------------------------------------------


def test_nothing_is_overwritten_without_force(run, tmp_path, files):
    target = tmp_path / "a.npz"
    target.write_bytes(b"precious")
    result = run("convert", files / "gru.npz", target, "--to", "params")
    assert result.code == 2 and "--force replaces it" in result.err
    assert target.read_bytes() == b"precious"
    os.chmod(target, 0o640)
    assert run("convert", files / "gru.npz", target, "--to", "params", "--force").code == 0
    assert read_params(target).layout.rnn_mode == "gru"
    assert target.stat().st_mode & 0o777 == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


def test_a_link_stays_one(run, tmp_path, files):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "real.npz").write_bytes(b"old")
    link = tmp_path / "a.npz"
    link.symlink_to("data/real.npz")
    assert run("convert", files / "gru.npz", link, "--to", "params").code == 2
    assert run("convert", files / "gru.npz", link, "--to", "params", "--force").code == 0
    assert link.is_symlink() and read_params(tmp_path / "data" / "real.npz")


@pytest.mark.parametrize(
    "error, code", [(OSError(28, "No space left on device"), 2), (KeyboardInterrupt(), 130)]
)
@pytest.mark.parametrize("exists", [False, True])
def test_a_failure_in_the_middle_leaves_what_was_there(
    run, tmp_path, files, monkeypatch, error, code, exists
):
    target = tmp_path / "a.npz"
    if exists:
        target.write_bytes(b"precious")

    def fail(path, canonical, options):
        with open(path, "wb") as file:
            file.write(b"half")
        raise error

    monkeypatch.setitem(formats.FORMATS, "params", formats.FORMATS["params"]._replace(write=fail))
    force = ("--force",) if exists else ()
    assert run("convert", files / "gru.npz", target, "--to", "params", *force).code == code
    assert [path.name for path in tmp_path.iterdir()] == (["a.npz"] if exists else [])
    assert not exists or target.read_bytes() == b"precious"


def test_a_folder_in_which_no_file_can_be_made(run, files):
    """The file beside the target is nobody's business. (Even root makes none there.)"""
    result = run("convert", files / "gru.npz", "/proc/a.npz", "--to", "params")
    assert result.code == 2
    assert result.err == "tf-cudnn-rnn: /proc: No such file or directory.\n"


def test_a_folder_that_must_not_be_written(run, tmp_path, files, monkeypatch):
    """Root may write to all, so that the system's answer is made up."""
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path)
    result = run("convert", files / "gru.npz", tmp_path / "a.npz", "--to", "params")
    assert result.code == 2
    assert f"{tmp_path}/a.npz must be in a folder that you may write to" in result.err


def test_errors_of_the_new_file_name_the_target(run, tmp_path, files, monkeypatch):
    def fail(path, canonical, options):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setitem(formats.FORMATS, "params", formats.FORMATS["params"]._replace(write=fail))
    result = run("convert", files / "gru.npz", tmp_path / "a.npz", "--to", "params")
    assert result.err == f"tf-cudnn-rnn: {tmp_path}/a.npz: No space left on device.\n"


def test_what_another_wrote_meanwhile_is_kept(tmp_path):
    target = tmp_path / "a.npz"
    with pytest.raises(replacing.output.UserError, match="exists already"):
        with replacing.replacing(str(target), force=False) as new:
            with open(new, "wb") as file:
                file.write(b"ours")
            target.write_bytes(b"theirs")
    assert target.read_bytes() == b"theirs"
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


# Keras writes its own; it takes TensorFlow's start, and others to write the same.
@pytest.mark.parametrize("name", [name for name in OPTIONS if name != "keras"])
def test_a_file_too_large_for_the_disk(tmp_path, name):
    """The system's own error, in the middle of a real write."""
    write_params(tmp_path / "a.npz", canonical_of(units=32))
    target = tmp_path / "out" / f"a{formats.FORMATS[name].endings[0]}"
    target.parent.mkdir()
    limit = (5000, 5000)
    result = main_test.start(
        tmp_path,
        "convert",
        tmp_path / "a.npz",
        target,
        *("--to", name),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )
    assert (result.returncode, result.stderr) == (2, f"tf-cudnn-rnn: {target}: File too large.\n")
    assert not list(target.parent.iterdir())


# Waits in the middle of a write.
SLOW = """
import sys, time
sys.argv[0] = "tf-cudnn-rnn"
from tf_cudnn_rnn._cli import formats, main

def write(path, canonical, options):
    with open(path, "wb") as file:
        file.write(b"half")
    print("writing", flush=True)
    time.sleep(600)

formats.FORMATS["params"] = formats.FORMATS["params"]._replace(write=write)
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_signals_leave_nothing_behind(tmp_path, files, number, code):
    arguments = ["convert", str(files / "gru.npz"), str(tmp_path / "a.npz"), "--to", "params"]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *arguments],
        env={**os.environ, "PYTHONPATH": main_test.PACKAGES},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"writing\n"
        time.sleep(0.1)
        process.send_signal(number)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == code
    assert errors == b""
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------
# Nodes and layers that are no stack
# ------------------------------------------------------------------------------------


def onnx_of(path, change=None):
    """A stack of two nodes of equal sizes; `change` takes what is to be written, and changes it."""
    nodes = weights.to_onnx(canonical_of("lstm", 2, units=3)).arrays
    content = onnx_file.model_bytes(nodes)
    for old, new in (change or {}).items():
        assert old in content and len(old) == len(new)
        content = content.replace(old, new)
    path.write_bytes(content)


def test_nodes_of_equal_names(run, tmp_path):
    onnx_of(tmp_path / "a.onnx", {b"LSTM_Y_1": b"LSTM_Y_0"})
    options = ("convert", tmp_path / "a.onnx", tmp_path / "a.npz", "--to", "params")
    for more in ((), ("--layer", "LSTM_Y_0")):
        result = run(*options, *more)
        assert result.code == 2 and "several have the name LSTM_Y_0" in result.err
    result = run("inspect", tmp_path / "a.onnx", "--json")
    assert result.code == 1
    for found in result.json["found"]:
        assert not found["runs"] and "several have the name LSTM_Y_0" in found["how"]


@pytest.mark.parametrize(
    "change",
    [
        {b"x_1": b"y_1"},  # not even there
        {b"Reshape": b"Softmax"},  # another function
        {b"\x0a\x05Y_0_t": b"\x0a\x05Y_1_t"},  # a circle
    ],
)
def test_nodes_that_do_not_feed_each_other(run, tmp_path, change):
    onnx_of(tmp_path / "a.onnx")
    options = ("convert", tmp_path / "a.onnx", tmp_path / "a.npz", "--to", "params", "--force")
    assert run(*options).code == 0
    if b"x_1" in change:  # an output of one node, and the input of another
        content = (tmp_path / "a.onnx").read_bytes()
        place = content.index(b"\x12\x03x_1")
        (tmp_path / "a.onnx").write_bytes(content[:place] + b"\x12\x03z_1" + content[place + 5 :])
    else:
        onnx_of(tmp_path / "a.onnx", change)
    result = run(*options)
    assert result.code == 2 and "choose with --layer" in result.err
    assert run(*options, "--layer", "LSTM_Y_0").code == 0
    assert run(*options, "--layer", "LSTM_Y_0", "--layer", "LSTM_Y_1").code == 0
    assert read_params(tmp_path / "a.npz").layout.num_layers == 2


def between(path, direction: str, moves, layout: int = 0) -> None:
    """A stack of two nodes with ops between them: of each its name, attributes and integers."""
    stack = weights.to_onnx(canonical_of("lstm", 2, direction=direction)).arrays
    nodes, tensors = [], []

    def tensor(name, array):
        tensors.append(onnx.numpy_helper.from_array(np.asarray(array), name))
        return name

    def recurrent(l, x, y):
        node = stack[l]
        inputs = [x, *(tensor(f"{name}_{l}", getattr(node, name)) for name in "WRB")]
        options = {**node.attributes, "layout": layout}
        nodes.append(onnx.helper.make_node("LSTM", inputs, [y], name=f"node_{l}", **options))

    recurrent(0, "x", "m0")
    for i, (op, attributes, *integers) in enumerate(moves):
        more = [tensor(f"i{i}", np.array(list_, np.int64)) for list_ in integers]
        nodes.append(onnx.helper.make_node(op, [f"m{i}", *more], [f"m{i + 1}"], **attributes))
    recurrent(1, f"m{len(moves)}", "y")
    ends = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, None) for n in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    onnx.save(onnx.helper.make_model(graph), path)


def transpose(*perm: int):
    return "Transpose", {"perm": list(perm)}


def reshape(*sizes: int):
    return "Reshape", {}, list(sizes)


ONE, BOTH = "unidirectional", "bidirectional"
SQUEEZE = ("Squeeze", {}, [1])


@pytest.mark.parametrize(
    "direction, moves, layout, is_stack",
    [
        (ONE, [SQUEEZE], 0, True),
        (ONE, [SQUEEZE, ("Dropout", {})], 0, True),
        (ONE, [SQUEEZE, transpose(1, 0, 2), transpose(1, 0, 2)], 0, True),
        (ONE, [("Squeeze", {}, [2])], 1, True),
        (BOTH, [transpose(0, 2, 1, 3), reshape(0, 0, -1)], 0, True),
        (BOTH, [transpose(0, 2, 1, 3), reshape(0, -1, 8)], 0, True),
        (BOTH, [reshape(0, 0, -1)], 1, True),
        (ONE, [SQUEEZE, transpose(1, 0, 2)], 0, False),
        (ONE, [reshape(0, -1, 4), transpose(1, 0, 2)], 0, False),
        (ONE, [SQUEEZE, reshape(3, 2, 4)], 0, False),
        (ONE, [SQUEEZE, transpose(0, 2, 1), reshape(0, -1, 4)], 0, False),
        (BOTH, [reshape(0, -1, 8)], 0, False),
        (BOTH, [transpose(0, 2, 3, 1), reshape(0, 0, -1)], 0, False),
        (BOTH, [transpose(2, 0, 1, 3), reshape(0, 0, -1)], 0, False),
        (ONE, [SQUEEZE, ("Relu", {})], 0, False),
        (ONE, [], 0, False),
    ],
)
def test_what_stands_between_nodes_keeps_their_order(
    run, tmp_path, direction, moves, layout, is_stack
):
    path = tmp_path / "a.onnx"
    between(path, direction, moves, layout)
    options = ("convert", path, tmp_path / "a.npz", "--to", "params", "--force")
    result = run(*options)
    assert result.code == (0 if is_stack else 2), result
    assert is_stack or "choose with --layer" in result.err
    every = run("inspect", path, "--json").json["found"]
    assert [("--layer" in found["how"]) for found in every] == [not is_stack] * 2
    assert run(*options, "--layer", "node_0", "--layer", "node_1").code == 0


def test_a_checkpoint_has_no_stacks(run, tmp_path, files):
    layer = ("--layer", "model/_functional/_operations/1")
    options = ("convert", files / "checkpoint" / "own", tmp_path / "a.npz", "--to", "params")
    result = run(*options, *layer, *layer)
    assert result.code == 2 and "choose it alone" in result.err
    assert run(*options, *layer).code == 0


# ------------------------------------------------------------------------------------
# Options that would change nothing, and names of any length
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "source, options, says",
    [
        ("header.npz", ("--mode", "gru", "--layers", "7"), "--mode, --layers would change nothing"),
        ("header.npz", ("--forget-bias", "2"), "--forget-bias would change nothing"),
        ("gru.npz", ("--layer", "a"), "--layer would"),
        ("gru.npz", ("--direction", "unidirectional"), "--direction would"),
        ("gru.onnx", ("--mode", "lstm"), "--mode would"),
        ("own.keras", ("--prefix", "a"), "--prefix would"),
        ("gru.npz", ("--without-bias",), "--without-bias would"),
        ("gru.npz", ("--forget-bias", "nan"), "invalid finite number"),
        ("gru.npz", ("--forget-bias", "inf"), "invalid finite number"),
    ],
)
def test_options_that_would_change_nothing(run, tmp_path, files, source, options, says):
    write_params(tmp_path / "header.npz", canonical_of("lstm"))
    path = files / source if (files / source).exists() else tmp_path / source
    result = run("convert", path, tmp_path / "a.npz", "--to", "params", *options)
    assert result.code == 2 and says in " ".join(result.err.split())
    assert not (tmp_path / "a.npz").exists()


@pytest.mark.parametrize(
    "name", ["é" * 125 + ".npz", "a." + "b" * 249 + ".npz", "a" * 251 + ".npz"]
)
def test_names_of_255_bytes(run, tmp_path, files, name):
    result = run("convert", files / "gru.npz", tmp_path / name, "--to", "params")
    assert result.code == 0, result.err
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("step", ["_settle", "_place"])
def test_signals_after_the_write(tmp_path, monkeypatch, number, step):
    monkeypatch.setattr(replacing, step, lambda *_: signal.raise_signal(number))
    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as raised:
        with replacing.replacing(str(tmp_path / "a.npz"), force=False):
            pass
    assert raised.value.code == 128 + number
    assert not list(tmp_path.iterdir()) and signal.getsignal(number) == before


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
@pytest.mark.parametrize("activation, mode", [("relu", "rnn_relu"), ("tanh", "rnn_tanh")])
def test_a_model_of_keras_tells_the_activation_of_its_simple_rnn(tmp_path, run, activation, mode):
    path = str(tmp_path / "simple.keras")
    rnn = keras.layers.SimpleRNN(4, activation=activation)
    keras.Sequential([keras.Input((None, 3)), rnn]).save(path)
    target = tmp_path / "simple.npz"
    assert run("convert", path, str(target), "--to", "params").code == 0
    assert mode in run("inspect", str(target)).out
    other = {"rnn_relu": "rnn_tanh", "rnn_tanh": "rnn_relu"}[mode]
    result = run("convert", path, str(tmp_path / "b.npz"), "--to", "params", "--mode", other)
    assert result.code == 2
    assert f"--mode must be {mode}, as the model in " in result.err


@pytest.mark.parametrize("to, ending", [("params", "npz"), ("onnx", "onnx")])
def test_pickles_are_read_by_pytorch_if_that_is_asked_for(run, tmp_path, monkeypatch, to, ending):
    vector = np.linspace(-1, 1, 128, dtype=np.float32)
    state = weights.to_torch(weights.from_cudnn(vector, "lstm", 1, 4, 2)).arrays
    tensors = {name: pytorch.Tensor(values) for name, values in state.items()}
    monkeypatch.setitem(sys.modules, "torch", pytorch.module(lambda *_, **__: tensors))
    source, target = tmp_path / "model.pt", tmp_path / f"model.{ending}"
    source.write_bytes(b"\x80\x02}.")
    for command in (("convert", source, target, "--to", to), ("inspect", source)):
        refused = run(*command)
        assert refused.code == 2 and "model.pt is a pickle, which may run code" in refused.err
        assert "--from torch: PyTorch, if it is installed here" in refused.err
    assert run("convert", source, target, "--to", to, "--from", "torch").code == 0
    expected = weights.from_torch(state, "lstm").params
    np.testing.assert_array_equal(weights.load(target).params, expected)
