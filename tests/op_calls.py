"""Records what op calls a test run makes, so that two runs can be compared.

    TF_CUDNN_RNN_RECORD_CALLS=/tmp/before .venv/bin/python -m pytest
    ... change the tests ...
    TF_CUDNN_RNN_RECORD_CALLS=/tmp/after .venv/bin/python -m pytest
    .venv/bin/python -m tests.op_calls /tmp/before /tmp/after

The last command counts the options, the pairs of options and the whole calls that either run
covers, and names what the second one lacks. Seen are calls of the process that runs the tests:
eager ones, and ops of functions when they are traced. Calls of programs that tests start are not.
"""

import argparse
import itertools
import json
import os
import pathlib

from tensorflow.python.eager import context
from tensorflow.python.framework import op_callbacks

# How large these are does not make another kind of call.
_SIZES = ("num_proj", "dropout")
# Types, which the tensors tell, and seeds, of which any are alike.
_IGNORED = {"T", "S", "M", "seed", "seed2"}


class Recorder:
    """A pytest plugin that writes the distinct calls of its process into a file of `folder`."""

    def __init__(self, folder: pathlib.Path):
        self._folder = folder
        self._calls = {}  # from folder of tests to the set of its calls
        self._tests = None
        op_callbacks.add_op_callback(self._record)

    def pytest_runtest_logstart(self, nodeid):
        self._tests = nodeid.split("::")[0].rpartition("/")[0]

    def pytest_sessionfinish(self):
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._folder / f"{os.getpid()}.json", "w") as file:
            json.dump({tests: sorted(calls) for tests, calls in self._calls.items()}, file)

    def _record(self, op_type, inputs, attrs, outputs, op_name=None, graph=None):
        if "RNN" in str(op_type) or "Rnn" in str(op_type):
            call = _describe(op_type, inputs, attrs, graph)
            self._calls.setdefault(self._tests, set()).add(json.dumps(call))
        # The last callback's answer counts: nothing by itself, and beside that of check_numerics,
        # which has been called before, what that one made.
        return list(outputs) if len(context.context().op_callbacks) > 1 else None


def _describe(op_type, inputs, attrs, graph) -> list:
    """The options of a call, as [name, value] pairs."""
    op = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
    values = dict(zip(attrs[::2], attrs[1::2], strict=True))
    call = {"op": op, "graph": graph is not None}
    if inputs:
        call["dtypes"] = " ".join(sorted({tensor.dtype.name for tensor in inputs}))
    for name, value in values.items():
        if name in _IGNORED or name.startswith("_"):  # the latter are TensorFlow's own
            continue
        if hasattr(value, "WhichOneof"):  # in graphs, a protocol buffer
            value = getattr(value, value.WhichOneof("value"))
        if name in _SIZES or isinstance(value, bool):
            call[name] = bool(value)
        else:
            call[name] = value.decode() if isinstance(value, bytes) else str(value)
    for tensor in inputs:
        if tensor.dtype.name == "int32" and tensor.shape.rank == 1 and graph is None:
            lengths = tensor.numpy()
            call["lengths"] = (
                "none"
                if not lengths.size
                else "with zeros"
                if lengths.min() <= 0
                else "equal"
                if lengths.min() == lengths.max()
                else "ragged"
            )
    return sorted(call.items())


def _read(folder: pathlib.Path, tests: list[str]) -> set:
    calls = set()
    for file in folder.glob("*.json"):
        for place, descriptions in json.loads(file.read_text()).items():
            if not tests or any(place == each or place.startswith(each + "/") for each in tests):
                calls.update(map(_parse, descriptions))
    return calls


def _parse(description: str) -> tuple:
    return tuple((name, str(value)) for name, value in json.loads(description))


def _subsets(calls: set, size: int) -> set:
    """All combinations of `size` options of a call; the op is part of each."""
    found = set()
    for call in calls:
        op = dict(call)["op"]
        options = [option for option in call if option[0] != "op"]
        found.update((op, *chosen) for chosen in itertools.combinations(options, size))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("before", type=pathlib.Path)
    parser.add_argument("after", type=pathlib.Path)
    parser.add_argument("--tests", nargs="*", default=[], help="folders, such as tests/ops")
    arguments = parser.parse_args()
    before = _read(arguments.before, arguments.tests)
    after = _read(arguments.after, arguments.tests)
    lost = 0
    for title, count in (
        ("ops with an option", lambda calls: _subsets(calls, 1)),
        ("ops with two options", lambda calls: _subsets(calls, 2)),
        ("calls that differ", lambda calls: calls),
    ):
        old, new = count(before), count(after)
        print(f"{title}: {len(old)} before, {len(new)} after, {len(old - new)} lost")
        for each in sorted(old - new)[:20]:
            print("    lost:", *each)
        lost += len(old - new)
    raise SystemExit(lost > 0)


if __name__ == "__main__":
    main()
