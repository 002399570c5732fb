"""requirements*.txt: CONTRIBUTING.md says why each package is there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = [*sorted(ROOT.glob("requirements*.txt")), ROOT / "tests" / "fuzz" / "requirements.txt"]


def packages(path: pathlib.Path) -> set[str]:
    return {name.lower() for name in re.findall(r"^([\w.-]+)==", path.read_text(), re.MULTILINE)}


def explained() -> set[str]:
    """What the first column of the table names."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    _, _, section = text.partition("\n## Dependencies, and why each one is there\n")
    rows = re.findall(r"^\| (.+?) \| .+ \|$", section.partition("\n## ")[0], re.MULTILINE)
    return {name.lower() for row in rows for name in row.split(", ")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_each_package_is_explained(path):
    assert len(packages(path)) == len(set(re.findall(r"^\w[\w.-]*", path.read_text(), re.M)))
    assert packages(path) - explained() == set()


def test_the_package_imports_what_its_wheel_asks_for():
    listed = re.search(
        r"^dependencies = \[(.+?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S
    )
    sources = "".join(path.read_text() for path in (ROOT / "tf_cudnn_rnn").rglob("*.py"))
    for name in re.findall(r'"([\w-]+)', listed[1]):
        module = {"absl-py": "absl"}.get(name, name)
        assert re.search(rf"^ *(?:import|from) {module}\b", sources, re.M), name
