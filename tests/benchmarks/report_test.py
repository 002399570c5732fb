"""benchmarks/report.py: the tables at the end of a run."""

import re

from benchmarks import bars, experiments, report
from benchmarks.experiments import Row
from benchmarks.measured import Results
from benchmarks.records import Record
from tests.benchmarks import fakes
from tests.benchmarks.fakes import GRU, LSTM


def summary_of(some: list[Record]) -> str:
    return report.summary(Results(fakes.PREAMBLE, some))


def test_summary():
    rows = [
        Row("gate", case, "training", (experiments.OP, experiments.KERAS, experiments.ONNX))
        for case in (LSTM, GRU)
    ]

    def speed(name, case, pass_):
        return {"op": 100, "keras": 25 if case is LSTM else 100}.get(name, 50)

    lines = [line.split() for line in summary_of(fakes.figures_of(rows, speed)).splitlines()]
    assert lines[1:7] == [
        "gate: ms; how many times that of op".split(),
        ["op", "keras", "onnx"],
        ["-" * len("tiny_lstm training  1.34e-05  4.00x     -")],
        ["tiny_lstm", "training", "2.69e-05", "4.00x", "-"],
        ["tiny_gru", "training", "2.02e-05", "1.00x", "-"],
        ["geometric", "mean", "2.00x", "-"],
    ]
    assert lines[7] == ["worst", "row", "1.00x", "-"]
    assert lines[8] == "worst rows: keras: tiny_gru training".split()
    assert "onnx: ONNX Runtime infers (tiny_lstm training, tiny_gru training)".split() in lines


def test_random_shapes_on_which_a_peer_was_faster_are_listed():
    rows, _ = experiments.plan(["sweep"], 2)

    def speed(name, case, pass_):
        slow = case.name == "random_7" and name == "op" and pass_ == "training"
        return {"op": 40 if slow else 400}.get(name, 100)

    text = summary_of(fakes.figures_of(rows, speed))
    listed = text.partition("Random shapes on which a peer was faster:\n")[2].partition("\n\n")[0]
    assert listed.splitlines()[0].startswith("  0.40x op against ")
    assert all("random_7 training" in line for line in listed.splitlines())


def test_digits_tell_what_is_below():
    assert bars.digits_of(None, 0.997) == bars.digits_of(1.0, 0.99, 1.001, None) == 2
    assert bars.digits_of(1.0, 0.997) == bars.digits_of(1.0, 2.0, 0.997) == 3
    assert bars.digits_of(1.0, 0.9999) == 4
    rows, _ = experiments.plan(["avx2"], 2)

    def speed(name, case, pass_):
        return 99.7 if (name, case.name) == ("op", "lstm_512_b64") else 100

    text = summary_of(fakes.figures_of(rows, speed))
    assert re.search(r"limited to AVX2, against PyTorch +1\.000 +0\.997 +1\.00  FAIL", text)


def test_a_warning_stands_below_the_tables():
    results = Results(fakes.PREAMBLE | {"warning": "others used the machine"}, [])
    assert report.summary(results).endswith("\nWarning: others used the machine.")
