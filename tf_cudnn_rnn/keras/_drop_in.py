"""What the drop-in layers add to those of Keras."""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from tf_cudnn_rnn._types import TensorLike, UseFused
from tf_cudnn_rnn.keras import _inner_loop, _options, _signatures


class DropIn:
    """What the drop-ins have in common, before the Keras class in the order of bases.

    Attributes:
      runs_fused: whether the last call ran as the fused op; None before the first. A call
        that a tf.function replays counts for nothing: it does what its tracing did.
      fallback_reason: why the last call ran in Keras' own code, None if it did not.
    """

    name: str  # of keras.layers.Layer
    runs_fused: bool | None = None
    fallback_reason: str | None = None
    __signature__ = _signatures.OfConstructor()

    def __init__(self, *args: Any, use_fused: UseFused = "auto", **kwargs: Any) -> None:
        _options.check_names(type(self), kwargs, _options.OF_DROP_INS)
        super().__init__(*args, **kwargs)
        use_fused = _options.use_fused("use_fused", use_fused)
        # SimpleRNN has none.
        use_cudnn = _options.use_fused("use_cudnn", getattr(self, "use_cudnn", "auto"))
        if "auto" not in (use_fused, use_cudnn) and use_fused != use_cudnn:
            raise ValueError(
                "`use_cudnn` is another name of `use_fused`, so give one of them; got "
                f"use_fused={use_fused}, use_cudnn={use_cudnn}."
            )
        # Bidirectional clones its layer through the config, which holds neither name, and
        # hands on an attribute of this name.
        self.use_cudnn: UseFused = use_cudnn if use_fused == "auto" else use_fused
        self.supports_jit = False  # XLA knows no custom ops
        if self.use_cudnn is True:
            reason = _inner_loop.obstacle(self, training=False)
            if reason:
                raise _inner_loop.cannot_run_fused(self, reason)

    @property
    def use_fused(self) -> UseFused:
        """Whether to run as the fused op: "auto" (if possible), True (or raise), False."""
        return self.use_cudnn

    def inner_loop(
        self,
        sequences: tf.Tensor,
        initial_state: Sequence[tf.Tensor],
        mask: TensorLike | None,
        training: bool = False,
    ) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
        """Overrides Keras' loop over time steps."""
        return _inner_loop.inner_loop(self, sequences, initial_state, mask, training)
