"""Runs what the tests of this folder run, for as long as you like.

    .venv/bin/python -m tests.reliability.stress --seconds=600

In turns: many threads that make calls, with other numbers of threads in TensorFlow; then calls
that are cancelled or interrupted; then processes that end in the middle of calls, in every way.
"""

import itertools
import time

from absl import app, flags

from tests.helpers import subprocesses
from tests.reliability import crowd, interrupted

_SECONDS = flags.DEFINE_float("seconds", 300, "How long, about.")
_ROUND_SECONDS = flags.DEFINE_float("round_seconds", 30, "How long they do so at a time.")


def _calls(num_threads: int) -> int:
    environment = {
        "TF_NUM_INTRAOP_THREADS": str(num_threads),
        "TF_NUM_INTEROP_THREADS": str(num_threads),
        "TF_OVERRIDE_GLOBAL_THREADPOOL": "1",
    }
    return int(subprocesses.run(crowd.calls_for, _ROUND_SECONDS.value, environment=environment))


def main(_):
    start = time.monotonic()
    num_calls, num_interrupted, num_ends = 0, 0, 0
    for num_threads in itertools.cycle((1, 2, 3, 4, 8, 128)):
        num_calls += _calls(num_threads)
        subprocesses.run(interrupted.cancel_and_interrupt)
        num_interrupted += 1
        for how in interrupted.ENDS:
            interrupted.check_end(how)
            num_ends += 1
        seconds = time.monotonic() - start
        print(
            f"{seconds:.0f} s: {num_calls} calls, the last with {num_threads} threads of "
            f"TensorFlow; cancelled and interrupted {num_interrupted} times; "
            f"{num_ends} processes ended",
            flush=True,
        )
        if seconds > _SECONDS.value:
            return


if __name__ == "__main__":
    app.run(main)
