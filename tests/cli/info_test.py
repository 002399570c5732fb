"""`info`: what it tells, also where the library does not fit TensorFlow."""

import itertools
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.cli import main_test
from tests.docs import pages
from tests.helpers import subprocesses
from tf_cudnn_rnn import _machine, runtime
from tf_cudnn_rnn._cli import info


def test_what_it_tells(run):
    result = run("info")
    assert result.code == 0
    for label in ("library", "instruction set", "threads", "self-test"):
        assert label in result.out
    assert tf_cudnn_rnn.instruction_set() in result.out
    assert "CudnnRNNV3" in result.out and "passed" in result.out
    assert max(len(line) for line in result.out.splitlines() if "/" not in line) <= 80


def test_json(run):
    facts = run("info", "--json").json
    assert facts["problem"] is None
    assert facts["library"]["path"] == tf_cudnn_rnn.library_path()
    assert facts["instruction_set"]["name"] == tf_cudnn_rnn.instruction_set()
    assert "CudnnRNNV3" in facts["built_in_ops"]["on_cpu"]
    networks = {network["rnn_mode"]: network for network in facts["self_test"]["networks"]}
    assert set(networks) == {"lstm", "gru", "rnn_tanh", "rnn_relu"}
    assert all(0 < network["forward_error"] < 1e-5 for network in networks.values())
    assert all(network["backward_error"] < 1e-5 for network in networks.values())


def test_why_the_instruction_set(run, monkeypatch):
    assert "the fastest one" in run("info").out
    # The one in use was chosen when the first op ran; the reason is what is tested.
    monkeypatch.setenv("TF_CUDNN_RNN_ISA", tf_cudnn_rnn.instruction_set())
    result = run("info")
    assert f"that TF_CUDNN_RNN_ISA={tf_cudnn_rnn.instruction_set()} allows" in " ".join(
        result.out.split()
    )


def _text_of(result, label: str) -> str:
    """What stands beside a label, in one line."""
    text = result.out.partition(f"\n{label}  ")[2]
    lines = [line for line in text.splitlines() if line]
    rest = itertools.takewhile(lambda line: line.startswith("   "), lines[1:])
    return " ".join(" ".join([lines[0], *rest]).split())


def test_the_runtime(run):
    facts = run("info", "--json").json["runtime"]
    assert facts["path"] == runtime.library_path()
    assert facts["instruction_set"] == runtime.instruction_set()
    networks = {network["rnn_mode"]: network for network in facts["self_test"]["networks"]}
    assert set(networks) == {"lstm", "gru", "rnn_tanh", "rnn_relu"}
    assert all(0 < network["forward_error"] < 1e-5 for network in networks.values())
    assert _text_of(run("info"), "runtime").endswith("needs no TensorFlow; self-test passed")


@pytest.mark.parametrize("factor", [1.001, float("nan")])
def test_the_self_test_of_the_runtime_can_fail(run, monkeypatch, factor):
    right = runtime.Network.__call__

    def call(self, *arguments, **options):
        y, state = right(self, *arguments, **options)
        return y * np.float32(factor if self.layout.rnn_mode == "gru" else 1), state

    monkeypatch.setattr(runtime.Network, "__call__", call)
    result = run("info")
    assert result.code == 1 and "FAILED for gru (" in _text_of(result, "runtime")
    facts = run("info", "--json").json
    assert facts["self_test"]["passed"] and not facts["runtime"]["self_test"]["passed"]


@pytest.mark.parametrize("is_there", [False, True])
def test_a_runtime_that_does_not_load(is_there, run, monkeypatch, tmp_path):
    """Whoever builds the package may leave it out: all else is well. A damaged one is not."""

    def fails():
        raise ImportError("tf_cudnn_rnn.runtime needs another librnn_runtime.so.")

    monkeypatch.setattr(runtime, "library_path", fails)
    if not is_there:
        monkeypatch.setattr(tf_cudnn_rnn, "__file__", str(tmp_path / "__init__.py"))
    result = run("info")
    assert result.code == (1 if is_there else 0)
    assert "does not run: tf_cudnn_rnn.runtime needs" in _text_of(result, "runtime")


@pytest.mark.parametrize("wrong", ["outputs", "gradients", "nan"])
def test_the_self_test_can_fail(run, monkeypatch, wrong):
    right = tf.raw_ops.CudnnRNNV3

    @tf.custom_gradient
    def changed(y):
        factor = {"outputs": 1.001, "gradients": 1.0, "nan": float("nan")}[wrong]
        of_gradient = 1.001 if wrong == "gradients" else 1.0
        return y * tf.cast(factor, y.dtype), lambda dy: dy * tf.cast(of_gradient, dy.dtype)

    def op(rnn_mode, **arguments):
        result = right(rnn_mode=rnn_mode, **arguments)
        return result if rnn_mode != "gru" else result._replace(output=changed(result.output))

    monkeypatch.setattr(tf.raw_ops, "CudnnRNNV3", op)
    result = run("info")
    assert result.code == 1
    (line,) = (line for line in result.out.splitlines() if line.startswith("self-test"))
    assert "FAILED for gru" in line
    assert not run("info", "--json").json["self_test"]["passed"]


# As Python begins `python -m tf_cudnn_rnn info`.
RUN_INFO = """
import runpy, sys
sys.orig_argv = [sys.executable, "-m", "tf_cudnn_rnn", "info"]
sys.argv = ["-m", "info"]
runpy.run_module("tf_cudnn_rnn", run_name="__main__", alter_sys=True)
"""


def test_a_tensorflow_that_it_was_not_built_for(tmp_path):
    """When it is needed most; `import tf_cudnn_rnn` raises there."""
    copy = tmp_path / "tf_cudnn_rnn"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(main_test.PACKAGES + "/tf_cudnn_rnn", copy, ignore=ignored)
    shutil.rmtree(copy / "_libraries")
    (copy / "_libraries").mkdir()
    (copy / "_libraries" / "tensorflow_2_7.so").touch()
    result = subprocesses.result_of(RUN_INFO, cwd=tmp_path, prepared=True)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    text = " ".join(result.stdout.split())
    assert (
        "It does not run in TensorFlow here: tf_cudnn_rnn was built for TensorFlow 2.7, but" in text
    )
    assert _machine.cpu_name() in text and str(copy) in text


@pytest.mark.parametrize(
    "tensorflow, says",
    [
        (
            "raise ModuleNotFoundError(\"No module named 'tensorflow'\", name='tensorflow')",
            "needs TensorFlow, which is not installed",
        ),
        (
            "raise RuntimeError('It is broken.')",
            "It does not run in TensorFlow here: It is broken.",
        ),
    ],
)
def test_without_a_tensorflow_that_works(tmp_path, tensorflow, says):
    result = main_test.start(tmp_path, "info", tensorflow=tensorflow)
    assert result.returncode == 1
    assert result.stderr == ""
    text = " ".join(result.stdout.split())
    assert says in text and "which needs no TensorFlow; self-test passed" in text
    assert _machine.cpu_name() in result.stdout


def _cache(cpus, number, **facts) -> None:
    folder = cpus / "cpu0" / "cache" / f"index{number}"
    folder.mkdir(parents=True)
    for name, content in facts.items():
        (folder / name).write_text(f"{content}\n")


def test_caches_that_a_system_tells_of(tmp_path):
    _cache(tmp_path, 0, level=1, type="Data", size="32K", shared_cpu_list="0")
    _cache(tmp_path, 1, level=1, type="Instruction", size="64K", shared_cpu_list="0")
    _cache(tmp_path, 2, level=2, type="Unified", size="512K", shared_cpu_list="0-1")
    _cache(tmp_path, 3, level=3, type="Unified", size="32M", shared_cpu_list="0-3,8")
    _cache(tmp_path, 4, level=4, type="Unified", size="", shared_cpu_list="0")
    found = _machine.caches(tmp_path)
    expected = ["L1d 32 KiB", "L2 512 KiB for 2 processors", "L3 32768 KiB for 5 processors"]
    assert list(map(str, found)) == expected
    assert [cache.nbytes for cache in found] == [32 << 10, 512 << 10, 32 << 20]


def test_caches_that_a_system_does_not_tell_of(tmp_path, run, monkeypatch):
    assert _machine.caches(tmp_path) == []
    monkeypatch.setattr(_machine, "caches", lambda: [])
    assert "caches not told by the system" in " ".join(run("info").out.split())


@pytest.mark.parametrize("text, count", [("0", 1), ("0-3,8", 5), ("", 0), ("a-b", 0)])
def test_lists_of_processors(tmp_path, text, count):
    _cache(tmp_path, 0, level=2, type="Unified", size="512K", shared_cpu_list=text)
    assert [cache.shared_by for cache in _machine.caches(tmp_path)] == [count]


def test_nothing_but_errors_on_stderr():
    """In a process of its own, as TensorFlow's library writes past Python."""
    environment = {name: v for name, v in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    result = subprocess.run(
        [sys.executable, "-m", "tf_cudnn_rnn", "info"],
        env={**environment, "PYTHONPATH": main_test.PACKAGES},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0
    # On CPUs with AVX-512 VNNI, TensorFlow writes this whatever TF_CPP_MIN_LOG_LEVEL says.
    stderr = [line for line in result.stderr.splitlines() if "oneDNN custom op" not in line]
    assert set(stderr) <= {
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR"
    }


def test_variables_that_mean_nothing_are_told(run, monkeypatch):
    for name in [name for name in os.environ if name.startswith("TF_CUDNN_RNN_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TF_CUDNN_RNN_LGO", "plan")
    monkeypatch.setenv("TF_CUDNN_RNN_LOG", "")
    words = " ".join(run("info").out.split())
    assert "TF_CUDNN_RNN_LGO=plan (unknown: it does nothing)" in words
    assert words.count("unknown: it does nothing") == 1


def test_known_variables_are_those_of_the_page():
    text = (pages.ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (TF_CUDNN_RNN_\w+)$", text, re.MULTILINE) == list(info.VARIABLES)
