"""The rules of op_rules.py for ops that take the weights of a Keras layer, and masks."""

from tests.fuzz.op_calls import (
    MODES,
    MOST_ELEMENTS,
    WITH_KERAS_WEIGHTS,
    WITH_MASKS,
    Broken,
    Sizes,
    attribute,
    count_of,
    params_size,
)

_OVERFLOWS = Broken("the size of params fits", ("the size of params overflows: ",))
_NO_UNITS = Broken("H is at least 1", ("num_units must be at least 1, got ",))


def count_rules(call: dict) -> list[Broken]:
    """Of the numbers of tensors in lists, and what two directions do not go with."""
    has_masks = call["op"] in WITH_MASKS
    broken = [
        Broken(f"at most one of {name}", (f"num_{name} must be 0 or 1, got ",))
        for name in ["biases"] + ["masks"] * has_masks
        if count_of(call, name) not in (0, 1)
    ]
    count = count_of(call, "backward_weights") if has_masks else 0
    if count == 0:
        return broken
    num_biases = count_of(call, "biases")
    if count != 2 + num_biases:
        required = f"0 or, with num_biases = {num_biases}, {2 + num_biases}"
        text = f"num_backward_weights must be {required}, got {count};"
        broken.append(Broken("as many weights in both directions", (text,)))
    options = [attribute(call, name) for name in ("go_backwards", "zero_output_for_mask")]
    if options != [False, True]:
        got = " and ".join(str(value).lower() for value in options)
        text = "With backward_weights, go_backwards must be false and zero_output_for_mask true"
        broken.append(Broken("both directions, and zeros in padding", (f"{text}, got {got};",)))
    return broken


def _size(call: dict, I: int, H: int) -> int:
    return params_size(attribute(call, "rnn_mode"), 1, 1, I, H, H, False)


def _by_direction(tensors: dict) -> list[dict]:
    """The shapes of a kernel, a recurrent kernel and maybe biases, by what errors call them.

    Of the backward direction, too, if it has as many weights as a direction may have.
    """
    forward = [tensors["kernel"], tensors["recurrent_kernel"], *tensors["biases"]]
    names = ("kernel", "recurrent_kernel", *(f"biases[{i}]" for i in range(len(forward) - 2)))
    directions = [dict(zip(names, forward, strict=True))]
    backward = tensors.get("backward_weights", [])
    if len(backward) in (2, 3):
        directions.append({f"backward_weights[{i}]": each for i, each in enumerate(backward)})
    return [{name: each["shape"] for name, each in weights.items()} for weights in directions]


def weights_rules(call: dict, tensors: dict) -> list[Broken]:
    """Those for the weights of each direction, whatever else the call has."""
    assert call["op"] in WITH_KERAS_WEIGHTS
    broken = []
    for weights in _by_direction(tensors):
        broken += _direction_rules(call, weights)
    return broken


def _direction_rules(call: dict, weights: dict) -> list[Broken]:
    rnn_mode = attribute(call, "rnn_mode")
    G = MODES[rnn_mode]
    (kernel_name, kernel), (recurrent_name, recurrent_kernel), *biases = weights.items()
    broken = []
    H = None  # unknown, as long as the rank is wrong
    if len(recurrent_kernel) == 2:
        H = recurrent_kernel[0]
        if H < 1:
            broken.append(_NO_UNITS)
        elif _size(call, 1, H) > MOST_ELEMENTS:
            broken.append(_OVERFLOWS)
    if H is None or recurrent_kernel[1] != G * H:
        texts = (f"{recurrent_name} must have shape [H,",)
        broken.append(Broken(f"{recurrent_name} has shape [H,G*H]", texts))
    if len(kernel) != 2 or H not in (None, kernel[1] / G):
        texts = (f"{kernel_name} must have shape [I,",)
        broken.append(Broken(f"{kernel_name} has shape [I,G*H]", texts))
    for name, shape in biases:
        rank = 2 if rnn_mode == "gru" else 1
        fits = len(shape) == rank and (rank == 1 or shape[0] == 2)
        if not fits or H not in (None, shape[-1] / G):
            text = f"{name} must have shape {'[2,' if rank == 2 else '['}"
            broken.append(Broken(f"{name} has G*H elements, or [2,3*H] of a GRU", (text,)))
    return broken


def mask_rules(tensors: dict, time_major: bool, T: int | None, B: int | None) -> list[Broken]:
    """That for the shape of masks; T and B are those of input, if its rank is right."""
    required = [T, B] if time_major else [B, T]
    text = f"masks[0] must have shape {'[T,B]' if time_major else '[B,T]'} = "
    broken = []
    for mask in tensors["masks"]:
        shape = mask["shape"]
        fits = len(shape) == 2 and (T is None or list(shape) == required)
        if not fits:
            broken.append(Broken("masks have a value for each step of each row", (text,)))
    return broken


def rows_rules(tensors: dict, sizes: Sizes) -> list[Broken]:
    """What weights of the right rank have in common with the other tensors."""
    broken = []
    if sizes.L != 1:
        states = "one state" if sizes.D == 1 else "two states"
        broken.append(Broken(f"{states} a row", (f"input_h must hold {states} a row, got ",)))
    for weights in _by_direction(tensors):
        kernels = list(weights.items())[:2]
        for (name, shape), letter, size in zip(kernels, "IH", (sizes.I, sizes.H), strict=True):
            if len(shape) == 2 and shape[0] != size:
                text = f"{name} must have {letter} = {size} rows"
                broken.append(Broken(f"{name} has {letter} rows", (text,)))
    return broken


def to_params_rules(call: dict, tensors: dict) -> list[Broken]:
    broken = weights_rules(call, tensors)
    if broken:
        return broken
    I, H = (tensors[name]["shape"][0] for name in ("kernel", "recurrent_kernel"))
    if I < 1:
        return [Broken("I is at least 1", ("input_size must be at least 1, got ",))]
    return [_OVERFLOWS] if _size(call, I, H) > MOST_ELEMENTS else []


def to_params_backprop_rules(call: dict, tensors: dict) -> list[Broken]:
    shape, num_units = tensors["params_backprop"]["shape"], tensors["num_units"]
    broken = []
    if len(shape) != 1:
        texts = ("params_backprop must have shape [N]",)
        broken.append(Broken("params_backprop has rank 1", texts))
    if len(num_units["shape"]) != 0:
        broken.append(Broken("num_units is a scalar", ("num_units is not a scalar",)))
        return broken
    H = num_units["values"][0]
    if H < 1:
        return [*broken, _NO_UNITS]
    if _size(call, 2, H) > MOST_ELEMENTS:
        return [*broken, _OVERFLOWS]
    smallest = _size(call, 1, H)
    per_input = _size(call, 2, H) - smallest
    if len(shape) == 1 and (shape[0] < smallest or (shape[0] - smallest) % per_input != 0):
        text = "params_backprop must have as many elements as params"
        broken.append(Broken("params_backprop has N elements", (text,)))
    return broken
