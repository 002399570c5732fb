"""What tests of derivatives share."""

import pytest

from tests.helpers import running


@pytest.fixture
def graphs_as_traced():
    """Graphs of derivatives are large, and run once in tests: optimising takes longer."""
    with running.graphs_as_traced():
        yield
