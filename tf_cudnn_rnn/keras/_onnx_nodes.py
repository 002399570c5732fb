"""ONNX's nodes LSTM, GRU and RNN for recurrent layers, when tf2onnx converts a model.

Keras traces the model into a graph, which tf2onnx converts op by op. Here a layer becomes one op of
this library, whose handler for tf2onnx makes the node. The op cannot tell all that a node can do:
the rest stands in `Options`, and the name of the op says where.
"""

import contextlib
import contextvars
import itertools
import re
import sys
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from tf_cudnn_rnn._layout import DIRECTIONS
from tf_cudnn_rnn._types import Array, Direction
from tf_cudnn_rnn.keras import _graphs
from tf_cudnn_rnn.keras._reading import value_of
from tf_cudnn_rnn.weights import OnnxNode, from_cudnn, from_keras, to_onnx

# The module of Keras whose functions run while model.export(format="onnx") does.
_KERAS_EXPORT = "keras.src.export.onnx"
_SCOPE = "tf_cudnn_rnn_onnx_"
# The names of ops: the drop-ins', and those of a CudnnRNN.
_KERAS_RNN = "TfCudnnRnn>KerasRNN"
_CUDNN_RNN = ["CudnnRNNV3", "TfCudnnRnn>CudnnRNNV3"]
# Nodes whose output holds the values of their first input, in another shape: what tf2onnx has made
# of the ops before ours.
_SHAPING = {"Cast", "Expand", "Identity", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"}

# Whether export_onnx is at work.
is_exporting: contextvars.ContextVar[bool] = contextvars.ContextVar(
    "tf_cudnn_rnn_is_exporting_onnx", default=False
)


class _Activation(NamedTuple):
    """A function of ONNX, with as many of the two constants as it takes."""

    name: str
    alpha: tuple[float, ...] = ()
    beta: tuple[float, ...] = ()


# ONNX's names for Keras' functions, by the names that Keras gives them.
_ACTIVATIONS = {
    "elu": _Activation("Elu", (1.0,)),
    "hard_sigmoid": _Activation("HardSigmoid", (1 / 6,), (0.5,)),
    "leaky_relu": _Activation("LeakyRelu", (0.2,)),
    "linear": _Activation("Affine", (1.0,), (0.0,)),
    "relu": _Activation("Relu"),
    "sigmoid": _Activation("Sigmoid"),
    "softplus": _Activation("Softplus"),
    "softsign": _Activation("Softsign"),
    "tanh": _Activation("Tanh"),
}
_FUNCTIONS = {getattr(keras.activations, name): name for name in _ACTIVATIONS} | {
    function: name
    for name, functions in {
        "relu": (keras.ops.relu, tf.nn.relu),
        "sigmoid": (keras.ops.sigmoid, tf.sigmoid),
        "tanh": (keras.ops.tanh, tf.tanh),
    }.items()
    for function in functions
}


class Options(NamedTuple):
    """What a node does besides what its op says.

    Attributes:
      activations: as the node lists them, for one direction; None for those of the mode.
      resets_before: whether a GRU resets before the recurrent product.
      reverse: whether the node goes from the last step to the first. Its output stays in the
        order of its input.
      all_steps: whether each row has all steps, so that the node needs no lengths.
    """

    activations: tuple[_Activation, ...] | None = None
    resets_before: bool = False
    reverse: bool = False
    all_steps: bool = False


# Of the ops in graphs that tf2onnx is to convert, by the number in their names. Keras tells nobody
# when its export ends: of so many the oldest go.
_options: dict[int, Options] = {}
_MOST_OPTIONS = 10_000
_numbers = itertools.count()


# ------------------------------------------------------------------------------------
# Graphs
# ------------------------------------------------------------------------------------


def builds_graph() -> bool:
    """Whether a graph is being built for ONNX: by export_onnx, or by Keras' model.export."""
    if tf.executing_eagerly():
        return False
    if not is_exporting.get():
        if _graphs.graph_contents.get() == "stock" or not _is_called_by_keras_export():
            return False
    register_handlers()
    return True


def _is_called_by_keras_export() -> bool:
    """Whether Keras traces the model for its export to ONNX, of which it tells nobody."""
    if _KERAS_EXPORT not in sys.modules:
        return False
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != _KERAS_EXPORT:
        frame = frame.f_back
    return frame is not None


def scope(options: Options) -> contextlib.AbstractContextManager[Any]:
    """Gives an op a name by which its handler finds these options."""
    number = next(_numbers)
    _options[number] = options
    if len(_options) > _MOST_OPTIONS:
        del _options[next(iter(_options))]
    return tf.name_scope(f"{_SCOPE}{number}")


def constant(variable: Any, layer: keras.Layer, dtype: tf.DType) -> Array:
    """The value that a layer's variable has now: in a graph a constant, which tf2onnx can read."""
    with tf.init_scope():
        return tf.cast(value_of(variable, layer), dtype).numpy()


def options_of(layer: keras.layers.RNN) -> Options:
    """Those of an LSTM, GRU or SimpleRNN to which nothing is an obstacle, without lengths."""
    names = [_FUNCTIONS[function] for function in _functions(layer).values()]
    if isinstance(layer, keras.layers.LSTM):
        names.append(names[-1])  # of c, too
    return Options(
        activations=tuple(_ACTIVATIONS[name] for name in names),
        resets_before=isinstance(layer, keras.layers.GRU) and not layer.reset_after,
    )


def obstacle(layer: keras.layers.RNN) -> str | None:
    """Says what of an LSTM, GRU or SimpleRNN no node can do; None if nothing."""
    cells = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)
    if type(layer.cell) not in cells:
        return f"the cell must be Keras' own; got {type(layer.cell).__name__}"
    for name, function in _functions(layer).items():
        if function not in _FUNCTIONS:
            known = ", ".join(sorted(_ACTIVATIONS))
            got = getattr(function, "__name__", None) or repr(function)
            return f"{name} must be one of {known}; got {got}"
    reason = _obstacle_of_any(layer)
    if reason is None and layer.cell.compute_dtype != "float32":
        return f"the cell's compute dtype must be float32; got {layer.cell.compute_dtype}"
    return reason


def obstacle_of_stack(layer: keras.layers.Layer) -> str | None:
    """The same of a CudnnRNN that is built."""
    if layer.layout.has_projection:
        return f"num_proj must be None, for ONNX's LSTM does not project; got {layer.num_proj}"
    return _obstacle_of_any(layer)


def _obstacle_of_any(layer: Any) -> str | None:
    if layer.stateful:
        return "stateful must be False, for an ONNX model keeps nothing from call to call; got True"
    if layer.compute_dtype != "float32":
        return f"the compute dtype must be float32; got {layer.compute_dtype}"
    return None


def way_out(layer: keras.layers.Layer) -> str:
    """What to do about a layer that has an obstacle."""
    if layer.stateful:
        return (
            "Make it with return_state=True and stateful=False, and let the model take its states "
            "as `initial_state` and return the final ones"
        )
    if layer.compute_dtype != "float32":
        return "Make the same model with dtype='float32' and give it these weights"
    if getattr(layer, "num_proj", None):
        return "Train without a projection; or take the weights to PyTorch with to_torch"
    return (
        "tf_cudnn_rnn.keras.to_keras(model).export(path, format='onnx') makes a loop of it, where "
        "tf2onnx can"
    )


def cannot_be_node(layer: keras.layers.Layer, reason: str) -> ValueError:
    """The error for a layer that has an obstacle."""
    return ValueError(
        f"Layer {layer.name!r} ({type(layer).__name__}) cannot be a node of ONNX: {reason}. "
        f"{way_out(layer)}."
    )


def _functions(layer: Any) -> dict[str, Any]:
    """A layer's activations, in ONNX's order."""
    names = ["recurrent_activation", "activation"]
    return {name: getattr(layer, name) for name in names if hasattr(layer, name)}


# ------------------------------------------------------------------------------------
# Handlers
# ------------------------------------------------------------------------------------


class _Handler:
    """What tf2onnx calls for an op, from ONNX's opset 7 on."""

    @classmethod
    def version_7(cls, ctx: Any, node: Any, **kwargs: Any) -> None:
        """Puts nodes of ONNX in the place of `node`, in the graph `ctx` of tf2onnx."""
        del kwargs
        convert = _convert_keras_rnn if node.type == _KERAS_RNN else _convert_cudnn_rnn
        convert(ctx, node)


def register_handlers() -> None:
    """Tells tf2onnx how to convert the ops.

    Raises:
      ImportError: it is not installed.
    """
    try:
        from tf2onnx.handler import tf_op
    except ImportError as error:
        raise ImportError(
            "Writing ONNX files needs tf2onnx: run `pip install tf2onnx onnx`, or install this "
            "library with its extra [onnx]."
        ) from error
    tf_op([_KERAS_RNN, *_CUDNN_RNN])(_Handler)


def _options_of_op(node: Any) -> Options:
    found = re.search(rf"{_SCOPE}(\d+)/", node.name)
    return _options[int(found[1])] if found else Options()


def _text(node: Any, attribute: str) -> Any:
    value = node.get_attr_value(attribute)
    return value.decode() if isinstance(value, bytes) else value


def _array(node: Any, k: int) -> Array:
    """The value of a constant among the inputs of an op.

    Raises:
      ValueError: it is computed.
    """
    source = node.inputs[k]
    while source.type in ("Identity", "Cast"):
        source = source.inputs[0]
    if not source.is_const():
        raise ValueError(
            f"{node.name} must have weights that are constants or variables; got {source.type}."
        )
    return np.asarray(source.get_tensor_value(as_list=False))


def _convert_keras_rnn(ctx: Any, node: Any) -> None:
    if (
        node.get_attr_value("num_masks")
        or node.get_attr_value("go_backwards")
        or not node.get_attr_value("zero_output_for_mask", True)
    ):
        raise ValueError(
            f"{node.name} has a mask, goes backwards or repeats outputs, which its node could not "
            "do. Write the file by tf_cudnn_rnn.keras.export_onnx, whose graph has nodes for that."
        )
    num_biases = node.get_attr_value("num_biases")
    arrays = [_array(node, k) for k in range(3, 5 + num_biases)]
    direction: Direction = "unidirectional"
    if num_backward := node.get_attr_value("num_backward_weights", 0):
        direction = "bidirectional"
        arrays += [_array(node, 6 + num_biases + k) for k in range(num_backward)]
    nodes = to_onnx(from_keras(arrays, _text(node, "rnn_mode"), direction=direction)).arrays
    _replace(ctx, node, nodes, lengths=node.input[5 + num_biases])


def _convert_cudnn_rnn(ctx: Any, node: Any) -> None:
    direction = _text(node, "direction")
    state_shape = ctx.get_shape(node.input[1])
    axis = 0 if node.get_attr_value("time_major") else 1
    canonical = from_cudnn(
        _array(node, 3),
        _text(node, "rnn_mode"),
        state_shape[axis] // len(DIRECTIONS[direction]),
        state_shape[2],
        ctx.get_shape(node.input[0])[2],
        direction=direction,
        input_mode=_text(node, "input_mode"),
        num_proj=node.get_attr_value("num_proj") or 0,
    )
    nodes = to_onnx(canonical).arrays
    _replace(ctx, node, nodes, lengths=node.input[4])


class _Nodes:
    """Makes the nodes that stand for one op.

    Names are those of tensors; the name of an optional input that is left out is empty.
    """

    def __init__(self, ctx: Any, node: Any):
        from tf2onnx.graph_builder import GraphBuilder

        self.options = _options_of_op(node)
        self._ctx = ctx
        self._builder = GraphBuilder(ctx)
        self._where = re.sub(rf"/?{_SCOPE}.*", "", node.name)  # the layer's name in the model
        self._time_major = bool(node.get_attr_value("time_major"))

    def apply(self, op_type: str, inputs: list[str], **attributes: Any) -> str:
        return self._ctx.make_node(op_type, inputs, attr=attributes).output[0]

    def constant(self, array: Any, name: str) -> str:
        return self._ctx.make_const(self._named(name), np.asarray(array)).output[0]

    def time_major(self, name: str) -> str:
        """A tensor of the op with the axis of steps, or of layers, in front."""
        return name if self._time_major else self.apply("Transpose", [name], perm=[1, 0, 2])

    def take_place(self, name: str, output: str, shape: Any, dtype: Any) -> None:
        """Gives what is time-major to those who read an output of the op, which is gone."""
        op_type, attributes = "Transpose", {"perm": [1, 0, 2]}
        if self._time_major:
            op_type, attributes = "Identity", {}
        self._ctx.make_node(
            op_type, [name], attr=attributes, outputs=[output], shapes=[shape], dtypes=[dtype]
        )

    def has_steps(self, lengths: str) -> str:
        """[B, 1]."""
        has_steps = self.apply("Greater", [lengths, self.constant(np.int32(0), "zero")])
        return self._builder.make_unsqueeze({"data": has_steps, "axes": [1]})

    def rows_of(self, state: str, begin: int, end: int) -> str:
        """Some pseudo-layers of a state [L*D, B, .]."""
        axis = {"starts": [begin], "ends": [end], "axes": [0]}
        return state and self._builder.make_slice({"data": state, **axis})

    def layer(self, layer: OnnxNode, x: str, lengths: str, states: list[str]) -> list[str]:
        """One layer: its outputs [T, D, B, H] and final states [D, B, H], of x and states."""
        attributes = dict(layer.attributes)
        if self.options.reverse:
            attributes["direction"] = "reverse"
        if self.options.resets_before:
            attributes["linear_before_reset"] = 0
        if self.options.activations is not None:
            attributes |= _attributes_of(self.options.activations)
        weights = [self.constant(getattr(layer, name), name) for name in "WRB"]
        inputs = [x, *weights, lengths, *states]
        while not inputs[-1]:
            inputs.pop()
        return self._ctx.make_node(
            layer.op_type,
            inputs,
            attr=attributes,
            output_count=1 + len(states),
            name=self._named(layer.op_type),
        ).output

    def side_by_side(self, y: str, D: int) -> str:
        """[T, D, B, H] -> [T, B, D*H]."""
        if D == 1:
            return self._builder.make_squeeze({"data": y, "axes": [1]})
        y = self.apply("Transpose", [y], perm=[0, 2, 1, 3])
        return self.apply("Reshape", [y, self.constant(np.array([0, 0, -1], np.int64), "shape")])

    def _named(self, name: str) -> str:
        from tf2onnx import utils

        return utils.make_name(f"{self._where}/{name}")


def _replace(ctx: Any, node: Any, layers: list[OnnxNode], lengths: str) -> None:
    """Puts a node for each layer in the place of an op.

    Args:
      ctx: the graph.
      node: the op, whose first three inputs and outputs are the sequences, h and c.
      layers: the nodes.
      lengths: the name of the rows' lengths, int32 [B].
    """
    nodes = _Nodes(ctx, node)
    used = [bool(ctx.find_output_consumers(name)) or name in ctx.outputs for name in node.output]
    shapes = [ctx.get_shape(name) for name in node.output]
    dtypes = [ctx.get_dtype(name) for name in node.output]
    D = layers[0].W.shape[0]
    num_states = 2 if layers[0].op_type == "LSTM" else 1

    x = nodes.time_major(node.input[0])
    states = [
        "" if _is_zero(node.inputs[1 + k]) else nodes.time_major(node.input[1 + k])
        for k in range(num_states)
    ]
    all_steps = nodes.options.all_steps
    has_steps = "" if all_steps or not any(states) else nodes.has_steps(lengths)
    finals: list[list[str]] = [[] for _ in range(num_states)]
    for l, layer in enumerate(layers):
        own_states = states
        if len(layers) > 1:
            own_states = [nodes.rows_of(state, l * D, (l + 1) * D) for state in states]
        y, *ends = nodes.layer(layer, x, "" if all_steps else lengths, own_states)
        for final, state, end in zip(finals, own_states, ends, strict=True):
            # ONNX does not say what a row without a step ends with.
            kept = bool(state and has_steps)
            final.append(nodes.apply("Where", [has_steps, end, state]) if kept else end)
        x = nodes.side_by_side(y, D)

    results = [x]
    for final in finals:
        results.append(final[0] if len(final) == 1 else nodes.apply("Concat", final, axis=0))
    ctx.remove_node(node.name)
    for k, result in enumerate(results):
        if used[k]:
            nodes.take_place(result, node.output[k], shapes[k], dtypes[k])
    if nodes.options.reverse:
        _skip_double_reverse(ctx, node.output[0])


def _attributes_of(activations: tuple[_Activation, ...]) -> dict[str, Any]:
    attributes: dict[str, Any] = {"activations": [one.name for one in activations]}
    for name in ("alpha", "beta"):
        if values := [value for one in activations for value in getattr(one, name)]:
            attributes[f"activation_{name}"] = values
    return attributes


def _is_zero(source: Any) -> bool:
    """Whether a state is zeros, whatever the batch: then the node need not be told."""
    while source.type in _SHAPING:
        source = source.inputs[0]
    if source.type == "ConstantOfShape":
        value = source.get_attr("value")
        from onnx import numpy_helper

        return value is None or not np.any(numpy_helper.to_array(value.t))
    return source.is_const() and not np.any(source.get_tensor_value(as_list=False))


def _skip_double_reverse(ctx: Any, output: str) -> None:
    """Gives `output` to those who would reverse what was reversed, as Bidirectional does."""
    for name in _reversed(ctx, output):
        for again in _reversed(ctx, name):
            if again not in ctx.outputs:
                ctx.replace_all_inputs(again, output)


def _reversed(ctx: Any, name: str) -> Iterator[str]:
    """What is `name` with its steps reversed."""
    for consumer in list(ctx.find_output_consumers(name)):
        if consumer.type != "ReverseV2" or not consumer.inputs[1].is_const():
            continue
        if np.ravel(consumer.inputs[1].get_tensor_value(as_list=False)).tolist() == [1]:
            yield consumer.output[0]
