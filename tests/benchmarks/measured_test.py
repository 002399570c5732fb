"""benchmarks/measured.py: the least time of a machine, and its best instruction set."""

import dataclasses

import numpy as np

from benchmarks import cases, measured
from benchmarks.measured import Results
from tests.benchmarks import fakes


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
