"""`weights.quantize`: rows of int8 with a scale each, against plain loops; and their file."""

import dataclasses
import itertools
import pathlib
import re

import ml_dtypes
import numpy as np
import pytest
import safetensors

from tests.reference import cases, judge
from tests.weights import golden
from tests.weights.layouts import layout_of
from tf_cudnn_rnn import runtime, weights
from tf_cudnn_rnn._formats import int8, runtime_file

DTYPES = {
    "float32": np.float32,
    "float64": np.float64,
    "float16": np.float16,
    "bfloat16": ml_dtypes.bfloat16,
}


def fields_of(layout: weights.Layout) -> dict:
    names = ("rnn_mode", "num_layers", "num_units", "input_size", "direction", "input_mode")
    return {name: getattr(layout, name) for name in (*names, "num_proj")}


def rows_of(matrix) -> list[np.ndarray]:
    """Those of a matrix [..., rows, columns]; none if it has no columns."""
    return list(matrix.reshape(-1, matrix.shape[-1])) if matrix is not None and matrix.size else []


def quantized_row(row) -> tuple[list[int], np.float32]:
    """A row of float32, number by number."""
    scale = np.float32(max(abs(weight) for weight in row)) / np.float32(127)
    values = []
    for weight in row:
        value = round(float(np.float32(weight) / scale)) if scale else 0  # halves to the even one
        values.append(min(max(value, -127), 127))
    return values, scale


def by_loops(config: judge.Config, params) -> tuple[list[int], list, list]:
    """The values, scales and biases of float32 params, by the judge's own idea of their order."""
    values, scales, biases = [], [], []
    for layer in judge.split_params(config, params):
        for matrix in (layer.W, layer.R, layer.projection):
            for row in rows_of(matrix):
                of_row, scale = quantized_row(row)
                values += of_row
                scales.append(scale)
        biases += [*layer.bW.ravel(), *layer.bR.ravel()]
    return values, scales, biases


def random_case(seed: int, dtype=np.float32):
    rng = np.random.default_rng(seed)
    config = cases.random_config(rng)
    return config, cases.random_params(rng, config).astype(dtype)


def quantized(seed: int) -> weights.Int8Weights:
    config, params = random_case(seed)
    return weights.quantize(params, layout_of(config))


def of_rows(*rows, dtype=np.float32) -> tuple[np.ndarray, weights.Layout]:
    """The params of a simple RNN whose W has these rows, and whose R and biases are zeros."""
    W = np.array(rows, dtype)
    layout = weights.Layout("rnn_tanh", 1, *W.shape)
    params = np.zeros(layout.size, dtype)
    params[: W.size] = W.ravel()
    return params, layout


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_number_is_that_of_plain_loops(dtype):
    modes = set()
    for seed in range(30):
        config, params = random_case(seed, DTYPES[dtype])
        found = weights.quantize(params, layout_of(config))
        values, scales, biases = by_loops(config, params.astype(np.float32))
        assert found.layout == layout_of(config)
        golden.assert_bits(found.weights, np.array(values, np.int8))
        golden.assert_bits(found.scales, np.array(scales, np.float32))
        golden.assert_bits(found.biases, np.array(biases, np.float32))
        modes.add((config.rnn_mode, config.direction, config.skip, config.has_projection))
    assert len(modes) > 12


def test_a_canonical_gives_what_its_vector_gives():
    config, params = random_case(3)
    layout = layout_of(config)
    canonical = weights.from_cudnn(params, **fields_of(layout))
    one, other = weights.quantize(canonical), weights.quantize(params, layout)
    for name in ("weights", "scales", "biases"):
        golden.assert_bits(getattr(one, name), getattr(other, name))
    assert one.nbytes == one.weights.size + 4 * (one.scales.size + one.biases.size)


def test_a_weight_is_off_by_half_a_scale_at_most():
    largest = 0.0
    for seed in range(20):
        config, params = random_case(seed)
        found = weights.quantize(params, layout_of(config))
        named = found.dequantized().named
        exact = weights.from_cudnn(params, **fields_of(found.layout)).named
        for name, matrix in exact.items():
            if "kernel" not in name.kind and name.kind != "projection":
                golden.assert_bits(named[name], matrix)
                continue
            for row, other in zip(rows_of(matrix), rows_of(named[name]), strict=True):
                # Half a scale, and the rounding of the scale and of a product.
                bound = np.abs(row).max() * (0.5 / 127 + 2**-22)
                assert np.abs(row - other).max() <= bound
                largest = max(largest, np.abs(row - other).max() / bound)
    assert largest > 0.99  # the bound says something


def test_dequantized_weights_are_products_of_float32():
    for seed in range(20):
        found = quantized(seed)
        canonical = found.dequantized()
        assert canonical.layout == found.layout and canonical.dtype == np.float32
        assert len(canonical.notes) == 1 and "int8" in canonical.notes[0]
        values, scales = iter(found.weights), iter(found.scales)
        for name, matrix in canonical.named.items():
            if name.kind.endswith("bias"):
                continue
            for row in rows_of(matrix):
                scale = next(scales)
                for weight in row:
                    assert weight.tobytes() == (np.float32(next(values)) * scale).tobytes()
        assert not [*values, *scales]
        golden.assert_bits(canonical.params[found.weights.size :], found.biases)


def test_again_the_same_numbers():
    """But for the last bit of a scale."""
    for seed in range(20):
        found = quantized(seed)
        again = weights.quantize(found.dequantized())
        golden.assert_bits(again.weights, found.weights)
        np.testing.assert_array_max_ulp(again.scales, found.scales, 1)


# ------------------------------------------------------------------------------------
# Rows at the edge
# ------------------------------------------------------------------------------------


def first_rows(*rows, dtype=np.float32) -> tuple[list[list[int]], list[float]]:
    """The values and scales of rows, whose dequantized weights are finite."""
    params, layout = of_rows(*rows, dtype=dtype)
    found = weights.quantize(params, layout)
    assert np.isfinite(found.dequantized().params).all()
    size = len(rows) * len(rows[0])
    return found.weights[:size].reshape(len(rows), -1).tolist(), found.scales[: len(rows)].tolist()


def test_halves_go_to_the_even_number():
    values, scales = first_rows([127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5])
    assert values == [[127, 0, 2, 2, 0, -2, -2, 126]] and scales == [1]


def test_rows_of_zeros():
    values, scales = first_rows([0, 0], [-0.0, 0], [-0.0, -0.0], [1, -0.0])
    assert values == [[0, 0]] * 3 + [[127, 0]]
    assert scales[:3] == [0] * 3 and not np.signbit(scales).any()


@pytest.mark.parametrize("weight", [1.0, -1.0, 3e-39, 1e38, -0.7])
def test_rows_of_one_number(weight):
    values, scales = first_rows([weight])
    assert values == [[127 if weight > 0 else -127]]
    assert scales == [np.float32(abs(weight)) / np.float32(127)]


LARGEST = float(np.finfo(np.float32).max)
LEAST = float(np.finfo(np.float32).smallest_subnormal)


def test_rows_of_huge_numbers():
    values, scales = first_rows([3e38, -1.6e38, 1], [-3.4e38, 0, 3.4e38])
    assert values == [[127, -68, 0], [-127, 0, 127]]
    assert np.isfinite(scales).all()


def test_rows_of_tiny_numbers():
    values, scales = first_rows(
        [LEAST, -LEAST, 0],  # the scale is zero
        [63 * LEAST, 3 * LEAST, 0],  # likewise
        [190 * LEAST, -64 * LEAST, LEAST],  # the scale is the least number: 190 is too many of it
        [1e-30, -1e-30, 1e-38],
        [1e30, 1e-30, -1e-45],
    )
    assert scales[:3] == [0, 0, LEAST]
    assert values[:3] == [[0, 0, 0], [0, 0, 0], [127, -64, 1]]
    assert values[3:] == [[127, -127, 0], [127, 0, 0]]


@pytest.mark.parametrize("state", ["ignore", "raise"])
def test_how_numpy_treats_errors_changes_nothing(state):
    with np.errstate(all=state):
        test_rows_of_tiny_numbers()
        test_rows_of_huge_numbers()
        values, _ = first_rows([1.0, 1e-320], dtype=np.float64)
        assert values == [[127, 0]]


# ------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------


def refused(message: str, error=ValueError):
    """Expects `error` with exactly this text somewhere in it."""
    return pytest.raises(error, match=re.escape(message))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", DTYPES)
def test_weights_that_are_not_finite_are_refused_by_name(value, dtype):
    layout = weights.Layout("lstm", 2, 3, 2, "bidirectional", num_proj=2)
    for region in layout.weights[:: len(layout.weights) // 7]:
        params = np.ones(layout.size, DTYPES[dtype])
        params[region.offset + region.size - 1] = value
        place = [size - 1 for size in region.shape]
        with refused(f"{region.name} has {value} at {place}."):
            weights.quantize(params, layout)


def test_what_float32_makes_infinite_is_refused():
    params, layout = of_rows([1.0, -1e39], dtype=np.float64)
    with refused("layer_0/forward/input_kernel has -1e+39 at [0, 1]."):
        weights.quantize(params, layout)
    params, layout = of_rows([1.0, LARGEST], dtype=np.float64)
    params[-1] = 1e300
    with refused("layer_0/forward/recurrent_bias has 1e+300 at [0]."):
        weights.quantize(params, layout)


def test_biases_may_be_anything():
    params, layout = of_rows([1.0, 2.0], dtype=np.float64)
    params[-2:] = np.nan, -np.inf
    biases = weights.quantize(params, layout).biases
    np.testing.assert_array_equal(biases, np.array([np.nan, -np.inf], np.float32))


def test_what_is_no_network_is_refused():
    config, params = random_case(3)
    layout = layout_of(config)
    canonical = weights.from_cudnn(params, **fields_of(layout))
    gradients = weights.from_cudnn(params, **fields_of(layout), of="gradients")
    for arguments, message, error in [
        ((params,), "`layout` must say what network the vector `weights` is of", TypeError),
        (("a.keras",), "got a path. Pass weights.load('a.keras')", TypeError),
        ((runtime.Network(canonical),), "runtime.Network. Pass what it was made of", TypeError),
        ((weights.quantize(params, layout),), "must not be quantized yet", TypeError),
        ((canonical, layout), "`layout` must be left out", TypeError),
        ((params, "lstm"), "`layout` must be a weights.Layout; got str", TypeError),
        ((params[1:], layout), f"`weights` must have shape [{layout.size}]", ValueError),
        ((params[None], layout), f"got [1, {layout.size}]", ValueError),
        ((params.astype(int), layout), "must have a floating-point dtype; got int64", ValueError),
        ((gradients,), "must be of weights; got gradients", ValueError),
        ((params, weights.Layout("lstm", 10**9, 2, 2)), "got [", ValueError),
    ]:
        with refused(message, error):
            weights.quantize(*arguments)


def test_gradients_are_no_weights():
    config, params = random_case(3)
    gradients = weights.from_cudnn(params, **fields_of(layout_of(config)), of="gradients")
    with refused("`weights` must be of weights; got gradients"):
        runtime.Network(gradients)


# Of a depth: a network of which one matrix alone has rows so long.
DEEP = {
    "input_size": lambda depth: weights.Layout("rnn_tanh", 1, 1, depth),
    "num_units": lambda depth: weights.Layout("lstm", 1, depth, 1, num_proj=1),
}


def test_the_longest_row_is_that_of_the_engine():
    header = (pathlib.Path(__file__).parents[2] / "network" / "int8_weights.h").read_text()
    (shift,) = re.findall(r"kMaxDepth = int64_t\{1\} << (\d+);", header)
    assert int8.MAX_DEPTH == 1 << int(shift)


@pytest.mark.parametrize("case", DEEP)
def test_rows_longer_than_any_network_has_in_int8_are_refused(case):
    """Which would be written, and nothing could load them."""
    for depth in (int8.MAX_DEPTH, int8.MAX_DEPTH + 1):
        layout = DEEP[case](depth)
        params = np.ones(layout.size, np.float32)
        if depth > int8.MAX_DEPTH:
            with refused(f"rows of at most 131072 elements to be quantized; got {depth} ("):
                weights.quantize(params, layout)
        else:
            assert runtime.Network(weights.quantize(params, layout)).has_int8_weights


def test_what_enters_an_upper_layer_counts(monkeypatch):
    monkeypatch.setattr(int8, "MAX_DEPTH", 20)
    for depth, is_right in ((20, True), (22, False)):
        layout = weights.Layout("gru", 2, depth // 2, 3, "bidirectional")
        params = np.ones(layout.size, np.float32)
        if is_right:
            assert weights.quantize(params, layout).layout == layout
        else:
            with refused("got 22 ("):
                weights.quantize(params, layout)
        one_layer = dataclasses.replace(layout, num_layers=1)
        weights.quantize(params[: one_layer.size], one_layer)


def changed(array, index, value):
    array = array.copy()
    array[index] = value
    return array


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("weights", lambda a: a[1:], "`weights` must be of int8 and have shape ["),
        ("weights", lambda a: a[None], "`weights` must be of int8 and have shape ["),
        ("weights", lambda a: a.astype(np.int16), "for Layout(rnn_mode='gru'"),
        ("weights", lambda a: a.astype(np.uint8), "got uint8 ["),
        ("scales", lambda a: np.append(a, a[0]), "`scales` must be of float32 and have shape ["),
        ("scales", lambda a: a.astype(np.float64), "got float64 ["),
        ("scales", lambda a: changed(a, 3, np.nan), "not negative; the one at 3 is nan."),
        ("scales", lambda a: changed(a, 0, np.inf), "not negative; the one at 0 is inf."),
        ("scales", lambda a: changed(a, -1, -1e-45), "is -1e-45."),
        ("biases", lambda a: a.astype(np.float16), "`biases` must be of float32"),
        ("biases", lambda a: a[:0], "got float32 [0]"),
        ("layout", lambda a: None, "`layout` must be a weights.Layout; got NoneType"),
        ("layout", lambda a: weights.Layout("gru", 10**9, 4, 4), "num_layers=1000000000"),
    ],
)
def test_what_are_no_weights_of_int8(name, change, message):
    layout = weights.Layout("gru", 1, 4, 3)
    params = np.random.default_rng(5).normal(size=layout.size).astype(np.float32)
    found = weights.quantize(params, layout)
    fields = {field: getattr(found, field) for field in ("layout", "weights", "scales", "biases")}
    fields[name] = change(fields[name])
    with refused(message, TypeError if fields["layout"] is None else ValueError):
        weights.Int8Weights(**fields)


def test_arrays_may_lie_as_they_like():
    found = quantized(4)
    scales = np.repeat(found.scales, 2)[::2]
    biases = found.biases.astype(found.biases.dtype.newbyteorder())
    again = weights.Int8Weights(found.layout, found.weights[::-1][::-1], scales, biases)
    for name in ("weights", "scales", "biases"):
        array = getattr(again, name)
        golden.assert_bits(array, getattr(found, name))
        assert array.flags.carray and array.dtype.isnative
    assert weights.Int8Weights(found.layout, [*found.weights], [*scales], [*biases]) is not None


# ------------------------------------------------------------------------------------
# The file
# ------------------------------------------------------------------------------------

MODES = [
    weights.Layout(mode, num_layers, 4, 4, direction, input_mode, num_proj)
    for mode, direction, input_mode, num_layers in itertools.product(
        judge.RNN_MODES, judge.DIRECTIONS, judge.INPUT_MODES, (1, 2)
    )
    for num_proj in ((0, 3, 4) if mode == "lstm" else (0,))
]


@pytest.mark.parametrize("layout", MODES, ids=str)
def test_the_file_comes_back_byte_for_byte(layout, tmp_path):
    params = np.random.default_rng(7).normal(size=layout.size).astype(np.float32)
    found = weights.quantize(params, layout)
    path, second = tmp_path / "one.safetensors", tmp_path / "two.safetensors"
    runtime_file.write_int8(path, found)
    arrays = weights.read_safetensors(path)
    assert list(arrays) == ["biases", "scales", "weights"]
    header = runtime_file.read_header(path)
    assert header.has_int8_weights and header.dtype == np.float32
    again = weights.Int8Weights(header.layout, **arrays)
    for name in ("weights", "scales", "biases"):
        golden.assert_bits(getattr(again, name), getattr(found, name))
    runtime_file.write_int8(second, again)
    assert path.read_bytes() == second.read_bytes()
    # The layout that says the same, of those that do.
    loaded, expected = weights.load(path), found.dequantized()
    assert loaded.layout == header.layout
    assert loaded.layout.size == layout.size and loaded.notes == expected.notes
    assert loaded.layout.skips_input == layout.skips_input
    golden.assert_bits(loaded.params, expected.params)


def test_what_the_package_safetensors_reads(tmp_path):
    found = quantized(9)
    runtime_file.write_int8(tmp_path / "a.safetensors", found)
    content = (tmp_path / "a.safetensors").read_bytes()
    entries = dict(safetensors.deserialize(content))
    assert {name: entry["dtype"] for name, entry in entries.items()} == {
        **{"weights": "I8", "scales": "F32", "biases": "F32"}
    }
    for name, entry in entries.items():
        assert bytes(entry["data"]) == getattr(found, name).tobytes()
        assert entry["shape"] == [getattr(found, name).size]
    with safetensors.safe_open(tmp_path / "a.safetensors", "numpy") as file:
        metadata = file.metadata()
    layout = found.layout
    assert (metadata["format"], metadata["version"]) == ("tf_cudnn_rnn/int8", "1")
    assert metadata["num_units"] == str(layout.num_units) and len(metadata) == 9
