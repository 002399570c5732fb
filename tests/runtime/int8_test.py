"""Networks with int8 weights: the judge's results with the numbers that these stand for."""

import concurrent.futures
import copy
import dataclasses
import itertools
import json
import pathlib

import numpy as np
import pytest

from tests.helpers import running, running_int8, subprocesses
from tests.reference import cases, judge
from tests.reference import int8 as reference
from tests.runtime import damage
from tests.weights import golden, hostile
from tests.weights.layouts import layout_of
from tf_cudnn_rnn import runtime, weights

# In products a row of x or h is rounded, to integers of 15 bits in rows of these sizes.
TOLERANCE = 4e-4


def int8_of(case: cases.Case) -> weights.Int8Weights:
    return weights.quantize(case.params, layout_of(case.config))


def random_case(number: int, config: judge.Config, T: int, B: int, ragged=False):
    return running.random_case(number, config, T, B, np.float32, ragged=ragged)


def judged(case: cases.Case, int8: weights.Int8Weights) -> dict:
    """The judge's results, batch-major or time-major as the runtime has them."""
    arrays = reference.Int8(int8.weights, int8.scales, int8.biases)
    params = reference.params_of(case.config, arrays)
    return named(case, dataclasses.replace(case, params=params).forward()._asdict())


def named(case: cases.Case, results: dict) -> dict:
    """Results of the judge or of an op, as `run` returns them."""
    found = {"y": results["y"], "h": states_of(case, results["h_n"])}
    if case.config.rnn_mode == "lstm":
        found["c"] = states_of(case, results["c_n"])
    return found


def states_of(case: cases.Case, array) -> np.ndarray:
    """States as the runtime has them, of those of the judge."""
    return array if case.config.time_major else np.swapaxes(array, 0, 1).copy()


def state_of(case: cases.Case) -> runtime.State:
    is_lstm = case.config.rnn_mode == "lstm"
    c = states_of(case, case.c0) if is_lstm else None
    return runtime.State(states_of(case, case.h0), c)


def run(network: runtime.Network, case: cases.Case) -> dict:
    y, state = network(
        case.x, case.sequence_lengths, state_of(case), time_major=case.config.time_major
    )
    found = {"y": y, "h": state.h, "c": state.c}
    return {name: array for name, array in found.items() if array is not None}


def assert_close(found: dict, expected: dict, label: str) -> None:
    assert found.keys() == expected.keys()
    for name, array in found.items():
        assert array.dtype == np.float32 and array.shape == expected[name].shape
        error = np.max(np.abs(array - expected[name]), initial=0)
        allowed = TOLERANCE * max(1, np.max(np.abs(expected[name]), initial=0))
        assert error <= allowed, f"{name} is off by {error:.3g} ({allowed:.3g}): {label}"


# ------------------------------------------------------------------------------------
# Results
# ------------------------------------------------------------------------------------


def _configs():
    for mode, direction, num_layers, time_major in itertools.product(
        judge.RNN_MODES, judge.DIRECTIONS, (1, 2, 3), (False, True)
    ):
        yield judge.Config(mode, num_layers, 24, 24, direction, time_major=time_major)
        yield judge.Config(mode, num_layers, 23, 23, direction, "skip_input", time_major=time_major)
        yield judge.Config(mode, num_layers, 9, 35, direction, "auto_select", time_major=time_major)
        yield judge.Config(mode, num_layers, 1, 1, direction, time_major=time_major)
    for direction in judge.DIRECTIONS:
        yield judge.Config("lstm", 2, 37, 10, direction, num_proj=9)
        yield judge.Config("lstm", 1, 8, 5, direction, num_proj=8)  # which is none
        yield judge.Config("lstm", 3, 16, 16, direction, "skip_input", num_proj=5)
        yield judge.Config("gru", 1, 200, 65, direction)
        yield judge.Config("lstm", 1, 200, 65, direction)


# Few rows, one row and one step take other routes than many.
SHAPES = [(7, 5), (1, 1), (9, 1), (1, 40), (10, 33)]


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_results_are_those_of_the_floats_that_weights_stand_for(rnn_mode):
    number = 0
    for config in _configs():
        if config.rnn_mode != rnn_mode:
            continue
        for T, B in SHAPES:
            number += 1
            case = random_case(number, config, T, B, ragged=number % 2 == 0)
            int8 = int8_of(case)
            expected = judged(case, int8)
            for num_threads in (1, 2):
                network = runtime.Network(int8, num_threads=num_threads)
                label = f"seed {number}, {num_threads} threads: {case}"
                assert_close(run(network, case), expected, label)


def test_the_bits_are_those_of_the_op():
    for number, config in enumerate(_configs()):
        T, B = SHAPES[number % len(SHAPES)]
        case = random_case(number, config, T, B, ragged=number % 2 == 0)
        int8, of_op = int8_of(case), running_int8.quantized(case)
        for name, array in of_op.weights._asdict().items():
            golden.assert_bits(getattr(int8, name), array)
        expected = named(case, running_int8.forward(of_op))
        network = runtime.Network(int8, num_threads=1 + number % 3)
        running.assert_same_bits(run(network, case), expected, f"seed {number}: {case}")


def test_threads_change_no_bit():
    for number, config in enumerate(_configs()):
        case = random_case(number, config, 6, 1 + 3 * (number % 7), ragged=True)
        int8 = int8_of(case)
        one = run(runtime.Network(int8), case)
        for num_threads in (2, 3):
            running.assert_same_bits(
                run(runtime.Network(int8, num_threads=num_threads), case),
                one,
                f"{num_threads} threads, seed {number}: {case}",
            )


def test_a_batch_changes_no_bit_of_a_row():
    """Sums are of integers, and exact."""
    for number, config in enumerate(_configs()):
        case = random_case(number, dataclasses.replace(config, time_major=False), 5, 17)
        network = runtime.Network(int8_of(case))
        y, _ = network(case.x)
        for row in (0, 7, 16):
            alone, _ = network(case.x[row : row + 1])
            golden.assert_bits(alone[0], y[row], f"seed {number}, row {row}: {case}")


def test_the_weights_make_the_difference():
    """Networks whose int8, scales or biases differ give other results."""
    config = judge.Config("lstm", 2, 12, 7, "bidirectional", num_proj=5, time_major=False)
    case = random_case(1, config, 5, 3)
    int8 = int8_of(case)
    y = run(runtime.Network(int8), case)["y"]
    for name, change in {
        "weights": lambda value: 40 if value < 0 else -40,
        "scales": lambda scale: 2 * scale + 0.01,
        "biases": lambda bias: bias + 1,
    }.items():
        array = getattr(int8, name)
        for i in range(0, array.size, max(1, array.size // 50)):
            changed = array.copy()
            changed[i] = change(changed[i])
            other = dataclasses.replace(int8, **{name: changed})
            found = run(runtime.Network(other), case)["y"]
            assert not np.array_equal(found, y), f"{name}[{i}]"


def test_what_is_lost_beside_floats():
    """Little, and not nothing: int8 are what is computed with."""
    for mode in judge.RNN_MODES:
        config = judge.Config(mode, 2, 64, 40, time_major=False)
        case = random_case(2, config, 20, 4)
        exact = run(runtime.Network(case.params, layout_of(config)), case)
        found = run(runtime.Network(int8_of(case)), case)
        error = np.abs(found["y"] - exact["y"])
        assert 1e-4 < error.max() < 0.1 * np.abs(exact["y"]).max(), (mode, error.max())


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_a_stream_gives_the_bits_of_calls(rnn_mode, batch, num_threads):
    """Of calls of one step, and of one call for all of them."""
    for number, (layers, units, inputs, input_mode) in enumerate(
        [(2, 6, 4, "linear_input"), (1, 33, 33, "skip_input"), (3, 40, 17, "linear_input")]
    ):
        projections = (0, 5) if rnn_mode == "lstm" else (0,)
        for num_proj in projections:
            config = judge.Config(
                rnn_mode,
                layers,
                units,
                inputs,
                "unidirectional",
                input_mode,
                num_proj,
                time_major=False,
            )
            case = random_case(number, config, 7, batch)
            network = runtime.Network(int8_of(case), num_threads=num_threads)
            stream = network.stream(batch)
            whole, last = network(case.x)
            state = None
            for t in range(case.T):
                y, state = network(case.x[:, t : t + 1], state=state)
                found = stream.step(case.x[:, t])
                golden.assert_bits(found, y[:, 0], f"{case}, step {t}")
                golden.assert_bits(found, whole[:, t].copy(), f"{case}, step {t}")
            for name in ("h", "c"):
                of_stream, of_calls = (getattr(s, name) for s in (stream.state, state))
                if of_calls is None:
                    assert of_stream is None
                else:
                    golden.assert_bits(of_stream, of_calls)
                    golden.assert_bits(of_stream, getattr(last, name))


def test_rows_of_a_stream_begin_anew():
    case = random_case(3, judge.Config("lstm", 2, 12, 5, time_major=False), 4, 3)
    network = runtime.Network(int8_of(case))
    stream, fresh = network.stream(3), network.stream(3)
    stream.step(case.x[:, 0])
    before = stream.state
    stream.reset([1])
    after = stream.state
    assert not after.h[:, 1].any() and not after.c[:, 1].any() and before.c[:, 1].all()
    golden.assert_bits(after.h[:, [0, 2]], before.h[:, [0, 2]])
    stream.state = before
    golden.assert_bits(stream.state.c, before.c)
    stream.reset()
    golden.assert_bits(stream.step(case.x[:, 0]), fresh.step(case.x[:, 0]))


def test_what_is_behind_an_end_is_never_read():
    case = random_case(
        4, judge.Config("gru", 2, 12, 5, "bidirectional", time_major=False), 6, 5, ragged=True
    )
    network = runtime.Network(int8_of(case))
    y, after = network(case.x, case.sequence_lengths)
    spoilt = case.with_padding(np.nan)
    found, state = network(spoilt.x, case.sequence_lengths)
    golden.assert_bits(found, y)
    golden.assert_bits(state.h, after.h)
    assert not y[case.padding()].any()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_gives_nan(value):
    case = random_case(5, judge.Config("lstm", 1, 12, 5, time_major=False), 4, 3)
    network = runtime.Network(int8_of(case))
    expected, _ = network(case.x)
    x = case.x.copy()
    x[1, 2, 3] = value
    y, state = network(x)
    assert np.isnan(y[1, 2:]).all() and np.isnan(state.h[:, 1]).all()
    golden.assert_bits(y[[0, 2]], expected[[0, 2]])
    golden.assert_bits(y[1, :2], expected[1, :2])


def test_rows_of_zeros_and_of_all_sizes():
    """Each row of x has a scale of its own."""
    config = judge.Config("rnn_relu", 1, 12, 5, time_major=False)
    case = random_case(6, config, 1, 6)
    params = case.params.copy()
    params[-24:] = 0  # the biases
    case = dataclasses.replace(case, params=params, h0=np.zeros_like(case.h0))
    network = runtime.Network(int8_of(case))
    factors = np.array([0, 1e-20, 1e-5, 1, 1e5, 1e20], np.float32)
    x = case.x[:1] * factors[:, None, None]
    y, _ = network(x)
    assert not y[0].any() and y[1:].any(axis=(1, 2)).all()
    for row, factor in enumerate(factors):
        np.testing.assert_allclose(y[row], y[3] * factor, rtol=2e-4)


def test_nothing_is_computed_of_nothing():
    case = random_case(7, judge.Config("lstm", 2, 6, 4, time_major=False), 5, 3)
    network = runtime.Network(int8_of(case))
    y, after = network(case.x[:0])
    assert y.shape == (0, 5, 6) and after.h.shape == (2, 0, 6)
    y, after = network(case.x[:, :0])
    assert y.shape == (3, 0, 6) and not after.h.any()


def test_rows_of_scale_zero():
    layout = weights.Layout("rnn_tanh", 1, 3, 2)
    params = np.zeros(layout.size, np.float32)
    params[-6:] = np.arange(6) / 7
    y, _ = runtime.Network(weights.quantize(params, layout))(np.ones([1, 1, 2], np.float32))
    np.testing.assert_allclose(y[0, 0], np.tanh(params[-6:-3] + params[-3:]), rtol=1e-5)


@pytest.mark.parametrize("num_units", [96, 256])
def test_many_threads_use_one_network(num_units):
    config = judge.Config("lstm", 1, num_units, 64, time_major=False)
    case = random_case(8, config, 12, 4)
    int8 = int8_of(case)
    expected = run(runtime.Network(int8), case)["y"]
    network = runtime.Network(int8, num_threads=2)
    zeros, _ = network(case.x)

    def use(number: int) -> bool:
        if number % 2:
            return np.array_equal(run(network, case)["y"], expected)
        stream = network.stream(case.B)
        steps = [stream.step(np.ascontiguousarray(case.x[:, t])) for t in range(case.T)]
        return np.array_equal(np.stack(steps, 1), zeros)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(use, range(32)))


# ------------------------------------------------------------------------------------
# What it tells of itself
# ------------------------------------------------------------------------------------


def test_what_a_network_tells():
    case = random_case(9, judge.Config("lstm", 2, 6, 4, num_proj=3, time_major=False), 2, 2)
    int8 = int8_of(case)
    network = runtime.Network(int8)
    assert network.has_int8_weights is True and network.dtype == np.float32
    assert network.layout == layout_of(case.config)
    assert repr(network) == f"<Network int8 weights, float32 {network.layout}>"
    plain = runtime.Network(int8.dequantized())
    assert plain.has_int8_weights is False
    assert repr(plain) == f"<Network float32 {network.layout}>"
    with pytest.raises(TypeError, match="can be neither copied nor pickled"):
        copy.copy(network)


def test_the_network_keeps_a_copy(tmp_path):
    case = random_case(10, judge.Config("gru", 1, 6, 4, time_major=False), 3, 2)
    int8 = int8_of(case)
    network = runtime.Network(int8)
    expected = run(network, case)["y"]
    for array in (int8.weights, int8.scales, int8.biases):
        array[:] = 0
    golden.assert_bits(run(network, case)["y"], expected)
    network.save(tmp_path / "network.safetensors")
    loaded = runtime.Network.load(tmp_path / "network.safetensors")
    golden.assert_bits(run(loaded, case)["y"], expected)


def zeros_of(layout: weights.Layout) -> weights.Int8Weights:
    """Int8 weights of one layer of a simple RNN that `quantize` need not have made."""
    H = layout.num_units
    matrices = np.zeros(layout.size - 2 * H, np.int8)
    scales, biases = np.zeros(2 * H, np.float32), np.zeros(2 * H, np.float32)
    return weights.Int8Weights(layout, matrices, scales, biases)


def test_what_does_not_fit_is_refused():
    case = random_case(11, judge.Config("lstm", 1, 6, 4, time_major=False), 3, 2)
    int8 = int8_of(case)
    network = runtime.Network(int8)
    wide = weights.Layout("rnn_tanh", 1, 1, 2**17 + 1)
    for call, error, message in [
        (lambda: runtime.Network(int8, int8.layout), TypeError, "`layout` must be left out"),
        (lambda: runtime.Network(int8, num_threads=0), ValueError, "num_threads must be in"),
        (lambda: runtime.Network(int8, num_threads=2.5), TypeError, "`num_threads` must be an int"),
        (lambda: network(case.x.astype(np.float64)), ValueError, "float32; got float64"),
        (lambda: network(case.x.astype(np.int8)), ValueError, "float32; got int8"),
        (lambda: runtime.Network(int8.weights, int8.layout), TypeError, "must be of type float32"),
        (
            lambda: runtime.Network(zeros_of(wide)),
            ValueError,
            "rows of at most 131072 elements, got 131073",
        ),
    ]:
        with pytest.raises(error, match=message):
            call()


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_scales_that_changed_after_their_check_are_refused_too(value):
    int8 = int8_of(random_case(12, judge.Config("gru", 1, 6, 4), 1, 1))
    int8.scales[5] = value
    with pytest.raises(ValueError, match=r"scales must be finite and not negative, .*scales\[5\]"):
        runtime.Network(int8)


# ------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
@pytest.mark.parametrize("input_mode", judge.INPUT_MODES)
def test_a_file_has_all_of_a_network(rnn_mode, input_mode, tmp_path):
    config = judge.Config(
        rnn_mode, 2, 6, 6, "bidirectional", input_mode, 4 * (rnn_mode == "lstm"), time_major=False
    )
    case = random_case(13, config, 4, 3)
    network = runtime.Network(int8_of(case))
    path = tmp_path / "network.bin"
    network.save(path)
    loaded = runtime.Network.load(path, num_threads=2)
    assert loaded.has_int8_weights and loaded.layout == network.layout
    assert loaded.dtype == np.float32 and repr(loaded) == repr(network)
    running.assert_same_bits(run(loaded, case), run(network, case), str(case))
    loaded.save(tmp_path / "again.bin")
    assert (tmp_path / "again.bin").read_bytes() == path.read_bytes()
    arrays = weights.read_safetensors(path)
    for name in ("weights", "scales", "biases"):
        golden.assert_bits(arrays[name], getattr(int8_of(case), name))


def save_in_order(path: pathlib.Path, int8: weights.Int8Weights, names) -> None:
    """Writes a file whose tensors lie in another order, as other writers may put them."""
    runtime.Network(int8).save(path)
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    entries = {"__metadata__": header["__metadata__"]}
    data = b""
    for name in names:
        array = getattr(int8, name)
        offsets = [len(data), len(data) + array.nbytes]
        entries[name] = {**header[name], "data_offsets": offsets}
        data += array.tobytes()
    text = json.dumps(entries).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@pytest.mark.parametrize("names", [*itertools.permutations(["weights", "scales", "biases"])])
def test_tensors_may_lie_in_any_order(names, tmp_path):
    """Floats behind an odd number of int8, too."""
    config = judge.Config("rnn_tanh", 1, 3, 2, time_major=False)
    case = random_case(14, config, 4, 3)
    int8 = int8_of(case)
    assert int8.weights.size % 4
    save_in_order(tmp_path / "a.safetensors", int8, names)
    loaded = runtime.Network.load(tmp_path / "a.safetensors")
    running.assert_same_bits(run(loaded, case), run(runtime.Network(int8), case), str(names))
    golden.assert_bits(weights.load(tmp_path / "a.safetensors").params, int8.dequantized().params)


def test_all_of_an_int8_is_a_weight(tmp_path):
    """`quantize` gives no -128, others may."""
    config = judge.Config("lstm", 1, 4, 3)
    case = random_case(16, config, 3, 2)
    int8 = int8_of(case)
    values = int8.weights.copy()
    values[::3] = -128
    int8 = dataclasses.replace(int8, weights=values)
    runtime.Network(int8).save(tmp_path / "a.safetensors")
    loaded = runtime.Network.load(tmp_path / "a.safetensors")
    running.assert_same_bits(run(loaded, case), run(runtime.Network(int8), case), "-128")
    loaded.save(tmp_path / "b.safetensors")
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    params = weights.load(tmp_path / "b.safetensors").params
    golden.assert_bits(params, int8.dequantized().params)
    assert params.min() <= -128 * int8.scales.min()


@pytest.mark.parametrize("name", [name for name in hostile.CASES if name.startswith("int8")])
def test_hostile_files(name, tmp_path):
    (path,) = hostile.CASES[name](tmp_path).arguments
    with pytest.raises(ValueError, match=f"{path}: ") as raised:
        runtime.Network.load(path)
    assert len(str(raised.value)) < 600


def test_any_damage_loads_or_ends_in_an_error(tmp_path):
    case = random_case(15, judge.Config("gru", 2, 6, 4), 1, 1)
    runtime.Network(int8_of(case)).save(tmp_path / "a")
    content = (tmp_path / "a").read_bytes()
    path = tmp_path / "damaged.safetensors"
    for size in (*range(0, 900, 7), len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(ValueError, match="damaged.safetensors"):
            runtime.Network.load(path)
    path.write_bytes(content + b"\0")
    with pytest.raises(ValueError, match="damaged.safetensors"):
        runtime.Network.load(path)
    outcomes = damage.outcomes_of(path, content, 900)
    assert outcomes == {"loaded", "refused"}


WITHOUT_TENSORFLOW = """
import sys
sys.modules["tensorflow"] = None
import numpy as np
import tf_cudnn_rnn.runtime as runtime
from tf_cudnn_rnn import weights
layout = weights.Layout("gru", 1, 4, 3)
network = runtime.Network(weights.quantize(np.ones(layout.size, np.float32), layout))
network.save({path!r})
y, _ = runtime.Network.load({path!r})(np.ones([1, 2, 3], np.float32))
assert y.shape == (1, 2, 4) and y.any()
"""


def test_tensorflow_is_not_needed(tmp_path):
    subprocesses.run_code(WITHOUT_TENSORFLOW.format(path=str(tmp_path / "network.safetensors")))


# ------------------------------------------------------------------------------------
# The bits of instruction sets
# ------------------------------------------------------------------------------------

INSTRUCTION_SETS = """
import sys
import numpy as np
import tf_cudnn_rnn.runtime as runtime
network = runtime.Network.load(sys.argv[1])
y, _ = network(np.load(sys.argv[2]))
np.save(sys.argv[3], y)
"""


def test_a_relu_network_has_the_same_bits_on_all_instruction_sets(tmp_path):
    """Whose activation is exact: products are of integers."""
    case = random_case(16, judge.Config("rnn_relu", 2, 37, 21, time_major=False), 4, 9)
    network = runtime.Network(int8_of(case))
    network.save(tmp_path / "network")
    np.save(tmp_path / "x.npy", case.x)
    expected, _ = network(case.x)
    for isa in ("scalar", runtime.instruction_set()):
        paths = [str(tmp_path / name) for name in ("network", "x.npy", f"{isa}.npy")]
        code = INSTRUCTION_SETS.replace("import sys\n", f"import sys\nsys.argv[1:] = {paths!r}\n")
        subprocesses.run_code(code, environment={"TF_CUDNN_RNN_ISA": isa})
        golden.assert_bits(np.load(tmp_path / f"{isa}.npy"), expected, isa)
