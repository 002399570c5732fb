"""tools/release_notes.py: what it reads of CHANGELOG.md."""

import pathlib
import re
import subprocess
import sys

import pytest

from tests.tools.version_test import newest_release

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def release_notes(load):
    return load("tools/release_notes.py")


def run(*arguments: str) -> subprocess.CompletedProcess:
    program = ROOT / "tools" / "release_notes.py"
    return subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True)


def test_the_notes_of_a_release_are_its_section_of_the_changelog(release_notes):
    changelog, version = (ROOT / "CHANGELOG.md").read_text(), newest_release()
    notes = release_notes.notes(f"v{version}", version, changelog)
    _, section = changelog.split(f"## [{version}]")
    assert "### Added" in notes and notes in section
    assert "\n## " not in notes


def test_a_tag_of_another_version_is_refused(release_notes):
    refused = run("v99.0.0")
    assert refused.returncode == 1 and "v99.0.0" in refused.stderr and not refused.stdout
    changelog = (ROOT / "CHANGELOG.md").read_text()
    with pytest.raises(ValueError, match=r"must have a section \[1\.0\.0\.dev0\]"):
        release_notes.notes("v1.0.0.dev0", "1.0.0.dev0", changelog)


def test_the_day_of_a_release(release_notes):
    date_of = release_notes.date_of
    assert date_of("1.2.3", "\n## [1.2.4] - 2026-02-01\n## [1.2.3] - 2026-01-31\n") == "2026-01-31"
    for changelog, found in {
        "## [1.2.3]\n": "it has ## [1.2.3].",
        "## [1.2.3] - soon\n": "it has ## [1.2.3] - soon.",
        "## [1.2x3] - 2026-01-31\n": "it has none.",
    }.items():
        with pytest.raises(ValueError, match=re.escape(found)):
            date_of("1.2.3", changelog)


def test_what_no_release_has_is_told(release_notes):
    unreleased = release_notes.unreleased
    assert unreleased("# C\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n- old\n") == ""
    assert unreleased("# C\n\n## [Unreleased]\n\n### Added\n\n- new\n\n## [1.2.3]\n") == (
        "### Added\n\n- new"
    )
    assert unreleased("# C\n\n## [1.2.3] - 2026-01-31\n\n- old\n") == ""
