"""Files from strangers: whatever they hold, a reader ends soon, in little memory, and says why."""

import pytest

from tests.weights import hostile, measured

# Warnings are for those who mean well.
pytestmark = pytest.mark.filterwarnings("default")


@pytest.mark.parametrize("name", hostile.CASES)
def test_hostile(name, tmp_path):
    attack = hostile.CASES[name](tmp_path)
    outcome = measured.run(attack.read, *attack.arguments)
    cost = f"{outcome.seconds:.2f} s, {outcome.peak_bytes / 1e6:.0f} MB: {outcome.message[:500]}"
    assert outcome.error in ("ValueError", "OSError"), (outcome.error, cost)
    assert outcome.seconds < measured.SECONDS, cost
    assert outcome.peak_bytes < measured.BASE_BYTES + 2 * attack.size, cost
    for text in attack.names:
        assert text in outcome.message, cost
    assert len(outcome.message) < 2000, cost
