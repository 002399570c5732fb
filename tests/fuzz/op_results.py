"""What valid calls must return: the judge's values, and nothing that nobody wrote."""

import numpy as np

from tests.fuzz import keras_weights, op_calls, op_rules, op_steps, op_values
from tests.helpers import running, running_int8
from tests.ops import calls
from tests.reference import cases, int8, judge

# What malloc fills memory with if MALLOC_PERTURB_ is 1, as ops.py has it. Far from all results.
_MARK = 0xFE

_GRADIENTS = ("input_backprop", "input_h_backprop", "input_c_backprop", "params_backprop")
# Of masks: one quotient, rounded.
_ROUNDING = 2.0**-22


class Finding(Exception):
    """What a call should not have done."""


def _key(call: dict, arrays: dict) -> int | None:
    if call["op"] == calls.INT8 or not op_calls.attribute(call, "is_training"):
        return None
    if "rng_seed" in arrays:
        return judge.own_key(arrays["rng_seed"])
    return judge.builtin_key(op_calls.attribute(call, "seed"), op_calls.attribute(call, "seed2"))


def _check_call(call: dict, arrays: dict, outputs: dict) -> None:
    """Of a valid forward or Backprop call."""
    sizes, tensors = op_rules.sizes_of(call), op_values.by_input(call, arrays)
    lstm = op_calls.attribute(call, "rnn_mode") == "lstm"
    is_forward = call["op"] in op_calls.FORWARD
    x = tensors["input"]
    if is_forward:
        shapes = {
            "output": (*x.shape[:2], sizes.D * sizes.P),
            "output_h": tensors["input_h"].shape,
            "output_c": tensors["input_c"].shape if lstm else (),
        }
    else:
        flat = op_calls.flatten(tensors)
        shapes = {name: flat[name.replace("_backprop", "")].shape for name in outputs}
    for name, shape in shapes.items():
        if outputs[name].shape != shape or outputs[name].dtype != x.dtype:
            raise Finding(f"{name} is {outputs[name].dtype} {outputs[name].shape}, not {shape}")
    steps = op_steps.steps_of(call, tensors, sizes)
    if sizes.B > 0:
        _check_padding(steps, outputs, is_forward)
    if is_forward:
        _check_other_outputs(call, outputs)
    elif sizes.B == 0 and any(gradient.any() for gradient in outputs.values()):
        raise Finding("no rows have a gradient")
    if not op_rules.is_judged(call):
        return

    forward = call if is_forward else call["forward"]
    names = {"output": "y", "output_h": "h_n", "output_c": "c_n"}
    dtype = x.dtype
    none = np.zeros([], dtype)
    dy, dh_n, dc_n = (tensors.get(f"{name}_backprop", none) for name in names)
    if not is_forward:
        dy = steps.to_front(steps.without_repeats(dy), is_output=True)
    if not is_forward:
        names = dict(zip(_GRADIENTS, running.GRADIENTS, strict=True))
    case = cases.Case(
        op_values.config_of(call),
        steps.to_front(x),
        tensors["input_h"],
        tensors["input_c"],
        _params(call, tensors),
        steps.lengths,
        dy,
        dh_n,
        dc_n,
    )
    if call["op"] == calls.KERAS_RNN_BACKPROP:
        expected = running.judged(case)["dparams"].astype(dtype)
        outputs = {**outputs, "params_backprop": _gradients_in_place(call, expected, outputs)}
    actual = {names[name]: outputs[name] for name in names}
    moved = "y" if is_forward else "dx"
    actual[moved] = steps.to_front(actual[moved], is_output=is_forward)
    if call["op"] == calls.INT8:
        running_int8.assert_judged(actual, case, "this call")
        return
    key = _key(forward, op_values.arrays_of(forward, is_valid=True))
    # Gradients of a few elements may be what larger terms leave of each other. Those are as
    # large as what came in.
    gradients = np.concatenate([np.ravel(d).astype(np.float64) for d in (dy, dh_n, dc_n)])
    incoming = np.max(np.abs(gradients), initial=0.0)
    running.assert_judged(actual, case, "this call", key, least_gradient=incoming)


def _check_padding(steps: op_steps.Steps, outputs: dict, is_forward: bool) -> None:
    """That steps which are not valid have the outputs, or the gradients, that they should."""
    if not is_forward:
        if steps.in_order(outputs["input_backprop"])[~steps.valid].any():
            raise Finding("the gradient of padding is not zero")
        return
    output = steps.in_order(outputs["output"], is_output=True)
    if output.tobytes() != steps.padded(outputs["output"]).tobytes():
        what = "zero" if not steps.repeats else "the last output before it"
        raise Finding(f"output in padding is not {what}")


def _params(call: dict, tensors: dict) -> np.ndarray:
    if call["op"] == calls.INT8:
        weights = int8.Int8(*(tensors[name] for name in op_calls.INT8_WEIGHTS))
        return int8.params_of(op_values.config_of(call), weights)
    if call["op"] not in op_calls.WITH_KERAS_WEIGHTS:
        return tensors["params"]
    weights = [tensors["kernel"], tensors["recurrent_kernel"], *tensors["biases"]]
    weights += tensors.get("backward_weights", [])
    return _keras_params(call, weights)


def _keras_params(call: dict, weights: list) -> np.ndarray:
    """Params of Keras' weights, or of their gradients, of each direction of the call."""
    rnn_mode, direction = op_calls.attribute(call, "rnn_mode"), op_calls.direction_of(call)
    return keras_weights.to_params(rnn_mode, weights, direction)


def _gradients_in_place(call: dict, expected: np.ndarray, outputs: dict) -> np.ndarray:
    """The gradients of Keras' weights as those of params, `expected` where Keras has no weight."""
    gradients = [value for name, value in outputs.items() if not name.startswith("input")]
    has_weight = _keras_params(call, [np.ones_like(gradient) for gradient in gradients]) != 0
    return np.where(has_weight, _keras_params(call, gradients), expected)


def _check_other_outputs(call: dict, outputs: dict) -> None:
    if "reserve_space" not in outputs:
        return
    is_training = op_calls.attribute(call, "is_training")
    reserve = outputs["reserve_space"]
    if reserve.ndim != is_training:
        raise Finding(f"reserve_space has rank {reserve.ndim} with is_training={is_training}")
    marked = np.frombuffer(bytes([_MARK]) * reserve.itemsize, f"u{reserve.itemsize}")
    if (np.atleast_1d(reserve).view(marked.dtype) == marked).any():
        raise Finding("reserve_space has elements that nobody wrote")
    if "host_reserved" in outputs:
        expected = [0, 0] if call["op"] == "CudnnRNNV2" and is_training else 0
        if outputs["host_reserved"].tolist() != expected:
            raise Finding(f"host_reserved is {outputs['host_reserved']}")


def _check_read_reserve(call: dict, arrays: dict, outputs: dict) -> None:
    sizes, tensors = op_rules.sizes_of(call), op_values.by_input(call, arrays)
    config = op_values.config_of(call)
    masks = outputs["dropout_masks"]
    shape = (sizes.L - 1 if config.dropout > 0 else 0, sizes.T, sizes.B, sizes.D * sizes.P)
    if masks.shape != shape or masks.dtype.name != call["attributes"]["M"]:
        raise Finding(f"dropout_masks is {masks.dtype} {masks.shape}, not {shape}")
    edit = call["tensors"]["reserve_space"].get("edit")
    follows_cudnn = op_rules.follows_cudnn(call, edit)
    if outputs["states_outer_major"] != (config.time_major or follows_cudnn):
        raise Finding(f"states_outer_major is {outputs['states_outer_major']}")
    if masks.size == 0:
        return
    key_bytes = tensors["reserve_space"][list(op_calls.KEY_ELEMENTS)].astype(np.uint8).tobytes()
    key = int.from_bytes(key_bytes, "little")
    forward = call["forward"]
    if edit is None and key != _key(forward, op_values.arrays_of(forward, is_valid=True)):
        raise Finding(f"reserve_space has the key {key}")
    for layer in range(sizes.L - 1):
        mask = judge.dropout_mask(config, layer, sizes.T, sizes.B, key)
        if not np.allclose(masks[layer], mask, rtol=_ROUNDING, atol=0):
            raise Finding(f"other elements of layer {layer} are dropped")


def _check_keras_weights(call: dict, arrays: dict, outputs: dict) -> None:
    """Of a valid KerasToParams or of its gradient."""
    tensors = op_values.by_input(call, arrays)
    if call["op"] == calls.KERAS_TO_PARAMS:
        expected = [_params(call, tensors)]
    else:
        rnn_mode, num_units = op_calls.attribute(call, "rnn_mode"), int(tensors["num_units"])
        num_biases = op_calls.count_of(call, "biases")
        gradient = tensors["params_backprop"]
        expected = keras_weights.from_params(rnn_mode, gradient, num_units, num_biases)
    _check_bits(outputs, expected)


def _check_params(call: dict, arrays: dict, outputs: dict) -> None:
    """Of a valid call of another op."""
    tensors = op_values.by_input(call, arrays)
    L, H, I = (int(tensors[name]) for name in op_calls.SCALARS)
    names = ("rnn_mode", "input_mode", "direction", "num_proj")
    rnn_mode, input_mode, direction, num_proj = (op_calls.attribute(call, n) for n in names)
    if call["op"] in calls.PARAMS_SIZE:
        D, P = op_calls.DIRECTIONS[direction], num_proj or H
        skips = op_calls.skips_input(input_mode, I, H)
        size = op_calls.params_size(rnn_mode, L, D, I, H, P, skips)
        found = outputs["params_size"]
        if found.tolist() != [size] or found.dtype.name != call["attributes"]["S"]:
            raise Finding(f"the size is {size}, not {found!r}")
        return
    config = judge.Config(rnn_mode, L, H, I, direction, input_mode, num_proj)
    if call["op"] in calls.TO_CANONICAL:
        lists = judge.canonical(config, tensors["params"])
        expected = [*lists[0], *lists[1]]
    else:
        expected = [judge.from_canonical(config, tensors["weights"], tensors["biases"])]
    _check_bits(outputs, expected)


def _check_bits(outputs: dict, expected: list) -> None:
    for (name, found), value in zip(outputs.items(), expected, strict=True):
        if found.shape != value.shape or found.dtype != value.dtype:
            raise Finding(f"{name} is {found.dtype} {found.shape}")
        if found.tobytes() != value.tobytes():
            raise Finding(f"{name} has other values")


def check(call: dict, arrays: dict, outputs: dict) -> None:
    """Raises Finding, or AssertionError, if a valid call returned what it must not."""
    op = call["op"]
    if op in (*op_calls.FORWARD, *op_calls.BACKPROP):
        _check_call(call, arrays, outputs)
    elif op == calls.READ_RESERVE:
        _check_read_reserve(call, arrays, outputs)
    elif op in calls.KERAS:
        _check_keras_weights(call, arrays, outputs)
    else:
        _check_params(call, arrays, outputs)
