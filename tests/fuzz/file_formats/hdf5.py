"""HDF5 files of Keras, as bytes and as objects; h5py judges.

HDF5's library is not safe with bytes of anybody, so those are read in processes under limits, as
the library does it. What is ours is above: which objects, links, attributes, types and sizes are
taken. To follow that part by its coverage, `h5_objects` makes a sound file of what bytes say.
"""

import contextlib
import io
import pathlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import h5py
import numpy as np

from tests.fuzz.file_formats import command_line
from tests.fuzz.file_formats.format import Format, Process, mode_of, refuses, scratch, written
from tests.fuzz.file_formats.steps import Steps
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._formats import hdf5, keras_file


def _ask_here(path: str, what: str, names: Any = None, packed_in: Any = None) -> list[hdf5.Stored]:
    stream = io.BytesIO()
    hdf5.send(path, stream, what, names)
    stream.seek(0)
    return hdf5.received(stream, what, pathlib.Path(path).stat().st_size)


@contextlib.contextmanager
def read_here() -> Iterator[None]:
    """Lets HDF5 files be read in this process."""
    with mock.patch.object(hdf5, "ask", _ask_here):
        yield


# ------------------------------------------------------------------------------------
# Bytes
# ------------------------------------------------------------------------------------


def _read_h5(content: bytes, seed: str) -> str:
    path = written(content, "model.h5")
    hdf5.limit(len(content))
    with read_here():
        outcome = _read_keras_2(path, seed)
        command_line.read(path)
    return outcome


def _read_keras_2(path: str, seed: str) -> str:
    try:
        layers = weights.read_keras_h5(path)
    except (ValueError, OSError) as error:
        return refuses(error, path)
    with h5py.File(path) as file:
        group = file.get("model_weights", file)
        for name, layer in layers.items():
            keys = group[name].attrs["weight_names"]
            for key, array in zip(keys, layer.arrays, strict=True):
                key = key.decode() if isinstance(key, bytes) else key
                assert array.tobytes() == group[name][key][()].tobytes(), key
    direction = "bidirectional" if "bidirectional" in seed else "unidirectional"
    try:
        canonical = weights.from_keras_cudnn(
            list(layers.values()), mode_of(seed), direction=direction
        )
    except ValueError as error:
        return refuses(error, "")
    assert canonical.params.size == canonical.layout.size
    return "read"


def _read_weights_h5(content: bytes, seed: str) -> str:
    path = written(content, "model.weights.h5")
    hdf5.limit(len(content))
    with read_here():
        outcomes = {_read_keras_3(path), command_line.read(path)}
    return "refused" if "refused" in outcomes else "read"


def _read_keras_3(path: str) -> str:
    try:
        arrays = keras_file.read_arrays(path)
    except (ValueError, OSError) as error:
        return refuses(error, path)
    with h5py.File(path) as file:
        for name, array in arrays.items():
            assert array.tobytes() == file[name][()].tobytes(), name
    return "read"


# ------------------------------------------------------------------------------------
# Objects
# ------------------------------------------------------------------------------------

_NAMES = [
    *("layers", "lstm", "cell", "vars", "0", "1", "2", "header", "layer_0", "forward"),
    *("forward_layer", "backward_layer", "input_kernel", "recurrent_kernel", "bias"),
    *("model_weights", "first", "first/first", "kernel:0", "recurrent_kernel:0", "bias:0"),
    *("_layer_checkpoint_dependencies", "..", ".", "/", "é\x1b", "a" * 300, "x\\y", "layers/lstm"),
]
_SHAPES: list[Any] = [
    *((3, 16), (4, 16), (16,), (32,), (3, 12), (4, 12), (2, 12), (24,), (4, 4), (3, 4), (4,), ()),
    *((0,), (0, 16), (1, 1, 1), (1 << 20, 1 << 20), (1 << 62,), (3, 1 << 40), None),
]
_TYPES: list[Any] = [
    *("<f4", "<f8", ">f4", "<f2", "<i8", "u1", "?", "<c8", "S3", "V2", "f16"),
    *([("a", "<f4"), ("b", "<f4")], h5py.string_dtype(), h5py.ref_dtype, np.dtype(("<f4", (3,)))),
]
_ATTRIBUTES = ["layer_names", "weight_names", "model_config", "dtype", "backend"]
_CONFIGS = [
    '{"config": {"layers": [{"class_name": "LSTM", "config": {"name": "first"}}]}}',
    '{"config": {"layers": [{"class_name": "CuDNNLSTM", "config": {"name": "first"}}]}}',
    '{"config": [{"class_name": "Bidirectional", "config": {"name": "first", "layer": '
    '{"class_name": "CuDNNGRU"}}}]}',
    '{"config": [{"class_name": "Bidirectional", "config": {"name": "first", "merge_mode": "sum", '
    '"layer": {"class_name": "LSTM", "config": {}}, "backward_layer": {"class_name": ["LSTM"]}}}]}',
    *('{"config": 3}', "[", "[1]", '{"config": {"layers": [3]}}', "[" * 200 + "]" * 200),
]
_MOST_STEPS = 80


def build(content: bytes, path: str) -> None:
    """Writes a sound HDF5 file of the objects that bytes tell of."""
    steps = Steps(content)
    with h5py.File(path, "w") as file:
        group = file
        for _ in range(_MOST_STEPS):
            if not steps.left():
                return
            # What h5py does not make of it is left out.
            with contextlib.suppress(Exception):
                group = _step(steps, file, group) or group


def _step(steps: Steps, file: h5py.File, group: h5py.Group) -> h5py.Group | None:
    kind = steps.number(6)
    if kind == 0:
        return group.require_group(steps.one_of(_NAMES))
    if kind == 1:
        return file if steps.number(2) else group.parent
    if kind == 2:
        _make_dataset(steps, group)
    elif kind == 3:
        _make_attribute(steps, group)
    elif kind == 4:
        name, target = steps.one_of(_NAMES), steps.one_of(_NAMES)
        links = [group, file.get(target), h5py.SoftLink(target), h5py.ExternalLink("other", target)]
        group[name] = steps.one_of(links)
    else:
        item = group.get(steps.one_of(_NAMES))
        item.attrs[steps.one_of(_ATTRIBUTES)] = steps.one_of(["bfloat16", "float32", 3, ""])
    return None


def _make_dataset(steps: Steps, group: h5py.Group) -> None:
    name, dtype, shape = (steps.one_of(choices) for choices in (_NAMES, _TYPES, _SHAPES))
    is_small = shape is not None and np.prod(shape, dtype=float) < 1000
    data = np.zeros(shape, np.float32) if is_small and np.dtype(dtype).kind in "fiub" else None
    options: dict[str, Any] = steps.one_of(
        [
            *({"data": data}, {"data": data}, {}, {"data": data, "compression": "gzip"}),
            {"data": data, "compression": "lzf", "shuffle": True, "fletcher32": True},
            {"data": data, "scaleoffset": 3},
            {"external": [("other", 0, h5py.h5f.UNLIMITED)]},
            {"chunks": tuple(1 for _ in shape or ())},
            {"data": h5py.Empty("<f4")},
        ]
    )
    if steps.number(16) == 15:
        layout = h5py.VirtualLayout(shape, dtype)
        layout[:] = h5py.VirtualSource("other", "a", shape)
        group.create_virtual_dataset(name, layout)
        return
    group.create_dataset(name, shape, dtype, **options)


def _make_attribute(steps: Steps, group: h5py.Group) -> None:
    name = steps.one_of(_ATTRIBUTES)
    texts = [steps.one_of(_NAMES) for _ in range(steps.number(5))]
    kind = steps.number(8)
    values: list[Any] = [
        np.array([text.encode() for text in texts]),
        np.array(texts, h5py.string_dtype()),
        steps.one_of(_CONFIGS),
        np.arange(3),
        h5py.Empty("S3"),
        np.array([[text.encode()] for text in texts]),
        np.array([b"\xff\xfe"]),
        texts[0] if texts else 3.5,
    ]
    group.attrs[name] = values[kind]


def _read_objects(content: bytes, seed: str) -> str:
    path = scratch("model.weights.h5")
    build(content, path)
    with read_here():
        outcomes = {_read_keras_2(path, seed), _read_keras_3(path)}
        command_line.read(path)
    return "read" if "read" in outcomes else "refused"


FORMATS = {
    "h5": Format(_read_h5, ("*/*.h5",), process=Process.LIMITED),
    "weights_h5": Format(_read_weights_h5, process=Process.LIMITED),
    "h5_objects": Format(_read_objects),
}
