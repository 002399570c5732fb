"""Whole sequences and steps are functions of Python in C++ (runtime/python_calls.cc)."""

import ctypes
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import threading
import time

import numpy as np
import pytest

from tf_cudnn_rnn import runtime, weights

ROOT = pathlib.Path(__file__).resolve().parents[2]


def a_network():
    layout = weights.Layout("lstm", 1, 6, 4)
    return runtime.Network(np.linspace(-1, 1, 4 * 6 * (4 + 6 + 2), dtype="float32"), layout)


def functions_and_arguments():
    """What owns handles, then (function, arguments, names of those that are arrays) of both."""
    network = a_network()
    stream = network.stream()
    sizes = {"x": 4, "lengths": 1, "h0": 6, "c0": 6, "y": 6, "h_n": 6, "c_n": 6}
    arrays = {name: bytearray(4 * size) for name, size in sizes.items()}
    arrays["lengths"] = bytearray((1).to_bytes(4, sys.byteorder))
    run = (runtime._run, [network._handle, 0, 1, 1, *arrays.values()], list(arrays))
    step = (runtime._step, [stream._handle, 16, 24, bytearray(16), bytearray(24)], ["x", "y"])
    return (network, stream), (run, step)


def test_memory_is_given_back_after_a_call_and_after_a_mistake():
    owners, calls = functions_and_arguments()
    for function, arguments, _ in calls:
        for wrong in (None, len(arguments) - 1):
            given = [bytearray(a) if isinstance(a, bytearray) else a for a in arguments]
            if wrong is None:
                function(*given)
            else:
                given[wrong] = 1.5
                with pytest.raises(TypeError):
                    function(*given)
            for array in given:
                if isinstance(array, bytearray):
                    array.clear()  # which fails while somebody holds it
    del owners


def test_they_refuse_arrays_of_other_sizes():
    owners, calls = functions_and_arguments()
    for function, arguments, names in calls:
        for place in range(len(arguments) - len(names), len(arguments)):
            changed = [*arguments]
            for size in (0, len(arguments[place]) - 1, len(arguments[place]) + 4):
                changed[place] = bytearray(size)
                with pytest.raises(ValueError, match=f"must have {len(arguments[place])} bytes"):
                    function(*changed)
    del owners


class _Resizes:
    """An array whose conversion makes another one small, as code of anybody's might."""

    def __init__(self, array, other):
        self._array, self._other = array, other

    def __array__(self, dtype=None, copy=None):
        self._other.resize(1, refcheck=False)
        return self._array


@pytest.mark.parametrize("evil", ["lengths", "state"])
def test_an_array_that_another_one_resizes_is_not_read_behind_its_end(evil):
    network = a_network()
    x = np.zeros([3, 50, 4], np.float32)
    state = runtime.State(np.zeros([1, 3, 6], np.float32), np.zeros([1, 3, 6], np.float32))
    arguments = {"lengths": np.full(3, 50, np.int32), "state": state}
    if evil == "lengths":
        arguments["lengths"] = _Resizes(arguments["lengths"], x)
    else:
        arguments["state"] = (state.h, _Resizes(state.c, x))
    with pytest.raises(ValueError, match="`x` must have 2400 bytes, as when the call began; got 4"):
        network(x, **arguments)


def test_they_refuse_what_is_no_array_and_results_that_cannot_be_written_to():
    owners, calls = functions_and_arguments()
    for function, arguments, names in calls:
        for count in (0, len(arguments) - 1, len(arguments) + 1):
            message = rf"\(\) must have {len(arguments)} arguments; got {count}\."
            with pytest.raises(TypeError, match=message):
                function(*([*arguments, None][:count]))
        first = len(arguments) - len(names)
        for place, name in enumerate(names, first):
            changed = [*arguments]
            changed[place] = bytes(arguments[place])
            if name in ("y", "h_n", "c_n"):
                with pytest.raises(BufferError, match="not writable"):
                    function(*changed)
            else:
                function(*changed)
            changed[place] = "text"
            with pytest.raises(TypeError, match="bytes-like"):
                function(*changed)
        for place in range(first):
            changed = [*arguments]
            changed[place] = "text"
            with pytest.raises(TypeError):
                function(*changed)
    del owners


def test_calls_keep_no_references():
    network = a_network()
    stream = network.stream()
    x, frame = np.ones([2, 5, 4], "float32"), np.ones([1, 4], "float32")
    lengths, too_long = np.array([5, 2], np.int32), np.array([5, 6], np.int32)
    state = runtime.State(np.zeros([1, 2, 6], "float32"), np.zeros([1, 2, 6], "float32"))
    given = (x, frame, lengths, too_long, state.h, state.c)
    before = [sys.getrefcount(each) for each in given]
    nones = sys.getrefcount(None)
    for _ in range(1000):
        y, after = network(x, lengths, state)
        y_step = stream.step(frame)
        with pytest.raises(ValueError, match="lengths"):
            network(x, too_long, state)
    assert [sys.getrefcount(each) for each in given] == before
    assert abs(sys.getrefcount(None) - nones) < 100
    fresh = np.empty(1)
    h, c = after
    del after
    assert len({sys.getrefcount(result) for result in (y, y_step, h, c, fresh)}) == 1


def test_time_major_is_true_or_false():
    x = np.ones([2, 5, 4], "float32")
    for wrong in ("no", None, 1.5, 2):
        with pytest.raises(TypeError, match="`time_major` must be True or False; got"):
            a_network()(x, time_major=wrong)


def test_other_threads_run_during_a_call():
    network = a_network()
    x = np.zeros([1, 1_000_000, 4], "float32")
    done, ticks = threading.Event(), []

    def count():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    try:
        while not ticks:
            time.sleep(0.001)
        begin = time.perf_counter()
        network(x)
        end = time.perf_counter()
    finally:
        done.set()
        thread.join()
    within = [tick for tick in ticks if begin < tick < end]
    assert len(within) > 3, (begin, end)


DAEMON = """
import threading, time
import numpy as np
import tf_cudnn_rnn.runtime as runtime
from tf_cudnn_rnn._layout import Layout
network = runtime.Network(np.zeros(4 * 6 * (4 + 6 + 2), "float32"), Layout("lstm", 1, 6, 4))
x = np.zeros([1, 100_000, 4], "float32")
def call():
    while True:
        network(x)
threading.Thread(target=call, daemon=True).start()
time.sleep(0.1)
"""


def test_a_program_ends_while_a_daemon_thread_is_in_a_call():
    """Python ends the thread as soon as it wants its lock back, and nothing is destroyed then."""
    # Where the linker keeps what runs destructors.
    library = pathlib.Path(runtime._path_of("librnn_python.so"))
    assert b".gcc_except_table" not in library.read_bytes()
    program = [sys.executable, "-c", DAEMON]
    result = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_library_that_is_not_there_or_another(tmp_path, monkeypatch):
    monkeypatch.setattr(runtime, "_PYTHON_VERSION", 0)
    with pytest.raises(
        ImportError, match=r"librnn_python\.so has version \d, but .* needs 0\. Inst"
    ):
        runtime._load_functions(runtime._library)
    whole = pathlib.Path(runtime._path_of("librnn_python.so"))
    monkeypatch.setattr(runtime, "_FOLDER", tmp_path)
    with pytest.raises(ImportError, match=r"needs .*librnn_python\.so, which is not there"):
        runtime._load_functions(runtime._library)
    path = tmp_path / "librnn_python.so"
    path.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    with pytest.raises(ImportError, match=r"librnn_python\.so is not whole: .* Install the wheel"):
        runtime._load_functions(runtime._library)
    path.write_text("no library")
    with pytest.raises(ImportError, match="cannot load its library: .*librnn_python"):
        runtime._load_functions(runtime._library)


# ------------------------------------------------------------------------------------
# runtime/python_abi.h
# ------------------------------------------------------------------------------------

PYTHON = sysconfig.get_paths()["include"]
needs_headers = pytest.mark.skipif(
    shutil.which("g++") is None or not pathlib.Path(PYTHON, "Python.h").exists(),
    reason="g++ and the headers of Python are not installed",
)

PROGRAM = """
#include <stddef.h>
#include <stdio.h>
#define SHOW(value) printf("%s %ld\\n", #value, (long)(value))
int main(void) {
  SHOW(PyBUF_SIMPLE); SHOW(PyBUF_WRITABLE); SHOW(METH_FASTCALL);
  SHOW(sizeof(Py_ssize_t)); SHOW(sizeof(Py_buffer)); SHOW(sizeof(PyMethodDef));
  SHOW(offsetof(Py_buffer, buf)); SHOW(offsetof(Py_buffer, obj));
  SHOW(offsetof(PyMethodDef, ml_meth)); SHOW(offsetof(PyMethodDef, ml_flags));
  SHOW(offsetof(PyMethodDef, ml_doc));
}
"""


def compiled(source: str, path: pathlib.Path, *flags: str) -> subprocess.CompletedProcess:
    (path / "about.cc").write_text(source)
    command = ["g++", f"-I{PYTHON}", f"-I{ROOT}", "about.cc", "-o", "about", *flags]
    return subprocess.run(command, cwd=path, capture_output=True, text=True)


@needs_headers
def test_types_and_numbers_are_those_of_python(tmp_path):
    said = []
    for header in ("Python.h", "runtime/python_abi.h"):
        result = compiled(f'#include "{header}"\n{PROGRAM}', tmp_path)
        assert result.returncode == 0, result.stderr
        said.append(subprocess.check_output([tmp_path / "about"], text=True))
    assert said[0] == said[1]
    assert f"sizeof(PyMethodDef) {4 * ctypes.sizeof(ctypes.c_void_p)}" in said[0]


@needs_headers
def test_functions_are_declared_as_python_declares_them(tmp_path):
    ours = (ROOT / "runtime/python_abi.h").read_text()
    # A macro, too, in which the compiler would see no declaration.
    python = '#include "Python.h"\n#undef PyCFunction_NewEx\n'
    assert ours.count("int PyTuple_SetItem(") == 1
    result = compiled(python + ours, tmp_path, "-fsyntax-only", "-w")
    assert result.returncode == 0, result.stderr
    changed = ours.replace("int PyTuple_SetItem(", "long PyTuple_SetItem(")
    result = compiled(python + changed, tmp_path, "-fsyntax-only", "-w")
    assert "conflicting declaration" in result.stderr or "ambiguating" in result.stderr
