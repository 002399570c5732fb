"""docs/scaling.md: its programs run, and print what it says they print."""

import pathlib
import re

from tests.python import subprocesses

_DOCUMENT = pathlib.Path(__file__).parents[2] / "docs" / "scaling.md"


def _blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", _DOCUMENT.read_text(), re.M | re.S)


def test_programs_print_the_numbers_of_the_text():
    loop, arithmetic = _blocks("python")
    [numbers] = _blocks("text")
    check = "assert len(losses) == 3 and losses[0] > 0\n"
    assert subprocesses.run_code(loop + check + arithmetic, prepared=True) == numbers
