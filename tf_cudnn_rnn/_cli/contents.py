"""The recurrent nodes, layers and sets of weights in a file. Nothing is loaded or run."""

import collections
import contextlib
import dataclasses
import functools
import math
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from tf_cudnn_rnn import _library
from tf_cudnn_rnn._cli import needs, output
from tf_cudnn_rnn._files import checkpoint, readers, variables
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import (
    hdf5,
    keras_file,
    npz,
    onnx,
    onnx_file,
    params_header,
    runtime_file,
    safetensors,
    saved_model,
    tf1,
    untrusted,
    vectors,
)
from tf_cudnn_rnn._formats import torch as torch_format
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, INPUT_MODES, SIZE_LIMIT, Layout
from tf_cudnn_rnn._types import Direction, RnnMode

MOST = 1000  # parts that are looked at; a file may have as many as it likes

# A simple RNN's weights do not tell which.
SIMPLE = "rnn_tanh or rnn_relu"
_MODE_OF_GATES = {4: "lstm", 3: "gru", 1: SIMPLE}
_OTHER_OPS = ("BlockLSTM", "BlockLSTMV2", "GRUBlockCell", "LSTMBlockCell")
_KERAS_CLASSES = ("LSTM", "GRU", "SimpleRNN")
_LEGACY_CLASSES: dict[str, RnnMode] = {"CuDNNLSTM": "lstm", "CuDNNGRU": "gru"}
_STACKS: dict[str, RnnMode] = {
    "CudnnLSTM": "lstm",
    "CudnnGRU": "gru",
    "CudnnRNNTanh": "rnn_tanh",
    "CudnnRNNRelu": "rnn_relu",
}
_OTHER_CLASSES = ("RNN", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D")
_TF1_MODES = {"cudnn_compatible_gru_cell": "gru", "basic_rnn_cell": SIMPLE}  # others: lstm


@dataclasses.dataclass
class Found:
    """A recurrent node, layer or set of weights. None is what the file does not tell.

    Attributes:
      name: where it is in the file; comes from the file.
      kind: the op, the class, or the library whose weights these are.
      rnn_mode, num_layers, num_units, input_size, direction, num_proj: of the network.
      parameters: how many weights it has.
      biases: of each gate: two as cuDNN has, one as most layers of Keras, or none.
      layer: what `convert --layer` takes for it.
      runs: whether this library computes it here.
      how: with which call; or why not.
      needs: the packages that the call needs, NumPy aside.
      lacks: what of them is not here, or does not fit; then it does not run here, but would.
    """

    name: str
    kind: str
    rnn_mode: str | None = None
    num_layers: int | None = None
    num_units: int | None = None
    input_size: int | None = None
    direction: str | None = None
    num_proj: int | None = None
    parameters: int | None = None
    biases: int | None = None
    layer: str | None = None
    runs: bool = True
    how: str = ""
    needs: tuple[str, ...] = ()
    lacks: str = ""

    def take(self, layout: Layout) -> None:
        """Takes the sizes over from a network."""
        for field in ("rnn_mode", "num_layers", "num_units", "input_size", "direction"):
            setattr(self, field, getattr(layout, field))
        self.num_proj = layout.num_proj if layout.has_projection else 0
        self.parameters = layout.size
        self.biases = 2


class Loop(NamedTuple):
    """A loop of small ops in a graph, as Keras exports its own recurrent layers."""

    key: tuple[Any, ...]


class Contents(NamedTuple):
    """What is in a file.

    Attributes:
      found: the first parts that are recurrent, MOST at most.
      more: how many come after these.
      loops: how many loops of small ops there are besides.
    """

    found: list[Found]
    more: int = 0
    loops: int = 0


_TorchNetwork: TypeAlias = Mapping[tuple[str, int, bool], untrusted.ArrayHeader]
# What looks at a part, which takes longer than to count it.
_Look: TypeAlias = Callable[[], Found]


def _looked_at(items: Iterable[_Look | Loop]) -> Contents:
    found: list[Found] = []
    more = 0
    loops = set()
    for item in items:
        if isinstance(item, Loop):
            loops.add(item.key)
        elif len(found) < MOST:
            found.append(item())
        else:
            more += 1
    lacking = functools.cache(needs.lacking)  # parts of a file mostly need the same
    for part in found:
        if part.runs and (lacks := lacking(part.needs)):
            part.runs, part.lacks = False, lacks
    return Contents(found, more, len(loops))


@contextlib.contextmanager
def _runs_unless_refused(found: Found) -> Iterator[None]:
    """If a reader refuses what is read of a part, it does not run, and tells why."""
    try:
        yield
    except (ImportError, ValueError) as error:
        found.runs, found.how = False, str(error)


def find(kind: Kind, path: str, shown_path: str) -> Contents:
    """Returns what is recurrent in a file.

    Args:
      kind, path: of the file; see `kinds.recognise`.
      shown_path: what the user called it, for the calls that are recommended.

    Raises:
      ImportError: something that is needed to read it is not installed.
      OSError: it cannot be opened.
      ValueError: it is damaged.
    """
    with untrusted.named(path):
        return _looked_at(_FINDERS[kind](path, shown_path))


# ------------------------------------------------------------------------------------
# What is recommended, which people paste
# ------------------------------------------------------------------------------------

_LOAD_WEIGHTS = "model.load_weights({}), of a model whose layers are those of tf_cudnn_rnn.keras"
_LOAD_OWN = "import tf_cudnn_rnn.keras; keras.saving.load_model({})"
_HDF5 = (".h5", ".hdf5")
_NO_COMMAND = "it has characters that cannot be printed, so that no command is shown here"


def _convert(shown_path: str, target: str, to: str, **options: str) -> str:
    """A command line of `convert` that a shell takes as it is meant, whatever the names are."""
    if not all(map(str.isprintable, (shown_path, *options.values()))):
        return f"`tf-cudnn-rnn convert` reads it; {_NO_COMMAND}"
    # Neither a path nor a value may look like an option.
    source = f"./{shown_path}" if shown_path.startswith("-") else shown_path
    words = ["tf-cudnn-rnn", "convert", source, target]
    for name, value in {"from": options.pop("source_format", ""), "to": to, **options}.items():
        option = f"--{name.replace('_', '-')}"
        if value:
            words += [f"{option}={value}"] if value.startswith("-") else [option, value]
    return shlex.join(words)


def _call(text: str, argument: str) -> str:
    """A call in Python, which has {} where its argument belongs."""
    if not argument.isprintable():
        return f"{text.format('PATH')}; {_NO_COMMAND}"
    return text.format(repr(argument))


def _keras_call(text: str, path: str, *endings: str) -> str:
    """A call of Keras, which takes no path with another ending than these."""
    if path.endswith(endings):
        return _call(text, path)
    renamed = os.path.splitext(path)[0] + endings[0]
    where = (
        f"rename it to {renamed}" if renamed.isprintable() else f"give it the ending {endings[0]}"
    )
    return f"{where}, as Keras goes by the ending, then {_call(text, renamed)}"


# ------------------------------------------------------------------------------------
# Graphs
# ------------------------------------------------------------------------------------


def _saved_model(path: str, shown_path: str) -> Iterator[_Look | Loop]:
    folder = shown_path.removesuffix("saved_model.pb")
    call = _call("import tf_cudnn_rnn; tf.saved_model.load({})", folder or ".")
    own = (variables.OWN_OP, variables.KERAS_OP, variables.INT8_OP)
    recurrent = (*variables.CUDNN_OPS, *own)
    nodes = saved_model.read_nodes(path, frozenset((*recurrent, *_OTHER_OPS, *saved_model.LOOPS)))
    seen = set()
    for node in nodes:
        if node.op in saved_model.LOOPS:
            yield Loop(node.key)
            continue
        # Each signature has a copy.
        if node.key in seen:
            continue
        seen.add(node.key)
        yield functools.partial(_graph_node, node, call)


def _graph_node(node: saved_model.Node, call: str) -> Found:
    found = Found(node.name, node.op, how=call, needs=(needs.TENSORFLOW,))
    if node.op in _OTHER_OPS:
        found.how = "TensorFlow's own CPU kernel runs it, as it does without this library"
        found.runs = False
    elif node.op == variables.KERAS_OP:
        _take_keras_node(found, node)
    else:
        _take_cudnn_node(found, node)
    return found


def _known(
    found: Found, attributes: dict[str, Any], name: str, default: str, known: Iterable[str]
) -> str | None:
    """An attribute that is a word; None if the op does not know it, and then it does not run."""
    value: str = attributes.get(name, default)
    if value in known:
        return value
    found.runs = False
    found.how = f"{name} must be one of {', '.join(known)}; it is {untrusted.shown(value)}"
    return None


def _take_cudnn_node(found: Found, node: saved_model.Node) -> None:
    attributes = node.attributes
    found.rnn_mode = _known(found, attributes, "rnn_mode", "lstm", GATES)
    found.direction = _known(found, attributes, "direction", "unidirectional", DIRECTIONS)
    _known(found, attributes, "input_mode", "linear_input", INPUT_MODES)
    found.num_proj = attributes.get("num_proj", 0)
    if found.num_proj < 0:
        found.runs, found.how = False, f"num_proj must not be negative; it is {found.num_proj}"
        found.num_proj = None
    found.input_size = node.size(0, -1)
    # c keeps H where h is projected.
    found.num_units = node.size(2 if found.num_proj else 1, -1)
    states = node.size(1, 0 if attributes.get("time_major", True) else 1)
    if states and found.direction:
        found.num_layers = states // len(DIRECTIONS[found.direction])
    found.parameters, found.biases = node.size(3, 0), 2
    if node.op == variables.INT8_OP:  # whose matrices and biases are two inputs
        counts = [found.parameters, node.size(5, 0)]
        found.parameters = None if None in counts else sum(filter(None, counts))


def _take_keras_node(found: Found, node: saved_model.Node) -> None:
    found.rnn_mode = _known(found, node.attributes, "rnn_mode", "lstm", GATES)
    has_both = node.attributes.get("num_backward_weights", 0) != 0
    found.direction = "bidirectional" if has_both else "unidirectional"
    found.num_layers, found.num_proj = 1, 0
    found.input_size = node.size(3, 0)
    found.num_units = node.size(4, 0)
    weights = [shape for shape in node.inputs[3:6] if shape is not None]
    if found.input_size and found.num_units:
        sizes = [_product(shape) for shape in weights if min(shape, default=0) > 0]
        found.parameters = len(DIRECTIONS[found.direction]) * sum(sizes)
        found.biases = _num_biases(*weights[1:])


def _num_biases(recurrent: Iterable[int], *bias: Iterable[int]) -> int | None:
    """The biases of each gate, by the shapes of a layer's recurrent kernel, and bias if any."""
    columns = [*recurrent][-1]
    number, rest = divmod(_product(bias[0]), columns) if bias and columns else (0, 0)
    return number if not rest and number in (0, 1, 2) else None


def _product(shape: Iterable[int]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result


def _onnx(path: str, shown_path: str) -> Iterator[_Look]:
    nodes = onnx_file.read_nodes(path)
    # `convert` takes all of them if no other is said.
    is_one = len(nodes) <= MOST and _are_a_stack(nodes)
    for node in nodes:
        options = {} if is_one else {"layer": node.name}
        yield functools.partial(_onnx_node, node, shown_path, options)


def _are_a_stack(nodes: Sequence[onnx_file.FileNode]) -> bool:
    """Whether nodes are one network of several layers, or of one."""
    if len(nodes) == 1:
        return True
    if not nodes or onnx_file.breaks_of(nodes):
        return False
    with contextlib.suppress(ValueError):
        onnx.check_stack([node.as_arrays() for node in nodes])
        return True
    return False


def _onnx_node(node: onnx_file.FileNode, shown_path: str, options: Mapping[str, str]) -> Found:
    found = Found(node.name, node.op_type, layer=node.name)
    direction = node.attributes.get("direction", "forward")
    found.direction = "bidirectional" if direction == "bidirectional" else "unidirectional"
    found.num_layers, found.num_proj = 1, 0
    with _runs_unless_refused(found):
        arrays = node.as_arrays()
        found.rnn_mode = onnx.mode_of(arrays, "It")
        if arrays.W.ndim == arrays.R.ndim == 3:
            found.input_size, found.num_units = arrays.W.shape[2], arrays.R.shape[2]
        weights = (array for array in arrays[2:] if array is not None)
        found.parameters = sum(array.size for array in weights)
        found.biases = 2 if arrays.B is not None else 0
        onnx.check_alone(arrays)
        found.how = _convert(shown_path, "model.keras", "keras", **options)
    return found


# ------------------------------------------------------------------------------------
# Keras
# ------------------------------------------------------------------------------------


def _keras(path: str, shown_path: str) -> Iterator[_Look]:
    config = keras_file.read_config(path)
    named = keras_file.named_layers(config)
    counts = collections.Counter(name for name, _ in named)
    names = {id(layer.config): name if counts[name] == 1 else layer.path for name, layer in named}
    for look in _layers_of(config, shown_path):
        # Of what looks at a layer the first argument is the layer's config.
        yield functools.partial(_with_layer, look, names.get(id(look.args[0])))


def _with_layer(look: _Look, layer: str | None) -> Found:
    found = look()
    found.layer = layer
    return found


def _layers_of(config: Any, shown_path: str) -> Iterator[functools.partial[Found]]:
    """The recurrent layers that a config names, at any depth."""
    left = [config]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += reversed(value)
        elif isinstance(value, dict):
            look = _look_of(value, shown_path)
            if look is None:
                left += reversed(value.values())
            else:
                yield look


def _look_of(config: dict[str, Any], shown_path: str) -> functools.partial[Found] | None:
    """What looks at a recurrent layer; None if a config is that of something else."""
    name, inner = config.get("class_name"), config.get("config")
    if not isinstance(name, str) or not isinstance(inner, dict):
        return None
    layer = inner.get("layer")
    if name == "Bidirectional" and isinstance(layer, dict):
        if layer.get("class_name") in _KERAS_CLASSES:
            return functools.partial(_keras_layer, config, layer, shown_path)
    if name in (*_KERAS_CLASSES, *_OTHER_CLASSES):
        return functools.partial(_keras_layer, config, config, shown_path)
    if name in _STACKS or name == "CudnnRNN":
        return functools.partial(_stack, config, shown_path)
    return None


def _text(value: Any, otherwise: str = "") -> str:
    return value if isinstance(value, str) else otherwise


def _positive(value: Any) -> int | None:
    return value if untrusted.is_size(value) and value else None


def _input_size(*configs: dict[str, Any]) -> int | None:
    """The features of a layer's input, as the first config says that knows them."""
    for config in configs:
        build = config.get("build_config")
        shape = build.get("input_shape") if isinstance(build, dict) else None
        if isinstance(shape, list) and shape:
            # That of an input with initial states is a list of shapes.
            shape = shape[0] if isinstance(shape[0], list) else shape
            return _positive(shape[-1]) if shape else None
    return None


def _keras_layer(outer: dict[str, Any], layer: dict[str, Any], shown_path: str) -> Found:
    config = layer["config"] if isinstance(layer.get("config"), dict) else {}
    name = _text(outer["config"].get("name"), "?")
    class_name = layer["class_name"]
    is_wrapped = outer is not layer
    kind = f"Bidirectional({class_name})" if is_wrapped else class_name
    found = Found(name, kind, num_layers=1, num_proj=0, needs=needs.LAYERS)
    found.direction = "bidirectional" if is_wrapped else "unidirectional"
    found.num_units = _positive(config.get("units"))
    found.input_size = _input_size(outer, layer)
    activation = _text(config.get("activation"))
    found.rnn_mode = {"LSTM": "lstm", "GRU": "gru"}.get(class_name)
    if class_name == "SimpleRNN":
        found.rnn_mode = "rnn_relu" if activation == "relu" else "rnn_tanh"
    obstacle = _obstacle(class_name, config)
    if found.num_units and found.input_size and found.rnn_mode:
        H, I = found.num_units, found.input_size
        G = len(GATES[found.rnn_mode])
        biases = 2 if class_name == "GRU" and config.get("reset_after") is True else 1
        found.biases = biases = 0 if config.get("use_bias") is False else biases
        found.parameters = (2 if is_wrapped else 1) * G * H * (I + H + biases)
    if obstacle:
        found.runs = False
        found.how = f"{obstacle}. Keras' own loop runs it"
    elif _text(layer.get("registered_name")).startswith("tf_cudnn_rnn>"):
        found.how = _keras_call(_LOAD_OWN, shown_path, ".keras")
    else:
        found.how = _keras_call("tf_cudnn_rnn.keras.load_model({})", shown_path, ".keras")
    return found


def _obstacle(class_name: str, config: dict[str, Any]) -> str | None:
    """What of a layer the op cannot do, as docs/guide/keras.md says; None if nothing."""
    if class_name in _OTHER_CLASSES:
        return f"{class_name} has a cell of its own"
    if reason := keras_file.obstacle(class_name, config):
        return reason
    if config.get("unroll") is True:
        return "unroll must be False; it is True"
    return None


def _stack(layer: dict[str, Any], shown_path: str) -> Found:
    """A CudnnRNN layer."""
    config = layer["config"]
    found = Found(_text(config.get("name"), "?"), layer["class_name"], needs=needs.LAYERS)
    found.how = _keras_call(_LOAD_OWN, shown_path, ".keras")
    # Layout checks all that the file says.
    rnn_mode: Any = _STACKS.get(layer["class_name"]) or _text(config.get("rnn_mode"))
    sizes = {
        "num_layers": config.get("num_layers", 1),
        "num_units": config.get("num_units"),
        "input_size": _input_size(layer) or config.get("num_units"),
        "num_proj": config.get("num_proj") or 0,
    }
    try:
        for name, size in sizes.items():
            if isinstance(size, int) and size >= SIZE_LIMIT:
                raise ValueError(
                    f"`{name}` must be below {SIZE_LIMIT}; got {untrusted.shown(size)}"
                )
        layout = Layout(
            rnn_mode,
            direction=config.get("direction", "unidirectional"),
            input_mode=config.get("input_mode", "linear_input"),
            **sizes,
        )
    except (TypeError, ValueError) as error:
        found.runs, found.how = False, f"its config is damaged: {untrusted.shown(str(error))}"
        return found
    found.take(layout)
    if _input_size(layer) is None:
        found.input_size = found.parameters = found.biases = None
    return found


def _of_arrays(found: Found, arrays: list[Any], direction: Direction) -> None:
    """Takes over what the shapes of a Keras layer's arrays tell."""
    D = len(DIRECTIONS[direction])
    found.direction, found.num_layers, found.num_proj = direction, 1, 0
    shapes = [tuple(array.shape) for array in arrays]
    found.parameters = sum(map(_product, shapes))
    if len(shapes) in (2 * D, 3 * D) and all(len(shape) == 2 for shape in shapes[:2]):
        (I, columns), (H, recurrent_columns) = shapes[:2]
        gates = columns // H if H and not columns % H else 0
        if recurrent_columns == columns and gates in _MODE_OF_GATES:
            found.rnn_mode = _MODE_OF_GATES[gates]
            found.input_size, found.num_units = I, H
            has_bias = len(shapes) == 3 * D
            found.biases = _num_biases(shapes[1], *(shapes[2:3] if has_bias else ()))
            if gates == 3 and len(shapes) == 3 * D and shapes[2] == (3 * H,):
                found.runs = False
                found.how = "reset_after must be True; a GRU without it is another network"
            return
    found.runs = False
    found.how = "its arrays have other shapes than a Keras layer's"


def _keras_2(path: str, shown_path: str) -> Iterator[_Look]:
    for name, class_name, headers in hdf5.read_headers(path):
        bare = class_name.removeprefix("Bidirectional(").removesuffix(")")
        if bare in (*_KERAS_CLASSES, *_LEGACY_CLASSES):
            yield functools.partial(_keras_2_layer, name, class_name, headers, shown_path)
        elif not class_name and _may_be_recurrent(headers):
            yield functools.partial(_keras_2_weights, name, headers, shown_path)


def _keras_2_layer(name: str, class_name: str, headers: list[Any], shown_path: str) -> Found:
    is_wrapped = class_name.startswith("Bidirectional(")
    bare = class_name.removeprefix("Bidirectional(").removesuffix(")")
    found = Found(name, class_name, layer=name)
    if bare in _LEGACY_CLASSES:
        found.how = _call("import tf_cudnn_rnn; tf_keras.models.load_model({})", shown_path)
        found.needs = (needs.TENSORFLOW, needs.KERAS_2)
    else:
        found.needs = needs.LAYERS
        call = "tf_cudnn_rnn.keras.to_fused(keras.saving.load_model({}))"
        found.how = _keras_call(call, shown_path, *_HDF5)
    _of_arrays(found, headers, "bidirectional" if is_wrapped else "unidirectional")
    if bare in _LEGACY_CLASSES:
        found.rnn_mode = _LEGACY_CLASSES[bare]
    return found


def _keras_2_weights(name: str, headers: list[Any], shown_path: str) -> Found:
    """A layer in a file of weights alone, which tells no class."""
    direction: Direction = "unidirectional" if len(headers) < 4 else "bidirectional"
    if readers.is_legacy("", headers):
        found = Found(name, "CuDNNLSTM or CuDNNGRU", layer=name)
        _of_arrays(found, headers, direction)
        if found.runs:
            options = {"source_format": "keras-cudnn", "layer": name}
            found.how = _convert(shown_path, "model.keras", "keras", **options)
    else:
        found = Found(name, "layer with recurrent weights", layer=name, needs=needs.LAYERS)
        found.how = _keras_call(_LOAD_WEIGHTS, shown_path, *_HDF5)
        _of_arrays(found, headers, direction)
    return found


def _may_be_recurrent(headers: list[Any]) -> bool:
    """Whether arrays can be those of a recurrent layer, of which a file tells no class."""
    shapes = [header.shape for header in headers]
    if len(shapes) not in (2, 3, 4, 6) or any(len(shape) != 2 for shape in shapes[:2]):
        return False
    (_, columns), (H, recurrent_columns) = shapes[:2]
    return columns == recurrent_columns and H > 0 and columns in (H, 3 * H, 4 * H)


def _keras_3(path: str, shown_path: str) -> Iterator[_Look]:
    headers = keras_file.read_array_headers(path)
    how = _keras_call(_LOAD_WEIGHTS, shown_path, ".weights.h5")
    for name, layer in keras_file.layers(headers).items():
        yield functools.partial(_keras_3_layer, name, layer, how)
    if paths := keras_file.networks(headers):  # of which a header, an array, tells the sizes
        arrays = keras_file.read_arrays(path, keras_file.header_names(paths))
        for name, network in keras_file.networks(arrays).items():
            where = f"{untrusted.shown(name)} in {path}"
            yield functools.partial(_keras_3_network, name, network, how, where)


def _keras_3_layer(name: str, layer: keras_file.Layer, how: str) -> Found:
    found = Found(name, "Keras layer", layer=name, how=how, needs=needs.LAYERS)
    _of_arrays(found, layer.arrays, layer.direction)
    return found


def _keras_3_network(name: str, network: Mapping[str, Any], how: str, where: str) -> Found:
    found = Found(name, "CudnnRNN", layer=name, how=how, needs=needs.LAYERS)
    found.take(keras_file.layout_of(network, where))
    return found


# ------------------------------------------------------------------------------------
# Arrays
# ------------------------------------------------------------------------------------


def _torch(headers: Mapping[str, Any], shown_path: str) -> Iterator[_Look]:
    """The networks of PyTorch among arrays, by the names and shapes of these."""
    for prefix, network in torch_format.networks(headers).items():
        yield functools.partial(_torch_network, prefix, network, shown_path)


def _torch_network(prefix: str, network: _TorchNetwork, shown_path: str) -> Found:
    found = Found(prefix.removesuffix(".") or "(top level)", "PyTorch")
    found.num_layers = 1 + max(layer for _, layer, _ in network)
    found.direction = (
        "bidirectional" if any(reverse for *_, reverse in network) else "unidirectional"
    )
    found.parameters = sum(_product(header.shape) for header in network.values())
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
    found.rnn_mode = _MODE_OF_GATES.get(gates)
    target = ("params.npz", "params") if found.num_proj else ("model.keras", "keras")
    mode = "rnn_tanh" if found.rnn_mode == SIMPLE else ""
    found.how = _convert(shown_path, *target, prefix=prefix, mode=mode)
    with _runs_unless_refused(found):
        _check_torch(found, network)
    return found


def _check_torch(found: Found, network: _TorchNetwork) -> None:
    """Raises ValueError if headers tell that a network cannot be read."""
    for (kind, layer, reverse), header in sorted(network.items()):
        name = f"{kind}_l{layer}{'_reverse' if reverse else ''}"
        # ml_dtypes' bfloat16 is of kind V.
        if header.dtype.kind not in "fV" or header.dtype.itemsize > 8:
            raise ValueError(f"{name} must be of floats; it is of {header.dtype}")
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


def _safetensors(path: str, shown_path: str) -> Iterator[_Look]:
    yield from _torch(safetensors.read_safetensors_headers(path), shown_path)


def _runtime(path: str, shown_path: str) -> Iterator[_Look]:
    yield functools.partial(_runtime_network, path, shown_path)


def _runtime_network(path: str, shown_path: str) -> Found:
    header = runtime_file.read_header(path)
    found = Found(runtime_file.ARRAY, "tf_cudnn_rnn.runtime")
    if header.has_int8_weights:
        found = Found("weights", "tf_cudnn_rnn.runtime, int8 weights")
    found.take(header.layout)
    call = "import tf_cudnn_rnn.runtime as runtime; runtime.Network.load({})"
    found.how = _call(call, shown_path)
    found.needs = (needs.RUNTIME,)
    return found


def _npz(path: str, shown_path: str) -> Iterator[_Look]:
    headers = npz.read_npz_headers(path)
    yield from _torch(headers, shown_path)
    yield from _tf1({key: header.shape for key, header in headers.items()}, shown_path)
    if params_header.NPZ_KEY in headers:
        yield functools.partial(_npz_network, path, headers, shown_path)
        return
    for kind, name in readers.VECTORS.items():
        if name in headers:
            yield functools.partial(_npz_vector, kind, name, headers[name], shown_path)


def _npz_network(path: str, headers: Mapping[str, Any], shown_path: str) -> Found:
    key = params_header.NPZ_KEY
    header = npz.read_some_npz(path, lambda name: name == key)[key]
    layout, name = params_header.from_text(header.tobytes(), f"header in {path}")
    found = Found(name or "params", "tf_cudnn_rnn")
    found.take(layout)
    found.how = _convert(shown_path, "model.keras", "keras")
    arrays = {name: header for name, header in headers.items() if name != key}
    vector = arrays.get(readers.VECTORS["params"])
    with _runs_unless_refused(found):
        if vector is None:
            base.check_dtypes(arrays)
        else:
            vectors.check_vector(vector, "params", "cuDNN's weight space", layout)
    return found


def _npz_vector(kind: str, name: str, header: untrusted.ArrayHeader, shown_path: str) -> Found:
    found = Found(name, f"vector ({kind})")
    found.parameters = _product(header.shape)
    sizes = {"mode": "MODE", "layers": "L", "units": "H", "input_size": "I"}
    found.how = _convert(shown_path, "model.keras", "keras", source_format=kind, **sizes)
    with _runs_unless_refused(found):
        base.check_dtypes({name: header})
    return found


def _tf1(shapes: Mapping[str, Sequence[int]], shown_path: str) -> Iterator[_Look]:
    """Networks of TensorFlow 1, by the keys of their variables."""
    every = tf1.networks(shapes)
    for network in every:
        yield functools.partial(_tf1_network, network, shapes, len(every) > 1, shown_path)


def _tf1_network(
    network: tf1.Network, shapes: Mapping[str, Sequence[int]], needs_scope: bool, shown_path: str
) -> Found:
    kind = "tf1-lstm-cell" if network.cell in tf1.LSTM_CELLS else "tf1-cudnn"
    found = Found(network.scope or "(top level)", f"TensorFlow 1 ({kind})")
    found.rnn_mode = _TF1_MODES.get(network.cell, "lstm")
    found.num_layers = network.num_layers
    found.direction = "bidirectional" if network.is_bidirectional else "unidirectional"
    found.parameters = sum(math.prod(shapes[key]) for key in network.keys)
    _take_tf1_sizes(found, {leaf: [*shapes[key]] for leaf, key in network.first.items()})
    options = {"scope": network.scope if needs_scope else ""}
    if kind == "tf1-cudnn":
        options["mode"] = "rnn_tanh" if found.rnn_mode == SIMPLE else found.rnn_mode
    found.how = _convert(shown_path, "params.npz", "params", source_format=kind, **options)
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


def _checkpoint(path: str, shown_path: str) -> Iterator[_Look]:
    every = variables.opened(Kind.CHECKPOINT, path)
    yield from _parts(Kind.CHECKPOINT, path, shown_path, every)
    yield from _tf1(every.shapes, shown_path)


def _parts(kind: Kind, path: str, shown_path: str, every: checkpoint.Variables) -> Iterator[_Look]:
    """The weights of layers among variables."""
    with untrusted.named(path):
        parts = variables.find(kind, path, every)
    modes = variables.modes(path) if kind is Kind.SAVED_MODEL else set()
    simple = [mode for mode in modes if GATES[mode] == ("",)]
    for name, part in parts.items():
        options = {"layer": name} if len(parts) > 1 else {}
        yield functools.partial(
            _part, name, part, every, simple=simple, options=options, shown_path=shown_path
        )


def _part(
    name: str,
    part: variables.Part,
    every: checkpoint.Variables,
    simple: Sequence[RnnMode],
    options: Mapping[str, str],
    shown_path: str,
) -> Found:
    found = Found(name, part.kind, layer=name)
    if part.layout is not None:
        found.take(part.layout)
    else:
        _of_arrays(found, variables.shaped(every, part.keys), part.direction)
        if found.rnn_mode == SIMPLE and len(simple) == 1:
            found.rnn_mode = simple[0]
    if found.runs:
        mode = "rnn_tanh" if found.rnn_mode == SIMPLE else ""
        found.how = _convert(shown_path, "params.npz", "params", **options, mode=mode)
    return found


def weights(kind: Kind, path: str, shown_path: str) -> Contents:
    """The weights beside a graph, which `convert` reads; none where TensorFlow is not installed.

    Raises: as `find`.
    """
    if kind is not Kind.SAVED_MODEL or not variables.has_variables(kind, path):
        return Contents([])
    if not _library.has_tensorflow():
        return Contents([])
    with untrusted.named(path):
        return _looked_at(_parts(kind, path, shown_path, variables.opened(kind, path)))


_FINDERS: dict[Kind, Callable[[str, str], Iterator[_Look] | Iterator[_Look | Loop]]] = {
    Kind.SAVED_MODEL: _saved_model,
    Kind.ONNX: _onnx,
    Kind.KERAS: _keras,
    Kind.KERAS_2_H5: _keras_2,
    Kind.KERAS_3_H5: _keras_3,
    Kind.SAFETENSORS: _safetensors,
    Kind.RUNTIME: _runtime,
    Kind.NPZ: _npz,
    Kind.CHECKPOINT: _checkpoint,
}
