"""Files from strangers: whatever they hold, a reader ends soon, in little memory, and says why."""

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.weights import hostile, measured
from tf_cudnn_rnn import weights

# Warnings are for those who mean well.
pytestmark = pytest.mark.filterwarnings("default")


# What the system refuses; of all else, what the file holds is wrong.
OF_THE_SYSTEM = (
    *("npz_that_is_not_there", "npz_that_is_a_folder", "safetensors_that_are_a_folder"),
    *("h5_that_is_not_there", "h5_that_is_a_folder"),
)


@pytest.mark.parametrize("name", hostile.CASES)
def test_hostile(name, tmp_path):
    attack = hostile.CASES[name](tmp_path)
    outcome = measured.run(attack.read, *attack.arguments)
    cost = f"{outcome.seconds:.2f} s, {outcome.peak_bytes / 1e6:.0f} MB: {outcome.message[:500]}"
    expected = "OSError" if name in OF_THE_SYSTEM else "ValueError"
    assert outcome.error == expected, (outcome.error, cost)
    if name.startswith(("npz", "safetensors")):
        assert hostile.said_of(name) in outcome.message, cost
    assert outcome.seconds < outcome.seconds_allowed, cost
    assert outcome.peak_bytes < measured.BASE_BYTES + 2 * attack.size, cost
    for text in attack.names:
        assert text in outcome.message, cost
    assert len(outcome.message) < 2000, cost


# Of HDF5, what costs most: each takes a process.
FILES = ["h5_bomb_in_a_small_chunk", "h5_of_texts_that_share_their_bytes"]
FILES += [name for name in hostile.CASES if name.startswith(("npz", "safetensors"))]


@pytest.mark.parametrize("name", FILES)
def test_hostile_files_whose_kind_is_told_first(name, tmp_path):
    attack = hostile.CASES[name](tmp_path)
    outcome = measured.run(weights.load, attack.arguments[0])
    cost = f"{outcome.seconds:.2f} s, {outcome.peak_bytes / 1e6:.0f} MB: {outcome.message[:500]}"
    assert outcome.error in ("ValueError", "OSError"), (outcome.error, cost)
    assert outcome.seconds < outcome.seconds_allowed, cost
    assert outcome.peak_bytes < measured.BASE_BYTES + 2 * attack.size, cost
    assert str(attack.arguments[0]) in outcome.message and len(outcome.message) < 2000, cost


@pytest.mark.parametrize("layer", ["00", "9" * 5000, "١", "-1", " 0"])
def test_names_that_nobody_writes_are_of_other_entries(layer):
    """They are not another spelling of a layer's name."""
    state = hostile.mappings.state()
    expected = weights.from_torch(state, "lstm").params
    more = {f"weight_hh_l{layer}": np.ones_like(hostile.mappings.MATRIX)}
    np.testing.assert_array_equal(weights.from_torch(state | more, "lstm").params, expected)
    variables = hostile.mappings.tf1(0)
    expected = weights.from_tf1_cudnn(variables, "lstm").params
    more = {key: array + 1 for key, array in hostile.mappings.tf1(layer).items()}
    np.testing.assert_array_equal(weights.from_tf1_cudnn(variables | more, "lstm").params, expected)


def test_tensors_of_a_billion_layers():
    """These would be as many outputs of an op."""
    layers = ("lstm", 10**9, 2, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must have shape"):
        tf_cudnn_rnn.params_to_canonical(np.zeros(4, np.float32), *layers)
    with pytest.raises(ValueError, match="must have shape"):
        tf.function(lambda x: tf_cudnn_rnn.params_to_canonical(x, *layers), autograph=False)(
            tf.zeros([4])
        )
    with pytest.raises(ValueError, match="missing"):
        tf_cudnn_rnn.canonical_to_params({}, *layers)
