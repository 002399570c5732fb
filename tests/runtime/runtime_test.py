"""tf_cudnn_rnn.runtime: the ops' results on NumPy arrays, without TensorFlow."""

import concurrent.futures
import contextlib
import copy
import ctypes
import dataclasses
import itertools
import json
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest

import tf_cudnn_rnn
from tests.helpers import running, subprocesses
from tests.reference import judge
from tests.runtime import damage
from tests.weights.layouts import layout_of
from tf_cudnn_rnn import runtime, weights

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOC = ROOT / "docs" / "runtime.md"


def network_of(case, **options) -> runtime.Network:
    return runtime.Network(case.params, layout_of(case.config), **options)


def small_case(rnn_mode="lstm", dtype=np.float32, T=5, B=3, **options):
    config = judge.Config(rnn_mode, options.pop("num_layers", 2), 6, 4, **options)
    return running.random_case(3, config, T, B, dtype)


# ------------------------------------------------------------------------------------
# Results
# ------------------------------------------------------------------------------------


def _configs():
    for mode, direction, num_layers, time_major in itertools.product(
        judge.RNN_MODES, ("unidirectional", "bidirectional"), (1, 2), (False, True)
    ):
        yield judge.Config(mode, num_layers, 24, 24, direction, time_major=time_major)
        yield judge.Config(mode, num_layers, 24, 24, direction, "skip_input", time_major=time_major)
    for direction in ("unidirectional", "bidirectional"):
        yield judge.Config("lstm", 2, 37, 10, direction, num_proj=9)
        yield judge.Config("gru", 1, 200, 65, direction)
        yield judge.Config("lstm", 1, 200, 65, direction)


# Few rows, one row and one step take other routes than many.
SHAPES = [(7, 5), (1, 1), (20, 1), (1, 40), (40, 33)]


@pytest.mark.parametrize("dtype", running.DTYPES)
def test_the_bits_are_those_of_the_op(dtype):
    number = 0
    for config in _configs():
        for T, B in SHAPES:
            number += 1
            ragged = number % 2 == 0
            case = running.random_case(number, config, T, B, running.DTYPES[dtype], ragged=ragged)
            expected = running.forward(running.OWN_V3, case, is_training=False)
            network = network_of(case, num_threads=1 + number % 3)
            state = runtime.State(case.h0, case.c0 if config.rnn_mode == "lstm" else None)
            if not config.time_major:  # states of the op are batch-major then
                state = runtime.State(
                    *(np.swapaxes(s, 0, 1).copy() for s in state if s is not None)
                )
            lengths = case.sequence_lengths if ragged else None
            y, after = network(case.x, lengths, state, time_major=config.time_major)
            actual = {"y": y, "h_n": after.h}
            if after.c is not None:
                actual["c_n"] = after.c
            if not config.time_major:
                for name in actual.keys() - {"y"}:
                    actual[name] = np.swapaxes(actual[name], 0, 1)
            expected = {name: expected[name] for name in actual}
            running.assert_same_bits(actual, expected, f"seed {number}: {case}")


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_states_are_zeros_unless_given(rnn_mode):
    case = small_case(rnn_mode, T=6, direction="bidirectional", time_major=False)
    network = network_of(case)
    y, after = network(case.x)
    zeros = runtime.State(*(np.zeros_like(s) for s in after if s is not None))
    again, after_again = network(case.x, state=zeros)
    np.testing.assert_array_equal(y, again)
    np.testing.assert_array_equal(after.h, after_again.h)
    assert np.any(y)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_a_stream_gives_the_bits_of_calls_of_one_step(rnn_mode, dtype, batch):
    options = {"num_proj": 5} if rnn_mode == "lstm" else {}
    case = small_case(rnn_mode, running.DTYPES[dtype], B=batch, time_major=False, **options)
    network = network_of(case)
    stream = network.stream(batch)
    state = None
    for t in range(case.T):
        y, state = network(case.x[:, t : t + 1], state=state)
        np.testing.assert_array_equal(stream.step(case.x[:, t]), y[:, 0])
    np.testing.assert_array_equal(stream.state.h, state.h)
    if rnn_mode == "lstm":
        np.testing.assert_array_equal(stream.state.c, state.c)
    else:
        assert stream.state.c is None


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_calls_of_all_shapes_share_a_network(rnn_mode):
    """Weights that one call has prepared are of another's use along the same routes alone."""
    config = judge.Config(rnn_mode, 1, 64, 64, time_major=False)
    cases = [running.random_case(5, config, T, B, np.float32) for T, B in SHAPES]
    expected = [network_of(cases[0])(case.x)[0] for case in cases]
    for order in (range(len(cases)), reversed(range(len(cases)))):
        network = network_of(cases[0])
        for i in order:
            np.testing.assert_array_equal(network(cases[i].x)[0], expected[i], str(SHAPES[i]))


def test_rows_of_a_stream_begin_anew():
    case = small_case("lstm", time_major=False)
    stream, fresh = network_of(case).stream(3), network_of(case).stream(3)
    for t in range(2):
        stream.step(case.x[:, t])
    before = stream.state
    stream.reset([1])
    after = stream.state
    for name in "hc":
        old, new = getattr(before, name), getattr(after, name)
        assert not new[:, 1].any() and old[:, 1].all()
        np.testing.assert_array_equal(new[:, [0, 2]], old[:, [0, 2]])
    stream.state = before
    np.testing.assert_array_equal(stream.state.h, before.h)
    stream.reset()
    np.testing.assert_array_equal(stream.step(case.x[:, 0]), fresh.step(case.x[:, 0]))


def test_a_frame_needs_no_batch():
    case = small_case("gru", B=1, time_major=False)
    one, other = network_of(case).stream(), network_of(case).stream()
    y = one.step(case.x[0, 0])
    assert y.shape == (6,)
    np.testing.assert_array_equal(other.step(case.x[:, 0]), y[None])


def test_many_threads_call_one_network():
    case = running.random_case(
        5, judge.Config("lstm", 1, 96, 64, "bidirectional", time_major=False), 30, 16, np.float32
    )
    network = network_of(case, num_threads=3)
    expected, _ = network(case.x)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for y, _ in pool.map(lambda _: network(case.x), range(64)):
            np.testing.assert_array_equal(y, expected)


# So large that helpers wait from one step to the next, and so large that they are called whenever.
@pytest.mark.parametrize("num_units", [256, 512])
def test_many_threads_stream_through_one_network(num_units):
    config = judge.Config("lstm", 1, num_units, num_units, time_major=False)
    case = running.random_case(5, config, 20, 1, np.float32)
    alone = network_of(case).stream()
    expected = [alone.step(x) for x in case.x[0]]
    network = network_of(case, num_threads=2)

    def run(_) -> list[np.ndarray]:
        stream = network.stream()
        for _ in range(20):
            stream.reset()
            outputs = [stream.step(x) for x in case.x[0]]
        return outputs

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for outputs in pool.map(run, range(8)):
            np.testing.assert_array_equal(outputs, expected)


@pytest.mark.parametrize("num_units", [256, 512])
def test_a_stream_goes_from_thread_to_thread(num_units):
    config = judge.Config("lstm", 1, num_units, num_units, time_major=False)
    case = running.random_case(5, config, 40, 1, np.float32)
    alone = network_of(case).stream()
    stream = network_of(case, num_threads=2).stream()
    for x in case.x[0]:
        with concurrent.futures.ThreadPoolExecutor(1) as other:
            np.testing.assert_array_equal(other.submit(stream.step, x).result(), alone.step(x))


def test_helpers_of_short_steps_come_while_these_follow_one_another():
    code = """
import os
import signal
import time
import numpy as np
import tf_cudnn_rnn.runtime as runtime
from tf_cudnn_rnn import weights
layout = weights.Layout("lstm", 1, 256, 256)
params = np.full(layout.size, 0.01, np.float32)
network, alone = (runtime.Network(params, layout, num_threads=n) for n in (2, 1))
first, second, expected = network.stream(), network.stream(), alone.stream()
x = np.ones(256, np.float32)
def num_threads():
    return len(os.listdir("/proc/self/task"))
before = num_threads()
for _ in range(20):
    time.sleep(0.001)
    first.step(x)
assert num_threads() == before, "at intervals there is nobody to help"
deadline = time.monotonic() + 60
while num_threads() == before and time.monotonic() < deadline:
    first.step(x)
assert num_threads() == before + 1, "a helper comes"
first.reset()
for _ in range(100):  # one crew, in turn
    y = expected.step(x)
    assert np.array_equal(first.step(x), y) and np.array_equal(second.step(x), y)
child = os.fork()  # the helper still waits
if not child:
    signal.alarm(60)  # ends it if it hangs
    y = expected.step(x)
    assert np.array_equal(first.step(x), y) and np.array_equal(second.step(x), y)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    # Python 3.12 warns of forks where there are threads.
    subprocesses.run_code("import warnings; warnings.simplefilter('ignore')\n" + code)


def test_nothing_is_computed_of_nothing():
    case = small_case("lstm", time_major=False)
    network = network_of(case)
    y, after = network(case.x[:0])
    assert y.shape == (0, 5, 6) and after.h.shape == (2, 0, 6)
    y, after = network(case.x[:, :0])
    assert y.shape == (3, 0, 6) and not after.h.any()
    y, after = network(case.x, lengths=[0, 0, 0])
    assert not y.any() and not after.c.any()


# ------------------------------------------------------------------------------------
# Without TensorFlow
# ------------------------------------------------------------------------------------

WITHOUT = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
"""
USE = """
import sys
import numpy as np
import tf_cudnn_rnn.runtime as runtime
from tf_cudnn_rnn import weights
layout = weights.Layout("gru", 1, 4, 3, "unidirectional", "linear_input", 0)
network = runtime.Network(np.ones(layout.size, np.float32), layout)
assert network(np.ones([1, 2, 3], np.float32))[0].shape == (1, 2, 4)
assert "tensorflow" not in sys.modules
"""


@pytest.mark.parametrize("hidden", ["", WITHOUT], ids=["beside TensorFlow", "without TensorFlow"])
def test_tensorflow_is_not_imported(hidden):
    subprocesses.run_code(hidden + USE)


AFTER_TENSORFLOW = """
import tensorflow as tf
import tf_cudnn_rnn.runtime
z = tf.zeros([1, 2, 3])
tf.raw_ops.CudnnRNN(input=tf.ones([5, 2, 4]), input_h=z, input_c=z, params=tf.ones([108]))
"""


def test_where_tensorflow_is_its_graphs_find_their_kernels():
    """A later import of the package would do nothing, for Python has it."""
    subprocesses.run_code(AFTER_TENSORFLOW)


TIMES = """
import time
begin = time.process_time()
import numpy
between = time.process_time()
import tf_cudnn_rnn.runtime
print((time.process_time() - between) / (between - begin))
"""


def test_an_import_is_short():
    """Time of the CPU beyond NumPy's own import, as so many times that; the best of some tries."""
    assert any(float(subprocesses.run_code(TIMES)) < 0.5 for _ in range(10))


IMPORTS = """
import sys
import numpy
before = set(sys.modules)
import tf_cudnn_rnn.runtime
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
"""


def test_an_import_needs_little_else_than_numpy():
    found = set(subprocesses.run_code(IMPORTS).split())
    others = {name for name in found if name not in sys.stdlib_module_names}
    assert others <= {"tf_cudnn_rnn", "numpy", "ml_dtypes"}, others


def test_the_engine_is_one():
    assert runtime.instruction_set() == tf_cudnn_rnn.instruction_set()


def test_a_wrong_instruction_set_is_refused():
    code = """
import numpy as np
import tf_cudnn_rnn.runtime as runtime
from tf_cudnn_rnn import weights
layout = weights.Layout("gru", 1, 4, 3, "unidirectional", "linear_input", 0)
for call in (runtime.instruction_set,
             lambda: runtime.Network(np.ones(layout.size, np.float32), layout)):
    try:
        call()
    except ValueError as error:
        print(error)
"""
    printed = subprocesses.run_code(code, environment={"TF_CUDNN_RNN_ISA": "avx521"})
    assert printed.count("must be one of the instruction sets of this build") == 2


# ------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_a_file_has_all_of_a_network(rnn_mode, dtype, tmp_path):
    options = {"num_proj": 5} if rnn_mode == "lstm" else {}
    case = small_case(
        rnn_mode, running.DTYPES[dtype], direction="bidirectional", time_major=False, **options
    )
    network = network_of(case)
    network.save(tmp_path / "network.safetensors")
    loaded = runtime.Network.load(tmp_path / "network.safetensors", num_threads=2)
    assert (loaded.layout, loaded.dtype) == (network.layout, network.dtype)
    np.testing.assert_array_equal(loaded(case.x)[0], network(case.x)[0])
    arrays = weights.read_safetensors(tmp_path / "network.safetensors")
    np.testing.assert_array_equal(arrays["params"], case.params)
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == (
        tmp_path / "network.safetensors"
    ).read_bytes()


def test_what_is_saved_is_what_computes(tmp_path):
    case = small_case("gru", time_major=False)
    params = case.params.copy()
    network = runtime.Network(params, layout_of(case.config))
    params[:] = 0
    network.save(tmp_path / "network.safetensors")
    loaded = runtime.Network.load(tmp_path / "network.safetensors")
    np.testing.assert_array_equal(loaded(case.x)[0], network(case.x)[0])
    assert np.any(loaded(case.x)[0])


def test_networks_of_other_libraries():
    golden = ROOT / "tests" / "golden" / "torch"
    canonical = weights.from_torch(golden / "lstm.safetensors", "lstm")
    calls = np.load(golden / "lstm_calls.npz")
    network = runtime.Network(canonical)
    state = runtime.State(calls["h0"], calls["c0"]) if "h0" in calls else None
    y, _ = network(calls["x"], state=state, time_major=True)
    np.testing.assert_allclose(y, calls["out_y"], rtol=0, atol=1e-6)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "network.safetensors"
    network_of(small_case("lstm")).save(path)
    return path


def _with_header(content: bytes, change) -> bytes:
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    text = change(header)
    text = (json.dumps(header) if text is None else text).encode()
    return len(text).to_bytes(8, "little") + text + content[8 + size :]


def _metadata(**values):
    return lambda header: header["__metadata__"].update(values)


def _params(**values):
    return lambda header: header["params"].update(values)


DAMAGED = {
    "a later version": (_metadata(version="2"), "a later version needs a later library"),
    "another network": (_metadata(num_units="7"), r"such a network has \d+ params"),
    "no number": (_metadata(num_layers="two"), "do not say what network it is"),
    "more than a number": (_metadata(num_layers="2 "), "do not say what network it is"),
    "a huge network": (_metadata(num_layers=str(2**62)), "its network is none"),
    "a huge number": (_metadata(num_layers="9" * 30), "do not say what network it is"),
    "a negative number": (_metadata(num_units="-6"), "its network is none"),
    "two tensors": (
        lambda header: header.update(more=header["params"]),
        "it holds neither one tensor",
    ),
    "a matrix": (_params(shape=[10, 10]), "params are not a vector"),
    "integers": (_params(dtype="I32"), "params are not a vector"),
    "behind the end": (_params(data_offsets=[0, 2**40]), "but their bytes are"),
    "backwards": (_params(data_offsets=[100, 50]), "but their bytes are"),
    "an overflow": (_params(shape=[2**62]), "but their bytes are"),
    "a negative offset": (_params(data_offsets=[-4, 0]), "is not the JSON"),
    "an escape": (_metadata(rnn_mode='ls"tm'), "is not the JSON"),
}
# What does not say that it is a file of a network: Python takes it for anybody's, C refuses it.
OTHERS = {
    "another format": (
        _metadata(format="others"),
        "it has no network of PyTorch",
        'do not say "format"',
    ),
    "no metadata": (
        lambda header: header.pop("__metadata__") and None,
        "it has no network of PyTorch",
        "it holds neither one tensor",
    ),
    "deep": (lambda header: "[" * 1000, "has lists in lists of JSON", "is not the JSON"),
    "nothing": (lambda header: "", "must tell the size of a header", "is not the JSON"),
    "more behind it": (
        lambda header: json.dumps(header) + "{}",
        "is no JSON",
        "is not the JSON",
    ),
    "twice": (
        lambda header: '{"params":{},"params":{}}',
        "has the key params twice",
        "is not the JSON",
    ),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_headers_are_refused(damage, file, tmp_path):
    change, message = DAMAGED[damage]
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(_with_header(file.read_bytes(), change))
    with pytest.raises(
        ValueError, match=f"damaged.safetensors: It is not the file of a network: .*{message}"
    ):
        runtime.Network.load(path)


@pytest.mark.parametrize("damage", OTHERS)
def test_files_that_do_not_say_what_they_are(damage, file, tmp_path):
    change, message, message_in_c = OTHERS[damage]
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(_with_header(file.read_bytes(), change))
    with pytest.raises(ValueError, match=f"damaged.safetensors .*{message}"):
        runtime.Network.load(path)
    error = ctypes.create_string_buffer(512)
    load = ctypes.CDLL(runtime.library_path()).rnn_network_load
    assert load(os.fsencode(path), 1, ctypes.byref(ctypes.c_void_p()), error) == 3  # RNN_BAD_FILE
    said = error.value.decode()
    assert "damaged.safetensors: It is not the file of a network" in said and message_in_c in said


def test_any_damage_loads_or_ends_in_an_error(file, tmp_path):
    content = file.read_bytes()
    path = tmp_path / "damaged.safetensors"
    for size in (*range(0, 600, 7), len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="damaged.safetensors"):
            runtime.Network.load(path)
    outcomes = damage.outcomes_of(path, content, 600)
    assert "refused" in outcomes


@pytest.mark.parametrize(
    "where, message",
    [
        ("before", r"params must have \d+ elements from byte 0 behind the header on"),
        ("behind", r"there are \d+ bytes behind the header, but its tensors end at"),
    ],
)
def test_bytes_that_are_no_params_are_refused(where, message, file, tmp_path):
    """A file that is longer than its params was damaged, or written by somebody else."""
    more = 8

    def shift(header):
        offsets = header["params"]["data_offsets"]
        header["params"]["data_offsets"] = [offset + more for offset in offsets]

    content = _with_header(file.read_bytes(), shift if where == "before" else lambda header: None)
    path = tmp_path / "damaged.safetensors"
    path.write_bytes(content + bytes(more))
    with pytest.raises(ValueError, match=f"damaged.safetensors: .*{message}"):
        runtime.Network.load(path)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere.safetensors"):
        runtime.Network.load(tmp_path / "nowhere.safetensors")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        runtime.Network.load(tmp_path / ("d/" * 300 + "nowhere"))
    with pytest.raises(ValueError, match=f"{tmp_path} is a folder with neither"):
        runtime.Network.load(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe must be a file"):
        runtime.Network.load(tmp_path / "pipe")
    with pytest.raises(ValueError, match="null byte"):
        runtime.Network.load(f"{tmp_path / 'pipe'}\0")
    (tmp_path / "other").write_bytes(b"\x89PNG" + bytes(100))
    with pytest.raises(ValueError, match="other is of no kind that is known here"):
        runtime.Network.load(tmp_path / "other")


def test_a_file_that_the_system_cannot_read_is_not_called_damaged():
    # A file of a page by its size, of which Linux reads nothing: the loopback has no speed.
    path = pathlib.Path("/sys/class/net/lo/speed")
    try:
        path.read_bytes()
    except OSError as error:
        reason = os.strerror(error.errno)
    else:
        pytest.skip(f"{path} can be read here")
    if not path.exists():
        pytest.skip(f"there is no {path} here")
    error = ctypes.create_string_buffer(512)
    load = ctypes.CDLL(runtime.library_path()).rnn_network_load
    assert load(bytes(path), 1, ctypes.byref(ctypes.c_void_p()), error) == 3  # RNN_BAD_FILE
    assert error.value.decode() == f"{path}: It cannot be read: {reason}."


def test_bfloat16_needs_ml_dtypes(tmp_path):
    network_of(small_case(dtype=running.DTYPES["bfloat16"])).save(tmp_path / "network.safetensors")
    code = f"""
import sys
import tf_cudnn_rnn.runtime as runtime
sys.modules["ml_dtypes"] = None
try:
    runtime.Network.load({str(tmp_path / "network.safetensors")!r})
except ImportError as error:
    print(error)
"""
    printed = subprocesses.run_code(code)
    assert printed.startswith("The network is of type bfloat16, which needs ml_dtypes: run `pip")


# ------------------------------------------------------------------------------------
# Arrays and objects of all kinds
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float", "double", "half"])
def test_arrays_may_lie_as_they_like(dtype):
    case = small_case(dtype=running.DTYPES[dtype], time_major=False)
    network = network_of(case)
    expected, _ = network(case.x)
    other_order = case.x.dtype.newbyteorder()
    odd = np.empty(case.x.nbytes + 1, np.uint8)[1:].view(case.x.dtype).reshape(case.x.shape)
    odd[...] = case.x
    for x in (case.x.astype(other_order), np.asfortranarray(case.x), case.x[::-1][::-1], odd):
        np.testing.assert_array_equal(network(x)[0], expected)
    swapped = runtime.Network(case.params.astype(other_order), layout_of(case.config))
    np.testing.assert_array_equal(swapped(case.x)[0], expected)


def test_lists_of_numbers_are_of_the_networks_type():
    case = small_case("lstm", time_major=False)
    network = network_of(case)
    y, state = network(case.x)
    np.testing.assert_array_equal(network(case.x.tolist())[0], y)
    as_lists = (state.h.tolist(), state.c.tolist())
    again = [network(case.x, state=each, time_major=np.False_)[0] for each in (state, as_lists)]
    np.testing.assert_array_equal(*again)
    assert not network(case.x[:0], lengths=[])[0].size


def test_a_stream_is_one_threads_at_a_time():
    config = judge.Config("lstm", 1, 512, 256, time_major=False)  # of long steps
    case = running.random_case(1, config, 1, 4, np.float32)
    stream = network_of(case, num_threads=2).stream(4)
    x = np.ascontiguousarray(case.x[:, 0])
    messages = set()

    def use(number):
        for i in range(1000):
            try:
                if (i + number) % 3:
                    stream.step(x)
                else:
                    stream.reset()
            except ValueError as error:
                messages.add(str(error))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (message,) = messages
    assert message.startswith("stream must not be used by two threads at the same time")
    stream.reset()
    np.testing.assert_array_equal(stream.step(x), network_of(case).stream(4).step(x))


def test_rows_may_change_while_they_are_checked():
    stream = network_of(small_case("gru")).stream(4)
    rows = np.zeros(50_000, np.int64)
    is_done = threading.Event()

    def change():
        while not is_done.is_set():
            rows[:] = 2**40
            rows[:] = 0

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(300):
            with contextlib.suppress(ValueError):
                stream.reset(rows)
    finally:
        is_done.set()
        thread.join()


def test_a_stream_may_be_used_after_its_network_is_freed():
    code = """
import gc
import numpy as np
import tf_cudnn_rnn.runtime as runtime
from tf_cudnn_rnn import weights
layout = weights.Layout("gru", 1, 64, 64)
class Player:
    def __init__(self, network):
        self.network, self.stream = network, network.stream()
        network.player = self  # a cycle, whose objects end in any order
    def __del__(self):
        print(self.stream.step(np.ones(64, np.float32)).shape)
for _ in range(20):
    Player(runtime.Network(np.full(layout.size, 0.01, np.float32), layout))
    gc.collect()
"""
    assert subprocesses.run_code(code) == "(64,)\n" * 20


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
def test_handles_are_not_copied(copied):
    network = network_of(small_case())
    with pytest.raises(TypeError, match="Network can be neither copied nor pickled. .*load"):
        copied(network)
    with pytest.raises(TypeError, match="Stream can be neither"):
        copied(network.stream())


def test_a_forked_process_uses_and_frees_a_network_with_threads():
    code = """
import os
import signal
import time
import numpy as np
import tf_cudnn_rnn.runtime as runtime
from tf_cudnn_rnn import weights
layout = weights.Layout("lstm", 1, 256, 256)
network = runtime.Network(np.full(layout.size, 0.01, np.float32), layout, num_threads=2)
x = np.ones([32, 20, 256], np.float32)
expected, _ = network(x)
def is_asleep(thread):
    with open(f"/proc/self/task/{thread}/stat") as file:
        return file.read().rpartition(") ")[2].startswith("S")
helpers = [thread for thread in os.listdir("/proc/self/task") if int(thread) != os.getpid()]
while not all(map(is_asleep, helpers)):  # waiting for work
    time.sleep(0.01)
assert helpers
child = os.fork()
if not child:
    signal.alarm(60)  # ends it if it hangs
    assert np.array_equal(network(x)[0], expected)
    del network
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    # Python 3.12 warns of forks where there are threads.
    code = "import warnings; warnings.simplefilter('ignore')\n" + code
    assert subprocesses.run_code(code) == "0\n"


# ------------------------------------------------------------------------------------
# Errors
# ------------------------------------------------------------------------------------


def test_what_does_not_fit_is_refused():
    case = small_case("lstm", time_major=False)
    network = network_of(case)
    layout = layout_of(case.config)
    h, c = np.zeros([2, 3, 6], np.float32), np.zeros([2, 3, 6], np.float32)
    gru = network_of(small_case("gru", time_major=False))
    bidirectional = network_of(small_case("gru", direction="bidirectional"))
    stream = network.stream(3)
    for call, kind, message in [
        (lambda: network(case.x[0]), ValueError, r"`x` must have shape \[B, T, I\] with I = 4"),
        (lambda: network(case.x[..., :3]), ValueError, "with I = 4; got"),
        (lambda: network(case.x.astype(np.float64)), ValueError, "float32; got float64"),
        (
            lambda: network(case.x, [5, 5]),
            ValueError,
            r"`lengths` .* shape \[B\] = \[3\]; got \[2\]",
        ),
        (
            lambda: network(case.x, [5.0, 5, 5]),
            ValueError,
            "`lengths` must be integers; got float64",
        ),
        (lambda: network(case.x, [5, 6, 5]), ValueError, r"`lengths\[1\]` must be in \[0, T\]"),
        (lambda: network(case.x, [5, -1, 5]), ValueError, r"`lengths\[1\]` must be in"),
        # Which the library checks.
        (lambda: network(case.x, np.int32([5, 5, 6])), ValueError, r"^lengths\[2\] must be in"),
        (lambda: network(case.x, np.int64([2**32, 5, 5])), ValueError, r"`lengths\[0\]` must be"),
        (lambda: network(case.x, state=(h,)), ValueError, "must have h and c"),
        (lambda: network(case.x, state=runtime.State(h)), ValueError, "must have h and c"),
        (lambda: network(case.x, state=runtime.State(None, c)), ValueError, "must have h and c"),
        (lambda: gru(case.x, state=(h, c)), ValueError, "must have h alone"),
        (lambda: gru(case.x, state=runtime.State(h, c)), ValueError, "must have h alone"),
        (lambda: gru(case.x, state=runtime.State(None)), ValueError, "must have h alone"),
        (lambda: network(case.x, state=(h, c[:1])), ValueError, r"`state.c` must have shape"),
        (lambda: runtime.Network(case.params), TypeError, "`layout` must say"),
        (lambda: runtime.Network(case.params[1:], layout), ValueError, "must have shape"),
        (lambda: runtime.Network(case.params[None], layout), ValueError, "must be a vector"),
        (lambda: runtime.Network(case.params.astype(int), layout), TypeError, "must be of type"),
        (
            lambda: runtime.Network(case.params, layout, num_threads=0),
            ValueError,
            r"num_threads must be in \[1, 1024\]",
        ),
        (lambda: bidirectional.stream(), ValueError, "needs a network of one direction"),
        (lambda: network.stream(0), ValueError, r"batch must be in \[1, "),
        (lambda: stream.step(case.x[0, 0]), ValueError, r"\[B, I\] = \[3, 4\]"),
        (lambda: stream.reset([0, 3]), ValueError, r"rows\[1\] must be in \[0, 2\], got 3"),
        (lambda: stream.reset([0.5]), ValueError, r"`rows` must be .* got \[0.5\]"),
        (lambda: stream.reset([True, False]), ValueError, r"`rows` must be .* got \[True, False"),
        (lambda: stream.reset(1), ValueError, r"`rows` must be a list .* got 1\."),
        (lambda: stream.reset([2**70]), ValueError, r"`rows` must be .* got \[11805916"),
        (lambda: network(case.x, state=5), TypeError, "`state` must be a State or .* got int"),
        (lambda: setattr(stream, "state", None), TypeError, "with h and c; got NoneType"),
        (lambda: network(case.x, state={"h": h}), TypeError, "got dict"),
        (lambda: network(case.x, time_major="a"), TypeError, "`time_major` must be True or False"),
        (lambda: network(np.ma.masked_array(case.x)), TypeError, "`x` must not be a masked array"),
        (lambda: network([[["1"] * 4]]), ValueError, "float32; got str"),
        (lambda: network([[[True] * 4]]), ValueError, "float32; got bool"),
        (lambda: network(case.x, np.ma.masked_array([5, 5, 5])), TypeError, "`lengths` must not"),
        (lambda: stream.reset(np.ma.masked_array([1])), TypeError, "`rows` must not be a masked"),
        (lambda: network.stream(True), TypeError, "`batch` must be an integer; got True"),
        (lambda: setattr(network, "dtype", np.float64), AttributeError, "dtype"),
        (lambda: setattr(network, "layout", layout), AttributeError, "layout"),
        (lambda: setattr(network, "has_int8_weights", True), AttributeError, "has_int8_weights"),
        (lambda: network.stream(1.5), TypeError, "`batch` must be an integer; got 1.5"),
        (lambda: network.stream(2**64 + 1), ValueError, "`batch` must be a 64-bit integer"),
        (
            lambda: runtime.Network(case.params, layout, num_threads=2.0),
            TypeError,
            "`num_threads` must be an integer; got 2.0",
        ),
        (
            lambda: runtime.Network(case.params, dataclasses.replace(layout, num_units=2**64 + 6)),
            ValueError,
            r"`num_units` must be below 2\^31",
        ),
        (lambda: runtime.Network(case.params, "lstm"), TypeError, "must be a weights.Layout; got"),
    ]:
        with pytest.raises(kind, match=message):
            call()


# ------------------------------------------------------------------------------------
# In C
# ------------------------------------------------------------------------------------

needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
NAMES = set(
    """
    rnn_abi_version rnn_instruction_set rnn_params_size rnn_network_create rnn_network_load
    rnn_network_config rnn_network_run rnn_network_free rnn_stream_create rnn_stream_step
    rnn_stream_reset rnn_stream_get_state rnn_stream_set_state rnn_stream_free
    """.split()
)
LATER_NAMES = {  # by version of the interface
    2: {"rnn_network_create_int8"},
    3: {"rnn_network_params", "rnn_network_int8_weights"},
}


@needs_gcc
def test_the_library_shows_its_interface_alone():
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", runtime.library_path()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    found = {line.split()[-1] for line in listed}
    functions = {name for name in found if name.startswith("rnn_")}
    assert functions == {
        *(f"{name}@@RNN_RUNTIME_1" for name in NAMES),
        *(f"{name}@@RNN_RUNTIME_{n}" for n, names in LATER_NAMES.items() for name in names),
    }
    others = {name.partition("@")[0] for name in found - functions}
    assert others == {f"RNN_RUNTIME_{n}" for n in (1, *LATER_NAMES)}


_STRUCTS = {  # by their names in the header
    "rnn_error": runtime._Error,
    "rnn_config": runtime._Config,
    "rnn_int8_weights": runtime._Int8Weights,
}


@needs_gcc
def test_structs_and_numbers_are_those_of_the_header(tmp_path):
    expected = {"RNN_ABI_VERSION": runtime._ABI_VERSION}
    expected["RNN_OUT_OF_MEMORY"] = runtime._OUT_OF_MEMORY
    for number, name in enumerate(("RELU", "TANH", "LSTM", "GRU")):
        assert runtime._MODES[number].endswith(name.lower())
        expected[f"RNN_MODE_{name}"] = number
    for number, name in enumerate(runtime._TYPES):
        expected[f"RNN_{name.upper()}"] = number
    for name, struct in _STRUCTS.items():
        expected[f"sizeof({name})"] = ctypes.sizeof(struct)
        for field, *_ in struct._fields_:
            expected[f"offsetof({name}, {field})"] = getattr(struct, field).offset
            expected[f"sizeof((({name}*)0)->{field})"] = getattr(struct, field).size
    asserts = "".join(
        f"_Static_assert({key} == {value}, {json.dumps(key)});\n" for key, value in expected.items()
    )
    source = tmp_path / "structs.c"
    source.write_text(f'#include "rnn_runtime.h"\n{asserts}')
    subprocess.run(["gcc", "-fsyntax-only", f"-I{runtime.include_path()}", str(source)], check=True)


# Libraries of C and C++, by glibc's names and GCC's. ld-linux has the machine in its name.
STANDARD = r"(libc|libm|libdl|librt|libpthread|libgcc_s|libstdc\+\+|ld-linux-[\w-]+)\.so\.\d+"


@needs_gcc
@pytest.mark.parametrize("name", ["librnn_runtime.so", "librnn_python.so"])
def test_the_libraries_need_standard_ones_alone(name):
    """Neither TensorFlow nor Python comes in."""
    needed = _needed(runtime._path_of(name))
    assert "libc.so.6" in needed
    assert [it for it in needed if not re.fullmatch(STANDARD, it)] == []


# Of glibc 2.28 and GCC 8, which the wheels promise (tools/wheels.py).
OLDEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 25)}


@needs_gcc
@pytest.mark.parametrize(
    "library",
    [runtime.library_path(), runtime._path_of("librnn_python.so"), tf_cudnn_rnn.library_path()],
    ids=["runtime", "python", "ops"],
)
def test_older_systems_have_what_the_libraries_need(library):
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True
    ).stdout
    needed = re.findall(r"(\w+)@(GLIBC|GLIBCXX)_([\d.]+)", listed)
    assert needed
    for name, kind, version in needed:
        assert tuple(map(int, version.split("."))) <= OLDEST[kind], name


def _stream_program(tmp_path, build: list[str]) -> str:
    """Builds examples/runtime/stream.* as ./stream, which must give the bits of Python.

    Returns:
      What it says besides, of time.
    """
    subprocess.run(build, cwd=tmp_path, check=True)
    case = small_case("lstm", time_major=False)
    frames = case.x[0]
    frames.tofile(tmp_path / "frames")
    int8 = weights.quantize(case.params, layout_of(case.config))
    for network in (network_of(case), runtime.Network(int8)):
        network.save(tmp_path / "network.safetensors")
        stream = network.stream()
        expected = [stream.step(frame) for frame in frames]
        for steps in (1, 20):  # part of the frames, and more than all of them
            streamed = _stream(tmp_path, "network.safetensors", "frames", str(steps))
            assert streamed.returncode == 0, streamed.stderr
            printed = [np.array(line.split(), "f4") for line in streamed.stdout.splitlines()]
            np.testing.assert_array_equal(printed, expected[:steps])
    _assert_fails(tmp_path, "nothing: No such file or directory\n", file="nothing")
    _assert_fails_on_frames(tmp_path, frames)
    return streamed.stderr


def _assert_fails_on_frames(tmp_path, frames: np.ndarray) -> None:
    size = frames.shape[1]
    must = f"must hold frames of {4 * size} bytes, {size} float32 values each; it holds"
    for name, held in {"none": b"", "half": frames.tobytes()[:-2]}.items():
        (tmp_path / name).write_bytes(held)
        _assert_fails(tmp_path, f"{name} {must} {len(held)} bytes\n", frames=name)
    _assert_fails(tmp_path, "nowhere: No such file or directory", frames="nowhere")


def _stream(tmp_path, *arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["./stream", *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def _assert_fails(
    tmp_path, message: str, file: str = "network.safetensors", frames: str = "frames"
) -> None:
    """Checks for what the program says of a file that it cannot read."""
    failed = _stream(tmp_path, file, frames)
    assert failed.returncode == 1 and not failed.stdout
    assert message in failed.stderr and failed.stderr.count("\n") == 1


def _documented(begin: str) -> str:
    """The command in the docs that begins so, with the example where it is."""
    (command,) = [line for line in DOC.read_text().splitlines() if line.startswith(begin)]
    return command.replace("examples/", f"{ROOT}/examples/")


def _shell(command: str) -> list[str]:
    return ["env", f"RNN={runtime.include_path()}", "sh", "-c", command]


@pytest.mark.skipif(shutil.which("rustc") is None, reason="rustc is not installed")
def test_the_example_in_rust(tmp_path):
    _stream_program(tmp_path, _shell(f"{_documented('rustc ')} -D warnings"))


def _abi_version() -> str:
    """RNN_ABI_VERSION of the header."""
    header = pathlib.Path(runtime.include_path(), "rnn_runtime.h").read_text()
    (version,) = re.findall(r"^#define RNN_ABI_VERSION (\d+)$", header, re.MULTILINE)
    return version


needs_pkg_config = pytest.mark.skipif(
    shutil.which("pkg-config") is None, reason="pkg-config is not installed"
)


def _pkg_config(*arguments: str) -> list[str]:
    return subprocess.run(
        ["pkg-config", *arguments, "rnn_runtime"],
        env={**os.environ, "PKG_CONFIG_PATH": runtime.include_path()},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()


def _needed(program) -> list[str]:
    """The shared libraries that a program or a library asks for."""
    listed = subprocess.run(
        ["readelf", "--dynamic", "--wide", program], capture_output=True, text=True, check=True
    ).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", listed)


def _has_static(library: str) -> bool:
    found = subprocess.run(
        ["gcc", f"-print-file-name={library}"], capture_output=True, text=True, check=True
    ).stdout
    return "/" in found  # or it is the name alone


@needs_gcc
@needs_pkg_config
@pytest.mark.parametrize("links", [[], ["--static"]], ids=["shared", "static"])
def test_pkg_config(links, tmp_path):
    if links and not all(map(_has_static, ["libc.a", "libm.a", "libstdc++.a"])):
        pytest.skip("static libraries of the system are not installed")
    flags = _pkg_config("--cflags", "--libs", *links)
    source = str(ROOT / "examples" / "runtime" / "stream.c")
    if links:
        _stream_program(tmp_path, ["gcc", "-static", source, *flags, "-o", "stream"])
        assert not _needed(tmp_path / "stream")
    else:
        _stream_program(tmp_path, ["gcc", source, *flags, "-o", "stream"])
        assert "librnn_runtime.so" in _needed(tmp_path / "stream")


@needs_pkg_config
def test_the_version_of_pkg_config():
    assert _pkg_config("--modversion") == [_abi_version()]


needs_cmake = pytest.mark.skipif(shutil.which("cmake") is None, reason="cmake is not installed")


@needs_gcc
@needs_cmake
@pytest.mark.parametrize("target", ["rnn_runtime::rnn_runtime", "rnn_runtime::rnn_runtime_static"])
def test_cmake(target, tmp_path):
    _, _, after = DOC.read_text().partition("```cmake\n")
    documented, _, _ = after.partition("```")
    source = ROOT / "examples" / "runtime" / "stream.c"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(stream C)\n"
        f"add_executable(stream {source})\n"
        + documented.replace("rnn_runtime::rnn_runtime", target)
    )
    configure = ["cmake", f"-Drnn_runtime_DIR={runtime.include_path()}", "."]
    subprocess.run(configure, cwd=tmp_path, check=True)
    _stream_program(tmp_path, ["cmake", "--build", "."])


@needs_cmake
def test_versions_that_cmake_finds(tmp_path):
    """The interface only grows: it is found by who asks for this version or an earlier one."""
    version = int(_abi_version())
    asked = {
        "": True,
        "1": True,
        f"{version - 1}": True,
        f"{version}": True,
        f"{version}.0": True,
        f"{version} EXACT": True,
        f"{version - 1} EXACT": False,
        f"{version}.1": False,
        f"{version + 1}": False,
        f"1...{version + 1}": True,
        f"1...{version}": True,
        f"1...<{version}": False,
    }
    finds = [
        f"find_package(rnn_runtime {version} QUIET)\n"
        f'message("{version}: ${{rnn_runtime_FOUND}} ${{rnn_runtime_VERSION}}")\n'
        for version in asked
    ]
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.19)\nproject(finds NONE)\n" + "".join(finds)
    )
    told = subprocess.run(
        ["cmake", f"-DCMAKE_PREFIX_PATH={runtime.include_path()}", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    found = re.findall(r"^(.*): (0|1) (.*)$", told, re.MULTILINE)
    assert {name: was_found == "1" for name, was_found, _ in found} == asked
    assert {told for _, was_found, told in found if was_found == "1"} == {str(version)}


WARNINGS = "-std=c11 -Wall -Wextra -Werror -pedantic"


@needs_gcc
def test_the_example_in_c(tmp_path):
    command = _documented('gcc -O2 -I"$RNN" examples/runtime/stream.c -L')
    assert "20 steps: median" in _stream_program(tmp_path, _shell(f"{command} {WARNINGS}"))
    os.mkfifo(tmp_path / "pipe")
    said = "pipe: It must be a file; it is a folder, a pipe or a device."
    _assert_fails(tmp_path, said, file="pipe")
    said = "a/a/nowhere: No such file or directory\n"
    _assert_fails(tmp_path, said, file="a/" * 400 + "nowhere")
    for option, words in {"STEPS": ["0"], "THREADS": ["1", "two"]}.items():
        wrong = _stream(tmp_path, "network.safetensors", "frames", *words)
        assert wrong.returncode == 2 and wrong.stderr.startswith(f"{option} must be a number")


SEQUENCES = """
#include <stdio.h>
#include "rnn_runtime.h"
int main(void) {
  static float x[3 * 10 * 2], y[3 * 10 * 4], h[3 * 4];
  const int32_t lengths[] = {10, 4, 7};
  rnn_network* network;
  for (int i = 0; i < 60; ++i) x[i] = (float)(i - 30) / 32;
  if (rnn_network_load("network.safetensors", 1, &network, NULL) != RNN_OK) return 1;
  {%s}
  rnn_network_free(network);
  fwrite(y, sizeof y, 1, stdout);
  fwrite(h, sizeof h, 1, stdout);
  return 0;
}
"""


# Around the steps of a stream that the docs show.
STREAM = """
#include <stdio.h>
#include <string.h>

#include "rnn_runtime.h"

static float frames[20], x[2], y[4];
static int next = 0;

static int read_frame(float* frame) {
  if (next > 0) fwrite(y, sizeof(y), 1, stdout);
  if (next == 20) return 0;
  memcpy(frame, frames + next, 2 * sizeof(float));
  next += 2;
  return 1;
}

int main(void) {
  for (int i = 0; i < 20; ++i) frames[i] = (float)(i - 10) / 8;
%s
  return 0;
}
"""


def _shown_in_c(folder, program: str, first_line: str) -> tuple[runtime.Network, bytes]:
    """A network, and what a program writes that runs it as the docs show."""
    snippets = re.findall(r"^```c\n(.*?)^```", DOC.read_text(), re.MULTILINE | re.DOTALL)
    (shown,) = (snippet for snippet in snippets if snippet.startswith(first_line))
    (folder / "shown.c").write_text(program % shown)
    layout = weights.Layout("gru", 1, 4, 2)
    network = runtime.Network(np.linspace(-1, 1, layout.size, dtype=np.float32), layout)
    network.save(folder / "network.safetensors")
    build = f'gcc shown.c -I"$RNN" -L"$RNN" -Wl,-rpath,"$RNN" -lrnn_runtime {WARNINGS} -o run'
    subprocess.run(_shell(build), cwd=folder, check=True)
    ran = subprocess.run(["./run"], cwd=folder, capture_output=True, check=True)
    return network, ran.stdout


@needs_gcc
def test_the_call_of_whole_sequences_in_c(tmp_path):
    """That of the docs has the bits of Python."""
    network, said = _shown_in_c(tmp_path, SEQUENCES, "rnn_call call")
    x = ((np.arange(60, dtype=np.float32) - 30) / 32).reshape(3, 10, 2)
    y, state = network(x, lengths=[10, 4, 7])
    assert said == y.tobytes() + state.h.tobytes()


@needs_gcc
def test_the_steps_of_a_stream_in_c(tmp_path):
    network, said = _shown_in_c(tmp_path, STREAM, "rnn_error error;")
    stream = network.stream()
    x = ((np.arange(20, dtype=np.float32) - 10) / 8).reshape(10, 2)
    assert said == b"".join(stream.step(frame).tobytes() for frame in x)


@needs_gcc
def test_the_library_as_a_part_of_a_program(tmp_path):
    command = _documented('gcc -O2 -I"$RNN" examples/runtime/stream.c "$RNN/')
    _stream_program(tmp_path, _shell(f"{command} {WARNINGS}"))
    needed = _needed(tmp_path / "stream")
    assert "libstdc++.so.6" in needed and "librnn_runtime.so" not in needed
    # What is thrown inside is caught inside: it needs the tables for unwinding.
    layout = weights.Layout("lstm", 1, 1024, 1024)
    large = runtime.Network(np.zeros(layout.size, "f4"), layout)
    large.save(tmp_path / "large.safetensors")
    short = subprocess.run(
        ["sh", "-c", "ulimit -v 30000; ./stream large.safetensors frames 1"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert short.returncode == 1
    assert short.stderr.startswith("There is not enough memory for this call: free some")


@pytest.mark.parametrize("suffix", [".so", ".a"])
def test_the_library_is_small(suffix):
    library = pathlib.Path(runtime.library_path()).with_suffix(suffix)
    assert library.stat().st_size < 3_000_000


@needs_gcc
def test_names_of_the_static_library():
    """Those of a program must not be among them."""
    archive = runtime.library_path().removesuffix(".so") + ".a"
    listed = subprocess.run(
        ["nm", "--defined-only", "--extern-only", "--demangle", archive],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    # nm: "0000 T name"; "W" and the like are weak, as what headers of C++ instantiate is.
    strong = re.findall(r"^[0-9a-f]+ [ABDGRSTi] (.*)$", listed, re.MULTILINE)
    assert set(strong) == NAMES.union(*LATER_NAMES.values())
