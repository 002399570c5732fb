"""Reads the files of PyTorch and ONNX."""

import collections
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from tf_cudnn_rnn._files import chosen
from tf_cudnn_rnn._files.choices import Choices, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import npz, onnx, onnx_file, safetensors, untrusted
from tf_cudnn_rnn._formats import torch as torch_format
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._types import RnnMode


def _torch_network(
    kind: Kind, path: str, choices: Choices
) -> tuple[str, dict[tuple[str, int, bool], untrusted.ArrayHeader]]:
    """The prefix of the network that was selected, or of the only one; and its headers."""
    chosen.check_kind(kind, (Kind.SAFETENSORS, Kind.NPZ), "torch", choices)
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


def read_torch(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads a network of PyTorch."""
    prefix, network = _torch_network(kind, path, choices)
    mode: RnnMode | None = choices.rnn_mode
    matrix = network.get(("weight_hh", 0, False))
    projection = network.get(("weight_hr", 0, False))
    if mode is None and matrix is not None and len(matrix.shape) == 2:
        shape = matrix.shape if projection is None else projection.shape
        mode = chosen.mode(choices, chosen.gates_of(matrix.shape[:1], shape[-1] if shape else 0))
    read = safetensors.read_some_safetensors if kind is Kind.SAFETENSORS else npz.read_some_npz
    arrays = read(path, functools.partial(torch_format.is_at, prefix))
    mode = mode or chosen.mode(choices)
    with untrusted.named(path):
        return torch_format.from_torch(arrays, mode, prefix=prefix)


def measure_torch(kind: Kind, path: str, choices: Choices) -> int:
    """The bytes of what `read_torch` reads."""
    return sum(header.nbytes for header in _torch_network(kind, path, choices)[1].values())


def read_onnx(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads nodes of ONNX as one network."""
    chosen.check_kind(kind, (Kind.ONNX,), "onnx", choices)
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
    selected = chosen.layers(nodes, every_one, "node LSTM, GRU or RNN")
    with untrusted.named(path):
        return onnx.from_onnx([nodes[name].as_arrays() for name in selected])
