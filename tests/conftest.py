"""What all tests share: names of cases, the table of times, the record of op calls."""

import os
import pathlib

from tests import names, times

RECORD = "TF_CUDNN_RNN_RECORD_CALLS"


def pytest_configure(config):
    # Processes of pytest-xdist report to the one that started them, which alone prints.
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(times.Times(), "times")
    if folder := os.environ.get(RECORD):
        from tests import op_calls

        config.pluginmanager.register(op_calls.Recorder(pathlib.Path(folder)), "op_calls")


def pytest_make_parametrize_id(config, val, argname):
    del config, argname
    return names.name_of(val)
