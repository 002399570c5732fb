"""What the choices of a caller mean for what is in a file."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tf_cudnn_rnn._files.choices import Choices, Face, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._layout import GATES
from tf_cudnn_rnn._types import Direction, RnnMode

# One gate is that of two modes.
MODE_OF_GATES: dict[int, RnnMode] = {3: "gru", 4: "lstm"}


def mode(choices: Choices, gates: int = 0) -> RnnMode:
    """The mode of a network: the one that was chosen, or that of so many gates."""
    mode: RnnMode | None = choices.rnn_mode or MODE_OF_GATES.get(gates)
    if mode is None:
        says = choices.face.says
        if gates == 1:
            raise Mistake(
                "The file does not tell whether the simple RNN has tanh or ReLU: pass "
                f"{says('rnn_mode', 'rnn_tanh')} or {says('rnn_mode', 'rnn_relu')}."
            )
        raise Mistake(
            f"Pass {choices.face.names['rnn_mode']}, one of {', '.join(GATES)}; the file does not "
            "tell."
        )
    return mode


def vector_arguments(choices: Choices) -> dict[str, Any]:
    """What was said of a vector, which tells nothing of itself."""
    needed = ("rnn_mode", "num_layers", "num_units", "input_size")
    arguments = {name: getattr(choices, name) for name in needed}
    missing = [choices.face.names[name] for name in needed if arguments[name] is None]
    if missing:
        raise Mistake(
            f"A vector of weights does not tell its network: pass {', '.join(missing)} too."
        )
    return {**arguments, "direction": direction(choices)}


def direction(choices: Choices) -> Direction:
    """The direction that was chosen; one way if none was."""
    return "unidirectional" if choices.direction is None else choices.direction


def layers(
    found: Mapping[str, Any],
    choices: Choices,
    what: str,
    aliases: Mapping[str, Collection[str]] | None = None,
    shown: Mapping[str, str] | None = None,
) -> list[str]:
    """The layers that were chosen, in that order; the only one if none was.

    Args:
      found: by name.
      choices: of the caller.
      what: they are.
      aliases: what else a choice may call them: the names that each stands for. They go before
        paths without their `layers/`.
      shown: what `inspect` calls those that it does not call by their name here.
    """
    if not found:
        raise Mistake(
            f"There is no {what} in the file; `{choices.face.inspect}` shows what there is."
        )
    aliases, shown = aliases or {}, shown or {}
    names = _some(shown.get(name, name) for name in found)
    if choices.layer:
        return [_one(name, found, aliases, names, choices.face) for name in choices.layer]
    if len(found) > 1:
        raise Mistake(
            f"The file has {len(found)} such layers, {names}: choose with "
            f"{choices.face.says('layer', 'NAME')}; several make a stack."
        )
    return list(found)


def _some(names: Iterable[str]) -> str:
    first = list(itertools.islice(names, 21))
    return ", ".join(map(untrusted.shown, first[:20])) + (", ..." if len(first) > 20 else "")


def _one(
    name: str,
    found: Mapping[str, Any],
    aliases: Mapping[str, Collection[str]],
    names: str,
    face: Face,
) -> str:
    """The layer that a name stands for."""
    # Keras puts all layers of a file below layers/.
    meant = {name} if name in found else set(aliases.get(name, ())) or {f"layers/{name}"} & {*found}
    if not meant:
        raise Mistake(f"{face.names['layer']} must be one of {names}; got {name}.")
    if len(meant) > 1:
        raise Mistake(f"{face.says('layer', name)} may be any of {_some(sorted(meant))}: name one.")
    return meant.pop()


def gates_of(kernel_shape: tuple[int, ...], units: int) -> int:
    """How many gates have so many columns; 0 if no number."""
    columns = kernel_shape[-1] if kernel_shape else 0
    return columns // units if units and not columns % units else 0


def check_kind(kind: Kind, known: tuple[Kind, ...], name: str, choices: Choices) -> None:
    """Raises Mistake if a format, by its name, does not read this kind of files."""
    if kind not in known:
        raise Mistake(
            f"{choices.face.says('format', name)} reads: "
            f"{', '.join(each.value for each in known)}. {choices.face.file} is another: "
            f"{kind.value}."
        )
