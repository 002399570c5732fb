"""Reads the files of PyTorch and ONNX."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tf_cudnn_rnn._files import chosen
from tf_cudnn_rnn._files.choices import Choices, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import (
    npz,
    onnx,
    onnx_file,
    onnx_stacks,
    safetensors,
    torch_file,
    untrusted,
)
from tf_cudnn_rnn._formats import torch as torch_format
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._types import Array, RnnMode


class _TorchFile(NamedTuple):
    """A file of PyTorch's arrays.

    Attributes:
      arrays: by name; None for those whose headers take time to read.
      headers: reads those of the names that it is asked about.
      read: likewise reads arrays.
    """

    arrays: Mapping[str, Any]
    headers: Callable[[Callable[[str], bool]], Mapping[str, Any]]
    read: Callable[[Callable[[str], bool]], dict[str, Array]]


def _torch_file(kind: Kind, path: str, choices: Choices) -> _TorchFile:
    chosen.check_kind(kind, (Kind.SAFETENSORS, Kind.NPZ, Kind.PICKLE), "torch", choices)
    if kind is Kind.NPZ:
        return _TorchFile(
            dict.fromkeys(npz.read_npz_names(path)),
            functools.partial(npz.read_npz_headers, path),
            functools.partial(npz.read_some_npz, path),
        )
    if kind is Kind.SAFETENSORS:
        headers = safetensors.read_safetensors_headers(path)
        read = functools.partial(safetensors.read_some_safetensors, path)
        return _TorchFile(headers, lambda _: headers, read)
    tensors, size = torch_file.read(path)

    def read_tensors(is_wanted: Callable[[str], bool]) -> dict[str, Array]:
        wanted = {name: tensor for name, tensor in tensors.items() if is_wanted(name)}
        return torch_file.arrays(wanted, size, path)

    # Some kinds of tensors have no shape, which arrays() finds out.
    return _TorchFile(tensors, read_tensors, read_tensors)


def _torch_prefix(file: _TorchFile, path: str, choices: Choices) -> str:
    """The prefix of the network that was chosen, or of the only one."""
    networks = torch_format.networks(file.arrays)
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
    return prefix


def read_torch(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads a network of PyTorch."""
    file = _torch_file(kind, path, choices)
    prefix = _torch_prefix(file, path, choices)
    is_wanted = functools.partial(torch_format.is_at, prefix)
    network = torch_format.networks(file.headers(is_wanted))[prefix]
    mode: RnnMode | None = choices.rnn_mode
    matrix = network.get(("weight_hh", 0, False))
    projection = network.get(("weight_hr", 0, False))
    if mode is None and matrix is not None and len(matrix.shape) == 2:
        shape = matrix.shape if projection is None else projection.shape
        mode = chosen.mode(choices, chosen.gates_of(matrix.shape[:1], shape[-1] if shape else 0))
    arrays = file.read(is_wanted)
    mode = mode or chosen.mode(choices)
    with untrusted.named(path):
        return torch_format.from_torch(arrays, mode, prefix=prefix)


def measure_torch(kind: Kind, path: str, choices: Choices) -> int:
    """The bytes of what `read_torch` reads; 0 where that is not known before."""
    if kind is Kind.PICKLE:
        return 0
    file = _torch_file(kind, path, choices)
    prefix = _torch_prefix(file, path, choices)
    headers = torch_format.networks(file.headers(functools.partial(torch_format.is_at, prefix)))
    return sum(header.nbytes for header in headers[prefix].values())


def read_onnx(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads nodes of ONNX as one network."""
    chosen.check_kind(kind, (Kind.ONNX,), "onnx", choices)
    every = onnx_file.read_nodes(path)
    if mistake := onnx_file.mistake_of_names(every):
        raise Mistake(f"{path}: {mistake}.")
    nodes = {node.name: node for node in every}
    with untrusted.named(path):
        untrusted.check_layers(len(choices.layer or every), "The network of nodes")
    if not choices.layer and (pair := onnx_stacks.first_break(every)):
        first, second = (untrusted.shown(node.name) for node in pair)
        raise Mistake(
            f"The nodes of {path} are no stack, as the output of {first} is not the input of "
            f"{second}, or not in its order of steps, rows and features: choose with "
            f"{choices.face.says('layer', 'NAME')}; several make a stack."
        )
    every_one = dataclasses.replace(choices, layer=choices.layer or tuple(nodes))
    selected = chosen.layers(nodes, every_one, "node LSTM, GRU or RNN")
    with untrusted.named(path):
        return onnx.from_onnx([nodes[name].as_arrays() for name in selected])
