"""How the benchmark talks to the processes of its sides."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from benchmarks import drivers, processes
from tests.benchmarks import fakes
from tests.benchmarks.fakes import LSTM

_SAYS = "import time; print('{0}', flush=True); time.sleep(30)"


def _process(monkeypatch, replies: str) -> processes.Process:
    """One that says so at once, whatever it is asked, and then nothing more."""
    popen = subprocess.Popen
    monkeypatch.setattr(
        processes.subprocess,
        "Popen",
        lambda command, **options: popen([sys.executable, "-c", _SAYS.format(replies)], **options),
    )
    entry = drivers.DRIVERS["own_runtime"]
    return processes.Process(entry, sys.executable, 1, (), subprocess.DEVNULL)


def test_answers_that_come_at_once_are_all_heard(monkeypatch):
    process = _process(monkeypatch, '{"value": 1}\\n{"value": 2}\\n{"error": "no"}')
    try:
        assert [process.answer(20), process.answer(20)] == [1, 2]
        with pytest.raises(processes.SideError, match="^no$"):
            process.answer(20)
    finally:
        process.end()


def test_silence_ends_the_process(monkeypatch):
    process = _process(monkeypatch, '{"value": 1}')
    assert process.answer(20) == 1
    with pytest.raises(processes.SideError, match="no answer within 0 s"):
        process.answer(0.1)
    assert not process.is_alive


@pytest.fixture
def litterer(tmp_path):
    """A pool with a process that is ready, its side, its temporary folder and its number."""
    side = processes.Side("litterer", "litterer")
    with fakes.without_tensorflow(), processes.Pool(1, tmp_path, 1200, fakes.DRIVERS) as pool:
        assert pool.start([side]) == {}
        assert pool.build([side], LSTM, "training") == {}
        said = (tmp_path / "litterer.log").read_text()
        number, folder = re.search(r"process (\d+) litters (\S+)", said).groups()
        yield pool, side, pathlib.Path(folder), int(number)


def test_what_a_process_leaves_in_its_temporary_folder_goes_with_it(litterer):
    pool, _, folder, _ = litterer
    assert folder.is_dir()
    pool.end()
    assert not folder.exists()


def test_the_death_of_an_idle_process_is_the_failure_of_its_side(litterer):
    pool, side, _, number = litterer
    os.kill(number, signal.SIGKILL)
    while pathlib.Path(f"/proc/{number}/cmdline").read_bytes():  # empty when it has ended
        time.sleep(0.01)
    with pytest.raises(processes.SideError, match="the process ended by signal 9"):
        pool.times(side, 0.01)
    assert pool.start([side]) == {}
    assert pool.build([side], LSTM, "training") == {}
    assert pool.times(side, 0.01)
