"""Files that cost most for their size: to load one, or to look into it, takes no more than is said.

SECURITY.md says how much that is.
"""

import pytest

from tests.weights import measured
from tests.weights.calls import inspect, inspect_json, load
from tests.weights.hostile import worst

pytestmark = pytest.mark.filterwarnings("default")
# Of JSON, what it has most of.
AS_JSON = (
    *("onnx_of_long_names", "saved_model_of_shared_shapes", "npz_of_long_names"),
    *("keras_of_many_layers", "safetensors_of_many_prefixes"),
)
assert set(AS_JSON) <= set(worst.FILES)
CALLS = [
    (name, read)
    for name in worst.FILES
    for read in (load, inspect, *([inspect_json] if name in AS_JSON else []))
]


@pytest.fixture(scope="module")
def file(request, tmp_path_factory):
    """Its name and path; all calls for it read the same one."""
    return request.param, worst.FILES[request.param](tmp_path_factory.mktemp("worst"))


@pytest.mark.parametrize(("file", "read"), CALLS, indirect=["file"])
def test_cost(file, read):
    name, path = file
    size = path.stat().st_size
    outcome = measured.run(read, path, worst.CHOICES.get(name, {}))
    cost = f"{outcome.seconds:.2f} s, {outcome.peak_bytes / 1e6:.0f} MB: {outcome.message[:500]}"
    assert outcome.error in ("", "ValueError", "OSError"), (outcome.error, cost)
    assert outcome.seconds < outcome.seconds_allowed, cost
    assert outcome.peak_bytes < measured.BASE_BYTES + 2 * size, cost
    if outcome.error:
        assert str(path) in outcome.message and len(outcome.message) < 2000, cost
