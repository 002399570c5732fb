"""Makes Keras' own layers run fused."""

import contextlib
from typing import Any

import keras

from tf_cudnn_rnn.keras import _inner_loop
from tf_cudnn_rnn.keras._environment import TESTED_KERAS

_CLASSES: tuple[Any, ...] = (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)
_ABSENT = object()  # SimpleRNN inherits the method

_active: set["Acceleration"] = set()
_originals: dict[Any, Any] = {}


class Acceleration(contextlib.AbstractContextManager["Acceleration"]):
    """What accelerate() returns. Leaving its `with` block, or undo(), ends it."""

    def __init__(self) -> None:
        if not _active:
            for cls in _CLASSES:
                _originals[cls] = vars(cls).get("inner_loop", _ABSENT)
                cls.inner_loop = _inner_loop.inner_loop
        _active.add(self)

    def undo(self) -> None:
        """Gives Keras its loops back, unless another acceleration is in force."""
        if self not in _active:
            return
        _active.remove(self)
        if not _active:
            for cls, method in _originals.items():
                if method is _ABSENT:
                    del cls.inner_loop
                else:
                    cls.inner_loop = method
            _originals.clear()

    def __exit__(self, *_: object) -> None:
        self.undo()


def accelerate() -> Acceleration:
    """Lets keras.layers.LSTM, GRU and SimpleRNN run as fused ops, as the drop-ins do.

    It acts at once, on layers that exist and layers to come, wrapped ones and subclasses
    included, until the end of a `with` block or until undo() of what it returns:

        with tf_cudnn_rnn.keras.accelerate():
            model.fit(x, y)

    Results do not change. What the fused op cannot do stays in Keras' loop, and a layer made
    with use_cudnn=False does, too. Each layer's `runs_fused` and `fallback_reason` tell, as
    those of the drop-ins.

    A function keeps what it was traced with. So accelerate before the first fit, evaluate or
    predict of a model, or compile the model again; and what was traced within the block stays
    fused after it.

    Raises:
      RuntimeError: this version of Keras has not been tested. The drop-in layers may work.
    """
    version = keras.__version__
    if ".".join(version.split(".")[:2]) not in TESTED_KERAS:
        raise RuntimeError(
            "accelerate() replaces a method inside Keras and has been tested with Keras "
            f"{TESTED_KERAS[0]} to {TESTED_KERAS[-1]}; found {version}. Use the layers of "
            "tf_cudnn_rnn.keras instead, which override that method without touching Keras."
        )
    return Acceleration()
