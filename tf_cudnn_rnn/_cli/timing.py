"""How long calls take, measured in turns."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tf_cudnn_rnn._cli import output

TRAINING, PREDICTION = "training", "prediction"
PASSES = (TRAINING, PREDICTION)
_ROUNDS = 9  # that are aimed at
_LONGEST_TURN = 1.0  # seconds
_SHORTEST_TURN = 0.01
# Threads of the one before may still wait for work, and take time from the next.
_PAUSE = 0.02


class Side(NamedTuple):
    """What takes turns.

    Attributes:
      name: for the table.
      calls: of each pass, what runs it once and waits for it.
    """

    name: str
    calls: Mapping[str, Callable[[], object]]


class Times(NamedTuple):
    """What was measured.

    Attributes:
      seconds: of a call, by the side's name and the pass: the median of the rounds.
      rounds: how many there were.
    """

    seconds: dict[tuple[str, str], float]
    rounds: int

    def ratio(self, name: str, other: str, pass_: str) -> float | None:
        """How many times as fast `name` is as `other`; None if one of them has not run."""
        own, theirs = self.seconds.get((name, pass_)), self.seconds.get((other, pass_))
        return theirs / own if own and theirs else None


def measure(
    sides: Sequence[Side], seconds: float, progress: output.Progress, what: str = ""
) -> Times:
    """Lets all sides take turns, for about so many seconds; at least one round.

    Args:
      sides: take turns in this order.
      seconds: for all, the first calls, which trace and compile, included.
      progress: shows how far it is.
      what: is measured, for that.
    """
    deadline = time.monotonic() + seconds
    calls = [
        (side.name, pass_, side.calls[pass_])
        for pass_ in PASSES
        for side in sides
        if pass_ in side.calls
    ]
    costs = []
    for name, pass_, call in calls:
        progress.show(f"{what}: first {pass_}, {name}")
        call()  # traces
        start = time.perf_counter()
        call()
        costs.append(time.perf_counter() - start)
    left = max(0.0, deadline - time.monotonic())
    turn = left / (_ROUNDS * len(calls)) - _PAUSE
    turn = min(_LONGEST_TURN, max(_SHORTEST_TURN, turn))
    medians: dict[tuple[str, str], list[float]] = {(name, pass_): [] for name, pass_, _ in calls}
    rounds = 0
    cost_of_round = sum(max(turn, cost) + _PAUSE for cost in costs)
    while not rounds or (rounds < _ROUNDS and time.monotonic() + 0.5 * cost_of_round < deadline):
        for name, pass_, call in calls:
            progress.show(
                f"{what}: round {rounds + 1}, {max(0, deadline - time.monotonic()):.0f} s left"
            )
            medians[name, pass_].append(_turn(call, turn))
        rounds += 1
    progress.clear()
    return Times({key: statistics.median(values) for key, values in medians.items()}, rounds)


def _turn(call: Callable[[], object], seconds: float) -> float:
    """The median of calls for so many seconds; at least one."""
    time.sleep(_PAUSE)
    times: list[float] = []
    while not times or sum(times) < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)
