"""Object graphs of checkpoints, and the headers of layers in them."""

import functools
import json
from typing import Any

import numpy as np

from tests.weights.hostile.attack import MB, Attack, case, of_mapping
from tests.weights.protobufs import field
from tf_cudnn_rnn import weights

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


def node(children: dict[str, int], key: str = "") -> bytes:
    """A TrackableObject."""
    content = b"".join(
        field(1, field(1, child) + field(2, name.encode())) for name, child in children.items()
    )
    return field(1, content + (field(2, field(3, key.encode())) if key else b""))


HEADER = {
    "format": "tf_cudnn_rnn/params",
    "version": 1,
    "rnn_mode": "rnn_tanh",
    "num_layers": 1,
    "num_units": 1,
    "input_size": 1,
    "direction": "unidirectional",
    "input_mode": "linear_input",
    "num_proj": 0,
    "gates": [""],
    "params_size": 4,
}


def checkpoint(*more: bytes, header: Any = None, params: Any = None, names=(GRAPH,)) -> Attack:
    """One layer, and what else the graph has."""
    if not (isinstance(header, bytes) or header is not None):
        header = HEADER
    if isinstance(header, dict):
        header = json.dumps(header).encode()
    graph = b"".join(
        [
            node({"layer": 1}),
            node({"params": 2, "params_header": 3}),
            node({}, "params"),
            node({}, "header"),
            *more,
        ]
    )
    params = np.zeros(4, np.float32) if params is None else params
    variables = {GRAPH: graph, "params": params, "header": header}
    return of_mapping(weights.checkpoint_to_canonical, variables, names=names)


def graph_of(graph: Any) -> Attack:
    variables = {GRAPH: graph}
    size = len(graph) if isinstance(graph, bytes) else 100
    return Attack(functools.partial(weights.checkpoint_to_canonical, variables), (), size, (GRAPH,))


@case
def checkpoint_with_a_long_varint(folder):
    return graph_of(b"\x08" + b"\xff" * MB + b"\x01")


@case
def checkpoint_with_long_varints(folder):
    return graph_of((b"\x08" + b"\xff" * 10_000 + b"\x01") * 100)


@case
def checkpoint_with_a_child_of_a_long_varint(folder):
    reference = b"\x08" + b"\xff" * 300_000 + b"\x01" + field(2, b"a")
    return graph_of(field(1, field(1, reference)))


@case
def checkpoint_of_a_long_path(folder):
    """A chain, whose paths together are as long as its length squared."""
    return graph_of(b"".join(node({"a" * 60: i + 1}) for i in range(30_000)) + node({}))


@case
def checkpoint_of_a_long_path_to_layers(folder):
    """A path of 1 MB to 10,000 layers."""
    children = {f"l{i}": 2 for i in range(10_000)}
    layers = [node(children)] + [node({"params": 3, "params_header": 4})]
    nodes = [node({"a" * MB: 1}), *layers, node({}, "params"), node({}, "header")]
    variables = {GRAPH: b"".join(nodes), "params": np.zeros(5), "header": json.dumps(HEADER)}
    return of_mapping(weights.checkpoint_to_canonical, variables, names=(GRAPH,))


@case
def checkpoint_of_many_layers(folder):
    nodes = [node({f"l{i}": i + 3 for i in range(50_000)}), node({}, "params"), node({}, "header")]
    nodes += [node({"params": 1, "params_header": 2})] * 50_000
    variables = {GRAPH: b"".join(nodes), "params": np.zeros(4), "header": json.dumps(HEADER)}
    return of_mapping(weights.checkpoint_to_canonical, variables, names=("variables",))


@case
def checkpoint_of_many_nodes(folder):
    return graph_of(b"\x0a\x00" * 10_000_000)


@case
def checkpoint_of_many_children(folder):
    return graph_of(field(1, b"\x0a\x00" * 10_000_000))


@case
def checkpoint_of_deep_groups(folder):
    return graph_of(b"\x0b" * 500_000)


@case
def checkpoint_of_deep_messages(folder):
    content = b""
    for _ in range(3000):
        content = field(1, content)
    return graph_of(content)._replace(names=("variables", "none"))


@case
def checkpoint_with_a_circle_and_no_layer(folder):
    graph = node({"a": 1}) + node({"b": 0, "c": 1})
    return graph_of(graph)._replace(names=("variables", "none"))


@case
def checkpoint_with_a_child_that_is_not_there(folder):
    return graph_of(node({"a": 1000}))


@case
def checkpoint_with_a_negative_child(folder):
    return graph_of(node({"a": (1 << 64) - 1}) + node({}))


@case
def checkpoint_without_nodes(folder):
    return graph_of(b"")


@case
def checkpoint_that_is_cut_off(folder):
    return graph_of(node({"a": 1})[:-1])


@case
def checkpoint_whose_names_are_no_text(folder):
    return graph_of(field(1, field(1, field(1, 1) + field(2, b"\xff"))) + node({}))


@case
def checkpoint_whose_graph_is_an_array(folder):
    return graph_of(np.arange(5))


@case
def checkpoint_whose_graph_is_a_number(folder):
    return graph_of(np.float32(3))


@case
def checkpoint_whose_graph_is_none(folder):
    return graph_of(None)


@case
def checkpoint_whose_slots_multiply(folder):
    """Lists of 3000 slots each, 3000 of them."""
    count = 3000
    variables = {str(i): 2 for i in range(count)}
    lists = {f"s{i}": 5 for i in range(count)}
    optimizer = node({"_trainable_variables": 5, **lists})
    more = (optimizer, node(variables))
    graph = [node({"layer": 1, "optimizer": 4}), node({"params": 2, "params_header": 3})]
    graph += [node({}, "params"), node({}, "header"), *more]
    arrays = {
        GRAPH: b"".join(graph),
        "params": np.zeros(4, np.float32),
        "header": json.dumps(HEADER).encode(),
    }
    attack = of_mapping(weights.checkpoint_to_canonical, arrays, names=("params",))
    read = functools.partial(attack.read, None, "nothing")
    return attack._replace(read=read)


@case
def checkpoint_of_optimizers_that_share_a_list(folder):
    """A list of 60,000 objects, which 20,000 objects call that of their variables."""
    count = 20_000
    graph = [node({"layer": 1, "all": 4}), node({"params": 2, "params_header": 3})]
    graph += [node({}, "params"), node({}, "header")]
    graph += [node({f"{i:x}": 6 + i for i in range(count)})]
    graph += [node({f"{i:x}": 0 for i in range(60_000)})]
    graph += [node({"_trainable_variables": 5})] * count
    variables = {GRAPH: b"".join(graph), "params": np.zeros(4), "header": json.dumps(HEADER)}
    attack = of_mapping(weights.checkpoint_to_canonical, variables, names=("params",))
    return attack._replace(read=functools.partial(attack.read, None, "nothing"))


@case
def checkpoint_of_layers_that_share_a_header(folder):
    """Of 64 KB, valid, which is read again for each of 1000 layers."""
    count = 1000
    header = json.dumps({**HEADER, "x": [0] * 32_000}, separators=(",", ":"))
    nodes = [node({f"l{i}": i + 3 for i in range(count)}), node({}, "params"), node({}, "header")]
    nodes += [node({"params": 1, "params_header": 2})] * count
    variables = {GRAPH: b"".join(nodes), "params": np.zeros(4), "header": header}
    return of_mapping(weights.checkpoint_to_canonical, variables, names=("variables",))


def header(change: dict, names=("layer/params_header",)) -> Attack:
    return checkpoint(header={**HEADER, **change}, names=names)


@case
def header_of_a_billion_layers(folder):
    return header({"num_layers": 10**9, "params_size": 4 + 4 * (10**9 - 1)}, names=("params",))


@case
def header_of_a_billion_units(folder):
    size = 10**9 + 10**18 + 2 * 10**9
    return header({"num_units": 10**9, "params_size": size}, names=("params",))


@case
def header_of_a_number_of_4000_digits(folder):
    return header({"num_layers": 10**4000, "params_size": 4 * 10**4000})


@case
def header_of_a_deep_list(folder):
    return checkpoint(header=b"[" * MB, names=("layer/params_header",))


@case
def header_of_a_number(folder):
    return checkpoint(header=np.float32(3), names=("layer/params_header",))


@case
def header_of_an_array(folder):
    return checkpoint(header=np.arange(3), names=("layer/params_header",))


@case
def header_that_is_long(folder):
    return checkpoint(header=b'{"a":"' + b"a" * (10 * MB) + b'"}', names=("layer/params_header",))


@case
def header_that_is_no_text(folder):
    return checkpoint(header=b"\xff\xfe\xff", names=("layer/params_header",))


@case
def header_of_a_list_for_a_mode(folder):
    return header({"rnn_mode": ["lstm"]})


@case
def header_of_an_object_for_a_size(folder):
    return header({"num_units": {"a": 1}})


@case
def header_of_a_fraction_for_a_size(folder):
    return header({"num_units": 1.5})


@case
def header_of_a_list_for_a_name(folder):
    return header({"layer": [1] * 1000})


@case
def params_of_texts(folder):
    return checkpoint(params=np.array(["a"] * 4), names=("params",))


@case
def params_of_objects(folder):
    return checkpoint(params=np.array([None] * 4), names=("params",))
