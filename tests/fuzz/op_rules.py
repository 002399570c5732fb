"""Which calls of the 16 ops are valid, told from the documented rules alone.

A second statement of the rules, on purpose: it knows none of the library's code, as the judge knows
none of its kernels. What it says of a call holds: a valid call must return what the judge
computes, and one that breaks rules must be refused in the words of one of them.

A call is plain data, as JSON can hold it:

  op          a name of tests/ops/calls.py, such as "own CudnnRNNV3"
  mode        "eager", "function" (traced) or "graph" (a GraphDef written by hand)
  known       what a graph knows of shapes: "nothing", "rank", "all", or "constants"
  attributes  those that are given, by name
  tensors     {"dtype", "shape", and "fill" or "values"} by name; lists of these for lists
  order       in a GraphDef: the names of the inputs in their order
  extra       in a GraphDef: attributes that the op does not have
  forward     of a Backprop call: the forward call whose outputs it takes
  seed        of all random values

Tensors that the forward call returned are {"from": name, "dtype", "shape"}, where the shape of
reserve_space is that it has rank 1. What was done to reserve_space says "edit", see op_worker.py.
"""

import math
from typing import NamedTuple

import numpy as np

from tests.ops import calls

OPS = (*calls.FORWARD, *calls.BACKPROP, *calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS)
FLOATS = ("float16", "bfloat16", "float32", "float64")
SCALARS = ("num_layers", "num_units", "input_size")
CELL_STATES = ("input_c", "output_c", "output_c_backprop")
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


def has_lengths(op: str) -> bool:
    return op in (*calls.V3, *calls.BACKPROP_V3)


def inputs_of(op: str) -> tuple[str, ...]:
    """The names of the op's inputs, in the op's order; lists count once."""
    if op in calls.PARAMS_SIZE:
        return SCALARS
    if op in calls.TO_CANONICAL:
        return (*SCALARS, "params")
    if op in calls.TO_PARAMS:
        return (*SCALARS, "weights", "biases")
    names = ["input", "input_h", "input_c", "params"]
    if has_lengths(op):
        names.append("sequence_lengths")
    if op in calls.BACKPROP:
        names += ["output", "output_h", "output_c"]
        names += ["output_backprop", "output_h_backprop", "output_c_backprop", "reserve_space"]
        if op != "CudnnRNNBackprop":
            names.append("host_reserved")
    elif is_own(op):
        names.append("rng_seed")
    return tuple(names)


def attributes_of(op: str) -> tuple[str, ...]:
    """The names of the op's attributes in a graph."""
    names = ["T", "rnn_mode", "input_mode", "direction", "dropout"]
    if not is_own(op):
        names += ["seed", "seed2"]
    if op in (*calls.V3, *calls.BACKPROP_V3, *calls.PARAMS_SIZE):
        names.append("num_proj")
    if op in (*calls.TO_CANONICAL_V2, *calls.TO_PARAMS_V2):
        names += ["num_proj", "num_params_weights", "num_params_biases"]
    elif op in (*calls.TO_CANONICAL, *calls.TO_PARAMS):
        names.append("num_params")
    if op in calls.FORWARD:
        names.append("is_training")
    if has_lengths(op):
        names.append("time_major")
    if op in calls.PARAMS_SIZE:
        names.append("S")
    return tuple(names)


_INTEGERS = {
    **dict.fromkeys(SCALARS, "int32"),
    "sequence_lengths": "int32",
    "rng_seed": "int64",
    "host_reserved": "int8",
}


def tensors_by_input(call: dict) -> dict | None:
    """The tensors as the op sees them; None if a GraphDef names too few or too many."""
    if call["mode"] != "graph":
        return call["tensors"]
    flat = flatten(call["tensors"])
    order = list(call["order"])
    result = {}
    for name in inputs_of(call["op"]):
        if name in ("weights", "biases"):
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
    """The attribute that says how long a list is; None if it is missing or impossible."""
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


def skips_input(input_mode: str, I: int, H: int) -> bool:
    return input_mode == "skip_input" or (input_mode == "auto_select" and I == H)


# ------------------------------------------------------------------------------------
# The rules
# ------------------------------------------------------------------------------------


def broken_rules(call: dict) -> list[Broken]:
    """All the rules that the call breaks, as far as those before allow to see; [] if valid."""
    broken = _attribute_rules(call)
    tensors = tensors_by_input(call)
    if tensors is None:
        return [*broken, Broken("as many inputs as the op has", ())]
    broken += _type_rules(call, tensors)
    if broken:
        return broken
    broken = _number_rules(call)
    if call["op"] not in (*calls.FORWARD, *calls.BACKPROP):
        return broken + _params_rules(call, tensors)
    rules, sizes = _call_rules(call, tensors)
    broken += rules
    if call["op"] in calls.BACKPROP and sizes is not None:
        broken += _backprop_rules(call, tensors, sizes, whole=not broken)
    return broken


def sizes_of(call: dict) -> Sizes:
    """The sizes of a valid forward or Backprop call."""
    _, sizes = _call_rules(call, tensors_by_input(call))
    return sizes


def _attribute_rules(call: dict) -> list[Broken]:
    op, attributes, in_graph = call["op"], call["attributes"], call["mode"] == "graph"
    broken = []
    known = attributes_of(op)
    if in_graph and set(known) - set(DEFAULTS) - set(attributes):
        broken.append(Broken("all attributes without a default", ()))
    for name, value in attributes.items():
        if in_graph and name not in known:
            continue  # TensorFlow leaves it out, with a warning
        if name == "rnn_mode" and value not in MODES:
            broken.append(Broken("rnn_mode is one of four", ("rnn_mode",)))
        elif name == "input_mode" and value not in INPUT_MODES:
            broken.append(Broken("input_mode is one of three", ("input_mode",)))
        elif name == "direction" and value not in DIRECTIONS:
            broken.append(Broken("direction is one of two", ("direction",)))
        elif name in ("is_training", "time_major") and not isinstance(value, bool):
            broken.append(Broken(f"{name} is a bool", (), ("TypeError",)))
        elif name == "dropout" and type(value) is not float:
            broken.append(Broken("dropout is a float", (), ("TypeError",)))
        elif name in ("num_proj", "seed", "seed2") and type(value) is not int:
            broken.append(Broken(f"{name} is an integer", (), ("TypeError",)))
        elif name in ("seed", "seed2") and is_own(op) and op in calls.FORWARD and value != 0:
            broken.append(Broken("rng_seed or seeds", ("`rng_seed` takes",), ("ValueError",)))
        elif name == "T" and value not in FLOATS:
            broken.append(Broken("T is a float type", ()))
        elif name == "S" and value not in ("int32", "int64"):
            broken.append(Broken("S is int32 or int64", ()))
        elif name.startswith("num_params") and not (type(value) is int and value >= 1):
            texts, eager = ("num_params",), ()
            if type(value) is int and value < INT32[0]:
                # TensorFlow itself says, in Python, that so many outputs are too many.
                texts, eager = (*texts, "Number of outputs is too big"), ("ValueError",)
            broken.append(Broken(f"{name} is at least 1", texts, eager))
    return broken


def _number_rules(call: dict) -> list[Broken]:
    """Those that a kernel checks."""
    broken = []
    if not 0 <= dropout_of(call) <= 1:
        broken.append(Broken("dropout is in [0, 1]", ("dropout must be in [0, 1], got ",)))
    for name in ("seed", "seed2"):
        if not is_own(call["op"]) and not INT32[0] <= attribute(call, name) <= INT32[1]:
            broken.append(Broken(f"{name} is an int32", (f"Attr {name} has value",), (), False))
    return broken


def _type_rules(call: dict, tensors: dict) -> list[Broken]:
    broken = []
    own_type = call["attributes"].get("T") if call["mode"] == "graph" else None
    for name, tensor in tensors.items():
        for each in tensor if isinstance(tensor, list) else [tensor]:
            if name in _INTEGERS:
                if each["dtype"] != _INTEGERS[name]:
                    errors = ("ValueError", "TypeError")
                    broken.append(Broken(f"{name} has type {_INTEGERS[name]}", (), errors))
            elif own_type is not None and each["dtype"] != own_type:
                broken.append(Broken(f"{name} has type T", ()))
            else:
                own_type = each["dtype"]
                if own_type not in FLOATS:
                    broken.append(Broken(f"{name} has a float type", ()))
    if call["op"] in calls.TO_PARAMS:
        lists = [tensors["weights"], tensors["biases"]]
        errors = ("ValueError", "TypeError", "IndexError")
        if not all(lists):
            broken.append(Broken("at least one weight and bias", (), errors))
        elif call["op"] not in calls.TO_PARAMS_V2 and len(lists[0]) != len(lists[1]):
            broken.append(Broken("as many weights as biases", (), errors))
    return broken


def _call_rules(call: dict, tensors: dict) -> tuple[list[Broken], Sizes | None]:
    """What holds for forward and Backprop, and the sizes, if their shapes tell them."""
    shapes = {
        name: tensor.get("shape")
        for name, tensor in tensors.items()
        if not isinstance(tensor, list)
    }
    lstm = attribute(call, "rnn_mode") == "lstm"
    D = DIRECTIONS[attribute(call, "direction")]
    time_major, num_proj = attribute(call, "time_major"), attribute(call, "num_proj")
    broken = []

    def rank(name: str, number: int, *texts: str) -> bool:
        fits = len(shapes[name]) == number
        if not fits:
            broken.append(Broken(f"{name} has rank {number}", (*texts, "Shape must be rank ")))
        return fits

    T = B = I = L = P = H = None  # unknown, as long as ranks are wrong
    lengths = tensors.get("sequence_lengths")
    if rank("input", 3, "RNN input must be a 3-D vector."):
        T, B = shapes["input"][:2] if time_major else reversed(shapes["input"][:2])
        I = shapes["input"][2]
    if rank("input_h", 3, "RNN input_h must be a 3-D vector."):
        L, rows = shapes["input_h"][:2] if time_major else reversed(shapes["input_h"][:2])
        P = H = shapes["input_h"][2]
        if L < 1 or L % D or B not in (None, rows):
            broken.append(Broken("input_h has shape [L*D,B,P]", ("Invalid input_h shape: ",)))
    if lstm and rank("input_c", 3, "RNN input_c must be a 3-D vector.") and P is not None:
        H = shapes["input_c"][2]
        rows_fit = list(shapes["input_c"][:2]) == list(shapes["input_h"][:2])
        if num_proj == 0 and not (rows_fit and P == H):
            text = "input_h and input_c must have the same shape w/o projection: "
            broken.append(Broken("input_h and input_c agree", (text,)))
        elif num_proj < 0:
            broken.append(Broken("num_proj is not negative", ("num_proj must be in [0,",)))
        elif num_proj > 0 and not (rows_fit and P == num_proj <= H):
            text = "Invalid input_h and input_c w/ projection size: "
            broken.append(Broken("input_h and input_c agree with num_proj", (text,)))
    if not lstm and num_proj != 0:
        text = 'num_proj must be 0 unless rnn_mode is "lstm"'
        broken.append(Broken("num_proj is for lstm alone", (text,)))
    if lengths is not None and rank("sequence_lengths", 1, "sequence_lengths must have shape [B]"):
        if B not in (None, shapes["sequence_lengths"][0]):
            text = "sequence_lengths must have shape [B]"
            broken.append(Broken("sequence_lengths has shape [B]", (text,)))
        elif T is not None and any(not 0 <= length <= T for length in lengths["values"]):
            # A length out of range is told by its place.
            broken.append(Broken("lengths are in [0, T]", ("sequence_lengths[",), (), False))
    rank("params", 1, "RNN params must be a 1-D vector.")
    if "rng_seed" in shapes and list(shapes["rng_seed"]) != [2]:
        broken.append(Broken("rng_seed has shape [2]", ("rng_seed must have shape [2]",)))
    if T == 0:
        broken.append(Broken("T is at least 1", ("max_seq_length <= 0.",)))
    if I == 0:
        broken.append(Broken("I is at least 1", ("with I at least 1",)))
    if P == 0 or H == 0:
        broken.append(Broken("H is at least 1", ("with H at least 1", "with P at least 1")))
    shapes_are_right = not any(each.is_static for each in broken)
    if not shapes_are_right:
        return broken, None

    sizes = Sizes(L // D, D, I, H, P, T, B)
    input_mode = attribute(call, "input_mode")
    broken += _network_rules(attribute(call, "rnn_mode"), input_mode, sizes, shapes["params"])
    return broken, sizes


def _network_rules(rnn_mode: str, input_mode: str, sizes: Sizes, params) -> list[Broken]:
    L, D, I, H, P = sizes[:5]
    if input_mode == "skip_input" and I != H:
        return [Broken("skip_input has I == H", ('input_mode "skip_input" needs ',))]
    size = params_size(rnn_mode, L, D, I, H, P, skips_input(input_mode, I, H))
    if size > MOST_ELEMENTS:
        return [Broken("the size of params fits", ("the size of params overflows: ",))]
    if params is not None and list(params) != [size]:
        return [Broken("params has N elements", ("Mismatching RNN parameter size.",))]
    return []


def _backprop_rules(call: dict, tensors: dict, sizes: Sizes, whole: bool) -> list[Broken]:
    """What Backprop asks besides; `whole`: whether all else is right."""
    L, D, _, H, P, T, B = sizes
    time_major = attribute(call, "time_major")

    def ordered(outer: int, features: int) -> list[int]:
        return [outer, B, features] if time_major else [B, outer, features]

    required = {
        "output": ordered(T, D * P),
        "output_backprop": ordered(T, D * P),
        "output_h": ordered(L * D, P),
        "output_h_backprop": ordered(L * D, P),
    }
    if attribute(call, "rnn_mode") == "lstm":
        required |= dict.fromkeys(("output_c", "output_c_backprop"), ordered(L * D, H))
    broken = [
        Broken(f"{name} has its forward shape", (f"Invalid {name} shape: ",))
        for name, shape in required.items()
        if list(tensors[name]["shape"]) != shape
    ]
    if call["op"] == "CudnnRNNBackpropV2" and list(tensors["host_reserved"]["shape"]) != [2]:
        text = "host_reserved must have shape [2]"
        broken.append(Broken("host_reserved has shape [2]", (text,), (), False))
    reserve = tensors["reserve_space"]
    if len(reserve["shape"]) != 1:
        broken.append(Broken("reserve_space has rank 1", ("reserve_space must have rank 1",)))
    elif whole and not _is_reserve_of(call, tensors, reserve, sizes):
        texts = ("reserve_space must have the ", "reserve_space was made by ")
        broken.append(Broken("reserve_space is the forward call's", texts, (), False))
    return broken


def identity(call: dict, tensors: dict, sizes: Sizes) -> tuple:
    """What must agree between a forward call and its Backprop."""
    lengths = tensors.get("sequence_lengths")
    return (
        attribute(call, "rnn_mode"),
        skips_input(attribute(call, "input_mode"), sizes.I, sizes.H),
        attribute(call, "time_major"),
        dropout_of(call).tobytes(),
        sizes,
        (sizes.T,) * sizes.B if lengths is None else tuple(lengths["values"]),
    )


def _is_reserve_of(call: dict, tensors: dict, reserve: dict, sizes: Sizes) -> bool:
    if reserve.get("from") != "reserve_space":
        return False
    forward = call["forward"]
    made_for = identity(forward, forward["tensors"], sizes_of(forward))
    if made_for != identity(call, tensors, sizes):
        return False
    edit = reserve.get("edit")
    if edit is None or edit["kind"] == "body":
        return True
    if edit["kind"] == "other":
        other = edit["forward"]
        return made_for == identity(other, other["tensors"], sizes_of(other))
    return edit["kind"] == "key" and 0 <= edit["value"] <= 255 and edit["value"] % 1 == 0


def is_judged(call: dict) -> bool:
    """Whether the values that a valid call returns are known."""
    tensors = tensors_by_input(call)
    fills = {tensor.get("fill", "normal") for tensor in flatten(tensors).values()}
    if call["op"] not in (*calls.FORWARD, *calls.BACKPROP):
        return True  # nothing is computed
    if not fills <= {"normal", "zeros"} or sizes_of(call).T > LONGEST:
        return False
    if call["op"] in calls.FORWARD:
        return True
    if call["mode"] == "graph" and list(call["order"]) != list(call["tensors"]):
        return False
    forward = call["forward"]["tensors"]
    if any(tensors[name] != tensor for name, tensor in forward.items() if name in tensors):
        return False
    if any(tensors[name].get("from") != name for name in RETURNED):
        return False
    edit = tensors["reserve_space"].get("edit")
    # Another key drops other elements, if any.
    drops = dropout_of(call) > 0 and sizes_of(call).L > 1
    return edit is None or (edit["kind"] == "key" and not drops)


def _params_rules(call: dict, tensors: dict) -> list[Broken]:
    rank_rules = []
    if "params" in tensors and len(tensors["params"]["shape"]) != 1:
        texts = ("RNN params must be a 1-D vector.", "Shape must be rank 1")
        rank_rules.append(Broken("params has rank 1", texts))
    not_scalar = [name for name in SCALARS if len(tensors[name]["shape"]) != 0]
    broken = [
        Broken(f"{name} is a scalar", (f"{name} is not a scalar", "Shape must be rank 0"))
        for name in not_scalar
    ]
    rnn_mode, num_proj = attribute(call, "rnn_mode"), attribute(call, "num_proj")
    has_num_proj = "num_proj" in attributes_of(call["op"])
    if has_num_proj and num_proj != 0 and rnn_mode != "lstm":
        text = 'num_proj must be 0 unless rnn_mode is "lstm"'
        broken.append(Broken("num_proj is for lstm alone", (text,)))
    out_of_range = Broken("num_proj is in [0, H]", ("num_proj must be in [0, num_units]",))
    if not_scalar:
        if has_num_proj and rnn_mode == "lstm" and num_proj < 0:
            broken.append(out_of_range)
        return broken + rank_rules
    L, H, I = (tensors[name]["values"][0] for name in SCALARS)
    for name, value in zip(SCALARS, (L, H, I), strict=True):
        if value < 1:
            broken.append(Broken(f"{name} is at least 1", (f"{name} must be at least 1, got ",)))
    if has_num_proj and rnn_mode == "lstm" and not 0 <= num_proj <= H:
        broken.append(out_of_range)
    if broken:
        return broken + rank_rules

    D = DIRECTIONS[attribute(call, "direction")]
    sizes = Sizes(L, D, I, H, (num_proj if has_num_proj else 0) or H, 1, 1)
    input_mode = attribute(call, "input_mode")
    broken = _network_rules(rnn_mode, input_mode, sizes, None)
    if broken:
        return broken + rank_rules
    skips = skips_input(input_mode, I, H)
    size = params_size(rnn_mode, L, D, I, H, sizes.P, skips)
    if call["op"] in calls.PARAMS_SIZE:
        if call["attributes"]["S"] == "int32" and size > INT32[1]:
            broken.append(Broken("the size fits S", ("params_size does not fit S",), (), False))
        return broken
    return rank_rules + _canonical_rules(call, tensors, sizes, size, skips)


def canonical_shapes(rnn_mode: str, sizes: Sizes, skips: bool) -> tuple[list, list]:
    """The shapes of all matrices and biases, for a small network."""
    L, D, I, H, P = sizes[:5]
    gates = MODES[rnn_mode]
    weights, biases = [], []
    for layer in range(L):
        columns = D * P if layer else 0 if skips else I
        for _ in range(D):
            weights += [[H, columns]] * gates + [[H, P]] * gates + [[P, H]] * (P != H)
            biases += [[H]] * (2 * gates)
    return weights, biases


def _canonical_rules(call: dict, tensors: dict, sizes: Sizes, size: int, skips: bool):
    rnn_mode = attribute(call, "rnn_mode")
    per_layer = 2 * MODES[rnn_mode]
    required = {
        "weights": sizes.L * sizes.D * (per_layer + (sizes.P != sizes.H)),
        "biases": sizes.L * sizes.D * per_layer,
    }
    lists = {name: tensors[name] for name in required if name in tensors}
    counts = {
        name: len(lists[name]) if lists else count_of(call, name) for name in ("weights", "biases")
    }
    if counts != required:
        texts = ("Number of params (", "C Number of params mismatch", "A Number of params mismatch")
        return [Broken("as many weights and biases as the network has", texts)]
    if not lists:
        shape = list(tensors["params"]["shape"])
        if len(shape) == 1 and shape != [size]:
            return [Broken("params has N elements", ("Mismatching RNN parameter size.",))]
        return []
    shapes = dict(zip(lists, canonical_shapes(rnn_mode, sizes, skips), strict=True))
    return [
        Broken(f"{name}[{i}] has its size", (f"{name}[{i}] must have the ",))
        for name, tensors_of_list in lists.items()
        for i, (tensor, shape) in enumerate(zip(tensors_of_list, shapes[name], strict=True))
        if math.prod(tensor["shape"]) != math.prod(shape)
    ]
