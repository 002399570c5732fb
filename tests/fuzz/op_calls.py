"""Calls of all ops of the library as plain data, as JSON can hold it.

  op          a name of tests/ops/calls.py, such as "own CudnnRNNV3"
  mode        "eager", "function" (traced) or "graph" (a GraphDef written by hand)
  known       what a graph knows of shapes: "nothing", "rank", "nonzero" (all sizes but 0), "all";
              or "constants"
  attributes  those that are given, by name
  tensors     {"dtype", "shape", and "fill" or "values"} by name; lists of these for lists
  order       in a GraphDef: the names of the inputs in their order
  extra       in a GraphDef: attributes that the op does not have
  forward     of a call that takes a reserve_space: the forward call that returned it
  seed        of all random values

Tensors that the forward call returned are {"from": name, "dtype", "shape"}, where the shape of
reserve_space is that it has rank 1. What was done to reserve_space says "edit", see op_values.py.
"""

from typing import NamedTuple

import numpy as np

from tests.ops import calls

FORWARD = (*calls.FORWARD, calls.KERAS_RNN, calls.INT8)
BACKPROP = (*calls.BACKPROP, calls.KERAS_RNN_BACKPROP)
# Those that take a reserve_space.
READERS = (*BACKPROP, calls.READ_RESERVE)
WITH_LENGTHS = (*calls.V3, *calls.BACKPROP_V3, calls.KERAS_RNN, calls.INT8, *READERS[-2:])
# Those that take masks, and weights of the backward direction.
WITH_MASKS = (calls.KERAS_RNN, calls.KERAS_RNN_BACKPROP)
# Those that take one layer's weights as Keras keeps them.
WITH_KERAS_WEIGHTS = (*WITH_MASKS, calls.KERAS_TO_PARAMS)
# The lists of those.
KERAS_LISTS = ("biases", "masks", "backward_weights")
OPS = (
    *(*FORWARD, *READERS, *calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS),
    *(calls.KERAS_TO_PARAMS, calls.KERAS_TO_PARAMS_BACKPROP),
)
# What CudnnRNNInt8 has in the place of params.
INT8_WEIGHTS = ("weights", "scales", "biases")
FLOATS = ("float16", "bfloat16", "float32", "float64")
SCALARS = ("num_layers", "num_units", "input_size")
RETURNED = ("output", "output_h", "output_c", "reserve_space")
# Where reserve_space keeps the key of dropout, a byte an element.
KEY_ELEMENTS = range(8, 16)

# Steps that the judge's loop can take; more come with no rows.
LONGEST = 100

INT32 = (-(2**31), 2**31 - 1)
# Elements of params that a size may count. Their bytes then fit in 63 bits in any type.
MOST_ELEMENTS = (2**63 - 1) // 16

MODES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}  # and their gates
INPUT_MODES = ("linear_input", "skip_input", "auto_select")
DIRECTIONS = {"unidirectional": 1, "bidirectional": 2}

DEFAULTS = {
    "rnn_mode": "lstm",
    "input_mode": "linear_input",
    "direction": "unidirectional",
    "dropout": 0.0,
    "seed": 0,
    "seed2": 0,
    "num_proj": 0,
    "is_training": True,
    "time_major": True,
    "num_biases": 1,
    "num_masks": 0,
    "num_backward_weights": 0,
    "go_backwards": False,
    "zero_output_for_mask": True,
}


class Broken(NamedTuple):
    """A rule that a call breaks."""

    rule: str
    texts: tuple[str, ...]  # one of which the error must hold; of TensorFlow's own, none
    # What Python, or TensorFlow's own code, raises in eager mode, if not InvalidArgumentError.
    eager: tuple[str, ...] = ()
    # Whether shapes, attributes and constants tell.
    is_static: bool = True


class Sizes(NamedTuple):
    """The sizes of a call whose shapes are right."""

    L: int
    D: int
    I: int
    H: int
    P: int
    T: int
    B: int


def is_own(op: str) -> bool:
    return op.startswith(calls.OWN)


def inputs_of(op: str) -> tuple[str, ...]:
    """The names of the op's inputs, in the op's order; lists count once."""
    weights = ("kernel", "recurrent_kernel", "biases")
    if op in calls.PARAMS_SIZE:
        return SCALARS
    if op in calls.TO_CANONICAL:
        return (*SCALARS, "params")
    if op in calls.TO_PARAMS:
        return (*SCALARS, "weights", "biases")
    if op == calls.KERAS_TO_PARAMS:
        return weights
    if op == calls.KERAS_TO_PARAMS_BACKPROP:
        return ("params_backprop", "num_units")
    names = ["input", "input_h", "input_c"]
    if op in WITH_KERAS_WEIGHTS:
        names += weights
    else:
        names += INT8_WEIGHTS if op == calls.INT8 else ["params"]
    if op in WITH_LENGTHS:
        names.append("sequence_lengths")
    if op in BACKPROP:
        names += ["output", "output_h", "output_c"]
        names += ["output_backprop", "output_h_backprop", "output_c_backprop"]
    if op in READERS:
        names.append("reserve_space")
        if op in calls.BACKPROP and op != "CudnnRNNBackprop":
            names.append("host_reserved")
    elif op in calls.FORWARD and is_own(op):
        names.append("rng_seed")
    if op in WITH_MASKS:
        names += ["masks", "backward_weights"]
    return tuple(names)


def attributes_of(op: str) -> tuple[str, ...]:
    """The names of the op's attributes in a graph."""
    if op == calls.INT8:
        return ("rnn_mode", "input_mode", "direction", "num_proj", "time_major")
    names = ["T", "rnn_mode"]
    names += ["num_biases"] if op in calls.KERAS else ["input_mode", "direction", "dropout"]
    if not is_own(op):
        names += ["seed", "seed2"]
    if op in (*calls.V3, *calls.BACKPROP_V3, *calls.PARAMS_SIZE, calls.READ_RESERVE):
        names.append("num_proj")
    if op in (*calls.TO_CANONICAL_V2, *calls.TO_PARAMS_V2):
        names += ["num_proj", "num_params_weights", "num_params_biases"]
    elif op in (*calls.TO_CANONICAL, *calls.TO_PARAMS):
        names.append("num_params")
    if op in FORWARD:
        names.append("is_training")
    if op in WITH_LENGTHS:
        names.append("time_major")
    if op in WITH_MASKS:
        names += ["num_masks", "go_backwards", "zero_output_for_mask", "num_backward_weights"]
    if op in calls.PARAMS_SIZE:
        names.append("S")
    if op == calls.READ_RESERVE:
        names.append("M")
    return tuple(names)


ATTRIBUTES_OF_FAMILY = {name for op in OPS for name in attributes_of(op)}

_TYPES = {
    **dict.fromkeys(SCALARS, "int32"),
    "sequence_lengths": "int32",
    "rng_seed": "int64",
    "host_reserved": "int8",
    "masks": "bool",
}


def type_of(op: str, name: str) -> str | None:
    """The type that an input must have; None if the op takes several."""
    if op == calls.INT8:
        return {"sequence_lengths": "int32", "weights": "int8"}.get(name, "float32")
    return _TYPES.get(name)


def is_list(op: str, name: str) -> bool:
    """Whether an input is a list of tensors."""
    return name in ("weights", *KERAS_LISTS) and op != calls.INT8


def tensors_by_input(call: dict) -> dict | None:
    """The tensors as the op sees them; None if a GraphDef names too few or too many."""
    if call["mode"] != "graph":
        return call["tensors"]
    flat = flatten(call["tensors"])
    order = list(call["order"])
    result = {}
    for name in inputs_of(call["op"]):
        if is_list(call["op"], name):
            count = count_of(call, name)
            if count is None or len(order) < count:
                return None
            result[name] = [flat[each] for each in order[:count]]
            del order[:count]
        elif not order:
            return None
        else:
            result[name] = flat[order.pop(0)]
    return None if order else result


def count_of(call: dict, name: str) -> int | None:
    """What says how long a list is, an attribute if any; None if it is missing or impossible."""
    if call["op"] in calls.KERAS:
        if call["mode"] != "graph" and name in call["tensors"]:
            return len(call["tensors"][name])
        count = attribute(call, f"num_{name}")
        return count if type(count) is int and count >= 0 else None
    short = call["op"] in (*calls.TO_CANONICAL_V2, *calls.TO_PARAMS_V2)
    count = call["attributes"].get(f"num_params_{name}" if short else "num_params")
    return count if type(count) is int and count >= 1 else None


def flatten(tensors: dict) -> dict:
    """Lists spread out: weights:0, weights:1, ..."""
    flat = {}
    for name, tensor in tensors.items():
        if isinstance(tensor, list):
            flat |= {f"{name}:{i}": each for i, each in enumerate(tensor)}
        else:
            flat[name] = tensor
    return flat


def attribute(call: dict, name: str):
    """The value of an attribute, given or by default."""
    return call["attributes"].get(name, DEFAULTS.get(name))


def direction_of(call: dict) -> str:
    """The direction of a call: its attribute, or what its weights are of."""
    if call["op"] in WITH_MASKS and count_of(call, "backward_weights"):
        return "bidirectional"
    return attribute(call, "direction")


def dropout_of(call: dict) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(attribute(call, "dropout"))


def params_size(rnn_mode: str, L: int, D: int, I: int, H: int, P: int, skips: bool) -> int:
    """The number of elements of params, of any size."""
    gates = MODES[rnn_mode]
    projection = P * H if P != H else 0
    first = gates * H * (0 if skips else I) + gates * H * P + projection
    upper = gates * H * D * P + gates * H * P + projection
    return D * (first + (L - 1) * upper + L * 2 * gates * H)


def int8_sizes(rnn_mode: str, L: int, D: int, I: int, H: int, P: int, skips: bool) -> dict:
    """The numbers of elements of INT8_WEIGHTS, of any size."""
    gates = MODES[rnn_mode]
    biases = 2 * gates * H * L * D
    rows = gates * H * (2 * L - skips) + (P * L if P != H else 0)
    weights = params_size(rnn_mode, L, D, I, H, P, skips) - biases
    return {"weights": weights, "scales": D * rows, "biases": biases}


def skips_input(input_mode: str, I: int, H: int) -> bool:
    return input_mode == "skip_input" or (input_mode == "auto_select" and I == H)
