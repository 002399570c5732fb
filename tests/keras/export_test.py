"""What a SavedModel of drop-ins holds, and that it runs elsewhere."""

import linecache
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.helpers import subprocesses
from tests.keras import pairs
from tests.keras.pairs import LAYERS, MASK, H, I
from tf_cudnn_rnn.keras import export, export_as

OWN, BUILTIN = "TfCudnnRnn>KerasRNN", "CudnnRNNV3"
LOOPS = {"While", "StatelessWhile"}


def nodes_of(folder) -> list:
    """All nodes of the graph and its functions."""
    graph = tf.saved_model.load(str(folder)).signatures["serving_default"].graph.as_graph_def()
    return [
        *graph.node,
        *(node for function in graph.library.function for node in function.node_def),
    ]


def model_of(name: str) -> keras.Model:
    layer = getattr(tf_cudnn_rnn.keras, name)
    inputs = keras.Input([None, I])
    y = keras.layers.Masking()(inputs)
    y = tf_cudnn_rnn.keras.Bidirectional(layer(H, return_sequences=True))(y)
    model = keras.Model(inputs, keras.layers.Dense(2)(layer(H)(y)))
    pairs.randomise(model)
    return model


def run_elsewhere(folders, imports) -> None:
    """Runs the SavedModels in one other process; each folder has x.npy and y.npy, too."""
    code = f"""
import numpy as np, pathlib, sys
import tensorflow as tf
{imports}
for folder in map(pathlib.Path, {list(map(str, folders))!r}):
    model = tf.saved_model.load(str(folder))
    x, y = np.load(folder / "x.npy"), np.load(folder / "y.npy")
    for batch in (len(x), 1):  # sizes are unknown in the graph
        np.testing.assert_allclose(
            model.serve(x[:batch]), y[:batch], rtol=0, atol=2e-6, err_msg=str(folder)
        )
"""
    subprocesses.run_code(code, prepared=True)


def check_export(name, as_, folder) -> None:
    """Exports a model into `folder`, with an input and its output for `run_elsewhere`."""
    model = model_of(name)
    x = np.where(MASK[..., None], pairs.inputs("float32"), 0)
    expected = model(x).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about masks; see below
        export(model, folder, as_=as_, verbose=False)
    np.save(folder / "x.npy", x)
    np.save(folder / "y.npy", expected)
    nodes = nodes_of(folder)
    operations = [node.op for node in nodes]
    ours = {operation for operation in operations if operation.startswith("TfCudnnRnn>")}
    if as_ == "own":
        assert operations.count(OWN) == 2 and ours == {OWN}
        assert BUILTIN not in operations and not LOOPS & set(operations)
    elif as_ == "builtin":
        assert operations.count(BUILTIN) == 3 and not ours
        assert not {o for o in operations if "Canonical" in o or "ParamsSize" in o}
        assert not LOOPS & set(operations)
        for node in nodes:
            if node.op == BUILTIN:
                assert not node.attr["is_training"].b
                assert node.attr["dropout"].f == 0 and node.attr["num_proj"].i == 0
    else:
        assert not ours and BUILTIN not in operations and LOOPS & set(operations)
    # The model itself is as it was.
    assert model.layers[-2].fallback_reason is None or as_ == "stock"
    model(x)
    assert model.layers[-2].runs_fused


@pytest.mark.parametrize("as_", ["own", "builtin"])
def test_export(as_, tmp_path):
    for name in LAYERS:
        check_export(name, as_, tmp_path / name)
    run_elsewhere([tmp_path / name for name in LAYERS], "import tf_cudnn_rnn")


def test_export_for_stock_tensorflow(tmp_path):
    check_export("GRU", "stock", tmp_path / "GRU")
    run_elsewhere([tmp_path / "GRU"], "assert 'tf_cudnn_rnn' not in sys.modules")


def test_without_the_library_the_error_names_the_op(tmp_path):
    layer = keras.Sequential([keras.Input([None, I]), tf_cudnn_rnn.keras.LSTM(H)])
    export(layer, tmp_path / "model", verbose=False)
    code = f"""
import tensorflow as tf
try:
    tf.saved_model.load({str(tmp_path / "model")!r})
except Exception as error:
    print(error)
"""
    assert f"Op type not registered '{OWN}'" in subprocesses.run_code(code, prepared=True)


def test_export_archive_and_saved_model(tmp_path):
    model = keras.Sequential([keras.Input([None, I]), tf_cudnn_rnn.keras.GRU(H)])
    x = pairs.inputs("float32")
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec([None, None, I])])
    with export_as("builtin"):
        archive.add_endpoint("other", model.call, [tf.TensorSpec([None, None, I])])
    archive.write_out(str(tmp_path / "archive"), verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "archive"))
    for run in (loaded.serve, loaded.other):
        np.testing.assert_allclose(run(x), model(x), rtol=0, atol=2e-6)
    tf.saved_model.save(model, str(tmp_path / "saved"))
    loaded = tf.saved_model.load(str(tmp_path / "saved"))
    y = loaded.signatures["serving_default"](tf.constant(x))
    np.testing.assert_allclose(next(iter(y.values())), model(x), rtol=0, atol=2e-6)


def test_builtin_warns_of_what_gpus_get_wrong():
    layer = tf_cudnn_rnn.keras.LSTM(H, name="rnn", recurrent_initializer="zeros", dtype="bfloat16")
    x, mask = pairs.inputs("float32"), tf.constant(MASK)
    with export_as("builtin"), warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        layer(x, mask=mask)  # makes no graph
        assert not record
        for _ in range(2):  # once is enough
            tf.function(lambda: layer(x, mask=mask))()
    assert {warning.filename for warning in record} == {__file__}
    of_type, of_mask = (str(warning.message) for warning in record)
    assert of_type.startswith("Layer 'rnn' computes in bfloat16, which TensorFlow's GPU kernel")
    assert of_mask.startswith("Layer 'rnn' has a mask, so lengths can be 0, which TensorFlow's GPU")


def test_warnings_point_to_the_line_that_exports(tmp_path):
    inputs = keras.Input([None, I])
    y = tf_cudnn_rnn.keras.GRU(H)(keras.layers.Masking()(inputs))
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        export(keras.Model(inputs, y), tmp_path, as_="builtin", verbose=False)  # this line
    (warning,) = (w for w in record if "has a mask, so lengths can be 0" in str(w.message))
    assert warning.filename == __file__
    assert linecache.getline(__file__, warning.lineno).endswith("# this line\n")


def test_export_as_acts_within_its_block_and_names_its_choices():
    layer = tf_cudnn_rnn.keras.LSTM(H, use_fused=True)
    x = pairs.inputs("float32")
    with pytest.raises(KeyError), export_as("stock"):
        layer(x)
        assert layer.fallback_reason.startswith("the graph is built for stock TensorFlow")
        raise KeyError
    layer(x)
    assert layer.runs_fused
    with (
        pytest.raises(ValueError, match="`contents` must be one of own, builtin, stock; got 'gpu'"),
        export_as("gpu"),
    ):
        pass
