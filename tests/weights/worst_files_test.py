"""Files that cost most for their size: to load one, or to look into it, takes no more than is said.

SECURITY.md says how much that is.
"""

import pytest

from tests.weights import measured
from tests.weights.calls import inspect, inspect_json, load
from tests.weights.hostile import worst

pytestmark = pytest.mark.filterwarnings("default")
CALLS = [(read, name) for name in worst.FILES for read in (load, inspect)]
# Of JSON, what it has most of.
CALLS += [
    (inspect_json, name)
    for name in (
        *("onnx_of_long_names", "saved_model_of_shared_shapes", "npz_of_long_names"),
        *("keras_of_many_layers", "safetensors_of_many_prefixes"),
    )
]


@pytest.mark.parametrize("read, name", CALLS)
def test_cost(read, name, tmp_path):
    path = worst.FILES[name](tmp_path)
    size = path.stat().st_size
    outcome = measured.run(read, path, worst.CHOICES.get(name, {}))
    cost = f"{outcome.seconds:.2f} s, {outcome.peak_bytes / 1e6:.0f} MB: {outcome.message[:500]}"
    assert outcome.error in ("", "ValueError", "OSError"), (outcome.error, cost)
    assert outcome.seconds < measured.SECONDS, cost
    assert outcome.peak_bytes < measured.BASE_BYTES + 2 * size, cost
    if outcome.error:
        assert str(path) in outcome.message and len(outcome.message) < 2000, cost
