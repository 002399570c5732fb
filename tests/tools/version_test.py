"""The version stands in tf_cudnn_rnn/__init__.py; what has to repeat it says the same."""

import pathlib
import re

import tf_cudnn_rnn

ROOT = pathlib.Path(__file__).resolve().parents[2]


def only(pattern: str, file: str) -> str:
    (found,) = re.findall(pattern, (ROOT / file).read_text(), flags=re.MULTILINE)
    return found


def newest_release() -> str:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    return headings[1]


def test_the_citation_is_of_the_newest_release():
    assert only(r"^version: (.+)$", "CITATION.cff") == newest_release()


def test_changes_that_are_in_no_release_have_a_version_of_their_own(load):
    """Or pip would keep an installed release in the place of a wheel that is newer."""
    version, release = tf_cudnn_rnn.__version__, newest_release()
    if load("tools/release_notes.py").unreleased((ROOT / "CHANGELOG.md").read_text()):
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\.dev0", version)
        assert match, version
        assert tuple(map(int, match.groups())) > tuple(map(int, release.split(".")))
    else:
        assert version == release


def test_the_version_stands_in_one_place():
    written = only(r'^__version__ = "(.+)"$', "tf_cudnn_rnn/__init__.py")
    assert written == tf_cudnn_rnn.__version__
    assert re.search(r"^version *=", (ROOT / "pyproject.toml").read_text(), re.MULTILINE) is None
