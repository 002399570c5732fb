"""The vector of weights of a CudnnRNN layer, seen as matrices."""

from collections.abc import Callable, Sequence
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


def initializers_of(
    layout: Layout, kernel: Any, recurrent: Any, bias: Any, unit_forget_bias: bool
) -> list[Callable[..., tf.Tensor]]:
    """Returns an initialiser for each group of `params`, in their order.

    A kernel is drawn with the shape it has in Keras' layers, [in, G*H], so that fan-in and
    fan-out, and the starting point of training, are theirs.

    Args:
      layout: of `params`.
      kernel, recurrent, bias: initialisers of input kernels and projections, recurrent kernels,
        and both biases.
      unit_forget_bias: whether an LSTM's forget gates start with a recurrent_bias of one.
    """

    def initializer(k: int, group: params_header.Group) -> Callable[..., tf.Tensor]:
        kind = group.name.kind

        def draw(shape: Any, dtype: str | None = None) -> tf.Tensor:
            del shape  # group.shape
            # Some initialisers, orthogonal for one, know no types of 16 bits.
            precise = "float64" if dtype == "float64" else "float32"
            if kind in _BIASES:
                values = _drawing_afresh(bias, k)(group.shape, dtype=precise)
                if unit_forget_bias and layout.rnn_mode == "lstm" and kind == "recurrent_bias":
                    gates = np.arange(group.size) // layout.num_units
                    forget = gates == GATES["lstm"].index("forget")
                    values = tf.where(forget, tf.ones_like(values), values)
            else:
                chosen = recurrent if kind in _RECURRENT else kernel
                values = _drawing_afresh(chosen, k)(group.shape[::-1], dtype=precise)
                values = tf.transpose(values)
            return tf.cast(values, dtype or precise)

        return draw

    return [initializer(k, group) for k, group in enumerate(params_header.groups(layout))]


def regularizers_of(
    layout: Layout, kernel: Any, recurrent: Any, bias: Any
) -> list[Callable[[Any], tf.Tensor] | None]:
    """Returns a regulariser, or None, for each group of `params`, in their order.

    Each sees a matrix as it is in Keras' layers, [in, G*H] and [P, G*H], or a bias [G*H].

    Args:
      layout: of `params`.
      kernel, recurrent, bias: regularisers, or None, of input kernels and projections, recurrent
        kernels, and both biases.
    """

    def of_columns(chosen: Any) -> Callable[[Any], tf.Tensor]:
        return lambda matrix: chosen(tf.transpose(keras.ops.convert_to_tensor(matrix)))

    return [
        None if chosen is None else of_columns(chosen)
        for chosen in _of_each(layout, kernel, recurrent, bias)
    ]


def constraints_of(
    layout: Layout, kernel: Any, recurrent: Any, bias: Any
) -> list[Callable[[Any], tf.Tensor] | None]:
    """The same of constraints, each of which gets and returns a matrix as regularisers see it."""

    def of_columns(chosen: Any) -> Callable[[Any], tf.Tensor]:
        return lambda matrix: tf.transpose(
            chosen(tf.transpose(keras.ops.convert_to_tensor(matrix)))
        )

    return [
        None if chosen is None else of_columns(chosen)
        for chosen in _of_each(layout, kernel, recurrent, bias)
    ]


def _of_each(layout: Layout, kernel: Any, recurrent: Any, bias: Any) -> list[Any]:
    """Which of the three is for each group."""
    by_kind = {
        **dict.fromkeys(_KERNELS, kernel),
        **dict.fromkeys(_RECURRENT, recurrent),
        **dict.fromkeys(_BIASES, bias),
    }
    return [by_kind[group.name.kind] for group in params_header.groups(layout)]


def joined_initializer(
    layout: Layout, initializers: list[Callable[..., tf.Tensor]]
) -> Callable[..., tf.Tensor]:
    """An initialiser of `params` that initialises each group by itself."""

    def draw(shape: Any, dtype: str | None = None) -> tf.Tensor:
        del shape  # [layout.size]
        return tf.concat(
            [
                tf.reshape(initializer(group.shape, dtype=dtype), [-1])
                for group, initializer in zip(
                    params_header.groups(layout), initializers, strict=True
                )
                if group.size
            ],
            axis=0,
        )

    return draw


def _parts(groups: Sequence[params_header.Group], params: tf.Tensor) -> list[tf.Tensor]:
    """The groups of `params`, each in its shape."""
    parts = tf.split(keras.ops.convert_to_tensor(params), [group.size for group in groups])
    return [tf.reshape(part, group.shape) for part, group in zip(parts, groups, strict=True)]


def _are_none(groups: Sequence[params_header.Group], functions: Sequence[Any]) -> bool:
    """Whether no group has a function. A kernel whose product is skipped has no element."""
    return all(
        function is None or not group.size
        for group, function in zip(groups, functions, strict=True)
    )


def joined_regularizer(
    layout: Layout, regularizers: list[Callable[[Any], tf.Tensor] | None]
) -> Callable[[Any], tf.Tensor] | None:
    """A regulariser of `params` that sums those of its groups; None if there is none."""
    groups = params_header.groups(layout)
    if _are_none(groups, regularizers):
        return None

    def penalty(params: tf.Tensor) -> tf.Tensor:
        terms = [
            regularizer(part)
            for group, part, regularizer in zip(
                groups, _parts(groups, params), regularizers, strict=True
            )
            if group.size and regularizer is not None
        ]
        return tf.add_n(terms)

    return penalty


def joined_constraint(
    layout: Layout, constraints: list[Callable[[Any], tf.Tensor] | None]
) -> Callable[[Any], tf.Tensor] | None:
    """A constraint of `params` that holds each group to its own; None if there is none."""
    groups = params_header.groups(layout)
    if _are_none(groups, constraints):
        return None

    def constrained(params: tf.Tensor) -> tf.Tensor:
        held = [
            part if constraint is None or not group.size else constraint(part)
            for group, part, constraint in zip(
                groups, _parts(groups, params), constraints, strict=True
            )
        ]
        return tf.concat([tf.reshape(part, [-1]) for part in held], axis=0)

    return constrained


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
