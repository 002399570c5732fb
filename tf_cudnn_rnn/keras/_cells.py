"""The weights of a CudnnRNN as variables of their own, one layer and direction after another."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_cudnn_rnn._formats import params_header
from tf_cudnn_rnn._layout import DIRECTIONS, Layout
from tf_cudnn_rnn._types import Array, DType


class Cell(keras.layers.Layer):
    """The weights of one layer and direction, which `trainable` freezes and frees together.

    Attributes:
      input_kernel: [G*H, in], gates in cuDNN's order; `in` is I in layer 0 and D*P above.
        Absent where layer 0 skips its input product.
      recurrent_kernel: [G*H, P].
      projection: [P, H], of an LSTM that projects; else absent.
      input_bias, recurrent_bias: [G*H]. What counts is their sum, but for a GRU.

    The layer reads these attributes at each call, so that a tensor of the same shape may stand
    in a variable's place, such as one of a kernel and a low-rank matrix.
    """

    def build(
        self,
        groups: Sequence[params_header.Group],
        initializers: Sequence[Callable[..., tf.Tensor]],
        regularizers: Sequence[Callable[[Any], tf.Tensor] | None],
        constraints: Sequence[Callable[[Any], tf.Tensor] | None],
    ) -> None:
        """Makes a variable of each group."""
        for group, initializer, regularizer, constraint in zip(
            groups, initializers, regularizers, constraints, strict=True
        ):
            variable = self.add_weight(
                shape=group.shape,
                initializer=initializer,
                regularizer=regularizer,
                constraint=constraint,
                name=group.name.kind,
            )
            setattr(self, group.name.kind, variable)

    def save_own_variables(self, store: Any) -> None:
        """Writes nothing: the CudnnRNN writes all that it has, however its variables are."""

    def load_own_variables(self, store: Any) -> None:
        """Reads nothing."""


def made(num_layers: int, direction: str, dtype: DType) -> list[Cell]:
    """The cells of a network, without variables: entry k = layer * D + direction."""
    return [
        Cell(name=f"layer_{layer}_{name}", dtype=dtype)
        for layer in range(num_layers)
        for name in DIRECTIONS[direction]
    ]


class Joined(tf.Module):
    """The variables of cells as the one vector `params` [N]: what a variable is elsewhere.

    TensorFlow converts it to a tensor. In checkpoints it is the variable that it stands for.
    """

    _parts: list[tuple[params_header.Group, Cell]]

    def __init__(
        self,
        layout: Layout,
        cells: Sequence[Cell],
        initializers: Sequence[Callable[..., tf.Tensor]],
        regularizers: Sequence[Callable[[Any], tf.Tensor] | None],
        constraints: Sequence[Callable[[Any], tf.Tensor] | None],
    ):
        super().__init__()
        groups = params_header.groups(layout)
        directions = DIRECTIONS[layout.direction]
        # In __dict__, for TensorFlow tracks what is set as an attribute; the layer has the cells.
        self.__dict__["_parts"] = parts = []
        for k, cell in enumerate(cells):
            layer, direction = divmod(k, len(directions))
            own = [
                i
                for i, group in enumerate(groups)
                if group.size and group.name[:2] == (layer, directions[direction])
            ]
            cell.build(
                [groups[i] for i in own],
                [initializers[i] for i in own],
                [regularizers[i] for i in own],
                [constraints[i] for i in own],
            )
            parts += [(groups[i], cell) for i in own]
        parts.sort(key=lambda part: part[0].offset)

    def tensor(self) -> tf.Tensor:
        """The vector, of what the cells' attributes are now.

        Raises:
          ValueError: one is of another shape.
        """
        return tf.concat(
            [tf.reshape(_matrix(group, cell), [-1]) for group, cell in self._parts], axis=0
        )

    def numpy(self) -> Array:
        """A copy of the values."""
        return self.tensor().numpy()

    def assign(self, params: Any) -> None:
        """Sets all variables.

        Raises:
          ValueError: a tensor stands in the place of one.
        """
        for group, cell in self._parts:
            if not hasattr(getattr(cell, group.name.kind), "assign"):
                raise ValueError(
                    f"`{group.name.kind}` of cell {cell.name!r} must be a variable to be set; it "
                    "is a tensor. Put the variable back into its place before, and the tensor "
                    "afterwards."
                )
        params = params if tf.is_tensor(params) else np.asarray(params)
        for group, cell in self._parts:
            values = params[group.offset : group.offset + group.size]
            getattr(cell, group.name.kind).assign(tf.reshape(values, group.shape))

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        return {}

    def _serialize_to_tensors(self) -> dict[str, tf.Tensor]:
        return {"VARIABLE_VALUE": self.tensor()}

    def _restore_from_tensors(self, restored: Mapping[str, tf.Tensor]) -> None:
        self.assign(restored["VARIABLE_VALUE"])


def _matrix(group: params_header.Group, cell: Cell) -> tf.Tensor:
    """What stands in a variable's place, checked: the op sees a vector alone."""
    matrix = keras.ops.convert_to_tensor(getattr(cell, group.name.kind))
    if not matrix.shape.is_compatible_with(group.shape):
        raise ValueError(
            f"`{group.name.kind}` of cell {cell.name!r} must have shape {list(group.shape)}; got "
            f"{matrix.shape.as_list()}. Kernels are [G*H, in], the transpose of Keras'."
        )
    return matrix


tf.register_tensor_conversion_function(
    Joined, lambda joined, dtype=None, name=None, as_ref=False: joined.tensor()
)
