"""benchmarks/charts.py and chart_data.py: what is drawn, and how."""

import dataclasses

import pytest

from benchmarks import cases, chart_data, charts, experiments, records
from benchmarks.experiments import Row
from benchmarks.measured import Results
from benchmarks.processes import Side
from tests.benchmarks import fakes
from tests.benchmarks.fakes import GRU, LSTM


def test_charts(tmp_path):
    path = tmp_path / "run.csv"
    writer = records.Writer(path, fakes.PREAMBLE)
    for record in fakes.everything():
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


def test_a_file_that_is_missing_gets_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["charts", str(tmp_path / "none.csv")])
    with pytest.raises(SystemExit, match="benchmarks.charts: .*No such file .*/none.csv"):
        charts.main()


def results_of(some: list[records.Record]) -> Results:
    return Results(fakes.PREAMBLE, some)


def test_a_chart_of_speeds_has_the_cases_that_can_be_compared():
    sides = (Side("stream", "own_stream"), Side("torch", "torch"), Side("onnx", "onnxruntime"))
    rows = [Row("test", case, "training", sides, tails=("stream",)) for case in (LSTM, GRU)]
    fast = {"stream": 100, "torch": 40}
    found = fakes.figures_of(rows, lambda name, case, pass_: fast.get(name, 10))
    first, other = chart_data.speed_rows(results_of(found), "test", "training")
    assert (first.base.side, first.base.case, other.base.case) == ("stream", LSTM.name, GRU.name)
    # ONNX Runtime trains no network, and a tail is no side.
    assert first.ratios == {"torch": pytest.approx(2.5)}
    of_base = ("tiny_lstm", "stream")
    without = [
        dataclasses.replace(r, median=None) if (r.case, r.side) == of_base else r for r in found
    ]
    (only,) = chart_data.speed_rows(results_of(without), "test", "training")
    assert only.base.case == GRU.name
    assert chart_data.speed_rows(results_of(found), "test", "inference") == []


def test_shares_of_the_peak_are_by_what_holds_the_weights():
    found = chart_data.shares_of_peak(results_of(fakes.engine_figures(share=0.5)))
    assert list(found) == ["inference", "forward", "backward"]
    # 4 MiB of R are beyond two L2 caches of 1 MiB, 9 MiB are, too.
    of_lstm = found["backward"][chart_data.Weights("lstm", 512, "l3")]
    assert [batch for batch, _ in of_lstm] == [1, 4, 16, 64, 128]
    shares = [0.5 * batch / (batch + 0.3) / 1.01 for batch, _ in of_lstm]
    assert [share for _, share in of_lstm] == pytest.approx(shares)
    assert chart_data.shares_of_peak(results_of([])) == {}


def test_a_row_of_a_batch_has_its_share_of_the_peak():
    results = results_of(fakes.engine_figures())
    # 40 GB/s are 10 G weights a second, each for two operations, beside 500 GFLOP/s.
    assert chart_data.share_per_row(results, "dram") == pytest.approx(0.04)
    assert chart_data.share_per_row(results_of([]), "dram") is None


def test_scaling_is_against_what_is_varied():
    rows, _ = experiments.plan(["scaling"], 2)
    found = chart_data.scaling(results_of(fakes.figures_of(rows)[::-1]))
    assert set(found) == set(chart_data.VARIED)
    for of_pass in found.values():
        assert list(of_pass) == ["inference", "training"]
        for points in of_pass.values():
            assert len(points) == 4 and points == sorted(points)
    assert [steps for steps, _ in found["steps"]["training"]] == [25, 50, 100, 200]
    lengths = [total for total, _ in found["lengths"]["training"]]
    assert lengths[-1] == 6400 and lengths[0] == pytest.approx(800, rel=0.02)


def test_speedups_are_of_batches_of_16_and_more():
    rows, _ = experiments.plan(["threads"], 4)

    def speed(name, case, pass_):
        factor = {"op_4": 3, "op_2": 2, "torch_4": 2}.get(name, 1)
        return 100 * (factor if case.batch >= 16 else 1)

    threads = {"op_4": 4, "op_2": 2, "op_1": 1, "torch_4": 4, "torch_2": 2, "torch_1": 1}
    found = [
        dataclasses.replace(record, threads=threads[record.side])
        for record in fakes.figures_of(rows, speed)
    ]
    speedups = chart_data.thread_speedups(results_of(found))
    assert speedups["op"] == pytest.approx({1: 1, 2: 2, 4: 3})
    assert speedups["torch"] == pytest.approx({1: 1, 2: 1, 4: 2})


def test_no_two_sides_of_a_chart_look_alike():
    rows, _ = experiments.plan(["all"], 8)
    of_group: dict[str, dict[str, None]] = {}
    for row in rows:
        of_group.setdefault(row.experiment, {}).update({side.name: None for side in row.sides})
    found = {group: charts.styles_of(list(sides)) for group, sides in of_group.items()}
    for styles in found.values():
        assert len(set(styles.values())) == len(styles)
    # Peers look the same in all charts, whatever stands beside them.
    assert len({styles["torch"] for styles in found.values() if "torch" in styles}) == 1
    assert len({styles["keras"] for styles in found.values() if "keras" in styles}) == 1


def test_memory_is_told_in_mebibytes():
    (row, *_), _ = experiments.plan(["memory"], 2)
    (op, *_) = fakes.figures_of([row])
    text = charts.text_of(chart_data.SpeedRow(dataclasses.replace(op, median=24.25), {}))
    assert text.split("\n")[-1] == "24.2 MiB"


def test_a_long_label_is_cut_behind_commas():
    case = cases.read_cases()["blstm_512x3_b16"].ragged()
    row = Row("test", case, "training", (Side("op", "own_op"),))
    (record,) = fakes.figures_of([row])
    record = dataclasses.replace(record, median=0.25)
    text = charts.text_of(chart_data.SpeedRow(record, {})).replace("\N{NO-BREAK SPACE}", " ")
    assert text.split("\n") == [
        "3 bidirectional LSTMs 512, batch 16, 100 steps,",
        "input 40, 60% of it without padding",
        "250 us",
    ]
