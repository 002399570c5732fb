"""Layers of Keras in the files that Keras writes."""

import collections
import contextlib
import functools
import math
from collections.abc import Container, Iterator, Mapping
from typing import Any

from tf_cudnn_rnn._cli import needs
from tf_cudnn_rnn._cli.finders import calls
from tf_cudnn_rnn._cli.finders.found import MODE_OF_GATES, SIMPLE, Found, Look, num_biases
from tf_cudnn_rnn._formats import hdf5, keras_config, keras_file, untrusted
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, SIZE_LIMIT, Layout
from tf_cudnn_rnn._types import Direction, RnnMode

_KERAS_CLASSES = (*dict.fromkeys(keras_config.LAYERS.values()),)
_LEGACY_CLASSES = {name: mode for mode, name in keras_config.LEGACY_LAYERS.items()}
_STACKS: dict[str, RnnMode] = {
    "CudnnLSTM": "lstm",
    "CudnnGRU": "gru",
    "CudnnRNNTanh": "rnn_tanh",
    "CudnnRNNRelu": "rnn_relu",
}
# Of layers that a class makes in code, which may be Keras' own or drop-ins.
_ACCELERATE = (
    "import keras, tf_cudnn_rnn.keras; "
    "tf_cudnn_rnn.keras.accelerate(keras.saving.load_model({})), where the model's own classes are "
    "known"
)
_OTHER_CLASSES = ("RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")


def in_keras(path: str, shown_path: str) -> Iterator[Look]:
    """The recurrent layers of a .keras file: of its config, at any depth, and of its weights alone.

    The config does not name the layers that a subclassed model or layer makes in code.
    """
    config = keras_file.read_config(path)
    named = keras_file.named_layers(config)
    counts = collections.Counter(name for name, _ in named)
    names = {id(layer.config): name if counts[name] == 1 else layer.path for name, layer in named}
    paths = {id(layer.config): layer.path for _, layer in named}
    known: set[str | None] = set()
    for look in _layers_of(config, shown_path):
        # Of what looks at a layer the first argument is the layer's config.
        known.add(paths.get(id(look.args[0])))
        yield functools.partial(_with_layer, look, names.get(id(look.args[0])))
    # A layer in the config of a class of somebody's may be any of those in the weights.
    if None not in known:
        # Where h5py is missing, or the weights cannot be read, the config is all there is.
        with contextlib.suppress(ImportError, OSError, ValueError):
            how = calls.keras(_ACCELERATE, shown_path, ".keras")
            yield from _in_weights(path, shown_path, how, known)


def _with_layer(look: functools.partial[Found], layer: str | None) -> Found:
    found = look()
    found.layer = layer
    found.converts = keras_config.network_obstacle(look.args[0]) is None
    return found


def _layers_of(config: Any, shown_path: str) -> Iterator[functools.partial[Found]]:
    """The recurrent layers that a config names, at any depth."""
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += reversed(value)
        elif isinstance(value, dict):
            look = _look_of(value, shown_path)
            if look is None:
                left += reversed(value.values())
            else:
                yield look


def _look_of(config: dict[str, Any], shown_path: str) -> functools.partial[Found] | None:
    """What looks at a recurrent layer; None if a config is that of something else."""
    name, inner = config.get("class_name"), config.get("config")
    if not isinstance(name, str) or not isinstance(inner, dict):
        return None
    layer = inner.get("layer")
    if name == "Bidirectional" and isinstance(layer, dict):
        half = _text(layer.get("class_name"))
        if half in _KERAS_CLASSES:
            return functools.partial(_keras_layer, config, layer, shown_path)
        if half in _LEGACY_CLASSES:
            return functools.partial(_legacy_layer, config, layer, shown_path)
    if name in _LEGACY_CLASSES:
        return functools.partial(_legacy_layer, config, config, shown_path)
    if name in (*_KERAS_CLASSES, *_OTHER_CLASSES):
        return functools.partial(_keras_layer, config, config, shown_path)
    if name in _STACKS or name == "CudnnRNN":
        return functools.partial(_stack, config, shown_path)
    return None


def _text(value: Any, otherwise: str = "") -> str:
    return value if isinstance(value, str) else otherwise


def _positive(value: Any) -> int | None:
    return value if untrusted.is_size(value) and value else None


def _input_size(*configs: dict[str, Any]) -> int | None:
    """The features of a layer's input, as the first config says that knows them."""
    for config in configs:
        build = config.get("build_config")
        shape = build.get("input_shape") if isinstance(build, dict) else None
        if isinstance(shape, list) and shape:
            # That of an input with initial states is a list of shapes.
            shape = shape[0] if isinstance(shape[0], list) else shape
            return _positive(shape[-1]) if shape else None
    return None


def _of_a_config(outer: dict[str, Any], layer: dict[str, Any]) -> Found:
    """What the config of a layer, and of the Bidirectional around it, if any, tells of any kind."""
    is_wrapped = outer is not layer
    kind = f"Bidirectional({layer['class_name']})" if is_wrapped else layer["class_name"]
    found = Found(_text(outer["config"].get("name"), "?"), kind, num_layers=1, num_proj=0)
    found.direction = "bidirectional" if is_wrapped else "unidirectional"
    found.num_units = _positive(keras_config.config_of(layer).get("units"))
    found.input_size = _input_size(outer, layer)
    return found


def _legacy_layer(outer: dict[str, Any], layer: dict[str, Any], shown_path: str) -> Found:
    """CuDNNLSTM or CuDNNGRU, of which no Keras builds a model again: the weights are to be had."""
    found = _of_a_config(outer, layer)
    found.rnn_mode, found.biases = _LEGACY_CLASSES[layer["class_name"]], 2
    if found.num_units and found.input_size:
        H, I = found.num_units, found.input_size
        ways = 2 if outer is not layer else 1
        found.parameters = ways * len(GATES[found.rnn_mode]) * H * (I + H + 2)
    found.how = calls.convert(shown_path, "model.keras", "keras", layer=found.name)
    if obstacle := keras_config.network_obstacle(outer):
        found.runs, found.how = False, obstacle
    return found


def _keras_layer(outer: dict[str, Any], layer: dict[str, Any], shown_path: str) -> Found:
    found = _of_a_config(outer, layer)
    found.needs = needs.LAYERS
    config, class_name = keras_config.config_of(layer), layer["class_name"]
    is_wrapped = outer is not layer
    activation = _text(config.get("activation"))
    found.rnn_mode = {"LSTM": "lstm", "GRU": "gru"}.get(class_name)
    if class_name == "SimpleRNN":
        found.rnn_mode = "rnn_relu" if activation == "relu" else "rnn_tanh"
    obstacle = _obstacle(outer)
    if found.num_units and found.input_size and found.rnn_mode:
        H, I = found.num_units, found.input_size
        G = len(GATES[found.rnn_mode])
        biases = 2 if class_name == "GRU" and config.get("reset_after") is True else 1
        found.biases = biases = 0 if config.get("use_bias") is False else biases
        found.parameters = (2 if is_wrapped else 1) * G * H * (I + H + biases)
    if obstacle:
        found.runs = False
        found.how = f"{obstacle}. Keras' own loop runs it"
    elif _text(layer.get("registered_name")).startswith(keras_config.PACKAGE):
        found.how = calls.keras(calls.LOAD_OWN, shown_path, ".keras")
    elif _is_of_keras_2(config):
        found.needs = ()
        found.how = calls.convert(shown_path, "new.keras", "keras", layer=found.name)
    else:
        call = "import tf_cudnn_rnn.keras; tf_cudnn_rnn.keras.load_model({})"
        found.how = calls.keras(call, shown_path, ".keras")
    return found


def _is_of_keras_2(config: Mapping[str, Any]) -> bool:
    """Whether TensorFlow 2.0 to 2.15 wrote a layer's config, which Keras 3 does not take."""
    return "time_major" in config


def _obstacle(layer: Any) -> str | None:
    """What of a layer the op cannot do, as docs/guide/keras.md says; None if nothing."""
    class_name, config = keras_config.class_of(layer), keras_config.config_of(layer)
    if class_name == "Bidirectional":
        reasons = (_obstacle(config.get(way)) for way in ("layer", "backward_layer"))
        return next(filter(None, reasons), None)
    if class_name in _OTHER_CLASSES:
        return f"{class_name} has a cell of its own"
    if class_name not in _KERAS_CLASSES:
        return None
    if reason := keras_config.cell_obstacle(class_name, config):
        return reason
    if config.get("unroll") is True:
        return "unroll must be False; it is True"
    return None


def _stack(layer: dict[str, Any], shown_path: str) -> Found:
    """A CudnnRNN layer."""
    config = layer["config"]
    found = Found(_text(config.get("name"), "?"), layer["class_name"], needs=needs.LAYERS)
    found.how = calls.keras(calls.LOAD_OWN, shown_path, ".keras")
    # Layout checks all that the file says.
    rnn_mode: Any = _STACKS.get(layer["class_name"]) or _text(config.get("rnn_mode"))
    sizes = {
        "num_layers": config.get("num_layers", 1),
        "num_units": config.get("num_units"),
        "input_size": _input_size(layer) or config.get("num_units"),
        "num_proj": config.get("num_proj") or 0,
    }
    try:
        for name, size in sizes.items():
            if isinstance(size, int) and size >= SIZE_LIMIT:
                raise ValueError(
                    f"`{name}` must be below {SIZE_LIMIT}; got {untrusted.shown(size)}"
                )
        layout = Layout(
            rnn_mode,
            direction=config.get("direction", "unidirectional"),
            input_mode=config.get("input_mode", "linear_input"),
            **sizes,
        )
    except (TypeError, ValueError) as error:
        found.runs, found.how = False, f"its config is damaged: {untrusted.shown(str(error))}"
        return found
    found.take(layout)
    if _input_size(layer) is None:
        found.input_size = found.parameters = found.biases = None
    return found


def take_arrays(found: Found, arrays: list[Any], direction: Direction) -> None:
    """Takes over what the shapes of a Keras layer's arrays tell."""
    D = len(DIRECTIONS[direction])
    found.direction, found.num_layers, found.num_proj = direction, 1, 0
    shapes = [tuple(array.shape) for array in arrays]
    found.parameters = sum(map(math.prod, shapes))
    if len(shapes) in (2 * D, 3 * D) and all(len(shape) == 2 for shape in shapes[:2]):
        (I, columns), (H, recurrent_columns) = shapes[:2]
        gates = columns // H if H and not columns % H else 0
        if recurrent_columns == columns and gates in MODE_OF_GATES:
            found.rnn_mode = MODE_OF_GATES[gates]
            found.input_size, found.num_units = I, H
            has_bias = len(shapes) == 3 * D
            found.biases = num_biases(shapes[1], *(shapes[2:3] if has_bias else ()))
            if gates == 3 and len(shapes) == 3 * D and shapes[2] == (3 * H,):
                found.runs, found.converts, found.how = False, False, keras_config.NO_RESET_AFTER
            return
    found.runs = False
    found.how = "its arrays have other shapes than a Keras layer's"


def in_keras_2(path: str, shown_path: str) -> Iterator[Look]:
    """The recurrent layers of an .h5 file of Keras 2, with or without a model."""
    for layer in hdf5.read_headers(path):
        if keras_config.bare(layer.class_name) in (*_KERAS_CLASSES, *_LEGACY_CLASSES):
            yield functools.partial(_keras_2_layer, layer, shown_path)
        elif not layer.class_name and layer.is_one and _may_be_recurrent(layer.arrays):
            arguments = (layer.name, layer.arrays, shown_path)
            if keras_config.is_legacy("", layer.arrays):
                yield functools.partial(_legacy_weights, *arguments, source_format="keras-cudnn")
            else:
                yield functools.partial(_keras_2_weights, *arguments)


def _keras_2_layer(layer: hdf5.Stored, shown_path: str) -> Found:
    bare, config = keras_config.bare(layer.class_name), layer.config
    found = Found(layer.name, layer.class_name, layer=layer.name)
    if bare in _LEGACY_CLASSES:
        call = "import tf_cudnn_rnn, tf_keras; tf_keras.models.load_model({})"
        found.how = calls.python(call, shown_path)
        found.needs = (needs.TENSORFLOW, needs.KERAS_2)
    elif _is_of_keras_2(keras_config.config_of(keras_config.inner_of(config))):
        found.how = calls.convert(shown_path, "new.keras", "keras", layer=layer.name)
    else:
        found.needs = needs.LAYERS
        call = (
            "import keras, tf_cudnn_rnn.keras; "
            "tf_cudnn_rnn.keras.to_fused(keras.saving.load_model({}))"
        )
        found.how = calls.keras(call, shown_path, *calls.HDF5)
    is_wrapped = keras_config.is_wrapped(layer.class_name)
    take_arrays(found, layer.arrays, "bidirectional" if is_wrapped else "unidirectional")
    if bare in _LEGACY_CLASSES:
        found.rnn_mode = _LEGACY_CLASSES[bare]
    if config is not None:
        modes = keras_config.simple_modes([config])
        if found.rnn_mode == SIMPLE and len(modes) == 1:
            found.rnn_mode = modes.pop()
        found.converts = keras_config.network_obstacle(config) is None
        if obstacle := _obstacle(config):
            found.runs, found.how = False, f"{obstacle}. Keras' own loop runs it"
    return found


def _keras_2_weights(name: str, headers: list[Any], shown_path: str) -> Found:
    """A layer in a file of weights alone, which tells no class."""
    direction: Direction = "unidirectional" if len(headers) < 4 else "bidirectional"
    found = Found(name, "layer with recurrent weights", layer=name, needs=needs.LAYERS)
    # Keras 3 takes one that is called so for its own.
    found.how = calls.keras(calls.LOAD_WEIGHTS, shown_path, *calls.HDF5, but=".weights.h5")
    take_arrays(found, headers, direction)
    return found


def _legacy_weights(name: str, headers: list[Any], shown_path: str, **options: str) -> Found:
    """CuDNNLSTM or CuDNNGRU in a file of weights alone."""
    found = Found(name, "CuDNNLSTM or CuDNNGRU", layer=name)
    take_arrays(found, headers, "unidirectional" if len(headers) < 4 else "bidirectional")
    if found.runs:
        found.how = calls.convert(shown_path, "model.keras", "keras", **options, layer=name)
    return found


def _may_be_recurrent(headers: list[Any]) -> bool:
    """Whether arrays can be those of a recurrent layer, of which a file tells no class."""
    shapes = [header.shape for header in headers]
    if len(shapes) not in (2, 3, 4, 6) or any(len(shape) != 2 for shape in shapes[:2]):
        return False
    (_, columns), (H, recurrent_columns) = shapes[:2]
    return columns == recurrent_columns and H > 0 and columns in (H, 3 * H, 4 * H)


def in_keras_3(path: str, shown_path: str) -> Iterator[Look]:
    """The recurrent layers of a .weights.h5 file."""
    how = calls.keras(calls.LOAD_WEIGHTS, shown_path, ".weights.h5")
    yield from _in_weights(path, shown_path, how, known=())


def _in_weights(
    path: str, shown_path: str, how: str, known: Container[str | None]
) -> Iterator[Look]:
    """The recurrent layers among the weights of a file, without those at paths that are known."""
    headers = keras_file.read_array_headers(path)
    for name, layer in keras_file.layers(headers).items():
        if name in known:
            continue
        if keras_config.is_legacy("", layer.arrays):
            yield functools.partial(_legacy_weights, name, layer.arrays, shown_path)
        else:
            yield functools.partial(_keras_3_layer, name, layer, how)
    paths = [name for name in keras_file.networks(headers) if name not in known]
    if paths:  # of which a header, an array, tells the sizes
        arrays = keras_file.read_arrays(path, keras_file.header_names(paths))
        for name, network in keras_file.networks(arrays).items():
            where = f"{untrusted.shown(name)} in {path}"
            yield functools.partial(_keras_3_network, name, network, how, where)


def _keras_3_layer(name: str, layer: keras_file.Layer, how: str) -> Found:
    found = Found(name, "Keras layer", layer=name, how=how, needs=needs.LAYERS)
    take_arrays(found, layer.arrays, layer.direction)
    return found


def _keras_3_network(name: str, network: Mapping[str, Any], how: str, where: str) -> Found:
    found = Found(name, "CudnnRNN", layer=name, how=how, needs=needs.LAYERS)
    found.take(keras_file.layout_of(network, where))
    return found
