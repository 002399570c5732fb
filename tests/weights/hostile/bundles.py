"""Checkpoints and SavedModels whose object graphs cost much, or that lead to other files.

They are written by TensorFlow.
"""

import json
import pathlib
import shutil

import numpy as np
import tensorflow as tf

from tests.weights.hostile.checkpoints import GRAPH, HEADER, field, node

# A kernel, a recurrent kernel and a bias, of a layer LSTM that a graph names.
_ARRAYS = {"k": np.zeros([3, 16]), "r": np.zeros([4, 16]), "b": np.zeros([16])}
_LAYER = b"".join(
    [
        node({"lstm": 1}),
        node({"cell": 2}),
        node({"kernel": 3, "recurrent_kernel": 4, "bias": 5}),
        *(node({}, key) for key in _ARRAYS),
    ]
)
SECRET = 42.0  # what all weights of another file are
_CHILDREN = 95_000


def save(prefix: pathlib.Path, variables: dict) -> pathlib.Path:
    """Writes a checkpoint."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    names = sorted(variables)
    tensors = [tf.constant(variables[name]) for name in names]
    tf.raw_ops.SaveV2(
        prefix=str(prefix), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors
    )
    return prefix


def of_a_layer(prefix: pathlib.Path, value: float = 0.0) -> pathlib.Path:
    """Writes a checkpoint of one layer, whose weights are all alike."""
    arrays = {key: np.full_like(array, value, np.float32) for key, array in _ARRAYS.items()}
    return save(prefix, {GRAPH: _LAYER, **arrays})


def of_a_model(folder: pathlib.Path, variables: dict | None = None) -> pathlib.Path:
    """Writes a SavedModel of one layer, or of other variables."""
    folder.mkdir(parents=True)
    graph = field(1, field(1, b"k") + field(2, b"NoOp"))
    (folder / "saved_model.pb").write_bytes(field(2, field(2, graph)))
    if variables is None:
        of_a_layer(folder / "variables" / "variables")
    else:
        save(folder / "variables" / "variables", variables)
    return folder


def _lead_elsewhere(prefix: pathlib.Path, target: str) -> None:
    """Makes a folder of a checkpoint's name, where `tf.train.load_checkpoint` looks first."""
    prefix.mkdir()
    (prefix / "checkpoint").write_text(
        f'model_checkpoint_path: "{target}"\nall_model_checkpoint_paths: "{target}"\n'
    )


# ------------------------------------------------------------------------------------
# What leads to `secret`, a checkpoint in the same folder
# ------------------------------------------------------------------------------------


def model_with_a_folder_of_the_name_of_its_variables(folder, secret):
    path = of_a_model(folder / "model")
    _lead_elsewhere(path / "variables" / "variables", str(secret))
    return path


def checkpoint_with_a_folder_of_its_name(folder, secret):
    prefix = of_a_layer(folder / "model" / "ck")
    _lead_elsewhere(prefix, str(secret))
    return prefix.parent / "ck.index"


def model_with_a_folder_of_links(folder, secret):
    path = of_a_model(folder / "model")
    shutil.rmtree(path / "variables")
    (path / "variables").symlink_to(secret.parent)
    for file in secret.parent.glob("secret.*"):
        file.rename(file.with_name(file.name.replace("secret", "variables")))
    return path


def _linked(prefix: pathlib.Path, secret: pathlib.Path, *endings: str) -> None:
    for ending in endings:
        path = pathlib.Path(f"{prefix}.{ending}")
        path.unlink()
        path.symlink_to(f"{secret}.{ending}")


def model_with_a_link_for_an_index(folder, secret):
    path = of_a_model(folder / "model")
    _linked(path / "variables" / "variables", secret, "index", "data-00000-of-00001")
    return path


def checkpoint_with_a_link_for_its_data(folder, secret):
    prefix = of_a_layer(folder / "model" / "ck")
    _linked(prefix, secret, "data-00000-of-00001")
    return prefix.parent / "ck.index"


def model_with_a_link_for_its_graph(folder, secret):
    path = of_a_model(folder / "model")
    (path / "saved_model.pb").rename(folder / "graph.pb")
    (path / "saved_model.pb").symlink_to(folder / "graph.pb")
    return path


# Nothing wrong is read of these: what is beside a checkpoint is none of its files.
WITH_A_FOLDER_OF_THE_NAME = {
    build.__name__: build
    for build in (
        model_with_a_folder_of_the_name_of_its_variables,
        checkpoint_with_a_folder_of_its_name,
    )
}
LEADING_ELSEWHERE = {
    build.__name__: build
    for build in (
        model_with_a_folder_of_links,
        model_with_a_link_for_an_index,
        checkpoint_with_a_link_for_its_data,
        model_with_a_link_for_its_graph,
    )
}


# ------------------------------------------------------------------------------------
# What costs much
# ------------------------------------------------------------------------------------


def _with_graph(folder: pathlib.Path, nodes: list[bytes], **more) -> pathlib.Path:
    variables = {GRAPH: b"".join(nodes), "x": np.float32(1), **more}
    return of_a_model(folder / "model", variables)


def a_chain_to_many_variables(folder):
    """All of one key: in a SavedModel, each path is asked for."""
    length = 2040
    nodes = [node({"a": number + 1}) for number in range(length)]
    nodes.append(node({f"{number:x}": length + 1 + number for number in range(_CHILDREN)}))
    return _with_graph(folder, nodes + [node({}, "x")] * _CHILDREN)


def a_long_name_before_many_variables(folder):
    nodes = [
        node({"a" * 4000: 1}),
        node({f"{number:x}": 2 + number for number in range(_CHILDREN)}),
    ]
    return _with_graph(folder, nodes + [node({}, "x")] * _CHILDREN)


def a_chain_to_many_vectors(folder):
    """Which a network of the graph may have, by their size."""
    path = of_a_model(folder / "model", {"x": np.float32(1)})
    shapes = [(1, 1, 1), (1, 1, 1), (1, 1, 1), (12,)]

    def const(number: int, shape: tuple[int, ...]) -> bytes:
        sizes = b"".join(field(2, field(1, size)) for size in shape)
        value = field(1, b"_output_shapes") + field(2, field(1, field(7, sizes)))
        return field(1, field(1, b"i%d" % number) + field(2, b"Const") + field(5, value))

    inputs = b"".join(field(3, b"i%d" % number) for number in range(len(shapes)))
    graph = b"".join(const(number, shape) for number, shape in enumerate(shapes))
    graph += field(1, field(1, b"k") + field(2, b"CudnnRNNV3") + inputs)
    (path / "saved_model.pb").write_bytes(field(2, field(2, graph)))
    vector = np.zeros(16, np.float32)
    shutil.rmtree(path / "variables")
    length, count = 2040, 1900
    nodes = [node({"a": number + 1}) for number in range(length)]
    nodes.append(node({f"{number:x}": length + 1 + number for number in range(count)}))
    nodes += [node({}, "x")] * count
    save(path / "variables" / "variables", {GRAPH: b"".join(nodes), "x": vector})
    return path


def _long_header(**more) -> str:
    return json.dumps({**HEADER, "x": [0] * 32_000, **more}, separators=(",", ":"))


def _layers(count: int, headers: list[int]) -> list[bytes]:
    """Layers CudnnRNN with one vector; and each with the header of this node."""
    nodes = [node({f"{number:x}": 2 + number for number in range(count)}), node({}, "p")]
    return nodes + [node({"params": 1, "params_header": header}) for header in headers]


def layers_that_share_a_header(folder):
    count = 1000
    nodes = [*_layers(count, [2 + count] * count), node({}, "h")]
    variables = {"p": np.zeros(4, np.float32), "h": _long_header()}
    return save(folder / "ck", {GRAPH: b"".join(nodes), **variables}).with_name("ck.index")


def layers_of_long_headers(folder):
    count = 600
    nodes = _layers(count, [2 + count + number for number in range(count)])
    keys = [f"h{number:03d}" for number in range(count)]
    nodes += [node({}, key) for key in keys]
    variables = {"p": np.zeros(4, np.float32), **{key: _long_header() for key in keys}}
    return save(folder / "ck", {GRAPH: b"".join(nodes), **variables}).with_name("ck.index")


def many_objects(folder):
    """As many as a graph may have, each with a key: it is read in several ways."""
    count = 99_000
    children = {f"{number:x}": 1 + number for number in range(count)}
    nodes = [node(children), *[node({}, "x")] * count]
    return _with_graph(folder, nodes)


COSTLY = {
    build.__name__: build
    for build in (
        a_chain_to_many_variables,
        a_long_name_before_many_variables,
        a_chain_to_many_vectors,
        layers_that_share_a_header,
        layers_of_long_headers,
        many_objects,
    )
}
