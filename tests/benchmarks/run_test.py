"""benchmarks/run.py: its flags, and a small run in earnest."""

import collections
import csv
import itertools

import pytest
from absl import app, flags
from absl.testing import flagsaver

from benchmarks import check, experiments, records, run
from benchmarks.processes import Pool
from benchmarks.records import COLUMNS
from tests.benchmarks import fakes
from tests.benchmarks.fakes import LSTM


@pytest.fixture
def program():
    """Calls the program with flags."""

    def call(*arguments: str) -> None:
        flags.FLAGS(["run", "--nopeers", *arguments])
        run.main(["run"])

    with flagsaver.flagsaver():
        yield call


def test_a_small_run(program, tmp_path, capsys):
    """The op beside Keras on one case, as `make bench` calls it."""
    path = tmp_path / "run.csv"
    program(
        "--cases=bgru_64_b8",
        "--sides=keras",
        "--passes=training",
        "--rounds=1",
        "--seconds=0.01",
        "--pause=0",
        f"--output={path}",
    )
    with path.open() as file:
        preamble = {}
        for line in file:
            if not line.startswith("# "):
                break
            key, _, value = line[2:].strip().partition(": ")
            preamble[key] = value
        lines = [line for line in file if not line.startswith("# ")]  # what follows says "finished"
        rows = list(csv.DictReader(lines, COLUMNS))
    assert line.strip().split(",") == COLUMNS
    assert {"cpu", "isa", "threads", "versions", "tf_cudnn_rnn", "date", "build"} <= set(preamble)
    assert "tensorflow" in preamble["versions"] and "commit" in preamble["tf_cudnn_rnn"]
    assert [row["side"] for row in rows] == ["op", "keras"]
    assert all(float(row["median"]) > 0 and row["error"] == "" for row in rows)
    printed = capsys.readouterr().out
    assert "[1/1, 0 min left] single bgru_64_b8 training: op " in printed
    assert "\nBars: none is about these rows" in printed
    assert f"chart: {tmp_path}/run_single_training.png" in printed
    assert (tmp_path / "run_single_training.png").exists()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--cases=fast", "--cases: There is no case or group of cases 'fast'"),
        ("--sides=keras,fast", "--sides: must be of op, keras, torch, onnx, .*; got fast"),
        ("--passes=backward", "--passes: must be of inference, training; got 'backward'"),
        ("--share=3/2", "--share: must be k/n with k from 1 to n; got '3/2'"),
    ],
)
def test_wrong_flags(flag, message, program):
    with pytest.raises(app.UsageError, match=message):
        program("--cases=quick", flag)


def test_a_share_has_both_passes_of_its_cases():
    rows, _ = experiments.plan(["gate", "ragged"], 2)
    shares = []
    for k in (1, 2, 3, 4):
        with flagsaver.flagsaver():
            flags.FLAGS(["run", f"--share={k}/4"])
            shares.append(run.selected(rows, missing_drivers=set()))
    assert sorted(map(str, itertools.chain(*shares))) == sorted(map(str, rows))
    for share in shares:
        passes = collections.Counter((row.experiment, row.case.name) for row in share)
        assert set(passes.values()) == {2}
        assert {name for name, _ in passes} == {"gate", "ragged"}


@pytest.mark.parametrize(("share", "runs"), [("1/2", True), ("2/2", False)])
def test_one_share_has_the_engines_own_benchmark(share, runs, program, tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(run, "selected", lambda *_: [])
    monkeypatch.setattr("benchmarks.engine.build", lambda: called.append(1) or tmp_path)
    monkeypatch.setattr("benchmarks.measuring.measure_engine", lambda *_, **__: [])
    program("--cases=engine", f"--share={share}", "--nocharts", f"--output={tmp_path}/run.csv")
    assert bool(called) == runs


def test_a_run_that_is_interrupted_says_so(program, tmp_path, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    path = tmp_path / "run.csv"
    arguments = ("--cases=bgru_64_b8", "--nocharts", f"--output={path}")
    monkeypatch.setattr("benchmarks.measuring.measure", interrupt)
    with pytest.raises(SystemExit, match="130"):
        program(*arguments)
    assert records.FINISHED not in records.read(path)[0]
    monkeypatch.setattr(run, "selected", lambda *_: [])
    program(*arguments)
    assert records.FINISHED in records.read(path)[0]


def test_a_busy_machine_is_reported(monkeypatch):
    monkeypatch.setattr("benchmarks.machine.busy_cpus", lambda: 0.0)
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.0, 0.0))
    assert run.noise() is None
    monkeypatch.setattr("os.getloadavg", lambda: (1.7, 0.0, 0.0))
    assert "load average 1.7" in run.noise()


def test_check_mode(tmp_path, capsys):
    registry = {"own_op": fakes.DRIVERS["sleeper"], **fakes.DRIVERS}
    with fakes.without_tensorflow(), Pool(1, tmp_path, 1200, registry) as pool:
        assert check.report(pool, ["snail", "choosy"], [LSTM]) == 0
        assert check.report(pool, ["raiser"], [LSTM]) == 1
        assert check.report(pool, ["liar"], [LSTM]) == 1
    lines = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    assert [line[2:] for line in lines] == [
        *([["snail", "equal"], ["choosy", "not supported: takes nothing"]] * 2),
        *([["raiser", "RuntimeError: no such thing"]] * 2),
        *([["liar", "y differs from the op's by 1"]] * 2),
    ]
