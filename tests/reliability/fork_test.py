"""A process that forks after TensorFlow has begun: the child's calls work, on its one thread.

Only what TensorFlow runs on the calling thread reaches a kernel there: calls one by one, of
tensors that need no pool's thread themselves. A tf.function, or a large op of TensorFlow's own,
waits in TensorFlow for threads that the child does not have.
"""

import os
import re
import signal
import time

import numpy as np
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import subprocesses

T, B, H = 20, 32, 256  # work for a team of threads

# Far more than a call takes.
_HANGS = 120


def _wait_for(child: int) -> None:
    """Ends with the child's failure, or if it hangs."""
    end = time.monotonic() + _HANGS
    while time.monotonic() < end:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert status == 0, f"the child ended with {status}"
            return
        time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    raise AssertionError("the child hangs")


def _in_child(function) -> None:
    child = os.fork()
    if child == 0:
        try:
            function()
        except BaseException as error:  # whatever it is, the parent's test must not run on here
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    _wait_for(child)


def _calls():
    """Functions that make a call each, of tensors that are there."""
    rng = np.random.default_rng(1)

    def values(*shape):
        return tf.constant(rng.uniform(-0.1, 0.1, shape).astype(np.float32))

    x, states = values(T, B, H), values(1, B, H)
    params = values(tf_cudnn_rnn.params_size("lstm", 1, H, H))
    lengths, rng_seed = tf.constant([T] * B), tf.constant([1, 2], tf.int64)
    inputs = {
        "input": x,
        "input_h": states,
        "input_c": states,
        "params": params,
        "sequence_lengths": lengths,
    }
    own = tf_cudnn_rnn.raw_ops

    def forward():
        return own.CudnnRNNV3(**inputs, rng_seed=rng_seed)

    made = forward()

    def backward():
        return own.CudnnRNNBackpropV3(
            **inputs,
            output=made.output,
            output_h=made.output_h,
            output_c=made.output_c,
            output_backprop=made.output,
            output_h_backprop=made.output_h,
            output_c_backprop=made.output_c,
            reserve_space=made.reserve_space,
            host_reserved=made.host_reserved,
        )

    layer = tf_cudnn_rnn.keras.LSTM(H, return_sequences=True)
    layer.build(x.shape)
    return {
        "forward": lambda: forward()[0],
        "built-in": lambda: tf.raw_ops.CudnnRNNV3(**inputs)[0],
        "backward": lambda: backward()[3],
        "layer": lambda: layer(x),
    }


def calls_after_a_fork() -> None:
    calls = _calls()
    expected = {name: call().numpy() for name, call in calls.items()}

    def compute():
        for _ in range(3):
            for name, call in calls.items():
                assert np.array_equal(call(), expected[name]), name

    for _ in range(3):
        _in_child(compute)
    compute()  # and the parent lives on
    _in_child(lambda: _in_child(compute))


def calls_in_a_child_alone() -> None:
    def compute():
        for call in _calls().values():
            call()

    _in_child(compute)


def _logged_threads(function) -> set[str]:
    """What a process that may have two threads for a call says that it took."""
    code = (
        "import os\n"
        "from tests.reliability import fork_test\n"
        "os.dup2(1, 2)\n"  # where the log goes
        f"fork_test.{function.__name__}()\n"
    )
    environment = {"TF_CUDNN_RNN_LOG": "plan", "TF_NUM_INTRAOP_THREADS": "2"}
    log = subprocesses.run_code(code, environment=environment, prepared=True)
    return set(re.findall(r" threads=(\d+) ", log))


def test_a_child_of_a_process_that_has_called_works_alone():
    # The parent took two.
    assert _logged_threads(calls_after_a_fork) == {"1", "2"}


def test_a_child_that_tensorflow_begins_in_has_threads_of_its_own():
    assert _logged_threads(calls_in_a_child_alone) == {"2"}
