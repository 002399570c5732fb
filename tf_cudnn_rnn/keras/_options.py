"""The arguments of CudnnRNN's constructor: their checks, what is kept of them, their config."""

from __future__ import annotations

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Direction, InputMode, RnnMode, UseFused

_INITIALIZERS = ("kernel_initializer", "recurrent_initializer", "bias_initializer")
_REGULARIZERS = ("kernel_regularizer", "recurrent_regularizer", "bias_regularizer")
_FLAGS = (
    *("time_major", "return_sequences", "return_state", "stateful"),
    *("unit_forget_bias", "separate_weights"),
)
# Of what the ops compute in.
TYPES = ("float16", "bfloat16", "float32", "float64")
_CONSTRAINTS = ("kernel_constraint", "recurrent_constraint", "bias_constraint")


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments that are not of keras.layers.Layer, checked; `CudnnRNN` explains them.

    Sizes are ints, and initialisers, regularisers and constraints objects, whatever came. The
    defaults stand in the signature of the constructor alone.

    Raises:
      TypeError: a size is not an integer, `dropout` is not a real number, a flag neither True nor
        False, or an initialiser None.
      ValueError: an option is out of range, or two contradict each other.
    """

    num_units: int
    num_layers: int
    rnn_mode: RnnMode
    direction: Direction
    input_mode: InputMode
    num_proj: int | None
    dropout: float
    seed: int | None
    time_major: bool
    return_sequences: bool
    return_state: bool
    stateful: bool
    kernel_initializer: Any
    recurrent_initializer: Any
    bias_initializer: Any
    unit_forget_bias: bool
    kernel_regularizer: Any
    recurrent_regularizer: Any
    bias_regularizer: Any
    separate_weights: bool
    kernel_constraint: Any
    recurrent_constraint: Any
    bias_constraint: Any

    def __post_init__(self) -> None:
        # All rules but those on the input size, which is not known yet.
        layout = layout_of(self, self.num_units)
        checked = {
            "num_units": layout.num_units,
            "num_layers": layout.num_layers,
            "num_proj": None if self.num_proj is None else layout.num_proj,
            "dropout": probability(self.dropout),
        }
        for name in _FLAGS:
            checked[name] = flag(name, getattr(self, name))
        for name in _INITIALIZERS:
            checked[name] = keras.initializers.get(getattr(self, name))
            if checked[name] is None:
                raise TypeError(
                    f"`{name}` must be an initializer; got None. Leave it out for the default."
                )
        for name in _REGULARIZERS:
            checked[name] = keras.regularizers.get(getattr(self, name))
        for name in _CONSTRAINTS:
            checked[name] = keras.constraints.get(getattr(self, name))
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def has_dropout(self) -> bool:
        """Whether dropout has layers to act between, hence needs a seed."""
        return self.dropout > 0 and self.num_layers > 1

    def set_on(self, layer: keras.layers.Layer) -> None:
        """Makes each option an attribute of `layer`, where its user may read and set it."""
        for field in dataclasses.fields(self):
            setattr(layer, field.name, getattr(self, field.name))


def without_unset_flags(config: Mapping[str, Any]) -> dict[str, Any]:
    """A config with False where an earlier version of this library took None for it."""
    return {
        name: False if name in _FLAGS and value is None else value for name, value in config.items()
    }


def layout_of(options: Any, input_size: int) -> Layout:
    """The layout of a network with these options, of an `Options` or a layer."""
    return Layout(
        options.rnn_mode,
        num_layers=options.num_layers,
        num_units=options.num_units,
        input_size=input_size,
        direction=options.direction,
        input_mode=options.input_mode,
        num_proj=0 if options.num_proj is None else options.num_proj,
    )


def config_of(layer: keras.layers.Layer) -> dict[str, Any]:
    """The options that `layer` has now, as Keras saves them: arguments of the constructor."""
    config = {}
    for field in dataclasses.fields(Options):
        value = getattr(layer, field.name)
        if field.name in _INITIALIZERS:
            value = keras.initializers.serialize(value)
        elif field.name in _REGULARIZERS:
            value = keras.regularizers.serialize(value)
        elif field.name in _CONSTRAINTS:
            value = keras.constraints.serialize(value)
        config[field.name] = value
    return config


def flag(name: str, value: Any) -> bool:
    """Returns a flag as a bool, checked; 0 and 1 of any integer type are ones, too."""
    if not isinstance(value, np.bool_ | numbers.Integral) or value not in (0, 1):
        raise TypeError(f"`{name}` must be True or False; got {value!r}.")
    return bool(value)


def use_fused(name: str, value: Any) -> UseFused:
    """Returns what a drop-in is to do as "auto", True or False, checked."""
    try:
        return "auto" if isinstance(value, str) and value == "auto" else flag(name, value)
    except TypeError:
        raise ValueError(f"`{name}` must be 'auto', True or False; got {value!r}.") from None


def check_types(*names: str) -> None:
    """Raises ValueError unless the types of a policy are such as the ops take."""
    if wrong := [name for name in names if name not in TYPES]:
        raise ValueError(
            f"`dtype` must be one of {', '.join(TYPES)}, or a policy that mixes them; got "
            f"{wrong[0]}."
        )


def probability(dropout: float) -> float:
    """Returns `dropout` as a float, checked."""
    if not isinstance(dropout, numbers.Real):
        raise TypeError(f"`dropout` must be a real number; got {dropout!r}.")
    if not 0 <= dropout <= 1:
        raise ValueError(f"`dropout` must be in [0, 1]; got {dropout}.")
    return float(dropout)


_FIRST_INPUT = "nothing: the first input tells it"
_NO_CHOICE = (
    "`unit_forget_bias=False`, by which the biases that cuDNN's networks have are zeros at first"
)
# What an argument of other layers and libraries is here: of CudnnRNN, and of the drop-ins.
OF_CUDNN_RNN = {
    "bias": _NO_CHOICE,
    "use_bias": _NO_CHOICE,
    "input_size": _FIRST_INPUT,
    "features": "`num_units`",
    "nonlinearity": "CudnnRNNTanh or CudnnRNNRelu, or the `rnn_mode` of CudnnRNN",
    "rnn_type": "the `rnn_mode` of CudnnRNN",
    "units": "`num_units`: `units` are those of LSTM, GRU and SimpleRNN",
    "hidden_size": "`num_units`",
    "proj_size": "`num_proj`",
    "mode": "`rnn_mode`",
    "bidirectional": "`direction`, 'unidirectional' or 'bidirectional'",
    "batch_first": "`time_major`, which is the opposite",
    "activation": "an LSTM, GRU or SimpleRNN of tf_cudnn_rnn.keras: those here are cuDNN's",
    "recurrent_activation": "an LSTM or GRU of tf_cudnn_rnn.keras: those here are cuDNN's",
    "recurrent_dropout": "an LSTM, GRU or SimpleRNN of tf_cudnn_rnn.keras, which have it",
}
OF_DROP_INS = {
    "batch_first": "nothing: inputs are [B, T, I]",
    "bias": "`use_bias`",
    "input_size": _FIRST_INPUT,
    "features": "`units`",
    "nonlinearity": "`activation`",
    "num_units": "`units`",
    "hidden_size": "`units`",
    "num_layers": "a layer for each, or a CudnnRNN for all",
    "bidirectional": "keras.layers.Bidirectional around it",
    "direction": "keras.layers.Bidirectional around it",
    "num_proj": "a CudnnLSTM, which can project",
    "proj_size": "a CudnnLSTM, which can project",
    "time_major": "a CudnnLSTM or CudnnGRU, which can have the time first",
}


def check_names(cls: type, arguments: Mapping[str, Any], here: Mapping[str, str]) -> None:
    """Tells whoever passes what has another name here how it is called."""
    for name in arguments:
        if name in here:
            raise TypeError(f"{cls.__name__} takes no `{name}`. In its place take {here[name]}.")


def check_go_backwards(cls: type, arguments: dict[str, Any]) -> None:
    """Explains what Bidirectional asks for."""
    if "go_backwards" in arguments:
        raise ValueError(
            f"`go_backwards` must be left out of {cls.__name__}; got "
            f"{arguments['go_backwards']!r}. "
            "Pass direction='bidirectional' instead of putting the layer inside "
            "keras.layers.Bidirectional."
        )


def check_mode(cls: type, mode: str, arguments: dict[str, Any]) -> None:
    """Explains that a class which has a mode takes none."""
    if "rnn_mode" in arguments:
        raise ValueError(
            f"`rnn_mode` must be left out of {cls.__name__}, which is always "
            f"{mode!r}; got {arguments['rnn_mode']!r}. CudnnRNN takes any."
        )
