"""Warnings that point to the user's line, however deep in Keras they arise."""

import os
import pathlib
import sys
import types
import warnings

import keras
import tensorflow as tf

_LIBRARIES = tuple(
    f"{folder}{os.sep}"
    for folder in (
        pathlib.Path(__file__).parents[1],
        pathlib.Path(keras.__file__).parent,
        pathlib.Path(tf.__file__).parent,
    )
)
# What AutoGraph makes of a user's function is a file that nobody finds.
_GENERATED = "__autograph_generated_file"


def warn(message: str) -> None:
    """Warns in the name of the nearest frame outside of this library, Keras and TensorFlow."""
    level = 1
    frame: types.FrameType | None = sys._getframe()
    while frame is not None and _is_inside(frame.f_code.co_filename):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)


def _is_inside(filename: str) -> bool:
    return filename.startswith(_LIBRARIES) or _GENERATED in filename
