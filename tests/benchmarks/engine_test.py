"""benchmarks/engine.py: the figures of the engine's own benchmark, of made-up programs."""

import json

import numpy as np
import pytest

from benchmarks import cases, engine, measuring, records
from tests.benchmarks import fakes


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
