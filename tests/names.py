"""Names of values in the names of tests: what pytest would call `options3`, or print in full."""

import dataclasses

import numpy as np

_LONGEST = 60  # characters


def name_of(value) -> str | None:
    """A short name that says what `value` is; None leaves it to pytest."""
    name = _name(value)
    if name is not None and len(name) > _LONGEST:
        name = f"{name[: _LONGEST - 20]}...{name[-17:]}"
    return name


def _name(value) -> str | None:
    if isinstance(value, str):
        return value if len(value) > _LONGEST and value.isprintable() else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        told = [
            _inner(getattr(value, field.name))
            for field in dataclasses.fields(value)
            if getattr(value, field.name) != field.default
        ]
        return "_".join(told)
    if isinstance(value, dict):
        return ",".join(f"{key}={_inner(each)}" for key, each in value.items()) or "nothing"
    if isinstance(value, list | tuple | range):
        return ",".join(map(_inner, value)) or "empty"
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{list(value.shape)}".replace(" ", "")
    if isinstance(value, bytes):
        return repr(value[:_LONGEST])[2:-1]
    if hasattr(value, "numpy"):  # a tensor
        return _name(value.numpy())
    if hasattr(value, "as_numpy_dtype"):  # tf.float32
        return value.name
    return None


def _inner(value) -> str:
    """The name of a part of a value."""
    name = _name(value)
    return str(getattr(value, "__name__", value)) if name is None else name
