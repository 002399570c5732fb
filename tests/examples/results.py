"""What the example programs print and return."""

import pathlib
import runpy
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def of(out: str) -> dict[str, str]:
    """The names and values of the last line, `result: name=value ...`."""
    last = out.splitlines()[-1]
    assert last.startswith("result: ")
    return dict(item.split("=") for item in last.removeprefix("result: ").split())


def exit_status(program: str, *arguments: str) -> int:
    """Runs a program of examples/ in this process, as from the command line."""
    argv = sys.argv
    sys.argv = [program, *arguments]
    try:
        with pytest.raises(SystemExit) as stop:
            runpy.run_path(str(EXAMPLES / program), run_name="__main__")
    finally:
        sys.argv = argv
    return stop.value.code
