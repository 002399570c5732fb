"""Runs the ops on the judge's cases and compares the results with the judge's."""

import contextlib
import dataclasses

import numpy as np
import tensorflow as tf

import tf_cudnn_rnn
from tests.reference import cases, judge

DTYPES = {
    "float": np.float32,
    "double": np.float64,
    "half": np.float16,
    "bfloat16": tf.bfloat16.as_numpy_dtype,
}
OWN_V3 = "own V3"
V3, V2, V1 = "V3", "V2", "V1"  # the built-in ops
OPS = (OWN_V3, V3, V2, V1)

OUTPUTS = ("y", "h_n", "c_n")
GRADIENTS = ("dx", "dh0", "dc0", "dparams")


def serves(op: str, case: cases.Case) -> bool:
    """Whether `op` can express the case: V1 and V2 know time-major full sequences only."""
    if op in (OWN_V3, V3):
        return True
    config = case.config
    full = bool((case.sequence_lengths == case.T).all())
    return config.time_major and not config.has_projection and full


def call(op: str, case: cases.Case, x, h0, c0, params, lengths, **options):
    """Calls `op` with these tensors and the options of `case`; returns its named tuple.

    Args:
      options: of the op, on top of those of the case: is_training, seed, rng_seed, ...
    """
    config = case.config
    arguments = {
        "input": x,
        "input_h": h0,
        "input_c": c0,
        "params": params,
        "rnn_mode": config.rnn_mode,
        "input_mode": config.input_mode,
        "direction": config.direction,
        "dropout": config.dropout,
        **options,
    }
    if op in (OWN_V3, V3):
        arguments |= {
            "sequence_lengths": lengths,
            "num_proj": config.num_proj,
            "time_major": config.time_major,
        }
    function = {
        OWN_V3: tf_cudnn_rnn.raw_ops.CudnnRNNV3,
        V3: tf.raw_ops.CudnnRNNV3,
        V2: tf.raw_ops.CudnnRNNV2,
        V1: tf.raw_ops.CudnnRNN,
    }[op]
    return function(**arguments)


def tensors_of(case: cases.Case) -> tuple:
    """The inputs of the forward op: x, h0, c0, params, sequence_lengths."""
    names = ("x", "h0", "c0", "params", "sequence_lengths")
    return tuple(tf.constant(getattr(case, name)) for name in names)


@contextlib.contextmanager
def graphs_as_traced():
    """Graphs run here as they were traced: to optimise a large one takes longer than to run it."""
    options = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    try:
        yield
    finally:
        before = options.get("disable_meta_optimizer", False)
        tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": before})


def forward(op: str, case: cases.Case, *, graph: bool = False, **options) -> dict:
    """Returns the arrays y, h_n and c_n by name. In a graph nothing else is fetched."""

    def run(*tensors):
        return list(call(op, case, *tensors, **options)[:3])

    outputs = (tf.function(run) if graph else run)(*tensors_of(case))
    return dict(zip(OUTPUTS, [output.numpy() for output in outputs], strict=True))


def forward_backward(
    op: str, case: cases.Case, *, graph: bool = False, unknown_shapes: bool = False, **options
) -> dict:
    """Returns the arrays of OUTPUTS and GRADIENTS by name; options as of `call`.

    Args:
      graph: run in a tf.function.
      unknown_shapes: trace that function without any shape.
    """

    def run(*tensors):
        return call_and_differentiate(op, case, *tensors, **options)

    tensors = tensors_of(case)
    if graph:
        specs = [tf.TensorSpec(None, tensor.dtype) for tensor in tensors]
        run = tf.function(run, input_signature=specs if unknown_shapes else None)
    arrays = [tensor.numpy() for tensor in run(*tensors)]
    return dict(zip(OUTPUTS + GRADIENTS, arrays, strict=True))


def call_and_differentiate(op: str, case: cases.Case, *tensors, **options) -> list:
    """Calls `op` with `tensors_of`; returns the tensors of OUTPUTS and GRADIENTS."""
    with tf.GradientTape() as tape:
        tape.watch(tensors[:4])
        outputs = list(call(op, case, *tensors, **options)[:3])
    gradients = tape.gradient(
        outputs, tensors[:4], [tf.constant(d) for d in (case.dy, case.dh_n, case.dc_n)]
    )
    return outputs + list(gradients)


def judged(case: cases.Case, key: int | None = None) -> dict:
    """The judge's OUTPUTS and GRADIENTS, by name."""
    global _last
    # Tests compare one op after the other with the same case, or with the same numbers in double:
    # the judge, which is slow, computes them once.
    if _last is None or _last[1] != key or not _same_numbers(_last[0], case):
        forward, gradients = case.forward_backward(key)
        results = {**forward._asdict(), **gradients._asdict()}
        for value in results.values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
        _last = (case, key, results)
    return dict(_last[2])


def _same_numbers(one: cases.Case, other: cases.Case) -> bool:
    names = (*cases.Case.TENSORS, "sequence_lengths")
    return one is other or (
        one.config == other.config
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)
    )


_last: tuple | None = None  # the case, the key and the results of `judged`


def tolerance(
    case: cases.Case, name: str, expected: np.ndarray, least_gradient: float = 0.0
) -> float:
    """How far from the judge's `expected` an element of the tensor `name` may be.

    It is absolute for values up to 1, and relative to the largest value of a tensor
    beyond; for gradients it is always the latter, but relative to `least_gradient` at least
    where there is any.

    float and double: what the library promises.

    half and bfloat16: the inputs are the judge's own, and all arithmetic is in float, so
    what remains is the rounding of what is kept in 16 bits: per layer and step h, and for
    the backward pass the gates and the cell state. Each rounds a value of O(1) by eps / 2
    at most. An element sees its own rounding and those of the layers and steps before it,
    which reach it damped (gates and tanh contract, matrices are scaled so that their gain
    is about 1) and with random signs; hence a few roundings, however many steps there
    are: 6 of them, 3 eps, for states and outputs. A gradient multiplies several rounded
    factors (gates, h, c) at each step, and goes through the chain twice: 16, 8 eps. The
    worst that the cases in this folder show is less than half of either.
    """
    largest = float(np.max(np.abs(expected), initial=0.0))
    dtype = case.x.dtype
    is_gradient = name in GRADIENTS
    scale = max(largest and least_gradient, largest) if is_gradient else max(1.0, largest)
    if dtype == np.float32:
        return scale * (1e-5 if is_gradient else 2e-6)
    if dtype == np.float64:
        return scale * 1e-12
    one = np.ones([], dtype)
    eps = float(np.nextafter(one, one + one) - one)
    return scale * eps * (8 if is_gradient else 3)


def assert_judged(
    actual: dict,
    case: cases.Case,
    label: str,
    key: int | None = None,
    least_gradient: float = 0.0,
) -> None:
    """Compares all tensors in `actual` with the judge's; `label` says how to repeat it."""
    if GRADIENTS[0] in actual:
        expected = judged(case, key)
    else:
        expected = case.forward(key)._asdict()
    for name, value in actual.items():
        where = f"{name} of {label}: {case}, {case.x.dtype}"
        assert value.dtype == case.x.dtype, where
        assert value.shape == expected[name].shape, where
        value = value.astype(np.float64)
        assert np.isfinite(value).all(), f"not finite: {where}"
        if kink(case) and name in GRADIENTS:
            continue
        error = np.max(np.abs(value - expected[name]), initial=0.0)
        allowed = tolerance(case, name, expected[name], least_gradient)
        assert error <= allowed, f"off by {error:.3g} (allowed {allowed:.3g}): {where}"


def assert_same_bits(actual: dict, expected: dict, label: str) -> None:
    """Demands equality to the last bit."""
    assert actual.keys() == expected.keys()
    for name in actual:
        assert np.isfinite(actual[name].astype(np.float64)).all(), f"{name} of {label}"
        np.testing.assert_array_equal(
            actual[name].view(np.uint8) if actual[name].ndim else actual[name],
            expected[name].view(np.uint8) if expected[name].ndim else expected[name],
            err_msg=f"{name} of {label}",
        )


def kink(case: cases.Case) -> bool:
    """Whether gradients depend on rounding: ReLU's derivative jumps where 16 bits err."""
    return case.config.rnn_mode == "rnn_relu" and case.x.dtype.itemsize == 2


def random_case(seed: int, config: judge.Config, T: int, B: int, dtype=np.float64, ragged=False):
    """A case made from a seed; ragged lengths are unsorted, some of them zero."""
    rng = np.random.default_rng(seed)
    lengths = cases.ragged_lengths(rng, T, B, allow_zero=True) if ragged else None
    if ragged and B > 2:
        lengths[1] = 0
        lengths[2] = T
    return cases.random_case(rng, config, T, B, lengths).astype(dtype)


def with_options(case: cases.Case, **changes) -> cases.Case:
    """The same tensors under other options."""
    return dataclasses.replace(case, config=dataclasses.replace(case.config, **changes))
