"""Makes Keras' own layers run fused."""

from __future__ import annotations

import contextlib
import types
import weakref
from typing import Any

import keras

from tf_cudnn_rnn.keras import _both_directions, _inner_loop, _warnings
from tf_cudnn_rnn.keras._environment import TESTED_KERAS
from tf_cudnn_rnn.keras._models import STOCK_LAYERS, layers_of

# What Keras calls at the beginning of fit, evaluate, predict and the like, and what it makes.
_FUNCTIONS = {
    "make_train_function": "train_function",
    "make_test_function": "test_function",
    "make_predict_function": "predict_function",
}


# Methods of Keras, and what takes their place.
_LOOP = ("inner_loop", _inner_loop.inner_loop)
_BOTH = ("call", _both_directions.call)


class Acceleration(contextlib.AbstractContextManager["Acceleration"]):
    """What accelerate() returns. Leaving its `with` block, or undo(), ends it."""

    def undo(self) -> None:
        """Gives Keras its loops back, unless another acceleration is in force."""
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        self.undo()


def accelerate(model: keras.Layer | None = None) -> Acceleration:
    """Lets keras.layers.LSTM, GRU and SimpleRNN run as fused ops, as the drop-ins do.

    Two of them in a keras.layers.Bidirectional run as one.

    Without a model it is for all layers of the process: those that exist and those to come,
    wrapped ones and subclasses included. It acts until the end of a `with` block, or until
    undo() of what it returns:

        with tf_cudnn_rnn.keras.accelerate():
            model.fit(x, y)

    With a model it is for the layers that this model has now, and no others:

        tf_cudnn_rnn.keras.accelerate(model)
        model.fit(x, y)

    Results do not change, but for rounding. Where TensorFlow has a GPU of NVIDIA, what Keras runs
    by cuDNN there is left to it. What the fused op cannot do stays in Keras' loop, and a layer made
    with use_cudnn=False does, too; one with use_cudnn=True raises then. Each layer's `runs_fused`
    and `fallback_reason` tell, as those of the drop-ins; after the end, still of the last call
    before it.

    A model that has been trained or used before is traced again by its next fit, evaluate or
    predict, and once more after the end. A tf.function of your own keeps what it was traced with:
    accelerate before its first call. So does a model that holds `model`, which knows nothing of it:
    accelerate the outermost one.

    Args:
      model: a model or layer; None for all of Keras' layers.

    Raises:
      RuntimeError: this version of Keras has not been tested. The drop-in layers may work.
      TypeError: `model` is no Keras layer.
    """
    version = keras.__version__
    if ".".join(version.split(".")[:2]) not in TESTED_KERAS:
        raise RuntimeError(
            "accelerate() replaces a method inside Keras and has been tested with Keras "
            f"{TESTED_KERAS[0]} to {TESTED_KERAS[-1]}; found {version}. Use the layers of "
            "tf_cudnn_rnn.keras instead, which override that method without touching Keras."
        )
    if model is None:
        return _OfAllLayers()
    if not isinstance(model, keras.Layer):
        raise TypeError(
            f"`model` must be a Keras model or layer; got {type(model).__name__}. Leave it out to "
            "accelerate all layers."
        )
    return _OfModel(model)


def _replaced_in(model: keras.Layer) -> list[tuple[keras.Layer, str, Any]]:
    """The layers of a model that have Keras' method: its name, and what takes its place.

    One that somebody has set on a layer stays.
    """
    kinds = ((STOCK_LAYERS, *_LOOP), ((keras.layers.Bidirectional,), *_BOTH))
    return [
        (layer, name, function)
        for classes, name, function in kinds
        for layer in layers_of(model, classes)
        if _inherits(layer, name) and _is_ours_to_set(layer, name, function)
    ]


def _inherits(layer: keras.Layer, method: str) -> bool:
    """Whether its class has Keras' method: drop-ins, and some subclasses of users, do not."""
    owner = next(cls for cls in type(layer).__mro__ if method in vars(cls))
    return owner.__module__.split(".")[0] == "keras"


def _is_ours_to_set(layer: keras.Layer, name: str, function: Any) -> bool:
    """Whether nobody else has set the method on the layer."""
    own = vars(layer).get(name)
    return own is None or getattr(own, "__func__", None) is function


def has_keras_loop(layer: keras.Layer) -> bool:
    """Whether its class inherits the loop."""
    return _inherits(layer, _LOOP[0])


def _forget_functions(model: keras.Layer) -> None:
    """Lets Keras trace anew what it has traced for `model` and for models inside it."""
    for one in layers_of(model, (keras.Model,)):
        for function in _FUNCTIONS.values():
            setattr(one, function, None)


def _forget_loops(model: keras.Layer) -> None:
    """_forget_functions() of a model that the loop may have been traced into."""
    if _replaced_in(model):
        _forget_functions(model)


# How many accelerations each layer has by itself.
_accelerated: weakref.WeakKeyDictionary[keras.Layer, int] = weakref.WeakKeyDictionary()


class _OfModel(Acceleration):
    """Replaces the methods of each stock layer of a model."""

    def __init__(self, model: keras.Layer) -> None:
        self._model = model
        self._replaced = _replaced_in(model)
        if not self._layers:
            _warnings.warn(
                f"accelerate({model.name!r}) has no effect: the model has no keras.layers.LSTM, "
                "GRU or SimpleRNN that runs Keras' loop. A model that makes them when it is built "
                "must be built first; drop-ins run fused as they are."
            )
        for layer, name, function in self._replaced:
            _accelerated[layer] = _accelerated.get(layer, 0) + 1
            # In __dict__, for Keras and TensorFlow track what is set as an attribute.
            layer.__dict__[name] = types.MethodType(function, layer)
        _forget_functions(model)

    @property
    def _layers(self) -> list[keras.Layer]:
        return [layer for layer, name, _ in self._replaced if name == _LOOP[0]]

    def undo(self) -> None:
        for layer, name, function in self._replaced:
            _accelerated[layer] -= 1
            if not _accelerated[layer]:
                del _accelerated[layer]
                if _is_ours_to_set(layer, name, function):
                    layer.__dict__.pop(name, None)
                if not _active:
                    _inner_loop.let_xla_compile(layer)
        if self._replaced:
            _forget_functions(self._model)
        self._replaced = []

    def __repr__(self) -> str:
        layers = ", ".join(layer.name for layer in self._layers) or "no layers"
        return f"<acceleration of {self._model.name!r}: {layers}>"


_active: set[Acceleration] = set()
_originals: dict[tuple[type, str], Any] = {}
_ABSENT = object()  # what a class inherits
# Models whose functions were traced, or forgotten, since the first of _active began.
_renewed: weakref.WeakSet[keras.Model] = weakref.WeakSet()


class _OfAllLayers(Acceleration):
    """Replaces the method of Keras' classes, while there is any such object."""

    def __init__(self) -> None:
        if not _active:
            for cls in STOCK_LAYERS:
                _replace(cls, *_LOOP)
            _replace(keras.layers.Bidirectional, *_BOTH)
            for method in _FUNCTIONS:
                _replace(keras.Model, method, _renewing(getattr(keras.Model, method)))
        _active.add(self)

    def undo(self) -> None:
        if self not in _active:
            return
        _active.remove(self)
        if not _active:
            for model in _renewed:
                _forget_loops(model)
            for (cls, name), original in _originals.items():
                if original is _ABSENT:
                    delattr(cls, name)
                else:
                    setattr(cls, name, original)
            _originals.clear()
            for layer in _inner_loop.layers_without_xla():
                if layer not in _accelerated:
                    _inner_loop.let_xla_compile(layer)
            _renewed.clear()

    def __repr__(self) -> str:
        layers = "all keras.layers.LSTM, GRU and SimpleRNN" if self in _active else "no layers"
        return f"<acceleration of {layers}>"


def _replace(cls: type, name: str, method: Any) -> None:
    _originals[cls, name] = vars(cls).get(name, _ABSENT)
    setattr(cls, name, method)


def _renewing(make_function: Any) -> Any:
    """A method of keras.Model that makes a function; it forgets what the loop was traced into."""

    def make(model: keras.Model, force: bool = False) -> Any:
        if model not in _renewed:
            _renewed.add(model)
            _forget_loops(model)
        return make_function(model, force=force)

    return make
