"""The vector of weights of a CudnnRNN layer, seen as matrices."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn._formats import params_header
from tf_cudnn_rnn._layout import GATES, Layout

_KERNELS = ("input_kernel", "projection")
_RECURRENT = ("recurrent_kernel",)
_BIASES = ("input_bias", "recurrent_bias")


def size_of(layout: Layout, dtype: str) -> int:
    """N, as the op that makes room for cuDNN's weights says it."""
    with tf.init_scope():
        size = raw_ops.CudnnRNNParamsSize(
            num_layers=layout.num_layers,
            num_units=layout.num_units,
            input_size=layout.input_size,
            T=dtype,
            S=tf.int64,
            rnn_mode=layout.rnn_mode,
            input_mode=layout.input_mode,
            direction=layout.direction,
            num_proj=layout.num_proj,
        )
        return int(size[0])


def _drawing_afresh(initializer: Any, k: int) -> Any:
    """An initialiser like `initializer` for the k-th matrix.

    Keras' draw the same numbers at each call, and so would make all layers alike.
    """
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    seed = config.get("seed", "none")
    if seed is None:
        return type(initializer).from_config(config)
    if isinstance(seed, int):
        return type(initializer).from_config({**config, "seed": seed + k})
    return initializer


def initializer_of(
    layout: Layout, kernel: Any, recurrent: Any, bias: Any, unit_forget_bias: bool
) -> Callable[..., tf.Tensor]:
    """Returns an initialiser of `params` that initialises each matrix by itself.

    A kernel is drawn with the shape it has in Keras' layers, [in, G*H], so that fan-in and
    fan-out, and the starting point of training, are theirs.

    Args:
      layout: of `params`.
      kernel, recurrent, bias: initialisers of input kernels and projections, recurrent kernels,
        and both biases.
      unit_forget_bias: whether an LSTM's forget gates start with a recurrent_bias of one.
    """

    def draw(shape: Any, dtype: str | None = None) -> tf.Tensor:
        del shape  # [layout.size]
        # Some initialisers, orthogonal for one, know no types of 16 bits.
        precise = "float64" if dtype == "float64" else "float32"
        flat = []
        for k, group in enumerate(params_header.groups(layout)):
            kind = group.name.kind
            if group.size == 0:
                continue
            if kind in _BIASES:
                values = _drawing_afresh(bias, k)(group.shape, dtype=precise)
                if unit_forget_bias and layout.rnn_mode == "lstm" and kind == "recurrent_bias":
                    forget = np.arange(group.size) // layout.num_units == GATES["lstm"].index(
                        "forget"
                    )
                    values = tf.where(forget, tf.ones_like(values), values)
            else:
                chosen = recurrent if kind in _RECURRENT else kernel
                columns_first = group.shape[::-1]
                values = _drawing_afresh(chosen, k)(columns_first, dtype=precise)
                values = tf.transpose(values)
            flat.append(tf.reshape(values, [-1]))
        return tf.cast(tf.concat(flat, axis=0), dtype or precise)

    return draw


def regularizer_of(
    layout: Layout, kernel: Any, recurrent: Any, bias: Any
) -> Callable[[Any], tf.Tensor] | None:
    """Returns a regulariser of `params` that sums those of its matrices; None if there is none.

    Each sees a matrix as it is in Keras' layers, [in, G*H] and [P, G*H], or a bias [G*H].

    Args:
      layout: of `params`.
      kernel, recurrent, bias: regularisers, or None, of input kernels and projections, recurrent
        kernels, and both biases.
    """
    by_kind = {
        **dict.fromkeys(_KERNELS, kernel),
        **dict.fromkeys(_RECURRENT, recurrent),
        **dict.fromkeys(_BIASES, bias),
    }
    if all(chosen is None for chosen in by_kind.values()):
        return None
    groups = params_header.groups(layout)

    def penalty(params: tf.Tensor) -> tf.Tensor:
        parts = tf.split(keras.ops.convert_to_tensor(params), [group.size for group in groups])
        terms = [
            by_kind[group.name.kind](tf.transpose(tf.reshape(part, group.shape)))
            for group, part in zip(groups, parts, strict=True)
            if group.size and by_kind[group.name.kind] is not None
        ]
        return tf.add_n(terms)

    return penalty


class Header(tf.train.experimental.PythonState):
    """The header of a layer's `params` in checkpoints; restoring one checks it."""

    def __init__(self, layout: Layout, layer: str):
        super().__init__()
        self._layout = layout
        self._layer = layer

    def serialize(self) -> str:
        """Called when a checkpoint is written."""
        return params_header.to_text(self._layout, self._layer)

    def deserialize(self, text: str | bytes) -> None:
        """Called when one is restored."""
        params_header.check_same(text, self._layout, self._layer, "the checkpoint")
