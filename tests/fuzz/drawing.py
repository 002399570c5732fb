"""How Hypothesis draws for the fuzzers of Python: by a seed alone, with nothing kept or printed."""

from collections.abc import Callable
from typing import Any

import hypothesis
from hypothesis import strategies as st


def draws(
    strategy: st.SearchStrategy, seed: int, size: int
) -> Callable[[Callable[[Any], None]], Callable[[], None]]:
    """A decorator: the function then goes through `size` draws, as the seed has them."""
    settings = hypothesis.settings(
        max_examples=size,
        database=None,
        deadline=None,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(hypothesis.HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    return lambda use: hypothesis.seed(seed)(settings(hypothesis.given(strategy)(use)))
