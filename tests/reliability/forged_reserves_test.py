"""A reserve_space that no forward call made, or another one: an error, or other numbers at most."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import running
from tests.ops import calls
from tests.reference import judge
from tests.reliability import refusals
from tests.reliability.refusals import INVALID, assert_refused

HEADER = 96  # elements that tell the call


def _reader_arguments(op: str, dtype) -> dict:
    """Of a valid call in that type, which takes the reserve_space of another one."""
    forward_op = calls.OWN + "CudnnRNNV3"
    if op != calls.READ_RESERVE:
        forward_op = op.replace("Backprop", "")
    changes = {}
    for name, value in calls.forward_arguments(forward_op).items():
        if name == "biases":
            changes[name] = [bias.astype(dtype) for bias in value]
        elif value.dtype == np.float32:
            changes[name] = value.astype(dtype)
    if op != calls.READ_RESERVE:
        return calls.backprop_arguments(op, tuple(changes.items()))
    outputs = calls.function(forward_op)(**calls.forward_arguments(forward_op, **changes))
    changes["M"] = tf.float64 if dtype == np.float64 else tf.float32
    return calls.arguments(op, reserve_space=outputs.reserve_space, **changes)


@pytest.mark.parametrize("shape", [[], [1, -1], [-1, 1], [1, 1, -1]], ids=str)
@pytest.mark.parametrize("op", refusals.READERS)
def test_another_rank(op, shape):
    reserve = calls.arguments(op)["reserve_space"].numpy()
    forged = reserve.reshape(shape) if shape else reserve[0]
    assert_refused(op, "reserve_space must have rank 1", reserve_space=forged)


@pytest.mark.parametrize("op", refusals.READERS)
def test_another_size(op):
    reserve = calls.arguments(op)["reserve_space"].numpy()
    sizes = (0, 1, 8, HEADER - 1, HEADER, len(reserve) - 1, len(reserve) + 1, 10 * len(reserve))
    for size in sizes:
        message = "reserve_space must have the "
        assert_refused(op, message, reserve_space=np.resize(reserve, [size]))


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("op", refusals.READERS)
def test_a_header_changed_in_any_place(op, dtype):
    arguments = _reader_arguments(op, running.DTYPES[dtype])
    usual = arguments["reserve_space"].numpy()
    key = range(8, 16)  # of dropout: a byte each, and any byte
    for place in range(HEADER):
        values = [np.nan, np.inf, -1.0, 0.5, 256.0]
        if place not in key:
            values.append(7.0 if usual[place] != 7.0 else 8.0)
        for value in values if place in (*key, 0, 16, HEADER - 1) else values[-1:]:
            forged = usual.copy()
            forged[place] = value
            with pytest.raises(INVALID, match="reserve_space was made by a call of other options"):
                calls.function(op)(**arguments | {"reserve_space": forged})


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_a_true_header_before_any_body(rnn_mode, dtype):
    """Values may be any, for nothing in the body says where to read or to write."""
    config = judge.Config(rnn_mode, 2, 5, 3, "bidirectional", dropout=0.5, time_major=False)
    case = running.random_case(41, config, 4, 3, running.DTYPES[dtype], ragged=True)
    for op in (running.OWN_V3, running.V3):
        tensors = running.tensors_of(case)
        outputs = running.call(op, case, *tensors)
        reserve = outputs.reserve_space.numpy()
        backprop = calls.function(
            "CudnnRNNBackpropV3" if op == running.V3 else calls.OWN + "CudnnRNNBackpropV3"
        )
        for body in (np.nan, np.inf, -np.inf, 3e4, 0.0):
            reserve[HEADER:] = body
            gradients = backprop(
                **dict(zip(calls.forward_arguments("CudnnRNNV3"), tensors, strict=True)),
                **{name: getattr(outputs, name) for name in ("output", "output_h", "output_c")},
                output_backprop=case.dy,
                output_h_backprop=case.dh_n,
                output_c_backprop=case.dc_n,
                reserve_space=reserve,
                host_reserved=outputs.host_reserved,
                rnn_mode=rnn_mode,
                direction=config.direction,
                dropout=config.dropout,
                time_major=config.time_major,
            )
            assert gradients.input_backprop.shape == case.x.shape
            assert not gradients.input_backprop.numpy()[case.padding()].any()


@pytest.mark.parametrize("dtype", running.DTYPES)
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_a_true_header_before_any_body_of_keras_rnn(rnn_mode, dtype):
    config = judge.Config(rnn_mode, 1, 5, 3, time_major=False)
    case = running.random_case(45, config, 4, 3, running.DTYPES[dtype], ragged=True)
    columns = config.G * config.H
    rng = np.random.default_rng(46)
    bias = [2, columns] if rnn_mode == "gru" else [columns]
    shapes = ([config.I, columns], [config.H, columns], bias)
    kernel, recurrent_kernel, bias = (rng.normal(size=s).astype(case.x.dtype) for s in shapes)
    arguments = {
        **{"input": case.x, "input_h": case.h0, "input_c": case.c0},
        **{"kernel": kernel, "recurrent_kernel": recurrent_kernel, "biases": [bias]},
        **{"sequence_lengths": case.sequence_lengths, "rnn_mode": rnn_mode, "time_major": False},
    }
    outputs = calls.function(calls.KERAS_RNN)(**arguments)
    reserve = outputs.reserve_space.numpy()
    for body in (np.nan, np.inf, -np.inf, 3e4, 0.0):
        reserve[HEADER:] = body
        gradients = calls.function(calls.KERAS_RNN_BACKPROP)(
            **arguments,
            **{name: getattr(outputs, name) for name in ("output", "output_h", "output_c")},
            output_backprop=case.dy,
            output_h_backprop=case.dh_n,
            output_c_backprop=case.dc_n,
            reserve_space=reserve,
        )
        assert gradients.kernel_backprop.shape == kernel.shape
        assert gradients.biases_backprop[0].shape == bias.shape  # type: ignore[attr-defined]
        assert not gradients.input_backprop.numpy()[case.padding()].any()


@pytest.mark.parametrize("body", [np.nan, np.inf, 3e4, 0.0])
def test_masks_are_those_of_the_key_whatever_the_body(body):
    config = judge.Config("gru", 3, 5, 3, "bidirectional", dropout=0.5)
    case = running.random_case(47, config, 4, 3, np.float32, ragged=True)
    tensors = running.tensors_of(case)
    outputs = running.call(running.OWN_V3, case, *tensors, rng_seed=[7, 8])
    reserve = outputs.reserve_space.numpy()
    reserve[HEADER:] = body
    masks, _ = calls.function(calls.READ_RESERVE)(
        **dict(zip(calls.forward_arguments("CudnnRNNV3"), tensors, strict=True)),
        reserve_space=reserve,
        M=tf.float32,
        rnn_mode="gru",
        direction="bidirectional",
        dropout=0.5,
    )
    for layer in range(config.L - 1):
        expected = judge.dropout_mask(config, layer, case.T, case.B, judge.own_key([7, 8]))
        np.testing.assert_allclose(masks[layer], expected, rtol=1e-6)
