"""This library's runtime, without TensorFlow: whole sequences, and streams from Python and C."""

import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

import tf_cudnn_rnn.runtime as runtime
from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers.interface import Driver, ProgramStep, Step, by_state, require
from tf_cudnn_rnn import weights

_PROGRAM = pathlib.Path(__file__).with_name("runtime_stream.c")


def _network(
    case: Case, pass_: str, dtype: str, threads: int
) -> tuple[runtime.Network, cases.Arrays]:
    require(pass_ == cases.INFERENCE, "the runtime infers")
    require(dtype in ("float32", "int8"), f"this driver does not take {dtype}")
    arrays = cases.arrays_of(case)
    canonical = cases.canonical_of(case, arrays.params)
    of_network = weights.quantize(canonical) if dtype == "int8" else canonical
    return runtime.Network(of_network, num_threads=threads), arrays


def _states(case: Case, state: runtime.State) -> dict[str, np.ndarray]:
    return by_state(case, state, "h_n", "c_n")


def _require_one_step(case: Case) -> None:
    require(case.seq_length == 1, "a stream takes one step at a time")
    require(case.num_dirs == 1, "a stream has one direction")
    require(not case.is_ragged, "a stream has no lengths")


class Runtime(Driver):
    """A Network, called with whole sequences and their first states."""

    def __init__(self, threads: int):
        self._threads = threads

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        network, arrays = _network(case, pass_, dtype, self._threads)
        state = runtime.State(arrays.h0, arrays.c0 if case.rnn_mode == "lstm" else None)
        lengths = arrays.lengths if case.is_ragged else None
        return Step(
            lambda: network(arrays.x, lengths, state, time_major=True),
            lambda results: {"y": results[0]} | _states(case, results[1]),
        )


class Stream(Driver):
    """A Stream, which keeps the states from one run to the next."""

    def __init__(self, threads: int):
        self._threads = threads

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        _require_one_step(case)
        network, arrays = _network(case, pass_, dtype, self._threads)
        stream = network.stream(case.batch)
        state = runtime.State(arrays.h0, arrays.c0 if case.rnn_mode == "lstm" else None)
        x = arrays.x[0]

        def first(_) -> dict[str, np.ndarray]:
            stream.state = state
            y = stream.step(x)[np.newaxis]
            return {"y": y} | _states(case, stream.state)

        return Step(lambda: stream.step(x), first)


class CStream(Driver):
    """A stream in a program of C, a fresh process for each turn."""

    def __init__(self, threads: int):
        self._threads = threads
        self._folder = tempfile.TemporaryDirectory()
        self._built = 0

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        _require_one_step(case)
        require(shutil.which("gcc") is not None, "gcc is not installed")
        network, arrays = _network(case, pass_, dtype, self._threads)
        folder = pathlib.Path(self._folder.name)
        program = folder / "stream"
        if not program.exists():
            place = runtime.include_path()
            flags = [f"-I{place}", f"-L{place}", f"-Wl,-rpath,{place}", "-lrnn_runtime"]
            subprocess.run(["gcc", "-O2", _PROGRAM, *flags, "-o", program], check=True)
        self._built += 1
        prefix = folder / str(self._built)
        path, values, results = (prefix.with_suffix(end) for end in (".st", ".values", ".results"))
        network.save(path)
        h_and_c = [arrays.h0, *([arrays.c0] if case.rnn_mode == "lstm" else [])]
        values.write_bytes(b"".join(array.tobytes() for array in (arrays.x, *h_and_c)))
        y_bytes = 4 * case.batch * case.output_size

        def run(steps: int = 1) -> np.ndarray:
            command = [program, path, values, results, case.batch, steps, self._threads]
            subprocess.run(list(map(str, command)), check=True)
            return np.frombuffer(results.read_bytes()[y_bytes:], np.float64)

        def first(_) -> dict[str, np.ndarray]:
            y = np.frombuffer(results.read_bytes()[:y_bytes], np.float32)
            return {"y": y.reshape(1, case.batch, case.output_size)}

        return ProgramStep(run, first)
