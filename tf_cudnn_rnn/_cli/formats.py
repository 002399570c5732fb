"""The files of weights that `convert` reads and writes."""

import argparse
import dataclasses
import importlib.util
import itertools
import math
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli import checkpoint, output, tensorflow, variables
from tf_cudnn_rnn._cli.files import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import (
    hdf5,
    keras_file,
    npz,
    onnx_file,
    params_header,
    safetensors,
    untrusted,
)
from tf_cudnn_rnn._formats import keras as keras_format
from tf_cudnn_rnn._formats import tf1 as tf1_format
from tf_cudnn_rnn._formats import torch as torch_format
from tf_cudnn_rnn._layout import GATES, Layout, ParamName
from tf_cudnn_rnn._types import Array, Direction, RnnMode
from tf_cudnn_rnn.weights import Canonical, Exported

_HEADER = params_header.NPZ_KEY
# One gate is that of two modes.
_MODE_OF_GATES: dict[int, RnnMode] = {3: "gru", 4: "lstm"}
_VECTORS = {"params": "params", "mxnet": "parameters", "cntk": "matrix"}


class Format(NamedTuple):
    """A format of `convert`.

    Attributes:
      about: what it is, and what it needs, for the help.
      read: takes the kind of the file, its path and the options.
      write: takes a path, the weights and the options, and returns notes; None if it is only read.
      endings: those that a file to write may have.
      read_options, write_options: of the options that not all formats have, those in use.
      measure: takes what `read` takes, and returns the bytes of the weights, or 0 if they are not
        known before they are read; None where no file has too many for another format.
      max_bytes: of the weights, which a file can hold; None for any number.
    """

    about: str
    read: Callable[[Kind, str, argparse.Namespace], Canonical]
    write: Callable[[str, Canonical, argparse.Namespace], tuple[str, ...]] | None = None
    endings: tuple[str, ...] = ()
    read_options: tuple[str, ...] = ()
    write_options: tuple[str, ...] = ()
    measure: Callable[[Kind, str, argparse.Namespace], int] | None = None
    max_bytes: int | None = None


# ------------------------------------------------------------------------------------
# What options say
# ------------------------------------------------------------------------------------


def _mode(options: argparse.Namespace, gates: int = 0) -> RnnMode:
    """The mode of a network: that of --mode, or that of so many gates."""
    mode: RnnMode | None = options.mode or _MODE_OF_GATES.get(gates)
    if mode is None:
        if gates == 1:
            raise output.UserError(
                "The file does not tell whether the simple RNN has tanh or ReLU: pass --mode "
                "rnn_tanh or --mode rnn_relu."
            )
        raise output.UserError(f"Pass --mode, one of {', '.join(GATES)}; the file does not tell.")
    return mode


def _vector_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """What options say of a vector, which tells nothing of itself."""
    arguments = {
        "rnn_mode": options.mode,
        "num_layers": options.layers,
        "num_units": options.units,
        "input_size": options.input_size,
    }
    missing = [
        f"--{option}"
        for option, value in zip(
            ("mode", "layers", "units", "input-size"), arguments.values(), strict=True
        )
        if value is None
    ]
    if missing:
        raise output.UserError(
            f"A vector of weights does not tell its network: pass {', '.join(missing)} too."
        )
    return {**arguments, "direction": options.direction}


def _chosen(
    found: Mapping[str, Any],
    options: argparse.Namespace,
    what: str,
    aliases: Mapping[str, Collection[str]] | None = None,
) -> list[str]:
    """The layers that --layer names, in its order; the only one without it.

    Args:
      found: by name.
      options: of the command line.
      what: they are.
      aliases: what --layer may call them besides: the names that each stands for. They go before
        ends of names, as `inspect` shows them.
    """
    if not found:
        raise output.UserError(f"There is no {what} in the file; `inspect` shows what there is.")
    names = _some(found)
    if options.layer:
        return [_one(name, found, aliases or {}, names) for name in options.layer]
    if len(found) > 1:
        raise output.UserError(
            f"The file has {len(found)} such layers, {names}: choose with --layer NAME; several "
            "make a stack."
        )
    return list(found)


def _some(names: Iterable[str]) -> str:
    first = list(itertools.islice(names, 21))
    return ", ".join(map(untrusted.shown, first[:20])) + (", ..." if len(first) > 20 else "")


def _one(
    name: str, found: Mapping[str, Any], aliases: Mapping[str, Collection[str]], names: str
) -> str:
    """The layer that a name stands for."""
    # Keras puts all layers of a file below layers/.
    meant = {name} if name in found else set(aliases.get(name, ())) or {f"layers/{name}"} & {*found}
    if not meant:
        raise output.UserError(f"--layer must be one of {names}; got {name}.")
    if len(meant) > 1:
        raise output.UserError(f"--layer {name} may be any of {_some(sorted(meant))}: name one.")
    return meant.pop()


def _gates_of(kernel_shape: tuple[int, ...], units: int) -> int:
    """How many gates have so many columns; 0 if no number."""
    columns = kernel_shape[-1] if kernel_shape else 0
    return columns // units if units and not columns % units else 0


def _gates_of_keras(recurrent: Array) -> int:
    """How many gates a layer's recurrent kernel, [H, G*H], has; 0 if it is none."""
    return _gates_of(recurrent.shape, recurrent.shape[0] if recurrent.ndim else 0)


# ------------------------------------------------------------------------------------
# Readers
# ------------------------------------------------------------------------------------


def _needs(kind: Kind, kinds: tuple[Kind, ...], name: str) -> None:
    if kind not in kinds:
        known = ", ".join(each.value for each in kinds)
        raise output.UserError(f"--from {name} reads: {known}. SRC is another: {kind.value}.")


def _npz(kind: Kind, path: str, name: str) -> dict[str, Array]:
    _needs(kind, (Kind.NPZ,), name)
    return npz.read_npz(path)


def _header_of(arrays: dict[str, Array], path: str) -> Layout:
    layout, _ = params_header.from_text(arrays[_HEADER].tobytes(), f"{_HEADER} in {path}")
    return layout


def _read_params(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    arrays = _npz(kind, path, "params")
    vector = _array(arrays, _VECTORS["params"], path)
    if _HEADER in arrays:
        layout = _header_of(arrays, path)
        arguments = dataclasses.asdict(layout)
    else:
        arguments = _vector_arguments(options) | {
            "input_mode": options.input_mode,
            "num_proj": options.projection,
        }
    with untrusted.named(path):
        return weights.from_cudnn(vector, **arguments)


def _array(arrays: Mapping[str, Array], name: str, path: str) -> Array:
    if name not in arrays:
        found = base.listed(arrays) or "nothing"
        raise output.UserError(f"{path} must hold an array {name}; it holds {found}.")
    return arrays[name]


def _read_canonical(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    del options  # the header tells all
    arrays = _npz(kind, path, "canonical")
    if _HEADER not in arrays:
        raise output.UserError(f"{path} must hold a {_HEADER}, as --to canonical writes it.")
    layout = _header_of(arrays, path)
    named = {}
    for name, array in arrays.items():
        if name != _HEADER:
            named[_param_name(name, path)] = array
    with untrusted.named(path):
        if layout.num_regions > len(named):
            raise ValueError(f"It must hold all of the {layout.num_regions} weights of {layout}.")
        return Canonical(layout, named)


def _param_name(text: str, path: str) -> ParamName:
    """The inverse of ParamName.__str__."""
    layer, *rest = text.split("/")
    number = layer.removeprefix("layer_")
    if len(rest) not in (2, 3) or not number.isdigit() or len(number) > 9:
        raise ValueError(
            f"{path} must hold weights by names such as layer_0/forward/input/input_kernel; it "
            f"holds {untrusted.shown(text)}."
        )
    direction, *gate, kind = rest
    return ParamName(int(number), direction, gate[0] if gate else "", kind)


def _torch_network(
    kind: Kind, path: str, options: argparse.Namespace
) -> tuple[str, dict[tuple[str, int, bool], untrusted.ArrayHeader]]:
    """The prefix of the network that --prefix names, or of the only one; and its headers."""
    _needs(kind, (Kind.SAFETENSORS, Kind.NPZ), "torch")
    read = (
        safetensors.read_safetensors_headers if kind is Kind.SAFETENSORS else npz.read_npz_headers
    )
    networks = torch_format.networks(read(path))
    prefix = options.prefix
    found = base.listed(map(repr, networks))
    if prefix is None and len(networks) > 1:
        raise output.UserError(f"{path} has several networks: choose with --prefix, of {found}.")
    if not networks or (prefix is not None and prefix not in networks):
        raise output.UserError(
            f"{path} must hold {prefix or ''}weight_ih_l0 and its kind; it has "
            f"{f'networks at {found}' if networks else 'no network of PyTorch'}."
        )
    prefix = next(iter(networks)) if prefix is None else prefix
    return prefix, networks[prefix]


def _read_torch(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    prefix, network = _torch_network(kind, path, options)
    mode: RnnMode | None = options.mode
    matrix = network.get(("weight_hh", 0, False))
    projection = network.get(("weight_hr", 0, False))
    if mode is None and matrix is not None and len(matrix.shape) == 2:
        shape = matrix.shape if projection is None else projection.shape
        mode = _mode(options, _gates_of(matrix.shape[:1], shape[-1] if shape else 0))
    if kind is Kind.SAFETENSORS:
        arrays = safetensors.read_some_safetensors(path, lambda name: name.startswith(prefix))
    else:
        arrays = npz.read_npz(path)
    with untrusted.named(path):
        return weights.from_torch(arrays, mode or _mode(options), prefix=prefix)


def _measure_torch(kind: Kind, path: str, options: argparse.Namespace) -> int:
    return _bytes_of(_torch_network(kind, path, options)[1].values())


def _bytes_of(headers: Iterable[untrusted.ArrayHeader]) -> int:
    return sum(math.prod(header.shape) * header.dtype.itemsize for header in headers)


def _simple_modes(path: str) -> set[RnnMode]:
    """The modes of the simple RNNs that the config of a `.keras` file has, by their activations."""
    modes: dict[Any, RnnMode] = {"tanh": "rnn_tanh", "relu": "rnn_relu"}
    config, _ = keras_file.read_config(path)
    found = set()
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict):
            left += value.values()
            inner = value.get("config")
            if value.get("class_name") == "SimpleRNN" and isinstance(inner, dict):
                activation = inner.get("activation")
                if isinstance(activation, str) and activation in modes:
                    found.add(modes[activation])
    return found


def _mode_of_keras(
    recurrent: Array, options: argparse.Namespace, modes: set[RnnMode], path: str
) -> RnnMode:
    """The mode of a layer; of a simple RNN, what its model says, if that is one thing.

    Args:
      recurrent: its recurrent kernel.
      options: of the command line.
      modes: those of the model's simple RNNs, as far as the file tells.
      path: of the file.
    """
    gates = _gates_of_keras(recurrent)
    modes = modes if gates == 1 else set()
    if modes and options.mode is not None and options.mode not in modes:
        raise output.UserError(
            f"--mode must be {' or '.join(sorted(modes))}, as the model in {path} says; "
            f"got {options.mode}."
        )
    return modes.pop() if len(modes) == 1 else _mode(options, gates)


def _read_stack(
    stack: Mapping[str, keras_file.Layer],
    options: argparse.Namespace,
    modes: set[RnnMode],
    path: str,
) -> Canonical:
    """Reads layers of Keras, by their names, as one network."""
    layers = list(stack.values())
    differences: dict[str, list[str | int]] = {
        "direction": [layer.direction for layer in layers],
        "number of units": [_units_of(layer) for layer in layers],
    }
    for what, values in differences.items():
        if len(set(values)) > 1:
            each = ", ".join(
                f"{untrusted.shown(name)} {value}"
                for name, value in zip(stack, values, strict=True)
            )
            raise output.UserError(
                f"All layers of a stack must have the same {what}, as cuDNN's networks have; got "
                f"{each}. Convert each of them alone."
            )
    mode = _mode_of_keras(layers[0].arrays[1], options, modes, path)
    with untrusted.named(path):
        return weights.from_keras(
            [layer.arrays for layer in layers], mode, direction=layers[0].direction
        )


def _units_of(layer: keras_file.Layer) -> int:
    """Of an array, or its header; 0 if it has no such shape."""
    shape = tuple(layer.arrays[1].shape) if len(layer.arrays) > 1 else ()
    return shape[0] if shape else 0


def _alone(chosen: list[str], networks: set[str]) -> bool:
    """Whether a network is chosen, which is alone."""
    if len(chosen) > 1 and not networks.isdisjoint(chosen):
        raise output.UserError("A CudnnRNN layer is a network of its own: choose it alone.")
    return chosen[0] in networks


class _KerasParts(NamedTuple):
    """What of a file of Keras 3 is chosen.

    Attributes:
      chosen: the paths of the layers.
      headers: of the arrays of these, by their paths.
      is_network: whether it is one CudnnRNN layer.
    """

    chosen: list[str]
    headers: dict[str, untrusted.ArrayHeader]
    is_network: bool


def _keras_parts(kind: Kind, path: str, options: argparse.Namespace) -> _KerasParts:
    headers = keras_file.read_array_headers(path)
    layers = keras_file.layers(headers)
    networks = keras_file.networks(headers)
    every = {**layers, **networks}
    named: dict[str, keras_file.Named] = {}
    aliases: dict[str, set[str]] = {}
    if kind is Kind.KERAS:
        for name, layer in keras_file.named_layers(keras_file.read_config(path)[0]):
            if layer.path in every:
                named[layer.path] = layer
                aliases.setdefault(name, set()).add(layer.path)
    chosen = _chosen(every, options, "recurrent layer", aliases)
    for name in chosen:
        if name in named:
            _check_config(name, named[name].config, path)
    wanted = [array for name in chosen for array in keras_file.names_of(name, headers)]
    return _KerasParts(
        chosen, {name: headers[name] for name in wanted}, _alone(chosen, set(networks))
    )


def _check_config(name: str, config: Mapping[str, Any], path: str) -> None:
    """Raises UserError if a layer is another network, which weights alone do not tell."""
    layer: Any = config
    if config["class_name"] == "Bidirectional":
        layer = config["config"].get("layer")
    if not isinstance(layer, dict) or not isinstance(layer.get("config"), dict):
        return
    class_name = str(layer.get("class_name"))
    if class_name not in keras_format.LAYERS.values():
        return
    if reason := keras_file.obstacle(class_name, layer["config"]):
        raise output.UserError(
            f"{untrusted.shown(name)} in {path} is no network of cuDNN: {reason}. Its weights "
            "would compute something else in another library."
        )


def _read_keras(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    _needs(kind, (Kind.KERAS, Kind.KERAS_3_H5, Kind.KERAS_2_H5), "keras")
    if kind is Kind.KERAS_2_H5:
        return _read_keras_2(path, options, legacy=False)
    parts = _keras_parts(kind, path, options)
    arrays = keras_file.read_arrays(path, list(parts.headers))
    if parts.is_network:
        (name,) = parts.chosen
        where = f"{untrusted.shown(name)} in {path}"
        layout, params = keras_file.params_of(keras_file.networks(arrays)[name], where)
        return weights.from_cudnn(params, **dataclasses.asdict(layout))
    layers = keras_file.layers(arrays)
    modes = _simple_modes(path) if kind is Kind.KERAS else set()
    return _read_stack({name: layers[name] for name in parts.chosen}, options, modes, path)


def _measure_keras(kind: Kind, path: str, options: argparse.Namespace) -> int:
    if kind in (Kind.KERAS, Kind.KERAS_3_H5):
        return _bytes_of(_keras_parts(kind, path, options).headers.values())
    return 0  # of Keras 2, whose files are read whole


def _read_keras_2(path: str, options: argparse.Namespace, legacy: bool) -> Canonical:
    layers = weights.read_keras_h5(path)
    known = set((keras_format.LEGACY_LAYERS if legacy else keras_format.LAYERS).values())
    found = {}
    for name, layer in layers.items():
        bare = layer.class_name.removeprefix("Bidirectional(").removesuffix(")")
        # A file of weights alone does not tell classes.
        if bare in known or (not bare and name in (options.layer or [name])):
            found[name] = layer
    stack = [found[name] for name in _chosen(found, options, "such layer")]
    # Where no class is told, the number of arrays is.
    is_wrapped = stack[0].class_name.startswith("Bidirectional(") or len(stack[0].arrays) > 3
    direction: Direction = "bidirectional" if is_wrapped else options.direction
    recurrent = stack[0].arrays[1] if len(stack[0].arrays) > 1 else np.zeros([0])
    mode = _mode(options, _gates_of_keras(recurrent))
    read = weights.from_keras_cudnn if legacy else weights.from_keras
    with untrusted.named(path):
        return read(stack, mode, direction=direction)


def _read_keras_cudnn(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    _needs(kind, (Kind.KERAS_2_H5,), "keras-cudnn")
    return _read_keras_2(path, options, legacy=True)


def _read_onnx(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    _needs(kind, (Kind.ONNX,), "onnx")
    every = onnx_file.read_nodes(path)
    nodes = {node.name: node for node in every}
    if len(nodes) < len(every):
        twice = next(name for name in nodes if sum(node.name == name for node in every) > 1)
        raise output.UserError(
            f"The nodes of {path} must have names of their own; several have the name "
            f"{untrusted.shown(twice) or '(empty)'}."
        )
    if not options.layer and (breaks := onnx_file.breaks_of(every)):
        first, second = (untrusted.shown(node.name) for node in breaks[0])
        raise output.UserError(
            f"The nodes of {path} are no stack, as the output of {first} is not the input of "
            f"{second}: choose with --layer NAME; several make a stack."
        )
    with untrusted.named(path):
        names = options.layer or list(nodes)
        chosen = _chosen(nodes, argparse.Namespace(layer=names), "node LSTM, GRU or RNN")
        return weights.from_onnx([nodes[name].as_arrays() for name in chosen])


def _read_mxnet(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    vector = _array(_npz(kind, path, "mxnet"), _VECTORS["mxnet"], path)
    with untrusted.named(path):
        return weights.from_mxnet(vector, **_vector_arguments(options), num_proj=options.projection)


def _read_cntk(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    matrix = _array(_npz(kind, path, "cntk"), _VECTORS["cntk"], path)
    with untrusted.named(path):
        return weights.from_cntk(matrix, **_vector_arguments(options))


def _variables(kind: Kind, path: str, name: str) -> Mapping[str, Array]:
    _needs(kind, (Kind.CHECKPOINT, Kind.NPZ), name)
    return checkpoint.Variables(path) if kind is Kind.CHECKPOINT else npz.read_npz(path)


def _measure_npz(kind: Kind, path: str, options: argparse.Namespace) -> int:
    del options
    return _bytes_of(npz.read_npz_headers(path).values()) if kind is Kind.NPZ else 0


def _checkpoint_parts(
    kind: Kind, path: str, options: argparse.Namespace
) -> tuple[checkpoint.Variables, dict[str, variables.Part]]:
    """What of a checkpoint is chosen, by name."""
    _needs(kind, (Kind.CHECKPOINT, Kind.SAVED_MODEL), "checkpoint")
    every = variables.opened(kind, path)
    with untrusted.named(path):
        parts = variables.find(kind, path, every)
    aliases: dict[str, set[str]] = {}
    for name, part in parts.items():
        for alias in part.aliases:
            aliases.setdefault(alias, set()).add(name)
    chosen = _chosen(parts, options, "recurrent layer", aliases)
    _alone(chosen, {name for name, part in parts.items() if part.layout})
    return every, {name: parts[name] for name in chosen}


def _read_checkpoint(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    every, parts = _checkpoint_parts(kind, path, options)
    first = next(iter(parts.values()))
    with untrusted.named(path):
        if first.layout is not None and first.keys:
            return weights.from_cudnn(every[first.keys[0]], **dataclasses.asdict(first.layout))
        if first.layout is not None:
            return weights.checkpoint_to_canonical(every, first.path)
        stack = {
            name: keras_file.Layer(part.direction, [every[key] for key in part.keys])
            for name, part in parts.items()
        }
    modes = variables.modes(path) if kind is Kind.SAVED_MODEL else set()
    return _read_stack(stack, options, {mode for mode in modes if GATES[mode] == ("",)}, path)


def _measure_checkpoint(kind: Kind, path: str, options: argparse.Namespace) -> int:
    every, parts = _checkpoint_parts(kind, path, options)
    return sum(
        sum(map(every.nbytes, part.keys)) if part.keys or not part.layout else 4 * part.layout.size
        for part in parts.values()
    )


def _read_tf1_cudnn(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    found = _variables(kind, path, "tf1-cudnn")
    # A simple RNN's keys do not tell which.
    modes: tuple[RnnMode, ...] = ("lstm", "gru")
    told = [mode for mode in modes if any(tf1_format.CUDNN_CELLS[mode] in key for key in found)]
    mode: RnnMode = options.mode or (told[0] if len(told) == 1 else _mode(options))
    with untrusted.named(path):
        return weights.from_tf1_cudnn(found, mode, scope=options.scope)


def _read_tf1_lstm_cell(kind: Kind, path: str, options: argparse.Namespace) -> Canonical:
    found = _variables(kind, path, "tf1-lstm-cell")
    with untrusted.named(path):
        return weights.from_tf1_lstm_cell(
            found, forget_bias=options.forget_bias, scope=options.scope
        )


# ------------------------------------------------------------------------------------
# Writers
# ------------------------------------------------------------------------------------


def _header(canonical: Canonical) -> Array:
    return np.frombuffer(params_header.to_text(canonical.layout).encode(), np.uint8)


def _save_npz(path: str, arrays: Mapping[str, Array]) -> None:
    for array in arrays.values():
        if array.dtype.kind == "V":
            raise output.UserError(
                f"{array.dtype} cannot be kept in .npz files; .safetensors and .onnx can."
            )
    named: dict[str, Any] = dict(arrays)  # NumPy has keywords of other types, which no name is
    with open(path, "wb") as file:
        np.savez(file, **named)


def _write_params(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    vector, notes = weights.to_cudnn(canonical)
    _save_npz(path, {_VECTORS["params"]: vector, _HEADER: _header(canonical)})
    return notes


def _write_canonical(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    del options
    layout = params_header.resolved(canonical.layout)
    named = {str(name): array for name, array in canonical.named.items()}
    _save_npz(path, {**named, _HEADER: _header(Canonical(layout, canonical.named))})
    return ()


def _write_torch(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    state, notes = weights.to_torch(
        canonical, prefix=options.to_prefix, bias=not options.without_bias
    )
    if path.endswith(".npz"):
        _save_npz(path, state)
    else:
        weights.write_safetensors(path, state, {"format": "pt"})
    return notes


def _write_keras(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    layers, notes = weights.to_keras(canonical, use_bias=not options.without_bias)
    dtype = canonical.dtype.name
    tensorflow.quiet()
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    try:
        import keras
    except ImportError as error:
        raise ImportError("--to keras needs Keras 3, which is not installed.") from error
    layout = canonical.layout
    settings = {"dtype": dtype, "return_sequences": True, "use_bias": not options.without_bias}
    if layout.rnn_mode == "rnn_relu":
        settings["activation"] = "relu"
    model = keras.Sequential([keras.Input([None, layout.input_size], dtype=dtype)])
    cls = getattr(keras.layers, keras_format.LAYERS[layout.rnn_mode])
    # Zeros, since orthogonal matrices take long, and are not there in 16 bits.
    initializers = {"kernel_initializer": "zeros", "recurrent_initializer": "zeros"}
    for arrays in layers:
        layer = cls(layout.num_units, **settings, **initializers)
        if layout.direction == "bidirectional":
            layer = keras.layers.Bidirectional(layer, dtype=dtype)
        model.add(layer)
        layer.set_weights(arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras calls in NumPy
        model.save(path)
    return notes


def _write_keras_cudnn(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    del options
    if importlib.util.find_spec("h5py") is None:
        raise ImportError("--to keras-cudnn needs h5py, which is not installed.")
    layers, notes = weights.to_keras_cudnn(canonical)
    class_name = keras_format.LEGACY_LAYERS[canonical.layout.rnn_mode]
    hdf5.write_layers(path, class_name, layers)
    return notes


def _write_onnx(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    check_size("onnx", canonical.layout.size * canonical.dtype.itemsize)
    nodes, notes = weights.to_onnx(canonical)
    content = onnx_file.model_bytes(nodes)
    with open(path, "wb") as file:
        file.write(content)
    return notes


def _write_mxnet(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    return _write_exported(path, _VECTORS["mxnet"], weights.to_mxnet(canonical))


def _write_cntk(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    return _write_exported(path, _VECTORS["cntk"], weights.to_cntk(canonical))


def _write_exported(path: str, name: str, exported: Exported) -> tuple[str, ...]:
    _save_npz(path, {name: exported.arrays})
    return exported.notes


def _write_tf1_cudnn(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    variables, notes = weights.to_tf1_cudnn(canonical, scope=options.to_prefix.rstrip("/"))
    _save_npz(path, variables)
    return notes


def _write_tf1_lstm_cell(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    projects = canonical.layout.has_projection
    variables, notes = weights.to_tf1_lstm_cell(
        canonical,
        forget_bias=options.forget_bias,
        # The one that projects.
        cell_name="lstm_cell" if projects else "basic_lstm_cell",
        scope=options.to_prefix.rstrip("/"),
    )
    _save_npz(path, variables)
    return notes


def check_size(name: str, nbytes: int) -> None:
    """Raises UserError if a file of a format cannot hold weights of so many bytes."""
    max_bytes = FORMATS[name].max_bytes
    if max_bytes is not None and nbytes > max_bytes:
        raise output.UserError(
            f"The weights must have at most {output.size(max_bytes)} for --to {name}, as a "
            f"protocol buffer ends at 2 GiB; they have {output.size(nbytes)}. --to torch has no "
            "limit."
        )


_NETWORK = ("mode", "layers", "units", "input_size", "direction")

FORMATS = {
    "params": Format(
        "the ops' vector: an .npz with `params`, and a header that tells the network; without the "
        "header pass --mode --layers --units --input-size",
        _read_params,
        _write_params,
        (".npz",),
        read_options=(*_NETWORK, "input_mode", "projection"),
        measure=_measure_npz,
    ),
    "canonical": Format(
        "each gate's matrix and bias by name: an .npz with a header",
        _read_canonical,
        _write_canonical,
        (".npz",),
        measure=_measure_npz,
    ),
    "torch": Format(
        "a state_dict of nn.LSTM, nn.GRU or nn.RNN: .safetensors or .npz; nn.RNN needs --mode, "
        "several networks --prefix",
        _read_torch,
        _write_torch,
        (".safetensors", ".npz"),
        read_options=("mode", "prefix"),
        write_options=("to_prefix", "without_bias"),
        measure=_measure_torch,
    ),
    "keras": Format(
        "LSTM, GRU, SimpleRNN, CudnnRNN: .keras, .weights.h5, .h5; several layers need --layer; "
        "written is a .keras model of stock layers, by Keras",
        _read_keras,
        _write_keras,
        (".keras",),
        read_options=("mode", "layer", "direction"),
        write_options=("without_bias",),
        measure=_measure_keras,
    ),
    "keras-cudnn": Format(
        "CuDNNLSTM and CuDNNGRU of Keras 2: .h5",
        _read_keras_cudnn,
        _write_keras_cudnn,
        (".h5",),
        read_options=("mode", "layer", "direction"),
    ),
    "onnx": Format(
        "nodes LSTM, GRU and RNN, which must feed each other unless --layer chooses: .onnx",
        _read_onnx,
        _write_onnx,
        (".onnx",),
        read_options=("layer",),
        # Names and sizes take some more.
        max_bytes=onnx_file.MAX_BYTES - (1 << 20),
    ),
    "mxnet": Format(
        "the fused operator RNN: an .npz with `parameters`; needs --mode --layers --units "
        "--input-size",
        _read_mxnet,
        _write_mxnet,
        (".npz",),
        read_options=(*_NETWORK, "projection"),
        measure=_measure_npz,
    ),
    "cntk": Format(
        "OptimizedRNNStack: an .npz with `matrix`; needs the same",
        _read_cntk,
        _write_cntk,
        (".npz",),
        read_options=_NETWORK,
        measure=_measure_npz,
    ),
    "tf1-cudnn": Format(
        "tf.contrib.cudnn_rnn: a checkpoint, or an .npz by its keys; simple RNNs need --mode",
        _read_tf1_cudnn,
        _write_tf1_cudnn,
        (".npz",),
        read_options=("mode", "scope"),
        write_options=("to_prefix",),
    ),
    "tf1-lstm-cell": Format(
        "BasicLSTMCell and its kind: likewise; see --forget-bias",
        _read_tf1_lstm_cell,
        _write_tf1_lstm_cell,
        (".npz",),
        read_options=("forget_bias", "scope"),
        write_options=("forget_bias", "to_prefix"),
    ),
    "checkpoint": Format(
        "tf.train.Checkpoint, or a SavedModel, with layers CudnnRNN, or LSTM, GRU, SimpleRNN; "
        "several need --layer; is read only",
        _read_checkpoint,
        read_options=("mode", "layer"),
        measure=_measure_checkpoint,
    ),
}


def options_of(kind: Kind, path: str, name: str) -> set[str]:
    """The options that a format's reader uses for this file."""
    used = set(FORMATS[name].read_options)
    if kind is Kind.NPZ and name == "params" and _HEADER in npz.read_npz_headers(path):
        return set()  # the header tells all
    if name == "keras" and kind is not Kind.KERAS_2_H5:
        used.discard("direction")  # which these files tell
    return used


def guess(kind: Kind, path: str, options: argparse.Namespace) -> str:
    """The format of a file, by its kind and contents.

    Raises:
      UserError: it may be several, or none.
    """
    if kind in (Kind.KERAS, Kind.KERAS_3_H5):
        return "keras"
    if kind is Kind.KERAS_2_H5:
        layers = hdf5.read_headers(path)
        chosen = [layer for layer in layers if layer[0] in (options.layer or [layer[0]])]
        legacy = [name for name, class_name, arrays in chosen if is_legacy(class_name, arrays)]
        stock = [name for name, class_name, _ in chosen if _is_recurrent(class_name)]
        if legacy and stock:
            raise output.UserError("Pass --from keras or --from keras-cudnn; the file has both.")
        return "keras-cudnn" if legacy else "keras"
    if kind is Kind.SAFETENSORS:
        return "torch"
    if kind is Kind.ONNX:
        return "onnx"
    if kind in (Kind.CHECKPOINT, Kind.SAVED_MODEL):
        return "checkpoint"
    if kind is Kind.NPZ:
        headers = npz.read_npz_headers(path)
        if _HEADER in headers:
            return "params" if _VECTORS["params"] in headers else "canonical"
        if torch_format.networks(headers):
            return "torch"
        for name, key in _VECTORS.items():
            if key in headers:
                return name
        raise output.UserError(
            f"Pass --from; {path} holds {base.listed(headers) or 'nothing'}, which may be anything."
        )
    raise AssertionError(kind)


def is_legacy(class_name: str, arrays: list[Any]) -> bool:
    """Whether a layer is CuDNNLSTM or CuDNNGRU, which its bias tells where no class is told."""
    if class_name:
        return "CuDNN" in class_name
    shapes = [array.shape for array in arrays]
    return (
        len(shapes) in (3, 6)
        and len(shapes[1]) == 2
        and len(shapes[2]) == 1
        and shapes[2][0] == 2 * shapes[1][1]
    )


def _is_recurrent(class_name: str) -> bool:
    bare = class_name.removeprefix("Bidirectional(").removesuffix(")")
    return bare in keras_format.LAYERS.values()


def describe(layout: Layout) -> str:
    """A network in words."""
    projected = f", projected to {layout.num_proj}" if layout.has_projection else ""
    return (
        f"{layout.rnn_mode}, {output.count(layout.num_layers, 'layer')}, input "
        f"{layout.input_size}, units {layout.num_units}{projected}, {layout.direction}, "
        f"{output.parameters(layout.size, 2)}"
    )
