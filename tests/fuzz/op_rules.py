"""Which calls of the ops are valid, told from the documented rules alone.

A second statement of the rules, on purpose: it knows none of the library's code, as the judge knows
none of its kernels. What it says of a call holds: a valid call must return what the judge
computes, and one that breaks rules must be refused in the words of one of them.

What a call is, op_calls.py says. The rules for Keras' weights are in keras_rules.py.
"""

import math

from tests.fuzz import keras_rules, op_steps
from tests.fuzz.op_calls import (
    BACKPROP,
    DEFAULTS,
    DIRECTIONS,
    FLOATS,
    FORWARD,
    INPUT_MODES,
    INT8_WEIGHTS,
    INT32,
    KERAS_LISTS,
    LONGEST,
    MODES,
    MOST_ELEMENTS,
    READERS,
    RETURNED,
    SCALARS,
    WITH_KERAS_WEIGHTS,
    WITH_MASKS,
    Broken,
    Sizes,
    attribute,
    attributes_of,
    count_of,
    direction_of,
    dropout_of,
    flatten,
    int8_sizes,
    is_own,
    params_size,
    skips_input,
    tensors_by_input,
    type_of,
)
from tests.ops import calls

# What is added to which element of reserve_space to say that states are [L*D, B, .].
STATES_OUTER_MAJOR = (2, 4)
# How `scales` are filled to be wrong.
WRONG_SCALES = ("nan", "inf", "negative")
BOOLS = ("is_training", "time_major", "go_backwards", "zero_output_for_mask")
# Elements of a row of weights in int8.
MOST_OF_A_ROW = 2**17


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
    op = call["op"]
    if op == calls.KERAS_TO_PARAMS:
        return broken + keras_rules.to_params_rules(call, tensors)
    if op == calls.KERAS_TO_PARAMS_BACKPROP:
        return broken + keras_rules.to_params_backprop_rules(call, tensors)
    if op not in (*FORWARD, *READERS):
        return broken + _params_rules(call, tensors)
    rules, sizes = _call_rules(call, tensors)
    broken += rules
    if op in BACKPROP and sizes is not None:
        broken += _backprop_rules(call, tensors, sizes)
    elif op in BACKPROP:
        broken += _backprop_rank_rules(call, tensors)
    if op in READERS:
        broken += _reserve_rules(call, tensors, sizes, whole=not broken)
    return broken


def sizes_of(call: dict) -> Sizes:
    """The sizes of a valid call that has an input."""
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
        elif name in BOOLS and not isinstance(value, bool):
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
        elif name == "M" and value not in ("float32", "float64"):
            broken.append(Broken("M is float32 or float64", ()))
        elif name.startswith("num_params"):
            broken += _count_rules(name, value, least=1)
        elif name.removeprefix("num_") in KERAS_LISTS:
            broken += _count_rules(name, value, least=0)
    return broken


def _count_rules(name: str, value, least: int) -> list[Broken]:
    """Of the attribute that says how long a list is."""
    if type(value) is int and value >= least:
        return []
    texts, eager = (name.partition("_params_")[0],), ()
    if type(value) is int and value < INT32[0]:
        # TensorFlow itself says, in Python, that so many outputs are too many.
        texts, eager = (*texts, "Number of outputs is too big"), ("ValueError",)
    return [Broken(f"{name} is at least {least}", texts, eager)]


def _number_rules(call: dict) -> list[Broken]:
    """Those that a kernel checks."""
    broken = []
    if not 0 <= dropout_of(call) <= 1:
        broken.append(Broken("dropout is in [0, 1]", ("dropout must be in [0, 1], got ",)))
    for name in ("seed", "seed2"):
        if not is_own(call["op"]) and not INT32[0] <= attribute(call, name) <= INT32[1]:
            broken.append(Broken(f"{name} is an int32", (f"Attr {name} has value",), (), False))
    if call["op"] in calls.KERAS:
        broken += keras_rules.count_rules(call)
    return broken


def _type_rules(call: dict, tensors: dict) -> list[Broken]:
    broken = []
    own_type = call["attributes"].get("T") if call["mode"] == "graph" else None
    for name, tensor in tensors.items():
        for each in tensor if isinstance(tensor, list) else [tensor]:
            if required := type_of(call["op"], name):
                if each["dtype"] != required:
                    errors = ("ValueError", "TypeError")
                    broken.append(Broken(f"{name} has type {required}", (), errors))
            elif own_type is not None and each["dtype"] != own_type:
                broken.append(Broken(f"{name} has type T", ()))
            else:
                own_type = each["dtype"]
                if own_type not in FLOATS:
                    broken.append(Broken(f"{name} has a float type", ()))
    if call["op"] == calls.READ_RESERVE:
        T = call["attributes"].get("T", tensors["input"]["dtype"])
        if call["attributes"].get("M") != ("float64" if T == "float64" else "float32"):
            # There is no such kernel.
            errors = ("NotFoundError",)
            broken.append(Broken("M is what T is computed in", (), errors, is_static=False))
    if call["op"] in calls.TO_PARAMS:
        lists = [tensors["weights"], tensors["biases"]]
        errors = ("ValueError", "TypeError", "IndexError")
        if not all(lists):
            broken.append(Broken("at least one weight and bias", (), errors))
        elif call["op"] not in calls.TO_PARAMS_V2 and len(lists[0]) != len(lists[1]):
            broken.append(Broken("as many weights as biases", (), errors))
    return broken


def _call_rules(call: dict, tensors: dict) -> tuple[list[Broken], Sizes | None]:
    """What holds for calls that have an input, and the sizes, if their shapes tell them."""
    shapes = {
        name: tensor.get("shape")
        for name, tensor in tensors.items()
        if not isinstance(tensor, list)
    }
    lstm = attribute(call, "rnn_mode") == "lstm"
    D = DIRECTIONS[direction_of(call)]
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
    has_keras_weights = call["op"] in WITH_KERAS_WEIGHTS
    if call["op"] == calls.INT8:
        for name in INT8_WEIGHTS:
            rank(name, 1, f"{name} must have shape [")
        if tensors["scales"].get("fill") in WRONG_SCALES and math.prod(shapes["scales"]) > 0:
            text = "scales must be finite and not negative"
            broken.append(Broken("scales are finite and not negative", (text,), (), False))
    elif not has_keras_weights:
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
    if has_keras_weights:
        broken += keras_rules.weights_rules(call, tensors)
    if call["op"] in WITH_MASKS:
        broken += keras_rules.mask_rules(tensors, time_major, T, B)
    if not shapes_are_right:
        return broken, None

    sizes = Sizes(L // D, D, I, H, P, T, B)
    input_mode = attribute(call, "input_mode")
    broken += _network_rules(attribute(call, "rnn_mode"), input_mode, sizes, shapes.get("params"))
    if call["op"] == calls.INT8:
        broken += _int8_rules(call, shapes, sizes)
    if has_keras_weights:
        broken += keras_rules.rows_rules(tensors, sizes)
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


def _int8_rules(call: dict, shapes: dict, sizes: Sizes) -> list[Broken]:
    L, D, I, H, P = sizes[:5]
    if max(I, H, D * P if L > 1 else 0) > MOST_OF_A_ROW:
        text = f"int8 weights can have rows of at most {MOST_OF_A_ROW} elements"
        return [Broken("rows are short enough for int8", (text,))]
    skips = skips_input(attribute(call, "input_mode"), I, H)
    required = int8_sizes(attribute(call, "rnn_mode"), L, D, I, H, P, skips)
    return [
        Broken(f"{name} has its size", (f"{name} must have shape [",))
        for name, size in required.items()
        if list(shapes[name]) != [size]
    ]


def _backprop_rules(call: dict, tensors: dict, sizes: Sizes) -> list[Broken]:
    """What Backprop asks of the tensors that it has besides."""
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
    return broken


def _backprop_rank_rules(call: dict, tensors: dict) -> list[Broken]:
    """Of the same tensors, what graphs see that know ranks alone, and so nothing wrong before."""
    names = ["output", "output_h"] + ["output_c"] * (attribute(call, "rnn_mode") == "lstm")
    return [
        Broken(f"{name} has rank 3", (f"Invalid {name} shape: ",))
        for name in [*names, *(f"{name}_backprop" for name in names)]
        if len(tensors[name]["shape"]) != 3
    ]


def _reserve_rules(call: dict, tensors: dict, sizes: Sizes | None, whole: bool) -> list[Broken]:
    """Those for reserve_space; `whole`: whether all else is right."""
    broken = []
    reserve = tensors["reserve_space"]
    if len(reserve["shape"]) != 1:
        broken.append(Broken("reserve_space has rank 1", ("reserve_space must have rank 1",)))
    elif whole and not _is_reserve_of(call, tensors, reserve, sizes):
        texts = ("reserve_space must have the ", "reserve_space was made by ")
        broken.append(Broken("reserve_space is the forward call's", texts, (), False))
    return broken


def identity(call: dict, tensors: dict, sizes: Sizes) -> tuple:
    """What must agree between a forward call and its Backprop."""
    return (
        attribute(call, "rnn_mode"),
        skips_input(attribute(call, "input_mode"), sizes.I, sizes.H),
        attribute(call, "time_major"),
        dropout_of(call).tobytes(),
        sizes,
        op_steps.described_steps(call, tensors, sizes).identity,
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
    if follows_cudnn(call, edit):
        return True
    return edit["kind"] == "key" and 0 <= edit["value"] <= 255 and edit["value"] % 1 == 0


def follows_cudnn(call: dict, edit: dict | None) -> bool:
    """Whether ReadReserve is told that a built-in op took batch-major states as cuDNN does."""
    return (
        call["op"] == calls.READ_RESERVE
        and edit is not None
        and edit["kind"] == "header"
        and (edit["element"], edit["more"]) == STATES_OUTER_MAJOR
        and not attribute(call, "time_major")
    )


def is_judged(call: dict) -> bool:
    """Whether the values that a valid call returns are known."""
    tensors = tensors_by_input(call)
    fills = {tensor.get("fill", "normal") for tensor in flatten(tensors).values()}
    if call["op"] not in (*FORWARD, *BACKPROP):
        return True  # nothing is computed of values
    if not fills <= {"normal", "zeros", "positive"} or sizes_of(call).T > LONGEST:
        return False
    if call["op"] in FORWARD:
        return True
    if call["mode"] == "graph" and list(call["order"]) != list(flatten(call["tensors"])):
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
