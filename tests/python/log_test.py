"""Variables: TF_CUDNN_RNN_LOG, what a call decided and how long it took; TF_CUDNN_RNN_MACHINE."""

import re

import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import subprocesses
from tests.ops import calls

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
    result = subprocesses.result_of(code, environment, prepared=True)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stderr.splitlines() if line.startswith("tf_cudnn_rnn ")]


@pytest.fixture(scope="module")
def lines():
    return _lines_of(_CODE, TF_CUDNN_RNN_LOG="plan,calls")


def test_each_new_plan_has_one_line(lines):
    plans = [line for line in lines if line.startswith("tf_cudnn_rnn plan: ")]
    assert len(plans) == 4, lines  # forward and backward, of two batch sizes
    for batch, passes in ((2, plans[:2]), (4, plans[2:])):
        for line, name in zip(passes, ("training", "backward"), strict=True):
            assert line.startswith(f"tf_cudnn_rnn plan: {name} gru float32 ")
            assert tf_cudnn_rnn.instruction_set() in line
            assert f" T=5 B={batch} " in line
            assert " I=3 H=8 " in line
            for word in ("W=", "R=", "threads=", "scratch_bytes="):
                assert f" {word}" in line


def test_the_first_line_says_what_plans_know_of_the_machine(lines):
    """As it may be pinned, to see elsewhere what this machine chooses."""
    machine = r"core_cache_bytes=\d+,flops_per_far_byte=[\d.]+,flops_per_passed_value=150"
    assert re.fullmatch(f"tf_cudnn_rnn machine: TF_CUDNN_RNN_MACHINE={machine}", lines[0])
    assert not any(" machine: " in line for line in lines[1:])
    pinned = "core_cache_bytes=2097152,flops_per_far_byte=14,flops_per_passed_value=20"
    first, *_ = _lines_of(_CODE, TF_CUDNN_RNN_LOG="plan", TF_CUDNN_RNN_MACHINE=pinned)
    assert first == f"tf_cudnn_rnn machine: TF_CUDNN_RNN_MACHINE={pinned}"


def test_each_call_has_one_line(lines):
    plans = [line.removeprefix("tf_cudnn_rnn plan: ") for line in lines if " plan: " in line]
    calls_ = [line for line in lines if " call: " in line]
    assert len(calls_) == 8, lines  # forward and backward, twice, of two batch sizes
    for line, plan in zip(calls_, 2 * plans[:2] + 2 * plans[2:], strict=True):
        match = re.fullmatch(r"tf_cudnn_rnn call: (\d+) us \| (.*)", line)
        assert match and match[2] == plan, line
        assert int(match[1]) < 600_000_000


def test_there_are_a_thousand_plans_at_most():
    """A process whose every call has other sizes would fill its memory with them."""
    code = """
import tensorflow as tf
import tf_cudnn_rnn
layer = tf_cudnn_rnn.keras.CudnnRNN(1, rnn_mode="rnn_tanh")
for steps in range(1, 1003):
    layer(tf.ones([1, steps, 1]))
"""
    _, *plans, last = _lines_of(code, TF_CUDNN_RNN_LOG="plan")
    assert len(plans) == len(set(plans)) == 1000
    assert last == "tf_cudnn_rnn plan: that was line 1000 and the last."


def test_there_is_none_unless_asked_for():
    assert _lines_of(_CODE) == []


_SMALL_AFTER_LARGE = """
import tensorflow as tf
import tf_cudnn_rnn

tf.config.threading.set_intra_op_parallelism_threads(2)
small, large = (tf_cudnn_rnn.keras.LSTM(units) for units in (64, 300))
x, wide = tf.ones([8, 20, 64]), tf.ones([32, 20, 300])

@tf.function
def both():
    return small(x + tf.reduce_mean(large(wide)))

small(x)
for _ in range(300):
    both()
"""


def test_a_small_call_has_helpers_if_they_had_work_just_before():
    lines = _lines_of(_SMALL_AFTER_LARGE, TF_CUDNN_RNN_LOG="plan")
    threads = [re.search(r" threads=(\d+)", line)[1] for line in lines if " H=64 " in line]
    # Once at least: a busy machine may have taken more than a moment between two calls.
    assert threads == ["1", "2"], lines


def test_another_word_is_refused(monkeypatch):
    op = "CudnnRNNV3"
    arguments = calls.arguments(op)
    monkeypatch.setenv("TF_CUDNN_RNN_LOG", "plans")
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        # A seed of its own makes TensorFlow construct another kernel.
        calls.function(op)(**arguments, seed=65432)
    assert (
        'The environment variable TF_CUDNN_RNN_LOG must be "plan", "calls" or "plan,calls", got '
        '"plans"; unset it for no log.' in error.value.message
    )


def test_a_wrong_machine_is_refused():
    code = (
        "import tensorflow as tf\n"
        "from tests.ops import calls\n"
        "try:\n"
        "  calls.function('CudnnRNNV3')(**calls.arguments('CudnnRNNV3'))\n"
        "except tf.errors.InvalidArgumentError as error:\n"
        "  print(error.message)\n"
    )
    said = subprocesses.run_code(code, {"TF_CUDNN_RNN_MACHINE": "cores=2"}, prepared=True)
    assert 'TF_CUDNN_RNN_MACHINE must be "core_cache_bytes=NUMBER' in said
