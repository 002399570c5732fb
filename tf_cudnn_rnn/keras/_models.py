"""Whole models: between stock layers and drop-ins, to files and to SavedModels."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import tempfile
import types
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar, get_args

import keras

from tf_cudnn_rnn._formats import endings, untrusted
from tf_cudnn_rnn._types import Contents
from tf_cudnn_rnn.keras import (
    _cells,
    _graphs,
    _layer_state,
    _stock_stack,
    _warnings,
    cudnn_rnn,
    layers,
)
from tf_cudnn_rnn.keras._drop_in import DropIn

_DROP_INS = ("LSTM", "GRU", "SimpleRNN")
# Their parents.
STOCK_LAYERS: tuple[Any, ...] = tuple(getattr(keras.layers, name) for name in _DROP_INS)
# What stands in configs under the same name in both modules.
_RENAMED = (*_DROP_INS, "Bidirectional")
_EXPORT_TARGETS = get_args(Contents)
# What a class name stands beside in a config.
_Key: TypeAlias = Callable[[str], dict[str, Any]]
# A model is made anew of its class. (A CudnnRNN alone becomes a model, which no type tells.)
_Layer = TypeVar("_Layer", bound=keras.Layer)


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
    if name in _RENAMED:
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

    LSTM, GRU, SimpleRNN and Bidirectional become those of tf_cudnn_rnn.keras, wherever the
    model's config names them: inside each other and TimeDistributed, in nested models, in the
    config of own classes. Layers that a class makes in its __init__ stay as they are (use
    `accelerate()` for these). Weights and the optimiser's state are loaded as ever.

    Args:
      filepath: a `.keras` file, saved with stock layers or with drop-ins.
      custom_objects, compile, safe_mode: as of Keras.

    What the file holds may not be much larger unpacked than it is. What Keras makes of a config
    is Keras' own affair: load no model of a stranger without `safe_mode`.

    Raises:
      TypeError: `filepath` is no path; a model in memory is for `to_fused` or `accelerate`.
      ValueError: `filepath` is no `.keras` file, or there is none; or it is damaged.
    """
    if isinstance(filepath, keras.Layer):
        raise TypeError(
            f"`filepath` must be the path of a .keras file; got the model {filepath.name!r}. For a "
            "model in memory call tf_cudnn_rnn.keras.to_fused(model), which makes another one, or "
            "accelerate(model), which lets it run fused as it is."
        )
    path = pathlib.Path(os.fspath(filepath))
    if path.suffix == ".keras" and not path.exists():
        raise ValueError(f"`filepath` must name a file; there is no {path}.")
    if (path / "saved_model.pb").exists():
        raise ValueError(
            f"`filepath` must be a .keras file; {path} is a folder with a SavedModel. For that "
            "call tf.saved_model.load, after `import tf_cudnn_rnn` if it has CudnnRNN ops."
        )
    if path.suffix != ".keras":
        raise ValueError(f"`filepath` must be a .keras file; got {path}. {_other_way(path)}")
    if not _begins_as_zip(path):
        raise ValueError(
            f"`filepath` must be a .keras file, which is a zip archive; {path} is "
            f"{'none' if path.stat().st_size else 'empty'}. Copy it again, or save the model again."
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


def _other_way(path: pathlib.Path) -> str:
    """What is to be done with a file that is not Keras 3's."""
    if path.name.endswith(".weights.h5"):
        return "It has weights alone: make the model, and call its load_weights."
    if path.suffix in (".h5", ".hdf5"):
        return "Call tf_cudnn_rnn.keras.to_fused(keras.saving.load_model(filepath))."
    return "`tf-cudnn-rnn inspect` shows what other files and folders have, and how to read them."


def _begins_as_zip(path: pathlib.Path) -> bool:
    """Whether it is a zip file, if it is whole."""
    with untrusted.opened(path) as (file, _):
        return file.read(2) == b"PK"


def to_fused(model: _Layer) -> _Layer:
    """Returns an equal model, or layer, of drop-ins, with weights of its own.

    It is for a model in memory; `load_model` does the same for a `.keras` file. LSTM, GRU,
    SimpleRNN and Bidirectional of keras.layers become those of tf_cudnn_rnn.keras, wherever the
    model's config names them: inside each other and TimeDistributed, in nested models. Names,
    weights and what `compile` was told are kept, your own losses and functions included, and so
    is the optimiser's state. `model` stays as it is.

    What it does not replace: keras.layers.RNN with a cell, ConvLSTM, and layers that are not
    recurrent. Kept states of stateful layers start from zero.

    >>> model = keras.Sequential([keras.Input([None, 8]), keras.layers.LSTM(16)])
    >>> type(tf_cudnn_rnn.keras.to_fused(model).layers[0])
    <class 'tf_cudnn_rnn.keras.layers.LSTM'>

    Args:
      model: a built model or layer.

    Raises:
      TypeError: `model` is no Keras layer.
      ValueError: `model` has not been built; or it makes such layers in code, as subclassed
        models do, or has subclasses of them; or Keras cannot make it again of its config. Call
        `accelerate(model)` for these.
    """
    if not isinstance(model, keras.Layer):
        raise TypeError(
            f"`model` must be a Keras model or layer; got {type(model).__name__}. For a .keras "
            "file there is tf_cudnn_rnn.keras.load_model."
        )
    _check_built(model)
    way_out = (
        "Call tf_cudnn_rnn.keras.accelerate(model) instead: it runs these layers fused as they are"
    )
    try:
        config = _config_of(model)
    except NotImplementedError as error:
        raise ValueError(
            f"`model` must have a config of which to make another one; {type(model).__name__} has "
            f"none. {way_out}."
        ) from error
    fused = _made_of(_rename(config, _stock_key, _drop_in_key), model, way_out)
    left = [layer for layer in layers_of(fused, STOCK_LAYERS) if not isinstance(layer, DropIn)]
    if left:
        raise ValueError(
            "`model` must name its recurrent layers in its config, as layers of keras.layers; "
            f"{type(model).__name__} makes {_listed(left)} in code, or of subclasses. {way_out}."
        )
    if not layers_of(fused, (DropIn,)):
        _warnings.warn(
            f"to_fused({model.name!r}) has no effect: the model has no keras.layers.LSTM, GRU or "
            "SimpleRNN."
        )
    _copy_state(model, fused)
    return fused


def to_keras(model: _Layer) -> _Layer:
    """Returns an equal model, or layer, of stock Keras layers, with weights of its own.

    It is for whatever must not depend on this library: files for others, and converters
    (ONNX, LiteRT, OpenVINO). It is the inverse of `to_fused`. What `compile` was told is kept,
    and so is the optimiser's state, if the model has no CudnnRNN; else that starts anew.

    A drop-in becomes its parent. A CudnnRNN becomes a small Functional model of its name: a stack
    of LSTM, GRU or SimpleRNN, Bidirectional or not, with Dropout between them. In it one bias
    stands for two (but for GRU), which training and bias_regularizer notice; and a skipped input
    product is one with the identity, which training would change.

    Args:
      model: a built model or layer; drop-ins and CudnnRNN may stand wherever its config names
        them.

    Raises:
      ValueError: `model` has not been built, makes such layers in code, or has what no stock
        layer can do: a projection, or an activity_regularizer of a CudnnRNN, or a time-major one
        with a mask in a Sequential model; or Keras cannot make it again of its config.
    """
    _check_built(model)
    for sequential in layers_of(model, (keras.Sequential,)):
        _stock_stack.check_masks(sequential)
    config = _stock_stack.replace(_config_of(model))
    way_out = "Register its own classes and functions: keras.saving.register_keras_serializable()"
    stock = _made_of(_rename(config, _drop_in_key, _stock_key), model, way_out)
    left = layers_of(stock, (DropIn, cudnn_rnn.CudnnRNN, layers.Bidirectional))
    if left:
        raise ValueError(
            f"`model` must name its layers in its config; {type(model).__name__} makes "
            f"{_listed(left)} in code. Make them of keras.layers there, and move the weights "
            "with save_weights and load_weights."
        )
    _copy_state(model, stock)
    return stock


def _check_built(model: keras.Layer) -> None:
    if not model.built:
        raise ValueError(
            f"`model` must be built, or it has no weights to copy; {model.name!r} is not. Call "
            "it on data first."
        )


def _listed(layers: list[keras.Layer]) -> str:
    return ", ".join(layer.name for layer in layers)


def _config_of(model: keras.Layer) -> dict[str, Any]:
    with warnings.catch_warnings():
        # It's about files. Here lambdas of `compile` are kept, and those of layers are made again.
        warnings.filterwarnings("ignore", "The object being serialized includes a `lambda`")
        return keras.saving.serialize_keras_object(model)


def _made_of(config: dict[str, Any], model: keras.Layer, way_out: str) -> keras.Layer:
    """Makes a model of the changed config of `model`, whose own objects need no registration.

    Raises:
      ValueError: that cannot be; the message ends with `way_out`.
    """
    if shared := _shared_layer(model):
        raise ValueError(
            f"`model` must have each layer with weights in one place; {shared.name!r} is in "
            f"several models or wrappers of {model.name!r}, and would be a layer of its own in "
            "each. Make one Functional model of their layers."
        )
    options = _compile_options(model)
    if options is not None:  # Keras would make losses and the like of their names
        config = {key: value for key, value in config.items() if key != "compile_config"}
    try:
        with keras.saving.custom_object_scope(_own_objects(model)):
            # What is in memory is the user's own, functions in Lambda layers included.
            made = keras.saving.deserialize_keras_object(config, safe_mode=False)
            if made.built:
                _freeze_alike(model, made)
            if options is not None:
                made.compile(**{name: _anew(value) for name, value in options.items()})
                if made.built and made.optimizer:
                    made.optimizer.build(made.trainable_variables)
            return made
    except Exception as error:  # whatever somebody's from_config may raise
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(
            f"`model` must be of what Keras can make again of a config; {type(model).__name__} "
            f"is not: {untrusted.shown(reason.splitlines()[0])} {way_out}."
        ) from error


def _shared_layer(model: keras.Layer) -> keras.Layer | None:
    """A layer with weights that several layers of a model hold: a config has it once for each.

    A layer that one model calls several times is not among them; nor are those of own classes,
    which may make them in code.
    """
    held: set[int] = set()
    for holder in layers_of(model, (keras.Layer,)):
        if _is_users(type(holder)):
            continue
        for layer in holder._flatten_layers(include_self=False, recursive=False):
            if id(layer) in held and layer.weights:
                return layer
            held.add(id(layer))
    return None


def _compile_options(model: keras.Layer) -> dict[str, Any] | None:
    """What `compile` was told; None if it never was, or if the class has a `compile` of its own."""
    if not getattr(model, "compiled", False) or type(model).compile is not keras.Model.compile:
        return None
    options = getattr(getattr(model, "_compile_config", None), "config", None)
    if options is None:
        return None
    # Keras does not keep whether `compile` was to wrap the optimiser.
    scales = isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer)
    return {"auto_scale_loss": scales, **options}


def _anew(value: Any) -> Any:
    """Optimisers and metrics like those of another model, which have a state; else the same."""
    if isinstance(value, dict):
        return {key: _anew(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_anew, value))
    if isinstance(value, keras.optimizers.Optimizer | keras.metrics.Metric):
        return type(value).from_config(value.get_config())
    return value


def _own_objects(model: keras.Layer) -> dict[str, Any]:
    """The user's classes and functions in a model, by the names that they have in configs.

    Raises:
      ValueError: two have one name, or one has that of an activation of Keras.
    """
    found: dict[str, Any] = {}
    owners = layers_of(model, (keras.Layer,))
    optimizers = [one.optimizer for one in owners if getattr(one, "optimizer", None)]
    for value in (part for one in [*owners, *optimizers] for part in (one, *vars(one).values())):
        is_function = isinstance(value, types.FunctionType) and value.__name__ != "<lambda>"
        own = value if is_function else type(value)
        if not (is_function or hasattr(own, "get_config")) or not _is_users(own):
            continue
        name = keras.saving.get_registered_name(own)
        if found.setdefault(name, own) is not own:
            raise ValueError(f"there are two classes or functions {name!r}.")
        # A config has nothing but a name of Keras' own activations, and takes others for these.
        if is_function and keras.activations.serialize(own) == name:
            raise ValueError(
                f"its function {name!r} has the name of an activation of Keras, which would take "
                "its place; give it another name, or register it with "
                "keras.saving.register_keras_serializable()."
            )
    return found


def _is_users(own: Any) -> bool:
    return (own.__module__ or "").split(".")[0] not in ("keras", "tf_cudnn_rnn")


def _copy_state(source: keras.Layer, target: keras.Layer) -> None:
    """Sets weights, what else layers keep, and the optimiser's variables.

    `target` was made of a changed config of `source`.

    Raises:
      ValueError: it could not be built.
    """
    if not target.built:
        raise ValueError(
            f"`model` must know its input shape to be built anew; {type(source).__name__} does "
            "not. Give it a keras.Input, or implement get_build_config."
        )
    _layer_state.copy(_other_layers(source), _other_layers(target))
    if _loses_stacks(source, target):
        _stock_stack.copy_weights(source, target)
        return
    target.set_weights(source.get_weights())
    models = layers_of(source, (keras.Model,)), layers_of(target, (keras.Model,))
    for one, other in zip(*models, strict=True):
        if one.compiled and other.compiled:
            _copy_optimizer(one, other)


def _other_layers(model: keras.Layer) -> list[keras.Layer]:
    """All but CudnnRNN layers and their cells: they keep weights alone, and may become stacks."""
    every = layers_of(model, (keras.Layer,))
    return [one for one in every if not isinstance(one, cudnn_rnn.CudnnRNN | _cells.Cell)]


def _loses_stacks(source: keras.Layer, target: keras.Layer) -> bool:
    """Whether CudnnRNN layers became layers of Keras, whose variables are others."""
    stacks = (cudnn_rnn.CudnnRNN,)
    return bool(layers_of(source, stacks)) and not layers_of(target, stacks)


def _freeze_alike(source: keras.Layer, target: keras.Layer) -> None:
    """Makes the same variables trainable as in `source`: a config tells of whole layers alone."""
    if _loses_stacks(source, target):
        _stock_stack.freeze_alike(source, target)
        return
    variables, others = source.weights, target.weights
    if len(variables) == len(others):  # or Keras will say it, when weights are set
        for variable, other in zip(variables, others, strict=True):
            other.trainable = variable.trainable


def _copy_optimizer(source: keras.Model, target: keras.Model) -> None:
    old, new = source.optimizer, target.optimizer
    if not (old and new and old.built):
        return
    shapes = [[v.shape for v in optimizer.variables] for optimizer in (old, new)]
    if _is_of(old, source.trainable_variables) and shapes[0] == shapes[1]:
        for variable, other in zip(old.variables, new.variables, strict=True):
            other.assign(variable)
    else:
        _warnings.warn(
            f"The optimiser of {source.name!r} has state of other variables than those that can "
            "be trained now, or in another order, so that of the new model starts anew. Compile "
            "after layers are frozen or freed."
        )


def _is_of(optimizer: keras.optimizers.Optimizer, variables: list[Any]) -> bool:
    """Whether an optimiser was built for these variables, in this order."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # of one that scales losses
    return list(map(id, inner._trainable_variables)) == list(map(id, variables))


def layers_of(model: keras.Layer, kinds: tuple[type, ...]) -> list[keras.Layer]:
    """The layers of these classes in a model, at any depth."""
    return [layer for layer in model._flatten_layers() if isinstance(layer, kinds)]


def recurrent_layers(model: keras.Layer) -> list[keras.Layer]:
    """The layers LSTM, GRU, SimpleRNN and CudnnRNN of a model, drop-ins or not."""
    return layers_of(model, (*STOCK_LAYERS, cudnn_rnn.CudnnRNN))


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
      filepath: the folder of the SavedModel. It has no ending that another format has.
      as_: "own", "builtin" or "stock"; see export_as. None for what model.export writes: the
        choice of an export_as around it; without one own ops for drop-ins (where Keras has a
        GPU, what it writes), CudnnRNNV3 for CudnnRNN layers.
      **kwargs: of keras.Model.export.

    Raises:
      ValueError: `as_` is something else, or `filepath` has the ending of another format.
    """
    if as_ is not None:
        _check_contents("as_", as_)
    if kwargs.get("format", "tf_saved_model") == "tf_saved_model":
        endings.check("filepath", filepath, endings.SAVED_MODEL)
    with contextlib.nullcontext() if as_ is None else export_as(as_):
        model.export(filepath, **kwargs)


def _check_contents(argument: str, contents: str) -> None:
    if contents not in _EXPORT_TARGETS:
        raise ValueError(
            f"`{argument}` must be one of {', '.join(_EXPORT_TARGETS)}; got {contents!r}."
        )
