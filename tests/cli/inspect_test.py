"""`inspect`: files of all kinds, good ones, others, and such as nobody writes who means well."""

import gzip
import json
import os
import pathlib
import pickle
import shlex
import shutil
import struct
import subprocess
import tarfile
import time
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.cli import main_test
from tests.cli.conftest import canonical_of
from tests.helpers import subprocesses
from tests.weights import hostile
from tests.weights.protobufs import field, varint
from tf_cudnn_rnn import raw_ops, weights
from tf_cudnn_rnn._cli import inspect
from tf_cudnn_rnn._cli.finders import found as parts
from tf_cudnn_rnn._files import checkpoint, kinds
from tf_cudnn_rnn._formats import onnx_file, saved_model, wire
from tf_cudnn_rnn.keras import LSTM, CudnnLSTM

BOTH = "bidirectional"
ONE = "unidirectional"
# Of a checkpoint with layers of Keras.
LAYERS = [
    ("model/gru", "gru", 1, 5, 8, ONE, 0, True),
    ("model/simple", "rnn_tanh or rnn_relu", 1, 2, 5, ONE, 0, True),
    ("model/both", "lstm", 1, 4, 3, BOTH, 0, True),
]
# Of each file: name, mode, layers, units, input size, direction, projection, whether it runs here.
EXPECTED = {
    "model.keras": [
        ("both", "lstm", 1, 4, 3, BOTH, 0, True),
        ("gru", "gru", 1, 5, 8, ONE, 0, True),
        ("other_gru", "gru", 1, 5, 5, ONE, 0, False),
        ("simple", "rnn_relu", 1, 2, 5, ONE, 0, True),
    ],
    "model.weights.h5": [
        ("layers/bidirectional", "lstm", 1, 4, 3, BOTH, 0, True),
        ("layers/gru", "gru", 1, 5, 8, ONE, 0, True),
        ("layers/gru_1", "gru", 1, 5, 5, ONE, 0, False),
        ("layers/simple_rnn", "rnn_tanh or rnn_relu", 1, 2, 5, ONE, 0, True),
    ],
    "own.keras": [("encoder", "lstm", 2, 4, 3, ONE, 2, True)],
    "own.weights.h5": [("layers/cudnn_lstm", "lstm", 2, 4, 3, ONE, 2, True)],
    "checkpoint/own": [("encoder", "lstm", 2, 4, 3, ONE, 2, True)],
    "checkpoint/own.index": [("encoder", "lstm", 2, 4, 3, ONE, 2, True)],
    "checkpoint/drop_ins": LAYERS,
    "checkpoint/stock": LAYERS,
    "saved_model": [("CudnnRNNV3", "lstm", 2, 4, 3, BOTH, 0, True)],
    "saved_model/saved_model.pb": [("CudnnRNNV3", "lstm", 2, 4, 3, BOTH, 0, True)],
    "gru.safetensors": [("(top level)", "gru", 2, 4, 3, BOTH, 0, True)],
    "gru.npz": [("(top level)", "gru", 2, 4, 3, BOTH, 0, True)],
    "projected.safetensors": [("encoder.rnn", "lstm", 1, 4, 3, ONE, 2, True)],
    "gru.onnx": [
        ("GRU_Y_0", "gru", 1, 4, 3, BOTH, 0, True),
        ("GRU_Y_1", "gru", 1, 4, 8, BOTH, 0, True),
    ],
    "cudnn.h5": [("bidirectional", "lstm", 1, 4, 3, BOTH, 0, True)],
}
FIELDS = ("name", "rnn_mode", "num_layers", "num_units", "input_size", "direction", "num_proj")


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_found(run, files, name):
    result = run("inspect", files / name, "--json")
    found = result.json["found"]
    assert [(*(item[field] for field in FIELDS), item["runs"]) for item in found] == EXPECTED[name]
    assert all(item["how"] for item in found)
    assert result.code == (0 if all(item["runs"] for item in found) else 1)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_is_printed(run, files, name):
    result = run("inspect", files / name)
    for found_name, mode, *_ in EXPECTED[name]:
        assert found_name in result.out and mode in " ".join(result.out.split())
    long = [line for line in result.out.splitlines() if len(line) > 80 and "/" not in line]
    assert not long


@pytest.mark.parametrize(
    "name, expected",
    [
        (
            "drop_ins",
            [
                ("model/both", "lstm", 1, 4, 3, BOTH, 0, True),
                ("model/gru", "gru", 1, 5, 8, ONE, 0, True),
                # The graph tells which.
                ("model/simple", "rnn_relu", 1, 2, 5, ONE, 0, True),
            ],
        ),
        ("own_export", [("own/encoder", "lstm", 2, 4, 3, ONE, 2, True)]),
        ("saved_model", [("params", "lstm", 2, 4, 3, BOTH, 0, True)]),
    ],
)
def test_weights_of_saved_models(run, files, name, expected):
    found = run("inspect", files / name, "--json").json["weights"]
    values = [(*(item[field] for field in FIELDS), item["runs"]) for item in found]
    assert values == expected
    assert "Weights in its variables, which convert reads:" in run("inspect", files / name).out


@pytest.mark.parametrize("batch", [None, 4, 32])
def test_parameters_of_layers_without_a_bias(run, tmp_path, batch):
    inputs = keras.Input(batch_shape=[batch, 5, 3])
    layer = LSTM(8, use_bias=False)
    keras.Model(inputs, layer(inputs)).export(tmp_path / "model", verbose=False)
    (found,) = run("inspect", tmp_path / "model", "--json").json["found"]
    assert (found["parameters"], found["biases"]) == (4 * 8 * (3 + 8), 0)


def inspect_alone(*arguments, without=(), cwd=None) -> subprocess.CompletedProcess:
    """`inspect` in a process of its own, in which packages are not installed."""
    code = f"""
import runpy, sys

class Blocker:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {without!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
sys.orig_argv = [sys.executable, "-m", "tf_cudnn_rnn"]  # as Python begins it
sys.argv = ["-m", "inspect", *{[str(argument) for argument in arguments]!r}]
runpy.run_module("tf_cudnn_rnn", run_name="__main__", alter_sys=True)
"""
    return subprocesses.result_of(code, cwd=cwd or main_test.PACKAGES)


def test_a_saved_model_without_tensorflow(files):
    result = inspect_alone(files / "drop_ins", "--json", without=("tensorflow",))
    assert result.returncode == 1, result.stderr
    report = json.loads(result.stdout)
    assert len(report["found"]) == 3 and report["weights"] == []
    for found in report["found"]:
        assert not found["runs"] and "tf.saved_model.load(" in found["how"]
        assert found["needs"] == ["tensorflow"]
        assert "needs TensorFlow, which is not installed" in found["lacks"]


WOULD_RUN = "would run with: import tf_cudnn_rnn.keras; tf_cudnn_rnn.keras.load_model("


@pytest.mark.parametrize(
    "without, says",
    [
        (("tensorflow", "keras"), "It needs TensorFlow, which is not installed: run `pip install"),
        (("keras",), "Keras is not installed: run `pip install keras`."),
    ],
)
def test_layers_that_would_run(files, without, says):
    """The file is read all the same, and the answer is that it does not run here."""
    result = inspect_alone(files / "model.keras", without=without)
    text = " ".join(result.stdout.split())
    assert result.returncode == 1 and not result.stderr
    assert text.count(WOULD_RUN) == 3 and text.count("not by this library:") == 1
    assert "runs here" not in text and "convert it alone: --layer gru" in text
    assert text.count('What "would run with" shows does not run here:') == 1 and says in text


def test_layers_beside_a_tensorflow_that_does_not_fit(tmp_path, files):
    copy = tmp_path / "tf_cudnn_rnn"
    ignored = shutil.ignore_patterns("__pycache__", "tensorflow_*.so")
    shutil.copytree(main_test.PACKAGES + "/tf_cudnn_rnn", copy, ignore=ignored)
    (copy / "_libraries" / "tensorflow_2_7.so").touch()
    for name in ("own.keras", "drop_ins", "own.weights.h5"):
        result = inspect_alone(files / name, cwd=tmp_path)
        text = " ".join(result.stdout.split())
        assert result.returncode == 1 and "Traceback" not in result.stderr
        assert "would run with: " in text and "runs here" not in text
        assert "tf_cudnn_rnn was built for TensorFlow 2.7, but TensorFlow" in text


@pytest.mark.parametrize(
    "variables, says",
    [
        ({"KERAS_BACKEND": "numpy"}, "but the backend is 'numpy'. Set KERAS_BACKEND=tensorflow."),
        ({"KERAS_BACKEND": ""}, ""),
        ({"KERAS_HOME": "{}"}, "but the backend is 'jax'. Set KERAS_BACKEND=tensorflow."),
        ({"KERAS_HOME": "{}", "KERAS_BACKEND": "tensorflow"}, ""),
        ({"KERAS_HOME": "/dev/null"}, ""),
    ],
)
def test_another_backend_of_keras(run, monkeypatch, tmp_path, files, variables, says):
    (tmp_path / "keras.json").write_text('{"backend": "jax"}')
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp_path))
    if "KERAS_BACKEND" not in variables:
        monkeypatch.delenv("KERAS_BACKEND", raising=False)
    text = " ".join(run("inspect", files / "model.keras").out.split())
    assert (WOULD_RUN in text) == bool(says) and says in text


def test_weights_and_files_of_the_runtime_need_no_tensorflow(run, tmp_path, files):
    target = tmp_path / "a.safetensors"
    assert run("convert", files / "gru.npz", target, "--to", "runtime").code == 0
    for path, says in ((target, "runs here: "), (files / "gru.npz", "its weights: ")):
        result = inspect_alone(path, without=("tensorflow", "keras"))
        assert result.returncode == 0 and says in result.stdout, result.stderr


def test_a_file_of_the_runtime_without_the_runtime(tmp_path, run, files):
    target = tmp_path / "a.safetensors"
    assert run("convert", files / "gru.npz", target, "--to", "runtime").code == 0
    copy = tmp_path / "tf_cudnn_rnn"
    ignored = shutil.ignore_patterns("__pycache__", "librnn_*")
    shutil.copytree(main_test.PACKAGES + "/tf_cudnn_rnn", copy, ignore=ignored)
    result = inspect_alone(target, "--json", cwd=tmp_path)
    (found,) = json.loads(result.stdout)["found"]
    assert result.returncode == 1 and found["needs"] == ["tf_cudnn_rnn.runtime"]
    assert "which is not there" in found["lacks"] and "Network.load(" in found["how"]


@pytest.mark.parametrize(
    "name",
    ["model.keras", "model.weights.h5", "own.keras", "checkpoint/own", "checkpoint/drop_ins"]
    + ["gru.onnx", "cudnn.h5"],
)
def test_convert_takes_the_names_that_inspect_shows(run, tmp_path, files, name):
    """And converts the same network."""
    every = run("inspect", files / name, "--json").json["found"]
    for found in every:
        if found["layer"] is None or not found["runs"]:
            continue
        if len(every) > 1:
            out = " ".join(run("inspect", files / name).out.split())
            assert f"--layer {found['layer']}" in out
        mode = ("--mode", "rnn_tanh") if found["rnn_mode"] == "rnn_tanh or rnn_relu" else ()
        layer = ("--layer", found["layer"])
        target = tmp_path / "out.npz"
        result = run("convert", files / name, target, "--to", "params", "--force", *layer, *mode)
        assert result.code == 0, result.err
        (converted,) = run("inspect", target, "--json").json["found"]
        for option in ("num_layers", "num_units", "input_size", "direction", "num_proj"):
            assert converted[option] == found[option]


@pytest.mark.parametrize(
    "name",
    ["model.keras", "model.weights.h5", "checkpoint/drop_ins", "checkpoint/stock", "drop_ins"],
)
def test_convert_lists_the_names_that_inspect_shows(run, tmp_path, files, name):
    report = run("inspect", files / name, "--json").json
    names = [found["layer"] for found in report["weights"] or report["found"]]
    assert len(names) > 2
    result = run("convert", files / name, tmp_path / "a.npz", "--to", "params")
    assert result.code == 2
    assert f"The file has {len(names)} such layers, {', '.join(names)}: choose" in result.err


@pytest.mark.parametrize("case", ["a stack", "of two kinds", "no stack"])
def test_commands_for_nodes_of_onnx_convert_them(run, tmp_path, monkeypatch, case):
    """With --layer if all of them are not one network."""
    monkeypatch.chdir(tmp_path)
    kinds = ["gru", "lstm" if case == "of two kinds" else "gru"]
    nodes = [weights.to_onnx(canonical_of(kind, inputs=4)).arrays[0] for kind in kinds]
    content = onnx_file.model_bytes(nodes)
    if case == "no stack":  # the output of one is not the input of the other
        content = content.replace(b"Reshape", b"Softmax")
    pathlib.Path("a.onnx").write_bytes(content)
    every = run("inspect", "a.onnx", "--json").json["found"]
    assert len(every) == 2
    for found in every:
        assert ("--layer" in found["how"]) == (case != "a stack")
        result = run(*shlex.split(found["how"])[1:], "--force")
        assert result.code == 0, result.err
    whole = run("convert", "a.onnx", "a.npz", "--to", "params")
    assert whole.code == (0 if case == "a stack" else 2)


def test_nodes_of_onnx_whose_weights_the_graph_computes(run, tmp_path, monkeypatch):
    """PyTorch's exporter wrote them; what is shown converts them."""
    monkeypatch.chdir(tmp_path)
    golden = pathlib.Path(__file__).parents[1] / "golden" / "onnx"
    content = (golden / "gru.onnx").read_bytes()
    pathlib.Path("a.onnx").write_bytes(content)
    result = run("inspect", "a.onnx", "--json")
    assert result.code == 0
    assert [found["input_size"] for found in result.json["found"]] == [3, 8]
    for found in result.json["found"]:
        assert (found["num_units"], found["direction"], found["biases"]) == (4, BOTH, 2)
        result = run(*shlex.split(found["how"])[1:], "--force")
        assert result.code == 0, result.err

    pathlib.Path("a.onnx").write_bytes(content.replace(b"Unsqueeze", b"Dequeeze_"))
    for found in run("inspect", "a.onnx", "--json").json["found"]:
        assert not found["runs"] and "it is computed with the op Dequeeze_, and" in found["how"]
    result = run("convert", "a.onnx", "a.npz", "--to", "params")
    assert result.code == 2 and "a.onnx: Node node_GRU_79 must have its W in the file" in result.err


@pytest.mark.parametrize(
    "name, has_other",
    [("checkpoint/drop_ins", True), ("drop_ins", False), ("simple.safetensors", True)],
)
def test_an_activation_that_a_file_does_not_tell(
    run, tmp_path, monkeypatch, files, name, has_other
):
    """The command that is shown says one of two."""
    monkeypatch.chdir(tmp_path)
    state = weights.to_torch(canonical_of("rnn_tanh")).arrays
    weights.write_safetensors("simple.safetensors", state)
    path = name if name.startswith("simple") else files / name
    out = " ".join(run("inspect", path).out.split())
    says = "--mode rnn_relu if it is ReLU: the file does not tell the activation"
    assert out.count(says) == has_other


# Of each file of TensorFlow 1: mode, layers, units, input size, direction, projection.
TF1 = {
    "cudnn_lstm": ("lstm", 2, 4, 3, ONE, 0),
    "cudnn_gru_bidirectional": ("gru", 2, 4, 3, BOTH, 0),
    "cudnn_tanh": ("rnn_tanh or rnn_relu", 2, 4, 3, ONE, 0),
    "basic_lstm_bidirectional": ("lstm", 1, 4, 3, BOTH, 0),
    "lstm_proj": ("lstm", 2, 5, 3, BOTH, 2),
}


@pytest.mark.parametrize("name", TF1)
@pytest.mark.parametrize("twice", [False, True])
def test_a_network_of_tensorflow_1_is_one_part(run, tmp_path, monkeypatch, name, twice):
    """And the command that is shown converts it."""
    golden = pathlib.Path(__file__).parents[1] / "golden" / "tf1" / f"{name}.npz"
    with np.load(golden) as arrays:
        variables = {k[10:]: arrays[k] for k in arrays if k.startswith("variables/")}
    scopes = ["one", "two/inside"] if twice else [""]
    monkeypatch.chdir(tmp_path)
    np.savez("a.npz", **{f"{s}/{k}".lstrip("/"): v for s in scopes for k, v in variables.items()})
    every = run("inspect", "a.npz", "--json").json["found"]
    assert [found["name"] for found in every] == [scope or "(top level)" for scope in scopes]
    for found in every:
        assert tuple(found[field] for field in FIELDS[1:]) == TF1[name]
        assert found["parameters"] == sum(array.size for array in variables.values())
        result = run(*shlex.split(found["how"])[1:], "--force")
        assert result.code == 0, result.err
        (converted,) = run("inspect", "params.npz", "--json").json["found"]
        assert [converted[f] for f in FIELDS[2:]] == [found[f] for f in FIELDS[2:]]


@pytest.mark.parametrize(
    "name, layer, says",
    [
        ("model.keras", "both", "256 parameters, with one bias a gate"),
        ("model.keras", "gru", "225 parameters, with two biases a gate"),
        ("own.keras", "encoder", "224 parameters, with two biases a gate"),
        ("checkpoint/drop_ins", "model/simple", "14 parameters, without biases"),
        ("gru.safetensors", "(top level)", "552 parameters, with two biases a gate"),
    ],
)
def test_which_parameters_are_counted(run, files, name, layer, says):
    text = " ".join(run("inspect", files / name).out.split())
    assert says in text.partition(f" {layer} (")[2].partition(" (")[0]


def test_parameters_are_those_of_the_file(run, files):
    (found,) = run("inspect", files / "saved_model", "--json").json["found"]
    (other,) = run("inspect", files / "gru.safetensors", "--json").json["found"]
    # Directions times gates times units times (columns and two biases), by layer.
    assert found["parameters"] == 2 * 4 * 4 * ((3 + 4 + 2) + (8 + 4 + 2))
    assert other["parameters"] == 2 * 3 * 4 * ((3 + 4 + 2) + (8 + 4 + 2))


def test_a_saved_model_of_int8_weights(run, tmp_path):
    module = tf.Module()
    module.weights = tf.Variable(tf.zeros([2 * 4 * 5 * 3 + 2 * 4 * 5 * 2 + 2 * 2 * 5], tf.int8))

    @tf.function(input_signature=[tf.TensorSpec([None, 4, 3])])
    def call(x):
        return raw_ops.CudnnRNNInt8(
            input=x,
            input_h=tf.zeros([2, 4, 2]),
            input_c=tf.zeros([2, 4, 5]),
            weights=module.weights,
            scales=tf.zeros([2 * 4 * 5 * 2 + 2 * 2]),
            biases=tf.zeros([2 * 4 * 5 * 2]),
            sequence_lengths=[1] * 4,
            direction="bidirectional",
            num_proj=2,
        ).output

    module.call = call
    tf.saved_model.save(module, tmp_path)
    (found,) = run("inspect", tmp_path, "--json").json["found"]
    expected = ["TfCudnnRnn>CudnnRNNInt8", "lstm", 1, 5, 3, BOTH, 2]
    assert [found[field] for field in FIELDS] == expected and found["runs"]
    assert found["parameters"] == 2 * 4 * 5 * (3 + 2 + 2) + 2 * 2 * 5
    assert found["how"].startswith("import tensorflow as tf, tf_cudnn_rnn")


def test_nothing_recurrent(run, tmp_path):
    np.savez(tmp_path / "other.npz", a=np.zeros(3))
    result = run("inspect", tmp_path / "other.npz")
    assert result.code == 1 and "nothing recurrent" in result.out


class Evil:
    def __reduce__(self):
        return os.system, ("touch evil",)


def torch_pickle(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", pickle.dumps(Evil()))


def tar_of_itself(path):
    with tarfile.open(path, "w") as archive:
        archive.add(__file__, "a")


def zip_of_six(path):
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(6):
            archive.writestr(f"{number}.txt", "")


@pytest.mark.parametrize(
    "name, write, says",
    [
        ("model.pt", lambda path: path.write_bytes(pickle.dumps(Evil())), "is a pickle"),
        ("model.bin", torch_pickle, "is a pickle"),
        ("model.npy", lambda path: np.save(path, np.zeros(3)), "is a NumPy array alone (.npy)"),
        ("empty.h5", lambda path: path.write_bytes(b""), "is empty. It must be a SavedModel's"),
        (
            "a.onnx",
            lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n\0"),
            "is a PNG image. It must",
        ),
        ("a.safetensors", lambda path: path.write_bytes(gzip.compress(b"a")), "is a gzip archive"),
        ("a.keras", lambda path: tarfile.open(path, "w").close(), "begins with b'\\x00\\x00"),
        ("b.keras", tar_of_itself, "is a tar archive; unpack it first. It must be"),
        (
            "a.h5",
            lambda path: path.write_text("import os\n"),
            "a text file, which begins with 'import os\\n'.",
        ),
        ("a.npz", lambda path: path.write_text("{}"), "is a JSON text"),
        (
            "b.npz",
            lambda path: path.write_bytes(b"\0\1\2\3\4"),
            "begins with b'\\x00\\x01\\x02\\x03'",
        ),
        ("no_model", lambda path: path.mkdir(), "neither a saved_model.pb nor a checkpoint"),
        ("pipe", os.mkfifo, "pipe or a device"),
        ("frozen.pb", lambda path: path.write_bytes(b"\x0a\x00"), "saved_model.pb"),
        ("model.zip", lambda path: zipfile.ZipFile(path, "w").close(), "zip archive of nothing"),
        (
            "more.zip",
            zip_of_six,
            "is a zip archive of 0.txt, 1.txt, 2.txt, 3.txt and 2 more. It must",
        ),
    ],
)
def test_other_files(run, tmp_path, monkeypatch, name, write, says):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / name)
    result = run("inspect", tmp_path / name)
    assert result.code == 2 and says in result.err
    assert not (tmp_path / "evil").exists()


def test_a_header_whose_size_looks_like_another_file(run, tmp_path):
    size = int.from_bytes(b"\x1f\x8b", "little")  # gzip
    header = b"{}".ljust(size)
    (tmp_path / "a.safetensors").write_bytes(size.to_bytes(8, "little") + header)
    result = run("inspect", tmp_path / "a.safetensors")
    assert result.code == 1 and "nothing recurrent" in " ".join(result.out.split())


def test_no_file(run, tmp_path):
    result = run("inspect", tmp_path / "none.keras")
    assert result.code == 2
    assert result.err == f"tf-cudnn-rnn: {tmp_path}/none.keras: No such file or directory.\n"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_that_must_not_be_read(run, tmp_path):
    path = tmp_path / "secret.keras"
    path.touch(mode=0)
    assert "Permission denied" in run("inspect", path).err


# ------------------------------------------------------------------------------------
# Files from strangers
# ------------------------------------------------------------------------------------


# Whose headers are those of arrays: of none that is recurrent, or of weights that nothing reads.
NOTHING = ("npz_of_other_arrays", "safetensors_of_nothing_times_much")
NO_WEIGHTS = {
    "npz_of_texts_for_weights": "weight_hh_l0 must be of floats; it is of <U1",
    "npz_of_floats_of_16_bytes": "weight_hh_l0 must be of floats; it is of float128",
    "npz_of_a_layer_far_away": "there must be weight_ih and weight_hh of all of its 1,000,000,000",
}
# What the command line says of files of another kind.
OTHERS = {
    "npz_with_a_member_of_another_kind": "is a zip archive of weight_ih_l0",
    "npz_that_is_a_folder": "is a folder with neither a saved_model.pb nor a checkpoint in it",
    "safetensors_that_are_a_folder": "is a folder with neither a saved_model.pb nor a checkpoint",
    "npz_of_other_arrays": "Pass --from",
    "safetensors_of_nothing_times_much": "it has no network of PyTorch",
}
HOSTILE = [name for name in hostile.CASES if name.startswith(("npz", "safetensors"))]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.filterwarnings("default")
def test_hostile_files_end_in_a_sentence(run, tmp_path, name):
    path = hostile.CASES[name](tmp_path).arguments[0]
    result = run("inspect", path)
    if name in NOTHING:
        assert result.code == 1 and "nothing recurrent" in " ".join(result.out.split())
    elif name in NO_WEIGHTS:
        assert result.code == 1
        assert f"not by this library: {NO_WEIGHTS[name]}" in " ".join(result.out.split())
    else:
        assert result.code == 2 and str(path) in result.err
        assert OTHERS.get(name, hostile.said_of(name)) in result.err


# Some of each kind; tests/weights has the others, and each takes a process.
@pytest.mark.parametrize(
    "name",
    [
        "h5_of_4_tb",
        "h5_of_1_gb_that_is_not_there",
        "h5_bomb",
        "h5_with_names_in_a_circle",
        "h5_of_records",
    ],
)
def test_hostile_hdf5_files_end_in_a_sentence(run, tmp_path, name):
    result = run("inspect", hostile.CASES[name](tmp_path).arguments[0])
    assert result.code == 2 and result.err


def of_keras_3(path, change):
    import h5py

    with h5py.File(path, "w") as file:
        group = file.create_group("layers/lstm/cell/vars")
        for name, shape in (("0", (3, 16)), ("1", (4, 16)), ("2", (16,))):
            group[name] = np.zeros(shape, np.float32)
        change(file, group)


def external_link(file, group):
    import h5py

    del group["0"]
    group["0"] = h5py.ExternalLink("/etc/passwd", "/")


def circle(file, group):
    group["layers"] = file["layers"]


def not_there(file, group):
    del group["0"]
    group.create_dataset("0", (1 << 20, 1 << 10), "<f4")


def texts(file, group):
    import h5py

    del group["0"]
    group.create_dataset("0", (3,), h5py.string_dtype())


@pytest.mark.parametrize("change", [external_link, circle, not_there, texts])
def test_hostile_files_of_keras_3(run, tmp_path, change):
    path = tmp_path / "model.weights.h5"
    of_keras_3(path, lambda file, group: None)
    assert run("inspect", path).code == 0
    of_keras_3(path, change)
    result = run("inspect", path)
    assert result.code == 2 and str(path) in result.err


def keras_archive(path, config: bytes, weights: bytes = b""):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("config.json", config)
        archive.writestr("model.weights.h5", weights)


LAYER = {
    "class_name": "LSTM",
    "config": {"name": "a\x1b[31m", "units": 4, "activation": "tanh"},
    "build_config": {"input_shape": [None, None, 3]},
}


@pytest.mark.parametrize(
    "config, code",
    [
        (b"{", 2),
        (b"[" * 100_000, 2),
        (b"\xff\xfe", 2),
        (b"{}" + b" " * (9 << 20), 2),
        (b"[1]", 1),
        (b'{"class_name": "LSTM", "config": 3}', 1),
        (json.dumps({**LAYER, "config": {"units": -3}}).encode(), 1),
        (json.dumps({**LAYER, "config": {"units": 10**400}}).encode(), 1),
        (json.dumps({**LAYER, "build_config": {"input_shape": [[]]}}).encode(), 1),
        (json.dumps({**LAYER, "class_name": "CudnnLSTM"}).encode(), 1),
        (
            json.dumps(
                {"class_name": "CudnnLSTM", "config": {"num_units": 2**62, "num_layers": 2**62}}
            ).encode(),
            1,
        ),
    ],
)
def test_hostile_configs(run, tmp_path, config, code):
    keras_archive(tmp_path / "model.keras", config)
    result = run("inspect", tmp_path / "model.keras")
    assert result.code == code
    assert "\x1b" not in result.out + result.err


EVIL_NAME = "a$(touch evil)`touch evil`'; touch evil; '\" b."


def state_at(prefix):
    return weights.to_torch(canonical_of("lstm"), prefix=prefix).arrays


@pytest.mark.parametrize("prefix", [EVIL_NAME, "--x.", "-.", "a b.", "\\."])
@pytest.mark.parametrize("name", ["a.npz", "$(touch evil).npz", "a b'.npz", "-a.npz"])
def test_commands_are_what_they_seem(run, tmp_path, monkeypatch, prefix, name):
    """A shell takes them as they are meant; and `convert` reads what they name."""
    monkeypatch.chdir(tmp_path)
    np.savez(f"./{name}", **state_at(prefix))
    path = name if not name.startswith("-") else f"./{name}"
    (found,) = run("inspect", path, "--json").json["found"]
    echoed = subprocess.run(
        ["sh", "-c", f"printf '%s\\0' {found['how']}"], capture_output=True, check=True
    )
    words = echoed.stdout.decode().split("\0")[:-1]
    assert words == shlex.split(found["how"])
    assert words[:3] == ["tf-cudnn-rnn", "convert", path]
    assert not os.path.exists("evil")
    words[3:6] = ["out.npz", "--to", "params"]
    assert run(*words[1:]).code == 0


@pytest.mark.parametrize("character", ["\x1b[31m", "\u202e", "\x7f", "\x9b", "\u2028"])
def test_no_command_for_names_that_cannot_be_printed(run, tmp_path, character):
    np.savez(tmp_path / "a.npz", **state_at(f"a{character}."))
    result = run("inspect", tmp_path / "a.npz")
    assert result.code == 0 and "no command is shown" in " ".join(result.out.split())
    assert "model.keras" not in result.out and result.out.replace("\n", "").isprintable()
    path = tmp_path / f"b{character}.npz"
    np.savez(path, **state_at(""))
    result = run("inspect", path)
    assert result.code == 0 and "no command is shown" in " ".join(result.out.split())
    assert result.out.replace("\n", "").isprintable()
    result = run("inspect", f"{path}{character}")
    assert result.code == 2 and result.err.replace("\n", "").isprintable()


def test_calls_of_python_are_what_they_seem(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "a\"); print('evil'); (\".keras"
    keras_archive(name, json.dumps({**LAYER, "config": {**LAYER["config"], **STOCK}}).encode())
    (found,) = run("inspect", name, "--json").json["found"]
    assert found["how"] == f"import tf_cudnn_rnn.keras; tf_cudnn_rnn.keras.load_model({name!r})"


STOCK = {"recurrent_activation": "sigmoid"}


def attribute(key: bytes, number: int, value: bytes) -> bytes:
    return field(5, field(1, key) + field(2, bytes([number << 3 | 2]) + varint(len(value)) + value))


OWN_OPS = [b"TfCudnnRnn>CudnnRNNV3", b"TfCudnnRnn>CudnnRNNInt8", b"TfCudnnRnn>KerasRNN"]


@pytest.mark.parametrize("op", [b"CudnnRNNV3", *OWN_OPS])
@pytest.mark.parametrize("key", [b"rnn_mode", b"direction", b"input_mode"])
@pytest.mark.parametrize("value", [b"\x1b[31mlstm", b"LSTM", b"", b"x" * 4000, b"a\nb"])
def test_attributes_that_no_op_knows(run, tmp_path, op, key, value):
    graph = field(2, field(2, node(op, attribute(key, 2, value))))
    (tmp_path / "saved_model.pb").write_bytes(graph)
    result = run("inspect", tmp_path)
    assert result.out.replace("\n", "").isprintable() and len(result.out) < 1000
    if b"Keras" in op and key != b"rnn_mode":  # which it does not have
        return
    assert result.code == 1 and f"not by this library: {key.decode()} must be one of" in result.out


def test_a_negative_projection(run, tmp_path):
    projection = field(5, field(1, b"num_proj") + field(2, b"\x18" + varint(2**64 - 1)))
    (tmp_path / "saved_model.pb").write_bytes(field(2, field(2, node(b"CudnnRNNV3", projection))))
    result = run("inspect", tmp_path)
    assert result.code == 1 and "num_proj must not be negative" in result.out


def test_every_field_is_printed_as_text(capsys):
    """Whatever a reader lets through."""
    found = parts.Found("\x1b[1m", "\x1b[2m", "\x1b[3m", direction="\x1b[4m", how="\x1b[5m")
    every = parts.Contents([found])
    inspect._print("\x1b[6m", kinds.Kind.NPZ, 3, every, parts.Contents([]))
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert all(f"x1b[{digit}m" in out for digit in range(1, 7))


def node(op: bytes, *more: bytes) -> bytes:
    return field(1, field(1, b"name") + field(2, op) + b"".join(more))


@pytest.mark.parametrize(
    "content",
    [
        b"\x12\xff\xff\xff\xff\x0f",  # more than is there
        b"\x12" + b"\xff" * 50,  # a number without an end
        b"\x13\x13\x13",  # groups, which nest
        b"\x12\x00" * 100_000,  # nothing, often
        b"\x10\x01",  # a number where a message must be
        field(2, field(2, node(b"CudnnRNNV3", field(3, b"\xff\xfe")))),
        field(2, field(2, node(b"CudnnRNNV3") * 30_000)),
        field(2, field(2, b"\x0a\x00" * 2_000_000)),
        b"\x0a\x01",
        b"\x0f",
        bytes(1000),
        np.random.default_rng(7).bytes(1000),
    ],
)
@pytest.mark.parametrize("name", ["saved_model.pb", "model.onnx"])
def test_hostile_graphs(run, tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    start = time.process_time()
    result = run("inspect", tmp_path / name)
    assert result.code in (1, 2)
    if result.code == 2:
        assert name in result.err
    # Generous, as the machine may be slow; without bounds these would take minutes.
    assert time.process_time() - start < 20


@pytest.mark.parametrize("name", ["saved_model.pb", "model.onnx", "a.safetensors", "a.npz", "a.h5"])
def test_huge_files_of_nothing(run, tmp_path, name):
    path = tmp_path / name
    with open(path, "wb") as file:
        file.truncate(1 << 40)
    start = time.process_time()
    assert run("inspect", path).code == 2
    assert time.process_time() - start < 5


def read_so_far() -> int:
    """The bytes that this process has read."""
    with open("/proc/self/io") as file:
        return int(file.readline().split()[1])


def test_of_a_large_archive_the_headers_are_read(run, tmp_path):
    """Of its array no byte is needed."""
    size = 30 << 20
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        header = hostile.npz.npy(f"({size},)", "'|u1'", b"")
        archive.writestr("weight_ih_l0.npy", header + bytes(size))
    before = read_so_far()
    assert run("inspect", tmp_path / "a.npz").code == 1
    assert read_so_far() - before < 2 << 20


@pytest.mark.parametrize("comment", [b"", b"text"])
@pytest.mark.parametrize("count", [10_000, 10_001])
def test_members_are_counted_wherever_they_are(run, tmp_path, comment, count):
    members = [hostile.npz.stored(f"{number}.npy", b"") for number in range(count)]
    content = hostile.npz.zip_bytes(members, shared=True)
    content = content[:-2] + len(comment).to_bytes(2, "little") + comment
    (tmp_path / "a.zip").write_bytes(content)
    result = run("inspect", tmp_path / "a.zip")
    assert result.code == 2
    assert ("at most 10000 members; it holds 10001" in result.err) == (count > 10_000)


def test_a_node_of_onnx_whose_shape_is_forged(run, tmp_path, files):
    content = bytearray((files / "gru.onnx").read_bytes())
    # The first size of W_0 [2, 12, 3]: field 1 of a tensor, a number.
    place = content.index(b"\x08\x02\x08\x0c\x08\x03")
    content[place + 1] = 0x7F
    (tmp_path / "model.onnx").write_bytes(content)
    result = run("inspect", tmp_path / "model.onnx", "--json")
    assert result.code == 1
    assert "must have the bytes of their shape [127, 12, 3]" in result.json["found"][0]["how"]


def test_a_checkpoint_whose_data_is_gone(run, tmp_path, files):
    for path in (files / "checkpoint").iterdir():
        content = path.read_bytes()
        (tmp_path / path.name).write_bytes(content if path.suffix == ".index" else content[:10])
    result = run("inspect", tmp_path / "own")
    assert result.code == 2 and ".data-00000-of-00001, which has 10." in result.err


@pytest.mark.parametrize("seed", range(20))
def test_checkpoints_with_a_few_other_bytes(run, tmp_path, files, seed):
    random = np.random.default_rng(seed)
    for path in (files / "checkpoint").iterdir():
        content = bytearray(path.read_bytes())
        for _ in range(3):
            content[random.integers(len(content))] = random.integers(256)
        (tmp_path / path.name).write_bytes(content)
    assert run("inspect", tmp_path / "own").code in (0, 1, 2)


def test_no_more_is_allocated_for_a_variable_than_is_there(tmp_path):
    path = str(tmp_path / "a")
    tf.train.Checkpoint(x=tf.Variable(tf.zeros([1 << 18]))).write(path)
    (key,) = (key for key in checkpoint.Variables(path) if key.startswith("x/"))
    assert checkpoint.Variables(path)[key].shape == (1 << 18,)
    with open(f"{path}.data-00000-of-00001", "r+b") as file:
        file.truncate(1000)
    with pytest.raises(ValueError, match="must have 1048576 bytes; all files have"):
        checkpoint.Variables(path)[key]


@pytest.mark.parametrize(
    "message, says",
    [
        (b"\x12\x05four", "5 bytes where 4 are left"),
        (b"\x12\xff\xff\xff\xff\x0f", "where 0 are left"),
        (b"\x0d123", "4 bytes where 3 are left"),
        (b"\x08" + b"\xff" * 50, "without an end"),
        (b"\x08\xff", "without an end"),
        (b"\x13", "of kind 3"),
        (b"\x0a\x00" * 400_001, "more than 400000 fields"),
    ],
)
def test_messages_that_are_none(message, says):
    with pytest.raises(wire.Damage, match=says):
        for _ in wire.Fields().of(memoryview(message)):
            pass


def test_fields_of_fixed_size_and_packed_numbers():
    message = b"\x0d" + struct.pack("<f", 1.5) + b"\x11" + bytes(8) + field(3, b"\x01\xac\x02")
    fields = wire.Fields()
    found = dict(fields.of(memoryview(message)))
    assert bytes(found[1]) == struct.pack("<f", 1.5) and len(found[2]) == 8
    assert fields.integers([found[3], 7]) == [1, 300, 7]
    assert wire.signed(2**64 - 1) == -1


def test_saved_models_read_like_tensorflow_reads_them(files):
    from tensorflow.core.protobuf import saved_model_pb2

    path = files / "saved_model" / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    functions = model.meta_graphs[0].graph_def.library.function
    every = [node for function in functions for node in function.node_def]
    every += model.meta_graphs[0].graph_def.node
    ops = frozenset(node.op for node in every)
    found = saved_model.read_nodes(path, ops)
    assert sorted((n.name, n.op) for n in found) == sorted((n.name, n.op) for n in every)


def test_nodes_of_equal_names_in_two_functions(run, tmp_path):
    """Of which one does not run."""
    bad = attribute(b"rnn_mode", 2, b"other")
    functions = b""
    for more in (b"", b"", bad):
        content = field(3, node(b"CudnnRNNV3", more)[2:])
        functions += field(1, content)
    (tmp_path / "saved_model.pb").write_bytes(field(2, field(2, field(2, functions))))
    result = run("inspect", tmp_path, "--json")
    assert result.code == 1
    assert [item["runs"] for item in result.json["found"]] == [True, False]


@pytest.mark.parametrize("rnn_mode, gates", [("lstm", 4), ("gru", 3)])
def test_weights_of_cudnn_layers_alone(run, tmp_path, rnn_mode, gates):
    import h5py

    H, I = 4, 3
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.attrs["layer_names"] = [b"rnn"]
        group = file.create_group("rnn")
        names = [b"rnn/kernel:0", b"rnn/recurrent_kernel:0", b"rnn/bias:0"]
        group.attrs["weight_names"] = names
        for name, shape in zip(
            names, ((I, gates * H), (H, gates * H), (2 * gates * H,)), strict=True
        ):
            group[name.decode()] = np.zeros(shape, np.float32)
    result = run("inspect", path, "--json")
    (found,) = result.json["found"]
    assert result.code == 0 and found["rnn_mode"] == rnn_mode
    words = shlex.split(found["how"])
    assert "--from keras-cudnn" in found["how"] and "load_weights" not in found["how"]
    words[3] = tmp_path / "out.keras"
    converted = run(*words[1:])
    assert converted.code == 0, converted.err


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_layers_that_a_class_makes_in_code(run, tmp_path):
    """The config of a `.keras` file does not name them."""

    @keras.saving.register_keras_serializable("inspect_test")
    class Encoder(keras.layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.rnn = keras.layers.GRU(4)
            self.other = CudnnLSTM(3)

        def build(self, shape):
            self.rnn.build(shape)
            self.other.build(shape)

        def call(self, x):
            return self.rnn(x) + keras.ops.sum(self.other(x))

    x = keras.Input([None, 2])
    y = keras.layers.SimpleRNN(2, return_sequences=True, name="first")(x)
    path = tmp_path / "a.keras"
    keras.Model(x, Encoder(name="enc")(y)).save(path)
    found = run("inspect", path, "--json").json["found"]
    names = ["first", "layers/encoder/rnn", "layers/encoder/other"]
    assert [each["layer"] for each in found] == names
    assert [each["rnn_mode"] for each in found] == ["rnn_tanh", "gru", "lstm"]
    assert "accelerate(keras.saving.load_model(" in found[1]["how"]
    for name in names[1:]:
        assert weights.load(path, layer=name).layout.input_size == 2


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")  # Keras' own
def test_no_layer_is_listed_twice(run, tmp_path):
    """In a model in a wrapper, and of a class of somebody's, which no config tells to be one."""

    @keras.saving.register_keras_serializable("inspect_test")
    class MyGRU(keras.layers.GRU):
        pass

    inner = keras.Sequential([keras.Input([None, 2]), keras.layers.LSTM(3, name="inner")])
    x = keras.Input([4, None, 2])
    y = keras.layers.TimeDistributed(inner)(x)
    path = tmp_path / "a.keras"
    keras.Model(x, MyGRU(5, name="mine")(y)).save(path)
    found = run("inspect", path, "--json").json["found"]
    assert [each["layer"] for each in found] == ["inner", "layers/my_gru"]
    for each in found:
        assert weights.load(path, layer=each["layer"]).layout.num_units == each["num_units"]


@pytest.mark.parametrize("way", ["", "forward_layer/ backward_layer/"])
def test_weights_of_cudnn_layers_alone_as_keras_3_lays_them_out(run, tmp_path, way):
    """What Keras 2 writes into .weights.h5 files. What other layers have is none of it."""
    import h5py

    H, I = 4, 3
    path = tmp_path / "a.weights.h5"
    layers = {"layers/cu_dnnlstm": 8 * H, "layers/other": 4 * H}
    with h5py.File(path, "w") as file:
        for name, size in layers.items():
            for part in way.split(" "):
                for i, shape in enumerate(((I, 4 * H), (H, 4 * H), (size,))):
                    file[f"{name}/{part}vars/{i}"] = np.zeros(shape, np.float32)
        for i, shape in enumerate(((10, 20), (20, 5), (10,))):  # a bias as long, in its way
            file[f"layers/adapter/vars/{i}"] = np.zeros(shape, np.float32)
    result = run("inspect", path, "--json")
    (found,) = result.json["found"]
    assert result.code == 0 and found["kind"] == "CuDNNLSTM or CuDNNGRU"
    assert found["direction"] == ("bidirectional" if way else "unidirectional")
    words = shlex.split(found["how"])
    words[3] = tmp_path / "out.keras"
    converted = run(*words[1:])
    assert converted.code == 0, converted.err


@pytest.mark.parametrize("names", [["own"], ["a-1", "a-2"], ["a", "b", "c", "d", "e"]])
def test_checkpoints_of_a_folder_that_names_none(run, tmp_path, names):
    """`tf.train.Checkpoint.write` names none."""
    for name in names:
        (tmp_path / f"{name}.index").touch()
    result = run("inspect", tmp_path)
    listed = ", ".join(f"{tmp_path}/{name}" for name in names[:4]) + ", ..." * (len(names) > 4)
    assert result.code == 2
    assert result.err == (
        f"tf-cudnn-rnn: {tmp_path} is a folder whose file `checkpoint`, which tells the latest "
        f"one, is missing or names none that is there. Name a checkpoint in it: {listed}.\n"
    )


@pytest.mark.parametrize("name", ["none.index", "none.data-00000-of-00001"])
def test_a_checkpoint_that_is_not_there(run, tmp_path, name):
    result = run("inspect", tmp_path / name)
    assert result.code == 2
    assert result.err == f"tf-cudnn-rnn: {tmp_path}/{name}: No such file or directory.\n"


@pytest.mark.filterwarnings("ignore")  # of what Keras calls in NumPy
@pytest.mark.parametrize(
    "file, other, works",
    [
        ("model.keras", "model.npz", "load_model('model.keras')"),
        ("model.h5", "model.keras", "load_model('model.h5')"),
        ("model.h5", "model", "load_model('model.h5')"),
        ("model.weights.h5", "model.h5", "load_weights('model.weights.h5')"),
    ],
)
def test_calls_that_go_by_the_ending(run, tmp_path, monkeypatch, file, other, works):
    """Keras refuses what has another one, whatever is in it."""
    model = keras.Sequential([keras.Input((3, 2)), keras.layers.LSTM(4)])
    monkeypatch.chdir(tmp_path)
    if file.endswith(".weights.h5"):
        model.save_weights(file)
    else:
        model.save(file)
    (usual,) = run("inspect", file, "--json").json["found"]
    assert works in usual["how"] and "rename" not in usual["how"]
    os.rename(file, other)
    (found,) = run("inspect", other, "--json").json["found"]
    assert found["runs"]
    assert found["how"] == f"rename it to {file}, as Keras goes by the ending, then {usual['how']}"


def test_an_op_of_both_directions(run, files):
    found = run("inspect", files / "drop_ins", "--json").json["found"]
    [both] = [item for item in found if item["direction"] == BOTH]
    assert (both["num_units"], both["input_size"], both["parameters"]) == (4, 3, 256)
