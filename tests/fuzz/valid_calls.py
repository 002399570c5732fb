"""Hypothesis draws of valid calls of each op, as op_calls.py describes them."""

import copy
import math

from hypothesis import strategies as st

from tests.fuzz import op_calls, op_rules
from tests.ops import calls

DROPOUTS = (0.0, 0.25, 0.5, 1.0)
_SEEDS = (0, 1, -1, 2**31 - 1, -(2**31), 12345)


def _network(draw, op: str) -> dict:
    """Attributes and sizes that go together."""
    attributes = op_calls.attributes_of(op)
    is_keras = op in calls.KERAS  # one layer, of few options
    has_masks = op in op_calls.WITH_MASKS
    most = draw(st.sampled_from([3, 9, 9, 9, 40]))
    rnn_mode = draw(st.sampled_from(list(op_calls.MODES)))
    H = draw(st.integers(1, most))
    input_mode = "linear_input" if is_keras else draw(st.sampled_from(op_calls.INPUT_MODES))
    I = H if input_mode == "skip_input" or draw(st.integers(0, 4)) == 0 else None
    num_proj = 0
    if "num_proj" in attributes and rnn_mode == "lstm" and draw(st.booleans()):
        num_proj = draw(st.integers(1, H))
    direction = "unidirectional"
    if has_masks or not is_keras:
        direction = draw(st.sampled_from(list(op_calls.DIRECTIONS)))
    L = 1 if is_keras else draw(st.integers(1, 3))
    time_major = "time_major" not in attributes or draw(st.booleans())
    T, B = draw(st.integers(1, 6)), draw(st.integers(0, 5))
    if B == 0 and draw(st.booleans()):
        T = draw(st.sampled_from([1, 2**20, 2**31, 2**40]))
    has_options = has_masks and direction == "unidirectional"
    return {
        "rnn_mode": rnn_mode,
        "input_mode": input_mode,
        "direction": direction,
        "num_proj": num_proj,
        "dropout": 0.0 if is_keras else draw(st.sampled_from(DROPOUTS)),
        "time_major": time_major,
        "go_backwards": has_options and draw(st.booleans()),
        "zero_output_for_mask": not has_options or draw(st.booleans()),
        "masks": [_mask(draw, T, B, time_major)] if has_masks and draw(st.booleans()) else [],
        "sizes": op_calls.Sizes(
            L=L,
            D=op_calls.DIRECTIONS[direction],
            I=draw(st.integers(1, most)) if I is None else I,
            H=H,
            P=num_proj or H,
            T=T,
            B=B,
        ),
        "lengths": [draw(st.integers(0, T)) for _ in range(B)] if draw(st.booleans()) else [T] * B,
    }


def _mask(draw, T: int, B: int, time_major: bool) -> dict:
    values = [draw(st.booleans()) for _ in range(T * B)]
    return _numbers("bool", [T, B] if time_major else [B, T], values)


def real(dtype: str, *shape: int) -> dict:
    return {"dtype": dtype, "shape": list(shape)}


def _numbers(dtype: str, shape: list, values: list) -> dict:
    return {"dtype": dtype, "shape": shape, "values": values}


def _ordered(network: dict, outer: int, features: int) -> list[int]:
    B = network["sizes"].B
    return [outer, B, features] if network["time_major"] else [B, outer, features]


def _size(network: dict) -> int:
    L, D, I, H, P = network["sizes"][:5]
    skips = op_calls.skips_input(network["input_mode"], I, H)
    return op_calls.params_size(network["rnn_mode"], L, D, I, H, P, skips)


def _given_attributes(draw, op: str, network: dict) -> dict:
    """Those of the network; now and then a default is left to itself."""
    names = [name for name in op_calls.attributes_of(op) if name in network]
    attributes = {name: network[name] for name in names}
    if not op_calls.is_own(op) and draw(st.booleans()):
        attributes |= {name: draw(st.sampled_from(_SEEDS)) for name in ("seed", "seed2")}
    for name in names:
        if attributes[name] == op_calls.DEFAULTS[name] and draw(st.integers(0, 3)) == 0:
            del attributes[name]
    return attributes


def _states(network: dict, dtype: str) -> dict:
    L, D, _, H, P = network["sizes"][:5]
    lstm = network["rnn_mode"] == "lstm"
    return {
        "input_h": real(dtype, *_ordered(network, L * D, P)),
        "input_c": real(dtype, *(_ordered(network, L * D, H) if lstm else [])),
    }


def _eager(op: str, attributes: dict, tensors: dict, seed: int) -> dict:
    """A call as it is drawn; op_draws.py takes some elsewhere, such as into graphs."""
    return {
        "op": op,
        "mode": "eager",
        "known": "all",
        "attributes": attributes,
        "tensors": tensors,
        "seed": seed,
    }


def _forward_call(draw, op: str, network: dict, dtype: str, seed: int) -> dict:
    sizes = network["sizes"]
    tensors = {
        "input": real(dtype, *_ordered(network, sizes.T, sizes.I)),
        **_states(network, dtype),
        **(_keras_weights(draw, network, dtype) if op in calls.KERAS else {}),
        **(_int8_weights(network) if op == calls.INT8 else {}),
    }
    if op not in (*calls.KERAS, calls.INT8):
        tensors["params"] = real(dtype, _size(network))
    if network["rnn_mode"] != "lstm":
        shape = draw(st.sampled_from([[], [], [0], [2, 3], tensors["input_h"]["shape"]]))
        tensors["input_c"]["shape"] = shape
    if op in op_calls.WITH_LENGTHS:
        T = min(sizes.T, 2**31 - 1)
        lengths = [min(length, T) for length in network["lengths"]]
        tensors["sequence_lengths"] = _numbers("int32", [sizes.B], lengths)
    if op in op_calls.WITH_MASKS:
        tensors["masks"] = network["masks"]
        forward = [tensors["kernel"], tensors["recurrent_kernel"], *tensors["biases"]]
        tensors["backward_weights"] = copy.deepcopy(forward) if sizes.D == 2 else []
    attributes = _given_attributes(draw, op, network)
    if "rng_seed" in op_calls.inputs_of(op):
        values = [draw(st.integers(-(2**63), 2**63 - 1)) for _ in range(2)]
        tensors["rng_seed"] = _numbers("int64", [2], values)
    if op != calls.INT8 and draw(st.booleans()):
        attributes["is_training"] = draw(st.booleans())
    return _eager(op, attributes, tensors, seed)


def _backprop_call(draw, op: str, network: dict, dtype: str, seed: int) -> dict:
    forward_op = op.replace("Backprop", "")
    forward = _forward_call(draw, forward_op, network, dtype, seed)
    forward["attributes"].pop("is_training", None)
    sizes = network["sizes"]
    lstm = network["rnn_mode"] == "lstm"
    tensors = {
        name: copy.deepcopy(tensor)
        for name, tensor in forward["tensors"].items()
        if name != "rng_seed"
    }
    shapes = {
        "output": _ordered(network, sizes.T, sizes.D * sizes.P),
        "output_h": tensors["input_h"]["shape"],
        "output_c": tensors["input_c"]["shape"] if lstm else [],
    }
    for name, shape in shapes.items():
        tensors[name] = {"from": name, **real(dtype, *shape)}
    for name, shape in shapes.items():
        tensors[f"{name}_backprop"] = real(dtype, *shape)
    tensors["reserve_space"] = {"from": "reserve_space", **real(dtype, -1)}
    if "host_reserved" in op_calls.inputs_of(op):
        shape = [2] if op == "CudnnRNNBackpropV2" else []
        tensors["host_reserved"] = _numbers("int8", shape, [0] * math.prod(shape))
    if op in op_calls.WITH_MASKS:
        for name in ("masks", "backward_weights"):  # the op has them last
            tensors[name] = tensors.pop(name)
    return {
        **forward,
        "op": op,
        "attributes": _given_attributes(draw, op, network),
        "tensors": tensors,
        "forward": forward,
    }


def _read_reserve_call(draw, network: dict, dtype: str, seed: int) -> dict:
    """Of what a CudnnRNNV3, built-in or own, returned."""
    forward_op = draw(st.sampled_from(calls.V3))
    forward = _forward_call(draw, forward_op, network, dtype, seed)
    forward["attributes"].pop("is_training", None)
    tensors = {
        name: copy.deepcopy(tensor)
        for name, tensor in forward["tensors"].items()
        if name != "rng_seed"
    }
    tensors["reserve_space"] = {"from": "reserve_space", **real(dtype, -1)}
    op = calls.READ_RESERVE
    computed = "float64" if dtype == "float64" else "float32"
    return {
        **forward,
        "op": op,
        "attributes": {**_given_attributes(draw, op, network), "M": computed},
        "tensors": tensors,
        "forward": forward,
    }


def _int8_weights(network: dict) -> dict:
    L, D, I, H, P = network["sizes"][:5]
    skips = op_calls.skips_input(network["input_mode"], I, H)
    sizes = op_calls.int8_sizes(network["rnn_mode"], L, D, I, H, P, skips)
    return {
        "weights": real("int8", sizes["weights"]),
        "scales": {**real("float32", sizes["scales"]), "fill": "positive"},
        # As scales: a graph may have either in the place of the other.
        "biases": {**real("float32", sizes["biases"]), "fill": "positive"},
    }


def _keras_weights(draw, network: dict, dtype: str) -> dict:
    I, H = network["sizes"].I, network["sizes"].H
    columns = op_calls.MODES[network["rnn_mode"]] * H
    bias = [2, columns] if network["rnn_mode"] == "gru" else [columns]
    return {
        "kernel": real(dtype, I, columns),
        "recurrent_kernel": real(dtype, H, columns),
        "biases": [real(dtype, *bias)] if draw(st.integers(0, 3)) else [],
    }


def _keras_to_params_call(draw, op: str, network: dict, dtype: str, seed: int) -> dict:
    """Of KerasToParams or its gradient."""
    attributes = _given_attributes(draw, op, network)
    fill = {"fill": draw(st.sampled_from(["normal", "bits"]))}
    if op == calls.KERAS_TO_PARAMS:
        tensors = _keras_weights(draw, network, dtype)
        tensors["kernel"] |= fill
    else:
        tensors = {
            "params_backprop": {**real(dtype, _size(network)), **fill},
            "num_units": _numbers("int32", [], [network["sizes"].H]),
        }
        if draw(st.booleans()):
            attributes["num_biases"] = draw(st.integers(0, 1))
    return _eager(op, attributes, tensors, seed)


def _params_call(draw, op: str, network: dict, dtype: str, seed: int) -> dict:
    sizes = network["sizes"]
    attributes = _given_attributes(draw, op, network)
    values = dict(zip(op_calls.SCALARS, (sizes.L, sizes.H, sizes.I), strict=True))
    tensors = {name: _numbers("int32", [], [value]) for name, value in values.items()}
    skips = op_calls.skips_input(network["input_mode"], sizes.I, sizes.H)
    lists = op_rules.canonical_shapes(network["rnn_mode"], sizes, skips)
    counts = dict(zip(("num_params_weights", "num_params_biases"), map(len, lists), strict=True))
    if op in calls.PARAMS_SIZE:
        attributes |= {"T": dtype, "S": draw(st.sampled_from(["int32", "int64"]))}
        counts = {}
    elif op in calls.TO_CANONICAL:
        fill = draw(st.sampled_from(["normal", "bits"]))
        tensors["params"] = {**real(dtype, _size(network)), "fill": fill}
    else:
        flat = draw(st.booleans())
        for name, shapes in zip(("weights", "biases"), lists, strict=True):
            tensors[name] = [real(dtype, *([math.prod(s)] if flat else s)) for s in shapes]
    if counts and op not in (*calls.TO_CANONICAL_V2, *calls.TO_PARAMS_V2):
        counts = {"num_params": counts["num_params_weights"]}
    return _eager(op, attributes | counts, tensors, seed)


def valid_call(draw, op: str, dtype: str, seed: int) -> dict:
    """A valid eager call of `op`."""
    network = _network(draw, op)
    if op == calls.INT8:
        dtype = "float32"
    if op in op_calls.FORWARD:
        return _forward_call(draw, op, network, dtype, seed)
    if op in op_calls.BACKPROP:
        return _backprop_call(draw, op, network, dtype, seed)
    if op == calls.READ_RESERVE:
        return _read_reserve_call(draw, network, dtype, seed)
    if op in calls.KERAS:
        return _keras_to_params_call(draw, op, network, dtype, seed)
    return _params_call(draw, op, network, dtype, seed)
