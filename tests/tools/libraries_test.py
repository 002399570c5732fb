"""tools/libraries.py: folders of Bazel are removed."""

import os
import pathlib
import shutil
import tempfile


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
