"""Networks among named arrays, and in files of one network."""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias

from tf_cudnn_rnn._cli import needs, output
from tf_cudnn_rnn._cli.finders import calls
from tf_cudnn_rnn._cli.finders.found import MODE_OF_GATES, SIMPLE, Found, Look, runs_unless_refused
from tf_cudnn_rnn._files import kinds, npz_files
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import (
    npz,
    params_header,
    runtime_file,
    safetensors,
    tf1,
    untrusted,
    vectors,
)
from tf_cudnn_rnn._formats import torch as torch_format

_TorchNetwork: TypeAlias = Mapping[tuple[str, int, bool], untrusted.ArrayHeader]
_TF1_MODES = {"cudnn_compatible_gru_cell": "gru", "basic_rnn_cell": SIMPLE}  # others: lstm


def _torch(headers: Mapping[str, Any], shown_path: str) -> Iterator[Look]:
    """The networks of PyTorch among arrays, by the names and shapes of these."""
    networks = torch_format.networks(headers)
    for prefix, network in networks.items():
        given = prefix if prefix or len(networks) > 1 else None
        yield functools.partial(_torch_network, prefix, network, shown_path, given)


def _torch_network(
    prefix: str, network: _TorchNetwork, shown_path: str, given: str | None
) -> Found:
    found = Found(prefix.removesuffix(".") or "(top level)", "PyTorch")
    found.num_layers = 1 + max(layer for _, layer, _ in network)
    found.direction = (
        "bidirectional" if any(reverse for *_, reverse in network) else "unidirectional"
    )
    found.parameters = sum(math.prod(header.shape) for header in network.values())
    found.biases = 2 if ("bias_ih", 0, False) in network else 0
    W, R, projection = (
        network.get((kind, 0, False)) for kind in ("weight_ih", "weight_hh", "weight_hr")
    )
    gates = 0
    matrices = [header for header in (W, R, projection) if header is not None]
    are_matrices = all(len(header.shape) == 2 for header in matrices)
    if W is not None and R is not None and are_matrices and R.shape[1]:
        H = R.shape[1] if projection is None else projection.shape[1]
        found.num_proj = 0 if projection is None else R.shape[1]
        found.input_size, found.num_units = W.shape[1], H
        gates = W.shape[0] // H if H and not W.shape[0] % H else 0
    found.rnn_mode = MODE_OF_GATES.get(gates)
    dtype = "" if W is None else W.dtype.name
    target = calls.vector_target(dtype) if found.num_proj else ("model.keras", "keras")
    mode = "rnn_tanh" if found.rnn_mode == SIMPLE else None
    found.how = calls.convert(shown_path, *target, prefix=given, mode=mode)
    with runs_unless_refused(found):
        _check_torch(found, network)
    return found


def _check_torch(found: Found, network: _TorchNetwork) -> None:
    """Raises ValueError if headers tell that a network cannot be read."""
    for (kind, layer, reverse), header in sorted(network.items()):
        name = f"{kind}_l{layer}{'_reverse' if reverse else ''}"
        dtype = header.dtype
        if not base.is_of_ops(dtype):
            its_type = dtype.names[0] if dtype.names else str(dtype)
            raise ValueError(f"{name} must be of floats; it is of {untrusted.shown(its_type)}")
    ways = 2 if found.direction == "bidirectional" else 1
    expected = ways * (found.num_layers or 0)
    for kind in ("weight_ih", "weight_hh"):
        if sum(key[0] == kind for key in network) != expected:
            raise ValueError(
                "there must be weight_ih and weight_hh of all of its "
                f"{output.count(found.num_layers or 0, 'layer')} and directions; some are missing"
            )
    if found.rnn_mode is None:
        raise ValueError(
            "weight_ih_l0 and weight_hh_l0 must be matrices of 1, 3 or 4 times as many rows as "
            "there are units, and weight_hr_l0 a matrix; they have other shapes"
        )
    rnn_mode: Any = "rnn_tanh" if found.rnn_mode == SIMPLE else found.rnn_mode
    torch_format.check(network, rnn_mode)


def in_safetensors(path: str, shown_path: str) -> Iterator[Look]:
    """The networks of PyTorch."""
    yield from _torch(safetensors.read_safetensors_headers(path), shown_path)


def in_runtime(path: str, shown_path: str) -> Iterator[Look]:
    """The one network."""
    yield functools.partial(_runtime_network, path, shown_path)


def _runtime_network(path: str, shown_path: str) -> Found:
    header = runtime_file.read_header(path)
    found = Found(runtime_file.ARRAY, "tf_cudnn_rnn.runtime")
    if header.has_int8_weights:
        found = Found("weights", "tf_cudnn_rnn.runtime, int8 weights")
    found.take(header.layout)
    call = "import tf_cudnn_rnn.runtime as runtime; runtime.Network.load({})"
    found.how = calls.python(call, shown_path)
    found.needs = (needs.RUNTIME,)
    return found


def in_pickle(path: str, shown_path: str) -> NoReturn:
    """Refuses: nobody can look into a pickle without loading it."""
    del shown_path
    raise ValueError(kinds.refusal_of_pickle(path, "convert it with --from torch"))


def in_npz(path: str, shown_path: str) -> Iterator[Look]:
    """Networks of PyTorch and of TensorFlow 1, this library's own, and vectors."""
    headers = npz.read_npz_headers(path)
    yield from _torch(headers, shown_path)
    yield from in_tf1({key: header.shape for key, header in headers.items()}, shown_path)
    if params_header.NPZ_KEY in headers:
        yield functools.partial(_npz_network, path, headers, shown_path)
        return
    for kind, name in npz_files.VECTORS.items():
        if name in headers:
            yield functools.partial(_npz_vector, kind, name, headers[name], shown_path)


def _npz_network(path: str, headers: Mapping[str, Any], shown_path: str) -> Found:
    key = params_header.NPZ_KEY
    header = npz.read_some_npz(path, lambda name: name == key)[key]
    layout, name = params_header.from_text(header.tobytes(), f"header in {path}")
    found = Found(name or "params", "tf_cudnn_rnn")
    found.take(layout)
    target = ("model.safetensors", "torch") if layout.has_projection else ("model.keras", "keras")
    found.how = calls.convert(shown_path, *target)
    arrays = {name: header for name, header in headers.items() if name != key}
    vector = arrays.get(npz_files.VECTORS["params"])
    with runs_unless_refused(found):
        if vector is None:
            base.check_dtypes(arrays)
        else:
            vectors.check_vector(vector, "params", "cuDNN's weight space", layout)
    return found


def _npz_vector(kind: str, name: str, header: untrusted.ArrayHeader, shown_path: str) -> Found:
    found = Found(name, f"vector ({kind})")
    found.parameters = math.prod(header.shape)
    found.how = _convert_vector(shown_path, kind)
    with runs_unless_refused(found):
        base.check_dtypes({name: header})
    return found


def in_tf1(shapes: Mapping[str, Sequence[int]], shown_path: str) -> Iterator[Look]:
    """Networks of TensorFlow 1, by the keys of their variables."""
    every = tf1.networks(shapes)
    for network in every:
        scope = network.scope if len(every) > 1 else None
        yield functools.partial(_tf1_network, network, shapes, scope, shown_path)
    opaque = tf1.opaque_keys(shapes)
    # Without a scope, one whose sizes are known goes before.
    cells = {network.cell for network in every}
    needs_scope = len(opaque) > 1 or not cells.isdisjoint(tf1.CUDNN_CELLS.values())
    for key in opaque:
        yield functools.partial(_tf1_vector, key, shapes[key], needs_scope, shown_path)


def _tf1_vector(key: str, shape: Sequence[int], needs_scope: bool, shown_path: str) -> Found:
    found = Found(key, "vector (tf1-cudnn)")
    found.parameters = math.prod(shape)
    scope = {"scope": key.rpartition("/")[0]} if needs_scope else {}
    found.how = _convert_vector(shown_path, "tf1-cudnn", **scope)
    return found


def _convert_vector(shown_path: str, kind: str, **options: str | None) -> str:
    """The command that converts a vector, which does not tell the network's sizes."""
    sizes = {"mode": "MODE", "layers": "L", "units": "H", "input_size": "I"}
    return calls.convert(shown_path, "model.keras", "keras", source_format=kind, **sizes, **options)


def _tf1_network(
    network: tf1.Network, shapes: Mapping[str, Sequence[int]], scope: str | None, shown_path: str
) -> Found:
    kind = "tf1-lstm-cell" if network.cell in tf1.LSTM_CELLS else "tf1-cudnn"
    found = Found(network.scope or "(top level)", f"TensorFlow 1 ({kind})")
    found.rnn_mode = _TF1_MODES.get(network.cell, "lstm")
    found.num_layers = network.num_layers
    found.direction = "bidirectional" if network.is_bidirectional else "unidirectional"
    found.parameters = sum(math.prod(shapes[key]) for key in network.keys)
    _take_tf1_sizes(found, {leaf: [*shapes[key]] for leaf, key in network.first.items()})
    options = {"scope": scope}
    if kind == "tf1-cudnn":
        options["mode"] = "rnn_tanh" if found.rnn_mode == SIMPLE else found.rnn_mode
    found.how = calls.convert(shown_path, "params.npz", "params", source_format=kind, **options)
    return found


def _take_tf1_sizes(found: Found, leaves: Mapping[str, list[int]]) -> None:
    """Takes over what the shapes of the first layer's variables tell, if they fit each other."""
    # Of a GRU's three gates the last has variables of its own.
    of, gates = {"lstm": ("", 4), "gru": ("gates/", 2)}.get(found.rnn_mode or "", ("", 1))
    kernel, bias = leaves.get(f"{of}kernel"), leaves.get(f"{of}bias")
    projection = leaves.get("projection/kernel")
    if not kernel or not bias or len(kernel) != 2 or len(bias) != 1 or kernel[1] != bias[0]:
        return
    H = bias[0] // gates
    P = H if projection is None else projection[-1] if len(projection) == 2 else 0
    if bias[0] % gates == 0 and 0 < P < kernel[0] and H:
        found.num_units, found.input_size = H, kernel[0] - P
        found.num_proj = P if projection is not None else 0
