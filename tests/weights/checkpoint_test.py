"""Checkpoints of tf.train.Checkpoint: layers and optimisers' slots, by name."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from tf_cudnn_rnn import weights
from tf_cudnn_rnn.keras import CudnnGRU, CudnnLSTM

H, I, T, B = 4, 3, 5, 6


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    x = keras.Input([T, I])
    y = CudnnLSTM(H, 2, direction="bidirectional", return_sequences=True, name="encoder")(x)
    y = CudnnLSTM(H, 2, direction="bidirectional", return_sequences=True, name="middle")(y)
    model = keras.Model(x, keras.layers.Dense(1)(CudnnGRU(H, name="decoder")(y)))
    model.compile(keras.optimizers.Adam(amsgrad=True), "mse")
    rng = np.random.default_rng(0)
    model.fit(rng.normal(size=[B, T, I]), rng.normal(size=[B, 1]), epochs=2, verbose=0)
    return model


def read(path) -> dict:
    reader = tf.train.load_checkpoint(path)
    return {key: reader.get_tensor(key) for key in reader.get_variable_to_shape_map()}


@pytest.fixture(scope="module")
def variables(model, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("checkpoint") / "model")
    # The optimiser's path to the variables is the shorter one, so keys do not name the layers.
    tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(path)
    return read(path)


@pytest.mark.parametrize("name", ["encoder", "middle", "decoder"])
def test_weights(model, variables, name):
    canonical = weights.checkpoint_to_canonical(variables, name)
    layer = model.get_layer(name)
    assert canonical.layout == layer.layout and canonical.of == "weights"
    for key, array in layer.canonical_weights().items():
        np.testing.assert_array_equal(canonical.named[key], array)


@pytest.mark.parametrize(
    ("slot", "name"),
    [("momentums", "momentum"), ("_velocities", "velocity"), ("velocity_hats", "velocity_hat")],
)
def test_slots(model, variables, slot, name):
    for layer in ("encoder", "middle", "decoder"):
        (expected,) = [
            variable
            for variable in model.optimizer.variables
            if variable.path.endswith(f"{layer}_params_{name}")
        ]
        canonical = weights.checkpoint_to_canonical(variables, layer, slot, of="gradients")
        assert canonical.of == "gradients" and np.any(canonical.params)
        np.testing.assert_array_equal(canonical.params, expected.numpy())


def test_convert_slots(variables):
    convert = functools.partial(weights.checkpoint_to_canonical, variables, "encoder")
    slots = weights.convert_slots({"m": "momentums", "v": "velocities"}, convert, weights.to_torch)
    named = convert("momentums", of="gradients").named
    name = weights.ParamName(1, "backward", "cell", "recurrent_kernel")
    np.testing.assert_array_equal(
        slots["m"].arrays["weight_hh_l1_reverse"].reshape(4, H, H)[2], named[name]
    )
    assert slots["v"].notes == ()


def test_other_checkpoints(model, tmp_path):
    """Of a layer alone, with two optimisers, and inside a SavedModel."""
    layer = model.get_layer("decoder")
    path = tf.train.Checkpoint(layer).write(str(tmp_path / "layer"))
    canonical = weights.checkpoint_to_canonical(read(path))
    np.testing.assert_array_equal(canonical.params, layer.params.numpy())
    with pytest.raises(ValueError, match=r"which is nothing; got 'momentums'"):
        weights.checkpoint_to_canonical(read(path), slot="momentums")
    sgd = keras.optimizers.SGD(momentum=0.9)
    sgd.build([layer.params])
    sgd.momentums[0].assign(np.arange(layer.count_params()))
    path = tf.train.Checkpoint(model=model, second=sgd).write(str(tmp_path / "two"))
    momentum = weights.checkpoint_to_canonical(read(path), "decoder", "velocities")
    assert np.any(momentum.params)
    tf.saved_model.save(model, str(tmp_path / "saved"))
    variables = read(str(tmp_path / "saved" / "variables" / "variables"))
    canonical = weights.checkpoint_to_canonical(variables, "decoder")
    np.testing.assert_array_equal(canonical.params, layer.params.numpy())


def test_two_optimisers(model, tmp_path):
    layer = model.get_layer("decoder")
    adam = keras.optimizers.Adam()
    adam.build([layer.params])
    adam._momentums[0].assign(np.arange(layer.count_params()))
    checkpoint = tf.train.Checkpoint(model=model, first=model.optimizer, second=adam)
    variables = read(checkpoint.write(str(tmp_path / "two")))
    read_slot = functools.partial(
        weights.checkpoint_to_canonical, variables, "decoder", of="gradients"
    )
    with pytest.raises(
        ValueError, match="one of the 2 .*: 'first/momentums' or 'second/momentums'; got 'momentums"
    ):
        read_slot("momentums")
    index = model.optimizer._get_variable_index(layer.params)
    momentum = model.optimizer._momentums[index]
    np.testing.assert_array_equal(read_slot("first/momentums").params, momentum.numpy())
    for slot in ("second/momentums", "second/_momentums"):
        np.testing.assert_array_equal(
            read_slot(slot).params, np.arange(layer.count_params(), dtype=np.float32)
        )
    with pytest.raises(ValueError, match="got 'third/momentums'. Of optimisers there is 'first', "):
        read_slot("third/momentums")
    assert np.any(read_slot("velocity_hats").params)  # the first one has it alone
    # An optimiser may be the root.
    checkpoint = tf.train.Checkpoint(adam, model=model, other=model.optimizer)
    variables = read(checkpoint.write(str(tmp_path / "root")))
    root = weights.checkpoint_to_canonical(variables, "decoder", "/momentums", of="gradients")
    np.testing.assert_array_equal(root.params, np.arange(layer.count_params(), dtype=np.float32))


def test_damaged_object_graphs(variables):
    key = "_CHECKPOINTABLE_OBJECT_GRAPH"
    graph = variables[key]
    damaged = r"`variables`\['_CHECKPOINTABLE_OBJECT_GRAPH'\] must be a TrackableObjectGraph; it is"
    for wrong in (b"", graph[:-1], graph[:1000], b"\x0a\x04\x0a\x02\x08\x07", b"\x0a\x02\x08\xff"):
        with pytest.raises(ValueError, match=damaged):
            weights.checkpoint_to_canonical({**variables, key: wrong}, "encoder")
    rng = np.random.default_rng(3)
    told = 0
    for _ in range(200):
        wrong = bytearray(graph)
        for position in rng.integers(len(graph), size=5):
            wrong[position] = rng.integers(256)
        try:
            weights.checkpoint_to_canonical(
                {**variables, key: bytes(wrong)}, "encoder", "momentums"
            )
        except ValueError as error:  # and no other
            told += "it is damaged" in str(error)
    assert told > 50


def test_wrong_arguments(variables):
    with pytest.raises(ValueError, match="'encoder' .model/.*, 'middle' .*`layer` can"):
        weights.checkpoint_to_canonical(variables)
    with pytest.raises(ValueError, match="one CudnnRNN layer of the name or path 'x'; found none"):
        weights.checkpoint_to_canonical(variables, "x")
    with pytest.raises(ValueError, match="which is momentums, velocities, velocity_hats; got 'm'"):
        weights.checkpoint_to_canonical(variables, "encoder", "m")
    with pytest.raises(ValueError, match="with _CHECKPOINTABLE_OBJECT_GRAPH; found a"):
        weights.checkpoint_to_canonical({"a": np.zeros(3)})
    with pytest.raises(ValueError, match="`of` must be one of weights, gradients; got 'slots'"):
        weights.checkpoint_to_canonical(variables, "encoder", of="slots")
    graph = variables["_CHECKPOINTABLE_OBJECT_GRAPH"]
    with pytest.raises(ValueError, match="`variables` must hold model/.*/params_header, the key"):
        weights.checkpoint_to_canonical({"_CHECKPOINTABLE_OBJECT_GRAPH": graph})


def test_a_path_names_a_layer_too(model, variables):
    key = next(
        key for key in sorted(variables) if key.endswith("params_header/.ATTRIBUTES/py_state")
    )
    path = key.removesuffix("/params_header/.ATTRIBUTES/py_state")
    canonical = weights.checkpoint_to_canonical(variables, path)
    np.testing.assert_array_equal(canonical.params, model.get_layer("encoder").params.numpy())
