"""What all tests share: names of cases, the table of times, the record of op calls."""

import gc
import os
import pathlib
import signal

import pytest

from tests import names, times

RECORD = "TF_CUDNN_RNN_RECORD_CALLS"


def pytest_configure(config):
    # Traces make objects by the million, which Python would look through again and again.
    gc.set_threshold(200_000, 50, 1000)
    # What runs in the background ignores some signals, and so would the processes that tests start.
    for number, handler in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
    # Processes of pytest-xdist report to the one that started them, which alone prints.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(times.Times(), "times")
    if folder := os.environ.get(RECORD):
        from tests import op_calls

        config.pluginmanager.register(op_calls.Recorder(pathlib.Path(folder)), "op_calls")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol():
    """Gives the environment back: programs that tests call here set variables of TensorFlow's."""
    before = dict(os.environ)
    try:
        return (yield)
    finally:
        if dict(os.environ) != before:
            os.environ.clear()
            os.environ.update(before)


def pytest_collection_modifyitems(items):
    # Tests of `legacy` run for half a minute. At the end of a process all others would wait for it.
    items.sort(key=lambda item: item.path.parent.name != "legacy")


def pytest_make_parametrize_id(config, val, argname):
    del config, argname
    return names.name_of(val)
