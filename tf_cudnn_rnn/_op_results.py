"""The fields of what the ops of `raw_ops` return, for annotations.

TensorFlow makes named tuples of its own, with these fields.
"""

from typing import NamedTuple

import tensorflow as tf


class CudnnRNNV3Result(NamedTuple):
    """Of CudnnRNNV3."""

    output: tf.Tensor
    output_h: tf.Tensor
    output_c: tf.Tensor
    reserve_space: tf.Tensor
    host_reserved: tf.Tensor


class CudnnRNNInt8Result(NamedTuple):
    """Of CudnnRNNInt8."""

    output: tf.Tensor
    output_h: tf.Tensor
    output_c: tf.Tensor


class CudnnRNNBackpropV3Result(NamedTuple):
    """Of CudnnRNNBackpropV3."""

    input_backprop: tf.Tensor
    input_h_backprop: tf.Tensor
    input_c_backprop: tf.Tensor
    params_backprop: tf.Tensor


class CudnnRNNParamsToCanonicalV2Result(NamedTuple):
    """Of CudnnRNNParamsToCanonicalV2."""

    weights: list[tf.Tensor]
    biases: list[tf.Tensor]


class KerasRNNResult(NamedTuple):
    """Of KerasRNN."""

    output: tf.Tensor
    output_h: tf.Tensor
    output_c: tf.Tensor
    reserve_space: tf.Tensor


class KerasRNNBackpropResult(NamedTuple):
    """Of KerasRNNBackprop."""

    input_backprop: tf.Tensor
    input_h_backprop: tf.Tensor
    input_c_backprop: tf.Tensor
    kernel_backprop: tf.Tensor
    recurrent_kernel_backprop: tf.Tensor
    biases_backprop: list[tf.Tensor]
    backward_weights_backprop: list[tf.Tensor]


class KerasToParamsBackpropResult(NamedTuple):
    """Of KerasToParamsBackprop."""

    kernel_backprop: tf.Tensor
    recurrent_kernel_backprop: tf.Tensor
    biases_backprop: list[tf.Tensor]
