"""What has crashed recurrent ops before, or could be used to read memory: each must be an error.

The numbers are those of public advisories about TensorFlow and of its public issues. Where one is
about another recurrent op, the same trick is tried on these.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.fuzz import op_calls
from tests.helpers import running
from tests.ops import calls
from tests.ops.calls import zeros
from tests.reference import judge
from tests.reliability import refusals
from tests.reliability.refusals import INVALID, MOST, assert_refused, int32

# ------------------------------------------------------------------------------------
# Public advisories
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("op", calls.V3)
def test_cve_2021_41221_shape_functions_read_dimensions_that_are_not_there(op):
    """CudnnRNNV3's shape function took the third dimension of whatever came."""
    arguments = {
        "input": tf.constant([0.1, 0.1]),
        "input_h": tf.constant([0.5]),
        "input_c": tf.constant([0.1, 0.1, 0.1]),
        "params": tf.constant([0.5, 0.5]),
        "sequence_lengths": tf.constant([-1, 0, 1]),
    }
    with pytest.raises(INVALID, match="RNN input must be a 3-D vector"):
        calls.function(op)(**arguments)
    with pytest.raises(ValueError, match="Shape must be rank 3|RNN input must be a 3-D vector"):
        tf.function(lambda: calls.function(op)(**arguments))()


@pytest.mark.parametrize("name", ["input", "input_h", "input_c", "params"])
@pytest.mark.parametrize("op", refusals.WITH_PARAMS)
def test_cve_2021_41221_every_rank(op, name):
    right = calls.forward_arguments("CudnnRNN")[name].ndim
    for rank in {0, 1, 2, 3, 4, 8} - {right}:
        assert_refused(op, f"RNN {name} must be a {right}-D vector", **{name: zeros(*[1] * rank)})


@pytest.mark.parametrize("op", [calls.KERAS_RNN, calls.KERAS_RNN_BACKPROP, calls.INT8])
def test_cve_2021_41221_every_rank_beside_other_weights(op):
    for name in ("input", "input_h", "input_c"):
        for rank in (0, 1, 2, 4, 8):
            message = f"RNN {name} must be a 3-D vector"
            assert_refused(op, message, **{name: zeros(*[1] * rank)})


@pytest.mark.parametrize("name", ["kernel", "recurrent_kernel"])
@pytest.mark.parametrize("op", refusals.WITH_KERAS_WEIGHTS)
def test_cve_2021_41221_every_rank_of_keras_weights(op, name):
    for rank in (0, 1, 3, 8):
        assert_refused(op, f"{name} must have shape", **{name: zeros(*[1] * rank)})
    for rnn_mode in judge.RNN_MODES:
        weights = _keras_weights(rnn_mode)
        right = weights["biases"][0].ndim
        for rank in {0, 1, 2, 3, 8} - {right}:
            wrong = weights | {"biases": [zeros(*[1] * rank)]}
            message = r"biases\[0\] must have shape"
            assert_refused(op, message, rnn_mode=rnn_mode, **wrong)


def _keras_weights(rnn_mode: str) -> dict:
    """For I = 5 and H = 4."""
    columns = 4 * judge.Config(rnn_mode, 1, 4, 5).G
    bias = zeros(2, columns) if rnn_mode == "gru" else zeros(columns)
    weights = {"kernel": zeros(5, columns), "recurrent_kernel": zeros(4, columns)}
    return weights | {"biases": [bias]}


@pytest.mark.parametrize("op", (*refusals.FORWARD, calls.READ_RESERVE))
def test_cve_2020_26270_an_input_of_no_length_ended_the_process(op):
    assert_refused(op, "max_seq_length <= 0", input=zeros(0, 3, 5))
    assert_refused(op, "with I at least 1", input=zeros(4, 3, 0))
    if op == calls.READ_RESERVE:
        return
    nobody = {"input": zeros(4, 0, 5), "input_h": zeros(1, 0, 4), "input_c": zeros(1, 0, 4)}
    if op in refusals.WITH_LENGTHS:
        nobody["sequence_lengths"] = int32()
    assert calls.function(op)(**calls.arguments(op, **nobody)).output.shape == (4, 0, 4)


@pytest.mark.parametrize("op", (*calls.V3, calls.KERAS_RNN, calls.INT8))
def test_issues_33148_and_33069_and_43103_sequences_of_no_length(op):
    """cuDNN refused a batch if any sequence was empty."""
    for lengths in ([0, 0, 0], [4, 0, 1]):
        states = {name: np.full([1, 3, 4], 0.5, np.float32) for name in ("input_h", "input_c")}
        arguments = calls.arguments(op, sequence_lengths=int32(*lengths), **states)
        outputs = calls.function(op)(**arguments)
        empty = np.array(lengths) == 0
        assert not outputs.output.numpy()[:, empty].any()
        assert (outputs.output_h.numpy()[:, empty] == 0.5).all()
        assert (outputs.output_c.numpy()[:, empty] == 0.5).all()


# LSTMBlockCell, BlockLSTMGradV2 and GRUBlockCellGrad trusted the shapes of all tensors but one.
@pytest.mark.parametrize("op", (*refusals.FORWARD, *refusals.READERS, *refusals.KERAS_PARAMS))
def test_cve_2022_29200_and_2022_35964_and_2023_25658_any_tensor_of_any_shape(op):
    valid = calls.arguments(op)
    ignored = {"M"} if op == "CudnnRNNBackpropV2" else {"host_reserved", "M"}
    tried = 0
    for name in valid.keys() - ignored:
        is_list = isinstance(valid[name], list)
        value = np.asarray(valid[name][0] if is_list else valid[name])
        dtype = np.int32 if name == "num_units" else value.dtype
        for shape in ([], [0], [1], [0, 0, 0], [1, 1, 1], [0, 3, 4], [2, 2, 2, 2], [7]):
            if list(value.shape) == shape:
                continue
            wrong = np.zeros(shape, dtype)
            with pytest.raises(INVALID, match=name):
                calls.function(op)(**valid | {name: [wrong] if is_list else wrong})
            tried += 1
    assert tried >= 7 * len(valid.keys() - ignored)


# ------------------------------------------------------------------------------------
# Reads beyond a tensor, and what ends TensorFlow's own process
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("lengths", [[], [4], [4, 2], [4, 2, 1, 1]], ids=len)
@pytest.mark.parametrize("op", refusals.WITH_LENGTHS)
def test_too_few_sequence_lengths(op, lengths):
    """TensorFlow's kernel reads as many numbers as the batch has rows."""
    assert_refused(op, r"sequence_lengths must have shape \[B\]", sequence_lengths=int32(*lengths))


@pytest.mark.parametrize("length", [5, -1, MOST, -(2**31)])
@pytest.mark.parametrize("op", refusals.WITH_LENGTHS)
def test_lengths_out_of_range(op, length):
    for place in range(3):
        lengths = int32(4, 2, 1)
        lengths[place] = length
        message = rf"sequence_lengths\[{place}\] must be in \[0, T\]"
        assert_refused(op, message, sequence_lengths=lengths)


@pytest.mark.parametrize("size", [0, 1, 16, 175, 177, 1000])
@pytest.mark.parametrize("op", (*refusals.WITH_PARAMS, *calls.TO_CANONICAL))
def test_params_of_another_size(op, size):
    """TensorFlow compares it with nothing; cuDNN reads beyond it."""
    assert_refused(op, "Mismatching RNN parameter size", params=zeros(size))


@pytest.mark.parametrize("shape", [[], [4], [3, 4]], ids=len)
@pytest.mark.parametrize("op", (*refusals.FORWARD, *refusals.READERS))
def test_states_without_three_dimensions(op, shape):
    """The CHECK of Tensor::dim_size() ends the process: input_c's rank was not looked at."""
    assert_refused(op, "RNN input_c must be a 3-D vector", input_c=zeros(*shape))
    assert_refused(op, "RNN input_h must be a 3-D vector", input_h=zeros(*shape))


@pytest.mark.parametrize("name", calls.int8_weights())
def test_int8_weights_of_another_size(name):
    right = calls.int8_weights()[name]
    for size in (0, 1, 16, right.size - 1, right.size + 1, 1000):
        wrong = np.zeros(size, right.dtype)
        assert_refused(calls.INT8, rf"{name} must have shape \[.\] = \[", **{name: wrong})


@pytest.mark.parametrize("op", op_calls.WITH_MASKS)
def test_masks_of_another_shape(op):
    """The kernel reads as many bytes as input has steps and rows: 4 and 3."""
    for shape in ([], [0], [12], [3, 4], [4, 2], [4, 4], [3, 3], [4, 3, 1], [1] * 8):
        message = r"masks\[0\] must have shape \[T,B\] = \[4,3\], got "
        assert_refused(op, message, masks=[np.ones(shape, bool)])
    mask = np.ones([4, 3], bool)
    assert_refused(op, "num_masks must be 0 or 1, got 2", masks=[mask, mask])


@pytest.mark.parametrize("op", calls.TO_PARAMS)
def test_weights_that_do_not_fit(op):
    """CHECK failures "Number of params mismatch" and "Params size mismatch"."""
    weights = [zeros(4, 5)] * 4 + [zeros(4, 4)] * 4
    biases = [zeros(4)] * 8
    for place, shape in itertools.product((0, 7), ([], [0], [1], [3, 4], [2**40, 0])):
        graphs = shape == [3, 4]
        wrong = [*weights[:place], zeros(*shape), *weights[place + 1 :]]
        assert_refused(op, rf"weights\[{place}\] must have the", graphs, weights=wrong)
        wrong = [*biases[:place], zeros(*shape), *biases[place + 1 :]]
        assert_refused(op, rf"biases\[{place}\] must have the", graphs, biases=wrong)
    for count in (1, 2, 7, 9, 16):
        lists = {"weights": [zeros(4, 4)] * count, "biases": [zeros(4)] * count}
        assert_refused(op, "Number of params", count == 9, **lists)


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
@pytest.mark.parametrize("op", refusals.WITH_KERAS_WEIGHTS)
def test_keras_weights_that_do_not_fit(op, rnn_mode):
    """More or fewer gates, units or features than the others have."""
    right = _keras_weights(rnn_mode)
    columns = right["kernel"].shape[1]

    def refused(message: str, **wrong) -> None:
        assert_refused(op, message, rnn_mode=rnn_mode, **right | wrong)

    for wrong in (0, 1, columns - 1, columns + 1, 5 * columns):
        refused("kernel must have shape", kernel=zeros(5, wrong))
        refused("recurrent_kernel must have shape", recurrent_kernel=zeros(4, wrong))
        bias = zeros(2, wrong) if rnn_mode == "gru" else zeros(wrong)
        refused(r"biases\[0\] must have shape", biases=[bias])
    for rows in (1, 3, 5):
        refused("recurrent_kernel must have shape", recurrent_kernel=zeros(rows, columns))
    if rnn_mode == "gru":
        for rows in (0, 1, 3):
            refused(r"biases\[0\] must have shape", biases=[zeros(rows, columns)])
    refused("num_units must be at least 1", recurrent_kernel=zeros(0, columns))
    refused("num_biases must be 0 or 1, got 2", biases=2 * right["biases"])
    if op == calls.KERAS_TO_PARAMS:
        refused("input_size must be at least 1", kernel=zeros(0, columns))
        return
    for rows in (0, 1, 4, 6):
        refused("kernel must have I = 5 rows", kernel=zeros(rows, columns))
    other = {"kernel": zeros(5, 2 * columns), "recurrent_kernel": zeros(8, 2 * columns)}
    refused("recurrent_kernel must have H = 4 rows", **other, biases=[])
    if op == calls.KERAS_RNN:
        states = {name: zeros(2, 3, 4) for name in ("input_h", "input_c")}
        refused("input_h must hold one state a row", **states)


@pytest.mark.parametrize("size", [0, 1, 16, 96, 175, 177, 1000])
def test_gradients_of_params_of_another_size(size):
    message = "params_backprop must have as many elements as params"
    assert_refused(calls.KERAS_TO_PARAMS_BACKPROP, message, params_backprop=zeros(size))
    for num_units in (0, -1, -MOST - 1):
        arguments = {"params_backprop": zeros(size), "num_units": num_units}
        assert_refused(calls.KERAS_TO_PARAMS_BACKPROP, "num_units must be at least 1", **arguments)


@pytest.mark.parametrize("num_biases", [2, 3, 100])
def test_gradients_of_more_biases_than_there_are(num_biases):
    message = f"num_biases must be 0 or 1, got {num_biases}"
    assert_refused(calls.KERAS_TO_PARAMS_BACKPROP, message, num_biases=num_biases)


def test_num_units_that_is_no_scalar():
    for value in (int32(1), int32(), int32(1, 1)):
        assert_refused(calls.KERAS_TO_PARAMS_BACKPROP, "num_units is not a scalar", num_units=value)


@pytest.mark.parametrize("name", ["num_layers", "num_units", "input_size"])
@pytest.mark.parametrize("op", refusals.SIZED)
def test_sizes_that_are_no_scalars(op, name):
    """The CHECK of Tensor::scalar()."""
    for value in (int32(1), int32(), int32(1, 1)):
        assert_refused(op, f"{name} is not a scalar", **{name: value})


@pytest.mark.parametrize("shape", [[], [0], [1], [3], [1, 2]], ids=str)
def test_host_reserved_of_another_shape(shape):
    """TensorFlow's kernel reads two numbers of a vector that it did not look at."""
    message = r"host_reserved must have shape \[2\]"
    assert_refused("CudnnRNNBackpropV2", message, host_reserved=np.zeros(shape, np.int8))


@pytest.mark.parametrize("op", [op for op in calls.BACKPROP if op != "CudnnRNNBackprop"])
def test_host_reserved_of_any_content(op):
    """It was an algorithm's number, used as it came. The CPU has one algorithm."""
    arguments = {name: tf.constant(value) for name, value in calls.arguments(op).items()}
    rng = np.random.default_rng(1)
    for name in ("output_backprop", "output_h_backprop", "output_c_backprop"):
        arguments[name] = tf.constant(rng.normal(size=arguments[name].shape).astype(np.float32))
    shapes = [[2]] if op == "CudnnRNNBackpropV2" else [[2], [], [0], [3, 3]]
    usual = calls.function(op)(**arguments)
    assert usual.params_backprop.numpy().any()
    for shape, value in itertools.product(shapes, (-128, -1, 1, 127)):
        arguments["host_reserved"] = np.full(shape, value, np.int8)
        for one, other in zip(calls.function(op)(**arguments), usual, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("T", [tf.bfloat16, tf.float16])
@pytest.mark.parametrize("op", calls.PARAMS_SIZE)
def test_types_whose_size_ended_the_process(op, T):
    """On GPUs, "Invalid RNN data type" is fatal."""
    assert calls.function(op)(**calls.arguments(op, T=T)).numpy().tolist() == [176]


# ------------------------------------------------------------------------------------
# Attributes
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dropout", [-1.0, -1e-45, -(2.0**-126), 1.0 + 2**-23, 1e39, -np.inf, np.inf, np.nan]
)
@pytest.mark.parametrize("op", sorted({*refusals.ALL} - {*calls.KERAS, calls.INT8}))
def test_dropout_out_of_range(op, dropout):
    graphs = dropout in (-1.0, -1e-45)
    assert_refused(op, r"dropout must be in \[0, 1\], got ", graphs, dropout=dropout)


@pytest.mark.parametrize("seed", [-(2**31), -1, MOST])
@pytest.mark.parametrize("op", running.OPS)
def test_seeds_at_their_limits(op, seed):
    config = judge.Config("gru", 2, 4, 5, dropout=0.5)
    case = running.random_case(40, config, 4, 3, np.float64)
    for seeds in ({"seed": seed}, {"seed2": seed}, {"seed": seed, "seed2": seed}):
        # In a function of its own, so that it is the kernel's first call.
        results = running.forward_backward(op, case, graph=True, **seeds)
        key = judge.builtin_key(seeds.get("seed", 0), seeds.get("seed2", 0))
        running.assert_judged(results, case, f"{op}, {seeds}, seed 40", key)


@pytest.mark.parametrize("value", [MOST + 1, -(2**31) - 1, 2**32, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("op", [op for op in refusals.ALL if not op.startswith(calls.OWN)])
def test_seeds_beyond_their_limits(op, value):
    for name in ("seed", "seed2"):
        with pytest.raises(INVALID, match=f"Attr {name} has value {value} out of range"):
            calls.function(op)(**calls.arguments(op), **{name: value})


@pytest.mark.parametrize("value", [MOST + 1, -(2**31) - 1, 2**63])
def test_seeds_of_own_ops_beyond_their_limits(value):
    op = calls.OWN + "CudnnRNNV3"
    arguments = calls.arguments(op)
    del arguments["rng_seed"]
    for name in ("seed", "seed2"):
        with pytest.raises(ValueError, match=f"`{name}` must fit in an int32; got {value}"):
            calls.function(op)(**arguments, **{name: value})


def test_all_ops_are_attacked_and_fuzzed():
    own = {op.removeprefix(calls.OWN) for op in refusals.ALL if op.startswith(calls.OWN)}
    # This one has no function in Python that users call.
    assert own == {*tf_cudnn_rnn.raw_ops.__all__, calls.READ_RESERVE.removeprefix(calls.OWN)}
    assert set(refusals.ALL) == set(op_calls.OPS)
