"""The version stands in tf_cudnn_rnn/__init__.py; what has to repeat it says the same."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import pytest

import tf_cudnn_rnn

ROOT = pathlib.Path(__file__).resolve().parents[2]


def tool(name: str):
    """A program of tools/, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def only(pattern: str, file: str) -> str:
    (found,) = re.findall(pattern, (ROOT / file).read_text(), flags=re.MULTILINE)
    return found


def newest_release() -> str:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    return headings[1]


def test_the_citation_is_of_the_newest_release():
    assert only(r"^version: (.+)$", "CITATION.cff") == newest_release()


def test_changes_that_are_in_no_release_have_a_version_of_their_own():
    """Or pip would keep an installed release in the place of a wheel that is newer."""
    version, release = tf_cudnn_rnn.__version__, newest_release()
    if tool("release_notes").unreleased((ROOT / "CHANGELOG.md").read_text()):
        match = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\.dev0", version)
        assert match, version
        assert tuple(map(int, match.groups())) > tuple(map(int, release.split(".")))
    else:
        assert version == release


def test_the_version_stands_in_one_place():
    written = only(r'^__version__ = "(.+)"$', "tf_cudnn_rnn/__init__.py")
    assert written == tf_cudnn_rnn.__version__
    assert re.search(r"^version *=", (ROOT / "pyproject.toml").read_text(), re.MULTILINE) is None


def release_notes(*arguments: str) -> subprocess.CompletedProcess:
    program = ROOT / "tools" / "release_notes.py"
    return subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True)


def test_the_notes_of_a_release_are_its_section_of_the_changelog():
    changelog, version = (ROOT / "CHANGELOG.md").read_text(), newest_release()
    notes = tool("release_notes").notes(f"v{version}", version, changelog)
    _, section = changelog.split(f"## [{version}]")
    assert "### Added" in notes and notes in section
    assert "\n## " not in notes


def test_a_tag_of_another_version_is_refused():
    refused = release_notes("v99.0.0")
    assert refused.returncode == 1 and "v99.0.0" in refused.stderr and not refused.stdout
    changelog = (ROOT / "CHANGELOG.md").read_text()
    with pytest.raises(ValueError, match=r"must have a section \[1\.0\.0\.dev0\]"):
        tool("release_notes").notes("v1.0.0.dev0", "1.0.0.dev0", changelog)


def test_the_day_of_a_release():
    date_of = tool("release_notes").date_of
    assert date_of("1.2.3", "\n## [1.2.4] - 2026-02-01\n## [1.2.3] - 2026-01-31\n") == "2026-01-31"
    for changelog, found in {
        "## [1.2.3]\n": "it has ## [1.2.3].",
        "## [1.2.3] - soon\n": "it has ## [1.2.3] - soon.",
        "## [1.2x3] - 2026-01-31\n": "it has none.",
    }.items():
        with pytest.raises(ValueError, match=re.escape(found)):
            date_of("1.2.3", changelog)


def test_what_no_release_has_is_told():
    unreleased = tool("release_notes").unreleased
    assert unreleased("# C\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n- old\n") == ""
    assert unreleased("# C\n\n## [Unreleased]\n\n### Added\n\n- new\n\n## [1.2.3]\n") == (
        "### Added\n\n- new"
    )
    assert unreleased("# C\n\n## [1.2.3] - 2026-01-31\n\n- old\n") == ""


def test_a_release_leaves_nothing_unreleased(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "tools")
    release_check = tool("release_check")
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("*\n")
    heading = "## [1.2.3] - 2026-01-31"
    monkeypatch.setattr(release_check.release_notes, "read_version", lambda: "1.2.3")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(f"## [Unreleased]\n\n- new\n\n{heading}\n\n- old\n")
    with pytest.raises(release_check.Failure, match=r"nothing under \[Unreleased\]; it has 1 line"):
        release_check.check_sources()
    changelog.write_text(f"## [Unreleased]\n\n{heading}\n\n- old\n")
    assert "2026-01-31" in release_check.check_sources()


def test_the_source_distribution_has_what_its_pages_lead_to():
    """And what they tell to run: `make wheels` needs the Makefile, and that the requirements."""
    listed = re.search(
        r"^only-include = \[(.+?)\]", (ROOT / "pyproject.toml").read_text(), re.M | re.S
    )
    included = {ROOT / name for name in re.findall(r'"(.+?)"', listed[1])}
    assert all(path.exists() for path in included)
    wanted = {ROOT / name for name in ("Makefile", "requirements.txt", "requirements-no-deps.txt")}
    for page in [path for path in included if path.suffix == ".md"] + [*ROOT.glob("docs/**/*.md")]:
        # Links, not calls in code.
        for target in re.findall(r"\]\(([\w./-]+)(?:#[^)]*)?\)", page.read_text()):
            path = (page.parent / target).resolve()
            if path.exists():
                wanted.add(ROOT / path.relative_to(ROOT).parts[0])
    assert not wanted - included - {ROOT / "pyproject.toml"}


def test_folders_that_must_not_be_written_are_removed():
    """As Bazel's are; not by root, who may write to all."""
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))  # where everybody may come
    inner = folder / "bazel" / "external" / "made"
    inner.mkdir(parents=True)
    (inner / "file").write_text("text")
    (folder / "bazel" / "link").symlink_to(inner)
    user = os.geteuid()
    try:
        if user == 0:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, 65534, 65534, follow_symlinks=False)
            os.seteuid(65534)
        for path in (inner, inner.parent):
            path.chmod(0o555)
        tool("libraries").remove(folder / "bazel")
        assert not list(folder.iterdir())
        tool("libraries").remove(folder / "bazel")
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)
