"""Scripts of tools/: what they name of the sources is there."""

import ast
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = [*sorted((ROOT / "tools").glob("*.sh")), ROOT / ".ci" / "run"]
IMPORT = re.compile(r"\bfrom ((?:benchmarks|examples|tests)[\w.]*) import (\w+(?:, \w+)*)")
MODULE = re.compile(r"-m ((?:benchmarks|docs|examples|tests)\.[\w.]+\w)")
PATH = re.compile(r"\b((?:benchmarks|examples|tests|tools)/[\w/.*{},-]*\.(?:cc|py|sh|txt))\b")


def name(path: pathlib.Path) -> str:
    return path.name


def file_of(module: str) -> pathlib.Path:
    path = ROOT / module.replace(".", "/")
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def names_in(module: str) -> set[str]:
    """What can be imported from a module."""
    path = file_of(module)
    assert path.is_file(), module
    names = {it.stem for it in path.parent.iterdir()} if path.name == "__init__.py" else set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            names.update(it.id for it in ast.walk(node) if isinstance(it, ast.Name))
    return names


def missing(script: str) -> list[str]:
    """What a script imports, runs or names that is not there."""
    found = [
        f"{module}.{imported}"
        for module, names in IMPORT.findall(script)
        for imported in names.split(", ")
        if not file_of(module).is_file() or imported not in names_in(module)
    ]
    found += [module for module in MODULE.findall(script) if not file_of(module).is_file()]
    for pattern in PATH.findall(script):
        # Braces and stars as the shell takes them.
        command = ["bash", "-c", f"printf '%s\\n' {pattern}"]
        paths = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found += [path for path in paths.stdout.split() if not (ROOT / path).exists()]
    return found


@pytest.mark.parametrize("script", SCRIPTS, ids=name)
def test_what_a_script_names_is_there(script):
    assert missing(script.read_text()) == []


@pytest.mark.parametrize(
    ("script", "found"),
    [
        ("from tests.docs.readme_test import _EXPORT", ["tests.docs.readme_test._EXPORT"]),
        ("from tests.docs.gone import name", ["tests.docs.gone.name"]),
        ("from tests.docs import gone, pages", ["tests.docs.gone"]),
        ("python -m tests.fuzz.gone --seconds=1", ["tests.fuzz.gone"]),
        ("pytest tests/python/{gone,kernels}_test.py", ["tests/python/gone_test.py"]),
        ("python examples/gone_*.py", ["examples/gone_*.py"]),
    ],
)
def test_what_is_not_there_is_seen(script, found):
    assert missing(script) == found


@pytest.mark.parametrize("tests", ["simd_cell_test", "team_test simd_cell_test", "reference_rnn"])
def test_a_test_for_arm_that_is_not_there_is_refused(tests):
    """Or what is misspelt would pass."""
    refused = subprocess.run(
        [ROOT / "tools" / "test_arm.sh"],
        cwd=ROOT,
        env={**os.environ, "TESTS": tests},
        capture_output=True,
        text=True,
    )
    assert refused.returncode == 2 and not refused.stdout
    assert f"There is no test {tests.split()[-1]}:" in refused.stderr
