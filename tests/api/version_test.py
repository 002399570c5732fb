"""The version stands in tf_cudnn_rnn/__init__.py; what has to repeat it says the same."""

import pathlib
import re
import subprocess
import sys

import tf_cudnn_rnn

ROOT = pathlib.Path(__file__).resolve().parents[2]


def only(pattern: str, file: str) -> str:
    (found,) = re.findall(pattern, (ROOT / file).read_text(), flags=re.MULTILINE)
    return found


def test_the_citation_is_of_this_version():
    assert only(r"^version: (.+)$", "CITATION.cff") == tf_cudnn_rnn.__version__


def test_the_changelog_ends_in_this_version():
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1] == tf_cudnn_rnn.__version__


def test_the_version_stands_in_one_place():
    written = only(r'^__version__ = "(.+)"$', "tf_cudnn_rnn/__init__.py")
    assert written == tf_cudnn_rnn.__version__
    assert re.search(r"^version *=", (ROOT / "pyproject.toml").read_text(), re.MULTILINE) is None


def release_notes(*arguments: str) -> subprocess.CompletedProcess:
    program = ROOT / "tools" / "release_notes.py"
    return subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True)


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    version = tf_cudnn_rnn.__version__
    notes = release_notes(f"v{version}")
    assert notes.returncode == 0, notes.stderr
    _, section = (ROOT / "CHANGELOG.md").read_text().split(f"## [{version}]")
    assert notes.stdout.startswith("### ") and notes.stdout in section
    assert "\n## " not in notes.stdout


def test_a_tag_of_another_version_is_refused():
    refused = release_notes("v99.0.0")
    assert refused.returncode == 1 and "v99.0.0" in refused.stderr and not refused.stdout
