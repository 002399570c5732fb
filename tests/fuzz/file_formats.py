"""What the fuzzer of files needs to know of each format: seeds, how to read, and who judges.

A target reads the content of a file, which may be anything. It returns what became of it: "read"
or "refused", and raises whatever is a finding. A file that is read must hold what another reader
finds in it, and a refusal must name the file.
"""

import functools
import io
import json
import pathlib
import random
import struct
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import h5py
import numpy as np
import safetensors

from tests.weights import golden
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._formats import hdf5, params_header
from tf_cudnn_rnn.weights import OnnxNode

CORPUS = pathlib.Path(__file__).parent / "corpus"
# What this library wrote, as tests/golden has files of others.
_SEEDS = pathlib.Path(__file__).parent / "seeds"
_WHERE = "params_header of a checkpoint"
_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Format(NamedTuple):
    """A format of files.

    Attributes:
      read: the target.
      golden: patterns of files in tests/golden that are its seeds.
      mutate: changes a file such that it still looks like one; None if nothing need be kept.
      forks: whether each read is to have a process of its own, as the library does it.
    """

    read: Callable[[bytes, str], str]
    golden: tuple[str, ...]
    mutate: Callable[[random.Random, bytes], bytes] | None = None
    forks: bool = False


@functools.cache
def golden_files(name: str) -> dict[str, bytes]:
    """What libraries wrote in a format, by path."""
    golden_paths = [
        path for pattern in FORMATS[name].golden for path in golden.FOLDER.glob(pattern)
    ]
    return _contents([*golden_paths, *(_SEEDS / name).glob("*")])


@functools.cache
def corpus(name: str) -> dict[str, bytes]:
    """What was found worth to be kept of a format, by path."""
    return _contents((CORPUS / name).glob("*"))


def _contents(paths: Iterable[pathlib.Path]) -> dict[str, bytes]:
    root = golden.FOLDER.parent
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(paths)}


@functools.cache
def _scratch(suffix: str) -> str:
    """The path of a file, one for each process and suffix; whoever starts these removes it."""
    return tempfile.mkdtemp() + "/model" + suffix


def _written(content: bytes, suffix: str) -> str:
    path = _scratch(suffix)
    with open(path, "wb") as file:
        file.write(content)
    return path


def _refuses(error: Exception, *places: str) -> str:
    """Checks the text of a refusal."""
    text = str(error)
    assert any(place in text for place in places), f"it does not say where: {text}"
    assert len(text) < 3000, f"it is {len(text)} characters long"
    return "refused"


# ------------------------------------------------------------------------------------
# .safetensors
# ------------------------------------------------------------------------------------


def _mode(name: str) -> str:
    stem = pathlib.Path(name).stem
    found = [mode for mode in ("rnn_tanh", "rnn_relu", "gru") if mode in stem]
    return {"model": "gru"}.get(stem, found[0] if found else "lstm")


def _read_safetensors(content: bytes, seed: str) -> str:
    path = _written(content, ".safetensors")
    try:
        arrays = weights.read_safetensors(path)
    except (ValueError, OSError) as error:
        return _refuses(error, path)
    # What is read here the reference implementation reads, too, and finds the same.
    for name, entry in safetensors.deserialize(content):
        array = arrays.pop(name)
        assert list(array.shape) == entry["shape"], name
        assert array.tobytes() == bytes(entry["data"]), name
    assert not arrays, f"only here there is {list(arrays)}"
    try:
        canonical = weights.from_torch(path, _mode(seed))
    except (ValueError, OSError) as error:
        return _refuses(error, path)
    assert canonical.params.size == canonical.layout.size
    return "read"


def _mutate_safetensors(rng: random.Random, content: bytes) -> bytes:
    """Changes the header's text, or a value in it."""
    size = int.from_bytes(content[:8], "little")
    text, data = content[8 : 8 + size], content[8 + size :]
    if rng.random() < 0.5:
        text = mutate(rng, text)
    else:
        header = json.loads(text)
        names = list(header)
        entry = header[rng.choice(names)]
        key = rng.choice(list(entry))
        entry[key] = rng.choice([*_ODD_VALUES, entry[key], header[rng.choice(names)].get(key)])
        text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


_ODD_VALUES = [
    *(0, -1, 1, 8, 2**31, 2**63, 2**64, 10**30, 1.5, True, None, "F32", "BF16", "F8_E4M3"),
    *([], {}, [0], [1], [2, 4], [0, 0], [0, 8], [2**62, 4], [-1, 1], [[1]], "x" * 1000, "\ud800"),
    [1] * 65,
]


# ------------------------------------------------------------------------------------
# .npz
# ------------------------------------------------------------------------------------


def _read_npz(content: bytes, seed: str) -> str:
    path = _written(content, ".npz")
    try:
        arrays = weights.read_npz(path)
    except (ValueError, OSError) as error:
        return _refuses(error, path)
    with np.load(path, allow_pickle=False) as file:  # known to be small now
        assert set(file.files) == set(arrays)
        for name, array in arrays.items():
            other = file[name]
            assert array.dtype == other.dtype and array.shape == other.shape, name
            assert array.tobytes() == other.tobytes(), name
    try:
        canonical = _convert(arrays, seed, path)
    except (ValueError, OSError) as error:
        return _refuses(error, "")
    assert canonical is None or canonical.params.size == canonical.layout.size
    return "read"


def _convert(arrays: dict, seed: str, path: str) -> weights.Canonical | None:
    """Hands the arrays to the converter that they are for."""
    folder, stem = pathlib.Path(seed).parts[-2], pathlib.Path(seed).stem
    mode = _mode(seed)
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


def _mutate_npz(rng: random.Random, content: bytes) -> bytes:
    """Changes a member, so that the checksums are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = rng.choice(names)
        for name in names:
            member = old.read(name)
            if name == chosen:
                # Mostly the header, which is what tells of sizes and types.
                head = 10 + struct.unpack("<H", member[8:10])[0]
                if rng.random() < 0.8:
                    member = mutate(rng, member[:head]) + member[head:]
                else:
                    member = mutate(rng, member)
                name = rng.choice([name, name, name, rng.choice(names), name[:-4], "é\0" + name])
            info = zipfile.ZipInfo(name)
            info.compress_type = rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
            new.writestr(info, member)
    return out.getvalue()


# ------------------------------------------------------------------------------------
# .h5
# ------------------------------------------------------------------------------------


def _read_h5(content: bytes, seed: str) -> str:
    """Reads in this process: the caller forks, and takes a limit that ends it for a refusal."""
    path = _written(content, ".h5")
    hdf5.limit(len(content))
    stream = io.BytesIO()
    try:
        hdf5.send(path, stream)
    except (ValueError, OSError) as error:
        return _refuses(error, path)
    stream.seek(0)
    layers = list(hdf5.receive(stream, len(content)))
    with h5py.File(path) as file:
        group = file.get("model_weights", file)
        for name, _, arrays in layers:
            keys = group[name].attrs["weight_names"]
            for key, array in zip(keys, arrays, strict=True):
                key = key.decode() if isinstance(key, bytes) else key
                assert array.tobytes() == group[name][key][()].tobytes(), key
    mode = "gru" if "gru" in seed else "lstm"
    direction = "bidirectional" if "bidirectional" in seed else "unidirectional"
    layers = [weights.KerasLayer(class_name, arrays) for _, class_name, arrays in layers]
    try:
        canonical = weights.from_keras_cudnn(layers, mode, direction=direction)
    except ValueError as error:
        return _refuses(error, "")
    assert canonical.params.size == canonical.layout.size
    return "read"


# ------------------------------------------------------------------------------------
# Checkpoints and headers
# ------------------------------------------------------------------------------------


_LAYOUT = weights.Layout("rnn_tanh", 1, 1, 1)


class _Variables(Mapping):
    """A checkpoint that has a value for every key."""

    def __init__(self, graph: bytes):
        self._graph = graph

    def __getitem__(self, key: str) -> Any:
        if key == _GRAPH:
            return self._graph
        if "py_state" not in key:
            return np.zeros(4, np.float32)
        return params_header.to_text(_LAYOUT, "encoder" if "/1/" in key else "decoder")

    def __iter__(self) -> Iterator[str]:
        return iter([_GRAPH])

    def __len__(self) -> int:
        return 1


def _read_checkpoint(content: bytes, seed: str) -> str:
    outcome = "refused"
    for layer, slot in ((None, None), ("encoder", None), ("encoder", "momentums")):
        try:
            canonical = weights.checkpoint_to_canonical(_Variables(content), layer, slot)
        except ValueError as error:
            _refuses(error, "`variables`", "`slot`")
        else:
            assert canonical.params.size == 4
            outcome = "read"
    return outcome


def _read_header(content: bytes, seed: str) -> str:
    try:
        layout, layer = params_header.from_text(content, _WHERE)
    except ValueError as error:
        return _refuses(error, _WHERE)
    again = params_header.from_text(params_header.to_text(layout, layer), _WHERE)
    assert again == (params_header.resolved(layout), layer)
    return "read"


FORMATS = {
    "safetensors": Format(_read_safetensors, ("torch/*.safetensors",), _mutate_safetensors),
    "npz": Format(_read_npz, ("*/*.npz",), _mutate_npz),
    "h5": Format(_read_h5, ("*/*.h5",), forks=True),
    "checkpoint": Format(_read_checkpoint, ()),
    "header": Format(_read_header, ()),
}


# ------------------------------------------------------------------------------------
# Mutations
# ------------------------------------------------------------------------------------

_NUMBERS = (0, 1, 2, 7, 8, 127, 128, 255, 256, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1)
_TOKENS = [
    *(
        b"PK\1\2",
        b"PK\3\4",
        b"PK\5\6",
        b"\x93NUMPY",
        b"'<f4'",
        b"'|O'",
        b"'<f2'",
        b"'>f8'",
        b"(",
        b")",
    ),
    *(
        b"[",
        b"{",
        b'"',
        b",",
        b":",
        b"null",
        b"1e999",
        b"-",
        b"9" * 30,
        b"\\ud800",
        b"GCOL",
        b"OHDR",
    ),
    *(b"TREE", b"HEAP", b"SNOD", b"\xff" * 8, b"\0" * 8, b"\x80" * 9, b"\x0a\x00"),
]


def mutate(rng: random.Random, content: bytes) -> bytes:
    """Changes a few bytes: flips, numbers, pieces moved, left out or doubled, an early end."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        if not data:
            return bytes(data)
        at = rng.randrange(len(data))
        kind = rng.randrange(9)
        length = rng.choice((1, 2, 4, 8, 16, rng.randrange(1, len(data) + 1)))
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.randrange(256)
        elif kind in (2, 3):
            width = rng.choice((1, 2, 4, 8))
            number = rng.choice((*_NUMBERS, len(data), rng.randrange(len(data))))
            data[at : at + width] = (number % (1 << 8 * width)).to_bytes(width, "little")
        elif kind == 4:
            token = rng.choice(_TOKENS)
            data[at : at + rng.choice((0, len(token)))] = token
        elif kind == 5:
            del data[at : at + length]
        elif kind == 6:
            data[at:at] = data[at : at + length]
        elif kind == 7:
            other = rng.randrange(len(data))
            data[at : at + length] = data[other : other + length]
        elif rng.random() < 0.2:
            del data[at:]
    return bytes(data)


def mutation(name: str, seed: str, content: bytes, number: int) -> bytes:
    """The mutation of this number of a seed, 0 being none; always the same."""
    if number == 0:
        return content
    rng = random.Random(f"{name} {seed} {number}")
    structured = FORMATS[name].mutate
    if structured is not None and rng.random() < 0.5:
        try:
            return structured(rng, content)
        except Exception:  # a seed that is damaged already
            pass
    return mutate(rng, content)
