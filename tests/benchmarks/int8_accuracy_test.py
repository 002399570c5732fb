"""benchmarks/int8_accuracy.py: who is compared, and what is asked for wrongly."""

import sys

import pytest

from benchmarks import int8_accuracy

PYTORCH, ONNX = "PyTorch, int8", "ONNX Runtime, int8"


@pytest.mark.parametrize(
    ("rnn_mode", "quantized"),
    [("lstm", [PYTORCH, ONNX]), ("gru", [PYTORCH]), ("rnn_tanh", []), ("rnn_relu", [])],
)
def test_peers_that_would_compute_in_float32_are_left_out(rnn_mode, quantized):
    """As the drivers refuse such cases."""
    assert int8_accuracy.peers_of(rnn_mode) == quantized


def test_a_folder_without_a_run_gets_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["int8_accuracy", f"--char_lm={tmp_path}"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit, match=f"--char_lm={tmp_path}: .* holds no run to resume"):
        int8_accuracy.main()
