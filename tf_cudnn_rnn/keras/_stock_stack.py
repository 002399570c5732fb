"""A CudnnRNN layer as stock Keras layers: a small Functional model that takes its place."""

import itertools
from collections.abc import Iterator
from typing import Any

import keras

from tf_cudnn_rnn._layout import DIRECTIONS
from tf_cudnn_rnn._types import Shape
from tf_cudnn_rnn.keras import _graphs, cudnn_rnn
from tf_cudnn_rnn.keras._shapes import Shapes
from tf_cudnn_rnn.weights import Canonical, to_keras

_CLASSES = {
    name: getattr(cudnn_rnn, name)
    for name in ("CudnnRNN", "CudnnLSTM", "CudnnGRU", "CudnnRNNTanh", "CudnnRNNRelu")
}
# The tensors that a call may have besides `inputs`, in the order of the model's inputs.
_MORE_INPUTS = ("initial_state", "sequence_lengths", "mask")
_CALL_ARGUMENTS = ("inputs", *_MORE_INPUTS, "training")


# ------------------------------------------------------------------------------------
# Configs
# ------------------------------------------------------------------------------------


def replace(config: Any) -> Any:
    """Replaces CudnnRNN layers at any depth of what serialize_keras_object returned.

    Raises:
      ValueError: one cannot be made of stock layers.
    """
    if isinstance(config, list | tuple):
        return type(config)(replace(item) for item in config)
    if not isinstance(config, dict):
        return config
    if cls := _class_of(config):
        return _replaced(config, cls)
    result = {key: replace(value) for key, value in config.items()}
    if "layers" in config and "output_layers" in config:  # a Functional model's
        names = {entry["name"] for entry in config["layers"] if _class_of(entry)}
        result["output_layers"] = _renumbered(config["output_layers"], names)
    return result


def check_masks(model: keras.Sequential) -> None:
    """Raises ValueError if a time-major layer gets a mask that its stock layers would not.

    A Functional model's config has masks among the arguments. In a Sequential model they come with
    the tensors, and are lost where those are transposed.
    """
    nodes_by_depth = model._functional._nodes_by_depth if model._functional else {}
    for node in itertools.chain(*nodes_by_depth.values()):
        layer, mask = node.operation, node.arguments.kwargs.get("mask")
        if isinstance(layer, cudnn_rnn.CudnnRNN) and layer.time_major and mask is not None:
            raise ValueError(
                f"Layer {layer.name!r} of the Sequential model {model.name!r} must be batch-major, "
                "for it gets a mask from the layers before it, and no stock layer transposes a "
                "mask; got time_major=True. Make a Functional model of the same layers, which "
                "passes masks as arguments."
            )


def _class_of(entry: dict[str, Any]) -> Any:
    """The class of a CudnnRNN layer's entry; None for others."""
    cls = _CLASSES.get(entry.get("class_name", ""))
    is_ours = cls and entry.get("registered_name") == keras.saving.get_registered_name(cls)
    return cls if is_ours else None


def _renumbered(outputs: Any, names: set[str]) -> Any:
    """Outputs [layer, call, tensor]; Keras counts the calls of models, not of layers, from one."""
    if isinstance(outputs, dict):
        return {key: _renumbered(value, names) for key, value in outputs.items()}
    if len(outputs) == 3 and isinstance(outputs[0], str):
        name, call, tensor = outputs
        return [name, call + (name in names), tensor]
    return type(outputs)(_renumbered(output, names) for output in outputs)


def _replaced(entry: dict[str, Any], cls: Any) -> dict[str, Any]:
    """The entry of the model that takes the place of one layer's."""
    layer = cls.from_config(dict(entry["config"]))
    input_shape = tuple((entry.get("build_config") or {}).get("input_shape") or ())
    if not input_shape:
        raise ValueError(
            f"Layer {layer.name!r} must have been built, or its input size is unknown. Call the "
            "model on data first."
        )
    if "inbound_nodes" not in entry:  # called by a Sequential model or a wrapper, on one tensor
        return keras.saving.serialize_keras_object(_model(layer, input_shape, ()))
    calls = [_arguments(node) for node in entry["inbound_nodes"]]
    given = {
        tuple(name for name in _MORE_INPUTS if call.get(name) is not None) for call in calls
    } or {()}
    if len(given) > 1:
        raise ValueError(
            f"Layer {layer.name!r} must be called with the same arguments everywhere to become a "
            f"model of stock layers; it is called with {sorted(given)}."
        )
    (more,) = given
    model = keras.saving.serialize_keras_object(_model(layer, input_shape, more))
    return {
        **model,
        "name": entry["name"],
        "inbound_nodes": [_node(call, more) for call in calls],
    }


def _arguments(node: dict[str, Any]) -> dict[str, Any]:
    """The arguments of one call, by name."""
    positional = _items(node["args"])
    names = _CALL_ARGUMENTS[: len(positional)]
    return {**dict(zip(names, positional, strict=True)), **node["kwargs"]}


def _items(config: Any) -> list[Any]:
    """The items of a serialised list or tuple; a list of anything else."""
    if isinstance(config, dict) and config["class_name"] == "__tuple__":
        return config["items"]
    return list(config) if isinstance(config, list | tuple) else [config]


def _node(call: dict[str, Any], more: tuple[str, ...]) -> dict[str, Any]:
    """The call of the model."""
    tensors = [call["inputs"], *(item for name in more for item in _items(call[name]))]
    training = call.get("training")
    return {
        "args": [tensors if more else tensors[0]],
        "kwargs": {} if training is None else {"training": training},
    }


# ------------------------------------------------------------------------------------
# The model
# ------------------------------------------------------------------------------------


def _stock_layer(layer: cudnn_rnn.CudnnRNN, l: int) -> keras.Layer:
    """Layer `l` of the stack, both directions."""
    sequences = layer.return_sequences or l < layer.num_layers - 1
    options = {
        "return_sequences": sequences,
        "return_state": layer.return_state,
        "stateful": layer.stateful,
        "zero_output_for_mask": sequences,
        "kernel_regularizer": layer.kernel_regularizer,
        "recurrent_regularizer": layer.recurrent_regularizer,
        "bias_regularizer": layer.bias_regularizer,
        "kernel_constraint": layer.kernel_constraint,
        "recurrent_constraint": layer.recurrent_constraint,
        "bias_constraint": layer.bias_constraint,
        "dtype": layer.dtype_policy,
        "name": _name(layer, l),
    }
    # Keras' default, orthogonal, knows no bfloat16, and the weights are set anyway.
    if layer.variable_dtype == "bfloat16":
        options["recurrent_initializer"] = "glorot_uniform"
    if layer.rnn_mode == "lstm":
        stock = keras.layers.LSTM(layer.num_units, **options)
    elif layer.rnn_mode == "gru":
        stock = keras.layers.GRU(layer.num_units, reset_after=True, **options)
    else:
        activation = layer.rnn_mode.removeprefix("rnn_")
        stock = keras.layers.SimpleRNN(layer.num_units, activation=activation, **options)
    if layer.direction == "bidirectional":
        stock = keras.layers.Bidirectional(
            stock, merge_mode="concat", dtype=layer.dtype_policy, name=_name(layer, l)
        )
    return stock


def _name(layer: cudnn_rnn.CudnnRNN, l: int) -> str:
    return f"{layer.name}_layer_{l}"


def _model(
    layer: cudnn_rnn.CudnnRNN, input_shape: tuple[int | None, ...], more: tuple[str, ...]
) -> keras.Model:
    """The model that does what `layer` does, with other weights.

    Args:
      layer: not necessarily built.
      input_shape: of its inputs when it was built. Others may have more steps or rows; of a
        stateful layer, not more rows.
      more: what it is called with besides, of `_MORE_INPUTS`. Each is an input of the model,
        the states one each.
    """
    if layer.num_proj and layer.num_proj != layer.num_units:
        raise _graphs.has_no_stock_layer(layer)
    if layer.activity_regularizer is not None:
        raise ValueError(
            f"`activity_regularizer` of layer {layer.name!r} must be None, for a model of stock "
            f"layers has none; got {type(layer.activity_regularizer).__name__}. Regularise what "
            "the model returns, or set the attribute to None first."
        )

    def new_input(name: str, shape: Shape, dtype: str) -> keras.KerasTensor:
        return keras.Input(batch_shape=shape, dtype=dtype, name=f"{layer.name}_{name}")

    def swap(tensor: keras.KerasTensor) -> keras.KerasTensor:
        axes = [1, 0, *range(2, len(tensor.shape))]
        return keras.ops.transpose(tensor, axes) if layer.time_major else tensor

    batch = input_shape[1 if layer.time_major else 0] if layer.stateful else None
    outer_shape = (None, batch) if layer.time_major else (batch, None)
    input_shape = (*outer_shape, input_shape[2])
    x = new_input("inputs", input_shape, layer.compute_dtype)
    inputs = [x]
    x = swap(x)
    states, keywords = [], {}
    if "initial_state" in more:
        inputs += [
            new_input(f"state_{k}", shape, layer.compute_dtype)
            for k, shape in enumerate(Shapes.of(layer).states(batch))
        ]
        states = [swap(state) for state in inputs[1:]]  # [B, L*D, .]
    if "sequence_lengths" in more:
        inputs.append(new_input("sequence_lengths", (batch,), "int32"))
        ones = keras.ops.ones_like(x[:, :, 0], dtype="int32")
        steps = keras.ops.cumsum(ones, axis=1)  # 1, 2, ..., T, though T may be unknown
        keywords["mask"] = steps <= keras.ops.expand_dims(inputs[-1], 1)
    if "mask" in more:
        inputs.append(new_input("mask", outer_shape, "bool"))
        keywords["mask"] = swap(inputs[-1])

    D = len(DIRECTIONS[layer.direction])
    finals: list[list[Any]] = [[] for _ in layer.state_size]  # of h, and of c
    for l in range(layer.num_layers):
        if states:
            keywords["initial_state"] = [
                state[:, k] for k in range(l * D, (l + 1) * D) for state in states
            ]
        x = _stock_layer(layer, l)(x, **keywords)
        if layer.return_state:
            x, *of_layer = x
            for k, final in enumerate(of_layer):  # h, c of one direction after the other
                finals[k % len(finals)].append(final)
        if layer.dropout and l < layer.num_layers - 1:
            seed = None if layer.seed is None else layer.seed + l
            x = keras.layers.Dropout(
                layer.dropout, seed=seed, dtype=layer.dtype_policy, name=f"{layer.name}_dropout_{l}"
            )(x)
    if layer.return_sequences:
        x = swap(x)
    outputs = x
    if layer.return_state:
        axis = 0 if layer.time_major else 1
        outputs = [x, *(keras.ops.stack(final, axis=axis) for final in finals)]
    model = keras.Model(inputs if more else inputs[0], outputs, name=layer.name)
    model.trainable = layer.trainable
    return model


# ------------------------------------------------------------------------------------
# Weights
# ------------------------------------------------------------------------------------


def copy_weights(source: keras.Layer, target: keras.Layer) -> None:
    """Sets the weights of a model that was made of the replaced config of another one."""
    for one, other in _matching_layers(source, target):
        if isinstance(one, cudnn_rnn.CudnnRNN):
            arrays = to_keras(Canonical(one.layout, one.canonical_weights())).arrays
            for l, of_layer in enumerate(arrays):
                other.get_layer(_name(one, l)).set_weights(of_layer)
            continue
        for variable, copy in zip(_own_variables(one), _own_variables(other), strict=True):
            copy.assign(variable.numpy())


def freeze_alike(source: keras.Layer, target: keras.Layer) -> None:
    """Freezes what is frozen of a model, in one that was made of its replaced config."""
    for one, other in _matching_layers(source, target):
        if isinstance(one, cudnn_rnn.CudnnRNN):
            if one.separate_weights:
                _freeze(one, other)
            elif not one.params.trainable:
                other.trainable = False
            continue
        for variable, copy in zip(_own_variables(one), _own_variables(other), strict=True):
            copy.trainable = variable.trainable


def _matching_layers(source: keras.Layer, target: keras.Layer) -> Iterator[tuple[Any, Any]]:
    """Yields each layer at any depth and what stands for it: for a CudnnRNN its stack."""
    yield source, target
    if not isinstance(source, cudnn_rnn.CudnnRNN):
        for one, other in _pairs(source._layers, target._layers):
            yield from _matching_layers(one, other)


def _freeze(source: cudnn_rnn.CudnnRNN, target: keras.Layer) -> None:
    """Freezes the layers that stand for frozen cells."""
    cells = iter(source.cells)
    for l in range(source.num_layers):
        stock = target.get_layer(_name(source, l))
        is_both = isinstance(stock, keras.layers.Bidirectional)
        for one in [stock.forward_layer, stock.backward_layer] if is_both else [stock]:
            one.trainable = next(cells).trainable


def _pairs(sources: list[keras.Layer], targets: list[keras.Layer]) -> list[tuple[Any, Any]]:
    """Layers of either list that belong together."""
    by_name = {layer.name: layer for layer in targets}
    if len(sources) == len(by_name) and all(layer.name in by_name for layer in sources):
        return [(layer, by_name[layer.name]) for layer in sources]
    return list(zip(sources, targets, strict=True))  # automatic names differ, the order does not


def _own_variables(layer: keras.Layer) -> list[Any]:
    return layer._trainable_variables + layer._non_trainable_variables
