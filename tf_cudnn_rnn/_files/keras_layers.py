"""Reads layers of Keras, from its own files, and from others that have the same arrays."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._files import chosen
from tf_cudnn_rnn._files.choices import Choices, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import hdf5, keras_config, keras_file, untrusted, vectors
from tf_cudnn_rnn._formats import keras as keras_format
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._types import Array, Direction, RnnMode


class _Parts(NamedTuple):
    """What is chosen of a file of Keras 3.

    Attributes:
      selected: the paths of the layers.
      headers: of the arrays of these, by their paths.
      is_network: whether it is one CudnnRNN layer.
      configs: of these layers, by path, as far as the model's config names them.
      unnamed_modes: of the simple RNNs in the model's config of which it does not tell where their
        weights are, and which any other layer may be.
    """

    selected: list[str]
    headers: dict[str, untrusted.ArrayHeader]
    is_network: bool
    configs: dict[str, Any]
    unnamed_modes: set[RnnMode]


def _parts(kind: Kind, path: str, choices: Choices) -> _Parts:
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
    selected = chosen.layers(every, choices, "recurrent layer", aliases, shown)
    configs = {name: named[name].config for name in selected if name in named}
    for name, layer_config in configs.items():
        _check_config(shown.get(name, name), layer_config, path)
    wanted = [array for name in selected for array in keras_file.names_of(name, headers)]
    some = {name: headers[name] for name in wanted}
    unnamed_modes = keras_config.simple_modes([config], [layer.config for layer in named.values()])
    return _Parts(selected, some, is_network(selected, set(networks)), configs, unnamed_modes)


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


def read(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads layers of today's classes, and CudnnRNN layers."""
    chosen.check_kind(kind, (Kind.KERAS, Kind.KERAS_3_H5, Kind.KERAS_2_H5), "keras", choices)
    if kind is Kind.KERAS_2_H5:
        return _read_2(path, choices, legacy=False)
    parts = _parts(kind, path, choices)
    arrays = keras_file.read_arrays(path, list(parts.headers))
    if parts.is_network:
        (name,) = parts.selected
        where = f"{untrusted.shown(name)} in {path}"
        layout, params = keras_file.params_of(keras_file.networks(arrays)[name], where)
        return vectors.of_layout(params, layout)
    layers = keras_file.layers(arrays)
    modes = _modes_of(parts.configs, choices)
    if len(parts.configs) < len(parts.selected):
        modes |= parts.unnamed_modes
    return read_stack({name: layers[name] for name in parts.selected}, choices, modes, path)


def measure(kind: Kind, path: str, choices: Choices) -> int:
    """The bytes of what `read` reads; 0 where that is not known before."""
    if kind in (Kind.KERAS, Kind.KERAS_3_H5):
        return sum(header.nbytes for header in _parts(kind, path, choices).headers.values())
    return 0  # files of Keras 2 are read whole


def _read_2(path: str, choices: Choices, legacy: bool) -> Canonical:
    known = set((keras_config.LEGACY_LAYERS if legacy else keras_config.LAYERS).values())
    found = {}
    for layer in hdf5.read_headers(path):
        bare = keras_config.bare(layer.class_name)
        # A file of weights alone does not tell classes.
        is_wanted = layer.is_one and layer.name in (choices.layer or [layer.name])
        if bare in known or (not bare and is_wanted):
            found[layer.name] = layer
    selected = chosen.layers(found, choices, "such layer")
    for name in selected:
        _check_config(name, found[name].config, path)
    arrays = {layer.name: layer.arrays for layer in hdf5.read(path, selected)}
    stack = [keras_format.KerasLayer(found[name].class_name, arrays[name]) for name in selected]
    # Where no class is told, the number of arrays is.
    is_wrapped = keras_config.is_wrapped(stack[0].class_name) or len(stack[0].arrays) > 3
    direction: Direction = "bidirectional" if is_wrapped else chosen.direction(choices)
    if choices.direction not in (None, direction):
        raise Mistake(
            f"{choices.face.says('direction', choices.direction)} must be what the file says: "
            f"{untrusted.shown(selected[0])} is {direction}."
        )
    recurrent = stack[0].arrays[1] if len(stack[0].arrays) > 1 else np.zeros([0])
    modes = _modes_of({name: found[name].config for name in selected}, choices)
    mode = _mode_of(recurrent, choices, modes, path)
    read = keras_format.from_keras_cudnn if legacy else keras_format.from_keras
    with untrusted.named(path):
        return read(stack, mode, direction=direction)


def read_cudnn(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads layers of the classes CuDNNLSTM and CuDNNGRU."""
    chosen.check_kind(kind, (Kind.KERAS_2_H5,), "keras-cudnn", choices)
    return _read_2(path, choices, legacy=True)


def _mode_of(recurrent: Array, choices: Choices, modes: set[RnnMode], path: str) -> RnnMode:
    """The mode of a layer; of a simple RNN, what the file says, if that is one thing.

    Args:
      recurrent: its recurrent kernel.
      choices: of the caller.
      modes: those of the simple RNNs that it may be one of, as far as the file tells.
      path: of the file.
    """
    gates = _gates_of(recurrent)
    modes = modes if gates == 1 else set()
    if modes and choices.rnn_mode is not None and choices.rnn_mode not in modes:
        raise Mistake(
            f"{choices.face.names['rnn_mode']} must be {' or '.join(sorted(modes))}, as the model "
            f"in {path} says; got {choices.rnn_mode}."
        )
    return modes.pop() if len(modes) == 1 else chosen.mode(choices, gates)


def _gates_of(recurrent: Array) -> int:
    """How many gates a layer's recurrent kernel, [H, G*H], has; 0 if it is none."""
    return chosen.gates_of(recurrent.shape, recurrent.shape[0] if recurrent.ndim else 0)


def read_stack(
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
    mode = _mode_of(layers[0].arrays[1], choices, modes, path)
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


def is_network(selected: list[str], networks: set[str]) -> bool:
    """Whether a CudnnRNN layer is selected; raises Mistake if it is not alone."""
    if len(selected) > 1 and not networks.isdisjoint(selected):
        raise Mistake("A CudnnRNN layer is a network of its own: choose it alone.")
    return selected[0] in networks
