"""Programs that bring their own threads: results have the bits of TensorFlow's threads.

TensorFlow's threads take denormals for zeros. Those of a program need not.
"""

import os
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn

FOLDER = pathlib.Path(__file__).parent
# Large enough to be shared by threads; inputs so small that all products are denormals.
T, B, I, H = 6, 64, 96, 128

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("own_pool") / "own_pool"
    folder = tf.sysconfig.get_lib()
    names = ("libtensorflow_cc.so.2", "libtensorflow_framework.so.2")
    command = [
        "g++",
        "-O0",
        "-std=c++17",
        *tf.sysconfig.get_compile_flags(),
        FOLDER / "own_pool.cc",
        *(f"{folder}/{name}" for name in names),
        f"-Wl,-rpath,{folder}",
        *("-o", path),
    ]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return path


def _graph() -> tf.Graph:
    rng = np.random.default_rng(0)
    size = tf_cudnn_rnn.params_size("rnn_relu", 1, H, I)
    params = rng.normal(size=size).astype(np.float32)
    params[-2 * H :] = 0  # biases, beside which denormals would be lost
    with tf.Graph().as_default() as graph:
        result = tf_cudnn_rnn.raw_ops.CudnnRNNV3(
            input=(rng.normal(size=[T, B, I]) * 1e-39).astype(np.float32),
            input_h=tf.zeros([1, B, H]),
            input_c=tf.zeros([]),
            params=params,
            sequence_lengths=tf.fill([B], T),
            rng_seed=[0, 0],
            rnn_mode="rnn_relu",
            is_training=False,
        )
        tf.identity(result.output, name="output")
    return graph


def test_their_results_are_the_same(program, tmp_path):
    graph = _graph()
    (tmp_path / "graph.pb").write_bytes(graph.as_graph_def().SerializeToString())
    arguments = [tf_cudnn_rnn.library_path(), *(tmp_path / n for n in ("graph.pb", "out", "count"))]
    result = subprocess.run(
        [program, *arguments],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    assert int((tmp_path / "count").read_text()) > 0
    output = np.fromfile(tmp_path / "out", np.float32).reshape([T, B, H])
    with tf.compat.v1.Session(graph=graph) as session:
        expected = session.run("output:0")
    np.testing.assert_array_equal(output, expected)
    assert not output.any()
