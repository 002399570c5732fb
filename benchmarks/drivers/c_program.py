"""This library's op from a program without Python: examples/serving runs a SavedModel."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import numpy as np
import tensorflow as tf

import tf_cudnn_rnn
from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers.interface import Driver, Step, by_state, require
from benchmarks.drivers.own import save

_SOURCES = pathlib.Path(__file__).parents[2] / "examples" / "serving"
_INPUTS = ("x", "h0", "c0", "lengths")


def _build(folder: pathlib.Path) -> pathlib.Path:
    """Compiles the program, as docs/serving.md says."""
    tensorflow = tf.sysconfig.get_lib()
    program = folder / "serve"
    command = ["gcc", "-O2", *sorted(_SOURCES.glob("*.c")), "-o", program]
    command += ["-isystem", f"{tensorflow}/include", "-L", tensorflow]
    command += ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    # The usual linker takes six seconds for TensorFlow's symbols, and tests link each time.
    if shutil.which("ld.gold"):
        command.append("-fuse-ld=gold")
    subprocess.run([*command, f"-Wl,-rpath,{tensorflow}"], check=True, capture_output=True)
    return program


class _CStep(Step):
    """Times come from the program: those of the later half of its calls."""

    def times(self, seconds: float) -> list[float]:
        output = self.run(2000)
        times = [float(ms) * 1e-3 for ms in re.findall(r"^call \d+: ([\d.]+) ms$", output, re.M)]
        return times[len(times) // 2 :]


class CProgram(Driver):
    """A fresh process for each turn; it runs the graph in the thread that calls.

    The op's threads come from TF_NUM_INTRAOP_THREADS.
    """

    def __init__(self, threads: int):
        self._threads = threads
        self._folder = tempfile.TemporaryDirectory()
        self._program = None

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(pass_ == cases.INFERENCE, "the program infers")
        require(dtype == "float32", f"the program does not take {dtype}")
        require(shutil.which("gcc") is not None, "gcc is not installed")
        folder = pathlib.Path(self._folder.name)
        if self._program is None:
            self._program = _build(folder)
        arrays = cases.arrays_of(case)
        tensors = [tf.constant(a) for a in (arrays.x, arrays.h0, arrays.c0, arrays.params)]
        model = folder / "model"
        shutil.rmtree(model, ignore_errors=True)
        own_op = tf_cudnn_rnn.raw_ops.CudnnRNNV3
        save(case, str(model), *tensors, own_op, is_training=False)
        for name in _INPUTS:
            np.save(folder / f"{name}.npy", getattr(arrays, name))
        inputs = [f"{name}={folder / name}.npy" for name in _INPUTS]

        def run(calls: int = 1) -> str:
            command = [self._program, "-c", "-l", tf_cudnn_rnn.library_path()]
            command += ["-n", str(calls)]
            threads = {
                "TF_NUM_INTRAOP_THREADS": str(self._threads),
                "TF_NUM_INTEROP_THREADS": "1",
                "TF_CPP_MIN_LOG_LEVEL": "3",
            }
            return subprocess.run(
                [*command, "-o", folder / "results", model, *inputs],
                env={**os.environ, **threads},
                capture_output=True,
                text=True,
                check=True,
            ).stderr

        def as_arrays(_) -> dict[str, np.ndarray]:
            y, *states = (np.load(folder / "results" / f"{name}.npy") for name in "yhc")
            return {"y": y} | by_state(case, states, "h_n", "c_n")

        return _CStep(run, as_arrays)
