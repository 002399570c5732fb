"""Every message of every kernel, in eager mode and when a graph runs."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.ops import calls
from tests.ops.calls import zeros


@dataclasses.dataclass(frozen=True)
class Case:
    """What is changed in valid calls of `ops`, and the message that follows."""

    name: str
    ops: tuple[str, ...]
    message: str
    changes: dict = dataclasses.field(default_factory=dict)


NAN = float("nan")
BIDIRECTIONAL = {"direction": "bidirectional"}
BATCH_MAJOR = {"time_major": False}
GRU = {"rnn_mode": "gru"}
HUGE = 2**31 - 1


def int32(*values) -> np.ndarray:
    return np.array(values, np.int32)


# Rules of the forward ops; the Backprop ops have them, too.
FORWARD = [
    Case(
        "input_rank",
        calls.FORWARD,
        "RNN input must be a 3-D vector. input must have shape [T,B,I], got [4,5]; pass a "
        "batch of sequences of feature vectors.",
        {"input": zeros(4, 5)},
    ),
    Case(
        "input_rank_batch_major",
        calls.V3,
        "RNN input must be a 3-D vector. input must have shape [B,T,I], got []; pass a batch "
        "of sequences of feature vectors.",
        {"input": zeros(), **BATCH_MAJOR},
    ),
    Case(
        "input_h_rank",
        calls.FORWARD,
        "RNN input_h must be a 3-D vector. input_h must have shape [L*D,B,H] = [?,3,?], got "
        "[3,4]; pass one initial state per layer and direction.",
        {"input_h": zeros(3, 4)},
    ),
    Case(
        "input_h_batch",
        calls.FORWARD,
        "Invalid input_h shape: [1,2,4] [1,3,4]. input_h must have shape [L*D,B,H] = [1,3,4] "
        "with D = 1 and L at least 1, got [1,2,4] beside an input of shape [4,3,5]; pass one "
        "state per layer, direction and batch row. (time_major is true: time comes first "
        "in input.)",
        {"input_h": zeros(1, 2, 4)},
    ),
    Case(
        "input_h_batch_major",
        calls.V3,
        "Invalid input_h shape: [3,2,4] [4,2,4]. input_h must have shape [B,L*D,H] = [4,2,4] "
        "with D = 2 and L at least 1, got [3,2,4] beside an input of shape [4,3,5]; pass one "
        "state per layer, direction and batch row. (time_major is false: the batch comes first in "
        "input.)",
        {"input_h": zeros(3, 2, 4), **BATCH_MAJOR, **BIDIRECTIONAL},
    ),
    Case(
        "input_h_half_a_layer",
        calls.FORWARD,
        "Invalid input_h shape: [3,3,4] [2,3,4]. input_h must have shape [L*D,B,H] = [2,3,4] "
        "with D = 2 and L at least 1, got [3,3,4]",
        {"input_h": zeros(3, 3, 4), **BIDIRECTIONAL},
    ),
    Case(
        "input_h_no_layer",
        calls.FORWARD,
        "Invalid input_h shape: [0,3,4] [1,3,4]. input_h must have shape [L*D,B,H] = [1,3,4]",
        {"input_h": zeros(0, 3, 4)},
    ),
    Case(
        "input_c_rank",
        calls.FORWARD,
        "RNN input_c must be a 3-D vector. input_c must have shape [L*D,B,H] = [1,3,?], got []; "
        "pass one initial cell state per layer and direction.",
        {"input_c": zeros()},
    ),
    Case(
        "input_c_units",
        calls.FORWARD,
        "input_h and input_c must have the same shape w/o projection: [1,3,4] [1,3,6]. Both "
        "must have shape [L*D,B,H]; if input_h is meant to have fewer features, set num_proj to "
        "their number (CudnnRNNV3 has it).",
        {"input_c": zeros(1, 3, 6)},
    ),
    Case(
        "input_c_layers",
        calls.FORWARD,
        "input_h and input_c must have the same shape w/o projection: [1,3,4] [2,3,4].",
        {"input_c": zeros(2, 3, 4)},
    ),
    Case(
        "input_c_batch",
        calls.FORWARD,
        "input_h and input_c must have the same shape w/o projection: [1,3,4] [1,2,4].",
        {"input_c": zeros(1, 2, 4)},
    ),
    Case(
        "num_proj_is_not_that_of_input_h",
        calls.V3,
        "Invalid input_h and input_c w/ projection size: 2 [1,3,3] [1,3,4]. input_h must have "
        "shape [L*D,B,P] with P = num_proj, and input_c [L*D,B,H] with H >= num_proj >= 1, got "
        "num_proj = 2; give input_h the last dimension 2, or set num_proj to the one that it has "
        "(H is no projection).",
        {"input_h": zeros(1, 3, 3), "num_proj": 2},
    ),
    Case(
        "num_proj_beyond_units",
        calls.V3,
        "Invalid input_h and input_c w/ projection size: 6 [1,3,6] [1,3,4]. input_h must have "
        "shape [L*D,B,P] with P = num_proj, and input_c [L*D,B,H] with H >= num_proj >= 1, got "
        "num_proj = 6; num_proj cannot be more than the last dimension of input_c.",
        {"input_h": zeros(1, 3, 6), "num_proj": 6},
    ),
    Case(
        "num_proj_beyond_both_states",
        calls.V3,
        "num_proj = 6; num_proj cannot be more than the last dimension of input_c.",
        {"num_proj": 6},
    ),
    Case(
        "num_proj_negative",
        calls.V3,
        "num_proj must be in [0, num_units], got -1; 0 is for no projection.",
        {"num_proj": -1},
    ),
    Case(
        "num_proj_other_rows",
        calls.V3,
        "Invalid input_h and input_c w/ projection size: 2 [1,3,2] [2,3,4]. input_h must have "
        "shape [L*D,B,P] with P = num_proj, and input_c [L*D,B,H] with H >= num_proj >= 1, got "
        "num_proj = 2; pass one cell state for each state of input_h.",
        {"input_h": zeros(1, 3, 2), "input_c": zeros(2, 3, 4), "num_proj": 2},
    ),
    Case(
        "num_proj_without_lstm",
        calls.V3,
        'num_proj must be 0 unless rnn_mode is "lstm": only LSTM cells have a projection, got '
        "num_proj = 4.",
        {"num_proj": 4, **GRU},
    ),
    Case(
        "sequence_lengths_rank",
        calls.V3,
        "sequence_lengths must have shape [B] = [3], got []; pass one length per batch row of "
        "input.",
        {"sequence_lengths": zeros(dtype=np.int32)},
    ),
    Case(
        "sequence_lengths_too_few",
        calls.V3,
        "sequence_lengths must have shape [B] = [3], got [2]; pass one length per batch row of "
        "input.",
        {"sequence_lengths": int32(4, 2)},
    ),
    Case(
        "sequence_length_beyond_time",
        calls.V3,
        "sequence_lengths[1] must be in [0, T] = [0, 4], got 5; a row cannot be longer than "
        "the time dimension of input.",
        {"sequence_lengths": int32(4, 5, 1)},
    ),
    Case(
        "sequence_length_negative",
        calls.V3,
        "sequence_lengths[2] must be in [0, T] = [0, 4], got -1.",
        {"sequence_lengths": int32(4, 2, -1)},
    ),
    Case(
        "params_rank",
        calls.FORWARD,
        "RNN params must be a 1-D vector. params must have shape [N], got [11,16]; flatten it.",
        {"params": zeros(11, 16)},
    ),
    Case(
        "params_too_short",
        calls.FORWARD,
        "Mismatching RNN parameter size. params must have shape [N] = [176] for rnn_mode = "
        "lstm, num_layers = 1, "
        "directions = 1, num_units = 4, input_size = 5, got [175]; tf_cudnn_rnn.params_size and "
        "CudnnRNNParamsSize tell N for the same options. (input has shape [4,3,5], input_h "
        "[1,3,4])",
        {"params": zeros(175)},
    ),
    Case(
        "params_too_long",
        calls.FORWARD,
        "params must have shape [N] = [176] for rnn_mode = lstm, num_layers = 1, "
        "directions = 1, num_units = 4, "
        "input_size = 5, got [177];",
        {"params": zeros(177)},
    ),
    Case(
        "params_of_another_projection",
        calls.V3,
        "params must have shape [N] = [152] for rnn_mode = lstm, num_layers = 1, "
        "directions = 1, num_units = 4, "
        "input_size = 5, num_proj = 2, got [176];",
        {"input_h": zeros(1, 3, 2), "num_proj": 2},
    ),
    Case(
        "params_of_linear_input",
        calls.FORWARD,
        "params must have shape [N] = [96] for rnn_mode = lstm, num_layers = 1, directions "
        "= 1, num_units = 4, "
        "input_size = 4, skipped input, got [176];",
        {"input": zeros(4, 3, 4), "input_mode": "auto_select"},
    ),
    Case(
        "params_overflow",
        calls.FORWARD,
        "the size of params overflows: num_layers = 1, directions = 1, num_units = 1099511627776, "
        "input_size = 5, num_proj = 0 need more elements than 64 bits can count in bytes. "
        "(input has shape [4,0,5], "
        "input_h [1,0,1099511627776])",
        {
            "input": zeros(4, 0, 5),
            "input_h": zeros(1, 0, 2**40),
            "input_c": zeros(1, 0, 2**40),
            "sequence_lengths": int32(),
        },
    ),
    Case(
        "no_time",
        calls.FORWARD,
        "max_seq_length <= 0. input must have shape [T,B,I] with T at least 1, got [0,3,5].",
        {"input": zeros(0, 3, 5)},
    ),
    Case(
        "no_features",
        calls.FORWARD,
        "input must have shape [T,B,I] with I at least 1, got [4,3,0].",
        {"input": zeros(4, 3, 0)},
    ),
    Case(
        "no_units",
        calls.FORWARD,
        "input_h must have shape [L*D,B,H] with H at least 1, got [1,3,0].",
        {"input_h": zeros(1, 3, 0), "input_c": zeros(1, 3, 0)},
    ),
    Case(
        "no_units_gru",
        calls.FORWARD,
        "input_h must have shape [L*D,B,H] with H at least 1, got [1,3,0].",
        {"input_h": zeros(1, 3, 0), **GRU},
    ),
    Case(
        "skip_input",
        calls.FORWARD,
        'input_mode "skip_input" needs input_size == num_units, got input_size = 5 and '
        'num_units = 4; use "linear_input". (input has shape [4,3,5], input_h [1,3,4])',
        {"input_mode": "skip_input"},
    ),
    Case(
        "dropout_beyond_1",
        calls.FORWARD,
        "dropout must be in [0, 1], got 1.5",
        {"dropout": 1.5},
    ),
    Case(
        "dropout_negative",
        calls.FORWARD,
        "dropout must be in [0, 1], got -0.5",
        {"dropout": -0.5},
    ),
    Case("dropout_nan", calls.FORWARD, "dropout must be in [0, 1], got ", {"dropout": NAN}),
]

FORWARD_ONLY = [
    Case(
        "rng_seed_rank",
        (calls.OWN + "CudnnRNNV3",),
        "rng_seed must have shape [2], got []; pass two int64 numbers.",
        {"rng_seed": zeros(dtype=np.int64)},
    ),
    Case(
        "rng_seed_size",
        (calls.OWN + "CudnnRNNV3",),
        "rng_seed must have shape [2], got [3]; pass two int64 numbers.",
        {"rng_seed": zeros(3, dtype=np.int64)},
    ),
]


# What breaks these rules are weights, which are other tensors here, or dropout, which is none.
_OTHERWISE_IN_INT8 = ("params", "dropout")
INT8_NETWORK = "for rnn_mode = lstm, num_layers = 1, directions = 1, num_units = 4, input_size = "
INT8_SHAPES = (
    "; tf_cudnn_rnn.weights.quantize returns weights, scales and biases that go together. (input "
    "has shape [4,3,5], input_h [1,3,4])"
)
SCALES = "scales must be finite and not negative, got scales"
PROJECTED = {"input_h": zeros(1, 3, 2), "num_proj": 2}


def int8(*shape: int) -> np.ndarray:
    return zeros(*shape, dtype=np.int8)


def _scales(place: int, value: float) -> dict:
    scales = zeros(32)
    scales[place] = value
    return {"scales": scales}


def _int8_case(name: str, message: str, changes: dict) -> Case:
    return Case(name, (calls.INT8,), message, changes)


INT8 = [
    *(
        dataclasses.replace(case, ops=(calls.INT8,))
        for case in FORWARD
        if not case.name.startswith(_OTHERWISE_IN_INT8) or case.name == "params_overflow"
    ),
    *(
        _int8_case(
            f"{name}_rank",
            f"{name} must have shape [{letter}], got {shape}; flatten it.",
            {name: wrong},
        )
        for name, letter, shape, wrong in (
            ("weights", "N", "[9,16]", int8(9, 16)),
            ("scales", "M", "[]", zeros()),
            ("biases", "K", "[8,4]", zeros(8, 4)),
        )
    ),
    _int8_case(
        "weights_rank_beside_skip_input",
        "weights must have shape [N], got [];",
        {"weights": int8(), "input_mode": "skip_input"},
    ),
    *(
        _int8_case(
            f"{name}_{what}",
            f"{name} must have shape [{letter}] = [{size}] {INT8_NETWORK}5, got [{size + more}]"
            f"{INT8_SHAPES}",
            {name: zeros(size + more, dtype=dtype)},
        )
        for name, letter, size, dtype in (
            ("weights", "N", 144, np.int8),
            ("scales", "M", 32, np.float32),
            ("biases", "K", 32, np.float32),
        )
        for what, more in (("too_few", -1), ("too_many", 1))
    ),
    _int8_case(
        "weights_of_another_projection",
        f"weights must have shape [N] = [120] {INT8_NETWORK}5, num_proj = 2, got [144];",
        PROJECTED,
    ),
    _int8_case(
        "scales_of_another_projection",
        f"scales must have shape [M] = [34] {INT8_NETWORK}5, num_proj = 2, got [32];",
        {"weights": int8(120), **PROJECTED},
    ),
    _int8_case(
        "scales_of_linear_input",
        f"scales must have shape [M] = [16] {INT8_NETWORK}4, skipped input, got [32];",
        {"input": zeros(4, 3, 4), "weights": int8(64), "input_mode": "auto_select"},
    ),
    _int8_case(
        "rows_too_long",
        "int8 weights can have rows of at most 131072 elements, got 131073 ",
        {
            "input": zeros(4, 0, 2**17 + 1),
            "input_h": zeros(1, 0, 4),
            "input_c": zeros(1, 0, 4),
            "sequence_lengths": int32(),
        },
    ),
    _int8_case("scales_nan", f"{SCALES}[31] = nan", _scales(31, NAN)),
    _int8_case("scales_below_zero", f"{SCALES}[3] = -", _scales(3, -1e-45)),
    _int8_case("scales_infinite", f"{SCALES}[0] = inf", _scales(0, float("inf"))),
    _int8_case(
        "scales_negative",
        f"{SCALES}[7] = -1e-09; that of a row is its largest magnitude, divided by 127.",
        _scales(7, -1e-9),
    ),
]


def _of_forward(name: str, required: str, letters: str) -> list[Case]:
    """The rules for a tensor that the forward op returned, or its gradient."""
    return [
        Case(
            f"{name}_{rule}",
            calls.BACKPROP,
            f"Invalid {name} shape: {shape} {required}. {name} must have shape {letters} = "
            f"{required} as in the forward call, got {shape}.",
            {name: value},
        )
        for rule, shape, value in (
            ("shape", "[4,3,6]", zeros(4, 3, 6)),
            ("rank", "[4]", zeros(4)),
        )
    ]


OTHER_CALL = (
    "reserve_space was made by a call of other options, sizes or sequence_lengths; pass the "
    "reserve_space of the forward call being differentiated, with the same attributes and "
    "inputs."
)

BACKPROP = [
    *(
        dataclasses.replace(case, ops=tuple(op.replace("RNN", "RNNBackprop") for op in case.ops))
        for case in FORWARD
    ),
    *_of_forward("output", "[4,3,4]", "[T,B,D*H]"),
    *_of_forward("output_backprop", "[4,3,4]", "[T,B,D*H]"),
    *_of_forward("output_h", "[1,3,4]", "[L*D,B,H]"),
    *_of_forward("output_h_backprop", "[1,3,4]", "[L*D,B,H]"),
    *_of_forward("output_c", "[1,3,4]", "[L*D,B,H]"),
    *_of_forward("output_c_backprop", "[1,3,4]", "[L*D,B,H]"),
    Case(
        "reserve_space_of_inference",
        calls.BACKPROP,
        "reserve_space must have rank 1, got []: the forward op ran with is_training=False; run "
        "it with is_training=True.",
        {"reserve_space": zeros()},
    ),
    Case(
        "reserve_space_rank",
        calls.BACKPROP,
        "reserve_space must have rank 1, got [2,3]; pass what the forward op returned.",
        {"reserve_space": zeros(2, 3)},
    ),
    Case(
        "reserve_space_empty",
        calls.BACKPROP,
        "elements that the forward op makes for these sizes and options, got 0; pass the "
        "reserve_space of the forward call being differentiated, made with is_training=True.",
        {"reserve_space": zeros(0)},
    ),
    Case(
        "host_reserved_of_inference",
        ("CudnnRNNBackpropV2",),
        "host_reserved must have shape [2], got []; pass what CudnnRNNV2 returned with "
        "is_training=True.",
        {"host_reserved": zeros(dtype=np.int8)},
    ),
]

SIZES = [
    *(
        Case(
            f"{name}_rank",
            (*calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS),
            f"{name} is not a scalar: it must have shape [], got [1]; pass one int32 number.",
            {name: int32(1)},
        )
        for name in ("num_layers", "num_units", "input_size")
    ),
    *(
        Case(
            f"{name}_{value}",
            (*calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS),
            f"{name} must be at least 1, got {value}.",
            {name: value},
        )
        for name in ("num_layers", "num_units", "input_size")
        for value in (0, -1, -3)
    ),
    Case(
        "overflow",
        (*calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS),
        f"the size of params overflows: num_layers = {HUGE}, directions = 1, num_units = {HUGE}, "
        f"input_size = {HUGE}, num_proj = 0 need more elements than 64 bits can count in bytes.",
        {"num_layers": HUGE, "num_units": HUGE, "input_size": HUGE},
    ),
    Case(
        "num_proj_without_lstm",
        (*calls.PARAMS_SIZE, *calls.TO_CANONICAL_V2, *calls.TO_PARAMS_V2),
        'num_proj must be 0 unless rnn_mode is "lstm": only LSTM cells have a projection, got '
        "num_proj = 2.",
        {"num_proj": 2, **GRU},
    ),
    Case(
        "num_proj_beyond_units",
        (*calls.PARAMS_SIZE, *calls.TO_CANONICAL_V2, *calls.TO_PARAMS_V2),
        "num_proj must be in [0, num_units] = [0, 4], got 5.",
        {"num_proj": 5},
    ),
    Case(
        "num_proj_negative",
        (*calls.PARAMS_SIZE, *calls.TO_CANONICAL_V2, *calls.TO_PARAMS_V2),
        # Shape functions do not always know num_units.
        "num_proj must be in [0, num_units]",
        {"num_proj": -1},
    ),
    Case(
        "skip_input",
        (*calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS),
        'input_mode "skip_input" needs input_size == num_units, got input_size = 5 and '
        'num_units = 4; use "linear_input".',
        {"input_mode": "skip_input"},
    ),
    Case(
        "dropout",
        (*calls.PARAMS_SIZE, *calls.TO_CANONICAL, *calls.TO_PARAMS),
        "dropout must be in [0, 1], got ",
        {"dropout": NAN},
    ),
    Case(
        "size_does_not_fit",
        calls.PARAMS_SIZE,
        "params_size does not fit S = int32: params must have 40001600000 elements; use S = int64.",
        {"num_units": 100000, "input_size": 2},
    ),
]

PER_LAYER = "for rnn_mode = lstm, num_layers = 1, directions = 1, num_units = 4, input_size = 5"

CANONICAL = [
    Case(
        "weights_of_a_layer_missing",
        calls.TO_CANONICAL_V2,
        "Number of params (weights) is not a multipleof num_layers * num_dirs. "
        "num_params_weights must be L*D*2*G = 16 for rnn_mode = lstm, num_layers = 1, "
        "directions = 2, num_units = "
        "4, input_size = 5, got 15.",
        {"num_params_weights": 15, "num_params_biases": 16, **BIDIRECTIONAL},
    ),
    Case(
        "weights_of_a_layer_missing_v1",
        ("CudnnRNNParamsToCanonical",),
        "Number of params (weights) is not a multipleof num_layers * num_dirs. num_params must "
        "be L*D*2*G = 16 for",
        {"num_params": 15, **BIDIRECTIONAL},
    ),
    Case(
        "biases_of_a_layer_missing",
        calls.TO_CANONICAL_V2,
        "Number of params (biases) is not a multipleof num_layers * num_dirs. num_params_biases "
        "must be L*D*2*G = 16 for rnn_mode = lstm, num_layers = 1, directions = 2, "
        "num_units = 4, input_size = 5, "
        "got 15.",
        {"num_params_weights": 16, "num_params_biases": 15, **BIDIRECTIONAL},
    ),
    Case(
        "weights_odd",
        calls.TO_CANONICAL_V2,
        "Number of params (weights) per layer is notan even number with no projection. "
        f"num_params_weights must be L*D*2*G = 8 {PER_LAYER}, got 9.",
        {"num_params_weights": 9},
    ),
    Case(
        "weights_even",
        calls.TO_CANONICAL_V2,
        "Number of params (weights) per layer is notan odl number with projection. "
        f"num_params_weights must be L*D*(2*G + 1) = 9 {PER_LAYER}, num_proj = 2, got 8.",
        {"num_proj": 2},
    ),
    Case(
        "weights_too_many",
        calls.TO_CANONICAL_V2,
        "C Number of params mismatch. Expected 10, got 8. num_params_weights must be L*D*2*G = "
        f"8 {PER_LAYER}, got 10.",
        {"num_params_weights": 10},
    ),
    Case(
        "biases_too_few",
        calls.TO_CANONICAL_V2,
        "A Number of params mismatch. Expected 7, got 8. num_params_biases must be L*D*2*G = 8 "
        f"{PER_LAYER}, got 7.",
        {"num_params_biases": 7},
    ),
    Case(
        "far_too_many_layers",
        (*calls.TO_CANONICAL, *calls.TO_PARAMS),
        "Number of params (weights) is not a multipleof num_layers * num_dirs. ",
        {"num_layers": HUGE},
    ),
    Case(
        "params_rank",
        calls.TO_CANONICAL,
        "RNN params must be a 1-D vector. params must have shape [N], got [11,16]; flatten it.",
        {"params": zeros(11, 16)},
    ),
    Case(
        "params_too_short",
        calls.TO_CANONICAL,
        f"Mismatching RNN parameter size. params must have shape [N] = [176] {PER_LAYER}, got "
        "[175]; tf_cudnn_rnn.params_size and CudnnRNNParamsSize tell N for the same options.",
        {"params": zeros(175)},
    ),
    Case(
        "weights_missing",
        calls.TO_PARAMS_V2,
        "C Number of params mismatch. Expected 6, got 8. num_params_weights must be L*D*2*G = 8 "
        f"{PER_LAYER}, got 6.",
        {"weights": [zeros(4, 5)] * 4 + [zeros(4, 4)] * 2},
    ),
    Case(
        "weight_size",
        calls.TO_PARAMS,
        "Params size mismatch. Expected 20, got 16. weights[3] must have the 20 elements of "
        "shape [4,5], got [4,4].",
        {"weights": [zeros(4, 5)] * 3 + [zeros(4, 4)] * 5},
    ),
    Case(
        "bias_size",
        calls.TO_PARAMS,
        "Params size mismatch. Expected 4, got 5. biases[7] must have the 4 elements of shape "
        "[4], got [5].",
        {"biases": [zeros(4)] * 7 + [zeros(5)]},
    ),
]

TABLES = {
    "forward": FORWARD + FORWARD_ONLY,
    "int8": INT8,
    "backprop": BACKPROP,
    "sizes": SIZES,
    "canonical": CANONICAL,
}


CALLS = [
    pytest.param(op, case, id=f"{table}-{case.name}-{op.replace(' ', '_')}")
    for table, table_cases in TABLES.items()
    for case in table_cases
    for op in case.ops
]


def _arguments(op: str, case: Case) -> dict:
    changes = dict(case.changes)
    if op not in (*calls.V3, *calls.BACKPROP_V3, calls.INT8):
        changes.pop("sequence_lengths", None)
    return calls.arguments(op, **changes)


@pytest.mark.parametrize(("op", "case"), CALLS)
def test_eager(op, case):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        calls.function(op)(**_arguments(op, case))
    assert case.message in error.value.message


@pytest.mark.parametrize(("op", "case"), CALLS)
def test_graph_that_runs(op, case):
    # The shape functions of our own ops see wrong attributes while the graph is
    # traced, where TensorFlow turns errors into ValueError.
    traced = (ValueError,) if op.startswith(calls.OWN) else ()
    with pytest.raises((tf.errors.InvalidArgumentError, *traced)) as error:
        calls.run_in_graph(op, _arguments(op, case))
    assert case.message in str(error.value)


@pytest.mark.parametrize("op", (*calls.FORWARD, *calls.BACKPROP, calls.INT8))
def test_unchanged_calls_are_valid(op):
    calls.function(op)(**calls.arguments(op))
    calls.run_in_graph(op, calls.arguments(op))


# Forward calls whose reserve_space belongs to another Backprop than the usual one.
OTHER_FORWARD_CALLS = {
    "other_lengths_of_equal_sum": {"sequence_lengths": int32(1, 4, 2)},
    "other_lengths": {"sequence_lengths": int32(4, 2, 2)},
    "one_layer_more": {
        "input_h": zeros(2, 3, 4),
        "input_c": zeros(2, 3, 4),
        "params": zeros(176 + 160),
    },
    "other_input_size": {"input": zeros(4, 3, 6), "params": zeros(192)},
    "other_direction": {
        "direction": "bidirectional",
        "input_h": zeros(2, 3, 4),
        "input_c": zeros(2, 3, 4),
        "params": zeros(352),
    },
    "other_dropout": {"dropout": 0.25},
    "other_mode": {"rnn_mode": "gru", "params": zeros(132)},
    "other_input_mode": {
        "input": zeros(4, 3, 4),
        "input_mode": "skip_input",
        "params": zeros(96),
    },
}


@pytest.mark.parametrize("name", OTHER_FORWARD_CALLS)
@pytest.mark.parametrize("op", calls.BACKPROP_V3)
def test_reserve_space_of_another_call(op, name):
    forward_op = op.replace("Backprop", "")
    other = calls.function(forward_op)(**calls.arguments(forward_op, **OTHER_FORWARD_CALLS[name]))
    arguments = calls.arguments(op, reserve_space=other.reserve_space)
    with pytest.raises(tf.errors.InvalidArgumentError, match="^.*reserve_space ") as error:
        calls.function(op)(**arguments)
    usual = calls.arguments(op)["reserve_space"]
    if other.reserve_space.shape == usual.shape:
        assert OTHER_CALL in error.value.message


@pytest.mark.parametrize("op", calls.BACKPROP_V3)
def test_reserve_space_of_the_other_time_major(op):
    # T = B and L*D = B: every shape is right in both layouts.
    square = {
        "input": zeros(2, 2, 5),
        "input_h": zeros(2, 2, 4),
        "input_c": zeros(2, 2, 4),
        "params": zeros(176 + 160),
        "sequence_lengths": int32(2, 2),
    }
    forward_op = op.replace("Backprop", "")
    forward = calls.function(forward_op)(**calls.arguments(forward_op, **square))
    states = {name: zeros(2, 2, 4) for name in ("output_h", "output_c")}
    arguments = calls.arguments(
        op,
        **square,
        output=zeros(2, 2, 4),
        output_backprop=zeros(2, 2, 4),
        **states,
        **{f"{name}_backprop": value for name, value in states.items()},
        reserve_space=forward.reserve_space,
    )
    calls.function(op)(**arguments)
    with pytest.raises(tf.errors.InvalidArgumentError, match=OTHER_CALL):
        calls.function(op)(**arguments | {"time_major": False})


@pytest.mark.parametrize("value", [0.0, 1.0, NAN, float("inf"), -1.0, 255.0, 1e30])
@pytest.mark.parametrize("op", calls.BACKPROP)
def test_reserve_space_of_nonsense(op, value):
    usual = calls.arguments(op)["reserve_space"]
    arguments = calls.arguments(op, reserve_space=tf.fill(usual.shape, np.float32(value)))
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        calls.function(op)(**arguments)
    assert OTHER_CALL in error.value.message


@pytest.mark.parametrize("op", calls.BACKPROP)
def test_reserve_space_truncated(op):
    usual = calls.arguments(op)["reserve_space"]
    size = usual.shape[0]
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        calls.function(op)(**calls.arguments(op, reserve_space=usual[:-1]))
    assert (
        f"reserve_space must have the {size} elements that the forward op makes for these "
        f"sizes and options, got {size - 1};" in error.value.message
    )


@pytest.mark.parametrize("name", ["input_c", "output_c", "output_c_backprop"])
@pytest.mark.parametrize("op", calls.BACKPROP)
def test_cell_states_are_ignored_unless_lstm(op, name):
    changes = (("rnn_mode", "gru"), ("params", zeros(132)))
    arguments = calls.backprop_arguments(op, changes, **{name: zeros(2, 7)})
    gradients = calls.function(op)(**arguments)
    assert gradients.input_c_backprop.shape == arguments["input_c"].shape
    assert not gradients.input_c_backprop.numpy().any()


@pytest.mark.parametrize("seed", ["seed", "seed2"])
@pytest.mark.parametrize(
    "op",
    [
        op
        for op in (
            *calls.FORWARD,
            *calls.BACKPROP,
            *calls.PARAMS_SIZE,
            *calls.TO_CANONICAL,
            *calls.TO_PARAMS,
        )
        if not op.startswith(calls.OWN)
    ],
)
def test_seeds_beyond_int32(op, seed):
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        calls.function(op)(**calls.arguments(op), **{seed: 2**40})
    assert f"Attr {seed} has value 1099511627776 out of range for an int32" in error.value.message


@pytest.mark.parametrize("op", ["CudnnRNNV3", "CudnnRNNBackpropV3"])
def test_batch_major_states_of_another_name(op, monkeypatch):
    arguments = calls.arguments(op)
    monkeypatch.setenv("TF_CUDNN_RNN_BATCH_MAJOR_STATES", "gpu")
    with pytest.raises(tf.errors.InvalidArgumentError) as error:
        # A seed of its own makes TensorFlow construct another kernel.
        calls.function(op)(**arguments, seed=54321)
    assert (
        "The environment variable TF_CUDNN_RNN_BATCH_MAJOR_STATES must be "
        '"documented" or "cudnn", got "gpu"; unset it for the documented meaning.'
        in error.value.message
    )


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        ({"rnn_mode": "rnn"}, "rnn_mode"),
        ({"input_mode": "skip"}, "input_mode"),
        ({"direction": "backward"}, "direction"),
    ],
)
@pytest.mark.parametrize("op", (*calls.FORWARD, calls.INT8))
def test_attributes_of_unknown_value(op, attribute, message):
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=message):
        calls.function(op)(**calls.arguments(op, **attribute))


@pytest.mark.parametrize(
    "changes",
    [
        {"input": zeros(4, 3, 5, dtype=np.int32)},
        {"params": zeros(176, dtype=np.float64)},
        {"sequence_lengths": np.array([4, 2, 1], np.int64)},
    ],
    ids=["int32 input", "double params", "int64 sequence_lengths"],
)
@pytest.mark.parametrize("op", calls.V3)
def test_dtypes(op, changes):
    arguments = {name: tf.constant(value) for name, value in calls.arguments(op, **changes).items()}
    with pytest.raises((tf.errors.InvalidArgumentError, TypeError, ValueError)):
        calls.function(op)(**arguments)


@pytest.mark.parametrize("dtype", [tf.int64, tf.float32])
def test_lengths_of_another_type(dtype):
    arguments = calls.arguments("own CudnnRNNV3")
    lengths = tf.constant(arguments["sequence_lengths"], dtype)
    message = rf"`sequence_lengths` must be int32; got {dtype.name}. Pass tf.cast"
    with pytest.raises(TypeError, match=message):
        calls.function("own CudnnRNNV3")(**{**arguments, "sequence_lengths": lengths})


def call_with(is_graph: bool, **changes):
    """Calls the own op with these arguments and otherwise right ones."""
    arguments = {**calls.arguments("own CudnnRNNV3"), **changes}

    def call():
        return calls.function("own CudnnRNNV3")(**arguments)

    return (tf.function(call, autograph=False) if is_graph else call)()


@pytest.mark.parametrize(
    "lengths, error, says",
    [
        (np.array([1.5, 2, 1]), TypeError, "must be int32; got float64. Pass np.asarray"),
        (np.array([True, True, True]), TypeError, "must be int32; got bool"),
        (np.array([1, 2, 1], object), TypeError, "must be int32; got object"),
        ([1, 2.5, 1], TypeError, "must be int32; got float64"),
        ([1, np.float32(2.5), 1], TypeError, "must be int32; got float32"),
        (np.array([2**32 + 3, 1, 1]), ValueError, "must fit in an int32; got numbers from 1 to"),
        (np.array([-(2**31) - 1, 1, 1]), ValueError, "must fit in an int32"),
        (np.array([2**31, 1, 1], np.uint32), ValueError, "must fit in an int32"),
        ([2**32 + 3, 1, 1], ValueError, "must fit in an int32"),
        ((np.int64(2**32 + 3), 1, 1), ValueError, "must fit in an int32"),
    ],
)
@pytest.mark.parametrize("is_graph", [False, True])
def test_lengths_that_tensorflow_would_change(lengths, error, says, is_graph):
    with pytest.raises(error, match=f"`sequence_lengths` {says}"):
        call_with(is_graph, sequence_lengths=lengths)


@pytest.mark.parametrize(
    "rng_seed, error, says",
    [
        (np.array([1.9, 2.7]), TypeError, "must be int64; got float64. Pass np.asarray"),
        ([1.5, 2], TypeError, "must be int64; got float64"),
        (tf.constant([1, 2]), TypeError, "must be int64; got int32. Pass tf.cast"),
        (np.array([2**63, 1], np.uint64), ValueError, "must fit in an int64; got numbers from 1"),
        ([2**63, 1], ValueError, "must fit in an int64; got numbers from 1 to 9223372036854775808"),
        ([-(2**63) - 1, 1], ValueError, "must fit in an int64"),
    ],
)
@pytest.mark.parametrize("is_graph", [False, True])
def test_dropout_keys_that_tensorflow_would_change(rng_seed, error, says, is_graph):
    """Two of them could then give one mask."""
    with pytest.raises(error, match=f"`rng_seed` {says}"):
        call_with(is_graph, rng_seed=rng_seed)


@pytest.mark.parametrize("kind", [list, tuple, np.array, tf.constant, np.uint64, np.int32])
def test_dropout_keys_of_every_kind_that_is_right(kind):
    key = kind([5, 6], tf.int64) if kind is tf.constant else kind([5, 6])
    expected = call_with(False, dropout=0.5, rng_seed=[5, 6]).output
    for is_graph in (False, True):
        found = call_with(is_graph, dropout=0.5, rng_seed=key).output
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "kind", [list, tuple, np.array, tf.constant, np.int64, np.uint8, lambda x: list(np.array(x))]
)
def test_lengths_of_every_kind_that_is_right(kind):
    arguments = calls.arguments("own CudnnRNNV3")
    function = calls.function("own CudnnRNNV3")
    expected = function(**{**arguments, "sequence_lengths": np.array([4, 2, 1], np.int32)}).output
    found = function(**{**arguments, "sequence_lengths": kind([4, 2, 1])}).output
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dropout", [10**400, -(10**400)])
def test_dropout_beyond_any_float(dropout):
    arguments = calls.arguments("own CudnnRNNV3")
    with pytest.raises(ValueError, match=r"`dropout` must be in \[0, 1\]; got an integer of 1329"):
        calls.function("own CudnnRNNV3")(**{**arguments, "dropout": dropout})
