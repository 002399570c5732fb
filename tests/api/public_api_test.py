"""The public names and signatures are those that were promised."""

import difflib
import importlib
import inspect

import pytest

from tests.api import public_api


def test_the_public_api_is_as_promised():
    promised, found = public_api.FILE.read_text(), public_api.describe()
    difference = difflib.unified_diff(
        promised.splitlines(), found.splitlines(), "promised", "found", lineterm=""
    )
    if promised != found:
        lines = [
            "The public API is not that of tests/api/public_api.txt:",
            *difference,
            f"If that is meant, say it in CHANGELOG.md, and run {public_api.COMMAND}",
        ]
        pytest.fail("\n".join(lines), pytrace=False)


@pytest.mark.parametrize("module", public_api.MODULES)
def test_what_a_module_defines_is_listed_or_private(module):
    module = importlib.import_module(module)
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    }
    listed = set(module.__all__)
    assert defined - listed == set()
    assert all(inspect.getdoc(getattr(module, name)) for name in listed)
