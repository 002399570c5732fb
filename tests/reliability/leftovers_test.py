"""What one call leaves in memory is in no output of another one."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import running, running_int8, subprocesses
from tests.ops import calls
from tests.reference import judge
from tests.reliability import refusals


def _all_outputs(dtype) -> dict:
    """Bytes of every output of ops of each kind, by name; what padding holds is NaN."""
    found = {}
    for rnn_mode, time_major, training in itertools.product(
        judge.RNN_MODES, (True, False), (True, False)
    ):
        num_proj = 3 if rnn_mode == "lstm" and not time_major else 0
        config = judge.Config(
            *(rnn_mode, 2, 7, 5, "bidirectional"),
            num_proj=num_proj,
            dropout=0.5,
            time_major=time_major,
        )
        case = running.random_case(42, config, 6, 5, dtype, ragged=True).with_padding(np.nan)
        for op in (running.OWN_V3, running.V3):
            tensors = running.tensors_of(case)
            with tf.GradientTape() as tape:
                tape.watch(tensors[:4])
                outputs = running.call(op, case, *tensors, is_training=training)
            named = outputs._asdict()
            if training:
                gradients = [tf.constant(d) for d in (case.dy, case.dh_n, case.dc_n)]
                sources = tape.gradient(list(outputs[:3]), tensors[:4], gradients)
                named |= dict(zip(running.GRADIENTS, sources, strict=True))
            for name, value in named.items():
                label = f"{name} of {op}, {rnn_mode}, {time_major=}, {training=}"
                found[label] = value.numpy().tobytes()
    for rnn_mode, time_major, training, pad in itertools.product(
        judge.RNN_MODES, (True, False), (True, False), (_pad_ends, _pad_holes)
    ):
        label = f"KerasRNN, {rnn_mode}, {time_major=}, {training=}, {pad.__name__}"
        outputs = _of_keras_rnn(rnn_mode, time_major, training, dtype, pad)
        found |= {f"{i} of {label}": value.numpy().tobytes() for i, value in enumerate(outputs)}
    for rnn_mode, time_major in itertools.product(judge.RNN_MODES, (True, False)):
        outputs = _of_int8(rnn_mode, time_major)
        label = f"CudnnRNNInt8, {rnn_mode}, {time_major=}"
        found |= {f"{name} of {label}": value.tobytes() for name, value in outputs.items()}
    for op in calls.FORWARD[:2]:
        arguments = calls.arguments(op)
        for is_training in (True, False):
            outputs = calls.function(op)(**arguments, is_training=is_training)
            for name, value in outputs._asdict().items():
                found[f"{name} of {op}, {is_training=}"] = value.numpy().tobytes()
    for op in calls.BACKPROP[:2]:
        for name, value in _gradients_of_first_versions(op).items():
            found[f"{name} of {op}"] = value.numpy().tobytes()
    for rnn_mode in judge.RNN_MODES:
        label = f"{calls.READ_RESERVE}, {rnn_mode}"
        for i, value in enumerate(_kept_by(rnn_mode, dtype)):
            found[f"output {i} of {label}"] = value.numpy().tobytes()
    for op in (*refusals.SIZED, *refusals.KERAS_PARAMS):
        flat = tf.nest.flatten(calls.function(op)(**calls.arguments(op)))
        found |= {f"output {i} of {op}": value.numpy().tobytes() for i, value in enumerate(flat)}
    return found


def _int8_case(rnn_mode: str, time_major: bool = True) -> running_int8.Int8Case:
    """What padding holds is NaN."""
    config = judge.Config(rnn_mode, 2, 7, 5, "bidirectional", time_major=time_major)
    case = running.random_case(50, config, 6, 5, np.float32, ragged=True)
    return running_int8.quantized(case.with_padding(np.nan))


def _of_int8(rnn_mode: str, time_major: bool) -> dict:
    """All outputs."""
    return running_int8.forward(_int8_case(rnn_mode, time_major))


def _gradients_of_first_versions(op: str) -> dict:
    """Those of CudnnRNN or CudnnRNNV2, which have no sequence_lengths."""
    rng = np.random.default_rng(50)
    arguments = calls.forward_arguments(op.replace("Backprop", ""))
    forward = [(name, rng.normal(size=array.shape)) for name, array in arguments.items()]
    forward = [(name, array.astype(np.float32)) for name, array in forward]
    gradients = {"output": (4, 3, 4), "output_h": (1, 3, 4), "output_c": (1, 3, 4)}
    changes = {
        f"{name}_backprop": rng.normal(size=shape).astype(np.float32)
        for name, shape in gradients.items()
    }
    return calls.function(op)(**calls.backprop_arguments(op, forward, **changes))._asdict()


def _kept_by(rnn_mode: str, dtype) -> list:
    """The masks and activations in a reserve; what padding holds is NaN."""
    config = judge.Config(rnn_mode, 3, 7, 5, "bidirectional", dropout=0.5)
    case = running.random_case(51, config, 6, 5, dtype, ragged=True).with_padding(np.nan)
    tensors = running.tensors_of(case)
    outputs = running.call(running.OWN_V3, case, *tensors, rng_seed=[7, 8])
    kept = calls.function(calls.READ_RESERVE)(
        **dict(zip(calls.forward_arguments("CudnnRNNV3"), tensors, strict=True)),
        reserve_space=outputs.reserve_space,
        M=tf.float64 if dtype == np.float64 else tf.float32,
        rnn_mode=rnn_mode,
        direction="bidirectional",
        dropout=0.5,
    )
    return tf.nest.flatten(kept)


def _keras_case(rnn_mode: str, time_major: bool, dtype):
    """What KerasRNN takes."""
    config = judge.Config(rnn_mode, 1, 7, 5, time_major=time_major)
    case = running.random_case(48, config, 6, 5, dtype, ragged=True)
    columns = config.G * config.H
    rng = np.random.default_rng(49)
    bias = [2, columns] if rnn_mode == "gru" else [columns]
    shapes = ([config.I, columns], [config.H, columns], bias)
    return case, [tf.constant(rng.normal(size=shape) / 3, dtype) for shape in shapes]


def _pad_ends(case, value: float):
    """The case with a value in what is no step of a row, and options of KerasRNN for it."""
    return case.with_padding(value), {}


def _pad_holes(case, value: float):
    """The same with steps that a mask leaves out, where outputs are repeated."""
    mask = np.random.default_rng(52).random(case.x.shape[:2]) < 0.6
    x = case.with_padding(value).x
    x[~mask] = value
    options = {"go_backwards": case.config.time_major, "zero_output_for_mask": False}
    return dataclasses.replace(case, x=x), options | {"masks": [mask]}


def _call_keras_rnn(case, weights, **options):
    return calls.function(calls.KERAS_RNN)(
        input=case.x,
        input_h=case.h0,
        input_c=case.c0,
        kernel=weights[0],
        recurrent_kernel=weights[1],
        biases=weights[2:],
        sequence_lengths=case.sequence_lengths,
        rnn_mode=case.config.rnn_mode,
        time_major=case.config.time_major,
        **options,
    )


def _of_keras_rnn(rnn_mode: str, time_major: bool, training: bool, dtype, pad) -> list:
    """All outputs and gradients; what padding holds is NaN."""
    case, weights = _keras_case(rnn_mode, time_major, dtype)
    case, options = pad(case, np.nan)
    with tf.GradientTape() as tape:
        tape.watch(weights)
        outputs = _call_keras_rnn(case, weights, is_training=training, **options)
    if not training:
        return list(outputs)
    gradients = [tf.constant(d) for d in (case.dy, case.dh_n, case.dc_n)]
    return [*outputs, *tape.gradient(list(outputs[:3]), weights, gradients)]


def _leave(value: float, dtype) -> None:
    """Fills scratch, outputs and reserve_space of large calls with a value."""
    for rnn_mode in judge.RNN_MODES:
        config = judge.Config(rnn_mode, 3, 64, 48, "bidirectional", dropout=0.5)
        case = running.random_case(43, config, 12, 16, dtype)
        for name in case.TENSORS:
            getattr(case, name)[...] = value
        running.forward_backward(running.OWN_V3, case)
        running.forward_backward(running.V3, case)


def print_outputs(value: float) -> None:
    """Prints what calls return in memory that was full of `value`, and how marked memory looks."""
    results = {}
    for name, dtype in running.DTYPES.items():
        before = _all_outputs(dtype)
        _leave(value, dtype)
        after = _all_outputs(dtype)
        reset = {k for k in before if before[k] != after[k]}
        assert not reset, f"not the same after a call full of {value}: {sorted(reset)}"
        results[name] = {label: outputs.hex() for label, outputs in after.items()}
    unset = tf.raw_ops.Empty(shape=[64], dtype=tf.float32, init=False).numpy()
    print(json.dumps([results, unset.tobytes().hex()]))


def test_no_call_sees_what_another_left():
    """Memory is marked, once so and once otherwise; not a bit of any output may tell."""
    runs = []
    for mark, value in (("1", 12345.678), ("170", float("nan"))):
        # The second one makes the built-in ops drop the same in each call.
        environment = {"MALLOC_PERTURB_": mark, "TF_CUDNN_RESET_RND_GEN_STATE": "1"}
        printed = subprocesses.run_code(
            f"from {__name__} import print_outputs\nprint_outputs(float('{value}'))",
            environment=environment,
        )
        runs.append(json.loads(printed))
    (one, one_mark), (other, other_mark) = runs
    # What was never written does differ.
    assert one_mark == "fe" * 256 and other_mark == "55" * 256
    for dtype in running.DTYPES:
        assert len(one[dtype]) > 100
        assert one[dtype].keys() == other[dtype].keys()
        differ = [label for label in one[dtype] if one[dtype][label] != other[dtype][label]]
        assert not differ, f"{dtype}: {differ}"


def _in_a_graph(op: str, case):
    """All outputs of a call whose kernel is new, and drops what its first call does."""

    def run(*tensors):
        return running.call(op, case, *tensors)

    return tf.function(run)(*running.tensors_of(case))


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_padding_of_the_caller_is_in_no_output(rnn_mode):
    secret = np.float32(54321.987)
    config = judge.Config(rnn_mode, 2, 7, 5, "bidirectional")
    case = running.random_case(44, config, 6, 5, np.float32, ragged=True).with_padding(secret)
    assert (case.x == secret).sum() > 10
    for op in (running.OWN_V3, running.V3):
        outputs, without = (_in_a_graph(op, one) for one in (case, case.with_padding(0.0)))
        for name, value in outputs._asdict().items():
            assert not (value.numpy() == secret).any(), name
            assert value.numpy().tobytes() == getattr(without, name).numpy().tobytes(), name


@pytest.mark.parametrize("pad", [_pad_ends, _pad_holes])
@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_padding_of_the_caller_is_in_no_output_of_keras_rnn(rnn_mode, pad):
    secret = np.float32(54321.987)
    case, weights = _keras_case(rnn_mode, True, np.float32)
    (filled, options), (empty, _) = (pad(case, value) for value in (secret, 0.0))
    assert (filled.x == secret).sum() > 10
    outputs = _call_keras_rnn(filled, weights, **options)
    without = _call_keras_rnn(empty, weights, **options)
    for name, value in outputs._asdict().items():
        assert not (value.numpy() == secret).any(), name
        assert value.numpy().tobytes() == getattr(without, name).numpy().tobytes(), name


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_padding_of_the_caller_is_in_no_output_of_int8_weights(rnn_mode):
    secret = np.float32(54321.987)
    case = _int8_case(rnn_mode)
    filled, without = (
        dataclasses.replace(case, case=case.case.with_padding(value)) for value in (secret, 0.0)
    )
    expected = running_int8.forward(without)
    for name, value in running_int8.forward(filled).items():
        assert not (value == secret).any(), name
        assert value.tobytes() == expected[name].tobytes(), name
