"""How the benchmark talks to the processes of its sides."""

import subprocess
import sys

import pytest

from benchmarks import drivers, processes

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
