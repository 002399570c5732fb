"""Whole models: between stock layers and drop-ins, to files and to SavedModels."""

import contextlib
import json
import os
import pathlib
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import keras

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import Contents
from tf_cudnn_rnn.keras import _graphs, _stock_stack, cudnn_rnn, layers
from tf_cudnn_rnn.keras._drop_in import DropIn

_DROP_INS = ("LSTM", "GRU", "SimpleRNN")
_EXPORT_TARGETS = ("own", "builtin", "stock")
# What a class name stands beside in a config.
_Key: TypeAlias = Callable[[str], dict[str, Any]]


def _stock_key(name: str) -> dict[str, Any]:
    return {"module": "keras.layers", "class_name": name, "registered_name": None}


def _drop_in_key(name: str) -> dict[str, Any]:
    cls = getattr(layers, name)
    return {
        "module": cls.__module__,
        "class_name": name,
        "registered_name": keras.saving.get_registered_name(cls),
    }


def _rename(config: Any, old_key: _Key, new_key: _Key) -> Any:
    """Replaces class names at any depth of what serialize_keras_object returned."""
    if isinstance(config, list | tuple):
        return type(config)(_rename(item, old_key, new_key) for item in config)
    if not isinstance(config, dict):
        return config
    renamed = {key: _rename(value, old_key, new_key) for key, value in config.items()}
    name = config.get("class_name")
    if name in _DROP_INS:
        old = old_key(name)
        # Old files lack registered_name; a class that somebody registered is another class.
        if all(config.get(key) == value for key, value in old.items()):
            renamed |= new_key(name)
    return renamed


def load_model(
    filepath: str | os.PathLike[str],
    custom_objects: Mapping[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
) -> keras.Model:
    """keras.saving.load_model, with drop-ins for the stock layers in the file.

    LSTM, GRU and SimpleRNN become those of tf_cudnn_rnn.keras, wherever the model's config
    names them: inside Bidirectional and TimeDistributed, in nested models, in the config of
    own classes. Layers that a class makes in its __init__ stay as they are (use
    `accelerate()` for these). Weights and the optimiser's state are loaded as ever.

    Args:
      filepath: a `.keras` file, saved with stock layers or with drop-ins.
      custom_objects, compile, safe_mode: as of Keras.

    What the file holds may not be much larger unpacked than it is. What Keras makes of a config
    is Keras' own affair: load no model of a stranger without `safe_mode`.

    Raises:
      ValueError: `filepath` is no `.keras` file, or there is none; or it is damaged.
    """
    path = pathlib.Path(os.fspath(filepath))
    if path.suffix == ".keras" and not path.exists():
        raise ValueError(f"`filepath` must name a file; there is no {path}.")
    if path.suffix != ".keras" or not _is_zip(path):
        raise ValueError(
            f"`filepath` must be a .keras file; got {path}. For other formats call "
            "keras.saving.load_model, and use the model inside tf_cudnn_rnn.keras.accelerate()."
        )
    # Keras lets nobody replace its own classes while loading, so the file is rewritten.
    with tempfile.TemporaryDirectory() as folder:
        rewritten = pathlib.Path(folder) / path.name
        with untrusted.opened(path) as (file, size), zipfile.ZipFile(rewritten, "w") as new:
            old = untrusted.open_zip(file, size, str(path))
            for entry in old.infolist():
                where = f"{untrusted.shown(entry.filename)} in {path}"
                with untrusted.read_by("zipfile", where):
                    content = old.read(entry)
                if entry.filename == "config.json":
                    config = untrusted.load_json(content, where)
                    content = json.dumps(_rename(config, _stock_key, _drop_in_key)).encode()
                new.writestr(entry, content)
        return keras.saving.load_model(
            rewritten, custom_objects=custom_objects, compile=compile, safe_mode=safe_mode
        )


def _is_zip(path: pathlib.Path) -> bool:
    with untrusted.opened(path) as (file, _):
        return zipfile.is_zipfile(file)


def to_keras(model: keras.Layer) -> keras.Layer:
    """Returns an equal model, or layer, of stock Keras layers, with weights of its own.

    It is for whatever must not depend on this library: files for others, and converters
    (ONNX, LiteRT, OpenVINO). The optimiser's state, if any, starts anew.

    A drop-in becomes its parent. A CudnnRNN becomes a small Functional model of its name: a stack
    of LSTM, GRU or SimpleRNN, Bidirectional or not, with Dropout between them. In it one bias
    stands for two (but for GRU), which training and bias_regularizer notice; and a skipped input
    product is one with the identity, which training would change.

    Args:
      model: a built model or layer; drop-ins and CudnnRNN may stand wherever its config names
        them.

    Raises:
      ValueError: `model` has not been built, makes such layers in code, or has what no stock
        layer can do: a projection.
    """
    if not model.built:
        raise ValueError(
            f"`model` must be built, or it has no weights to copy; {model.name!r} is not. Call "
            "it on data first."
        )
    config = _stock_stack.replace(keras.saving.serialize_keras_object(model))
    stock = keras.saving.deserialize_keras_object(_rename(config, _drop_in_key, _stock_key))
    ours = DropIn, cudnn_rnn.CudnnRNN
    left = [layer.name for layer in layers_of(stock, ours)]
    if left:
        raise ValueError(
            f"`model` must name its layers in its config; {type(model).__name__} makes "
            f"{', '.join(left)} in code. Make them of keras.layers there, and move the weights "
            "with save_weights and load_weights."
        )
    if not stock.built:
        raise ValueError(
            f"`model` must know its input shape to be built anew; {type(model).__name__} does "
            "not. Give it a keras.Input, or implement get_build_config."
        )
    if layers_of(model, (cudnn_rnn.CudnnRNN,)):
        _stock_stack.copy_weights(model, stock)
    else:
        stock.set_weights(model.get_weights())
    return stock


def layers_of(model: keras.Layer, kinds: tuple[type, ...]) -> list[keras.Layer]:
    """The layers of these classes in a model, at any depth."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, kinds)]


def recurrent_layers(model: keras.Layer) -> list[keras.Layer]:
    """The layers LSTM, GRU, SimpleRNN and CudnnRNN of a model, drop-ins or not."""
    stock = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)
    return layers_of(model, (*stock, cudnn_rnn.CudnnRNN))


@contextlib.contextmanager
def export_as(contents: Contents) -> Iterator[None]:
    """Chooses what graphs hold for each fused layer that is traced in the `with` block.

    Args:
      contents: "own": this library's ops, which elsewhere are what drop-ins hold. "builtin":
        CudnnRNNV3, for stock TensorFlow on GPUs and, with this library, on CPUs; elsewhere
        CudnnRNN layers hold it, too. "stock": Keras' loop, which needs nothing and is slow;
        CudnnRNN layers have none and raise a ValueError (see to_keras).

    For "builtin" a layer warns, once of each, if it has a mask, sequence_lengths or a projection,
    or computes in bfloat16: the CPU kernel computes these rightly, TensorFlow's GPU kernel does
    not. Elsewhere CudnnRNN layers hold the same op and do not warn.

    Raises:
      ValueError: `contents` is something else.
    """
    _check_contents("contents", contents)
    token = _graphs.graph_contents.set(contents)
    try:
        yield
    finally:
        _graphs.graph_contents.reset(token)


def export(
    model: keras.Model,
    filepath: str | os.PathLike[str],
    as_: Contents | None = None,
    **kwargs: Any,
) -> None:
    """model.export(filepath) with the graph that `export_as(as_)` chooses.

    Args:
      model: a built model.
      filepath: the folder of the SavedModel.
      as_: "own", "builtin" or "stock"; see export_as. None for what model.export writes: the
        choice of an export_as around it; without one own ops for drop-ins, CudnnRNNV3 for
        CudnnRNN layers.
      **kwargs: of keras.Model.export.

    Raises:
      ValueError: `as_` is something else.
    """
    if as_ is not None:
        _check_contents("as_", as_)
    with contextlib.nullcontext() if as_ is None else export_as(as_):
        model.export(filepath, **kwargs)


def _check_contents(argument: str, contents: str) -> None:
    if contents not in _EXPORT_TARGETS:
        raise ValueError(
            f"`{argument}` must be one of {', '.join(_EXPORT_TARGETS)}; got {contents!r}."
        )
