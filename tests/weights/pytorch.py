"""A stand-in for PyTorch, where that is not installed: as much of it as is read here."""

import types
from collections.abc import Callable
from typing import Any

import numpy as np


class Tensor:
    """Of PyTorch's.

    Args:
      values: what it holds.
      dtype: how PyTorch calls its type.
      layout: how PyTorch calls the way in which it lies.
      kind: the name of a kind of tensor that NumPy cannot have; "" if it can.
    """

    def __init__(
        self,
        values: np.ndarray,
        dtype: str = "torch.float32",
        layout: str = "torch.strided",
        kind: str = "",
    ):
        self.values, self.dtype, self.layout, self.kind = values, dtype, layout, kind

    def detach(self) -> "Tensor":
        return self

    def cpu(self) -> "Tensor":
        return self

    @property
    def shape(self) -> tuple[int, ...]:
        if self.kind:
            raise RuntimeError("NestedTensorImpl doesn't support sizes")
        return self.values.shape

    def numel(self) -> int:
        return self.values.size

    def element_size(self) -> int:
        return self.values.itemsize

    def contiguous(self) -> "Tensor":
        if self.layout != "torch.strided":
            raise RuntimeError("unsupported tensor layout")
        return Tensor(np.ascontiguousarray(self.values), self.dtype, kind=self.kind)

    def view(self, dtype: str) -> "Tensor":
        assert dtype == "int16" and self.dtype == "torch.bfloat16"
        return Tensor(self.values, "torch.int16", kind=self.kind)

    def numpy(self) -> np.ndarray:
        if self.kind or self.layout != "torch.strided":
            raise TypeError(f"can't convert a {self.kind or self.layout} tensor to numpy")
        if self.dtype in ("torch.bfloat16", "torch.qint8"):
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self.values


def module(load: Callable[..., Any]) -> types.SimpleNamespace:
    """The module torch, with this `load`."""
    return types.SimpleNamespace(
        load=load,
        is_tensor=lambda value: isinstance(value, Tensor),
        int16="int16",
        __version__="2.6.0+cpu",
    )
