"""Networks of PyTorch here."""

import shutil

import from_pytorch
import numpy as np
import pytest

from tests.examples import results
from tf_cudnn_rnn import weights


@pytest.mark.parametrize("network", from_pytorch.RNN_MODES)
def test_outputs_are_those_that_pytorch_recorded(network, capsys):
    assert from_pytorch.main([f"--network={network}"]) == 0
    result = results.of(capsys.readouterr().out)
    assert float(result["difference"]) <= 1e-6
    assert result["back_to_pytorch_exact"] == "True"


def test_every_result_is_compared():
    calls = dict(np.load(from_pytorch.GOLDEN / "lstm_calls.npz"))
    canonical = weights.from_torch(from_pytorch.GOLDEN / "lstm.safetensors", "lstm")
    assert (canonical.layout.num_layers, canonical.layout.direction) == (2, "bidirectional")
    for name in ("y", "h_n", "c_n"):
        spoilt = {**calls, f"out_{name}": calls[f"out_{name}"] * (1 + 1e-4)}
        found = from_pytorch.differences(canonical, spoilt)
        assert set(found) == {"y", "h_n", "c_n", "y, Keras"}
        wrong = {key for key, difference in found.items() if difference > 1e-6}
        assert wrong == ({"y", "y, Keras"} if name == "y" else {name})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A copy of the files, to be spoilt."""
    for ending in (".safetensors", "_calls.npz"):
        shutil.copy(from_pytorch.GOLDEN / f"gru{ending}", tmp_path)
    monkeypatch.setattr(from_pytorch, "GOLDEN", tmp_path)
    return tmp_path


def test_other_weights_are_a_failure(folder, capsys):
    state = weights.read_safetensors(folder / "gru.safetensors")
    state["weight_hh_l1_reverse"][3, 2] += 1e-3
    weights.write_safetensors(folder / "gru.safetensors", state)
    assert from_pytorch.main(["--network=gru"]) == 1
    assert float(results.of(capsys.readouterr().out)["difference"]) > 1e-5


def test_a_lossy_way_back_is_a_failure(folder, monkeypatch, capsys):
    to_torch = weights.to_torch

    def lossy(canonical):
        back = to_torch(canonical)
        back.arrays["bias_hh_l0"][0] += 1e-6
        return back

    monkeypatch.setattr(weights, "to_torch", lossy)
    assert from_pytorch.main(["--network=gru"]) == 1
    assert results.of(capsys.readouterr().out)["back_to_pytorch_exact"] == "False"
