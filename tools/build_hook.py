"""Puts the shared libraries into the wheel; hatchling calls it (pyproject.toml).

By default it builds one, by Bazel, for the TensorFlow of the interpreter that runs it. With
TF_CUDNN_RNN_LIBRARIES=FOLDER it takes those that tools/wheels.py has put there, for the platform
TF_CUDNN_RNN_PLATFORM, such as linux_aarch64.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import libraries  # noqa: E402

# What a build neither reads nor should copy.
_OUTPUTS = shutil.ignore_patterns(
    "bazel-*", ".git", ".npm", ".venv*", "_libraries", "__pycache__", "build", "dist", "runs"
)


def build_library(folder: pathlib.Path) -> None:
    """Builds in a copy of the sources and a fresh output folder: a developer's stay untouched."""
    bazel = libraries.find_bazel()  # before anything takes long
    with tempfile.TemporaryDirectory() as temporary:
        startup = [f"--output_user_root={temporary}/bazel"]
        source = pathlib.Path(temporary, "source")
        shutil.copytree(ROOT, source, ignore=_OUTPUTS, symlinks=True)
        libraries.run([sys.executable, "configure.py"], source)
        try:
            # Not every compiler that somebody installs with has been tried.
            libraries.build(startup, ["--per_file_copt=^//@-Wno-error"], source)
        finally:
            subprocess.run([bazel, *startup, "shutdown"], cwd=source, check=False)
        libraries.install(source / "bazel-bin", folder)


class LibraryHook(BuildHookInterface):
    """Adds _libraries/*, and says that the wheel is for one platform and every Python."""

    def initialize(self, version: str, build_data: dict) -> None:
        """Called before the wheel is put together."""
        built = os.environ.get("TF_CUDNN_RNN_LIBRARIES")
        if version == "editable":  # the sources are the package
            folder = ROOT / "tf_cudnn_rnn" / "_libraries"
        else:
            folder = pathlib.Path(built or self._new_folder())
        if not built:
            try:
                build_library(folder)
            except libraries.BuildError as error:
                sys.exit(str(error))
        if not list(folder.glob("*.so")):
            sys.exit(f"tf_cudnn_rnn has no library to pack: there is none in {folder}.")

        platform = os.environ.get("TF_CUDNN_RNN_PLATFORM") or sysconfig.get_platform()
        build_data["pure_python"] = False
        build_data["tag"] = "py3-none-" + platform.replace("-", "_").replace(".", "_")
        if version != "editable":
            for path in sorted(folder.iterdir()):
                build_data["force_include"][str(path)] = f"tf_cudnn_rnn/_libraries/{path.name}"

    def finalize(self, version: str, build_data: dict, artifact_path: str) -> None:
        """Called when the wheel is written."""
        if self._temporary is not None:
            self._temporary.cleanup()

    _temporary: tempfile.TemporaryDirectory | None = None

    def _new_folder(self) -> str:
        self._temporary = tempfile.TemporaryDirectory()
        return self._temporary.name
