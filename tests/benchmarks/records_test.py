"""benchmarks/records.py: the CSV file of a run comes back, and its last figures count."""

import dataclasses

import numpy as np
import pytest

from benchmarks import records
from benchmarks.experiments import Row
from benchmarks.processes import Side
from tests.benchmarks import fakes


def test_files_come_back(tmp_path):
    some = fakes.everything()[::23] + [record for record in fakes.everything() if record.error][:3]
    path = tmp_path / "folder" / "run.csv"
    writer = records.Writer(path, {**fakes.PREAMBLE, "text": "two\nlines: and more"})
    for record in some:
        writer.write(record)
    writer.close()
    preamble, found = records.read(path)
    assert preamble == {**fakes.PREAMBLE, "text": "two lines: and more"}
    for record, same in zip(some, found, strict=True):
        for field in dataclasses.fields(record):
            value, read = getattr(record, field.name), getattr(same, field.name)
            equal = isinstance(value, float) and np.isclose(value, read, rtol=1e-5)
            assert equal or value == read, field.name
    path.write_text(path.read_text().replace("minimum", "least", 1))
    with pytest.raises(ValueError, match="must have the columns .*'minimum'.*; got .*'least'"):
        records.read(path)


def test_quartiles():
    found = records.figures([5.0, 1.0, 2.0, 4.0, 3.0])
    assert found == {"minimum": 1.0, "lower": 2.0, "median": 3.0, "upper": 4.0}
    assert set(records.figures([7.0]).values()) == {7.0}


def test_the_last_measurement_of_a_row_counts(tmp_path):
    sides = (Side("a", "a"), Side("b", "b"))
    first, other = fakes.figures_of([Row("test", fakes.LSTM, "training", sides)])
    last = dataclasses.replace(first, median=7.0)
    path = tmp_path / "run.csv"
    writer = records.Writer(path, fakes.PREAMBLE)
    for record in (first, other, last):
        writer.write(record)
    writer.close()
    _, found = records.read(path)
    assert [(each.side, each.median == 7.0) for each in found] == [("a", True), ("b", False)]
