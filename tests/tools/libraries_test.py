"""tools/libraries.py: folders of Bazel are removed."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_folders_that_must_not_be_written_are_removed(load):
    """As Bazel's are; not by root, who may write to all."""
    folder = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))  # where everybody may come
    inner = folder / "bazel" / "external" / "made"
    inner.mkdir(parents=True)
    (inner / "file").write_text("text")
    (folder / "bazel" / "link").symlink_to(inner)
    user, libraries = os.geteuid(), load("tools/libraries.py")
    try:
        if user == 0:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, 65534, 65534, follow_symlinks=False)
            os.seteuid(65534)
        for path in (inner, inner.parent):
            path.chmod(0o555)
        libraries.remove(folder / "bazel")
        assert not list(folder.iterdir())
        libraries.remove(folder / "bazel")
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)


@pytest.mark.parametrize("arguments", [[], ["install", "here"], ["remove"], ["remove", "a", "b"]])
def test_it_says_how_it_is_called(arguments):
    refused = call(*arguments)
    assert refused.returncode == 1 and "libraries.py remove FOLDER" in refused.stderr


def test_the_command_that_removes(tmp_path):
    folder = tmp_path / "build" / "bazel"
    folder.mkdir(parents=True)
    folder.chmod(0o555)
    for _ in range(2):  # the second time there is none
        assert call("remove", str(folder.parent)).returncode == 0
        assert not list(tmp_path.iterdir())


def call(*arguments: str) -> subprocess.CompletedProcess:
    program = ROOT / "tools" / "libraries.py"
    return subprocess.run([sys.executable, program, *arguments], capture_output=True, text=True)
