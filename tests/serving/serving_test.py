"""examples/serving: builds the C program as docs/serving.md says, and runs SavedModels with it."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
import tf_cudnn_rnn.keras
from tests.helpers import running, subprocesses
from tests.keras import pairs
from tests.reference import cases, judge

ROOT = pathlib.Path(__file__).parents[2]
SOURCES = ROOT / "examples" / "serving"
DOC = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
OPS = tf_cudnn_rnn.library_path()

CONFIG = judge.Config("lstm", 2, 5, 3, "bidirectional")
CASE = cases.random_case(np.random.default_rng(1), CONFIG, 6, 4, [6, 2, 0, 5]).astype(np.float32)
RAW_INPUTS = {"x": CASE.x, "h0": CASE.h0, "c0": CASE.c0, "lengths": CASE.sequence_lengths}

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")


# ------------------------------------------------------------------------------------
# The program
# ------------------------------------------------------------------------------------


CHECKS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
# Links some seconds faster than the default.
LINKER = ["-fuse-ld=gold"] if shutil.which("ld.gold") else []


def build(folder: pathlib.Path, *flags: str) -> pathlib.Path:
    """Runs the documented command, which leaves `serve` in `folder`."""
    (command,) = re.findall(r"^```sh\n(gcc .*?)^```", DOC, re.DOTALL | re.MULTILINE)
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    result = subprocess.run(
        ["sh", "-c", " ".join([command.rstrip("\n"), *flags])],
        cwd=folder,
        env={**os.environ, "TF": tf.sysconfig.get_lib()},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0 and not result.stderr, result.stderr
    return folder / "serve"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return build(tmp_path_factory.mktemp("plain") / "build", "-Wextra", "-Werror", *LINKER)


@pytest.fixture(scope="module")
def checked_program(tmp_path_factory):
    """The same with the compiler's checks of memory, leaks among them, and of arithmetic."""
    return build(tmp_path_factory.mktemp("checked") / "build", *CHECKS, *LINKER)


def run(program, *arguments, stdin=None) -> subprocess.CompletedProcess:
    return subprocess.run(
        [program, *arguments],
        stdin=stdin,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=1200,
    )


def save_inputs(folder: pathlib.Path, inputs: dict) -> list[str]:
    """Writes .npy files; returns the program's arguments for them."""
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
    return [f"{name}={folder / name}.npy" for name in inputs]


def outputs_of(program, folder: pathlib.Path, *arguments, stdin=None) -> dict:
    """The arrays that the program writes."""
    (folder / "results").mkdir()
    result = run(program, "-o", folder / "results", *arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr
    assert not result.stdout
    return {path.stem: np.load(path) for path in (folder / "results").iterdir()}


def assert_fails(result, *messages: str, code=1) -> None:
    """Checks for one message of the program, which holds all these, and nothing else."""
    assert result.returncode == code, result.stderr
    assert not result.stdout
    before, *reported = result.stderr.split("serve: ")
    assert len(reported) == 1, result.stderr
    assert "Sanitizer" not in result.stderr and "runtime error" not in result.stderr
    for message in messages:
        assert message in reported[0]


def assert_documented(output: str) -> None:
    """Checks for a message that the last table of docs/serving.md has; ... stands for anything."""
    rows = re.findall(r"^\| (`[^|]+) \|", DOC.partition("## When it fails")[2], re.MULTILINE)
    messages = [message for row in rows for message in re.findall("`([^`]+)`", row)]
    assert len(messages) > 5
    # Sizes differ from case to case.
    patterns = [re.sub(r"\d+", r"\\d+", re.escape(m).replace(r"\.\.\.", ".*")) for m in messages]
    assert any(re.search(pattern, output) for pattern in patterns), output


# ------------------------------------------------------------------------------------
# The models
# ------------------------------------------------------------------------------------


class Raw(tf.Module):
    """The ops by hand, own or built-in ones."""

    def __init__(self, op: str):
        super().__init__()
        self._op = op
        self.params = tf.Variable(CASE.params)

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, CONFIG.input_size]),
            tf.TensorSpec([None, None, CONFIG.num_units]),
            tf.TensorSpec([None, None, CONFIG.num_units]),
            tf.TensorSpec([None], tf.int32),
        ]
    )
    def predict(self, x, h0, c0, lengths):
        y, h, c, *_ = running.call(
            self._op, CASE, x, h0, c0, self.params, lengths, is_training=True
        )
        return {"y": y, "h_n": h, "c_n": c}

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.float64),
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([], tf.int32),
            tf.TensorSpec([None, None], tf.bool),
        ]
    )
    def echo(self, double, long, scalar, boolean):
        return {"double": double, "long": long, "scalar": scalar, "boolean": boolean}

    @tf.function(input_signature=[tf.TensorSpec([None])])
    def to_half(self, x):
        return {"half": tf.cast(x, tf.float16)}


def keras_model():
    import keras

    inputs = keras.Input([None, pairs.I], name="x")
    y = keras.layers.Masking()(inputs)
    y = keras.layers.Bidirectional(tf_cudnn_rnn.keras.LSTM(4, return_sequences=True))(y)
    model = keras.Model(inputs, tf_cudnn_rnn.keras.GRU(3)(y))
    pairs.randomise(model)
    return model


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The folder of the SavedModels."""
    folder = tmp_path_factory.mktemp("models")
    for name, op in {"own": running.OWN_V3, "builtin": running.V3}.items():
        model = Raw(op)
        signatures = {
            "serving_default": model.predict,
            "echo": model.echo,
            "to_half": model.to_half,
        }
        tf.saved_model.save(model, str(folder / name), signatures=signatures)
    keras_model().export(folder / "keras", verbose=False)
    return folder


def python_outputs(folder, inputs: dict, signature="serving_default") -> dict:
    model = tf.saved_model.load(str(folder))
    tensors = {name: tf.constant(array) for name, array in inputs.items()}
    return {name: t.numpy() for name, t in model.signatures[signature](**tensors).items()}


def assert_equal_arrays(actual: dict, expected: dict) -> None:
    assert actual.keys() == expected.keys()
    for name, array in actual.items():
        assert array.dtype == expected[name].dtype, name
        np.testing.assert_array_equal(array, expected[name], err_msg=name, strict=True)


# ------------------------------------------------------------------------------------
# What it computes
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["-c"]], ids=["", "in the calling thread"])
@pytest.mark.parametrize("name", ["own", "builtin"])
def test_ops(name, options, program, models, tmp_path):
    arguments = [*options, models / name, *save_inputs(tmp_path, RAW_INPUTS)]
    actual = outputs_of(program, tmp_path, "-l", OPS, *arguments)
    assert_equal_arrays(actual, python_outputs(models / name, RAW_INPUTS))
    running.assert_judged(actual, CASE, name)


def test_keras_model_with_masks(program, models, tmp_path):
    x = np.where(pairs.MASK[..., None], pairs.inputs("float32"), np.float32(0))
    np.save(tmp_path / "x.npy", x)
    with open(tmp_path / "x.npy", "rb") as stdin:
        arguments = ("-l", OPS, models / "keras", "x=/dev/stdin")
        actual = outputs_of(program, tmp_path, *arguments, stdin=stdin)
    assert_equal_arrays(actual, python_outputs(models / "keras", {"x": x}))


def test_every_type_goes_in_and_out(program, models, tmp_path):
    inputs = {
        "double": np.array([1 / 3, -np.pi, 1e300, np.inf]),
        "long": np.array([2**62, -1]),
        "scalar": np.array(-7, np.int32),
        "boolean": np.array([[True, False, True], [False, False, True]]),
    }
    arguments = save_inputs(tmp_path, inputs)
    actual = outputs_of(program, tmp_path, "-l", OPS, "-s", "echo", models / "own", *arguments)
    assert_equal_arrays(actual, inputs)

    # As text: a line for the name, type and shape, then one for each row.
    result = run(program, "-l", OPS, "-s", "echo", models / "own", *arguments)
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    for expected in (
        ["double float64 [4]", f"{1 / 3:.17g} {-np.pi:.17g} {1e300:.17g} inf"],
        ["long int64 [2]", f"{2**62} -1"],
        ["scalar int32 []", "-7"],
        ["boolean bool [2, 3]", "true false true", "false false true"],
    ):
        at = lines.index(expected[0])
        assert lines[at : at + len(expected)] == expected
        del lines[at : at + len(expected)]
    assert not lines


def test_text_tells_all_bits_of_a_float(program, models, tmp_path):
    result = run(program, "-l", OPS, models / "own", *save_inputs(tmp_path, RAW_INPUTS))
    expected = python_outputs(models / "own", RAW_INPUTS)
    shapes = re.findall(r"^(\w+) float32 \[([\d, ]+)\]\n((?:[^a-z]+\n)+)", result.stdout, re.M)
    assert sorted(name for name, _, _ in shapes) == sorted(expected)
    for name, shape, values in shapes:
        assert [int(size) for size in shape.split(", ")] == list(expected[name].shape)
        actual = np.array(values.split(), np.float32).reshape(expected[name].shape)
        np.testing.assert_array_equal(actual, expected[name])


def test_a_batch_of_0(program, models, tmp_path):
    inputs = {name: array[:, :0] for name, array in RAW_INPUTS.items() if name != "lengths"}
    inputs["lengths"] = np.zeros([0], np.int32)
    arguments = save_inputs(tmp_path, inputs)
    actual = outputs_of(program, tmp_path, "-l", OPS, models / "own", *arguments)
    assert actual["y"].shape == (6, 0, 10)


def test_under_the_checks_of_memory_and_arithmetic(checked_program, models, tmp_path):
    arguments = save_inputs(tmp_path, RAW_INPUTS)
    (tmp_path / "results").mkdir()
    options = ("-l", OPS, "-n", "3", "-c", "-o", tmp_path / "results")
    result = run(checked_program, *options, models / "own", *arguments)
    assert result.returncode == 0, result.stderr
    calls = [line for line in result.stderr.splitlines() if re.match(r"call \d: [\d.]+ ms$", line)]
    assert [line[:7] for line in calls] == ["call 1:", "call 2:", "call 3:"]
    expected = python_outputs(models / "own", RAW_INPUTS)
    for name, array in expected.items():
        np.testing.assert_array_equal(np.load(tmp_path / "results" / f"{name}.npy"), array)


# ------------------------------------------------------------------------------------
# What it refuses
# ------------------------------------------------------------------------------------


def test_a_library_that_does_not_exist(program, models):
    result = run(program, "-l", "/nowhere/ops.so", models / "own")
    assert_fails(result, "cannot load the library /nowhere/ops.so: ", "No such file")


def test_where_the_library_is_needs_no_tensorflow():
    code = "import sys; sys.modules['tensorflow'] = None\nimport tf_cudnn_rnn"
    assert subprocesses.run_code(f"{code}\nprint(tf_cudnn_rnn.library_path())") == f"{OPS}\n"
    assert pathlib.Path(OPS).is_absolute() and pathlib.Path(OPS).is_file()


def test_a_process_without_tensorflow():
    code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    result = subprocess.run([sys.executable, "-c", code, OPS], capture_output=True, text=True)
    assert result.returncode != 0
    assert_documented(result.stderr)


def test_own_ops_without_the_library(program, models, tmp_path):
    result = run(program, models / "own", *save_inputs(tmp_path, RAW_INPUTS))
    message = "Op type not registered 'TfCudnnRnn>CudnnRNNV3'"
    assert_fails(result, f"cannot load the SavedModel {models / 'own'}: {message}")
    assert_documented(result.stderr)


def test_builtin_ops_without_the_library(program, models, tmp_path):
    result = run(program, models / "builtin", *save_inputs(tmp_path, RAW_INPUTS))
    assert_fails(result, "the call failed: No OpKernel was registered to support Op 'CudnnRNNV3'")
    assert_documented(result.stderr)


def test_a_wrong_folder(program, models):
    result = run(program, models / "nothing")
    assert_fails(result, f"cannot load the SavedModel {models / 'nothing'}: Could not find Saved")
    assert_documented(result.stderr)


def test_a_wrong_signature(program, models):
    result = run(program, "-l", OPS, "-s", "predict", models / "own")
    listed = ["  serving_default\n", "  echo\n", "  to_half\n"]
    assert_fails(result, "the SavedModel has no signature 'predict'; it has:\n", *listed)


@pytest.mark.parametrize("checked", [False, True])
def test_a_wrong_input(checked, models, tmp_path, request):
    program = request.getfixturevalue("checked_program" if checked else "program")
    arguments = save_inputs(tmp_path, {"x": CASE.x, "h": CASE.h0})
    listed = ["  x (float32)\n", "  h0 (float32)\n", "  c0 (float32)\n", "  lengths (int32)\n"]
    assert_fails(
        run(program, "-l", OPS, models / "own", *arguments),
        "the signature has no input 'h'; it has:\n",
        *listed,
    )


def test_inputs_that_do_not_fit(program, models, tmp_path):
    *arguments, lengths = save_inputs(tmp_path, RAW_INPUTS)
    model = ("-l", OPS, models / "own")
    result = run(program, *model, *arguments)
    assert_fails(result, "the input 'lengths' (int32) must be given")
    result = run(program, *model, *arguments, arguments[0], lengths)
    assert_fails(result, "the input 'x' must be given once")
    result = run(program, *model, *arguments, "lengths")
    assert_fails(result, "an input must be NAME=FILE.npy; got lengths")
    np.save(tmp_path / "lengths.npy", CASE.sequence_lengths.astype(np.int64))
    result = run(program, *model, *arguments, lengths)
    assert_fails(result, "the input 'lengths' must be int32; ", "lengths.npy holds int64")


def test_what_the_op_refuses(checked_program, models, tmp_path):
    arguments = save_inputs(tmp_path, {**RAW_INPUTS, "lengths": np.array([6, 7, 0, 5], np.int32)})
    result = run(checked_program, "-l", OPS, models / "own", *arguments)
    assert_fails(
        result, "the call failed: ", "sequence_lengths[1] must be in [0, T] = [0, 6], got 7"
    )
    assert_documented(result.stderr)


def test_outputs_that_cannot_be_written(program, models, tmp_path):
    arguments = save_inputs(tmp_path, RAW_INPUTS)
    result = run(program, "-l", OPS, "-o", tmp_path / "none/below", models / "own", *arguments)
    assert_fails(
        result, f"cannot make the folder {tmp_path}/none/below", "No such file or directory"
    )
    (tmp_path / "file").touch()
    result = run(program, "-l", OPS, "-o", tmp_path / "file", models / "own", *arguments)
    assert_fails(result, f"cannot write {tmp_path}/file/", "Not a directory")
    result = run(program, "-l", OPS, "-o", tmp_path / "new", models / "own", *arguments)
    assert result.returncode == 0 and list((tmp_path / "new").glob("*.npy"))
    arguments = save_inputs(tmp_path, {"x": np.ones([2], np.float32)})
    result = run(program, "-l", OPS, "-s", "to_half", models / "own", *arguments)
    assert result.returncode == 1
    assert "must be float32, float64, int32, int64 or bool" in result.stderr


def _npy(header: str, values: bytes = b"", version=1) -> bytes:
    return b"\x93NUMPY" + bytes([version, 0, len(header), 0]) + header.encode() + values


FILES = {
    "text": (b"1.0, 2.0\n", "must be a .npy file, version 1.0"),
    "empty": (b"", "must be a .npy file, version 1.0"),
    "version": (_npy("{}", version=2), "must be a .npy file, version 1.0"),
    "cut": (_npy("{'descr': '<f4'}")[:20], "ends within its header"),
    "no keys": (_npy("{}"), "must hold float32, float64, int32, int64 or bool; its header is {}"),
    "type": (
        _npy("{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }\n", bytes(4)),
        "must hold float32, float64, int32, int64 or bool; its header is {'descr': '>f4'",
    ),
    "order": (
        _npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1, 1), }\n", bytes(4)),
        "must be in C order",
    ),
    "negative": (
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }\n", bytes(4)),
        "must have a shape of at most 8 dimensions; its header is {'descr'",
    ),
    "no end": (
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,"),
        "must have a shape of at most 8 dimensions; its header is {'descr'",
    ),
    "rank": (
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,1), }\n"),
        "must have a shape of at most 8 dimensions; its header is {'descr'",
    ),
    "overflow": (
        _npy(f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({2**62}, 9), }}\n"),
        "needs more memory than there is",
    ),
    "less": (
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", bytes(7)),
        "must hold 8 bytes of values after its header; it holds less",
    ),
    "more": (
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", bytes(9)),
        "must hold 8 bytes of values after its header; it holds more",
    ),
    "rank 8": (
        _npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1), }\n", bytes(4)),
        None,
    ),
}


def test_files_that_are_no_arrays(tmp_path):
    """Reads them all with npy.c alone, under the compiler's checks."""
    for name, (content, _) in FILES.items():
        (tmp_path / name).write_bytes(content)
    source = """
        #include "npy.h"
        int main(int argc, char** argv) {
          for (int i = 1; i < argc; ++i) TF_DeleteTensor(ReadNpy(argv[i]));
        }"""
    tensorflow = tf.sysconfig.get_lib()
    inputs = [SOURCES / "npy.c", SOURCES / "fail.c", "-xc", "-"]
    headers = ["-I", SOURCES, "-isystem", f"{tensorflow}/include"]
    libraries = ["-L", tensorflow, "-l:libtensorflow_framework.so.2", f"-Wl,-rpath,{tensorflow}"]
    subprocess.run(
        ["gcc", *CHECKS, *headers, *inputs, *libraries, "-o", tmp_path / "read"],
        input=source,
        text=True,
        check=True,
    )
    # Many times, with few files open: none may stay so.
    few_files = ("sh", "-c", 'ulimit -n 40; exec "$0" "$@"', tmp_path / "read")
    result = run(*few_files, *[tmp_path / name for name in FILES] * 9)
    assert result.returncode == 0, result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("serve: ")]
    expected = [(name, message) for name, (_, message) in FILES.items() if message] * 9
    for line, (name, message) in zip(lines, expected, strict=True):
        assert line.startswith(f"serve: {tmp_path / name} {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "a SAVED_MODEL must be given"),
        (["-n", "0", "model"], "-n must be a positive number; got 0"),
        (["-n", "3x", "model"], "-n must be a positive number; got 3x"),
    ],
)
def test_usage(arguments, message, program):
    assert_fails(run(program, *arguments), message, "usage: serve [OPTION]", code=2)


def test_an_unknown_option(program):
    result = run(program, "-z")
    assert result.returncode == 2
    assert "invalid option" in result.stderr and "usage: serve [OPTION]" in result.stderr
