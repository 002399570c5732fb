"""The shape functions of our own ops: one table row a case, over placeholders.

A shape is a list, with None for what is unknown; None stands for an unknown rank.
"""

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.ops import calls

V3 = "own CudnnRNNV3"
INT8 = calls.INT8
BACKPROP = "own CudnnRNNBackpropV3"
SIZE = "own CudnnRNNParamsSize"
TO_CANONICAL = "own CudnnRNNParamsToCanonicalV2"
TO_PARAMS = "own CudnnRNNCanonicalToParamsV2"

INPUTS = {
    "input": (tf.float32, [4, 3, 5]),
    "input_h": (tf.float32, [1, 3, 4]),
    "input_c": (tf.float32, [1, 3, 4]),
    "params": (tf.float32, [176]),
    "sequence_lengths": (tf.int32, [3]),
    "rng_seed": (tf.int64, [2]),
    "output": (tf.float32, [4, 3, 4]),
    "output_h": (tf.float32, [1, 3, 4]),
    "output_c": (tf.float32, [1, 3, 4]),
    "output_backprop": (tf.float32, [4, 3, 4]),
    "output_h_backprop": (tf.float32, [1, 3, 4]),
    "output_c_backprop": (tf.float32, [1, 3, 4]),
    "reserve_space": (tf.float32, [404]),
    "host_reserved": (tf.int8, []),
    "weights": (tf.int8, [144]),
    "scales": (tf.float32, [32]),
    "biases": (tf.float32, [32]),
}
V3_INPUTS = tuple(INPUTS)[:6]
BACKPROP_INPUTS = (*tuple(INPUTS)[:5], *tuple(INPUTS)[6:-3])
INT8_INPUTS = (*V3_INPUTS[:3], *tuple(INPUTS)[-3:], "sequence_lengths")
NAMES = {V3: V3_INPUTS, BACKPROP: BACKPROP_INPUTS, INT8: INT8_INPUTS}
UNKNOWN = {name: None for name in INPUTS}
GRU = {"rnn_mode": "gru"}
GRU_WEIGHTS = {"weights": [108], "scales": [24]}
BIDIRECTIONAL = {"direction": "bidirectional"}
BATCH_MAJOR = {"time_major": False}


def _infer(op: str, shapes: dict, attributes: dict) -> list:
    """The static shapes of the outputs of `op`; lists stand for unknown dimensions."""
    with tf.Graph().as_default():
        tensors = {}
        for name in NAMES[op]:
            dtype, shape = INPUTS[name]
            tensors[name] = tf.compat.v1.placeholder(dtype, shapes.get(name, shape))
        outputs = calls.function(op)(**tensors, **attributes)
        return [_as_list(output.shape) for output in outputs]


def _as_list(shape: tf.TensorShape):
    return None if shape.rank is None else shape.as_list()


# name -> changed shapes, attributes, shapes of output, output_h, output_c, reserve_space
FORWARD_OK: dict[str, Any] = {
    "all_known": ({}, {}, [[4, 3, 4], [1, 3, 4], [1, 3, 4], [None]]),
    "inference": ({}, {"is_training": False}, [[4, 3, 4], [1, 3, 4], [1, 3, 4], []]),
    "nothing_known": (UNKNOWN, {}, [[None] * 3, [None] * 3, [None] * 3, [None]]),
    "nothing_known_gru": (UNKNOWN, GRU, [[None] * 3, [None] * 3, [], [None]]),
    "gru_ignores_input_c": (
        {"input_c": [7], "params": [132]},
        GRU,
        [[4, 3, 4], [1, 3, 4], [], [None]],
    ),
    "batch_from_lengths": (
        {**UNKNOWN, "sequence_lengths": [3]},
        {},
        [[None, 3, None], [None, 3, None], [None, 3, None], [None]],
    ),
    "states_from_input_c": (
        {**UNKNOWN, "input_c": [1, 3, 4]},
        {},
        [[None, 3, 4], [1, 3, 4], [1, 3, 4], [None]],
    ),
    "input_c_from_input_h": (
        {**UNKNOWN, "input_h": [1, None, 4]},
        {},
        [[None, None, 4], [1, None, 4], [1, None, 4], [None]],
    ),
    "projection_from_num_proj": (
        {**UNKNOWN, "input": [4, 3, 5]},
        {"num_proj": 2},
        [[4, 3, 2], [None, 3, 2], [None, 3, None], [None]],
    ),
    "projection": (
        {"input_h": [1, 3, 2], "params": [152]},
        {"num_proj": 2},
        [[4, 3, 2], [1, 3, 2], [1, 3, 4], [None]],
    ),
    "projection_to_all_units": (
        {},
        {"num_proj": 4},
        [[4, 3, 4], [1, 3, 4], [1, 3, 4], [None]],
    ),
    "bidirectional": (
        {"input_h": [4, 3, 4], "input_c": [4, 3, 4], "params": [800]},
        BIDIRECTIONAL,
        [[4, 3, 8], [4, 3, 4], [4, 3, 4], [None]],
    ),
    "batch_major": (
        {"input": [3, 4, 5], "input_h": [3, 1, 4], "input_c": [3, 1, 4]},
        BATCH_MAJOR,
        [[3, 4, 4], [3, 1, 4], [3, 1, 4], [None]],
    ),
    "batch_major_batch_from_lengths": (
        {**UNKNOWN, "sequence_lengths": [3]},
        BATCH_MAJOR,
        [[3, None, None], [3, None, None], [3, None, None], [None]],
    ),
    "empty_batch": (
        {
            "input": [4, 0, 5],
            "input_h": [1, 0, 4],
            "input_c": [1, 0, 4],
            "sequence_lengths": [0],
        },
        {},
        [[4, 0, 4], [1, 0, 4], [1, 0, 4], [None]],
    ),
    "skip_input_of_unknown_units": (
        {"input_h": None, "input_c": None, "params": None},
        {"input_mode": "skip_input"},
        [[4, 3, None], [None, 3, None], [None, 3, None], [None]],
    ),
}


@pytest.mark.parametrize("name", FORWARD_OK)
def test_forward(name):
    shapes, attributes, expected = FORWARD_OK[name]
    assert _infer(V3, shapes, attributes) == [*expected, []]  # host_reserved


# name -> changed shapes, attributes, message
FORWARD_ERRORS = {
    "input_rank": (
        {"input": [4, 5]},
        {},
        "RNN input must be a 3-D vector. input must have shape [T,B,I], got [4,5]; pass a batch "
        "of sequences of feature vectors.",
    ),
    "input_h_rank": (
        {"input": None, "input_h": [3, None]},
        {},
        "RNN input_h must be a 3-D vector. input_h must have shape [L*D,B,H], got [3,?]; pass "
        "one initial state per layer and direction.",
    ),
    "input_h_batch": (
        {"input_h": [None, 2, 4]},
        {},
        "Invalid input_h shape: [?,2,4] [?,3,4]. input_h must have shape [L*D,B,H] = [?,3,4]",
    ),
    "layers": (
        {"input": None, "input_h": [3, None, None]},
        BIDIRECTIONAL,
        "Invalid input_h shape: [3,?,?] [2,?,?]. input_h must have shape [L*D,B,H] = [2,?,?] "
        "with D = 2 and L at least 1, got [3,?,?] beside an input of shape <unknown>;",
    ),
    "layers_of_input_c": (
        {"input_h": None, "input_c": [3, None, None]},
        BIDIRECTIONAL,
        "Invalid input_c shape: [3,?,?]. input_c must have shape [L*D,B,H] = [3,3,?] with D = 2 "
        "and L at least 1; pass one state per layer, direction and batch row.",
    ),
    "input_c_rank": (
        {"input_c": []},
        {},
        "RNN input_c must be a 3-D vector. input_c must have shape [L*D,B,H] = [1,3,?], got [];",
    ),
    "input_c_units": (
        {"input_c": [None, None, 6]},
        {},
        "input_h and input_c must have the same shape w/o projection: [1,3,4] [?,?,6].",
    ),
    "projection": (
        {"input_h": [1, 3, None], "input_c": [1, 3, 2]},
        {"num_proj": 3},
        "Invalid input_h and input_c w/ projection size: 3 [1,3,?] [1,3,2].",
    ),
    "projection_of_other_rows": (
        {"input_h": None, "input_c": [1, 2, None]},
        {"num_proj": 3},
        "Invalid input_h and input_c w/ projection size: 3 <unknown> [1,2,?].",
    ),
    "projection_of_gru": (
        UNKNOWN,
        {"num_proj": 3, **GRU},
        'num_proj must be 0 unless rnn_mode is "lstm"',
    ),
    "lengths_rank": (
        {"sequence_lengths": [3, 1]},
        {},
        "sequence_lengths must have shape [B] = [3], got [3,1];",
    ),
    "lengths_size": (
        {"sequence_lengths": [2]},
        {},
        "sequence_lengths must have shape [B] = [3], got [2];",
    ),
    "params_rank": (
        {"params": [11, None]},
        {},
        "RNN params must be a 1-D vector. params must have shape [N], got [11,?]; flatten it.",
    ),
    "params_length": (
        {"params": [175]},
        {},
        "params must have shape [N] = [176] for rnn_mode = lstm, num_layers = 1, "
        "directions = 1, num_units = 4, "
        "input_size = 5, got [175];",
    ),
    "no_time": (
        {"input": [0, None, None]},
        {},
        "max_seq_length <= 0. input must have shape [T,B,I] with T at least 1, got [0,?,?].",
    ),
    "no_features": (
        {"input": [None, None, 0]},
        {},
        "input must have shape [T,B,I] with I at least 1, got [?,?,0].",
    ),
    "no_units": (
        {"input_h": [1, 3, 0], "input_c": None},
        {},
        "input_h must have shape [L*D,B,H] with H at least 1, got [1,3,0].",
    ),
    "skip_input": (
        {"params": None},
        {"input_mode": "skip_input"},
        'input_mode "skip_input" needs input_size == num_units',
    ),
    "dropout": (UNKNOWN, {"dropout": 1.5}, "dropout must be in [0, 1], got 1.5"),
    "rng_seed": ({"rng_seed": [3]}, {}, "rng_seed must have shape [2], got [3];"),
}


@pytest.mark.parametrize("name", FORWARD_ERRORS)
def test_forward_errors(name):
    shapes, attributes, message = FORWARD_ERRORS[name]
    with pytest.raises(ValueError) as error:
        _infer(V3, shapes, attributes)
    assert message in str(error.value)


NO_WEIGHTS = {"weights": None, "scales": None, "biases": None}


@pytest.mark.parametrize("name", FORWARD_OK)
def test_int8_infers_what_forward_does(name):
    shapes, attributes, expected = FORWARD_OK[name]
    attributes = {key: value for key, value in attributes.items() if key != "is_training"}
    assert _infer(INT8, {**shapes, **NO_WEIGHTS}, attributes) == expected[:3]


def test_int8_of_weights_that_fit():
    assert _infer(INT8, {}, {}) == [[4, 3, 4], [1, 3, 4], [1, 3, 4]]
    partly = {"weights": [None], "scales": None, "input": [None, 3, 5]}
    assert _infer(INT8, partly, {}) == [[None, 3, 4], [1, 3, 4], [1, 3, 4]]


@pytest.mark.parametrize("name", FORWARD_ERRORS)
def test_int8_errors_are_those_of_forward(name):
    shapes, attributes, message = FORWARD_ERRORS[name]
    if not {"params_rank", "params_length", "dropout", "rng_seed"} & {name}:
        with pytest.raises(ValueError) as error:
            _infer(INT8, {**shapes, **NO_WEIGHTS}, attributes)
        assert message in str(error.value)


# name -> changed shapes, attributes, message
INT8_ERRORS = {
    "weights_rank": ({"weights": [9, None]}, {}, "weights must have shape [N], got [9,?];"),
    "scales_rank": ({**UNKNOWN, "scales": []}, {}, "scales must have shape [M], got [];"),
    "biases_rank": ({"biases": [8, 4]}, {}, "biases must have shape [K], got [8,4]; flatten it."),
    "weights_length": (
        {"weights": [143]},
        {},
        "weights must have shape [N] = [144] for rnn_mode = lstm, num_layers = 1, directions = 1, "
        "num_units = 4, input_size = 5, got [143];",
    ),
    "scales_length": ({"scales": [33], "weights": None}, {}, "[M] = [32] for rnn_mode = lstm,"),
    "biases_length": ({"biases": [31], **GRU_WEIGHTS}, GRU, "[K] = [24] for rnn_mode = gru,"),
}


@pytest.mark.parametrize("name", INT8_ERRORS)
def test_int8_errors(name):
    shapes, attributes, message = INT8_ERRORS[name]
    with pytest.raises(ValueError) as error:
        _infer(INT8, shapes, attributes)
    assert message in str(error.value)


# name -> changed shapes, attributes, shapes of the gradients
BACKPROP_OK = {
    "all_known": ({}, {}, [[4, 3, 5], [1, 3, 4], [1, 3, 4], [176]]),
    "nothing_known": (UNKNOWN, {}, [[None] * 3, [None] * 3, [None] * 3, [None]]),
    "params_from_sizes": (
        {**UNKNOWN, "input": [None, None, 5], "input_h": [1, None, 4]},
        {},
        [[None, None, 5], [1, None, 4], [1, None, 4], [176]],
    ),
    "gru_returns_input_cs_shape": (
        {"input_c": [7], "output_c": [], "output_c_backprop": None, "params": [132]},
        GRU,
        [[4, 3, 5], [1, 3, 4], [7], [132]],
    ),
}


@pytest.mark.parametrize("name", BACKPROP_OK)
def test_backprop(name):
    shapes, attributes, expected = BACKPROP_OK[name]
    assert _infer(BACKPROP, shapes, attributes) == expected


BACKPROP_ERRORS = {
    "forward_rules_hold": (
        {"input": [4, 5]},
        {},
        "RNN input must be a 3-D vector.",
    ),
    "output": (
        {"output": [4, 3, 5]},
        {},
        "Invalid output shape: [4,3,5] [4,3,4]. output must have shape [T,B,D*H] = [4,3,4] as in "
        "the forward call, got [4,3,5].",
    ),
    "output_backprop_rank": (
        {"output_backprop": [4, 3]},
        {},
        "Invalid output_backprop shape: [4,3] [4,3,4].",
    ),
    "output_h": ({"output_h": [2, None, None]}, {}, "Invalid output_h shape: [2,?,?] [1,3,4]."),
    "output_h_backprop": ({"output_h_backprop": []}, {}, "Invalid output_h_backprop shape: []"),
    "output_c": ({"output_c": [1, 3, 5]}, {}, "Invalid output_c shape: [1,3,5] [1,3,4]."),
    "output_c_backprop": ({"output_c_backprop": []}, {}, "Invalid output_c_backprop shape: []"),
    "inference": (
        {"reserve_space": []},
        {},
        "reserve_space must have rank 1, got []: the forward op ran with is_training=False; run "
        "it with is_training=True.",
    ),
    "projected_letters": (
        {"input_h": [1, 3, 2], "params": [152], "output": [4, 3, 3]},
        {"num_proj": 2},
        "output must have shape [T,B,D*P] = [4,3,2]",
    ),
}


@pytest.mark.parametrize("name", BACKPROP_ERRORS)
def test_backprop_errors(name):
    shapes, attributes, message = BACKPROP_ERRORS[name]
    with pytest.raises(ValueError) as error:
        _infer(BACKPROP, shapes, attributes)
    assert message in str(error.value)


def _infer_canonical(op: str, known_sizes: bool = True, **changes) -> list:
    """The static shapes of the flattened outputs; None in sizes is a placeholder."""
    arguments = calls.arguments(op, **changes)
    with tf.Graph().as_default():
        for name in ("num_layers", "num_units", "input_size"):
            if not known_sizes or arguments[name] is None:
                arguments[name] = tf.compat.v1.placeholder(tf.int32, [])
        for name in ("params", "weights", "biases"):
            if name in arguments:
                arguments[name] = tf.nest.map_structure(_placeholder, arguments[name])
        outputs = tf.nest.flatten(calls.function(op)(**arguments))
        return [_as_list(output.shape) for output in outputs]


def _placeholder(value):
    if isinstance(value, np.ndarray):
        return tf.compat.v1.placeholder(tf.float32, value.shape)
    return tf.compat.v1.placeholder(tf.float32, value)


def test_params_size():
    assert _infer_canonical(SIZE) == [[1]]
    assert _infer_canonical(SIZE, known_sizes=False) == [[1]]


def test_params_to_canonical():
    exact = [[4, 5]] * 4 + [[4, 4]] * 4 + [[4]] * 8
    assert _infer_canonical(TO_CANONICAL) == exact
    assert _infer_canonical(TO_CANONICAL, params=tf.TensorShape(None)) == exact
    unknown = [[None, None]] * 8 + [[None]] * 8
    assert _infer_canonical(TO_CANONICAL, known_sizes=False) == unknown


def test_params_to_canonical_with_projection():
    shapes = _infer_canonical(
        TO_CANONICAL, num_proj=2, num_params_weights=9, params=tf.TensorShape([152])
    )
    assert shapes == [[4, 5]] * 4 + [[4, 2]] * 4 + [[2, 4]] + [[4]] * 8


def test_params_to_canonical_of_skipped_input():
    shapes = _infer_canonical(
        TO_CANONICAL, input_mode="skip_input", input_size=4, params=tf.TensorShape([96])
    )
    assert shapes == [[4, 0]] * 4 + [[4, 4]] * 4 + [[4]] * 8


def test_canonical_to_params():
    assert _infer_canonical(TO_PARAMS) == [[176]]
    assert _infer_canonical(TO_PARAMS, known_sizes=False) == [[None]]
    flat = [tf.TensorShape([20])] * 4 + [tf.TensorShape(None)] * 4
    assert _infer_canonical(TO_PARAMS, weights=flat) == [[176]]


# name -> op, changes, message
CANONICAL_ERRORS = {
    "negative_size": (SIZE, {"num_layers": -1}, "num_layers must be at least 1, got -1."),
    "negative_size_among_unknown_ones": (
        SIZE,
        {"num_layers": None, "num_units": 0, "input_size": None},
        "num_units must be at least 1, got 0.",
    ),
    "negative_num_proj_of_unknown_units": (
        SIZE,
        {"num_units": None, "num_proj": -1},
        "num_proj must be in [0, num_units], got -1.",
    ),
    "not_a_scalar": (SIZE, {"num_units": [4]}, "num_units is not a scalar: it must have"),
    "num_proj": (SIZE, {"num_proj": 5}, "num_proj must be in [0, num_units] = [0, 4], got 5."),
    "weights": (
        TO_CANONICAL,
        {"num_params_weights": 10},
        "C Number of params mismatch. Expected 10, got 8. num_params_weights must be L*D*2*G = 8",
    ),
    "biases": (
        TO_CANONICAL,
        {"num_params_biases": 7},
        "A Number of params mismatch. Expected 7, got 8.",
    ),
    "params_rank": (
        TO_CANONICAL,
        {"params": tf.TensorShape([11, 16])},
        "RNN params must be a 1-D vector. params must have shape [N], got [11,16]; flatten it.",
    ),
    "params_length": (
        TO_CANONICAL,
        {"params": tf.TensorShape([175])},
        "params must have shape [N] = [176] for",
    ),
    "weight_size": (
        TO_PARAMS,
        {"weights": [tf.TensorShape([4, 5])] * 8},
        "Params size mismatch. Expected 16, got 20. weights[4] must have the 16 elements of "
        "shape [4,4], got [4,5].",
    ),
    "bias_size": (
        TO_PARAMS,
        {"biases": [tf.TensorShape([4])] * 7 + [tf.TensorShape([5])]},
        "Params size mismatch. Expected 4, got 5. biases[7] must have the 4 elements of shape",
    ),
}


@pytest.mark.parametrize("name", CANONICAL_ERRORS)
def test_canonical_errors(name):
    op, changes, message = CANONICAL_ERRORS[name]
    with pytest.raises(ValueError) as error:
        _infer_canonical(op, **changes)
    assert message in str(error.value)
