"""A SavedModel made for GPUs, on the CPU."""

import shutil
import subprocess

import gpu_saved_model
import gpu_saved_model_writer
import numpy as np
import pytest
import tensorflow as tf

from tests.examples import results
from tests.helpers import subprocesses

RUN_THE_WRITER = """
import runpy, sys
sys.argv = {!r}
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    assert "tf_cudnn_rnn" not in sys.modules
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """The model, written by a process with TensorFlow alone."""
    path = str(tmp_path_factory.mktemp("saved_model"))
    code = RUN_THE_WRITER.format([str(gpu_saved_model.WRITER), path])
    subprocesses.run_code(code, prepared=True)
    return path


def with_what_is_written(path, run):
    """`with_tensorflow_alone` where the model is written already; all else is for `run`."""

    def stand_in(*arguments):
        if arguments[0] != gpu_saved_model.WRITER:
            return run(*arguments)
        shutil.copytree(path, arguments[1], dirs_exist_ok=True)
        return subprocess.CompletedProcess([], 0, "", "")

    return stand_in


def test_it_fails_without_the_library_and_learns_with_it(path, monkeypatch, capsys):
    alone = with_what_is_written(path, gpu_saved_model.with_tensorflow_alone)
    monkeypatch.setattr(gpu_saved_model, "with_tensorflow_alone", alone)
    assert gpu_saved_model.main([]) == 0
    out = capsys.readouterr().out
    assert "No OpKernel was registered to support Op 'CudnnRNNV3'" in out
    result = results.of(out)
    assert result["fails_without_the_library"] == "True"
    assert float(result["accuracy"]) >= 0.99
    assert float(result["difference"]) <= 1e-5


def test_the_writer_explains_itself(capsys):
    with pytest.raises(SystemExit):
        gpu_saved_model_writer.main(["--help"])
    assert "frames float32 [B, T, 8]" in capsys.readouterr().out


def test_the_graph_is_one_of_builtin_nodes(path):
    graph = tf.saved_model.load(path).signatures["serving_default"].graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    rnns = [node for node in nodes if "RNN" in node.op.upper()]
    assert {node.op for node in rnns} == {"CudnnRNNV3"}
    assert all(node.attr["is_training"].b and node.attr["time_major"].b for node in rnns)


def test_the_twin_has_the_weights_of_the_model(path):
    model = tf.saved_model.load(path)
    data = gpu_saved_model.draw(30, np.random.default_rng(1))
    assert gpu_saved_model.largest_difference(model, data) < 1e-6
    model.params.assign(model.params + 0.01)
    assert gpu_saved_model.largest_difference(model, data) < 1e-6
    twin = gpu_saved_model.keras_twin(model)
    model.params.assign(tf.reverse(model.params, [0]))
    frames, lengths, _ = data
    mask = np.arange(15) < lengths[:, np.newaxis]
    theirs = twin.predict_on_batch([frames, mask])
    assert np.abs(gpu_saved_model.logits_of(model, frames, lengths) - theirs).max() > 1e-3


@pytest.mark.parametrize(
    ("fails_without", "required", "allowed", "status"),
    [(True, 0.0, 1e-5, 0), (False, 0.0, 1e-5, 1), (True, 0.99, 1e-5, 1), (True, 0.0, 0.0, 1)],
)
def test_each_miss_is_a_failure(
    path, monkeypatch, capsys, fails_without, required, allowed, status
):
    """Untrained, and without the other processes and the twin."""
    attempt = subprocess.CompletedProcess([], int(fails_without), "", "a message")
    alone = with_what_is_written(path, lambda *_: attempt)
    monkeypatch.setattr(gpu_saved_model, "with_tensorflow_alone", alone)
    monkeypatch.setattr(gpu_saved_model, "largest_difference", lambda *_: 1e-6)
    monkeypatch.setattr(gpu_saved_model, "REQUIRED", required)
    monkeypatch.setattr(gpu_saved_model, "CLOSE", allowed)
    assert gpu_saved_model.main(["--steps=0"]) == status
    assert "   a message\n" in capsys.readouterr().out


def test_an_attempt_that_says_nothing_is_told(path, monkeypatch, capsys):
    silent = subprocess.CompletedProcess([], -9, "", "")
    monkeypatch.setattr(
        gpu_saved_model, "with_tensorflow_alone", with_what_is_written(path, lambda *_: silent)
    )
    monkeypatch.setattr(gpu_saved_model, "largest_difference", lambda *_: 1e-6)
    gpu_saved_model.main(["--steps=0"])
    assert "   it said nothing, and ended with status -9\n" in capsys.readouterr().out


def test_a_writer_that_fails_says_why(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "ImportError: no tensorflow")
    monkeypatch.setattr(gpu_saved_model, "with_tensorflow_alone", lambda *_: failed)
    with pytest.raises(SystemExit, match="writer.py ended with status 1:\nImportError: no tens"):
        gpu_saved_model.main([])


def test_labels_are_what_stood_out_in_the_first_frame():
    frames, lengths, labels = gpu_saved_model.draw(500, np.random.default_rng(2))
    assert frames.shape == (500, 15, gpu_saved_model.FEATURES)
    assert (lengths.min(), lengths.max()) == (1, 15)
    assert np.mean(frames[:, 0, : gpu_saved_model.CLASSES].argmax(axis=1) == labels) > 0.99
    assert abs(frames[:, 1:].mean()) < 0.02
