"""docs/scaling.md: its programs run, and print what it says they print."""

from tests.docs import pages
from tests.helpers import subprocesses

_PAGE = "docs/scaling.md"


def test_programs_print_the_numbers_of_the_text():
    (_, loop), (_, arithmetic) = pages.blocks(_PAGE, "python")
    [(_, numbers)] = pages.blocks(_PAGE, "text")
    check = "assert len(losses) == 3 and losses[0] > 0\n"
    assert subprocesses.run_code(loop + check + arithmetic, prepared=True) == numbers
