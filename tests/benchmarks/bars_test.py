"""benchmarks/bars.py and bar_values.py: made-up figures pass and fail the bars that they should."""

import dataclasses

import numpy as np
import pytest

from benchmarks import bars, experiments, measured, records, report
from benchmarks.measured import Results
from tests.benchmarks import fakes


def verdicts(speed, share=0.9) -> dict[str, str]:
    results = Results(fakes.PREAMBLE, fakes.everything(speed, share))
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
    "skip_input": 100,
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
    without = Results({**fakes.PREAMBLE, "instruction_set": "avx512"}, fakes.everything(fast))
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


def verdicts_of_changed(group, name, row, change) -> dict[str, bars.Verdict]:
    """If a side of a row were otherwise: `change` makes its record anew."""
    some = [
        change(record)
        if (record.experiment, record.side, record.case) == (group, name, row)
        else record
        for record in fakes.everything(fast)
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
    best = best_of(slow)
    assert {round(best[case], 6) for case in with_onnx} == {0.75}
    # Without an empty call, or the runtime's row, the machine's peaks tell, if they are known.
    for group in ("streaming", "runtime"):
        some = [record for record in found if record.experiment != group]
        assert best_of(some) == {}
        assert len(best_of(some + fakes.engine_figures())) == 200
