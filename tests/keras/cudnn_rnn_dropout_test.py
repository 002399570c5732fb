"""Dropout between the layers of CudnnRNN: where it acts, and when it repeats."""

import concurrent.futures
import gc
import itertools
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import subprocesses
from tests.keras import cudnn_rnn_stacks as stacks
from tests.keras.cudnn_rnn_stacks import LENGTHS, B, H, I, T
from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn.keras import CudnnLSTM, CudnnRNN, _dropout_seed


def layer_of(seed=7, dropout=0.5, **options) -> CudnnRNN:
    options = {"direction": "bidirectional", "return_sequences": True, **options}
    return stacks.built("lstm", dropout=dropout, seed=seed, **options)


def test_it_is_the_own_op_with_the_seed_and_the_number_of_the_call():
    layer = layer_of()
    x = stacks.inputs()
    zeros = tf.zeros([B, 4, H], tf.float64)
    for call in range(3):
        expected = raw_ops.CudnnRNNV3(
            input=x,
            input_h=zeros,
            input_c=zeros,
            params=layer.params.value,
            sequence_lengths=LENGTHS,
            direction="bidirectional",
            dropout=0.5,
            time_major=False,
            rng_seed=[7, call],
        ).output
        actual = layer(x, sequence_lengths=LENGTHS, training=True)
        np.testing.assert_array_equal(actual, expected)
    plain = layer(x, sequence_lengths=LENGTHS)
    np.testing.assert_array_equal(layer(x, sequence_lengths=LENGTHS), plain)
    assert np.abs(plain - expected).max() > 1e-3
    np.testing.assert_array_equal(
        layer.seed_generator.state.numpy(), [7, 3]
    )  # inference draws none


def test_seeds():
    x = stacks.inputs()
    first = layer_of()(x, training=True).numpy()
    np.testing.assert_array_equal(layer_of()(x, training=True), first)
    assert np.any(layer_of(seed=8)(x, training=True) != first)
    assert np.any(layer_of(seed=None)(x, training=True) != first)
    assert not hasattr(layer_of(dropout=0.0), "seed_generator")
    np.testing.assert_array_equal(  # everything dropped: no NaN
        np.isfinite(layer_of(dropout=1.0)(x, training=True)), True
    )


def test_a_single_layer_warns():
    with pytest.warns(UserWarning, match="'rnn' has dropout=0.5 and one layer. Dropout acts betw"):
        layer = CudnnRNN(H, dropout=0.5, name="rnn")
    x = stacks.inputs(dtype="float32")
    np.testing.assert_array_equal(layer(x, training=True), layer(x))
    assert layer.variables == layer.weights
    for dropout in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"`dropout` must be in \[0, 1\]; got"):
            CudnnRNN(H, 2, dropout=dropout)


def model_of(seed=3) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input([T, I]),
            CudnnLSTM(H, 2, dropout=0.5, seed=seed),
            keras.layers.Dense(1),
        ]
    )
    stacks.randomise(model)
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model


def losses_of(model, epochs) -> list[float]:
    data = stacks.inputs(dtype="float32"), np.ones([B, 1], np.float32)
    history = model.fit(*data, epochs=epochs, batch_size=2, shuffle=False, verbose=0)
    return history.history["loss"]


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize("way", ["checkpoint", "keras"])
def test_training_goes_on_where_it_stopped(way, tmp_path):
    model = model_of()
    losses_of(model, 2)
    if way == "keras":
        model.save(tmp_path / "model.keras")
        expected = losses_of(model, 2)
        resumed = keras.saving.load_model(tmp_path / "model.keras")
    else:
        path = tf.train.Checkpoint(model=model).save(str(tmp_path / "checkpoint"))
        expected = losses_of(model, 2)
        resumed = model_of(seed=99)
        resumed.optimizer.build(resumed.trainable_variables)
        tf.train.Checkpoint(model=resumed).restore(path).assert_existing_objects_matched()
    assert losses_of(resumed, 2) == expected
    # The seed matters: without its state the losses would differ.
    other = model_of()
    other.set_weights(resumed.get_weights())
    assert losses_of(other, 1) != losses_of(resumed, 1)


@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
def test_weights_for_a_layer_with_another_seed_leave_its_masks_alone(tmp_path):
    model, other, unseeded = model_of(), model_of(seed=4), model_of(seed=None)
    model.layers[0](stacks.inputs(dtype="float32"), training=True)
    model.save_weights(tmp_path / "a.weights.h5")
    before = unseeded.layers[0].seed_generator.state.numpy()
    for another in (other, unseeded):
        another.load_weights(tmp_path / "a.weights.h5")
    np.testing.assert_array_equal(other.layers[0].seed_generator.state.numpy(), [4, 0])
    np.testing.assert_array_equal(unseeded.layers[0].seed_generator.state.numpy(), before)


def test_retracing_neither_repeats_nor_skips_masks():
    eager, traced = layer_of(), layer_of()
    function = tf.function(lambda x: traced(x, training=True), reduce_retracing=False)
    x = stacks.inputs()
    for rows in (B, B, B - 1, B - 2, B):  # each new shape is traced anew
        np.testing.assert_array_equal(function(x[:rows]), eager(x[:rows], training=True))
    assert function.experimental_get_tracing_count() == 3


# ------------------------------------------------------------------------------------
# tf.recompute_grad
# ------------------------------------------------------------------------------------


def gradients(layer, wrap) -> list:
    """Of two blocks that share the layer, each of which calls it twice."""
    layer.seed_generator.state.assign([7, 0])
    x = tf.constant(stacks.inputs())

    @wrap
    def block(x):
        y = layer(x, training=True)
        return layer(x + tf.reduce_sum(y, axis=2, keepdims=True), training=True)

    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = stacks.weighed([block(x), block(2 * x)])
    return [loss, *tape.gradient(loss, [x, layer.params.value])]


@pytest.mark.parametrize("where", ["eager", "function", "nested"])
def test_recomputed_blocks_draw_the_masks_of_their_first_run(where):
    layer = layer_of()
    expected = gradients(layer, lambda block: block)
    if where == "function":
        actual = tf.function(lambda: gradients(layer, tf.recompute_grad))()
    elif where == "nested":

        def twice(block):
            return tf.recompute_grad(lambda x: 2 * tf.recompute_grad(block)(x))

        actual = gradients(layer, twice)
        expected = gradients(layer, lambda block: lambda x: 2 * block(x))
    else:
        actual = gradients(layer, tf.recompute_grad)
    for one, other in zip(actual, expected, strict=True):
        stacks.assert_close(one, other)
    np.testing.assert_array_equal(layer.seed_generator.state.numpy(), [7, 4])


def test_blocks_without_positional_arguments_have_masks_of_their_own():
    layer = layer_of()
    x = tf.constant(stacks.inputs())

    def gradient(wrap) -> tf.Tensor:
        layer.seed_generator.state.assign([7, 0])
        block = wrap(lambda scale: layer(scale * x, training=True))
        with tf.GradientTape() as tape:
            block(scale=1)  # is not differentiated
            loss = stacks.weighed(block(scale=2))
        return tape.gradient(loss, layer.params.value)

    stacks.assert_close(gradient(tf.recompute_grad), gradient(lambda block: block))


def test_keras_rematerialises_with_the_same_masks():
    results = []
    for mode in (None, "full"):
        with keras.RematScope(mode=mode):
            layer = layer_of()
        x = tf.constant(stacks.inputs())
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = stacks.weighed(layer(x, training=True))
        results.append([loss, *tape.gradient(loss, [x, layer.params.value])])
    for one, other in zip(*results, strict=True):
        stacks.assert_close(one, other)


def test_a_persistent_tape_recomputes_more_than_once():
    layer = layer_of()
    x = tf.constant(stacks.inputs())
    block = tf.recompute_grad(lambda x: layer(x, training=True))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        loss = stacks.weighed(block(x))
    first = tape.gradient(loss, x)
    layer(x, training=True)
    np.testing.assert_array_equal(tape.gradient(loss, x), first)


def test_nothing_is_kept_of_finished_blocks():
    layer = layer_of()
    block = tf.recompute_grad(lambda x: layer(x, training=True))
    for _ in range(3):
        x = tf.constant(stacks.inputs())
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = stacks.weighed(block(x))
        tape.gradient(loss, x)
        block(x)  # never differentiated
        del tape, loss
        gc.collect()
    layer(x, training=True)
    assert layer._dropout_seed.recomputation.drawn == {}


def test_threads_may_be_in_blocks_at_once(monkeypatch):
    """What one of them draws or forgets is no business of the others."""
    recomputation, numbers = _dropout_seed.Recomputation(), itertools.count()

    def first(kwargs) -> int:
        return recomputation.once(lambda: next(numbers))

    def second(kwargs) -> int:
        return recomputation.once(lambda: next(numbers))

    monkeypatch.setattr(_dropout_seed, "FIRST_RUN", first.__code__)
    monkeypatch.setattr(_dropout_seed, "SECOND_RUN", second.__code__)

    def work(_) -> None:
        for _ in range(1000):
            kwargs: dict = {}
            drawn = [first(kwargs), first(kwargs)]
            assert [second(kwargs), second(kwargs)] == drawn

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with concurrent.futures.ThreadPoolExecutor(6) as threads:
            list(threads.map(work, range(6)))
    finally:
        sys.setswitchinterval(interval)
    recomputation.once(lambda: None)
    assert recomputation.drawn == {}


def test_an_unknown_recompute_grad_is_warned_of(monkeypatch):
    monkeypatch.setattr(_dropout_seed, "SECOND_RUN", None)
    monkeypatch.setattr(_dropout_seed, "RUNS_ARE_KNOWN", False)
    layer = layer_of(name="rnn")
    x = tf.constant(stacks.inputs())
    layer(x, training=True)  # in no block
    block = tf.recompute_grad(lambda x, training: layer(x, training=training))
    block(x, training=False)
    with pytest.warns(UserWarning, match="'rnn' draws dropout masks inside tf.recompute_grad") as r:
        for _ in range(2):
            block(x, training=True)
    assert len(r) == 1


def test_whether_determinism_is_enabled_may_be_unknown(monkeypatch):
    assert _dropout_seed.is_op_determinism_enabled is not None
    monkeypatch.setattr(_dropout_seed, "is_op_determinism_enabled", None)
    x = stacks.inputs()
    layer_of()(x, training=True)
    layer = layer_of(seed=None, name="rnn")
    with pytest.warns(UserWarning, match="'rnn' has dropout without a `seed`, and TensorFlow") as r:
        for _ in range(2):
            layer(x, training=True)
    assert len(r) == 1


# ------------------------------------------------------------------------------------
# In another process
# ------------------------------------------------------------------------------------


def check_replicas() -> None:
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    x = stacks.inputs(dtype="float32")
    with strategy.scope():
        model = model_of()
    layer = model.layers[0]
    step = tf.function(lambda: strategy.run(lambda: layer(x, training=True)))
    first, second = (strategy.experimental_local_results(step()) for _ in range(2))
    single = model_of()
    single = [single.layers[0](x, training=True) for _ in range(2)]
    for ours, expected in zip((first, second), single, strict=True):
        np.testing.assert_array_equal(ours[0], expected)  # replica 0 draws what one process draws
        assert np.any(ours[0] != ours[1])
    assert np.any(first[1] != second[1])
    losses = losses_of(model, 2)
    assert np.all(np.isfinite(losses)) and losses[0] != losses[1]
    layer(x)  # outside of replicas


def check_determinism() -> None:
    tf.config.experimental.enable_op_determinism()
    x = stacks.inputs(dtype="float32")
    layer = CudnnRNN(H, 2, dropout=0.5, name="rnn")
    layer(x)
    try:
        layer(x, training=True)
    except RuntimeError as error:
        print(error)
    CudnnRNN(H, 2, dropout=0.5, seed=0)(x, training=True)


def check_both() -> None:
    check_replicas()
    check_determinism()


def test_replicas_draw_different_masks_and_determinism_needs_a_seed():
    message = subprocesses.run(check_both)
    assert "Layer 'rnn' must have a `seed` for its dropout when op determinism is" in message
    assert "got None. Pass an int." in message
