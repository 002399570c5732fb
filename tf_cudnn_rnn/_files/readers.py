"""What reads each format of files into Canonical, and which format a file has."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import math
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._files import checkpoint, kinds, variables
from tf_cudnn_rnn._files.choices import Choices, Face, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import (
    hdf5,
    keras_config,
    keras_file,
    npz,
    onnx,
    onnx_file,
    params_header,
    runtime_file,
    safetensors,
    untrusted,
    vectors,
)
from tf_cudnn_rnn._formats import keras as keras_format
from tf_cudnn_rnn._formats import tf1 as tf1_format
from tf_cudnn_rnn._formats import torch as torch_format
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, INPUT_MODES, Layout, ParamName
from tf_cudnn_rnn._types import Array, Direction, RnnMode

_HEADER = params_header.NPZ_KEY
# One gate is that of two modes.
_MODE_OF_GATES: dict[int, RnnMode] = {3: "gru", 4: "lstm"}
# The array of an .npz file that is all weights of a network.
VECTORS = {"params": "params", "mxnet": "parameters", "cntk": "matrix"}


class Reader(NamedTuple):
    """What reads a format.

    Attributes:
      read: takes the kind of the file, its path and the choices.
      choices: of those, the ones in use.
      measure: takes what `read` takes, and returns the bytes of the weights, or 0 if they are not
        known before they are read; None where no file has too many for another format.
    """

    read: Callable[[Kind, str, Choices], Canonical]
    choices: tuple[str, ...] = ()
    measure: Callable[[Kind, str, Choices], int] | None = None


# ------------------------------------------------------------------------------------
# What choices say
# ------------------------------------------------------------------------------------


def _mode(choices: Choices, gates: int = 0) -> RnnMode:
    """The mode of a network: the one that was chosen, or that of so many gates."""
    mode: RnnMode | None = choices.rnn_mode or _MODE_OF_GATES.get(gates)
    if mode is None:
        says = choices.face.says
        if gates == 1:
            raise Mistake(
                "The file does not tell whether the simple RNN has tanh or ReLU: pass "
                f"{says('rnn_mode', 'rnn_tanh')} or {says('rnn_mode', 'rnn_relu')}."
            )
        raise Mistake(
            f"Pass {choices.face.names['rnn_mode']}, one of {', '.join(GATES)}; the file does not "
            "tell."
        )
    return mode


def _vector_arguments(choices: Choices) -> dict[str, Any]:
    """What was said of a vector, which tells nothing of itself."""
    needed = ("rnn_mode", "num_layers", "num_units", "input_size")
    arguments = {name: getattr(choices, name) for name in needed}
    missing = [choices.face.names[name] for name in needed if arguments[name] is None]
    if missing:
        raise Mistake(
            f"A vector of weights does not tell its network: pass {', '.join(missing)} too."
        )
    return {**arguments, "direction": _direction(choices)}


def _direction(choices: Choices) -> Direction:
    return "unidirectional" if choices.direction is None else choices.direction


def _chosen(
    found: Mapping[str, Any],
    choices: Choices,
    what: str,
    aliases: Mapping[str, Collection[str]] | None = None,
    shown: Mapping[str, str] | None = None,
) -> list[str]:
    """The layers that were chosen, in that order; the only one if none was.

    Args:
      found: by name.
      choices: of the caller.
      what: they are.
      aliases: what else a choice may call them: the names that each stands for. They go before
        ends of names.
      shown: what `inspect` calls those that it does not call by their name here.
    """
    if not found:
        raise Mistake(
            f"There is no {what} in the file; `{choices.face.inspect}` shows what there is."
        )
    aliases, shown = aliases or {}, shown or {}
    names = _some(shown.get(name, name) for name in found)
    if choices.layer:
        return [_one(name, found, aliases, names, choices.face) for name in choices.layer]
    if len(found) > 1:
        raise Mistake(
            f"The file has {len(found)} such layers, {names}: choose with "
            f"{choices.face.says('layer', 'NAME')}; several make a stack."
        )
    return list(found)


def _some(names: Iterable[str]) -> str:
    first = list(itertools.islice(names, 21))
    return ", ".join(map(untrusted.shown, first[:20])) + (", ..." if len(first) > 20 else "")


def _one(
    name: str,
    found: Mapping[str, Any],
    aliases: Mapping[str, Collection[str]],
    names: str,
    face: Face,
) -> str:
    """The layer that a name stands for."""
    # Keras puts all layers of a file below layers/.
    meant = {name} if name in found else set(aliases.get(name, ())) or {f"layers/{name}"} & {*found}
    if not meant:
        raise Mistake(f"{face.names['layer']} must be one of {names}; got {name}.")
    if len(meant) > 1:
        raise Mistake(f"{face.says('layer', name)} may be any of {_some(sorted(meant))}: name one.")
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


def _needs(kind: Kind, known: tuple[Kind, ...], name: str, choices: Choices) -> None:
    if kind not in known:
        raise Mistake(
            f"{choices.face.says('format', name)} reads: "
            f"{', '.join(each.value for each in known)}. {choices.face.file} is another: "
            f"{kind.value}."
        )


def _npz(kind: Kind, path: str, name: str, choices: Choices) -> dict[str, Array]:
    _needs(kind, (Kind.NPZ,), name, choices)
    return npz.read_npz(path)


def _header_of(arrays: dict[str, Array], path: str) -> Layout:
    layout, _ = params_header.from_text(arrays[_HEADER].tobytes(), f"{_HEADER} in {path}")
    return layout


def _read_params(kind: Kind, path: str, choices: Choices) -> Canonical:
    arrays = _npz(kind, path, "params", choices)
    vector = _array(arrays, VECTORS["params"], path)
    if _HEADER in arrays:
        layout = _header_of(arrays, path)
        with untrusted.named(path):
            return vectors.of_layout(vector, layout)
    arguments = _vector_arguments(choices) | {
        "input_mode": choices.input_mode or "linear_input",
        "num_proj": choices.num_proj or 0,
    }
    with untrusted.named(path):
        return vectors.from_cudnn(vector, **arguments)


def _array(arrays: Mapping[str, Array], name: str, path: str) -> Array:
    if name not in arrays:
        found = base.listed(arrays) or "nothing"
        raise Mistake(f"{path} must hold an array {name}; it holds {found}.")
    return arrays[name]


def _read_canonical(kind: Kind, path: str, choices: Choices) -> Canonical:
    arrays = _npz(kind, path, "canonical", choices)
    if _HEADER not in arrays:
        raise Mistake(
            f"{path} must hold a {_HEADER}, as {choices.face.convert}--to canonical writes it."
        )
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


def _read_runtime(kind: Kind, path: str, choices: Choices) -> Canonical:
    _needs(kind, (Kind.RUNTIME,), "runtime", choices)
    return runtime_file.read(path)


def _measure_runtime(kind: Kind, path: str, choices: Choices) -> int:
    _needs(kind, (Kind.RUNTIME,), "runtime", choices)
    header = runtime_file.read_header(path)
    return header.layout.size * header.dtype.itemsize


def _torch_network(
    kind: Kind, path: str, choices: Choices
) -> tuple[str, dict[tuple[str, int, bool], untrusted.ArrayHeader]]:
    """The prefix of the network that was chosen, or of the only one; and its headers."""
    _needs(kind, (Kind.SAFETENSORS, Kind.NPZ), "torch", choices)
    in_file: Mapping[str, Any]
    if kind is Kind.SAFETENSORS:
        in_file = safetensors.read_safetensors_headers(path)
    else:  # whose headers take time
        in_file = dict.fromkeys(npz.read_npz_names(path))
    networks = torch_format.networks(in_file)
    prefix = choices.prefix
    found = base.listed(map(repr, networks))
    if prefix is None and len(networks) > 1:
        raise Mistake(
            f"{path} has several networks: choose with {choices.face.names['prefix']}, of {found}."
        )
    if not networks or (prefix is not None and prefix not in networks):
        raise Mistake(
            f"{path} must hold {prefix or ''}weight_ih_l0 and its kind; it has "
            f"{f'networks at {found}' if networks else 'no network of PyTorch'}."
        )
    prefix = next(iter(networks)) if prefix is None else prefix
    with untrusted.named(path):
        layers = {layer for _, layer, _ in networks[prefix]}
        untrusted.check_layers(len(layers), "The network of PyTorch")
    if kind is Kind.NPZ:
        headers = npz.read_npz_headers(path, functools.partial(torch_format.is_at, prefix))
        networks = torch_format.networks(headers)
    return prefix, networks[prefix]


def _read_torch(kind: Kind, path: str, choices: Choices) -> Canonical:
    prefix, network = _torch_network(kind, path, choices)
    mode: RnnMode | None = choices.rnn_mode
    matrix = network.get(("weight_hh", 0, False))
    projection = network.get(("weight_hr", 0, False))
    if mode is None and matrix is not None and len(matrix.shape) == 2:
        shape = matrix.shape if projection is None else projection.shape
        mode = _mode(choices, _gates_of(matrix.shape[:1], shape[-1] if shape else 0))
    read = safetensors.read_some_safetensors if kind is Kind.SAFETENSORS else npz.read_some_npz
    arrays = read(path, functools.partial(torch_format.is_at, prefix))
    mode = mode or _mode(choices)
    with untrusted.named(path):
        return torch_format.from_torch(arrays, mode, prefix=prefix)


def _measure_torch(kind: Kind, path: str, choices: Choices) -> int:
    return _bytes_of(_torch_network(kind, path, choices)[1].values())


def _bytes_of(headers: Iterable[untrusted.ArrayHeader]) -> int:
    return sum(math.prod(header.shape) * header.dtype.itemsize for header in headers)


def _mode_of_keras(recurrent: Array, choices: Choices, modes: set[RnnMode], path: str) -> RnnMode:
    """The mode of a layer; of a simple RNN, what the file says, if that is one thing.

    Args:
      recurrent: its recurrent kernel.
      choices: of the caller.
      modes: those of the simple RNNs that it may be one of, as far as the file tells.
      path: of the file.
    """
    gates = _gates_of_keras(recurrent)
    modes = modes if gates == 1 else set()
    if modes and choices.rnn_mode is not None and choices.rnn_mode not in modes:
        raise Mistake(
            f"{choices.face.names['rnn_mode']} must be {' or '.join(sorted(modes))}, as the model "
            f"in {path} says; got {choices.rnn_mode}."
        )
    return modes.pop() if len(modes) == 1 else _mode(choices, gates)


def _read_stack(
    stack: Mapping[str, keras_file.Layer],
    choices: Choices,
    modes: set[RnnMode],
    path: str,
) -> Canonical:
    """Reads layers of Keras, by their names, as one network."""
    layers = list(stack.values())
    legacy = [keras_config.is_legacy("", layer.arrays) for layer in layers]
    differences: dict[str, list[str | int]] = {
        "direction": [layer.direction for layer in layers],
        "number of units": [_units_of(layer) for layer in layers],
        "kind": ["CuDNNLSTM or CuDNNGRU" if is_legacy else "today's" for is_legacy in legacy],
    }
    for what, values in differences.items():
        if len(set(values)) > 1:
            raise _differ(what, dict(zip(stack, values, strict=True)), choices)
    mode = _mode_of_keras(layers[0].arrays[1], choices, modes, path)
    read = keras_format.from_keras_cudnn if legacy[0] else keras_format.from_keras
    with untrusted.named(path):
        return read([layer.arrays for layer in layers], mode, direction=layers[0].direction)


def _differ(what: str, values: Mapping[str, Any], choices: Choices) -> Mistake:
    """The error for layers that are no stack; the values go by the layers' names."""
    each = ", ".join(f"{untrusted.shown(name)} {value}" for name, value in values.items())
    return Mistake(
        f"All layers of a stack must have the same {what}, as cuDNN's networks have; got "
        f"{each}. {choices.face.read} each of them alone."
    )


def _units_of(layer: keras_file.Layer) -> int:
    """Of an array, or its header; 0 if it has no such shape."""
    shape = tuple(layer.arrays[1].shape) if len(layer.arrays) > 1 else ()
    return shape[0] if shape else 0


def _alone(chosen: list[str], networks: set[str]) -> bool:
    """Whether a network is chosen, which is alone."""
    if len(chosen) > 1 and not networks.isdisjoint(chosen):
        raise Mistake("A CudnnRNN layer is a network of its own: choose it alone.")
    return chosen[0] in networks


class _KerasParts(NamedTuple):
    """What of a file of Keras 3 is chosen.

    Attributes:
      chosen: the paths of the layers.
      headers: of the arrays of these, by their paths.
      is_network: whether it is one CudnnRNN layer.
      configs: of these layers, by path, as far as the model's config names them.
      model: the model's config; None if there is none.
    """

    chosen: list[str]
    headers: dict[str, untrusted.ArrayHeader]
    is_network: bool
    configs: dict[str, Any]
    model: Any


def _keras_parts(kind: Kind, path: str, choices: Choices) -> _KerasParts:
    config = keras_file.read_config(path) if kind is Kind.KERAS else None
    names = keras_file.named_layers(config)
    headers = keras_file.read_array_headers(path)
    layers = keras_file.layers(headers)
    networks = keras_file.networks(headers)
    every = {**layers, **networks}
    named: dict[str, keras_file.Named] = {}
    aliases: dict[str, set[str]] = {}
    for name, layer in names:
        if layer.path in every:
            named[layer.path] = layer
            aliases.setdefault(name, set()).add(layer.path)
    # The names that Keras gives go before paths, where they tell layers from each other.
    shown = {path: name for name, [path, *more] in aliases.items() if not more}
    chosen = _chosen(every, choices, "recurrent layer", aliases, shown)
    configs = {name: named[name].config for name in chosen if name in named}
    for name, layer_config in configs.items():
        _check_config(name, layer_config, path)
    wanted = [array for name in chosen for array in keras_file.names_of(name, headers)]
    some = {name: headers[name] for name in wanted}
    is_network = _alone(chosen, set(networks))
    return _KerasParts(chosen, some, is_network, configs, config)


def _check_config(name: str, config: Mapping[str, Any] | None, path: str) -> None:
    """Raises Mistake if a layer is another network, which weights alone do not tell."""
    if config and (reason := keras_config.network_obstacle(config)):
        all_the_same = ""
        if keras_config.weights_are_of_use(reason):
            reader = "from_keras_cudnn" if keras_config.names_legacy(config) else "from_keras"
            all_the_same = (
                " To take them all the same, pass the layer's get_weights() to "
                f"tf_cudnn_rnn.weights.{reader}."
            )
        raise Mistake(
            f"{untrusted.shown(name)} in {path} is no network of cuDNN: {reason}. Its weights "
            f"would compute something else in another library.{all_the_same}"
        )


def _modes_of(configs: Mapping[str, Any], choices: Choices) -> set[RnnMode]:
    """The mode of the simple RNNs among layers, as their configs tell; one at most."""
    modes = keras_config.simple_modes(configs.values())
    if len(modes) > 1:
        each = {name: keras_config.simple_modes([layer]) for name, layer in configs.items()}
        told = {name: ", ".join(of) for name, of in each.items() if of}
        raise _differ("activation", told, choices)
    return modes


def _read_keras(kind: Kind, path: str, choices: Choices) -> Canonical:
    _needs(kind, (Kind.KERAS, Kind.KERAS_3_H5, Kind.KERAS_2_H5), "keras", choices)
    if kind is Kind.KERAS_2_H5:
        return _read_keras_2(path, choices, legacy=False)
    parts = _keras_parts(kind, path, choices)
    arrays = keras_file.read_arrays(path, list(parts.headers))
    if parts.is_network:
        (name,) = parts.chosen
        where = f"{untrusted.shown(name)} in {path}"
        layout, params = keras_file.params_of(keras_file.networks(arrays)[name], where)
        return vectors.of_layout(params, layout)
    layers = keras_file.layers(arrays)
    if len(parts.configs) == len(parts.chosen):
        modes = _modes_of(parts.configs, choices)
    else:
        modes = keras_config.simple_modes([parts.model])
    return _read_stack({name: layers[name] for name in parts.chosen}, choices, modes, path)


def _measure_keras(kind: Kind, path: str, choices: Choices) -> int:
    if kind in (Kind.KERAS, Kind.KERAS_3_H5):
        return _bytes_of(_keras_parts(kind, path, choices).headers.values())
    return 0  # of Keras 2, whose files are read whole


def _read_keras_2(path: str, choices: Choices, legacy: bool) -> Canonical:
    known = set((keras_config.LEGACY_LAYERS if legacy else keras_config.LAYERS).values())
    found = {}
    for layer in hdf5.read_headers(path):
        bare = keras_config.bare(layer.class_name)
        # A file of weights alone does not tell classes.
        if bare in known or (not bare and layer.name in (choices.layer or [layer.name])):
            found[layer.name] = layer
    chosen = _chosen(found, choices, "such layer")
    for name in chosen:
        _check_config(name, found[name].config, path)
    arrays = {layer.name: layer.arrays for layer in hdf5.read(path, chosen)}
    stack = [keras_format.KerasLayer(found[name].class_name, arrays[name]) for name in chosen]
    # Where no class is told, the number of arrays is.
    is_wrapped = keras_config.is_wrapped(stack[0].class_name) or len(stack[0].arrays) > 3
    direction: Direction = "bidirectional" if is_wrapped else _direction(choices)
    if choices.direction not in (None, direction):
        raise Mistake(
            f"{choices.face.says('direction', choices.direction)} must be what the file says: "
            f"{untrusted.shown(chosen[0])} is {direction}."
        )
    recurrent = stack[0].arrays[1] if len(stack[0].arrays) > 1 else np.zeros([0])
    modes = _modes_of({name: found[name].config for name in chosen}, choices)
    mode = _mode_of_keras(recurrent, choices, modes, path)
    read = keras_format.from_keras_cudnn if legacy else keras_format.from_keras
    with untrusted.named(path):
        return read(stack, mode, direction=direction)


def _read_keras_cudnn(kind: Kind, path: str, choices: Choices) -> Canonical:
    _needs(kind, (Kind.KERAS_2_H5,), "keras-cudnn", choices)
    return _read_keras_2(path, choices, legacy=True)


def _read_onnx(kind: Kind, path: str, choices: Choices) -> Canonical:
    _needs(kind, (Kind.ONNX,), "onnx", choices)
    every = onnx_file.read_nodes(path)
    nodes = {node.name: node for node in every}
    if len(nodes) < len(every):
        counts = collections.Counter(node.name for node in every)
        twice = next(name for name, count in counts.items() if count > 1)
        raise Mistake(
            f"The nodes of {path} must have names of their own; several have the name "
            f"{untrusted.shown(twice) or '(empty)'}."
        )
    if not choices.layer and (breaks := onnx_file.breaks_of(every)):
        first, second = (untrusted.shown(node.name) for node in breaks[0])
        raise Mistake(
            f"The nodes of {path} are no stack, as the output of {first} is not the input of "
            f"{second}: choose with {choices.face.says('layer', 'NAME')}; several make a stack."
        )
    every_one = dataclasses.replace(choices, layer=choices.layer or tuple(nodes))
    chosen = _chosen(nodes, every_one, "node LSTM, GRU or RNN")
    with untrusted.named(path):
        return onnx.from_onnx([nodes[name].as_arrays() for name in chosen])


def _read_mxnet(kind: Kind, path: str, choices: Choices) -> Canonical:
    vector = _array(_npz(kind, path, "mxnet", choices), VECTORS["mxnet"], path)
    arguments = _vector_arguments(choices)
    with untrusted.named(path):
        return vectors.from_mxnet(vector, **arguments, num_proj=choices.num_proj or 0)


def _read_cntk(kind: Kind, path: str, choices: Choices) -> Canonical:
    matrix = _array(_npz(kind, path, "cntk", choices), VECTORS["cntk"], path)
    arguments = _vector_arguments(choices)
    with untrusted.named(path):
        return vectors.from_cntk(matrix, **arguments)


def _variables(kind: Kind, path: str, name: str, choices: Choices) -> Mapping[str, Array]:
    _needs(kind, (Kind.CHECKPOINT, Kind.NPZ), name, choices)
    return checkpoint.Variables(path) if kind is Kind.CHECKPOINT else npz.read_npz(path)


def _measure_npz(kind: Kind, path: str, choices: Choices) -> int:
    del choices
    return _bytes_of(npz.read_npz_headers(path).values()) if kind is Kind.NPZ else 0


def _checkpoint_parts(
    kind: Kind, path: str, choices: Choices
) -> tuple[checkpoint.Variables, dict[str, variables.Part]]:
    """What of a checkpoint is chosen, by name."""
    _needs(kind, (Kind.CHECKPOINT, Kind.SAVED_MODEL), "checkpoint", choices)
    every = variables.opened(kind, path)
    with untrusted.named(path):
        parts = variables.find(kind, path, every)
    cells = {network.cell for network in tf1_format.networks(every)}
    if not parts and kind is Kind.CHECKPOINT and (cells or tf1_format.opaque_keys(every)):
        name = "tf1-lstm-cell" if cells and cells <= {*tf1_format.LSTM_CELLS} else "tf1-cudnn"
        raise Mistake(
            f"The checkpoint is one of TensorFlow 1: pass {choices.face.says('format', name)}."
        )
    aliases: dict[str, set[str]] = {}
    for name, part in parts.items():
        for alias in part.aliases:
            aliases.setdefault(alias, set()).add(name)
    chosen = _chosen(parts, choices, "recurrent layer", aliases)
    _alone(chosen, {name for name, part in parts.items() if part.layout})
    return every, {name: parts[name] for name in chosen}


def _read_checkpoint(kind: Kind, path: str, choices: Choices) -> Canonical:
    every, parts = _checkpoint_parts(kind, path, choices)
    first = next(iter(parts.values()))
    with untrusted.named(path):
        if first.layout is not None:
            return vectors.of_layout(every[first.keys[0]], first.layout)
        stack = {
            name: keras_file.Layer(part.direction, [every[key] for key in part.keys])
            for name, part in parts.items()
        }
    modes = variables.modes(path) if kind is Kind.SAVED_MODEL else set()
    return _read_stack(stack, choices, {mode for mode in modes if GATES[mode] == ("",)}, path)


def _measure_checkpoint(kind: Kind, path: str, choices: Choices) -> int:
    every, parts = _checkpoint_parts(kind, path, choices)
    return sum(every.nbytes(key) for part in parts.values() for key in part.keys)


def _read_tf1_cudnn(kind: Kind, path: str, choices: Choices) -> Canonical:
    found = _variables(kind, path, "tf1-cudnn", choices)
    if _is_opaque(found, choices):
        arguments = _vector_arguments(choices)
        layout = Layout(**arguments, num_proj=choices.num_proj or 0)
        with untrusted.named(path):
            return tf1_format.from_tf1_cudnn(
                found, layout.rnn_mode, scope=choices.scope, layout=layout
            )
    sizes = {"num_layers", "num_units", "input_size", "direction", "num_proj"}
    used = {*choices.given()} - sizes
    choices.face.check_used(choices.given(), used, "the variables tell the sizes of the network")
    # A simple RNN's keys do not tell which.
    modes: tuple[RnnMode, ...] = ("lstm", "gru")
    told = [mode for mode in modes if any(tf1_format.CUDNN_CELLS[mode] in key for key in found)]
    mode: RnnMode = choices.rnn_mode or (told[0] if len(told) == 1 else _mode(choices))
    with untrusted.named(path):
        return tf1_format.from_tf1_cudnn(found, mode, scope=choices.scope)


def _is_opaque(variables: Iterable[str], choices: Choices) -> bool:
    """Whether what is chosen of TensorFlow 1's variables is a vector, which tells no sizes."""
    keys = list(variables)
    opaque = {key.rpartition("/")[0] for key in tf1_format.opaque_keys(keys)}
    if choices.scope is not None:
        return choices.scope in opaque
    cells = {network.cell for network in tf1_format.networks(keys)}
    return bool(opaque) and cells.isdisjoint(tf1_format.CUDNN_CELLS.values())


def _read_tf1_lstm_cell(kind: Kind, path: str, choices: Choices) -> Canonical:
    found = _variables(kind, path, "tf1-lstm-cell", choices)
    forget_bias = 1.0 if choices.forget_bias is None else choices.forget_bias
    with untrusted.named(path):
        return tf1_format.from_tf1_lstm_cell(found, forget_bias=forget_bias, scope=choices.scope)


_NETWORK = ("rnn_mode", "num_layers", "num_units", "input_size", "direction")

READERS = {
    "params": Reader(_read_params, (*_NETWORK, "input_mode", "num_proj"), _measure_npz),
    "canonical": Reader(_read_canonical, (), _measure_npz),
    "runtime": Reader(_read_runtime, (), _measure_runtime),
    "torch": Reader(_read_torch, ("rnn_mode", "prefix"), _measure_torch),
    "keras": Reader(_read_keras, ("rnn_mode", "layer", "direction"), _measure_keras),
    "keras-cudnn": Reader(_read_keras_cudnn, ("rnn_mode", "layer", "direction")),
    "onnx": Reader(_read_onnx, ("layer",)),
    "mxnet": Reader(_read_mxnet, (*_NETWORK, "num_proj"), _measure_npz),
    "cntk": Reader(_read_cntk, _NETWORK, _measure_npz),
    "tf1-cudnn": Reader(_read_tf1_cudnn, (*_NETWORK, "num_proj", "scope")),
    "tf1-lstm-cell": Reader(_read_tf1_lstm_cell, ("forget_bias", "scope")),
    "checkpoint": Reader(_read_checkpoint, ("rnn_mode", "layer"), _measure_checkpoint),
}


def choices_of(kind: Kind, path: str, name: str) -> set[str]:
    """The choices that a format's reader uses for this file."""
    used = set(READERS[name].choices)
    if kind is Kind.NPZ and name == "params" and _HEADER in npz.read_npz_names(path):
        return set()  # the header tells all
    if name == "keras" and kind is not Kind.KERAS_2_H5:
        used.discard("direction")  # which these files tell
    return used


def guess(kind: Kind, path: str, choices: Choices) -> str:
    """The format of a file, by its kind and contents.

    Raises:
      Mistake: it may be several, or none.
    """
    if kind in (Kind.KERAS, Kind.KERAS_3_H5):
        return "keras"
    if kind is Kind.KERAS_2_H5:
        layers = hdf5.read_headers(path)
        chosen = [layer for layer in layers if layer.name in (choices.layer or [layer.name])]
        has_legacy = any(keras_config.is_legacy(each.class_name, each.arrays) for each in chosen)
        if has_legacy and any(_is_recurrent(layer.class_name) for layer in chosen):
            says = choices.face.says
            raise Mistake(
                f"Pass {says('format', 'keras')} or {says('format', 'keras-cudnn')}; the file has "
                "both."
            )
        return "keras-cudnn" if has_legacy else "keras"
    if kind is Kind.SAFETENSORS:
        return "torch"
    if kind is Kind.RUNTIME:
        return "runtime"
    if kind is Kind.ONNX:
        return "onnx"
    if kind in (Kind.CHECKPOINT, Kind.SAVED_MODEL):
        return "checkpoint"
    if kind is Kind.NPZ:
        names = npz.read_npz_names(path)
        if _HEADER in names:
            return "params" if VECTORS["params"] in names else "canonical"
        if torch_format.networks(dict.fromkeys(names)):
            return "torch"
        for name, key in VECTORS.items():
            if key in names:
                return name
        raise Mistake(
            f"Pass {choices.face.names['format']}; {path} holds "
            f"{base.listed(names) or 'nothing'}, which may be anything."
        )
    raise AssertionError(kind)


def _is_recurrent(class_name: str) -> bool:
    return keras_config.bare(class_name) in keras_config.LAYERS.values()


class Found(NamedTuple):
    """A file, and how to read it.

    Attributes:
      kind, path: see `kinds.recognise`.
      format: a name of READERS.
      choices: all of which are of use.
    """

    kind: Kind
    path: str
    format: str
    choices: Choices

    @property
    def is_of_the_runtime(self) -> bool:
        """Whether the library of tf_cudnn_rnn.runtime reads it."""
        return self.kind is Kind.RUNTIME and self.format == "runtime"

    def read(self) -> Canonical:
        """Reads the network that was chosen.

        Raises:
          ImportError: something that is needed for that is not installed.
          OSError: it cannot be opened.
          ValueError: it is damaged, or the choices do not fit it; the text names the file.
        """
        with _refusing(self.path):
            return READERS[self.format].read(self.kind, self.path, self.choices)


@contextlib.contextmanager
def _refusing(path: str) -> Iterator[None]:
    """Makes each Mistake a ValueError that names the file."""
    with untrusted.named(path):
        try:
            yield
        except Mistake as error:
            raise ValueError(str(error)) from None


def find(path: str | os.PathLike[str], choices: Choices) -> Found:
    """Tells how to read a file.

    Raises:
      ImportError: something that is needed to tell is not installed.
      OSError: it cannot be opened.
      ValueError: it is of no kind that is known, or a choice has no such value, or would change
        nothing.
    """
    known: dict[str, Collection[str]] = {
        "format": READERS,
        "rnn_mode": GATES,
        "direction": DIRECTIONS,
        "input_mode": INPUT_MODES,
    }
    for choice, values in known.items():
        value = getattr(choices, choice)
        if value is not None and (not isinstance(value, str) or value not in values):
            raise ValueError(f"`{choice}` must be one of {', '.join(values)}; got {value!r}.")
    kind, place = kinds.recognise(os.fsdecode(path))
    with _refusing(place):
        name = choices.format or guess(kind, place, choices)
        used = choices_of(kind, place, name)
        choices.face.check_used(choices.given(), used, f"this file is read as {name}")
    return Found(kind, place, name, choices)
