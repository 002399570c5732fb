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
    """Of the numbers of biases and of masks."""
    lists = ["biases"] + ["masks"] * (call["op"] in WITH_MASKS)
    return [
        Broken(f"at most one of {name}", (f"num_{name} must be 0 or 1, got ",))
        for name in lists
        if count_of(call, name) not in (0, 1)
    ]


def _size(call: dict, I: int, H: int) -> int:
    return params_size(attribute(call, "rnn_mode"), 1, 1, I, H, H, False)


def weights_rules(call: dict, tensors: dict) -> list[Broken]:
    """Those for kernel, recurrent_kernel and biases, whatever else the call has."""
    assert call["op"] in WITH_KERAS_WEIGHTS
    rnn_mode = attribute(call, "rnn_mode")
    G = MODES[rnn_mode]
    kernel, recurrent_kernel = (tensors[name]["shape"] for name in ("kernel", "recurrent_kernel"))
    broken = []
    H = None  # unknown, as long as the rank is wrong
    if len(recurrent_kernel) == 2:
        H = recurrent_kernel[0]
        if H < 1:
            broken.append(_NO_UNITS)
        elif _size(call, 1, H) > MOST_ELEMENTS:
            broken.append(_OVERFLOWS)
    if H is None or recurrent_kernel[1] != G * H:
        texts = ("recurrent_kernel must have shape [H,",)
        broken.append(Broken("recurrent_kernel has shape [H,G*H]", texts))
    if len(kernel) != 2 or H not in (None, kernel[1] / G):
        broken.append(Broken("kernel has shape [I,G*H]", ("kernel must have shape [I,",)))
    for bias in tensors["biases"]:
        shape = bias["shape"]
        rank = 2 if rnn_mode == "gru" else 1
        fits = len(shape) == rank and (rank == 1 or shape[0] == 2)
        if not fits or H not in (None, shape[-1] / G):
            text = f"biases[0] must have shape {'[2,' if rank == 2 else '['}"
            broken.append(Broken("a bias has G*H elements, or [2,3*H] of a GRU", (text,)))
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
    if sizes.L * sizes.D != 1:
        broken.append(Broken("one state a row", ("input_h must hold one state a row, got ",)))
    for name, letter, size in (("kernel", "I", sizes.I), ("recurrent_kernel", "H", sizes.H)):
        shape = tensors[name]["shape"]
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
