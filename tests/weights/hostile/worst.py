"""Files that cost most for their size: many items, long names, and references to one thing.

Each builder takes an empty folder and returns the path of a file. A reader may read it or refuse
it; what it takes stays within bounds either way.
"""

import json
import math
import os
import pathlib
import struct
import zipfile
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from tests.weights.hostile import npz as npz_files
from tests.weights.protobufs import field
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._formats import int8 as int8_format
from tf_cudnn_rnn._formats import params_header, runtime_file

FILES: dict[str, Callable[[pathlib.Path], pathlib.Path]] = {}


def file(build: Callable[[pathlib.Path], pathlib.Path]) -> Callable:
    FILES[build.__name__] = build
    return build


# ------------------------------------------------------------------------------------
# Protocol buffers
# ------------------------------------------------------------------------------------


def onnx(folder: pathlib.Path, parts: Iterable[bytes]) -> pathlib.Path:
    """A model of a graph with such fields."""
    path = folder / "model.onnx"
    path.write_bytes(field(7, b"".join(parts)))
    return path


def onnx_node(name: str = "", inputs: str = "", output: str = "", *attributes: bytes) -> bytes:
    """An LSTM; each character of `inputs` is the name of one, and a space that of none."""
    return field(
        1,
        field(4, "LSTM")
        + b"".join(field(1, letter.strip()) for letter in inputs)
        + (field(2, output) if output else b"")
        + (field(3, name) if name else b"")
        + b"".join(field(5, each) for each in attributes),
    )


def onnx_tensor(name: str, *shape: int) -> bytes:
    """An initializer of zeros."""
    dims = b"".join(field(1, size) for size in shape)
    content = bytes(4 * math.prod(shape))
    return field(5, dims + field(2, 1) + field(8, name) + field(9, content))


@file
def onnx_of_one_name_twice(folder):
    return onnx(folder, (onnx_node(str(i)) for i in [*range(19_999), 19_998]))


@file
def onnx_of_more_nodes_with_one_name_twice(folder):
    return onnx(folder, (onnx_node(f"{i:x}") for i in [*range(150_000), 149_999]))


@file
def onnx_of_empty_nodes(folder):
    return onnx(folder, (onnx_node(f"{i:x}") for i in range(150_000)))


@file
def onnx_of_long_names(folder):
    return onnx(folder, (onnx_node(f"{i:04}" + "a" * 4000) for i in range(9000)))


@file
def onnx_of_shared_weights(folder):
    tensors = [onnx_tensor("W", 1, 256, 64), onnx_tensor("R", 1, 256, 64)]
    nodes = (_link(i) for i in range(10_000))
    return onnx(folder, [*tensors, *nodes])


@file
def onnx_of_shared_peepholes(folder):
    tensors = [onnx_tensor("W", 1, 4, 1), onnx_tensor("R", 1, 4, 1), onnx_tensor("P", 10_000_000)]
    nodes = (_link(i, "    P") for i in range(1000))
    return onnx(folder, [*tensors, *nodes])


def _link(i: int, more: str = "") -> bytes:
    """One of a stack of nodes."""
    content = field(4, "LSTM") + field(1, f"y{i - 1}") + field(1, "W") + field(1, "R")
    content += b"".join(field(1, letter.strip()) for letter in more)
    return field(1, content + field(2, f"y{i}"))


@file
def onnx_of_many_layers(folder):
    tensors = [onnx_tensor("W", 1, 4, 1), onnx_tensor("R", 1, 4, 1)]
    return onnx(folder, [*tensors, *(_link(i) for i in range(50_000))])


@file
def onnx_of_as_many_layers_as_may_be(folder):
    tensors = [onnx_tensor("W", 1, 4, 1), onnx_tensor("R", 1, 4, 1)]
    return onnx(folder, [*tensors, *(_link(i) for i in range(2000))])


@file
def onnx_of_other_nodes(folder):
    nodes = (
        field(1, field(4, "Identity") + field(1, f"{i:x}") + field(2, f"{i + 1:x}"))
        for i in range(60_000)
    )
    return onnx(folder, [*nodes, *(onnx_node(f"a{i}", f"{60_000 - i:x}") for i in range(5000))])


@file
def onnx_of_more_fields_than_may_be(folder):
    return onnx(folder, [b"\x0a\x00" * 2_000_000])


@file
def onnx_of_many_activations(folder):
    activations = field(1, "activations") + field(9, "Tanh") * 390_000
    return onnx(folder, [onnx_node("a", "", "", activations)])


def op(kind: str, inputs: Iterable[str], output: str, *attributes: bytes) -> bytes:
    """A node of any kind."""
    content = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)
    return field(1, content + b"".join(field(5, each) for each in attributes))


def sizes(name: str, *values: int) -> bytes:
    """An initializer of integers."""
    content = b"".join(value.to_bytes(8, "little", signed=True) for value in values)
    return field(5, field(1, len(values)) + field(2, 7) + field(8, name) + field(9, content))


AXIS_0 = field(1, "axis") + field(3, 0)


@file
def onnx_of_a_long_row_of_nodes(folder):
    """With fewer fields than a file may have."""
    nodes = (op("Identity", [f"{i:x}"], f"{i + 1:x}") for i in range(20_000))
    return onnx(folder, [*nodes, _computed(f"{20_000:x}")])


@file
def onnx_of_a_longer_row_of_nodes(folder):
    nodes = (op("Identity", [f"{i:x}"], f"{i + 1:x}") for i in range(100_000))
    return onnx(folder, [*nodes, _computed(f"{100_000:x}")])


def _computed(*weights: str) -> bytes:
    """A recurrent node for every weight W."""
    return b"".join(
        field(1, field(4, "LSTM") + b"".join(field(1, name) for name in ("x", W, W)) + field(3, W))
        for W in weights
    )


@file
def onnx_of_nodes_in_a_circle(folder):
    nodes = (op("Concat", [f"{(i + 1) % 1000}"] * 2, f"{i}", AXIS_0) for i in range(1000))
    return onnx(folder, [*nodes, *(_computed(f"{i % 1000}") for i in range(20_000))])


@file
def onnx_of_doubled_weights(folder):
    """They would have 2^45 times the bytes of the file."""
    nodes = (op("Concat", [f"{i}"] * 2, f"{i + 1}", AXIS_0) for i in range(45))
    return onnx(folder, [onnx_tensor("0", 1, 4, 1), *nodes, _computed("45")])


@file
def onnx_of_doubled_weights_of_nothing(folder):
    nodes = (op("Concat", [f"{i}"] * 2, f"{i + 1}", AXIS_0) for i in range(45))
    return onnx(folder, [onnx_tensor("0", 1, 4, 0), *nodes, _computed("45")])


@file
def onnx_of_expanded_weights(folder):
    """A number is many, which are copied where they are transposed."""
    tensors = [onnx_tensor("0", 1, 1), sizes("most", 3400, 3400), sizes("more", 2**62, 2**62)]
    nodes = [op("Expand", ["0", "most"], "a"), op("Expand", ["0", "more"], "b")]
    nodes += [op("Identity", ["a"], f"a{i}") for i in range(50)]
    return onnx(folder, [*tensors, *nodes, _computed(*(f"a{i}" for i in range(50)), "b")])


@file
def onnx_of_the_same_large_weight_computed_again_and_again(folder):
    """Nearly all that may be copied, element by element; and then a little of it is kept."""
    tensors = [onnx_tensor("0", 50_000_000 // 4, 1), sizes("begin", 0), sizes("end", 1)]
    nodes = []
    for i in range(1000):
        nodes.append(op("Concat", ["0", "0"], f"a{i}", field(1, "axis") + field(3, 1)))
        nodes.append(op("Slice", [f"a{i}", "begin", "end"], f"b{i}"))
    return onnx(folder, [*tensors, *nodes, _computed(*(f"b{i}" for i in range(1000)))])


@file
def onnx_of_many_small_parts(folder):
    """A weight of many parts, of which slices are taken."""
    tensors = [onnx_tensor("0", 1), sizes("begin", 0), sizes("end", 1)]
    nodes = [op("Concat", ["0"] * 20_000, "a", AXIS_0)]
    nodes += [op("Slice", ["a", "begin", "end"], f"b{i}") for i in range(3000)]
    nodes += [op("Unsqueeze", ["a", "begin"], f"c{i}") for i in range(3000)]
    names = [f"{letter}{i}" for i in range(3000) for letter in "bc"]
    return onnx(folder, [*tensors, *nodes, _computed(*names)])


@file
def onnx_of_many_parts_of_many_parts(folder):
    """A value of many parts, which is named many times: as many as steps, and far more parts."""
    nodes = [op("Concat", ["0"] * 12_500, "a", AXIS_0), op("Concat", ["a"] * 24_000, "b", AXIS_0)]
    return onnx(folder, [onnx_tensor("0", 1), *nodes, _computed("b")])


@file
def onnx_of_as_many_computed_weights_as_may_be(folder):
    tensors = [onnx_tensor("0", 1, 4, 2), sizes("begin", 0), sizes("end", 1), sizes("axis", -1)]
    nodes = [op("Slice", ["0", "begin", "end", "axis"], f"b{i}") for i in range(10_000)]
    return onnx(folder, [*tensors, *nodes, _computed(*(f"b{i}" for i in range(10_000)))])


@file
def onnx_of_long_names_of_other_nodes(folder):
    names = (f"{i:05}" + "a" * 4000 for i in range(20_000))
    nodes = (op("Identity", [name], name + "b") for name in names)
    return onnx(folder, [*nodes, _computed("W")])


@file
def onnx_of_many_integers(folder):
    """Of sizes, which are read one by one."""
    value = field(1, 30) + field(2, 7) + field(7, b"\1" * 390_000)
    constant = op("Constant", [], "a", field(1, "value") + field(5, value))
    return onnx(folder, [constant, _computed("a")])


def saved_model(folder: pathlib.Path, nodes: Iterable[bytes]) -> pathlib.Path:
    path = folder / "saved_model.pb"
    path.write_bytes(field(2, field(2, b"".join(nodes))))
    return path


def constant(name: str, *shape: int) -> bytes:
    sizes = field(7, b"".join(field(2, field(1, size)) for size in shape))
    value = field(2, field(1, sizes))
    return field(
        1, field(1, name) + field(2, "Const") + field(5, field(1, "_output_shapes") + value)
    )


@file
def saved_model_of_many_nodes(folder):
    nodes = (field(1, field(1, f"{i}") + field(2, "CudnnRNNV3")) for i in range(20_000))
    return saved_model(folder, nodes)


@file
def saved_model_of_shared_shapes(folder):
    inputs = b"".join(field(3, "a") for _ in range(6))
    nodes = (
        field(1, field(1, f"{i}") + field(2, "TfCudnnRnn>KerasRNN") + inputs) for i in range(20_000)
    )
    return saved_model(folder, [constant("a", *[2**62] * 32), *nodes])


@file
def saved_model_of_more_fields_than_may_be(folder):
    return saved_model(folder, [b"\x0a\x00" * 2_000_000])


@file
def saved_model_of_long_names(folder):
    nodes = (field(1, field(1, f"{i:05}" + "a" * 4000) + field(2, "While")) for i in range(10_000))
    return saved_model(folder, nodes)


# ------------------------------------------------------------------------------------
# NumPy
# ------------------------------------------------------------------------------------


def npz(folder: pathlib.Path, arrays: Iterable[tuple[str, bytes]]) -> pathlib.Path:
    path = folder / "model.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays:
            archive.writestr(f"{name}.npy", content)
    return path


NOTHING = npz_files.npy("(0,)", data=b"")


def slow_header(dimensions: int, end: str = "") -> bytes:
    """NumPy parses all of it, and keeps the last shape."""
    shape = "1," * dimensions
    header = f"{{'descr':'<f4','fortran_order':False,'shape':({shape}),'shape':(0,{end})}}"
    return npz_files.npy_of_header(header.encode())


@file
def npz_of_slow_headers(folder):
    header = slow_header(4800)
    return npz(folder, ((f"weight_ih_l{i}", header) for i in range(400)))


@file
def npz_of_more_slow_headers(folder):
    header = slow_header(4800)
    return npz(folder, ((f"weight_ih_l{i}", header) for i in range(4500)))


@file
def npz_of_the_slowest_headers_allowed(folder):
    """As long as an honest one may be, and no two alike."""
    return npz(folder, ((f"weight_ih_l{i}", slow_header(460, f"{i}")) for i in range(260)))


@file
def npz_of_many_other_headers(folder):
    """As many as may be, and no two alike."""
    return npz(folder, ((f"{i}.weight_ih_l0", slow_header(10, f"{i}")) for i in range(2700)))


@file
def npz_of_more_other_headers_than_may_be(folder):
    return npz(folder, ((f"weight_ih_l{i}", slow_header(10, f"{i}")) for i in range(9999)))


@file
def npz_of_many_prefixes(folder):
    return npz(folder, ((f"{i}.weight_ih_l0", NOTHING) for i in range(9999)))


@file
def npz_of_many_layers(folder):
    matrix = npz_files.npy("(4,1)", data=bytes(16))
    names = (f"{kind}_l{i}" for i in range(5000) for kind in ("weight_ih", "weight_hh"))
    return npz(folder, ((name, matrix) for name in names))


@file
def npz_of_params_of_many_layers(folder):
    """A network of one unit, packed to nothing."""
    return npz_of_params(folder, 700_000)


@file
def npz_of_params_of_as_many_layers_as_may_be(folder):
    return npz_of_params(folder, 2000, "bidirectional")


def npz_of_params(folder: pathlib.Path, layers: int, direction="unidirectional") -> pathlib.Path:
    layout = weights.Layout("lstm", layers, 1, 1, direction)
    text = params_header.to_text(layout).encode()
    np.savez_compressed(
        folder / "model.npz",
        **{params_header.NPZ_KEY: np.frombuffer(text, np.uint8)},
        params=np.zeros(layout.size, np.float32),
    )
    return folder / "model.npz"


@file
def npz_of_long_names(folder):
    return npz(folder, (("a." * 30_000 + f"{i}.weight_ih_l0", NOTHING) for i in range(200)))


@file
def npz_of_many_scopes_of_tensorflow_1(folder):
    leaf = "rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel"
    return npz(folder, ((f"s{i}/{leaf}", NOTHING) for i in range(9999)))


@file
def npz_of_many_cells_of_tensorflow_1(folder):
    name = "rnn/multi_rnn_cell/cell_{}/basic_lstm_cell/kernel"
    return npz(folder, ((name.format(i), NOTHING) for i in range(9999)))


@file
def npz_of_many_layers_of_tensorflow_1(folder):
    return npz(folder, _of_tensorflow_1("basic_lstm_cell"))


@file
def npz_of_many_layers_of_tensorflow_1_and_cudnn(folder):
    return npz(folder, _of_tensorflow_1("cudnn_compatible_lstm_cell"))


def _of_tensorflow_1(cell: str) -> Iterator[tuple[str, bytes]]:
    kernel, bias = npz_files.npy("(2,4)", data=bytes(32)), npz_files.npy("(4,)", data=bytes(16))
    for i in range(5000):
        yield f"rnn/multi_rnn_cell/cell_{i}/{cell}/kernel", kernel
        yield f"rnn/multi_rnn_cell/cell_{i}/{cell}/bias", bias


# What the files do not tell.
CHOICES = {
    "npz_of_many_layers_of_tensorflow_1": {"format": "tf1-lstm-cell"},
    "npz_of_many_cells_of_tensorflow_1": {"format": "tf1-lstm-cell"},
    "npz_of_many_scopes_of_tensorflow_1": {"format": "tf1-lstm-cell"},
    "npz_of_many_layers_of_tensorflow_1_and_cudnn": {"format": "tf1-cudnn"},
    "npz_of_many_other_headers": {"rnn_mode": "lstm"},
    "npz_of_more_other_headers_than_may_be": {"rnn_mode": "lstm"},
    "npz_of_the_slowest_headers_allowed": {"rnn_mode": "lstm"},
    "safetensors_of_many_layers_of_nothing": {"rnn_mode": "lstm"},
}


@file
def npz_of_many_canonical_weights(folder):
    path = folder / "model.npz"
    layout = weights.Layout("lstm", 1, 1, 1)
    text = params_header.to_text(layout).encode()
    np.savez(path, **{params_header.NPZ_KEY: np.frombuffer(text, np.uint8)})
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        for i in range(9998):
            archive.writestr(f"layer_{i}/forward/input/input_kernel.npy", NOTHING)
    return path


# ------------------------------------------------------------------------------------
# Keras
# ------------------------------------------------------------------------------------


def keras(folder: pathlib.Path, config: str, metadata: str = "{}") -> pathlib.Path:
    import h5py

    path = folder / "model.keras"
    arrays = folder / "arrays.h5"
    with h5py.File(arrays, "w") as content:
        group = content.create_group("layers/lstm/cell/vars")
        for i, shape in enumerate([(3, 16), (4, 16), (16,)]):
            group[str(i)] = np.zeros(shape, np.float32)
    with zipfile.ZipFile(path, "w") as archive:  # Keras does not pack them either
        archive.writestr("config.json", config)
        archive.writestr("metadata.json", metadata)
        archive.write(arrays, "model.weights.h5")
    os.remove(arrays)
    return path


def model_of(class_name: str, layers: Iterable[str]) -> str:
    return f'{{"class_name":"{class_name}","config":{{"layers":[{",".join(layers)}]}}}}'


def layer_of(name: str, class_name: str = "A") -> str:
    return f'{{"class_name":"{class_name}","config":{{"name":"{name}"}}}}'


@file
def keras_of_a_long_class(folder):
    inner = model_of("C" * 400_000, [layer_of("b")] * 2000)
    return keras(folder, model_of("F", [inner]))


@file
def keras_of_a_longer_class(folder):
    inner = model_of("C" * 2_000_000, [layer_of("b")] * 30_000)
    return keras(folder, model_of("F", [inner]))


@file
def keras_of_deep_classes(folder):
    inner = model_of("C" * 400, [layer_of("b")] * 100_000)
    for _ in range(30):
        inner = model_of("C" * 400, [inner])
    return keras(folder, inner)


@file
def keras_of_many_layers(folder):
    return keras(folder, model_of("F", [layer_of("b", "LSTM")] * 140_000))


@file
def keras_of_many_layers_that_no_model_lists(folder):
    layers = ",".join(['{"class_name":"LSTM","config":{}}'] * 160_000)
    return keras(folder, "[" * 90 + layers + "]" * 90)


@file
def keras_of_many_layers_of_other_names(folder):
    return keras(folder, model_of("F", (layer_of(f"{i:x}", "LSTM") for i in range(140_000))))


@file
def keras_of_two_long_texts(folder):
    text = '{"config":[' + ",".join(['{"a":0}'] * 240_000) + "]}"
    return keras(folder, text, text)


@file
def keras_of_many_stacks(folder):
    layer = '{"class_name":"CudnnLSTM","config":{"num_units":%s}}' % ("9" * 4000)
    return keras(folder, "[" + ",".join([layer] * 2000) + "]")


# ------------------------------------------------------------------------------------
# safetensors
# ------------------------------------------------------------------------------------


def safetensors(folder: pathlib.Path, shapes: Iterable[tuple[str, list[int]]]) -> pathlib.Path:
    """A file of arrays of zeros."""
    path = folder / "model.safetensors"
    header = {}
    end = 0
    for name, shape in shapes:
        begin, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(end))
    return path


@file
def safetensors_of_many_prefixes(folder):
    return safetensors(folder, ((f"{i:x}.weight_ih_l0", [0]) for i in range(75_000)))


@file
def safetensors_of_many_layers_of_nothing(folder):
    return safetensors(folder, ((f"weight_ih_l{i}", [0]) for i in range(75_000)))


@file
def safetensors_of_many_layers(folder):
    return safetensors(folder, _layers(40_000))


def _layers(count: int) -> Iterator[tuple[str, list[int]]]:
    for i in range(count):
        yield f"weight_ih_l{i}", [4, 1]
        yield f"weight_hh_l{i}", [4, 1]


@file
def safetensors_of_as_many_layers_as_may_be(folder):
    return safetensors(folder, _layers(2000))


@file
def runtime_of_many_layers(folder):
    return runtime(folder, 500_000)


@file
def runtime_of_as_many_layers_as_may_be(folder):
    return runtime(folder, 2000)


def runtime(folder: pathlib.Path, layers: int) -> pathlib.Path:
    layout = weights.Layout("lstm", layers, 1, 1)
    path = folder / "model.safetensors"
    runtime_file.write(path, np.zeros(layout.size, np.float32), layout)
    return path


@file
def int8_of_many_layers(folder):
    return int8(folder, weights.Layout("lstm", 500_000, 1, 1))


@file
def int8_of_as_many_layers_as_may_be(folder):
    return int8(folder, weights.Layout("lstm", 2000, 2, 2, "bidirectional", num_proj=1))


def int8(folder: pathlib.Path, layout: weights.Layout) -> pathlib.Path:
    arrays = {
        name: np.zeros(size, int8_format.DTYPES[name])
        for name, size in int8_format.sizes(layout)._asdict().items()
    }
    path = folder / "model.safetensors"
    runtime_file.write_int8(path, weights.Int8Weights(layout, **arrays))
    return path


@file
def safetensors_of_long_names(folder):
    name = "a." * 20_000
    return safetensors(folder, ((f"{name}{i}.weight_ih_l0", [0]) for i in range(200)))
