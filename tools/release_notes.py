"""Prints what CHANGELOG.md says of a version: release_notes.py v1.2.3.

Ends with 1 unless the tag is that of the version in tf_cudnn_rnn/__init__.py, which must have its
section. Needs Python alone.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_version() -> str:
    """Returns the version, from the one place where it stands."""
    source = (ROOT / "tf_cudnn_rnn" / "__init__.py").read_text(encoding="utf-8")
    return re.search(r'^__version__ = "(.+)"', source, re.MULTILINE)[1]


def date_of(version: str, changelog: str) -> str:
    """Returns the day of a release, from the heading of its section.

    Raises:
      ValueError: there is no such heading, or no day in it.
    """
    heading = re.search(rf"^## \[{re.escape(version)}\].*$", changelog, re.MULTILINE)
    found = heading[0] if heading else "none"
    match = re.fullmatch(r"## \[.+\] - (\d{4}-\d\d-\d\d)", found)
    if match is None:
        raise ValueError(
            f"CHANGELOG.md must have a heading `## [{version}] - YYYY-MM-DD`, with the day of the "
            f"release; it has {found}. Write the day of the release there."
        )
    return match[1]


def date_before(version: str, changelog: str) -> str:
    """Returns the day of the release before `version`, "" if there was none."""
    found = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", changelog, re.MULTILINE)
    released = [day for name, day in found if name not in ("Unreleased", version)]
    return released[0] if released else ""


def _sections(changelog: str) -> dict[str, str]:
    """What the changelog tells, by the name in a section's heading."""
    sections = re.split(r"^## \[(.+?)\].*\n", changelog, flags=re.MULTILINE)
    return dict(zip(sections[1::2], sections[2::2], strict=True))


def unreleased(changelog: str) -> str:
    """Returns what the changelog tells of changes that are in no version yet."""
    return _sections(changelog).get("Unreleased", "").strip()


def notes(tag: str, version: str, changelog: str) -> str:
    """Returns the section of `version`, without its heading.

    Raises:
      ValueError: the tag is of another version, or there is no such section.
    """
    if tag != f"v{version}":
        raise ValueError(f"The tag of version {version} must be v{version}; got {tag}.")
    text = _sections(changelog).get(version, "").strip()
    if not text:
        raise ValueError(f"CHANGELOG.md must have a section [{version}] that says something.")
    return text + "\n"


def main() -> None:
    """See above."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        sys.stdout.write(notes(sys.argv[1], read_version(), changelog))
    except ValueError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
