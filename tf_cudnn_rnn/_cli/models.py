"""The sides of `bench` for somebody's model: with Keras' layers, and with this library's."""

import contextlib
import os
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tf_cudnn_rnn._cli import output, tensorflow
from tf_cudnn_rnn._cli.timing import PREDICTION, TRAINING, Side
from tf_cudnn_rnn._files import kinds
from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import Array

KERAS, OURS = "Keras", "tf_cudnn_rnn.keras"
_TOLERANCE = 1e-3  # of outputs as large as the largest one
_TOLERANCE_16 = 5e-2


def check(path: str) -> None:
    """Looks whether a file may be one of Keras, which takes no time.

    Raises:
      OSError: it cannot be opened.
      UserError: it is another one.
      ValueError: it is damaged.
    """
    is_one = path.endswith(".keras") and not os.path.isdir(path)
    if is_one or not os.path.exists(path):
        with untrusted.opened(path) as (file, _):
            is_one = file.read(2) == b"PK"
    if not is_one or kinds.recognise(path)[0] is not kinds.Kind.KERAS:
        raise output.UserError(
            f"{path} must be a .keras file; save the model with model.save(path)."
        )


def load(path: str) -> tuple[Any, Any]:
    """Returns the model in a `.keras` file twice: with Keras' layers, and with drop-ins.

    Raises:
      OSError: it cannot be opened.
      UserError: Keras cannot load it, or it has no layer that would differ.
    """
    check(path)
    import keras

    import tf_cudnn_rnn.keras
    from tf_cudnn_rnn.keras import _models

    # Keras raises what it likes, and warns of what does not matter here, such as optimisers.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ours = tf_cudnn_rnn.keras.load_model(path, compile=False, safe_mode=True)
            # If the file has drop-ins, so has what Keras makes of it.
            stock = keras.saving.load_model(path, compile=False, safe_mode=True)
            if not _models.recurrent_layers(ours):
                raise output.UserError(
                    f"{os.path.basename(path)} has no layer LSTM, GRU or SimpleRNN."
                )
        except (output.UserError, OSError, MemoryError):
            raise
        except Exception as error:
            reason = tensorflow.reason(error)
            raise output.UserError(f"Keras cannot load {path}: {reason}") from error
        if any(
            type(layer).__module__.startswith("tf_cudnn_rnn")
            for layer in _models.recurrent_layers(stock)
        ):
            stock = tf_cudnn_rnn.keras.to_keras(ours)
    return stock, ours


def _highest(model: Any, tensor: Any) -> int:
    """The size of what an integer input is looked up in, as far as the model tells."""
    import keras

    from tf_cudnn_rnn.keras import _models

    embeddings = _models.layers_of(model, (keras.layers.Embedding,))
    own = []
    for layer in embeddings:
        with contextlib.suppress(AttributeError, ValueError):  # if it is called by another model
            if layer.input is tensor:
                own.append(layer.input_dim)
    if own:
        return min(own)
    if tensor.dtype.startswith(("int", "uint")):
        return min((layer.input_dim for layer in embeddings), default=2)
    return 0


def _inputs_of(model: Any) -> Any:
    """Tensors of Keras, in the structure in which the model takes them.

    Raises:
      UserError: the model does not know them.
    """
    import keras

    structure = None
    with contextlib.suppress(AttributeError, ValueError):
        structure = model.inputs  # a list
    with contextlib.suppress(AttributeError, ValueError):
        structure = model.input  # which a Sequential does not have
    # In this order: a tensor of Keras, all that many models take, is neither true nor false.
    if not keras.utils.is_keras_tensor(structure) and not structure:
        raise output.UserError(
            "The model must tell the shape of its input; give it a keras.Input, or call it before "
            "it is saved."
        )
    return structure


def leaves_open(tf: types.ModuleType, model: Any) -> tuple[bool, bool]:
    """Whether a model leaves open the size of the batch, and others, as of steps."""
    shapes = [tensor.shape for tensor in tf.nest.flatten(_inputs_of(model))]
    return any(shape[0] is None for shape in shapes), any(None in shape[1:] for shape in shapes)


def inputs(tf: types.ModuleType, model: Any, batch: int, steps: int) -> Any:
    """Random data of the model's inputs, in their structure.

    Args:
      tf: TensorFlow.
      model: of Keras.
      batch, steps: for sizes that the model leaves open: the first one, and others.

    Raises:
      UserError: the model does not know its inputs, or takes texts.
    """
    import keras

    structure = _inputs_of(model)
    random = np.random.default_rng(1)

    def draw(tensor: Any) -> Any:
        first, *rest = tensor.shape
        shape = [first or batch, *(size or steps for size in rest)]
        high = _highest(model, tensor)
        if high:
            # 0 would be padding where the layer masks it.
            values = random.integers(min(1, high - 1), high, shape)
            return tf.constant(values, tensor.dtype)
        if tensor.dtype == "bool":
            return tf.ones(shape, tf.bool)
        if not tf.as_dtype(tensor.dtype).is_floating:
            raise output.UserError(f"The model's input {tensor.name} must be numbers.")
        return tf.cast(random.normal(size=shape), tensor.dtype)

    data = keras.tree.map_structure(draw, structure)
    return data[0] if isinstance(data, list) and len(data) == 1 else data


def _floats(tf: types.ModuleType, outputs: Any) -> list[Any]:
    import keras

    return [y for y in keras.tree.flatten(outputs) if tf.as_dtype(y.dtype).is_floating]


def side(
    tf: types.ModuleType, name: str, model: Any, data: Any
) -> tuple[Side, Callable[[], list[Array]]]:
    """A prediction, and a step of training: loss, gradients, Adam. Weights stay as they are."""
    import keras

    predict_graph = tf.function(lambda x: _floats(tf, model(x, training=False)), autograph=False)
    optimizer = keras.optimizers.Adam(0.0)
    variables = list(model.trainable_variables)
    optimizer.build(variables)

    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            ys = _floats(tf, model(x, training=True))
            loss = tf.add_n([tf.reduce_mean(tf.square(tf.cast(y, tf.float32))) for y in ys])
        gradients = tape.gradient(loss, [variable.value for variable in variables])
        pairs = [(g, v) for g, v in zip(gradients, variables, strict=True) if g is not None]
        optimizer.apply([g for g, _ in pairs], [v for _, v in pairs])
        return loss

    train_graph = tf.function(train, autograph=False)
    calls = {PREDICTION: lambda: [y.numpy() for y in predict_graph(data)]}
    if variables:
        calls[TRAINING] = lambda: train_graph(data).numpy()
    return Side(name, calls), calls[PREDICTION]


def disagreement(expected: list[Array], found: list[Array]) -> str | None:
    """Says by how much predictions differ; None if it is rounding."""
    for y, ours in zip(expected, found, strict=True):
        tolerance = _TOLERANCE if y.dtype.itemsize >= 4 else _TOLERANCE_16
        y, ours = y.astype(np.float64), ours.astype(np.float64)
        scale = float(np.max(np.abs(y), initial=1e-6))
        error = float(np.max(np.abs(y - ours), initial=0.0)) / scale
        if not error <= tolerance:
            return f"Predictions differ by {error:.2g} of the largest one"
    return None


def fallbacks(model: Any) -> list[str]:
    """The layers that did not run fused, and why."""
    from tf_cudnn_rnn.keras import _models

    return [
        f"{untrusted.shown(layer.name)} ran in Keras' loop: {layer.fallback_reason}"
        for layer in _models.recurrent_layers(model)
        if getattr(layer, "fallback_reason", None)
    ]
