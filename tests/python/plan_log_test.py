"""TF_CUDNN_RNN_LOG=plan: what a call decided, on stderr."""

import os
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.ops import calls

_ROOT = pathlib.Path(__file__).resolve().parents[2]

_CODE = """
import tensorflow as tf
import tf_cudnn_rnn

def train(batch):
    layer = tf_cudnn_rnn.keras.CudnnRNN(8, rnn_mode="gru")
    x = tf.ones([batch, 5, 3])
    for _ in range(2):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(x, training=True))
        tape.gradient(loss, layer.trainable_variables)

train(2)
train(4)
"""


def _lines_of(code, **environment):
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=_ROOT,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [line for line in result.stderr.splitlines() if line.startswith("tf_cudnn_rnn plan: ")]


def test_each_new_plan_has_one_line():
    lines = _lines_of(_CODE, TF_CUDNN_RNN_LOG="plan")
    assert len(lines) == 4, lines  # forward and backward, of two batch sizes
    for batch, passes in ((2, lines[:2]), (4, lines[2:])):
        for line, name in zip(passes, ("training", "backward"), strict=True):
            assert line.startswith(f"tf_cudnn_rnn plan: {name} gru float32 ")
            assert tf_cudnn_rnn.instruction_set() in line
            assert f" T=5 B={batch} " in line
            assert " I=3 H=8 " in line
            for word in ("W=", "R=", "threads=", "scratch_bytes="):
                assert f" {word}" in line


def test_there_is_none_unless_asked_for():
    assert _lines_of(_CODE) == []


def test_another_word_is_refused(monkeypatch):
    op = "CudnnRNNV3"
    arguments = calls.arguments(op)
    monkeypatch.setenv("TF_CUDNN_RNN_LOG", "plans")
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        # A seed of its own makes TensorFlow construct another kernel.
        calls.function(op)(**arguments, seed=65432)
    assert (
        'The environment variable TF_CUDNN_RNN_LOG must be "plan", got "plans"; '
        "unset it for no log." in error.value.message
    )
