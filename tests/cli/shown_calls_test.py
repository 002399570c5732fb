"""What `inspect` shows works as it stands, and what `convert` says names what was given."""

import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

import h5py
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from tests.cli import main_test
from tests.cli.conftest import canonical_of
from tf_cudnn_rnn import weights


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def found_in(run, path: str, key: str = "found"):
    return run("inspect", path, "--json").json[key]


def converts(run, how: str) -> None:
    program, *arguments = shlex.split(how)
    assert program == "tf-cudnn-rnn", how
    result = run(*arguments, "--force")
    assert result.code == 0, result.err


def imports(how: str) -> None:
    """The call fails at nothing before the file."""
    code = f"try:\n    {how.replace('; ', chr(10) + '    ')}\nexcept (OSError, ValueError): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


# ------------------------------------------------------------------------------------
# Calls
# ------------------------------------------------------------------------------------


def test_calls_import_what_they_name(run, files):
    hows = {
        found["how"]
        for name in ("saved_model", "model.keras", "own.keras", "cudnn.h5")
        for found in found_in(run, str(files / name))
        if found["how"].startswith("import ")
    }
    assert len(hows) >= 3
    for how in hows:
        imports(how)


def test_a_folder_whose_name_ends_as_the_graph_does(run, files):
    os.symlink(files / "saved_model", "my_saved_model.pb")
    for path, folder in (
        ("my_saved_model.pb", "my_saved_model.pb"),
        ("my_saved_model.pb/saved_model.pb", "my_saved_model.pb"),
    ):
        (found, *_) = found_in(run, path)
        assert found["how"].endswith(f"tf.saved_model.load({folder!r})")


KERAS_2 = """
import tf_keras
layers = tf_keras.layers
model = tf_keras.Sequential([
    tf_keras.Input([None, 3]),
    layers.Bidirectional(layers.LSTM(4, return_sequences=True), name="both"),
    layers.SimpleRNN(2, activation="relu", name="simple"),
])
model.save("whole.h5")
model.save_weights("w.h5")
"""


@pytest.fixture
def keras_2():
    pytest.importorskip("tf_keras")
    subprocess.run([sys.executable, "-c", KERAS_2], check=True, capture_output=True, timeout=300)


def test_layers_of_keras_2_that_no_keras_3_takes(run, keras_2):
    """Their configs have a time_major."""
    every = found_in(run, "whole.h5")
    assert [found["rnn_mode"] for found in every] == ["lstm", "rnn_relu"]
    for found in every:
        converts(run, found["how"])


def test_weights_of_keras_2_that_are_named_as_those_of_keras_3(run, keras_2):
    os.rename("w.h5", "w.weights.h5")
    for found in found_in(run, "w.weights.h5"):
        assert found["how"].startswith("rename it to w.h5, as Keras goes by the ending, then model")


# ------------------------------------------------------------------------------------
# Commands
# ------------------------------------------------------------------------------------


def test_bfloat16_that_no_npz_keeps(run):
    canonical = canonical_of("lstm", num_proj=2)
    named = {name: array.astype(ml_dtypes.bfloat16) for name, array in canonical.named.items()}
    state = weights.to_torch(weights.Canonical(canonical.layout, named)).arrays
    weights.write_safetensors("a.safetensors", state)
    (found,) = found_in(run, "a.safetensors")
    converts(run, found["how"])


def test_bfloat16_in_a_checkpoint(run):
    import tf_cudnn_rnn.keras

    layer = tf_cudnn_rnn.keras.CudnnLSTM(4, dtype="bfloat16")
    layer.build([None, 5, 3])
    tf.train.Checkpoint(layer=layer).write("a")
    (found,) = found_in(run, "a")
    converts(run, found["how"])


def test_a_network_without_a_prefix_beside_another(run):
    state = weights.to_torch(canonical_of("gru")).arrays
    state |= weights.to_torch(canonical_of("lstm"), prefix="b.").arrays
    weights.write_safetensors("a.safetensors", state)
    every = found_in(run, "a.safetensors")
    assert len(every) == 2
    for found in every:
        converts(run, found["how"])


def test_networks_without_a_scope_beside_others(run):
    every = weights.to_tf1_cudnn(canonical_of("gru")).arrays
    every |= weights.to_tf1_cudnn(canonical_of("lstm"), scope="b").arrays
    np.savez("a.npz", **every)
    for found in found_in(run, "a.npz"):
        converts(run, found["how"])
    read = weights.load("a.npz", format="tf1-cudnn", scope="")
    assert read.layout.rnn_mode == "gru"


def test_vectors_without_a_scope_beside_others(run):
    canonical, other = canonical_of("lstm"), canonical_of("gru")
    every = weights.to_tf1_cudnn(canonical, opaque=True).arrays
    every |= weights.to_tf1_cudnn(other, scope="b", opaque=True).arrays
    np.savez("a.npz", **every)
    for found, mode in zip(found_in(run, "a.npz"), ("gru", "lstm"), strict=True):
        how = found["how"].replace("MODE", mode).replace("L ", "1 ").replace("H ", "4 ")
        converts(run, how.replace("--input-size I", "--input-size 3"))
    read = weights.from_tf1_cudnn(every, "lstm", scope="", layout=canonical.layout)
    np.testing.assert_array_equal(read.params, canonical.params)


def test_a_vector_beside_a_network_needs_its_scope(run):
    every = weights.to_tf1_cudnn(canonical_of("lstm"), scope="a").arrays
    every |= weights.to_tf1_cudnn(canonical_of("gru"), scope="b", opaque=True).arrays
    np.savez("a.npz", **every)
    (vector,) = (found for found in found_in(run, "a.npz") if found["name"] == "b/opaque_kernel")
    assert "--scope b" in vector["how"]


@pytest.mark.parametrize("name", ["-n", "a b", "$(x)", "a'b"])
def test_names_of_layers_are_quoted(run, name):
    with h5py.File("a.h5", "w") as file:
        file.attrs["layer_names"] = [name.encode(), b"other"]
        for layer in (name, "other"):
            group = file.create_group(layer)
            keys = ["kernel:0", "recurrent_kernel:0", "bias:0"]
            group.attrs["weight_names"] = [key.encode() for key in keys]
            for key, shape in zip(keys, ([3, 16], [4, 16], [16]), strict=True):
                group[key] = np.ones(shape, np.float32)
    (line, _) = [line for line in run("inspect", "a.h5").out.splitlines() if "alone: " in line]
    words = shlex.split(line.partition("alone: ")[2])
    result = run("convert", "a.h5", "a.npz", "--to=params", *words)
    assert result.code == 0, result.err


# ------------------------------------------------------------------------------------
# Errors
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target, options, rule",
    [
        ("b.safetensors", ("--to=torch", "--to-prefix=a"), "--to-prefix must end with a dot"),
        ("b.safetensors", ("--to=torch", "--without-bias"), "--without-bias must be left out"),
        ("b.keras", ("--to=keras", "--without-bias"), "--without-bias must be left out"),
    ],
)
def test_errors_name_the_options_that_were_given(run, files, target, options, rule):
    result = run("convert", files / "gru.safetensors", target, *options)
    assert result.code == 2 and rule in result.err
    assert "`" not in result.err
    assert not os.path.exists(target)


WITHOUT = """
import sys
sys.argv[0] = "tf-cudnn-rnn"
sys.modules[sys.argv.pop(1)] = None
from tf_cudnn_rnn._cli import main
sys.exit(main.main(sys.argv[1:]))
"""


def convert_to_keras(files, missing: str, **variables: str):
    arguments = ["convert", str(files / "gru.safetensors"), "a.keras", "--to=keras"]
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, missing, *arguments],
        env={**os.environ, "PYTHONPATH": main_test.PACKAGES, **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_keras_says_what_is_missing(files):
    done = convert_to_keras(files, "tensorflow", KERAS_BACKEND="")
    assert done.returncode == 1
    assert "with the backend tensorflow: " in done.stderr and "not installed" not in done.stderr
    assert "KERAS_BACKEND" in done.stderr


def test_keras_takes_the_backend_that_its_own_file_names(files, tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "numpy"}')
    done = convert_to_keras(files, "tensorflow", KERAS_BACKEND="", KERAS_HOME=str(tmp_path))
    # It needs SciPy, which may be missing.
    assert done.returncode == 0 or "with the backend numpy: " in done.stderr, done.stderr


# Waits while a file is unpacked.
SLOW = """
import sys, time
sys.argv[0] = "tf-cudnn-rnn"
from tf_cudnn_rnn._cli import main
from tf_cudnn_rnn._formats import hdf5

def ask(*arguments, **options):
    print("reading", flush=True)
    time.sleep(600)

hdf5.ask = ask
sys.exit(main.main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", [("inspect",), ("convert", "a.npz", "--to=params")])
def test_signals_leave_nothing_of_what_is_unpacked(files, tmp_path, command):
    name, *rest = command
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, name, str(files / "model.keras"), *rest],
        env={
            **os.environ,
            "PYTHONPATH": main_test.PACKAGES,
            "TMPDIR": str(tmp_path),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout.readline() == b"reading\n", process.communicate()
        time.sleep(0.1)
        assert list(pathlib.Path(tmp_path).iterdir())
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (143, b"")
    assert not list(pathlib.Path(tmp_path).iterdir())
