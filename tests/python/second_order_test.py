"""Derivatives of the gradients: second and third ones, and forward mode.

Not all use graphs_as_traced: graphs of unknown sizes, of forward mode and of a gradient penalty are
optimised.
"""

import dataclasses
import functools
import textwrap

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import kernels

import tf_cudnn_rnn.keras
from tests.helpers import running, subprocesses
from tests.reference import judge
from tf_cudnn_rnn import _library, _second_order

I, H, B, T = 3, 4, 3, 4

CONFIGS = {
    "relu": judge.Config("rnn_relu", 2, H, I, "bidirectional"),
    "tanh_skip": judge.Config("rnn_tanh", 2, H, H, "bidirectional", "skip_input"),
    "lstm": judge.Config("lstm", 2, H, I, "bidirectional", time_major=False),
    "lstm_projected": judge.Config("lstm", 2, H, I, "bidirectional", num_proj=2),
    "lstm_dropout": judge.Config("lstm", 3, H, I, dropout=0.4, num_proj=3),
    "gru": judge.Config("gru", 2, H, H, input_mode="auto_select", time_major=False),
    "gru_dropout": judge.Config("gru", 2, H, I, "bidirectional", dropout=0.4),
}


def _case(name: str, dtype=np.float64):
    # The seed keeps ReLU's sums away from 0.
    return running.random_case(50, CONFIGS[name], T, B, ragged=True).astype(dtype)


def _output_gradients(case) -> list[tf.Tensor]:
    return [tf.constant(d) for d in (case.dy, case.dh_n, case.dc_n)]


def _random_like(tensors, seed: int) -> list[tf.Tensor]:
    rng = np.random.default_rng(seed)
    return [tf.constant(rng.normal(size=t.shape), t.dtype) for t in tensors]


def _dot(ones, others) -> tf.Tensor:
    return tf.add_n([tf.reduce_sum(a * b) for a, b in zip(ones, others, strict=True)])


def _outputs(op, case, inputs, **options) -> list[tf.Tensor]:
    """y, h_n and c_n of `inputs` x, h0, c0 and params."""
    return list(running.call(op, case, *inputs, case.sequence_lengths, **options)[:3])


def _gradients(op, case, inputs, output_gradients, **options) -> list[tf.Tensor]:
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = _outputs(op, case, inputs, **options)
    return tape.gradient(outputs, inputs, output_gradients)


def _second_gradients(op, case, inputs, output_gradients, upstream, **options):
    """The gradients of <gradients, upstream> for the inputs and for the incoming gradients."""
    sources = [*inputs, *output_gradients]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        product = _dot(_gradients(op, case, inputs, output_gradients, **options), upstream)
    return tape.gradient(product, sources)


def _difference(function, at, along):
    """The derivative of `function` of a list of tensors along a direction, by differences.

    They are central, of two widths, so that the error is of the fourth order.
    """
    step = 1e-3 / np.sqrt(sum(np.sum(np.square(d)) for d in along))

    def value(steps):
        return function([t + steps * step * d for t, d in zip(at, along, strict=True)])

    return tf.nest.map_structure(
        lambda *ends: (8 * (ends[0] - ends[1]) - (ends[2] - ends[3])) / (12 * step),
        *map(value, (1, -1, 2, -2)),
    )


def _assert_close(actual, expected, tolerance, label):
    for k, (one, other) in enumerate(zip(actual, expected, strict=True)):
        scale = max(1.0, np.max(np.abs(other), initial=0.0))
        np.testing.assert_allclose(
            one, other, rtol=0, atol=tolerance * scale, err_msg=f"tensor {k} of {label}"
        )


# The built-in op has the same kernel, but a gradient function of its own.
SECOND = [(name, running.OWN_V3) for name in CONFIGS] + [
    (name, running.V3) for name in ("tanh_skip", "lstm_projected")
]


@pytest.mark.parametrize(("name", "op"), SECOND)
@pytest.mark.usefixtures("graphs_as_traced")
def test_second_gradients(name, op):
    case = _case(name)
    inputs, output_gradients = list(running.tensors_of(case)[:4]), _output_gradients(case)
    upstream = _random_like(inputs, 1)
    actual = _second_gradients(op, case, inputs, output_gradients, upstream)
    sources = [*inputs, *output_gradients]
    directions = _random_like(sources, 2)

    def product(sources):
        return _dot(_gradients(op, case, sources[:4], sources[4:]), upstream)

    # One tensor at a time. A random direction sees every element.
    for k, (source, direction) in enumerate(zip(sources, directions, strict=True)):
        along = [tf.zeros_like(s) for s in sources]
        along[k] = direction
        expected = float(_difference(product, sources, along))
        assert actual[k].shape == source.shape
        np.testing.assert_allclose(
            float(tf.reduce_sum(actual[k] * direction)),
            expected,
            rtol=0,
            atol=1e-9 * max(1.0, abs(expected)),
            err_msg=f"source {k} of {op}: {case}",
        )
        used = case.config.rnn_mode == "lstm" or k not in (2, 6)  # the cell states
        assert (expected != 0) == used, f"source {k} tests nothing: {case}"


@pytest.mark.parametrize("op", [running.V1, running.V2])
@pytest.mark.parametrize("mode", judge.RNN_MODES)
@pytest.mark.usefixtures("graphs_as_traced")
def test_older_built_in_ops(mode, op):
    # What TensorFlow's ops make of it is traced once for all ops of such options.
    shared = {"rnn_relu": CONFIGS["relu"], "rnn_tanh": CONFIGS["tanh_skip"]}
    config = shared.get(mode, judge.Config(mode, 1, H, I))
    case = running.random_case(51, config, T, B)
    inputs, output_gradients = list(running.tensors_of(case)[:4]), _output_gradients(case)
    arguments = (case, inputs, output_gradients, _random_like(inputs, 1))
    actual = _second_gradients(op, *arguments)
    _assert_close(actual, _second_gradients(running.OWN_V3, *arguments), 1e-12, f"{op}, {mode}")


@pytest.mark.usefixtures("graphs_as_traced")
def test_a_part_of_the_outputs_and_of_the_gradients():
    """What is not used leaves None, for the backward op and for its gradient."""
    case = _case("lstm")
    inputs = list(running.tensors_of(case)[:4])
    for used in range(3):
        for wanted in range(4):
            with tf.GradientTape() as outer:
                outer.watch(inputs)
                with tf.GradientTape() as inner:
                    inner.watch(inputs)
                    loss = tf.reduce_sum(_outputs(running.OWN_V3, case, inputs)[used] ** 2)
                first = inner.gradient(loss, inputs[wanted])
                product = tf.reduce_sum(first**2)
            second = outer.gradient(product, inputs)

            def norm(inputs, used=used, wanted=wanted):
                with tf.GradientTape() as tape:
                    tape.watch(inputs)
                    loss = tf.reduce_sum(_outputs(running.OWN_V3, case, inputs)[used] ** 2)
                return tf.reduce_sum(tape.gradient(loss, inputs[wanted]) ** 2)

            along = _random_like(inputs, 3)
            expected = float(_difference(norm, inputs, along))
            np.testing.assert_allclose(
                float(_dot(second, along)), expected, rtol=1e-7, err_msg=f"{used}, {wanted}"
            )


def _loss(op, case, inputs):
    """Not linear in the outputs, so that gradients pass through the incoming ones, too."""
    return tf.add_n([tf.reduce_sum(tf.sin(output)) for output in _outputs(op, case, inputs)])


def _gradient(op, case, inputs):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = _loss(op, case, inputs)
    return tape.gradient(loss, inputs)


def _reverse_over_reverse(op, case, inputs, direction):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        product = _dot(_gradient(op, case, inputs), direction)
    return tape.gradient(product, inputs)


def _forward_over_reverse(op, case, inputs, direction):
    with tf.autodiff.ForwardAccumulator(inputs, direction) as accumulator:
        gradient = _gradient(op, case, inputs)
    # For other modes than lstm that of c0 is constant.
    return accumulator.jvp(gradient, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def _reverse_over_forward(op, case, inputs, direction):
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        with tf.autodiff.ForwardAccumulator(inputs, direction) as accumulator:
            loss = _loss(op, case, inputs)
        product = accumulator.jvp(loss)
    return tape.gradient(product, inputs)


@pytest.mark.parametrize(
    ("config", "op", "graph"),
    [
        (judge.Config("lstm", 1, H, I), running.OWN_V3, False),
        (judge.Config("rnn_tanh", 1, H, I, "bidirectional"), running.V3, True),
        # Masks of dropout come from an op of their own.
        (judge.Config("rnn_tanh", 2, H, I, dropout=0.4), running.OWN_V3, False),
    ],
)
@pytest.mark.usefixtures("graphs_as_traced")
def test_products_with_the_hessian(config, op, graph):
    """The same, whatever mode follows which; and the Hessian is symmetric.

    Forward over reverse takes third derivatives of the ops made of TensorFlow's.
    """
    case = running.random_case(52, config, T, B, ragged=True)
    inputs = list(running.tensors_of(case)[:4])
    one, other = _random_like(inputs, 4), _random_like(inputs, 5)
    expected = _difference(functools.partial(_gradient, op, case), inputs, one)
    for product in (_reverse_over_reverse, _forward_over_reverse, _reverse_over_forward):
        run = functools.partial(product, op, case)
        if graph:
            run = tf.function(run)
        actual = run(inputs, one)
        label = f"{product.__name__} of {op}: {case}"
        _assert_close(actual, expected, 1e-9, label)
        if product is _reverse_over_reverse:
            mirrored = float(_dot(run(inputs, other), one))
            np.testing.assert_allclose(float(_dot(actual, other)), mirrored, rtol=1e-11)


FORWARD_MODE = [
    ("relu", running.OWN_V3, False),
    ("tanh_skip", running.V3, False),
    ("lstm", running.V3, False),
    ("lstm_dropout", running.OWN_V3, False),
    ("lstm_projected", running.OWN_V3, True),
    ("gru", running.V3, True),
    ("gru_dropout", running.OWN_V3, True),
]


@pytest.mark.parametrize(("name", "op", "graph"), FORWARD_MODE)
def test_forward_mode(name, op, graph):
    config = CONFIGS[name]
    # These take long to trace. All layers are tested above.
    if config.rnn_mode in ("lstm", "gru"):
        config = dataclasses.replace(config, num_layers=2 if config.dropout else 1)
    case = running.random_case(50, config, T, B, ragged=True)
    inputs = list(running.tensors_of(case)[:4])
    direction = _random_like(inputs, 6)

    def tangents(inputs, direction):
        with tf.autodiff.ForwardAccumulator(inputs, direction) as accumulator:
            outputs = _outputs(op, case, inputs)
        return accumulator.jvp(outputs[: 3 if case.config.rnn_mode == "lstm" else 2])

    actual = (tf.function(tangents) if graph else tangents)(inputs, direction)
    expected = _difference(functools.partial(_outputs, op, case), inputs, direction)
    _assert_close(actual, expected[: len(actual)], 1e-9, f"{op}: {case}")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    ("layer", "graph"), [("LSTM", False), ("GRU", False), ("SimpleRNN", False), ("SimpleRNN", True)]
)
def test_layers_in_forward_mode(layer, graph, masked):
    """The op of drop-in layers has gradients of its own; alone, and over a gradient."""
    rnn = getattr(tf_cudnn_rnn.keras, layer)(H, dtype="float64", return_sequences=True)
    x, along = (tf.constant(np.random.default_rng(k).normal(size=[B, T, I])) for k in range(2))
    mask = tf.constant([[True, False, True, True], [False] * 4, [True] * 4]) if masked else None

    def outputs(xs):
        return [rnn(xs[0], mask=mask)]

    def gradient(xs):
        with tf.GradientTape() as tape:
            tape.watch(xs)
            loss = tf.reduce_sum(tf.sin(outputs(xs)[0]))
        return tape.gradient(loss, xs)

    def tangents(function, xs, direction):
        with tf.autodiff.ForwardAccumulator(xs, direction) as accumulator:
            values = function(xs)
        return accumulator.jvp(values)

    for function in (outputs, gradient):
        run = functools.partial(tangents, function)
        actual = (tf.function(run) if graph else run)([x], [along])
        assert rnn.runs_fused
        expected = _difference(function, [x], [along])
        _assert_close(actual, expected, 1e-9, f"{function.__name__} of {layer}")


@pytest.mark.parametrize(("mode", "dropout"), [("gru", 0.0), ("rnn_relu", 0.0), ("rnn_tanh", 0.4)])
@pytest.mark.usefixtures("graphs_as_traced")
def test_third_derivatives(mode, dropout):
    # As above, where the graph of a GRU's second gradients is traced.
    config = judge.Config(mode, 2 if dropout else 1, H, I, dropout=dropout)
    case = running.random_case(53, config, T, B, ragged=True)
    inputs = list(running.tensors_of(case)[:4])
    one, other, along = (_random_like(inputs, seed) for seed in (7, 8, 9))

    def second(inputs):
        return _dot(_reverse_over_reverse(running.OWN_V3, case, inputs, one), other)

    with tf.GradientTape() as tape:
        tape.watch(inputs)
        product = second(inputs)
    expected = float(_difference(second, inputs, along))
    assert abs(expected) > 1e-3
    np.testing.assert_allclose(float(_dot(tape.gradient(product, inputs), along)), expected, 1e-7)


def test_all_sizes_unknown():
    """One graph for networks that skip the input or not, project or not, of any depth."""
    cases = [
        running.random_case(54, judge.Config(*sizes, **options), T, B, ragged=True)
        for sizes, options in [
            (("lstm", 1, H, H), {"num_proj": H}),
            (("lstm", 2, H + 1, I), {"num_proj": H}),
            (("lstm", 3, H + 1, H + 1), {"num_proj": H}),
        ]
    ]
    cases = [running.with_options(case, input_mode="auto_select", dropout=0.4) for case in cases]
    cases = [  # whose params have as many elements as the options ask for
        dataclasses.replace(
            case, params=np.random.default_rng(k).normal(size=judge.params_size(case.config)) / 2
        )
        for k, case in enumerate(cases)
    ]

    def second(case, lengths, inputs, output_gradients, upstream):
        case = dataclasses.replace(case, sequence_lengths=lengths)
        return _second_gradients(running.OWN_V3, case, inputs, output_gradients, upstream)

    unknown = tf.TensorSpec(None, tf.float64)
    in_graph = tf.function(
        functools.partial(second, cases[0]),
        input_signature=[
            tf.TensorSpec(None, tf.int32),
            [unknown] * 4,
            [unknown] * 3,
            [unknown] * 4,
        ],
    )
    for case in cases:
        inputs, output_gradients = list(running.tensors_of(case)[:4]), _output_gradients(case)
        sources, upstream = [*inputs, *output_gradients], _random_like(inputs, 1)
        along = _random_like(sources, 2)
        actual = in_graph(tf.constant(case.sequence_lengths), inputs, output_gradients, upstream)

        def product(sources, case=case, upstream=upstream):
            return _dot(_gradients(running.OWN_V3, case, sources[:4], sources[4:]), upstream)

        expected = float(_difference(product, sources, along))
        np.testing.assert_allclose(float(_dot(actual, along)), expected, 1e-9, err_msg=str(case))


@pytest.mark.parametrize(("name", "dtype"), [("gru", "half"), ("tanh_skip", "bfloat16")])
@pytest.mark.usefixtures("graphs_as_traced")
def test_16_bits_round_what_float_computes(name, dtype):
    # Types concern no layer in particular.
    config = dataclasses.replace(CONFIGS[name], num_layers=1)
    rounded_case = running.random_case(50, config, T, B, ragged=True).astype(running.DTYPES[dtype])
    upstream = [tf.cast(t, dtype) for t in _random_like(running.tensors_of(rounded_case)[:4], 1)]
    results = []
    for case in (rounded_case, rounded_case.astype(np.float32)):
        inputs = list(running.tensors_of(case)[:4])
        same = [tf.cast(t, case.x.dtype) for t in upstream]
        arguments = (case, inputs, _output_gradients(case), same)
        results.append(_second_gradients(running.OWN_V3, *arguments))
    for actual, expected in zip(*results, strict=True):
        rounded = tf.cast(tf.cast(expected, actual.dtype), tf.float32).numpy()
        error = np.abs(tf.cast(actual, tf.float32).numpy() - rounded)
        one = np.ones([], running.DTYPES[dtype])
        eps = float(np.nextafter(one, one + one) - one)
        # Sums in float may come in another order, so that some round the other way.
        assert (error <= eps * np.abs(rounded) + 1e-5).all()
        assert np.mean(error != 0) < 0.02


# The ops share what is made of TensorFlow's ops: one network shows that both hand lengths on.
@pytest.mark.parametrize(
    ("name", "op"),
    [*((name, running.OWN_V3) for name in ("relu", "lstm", "gru")), ("lstm", running.V3)],
)
@pytest.mark.usefixtures("graphs_as_traced")
def test_padding_is_not_read(name, op):
    results = []
    for value in (0.0, np.nan):
        case = _case(name).with_padding(value)
        inputs = list(running.tensors_of(case)[:4])
        upstream = _random_like(inputs, 1)
        padding = case.padding()[..., None]
        upstream[0] = tf.where(padding, tf.cast(value, tf.float64), upstream[0])

        with tf.GradientTape() as tape:
            sources = [*inputs, *_output_gradients(case)]
            tape.watch(sources)
            gradients = _gradients(op, case, sources[:4], sources[4:])
        results.append(tape.gradient(gradients, sources, upstream))
    for clean, dirty in zip(*results, strict=True):
        np.testing.assert_allclose(dirty, clean, rtol=0, atol=1e-13)


@pytest.mark.usefixtures("graphs_as_traced")
def test_no_batch():
    config = dataclasses.replace(CONFIGS["tanh_skip"], num_layers=1)
    case = running.random_case(55, config, T, 0)
    inputs = list(running.tensors_of(case)[:4])
    second = _second_gradients(
        running.OWN_V3, case, inputs, _output_gradients(case), _random_like(inputs, 1)
    )
    assert [t.shape for t in second[:4]] == [t.shape for t in inputs]
    assert not second[3].numpy().any()


@pytest.mark.parametrize("op", [running.V3, running.V2])
@pytest.mark.usefixtures("graphs_as_traced")
def test_built_in_dropout(op):
    """The mask is that of the call being differentiated, the second one as much as the first."""
    config = judge.Config("rnn_tanh", 2, H, I, dropout=0.4)
    case = running.random_case(56, config, T, B)
    inputs = list(running.tensors_of(case)[:4])
    arguments = (case, inputs, _output_gradients(case), _random_like(inputs, 1))
    built_in = tf.function(lambda: _second_gradients(op, *arguments, seed=5, seed2=6))
    key = (5 << 32) + 6
    results = []
    for call in range(2):
        actual = built_in()
        # The keys of a built-in op's calls; see kernels/dropout_keys.h.
        rng_seed = np.array([(key + call * 0x9E3779B97F4A7C15) % 2**64, 0], np.uint64)
        expected = _second_gradients(running.OWN_V3, *arguments, rng_seed=rng_seed.view(np.int64))
        _assert_close(actual, expected, 1e-12, f"call {call}")
        results.append(actual[0].numpy())
    assert np.abs(results[0] - results[1]).max() > 1e-3


@pytest.mark.usefixtures("graphs_as_traced")
def test_batch_major_states_of_cudnn(monkeypatch):
    """The memory of states may be that of time-major ones; their gradients follow."""
    case = _case("lstm")
    inputs, output_gradients = list(running.tensors_of(case)[:4]), _output_gradients(case)
    upstream = _random_like(inputs, 1)
    expected = _second_gradients(running.OWN_V3, case, inputs, output_gradients, upstream)

    def as_cudnn(state):
        return tf.reshape(tf.transpose(state, [1, 0, 2]), state.shape)

    def reordered(tensors, *states):
        return [as_cudnn(t) if k in states else t for k, t in enumerate(tensors)]

    monkeypatch.setenv("TF_CUDNN_RNN_BATCH_MAJOR_STATES", "cudnn")
    # A kernel reads the variable once; those of a new graph are new.
    actual = tf.function(functools.partial(_second_gradients, running.V3, case))(
        reordered(inputs, 1, 2), reordered(output_gradients, 1, 2), reordered(upstream, 1, 2)
    )
    _assert_close(actual, reordered(expected, 1, 2, 5, 6), 1e-12, "states")


@pytest.mark.usefixtures("graphs_as_traced")
def test_first_gradients_do_not_build_second_ones(monkeypatch):
    calls = []
    original = _second_order.backprop_gradients
    monkeypatch.setattr(
        _second_order,
        "backprop_gradients",
        lambda *arguments, **options: calls.append(1) or original(*arguments, **options),
    )
    case = _case("gru")
    inputs = list(running.tensors_of(case)[:4])
    _gradient(running.OWN_V3, case, inputs)
    tf.function(functools.partial(_gradient, running.OWN_V3, case))(inputs)
    function = tf.function(functools.partial(_loss, running.OWN_V3, case))
    with tf.GradientTape() as tape:  # the gradient of a graph
        tape.watch(inputs)
        loss = function(inputs)
    tape.gradient(loss, inputs)
    with tf.GradientTape() as outer:  # eagerly only when asked
        outer.watch(inputs)
        gradient = _gradient(running.OWN_V3, case, inputs)
    assert not calls
    outer.gradient(gradient, inputs)
    assert calls


@pytest.mark.usefixtures("graphs_as_traced")
def test_one_graph_for_a_network():
    """Lengths and batches share it, however many there are."""
    config = judge.Config("rnn_tanh", 1, H + 3, I)  # no other test has it

    def run(T, B):
        case = running.random_case(57, config, T, B)
        inputs = list(running.tensors_of(case)[:4])
        _reverse_over_reverse(running.OWN_V3, case, inputs, inputs)

    before = _second_order.function_for.cache_info().misses
    for T, B in [(2, 3), (3, 4), (4, 5), (5, 6)]:
        run(T, B)
    assert _second_order.function_for.cache_info().misses == before + 1
    assert _second_order.function_for.cache_info().maxsize is not None  # it does not grow for ever


def test_a_gradient_that_somebody_else_registered_stands():
    code = """
        import tensorflow as tf

        @tf.RegisterGradient("CudnnRNNBackpropV3")
        def theirs(op, *gradients):
            raise RuntimeError("theirs")

        import tf_cudnn_rnn

        x = tf.ones([2, 1, 2])
        state = tf.ones([1, 1, 2])
        params = tf.ones([tf_cudnn_rnn.params_size("lstm", 1, 2, 2)])
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y, *_ = tf.raw_ops.CudnnRNNV3(
                    input=x, input_h=state, input_c=state, params=params, sequence_lengths=[2]
                )
            gradient = inner.gradient(y, x)
        try:
            outer.gradient(gradient, x)
        except RuntimeError as error:
            assert "theirs" in str(error)
        else:
            raise AssertionError("theirs was replaced")
        """
    subprocesses.run_code(textwrap.dedent(code), prepared=True)


# ------------------------------------------------------------------------------------
# A gradient penalty
# ------------------------------------------------------------------------------------


def _train_critic(layers, graph: bool) -> list[float]:
    """Trains a critic with the loss of WGAN-GP for some steps; returns its losses."""
    critic = keras.Sequential([*layers, keras.layers.Dense(1, dtype="float64")])
    critic.build([B, T, I])
    rng = np.random.default_rng(10)
    critic.set_weights([rng.normal(scale=0.5, size=w.shape) for w in critic.get_weights()])
    optimizer = keras.optimizers.Adam(0.02)
    optimizer.build(critic.trainable_variables)

    def step(real, fake, mix):
        with tf.GradientTape() as tape:
            between = mix * real + (1 - mix) * fake
            with tf.GradientTape() as inner:
                inner.watch(between)
                score = critic(between, training=True)
            slopes = inner.gradient(score, between)
            norms = tf.sqrt(tf.reduce_sum(slopes**2, axis=[1, 2]))
            penalty = tf.reduce_mean((norms - 1) ** 2)
            loss = tf.reduce_mean(critic(fake) - critic(real)) + 10 * penalty
        gradients = tape.gradient(loss, critic.trainable_variables)
        optimizer.apply_gradients(zip(gradients, critic.trainable_variables, strict=True))
        return loss

    if graph:
        step = tf.function(step)
    batches = [
        [rng.normal(size=[B, T, I]), rng.uniform(size=[B, T, I]), rng.uniform(size=[B, 1, 1])]
        for _ in range(3)
    ]
    return [float(step(*map(tf.constant, batch))) for batch in batches]


@pytest.mark.parametrize(("layer", "graph"), [("LSTM", True), ("GRU", False), ("SimpleRNN", True)])
def test_gradient_penalty(layer, graph):
    losses = [
        _train_critic([getattr(tf_cudnn_rnn.keras, layer)(H, dtype="float64")], graph),
        # Second derivatives of Keras' loop take long to trace.
        _train_critic([getattr(keras.layers, layer)(H, dtype="float64")], graph=False),
    ]
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-9)
    assert losses[0][-1] != losses[0][0]


# ------------------------------------------------------------------------------------
# The op that reads reserve_space
# ------------------------------------------------------------------------------------


def _read_reserve(case, reserve_space, *, out_type=None, **options):
    x, h0, c0, params, lengths = running.tensors_of(case)
    config = case.config
    arguments = {
        "input": x,
        "input_h": h0,
        "input_c": c0,
        "params": params,
        "sequence_lengths": lengths,
        "reserve_space": reserve_space,
        "rnn_mode": config.rnn_mode,
        "input_mode": config.input_mode,
        "direction": config.direction,
        "dropout": config.dropout,
        "num_proj": config.num_proj,
        "time_major": config.time_major,
        "M": out_type or (tf.float64 if x.dtype == tf.float64 else tf.float32),
    }
    return _library.load().tf_cudnn_rnn_cudnn_rnn_read_reserve(**arguments | options)


def _reserve(case, **options):
    return running.call(running.OWN_V3, case, *running.tensors_of(case), **options).reserve_space


@pytest.mark.parametrize("dtype", list(running.DTYPES))
def test_reserve_tells_the_dropout_masks(dtype):
    case = _case("lstm_dropout", running.DTYPES[dtype])
    key = 0x0123456789ABCDEF
    masks, outer_major = _read_reserve(case, _reserve(case, rng_seed=[key, 0]))
    assert masks.dtype == (tf.float64 if dtype == "double" else tf.float32)
    config = case.config
    assert masks.shape == [config.L - 1, T, B, config.D * config.P]
    for layer in range(config.L - 1):
        expected = judge.dropout_mask(config, layer, T, B, key)
        np.testing.assert_allclose(masks[layer], expected, rtol=1e-6)
    assert bool(outer_major)


def test_dropout_of_a_denormal_probability_has_masks():
    """Threads that run kernels take it for zero, and what traces graphs does not."""
    case = running.with_options(_case("lstm_dropout"), dropout=1e-45)
    masks, _ = _read_reserve(case, _reserve(case))
    assert masks.shape == [case.config.L - 1, T, B, case.config.D * case.config.P]
    np.testing.assert_array_equal(masks, np.ones(masks.shape))


def test_dropout_below_the_least_float_is_none():
    """As a number of Python it is not zero; as the op's attribute it is."""
    case = running.with_options(_case("gru_dropout"), dropout=1e-50)
    x, *others = running.tensors_of(case)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            loss = tf.reduce_sum(running.call(running.OWN_V3, case, x, *others).output ** 2)
        gradient = inner.gradient(loss, x)
    assert np.isfinite(outer.gradient(gradient, x)).all()


def test_reserve_without_dropout_tells_the_order_of_states():
    case = _case("lstm")
    masks, outer_major = _read_reserve(case, _reserve(case))
    assert masks.shape == [0, T, B, 2 * H]
    assert not bool(outer_major)


def test_static_shapes_of_what_the_reserve_tells():
    case = _case("gru_dropout")
    read = tf.function(lambda reserve: _read_reserve(case, reserve))
    masks, outer_major = read.get_concrete_function(tf.TensorSpec(None, tf.float64)).outputs
    assert masks.shape == [1, T, B, 2 * H]
    assert outer_major.shape == []

    @functools.partial(tf.function, input_signature=[tf.TensorSpec(None, tf.float64)] * 2)
    def read_unknown(x, reserve):
        return _read_reserve(case, reserve, input=x)

    masks, _ = read_unknown.get_concrete_function().outputs
    assert masks.shape.as_list() == [1, None, B, 2 * H]


@pytest.mark.parametrize("dtype", list(running.DTYPES))
def test_wrong_reserves_are_errors(dtype):
    case = _case("lstm_dropout", running.DTYPES[dtype])
    reserve = _reserve(case).numpy()
    rng = np.random.default_rng(11)
    wrong = [reserve[:-1], np.zeros_like(reserve), reserve[:0], np.zeros([], reserve.dtype)]
    for value in (np.nan, np.inf, -1, 256, 0.5):
        changed = reserve.copy()
        changed[rng.integers(80)] = value
        wrong.append(changed)
    wrong += [rng.normal(scale=300, size=reserve.shape).astype(reserve.dtype) for _ in range(5)]
    for other in wrong:
        with pytest.raises(tf.errors.InvalidArgumentError, match="reserve_space"):
            _read_reserve(case, other)
    other = running.with_options(case, dropout=0.5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="of other options"):
        _read_reserve(other, reserve)
    shorter = dataclasses.replace(case, sequence_lengths=np.array([T, T, 1], np.int32))
    with pytest.raises(tf.errors.InvalidArgumentError, match="reserve_space"):
        _read_reserve(shorter, reserve)
    with pytest.raises(tf.errors.InvalidArgumentError, match="params must have"):
        _read_reserve(case, reserve, params=case.params[:-1])


def test_masks_come_in_the_type_that_is_computed_in():
    (one, *more) = kernels.get_registered_kernels_for_op("TfCudnnRnn>CudnnRNNReadReserve").kernel
    assert not more and one.device_type == "CPU"
    case = _case("gru_dropout")
    with pytest.raises(tf.errors.InvalidArgumentError, match="M must be double.* got float"):
        _read_reserve(case, _reserve(case), out_type=tf.float32)


def _version_1_hessian():
    """Compares a second derivative of a program of TensorFlow 1 with that of today's."""
    import numpy as np
    import tensorflow as tf

    import tf_cudnn_rnn

    rng = np.random.default_rng(0)
    arrays = {
        "input": rng.normal(size=[3, 2, 4]),
        "input_h": rng.normal(size=[2, 2, 3]),
        "params": rng.normal(
            size=tf_cudnn_rnn.params_size("gru", 2, 3, 4),
        ),
    }

    def second_gradients(tensors):
        output = tf_cudnn_rnn.raw_ops.CudnnRNNV3(
            input_c=tf.zeros([], tf.float64),
            sequence_lengths=[3, 1],
            rng_seed=[0, 0],
            rnn_mode="gru",
            **tensors,
        ).output
        first = tf.gradients(output, list(tensors.values()))
        return tf.gradients(sum(tf.reduce_sum(g * g) for g in first), list(tensors.values()))

    @tf.function
    def today():
        return second_gradients({k: tf.constant(v) for k, v in arrays.items()})

    expected = [g.numpy() for g in today()]
    tf.compat.v1.disable_v2_behavior()
    with tf.Graph().as_default():
        tensors = {k: tf.compat.v1.placeholder(tf.float64, v.shape) for k, v in arrays.items()}
        unknown = {k: tf.compat.v1.placeholder(tf.float64) for k in arrays}
        for inputs in (tensors, unknown):
            for key, tensor in unknown.items():
                tensor.set_shape([None] * arrays[key].ndim)
            gradients = second_gradients(inputs)
            with tf.compat.v1.Session() as session:
                results = session.run(gradients, {inputs[k]: arrays[k] for k in arrays})
            for result, wanted in zip(results, expected, strict=True):
                np.testing.assert_allclose(result, wanted, rtol=1e-12, atol=1e-12)


def test_programs_of_tensorflow_1():
    """Dimensions are objects there, not numbers."""
    subprocesses.run(_version_1_hessian)
