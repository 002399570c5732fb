"""Hypothesis strategy for calls of an op, as op_calls.py describes them, right and wrong ones.

Each starts as a valid call. Then none to three things are changed, at random; whether it is still
valid, op_rules.py says.
"""

import copy
import math

import numpy as np
from hypothesis import strategies as st

from tests.fuzz import op_calls, op_rules, valid_calls
from tests.ops import calls

# Elements of reserve_space in front of what a call saves.
_HEADER = 96
# What no tensor of a call may exceed, in elements.
_MOST_ELEMENTS = 50_000
_ABSURD = (0, -1, 1, 2, 255, 2**16, 2**20, 2**30, 2**31 - 1, -(2**31))
_ABSURD_64 = (*_ABSURD, 2**31, 2**32 + 1, 2**40, 2**62, 2**63 - 1, -(2**63))
# The products of most pairs are more than 64 bits can count.
_ABSURD_STEPS_AND_ROWS = (2**20, 2**40, 2**45)
_ODD_DROPOUTS = (
    *(-1.0, -1e-45, 1.0 + 1e-9, 1.0 + 1e-7, 1.0 - 1e-9, 2.0, 1e-45, 1e-46, 1e38, 1e39),
    *(math.inf, -math.inf, math.nan),
)


def _pick(draw, call: dict) -> dict:
    """One of the call's tensors."""
    name = draw(st.sampled_from(list(call["tensors"])))
    tensor = call["tensors"][name]
    return draw(st.sampled_from(tensor)) if isinstance(tensor, list) and tensor else tensor


def _change_shape(draw, call: dict) -> None:
    tensor = _pick(draw, call)
    if isinstance(tensor, list) or tensor.get("from") == "reserve_space":
        return
    shape = list(tensor["shape"])
    kind = draw(st.sampled_from(["dimension", "more", "less", "scalar", "order", "flat", "empty"]))
    if kind == "dimension" and shape:
        place = draw(st.integers(0, len(shape) - 1))
        size = shape[place]
        shape[place] = draw(st.sampled_from([0, 1, size + 1, size - 1, 2 * size, 2**20, 2**40]))
    elif kind == "more":
        shape.insert(draw(st.integers(0, len(shape))), draw(st.sampled_from([1, 1, 2])))
    elif kind == "less" and shape:
        del shape[draw(st.integers(0, len(shape) - 1))]
    elif kind == "scalar":
        shape = []
    elif kind == "order":
        shape.reverse()
    elif kind == "flat":
        shape = [math.prod(shape)]
    elif kind == "empty":
        shape = [0]
    if min(shape, default=1) < 0 or math.prod(shape) > _MOST_ELEMENTS:
        return
    # NumPy has no such array, even if another dimension is zero.
    if math.prod(size for size in shape if size) * 8 >= 2**63:
        return
    tensor["shape"] = shape
    tensor.pop("from", None)
    if "values" in tensor:
        values = np.resize(np.array(tensor["values"], tensor["dtype"]), math.prod(shape))
        tensor["values"] = values.tolist()


def _change_type(draw, call: dict) -> None:
    tensor = _pick(draw, call)
    if isinstance(tensor, list):
        return
    if "values" in tensor:
        tensor["dtype"] = draw(st.sampled_from(["int32", "int64", "int8", "float32"]))
        if tensor["dtype"] != "float32":
            limits = np.iinfo(tensor["dtype"])
            tensor["values"] = [min(max(v, limits.min), limits.max) for v in tensor["values"]]
    elif "from" not in tensor:
        tensor["dtype"] = draw(st.sampled_from([*op_calls.FLOATS, "int32"]))


def _change_values(draw, call: dict) -> None:
    """Of a number, a length, or how a real tensor is filled."""
    lengths = call["tensors"].get("sequence_lengths")
    tensor = lengths if lengths and draw(st.booleans()) else _pick(draw, call)
    if isinstance(tensor, list):
        return
    if "values" not in tensor:
        if "from" not in tensor:
            fills = ["zeros", "nan", "inf", "huge", "bits"]
            if tensor.get("fill") in ("positive", *op_rules.WRONG_SCALES):
                fills[-1] = "negative"  # bits may be right or wrong
            tensor["fill"] = draw(st.sampled_from(fills))
    elif tensor["values"] and tensor["dtype"] == "bool":
        place = draw(st.integers(0, len(tensor["values"]) - 1))
        tensor["values"][place] = not tensor["values"][place]
    elif tensor["values"] and tensor["dtype"] != "float32":
        place = draw(st.integers(0, len(tensor["values"]) - 1))
        limits = np.iinfo(tensor["dtype"])
        old = tensor["values"][place]
        value = draw(st.sampled_from([*_ABSURD, old + 1, old - 1, limits.min, limits.max]))
        tensor["values"][place] = min(max(value, limits.min), limits.max)


def _change_steps_and_rows(draw, call: dict) -> None:
    """Absurd sizes of which no tensor has both: input has no rows, and states have no features.

    Graphs know them, and not the zeros.
    """
    call["known"] = "nonzero"
    tensors = call["tensors"]
    T, B = (draw(st.sampled_from(_ABSURD_STEPS_AND_ROWS)) for _ in range(2))
    steps, rows = (0, 1) if op_calls.attribute(call, "time_major") else (1, 0)
    for name, sizes in (
        ("input", {steps: T, rows: 0}),
        ("input_h", {rows: B, 2: 0}),
        ("input_c", {rows: B, 2: 0}),
    ):
        shape = tensors[name]["shape"]
        if len(shape) == 3:
            for axis, size in sizes.items():
                shape[axis] = size
    for tensor in tensors.get("masks", []):
        tensor |= {"shape": [0, 0], "values": []}
    if "sequence_lengths" in tensors:
        tensors["sequence_lengths"] |= {"shape": [0], "values": []}


def _change_sizes(draw, call: dict) -> None:
    """Absurd values of those inputs that are sizes."""
    for name in op_calls.SCALARS:
        tensor = call["tensors"].get(name)
        if tensor is not None and tensor["dtype"] == "int32" and tensor["values"]:
            if draw(st.booleans()):
                tensor["values"][0] = draw(st.sampled_from(_ABSURD))


def _change_attribute(draw, call: dict) -> None:
    names = set(op_calls.attributes_of(call["op"]))
    if call["op"] not in (*calls.KERAS, calls.READ_RESERVE, calls.INT8):
        names |= {"seed", "seed2"}
    has_type = call["op"] in calls.PARAMS_SIZE
    if not has_type:
        names -= {"T"}
    if call["op"] in calls.TO_PARAMS:
        # The lists tell them, but for GraphDefs, which _into_graph changes.
        names -= {"num_params", "num_params_weights", "num_params_biases"}
    if call["op"] in op_calls.WITH_KERAS_WEIGHTS:
        names -= {f"num_{name}" for name in op_calls.KERAS_LISTS}
    name = draw(st.sampled_from(sorted(names)))
    values = {
        "rnn_mode": [*op_calls.MODES, "", "LSTM", "rnn", "lstm\0"],
        "input_mode": [*op_calls.INPUT_MODES, "linear", ""],
        "direction": [*op_calls.DIRECTIONS, "backward", ""],
        "dropout": [*valid_calls.DROPOUTS, *_ODD_DROPOUTS],
        "seed": _ABSURD_64,
        "seed2": _ABSURD_64,
        "num_proj": [*range(1, 10), *_ABSURD_64],
        **dict.fromkeys(op_rules.BOOLS, [True, False]),
        "T": [*op_calls.FLOATS, "int32", "string"],
        "S": ["int32", "int64", "float32", "int8"],
        "M": [*op_calls.FLOATS, "int32", "string"],
    }.get(name, [0, -1, 1, 2, 7, 8, 9, 16, 100, -(2**63)])
    call["attributes"][name] = draw(st.sampled_from(values))


def _change_list(draw, call: dict) -> None:
    """The number of tensors in a list, or their order."""
    lists = [tensors for tensors in call["tensors"].values() if isinstance(tensors, list)]
    tensors = draw(st.sampled_from(lists)) if lists else []
    if not tensors:
        return
    kind = draw(st.sampled_from(["fewer", "more", "order", "none"]))
    if kind == "fewer":
        del tensors[draw(st.integers(0, len(tensors) - 1))]
    elif kind == "more":
        tensors.append(dict(tensors[-1]))
    elif kind == "order":
        tensors.reverse()
    elif kind == "none":
        tensors.clear()


def _change_steps(draw, call: dict) -> None:
    """Which steps are valid, in which order they are taken, or what is put out at others."""
    masks = call["tensors"]["masks"]
    kinds = ["none", "places"]
    if not call["tensors"]["backward_weights"]:  # which do not go with these
        kinds += ["go_backwards", "zero_output_for_mask"]
    kind = draw(st.sampled_from(kinds))
    if kind == "none":
        masks.clear()
    elif kind == "places":  # as many in each row
        time_axis = 0 if op_calls.attribute(call, "time_major") else 1
        for mask in masks:
            values = np.array(mask["values"]).reshape(mask["shape"])
            mask["values"] = np.flip(values, time_axis).ravel().tolist()
    else:
        call["attributes"][kind] = not op_calls.attribute(call, kind)


def _change_directions(forward: dict) -> None:
    """One in the place of two, or two of the same weights in the place of one."""
    tensors = forward["tensors"]
    weights = [tensors["kernel"], tensors["recurrent_kernel"], *tensors["biases"]]
    tensors["backward_weights"] = [] if tensors["backward_weights"] else copy.deepcopy(weights)
    if tensors["backward_weights"]:
        forward["attributes"] |= {"go_backwards": False, "zero_output_for_mask": True}
    outer = 0 if op_calls.attribute(forward, "time_major") else 1
    for name in ("input_h", "input_c"):
        shape = tensors[name]["shape"]
        if len(shape) == 3:
            shape[outer] = 2 if tensors["backward_weights"] else 1


def _change_forward(draw, call: dict) -> None:
    """The Backprop of another forward call, or with an edited reserve_space."""
    if "forward" not in call:
        return
    op, forward = call["op"], call["forward"]

    def other_forward() -> dict:
        return valid_calls.valid_call(draw, op, dtype, call["seed"])["forward"]

    def forget_outputs() -> None:
        """So that shapes can be right all the same."""
        for name in op_calls.RETURNED[:3]:
            call["tensors"].get(name, {}).pop("from", None)

    reserve = call["tensors"]["reserve_space"]
    if reserve.get("from") != "reserve_space":
        return
    dtype = reserve["dtype"]
    # Another change may have come before: the last one stands alone.
    reserve["shape"] = [-1]
    reserve.pop("edit", None)
    kinds = ["call", "lengths", "all", "body", "header", "key", "other", "size", "shape", "own"]
    if op in op_calls.WITH_MASKS:
        kinds += ["steps"] * 5 + ["directions"] * 2
    kind = draw(st.sampled_from(kinds))
    edit = None
    if kind == "call":
        call["forward"] = other_forward()
        forget_outputs()
    elif kind == "lengths" and "sequence_lengths" in forward["tensors"]:
        forward["tensors"]["sequence_lengths"]["values"].reverse()
        forget_outputs()
    elif kind == "steps":
        _change_steps(draw, forward)
    elif kind == "directions":
        _change_directions(forward)
        forget_outputs()
    elif kind == "all":
        edit = {"fill": draw(st.sampled_from(["bits", "bits", "nan", 0, 1, 255, 1e30]))}
        if dtype == "float16" and edit["fill"] == 1e30:
            edit["fill"] = "nan"
    elif kind == "body":
        edit = {"header": _HEADER, "fill": draw(st.sampled_from(["normal", "nan"]))}
    elif kind == "header":
        elements = sorted(set(range(_HEADER)) - set(op_calls.KEY_ELEMENTS))
        edits = [
            (draw(st.sampled_from(elements)), draw(st.sampled_from([1, 1, 0.5, math.nan]))),
            op_rules.STATES_OUTER_MAJOR,
        ]
        element, more = draw(st.sampled_from([edits[0], *edits]))
        edit = {"element": element, "more": more}
    elif kind == "key":
        edit = {
            "element": draw(st.sampled_from(list(op_calls.KEY_ELEMENTS))),
            "value": draw(st.sampled_from([0, 7, 255, 256, -1, 0.5, math.nan, math.inf])),
        }
    elif kind == "other":
        edit = {"forward": other_forward(), "header": draw(st.sampled_from([_HEADER, 2**20]))}
    elif kind == "size":
        edit = {"more": draw(st.sampled_from([-1, 1, 8, -97, -(2**30)]))}
    elif kind == "shape":
        shape = draw(st.sampled_from([[1, -1], [-1, 1]]))
        edit = {"shape": shape}
        reserve["shape"] = shape
    elif kind == "own":
        # Neither length nor contents of a reserve_space.
        shape = draw(st.sampled_from([[], [0], [1], [95], [96], [97], [2, 3]]))
        call["tensors"]["reserve_space"] = {**valid_calls.real(dtype, *shape), "fill": "bits"}
    if edit is not None:
        reserve["edit"] = {"kind": kind, **edit}


def _changes(op: str) -> list:
    """What can be changed in a call of `op`; more often what it has most rules for."""
    changes = [_change_shape, _change_attribute, _change_values, _change_type]
    if op in calls.KERAS:
        changes.append(_change_list)
    if op in (*op_calls.FORWARD, *op_calls.READERS):
        changes.append(_change_steps_and_rows)
    if op in op_calls.READERS:
        return [*changes, _change_shape, *[_change_forward] * 3]
    if op in op_calls.FORWARD:
        return [*changes, _change_shape, _change_shape, _change_values]
    return [*changes, _change_sizes, _change_sizes, _change_list]


def _into_graph(draw, call: dict) -> None:
    """What a GraphDef has besides, some of it changed by hand."""
    op, attributes = call["op"], call["attributes"]
    floats = [
        tensor["dtype"]
        for tensor in op_calls.flatten(call["tensors"]).values()
        if "values" not in tensor
    ]
    if "T" in op_calls.attributes_of(op):
        attributes.setdefault("T", floats[0] if floats else "float32")
    if op_calls.is_own(op) and draw(st.integers(0, 9)):
        for name in ("seed", "seed2"):
            attributes.pop(name, None)
    if op in calls.TO_PARAMS:
        for name in list(attributes):
            if name.startswith("num_params"):
                attributes[name] = len(call["tensors"][name.partition("params_")[2] or "weights"])
    if op in op_calls.WITH_KERAS_WEIGHTS:
        for name in op_calls.KERAS_LISTS:
            if name in call["tensors"]:
                attributes[f"num_{name}"] = len(call["tensors"][name])
    call["order"] = list(op_calls.flatten(call["tensors"]))
    kind = draw(
        st.sampled_from(
            [
                *["none"] * 8,
                *["order", "drop", "repeat", "attribute", "type", "extra", "device", "after"],
                "count",
            ]
        )
    )
    order = call["order"]
    counts = [name for name in attributes if name.startswith("num_") and name != "num_proj"]
    if kind == "order":
        one, other = (draw(st.integers(0, len(order) - 1)) for _ in range(2))
        order[one], order[other] = order[other], order[one]
    elif kind == "drop":
        del order[draw(st.integers(0, len(order) - 1))]
    elif kind == "repeat":
        order.insert(draw(st.integers(0, len(order))), draw(st.sampled_from(order)))
    elif kind == "attribute" and attributes:
        attributes.pop(draw(st.sampled_from(list(attributes))))
    elif kind == "type" and attributes:
        name = draw(st.sampled_from(list(attributes)))
        values = ["lstm", 1, True, 0.5]
        attributes[name] = draw(
            st.sampled_from([v for v in values if type(v) is not type(attributes[name])])
        )
    elif kind == "count" and counts:
        attributes[draw(st.sampled_from(counts))] = draw(st.integers(-1, 4))
    elif kind == "extra":
        foreign = sorted(op_calls.ATTRIBUTES_OF_FAMILY - set(op_calls.attributes_of(call["op"])))
        name = draw(st.sampled_from(["foo", "_foo", "_output_of", *foreign]))
        call["extra"] = {name: draw(st.sampled_from(["", 2**40, 64, 2, True, 0.5, "float64"]))}
    elif kind == "device":
        call["device"] = draw(st.sampled_from(["/GPU:0", "/device:CPU:0"]))
    elif kind == "after":
        call["after"] = [draw(st.sampled_from(order)).replace(":", "_")]


@st.composite
def calls_of(draw, op: str) -> dict:
    """Calls of `op`."""
    mode = draw(st.sampled_from(["eager", "function", "graph"]))
    dtype = draw(
        st.sampled_from(["float32", "float32", "float64", "float64", "float16", "bfloat16"])
    )
    seed = draw(st.integers(0, 2**32 - 1))
    call = valid_calls.valid_call(draw, op, dtype, seed)
    for _ in range(draw(st.sampled_from([1, 0, 1, 1, 2, 3]))):
        draw(st.sampled_from(_changes(op)))(draw, call)
    call["mode"] = mode
    if call["known"] == "all":  # no change has said otherwise
        known = ["nothing", "rank", "nonzero", "all"] + ["constants"] * (mode == "graph")
        call["known"] = draw(st.sampled_from(known))
    if mode == "graph":
        _into_graph(draw, call)
    elif op in calls.TO_PARAMS:
        for name in [name for name in call["attributes"] if name.startswith("num_params")]:
            del call["attributes"][name]
    if op in op_calls.FORWARD and mode != "eager" and draw(st.booleans()):
        call["fetch"] = "outputs"
    return call
