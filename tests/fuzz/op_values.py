"""The tensors of a call, as op_calls.py describes them, as arrays."""

import zlib

import ml_dtypes
import numpy as np
import tensorflow as tf

from tests.fuzz import op_calls, op_rules, op_runs, op_steps
from tests.reference import cases, judge

_KERNELS = ("kernel", "recurrent_kernel", "backward_weights:0", "backward_weights:1")


def _dtype(name: str):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def _values(call: dict, name: str, tensor: dict, params_of: judge.Config | None):
    """The array of a tensor that no forward call returned."""
    shape, dtype = tuple(tensor["shape"]), _dtype(tensor["dtype"])
    if "values" in tensor:
        return np.array(tensor["values"], dtype).reshape(shape)
    fill = tensor.get("fill", "normal")
    if dtype == np.int8 and fill != "zeros":
        fill = "bits"
    rng = np.random.default_rng([call["seed"], zlib.crc32(name.encode())])
    if fill == "bits":
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer(rng.bytes(size), dtype).reshape(shape)
    if fill == "positive":
        # Weights in int8, times such a scale, are as small as those of random_params().
        return rng.uniform(0.5 / 460, 1.5 / 460, shape).astype(dtype)
    if fill != "normal":
        fills = {"zeros": 0, "nan": np.nan, "inf": np.inf, "huge": 1e38, "negative": -1}
        value = fills[fill]
        with np.errstate(over="ignore"):
            return np.full(shape, value).astype(dtype)
    if name == "params" and params_of is not None:
        return cases.random_params(rng, params_of).astype(dtype)
    if name in _KERNELS and len(shape) == 2:
        # As random_params() does, so that values stay small.
        return (rng.normal(size=shape) / np.sqrt(max(shape[0], 1))).astype(dtype)
    return (rng.normal(size=shape) * 0.5).astype(dtype)


def config_of(call: dict) -> judge.Config:
    sizes = op_rules.sizes_of(call)
    names = ("rnn_mode", "input_mode", "num_proj", "time_major")
    options = {name: op_calls.attribute(call, name) for name in names}
    return judge.Config(
        direction=op_calls.direction_of(call),
        num_layers=sizes.L,
        num_units=sizes.H,
        input_size=sizes.I,
        dropout=op_calls.dropout_of(call),
        **options,
    )


def arrays_of(call: dict, is_valid: bool) -> dict:
    """All tensors by name as arrays; what nobody may read of sequences holds NaN."""
    is_call = call["op"] in (*op_calls.FORWARD, *op_calls.READERS)
    params_of = config_of(call) if is_valid and is_call else None
    returned = _returned(call["forward"]) if "forward" in call else {}

    def array(name, tensor):
        if isinstance(tensor, list):
            return [array(f"{name}:{i}", each) for i, each in enumerate(tensor)]
        if "from" in tensor:
            return _edited(call, returned[tensor["from"]], tensor.get("edit"))
        return _values(call, name, tensor, params_of)

    arrays = {name: array(name, tensor) for name, tensor in call["tensors"].items()}
    if is_valid and is_call and call["tensors"]["input"]["shape"] and _is_in_order(call):
        sizes = op_rules.sizes_of(call)
        if sizes.B > 0:
            steps = op_steps.steps_of(call, arrays, sizes)
            for name, read in (("input", steps.valid), ("output_backprop", steps.have_output)):
                if name in arrays:
                    arrays[name] = arrays[name].copy()
                    steps.in_order(arrays[name], name != "input")[~read] = np.nan
    return arrays


def _is_in_order(call: dict) -> bool:
    return call["mode"] != "graph" or list(call["order"]) == list(op_calls.flatten(call["tensors"]))


def _returned(forward: dict) -> dict:
    """What a valid forward call returns, by name."""
    arrays = arrays_of(forward, is_valid=True)
    return op_runs.run_eager(forward, arrays)


def _edited(call: dict, array: np.ndarray, edit: dict | None) -> np.ndarray:
    """What someone made of reserve_space."""
    if edit is None:
        return array
    array = array.copy()
    kind = edit["kind"]
    rng = np.random.default_rng([call["seed"], 1])
    if kind == "all":
        if edit["fill"] == "bits":
            return np.frombuffer(rng.bytes(array.nbytes), array.dtype)
        array[:] = np.nan if edit["fill"] == "nan" else edit["fill"]
    elif kind == "body":
        array[edit["header"] :] = rng.normal(size=array.size - edit["header"]) * 100
        if edit["fill"] == "nan":
            array[edit["header"] :] = np.nan
    elif kind == "header":
        place = edit["element"]
        value = array[place].copy()
        array[place] = float(value) + edit["more"]
        if array[place] == value:  # it was rounded
            array[place] = float(value) - 1
    elif kind == "key":
        array[edit["element"]] = edit["value"]
    elif kind == "other":
        # The header of another call in front of a body of the right size.
        other = _returned(edit["forward"])["reserve_space"].astype(array.dtype)
        header = min(edit["header"], other.size, array.size)
        array[:header] = other[:header]
    elif kind == "size":
        array = np.resize(array, [max(array.size + edit["more"], 0)])
    elif kind == "shape":
        array = array.reshape(edit["shape"])
    return array


def by_input(call: dict, arrays: dict) -> dict:
    """The arrays as the op sees them."""
    if call["mode"] != "graph":
        return arrays
    flat = op_calls.flatten(arrays)
    names = op_calls.tensors_by_input({**call, "tensors": {n: n for n in flat}})
    return tf.nest.map_structure(lambda name: flat[name], names)
