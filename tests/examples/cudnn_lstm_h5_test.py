"""CuDNNLSTM and CuDNNGRU files of Keras 2, in Keras 3."""

import shutil

import cudnn_lstm_h5
import numpy as np
import pytest

from tests.examples import results
from tf_cudnn_rnn import weights

# Keras itself, while it saves with NumPy 2.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")

FILES = ["lstm", "lstm_bidirectional", "gru", "gru_bidirectional"]


@pytest.mark.parametrize("name", FILES)
def test_predictions_are_those_of_keras_2(name, capsys):
    assert cudnn_lstm_h5.main([f"--h5={cudnn_lstm_h5.GOLDEN / name}.h5"]) == 0
    result = results.of(capsys.readouterr().out)
    assert float(result["difference"]) <= 1e-6
    assert float(result["stock_keras_difference"]) <= 1e-6
    with np.load(cudnn_lstm_h5.GOLDEN / f"{name}.npz") as recorded:
        assert int(result["predictions"]) == recorded["out_y"].size > 0


def test_model_is_that_of_the_file():
    stored = weights.read_keras_h5(cudnn_lstm_h5.GOLDEN / "lstm_bidirectional.h5")
    model = cudnn_lstm_h5.rebuild(stored)
    assert [layer.name for layer in model.layers] == ["first", "second"]
    assert model.output_shape == (None, None, 8)
    assert {type(layer.forward_layer).__module__ for layer in model.layers} == {
        "tf_cudnn_rnn.keras.layers"
    }
    stock = cudnn_lstm_h5.stock_copy(model)
    assert not any("tf_cudnn_rnn" in type(layer.forward_layer).__module__ for layer in stock.layers)


def test_other_predictions_are_a_failure(tmp_path, capsys):
    golden = dict(np.load(cudnn_lstm_h5.GOLDEN / "lstm.npz"))
    golden["out_y"][-1, -1, -1] += 1e-5
    np.savez(tmp_path / "lstm.npz", **golden)
    shutil.copy(cudnn_lstm_h5.GOLDEN / "lstm.h5", tmp_path)
    assert results.exit_status("cudnn_lstm_h5.py", f"--h5={tmp_path / 'lstm.h5'}") == 1
    assert 9e-6 < float(results.of(capsys.readouterr().out)["difference"]) < 1.1e-5


def test_stock_keras_that_predicts_otherwise_is_a_failure(monkeypatch, capsys):
    def spoilt(model):
        copy = cudnn_lstm_h5.rebuild(weights.read_keras_h5(cudnn_lstm_h5.GOLDEN / "lstm.h5"))
        copy.set_weights([array * 1.001 for array in model.get_weights()])
        return copy

    monkeypatch.setattr(cudnn_lstm_h5, "stock_copy", spoilt)
    assert cudnn_lstm_h5.main([f"--h5={cudnn_lstm_h5.GOLDEN / 'lstm.h5'}"]) == 1


def test_missing_file_is_told(capsys):
    with pytest.raises(SystemExit, match="2"):
        cudnn_lstm_h5.main(["--h5=/nowhere.h5"])
    assert "/nowhere.h5 is no file" in capsys.readouterr().err
