"""Calls made at the same time, cancelled, interrupted, or ended with their process.

`python -m tests.reliability.stress` does the same for longer.
"""

import pytest

from tests.helpers import subprocesses
from tests.reliability import crowd, interrupted


# With one thread, and with more of them than there are cores.
@pytest.mark.parametrize(
    "function, num_threads", [(crowd.calls_at_once, 1), (crowd.calls_on_one_core, 3)]
)
def test_calls_at_once_have_the_bits_of_calls_alone(function, num_threads):
    environment = {
        "TF_NUM_INTRAOP_THREADS": str(num_threads),
        "TF_NUM_INTEROP_THREADS": str(num_threads),
        "TF_OVERRIDE_GLOBAL_THREADPOOL": "1",  # sessions may have other threads
    }
    rounds = 3
    assert int(subprocesses.run(function, rounds, environment=environment)) >= crowd.MANY * rounds


def test_cancelled_and_interrupted_calls_end_and_later_ones_work():
    subprocesses.run(interrupted.cancel_and_interrupt)


# `stress.py` has more ways. What an interpreter that ends takes apart, a fork has kept in part.
@pytest.mark.parametrize(("how", "prepared"), [("sys.exit", False), ("SIGINT", True)])
def test_a_process_ends_as_it_wants_while_calls_run(how, prepared):
    interrupted.check_end(how, prepared=prepared)
