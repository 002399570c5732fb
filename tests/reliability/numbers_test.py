"""Numbers at the ends of their range: infinities, NaN, denormals, saturated gates, many steps.

tests/engine/engine_special_values_test.cc has infinities and NaN for each instruction set, without
TensorFlow. Here are the ops, larger sizes, and what must not change beside them.
"""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import running
from tests.reference import cases, judge

MODES = judge.RNN_MODES
# Large enough for several vectors and tiles, with rests.
I, H, B, T = 37, 70, 11, 23
SICK = 4  # the row that something happens to
STEP = 9  # and the step

INPUTS = ("x", "h0", "c0", "dy", "dh_n", "dc_n")
OF_ROWS = ("y", "h_n", "c_n", "dx", "dh0", "dc0")


def a_case(rnn_mode: str, dtype=np.float32, **options) -> cases.Case:
    options = {"direction": "bidirectional", **options}
    return running.random_case(40, judge.Config(rnn_mode, 2, H, I, **options), T, B, dtype)


def with_value(case: cases.Case, name: str, value: float) -> cases.Case:
    """The same with `value` in row SICK of an input, or in a weight of `params`."""
    array = getattr(case, name).copy()
    if name == "params":
        array[5] = value
    elif name in ("x", "dy"):
        array[STEP, SICK, 3] = value
    else:
        array[1, SICK, 3] = value
    return dataclasses.replace(case, **{name: array})


def serves(name: str, rnn_mode: str) -> bool:
    return name not in ("c0", "dc_n") or rnn_mode == "lstm"


def in_both_types(case: cases.Case) -> list[cases.Case]:
    """A case of single precision, and the same in double: the judge computes both in double."""
    return [case, case.astype(np.float64)]


def judged(case: cases.Case) -> dict:
    # The judge meets what it is asked about.
    with np.errstate(all="ignore"):
        results = running.judged(case)
    return {name: results[name] for name in running.OUTPUTS + running.GRADIENTS}


def assert_flows(actual: dict, case: cases.Case, expected: dict, label: str) -> None:
    """Outputs are the judge's, infinities and NaN included; so are finite gradients.

    An infinite gradient times the derivative of a saturated gate, which is 0 or a number below the
    smallest normal one, is NaN or infinite: both tell of the same.
    """
    for name, right in expected.items():
        where = f"{name} of {label}: {case}"
        value = actual[name].astype(np.float64)
        finite = np.isfinite(right)
        np.testing.assert_array_equal(np.isfinite(value), finite, err_msg=where)
        if name in running.OUTPUTS:
            np.testing.assert_array_equal(value[~finite], right[~finite], err_msg=where)
        error = np.max(np.abs(value[finite] - right[finite]), initial=0)
        assert error <= running.tolerance(case, name, right[finite]), where


# ------------------------------------------------------------------------------------
# Infinities and NaN
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("rnn_mode", MODES)
def test_infinities_and_nan_flow_as_in_the_judge(rnn_mode, value):
    for name in (*INPUTS, "params"):
        if not serves(name, rnn_mode):
            continue
        sick = with_value(a_case(rnn_mode), name, value)
        expected = judged(sick)
        for op, case in zip((running.OWN_V3, running.V3), in_both_types(sick), strict=True):
            results = running.forward_backward(op, case)
            assert_flows(results, case, expected, f"{op}, {value} in {name}")


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", MODES)
def test_a_sick_row_touches_no_other(rnn_mode, dtype):
    options = {"num_proj": 41} if rnn_mode == "lstm" else {}
    case = a_case(rnn_mode, running.DTYPES[dtype], **options)
    others = np.arange(B) != SICK
    healthy = running.forward_backward(running.OWN_V3, case)
    for name in INPUTS:
        if not serves(name, rnn_mode):
            continue
        for value in (np.nan, np.inf):
            results = running.forward_backward(running.OWN_V3, with_value(case, name, value))
            label = f"{value} in {name}: {case}"
            for tensor in OF_ROWS:
                if healthy[tensor].ndim == 3:
                    np.testing.assert_array_equal(
                        results[tensor][:, others].astype(np.float64),
                        healthy[tensor][:, others].astype(np.float64),
                        err_msg=f"{tensor}, {label}",
                    )


@pytest.mark.parametrize("rnn_mode", MODES)
def test_nan_is_in_all_that_comes_after_it_and_in_nothing_before(rnn_mode):
    case = a_case(rnn_mode, direction="unidirectional")
    healthy = running.forward_backward(running.OWN_V3, case)
    sick = running.forward_backward(running.OWN_V3, with_value(case, "x", np.nan))
    np.testing.assert_array_equal(sick["y"][:STEP], healthy["y"][:STEP])
    assert np.isnan(sick["y"][STEP:, SICK]).all() and np.isnan(sick["h_n"][:, SICK]).all()
    # Backward, time runs the other way.
    sick = running.forward_backward(running.OWN_V3, with_value(case, "dy", np.nan))
    running.assert_same_bits(
        {name: sick[name] for name in running.OUTPUTS},
        {name: healthy[name] for name in running.OUTPUTS},
        "outputs do not depend on dy",
    )
    np.testing.assert_array_equal(sick["dx"][STEP + 1 :], healthy["dx"][STEP + 1 :])
    if rnn_mode != "rnn_relu":  # whose derivative is 0 where it is off
        assert np.isnan(sick["dx"][: STEP + 1, SICK]).all()
        assert np.isnan(sick["dh0"][0, SICK]).all()


# ------------------------------------------------------------------------------------
# Denormals
# ------------------------------------------------------------------------------------

# By type the smallest normal number, and what makes large numbers of denormal ones.
RANGES = {
    "float": (2.0**-126, 2.0**100),
    "double": (2.0**-1022, 2.0**1000),
    "bfloat16": (2.0**-126, 2.0**100),
}


def with_nothing_but(name: str, value: float, rnn_mode: str, dtype, large: float) -> cases.Case:
    """`value` everywhere in one input, zeros in the others, and weights that make much of it."""
    case = a_case(rnn_mode, np.float64)
    arrays = {each: np.zeros_like(getattr(case, each)) for each in INPUTS}
    params = np.sign(case.params) * large
    for weights in judge.split_params(case.config, params):
        weights.bW[:] = weights.bR[:] = 0
    if name == "params":
        arrays["x"] += large
        params = np.sign(case.params) * value
    else:
        arrays[name] += value
    return dataclasses.replace(case, **arrays, params=params).astype(dtype)


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("rnn_mode", MODES)
def test_denormals_are_zeros(rnn_mode, dtype):
    smallest, large = RANGES[dtype]
    for name in (*INPUTS, "params"):
        if not serves(name, rnn_mode):
            continue
        for value in (smallest / 2, smallest / 64, -smallest / 2, 8 * smallest):
            case = with_nothing_but(name, value, rnn_mode, running.DTYPES[dtype], large)
            assert np.any(getattr(case, name) != 0)
            results = running.forward_backward(running.OWN_V3, case)
            is_seen = any(np.any(array != 0) for array in results.values())
            # A ReLU that gets a number below zero, or no gradient, is off.
            if abs(value) < smallest:
                assert not is_seen, f"{value} in {name}: {case}"
            elif rnn_mode != "rnn_relu" or name in ("x", "h0", "params"):
                assert is_seen, f"{value} in {name}: {case}"


def test_denormals_are_zeros_in_the_thread_that_calls():
    """Where TensorFlow, which sets this for threads of its own, has set nothing."""
    smallest, large = RANGES["float"]
    in_this_thread = tf.compat.v1.RunOptions(inter_op_thread_pool=-1)
    for value in (smallest / 2, 8 * smallest):
        case = with_nothing_but("x", value, "rnn_tanh", np.float32, large)
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            # Fed, or it would be computed before in another thread.
            fed = {tf.compat.v1.placeholder(t.dtype, t.shape): t for t in (case.x, case.params)}
            x, params = fed
            states = running.tensors_of(case)[1:3]
            y = running.call(running.OWN_V3, case, x, *states, params, case.sequence_lengths)[0]
            is_seen = session.run(y, fed, options=in_this_thread).any()
        assert is_seen == (value > smallest)


@pytest.mark.parametrize("rnn_mode", MODES)
def test_denormals_of_float16_are_numbers(rnn_mode):
    """They are normal in float32, in which float16 is computed."""
    config = judge.Config(rnn_mode, 1, H, I)
    case = running.random_case(41, config, T, B)
    params = case.params.copy()
    for weights in judge.split_params(config, params):
        weights.W[:] *= 2**14
    case = dataclasses.replace(case, x=case.x * 2**-16, params=params).astype(np.float16)
    smallest = np.finfo(np.float16).smallest_normal
    assert np.mean((case.x != 0) & (np.abs(case.x) < smallest)) > 0.9
    results = running.forward(running.OWN_V3, case)
    running.assert_judged(results, case, "seed 41")
    without = dataclasses.replace(case, x=np.zeros_like(case.x)).forward()
    assert np.mean(np.abs(results["y"] - without.y)) > 0.02


# ------------------------------------------------------------------------------------
# Saturated gates, and overflow
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e4, 1e15, 1e30])
@pytest.mark.parametrize("rnn_mode", [mode for mode in MODES if mode != "rnn_relu"])
def test_saturated_gates_have_finite_gradients(rnn_mode, scale):
    """Their derivatives are 0, and 0 times a weight is no NaN."""
    case = a_case(rnn_mode)
    case = dataclasses.replace(case, params=case.params * np.float32(scale))
    expected = judged(case)
    for same in in_both_types(case):
        for op in (running.OWN_V3, running.V3):
            results = running.forward_backward(op, same)
            label = f"{op}, scale {scale}: {case}"
            for name, value in results.items():
                assert np.isfinite(value).all(), f"{name}, {label}"
            # A sum that comes near 0 is saturated in one precision and not in the other.
            for name in running.OUTPUTS:
                off = np.abs(results[name] - expected[name]) > 1e-4
                assert np.mean(off) <= 0.001, f"{name}, {label}"
            assert np.max(np.abs(results["y"])) <= max(1, np.max(np.abs(case.h0)))


@pytest.mark.parametrize("value", [50.0, 200.0, 1e4, 1e30])
@pytest.mark.parametrize("rnn_mode", [mode for mode in MODES if mode != "rnn_relu"])
def test_gates_that_biases_saturate(rnn_mode, value):
    """Here nothing cancels, so that all gradients are the judge's, the smallest ones, too."""
    for sign in (1, -1):
        case = a_case(rnn_mode)
        params = case.params.copy()
        for weights in judge.split_params(case.config, params):
            weights.bW[:] = sign * value
        case = dataclasses.replace(case, params=params)
        right = judged(case)
        for same in in_both_types(case):
            results = running.forward_backward(running.OWN_V3, same)
            smallest = np.finfo(same.x.dtype).smallest_normal
            for name, expected in right.items():
                error = np.max(np.abs(results[name] - expected), initial=0)
                # What is below the smallest normal number becomes 0, and is summed.
                allowed = running.tolerance(same, name, expected) + 1e3 * smallest
                assert error <= allowed, f"{name}, biases of {sign * value}: {same}"


@pytest.mark.parametrize(
    ("dtype", "large", "small"), [(np.float32, 1e25, 1e-30), (np.float64, 1e200, 1e-280)]
)
def test_relu_overflows_to_infinity(dtype, large, small):
    """All terms are positive. With others it depends on their order whether a sum is NaN."""
    config = judge.Config("rnn_relu", 1, H, I)
    case = running.random_case(42, config, 2, B)
    # Every second row stays small enough.
    size = np.where(np.arange(B) % 2, small, 1)[:, None]
    params = np.abs(case.params) * large
    for weights in judge.split_params(config, params):
        weights.bW[:] = weights.bR[:] = 0
    case = dataclasses.replace(
        case, x=np.abs(case.x) * size, h0=np.abs(case.h0) * size, params=params
    ).astype(dtype)
    expected = judged(case)["y"]
    beyond = expected > np.finfo(dtype).max
    assert beyond[1, ::2].all() and beyond.sum() == beyond[1, ::2].size
    for op in (running.OWN_V3, running.V3):
        found = running.forward(op, case)["y"]
        np.testing.assert_array_equal(np.isposinf(found), beyond)
        np.testing.assert_allclose(found[~beyond], expected[~beyond], rtol=1e-5)


# ------------------------------------------------------------------------------------
# Many steps
# ------------------------------------------------------------------------------------

MANY = 10_000


@pytest.mark.parametrize("rnn_mode", MODES)
def test_ten_thousand_steps(rnn_mode):
    """Full rows and short ones, forward and backward."""
    config = judge.Config(rnn_mode, 1, 8, 3)
    rng = np.random.default_rng(43)
    lengths = [MANY, 1, 0, 7777]
    # The judge, which is slow, computes once: float64 gets the same numbers.
    case = cases.random_case(rng, config, MANY, 4, lengths).astype(np.float32)
    if rnn_mode == "rnn_relu":  # which grows without bound otherwise
        case = dataclasses.replace(case, params=case.params * np.float32(0.5))
    expected = running.judged(case)
    for dtype in (np.float32, np.float64):
        for op in (running.OWN_V3, running.V3) if dtype == np.float32 else (running.OWN_V3,):
            same = case.astype(dtype)
            results = running.forward_backward(op, same)
            for name, value in results.items():
                label = f"{name} of {op}, {dtype.__name__}, seed 43: {rnn_mode}"
                assert np.isfinite(value).all(), label
                error = np.max(np.abs(value - expected[name]), initial=0)
                assert error <= running.tolerance(same, name, expected[name]), (label, error)


@pytest.mark.parametrize("rnn_mode", MODES)
def test_ten_thousand_steps_both_ways_are_finite(rnn_mode):
    config = judge.Config(rnn_mode, 2, 16, 5, "bidirectional", num_proj=7 * (rnn_mode == "lstm"))
    case = running.random_case(44, config, MANY, 3, np.float32, ragged=True)
    results = running.forward_backward(running.V3, case)
    doubles = running.forward_backward(running.OWN_V3, case.astype(np.float64))
    for name, value in results.items():
        assert np.isfinite(value).all(), f"{name}, seed 44: {case}"
        error = np.max(np.abs(value - doubles[name]), initial=0)
        assert error <= running.tolerance(case, name, doubles[name]), (name, error)
