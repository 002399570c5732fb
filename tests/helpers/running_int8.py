"""Runs CudnnRNNInt8 on the judge's cases, and compares with the judge on the weights in int8."""

import dataclasses

import numpy as np
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import running
from tests.reference import cases, int8

# Rows of products are rounded: by 1/65536 of their largest magnitude, by a little more if long.
# An output sees such an error for each layer and step, damped as those of 16-bit types are
# (running.tolerance()), and the rounding of floats. The worst that the cases of int8_test.py show
# is less than half.
TOLERANCE = 2e-4


@dataclasses.dataclass(frozen=True)
class Int8Case:
    """A case, and its weights in int8; the case has those that they mean."""

    case: cases.Case
    weights: int8.Int8


def quantized(case: cases.Case) -> Int8Case:
    """The case in float32, with weights in int8."""
    weights = int8.quantize(case.config, case.params)
    meant = dataclasses.replace(
        case.astype(np.float32), params=int8.params_of(case.config, weights)
    )
    return Int8Case(meant, weights)


def random_case(seed: int, config, T: int, B: int, ragged: bool = False) -> Int8Case:
    return quantized(running.random_case(seed, config, T, B, np.float32, ragged))


def tensors_of(case: Int8Case) -> dict[str, tf.Tensor]:
    """The inputs of the op, by name."""
    arrays = {
        "input": case.case.x,
        "input_h": case.case.h0,
        "input_c": case.case.c0,
        **case.weights._asdict(),
        "sequence_lengths": case.case.sequence_lengths,
    }
    return {name: tf.constant(array) for name, array in arrays.items()}


def call(case: Int8Case, tensors: dict):
    """Calls the op with the tensors, and the options of the case; returns its named tuple."""
    names = ("rnn_mode", "input_mode", "direction", "num_proj", "time_major")
    options = {name: getattr(case.case.config, name) for name in names}
    return tf_cudnn_rnn.raw_ops.CudnnRNNInt8(**tensors, **options)


def forward(case: Int8Case, *, graph: bool = False, unknown_shapes: bool = False) -> dict:
    """Returns the arrays y, h_n and c_n by name.

    Args:
      graph: run in a tf.function.
      unknown_shapes: trace that function without any shape.
    """

    def run(tensors):
        return list(call(case, tensors))

    tensors = tensors_of(case)
    if graph:
        specs = {name: tf.TensorSpec(None, tensor.dtype) for name, tensor in tensors.items()}
        run = tf.function(run, input_signature=[specs] if unknown_shapes else None)
    arrays = [output.numpy() for output in run(tensors)]
    return dict(zip(running.OUTPUTS, arrays, strict=True))


def assert_judged(actual: dict, case: cases.Case, label: str) -> None:
    """Compares outputs with the judge's.

    Args:
      case: one whose params are those that the weights mean.
      label: says how to repeat it.
    """
    expected = case.forward()._asdict()
    for name, value in actual.items():
        where = f"{name} of {label}: {case}"
        assert value.dtype == np.float32, where
        assert value.shape == expected[name].shape, where
        assert np.isfinite(value).all(), f"not finite: {where}"
        error = np.max(np.abs(value - expected[name]), initial=0.0)
        allowed = TOLERANCE * max(1.0, np.max(np.abs(expected[name]), initial=0.0))
        assert error <= allowed, f"off by {error:.3g} (allowed {allowed:.3g}): {where}"
