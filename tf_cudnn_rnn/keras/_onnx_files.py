"""Whole models as ONNX files."""

from __future__ import annotations

import contextlib
import inspect
import os
import pathlib
import tempfile
import types
from collections.abc import Iterator
from typing import Any

import keras

from tf_cudnn_rnn._formats import endings
from tf_cudnn_rnn.keras import _graphs, _inner_loop, _onnx_nodes
from tf_cudnn_rnn.keras._accelerate import has_keras_loop
from tf_cudnn_rnn.keras._drop_in import DropIn
from tf_cudnn_rnn.keras._models import STOCK_LAYERS, layers_of


def export_onnx(
    model: keras.Model,
    path: str | os.PathLike[str],
    input_signature: Any = None,
    opset_version: int | None = None,
) -> None:
    """Writes a model as an ONNX file, its recurrent layers as nodes LSTM, GRU and RNN.

    An LSTM, GRU or SimpleRNN, drop-in or Keras' own, becomes a node, one for each direction. A
    CudnnRNN becomes a node for each of its layers. All else of the model is converted by tf2onnx,
    as in `model.export(path, format="onnx")`, which makes loops of most of Keras' own layers;
    keras.layers.RNN with a cell of yours is one here, too. The batch is open, and so are the time
    steps if the model's inputs leave them open.

    The file is for inference: dropout is off. Masks of any pattern and `sequence_lengths` act as
    in the model.

    >>> tf_cudnn_rnn.keras.export_onnx(model, "model.onnx")
    >>> onnxruntime.InferenceSession("model.onnx").run(None, {"input": x})

    Args:
      model: a built model. One that is neither Functional nor Sequential must have been called.
      path: of the file, which is overwritten; nothing is written if something is refused. Its
        ending is `.onnx`, or one that no other format has.
      input_signature: a list of keras.InputSpec or tf.TensorSpec in the structure of the model's
        inputs: their shapes, types, and names in the file. By default those of the model.
      opset_version: of ONNX; None for tf2onnx's choice. Masks need 12.

    Raises:
      FileNotFoundError: there is no such folder as `path` names.
      ImportError: tf2onnx or onnx is missing, or Keras is too old to export to ONNX.
      TypeError: `model` is no Keras model.
      ValueError: `model` is not built; or `path` has the ending of another format; or a layer
        does what no node can do: it projects, is stateful, has an activation that ONNX lacks, or
        computes in another type than float32. Or tf2onnx cannot convert something else of the
        model.
    """
    if not isinstance(model, keras.Model):
        raise TypeError(
            f"`model` must be a Keras model; got {type(model).__name__}. Put a layer into a "
            "model: keras.Sequential([keras.Input(shape), layer])."
        )
    if not model.built:
        raise ValueError(f"`model` must be built; {model.name!r} is not. Call it on data first.")
    if "format" not in inspect.signature(keras.Model.export).parameters:
        raise ImportError(
            f"export_onnx needs a Keras that exports to ONNX; found {keras.__version__}. Run "
            "`pip install -U keras`."
        )
    endings.check("path", path, endings.ONNX)
    path = pathlib.Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"`path` must lie in a folder that exists; {path} does not: make {path.parent} first."
        )
    _onnx_nodes.register_handlers()
    if input_signature is None and getattr(model, "inputs", None):
        input_signature = _signature_of(model)
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        unchecked = pathlib.Path(folder) / "model.onnx"
        with _nodes_in(model):
            model.export(
                unchecked,
                format="onnx",
                verbose=False,
                input_signature=input_signature,
                opset_version=opset_version,
            )
        _check(unchecked, model.name)
        os.replace(unchecked, path)


def _signature_of(model: keras.Model) -> list[Any]:
    """The inputs of a Functional or Sequential model; Keras asks that it has been called first."""

    def spec(tensor: keras.KerasTensor) -> keras.layers.InputSpec:
        return keras.layers.InputSpec(
            shape=(None, *tensor.shape[1:]), dtype=tensor.dtype, name=tensor.name
        )

    inputs = model.inputs if isinstance(model, keras.Sequential) else [model.input]
    return keras.tree.map_structure(spec, inputs)


@contextlib.contextmanager
def _nodes_in(model: keras.Model) -> Iterator[None]:
    """Lets the recurrent layers of a model be traced as ops that become nodes."""
    stock = [
        layer
        for layer in layers_of(model, STOCK_LAYERS)
        if not isinstance(layer, DropIn)
        and "inner_loop" not in layer.__dict__
        and has_keras_loop(layer)
    ]
    for layer in stock:
        # In __dict__, for Keras and TensorFlow track what is set as an attribute.
        layer.__dict__["inner_loop"] = types.MethodType(_inner_loop.inner_loop, layer)
    contents = _graphs.graph_contents.set("own")
    exporting = _onnx_nodes.is_exporting.set(True)
    try:
        yield
    finally:
        _onnx_nodes.is_exporting.reset(exporting)
        _graphs.graph_contents.reset(contents)
        for layer in stock:
            del layer.__dict__["inner_loop"]


def _check(path: pathlib.Path, model: str) -> None:
    """Checks that ONNX knows all of a file: tf2onnx writes what it cannot convert as it is.

    Raises:
      ValueError: it does not.
    """
    import onnx

    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise ValueError(
            f"`model` must be of what tf2onnx converts; of {model!r} it wrote what ONNX does not "
            f"know: {reason}. What it could not convert stands in its log, above."
        ) from error
