"""Where TensorFlow has a GPU, what Keras runs there by cuDNN is left to it, and nothing else.

There is none: TensorFlow is made to tell of one, and the op that Keras then calls runs on the CPU.
"""

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras.pairs import LAYERS, H, I, T, inputs
from tf_cudnn_rnn.keras import accelerate, export_as

KERAS_OP = "CudnnRNNV3"
OWN_OP = "TfCudnnRnn>KerasRNN"
REASON = "TensorFlow has a GPU here, on which Keras calls cuDNN"
WITH_CUDNN = ["LSTM", "GRU"]


def _pretend_build(monkeypatch, has_cuda):
    build = {**tf.sysconfig.get_build_info(), "is_cuda_build": has_cuda}
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: build)


@pytest.fixture
def gpu(monkeypatch):
    real = tf.config.list_logical_devices
    monkeypatch.setattr(
        tf.config,
        "list_logical_devices",
        lambda kind=None: [object()] if kind == "GPU" else real(kind),
    )
    _pretend_build(monkeypatch, has_cuda=True)


def _ops_of(layer):
    """The types of ops of a graph that calls it."""
    function = tf.function(lambda x: layer(x)).get_concrete_function(
        tf.TensorSpec([2, T, I], tf.float32)
    )
    return {op.type for op in function.graph.get_operations()}


def _has(ops, kind):
    return any(op.endswith(kind) for op in ops)


@pytest.mark.parametrize("name", WITH_CUDNN)
def test_drop_ins_are_left_to_keras(name, monkeypatch, request):
    layer = getattr(tf_cudnn_rnn.keras, name)(H, return_sequences=True)
    x = inputs("float32")
    expected = layer(x)
    assert layer.runs_fused
    request.getfixturevalue("gpu")
    np.testing.assert_allclose(layer(x), expected, rtol=0, atol=1e-6)
    assert layer.runs_fused is False
    assert layer.fallback_reason == REASON
    ops = _ops_of(layer)
    assert _has(ops, KERAS_OP) and OWN_OP not in ops


@pytest.mark.parametrize("use_cudnn", ["auto", True])
@pytest.mark.parametrize("name", WITH_CUDNN)
def test_accelerated_layers_are_left_to_keras(name, use_cudnn, gpu):
    layer = getattr(keras.layers, name)(H, use_cudnn=use_cudnn)
    model = keras.Sequential([keras.Input([T, I]), layer])
    with accelerate():
        ops = _ops_of(layer)
        assert layer.fallback_reason == REASON
    assert _has(ops, KERAS_OP) and OWN_OP not in ops
    accelerate(model)
    assert _ops_of(layer) == ops


@pytest.mark.parametrize(
    "name, options",
    [
        ("SimpleRNN", {}),
        ("LSTM", {"use_bias": False}),
        ("LSTM", {"dtype": "mixed_bfloat16"}),
        ("GRU", {"recurrent_dropout": 0.5}),  # in inference
    ],
)
def test_what_keras_would_not_run_by_cudnn_runs_fused(name, options, gpu, caplog):
    for layer in (
        getattr(tf_cudnn_rnn.keras, name)(H, **options),
        getattr(keras.layers, name)(H, **options),
    ):
        with accelerate():
            layer(inputs("float32"))
        assert layer.runs_fused
    assert not caplog.records


def test_masks_of_any_pattern_work(gpu):
    """TensorFlow's kernel takes those with padding at the end alone, and no empty row."""
    layer = tf_cudnn_rnn.keras.LSTM(H)
    x = inputs("float32")
    mask = np.ones(x.shape[:2], bool)
    mask[0, 0], mask[1] = False, False
    layer(x, mask=tf.constant(mask))
    assert layer.runs_fused
    both = tf_cudnn_rnn.keras.Bidirectional(layer)
    both(x, mask=tf.constant(mask))
    both(x, mask=tf.constant(mask))
    assert both.runs_as_one


def test_what_keras_loops_over_is_warned_of(gpu, caplog):
    layer = tf_cudnn_rnn.keras.GRU(H, reset_after=False)
    layer(inputs("float32"))
    assert layer.fallback_reason == "reset_after must be True; got False"
    assert len(caplog.records) == 1


def test_nothing_is_warned_of(gpu, caplog):
    tf_cudnn_rnn.keras.LSTM(H)(inputs("float32"))
    assert not caplog.records


@pytest.mark.parametrize("name", LAYERS)
def test_use_fused_asks_for_the_cpu(name, gpu):
    layer = getattr(tf_cudnn_rnn.keras, name)(H, use_fused=True)
    assert OWN_OP in _ops_of(layer)
    assert layer.runs_fused


@pytest.mark.parametrize("contents, kind", [("own", OWN_OP), ("stock", "While")])
def test_a_graph_that_was_chosen_is_what_it_is_elsewhere(contents, kind, gpu):
    layer = tf_cudnn_rnn.keras.LSTM(H)
    with export_as(contents):
        ops = _ops_of(layer)
    assert _has(ops, kind) and not _has(ops, KERAS_OP)


def test_another_kind_of_gpu_is_none_of_cudnn(gpu, monkeypatch):
    _pretend_build(monkeypatch, has_cuda=False)
    layer = tf_cudnn_rnn.keras.GRU(H)
    layer(inputs("float32"))
    assert layer.runs_fused


@pytest.mark.parametrize("use_fused", ["auto", True])
def test_both_directions(use_fused, gpu):
    both = tf_cudnn_rnn.keras.Bidirectional(tf_cudnn_rnn.keras.LSTM(H, use_fused=use_fused))
    both(inputs("float32"))
    assert both.runs_as_one is (use_fused is True)
    assert both.forward_layer.runs_fused is (use_fused is True)
