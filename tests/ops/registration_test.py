"""Which ops have CPU kernels, and of what kind the ops are."""

import shutil

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels, op_def_registry

import tf_cudnn_rnn
from tests.helpers import subprocesses
from tests.ops import calls

STATEFUL = (
    "CudnnRNN",
    "CudnnRNNV2",
    "CudnnRNNV3",
    "CudnnRNNBackprop",
    "CudnnRNNBackpropV2",
    "CudnnRNNBackpropV3",
)
STATELESS = (
    "CudnnRNNParamsSize",
    "CudnnRNNParamsToCanonical",
    "CudnnRNNParamsToCanonicalV2",
    "CudnnRNNCanonicalToParams",
    "CudnnRNNCanonicalToParamsV2",
)
OWN = tuple(f"TfCudnnRnn>{name}" for name in tf_cudnn_rnn.raw_ops.__all__)
NAMESAKES = tuple(op for op in OWN if op.removeprefix("TfCudnnRnn>") in STATEFUL + STATELESS)
TYPES = (tf.float16, tf.bfloat16, tf.float32, tf.float64)


def _cpu_kernels(op: str) -> list:
    registered = kernels.get_registered_kernels_for_op(op).kernel
    return [kernel for kernel in registered if kernel.device_type == "CPU"]


def test_there_are_eleven_built_in_ops_and_five_namesakes():
    assert len(STATEFUL + STATELESS) == 11
    assert len(NAMESAKES) == 5


@pytest.mark.parametrize("op", STATEFUL + STATELESS + OWN)
def test_one_cpu_kernel_for_all_types(op):
    (kernel,) = _cpu_kernels(op)
    if op == "TfCudnnRnn>CudnnRNNInt8":
        assert not kernel.constraint  # its tensors are float
        return
    (constraint,) = kernel.constraint
    assert constraint.name == "T"
    assert set(constraint.allowed_values.list.type) == {t.as_datatype_enum for t in TYPES}


@pytest.mark.parametrize("op", STATEFUL + STATELESS + OWN)
def test_statefulness(op):
    assert op_def_registry.get(op).is_stateful == (op in STATEFUL)


@pytest.mark.parametrize("op", NAMESAKES)
def test_own_ops_differ_from_the_built_in_ones_by_their_seeds(op):
    own = op_def_registry.get(op)
    built_in = op_def_registry.get(op.removeprefix("TfCudnnRnn>"))
    assert [a.name for a in own.output_arg] == [a.name for a in built_in.output_arg]
    inputs = [a.name for a in built_in.input_arg]
    seeded = op == "TfCudnnRnn>CudnnRNNV3"
    assert [a.name for a in own.input_arg] == inputs + ["rng_seed"] * seeded
    own_attributes = {a.name: (a.type, a.default_value) for a in own.attr}
    attributes = {a.name: (a.type, a.default_value) for a in built_in.attr}
    del attributes["seed"], attributes["seed2"]
    assert own_attributes == attributes


@pytest.mark.parametrize("S", [tf.int32, tf.int64])
@pytest.mark.parametrize("T", TYPES)
@pytest.mark.parametrize("op", calls.PARAMS_SIZE)
def test_params_size_types(op, T, S):
    size = calls.function(op)(**calls.arguments(op, T=T, S=S))
    assert size.dtype == S
    assert size.numpy().tolist() == [176]


@pytest.mark.parametrize("T", TYPES)
@pytest.mark.parametrize(
    "op", calls.FORWARD + calls.BACKPROP + calls.TO_CANONICAL + calls.TO_PARAMS
)
def test_types(op, T):
    def cast(value):
        is_real = isinstance(value, np.ndarray) and value.dtype == np.float32
        return tf.cast(value, T) if is_real else value

    # Backprop takes the forward op's outputs, so that runs in the same type.
    forward = calls.forward_arguments(op.replace("Backprop", ""))
    changes = tuple((name, cast(value)) for name, value in forward.items())
    if op in calls.BACKPROP:
        arguments = calls.backprop_arguments(op, changes)
    else:
        arguments = {
            name: [cast(item) for item in value] if isinstance(value, list) else cast(value)
            for name, value in calls.arguments(op).items()
        }
    results = calls.function(op)(**arguments)
    first = tf.nest.flatten(results)[0]
    assert first.dtype == T
    assert np.isfinite(first.numpy().astype(np.float64)).all()


def test_gpu_placement_falls_back_to_the_cpu():
    arguments = calls.arguments("CudnnRNNV3")

    @tf.function
    def run():
        with tf.device("/GPU:0"):
            return tf.raw_ops.CudnnRNNV3(**arguments).output

    was_soft = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(True)
    try:
        with tf.device("/GPU:0"):
            eager = tf.raw_ops.CudnnRNNV3(**arguments).output
        assert eager.device.endswith("CPU:0")
        np.testing.assert_array_equal(eager, run())
    finally:
        tf.config.set_soft_device_placement(was_soft)


def test_loading_twice_changes_nothing():
    before = len(_cpu_kernels("CudnnRNNV3"))
    tf.load_op_library(tf_cudnn_rnn.library_path())
    assert len(_cpu_kernels("CudnnRNNV3")) == before


def _run_all_beside_a_copy(copy):
    tf.load_op_library(copy)
    for name in (*tf_cudnn_rnn.raw_ops.__all__, "CudnnRNNReadReserve"):
        op = calls.OWN + name
        calls.function(op)(**calls.arguments(op))


def test_another_copy_of_the_library_does_no_harm(tmp_path):
    copy = shutil.copy(tf_cudnn_rnn.library_path(), tmp_path / "copy.so")
    subprocesses.run(_run_all_beside_a_copy, str(copy))


def test_another_copy_that_was_first_is_told(tmp_path):
    copy = shutil.copy(tf_cudnn_rnn.library_path(), tmp_path / "copy.so")
    result = subprocesses.result_of(
        f"import tensorflow as tf; tf.load_op_library({str(copy)!r}); import tf_cudnn_rnn"
    )
    assert result.returncode != 0
    assert "ImportError: tf_cudnn_rnn cannot call the ops of" in result.stderr
    assert "another copy of this library was loaded into this process before" in result.stderr
