"""benchmarks/experiments.py: what groups and cases are planned to measure."""

import dataclasses

import pytest

from benchmarks import cases, experiments
from benchmarks.results import files as result_files


def test_groups():
    rows, has_engine = experiments.plan(["quick", "lstm_64_b32", "quick"], 2)
    assert not has_engine
    quick = len(cases.in_set("quick"))
    assert [row.experiment for row in rows] == ["quick"] * 2 * quick + ["single"] * 2
    everything, has_engine = experiments.plan(["all"], 2)
    assert has_engine
    names = {row.experiment for row in everything}
    assert names == {*experiments.EXPERIMENTS, "engine"} - {"quick"}
    # Files name networks alone.
    known = experiments.all_cases()
    for row in everything:
        assert known[row.case.name] == row.case
    # A row is found by these, and a column by its name.
    keys = [(row.experiment, row.case.name, row.pass_) for row in everything]
    assert len(set(keys)) == len(keys)
    for row in everything:
        assert len({each.name for each in row.sides}) == len(row.sides)
    more, _ = experiments.plan(["all", "sweep:7"], 2)
    assert len(more) == len(everything) + 400 and more[: len(everything)] == everything
    for unknown in ("fast", "sweep:", "sweep:x"):
        with pytest.raises(ValueError, match=f"no case or group of cases '{unknown}'; the groups"):
            experiments.plan(["all", unknown], 2)


def test_other_random_shapes():
    rows, _ = experiments.plan(["sweep", "sweep:7"], 2)
    found = {row.case for row in rows}
    assert len({case.name for case in found}) == len(found) == 400
    shapes = {dataclasses.replace(case, name="") for case in found}
    assert len(shapes) == 400 and all(cases.is_random(case.name) for case in found)
    # Shapes that code may have been made for are the published ones.
    assert all(
        (result_files.case_of(name) is None) == name.startswith("random_7_")
        for name in (case.name for case in found)
    )


def test_threads_are_those_of_the_machine():
    rows, _ = experiments.plan(["threads"], 12)
    own = [each for each in rows[0].sides if each.driver == "own_op"]
    assert [each.threads for each in own] == [12, 6, 3, 1]
    assert [each.name for each in own] == ["op_12", "op_6", "op_3", "op_1"]
