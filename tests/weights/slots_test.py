"""Gradients and what Adam keeps of them, from the real optimisers and through the converters."""

import functools

import numpy as np
import pytest

from tests.reference import judge
from tests.weights import golden
from tests.weights.golden_test import batch_major, direction_of, keras_layers, mode_of
from tf_cudnn_rnn import weights

# As in the writers: after one step m is (1 - beta_1) g, v is (1 - beta_2) g^2.
ONE_MINUS_BETA_1 = 0.5
ONE_MINUS_BETA_2 = 0.25


def gradient(canonical: weights.Canonical, x, dy) -> np.ndarray:
    """The judge's gradient of sum(y dy) with respect to `params`."""
    result = golden.run(canonical, x)
    zeros = [np.zeros_like(state) for state in (result.h_n, result.c_n)]
    return judge.backward(golden.config_of(canonical), result.tape, dy, *zeros).dparams


def check_moments(m: weights.Canonical, v: weights.Canonical, g: np.ndarray) -> None:
    assert np.abs(g).max() > 0.5
    assert (m.of, v.of, m.notes, v.notes) == ("gradients", "gradients", (), ())
    scale = np.abs(g).max()
    np.testing.assert_allclose(m.params, ONE_MINUS_BETA_1 * g, rtol=0, atol=2e-6 * scale)
    np.testing.assert_allclose(v.params, ONE_MINUS_BETA_2 * g**2, rtol=0, atol=4e-6 * scale**2)


@pytest.mark.parametrize("name", ["lstm", "lstm_proj", "gru", "rnn_tanh", "rnn_relu"])
def test_adam_of_torch(name):
    path = golden.FOLDER / "torch" / f"{name}.safetensors"
    canonical = weights.from_torch(path, mode_of(name))
    calls = golden.load(f"torch/{name}_calls.npz")
    slots = {
        "m": golden.under(calls, "out_exp_avg/"),
        "v": golden.under(calls, "out_exp_avg_sq/"),
    }
    read = functools.partial(weights.from_torch, rnn_mode=mode_of(name))
    m, v = (read(slots[key], of="gradients") for key in "mv")
    check_moments(m, v, gradient(canonical, calls["x"], calls["dy"]))
    back = weights.convert_slots(slots, read, weights.to_torch)
    for key, value in slots.items():
        golden.assert_same(back[key].arrays, value)


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_adam_of_keras(name, direction):
    suffix = "_bidirectional" if direction == "bidirectional" else ""
    arrays = golden.load(f"keras/{name}{suffix}.npz")
    read = functools.partial(weights.from_keras, rnn_mode=name, direction=direction)
    slots = {key: keras_layers(arrays, f"out_{key}/") for key in "mv"}
    m, v = (read(slots[key], of="gradients") for key in "mv")
    # A bias that stands for two gives its gradient to both.
    g = gradient(read(keras_layers(arrays)), batch_major(arrays["x"]), batch_major(arrays["dy"]))
    check_moments(m, v, g)
    back = weights.convert_slots(slots, read, weights.to_keras)
    for key, value in slots.items():
        assert back[key].notes == ()
        golden.assert_same(back[key].arrays, value)


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_moments_of_torch_are_those_that_keras_would_have(name):
    """The same network in both, so the same gradients, from PyTorch's slots to Keras'."""
    path = golden.FOLDER / "torch" / f"{name}.safetensors"
    canonical = weights.from_torch(path, name)
    calls = golden.load(f"torch/{name}_calls.npz")
    read = functools.partial(weights.from_torch, rnn_mode=name)
    slots = {"m": golden.under(calls, "out_exp_avg/")}
    exported = weights.convert_slots(slots, read, weights.to_keras)["m"]

    # Keras' single bias has, by the chain rule, the gradient of recurrent_bias alone.
    in_keras = weights.from_keras(
        weights.to_keras(canonical).arrays, name, direction=direction_of(name)
    )
    g = gradient(in_keras, calls["x"], calls["dy"])
    expected = weights.to_keras(
        weights.Canonical(
            canonical.layout,
            weights.params_to_canonical(
                ONE_MINUS_BETA_1 * g, name, 2, 4, 3, direction=direction_of(name)
            ),
            of="gradients",
        )
    )
    for ours, theirs in zip(sum(exported.arrays, []), sum(expected.arrays, []), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=2e-6 * np.abs(g).max())


def test_gradients_that_should_agree_but_do_not_are_averaged_and_noted():
    layout = weights.Layout("lstm", 1, 2, 3)
    rng = np.random.default_rng(81)
    named = weights.params_to_canonical(rng.normal(size=layout.size), "lstm", 1, 2, 3)
    canonical = weights.Canonical(layout, named, of="gradients")
    for write in (weights.to_keras, weights.to_tf1_cudnn, weights.to_tf1_lstm_cell):
        (note,) = write(canonical).notes
        assert "should be equal; they are not, and their mean was taken" in note
    bias = weights.to_keras(canonical).arrays[0][2]
    bW, bR = canonical.params[-16:].reshape(2, 8)
    np.testing.assert_allclose(bias, (bW + bR) / 2)


def test_constants_have_no_gradient():
    arrays = golden.load("tf1/basic_lstm.npz")
    variables = golden.under(arrays, "variables/")
    slots = {f"{key}/Adam_1": value for key, value in variables.items()}
    v = weights.from_tf1_lstm_cell({**variables, **slots}, slot="Adam_1", of="gradients")
    weight = weights.from_tf1_lstm_cell(variables)
    for name, array in v.named.items():
        if name.kind == "input_bias":
            golden.assert_bits(array, v.named[name._replace(kind="recurrent_bias")])
            forget = weight.named[name]
            np.testing.assert_array_equal(forget, 1.0 if name.gate == "forget" else 0.0)
        else:
            golden.assert_bits(array, weight.named[name])
    exported = weights.to_tf1_lstm_cell(v, scope="decoder/inner")
    golden.assert_same(exported.arrays, variables)


def test_identity_kernels_have_no_gradient():
    layout = weights.Layout("gru", 1, 3, 3, input_mode="skip_input")
    params = np.ones(layout.size)
    options = {"input_mode": "skip_input"}
    for of, expected in (("weights", np.eye(3)), ("gradients", np.zeros([3, 3]))):
        canonical = weights.from_cudnn(params, "gru", 1, 3, 3, **options, of=of)
        exported = weights.to_torch(canonical)
        (note,) = exported.notes
        assert note.startswith("PyTorch cannot skip the input product")
        np.testing.assert_array_equal(
            exported.arrays["weight_ih_l0"].reshape(3, 3, 3), np.stack([expected] * 3)
        )
