"""Finds interpreters of Python of other versions."""

import pathlib
import shutil
import subprocess

# The interpreter itself, where that on PATH is of a virtual environment; Python 3.6 cannot tell.
_PROBE = (
    "import sys; "
    "print('%d.%d' % sys.version_info[:2], getattr(sys, '_base_executable', sys.executable))"
)


def find(version: str) -> str | None:
    """Returns the path of an interpreter of a minor version: on PATH, of pyenv or of uv."""
    for candidate in _candidates(version):
        try:
            answer = subprocess.run([candidate, "-c", _PROBE], capture_output=True, text=True)
        except OSError:
            continue
        found, _, path = answer.stdout.strip().partition(" ")
        # pyenv's shims are there for every version, whether or not it is switched on.
        if answer.returncode == 0 and found == version:
            return path
    return None


def _candidates(version: str):
    yield f"python{version}"
    folders = [pathlib.Path.home() / ".pyenv"]
    if root := _said_by("pyenv", "root"):
        folders.insert(0, pathlib.Path(root))
    for folder in folders:
        yield from sorted(map(str, folder.glob(f"versions/{version}.*/bin/python")), reverse=True)
    if path := _said_by("uv", "python", "find", version):
        yield path


def _said_by(*command: str) -> str:
    if shutil.which(command[0]) is None:
        return ""
    answer = subprocess.run(command, capture_output=True, text=True)
    return answer.stdout.strip() if answer.returncode == 0 else ""
