"""pyproject.toml: what the source distribution holds."""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = (
    ".ci",
    ".clang-format",
    ".github",
    "Makefile",
    "requirements-no-deps.txt",
    "requirements.txt",
)


def test_the_source_distribution_has_what_its_pages_lead_to():
    """And what they tell to run: `make wheels` needs the Makefile, and that the requirements.

    `make lint` needs .clang-format, and CONTRIBUTING.md tells of .ci/run. Tests read .github.
    """
    listed = re.search(
        r"^only-include = \[(.+?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S
    )
    included = {ROOT / name for name in re.findall(r'"(.+?)"', listed[1])}
    assert all(path.exists() for path in included)
    wanted = {ROOT / name for name in NEEDED}
    for page in [path for path in included if path.suffix == ".md"] + [*ROOT.glob("docs/**/*.md")]:
        # Links, not calls in code.
        for target in re.findall(r"\]\(([\w./-]+)(?:#[^)]*)?\)", page.read_text()):
            path = (page.parent / target).resolve()
            if path.exists():
                wanted.add(ROOT / path.relative_to(ROOT).parts[0])
    assert not wanted - included - {ROOT / "pyproject.toml"}
