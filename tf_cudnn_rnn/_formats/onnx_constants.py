"""Weights that the graph of an `.onnx` file computes from its initializers.

PyTorch's exporter writes a module's weights as they are, and has the graph bring gates into ONNX's
order: it slices them, and puts the slices side by side. The ops that it writes are computed here,
and no others.

A graph of a stranger may ask for anything. Nearly all of these ops look at the bytes of the file in
another way; Concat lists its parts, which are put together once, where all of it is wanted. The
bytes that are copied are bounded, as are the steps, both for all weights of a file together.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import Array

INT64 = "<i8"  # of sizes and positions
MAX_INTEGERS = untrusted.MAX_DIMENSIONS  # in a list of them
# Half a second, for all weights of a file. A layer of the exporter takes 300 at most.
_MAX_STEPS = 50_000
_MAX_DEPTH = 50  # nodes in a row; the exporter's are up to ten

_STATE_DICT = (
    "the state_dict rather than ONNX: "
    'safetensors.torch.save_file(model.state_dict(), "model.safetensors")'
)
ADVICE = f"Take {_STATE_DICT}; or export with torch.onnx.export(..., dynamo=False)."
_ELSEWHERE = (
    "it is in another one, as external data, and no other file is opened. Put it into the file "
    'with onnx.save(onnx.load("a.onnx"), "b.onnx") or torch.onnx.export(..., external_data=False); '
    f"or take {_STATE_DICT}."
)


class Tensor(NamedTuple):
    """An array in the file, of which nothing has been copied; or one that was computed.

    Attributes:
      shape: what the file says.
      dtype: NumPy's name; "" for a type that neither weights nor sizes have.
      content: the bytes of its elements; None if they are in another file, or stored otherwise.
      is_elsewhere: whether they are in another file.
    """

    shape: tuple[int, ...]
    dtype: str
    content: memoryview | None
    is_elsewhere: bool = False


class Missing(NamedTuple):
    """A weight that is neither in the file nor computed.

    Attributes:
      why: what follows a demand that it be in the file; says what to do.
    """

    why: str


class Node(NamedTuple):
    """A node that may compute a weight.

    Attributes:
      op: with its domain if that is not ONNX's own.
      inputs: their names; "" for one that is left out.
      attributes: as in the node.
    """

    op: str
    inputs: list[str]
    attributes: dict[str, Any]


class Constants:
    """The tensors of a graph that are known before it runs."""

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        node_of: Callable[[str], Node | None],
        most_bytes: int,
    ):
        """Computes nothing yet.

        Args:
          tensors: the graph's initializers and constants, by name.
          node_of: gives the node that computes a tensor; None if none does.
          most_bytes: that all of them, and any of them, may take.
        """
        self._tensors = tensors
        self._node_of = node_of
        self._limits = _Limits(most_bytes)
        self._known: dict[str, _Blocks] = {}
        self._found: dict[str, Tensor | Missing] = {}

    def find(self, name: str) -> Tensor | Missing:
        """The tensor of that name, which is computed if need be."""
        if name in self._tensors:
            tensor = self._tensors[name]
            return Missing(_ELSEWHERE) if tensor.is_elsewhere else tensor
        if name not in self._found:
            try:
                value = self._value(name, 0)
                array = self._limits.contiguous(self._limits.joined(value))
                content = array.reshape(-1).view(np.uint8).data
                self._found[name] = Tensor(value.shape, value.dtype, content)
            except NotComputed as error:
                self._found[name] = Missing(str(error))
        return self._found[name]

    def _value(self, name: str, depth: int) -> "_Blocks":
        if name in self._known:
            return self._known[name]
        if name in self._tensors:
            value = self._stored(name)
        else:
            value = self._computed(name, depth)
        self._limits.take_steps(1 + len(value.blocks))
        self._known[name] = value
        return value

    def _computed(self, name: str, depth: int) -> "_Blocks":
        node = self._node_of(name)
        if node is None:
            raise NotComputed(
                f"it is computed from {untrusted.shown(name)}, which is an input of the graph, or "
                f"is missing. {ADVICE}"
            )
        if node.op not in _OPS:
            raise NotComputed(
                f"it is computed with the op {untrusted.shown(node.op)}, and only "
                f"{', '.join(_OPS)} are computed here. {ADVICE}"
            )
        if depth == _MAX_DEPTH:
            raise NotComputed(
                f"it is computed by more than {_MAX_DEPTH} nodes in a row, or by nodes that go "
                f"round in a circle. {ADVICE}"
            )
        self._limits.take_steps(len(node.inputs))
        inputs = [self._value(given, depth + 1) if given else None for given in node.inputs]
        return _OPS[node.op](_Call(node, inputs, self._limits))

    def _stored(self, name: str) -> "_Blocks":
        tensor = self._tensors[name]
        where = untrusted.shown(name)
        if tensor.is_elsewhere:
            raise NotComputed(_ELSEWHERE)
        if not tensor.dtype or tensor.content is None:
            raise NotComputed(
                f"it is computed from {where}, which is of a type, or stored in a way, that is not "
                f"known here. {ADVICE}"
            )
        dtype = _numpy_dtype(tensor.dtype)
        size = math.prod(tensor.shape) * dtype.itemsize
        if size != len(tensor.content):
            raise NotComputed(
                f"it is computed from {where}, which must have the bytes of its shape "
                f"{untrusted.shown(list(tensor.shape))}, {size}; it has {len(tensor.content)}."
            )
        self._limits.check_size(where, tensor.shape, tensor.dtype)
        return _whole(np.frombuffer(tensor.content, dtype).reshape(tensor.shape), tensor.dtype)


# ------------------------------------------------------------------------------------
# Arrays and their limits
# ------------------------------------------------------------------------------------


class NotComputed(ValueError):
    """Why an array is not computed, in the words of a Missing."""


class _Blocks(NamedTuple):
    """An array whose parts have not been put together yet.

    Attributes:
      shape: of all of it.
      dtype: as a Tensor has it.
      blocks: where each part begins, and its elements. None is empty; together they fill it.
    """

    shape: tuple[int, ...]
    dtype: str
    blocks: list[tuple[tuple[int, ...], Array]]


def _whole(array: Array, dtype: str) -> _Blocks:
    return _Blocks(array.shape, dtype, [((0,) * array.ndim, array)] if array.size else [])


def _numpy_dtype(name: str) -> np.dtype[Any]:
    """As which elements are moved: bfloat16 has no type of NumPy's own."""
    return np.dtype("<u2" if name == "bfloat16" else name)


class _Limits:
    """What all weights of a file together may still take."""

    def __init__(self, most_bytes: int):
        self._most_bytes = self._bytes_left = most_bytes
        self._steps_left = _MAX_STEPS

    def take_steps(self, count: int) -> None:
        """Counts nodes, their inputs, and parts of arrays."""
        self._steps_left -= count
        if self._steps_left < 0:
            raise NotComputed(
                f"the weights of the file are computed in more than {_MAX_STEPS} steps. {ADVICE}"
            )

    def check_size(self, what: str, shape: Sequence[int], dtype: str) -> None:
        """Refuses an array that is larger than all of them may be, or has too many dimensions."""
        # NumPy refuses other sizes beside a size of 0 if they are large.
        size = math.prod(max(1, length) for length in shape) * _numpy_dtype(dtype).itemsize
        if len(shape) > untrusted.MAX_DIMENSIONS or size > self._most_bytes:
            raise NotComputed(
                f"it is computed with {what}, whose shape is {untrusted.shown(list(shape))}; such "
                f"arrays must have at most {untrusted.MAX_DIMENSIONS} dimensions and, in a file of "
                f"this size, {self._most_bytes} bytes. {ADVICE}"
            )

    def joined(self, value: _Blocks) -> Array:
        """All elements, which are copied if there are several parts."""
        if len(value.blocks) == 1:
            return value.blocks[0][1]
        dtype = _numpy_dtype(value.dtype)
        self.take_steps(len(value.blocks))
        self._take_bytes(math.prod(value.shape) * dtype.itemsize)
        array = np.empty(value.shape, dtype)
        for begin, block in value.blocks:
            place = zip(begin, block.shape, strict=True)
            array[tuple(slice(first, first + size) for first, size in place)] = block
        return array

    def contiguous(self, array: Array) -> Array:
        """The array as it lies in memory, one element after the other."""
        if not array.flags.c_contiguous:
            self._take_bytes(array.nbytes)
        return np.ascontiguousarray(array)

    def _take_bytes(self, count: int) -> None:
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise NotComputed(
                f"the weights of the file are computed with more than {self._most_bytes} bytes, "
                f"which is far more than the file has. {ADVICE}"
            )


# ------------------------------------------------------------------------------------
# Ops
# ------------------------------------------------------------------------------------


class _Call(NamedTuple):
    """A node and what its inputs are; None for one that is left out."""

    node: Node
    inputs: list[_Blocks | None]
    limits: _Limits

    def refusal(self, rule: str, got: Any) -> NotComputed:
        return NotComputed(
            f"it is computed with {self.node.op}, which must have {rule}; got "
            f"{untrusted.shown(got)}. {ADVICE}"
        )

    def value(self, position: int) -> _Blocks:
        value = self.inputs[position] if position < len(self.inputs) else None
        if value is None:
            raise self.refusal(f"an input {position}", f"{len(self.inputs)} inputs")
        return value

    def array(self, position: int) -> Array:
        return self.limits.joined(self.value(position))

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute."""
        found = self.node.attributes.get(name, default)
        if type(found) is not int:
            raise self.refusal(f"an integer for {name}", found)
        return found

    def integers(self, name: str, position: int, default: list[int] | None = None) -> list[int]:
        """What is an input, or an attribute in old versions of the op."""
        if name in self.node.attributes:
            found = self.node.attributes[name]
            if not isinstance(found, list) or not all(type(item) is int for item in found):
                raise self.refusal(f"a list of integers for {name}", found)
        elif default is not None and (self.inputs[position:] or [None])[0] is None:
            found = default
        else:
            value = self.value(position)
            if value.dtype != INT64 or len(value.shape) > 1:
                raise self.refusal(
                    f"a list of integers of 64 bits for {name}",
                    f"shape {list(value.shape)} and type {value.dtype}",
                )
            found = self.array(position).reshape(-1)[: MAX_INTEGERS + 1].tolist()
        if len(found) > MAX_INTEGERS:
            raise self.refusal(f"at most {MAX_INTEGERS} integers for {name}", "more")
        return found

    def axes(self, axes: Sequence[int], ndim: int) -> list[int]:
        """Axes of an array of `ndim` dimensions, of which negative ones count from the end."""
        if not all(-ndim <= axis < ndim for axis in axes):
            raise self.refusal(f"axes of {ndim} dimensions", axes)
        found = [axis % ndim for axis in axes]
        if len(set(found)) < len(found):
            raise self.refusal("every axis once", axes)
        return found


def _identity(call: _Call) -> _Blocks:
    return call.value(0)


def _concat(call: _Call) -> _Blocks:
    parts = [call.value(i) for i in range(max(1, len(call.inputs)))]
    first = parts[0]
    (axis,) = call.axes([call.integer("axis")], len(first.shape))
    before, after = first.shape[:axis], first.shape[axis + 1 :]
    # Before they are listed: a value of many parts may be named many times.
    call.limits.take_steps(sum(len(part.blocks) for part in parts))
    blocks = []
    end = 0
    for part in parts:
        is_alike = len(part.shape) == len(first.shape) and part.dtype == first.dtype
        if not is_alike or (part.shape[:axis], part.shape[axis + 1 :]) != (before, after):
            raise call.refusal(
                f"inputs of one type whose sizes differ in axis {axis} alone",
                f"{first.dtype} {list(first.shape)} and {part.dtype} {list(part.shape)}",
            )
        for begin, block in part.blocks:
            place = (*begin[:axis], end + begin[axis], *begin[axis + 1 :])
            blocks.append((place, block))
        end += part.shape[axis]
    shape = (*before, end, *after)
    call.limits.check_size("Concat", shape, first.dtype)
    return _Blocks(shape, first.dtype, blocks)


def _slice(call: _Call) -> _Blocks:
    starts, ends = call.integers("starts", 1), call.integers("ends", 2)
    axes = call.integers("axes", 3, [*range(len(starts))])
    steps = call.integers("steps", 4, [1] * len(starts))
    if not len(starts) == len(ends) == len(axes) == len(steps) or 0 in steps:
        raise call.refusal(
            "as many starts as ends, axes and steps, of which none is 0",
            f"{starts}, {ends}, {axes} and {steps}",
        )
    array = call.array(0)
    index = [slice(None)] * array.ndim
    for i, axis in enumerate(call.axes(axes, array.ndim)):
        index[axis] = _slice_of(starts[i], ends[i], steps[i], array.shape[axis])
    return _whole(array[tuple(index)], call.value(0).dtype)


def _slice_of(start: int, end: int, step: int, size: int) -> slice:
    """A slice as ONNX has it: one that goes back begins at the last element at most."""
    low, high = (0, size) if step > 0 else (-1, size - 1)
    start += size if start < 0 else 0
    end += size if end < 0 else 0
    start, end = min(max(start, 0), high), min(max(end, low), high)
    if not range(start, end, step):
        return slice(0, 0)
    return slice(start, None if end < 0 else end, step)


def _reshape(call: _Call) -> _Blocks:
    value, sizes = call.value(0), call.integers("shape", 1)
    shape = sizes
    if not call.integer("allowzero", 0):
        # There 0 is "as it was".
        old = [*value.shape, *[0] * len(sizes)]
        shape = [size or old[i] for i, size in enumerate(sizes)]
    call.limits.check_size("Reshape", shape, value.dtype)
    try:
        if min(shape, default=0) < -1:
            raise ValueError
        # In ONNX as in NumPy, -1 is what is left.
        array = call.limits.contiguous(call.array(0)).reshape(shape)
    except ValueError:
        raise call.refusal(f"a shape for {list(value.shape)}", sizes) from None
    return _whole(array, value.dtype)


def _rearranged(value: _Blocks, axes: Sequence[int | None]) -> _Blocks:
    """A view with axes in another order: of each its old number, or None for a new one.

    Axes that are left out have one element.
    """
    kept = [axis for axis in axes if axis is not None]
    order = [*kept, *(axis for axis in range(len(value.shape)) if axis not in kept)]

    def sizes(shape: tuple[int, ...], new: int) -> tuple[int, ...]:
        return tuple(new if axis is None else shape[axis] for axis in axes)

    blocks = [
        (sizes(begin, 0), block.transpose(order).reshape(sizes(block.shape, 1)))
        for begin, block in value.blocks
    ]
    return _Blocks(sizes(value.shape, 1), value.dtype, blocks)


def _unsqueeze(call: _Call) -> _Blocks:
    value, axes = call.value(0), call.integers("axes", 1)
    ndim = len(value.shape) + len(axes)
    call.limits.check_size("Unsqueeze", [1] * ndim, value.dtype)
    new = call.axes(axes, ndim)
    old = iter(range(len(value.shape)))
    return _rearranged(value, [None if axis in new else next(old) for axis in range(ndim)])


def _squeeze(call: _Call) -> _Blocks:
    value = call.value(0)
    ones = [axis for axis, size in enumerate(value.shape) if size == 1]
    axes = call.axes(call.integers("axes", 1, ones), len(value.shape))
    if not set(axes) <= set(ones):
        raise call.refusal("axes of one element", f"{axes} of shape {list(value.shape)}")
    return _rearranged(value, [axis for axis in range(len(value.shape)) if axis not in axes])


def _transpose(call: _Call) -> _Blocks:
    value = call.value(0)
    every = [*range(len(value.shape))]
    perm = call.node.attributes.get("perm", every[::-1])
    if not isinstance(perm, list) or sorted(perm) != every:
        raise call.refusal(f"all of the axes {every} for perm", perm)
    return _rearranged(value, perm)


def _expand(call: _Call) -> _Blocks:
    value, sizes = call.value(0), call.integers("shape", 1)
    # From the last axis on, as in NumPy: an array of one element has as many as the other one.
    pairs = itertools.zip_longest(reversed(value.shape), reversed(sizes), fillvalue=1)
    shape = [old if new == 1 else new for old, new in pairs][::-1]
    call.limits.check_size("Expand", shape, value.dtype)
    try:
        return _whole(np.broadcast_to(call.array(0), shape), value.dtype)
    except ValueError:
        raise call.refusal(f"a shape for {list(value.shape)}", sizes) from None


def _shape(call: _Call) -> _Blocks:
    shape = call.value(0).shape
    sizes = shape[call.integer("start", 0) : call.integer("end", len(shape))]
    return _whole(np.array(sizes, np.int64), INT64)


def _mul(call: _Call) -> _Blocks:
    """The exporter multiplies sizes, and no weights."""
    first, second = call.value(0), call.value(1)
    for value in (first, second):
        if value.dtype != INT64 or math.prod(value.shape) > MAX_INTEGERS:
            got = f"shape {list(value.shape)} and type {value.dtype}"
            raise call.refusal(f"at most {MAX_INTEGERS} integers of 64 bits", got)
    try:
        with np.errstate(over="ignore"):  # no array has that size
            product = np.multiply(call.array(0), call.array(1))
    except ValueError:
        got = f"{list(first.shape)} and {list(second.shape)}"
        raise call.refusal("inputs of shapes that fit", got) from None
    return _whole(np.asarray(product), INT64)


_OPS: dict[str, Callable[[_Call], _Blocks]] = {
    "Concat": _concat,
    "Expand": _expand,
    "Identity": _identity,
    "Mul": _mul,
    "Reshape": _reshape,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}
