"""benchmarks/accuracy.py: errors against the judge are measured, kept and shown."""

import dataclasses
import importlib

import numpy as np
import pytest

from benchmarks import accuracy, cases, check, drivers
from benchmarks.cases import TRAINING
from benchmarks.drivers import tensorflow
from benchmarks.processes import Pool, Side
from benchmarks.results import accuracy as files
from benchmarks.results.accuracy import Error
from tests.benchmarks import fakes

SMALL = {case.name: case for case in check.check_cases()}
PREAMBLE = {
    "cpu": "A processor",
    "date": "2026-01-02",
    "commit": "0123456789ab",
    "threads": "2",
    "versions": "keras 3.15",
}
GRU = "gru_128_t32_b16"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        *(("own_op", name) for name in SMALL),
        *(("keras_function", name) for name in ("gru", "lstm_stack")),
    ],
)
def test_the_truth_is_what_float64_computes(key, name, monkeypatch):
    monkeypatch.setattr(tensorflow, "set_threads", lambda threads: None)
    entry = drivers.DRIVERS[key]
    driver = getattr(importlib.import_module(entry.module), entry.class_name)(2)
    step = driver.build(SMALL[name], TRAINING, "float64")
    found = step.arrays(step.run())
    expected = accuracy.truth(SMALL[name])
    assert set(found) > set(expected) == set(files.TENSORS)
    for tensor, array in expected.items():
        assert accuracy.relative_error(found[tensor], array) < 1e-13, tensor


def test_relative_errors():
    expected = np.array([3.0, 4.0])
    assert accuracy.relative_error(np.array([3.0, 4.0], np.float32), expected) == 0
    assert accuracy.relative_error(np.array([3.0, 4.5], np.float32), expected) == 0.1
    assert np.isnan(accuracy.relative_error(np.array([3.0, np.nan]), expected))
    with pytest.raises(ValueError, match=r"must have shape \(2,\); got \(3,\)"):
        accuracy.relative_error(np.ones(3), expected)


def test_sides_are_measured(tmp_path):
    case = SMALL["lstm"]
    sides = [Side("op", "inexact"), Side("keras", "raiser")]
    with fakes.without_tensorflow(), Pool(1, tmp_path, registry=fakes.DRIVERS) as pool:
        found, refused = accuracy.measure(pool, case, sides)
    assert {error[:-1] for error in found} == {("lstm", "op", name) for name in files.TENSORS}
    # Half the elements: a thousandth, divided by about the root of two.
    assert all(5e-4 < error.value < 9e-4 for error in found)
    assert refused == {"keras": "RuntimeError: no such thing"}


def test_lines_compare_with_the_op():
    errors = [Error(GRU, "op", "dW", 3e-7), Error(GRU, "keras", "dW", 6e-7)]
    assert accuracy.lines(errors) == [f"{GRU:<32}dW   op 3.00e-07, keras 6.00e-07 (0.50x)"]
    assert accuracy.lines(errors[1:]) == [f"{GRU:<32}dW   keras 6.00e-07"]


def test_more_than_twice_the_error_of_keras_is_a_failure():
    keras = [Error(GRU, "keras", "dW", 1e-7), Error(GRU, "keras", "y", 3e-7)]
    right = [Error(GRU, "op", "dW", 1.9e-7), Error(GRU, "torch", "dW", 9e-7)]
    assert accuracy.failures(right + keras) == []
    [failure] = accuracy.failures([Error(GRU, "layer", "dW", 2.1e-7), *keras])
    assert failure == (
        f"FAILED: dW of {GRU}, layer: the error must be at most 2 times Keras', 1.00e-07; "
        "it is 2.10e-07."
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_error_that_is_no_number_is_a_failure(value):
    keras = [Error(GRU, "keras", "dW", 1e-7), Error(GRU, "torch", "dW", value)]
    for others in (keras, []):
        [failure] = accuracy.failures([Error(GRU, "op", "dW", value), *others])
        assert failure == f"FAILED: dW of {GRU}, op: the error must be finite; it is {value}."


def test_a_side_of_this_library_without_results_is_a_failure():
    refused = {"op": "the process ended by signal 11", "torch": "it is ill"}
    assert accuracy.own_refusals(SMALL["gru"], refused) == [
        "FAILED: gru, op: there must be results; the process ended by signal 11."
    ]


def test_cases_are_of_all_kinds():
    found = cases.accuracy_cases()
    assert len({case.name for case in found}) == len(found)
    assert {case.rnn_mode for case in found} == {"lstm", "gru", "rnn_tanh", "rnn_relu"}
    assert any(case.is_ragged for case in found)
    assert any(case.one_sign for case in found) and not all(case.one_sign for case in found)
    assert any(case.layout.has_projection for case in found)
    rows = [case.seq_length * case.batch for case in found if case.rnn_mode == "gru"]
    assert min(rows) <= 512 and max(rows) >= 13000


def test_values_of_one_sign():
    (case,) = [case for case in cases.accuracy_cases() if case.name == f"{GRU}_one_sign"]
    arrays = cases.arrays_of(dataclasses.replace(case, fill=0.5))
    assert np.all(arrays.x >= 0) and np.ptp(arrays.x) > 1
    is_padding = np.arange(case.seq_length)[:, None] >= arrays.lengths
    assert np.array_equal(arrays.dy[..., 0], np.where(is_padding, 0, 1))


def a_file(folder, errors, name="a-cpu-2026-01-02.csv", **preamble):
    file = files.File(folder / name, PREAMBLE | preamble, ["torch of x: it is ill"], errors)
    files.write(file)
    return file


def test_a_file_comes_back(tmp_path):
    file = a_file(tmp_path, [Error(GRU, "op", "dW", 3.25e-7), Error(GRU, "keras", "dW", 0.0)])
    assert files.read(file.path) == file


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            f"{GRU}_,op,dW,1",
            ":8: `case` must be one of gru_128_t32_b16, .*; got 'gru_128_t32_b16_'",
        ),
        (f"{GRU},us,dW,1", "`side` must be one of keras, .*; got 'us'"),
        (f"{GRU},op,dx0,1", "`tensor` must be one of dR, .*; got 'dx0'"),
        (f"{GRU},op,dW,nan", "`value` must be a number from 0; got 'nan'"),
        (f"{GRU},op,dW,-1", "`value` must be a number from 0; got '-1'"),
        (f"{GRU},op,dW,much", "`value` must be a number from 0; got 'much'"),
        (f"{GRU},op,dW", ":8: must have 4 cells"),
        (f"{GRU},op,dW,1,2", ":8: must have 4 cells"),
        (f"{GRU},op,dW,1\n{GRU},op,dW,2", ":9: gru_128_t32_b16 op dW is there twice"),
    ],
)
def test_a_malformed_line_is_refused(tmp_path, line, message):
    file = a_file(tmp_path, [])
    file.path.write_text(file.path.read_text() + line + "\n")
    with pytest.raises(ValueError, match=message):
        files.read(file.path)


def test_a_malformed_file_is_refused(tmp_path):
    file = a_file(tmp_path, [])
    text = file.path.read_text()
    for old, new, message in (
        ("case,side", "case,sides", "must have the columns"),
        ("# commit: 0123456789ab\n", "", "must begin with lines .* for commit"),
    ):
        file.path.write_text(text.replace(old, new))
        with pytest.raises(ValueError, match=message):
            files.read(file.path)


def test_the_table(tmp_path):
    projected = "lstm_256_128_t50_b16"
    folder = files.folder(tmp_path)
    a_file(folder, [Error(GRU, "op", "dW", 1e-7)], "b-cpu-2025-01-02.csv", date="2025-01-02")
    a_file(
        folder,
        [
            Error(GRU, "op", "dW", 3.26e-7),
            Error(GRU, "keras", "dW", 0.5e-7),
            Error(projected, "op", "dW", 1e-7),
            Error(projected, "torch", "dW", 12e-7),
        ],
    )
    newer, older = files.tables(files.read_all(tmp_path)).split("[A processor]")[1:]
    assert newer.startswith("(results/accuracy/a-cpu-2026-01-02.csv), 2026-01-02, commit 0123456,")
    assert "in a cell op / Keras / PyTorch, times 1e-07;" in " ".join(newer.split())
    none = "– / – / –"
    assert f"| GRU 128, batch 16, 32 steps | {none} | {none} | {none} | 3.3 / 0.5 / – |" in newer
    assert f"| {none} | 1 / – / 12 | {none} |" in newer
    # Only where there are both.
    assert "| **most: op / Keras** | | | | **6.5x** | | |" in newer
    assert "in a cell op, times 1e-07" in " ".join(older.split())
    assert files.tables([]) == "Nothing has been measured yet."
