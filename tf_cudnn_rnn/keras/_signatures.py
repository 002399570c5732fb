"""What inspect.signature, and so an editor, is told of a layer's class."""

import inspect
from collections.abc import Callable
from typing import Any


class OfConstructor:
    """As `__signature__` of a class: the parameters of its constructor, and of subclasses'.

    Without it Python tells those of Keras' `__new__`, which takes anything. Where a constructor
    hands `*args` on, the parameters of the next one stand in their place.
    """

    def __get__(self, instance: Any, cls: type) -> inspect.Signature:
        if instance is not None:  # calling a layer is another matter
            raise AttributeError("__signature__")
        constructors = (vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
        return inspect.Signature(_parameters(constructors))


def _parameters(constructors: Any) -> list[inspect.Parameter]:
    constructor = next(constructors, None)
    if constructor is None:  # a mix-in's own class, whose constructor hands all on to no other
        return []
    own = list(inspect.signature(constructor).parameters.values())[1:]
    places = [k for k, parameter in enumerate(own) if parameter.kind is parameter.VAR_POSITIONAL]
    for place in places:
        inherited = [p for p in _parameters(constructors) if p.kind is p.POSITIONAL_OR_KEYWORD]
        return [*own[:place], *inherited, *own[place + 1 :]]
    return own


def of_one_mode(constructor: Callable[..., None]) -> inspect.Signature:
    """The signature of a constructor without `rnn_mode`, and with names for what follows it."""
    signature = inspect.signature(constructor)
    parameters = list(signature.parameters.values())
    place = list(signature.parameters).index("rnn_mode")
    named = [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        else parameter
        for parameter in parameters[place + 1 :]
    ]
    return signature.replace(parameters=[*parameters[:place], *named])
