"""What graphs hold for CudnnRNN, in SavedModels and elsewhere."""

import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.keras import cudnn_rnn_stacks as stacks
from tests.keras.cudnn_rnn_stacks import LENGTHS, MASK, H, I, P
from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn.keras import CudnnGRU, CudnnLSTM, CudnnRNN, export, export_as

OWN, BUILTIN = "TfCudnnRnn>CudnnRNNV3", "CudnnRNNV3"


def model_of(**options) -> keras.Model:
    x = keras.Input([None, I])
    options = {"direction": "bidirectional", "dropout": 0.5, "return_state": True} | options
    y, h, c = CudnnLSTM(H, 2, return_sequences=True, **options)(x)
    y, h = CudnnGRU(H, 2, return_state=True)(y, initial_state=h[:, :2])
    model = keras.Model(x, [y, h, c])
    stacks.randomise(model)
    return model


def recurrent_nodes(graph_def) -> list:
    nodes = stacks.operations(graph_def)
    assert not [n.op for n in nodes if "Canonical" in n.op or "ParamsSize" in n.op]
    return [node for node in nodes if "CudnnRNN" in node.op]


@pytest.mark.parametrize("as_", [None, "builtin", "own"])
def test_saved_models(as_, tmp_path):
    model = model_of()
    x = stacks.inputs(dtype="float32")
    expected = model(x)
    folder = str(tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if as_ is None:
            model.export(folder, verbose=False)
        else:
            export(model, folder, as_=as_, verbose=False)
    loaded = tf.saved_model.load(folder)
    nodes = recurrent_nodes(loaded.signatures["serving_default"].graph.as_graph_def())
    assert [node.op for node in nodes] == [OWN if as_ == "own" else BUILTIN] * 2
    for node in nodes:
        # Stock GPU kernels mistake the states of batch-major networks.
        assert node.attr["time_major"].b == (as_ != "own")
        assert node.attr["is_training"].b == (as_ != "builtin")
        assert node.attr["dropout"].f == 0 and node.attr["num_proj"].i == 0
    for size in (len(x), 1):  # the batch size is unknown in the graph
        for one, other in zip(loaded.serve(x[:size]), expected, strict=True):
            stacks.assert_close(one, other[:size], tolerance=1e-6)


def test_single_layers_stay_batch_major():
    layer = stacks.built("gru", num_layers=1)
    function = tf.function(layer).get_concrete_function(stacks.inputs())
    (node,) = recurrent_nodes(function.graph.as_graph_def())
    assert node.op == BUILTIN and not node.attr["time_major"].b
    operations = {node.op for node in stacks.operations(function.graph.as_graph_def())}
    assert not operations & {"While", "StatelessWhile", "If", "StatelessIf"}


def test_training_with_dropout_holds_own_ops():
    layer = stacks.built(dropout=0.5, seed=1)
    function = tf.function(lambda x: layer(x, training=True))
    graph = function.get_concrete_function(stacks.inputs()).graph.as_graph_def()
    (node,) = recurrent_nodes(graph)
    assert node.op == OWN and node.attr["is_training"].b
    function = tf.function(lambda x: layer(x, training=False))
    (node,) = recurrent_nodes(function.get_concrete_function(stacks.inputs()).graph.as_graph_def())
    assert node.op == BUILTIN


def test_what_is_kept_for_gradients(monkeypatch):
    kept = []
    for module in (raw_ops, tf.raw_ops):

        def spy(original=module.CudnnRNNV3, **arguments):
            kept.append(arguments["is_training"])
            return original(**arguments)

        monkeypatch.setattr(module, "CudnnRNNV3", spy)
    layer = stacks.built(dropout=0.5, seed=1)
    x = tf.constant(stacks.inputs())
    layer(x)
    with export_as("own"):
        layer(x)
    assert kept == [False, False]
    layer(x, training=True)  # the op's dropout is that of training
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x)
    assert tape.gradient(y, x) is not None
    tf.function(layer)(x)  # a graph may be differentiated later, and keeps nothing if not
    assert kept == [False, False, True, True, True]


WARNINGS = [
    ({"num_proj": P}, {}, "has num_proj=2, which recent GPU builds refuse"),
    ({"dtype": "bfloat16"}, {}, "computes in bfloat16, which TensorFlow's GPU kernel gets wrong"),
    ({}, {"sequence_lengths": LENGTHS}, "has a mask or sequence_lengths, so lengths can be 0"),
    ({}, {"mask": MASK}, "has a mask or sequence_lengths, so lengths can be 0"),
    ({"dropout": 0.5}, {"training": True}, "is traced for training with dropout"),
]


@pytest.mark.parametrize(
    ("options", "call", "message"), WARNINGS, ids=[w[2][:20] for w in WARNINGS]
)
def test_exporting_warns_of_what_gpus_get_wrong(options, call, message):
    layer = stacks.built(**options, name="rnn")
    x = stacks.inputs(dtype="float32")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        layer(x, **call)
        tf.function(lambda: layer(x, **call))()
        with export_as("builtin"):
            layer(x, **call)  # makes no graph
    with export_as("builtin"), warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        for _ in range(2):  # once is enough
            tf.function(lambda: layer(x, **call))()
    (warning,) = record
    assert str(warning.message).startswith(f"Layer 'rnn' {message}")
    assert str(warning.message).endswith("On CPUs with this library the graph is right.")
    assert warning.filename == __file__


def test_export_by_default_is_that_of_the_model(tmp_path):
    inputs = keras.Input([None, I])
    y = CudnnGRU(H, return_sequences=True)(inputs)
    model = keras.Model(inputs, tf_cudnn_rnn.keras.GRU(H)(y))

    def exported(name) -> list[str]:
        loaded = tf.saved_model.load(str(tmp_path / name))
        graph = loaded.signatures["serving_default"].graph.as_graph_def()
        return sorted(node.op for node in stacks.operations(graph) if "RNN" in node.op)

    model.export(tmp_path / "model", verbose=False)
    export(model, tmp_path / "ours", verbose=False)
    assert exported("ours") == exported("model") == [BUILTIN, "TfCudnnRnn>KerasRNN"]
    with export_as("own"):
        export(model, tmp_path / "own", verbose=False)
    assert exported("own") == [OWN, "TfCudnnRnn>KerasRNN"]
    with pytest.raises(ValueError, match="`as_` must be one of own, builtin, stock; got 'gpu'"):
        export(model, tmp_path / "gpu", as_="gpu")


def test_stock_graphs_are_refused(tmp_path):
    model = model_of()
    with pytest.raises(ValueError, match="cannot be traced as 'stock'.*to_keras"):
        export(model, tmp_path, as_="stock", verbose=False)
    model(stacks.inputs(dtype="float32"))


def test_stock_graphs_of_projections_are_refused_for_good(tmp_path):
    """Without a word of to_keras, which would refuse them, too."""
    model = keras.Sequential([keras.Input([None, I]), CudnnLSTM(H, num_proj=P, name="rnn")])
    message = "'rnn' has num_proj=2, and no stock Keras layer projects.*as_='builtin'"
    with pytest.raises(ValueError, match=message) as error:
        export(model, tmp_path, as_="stock", verbose=False)
    assert "to_keras" not in str(error.value)


@pytest.mark.filterwarnings("ignore:.*doesn't support `jit_compile:UserWarning")
def test_xla_is_left_alone():
    assert not CudnnRNN(H).supports_jit
    model = keras.Sequential([keras.Input([None, I]), CudnnRNN(H, 2)])
    model.compile("sgd", "mse", jit_compile=True)
    model.fit(stacks.inputs(dtype="float32"), np.zeros([len(MASK), H]), verbose=0)
