"""Tests of the judge itself.

Values and gradients are held to figures that other programs confirmed, gradients to
central differences, and the rules about layout, padding and states to identities.
"""

import dataclasses

import numpy as np
import pytest

from tests.reference import cases, judge

Config = judge.Config


# ---------------------------------------------------------------------------------
# Golden figures
# ---------------------------------------------------------------------------------


def _fill(shape, a: int, b: int) -> np.ndarray:
    """Numbers in [-0.5, 0.5) that any program can make."""
    k = np.arange(int(np.prod(shape)))
    return ((((k + a) * b) % 101) / 101.0 - 0.5).reshape(shape)


@dataclasses.dataclass(frozen=True)
class Golden:
    """Figures as printed by independent programs; T=4, B=3, H=4.

    A pair of gradient figures is (sum, sum of absolute values).
    """

    config: Config
    lengths: tuple[int, int, int]
    size: int
    y_sum: str
    y_first: tuple[str, str, str]
    h_sum: str
    c_sum: str | None
    dx: tuple[str, str]
    dh0: str
    dc0: str | None
    dparams: tuple[str, str]


GOLDEN = {
    "lstm": Golden(
        config=Config("lstm", 1, 4, 5),
        lengths=(4, 4, 4),
        size=176,
        y_sum="3.206432410",
        y_first=("0.022036036", "0.091233853", "-0.064073825"),
        h_sum="1.057333263",
        c_sum="2.124874603",
        dx=("0.212364", "2.495757"),
        dh0="0.068942",
        dc0="-0.321744",
        dparams=("-1.315529", "8.084281"),
    ),
    "lstm_ragged": Golden(
        config=Config("lstm", 1, 4, 5),
        lengths=(4, 2, 1),
        size=176,
        y_sum="1.816648445",
        y_first=("0.022036036", "0.091233853", "-0.064073825"),
        h_sum="0.856458419",
        c_sum="1.677417686",
        dx=("-0.059861", "1.889800"),
        dh0="-0.067649",
        dc0="-0.141111",
        dparams=("-1.471593", "6.958774"),
    ),
    "lstm_two_layers_bidirectional_ragged": Golden(
        config=Config("lstm", 2, 4, 5, direction="bidirectional"),
        lengths=(2, 4, 3),
        size=800,
        y_sum="0.329353908",
        y_first=("0.079065512", "0.056375640", "0.090999626"),
        h_sum="1.214991750",
        c_sum="2.828343129",
        dx=("0.333060", "2.490196"),
        dh0="-0.159124",
        dc0="0.158957",
        dparams=("-1.688413", "19.855173"),
    ),
    "gru": Golden(
        config=Config("gru", 1, 4, 5),
        lengths=(4, 4, 4),
        size=132,
        y_sum="0.721749497",
        y_first=("0.275848959", "-0.011119933", "-0.103524404"),
        h_sum="0.370369262",
        c_sum=None,
        dx=("-0.612022", "4.616745"),
        dh0="-0.375525",
        dc0=None,
        dparams=("-0.356435", "8.717879"),
    ),
    "gru_two_layers_bidirectional_ragged": Golden(
        config=Config("gru", 2, 4, 5, direction="bidirectional"),
        lengths=(2, 4, 3),
        size=600,
        y_sum="-1.663414419",
        y_first=("0.090799100", "0.247847492", "-0.340283453"),
        h_sum="0.455751423",
        c_sum=None,
        dx=("1.098049", "3.997209"),
        dh0="-0.322175",
        dc0=None,
        dparams=("-1.383587", "24.911889"),
    ),
    "tanh_two_layers": Golden(
        config=Config("rnn_tanh", 2, 4, 5),
        lengths=(4, 4, 4),
        size=84,
        y_sum="-14.537279549",
        y_first=("0.071943610", "-0.460446522", "-0.856594621"),
        h_sum="2.714351290",
        c_sum=None,
        dx=("-0.482078", "4.032396"),
        dh0="-0.086173",
        dc0=None,
        dparams=("5.087731", "27.393861"),
    ),
    "relu_bidirectional_ragged": Golden(
        config=Config("rnn_relu", 1, 4, 5, direction="bidirectional"),
        lengths=(2, 4, 3),
        size=88,
        y_sum="18.701809168",
        y_first=("1.289211842", "0.106239584", "0.324257426"),
        h_sum="7.236236668",
        c_sum=None,
        dx=("1.000079", "5.463783"),
        dh0="-0.255745",
        dc0=None,
        dparams=("5.896042", "16.523970"),
    ),
    "lstm_projection_two_layers_ragged": Golden(
        config=Config("lstm", 2, 4, 5, num_proj=2),
        lengths=(4, 2, 1),
        size=256,
        y_sum="-0.174272351",
        y_first=("-0.083079977", "-0.056531325", "0.000803663"),
        h_sum="-0.226194537",
        c_sum="-0.321388302",
        dx=("0.016751", "1.346854"),
        dh0="0.041870",
        dc0="0.035708",
        dparams=("-0.422556", "6.694732"),
    ),
    "lstm_skip_two_layers": Golden(
        config=Config("lstm", 2, 4, 4, input_mode="skip_input"),
        lengths=(4, 4, 4),
        size=256,
        y_sum="1.230818673",
        y_first=("-0.028668796", "0.102574012", "-0.072396888"),
        h_sum="0.012405176",
        c_sum="-0.645972723",
        dx=("-0.384264", "2.528575"),
        dh0="-0.124531",
        dc0="-0.314821",
        dparams=("-1.367335", "10.372108"),
    ),
    "gru_skip_bidirectional": Golden(
        config=Config("gru", 1, 4, 4, direction="bidirectional", input_mode="skip_input"),
        lengths=(4, 4, 4),
        size=144,
        y_sum="-7.367690921",
        y_first=("0.321386985", "-0.169098054", "-0.103016155"),
        h_sum="-1.910172927",
        c_sum=None,
        dx=("0.478437", "9.689613"),
        dh0="-0.145814",
        dc0=None,
        dparams=("0.181449", "10.831725"),
    ),
    "lstm_bidirectional_zero_length": Golden(
        config=Config("lstm", 1, 4, 5, direction="bidirectional"),
        lengths=(4, 0, 1),
        size=352,
        y_sum="0.161121112",
        y_first=("0.047775407", "0.072623651", "-0.086288048"),
        h_sum="0.149193411",
        c_sum="0.685444754",
        dx=("0.878207", "1.835379"),
        dh0="-0.272579",
        dc0="-1.424578",
        dparams=("-0.386550", "11.286402"),
    ),
}


def _golden_case(golden: Golden) -> cases.Case:
    config = golden.config
    T, B, L, D, H, P = 4, 3, config.L, config.D, config.H, config.P
    lstm = config.rnn_mode == "lstm"
    return cases.Case(
        config=config,
        x=_fill([T, B, config.I], 1, 37),
        h0=_fill([L * D, B, P], 2, 41),
        c0=_fill([L * D, B, H], 3, 43),
        params=_fill([judge.params_size(config)], 4, 53),
        sequence_lengths=np.array(golden.lengths, np.int32),
        dy=_fill([T, B, D * P], 5, 29),
        dh_n=_fill([L * D, B, P], 6, 31),
        dc_n=_fill([L * D, B, H], 7, 59) if lstm else np.zeros([]),
    )


def _assert_prints_as(value: float, printed: str) -> None:
    digits = len(printed.split(".")[1])
    assert f"{value:.{digits}f}" == printed


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_values(name):
    golden = GOLDEN[name]
    case = _golden_case(golden)
    assert case.params.size == golden.size
    forward = case.forward()
    _assert_prints_as(forward.y.sum(), golden.y_sum)
    for value, printed in zip(forward.y.ravel(), golden.y_first, strict=False):
        _assert_prints_as(value, printed)
    _assert_prints_as(forward.h_n.sum(), golden.h_sum)
    if golden.c_sum is None:
        assert forward.c_n.shape == ()
    else:
        assert forward.c_n.shape == case.c0.shape
        _assert_prints_as(forward.c_n.sum(), golden.c_sum)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_gradients(name):
    golden = GOLDEN[name]
    case = _golden_case(golden)
    _, gradients = case.forward_backward()
    _assert_prints_as(gradients.dx.sum(), golden.dx[0])
    _assert_prints_as(np.abs(gradients.dx).sum(), golden.dx[1])
    _assert_prints_as(gradients.dh0.sum(), golden.dh0)
    _assert_prints_as(gradients.dparams.sum(), golden.dparams[0])
    _assert_prints_as(np.abs(gradients.dparams).sum(), golden.dparams[1])
    assert gradients.dc0.shape == case.c0.shape
    if golden.dc0 is None:
        assert not gradients.dc0.any()
    else:
        _assert_prints_as(gradients.dc0.sum(), golden.dc0)


# ---------------------------------------------------------------------------------
# Gradients against central differences
# ---------------------------------------------------------------------------------

# name: (config, T, lengths)
DIFFERENTIATED = {
    "relu": (Config("rnn_relu", 1, 3, 2), 3, [3, 3]),
    "tanh": (Config("rnn_tanh", 1, 3, 2), 3, [3, 3]),
    "lstm": (Config("lstm", 1, 3, 2), 3, [3, 3]),
    "gru": (Config("gru", 1, 3, 2), 3, [3, 3]),
    "relu_skip_bidirectional_ragged": (
        Config("rnn_relu", 2, 3, 3, "bidirectional", "skip_input"),
        4,
        [2, 4, 0],
    ),
    "tanh_auto_select_bidirectional_ragged": (
        Config("rnn_tanh", 2, 3, 3, "bidirectional", "auto_select"),
        4,
        [2, 4, 1],
    ),
    "lstm_skip_projection": (
        Config("lstm", 2, 3, 3, input_mode="skip_input", num_proj=2),
        3,
        [2, 3],
    ),
    "lstm_projection_bidirectional_ragged_dropout": (
        Config("lstm", 2, 3, 2, "bidirectional", num_proj=2, dropout=0.4),
        3,
        [3, 0, 2],
    ),
    "gru_skip_bidirectional_ragged": (
        Config("gru", 1, 3, 3, "bidirectional", "skip_input"),
        4,
        [2, 4, 1],
    ),
    "gru_three_layers_dropout": (Config("gru", 3, 3, 2, dropout=0.5), 3, [3, 1]),
    "lstm_bidirectional_batch_major": (
        Config("lstm", 2, 2, 3, "bidirectional", time_major=False),
        3,
        [1, 3],
    ),
    "gru_batch_major_dropout": (
        Config("gru", 2, 2, 3, dropout=0.5, time_major=False),
        3,
        [1, 3],
    ),
    "lstm_dropout_one": (Config("lstm", 2, 2, 3, dropout=1.0), 2, [2, 2]),
}


def _loss(case: cases.Case, key: int) -> float:
    forward = case.forward(key)
    loss = np.sum(forward.y * case.dy) + np.sum(forward.h_n * case.dh_n)
    return loss + np.sum(forward.c_n * case.dc_n)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_gradients_equal_central_differences(name):
    config, T, lengths = DIFFERENTIATED[name]
    key = judge.builtin_key(17, 4)
    case = cases.random_case(np.random.default_rng(len(name)), config, T, len(lengths), lengths)
    _, gradients = case.forward_backward(key)
    epsilon = 1e-5
    for tensor in ("x", "h0", "c0", "params"):
        analytic = getattr(gradients, "d" + tensor)
        numeric = np.zeros_like(analytic)
        for index in np.ndindex(analytic.shape):
            losses = []
            for sign in (+1, -1):
                moved = getattr(case, tensor).copy()
                moved[index] += sign * epsilon
                losses.append(_loss(dataclasses.replace(case, **{tensor: moved}), key))
            numeric[index] = (losses[0] - losses[1]) / (2 * epsilon)
        np.testing.assert_allclose(
            analytic, numeric, rtol=1e-7, atol=1e-8, err_msg=f"d{tensor} of {case}"
        )


def test_relu_derivative_at_zero_is_zero():
    config = Config("rnn_relu", 1, 2, 3)
    forward = judge.forward(
        config,
        np.ones([2, 1, 3]),
        np.zeros([1, 1, 2]),
        0.0,
        np.zeros(judge.params_size(config)),
    )
    gradients = judge.backward(config, forward.tape, np.ones([2, 1, 2]), np.ones([1, 1, 2]))
    assert not gradients.dparams.any()


def test_gates_saturate_without_warnings():
    case = cases.random_case(
        np.random.default_rng(1), Config("lstm", 2, 3, 2, "bidirectional"), 3, 2
    )
    case = dataclasses.replace(case, params=case.params * 1e6)
    with np.errstate(over="raise", invalid="raise"):
        forward, gradients = case.forward_backward()
    assert np.isfinite(forward.y).all()
    assert np.isfinite(gradients.dparams).all()


# ---------------------------------------------------------------------------------
# Layout of params
# ---------------------------------------------------------------------------------

SIZES = [
    (Config("lstm", 1, 4, 3), 144),
    (Config("lstm", 2, 7, 3), 784),
    (Config("lstm", 2, 7, 3, "bidirectional"), 1960),
    (Config("gru", 1, 4, 3), 108),
    (Config("gru", 2, 7, 3), 588),
    (Config("gru", 2, 7, 3, "bidirectional"), 1470),
    (Config("rnn_tanh", 1, 4, 3), 36),
    (Config("rnn_relu", 2, 7, 3, "bidirectional"), 490),
    (Config("lstm", 4, 200, 300), 1366400),
    (Config("lstm", 1, 100, 28), 52000),
    (Config("lstm", 2, 7, 3, num_proj=3), 490),
    (Config("lstm", 2, 7, 3, "bidirectional", num_proj=3), 1148),
    (Config("lstm", 2, 7, 3, num_proj=7), 784),
    (Config("lstm", 1, 4, 4, input_mode="skip_input"), 96),
    (Config("gru", 2, 4, 4, "bidirectional", "skip_input"), 480),
    (Config("gru", 2, 4, 4, "bidirectional", "auto_select"), 480),
]


@pytest.mark.parametrize(("config", "size"), SIZES)
def test_params_size(config, size):
    assert judge.params_size(config) == size


def test_auto_select_is_decided_by_the_cell_size():
    assert Config("lstm", 1, 4, 4, input_mode="auto_select", num_proj=2).skip
    assert not Config("lstm", 1, 4, 2, input_mode="auto_select", num_proj=2).skip


def test_layout_of_a_projecting_bidirectional_lstm():
    """Each offset written out by hand: H=3, I=5, P=2, L=2, D=2."""
    config = Config("lstm", 2, 3, 5, "bidirectional", num_proj=2)
    params = np.arange(judge.params_size(config))
    w = judge.split_params(config, params)
    # Layer 0: W 4x[3, 5] = 60, R 4x[3, 2] = 24, projection [2, 3] = 6: 90 a direction.
    # Layer 1: W 4x[3, 4] = 48, R 24, projection 6: 78 a direction.
    for k, start, w_size, columns in [
        (0, 0, 60, 5),
        (1, 90, 60, 5),
        (2, 180, 48, 4),
        (3, 258, 48, 4),
    ]:
        assert w[k].W.shape == (4, 3, columns)
        assert w[k].W[judge.INPUT, 0, 0] == start
        assert w[k].W[judge.INPUT, 0, 1] == start + 1
        assert w[k].W[judge.INPUT, 1, 0] == start + columns
        assert w[k].W[judge.FORGET, 0, 0] == start + 3 * columns
        assert w[k].W[judge.CELL, 0, 0] == start + 6 * columns
        assert w[k].W[judge.OUTPUT, 0, 0] == start + 9 * columns
        assert w[k].R[judge.INPUT, 0, 0] == start + w_size
        assert w[k].R[judge.FORGET, 1, 1] == start + w_size + 6 + 3
        assert w[k].projection.shape == (2, 3)
        assert w[k].projection[1, 0] == start + w_size + 24 + 3
        # Biases follow all matrices: 2 * 90 + 2 * 78 = 336; 24 a pseudo-layer.
        assert w[k].bW[judge.INPUT, 0] == 336 + 24 * k
        assert w[k].bW[judge.OUTPUT, 2] == 336 + 24 * k + 11
        assert w[k].bR[judge.INPUT, 0] == 336 + 24 * k + 12
        assert w[k].bR[judge.OUTPUT, 2] == 336 + 24 * k + 23
    assert params.size == 336 + 4 * 24


@pytest.mark.parametrize("config", [config for config, _ in SIZES])
def test_canonical_round_trip(config):
    params = np.arange(judge.params_size(config)) + 0.5
    weights, biases = judge.canonical(config, params)
    per_layer = 2 * config.G + (1 if config.has_projection else 0)
    assert len(weights) == config.L * config.D * per_layer
    assert len(biases) == config.L * config.D * 2 * config.G
    for index, weight in enumerate(weights):
        layer, slot = divmod(index, per_layer)
        layer //= config.D
        columns = config.I if layer == 0 else config.D * config.P
        if slot < config.G:
            columns = 0 if config.skip and layer == 0 else columns
            assert weight.shape == (config.H, columns)
        elif slot < 2 * config.G:
            assert weight.shape == (config.H, config.P)
        else:
            assert weight.shape == (config.P, config.H)
    assert all(bias.shape == (config.H,) for bias in biases)
    flat = np.concatenate([tensor.ravel() for tensor in weights + biases])
    np.testing.assert_array_equal(flat, params)
    np.testing.assert_array_equal(judge.from_canonical(config, weights, biases), params)


# ---------------------------------------------------------------------------------
# Dropout
# ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counter,key,words",
    [
        (
            (0, 0, 0, 0),
            (0, 0),
            (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        ),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
    ids=["zeros", "ones", "pi"],
)
def test_philox_known_answers(counter, key, words):
    assert judge.philox4x32_10(counter, key).tolist() == list(words)


def test_dropout_mask_reads_the_stated_words():
    config = Config("lstm", 3, 5, 2, "bidirectional", num_proj=3, dropout=0.3)
    key = 0x0123456789ABCDEF
    mask = judge.dropout_mask(config, 1, 4, 3, key)
    assert mask.shape == (4, 3, 6)
    rate = float(np.float32(0.3))
    for t, b, j in np.ndindex(mask.shape):
        words = judge.philox4x32_10((j // 4, b, t, 1), (0x89ABCDEF, 0x01234567))
        kept = int(words[j % 4]) >= int(rate * 2**32)
        assert mask[t, b, j] == (1 / (1 - rate) if kept else 0.0)
    assert 0 < np.count_nonzero(mask) < mask.size


def test_dropout_rate_is_respected():
    for dropout in (0.0, 0.1, 0.5, 0.9, 1.0):
        config = Config("gru", 2, 50, 2, dropout=dropout)
        mask = judge.dropout_mask(config, 0, 50, 40, 12345)
        dropped = np.mean(mask == 0.0)
        assert abs(dropped - dropout) < 5 * np.sqrt(0.25 / mask.size)


def test_dropout_masks_differ_between_places_and_keys():
    config = Config("gru", 3, 64, 2, dropout=0.5)

    def mask(layer, key):
        return judge.dropout_mask(config, layer, 2, 2, key)

    reference = mask(0, 1)
    others = [mask(1, 1), mask(0, 2), mask(0, 1 + (1 << 32))]
    slices = [reference[0, 0], reference[0, 1], reference[1, 0]]
    slices += [other[0, 0] for other in others]
    for i, first in enumerate(slices):
        for second in slices[:i]:
            assert np.any(first != second)


def test_dropout_acts_between_layers_in_training_only():
    rng = np.random.default_rng(2)
    config = Config("lstm", 3, 5, 4, "bidirectional", dropout=0.5)
    case = cases.random_case(rng, config, 3, 2)
    without = dataclasses.replace(case, config=dataclasses.replace(config, dropout=0.0)).forward(
        key=7
    )
    inference, training = case.forward(), case.forward(key=7)
    _assert_close(inference.y, without.y)
    assert np.any(training.y != inference.y)
    # The bottom layer's own states are not dropped.
    _assert_close(training.h_n[:2], inference.h_n[:2])
    _assert_close(training.c_n[:2], inference.c_n[:2])
    # One layer has nothing below it to drop.
    single = dataclasses.replace(config, num_layers=1)
    case = cases.random_case(rng, single, 3, 2)
    _assert_close(case.forward(key=7).y, case.forward().y)


def test_dropout_of_two_layers_is_a_product_between_two_runs():
    config = Config("gru", 2, 5, 4, "bidirectional", dropout=0.4)
    case = cases.random_case(np.random.default_rng(3), config, 4, 3, [4, 1, 3])
    key = judge.own_key([99, -5])
    w = judge.split_params(config, case.params)
    y = case.x
    for layer in range(2):
        single = dataclasses.replace(config, num_layers=1, input_size=y.shape[2])
        both = w[2 * layer : 2 * layer + 2]
        parts = [part.ravel() for k in both for part in (k.W, k.R)]
        parts += [part.ravel() for k in both for part in (k.bW, k.bR)]
        params = np.concatenate(parts)
        h0 = case.h0[2 * layer : 2 * layer + 2]
        y = judge.forward(single, y, h0, 0.0, params, case.sequence_lengths).y
        if layer == 0:
            y = y * judge.dropout_mask(config, 0, 4, 3, key)
    _assert_close(case.forward(key).y, y)


def test_keys():
    assert judge.builtin_key(0, 0) == 0
    assert judge.builtin_key(1, 2) == 0x0000000100000002
    assert judge.builtin_key(1, 2, 1) == 0x9E3779B97F4A7C15 + 0x0000000100000002
    assert judge.builtin_key(-1, 2) == 0xFFFFFFFF00000002
    # TensorFlow's sign extension: seed is lost.
    assert judge.builtin_key(1, -2) == 0xFFFFFFFFFFFFFFFE
    assert judge.builtin_key(0, -1, 1) == 0x9E3779B97F4A7C14  # wraps
    assert judge.own_key([judge.seed64(5, 6), 0]) == judge.builtin_key(5, 6)
    assert judge.own_key([0, 0x0000000100000002]) == 0x0000000200000001
    assert judge.own_key([-1, 0]) == 0xFFFFFFFFFFFFFFFF
    assert judge.own_key(np.array([3, -1], np.int64)) == 0xFFFFFFFFFFFFFFFC


# ---------------------------------------------------------------------------------
# Identities
# ---------------------------------------------------------------------------------

# One of everything; I != H != P, two layers or more.
OPTIONS = {
    "relu": Config("rnn_relu", 2, 5, 3),
    "tanh_bidirectional": Config("rnn_tanh", 2, 5, 3, "bidirectional"),
    "gru_bidirectional_dropout": Config("gru", 3, 5, 3, "bidirectional", dropout=0.4),
    "gru_skip": Config("gru", 2, 5, 5, input_mode="skip_input"),
    "lstm_bidirectional": Config("lstm", 2, 5, 3, "bidirectional"),
    "lstm_projection_dropout": Config("lstm", 2, 5, 3, "bidirectional", num_proj=2, dropout=0.4),
}


def _assert_close(actual, expected, err_msg=""):
    """Equal but for the order in which a matrix product adds up."""
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-13, err_msg=err_msg)


def _assert_same(actual, expected):
    """Compares two Forwards or two Gradients."""
    for name in actual._fields:
        if name != "tape":
            _assert_close(getattr(actual, name), getattr(expected, name), name)


@pytest.mark.parametrize("name", OPTIONS)
def test_batch_major_is_time_major_transposed(name):
    T, B = 4, 3
    case = cases.random_case(np.random.default_rng(4), OPTIONS[name], T, B, [2, 4, 0])
    forward, gradients = case.forward_backward(key=11)
    other = case.with_layout(time_major=False)
    lstm = case.config.rnn_mode == "lstm"
    assert other.x.shape == (B, T, case.config.I)
    assert other.h0.shape == (B, case.config.L * case.config.D, case.config.P)
    forward2, gradients2 = other.forward_backward(key=11)
    for swapped, plain in [
        (forward2.y, forward.y),
        (forward2.h_n, forward.h_n),
        (gradients2.dx, gradients.dx),
        (gradients2.dh0, gradients.dh0),
    ]:
        _assert_close(np.swapaxes(swapped, 0, 1), plain)
    if lstm:
        _assert_close(np.swapaxes(forward2.c_n, 0, 1), forward.c_n)
        _assert_close(np.swapaxes(gradients2.dc0, 0, 1), gradients.dc0)
    _assert_close(gradients2.dparams, gradients.dparams)


@pytest.mark.parametrize("name", OPTIONS)
def test_padding_is_never_read(name):
    case = cases.random_case(np.random.default_rng(5), OPTIONS[name], 4, 3, [2, 4, 0])
    forward, gradients = case.with_padding(0.0).forward_backward(key=11)
    poisoned = case.with_padding(np.nan).forward_backward(key=11)
    _assert_same(poisoned[0], forward)
    _assert_same(poisoned[1], gradients)
    assert not forward.y[case.padding()].any()
    assert not gradients.dx[case.padding()].any()


@pytest.mark.parametrize("name", OPTIONS)
def test_rows_do_not_mix_and_a_short_row_is_a_short_run(name):
    config = dataclasses.replace(OPTIONS[name], dropout=0.0)
    lengths = [3, 5, 1]
    case = cases.random_case(np.random.default_rng(6), config, 5, 3, lengths)
    forward, gradients = case.forward_backward()
    dparams = np.zeros_like(case.params)
    lstm = config.rnn_mode == "lstm"
    for b, length in enumerate(lengths):
        row = slice(b, b + 1)
        alone = dataclasses.replace(
            case,
            x=case.x[:length, row],
            h0=case.h0[:, row],
            c0=case.c0[:, row] if lstm else case.c0,
            dy=case.dy[:length, row],
            dh_n=case.dh_n[:, row],
            dc_n=case.dc_n[:, row] if lstm else case.dc_n,
            sequence_lengths=np.array([length]),
        )
        forward1, gradients1 = alone.forward_backward()
        for part, whole in [
            (forward1.y, forward.y[:length, row]),
            (forward1.h_n, forward.h_n[:, row]),
            (gradients1.dx, gradients.dx[:length, row]),
            (gradients1.dh0, gradients.dh0[:, row]),
        ]:
            _assert_close(part, whole)
        dparams += gradients1.dparams
    _assert_close(dparams, gradients.dparams)


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_one_run_equals_two_runs_that_hand_over_the_states(rnn_mode):
    num_proj = 2 if rnn_mode == "lstm" else 0
    config = Config(rnn_mode, 2, 5, 3, num_proj=num_proj)
    T1, T2, lengths = 3, 2, np.array([2, 5, 0, 4])
    case = cases.random_case(np.random.default_rng(7), config, T1 + T2, 4, lengths)
    forward, gradients = case.forward_backward()

    first = dataclasses.replace(
        case, x=case.x[:T1], dy=case.dy[:T1], sequence_lengths=np.minimum(lengths, T1)
    )
    forward1 = first.forward()
    second = dataclasses.replace(
        case,
        x=case.x[T1:],
        dy=case.dy[T1:],
        h0=forward1.h_n,
        c0=forward1.c_n,
        sequence_lengths=np.maximum(lengths - T1, 0),
    )
    forward2, gradients2 = second.forward_backward()
    gradients1 = judge.backward(config, forward1.tape, first.dy, gradients2.dh0, gradients2.dc0)

    _assert_close(np.concatenate([forward1.y, forward2.y]), forward.y)
    _assert_close(forward2.h_n, forward.h_n)
    _assert_close(forward2.c_n, forward.c_n)
    _assert_close(np.concatenate([gradients1.dx, gradients2.dx]), gradients.dx)
    _assert_close(gradients1.dh0, gradients.dh0)
    _assert_close(gradients1.dc0, gradients.dc0)
    _assert_close(gradients1.dparams + gradients2.dparams, gradients.dparams)


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_backward_direction_is_the_forward_direction_of_reversed_input(rnn_mode):
    config = Config(rnn_mode, 1, 5, 3, "bidirectional")
    lengths = [2, 4, 3]
    case = cases.random_case(np.random.default_rng(8), config, 4, 3, lengths)
    forward = case.forward()

    w = judge.split_params(config, case.params)[1]
    single = dataclasses.replace(config, direction="unidirectional")
    params = np.concatenate([part.ravel() for part in (w.W, w.R, w.bW, w.bR)])

    def reverse(tensor):
        tensor = tensor.copy()
        for b, length in enumerate(lengths):
            tensor[:length, b] = tensor[:length, b][::-1]
        return tensor

    c0 = case.c0[1:] if rnn_mode == "lstm" else case.c0
    reversed_run = judge.forward(single, reverse(case.x), case.h0[1:], c0, params, lengths)
    _assert_close(reverse(reversed_run.y), forward.y[:, :, config.H :])
    _assert_close(reversed_run.h_n[0], forward.h_n[1])


@pytest.mark.parametrize("rnn_mode", judge.RNN_MODES)
def test_skip_input_equals_an_identity_matrix(rnn_mode):
    skip = Config(rnn_mode, 2, 4, 4, "bidirectional", "skip_input")
    linear = dataclasses.replace(skip, input_mode="linear_input")
    case = cases.random_case(np.random.default_rng(9), skip, 3, 2)
    weights, biases = judge.canonical(skip, case.params)
    weights = [np.eye(4) if w.shape == (4, 0) else w for w in weights]
    params = judge.from_canonical(linear, weights, biases)
    other = dataclasses.replace(case, config=linear, params=params)
    forward, gradients = case.forward_backward()
    forward2, gradients2 = other.forward_backward()
    _assert_same(forward, forward2)
    _assert_close(gradients.dx, gradients2.dx)


def test_zero_length_rows_pass_states_and_their_gradients_through():
    config = Config("lstm", 2, 5, 3, "bidirectional", num_proj=2)
    case = cases.random_case(np.random.default_rng(10), config, 3, 2, [0, 0])
    forward, gradients = case.forward_backward()
    assert not forward.y.any()
    np.testing.assert_array_equal(forward.h_n, case.h0)
    np.testing.assert_array_equal(forward.c_n, case.c0)
    np.testing.assert_array_equal(gradients.dh0, case.dh_n)
    np.testing.assert_array_equal(gradients.dc0, case.dc_n)
    assert not gradients.dx.any()
    assert not gradients.dparams.any()


def test_empty_batch():
    config = Config("lstm", 2, 5, 3, "bidirectional", num_proj=2, dropout=0.5)
    case = cases.random_case(np.random.default_rng(11), config, 3, 0)
    forward, gradients = case.forward_backward(key=1)
    assert forward.y.shape == (3, 0, 4)
    assert forward.h_n.shape == (4, 0, 2)
    assert forward.c_n.shape == (4, 0, 5)
    assert not gradients.dparams.any()


@pytest.mark.parametrize("c0", [0.0, np.zeros([0]), np.ones([1, 2, 5])], ids=np.shape)
def test_modes_without_a_cell_state_ignore_c0(c0):
    config = Config("gru", 1, 5, 3)
    case = cases.random_case(np.random.default_rng(12), config, 3, 2)
    forward, gradients = dataclasses.replace(case, c0=c0).forward_backward()
    _assert_same(forward, case.forward())
    assert forward.c_n.shape == ()
    assert gradients.dc0.shape == np.shape(c0)
    assert not gradients.dc0.any()


def test_backward_twice_gives_the_same_and_inputs_stay():
    case = cases.random_case(np.random.default_rng(13), OPTIONS["gru_skip"], 4, 3)
    before = [getattr(case, name).copy() for name in case.TENSORS]
    forward = case.forward()
    runs = [judge.backward(case.config, forward.tape, case.dy, case.dh_n) for _ in range(2)]
    _assert_same(*runs)
    for name, tensor in zip(case.TENSORS, before, strict=True):
        np.testing.assert_array_equal(getattr(case, name), tensor, err_msg=name)


@pytest.mark.parametrize(
    "change",
    [
        {"num_proj": 6},
        {"num_proj": -1},
        {"rnn_mode": "gru", "num_proj": 2},
        {"input_mode": "skip_input"},
        {"dropout": 1.5},
        {"dropout": float("nan")},
        {"rnn_mode": "foo"},
        {"num_layers": 0},
    ],
    ids=str,
)
def test_impossible_configs_are_refused(change):
    with pytest.raises(ValueError):
        dataclasses.replace(Config("lstm", 1, 5, 3), **change)


def test_wrong_shapes_are_refused():
    case = cases.random_case(np.random.default_rng(14), Config("lstm", 1, 5, 3), 4, 2)
    for change in [
        {"x": case.x[:, :, :2]},
        {"h0": case.h0[:, :1]},
        {"c0": case.c0[:, :1]},
        {"params": case.params[:-1]},
        {"sequence_lengths": np.array([4])},
        {"sequence_lengths": np.array([4, 5])},
        {"dy": case.dy[:3]},
    ]:
        with pytest.raises(ValueError):
            dataclasses.replace(case, **change).forward_backward()


# ---------------------------------------------------------------------------------
# The helpers in cases.py
# ---------------------------------------------------------------------------------


def test_random_cases_run_for_every_drawn_config():
    rng = np.random.default_rng(15)
    drawn = set()
    for _ in range(60):
        config = cases.random_config(rng, max_size=5)
        T, B = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        lengths = cases.ragged_lengths(rng, T, B, allow_zero=True)
        assert lengths.max() == T
        case = cases.random_case(rng, config, T, B, lengths)
        assert (case.T, case.B) == (T, B)
        forward, gradients = case.astype(np.float32).forward_backward(key=3)
        assert forward.y.dtype == gradients.dparams.dtype == np.float64
        assert all(np.isfinite(g).all() for g in gradients)
        drawn |= {config.rnn_mode, config.direction, config.skip, config.has_projection}
    assert drawn >= {*judge.RNN_MODES, *judge.DIRECTIONS, True, False}
