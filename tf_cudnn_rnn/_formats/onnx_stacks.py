"""Which recurrent nodes of an ONNX graph feed each other, and so are one network of cuDNN.

Between two nodes of a stack stand ops that bring Y into the order of X, and any others make another
network, be it that they exchange two axes alone. So they are run, with a small Y that has other
numbers everywhere.
"""

from collections.abc import Sequence

import numpy as np

from tf_cudnn_rnn._formats.onnx_constants import INT64, Missing, Tensor
from tf_cudnn_rnn._formats.onnx_file import FileNode

# Of steps and rows. Ops with sizes of a graph's own that fit one do not fit the other.
_SIZES = ((2, 3), (3, 2))


def first_break(nodes: Sequence[FileNode]) -> tuple[FileNode, FileNode] | None:
    """The first neighbours of which the one does not feed the other; None if nodes are a stack."""
    pairs = zip(nodes, nodes[1:], strict=False)
    return next((pair for pair in pairs if not _feeds(*pair)), None)


def _feeds(first: FileNode, second: FileNode) -> bool:
    """Whether the output of a node, all steps of it, is the input of another."""
    if not first.output or not second.input:
        return False
    try:
        R = first.as_arrays().R
    except (ImportError, ValueError):
        R = np.zeros([0])
    if R.ndim != 3:
        return True  # which nobody can tell, and the reader refuses the node
    D, _, H = R.shape
    return all(_feeds_with(first, second, (steps, rows, D, H)) for steps, rows in _SIZES)


def _feeds_with(first: FileNode, second: FileNode, sizes: tuple[int, int, int, int]) -> bool:
    steps, rows, D, H = sizes
    numbers = np.arange(steps * rows * D * H, dtype=INT64).reshape(sizes)
    # With the attribute layout, rows come first in both.
    y = numbers.transpose(1, 0, 2, 3) if first.attributes.get("layout") else numbers.swapaxes(1, 2)
    expected = numbers.reshape(steps, rows, D * H)
    expected = expected.swapaxes(0, 1) if second.attributes.get("layout") else expected
    known = {first.output: Tensor(y.shape, INT64, memoryview(y.tobytes()))}
    x = second.constants(known).find(second.input)
    if isinstance(x, Missing) or x.shape != expected.shape or x.content is None:
        return False
    return x.dtype == INT64 and bytes(x.content) == expected.tobytes()
