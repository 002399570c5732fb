"""What of a file is chosen is read by what it tells itself, whatever stands beside it."""

import warnings

import keras
import numpy as np
import pytest

from tests.cli.conftest import canonical_of
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli.main import main

layers = keras.layers


@keras.saving.register_keras_serializable(package="chosen_parts_test")
class InCode(layers.Layer):
    """A layer that makes another one in code, of which a model's config says nothing."""

    def __init__(self, **options):
        super().__init__(**options)
        self.inner = layers.SimpleRNN(2, activation="relu")

    def call(self, x):
        return self.inner(x)


def test_a_simple_rnn_that_the_config_does_not_name(tmp_path):
    stack = [layers.SimpleRNN(4, return_sequences=True, name="first"), InCode()]
    model = keras.Sequential([keras.Input([None, 3]), *stack])
    path = tmp_path / "model.keras"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras calls in NumPy
        model.save(path)
    assert weights.load(path, layer="first").layout.rnn_mode == "rnn_tanh"
    with pytest.raises(ValueError, match="does not tell whether the simple RNN has tanh or ReLU"):
        weights.load(path, layer="in_code/inner")
    read = weights.load(path, layer="in_code/inner", rnn_mode="rnn_relu")
    expected = weights.from_keras(stack[1].inner.get_weights(), "rnn_relu")
    np.testing.assert_array_equal(read.params, expected.params)


@pytest.fixture
def scopes(tmp_path):
    """A file with networks of three kinds."""
    path = tmp_path / "a.npz"
    modes = {"a": "lstm", "b": "gru", "c": "rnn_tanh"}
    every = {}
    for scope, mode in modes.items():
        every |= weights.to_tf1_cudnn(canonical_of(mode), scope=scope).arrays
    np.savez(path, **every)
    return path


def test_a_scope_tells_the_mode(scopes):
    for scope, mode in {"a": "lstm", "b": "gru"}.items():
        assert weights.load(scopes, format="tf1-cudnn", scope=scope).layout.rnn_mode == mode
    with pytest.raises(ValueError, match="Pass rnn_mode="):
        weights.load(scopes, format="tf1-cudnn", scope="c")
    with pytest.raises(ValueError, match="`scope` must be one of"):
        weights.load(scopes, format="tf1-cudnn", scope="d", rnn_mode="lstm")


def test_of_networks_of_several_kinds_one_is_chosen(scopes):
    with pytest.raises(ValueError, match="several networks: choose with scope=, of 'a', 'b', 'c'"):
        weights.load(scopes, format="tf1-cudnn")
    with np.load(scopes) as arrays:
        np.savez(scopes, **{key: arrays[key] for key in arrays if not key.startswith("b/")})
    with pytest.raises(ValueError, match="several networks: choose with scope=, of 'a', 'c'"):
        weights.load(scopes, format="tf1-cudnn")
    assert weights.load(scopes, format="tf1-cudnn", rnn_mode="lstm").layout.rnn_mode == "lstm"


@pytest.mark.parametrize("name", ["layer_00", "layer_٠", "layer_0²", " layer_0", "layer_+0"])
def test_canonical_names_stand_for_one_weight(tmp_path, name):
    path = str(tmp_path / "a.npz")
    np.savez(tmp_path / "torch.npz", **weights.to_torch(canonical_of("gru")).arrays)
    assert main(["convert", str(tmp_path / "torch.npz"), path, "--to=canonical"]) == 0
    with np.load(path) as file:
        arrays = dict(file)
    first = "layer_0/forward/reset/input_kernel"
    np.savez(path, **arrays, **{first.replace("layer_0", name): arrays[first] + 1})
    with pytest.raises(ValueError, match="must hold weights by names such as"):
        weights.load(path)


@pytest.mark.parametrize("scope", ["", "encoder"])
def test_a_fused_cell_stands_in_no_rnn(tmp_path, scope):
    canonical = canonical_of("lstm")
    exported = weights.to_tf1_lstm_cell(canonical, cell_name="lstm_fused_cell", scope=scope)
    cell = f"{scope}/lstm_fused_cell".lstrip("/")
    assert set(exported.arrays) == {f"{cell}/kernel", f"{cell}/bias"}
    read = weights.from_tf1_lstm_cell(exported.arrays)
    again = weights.to_tf1_lstm_cell(read, cell_name="lstm_fused_cell", scope=scope)
    for key, array in exported.arrays.items():
        np.testing.assert_allclose(again.arrays[key], array, rtol=1e-6)
    np.savez(tmp_path / "a.npz", **exported.arrays)
    assert weights.load(tmp_path / "a.npz", format="tf1-lstm-cell").layout == canonical.layout
