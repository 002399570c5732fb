"""The program: help, errors, exit codes, and how it starts."""

import os
import subprocess
import sys

import numpy as np
import pytest

import tf_cudnn_rnn
from tests.helpers import subprocesses
from tf_cudnn_rnn import _program
from tf_cudnn_rnn._cli import info

PACKAGES = os.path.dirname(os.path.dirname(tf_cudnn_rnn.__file__))
COMMANDS = ("info", "inspect", "convert", "bench")
# Stands for a TensorFlow that must not be imported.
FORBIDDEN = "raise SystemExit('TensorFlow was imported')"


def start(tmp_path, *arguments, tensorflow=FORBIDDEN, **options):
    (tmp_path / "tensorflow.py").write_text(tensorflow)
    path = os.pathsep.join([str(tmp_path), PACKAGES])
    return subprocess.run(
        [sys.executable, "-m", "tf_cudnn_rnn", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        **options,
    )


def test_help_comes_without_tensorflow(tmp_path):
    result = start(tmp_path, "--help")
    assert result.returncode == 0, result.stderr
    assert all(command in result.stdout for command in COMMANDS)
    assert "exit codes:" in result.stdout


def test_a_file_is_inspected_without_tensorflow(tmp_path, files):
    result = start(tmp_path, "inspect", files / "gru.safetensors")
    assert result.returncode == 0, result.stderr
    assert "gru, 2 layers" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_fits_a_terminal(run, command):
    result = run(command, "--help")
    assert result.code == 0 and not result.err
    assert f"tf-cudnn-rnn {command}" in result.out.partition("examples:")[2]
    assert max(map(len, result.out.splitlines())) <= 80


def test_version(run):
    assert run("--version").out == f"tf_cudnn_rnn {tf_cudnn_rnn.__version__}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("no-such-command",),
        ("inspect",),
        ("info", "--no-such-option"),
        ("convert", "a"),
        ("convert", "a", "b", "--to", "pickle"),
        ("convert", "a", "b.npz", "--to", "params", "--layers", "0"),
        ("bench", "--units", "many"),
        ("bench", "--seconds", "nan"),
        ("bench", "--mode", "transformer"),
    ],
)
def test_wrong_use(run, arguments):
    result = run(*arguments)
    assert result.code == 2 and not result.out
    command = arguments[0] if arguments and arguments[0] in COMMANDS else ""
    help_command = " ".join(filter(None, ["tf-cudnn-rnn", command, "--help"]))
    assert result.err.endswith(f". See `{help_command}`.\n")


@pytest.mark.parametrize("command", [("bench",), ("convert", "a", "b", "--to", "params")])
@pytest.mark.parametrize("value", ["0", "-1", "many", "2147483648"])
def test_sizes_say_their_range(run, command, value):
    result = run(*command, "--units", value)
    rule = f"argument --units: must be a whole number from 1 to 2147483647; got {value}"
    assert result.code == 2 and rule in result.err


@pytest.mark.parametrize(
    "error, code",
    [(KeyboardInterrupt(), 130), (MemoryError(), 2), (ImportError("It is missing."), 1)],
)
def test_errors_become_exit_codes(run, monkeypatch, error, code):
    def fail(options):
        raise error

    monkeypatch.setattr(info, "run", fail)
    assert run("info").code == code


@pytest.mark.parametrize("arguments", [("--help",), ("inspect", "gru.safetensors")])
def test_a_closed_pipe_is_quiet(tmp_path, files, arguments):
    read, write = os.pipe()
    os.close(read)
    (tmp_path / "tensorflow.py").write_text(FORBIDDEN)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), PACKAGES])}
    environment.pop("PYTHONUNBUFFERED", None)  # argparse would hide the error
    try:
        result = subprocess.run(
            [sys.executable, "-m", "tf_cudnn_rnn", *arguments],
            env=environment,
            cwd=files,
            stdout=write,
            stderr=subprocess.PIPE,
            check=False,
        )
    finally:
        os.close(write)
    assert (result.returncode, result.stderr) == (141, b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams(tmp_path, files, closed):
    """What is opened next would take their numbers, and what C writes there would go into it."""
    target = tmp_path / "new.npz"
    command = f'"$@" --to params {closed}'
    convert = ["-m", "tf_cudnn_rnn", "convert", files / "gru.safetensors", target]
    (tmp_path / "tensorflow.py").write_text(FORBIDDEN)
    result = subprocess.run(
        ["sh", "-c", command, "sh", sys.executable, *convert],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), PACKAGES])},
        capture_output=True,
        check=False,
    )
    assert result.returncode == 0 and b"Error" not in result.stderr
    assert set(np.load(target)) == {"params", "header"}


def test_closed_streams_are_not_for_other_files():
    code = (
        "import os, sys; from tf_cudnn_rnn._cli import main; os.close(0); os.close(2); "
        "main.main(['--version']); print(os.open(os.devnull, os.O_RDONLY) > 2)"
    )
    assert subprocesses.run_code(code, {"PYTHONPATH": PACKAGES}).endswith("\nTrue\n")


@pytest.mark.parametrize("command", [("info",), ("inspect", "gru.safetensors")])
def test_lines_fit_a_narrow_terminal(run, files, monkeypatch, command):
    monkeypatch.chdir(files)
    monkeypatch.setenv("COLUMNS", "60")
    lines = run(*command).out.splitlines()
    # Names without spaces, such as paths, are not broken, and commands neither.
    lines = [line for line in lines if "its weights: tf-cudnn-rnn convert" not in line]
    assert all(len(line) <= 60 or len(line.split()) <= 2 for line in lines), lines


@pytest.mark.parametrize("arguments", [("inspect", "missing"), ("no-such-command",)])
def test_the_exit_code_tells_where_stderr_is_full(tmp_path, arguments):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tf_cudnn_rnn", *arguments],
            env={**os.environ, "PYTHONPATH": PACKAGES},
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=full,
            check=False,
        )
    assert (result.returncode, result.stdout) == (2, b"")


def test_a_full_stdout_is_named(tmp_path):
    with open("/dev/full", "wb") as full:
        result = subprocess.run(
            [sys.executable, "-m", "tf_cudnn_rnn", "inspect", "--help"],
            env={**os.environ, "PYTHONPATH": PACKAGES, "PYTHONUNBUFFERED": ""},
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == "tf-cudnn-rnn: standard output: No space left on device.\n"


@pytest.mark.parametrize("command", ["inspect", "bench"])
def test_a_path_without_a_letter(run, command):
    assert run(command, "").err == "tf-cudnn-rnn: '': No such file or directory.\n"


def test_names_of_any_bytes(tmp_path):
    (tmp_path / "tensorflow.py").write_text(FORBIDDEN)
    result = subprocess.run(
        [sys.executable, "-m", "tf_cudnn_rnn", "inspect", b"n\xff\xc3\xb6.keras"],
        env={**os.environ, "PYTHONPATH": str(PACKAGES), "PYTHONIOENCODING": "ascii"},
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert result.returncode == 2
    assert result.stderr.startswith(b"tf-cudnn-rnn: n") and result.stderr.count(b"\n") == 1
    assert b"No such file" in result.stderr


@pytest.mark.parametrize(
    "argv, orig_argv, expected",
    [
        (["/usr/bin/tf-cudnn-rnn", "info"], ["python", "/usr/bin/tf-cudnn-rnn", "info"], True),
        (["-m", "info"], ["python", "-m", "tf_cudnn_rnn", "info"], True),
        (["-m", "info"], ["python", "-X", "dev", "-mtf_cudnn_rnn", "info"], True),
        (["-m"], ["python", "-m", "pytest", "tf_cudnn_rnn"], False),
        # A module whose package imports this one, while Python looks for it.
        (["-m"], ["python", "-m", "examples.train", "-m", "tf_cudnn_rnn"], False),
        (["train.py", "tf-cudnn-rnn"], ["python", "train.py", "tf-cudnn-rnn"], False),
        ([""], ["python"], False),
        ([], ["python"], False),
    ],
)
def test_who_starts_the_command_line(monkeypatch, argv, orig_argv, expected):
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(sys, "orig_argv", orig_argv)
    assert _program.is_command_line() is expected


def test_exceptions_of_others_are_a_sentence(run, monkeypatch):
    def fail():
        raise LookupError("a layer\nof a model")

    monkeypatch.setattr(info, "collect", fail)
    result = run("info", of_others=True)
    assert result.code == 1
    assert result.err == "tf-cudnn-rnn: LookupError: a layer of a model\n"


def test_a_broken_tensorflow_when_a_checkpoint_is_read(tmp_path):
    (tmp_path / "a.index").touch()
    broken = "raise RuntimeError('It is broken.')"
    result = start(tmp_path, "inspect", tmp_path / "a", tensorflow=broken)
    assert result.returncode == 1
    assert result.stderr == "tf-cudnn-rnn: RuntimeError: It is broken.\n"


def test_ctrl_c_while_it_imports(tmp_path):
    """Where nobody catches it, an exception would be a traceback."""
    (tmp_path / "numpy.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)"
    )
    result = start(tmp_path, "--help")
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


def test_ctrl_c_that_the_caller_ignores():
    """As a shell's background jobs do."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv[0] = "
        "'tf-cudnn-rnn'; import tf_cudnn_rnn; from tf_cudnn_rnn import _program; "
        "_program.catch_interrupts(); print(signal.getsignal(signal.SIGINT).name)"
    )
    assert subprocesses.run_code(code, {"PYTHONPATH": PACKAGES}) == "SIG_IGN\n"


def test_functions_of_the_package_in_the_command_line():
    code = (
        "import sys; sys.argv[0] = 'tf-cudnn-rnn'; import tf_cudnn_rnn as t; "
        "assert 'tensorflow' not in sys.modules; "
        "print(t.params_to_canonical.__name__, t.canonical_to_params.__name__)"
    )
    printed = subprocesses.run_code(code, {"PYTHONPATH": PACKAGES})
    assert printed == "params_to_canonical canonical_to_params\n"
