"""What a driver is: one implementation of recurrent networks, alone in its process."""

import abc
import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.cases import Case


class Unsupported(Exception):
    """A driver cannot run a case; the message says why."""


@dataclasses.dataclass(frozen=True)
class Step:
    """What is timed: a case made ready for one pass.

    Attributes:
      run: does the pass once and returns what it computes, when it is done.
      arrays: makes arrays of what `run` returned, to be compared with other drivers': "y"
        [T, B, D*P], "h_n" [L*D, B, P] and of an LSTM "c_n" [L*D, B, H]; in training "dx"
        [T, B, I], "dh0" and "dc0", which are like the states, and what cases.weight_gradients
        makes of the gradients of the weights. All are time-major; of float64 they are float64,
        else float32.
      before: what comes before each pass, and is not timed; not in a ProgramStep.
    """

    run: Callable[[], Any]
    arrays: Callable[[Any], dict[str, np.ndarray]]
    before: Callable[[], Any] = lambda: None

    def times(self, seconds: float) -> list[float]:
        """Repeats the pass for about so many seconds, at least once; seconds of each."""
        # A pass that takes longer than its turn finds nothing in a cache that another left.
        first = self._time_of_a_pass()
        if first >= seconds:
            return [first]
        times = []
        turn = time.perf_counter()
        while not times or time.perf_counter() - turn < seconds:
            times.append(self._time_of_a_pass())
        return times

    def _time_of_a_pass(self) -> float:
        self.before()
        start = time.perf_counter()
        self.run()
        return time.perf_counter() - start


class ProgramStep(Step):
    """A program that times itself: `run` takes how often, and returns the seconds of each time."""

    def times(self, seconds: float) -> list[float]:
        """As many repetitions as fill the turn, about."""
        few = self.run(100)
        return list(self.run(int(min(max(seconds / np.median(few), 100), 1e6))))


class Driver(abc.ABC):
    """One implementation; made once in a process, where it settles the number of threads."""

    @abc.abstractmethod
    def __init__(self, threads: int):
        """Makes the library compute with so many threads."""

    @abc.abstractmethod
    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        """Makes a case ready, in the memory layout that is natural to the library.

        Training computes the outputs of all steps, the final states, and the gradients with
        respect to the input, the initial states and all weights, given that of the output.
        Inference computes the outputs and the final states.

        Args:
          case: the network and the batch.
          pass_: cases.INFERENCE or cases.TRAINING.
          dtype: "float32", "bfloat16" or "float64"; "int8" is float32 with weights in int8.

        Raises:
          Unsupported: the library lacks something that the case needs.
        """


def by_state(case: Case, states: Iterable, of_h: str, of_c: str) -> dict:
    """The states h and c by these names; c of an LSTM alone, whatever stands for it in others."""
    names = (of_h, of_c) if case.rnn_mode == "lstm" else (of_h,)
    return dict(zip(names, states, strict=False))


def require(condition: bool, message: str) -> None:
    """Raises Unsupported unless the condition holds."""
    if not condition:
        raise Unsupported(message)
