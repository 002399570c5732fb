"""Finds the shared library that fits the installed TensorFlow, and loads it.

Binaries of ops work with one minor version of TensorFlow. So the folder _libraries/ beside this
file has a library for each minor version that the package was built for: tensorflow_2_21.so, and
what it was built with in tensorflow_2_21.json.
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib.util
import json
import os
import pathlib
import platform
import re
import sys
import types
from typing import NamedTuple

from tf_cudnn_rnn import _elf

_FOLDER = pathlib.Path(__file__).with_name("_libraries")
# The distributions that are the module tensorflow; nightly ones with what stands for them.
_STABLE = ("tensorflow-cpu", "tensorflow-intel", "tensorflow")
_NIGHTLY = {"tf-nightly-cpu": "tensorflow-cpu", "tf-nightly": "tensorflow"}
# Those of kernels/engine/simd/isa.inc, by the machine that a build is for.
_INSTRUCTION_SETS = {
    "x86_64": "avx512_amx, avx512_bf16, avx512, avx2, scalar",
    "aarch64": "neon, scalar",
}


class BuildInfo(NamedTuple):
    """What a shared library was built with."""

    tensorflow: str  # the version whose headers it was compiled with
    cxx11_abi: int
    compiler: str
    ops: str = ""  # the digest of their sources; builds that are older than it tell none


def has_tensorflow() -> bool:
    """Whether TensorFlow is installed; a broken TensorFlow raises its own error."""
    try:
        import tensorflow  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "tensorflow":
            return False
        raise
    return True


def _installed_tensorflow() -> str | None:
    """The version of TensorFlow, if it can be told without the seconds of an import; else None."""
    if module := sys.modules.get("tensorflow"):
        return getattr(module, "__version__", None)
    return next(filter(None, map(installed_version, (*_STABLE, *_NIGHTLY))), None)


def obstacle() -> str:
    """Why TensorFlow cannot have the ops here, in sentences; "" if nothing speaks against it.

    It does not import TensorFlow: a broken one goes unnoticed.
    """
    try:
        is_there = importlib.util.find_spec("tensorflow") is not None
    except (ImportError, ValueError):
        is_there = False
    if not is_there:
        return str(needs_tensorflow("It"))
    try:
        if version := _installed_tensorflow():
            _library_for(version)
    except ImportError as error:
        return str(error)
    return ""


def needs_tensorflow(name: str) -> ImportError:
    """The error for using `name` where TensorFlow is not installed."""
    return ImportError(
        f"{name} needs TensorFlow, which is not installed: run `pip install tensorflow` (on "
        "x86-64 `tensorflow-cpu` is smaller). Without it only "
        "tf_cudnn_rnn.runtime, weights, params_size and library_path work."
    )


def _source_tree() -> pathlib.Path | None:
    """The source tree that this package lies in; None if it is installed."""
    folder = _FOLDER.parents[1]
    is_one = (folder / "configure.py").exists() and (folder / "WORKSPACE").exists()
    return folder if is_one else None


def _how_to_build() -> str:
    if source_tree := _source_tree():
        # Whoever has just installed the package and stands in the clone must not do so again.
        return (
            f"This is the source tree {source_tree}, not an installed package: run `make build` "
            "in it, which builds for the TensorFlow of its .venv, or run Python from another "
            "folder to use the package that is installed."
        )
    return (
        "To build it for the TensorFlow that is installed, with Bazel on the PATH, run "
        "`pip install hatchling` and then, in the source tree, "
        "`pip install --no-build-isolation --force-reinstall --no-deps .`."
    )


def _minor(version: str) -> str:
    """2.21 for 2.21.0, and for 2.21.0rc1 or 2.21.0-dev20260101, too."""
    return ".".join(version.split(".")[:2])


def libraries() -> dict[str, pathlib.Path]:
    """The shared libraries of this package by the minor version that they are for, oldest first."""
    found = {}
    for path in _FOLDER.glob("tensorflow_*.so"):
        if match := re.fullmatch(r"tensorflow_(\d+)_(\d+)", path.stem):
            found[int(match[1]), int(match[2])] = path
    return {f"{major}.{minor}": found[major, minor] for major, minor in sorted(found)}


def installed_version(distribution: str) -> str | None:
    """The version of a distribution, told without an import of it; None if it is not installed."""
    # Late, for it takes as long as all else that this package imports.
    import importlib.metadata

    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return None


def _how_to_install(minor: str) -> str:
    """The command for a TensorFlow in place of the installed one, whose distribution has names."""
    if name := next(filter(installed_version, _STABLE), None):
        return f"pip install '{name}=={minor}.*'"
    for nightly, name in _NIGHTLY.items():
        # Another distribution, of the same files, which pip would write over.
        if installed_version(nightly):
            return f"pip uninstall -y {nightly} && pip install '{name}=={minor}.*'"
    return f"pip install 'tensorflow=={minor}.*'"


def _or_list(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " or " + names[-1] if len(names) > 1 else names[0]


def _library_for(version: str, *, is_installed: bool = True) -> pathlib.Path:
    """The shared library for a version of TensorFlow; an ImportError says which there are.

    Args:
      version: of TensorFlow.
      is_installed: whether it is that of this Python, and not one that somebody asks for.
    """
    found = libraries()
    if not found:
        raise ImportError(
            f"tf_cudnn_rnn has no shared library: there is none in {_FOLDER}. {_how_to_build()}"
        )
    if _minor(version) in found:
        return found[_minor(version)]
    if not is_installed:
        raise ImportError(
            "`tensorflow_version` must be one that this tf_cudnn_rnn has a library for, "
            f"{_or_list(list(found))}, as compiled ops work with one minor version only; got "
            f"{version}. The wheels that `make wheels` makes in the source tree have one for each "
            "TensorFlow that is supported; what `make wheel` and `pip install .` make has one."
        )
    newest = list(found)[-1]
    raise ImportError(
        f"tf_cudnn_rnn was built for TensorFlow {_or_list(list(found))}, but TensorFlow "
        f"{version} is installed, and compiled ops work with one minor version only. Install "
        f"a TensorFlow that it was built for (`{_how_to_install(newest)}`), "
        f"or a tf_cudnn_rnn for TensorFlow {_minor(version)}. {_how_to_build()} "
        "`import tf_cudnn_rnn.runtime` and `import tf_cudnn_rnn.weights`, which need NumPy "
        "alone, work all the same."
    )


def library_path(tensorflow_version: str | None = None) -> str:
    """The shared library's file, for programs that load it themselves.

    C, C++, Go and Java programs pass it to TensorFlow's C API; see docs/serving.md.
    `import tf_cudnn_rnn` has loaded it already. TensorFlow need not be installed.

    Args:
      tensorflow_version: of the program that is to load it, such as "2.20" or "2.20.0";
        the installed TensorFlow's if left out. Where none is installed either, the
        package must have been built for a single one.

    Returns:
      An absolute path.

    Raises:
      ImportError: the package has no library for that TensorFlow.
      ValueError: no TensorFlow is installed, and there are several libraries.
    """
    is_installed = tensorflow_version is None and has_tensorflow()
    if is_installed:
        import tensorflow as tf

        tensorflow_version = tf.__version__
    if tensorflow_version is None:
        minors = list(libraries()) or ["none"]
        if len(minors) > 1:
            raise ValueError(
                "library_path needs `tensorflow_version` where no TensorFlow is installed: "
                f"{_or_list(minors)}, that of the program that is to load the library."
            )
        tensorflow_version = minors[0]
    return str(_library_for(tensorflow_version, is_installed=is_installed).resolve())


def build_info() -> BuildInfo:
    """What the library for the installed TensorFlow was built with."""
    path = pathlib.Path(library_path()).with_suffix(".json")
    try:
        return BuildInfo(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, TypeError, ValueError) as error:
        raise ImportError(
            f"tf_cudnn_rnn does not know what its library was built for: {path} cannot be read "
            f"({error}). {_how_to_build()}"
        ) from error


def instruction_set() -> str:
    """The instruction set that the kernels of this process use, for reports and logs.

    It is the fastest one of this CPU that the environment variable TF_CUDNN_RNN_ISA allows. It is
    chosen when the first op runs or this function is first called, and stays.

    Returns:
      "avx512_amx", "avx512_bf16", "avx512", "avx2", "neon" or "scalar".

    Raises:
      ImportError: there is no TensorFlow, no library, or the one was not built for the other.
      ValueError: TF_CUDNN_RNN_ISA now names no instruction set of this build; ops that are
        made from now on fail, too.
    """
    load()
    ask = ctypes.CDLL(library_path()).tf_cudnn_rnn_instruction_set
    ask.restype = ctypes.c_char_p
    name = ask()
    if name is None:
        wanted = os.environ.get("TF_CUDNN_RNN_ISA")
        raise ValueError(
            "The environment variable TF_CUDNN_RNN_ISA must be one of the instruction sets of this "
            f'build, {_INSTRUCTION_SETS.get(platform.machine(), "scalar")}; got "{wanted}". Unset '
            "it for the best one."
        )
    return name.decode()


def release_scratch() -> int:
    """Gives the scratch memory that is kept for the next calls back to the system.

    Calls keep their scratch memory for the next ones, up to 512 MB in all. Call this if the
    process lives on and computes no more. Calls that run meanwhile keep theirs. Later ones take
    new memory, and the first of them takes a little longer.

    Returns:
      How many bytes were kept.

    Raises:
      ImportError: there is no TensorFlow, no library, or the one was not built for the other.
    """
    load()
    release = ctypes.CDLL(library_path()).tf_cudnn_rnn_release_scratch
    release.restype = ctypes.c_int64
    return release()


def _check_whole(path: str) -> None:
    """Raises ImportError if a part of the library is missing, of which loading it would die."""
    fault = _elf.fault(path)
    if fault is None:
        return
    again = (
        f"Run `make build` in {_source_tree()}."
        if _source_tree()
        else "Install the wheel of tf_cudnn_rnn anew, with `pip install --force-reinstall "
        "--no-deps`; see whether the disk is full."
    )
    raise ImportError(f"{fault} {again}")


def _digest_of_ops(source_tree: pathlib.Path) -> str:
    """Stands for the sources of the ops, as tf_cudnn_rnn/BUILD makes it of those of a library."""
    files = sorted(path for path in source_tree.glob("ops/*") if path.suffix in (".cc", ".h"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def _check_fresh(path: str) -> None:
    """Raises ImportError if this is a source tree with other ops than those of the library.

    They would show at the first call that does not fit. What is installed comes from one build.
    """
    source_tree = _source_tree()
    if source_tree and build_info().ops not in ("", _digest_of_ops(source_tree)):
        raise ImportError(
            f"{path} was built of other sources than those in {source_tree / 'ops'}, and may not "
            f"fit the package. {_how_to_build()}"
        )


@functools.cache
def load() -> types.ModuleType:
    """Loads the library into TensorFlow; returns the generated functions of its ops.

    From then on the CudnnRNN ops that TensorFlow itself defines run on the CPU, too.

    Raises:
      ImportError: there is no TensorFlow, no library, or none for the TensorFlow that is
        installed, or not the whole of it; or the sources around it have other ops; or another
        copy of it was loaded before. The message names the versions and the way out.
    """
    if not has_tensorflow():
        raise needs_tensorflow("tf_cudnn_rnn")
    import tensorflow as tf

    # Some failures of a library that does not fit come later than the load, so the version decides.
    path = library_path()
    _check_whole(path)
    _check_fresh(path)
    try:
        loaded = tf.load_op_library(path)
    except tf.errors.OpError as error:
        raise ImportError(
            f"TensorFlow {tf.__version__} cannot load {path}: {error.message}. {_how_to_build()}"
        ) from error
    if not hasattr(loaded, "tf_cudnn_rnn_cudnn_rnnv3"):  # TensorFlow leaves out ops that it has
        raise ImportError(
            f"tf_cudnn_rnn cannot call the ops of {path}: another copy of this library was loaded "
            "into this process before. Import tf_cudnn_rnn first, or load no copy but "
            "tf_cudnn_rnn.library_path()."
        )
    return loaded
