"""ONNX models and SavedModels' graphs; protobuf judges."""

from tests.fuzz.file_formats import command_line, protobufs
from tests.fuzz.file_formats.format import Format, refuses, written
from tf_cudnn_rnn._files import variables
from tf_cudnn_rnn._formats import onnx, onnx_constants, onnx_file, saved_model

_RECURRENT = frozenset((*variables.CUDNN_OPS, variables.OWN_OP, variables.KERAS_OP))


def _read_onnx(content: bytes, seed: str) -> str:
    path = written(content, "model.onnx")
    try:
        nodes = onnx_file.read_nodes(path)
    except (ValueError, OSError) as error:
        command_line.read(path)
        return refuses(error, path)
    message = protobufs.parsed("Onnx", content)
    if message is not None:
        _compare_onnx(message.graph, nodes)
    return command_line.read(path)


def _compare_onnx(graph, nodes: list[onnx_file.FileNode]) -> None:
    ops = {op.encode() for op in onnx.OPS.values()}
    theirs = [node for node in graph.node if node.op_type in ops]
    computed = {output for node in graph.node for output in node.output}
    # Of equal names the last one counts.
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    for ours, node in zip(nodes, theirs, strict=True):
        name = node.name or (node.output[0] if node.output else b"")
        assert (ours.name.encode(), ours.op_type.encode()) == (name, node.op_type)
        for letter, tensor_name in zip("XWRB", node.input, strict=False):
            found = ours.tensors.get(letter)
            tensor = tensors.get(tensor_name)
            is_there = isinstance(found, onnx_constants.Tensor) and found.content is not None
            if not is_there or tensor is None or tensor_name in computed:
                continue
            assert found.shape == tuple(tensor.dims), letter
            if tensor.HasField("raw_data"):
                assert bytes(found.content) in (tensor.raw_data, b""), letter


def _read_saved_model(content: bytes, seed: str) -> str:
    """`convert` needs TensorFlow, which reads the variables; what it asks of the graph is here."""
    path = written(content, "saved_model.pb")
    try:
        nodes = saved_model.read_nodes(path, _RECURRENT)
        for node in nodes:
            saved_model.layout_of(node)
        variables.simple_modes_of_graph(path)
    except (ValueError, OSError) as error:
        command_line.read(path)
        return refuses(error, path)
    message = protobufs.parsed("SavedModel", content)
    if message is not None:
        _compare_saved_model(message, nodes)
    return command_line.read(path)


def _compare_saved_model(message, nodes: list[saved_model.Node]) -> None:
    names = {name.encode() for name in _RECURRENT}
    theirs = []
    for meta_graph in message.meta_graphs:
        functions = meta_graph.graph_def.library.function
        theirs += [node for function in functions for node in function.node_def]
        theirs += meta_graph.graph_def.node
    expected = sorted((node.name, node.op) for node in theirs if node.op in names)
    assert sorted((node.name.encode(), node.op.encode()) for node in nodes) == expected


FORMATS = {
    "onnx": Format(_read_onnx, golden=("onnx/*.onnx",)),
    "saved_model": Format(_read_saved_model),
}
