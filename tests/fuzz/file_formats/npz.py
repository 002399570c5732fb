"""`.npz` files; NumPy judges."""

import pathlib
import random
import struct

import numpy as np

from tests.fuzz.file_formats import command_line, mutations
from tests.fuzz.file_formats.format import Format, mode_of, refuses, written
from tests.weights import golden
from tf_cudnn_rnn import weights
from tf_cudnn_rnn.weights import OnnxNode


def _read(content: bytes, seed: str) -> str:
    path = written(content, "model.npz")
    command_line.read(path)
    try:
        arrays = weights.read_npz(path)
    except (ValueError, OSError) as error:
        return refuses(error, path)
    with np.load(path, allow_pickle=False) as file:  # known to be small now
        assert set(file.files) == set(arrays)
        for name, array in arrays.items():
            other = file[name]
            assert array.dtype == other.dtype and array.shape == other.shape, name
            assert array.tobytes() == other.tobytes(), name
    try:
        canonical = _convert(arrays, seed, path)
    except (ValueError, OSError) as error:
        return refuses(error, "")
    assert canonical is None or canonical.params.size == canonical.layout.size
    return "read"


def _convert(arrays: dict, seed: str, path: str) -> weights.Canonical | None:
    """Hands the arrays to the converter that they are for."""
    folder, stem = pathlib.Path(seed).parts[-2], pathlib.Path(seed).stem
    mode = mode_of(seed)
    proj = 2 if "proj" in stem else 0
    both = "unidirectional" if mode == "rnn_tanh" else "bidirectional"
    if folder == "torch":
        return weights.from_torch(path, mode)
    if folder == "mxnet":
        vector = arrays.get("parameters")
        units = 5 if proj else 4
        return weights.from_mxnet(vector, mode, 2, units, 3, direction=both, num_proj=proj)
    if folder == "cntk":
        return weights.from_cntk(arrays.get("matrix"), mode, 2, 4, 3, direction=both)
    if folder in ("keras", "tf_keras"):
        layers = [
            [array for key, array in sorted(arrays.items()) if key.startswith(f"layer_{i}/")]
            for i in range(2)
        ]
        direction = "bidirectional" if "bidirectional" in stem else "unidirectional"
        return weights.from_keras(layers, mode, direction=direction)
    if folder == "onnx":
        return weights.from_onnx([_onnx_node(arrays, i) for i in range(2)])
    if folder == "tf1" and "converter" in stem:
        params = arrays.get("params")
        return weights.from_cudnn(params, mode, 2, 4, 3, direction=both, num_proj=proj)
    if folder == "tf1":
        variables = golden.under(arrays, "variables/")
        if stem.startswith("cudnn"):
            mode = {"cudnn_tanh": "rnn_tanh", "cudnn_relu_bidirectional": "rnn_relu"}.get(
                stem, mode
            )
            return weights.from_tf1_cudnn(variables, mode)
        return weights.from_tf1_lstm_cell(variables)
    return None


def _onnx_node(arrays: dict, index: int) -> OnnxNode:
    node = golden.under(arrays, f"node_{index}/")
    attributes = {key: value.tolist() for key, value in golden.under(node, "attribute/").items()}
    op_type = node.get("op_type")
    op_type = op_type.item() if op_type is not None and op_type.size == 1 else op_type
    return OnnxNode(op_type, attributes, node.get("W"), node.get("R"), node.get("B"))


def _mutate(rng: random.Random, content: bytes) -> bytes:
    """Changes a member, mostly its header, which is what tells of sizes and types."""

    def change(member: bytes) -> bytes:
        head = 10 + struct.unpack("<H", member[8:10])[0]
        if rng.random() < 0.8:
            return mutations.mutate(rng, member[:head]) + member[head:]
        return mutations.mutate(rng, member)

    return mutations.mutate_member(rng, content, change)


FORMATS = {"npz": Format(_read, ("*/*.npz",), _mutate)}
