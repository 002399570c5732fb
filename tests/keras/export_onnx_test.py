"""Models as ONNX files: ONNX Runtime gives what `predict` gives, and runs nodes, not loops.

A model here has many layers side by side, each with an output, for an export costs a second.
"""

import collections
import itertools
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras.covering import covering_array

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytest.importorskip("tf2onnx")

pytestmark = pytest.mark.filterwarnings(
    "ignore:In the future `np.object` will be defined:FutureWarning"  # Keras and tf2onnx
)

B, T, I, H = 7, 6, 4, 5
LIBRARIES = {"stock": keras.layers, "drop-in": tf_cudnn_rnn.keras}
LAYERS = {"LSTM": "LSTM", "GRU": "GRU", "SimpleRNN": "RNN"}
ACTIVATIONS = "relu tanh sigmoid linear hard_sigmoid elu leaky_relu softsign softplus".split()
LOOPS = {"Loop", "Scan", "If"}
# Rows that are full, empty, padded at the end, at the beginning, and with holes.
MASK = np.array(
    [
        [1, 1, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 1, 1, 1, 1],
        [0, 1, 0, 1, 1, 0],
        [1, 0, 0, 0, 0, 1],
        [1, 0, 0, 0, 0, 0],
    ],
    bool,
)


def _x(batch=B, time=T, size=I, seed=2):
    return np.random.default_rng(seed).normal(size=[batch, time, size]).astype("float32")


def _randomised(model):
    """Random values in every weight, biases included: equal ones would hide swapped gates."""
    rng = np.random.default_rng(3)
    model.set_weights([rng.normal(scale=0.4, size=w.shape) for w in model.get_weights()])
    return model


def _model(inputs, outputs):
    return _randomised(keras.Model(inputs, keras.tree.flatten(outputs)))


def _nodes(path):
    """How many nodes of each type a file has, and that ONNX knows all of them."""
    file = onnx.load(path)
    onnx.checker.check_model(file, full_check=True)
    graphs = [file.graph, *file.functions]
    return collections.Counter(node.op_type for graph in graphs for node in graph.node)


def _run(path, *inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [tensor.name for tensor in session.get_inputs()]
    return session.run(None, dict(zip(names, inputs, strict=True)))


def _assert_same(model, path, *inputs):
    """Compares what ONNX Runtime gives with what the model does."""
    expected = keras.tree.flatten(model(inputs[0] if len(inputs) == 1 else list(inputs)))
    actual = _run(path, *inputs)
    assert len(actual) == len(expected)
    for k, (one, other) in enumerate(zip(actual, expected, strict=True)):
        assert one.shape == other.shape, k
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-5, err_msg=f"output {k}")
        assert np.abs(one).max() > 0.01, k


def _assert_exports(model, folder, *inputs, **nodes):
    """Exports a model, compares, and counts the recurrent nodes."""
    path = folder / "model.onnx"
    tf_cudnn_rnn.keras.export_onnx(model, path)
    found = _nodes(path)
    assert not LOOPS & set(found)
    assert {name: found[name] for name in LAYERS.values() if found[name]} == nodes
    _assert_same(model, path, *inputs)
    return path, found


def test_layers(tmp_path):
    cases = covering_array(
        {
            "name": tuple(LAYERS),
            "library": tuple(LIBRARIES),
            "return_sequences": (False, True),
            "return_state": (False, True),
            "go_backwards": (False, True),
            "use_bias": (True, False),
            "masked": (False, True),
        },
        lambda case: True,
    )
    words = keras.Input([None], dtype="int32")
    x = keras.layers.Embedding(9, I, mask_zero=True)(words)
    plain = keras.Input([None, I])
    outputs, nodes = [], collections.Counter()
    for case in cases:
        cls = getattr(LIBRARIES[case.pop("library")], case.pop("name"))
        layer = cls(H, **{key: value for key, value in case.items() if key != "masked"})
        outputs.append(layer(x if case["masked"] else plain))
        nodes[LAYERS[cls.__name__]] += 1
    outputs.append(
        keras.layers.GRU(H, return_sequences=True, zero_output_for_mask=True, name="zeros")(x)
    )
    nodes["GRU"] += 1
    model = _model([words, plain], outputs)
    numbers = np.random.default_rng(4).integers(1, 9, size=MASK.shape).astype("int32") * MASK
    path, _ = _assert_exports(model, tmp_path, numbers, _x(), **nodes)
    _assert_same(model, path, numbers[:1, :3], _x()[:1, :3])  # batch and time are open


def test_activations(tmp_path):
    x = keras.Input([T, I])
    libraries = itertools.cycle(LIBRARIES.values())
    outputs = [next(libraries).SimpleRNN(H, activation=name)(x) for name in ACTIVATIONS]
    for name, gates in [("relu", "hard_sigmoid"), ("softsign", "sigmoid"), ("elu", "tanh")]:
        options = dict(activation=name, recurrent_activation=gates)
        outputs.append(next(libraries).LSTM(H, **options)(x))
        outputs.append(next(libraries).GRU(H, **options)(x))
    for use_bias in (False, True):
        outputs.append(next(libraries).GRU(H, reset_after=False, use_bias=use_bias)(x))
    outputs.append(tf_cudnn_rnn.keras.LSTM(H, unroll=True, dropout=0.5, recurrent_dropout=0.5)(x))
    outputs.append(tf_cudnn_rnn.keras.LSTM(H, use_fused=False)(x))
    _assert_exports(_model(x, outputs), tmp_path, _x(), LSTM=5, GRU=5, RNN=9)


def test_both_directions_and_initial_states(tmp_path):
    x, h, c = keras.Input([T, I]), keras.Input([H]), keras.Input([H])
    wrap, ours, stock = tf_cudnn_rnn.keras.Bidirectional, tf_cudnn_rnn.keras, keras.layers
    all_steps = dict(return_sequences=True)
    outputs = [
        wrap(ours.LSTM(H, **all_steps))(x),
        wrap(stock.GRU(H, **all_steps), merge_mode="sum")(x),
        wrap(ours.SimpleRNN(H), merge_mode="mul")(x),
        wrap(stock.LSTM(H, return_state=True), merge_mode="ave")(x),
        wrap(ours.GRU(H, **all_steps), merge_mode=None)(x),
        wrap(stock.LSTM(H, **all_steps, return_state=True))(x, initial_state=[h, c, c, h]),
        wrap(ours.GRU(H))(wrap(ours.LSTM(H, **all_steps))(x)),
        ours.LSTM(H, return_state=True)(x, initial_state=[h, c]),
        stock.GRU(H, **all_steps)(x, initial_state=[h]),
        ours.SimpleRNN(H, go_backwards=True)(x, initial_state=[c]),
    ]
    states = [_x(B, H, 1, seed)[..., 0] for seed in (5, 6)]
    model = _model([x, h, c], outputs)
    _, found = _assert_exports(model, tmp_path, _x(), *states, LSTM=9, GRU=7, RNN=3)
    # Nothing is reversed, and then reversed again.
    assert not {"ReverseSequence", "Gather"} & set(found)


def test_stacks(tmp_path):
    cases = covering_array(
        {
            "rnn_mode": ("lstm", "gru", "rnn_tanh", "rnn_relu"),
            "direction": ("unidirectional", "bidirectional"),
            "num_layers": (1, 2),
            "input_mode": ("linear_input", "skip_input"),
            "time_major": (False, True),
            "return_sequences": (False, True),
            "return_state": (False, True),
            "separate_weights": (False, True),
        },
        lambda case: True,
    )
    x = keras.Input([T, H])
    outputs, nodes = [], collections.Counter()
    for case in cases:
        layer = tf_cudnn_rnn.keras.CudnnRNN(H, **case)
        outputs.append(layer(keras.ops.transpose(x, [1, 0, 2]) if layer.time_major else x))
        nodes[LAYERS[{"lstm": "LSTM", "gru": "GRU"}.get(layer.rnn_mode, "SimpleRNN")]] += (
            layer.num_layers
        )
    _assert_exports(_model(x, outputs), tmp_path, _x(B, T, H), **nodes)


def test_lengths_masks_and_states_of_stacks(tmp_path):
    x, lengths = keras.Input([T, I]), keras.Input([], dtype="int32")
    words = keras.Input([T], dtype="int32")
    h, c = keras.Input([4, H]), keras.Input([4, H])
    options = dict(direction="bidirectional", return_state=True, return_sequences=True)
    masked = keras.layers.Embedding(9, I, mask_zero=True)(words)
    outputs = [
        tf_cudnn_rnn.keras.CudnnLSTM(H, 2, **options)(x, sequence_lengths=lengths),
        tf_cudnn_rnn.keras.CudnnLSTM(H, 2, **options)(x, initial_state=[h, c]),
        tf_cudnn_rnn.keras.CudnnGRU(H, 2, **options)(
            x, initial_state=[h], sequence_lengths=lengths
        ),
        tf_cudnn_rnn.keras.CudnnGRU(H, direction="bidirectional")(x, sequence_lengths=lengths),
        tf_cudnn_rnn.keras.CudnnRNNTanh(H, 2, dropout=0.5, **options)(masked),
    ]
    model = _model([x, lengths, words, h, c], outputs)
    numbers = np.random.default_rng(4).integers(1, 9, size=MASK.shape).astype("int32") * MASK
    arrays = [
        _x(),
        np.array([6, 0, 3, 1, 6, 5, 2], "int32"),  # a row has no step
        numbers,
        _x(B, 4, H, 5),
        _x(B, 4, H, 6),
    ]
    _assert_exports(model, tmp_path, *arrays, LSTM=4, GRU=3, RNN=2)


class Own(keras.Model):
    """A model that makes layers in code, and calls one of them twice."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.rnn = keras.layers.GRU(I, return_sequences=True)
        self.last = keras.layers.TimeDistributed(tf_cudnn_rnn.keras.LSTM(H))

    def call(self, x):
        y = self.rnn(self.rnn(x))
        return self.last(keras.ops.stack([x, y], axis=1))


def test_models_within_models(tmp_path):
    own = Own()
    own(_x())  # builds it
    x = keras.Input([T, I])
    cell = keras.layers.RNN(keras.layers.LSTMCell(H))  # stays a loop
    model = _model(x, [own(x), cell(x)])
    path = tmp_path / "model.onnx"
    tf_cudnn_rnn.keras.export_onnx(model, path)
    _assert_same(model, path, _x())
    assert _nodes(path)["GRU"] == 2
    assert "inner_loop" not in vars(own.rnn)


@pytest.mark.parametrize("kind", ["drop-in", "stack"])
def test_the_export_of_keras(kind, tmp_path):
    """It writes nodes for our layers; files of theirs used not to load."""
    own = tf_cudnn_rnn.keras
    layer = own.GRU(H) if kind == "drop-in" else own.CudnnGRU(H, separate_weights=True)
    model = keras.Sequential([keras.Input([None, I]), layer, keras.layers.Dense(2)])
    _randomised(model)(_x())
    path = tmp_path / "model.onnx"
    model.export(path, format="onnx", verbose=False)
    assert _nodes(path)["GRU"] == 1
    _assert_same(model, path, _x())


def test_the_export_of_keras_says_what_becomes_a_loop(tmp_path):
    model = keras.Sequential([keras.Input([T, I]), tf_cudnn_rnn.keras.GRU(H, activation="silu")])
    _randomised(model)(_x())
    path = tmp_path / "model.onnx"
    with pytest.warns(UserWarning, match="cannot be a node of ONNX: activation must be one of"):
        model.export(path, format="onnx", verbose=False)
    _assert_same(model, path, _x())
    assert not _nodes(path)["GRU"]


class OwnCell(keras.layers.LSTMCell):
    pass


def _of_own_cell():
    layer = keras.layers.LSTM(H)
    layer.cell = OwnCell(H)
    return layer


REFUSED = {
    "projection": (
        lambda: tf_cudnn_rnn.keras.CudnnLSTM(H, num_proj=3),
        r"\(CudnnLSTM\) cannot be a node of ONNX: num_proj must be None, for ONNX's LSTM does "
        "not project; got 3. Train without",
    ),
    "stateful": (
        lambda: keras.layers.LSTM(H, stateful=True),
        "stateful must be False, .* got True. Make it with return_state=True",
    ),
    "stateful stack": (
        lambda: tf_cudnn_rnn.keras.CudnnGRU(H, stateful=True),
        "stateful must be False",
    ),
    "activation": (
        lambda: keras.layers.LSTM(H, activation="gelu"),
        "activation must be one of elu, .*, tanh; got gelu. tf_cudnn_rnn.keras.to_keras",
    ),
    "gates": (
        lambda: tf_cudnn_rnn.keras.GRU(H, recurrent_activation="silu"),
        "recurrent_activation must be one of .*; got silu",
    ),
    "cell": (_of_own_cell, "the cell must be Keras' own; got OwnCell"),
    "type": (
        lambda: tf_cudnn_rnn.keras.LSTM(H, dtype="float64"),
        "the compute dtype must be float32; got float64. Make the same model with dtype",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_node_can_do(case, tmp_path):
    make, message = REFUSED[case]
    layer = make()
    model = keras.Sequential([keras.Input(batch_shape=[B, T, I]), layer])
    path = tmp_path / "model.onnx"
    path.write_text("old")
    with pytest.raises(ValueError, match=message):
        tf_cudnn_rnn.keras.export_onnx(model, path)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["old"]
    assert "inner_loop" not in vars(layer)


def test_what_tf2onnx_cannot_convert(tmp_path):
    class Odd(keras.layers.Layer):
        def call(self, x):
            return tf.linalg.expm(x)

        def compute_output_shape(self, shape):
            return shape

    model = keras.Sequential(
        [keras.Input([T, T]), tf_cudnn_rnn.keras.GRU(T, return_sequences=True), Odd()]
    )
    with pytest.raises(ValueError, match="must be of what tf2onnx converts; of .* it wrote what"):
        tf_cudnn_rnn.keras.export_onnx(model, tmp_path / "model.onnx")
    assert not list(tmp_path.iterdir())


def test_wrong_arguments(tmp_path, monkeypatch):
    export_onnx, path = tf_cudnn_rnn.keras.export_onnx, tmp_path / "model.onnx"
    with pytest.raises(TypeError, match="`model` must be a Keras model; got LSTM. Put a layer"):
        export_onnx(keras.layers.LSTM(H), path)
    with pytest.raises(ValueError, match="must be built; .* is not. Call it on data first"):
        export_onnx(keras.Sequential([keras.layers.LSTM(H)]), path)
    built = keras.Sequential([keras.Input([T, I]), keras.layers.LSTM(H)])
    with pytest.raises(FileNotFoundError, match="must lie in a folder that exists; no/m.onnx does"):
        export_onnx(built, "no/m.onnx")
    monkeypatch.setitem(sys.modules, "tf2onnx.handler", None)
    model = keras.Sequential([keras.Input([T, I]), keras.layers.LSTM(H)])
    with pytest.raises(ImportError, match="needs tf2onnx: run `pip install tf2onnx onnx`"):
        export_onnx(model, path)


@pytest.mark.parametrize("name", LAYERS)
def test_both_directions_as_one_op_convert(tmp_path, name):
    """By tf2onnx itself, of a graph that has the op."""
    import tf2onnx

    x = keras.Input([T, I])
    layer = tf_cudnn_rnn.keras.Bidirectional(
        getattr(tf_cudnn_rnn.keras, name)(H, return_sequences=True)
    )
    model = _model(x, layer(x))
    tf_cudnn_rnn.keras.export_onnx(model, tmp_path / "warm_up.onnx")  # which registers the ops
    function = tf.function(model, input_signature=[tf.TensorSpec([None, T, I], name="x")])
    assert "TfCudnnRnn>KerasRNN" in [
        node.op for node in function.get_concrete_function().graph.as_graph_def().node
    ]
    path = tmp_path / "model.onnx"
    tf2onnx.convert.from_function(
        function, input_signature=function.input_signature, opset=17, output_path=str(path)
    )
    assert _nodes(path)[LAYERS[name]] == 1
    session = onnxruntime.InferenceSession(path)
    [found] = session.run(None, {"x": _x()})
    np.testing.assert_allclose(found, model(_x()), rtol=0, atol=2e-6)
