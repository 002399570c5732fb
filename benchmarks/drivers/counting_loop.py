"""No network: a loop in C that counts for about as long as a step takes.

What 99.9 % of its rounds take at most is what the machine itself, by interrupts and by other
processes, adds to one in a thousand steps of any program.
"""

import pathlib
import shutil
import subprocess
import tempfile

import numpy as np

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers.interface import Driver, ProgramStep, Step, require

_PROGRAM = pathlib.Path(__file__).with_suffix(".c")
# Of a stream on an AMD EPYC (Zen 4): about what its weights take to come, and the call.
_BYTES_PER_MICROSECOND, _CALL_MICROSECONDS = 150e3, 1.0


class CountingLoop(Driver):
    """A loop in a program of C, a fresh process for each turn."""

    def __init__(self, threads: int):
        self._folder = tempfile.TemporaryDirectory()

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(pass_ == cases.INFERENCE, "a loop has no gradients")
        require(shutil.which("gcc") is not None, "gcc is not installed")
        folder = pathlib.Path(self._folder.name)
        program, results = folder / "counting_loop", folder / "results"
        if not program.exists():
            subprocess.run(["gcc", "-O2", _PROGRAM, "-o", program], check=True)
        microseconds = _CALL_MICROSECONDS + 4 * case.matrix_elements / _BYTES_PER_MICROSECOND

        def run(rounds: int = 1) -> np.ndarray:
            command = [program, results, f"{microseconds:.3f}", rounds]
            subprocess.run(list(map(str, command)), check=True)
            return np.fromfile(results)

        return ProgramStep(run, lambda results: {})
