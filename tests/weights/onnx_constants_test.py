"""Weights that the graph of an ONNX file computes; ONNX Runtime judges."""

import pathlib
import re
from collections.abc import Iterable, Sequence

import numpy as np
import pytest

from tests.weights import golden, measured
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._formats import onnx_constants, onnx_file

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
TensorProto, helper, numpy_helper = onnx.TensorProto, onnx.helper, onnx.numpy_helper

Nodes = Sequence[onnx.NodeProto]
Arrays = dict[str, np.ndarray]
DTYPES = {np.dtype("f4"): TensorProto.FLOAT, np.dtype("i8"): TensorProto.INT64}
A = np.random.default_rng(5).normal(size=[4, 3, 2]).astype(np.float32)


def tensors_of(arrays: Arrays) -> list[onnx.TensorProto]:
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def graph_of(nodes: Nodes, tensors: Iterable[onnx.TensorProto], outputs: Iterable[str], opset=20):
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["T", "B", "I"])
    infos = [onnx.ValueInfoProto(name=name) for name in outputs]
    graph = helper.make_graph(nodes, "graph", [x], infos, list(tensors))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    return model


def written(folder: pathlib.Path, nodes: Nodes, tensors: Iterable[onnx.TensorProto]) -> str:
    """A file of an LSTM called "lstm", whose W is what `nodes` compute as "W"."""
    lstm = helper.make_node("LSTM", ["x", "W", "R"], ["y"], "lstm", hidden_size=1)
    R = numpy_helper.from_array(np.zeros([1, 4, 1], np.float32), "R")
    path = folder / "model.onnx"
    onnx.save(graph_of([*nodes, lstm], [*tensors, R], ["y"]), path)
    return str(path)


def computed(folder: pathlib.Path, nodes: Nodes, tensors: Iterable[onnx.TensorProto]) -> np.ndarray:
    """What the library computes as W."""
    (node,) = onnx_file.read_nodes(written(folder, nodes, tensors))
    tensor = node.tensors["W"]
    assert isinstance(tensor, onnx_constants.Tensor), tensor
    return np.frombuffer(tensor.content, tensor.dtype).reshape(tensor.shape)


def judged(nodes: Nodes, tensors: Iterable[onnx.TensorProto], opset: int) -> np.ndarray:
    """What ONNX Runtime computes as W."""
    model = graph_of(nodes, tensors, ["W"], opset).SerializeToString()
    return onnxruntime.InferenceSession(model).run(["W"], {"x": np.zeros([1, 1, 1], "f4")})[0]


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


# ------------------------------------------------------------------------------------
# One op
# ------------------------------------------------------------------------------------

MAX = 2**63 - 1
# Opset, op, the inputs after A [4, 3, 2], and attributes.
OPS = {
    "slice": (20, "Slice", [ints(1), ints(3), ints(0)], {}),
    "slice_all_axes": (13, "Slice", [ints(1, 0, 1), ints(3, 2, 2)], {}),
    "slice_negative_axis": (11, "Slice", [ints(1), ints(2), ints(-2)], {}),
    "slice_negative_places": (20, "Slice", [ints(-3), ints(-1), ints(0)], {}),
    "slice_huge_places": (20, "Slice", [ints(-MAX, 1), ints(MAX, MAX), ints(0, 1)], {}),
    "slice_steps": (20, "Slice", [ints(0, 1), ints(4, 3), ints(0, 1), ints(2, 1)], {}),
    "slice_back": (20, "Slice", [ints(-1), ints(-MAX), ints(0), ints(-1)], {}),
    "slice_back_by_two": (10, "Slice", [ints(MAX), ints(0), ints(0), ints(-2)], {}),
    "slice_back_from_before": (20, "Slice", [ints(-9), ints(-9), ints(0), ints(-1)], {}),
    "slice_huge_step": (20, "Slice", [ints(1), ints(4), ints(0), ints(MAX)], {}),
    "slice_nothing": (20, "Slice", [ints(3), ints(1), ints(0)], {}),
    "slice_of_attributes": (9, "Slice", [], {"starts": [1, 0], "ends": [3, -1], "axes": [0, 2]}),
    "slice_of_two_attributes": (1, "Slice", [], {"starts": [1, 0], "ends": [3, 9]}),
    "unsqueeze": (20, "Unsqueeze", [ints(0)], {}),
    "unsqueeze_two": (13, "Unsqueeze", [ints(-1, 1)], {}),
    "unsqueeze_of_attributes": (11, "Unsqueeze", [], {"axes": [3, 0]}),
    "identity": (20, "Identity", [], {}),
    "transpose": (20, "Transpose", [], {"perm": [1, 2, 0]}),
    "transpose_all": (9, "Transpose", [], {}),
    "reshape": (20, "Reshape", [ints(2, -1)], {}),
    "reshape_zero": (20, "Reshape", [ints(0, 6)], {}),
    "reshape_zeros": (9, "Reshape", [ints(0, 0, -1, 1)], {}),
    "expand": (20, "Expand", [ints(2, 1, 3, 1)], {}),
    "expand_less": (13, "Expand", [ints(1)], {}),
    "shape": (20, "Shape", [], {}),
    "shape_part": (15, "Shape", [], {"start": -2, "end": 9}),
    "concat": (20, "Concat", [A[:, :1], A], {"axis": 1}),
    "concat_last": (9, "Concat", [A[..., 1:]], {"axis": -1}),
    "concat_one": (4, "Concat", [], {"axis": 0}),
}


@pytest.mark.parametrize("stored", ["raw", "typed"])
@pytest.mark.parametrize("name", OPS)
def test_an_op(tmp_path, name, stored):
    opset, op, others, attributes = OPS[name]
    arrays = {"A": A, **{f"input_{i}": array for i, array in enumerate(others)}}
    if stored == "raw":
        tensors = tensors_of(arrays)
    else:
        tensors = [
            helper.make_tensor(key, DTYPES[a.dtype], a.shape, a.ravel())
            for key, a in arrays.items()
        ]
    node = helper.make_node(op, list(arrays), ["W"], **attributes)
    found = computed(tmp_path, [node], tensors)
    # ONNX Runtime wants opset 7.
    golden.assert_bits(found, judged([node], tensors, max(7, opset)))


@pytest.mark.parametrize(
    "opset, others, attributes",
    [(20, [ints(1)], {}), (13, [ints(-3, 3)], {}), (11, [], {"axes": [1]}), (20, [], {})],
)
def test_squeeze(tmp_path, opset, others, attributes):
    arrays = {"A": A.reshape(4, 1, 6, 1), **{f"{i}": array for i, array in enumerate(others)}}
    node = helper.make_node("Squeeze", list(arrays), ["W"], **attributes)
    found = computed(tmp_path, [node], tensors_of(arrays))
    golden.assert_bits(found, judged([node], tensors_of(arrays), opset))


def test_parts_without_elements(tmp_path):
    """With allowzero, 0 is a size of Reshape."""
    arrays = {"A": A, "none": A[:0], "sizes": ints(0, 7), "one": ints(1)}
    nodes = [
        helper.make_node("Concat", ["none", "A", "none"], ["a"], axis=0),
        helper.make_node("Concat", ["none", "none"], ["b"], axis=0),
        helper.make_node("Unsqueeze", ["b", "one"], ["c"]),
        helper.make_node("Reshape", ["c", "sizes"], ["d"], allowzero=1),
    ]
    for name in "abcd":
        every = [*nodes, helper.make_node("Identity", [name], ["W"])]
        found = computed(tmp_path, every, tensors_of(arrays))
        golden.assert_bits(found, judged(every, tensors_of(arrays), 20))


@pytest.mark.parametrize("dtype", ["float16", "float64", "bfloat16"])
def test_types(tmp_path, dtype):
    array = A.astype(onnx.helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))
    array = array if dtype == "bfloat16" else A.astype(dtype)
    nodes = [
        helper.make_node("Concat", ["A", "A"], ["c"], axis=0),
        helper.make_node("Transpose", ["c"], ["W"], perm=[2, 0, 1]),
    ]
    (node,) = onnx_file.read_nodes(written(tmp_path, nodes, tensors_of({"A": array})))
    R = onnx_constants.Tensor((1,), node.tensors["W"].dtype, memoryview(bytes(array.itemsize)))
    found = node._replace(tensors=node.tensors | {"R": R}).as_arrays().W
    golden.assert_bits(found, np.concatenate([array, array]).transpose(2, 0, 1))


def test_what_stands_in_a_row(tmp_path):
    """Parts that are put together twice, moved, cut and put together again."""
    arrays = {"A": A, "zero": ints(0), "one": ints(1), "five": ints(5), "last": ints(-1)}
    nodes = [
        helper.make_node("Concat", ["A", "A"], ["a"], axis=0),
        helper.make_node("Unsqueeze", ["a", "one"], ["b"]),
        helper.make_node("Concat", ["b", "b", "b"], ["c"], axis=1),
        helper.make_node("Transpose", ["c"], ["d"], perm=[3, 1, 0, 2]),
        helper.make_node("Slice", ["d", "one", "five", "last"], ["e"]),
        helper.make_node("Unsqueeze", ["e", "zero"], ["f"]),
        helper.make_node("Concat", ["f", "f"], ["g"], axis=-1),
        helper.make_node("Squeeze", ["g", "zero"], ["h"]),
        helper.make_node("Shape", ["h"], ["i"], start=2),
        helper.make_node("Mul", ["i", "one"], ["j"]),
        helper.make_node("Concat", ["last", "j"], ["k"], axis=0),
        helper.make_node("Reshape", ["h", "k"], ["W"]),
    ]
    expected = judged(nodes, tensors_of(arrays), 20)
    assert expected.shape == (6, 8, 4)
    golden.assert_bits(computed(tmp_path, nodes[::-1], tensors_of(arrays)), expected)


def test_constants(tmp_path):
    nodes = [
        helper.make_node("Constant", [], ["a"], value=tensors_of({"": A})[0]),
        helper.make_node("Constant", [], ["two"], value_int=2),
        helper.make_node("Constant", [], ["three"], value_ints=[3]),
        helper.make_node("Constant", [], ["four"], value=tensors_of({"": ints(4)})[0]),
        helper.make_node("Mul", ["two", "three"], ["six"]),
        helper.make_node("Concat", ["six", "four"], ["sizes"], axis=0),
        helper.make_node("Reshape", ["a", "sizes"], ["W"]),
    ]
    golden.assert_bits(computed(tmp_path, nodes, []), A.reshape(6, 4))


# ------------------------------------------------------------------------------------
# As PyTorch's exporter writes them
# ------------------------------------------------------------------------------------

# The gates of ONNX, by their number in PyTorch.
ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}


class Exporter:
    """Builds a graph of a state_dict.

    New opsets have positions as inputs, old ones as attributes.
    """

    def __init__(self, state: Arrays, mode: str, opset: int):
        self.state, self.mode, self.opset = state, mode, opset
        self.nodes: list[onnx.NodeProto] = []
        self.tensors = tensors_of(state)

    def add(self, op: str, inputs: list[str], **attributes) -> str:
        """Adds a node; lists are attributes in old opsets."""
        name = f"val_{len(self.nodes)}"
        for key, value in [*attributes.items()]:
            if isinstance(value, list) and self.opset >= {"Unsqueeze": 13, "Slice": 10}.get(op, 0):
                self.tensors.append(numpy_helper.from_array(ints(*value), f"{name}_{key}"))
                inputs = [*inputs, f"{name}_{key}"]
                del attributes[key]
        self.nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def ordered(self, name: str) -> str:
        H = len(self.state[name]) // len(ORDER[self.mode])
        parts = [
            self.add("Slice", [name], starts=[g * H], ends=[g * H + H], axes=[0])
            for g in ORDER[self.mode]
        ]
        return self.add("Concat", parts, axis=0)

    def layer(self, l: int, x: str, D: int) -> str:
        has_bias = "bias_ih_l0" in self.state
        directions = []
        for suffix in ("", "_reverse")[:D]:
            arrays = [self.ordered(f"weight_{part}_l{l}{suffix}") for part in ("ih", "hh")]
            if has_bias:
                biases = [self.ordered(f"bias_{part}_l{l}{suffix}") for part in ("ih", "hh")]
                arrays.append(self.add("Concat", biases, axis=0))
            directions.append([self.add("Unsqueeze", [name], axes=[0]) for name in arrays])
        inputs = [self.add("Concat", [*names], axis=0) for names in zip(*directions, strict=True)]
        y = self.add(
            self.mode.upper(),
            [x, *inputs],
            hidden_size=self.state[f"weight_hh_l{l}"].shape[1],
            direction="bidirectional" if D == 2 else "forward",
            **({"linear_before_reset": 1} if self.mode == "gru" else {}),
        )
        moved = self.add("Transpose", [y], perm=(0, 2, 1, 3))
        return self.add("Reshape", [moved], shape=[0, 0, -1])


@pytest.mark.parametrize("opset", [9, 11, 20])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("layers", [1, 3])
@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_graphs_like_the_exporters(tmp_path, mode, layers, direction, bias, opset):
    size = weights.params_size(mode, layers, 4, 3, direction=direction)
    params = np.random.default_rng(7).normal(size=size).astype(np.float32)
    canonical = weights.from_cudnn(params, mode, layers, 4, 3, direction=direction)
    state = weights.to_torch(canonical, bias=True).arrays
    state = {name: array for name, array in state.items() if bias or name.startswith("weight")}
    exporter = Exporter(state, mode, opset)
    x = "x"
    for l in range(layers):
        x = exporter.layer(l, x, 2 if direction == "bidirectional" else 1)
    path = tmp_path / "model.onnx"
    model = graph_of(exporter.nodes, exporter.tensors, [x], opset)
    path.write_bytes(model.SerializeToString())

    found = weights.load(path)
    expected = weights.from_torch(state, mode)
    assert found.layout == expected.layout
    golden.assert_bits(found.params, expected.params)
    session = onnxruntime.InferenceSession(model.SerializeToString())
    inputs = np.random.default_rng(8).normal(size=[5, 2, 3]).astype(np.float32)
    golden.check_outputs(found, inputs, {"y": session.run(None, {"x": inputs})[0]})


# ------------------------------------------------------------------------------------
# What is refused
# ------------------------------------------------------------------------------------


def node(op: str, inputs: str, output: str = "W", **attributes) -> onnx.NodeProto:
    """Each word of `inputs` is the name of one; "-" stands for one that is left out."""
    names = [name.replace("-", "") for name in inputs.split()]
    return helper.make_node(op, names, [output], **attributes)


def external() -> onnx.TensorProto:
    tensor = onnx.TensorProto(name="elsewhere", data_type=TensorProto.FLOAT, dims=[4, 3])
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


TENSORS = [
    *tensors_of(
        {
            **{"A": A, "B": A.astype(np.float64), "nothing": A[:0], "small": ints(0).astype("i4")},
            **{
                f"{value}".replace("-", "m"): ints(value) for value in (-3, -2, -1, 0, 1, 3, 5, MAX)
            },
            **{"pair": ints(1, 1), "negatives": ints(-1, -1), "table": ints(1, 2).reshape(1, 2)},
            **{"many": np.ones(33, np.int64), "huge": ints(2**31, 2**31), "large": ints(1 << 23)},
        }
    ),
    external(),
    helper.make_tensor("text", TensorProto.STRING, [1], [b"a"]),
    helper.make_tensor("int8", TensorProto.INT8, [1], [1]),
    onnx.TensorProto(name="short", data_type=TensorProto.FLOAT, dims=[4, 3], raw_data=bytes(8)),
    onnx.TensorProto(name="absent", data_type=TensorProto.FLOAT, dims=[2**62, 2**62]),
    onnx.TensorProto(name="wide", data_type=TensorProto.FLOAT, dims=[0, 2**62], raw_data=b""),
]
ROW = [node("Identity", f"{'A' if i == 0 else f'n{i}'}", f"n{i + 1}") for i in range(60)]
REFUSALS = {
    "an_op": ([node("Relu", "A")], "computed with the op Relu, and only Concat, "),
    "an_op_before": ([node("Relu", "A", "a"), node("Identity", "a")], "with the op Relu, and only"),
    "other_domain": ([node("Identity", "A", domain="com.a")], "with the op com.a.Identity, and"),
    "two_outputs": (
        [helper.make_node("Identity", ["A"], ["W", "V"])],
        "with the op Identity of 2 outputs",
    ),
    "recurrent": ([node("Identity", "y")], "computed with the op LSTM, and only"),
    "number": (
        [helper.make_node("Constant", [], ["W"], value_float=1.0)],
        "computed with the op Constant, and only",
    ),
    "no_op": ([node("", "A")], "with the op , and only"),
    "long_op": ([node("a" * 1000, "A")], "with the op 'aaa"),
    "input": ([node("Identity", "x")], "computed from x, which is an input of the graph, or"),
    "missing": ([node("Identity", "b")], "computed from b, which is an input of the graph, or"),
    "nothing": ([], "computed from W, which is an input of the graph, or is missing. Take the"),
    "itself": ([node("Identity", "W")], "more than 50 nodes in a row, or by nodes that go round"),
    "circle": ([node("Concat", "A b", "W", axis=0), node("Shape", "W", "b")], "in a circle"),
    "row": ([*ROW, node("Identity", "n60")], "more than 50 nodes in a row, or by"),
    "no_input": ([node("Identity", "")], "Identity, which must have an input 0; got 0 inputs"),
    "no_input_0": ([node("Transpose", "-")], "Transpose, which must have an input 0; got 1 inputs"),
    "text": ([node("Identity", "text")], "from text, which is of a type, or stored in a way, that"),
    "int8": ([node("Identity", "int8")], "from int8, which is of a type, or stored in a way, that"),
    "short": ([node("Identity", "short")], "from short, which must have the bytes of its shape"),
    "absent": ([node("Identity", "absent")], "from absent, which is of a type, or stored in a way"),
    "wide": ([node("Identity", "wide")], "with wide, whose shape is [0, 4611686018427387904]"),
    "elsewhere": (
        [node("Unsqueeze", "elsewhere 0")],
        "it is in another one, as external data, and no other file is opened. Put it into the file "
        'with onnx.save(onnx.load("a.onnx"), "b.onnx") or torch.onnx.export(..., '
        "external_data=False); or take the state_dict rather than ONNX: "
        'safetensors.torch.save_file(model.state_dict(), "model.safetensors").',
    ),
    "slice_axis": ([node("Slice", "A 0 1 3")], "Slice, which must have axes of 3 dimensions; got"),
    "slice_axis_below": ([node("Slice", "A 0 1 m3", "a"), node("Slice", "a 0 1 5")], "got [5]"),
    "slice_axis_twice": (
        [node("Slice", "A pair pair pair")],
        "which must have every axis once; got [1, 1]",
    ),
    "slice_both_ways": (
        [node("Slice", "A pair pair", axes=[1, -2])],
        "which must have every axis once; got [1, -2]",
    ),
    "slice_step": ([node("Slice", "A 0 1 0 0")], "of which none is 0; got [0], [1], [0] and [0]"),
    "slice_lengths": ([node("Slice", "A 0 pair")], "as many starts as ends, axes and steps, of"),
    "slice_many": ([node("Slice", "A many many")], "at most 32 integers for starts; got more"),
    "slice_more": ([node("Slice", "A", starts=[0] * 9, ends=[1] * 9)], "axes of 3 dimensions"),
    "slice_floats": (
        [node("Slice", "A A 1")],
        "of 64 bits for starts; got shape [4, 3, 2]",
    ),
    "slice_int32": ([node("Slice", "A small 1")], "from small, which is of a type, or"),
    "slice_table": ([node("Slice", "A table 1")], "bits for starts; got shape [1, 2] and type <i8"),
    "slice_no_ends": ([node("Slice", "A 0")], "Slice, which must have an input 2; got 2 inputs"),
    "slice_no_starts": (
        [node("Slice", "A - 1")],
        "which must have an input 1; got 3 inputs",
    ),
    "slice_texts": ([node("Slice", "A", starts=["a"], ends=[1])], "list of integers for starts"),
    "slice_number": (
        [node("Slice", "A", starts=1, ends=[1])],
        "of integers for starts; got 1",
    ),
    "concat_axis": ([node("Concat", "A A", axis=3)], "must have axes of 3 dimensions; got [3]"),
    "concat_axis_below": ([node("Concat", "A A", axis=-4)], "axes of 3 dimensions; got [-4]"),
    "concat_no_axis": ([node("Concat", "A A")], "must have an integer for axis; got None"),
    "concat_text": ([node("Concat", "A A", axis="a")], "must have an integer for axis; got a."),
    "concat_float": ([node("Concat", "A A", axis=1.5)], "must have an integer for axis; got 1.5"),
    "concat_shapes": (
        [node("Slice", "A 0 1 1", "a"), node("Concat", "A a", axis=2)],
        "sizes differ in axis 2 alone; got <f4 [4, 3, 2] and <f4 [4, 1, 2]",
    ),
    "concat_ranks": (
        [node("Concat", "0 A", axis=0)],
        "got <i8 [1] and <f4 [4, 3, 2]",
    ),
    "concat_types": (
        [node("Concat", "A B", axis=0)],
        "inputs of one type whose sizes",
    ),
    "concat_nothing": ([node("Concat", "", axis=0)], "Concat, which must have an input 0"),
    "concat_left_out": ([node("Concat", "A - A", axis=0)], "Concat, which must have an input 1"),
    "unsqueeze_axis": ([node("Unsqueeze", "A 5")], "axes of 4 dimensions; got [5]"),
    "unsqueeze_twice": ([node("Unsqueeze", "A pair")], "must have every axis once; got [1, 1]"),
    "unsqueeze_none": ([node("Unsqueeze", "A")], "Unsqueeze, which must have an input 1"),
    "unsqueeze_many": ([node("Unsqueeze", "A", axes=[*range(30)])], "at most 32 dimensions and"),
    "squeeze_axis": ([node("Squeeze", "A 3")], "axes of 3 dimensions; got [3]"),
    "squeeze_size": ([node("Squeeze", "A 1")], "axes of one element; got [1] of shape [4, 3, 2]"),
    "transpose_perm": (
        [node("Transpose", "A", perm=[0, 1, 1])],
        "axes [0, 1, 2] for perm",
    ),
    "transpose_below": ([node("Transpose", "A", perm=[0, 1, -1])], "for perm; got [0, 1, -1]"),
    "transpose_number": ([node("Transpose", "A", perm=1)], "for perm; got 1"),
    "transpose_texts": ([node("Transpose", "A", perm=["a", "b", "c"])], "axes [0, 1, 2] for perm"),
    "reshape": (
        [node("Reshape", "A 5")],
        "must have a shape for [4, 3, 2]; got [5]",
    ),
    "reshape_minus": ([node("Reshape", "A m3")], "a shape for [4, 3, 2]; got [-3]"),
    "reshape_unknown": ([node("Reshape", "A negatives")], "a shape for [4, 3, 2]; got [-1, -1]"),
    "reshape_huge": (
        [node("Reshape", "A huge")],
        "with Reshape, whose shape is [21474",
    ),
    "reshape_nothing": ([node("Reshape", "nothing huge")], "with Reshape, whose shape is [21474"),
    "reshape_zero": (
        [node("Reshape", "nothing negatives", allowzero=1)],
        "a shape for [0, 3, 2]; got [-1, -1]",
    ),
    "expand": ([node("Expand", "A 5")], "Expand, which must have a shape for [4, 3, 2]; got [5]"),
    "expand_minus": ([node("Expand", "1 m3")], "which must have a shape for [1]; got [-3]"),
    "expand_huge": ([node("Expand", "1 huge")], "computed with Expand, whose shape is [2147483648"),
    "expand_max": ([node("Expand", f"1 {MAX}")], f"computed with Expand, whose shape is [{MAX}]"),
    "expand_large": ([node("Expand", "A large")], "computed with Expand, whose shape is [4, 3, 83"),
    "mul_floats": ([node("Mul", "A A")], "at most 32 integers of 64 bits; got shape [4, 3, 2]"),
    "mul_many": ([node("Mul", "0 many")], "at most 32 integers of 64 bits; got shape [33]"),
    "mul_shapes": (
        [node("Concat", "0 1 3", "a", axis=0), node("Mul", "pair a")],
        "inputs of shapes that fit; got [2] and [3]",
    ),
    "mul_max": (
        [node("Mul", f"{MAX} {MAX}", "a"), node("Mul", f"a {MAX}", "b"), node("Expand", "A b")],
        "computed with Expand, whose shape is",
    ),
    "shape_text": ([node("Shape", "A", start="a")], "Shape, which must have an integer for start"),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(tmp_path, name):
    nodes, message = REFUSALS[name]
    path = written(tmp_path, nodes, TENSORS)
    (found,) = onnx_file.read_nodes(path)  # others may be used
    assert isinstance(found.tensors["W"], onnx_constants.Missing)
    with pytest.raises(ValueError) as caught:
        weights.load(path)
    text = str(caught.value)
    assert text.startswith(f"{path}: Node lstm must have its W in the file; it is "), text
    assert message in text and len(text) < 1000, text
    assert 'save_file(model.state_dict(), "model.safetensors")' in text or name == "short", text


def test_weights_in_another_file(tmp_path):
    (tmp_path / "weights.bin").write_bytes(bytes(48))
    tensor = external()
    tensor.name = "W"
    path = written(tmp_path, [], [tensor])
    message = f"{path}: Node lstm must have its W in the file; it is in another one, as external"
    with pytest.raises(ValueError, match=re.escape(message)):
        weights.load(path)


def test_weights_of_integers(tmp_path):
    path = written(tmp_path, [node("Shape", "A")], TENSORS)
    with pytest.raises(ValueError, match="Weights of node lstm must be floating-point numbers"):
        weights.load(path)


def assert_read_but_for(tmp_path, nodes, arrays, refused: str, message: str):
    """Of a graph of such nodes `y` is read, of one unit, and `refused` is not."""
    path = tmp_path / "a.onnx"
    path.write_bytes(graph_of(nodes, tensors_of(arrays), ["y"]).SerializeToString())
    with pytest.raises(ValueError, match=message):
        weights.load(path, layer=refused)
    assert weights.load(path, layer="y").layout.num_units == 1


def test_other_nodes_are_read_where_one_is_refused(tmp_path):
    """Also if it asks for so much that nothing is left to be computed."""
    arrays = {"W": np.ones([1, 4, 1], np.float32), "R": np.ones([1, 4, 1], np.float32)}
    arrays |= {"begin": ints(0), "end": ints(1)}
    nodes = [node("Concat", " ".join(["W"] * 30_000), "a", axis=0)]
    nodes += [node("Slice", "a begin end", f"b{i}") for i in range(3)]
    nodes += [helper.make_node("LSTM", ["x", f"b{i}", "R"], [f"y{i}"]) for i in range(3)]
    nodes += [helper.make_node("LSTM", ["x", "W", "R"], ["y"])]
    message = "its W in the file; the weights of the file are computed"
    assert_read_but_for(tmp_path, nodes, arrays, "y2", message)


def test_a_graph_of_many_nodes_is_read_where_one_weight_is_refused(tmp_path):
    """What computes a weight is looked for in all nodes, which takes no fields from the others."""
    arrays = {"W": np.ones([1, 4, 1], np.float32), "R": np.ones([1, 4, 1], np.float32)}
    nodes = [helper.make_node("LSTM", ["x", "W", "given"], ["y0"])]
    nodes += [node("Add", "x x", f"a{i}") for i in range(60_000)]
    nodes += [helper.make_node("LSTM", ["x", "W", "R"], ["y"])]
    assert_read_but_for(tmp_path, nodes, arrays, "y0", "its R in the file; it is computed")


def test_parts_of_parts_are_copied_once(tmp_path):
    """Those of gates and of directions, as only memory for one copy of the file is promised."""
    arrays = {name: np.ones([4096, 1024], np.float32) for name in "ab"}
    arrays |= {"zero": ints(0), "half": ints(2048), "end": ints(4096)}
    nodes = []
    for name in "ab":
        nodes.append(node("Slice", f"{name} zero half", f"{name}0"))
        nodes.append(node("Slice", f"{name} half end", f"{name}1"))
        nodes.append(node("Concat", f"{name}1 {name}0", f"{name}2", axis=0))
        nodes.append(node("Unsqueeze", f"{name}2 zero", f"{name}3"))
    nodes.append(node("Concat", "a3 b3", "W", axis=0))
    path = written(tmp_path, nodes, tensors_of(arrays))
    outcome = measured.run(onnx_file.read_nodes, path)
    assert outcome.error == ""
    size = 2 * arrays["a"].nbytes
    assert 1.9 * size < outcome.peak_bytes < 2.3 * size
