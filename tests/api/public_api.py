"""What users of the package may call: names, parameters, defaults.

    python -m tests.api.public_api

writes public_api.txt anew. What stands there is a promise: a change of it belongs into
CHANGELOG.md, and one that breaks callers waits for a version that may break them.
"""

import dataclasses
import importlib
import inspect
import itertools
import pathlib

FILE = pathlib.Path(__file__).with_name("public_api.txt")
COMMAND = ".venv/bin/python -m tests.api.public_api"
PACKAGE = "tf_cudnn_rnn"
MODULES = (
    PACKAGE,
    f"{PACKAGE}.raw_ops",
    f"{PACKAGE}.weights",
    f"{PACKAGE}.runtime",
    f"{PACKAGE}.keras",
)


def describe() -> str:
    """The text that public_api.txt should have."""
    lines = []
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        lines += ["", module_name]
        values = {name: getattr(module, name) for name in sorted(module.__all__)}
        for name, value in values.items():
            lines += [f"  {line}" for line in _lines(name, value, list(values.values()))]
    return "\n".join(lines[1:]) + "\n"


def _lines(name: str, value, listed: list) -> list[str]:
    if inspect.ismodule(value):
        return [f"module {name}"]
    if not inspect.isclass(value):
        fields = getattr(inspect.signature(value, eval_str=True).return_annotation, "_fields", None)
        returned = f" -> {', '.join(fields)}" if fields else ""
        return [name + _parameters(value) + returned]
    # Up to what is described elsewhere.
    own = [
        value,
        *itertools.takewhile(lambda c: _is_ours(c) and c not in listed, value.__mro__[1:]),
    ]
    base = value.__mro__[len(own)]
    origin = "" if _is_ours(base) else f"{base.__module__.split('.')[0]}."
    kind = "" if base is object else f": {origin.removeprefix('builtins.')}{base.__name__}"
    return [f"class {name}{_parameters(_constructor(value))}{kind}", *_members(own)]


def _constructor(cls: type):
    """What tells the parameters; Keras' metaclass hides them."""
    if dataclasses.is_dataclass(cls) or issubclass(cls, tuple):
        return cls
    return next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))


def _members(classes: list[type]) -> list[str]:
    """Methods and attributes that these classes, the first of which overrides, define."""
    members = {}
    for base in reversed(classes):
        if dataclasses.is_dataclass(base):
            members |= {field.name: field.name for field in dataclasses.fields(base)}
        for name, value in vars(base).items():
            if name.startswith("_"):
                continue
            value = getattr(value, "__func__", value)  # of a class method
            members[name] = name + (_parameters(value) if inspect.isfunction(value) else "")
    return [f"  .{line}" for _, line in sorted(members.items())]


def _is_ours(cls: type) -> bool:
    return cls.__module__.split(".")[0] == PACKAGE


def _parameters(function) -> str:
    """The signature, without types and without `self`."""
    signature = inspect.signature(function)
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(parameters))


if __name__ == "__main__":
    FILE.write_text(describe())
