"""Builds the shared library by Bazel, and gives it the name by which the package finds it.

As a program, for scripts: libraries.py install BAZEL_BIN FOLDER, or libraries.py remove FOLDER.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

RUNTIME = ("librnn_runtime.so", "librnn_runtime.a", "librnn_python.so")
# What programs that are linked with it need beside it.
RUNTIME_SOURCES = (
    "rnn_runtime.h",
    "rnn_runtime.pc",
    "rnn_runtime-config.cmake",
    "rnn_runtime-config-version.cmake",
)
ROOT = pathlib.Path(__file__).resolve().parent.parent


class BuildError(Exception):
    """The library was not built; the text says why, and what to do, in a sentence."""


def find_bazel() -> str:
    """Returns Bazel's path."""
    bazel = shutil.which("bazel") or shutil.which("bazelisk")
    if bazel is None:
        raise BuildError(
            "tf_cudnn_rnn is built by Bazel, which is not on PATH: "
            "install bazel-bootstrap (Debian, Ubuntu) or bazelisk."
        )
    return bazel


def run(command: list, folder: pathlib.Path, environment: dict | None = None) -> None:
    """Runs a command that explains itself when it fails, in this environment or another."""
    if subprocess.run(command, cwd=folder, env=environment).returncode != 0:
        raise BuildError(f"tf_cudnn_rnn was not built: `{' '.join(map(str, command))}` failed.")


def remove(folder: pathlib.Path) -> None:
    """Removes a folder if it is there: one of Bazel's, too, which are not to be written to."""
    for parent, _, _ in os.walk(folder):
        os.chmod(parent, os.stat(parent).st_mode | 0o700)
    shutil.rmtree(folder, ignore_errors=not folder.exists())


def build(startup: list[str], options: list[str], source: pathlib.Path = ROOT) -> None:
    """Builds what is configured in `source`: what was made is under its bazel-bin."""
    run([find_bazel(), *startup, "build", *options, "//tf_cudnn_rnn"], source)


def install(bazel_bin: pathlib.Path, folder: pathlib.Path) -> pathlib.Path:
    """Copies what Bazel made into a folder; returns the path of the library of ops.

    That is named by the TensorFlow that it is for. The libraries of the runtime, which is for none,
    have beside them what compilers and build systems ask for. A file that is there is replaced,
    never written over while a process has it mapped; an equal one stays.
    """
    info = bazel_bin / "tf_cudnn_rnn" / "_tf_cudnn_rnn.json"
    major, minor, *_ = json.loads(info.read_text(encoding="utf-8"))["tensorflow"].split(".")
    library = folder / f"tensorflow_{major}_{minor}.so"
    folder.mkdir(parents=True, exist_ok=True)
    for made, path in [
        (bazel_bin / "_tf_cudnn_rnn.so", library),
        (info, library.with_suffix(".json")),
        *((bazel_bin / "runtime" / name, folder / name) for name in RUNTIME),
        *((ROOT / "runtime" / name, folder / name) for name in RUNTIME_SOURCES),
    ]:
        if path.exists() and path.read_bytes() == made.read_bytes():
            continue
        part = path.with_name(f"{path.name}.part")
        shutil.copyfile(made, part)
        os.replace(part, path)
    return library


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["install", bazel_bin, folder]:
            print(install(pathlib.Path(bazel_bin), pathlib.Path(folder)))
        case ["remove", folder]:
            remove(pathlib.Path(folder))
        case _:
            sys.exit(__doc__)
