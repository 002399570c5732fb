"""The key of each training step's dropout masks."""

import inspect
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from tf_cudnn_rnn.keras import _warnings

try:
    from tensorflow.python.framework.config import is_op_determinism_enabled
except ImportError:  # not a public function
    is_op_determinism_enabled = None


# 2^64 divided by the golden ratio, as a signed number: spreads replicas over the keys.
_REPLICA_STRIDE = 0x9E3779B97F4A7C15 - (1 << 64)


class DropoutSeed(tf.Module):
    """Draws `rng_seed` of the own op, a new one at each call.

    Attributes:
      generator: Keras' SeedGenerator, for Keras to track.
      state: its variable [2], seed and number of draws. Keras puts it into no file, and
        TensorFlow would not see it; as an attribute here it is in checkpoints.
      recomputation: what it remembers of tf.recompute_grad blocks.
    """

    def __init__(self, seed: int | None):
        super().__init__()
        self._seed = seed
        self.generator = keras.random.SeedGenerator(seed)
        self.state = self.generator.state
        self.recomputation = Recomputation()
        self._warned_of: set[str] = set()

    def next(self, layer: str) -> tf.Tensor:
        """Returns int64 [2], the same in all replicas but for the replica's number.

        Args:
          layer: its name, for messages.

        Raises:
          RuntimeError: no seed was given, and results must be repeatable.
        """
        if self._seed is None:
            self._check_determinism(layer)
        if not RUNS_ARE_KNOWN and _is_called_from(_RECOMPUTE_GRAD.co_filename):
            self._warn_once(
                f"Layer {layer!r} draws dropout masks inside tf.recompute_grad or "
                f"tf.custom_gradient. TensorFlow {tf.__version__} is not known to tell a block's "
                "first run from its second, so a recomputed block may have other masks and its "
                "gradients be wrong. Take such layers out of recomputed blocks."
            )
        return self.recomputation.once(self._draw)

    def _check_determinism(self, layer: str) -> None:
        """Without a seed: raises if results must be repeatable, warns if that is not known."""
        if is_op_determinism_enabled is None:
            self._warn_once(
                f"Layer {layer!r} has dropout without a `seed`, and TensorFlow {tf.__version__} "
                "does not tell whether op determinism is enabled. If it is, pass an int."
            )
        elif is_op_determinism_enabled():
            raise RuntimeError(
                f"Layer {layer!r} must have a `seed` for its dropout when op determinism is "
                "enabled (tf.config.experimental.enable_op_determinism); got None. Pass an int."
            )

    def _warn_once(self, message: str) -> None:
        if message not in self._warned_of:
            self._warned_of.add(message)
            _warnings.warn(message)

    def _draw(self) -> tf.Tensor:
        rng_seed = tf.cast(self.generator.next(), tf.int64)
        context = tf.distribute.get_replica_context()
        if context is None or context.num_replicas_in_sync == 1:
            return rng_seed
        replica = tf.cast(context.replica_id_in_sync_group, tf.int64)
        offset = tf.stack([replica * _REPLICA_STRIDE, tf.zeros_like(replica)])
        return tf.bitwise.bitwise_xor(rng_seed, offset)


def _nested_code(code: types.CodeType, name: str) -> types.CodeType | None:
    """The code of the function of this name, defined anywhere within `code`."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found = constant if constant.co_name == name else _nested_code(constant, name)
            if found:
                return found
    return None


# tf.recompute_grad(f) calls f in `inner` and, to differentiate it, again in the other.
_RECOMPUTE_GRAD = inspect.unwrap(tf.recompute_grad).__code__
FIRST_RUN = _nested_code(_RECOMPUTE_GRAD, "inner")
SECOND_RUN = _nested_code(_RECOMPUTE_GRAD, "inner_recompute_grad")
RUNS_ARE_KNOWN = None not in (FIRST_RUN, SECOND_RUN)


def _is_called_from(filename: str) -> bool:
    """Whether a function of this file is being run."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != filename:
        frame = frame.f_back
    return frame is not None


class Recomputation:
    """Makes the second run of a tf.recompute_grad block draw what its first run drew.

    TensorFlow does not tell a function that it is being run again, so the call stack is
    asked. Both runs of a block have one and the same dict `kwargs`, which serves as its name; the
    tuple `args` would not, for all empty ones are the same.
    Several threads may be in blocks at once.

    Attributes:
      drawn: what blocks that may yet be run again have drawn, by id(kwargs).
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()  # of drawn; not held while drawing
        self.drawn: dict[int, tuple[Any, list[tf.Tensor]]] = {}

    def once(self, draw: Callable[[], tf.Tensor]) -> tf.Tensor:
        """Returns draw(), or in a second run what the first run got here."""
        with self._lock:
            self._forget_finished_blocks()
        return self._once(draw, sys._getframe(1))

    def _once(self, draw: Callable[[], tf.Tensor], frame: types.FrameType | None) -> tf.Tensor:
        while frame is not None and frame.f_code not in (FIRST_RUN, SECOND_RUN):
            frame = frame.f_back
        if frame is None:
            return draw()
        kwargs = frame.f_locals["kwargs"]
        with self._lock:
            if frame.f_code is SECOND_RUN and id(kwargs) in self.drawn:
                values = self.drawn[id(kwargs)][1]
                values.append(values.pop(0))  # a whole run turns the list once around
                return values[-1]
        value = self._once(draw, frame.f_back)  # blocks may be nested
        with self._lock:
            self.drawn.setdefault(id(kwargs), (kwargs, []))[1].append(value)
        return value

    def _forget_finished_blocks(self) -> None:
        for key in list(self.drawn):
            # Referred to by the pair and, for the moment, by getrefcount.
            if sys.getrefcount(self.drawn[key][0]) == 2:
                del self.drawn[key]
