"""Makes calls, as op_calls.py describes them, eagerly, traced, or in a GraphDef written by hand."""

import numpy as np
import tensorflow as tf

from tests.fuzz import op_calls
from tests.ops import calls

_FORWARD_OUTPUTS = ("output", "output_h", "output_c", "reserve_space", "host_reserved")
_GRADIENTS = ("input_backprop", "input_h_backprop", "input_c_backprop")
_KERAS_GRADIENTS = ("kernel_backprop", "recurrent_kernel_backprop")


class Refused(Exception):
    """An error, and when it came: "tracing" or "running"."""

    def __init__(self, phase: str, error: Exception):
        super().__init__(f"{type(error).__name__} while {phase}: {error}")
        self.phase = phase
        self.error = error


def _output_names(call: dict) -> list[str]:
    op = call["op"]
    if op in op_calls.FORWARD:
        if op == calls.INT8:
            return list(_FORWARD_OUTPUTS[:3])
        has_host_reserved = op not in ("CudnnRNN", calls.KERAS_RNN)
        return list(_FORWARD_OUTPUTS[: 4 + has_host_reserved])
    if op in calls.BACKPROP:
        return [*_GRADIENTS, "params_backprop"]
    if op in calls.PARAMS_SIZE:
        return ["params_size"]
    if op in (*calls.TO_PARAMS, calls.KERAS_TO_PARAMS):
        return ["params"]
    if op == calls.READ_RESERVE:
        return ["dropout_masks", "states_outer_major"]
    if op in calls.KERAS:
        names, lists = (), ("biases_backprop",)
        if op == calls.KERAS_RNN_BACKPROP:
            names, lists = _GRADIENTS, (*lists, "backward_weights_backprop")
        return [*names, *_KERAS_GRADIENTS, *_of_lists(call, lists)]
    return _of_lists(call, ("weights", "biases"))


def _of_lists(call: dict, lists: tuple) -> list[str]:
    return [
        f"{name}:{i}"
        for name in lists
        for i in range(op_calls.count_of(call, name.removesuffix("_backprop")))
    ]


def wanted(call: dict) -> int:
    """How many outputs are asked for; of a forward call in a graph, maybe the first three."""
    return 3 if call.get("fetch") == "outputs" else len(_output_names(call))


def _by_name(call: dict, outputs: list) -> dict:
    names = _output_names(call)[: len(outputs)]
    return {name: np.asarray(value) for name, value in zip(names, outputs, strict=True)}


def _attributes(call: dict) -> dict:
    return {
        name: tf.as_dtype(value) if name in ("T", "S", "M") else value
        for name, value in call["attributes"].items()
    }


def run_eager(call: dict, arrays: dict) -> dict:
    tensors = tf.nest.map_structure(tf.constant, arrays)
    try:
        outputs = calls.function(call["op"])(**tensors, **_attributes(call))
        return _by_name(call, [output.numpy() for output in tf.nest.flatten(outputs)])
    except Exception as error:
        raise Refused("running", error) from error


def _known_shape(known: str, shape: tuple):
    nonzero = [size or None for size in shape]
    return {"nothing": None, "rank": [None] * len(shape), "nonzero": nonzero}.get(known, shape)


def _run_function(call: dict, arrays: dict) -> dict:
    tensors = tf.nest.map_structure(tf.constant, arrays)
    attributes = _attributes(call)
    constants = {}
    if call["known"] in ("all", "constants"):
        constants = {n: arrays[n] for n in op_calls.SCALARS if n in arrays}
        tensors = {name: tensor for name, tensor in tensors.items() if name not in constants}
    specs = tf.nest.map_structure(
        lambda t: tf.TensorSpec(_known_shape(call["known"], t.shape), t.dtype), tensors
    )

    def run(tensors):
        fixed = {name: tf.constant(array) for name, array in constants.items()}
        outputs = calls.function(call["op"])(**tensors, **fixed, **attributes)
        return tf.nest.flatten(outputs)[: wanted(call)]

    function = tf.function(run, input_signature=[specs], autograph=False)
    try:
        function.get_concrete_function()
    except Exception as error:
        raise Refused("tracing", error) from error
    try:
        return _by_name(call, [output.numpy() for output in function(tensors)])
    except Exception as error:
        raise Refused("running", error) from error


def _set_attribute(node, name: str, value):
    attribute = node.attr[name]
    if name in ("T", "S", "M", "dtype") and isinstance(value, str):
        attribute.type = tf.as_dtype(value).as_datatype_enum
    elif isinstance(value, bool):
        attribute.b = value
    elif isinstance(value, int):
        attribute.i = value
    elif isinstance(value, float):
        attribute.f = np.float32(value)
    else:
        attribute.s = value.encode()


def _graph_def(call: dict, arrays: dict):
    graph = tf.compat.v1.GraphDef()
    graph.versions.producer = tf.version.GRAPH_DEF_VERSION
    for name, array in arrays.items():
        node = graph.node.add(name=name)
        node.attr["dtype"].type = tf.as_dtype(array.dtype).as_datatype_enum
        if call["known"] == "constants":
            node.op = "Const"
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(array))
        else:
            node.op = "Placeholder"
            shape = tf.TensorShape(_known_shape(call["known"], array.shape))
            node.attr["shape"].shape.CopyFrom(shape.as_proto())
    op = call["op"]
    node = graph.node.add(name="call")
    node.op = f"TfCudnnRnn>{op.removeprefix(calls.OWN)}" if op_calls.is_own(op) else op
    node.input.extend(name.replace(":", "_") for name in call["order"])
    node.input.extend(f"^{name}" for name in call.get("after", []))
    node.device = call.get("device", "")
    for name, value in (call["attributes"] | call.get("extra", {})).items():
        _set_attribute(node, name, value)
    return graph


def _run_graph(call: dict, arrays: dict) -> dict:
    arrays = {name.replace(":", "_"): value for name, value in op_calls.flatten(arrays).items()}
    with tf.Graph().as_default() as graph:
        try:
            tf.import_graph_def(_graph_def(call, arrays), name="")
        except Exception as error:
            raise Refused("tracing", error) from error
        outputs = graph.get_operation_by_name("call").outputs[: wanted(call)]
        feeds = {} if call["known"] == "constants" else {f"{n}:0": a for n, a in arrays.items()}
        config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
        with tf.compat.v1.Session(graph=graph, config=config) as session:
            try:
                return _by_name(call, session.run(outputs, feeds))
            except Exception as error:
                raise Refused("running", error) from error


RUN = {"eager": run_eager, "function": _run_function, "graph": _run_graph}
