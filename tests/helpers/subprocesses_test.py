"""Processes of tests end, and nothing that they started outlives them."""

import os
import signal
import time

import pytest

from tests.helpers import subprocesses

WITH_A_CHILD = """
import os, subprocess
print(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL).pid, flush=True)
{}
"""


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _ends(pid: int) -> bool:
    for _ in range(200):
        if not _is_running(pid):
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("end, status", [("", 0), ("os._exit(3)", 3), ("os.abort()", -6)])
def test_children_of_a_process_end_with_it(prepared, end, status):
    result = subprocesses.result_of(WITH_A_CHILD.format(end), prepared=prepared)
    assert result.returncode == status, result.stderr
    assert _ends(int(result.stdout))


@pytest.mark.parametrize("prepared", [False, True])
def test_a_process_that_hangs_is_ended_and_says_where(monkeypatch, prepared):
    monkeypatch.setattr(subprocesses, "_TIMEOUT", 1)
    result = subprocesses.result_of("import time\ntime.sleep(1000)", prepared=prepared)
    assert result.returncode == 1
    assert "Timeout" in result.stderr and 'File "<string>"' in result.stderr


def test_a_prepared_process_is_like_another():
    code = "import os, sys\nprint(sys.argv, __name__, os.getcwd(), os.environ['MORE'])"
    outputs = {
        subprocesses.run_code(code, {"MORE": "is set"}, "/", prepared=prepared)
        for prepared in (False, True)
    }
    assert outputs == {"['-c'] __main__ / is set\n"}


@pytest.mark.parametrize("prepared", [False, True])
def test_a_background_job_does_not_hide_ctrl_c(prepared):
    """A shell lets it ignore SIGINT, which children inherit."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code = "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('goes on')"
        result = subprocesses.result_of(code, prepared=prepared)
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.returncode == -signal.SIGINT and not result.stdout
    assert "KeyboardInterrupt" in result.stderr


def test_a_ctrl_c_does_not_reach_what_forks():
    """It goes to the group of the tests' own process."""
    code = "import os\nprint(os.getpgid(os.getppid()))"
    assert int(subprocesses.run_code(code, prepared=True)) != os.getpgrp()
