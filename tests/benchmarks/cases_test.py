"""benchmarks/cases.py and cases.csv: the list of cases, its arithmetic, and the random ones."""

import dataclasses

import numpy as np
import pytest

from benchmarks import cases
from benchmarks.cases import Case
from tests.helpers import running
from tests.reference import cases as reference_cases
from tests.reference import judge

ALL = cases.read_cases()
LSTM = Case("x", (), "lstm", 2, 2, 8, 3, 5, 10, 6, 0.0)


def judged_case(case: Case) -> reference_cases.Case:
    """The same network and lengths with the judge's random values."""
    config = judge.Config(
        case.rnn_mode,
        case.num_layers,
        case.num_units,
        case.input_size,
        case.direction,
        num_proj=case.num_proj,
        dropout=case.dropout,
    )
    rng = np.random.default_rng(1)
    drawn = reference_cases.random_case(rng, config, case.seq_length, case.batch, case.lengths)
    return drawn.astype(np.float32)


@pytest.mark.parametrize("ragged", [False, True], ids=["full", "ragged"])
@pytest.mark.parametrize("case", ALL.values(), ids=lambda case: case.name)
def test_the_judge_agrees(case, ragged):
    """What is timed is right: each case through the op, with fewer steps and units."""
    judged_as = judged_case((case.ragged() if ragged else case).small())
    # Own ops take the dropout key from rng_seed, which is 0 unless it is given.
    found = running.forward_backward(running.OWN_V3, judged_as)
    for name, expected in running.judged(judged_as, key=judge.own_key([0, 0])).items():
        if name in found:
            error = np.max(np.abs(found[name] - expected), initial=0)
            assert error <= running.tolerance(judged_as, name, expected), (name, error)


def test_small_cases_keep_what_matters():
    for case in ALL.values():
        small = case.small()
        assert small.num_units <= 98 and small.input_size <= 98 and small.seq_length <= 5
        for name in ("num_units", "num_proj", "input_size"):
            assert getattr(small, name) % 2 == getattr(case, name) % 2
        assert (small.input_size == small.num_units) == (case.input_size == case.num_units)
        assert small.layout.has_projection == case.layout.has_projection
        assert (small.batch, small.num_layers) == (case.batch, case.num_layers)
    odd = dataclasses.replace(LSTM, num_units=1001, num_proj=501, input_size=3000).small()
    assert (odd.num_units % 2, odd.num_proj % 2, odd.input_size % 2) == (1, 1, 0)


def test_sets():
    assert {"gate", "quick", "small", "roofline", "projection", "bidirectional"} <= {
        each for case in ALL.values() for each in case.sets
    }
    assert [case.name for case in cases.in_set("projection")] == [
        "lstmp_1024_512_b16",
        "lstmp_512_256_b32",
    ]
    with pytest.raises(ValueError, match="There is no set 'gates' of cases; there are bidirectio"):
        cases.in_set("gates")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,gate,lstn,1,1,8,0,8,5,1,0", "2: `rnn_mode` must be one of"),
        ("a,gate,lstm,1,3,8,0,8,5,1,0", "2: `num_dirs` must be 1 or 2; got 3"),
        ("a,gate,lstm,1,1,8,0,8,0,1,0", "2: `seq_length` must be positive; got 0"),
        ("a,gate,lstm,1,1,8,0,8,5,1,2", r"2: `dropout` must be in \[0, 1\]; got 2.0"),
        ("a,gate,lstm,1,1,8,0,8,5,1", "2 must have 11 values"),
        ("a,,gru,1,1,8,0,8,5,1,0\na,,gru,1,1,8,0,8,5,1,0", "3: the name a comes twice"),
    ],
)
def test_wrong_lines(line, message, tmp_path):
    path = tmp_path / "cases.csv"
    head = cases.PATH.read_text().splitlines()[0]
    path.write_text(f"{head}\n{line}\n")
    with pytest.raises(ValueError, match=message):
        cases.read_cases(path)


def test_wrong_columns(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text(cases.PATH.read_text().replace("batch", "batch_size", 1))
    with pytest.raises(ValueError, match="must have the columns .*'batch', 'dropout'.*; got"):
        cases.read_cases(path)


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "cases.csv"
    cases.write_cases(path, ALL.values())
    assert path.read_bytes() == cases.PATH.read_bytes()
    assert cases.read_cases(path) == ALL


@pytest.mark.parametrize("fill", [0.125, 0.25, 0.6, 1.0])
def test_lengths(fill):
    case = dataclasses.replace(LSTM, seq_length=40, batch=32, fill=fill)
    lengths = case.lengths
    assert lengths.dtype == np.int32 and lengths.shape == (32,)
    assert lengths.min() >= 1 and lengths.max() <= 40
    assert abs(lengths.mean() - 40 * fill) < 0.6
    assert np.array_equal(lengths, case.lengths)
    if fill >= 0.5:
        assert lengths.max() == 40
    if fill < 1:
        assert np.any(np.diff(lengths) > 0) and np.any(np.diff(lengths) < 0)  # unsorted
    assert dataclasses.replace(case, batch=1).lengths == [np.rint(40 * fill)]


def test_a_ragged_case():
    ragged = ALL["lstm_512_b16"].ragged()
    assert (ragged.name, ragged.is_ragged, ragged.fill) == ("lstm_512_b16_ragged", True, 0.6)
    assert not ALL["lstm_512_b16"].is_ragged


def multiply_adds(case: Case) -> int:
    """Of one forward pass, from the judge's matrices."""
    config = judged_case(dataclasses.replace(case, seq_length=1)).config
    count = 0
    for w in judge.split_params(config, np.zeros(judge.params_size(config))):
        count += w.W.size + w.R.size + (0 if w.projection is None else w.projection.size)
    return count * int(case.lengths.sum())


@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_flops(mode):
    case = dataclasses.replace(LSTM, rnn_mode=mode, num_proj=3 if mode == "lstm" else 0)
    for each in (case, case.ragged(0.5)):
        assert each.flops("inference") == 2 * multiply_adds(each)
        assert each.flops("training") == 6 * multiply_adds(each)
    assert case.ragged(0.5).flops("inference") < 0.6 * case.flops("inference")
    assert ALL["lstm_512_b64"].flops("inference") == 2 * 64 * 25 * 4 * 512 * 1024


def test_elements():
    # W [4H, I] and [4H, 2P], R [4H, P] and the projection [P, H], of both directions.
    H, P, I = 8, 3, 5
    recurrent = 2 * 2 * (4 * H * P + P * H)
    assert LSTM.recurrent_elements == recurrent
    assert LSTM.matrix_elements == recurrent + 2 * 4 * H * I + 2 * 4 * H * 2 * P


def test_arrays():
    ragged = LSTM.ragged()
    arrays = cases.arrays_of(ragged)
    assert arrays.x.shape == (10, 6, 5) and arrays.dy.shape == (10, 6, 6)
    assert arrays.h0.shape == (4, 6, 3) and arrays.c0.shape == (4, 6, 8)
    assert arrays.params.shape == (LSTM.layout.size,)
    assert {array.dtype.name for array in arrays} == {"float32", "int32"}
    padding = np.arange(10)[:, None] >= arrays.lengths
    assert padding.any() and not arrays.dy[padding].any() and arrays.dy[~padding].all()
    again = cases.arrays_of(dataclasses.replace(ragged, name="y", sets=("gate",), dropout=0.5))
    other = cases.arrays_of(dataclasses.replace(ragged, batch=7))
    for array, same in zip(arrays, again, strict=True):
        assert np.array_equal(array, same)
    assert not np.array_equal(arrays.params, other.params)


def test_json():
    case = LSTM.ragged()
    assert cases.from_json(cases.to_json(case)) == case


def test_random_cases():
    drawn = cases.random_cases(200)
    assert drawn == cases.random_cases(200) and drawn != cases.random_cases(200, seed=1)
    assert len({case.name for case in drawn}) == 200
    assert all(case.flops("inference") <= 40e9 for case in drawn)
    assert sum(case.flops("training") for case in drawn) < 1e12
    for kind in (
        lambda c: c.num_units % 2 == 1,
        lambda c: c.input_size > 4 * c.num_units,
        lambda c: c.num_units > 4 * c.input_size,
        lambda c: c.batch % 8 != 0 and c.batch > 8,
        lambda c: c.seq_length == 1,
        lambda c: c.num_layers == 6,
        lambda c: c.num_dirs == 2,
        lambda c: c.is_ragged,
        lambda c: c.num_proj > 0,
        lambda c: c.dropout > 0,
        *(lambda c, mode=mode: c.rnn_mode == mode for mode in judge.RNN_MODES),
    ):
        assert sum(map(kind, drawn)) >= 5
