"""benchmarks/run.py and what it writes, with made-up drivers and figures; and once in earnest."""

import collections
import csv
import dataclasses
import itertools
import json
import re

import numpy as np
import pytest
from absl import app, flags
from absl.testing import flagsaver

from benchmarks import (
    bars,
    cases,
    charts,
    check,
    engine,
    experiments,
    measured,
    measuring,
    records,
    report,
    run,
)
from benchmarks.experiments import MEMORY, Row
from benchmarks.measured import Results
from benchmarks.processes import Pool, Side, SideError
from benchmarks.results import files as result_files
from tests.benchmarks import fakes

LSTM = cases.Case("tiny_lstm", (), "lstm", 1, 1, 4, 0, 3, 2, 2, 0.0)
GRU = dataclasses.replace(LSTM, name="tiny_gru", rnn_mode="gru")


@pytest.fixture(scope="module", autouse=True)
def without_tensorflow():
    with fakes.without_tensorflow():
        yield


SECONDS = 0.05  # of a turn


def side(name: str) -> Side:
    return Side(name, name)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with Pool(2, tmp_path_factory.mktemp("logs"), 1200, fakes.DRIVERS) as made:
        yield made


def measure(pool, case, *names: str) -> dict[str, records.Record]:
    row = Row("test", case, "training", tuple(map(side, names)))
    return {each.side: each for each in measuring.measure(pool, row, 3, SECONDS, 0.0)}


# ------------------------------------------------------------------------------------
# Measuring
# ------------------------------------------------------------------------------------


def test_sides_take_turns(pool):
    found = measure(pool, LSTM, "sleeper", "snail")
    assert [each.error for each in found.values()] == ["", ""]
    assert 1 <= found["sleeper"].median < found["snail"].median
    assert found["snail"].median >= 100
    assert {each.rounds for each in found.values()} == {3}
    # Each sleep may take longer than it should.
    assert found["sleeper"].steps > found["snail"].steps >= 3
    for each in found.values():
        assert each.minimum <= each.lower <= each.median <= each.upper
        assert (each.base, each.threads, each.unit) == ("sleeper", 2, "ms")
        assert each.flops == LSTM.flops("training")
        assert each.to_case() == LSTM


class Diary:
    """A pool that notes whose turn it is; each turn has a slow step that a median leaves out."""

    threads = 2

    def __init__(self):
        self.turns: list[str] = []

    def start(self, sides):
        return {}

    def build(self, sides, case, pass_):
        return {}

    def times(self, side, seconds):
        self.turns.append(side.name)
        return [len(self.turns) * 1e-3, 5.0, 0.0]

    def drop(self, sides):
        self.turns.append("drop")


def test_the_order_of_turns_rotates():
    diary = Diary()
    row = Row("test", LSTM, "training", (side("a"), side("b"), side("c")))
    a, _, _ = measuring.measure(diary, row, 4, 0.1, 0.0)
    assert "".join(name[0] for name in diary.turns) == "abcbcacababcd"
    # Its turns were the first, sixth, eighth and tenth.
    assert (a.minimum, a.median, a.rounds, a.steps) == (1.0, 7.0, 4, 12)


class Twice(Diary):
    """Each turn has time for two steps, the second one slower."""

    def times(self, side, seconds):
        return [1e-3, 2e-3]


def test_the_median_of_two_steps_is_between_them():
    row = Row("test", LSTM, "training", (side("a"),))
    (a,) = measuring.measure(Twice(), row, 3, 0.1, 0.0)
    assert (a.minimum, a.median, a.upper) == (1.5, 1.5, 1.5)


def test_failing_sides_leave_empty_cells(pool):
    found = measure(pool, GRU, "snail", "raiser", "mortal", "stillborn")
    assert {name: each.median for name, each in found.items()} == dict.fromkeys(found)
    assert found["snail"].error == f"{records.UNSUPPORTED}sleeps through no GRU"
    assert found["raiser"].error == "RuntimeError: no such thing"
    assert found["mortal"].error.startswith("the process ended with status 7; its last words")
    assert found["stillborn"].error == "does not start: ImportError: its library is not there"
    row = records.to_row(found["raiser"])
    assert (row["median"], row["minimum"], row["gflops_per_s"]) == ("", "", "")
    # The next row finds them well again, all but one.
    found = measure(pool, LSTM, "snail", "mortal", "stillborn")
    assert found["snail"].median >= 100 and found["mortal"].median < 100
    assert found["stillborn"].median is None


def test_a_silent_side_is_ended(tmp_path):
    with Pool(1, tmp_path, 1200, fakes.DRIVERS) as pool:
        assert pool.start([side("mute")]) == {}
        pool.answer_seconds = 0.2
        assert pool.build([side("mute")], LSTM, "training") == {"mute": "no answer within 0 s"}
        with pytest.raises(SideError, match="the process has ended"):
            pool.times(side("mute"), 1)


def test_peers_that_are_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.python", lambda: None)
    with Pool(1, tmp_path) as pool:
        assert pool.start([side("torch")]) == {"torch": "PyTorch is not installed"}
        row = Row("test", LSTM, "training", (side("torch"),))
        assert measuring.measure(pool, row, 1, 0.01, 0.0)[0].error == "PyTorch is not installed"


def test_memory(pool):
    row = Row("test", LSTM, "training", (side("glutton"), side("raiser")), MEMORY)
    glutton, raiser = measuring.measure(pool, row, 5, 0.1, 0.0)
    assert glutton.unit == "MiB" and 63 < glutton.median < 80
    assert (raiser.median, raiser.error) == (None, "RuntimeError: no such thing")


class Streamer(Diary):
    """Of ten steps the first and the last one are slow."""

    def times(self, side, seconds):
        return [9e-3, *[1e-3] * 8, 5e-3]


def test_what_nearly_all_steps_take():
    row = Row("test", LSTM, "inference", (side("a"), side("b")), tails=("a",))
    a, slow, b = measuring.measure(Streamer(), row, 2, 0.1, 0.0)
    assert (a.side, slow.side, b.side) == ("a", "a, 99.9 %", "b")
    # The first tenth of a turn is left out.
    assert a.median == 1.0 and 4.8 < slow.median <= 5.0


def test_failing_sides_have_no_tail(pool):
    row = Row("test", GRU, "inference", (side("sleeper"), side("snail")), tails=("sleeper",))
    sleeper, slow, _ = measuring.measure(pool, row, 1, SECONDS, 0.0)
    assert sleeper.error == slow.error != "" and slow.median is None


# ------------------------------------------------------------------------------------
# Once more
# ------------------------------------------------------------------------------------


def test_rows_that_fail_a_bar_are_found():
    rows, _ = experiments.plan(["gate"], 2)

    def speed(name, case, pass_):
        return 10 if (name, case.name, pass_) == ("op", "lstm_64_b32", "training") else 1000

    results = Results(fakes.PREAMBLE, fakes.figures_of(rows, speed))
    slow = [row for row in rows if row.case.name == "lstm_64_b32" and row.pass_ == "training"]
    fast = [row for row in rows if row not in slow]
    found = measuring.failed(rows, results)
    assert set(slow) <= set(found)
    equal = measuring.failed(fast, results)  # as fast as PyTorch is not enough in training
    assert {row.pass_ for row in equal} == {"training"}
    assert measuring.failed(rows, Results(fakes.PREAMBLE, [])) == []


def test_rows_are_measured_again_in_turns(capsys):
    rows = [Row("test", case, "training", (side("a"), side("b"))) for case in (LSTM, GRU)]
    milliseconds = iter([1.0, 10.0, 7.0, 20.0, None, 60.0])
    order = []

    def measure_row(row):
        order.append(row.case.name)
        value = next(milliseconds)
        a, b = fakes.figures_of([row])
        error = "it ended" if value is None else ""
        return [dataclasses.replace(a, median=value, rounds=2, error=error), b]

    a, b, other, _ = list(measuring.again(rows, 3, measure_row))
    assert order == ["tiny_lstm", "tiny_gru"] * 3
    # Of the first one 1 and 7 ms, of the second one 10, 20 and 60.
    assert (a.side, a.median, a.rounds, a.error) == ("a", 4.0, 4, "")
    assert (b.side, b.case, other.median) == ("b", "tiny_lstm", 20.0)
    assert "[6/6, 0 min left] test tiny_gru training: a 60 ms" in capsys.readouterr().out


def test_a_peer_that_fails_each_time_keeps_its_figure():
    """Or a row that fails a bar would pass by failing."""
    row = Row("test", LSTM, "training", (side("a"), side("b")))
    a, b = fakes.figures_of([row])
    failed = dataclasses.replace(b, median=None, error="it ended")
    found = list(measuring.again([row], 2, lambda _: [a, failed]))
    assert [each.side for each in found] == ["a"]
    assert records.counted([a, b, *found])[1] == b


def test_if_this_library_fails_once_it_has_failed():
    row = Row("test", LSTM, "training", (Side("op", "own_op"), side("b")), tails=("op",))
    op, b, tail = fakes.figures_of([row])
    failed = dataclasses.replace(op, median=None, error="it ended")
    failed_tail = dataclasses.replace(tail, median=None, error="it ended")
    runs = iter([[op, tail, b], [failed, failed_tail, b], [op, tail, b]])
    found = list(measuring.again([row], 3, lambda _: next(runs)))
    assert found[:2] == [failed, failed_tail] and found[2].side == "b"
    # Nor is it measured until it does not fail.
    rows, _ = experiments.plan(["gate"], 2)
    all_found = fakes.figures_of(rows)
    slow = measuring.failed(rows, Results(fakes.PREAMBLE, all_found))
    first = (slow[0].case.name, slow[0].pass_)
    some = [
        dataclasses.replace(r, median=None, error="it ended")
        if (r.case, r.pass_, r.side) == (*first, "op")
        else r
        for r in all_found
    ]
    assert measuring.failed(rows, Results(fakes.PREAMBLE, some)) == slow[1:]


def test_the_last_measurement_of_a_row_counts(tmp_path):
    first, other = fakes.figures_of([Row("test", LSTM, "training", (side("a"), side("b")))])
    last = dataclasses.replace(first, median=7.0)
    path = tmp_path / "run.csv"
    writer = records.Writer(path, fakes.PREAMBLE)
    for record in (first, other, last):
        writer.write(record)
    writer.close()
    _, found = records.read(path)
    assert [(each.side, each.median == 7.0) for each in found] == [("a", True), ("b", False)]


# ------------------------------------------------------------------------------------
# What is planned
# ------------------------------------------------------------------------------------


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
    for row in everything:
        assert experiments.all_cases()[row.case.name] == row.case
    # A row is found by these, and a column by its name.
    keys = [(row.experiment, row.case.name, row.pass_) for row in everything]
    assert len(set(keys)) == len(keys)
    for row in everything:
        assert len({each.name for each in row.sides}) == len(row.sides)
    for unknown in ("fast", "sweep:", "sweep:x"):
        with pytest.raises(ValueError, match=f"no case or group of cases '{unknown}'; the groups"):
            experiments.plan([unknown], 2)


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


# ------------------------------------------------------------------------------------
# Files, tables, charts
# ------------------------------------------------------------------------------------


def everything(speed=fakes.varied_speed, share=0.9) -> list[records.Record]:
    rows, _ = experiments.plan(["all"], 2)
    return fakes.engine_figures(share) + fakes.figures_of(rows, speed)


def test_files_come_back(tmp_path):
    some = everything()[::23] + [record for record in everything() if record.error][:3]
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


def summary_of(some: list[records.Record]) -> str:
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


def verdicts(speed, share=0.9) -> dict[str, str]:
    results = Results(fakes.PREAMBLE, everything(speed, share))
    return {each.bar.what: each.text for each in bars.verdicts(results)}


FASTER = {  # than the op or the layer is, the others at 100
    "op": 500,
    "layer": 500,
    "stateful_layer": 500,
    "cudnn_layer": 500,
    "op_bfloat16": 1000,
    "op_2": 990,
    "eager": 500,
    "stream": 500,
    "stream_from_c": 500,
    "stream, 99.9 %": 250,
    "stream_from_c, 99.9 %": 250,
    "int8": 500,
    "runtime": 500,
    "is_training": 100,
}


def fast(name: str, case, pass_: str) -> float:
    return FASTER.get(name, 500 if name == "op_float32" else 100)


def test_bars_are_passed():
    found = verdicts(fast, share=0.95)
    assert set(found.values()) == {"pass"}, found


def test_bars_are_failed():
    found = verdicts(lambda name, case, pass_: 10 if name in FASTER else 100, share=0.1)
    # A one-step network has some microseconds in any case, and more steps take more time.
    unfailed = {what for what, text in found.items() if text != "FAIL"}
    assert unfailed <= {
        "2.2 times / time for twice the steps, batch, lengths",
        "op against drop-in layer, random shapes of 1 ms and more, one layer",
        "op against drop-in layers, the same, stacks and Bidirectional",
        "op against masked drop-in layer, ragged, calls of 1 ms and more, one layer",
        "op against masked drop-in layers, the same, stacks and Bidirectional",
        "op against drop-in layer, gate, calls of 1 ms and more, one layer",
        "op against drop-in layers, gate, stacks and Bidirectional",
        "op against stateful drop-in layer, calls of 1 ms and more, one layer",
        "op against stateful drop-in layers, gate, stacks and Bidirectional",
        "op against CudnnRNN layer, calls of 1 ms and more",
        "two threads against one; B >= 16",
        "bfloat16 against float32",
        "bfloat16 against float32, where its instructions are faster",
        "streaming, (eager built-in op + 10 us) / eager own op; LSTM 64, GRU 64",
        "streaming, runtime in C, (weights / bandwidth + 3 us) / time",
        "streaming, 3 times the median / what 99.9 % of steps take",
    }, unfailed


def test_bars_that_were_not_measured():
    results = Results(fakes.PREAMBLE, [])
    assert {each.text for each in bars.verdicts(results)} == {"not measured"}
    assert report.summary(results) == ""
    without = Results({**fakes.PREAMBLE, "instruction_set": "avx512"}, everything(fast))
    bfloat16 = [each for each in bars.verdicts(without) if "bfloat16" in each.bar.what]
    assert [each.text for each in bfloat16] == ["pass", "not measured"]


@pytest.mark.parametrize(
    ("preamble", "text"),
    [
        ({"instruction_set": "avx512", "isa": "avx512_bf16 amx_bf16"}, "not measured"),
        ({"isa": "avx512_bf16", "cpu": "AMD EPYC"}, "pass"),
        ({"isa": "avx512_bf16", "cpu": "Intel Xeon"}, "not measured"),
        ({"isa": "amx_bf16 avx512_bf16", "cpu": "Intel Xeon"}, "pass"),
        ({"cpu": "AMD EPYC"}, "not measured"),
    ],
)
def test_a_file_tells_whether_bfloat16_is_faster(preamble, text):
    rows, _ = experiments.plan(["bfloat16"], 2)
    results = Results({"threads": "2", **preamble}, fakes.figures_of(rows, fast))
    found = {each.bar.what: each.text for each in bars.verdicts(results)}
    assert found["bfloat16 against float32, where its instructions are faster"] == text


def test_digits_tell_what_is_below():
    assert bars.digits_of(None, 0.997) == bars.digits_of(1.0, 0.99, 1.001, None) == 2
    assert bars.digits_of(1.0, 0.997) == bars.digits_of(1.0, 2.0, 0.997) == 3
    assert bars.digits_of(1.0, 0.9999) == 4
    rows, _ = experiments.plan(["avx2"], 2)

    def speed(name, case, pass_):
        return 99.7 if (name, case.name) == ("op", "lstm_512_b64") else 100

    text = summary_of(fakes.figures_of(rows, speed))
    assert re.search(r"limited to AVX2, against PyTorch +1\.000 +0\.997 +1\.00  FAIL", text)


def verdicts_of_changed(group, name, row, change) -> dict[str, bars.Verdict]:
    """If a side of a row were otherwise: `change` makes its record anew."""
    some = [
        change(record)
        if (record.experiment, record.side, record.case) == (group, name, row)
        else record
        for record in everything(fast)
    ]
    return {each.bar.what: each for each in bars.verdicts(Results(fakes.PREAMBLE, some))}


@pytest.mark.parametrize(
    ("what", "group", "name", "row", "slower"),
    [
        ("gate, training against PyTorch", "gate", "op", "lstm_64_b32", 5.0),
        ("gate, training against Keras in a tf.function", "gate", "op", "lstm_64_b32", 4.0),
        ("ragged against PyTorch, packed", "ragged", "op", "gru_1024_b1_ragged", 5.0),
        ("bfloat16 against float32", "bfloat16", "op_bfloat16", "lstm_512_b64", 2.5),
        (
            "engine, share of the least time, backward; H >= 512, B >= 16",
            "engine",
            "engine avx512",
            "lstm_512_b64",
            1.5,
        ),
        (
            "op against masked drop-in layer, ragged, calls of 1 ms and more, one layer",
            "ragged",
            "layer",
            "lstm_512_b64_ragged",
            1.2,
        ),
        (
            "op against masked drop-in layers, the same, stacks and Bidirectional",
            "ragged",
            "layer",
            "lstm_650x2_b20_ragged",
            2.0,
        ),
        (
            # A bar of the mean alone, over many rows.
            "op against drop-in layers, the same, stacks and Bidirectional",
            "sweep",
            "layer",
            "random_8",
            1e4,
        ),
        (
            "op against stateful drop-in layer, calls of 1 ms and more, one layer",
            "layer",
            "stateful_layer",
            "lstm_512_b64",
            1.2,
        ),
        (
            "op against CudnnRNN layer, calls of 1 ms and more",
            "layer",
            "cudnn_layer",
            "lstm_512_b64",
            1.2,
        ),
        (
            "streaming, 3 times the median / what 99.9 % of steps take",
            "streaming",
            "stream, 99.9 %",
            "stream_lstm_512",
            2.0,
        ),
        ("limited to AVX2, against PyTorch", "avx2", "op", "gru_512_b16", 6.0),
    ],
)
def test_one_slow_row_fails_a_bar(what, group, name, row, slower):
    def change(record):
        return dataclasses.replace(record, median=record.median * slower)

    verdict = verdicts_of_changed(group, name, row, change)[what]
    assert verdict.text == "FAIL" and verdict.worst.row.split()[0] == row


@pytest.mark.parametrize(
    ("what", "group", "name", "row"),
    [
        ("gate, training against PyTorch", "gate", "op", "lstm_64_b32"),
        (
            "op against masked drop-in layer, ragged, calls of 1 ms and more, one layer",
            "ragged",
            "layer",
            "lstm_512_b64_ragged",
        ),
        (
            "engine, share of the least time, forward; H >= 512, B >= 16",
            "engine",
            "engine avx512",
            "lstm_512_b64",
        ),
        (
            "random shapes of 1 ms and more, training against PyTorch",
            "sweep",
            "op",
            "random_5",
        ),
        (
            "streaming, runtime in C, (weights / bandwidth + 3 us) / time",
            "streaming",
            "stream_from_c",
            "stream_lstm_512",
        ),
        (
            "streaming, 3 times the median / what 99.9 % of steps take",
            "streaming",
            "stream, 99.9 %",
            "stream_lstm_512",
        ),
        (
            "streaming, (eager built-in op + 10 us) / eager own op; LSTM 64, GRU 64",
            "streaming",
            "eager",
            "stream_lstm_64",
        ),
        ("2.2 times / time for twice the steps, batch, lengths", "scaling", "op", "steps_200"),
    ],
)
def test_a_row_that_failed_fails_a_bar(what, group, name, row):
    def with_error(error: str) -> bars.Verdict:
        def change(record):
            return dataclasses.replace(record, median=None, error=error)

        return verdicts_of_changed(group, name, row, change)[what]

    failed = with_error("InvalidArgumentError: no")
    assert failed.text == "FAIL" and failed.worst.value == failed.mean == 0
    assert failed.worst.row.split()[0] == row
    assert all(value.value > 0 for value in failed.best)
    refused = with_error(f"{records.UNSUPPORTED}no layer of Keras projects")
    assert refused.text == "pass" and len(refused.values) < len(failed.values)


def test_a_row_that_failed_fails_no_other_bar():
    def change(record):
        return dataclasses.replace(record, median=None, error="InvalidArgumentError: no")

    found = verdicts_of_changed("sweep", "layer", "random_8", change)
    several = "op against drop-in layers, the same, stacks and Bidirectional"
    one = "op against drop-in layer, random shapes of 1 ms and more, one layer"
    assert (found[several].text, found[one].text) == ("FAIL", "pass")


def test_the_least_time():
    results = Results(fakes.PREAMBLE, fakes.engine_figures())
    # 4 MiB of W and of R: what two L1 and two L2 caches cannot hold comes from L3 at 120 GB/s, the
    # rest from nearer. Peak 500.
    case = cases.read_cases()["lstm_512_b1"]
    step = (4 * 4 * 512 * 512 - 2 * (2**15 + 2**20)) / 120e9
    product = max(step, 25 * 2 * 4 * 512 * 512 / 500e9)
    assert np.isclose(measured.least_milliseconds(results, case), 1e3 * (product + 25 * step))
    # With 64 rows it is the arithmetic, of the rows that are active.
    ragged = cases.read_cases()["lstm_512_b64"].ragged()
    active = [int((ragged.lengths > t).sum()) for t in range(25)]
    steps = sum(max(2 * n * 4 * 512 * 512 / 500e9, step) for n in active)
    product = 2 * sum(active) * 4 * 512 * 512 / 500e9
    assert np.isclose(measured.least_milliseconds(results, ragged), 1e3 * (product + steps))
    # Backward makes gradients of both matrices, too.
    backward = product + steps + 2 * sum(active) * 2 * 4 * 512 * 512 / 500e9
    assert np.isclose(measured.least_milliseconds(results, ragged, "backward"), 1e3 * backward)
    assert results.level_of(40_000) == "l1" and results.level_of(70_000) == "l2"
    assert results.level_of(2**25 + 1) == "dram"
    # A byte more than a level holds takes as long as that byte.
    caches = 2 * (2**15 + 2**20) + 2**25
    assert np.isclose(results.nanoseconds_to_read(caches), 2**25 / 120, rtol=1e-6)
    assert np.isclose(results.nanoseconds_to_read(caches + 1), 2**25 / 120, rtol=1e-6)
    assert measured.least_milliseconds(Results(fakes.PREAMBLE, []), case) is None


def test_the_least_time_of_a_stack_is_that_of_its_layers_in_turn():
    """R of one layer, 1 MiB, stays in L1 and L2 at 300 GB/s, whatever all six have."""
    results = Results(fakes.PREAMBLE, fakes.engine_figures())
    case = cases.Case("stack", (), "lstm", 6, 1, 256, 0, 256, 50, 1, 0.0)
    elements = 6 * 4 * 256 * 256
    assert 4 * case.recurrent_elements_together == 2**20 < 4 * case.recurrent_elements
    product = 50 * 2 * elements / 500e9
    steps = 50 * 6 * (2**20 - 2 * 2**15) / 300e9
    assert np.isclose(measured.least_milliseconds(results, case), 1e3 * (product + steps))


def test_what_a_bar_would_be_at_best():
    """Twice the least time in each row but one: at best it would be twice as far ahead."""
    rows, _ = experiments.plan(["gate"], 2)
    peaks = Results(fakes.PREAMBLE, fakes.engine_figures())

    def milliseconds(row, side):
        passes = ("forward", "backward") if row.pass_ == "training" else ("forward",)
        least = sum(measured.least_milliseconds(peaks, row.case, each) for each in passes)
        return {"op": 2, "torch": 6}.get(side, 9) * least

    found = fakes.engine_figures()
    for row in rows:
        for record in fakes.figures_of([row]):
            found.append(
                dataclasses.replace(record, median=milliseconds(row, record.side), error="")
            )
    by_bar = {each.bar.what: each for each in bars.verdicts(Results(fakes.PREAMBLE, found))}
    verdict = by_bar["gate, training against PyTorch"]
    assert np.isclose(verdict.mean, 3) and np.isclose(bars.mean_of(verdict.best), 6)
    assert {value.key for value in verdict.best} == {value.key for value in verdict.values}
    assert np.isclose(bars.worst_of(verdict.best).value, 6)
    # A row that takes less than the least time is what it is.
    row = "lstm_1536_b1"
    fast_row = [
        dataclasses.replace(record, median=record.median / 4)
        if (record.experiment, record.case) == ("gate", row)
        else record
        for record in found
    ]
    by_bar = {each.bar.what: each for each in bars.verdicts(Results(fakes.PREAMBLE, fast_row))}
    verdict = by_bar["gate, training against PyTorch"]
    best = {value.key[1]: value.value for value in verdict.best}
    assert np.isclose(best.pop(row), 3) and np.allclose(list(best.values()), 6)
    # Without the machine's peaks nobody can tell.
    without = [record for record in found if record.experiment == "gate"]
    verdicts_without = bars.verdicts(Results(fakes.PREAMBLE, without))
    assert not any(each.best for each in verdicts_without)


def test_at_best_inference_takes_what_the_runtime_takes_and_an_empty_call():
    what = (
        "random shapes of 1 ms and more, inference against the faster of PyTorch and ONNX Runtime"
    )
    rows, _ = experiments.plan(["sweep", "runtime", "streaming"], 2)
    rows = [row for row in rows if row.pass_ == "inference"]
    milliseconds = {"op": 4.0, "runtime": 1.5, "empty_call": 0.5, "onnx": 3.0, "torch": 6.0}
    milliseconds["cold_call"] = 1.0
    with_cold_calls = [
        dataclasses.replace(record, median=milliseconds.get(record.side, 9.0), error="")
        for record in fakes.figures_of(rows)
    ]
    found = [record for record in with_cold_calls if record.side != "cold_call"]

    def best_of(some):
        verdicts = bars.verdicts(Results(fakes.PREAMBLE, some))
        (verdict,) = [each for each in verdicts if each.bar.what == what]
        return {value.key[1]: value.value for value in verdict.best}

    with_onnx = {r.case for r in found if (r.experiment, r.side) == ("sweep", "onnx")}
    for case, value in best_of(found).items():
        assert np.isclose(value, 1.5 if case in with_onnx else 3.0)
    for some in (with_cold_calls, [r for r in with_cold_calls if r.side != "empty_call"]):
        for case, value in best_of(some).items():
            assert np.isclose(value, 1.2 if case in with_onnx else 2.4)
    # A row stays as it is where the runtime was slower.
    slow = [
        dataclasses.replace(record, median=40.0) if record.side == "runtime" else record
        for record in found
    ]
    assert {round(best_of(slow)[case], 6) for case in with_onnx} == {0.75}
    # Without an empty call, or the runtime's row, the machine's peaks tell, if they are known.
    for group in ("streaming", "runtime"):
        some = [record for record in found if record.experiment != group]
        assert best_of(some) == {}
        assert len(best_of(some + fakes.engine_figures())) == 200


def test_random_shapes_on_which_a_peer_was_faster_are_listed():
    rows, _ = experiments.plan(["sweep"], 2)

    def speed(name, case, pass_):
        slow = case.name == "random_7" and name == "op" and pass_ == "training"
        return {"op": 40 if slow else 400}.get(name, 100)

    text = summary_of(fakes.figures_of(rows, speed))
    listed = text.partition("Random shapes on which a peer was faster:\n")[2].partition("\n\n")[0]
    assert listed.splitlines()[0].startswith("  0.40x op against ")
    assert all("random_7 training" in line for line in listed.splitlines())


def test_charts(tmp_path):
    path = tmp_path / "run.csv"
    writer = records.Writer(path, fakes.PREAMBLE)
    for record in everything():
        if record.experiment in ("projection", "engine", "peak", "scaling", "threads", "streaming"):
            writer.write(record)
    writer.close()
    names = {"roofline", "scaling", "streaming_inference"}
    names |= {"projection_training", "projection_inference"}
    drawn = charts.draw(path)
    assert {target.name for target in drawn} == {f"run_{name}.png" for name in names}
    for target in drawn:
        content = target.read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) > 10_000


def test_charts_of_nothing(tmp_path):
    path = tmp_path / "run.csv"
    records.Writer(path, fakes.PREAMBLE).close()
    assert charts.draw(path) == []


# ------------------------------------------------------------------------------------
# The engine's benchmark
# ------------------------------------------------------------------------------------


def test_the_engines_figures():
    found = engine.parse(fakes.engine_report(share=0.5))
    by_name = {(r.case, r.pass_, r.isa): r for r in found}
    case = cases.read_cases()["lstm_512_b64"]
    record = by_name["lstm_512_b64", "backward", "avx2"]
    assert (record.experiment, record.side, record.threads) == ("engine", "engine avx2", 2)
    assert record.flops == 2 * case.flops("inference") and record.rounds == 3
    assert np.isclose(record.gigaflops, 0.5 * 250 * 64 / 64.3 / 1.01)
    assert np.isclose(by_name["multiply_add", "", "avx512"].median, 500)
    assert by_name["l3", "", "avx2"].unit == "GB/s"
    assert not any(r.case == "product" for r in found)


def test_the_best_instruction_set_is_what_the_engine_chooses():
    """On a busy machine the peak of another may come out higher."""
    found = [
        dataclasses.replace(record, median=900.0)
        if (record.case, record.isa) == ("multiply_add", "avx2")
        else record
        for record in fakes.engine_figures()
        if record.pass_ in ("", "forward") or record.isa == "avx512"
    ]
    results = Results(fakes.PREAMBLE, found)
    assert results.best_isa() == "avx512" and np.isclose(results.peak(), 500)
    assert results.peak("avx2") == 900 and results.peak(threads=3) is None


def test_errors_of_the_engine():
    entry = fakes.engine_report()["benchmarks"][0]
    failed = {**entry, "error_occurred": True, "error_message": "there is no AVX-512"}
    (record,) = engine.parse({"benchmarks": [failed]})
    assert (record.median, record.error) == (None, "there is no AVX-512")


def test_the_engine_is_run_with_avx2_as_well(tmp_path):
    """The binary has rows of one instruction set, the best that the environment allows."""
    everything = fakes.engine_report()["benchmarks"]
    for isa in ("avx512", "avx2"):
        some = [e for e in everything if f"/{isa}/" in e["name"]]
        (tmp_path / isa).write_text(json.dumps({"benchmarks": some}))
    program = tmp_path / "engine_benchmark"
    log = tmp_path / "log"
    program.write_text(
        f'#!/bin/sh\necho "$@" >>{log}\ncat {tmp_path}/${{TF_CUDNN_RNN_ISA:-avx512}}\n'
    )
    program.chmod(0o755)
    found = engine.run(program, 2, 7)
    sides = {record.side for record in found if record.experiment == "engine"}
    assert sides == {"engine avx512", "engine avx2"}
    first, second = log.read_text().splitlines()
    assert "--benchmark_repetitions=7" in first and "|lstm_512_b64|" in first
    assert "/(forward)/avx2/threads:2" in second and "Peak" not in second


def test_rows_of_the_engine_that_fail_a_bar_are_run_again(tmp_path, capsys):
    """First all rows reach 0.9 of the peak, but one; that one takes 3, 1 and 2 times that later."""
    everything = fakes.engine_report(share=0.9)["benchmarks"]
    row = "Engine/lstm_512_b16/backward/avx512/threads:2/real_time"
    others = [e for e in everything if e["name"].startswith(("Engine", "Peak", "Bandwidth"))]
    others = [e for e in others if "/avx512/" in e["name"]]

    def slower(entry: dict, factor: float) -> dict:
        slow = factor if entry["name"] == row else 1
        return {**entry, "real_time": slow * entry["real_time"]}

    of_row = [e for e in others if e["name"] == row]
    # The second run is limited to AVX2.
    for number, (entries, factor) in enumerate(
        [(others, 2), ([], 1), (of_row, 3), (of_row, 1), (of_row, 2)]
    ):
        some = [slower(entry, factor) for entry in entries]
        (tmp_path / str(number)).write_text(json.dumps({"benchmarks": some}))
    log, program = tmp_path / "log", tmp_path / "engine_benchmark"
    program.write_text(f'#!/bin/sh\necho "$@" >>{log}\ncat {tmp_path}/$(($(wc -l <{log}) - 1))\n')
    program.chmod(0o755)
    found = list(measuring.measure_engine(program, fakes.PREAMBLE, 2, 3, again=3))
    first, last = [r for r in found if (r.case, r.pass_) == ("lstm_512_b16", "backward")]
    assert last in records.counted(found) and last.rounds == 9
    assert np.isclose(last.median, first.median)  # of 3, 1 and 2; at first 2
    assert len(log.read_text().splitlines()) == 5
    assert "^Engine/(lstm_512_b16/backward)/" in log.read_text().splitlines()[-1]
    assert "Rows of the engine that fail a bar, 3 times" in capsys.readouterr().out


def test_an_engine_that_does_not_run(tmp_path):
    for script, message in (
        ("exit 3", "ended with 3: no message"),
        ("echo {}", "wrote no JSON"),
        ("echo text", "wrote no JSON"),
    ):
        program = tmp_path / "engine_benchmark"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        with pytest.raises(engine.EngineError, match=message):
            engine.run(program, 2, 1)


# ------------------------------------------------------------------------------------
# The program
# ------------------------------------------------------------------------------------


@pytest.fixture
def program():
    """Calls the program with flags."""

    def call(*arguments: str) -> None:
        flags.FLAGS(["run", "--nopeers", *arguments])
        run.main(["run"])

    with flagsaver.flagsaver():
        yield call


def test_a_small_run(program, tmp_path, capsys, monkeypatch):
    """The op beside Keras on one case, as `make bench` calls it."""
    monkeypatch.delenv("PYTHONPATH")
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
        rows = list(csv.DictReader(file, line.strip().split(",")))
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


def test_a_busy_machine_is_reported(monkeypatch):
    monkeypatch.setattr("benchmarks.machine.busy_cpus", lambda: 0.0)
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 0.0, 0.0))
    assert run.noise() is None
    monkeypatch.setattr("os.getloadavg", lambda: (1.7, 0.0, 0.0))
    assert "load average 1.7" in run.noise()


def test_a_warning_stands_below_the_tables():
    results = measured.Results(fakes.PREAMBLE | {"warning": "others used the machine"}, [])
    assert report.summary(results).endswith("\nWarning: others used the machine.")


def test_check_mode(tmp_path, capsys):
    registry = {"own_op": fakes.DRIVERS["sleeper"], **fakes.DRIVERS}
    with Pool(1, tmp_path, 1200, registry) as pool:
        assert check.report(pool, ["snail", "raiser"], [LSTM]) == 0
        assert check.report(pool, ["liar"], [LSTM]) == 1
    lines = [line.split(maxsplit=3) for line in capsys.readouterr().out.splitlines()]
    assert [line[2:] for line in lines] == [
        *([["snail", "equal"], ["raiser", "RuntimeError: no such thing"]] * 2),
        *([["liar", "y differs from the op's by 1"]] * 2),
    ]
