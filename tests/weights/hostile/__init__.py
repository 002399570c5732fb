"""Files that nobody writes who means well, and what reads them.

Each case is a function that takes an empty folder, and returns a reader, its arguments, and how
many bytes the reader is honestly given. There is a module for each format.
"""

from tests.weights.hostile import (  # noqa: F401 which have the cases
    bundles,
    checkpoints,
    h5,
    int8,
    keras_files,
    mappings,
    npz,
    safetensors,
    sizes,
)
from tests.weights.hostile.attack import CASES
from tests.weights.hostile.messages import said_of

__all__ = [
    "CASES",
    "bundles",
    "checkpoints",
    "h5",
    "int8",
    "keras_files",
    "mappings",
    "npz",
    "safetensors",
    "said_of",
    "sizes",
]
