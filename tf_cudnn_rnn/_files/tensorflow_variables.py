"""Reads variables of TensorFlow: of checkpoints and SavedModels, and those of TensorFlow 1."""

from collections.abc import Iterable, Mapping

from tf_cudnn_rnn._files import checkpoint, chosen, keras_layers, variables
from tf_cudnn_rnn._files.choices import Choices, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import keras_file, npz, untrusted, vectors
from tf_cudnn_rnn._formats import tf1 as tf1_format
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Array, RnnMode


def _variables(kind: Kind, path: str, name: str, choices: Choices) -> Mapping[str, Array]:
    chosen.check_kind(kind, (Kind.CHECKPOINT, Kind.NPZ), name, choices)
    return checkpoint.Variables(path) if kind is Kind.CHECKPOINT else npz.read_npz(path)


def _checkpoint_parts(
    kind: Kind, path: str, choices: Choices
) -> tuple[checkpoint.Variables, dict[str, variables.Part], list[str]]:
    """The variables and recurrent parts of a checkpoint, and the names of those that are chosen."""
    chosen.check_kind(kind, (Kind.CHECKPOINT, Kind.SAVED_MODEL), "checkpoint", choices)
    every = variables.opened(kind, path)
    with untrusted.named(path):
        parts = variables.find(kind, path, every)
    cells = {network.cell for network in tf1_format.networks(every)}
    if not parts and kind is Kind.CHECKPOINT and (cells or tf1_format.opaque_keys(every)):
        name = "tf1-lstm-cell" if cells and cells <= {*tf1_format.LSTM_CELLS} else "tf1-cudnn"
        raise Mistake(
            f"The checkpoint is one of TensorFlow 1: pass {choices.face.says('format', name)}."
        )
    aliases: dict[str, set[str]] = {}
    for name, part in parts.items():
        for alias in part.aliases:
            aliases.setdefault(alias, set()).add(name)
    selected = chosen.layers(parts, choices, "recurrent layer", aliases)
    keras_layers.is_network(selected, {name for name, part in parts.items() if part.layout})
    return every, parts, selected


def read_checkpoint(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads layers that TensorFlow 2 has saved."""
    every, parts, selected = _checkpoint_parts(kind, path, choices)
    first = parts[selected[0]]
    with untrusted.named(path):
        if first.layout is not None:
            return vectors.of_layout(every[first.keys[0]], first.layout)
        stack = {
            name: keras_file.Layer(parts[name].direction, [every[key] for key in parts[name].keys])
            for name in selected
        }
    modes = variables.simple_modes(kind, path, every, parts)
    return keras_layers.read_stack(stack, choices, modes, path)


def measure_checkpoint(kind: Kind, path: str, choices: Choices) -> int:
    """The bytes of what `read_checkpoint` reads."""
    every, parts, selected = _checkpoint_parts(kind, path, choices)
    return sum(every.nbytes(key) for name in selected for key in parts[name].keys)


def read_tf1_cudnn(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads what the layers of tf.contrib.cudnn_rnn have saved."""
    found = _variables(kind, path, "tf1-cudnn", choices)
    if _is_opaque(found, choices):
        arguments = chosen.vector_arguments(choices)
        layout = Layout(**arguments, num_proj=choices.num_proj or 0)
        with untrusted.named(path):
            return tf1_format.from_tf1_cudnn(
                found, layout.rnn_mode, scope=choices.scope, layout=layout
            )
    sizes = {"num_layers", "num_units", "input_size", "direction", "num_proj"}
    used = {*choices.given()} - sizes
    choices.face.check_used(choices.given(), used, "the variables tell the sizes of the network")
    mode: RnnMode = choices.rnn_mode or _mode_of_tf1(found, choices)
    with untrusted.named(path):
        return tf1_format.from_tf1_cudnn(found, mode, scope=choices.scope)


def _mode_of_tf1(variables: Iterable[str], choices: Choices) -> RnnMode:
    """The mode of the network that is chosen, as far as its keys tell."""
    known = set(tf1_format.CUDNN_CELLS.values())
    every = [network for network in tf1_format.networks(variables) if network.cell in known]
    of_scope = [network for network in every if choices.scope in (None, network.scope)]
    networks = of_scope or every  # of which none is in the scope, as the reader says
    scopes = sorted({network.scope for network in networks})
    if choices.scope is None and len(scopes) > 1:
        raise Mistake(
            "The file has several networks: choose with "
            f"{choices.face.names['scope']}, of {base.listed(map(repr, scopes))}."
        )
    cells = {network.cell for network in networks}
    # A simple RNN's keys do not tell which.
    modes: tuple[RnnMode, ...] = ("lstm", "gru")
    told = [mode for mode in modes if tf1_format.CUDNN_CELLS[mode] in cells]
    return told[0] if len(told) == len(cells) == 1 else chosen.mode(choices)


def _is_opaque(variables: Iterable[str], choices: Choices) -> bool:
    """Whether what is chosen of TensorFlow 1's variables is a vector, which tells no sizes."""
    keys = list(variables)
    opaque = {key.rpartition("/")[0] for key in tf1_format.opaque_keys(keys)}
    if choices.scope is not None:
        return choices.scope in opaque
    cells = {network.cell for network in tf1_format.networks(keys)}
    return bool(opaque) and cells.isdisjoint(tf1_format.CUDNN_CELLS.values())


def read_tf1_lstm_cell(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads what LSTM cells of TensorFlow 1 have saved."""
    found = _variables(kind, path, "tf1-lstm-cell", choices)
    forget_bias = 1.0 if choices.forget_bias is None else choices.forget_bias
    with untrusted.named(path):
        return tf1_format.from_tf1_lstm_cell(found, forget_bias=forget_bias, scope=choices.scope)
