"""Finds the shared library beside this file, checks that it fits, and loads it."""

import ctypes
import functools
import os
import pathlib
import types

_PATH = pathlib.Path(__file__).with_name("_tf_cudnn_rnn.so")


def has_tensorflow() -> bool:
    """Whether TensorFlow is installed; a broken TensorFlow raises its own error."""
    try:
        import tensorflow  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "tensorflow":
            return False
        raise
    return True


def needs_tensorflow(name: str) -> ImportError:
    """The error for using `name` where TensorFlow is not installed."""
    return ImportError(
        f"{name} needs TensorFlow, which is not installed: run `pip install "
        "'tf_cudnn_rnn[tensorflow]'` (or `[tensorflow-cpu]`). Without it only "
        "tf_cudnn_rnn.weights, params_size and library_path work."
    )


def _how_to_build() -> str:
    source_tree = _PATH.parents[1]
    if (source_tree / "configure.py").exists() and (source_tree / "WORKSPACE").exists():
        # Whoever has just installed the package and stands in the clone must not do so again.
        return (
            f"This is the source tree {source_tree}, not an installed package: run `make build` "
            "in it, which builds for the TensorFlow of its .venv, or run Python from another "
            "folder to use the package that is installed."
        )
    return (
        "Build it for the TensorFlow that is installed: run `make build` in the source "
        "tree, or reinstall with `pip install --no-build-isolation --force-reinstall "
        "--no-deps .` there."
    )


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def library_path() -> str:
    """The shared library's file, for programs that load it themselves.

    C, C++, Go and Java programs pass it to TensorFlow's C API; see docs/serving.md.
    `import tf_cudnn_rnn` has loaded it already. TensorFlow need not be installed.

    Returns:
      An absolute path.

    Raises:
      ImportError: the library has not been built.
    """
    if not _PATH.exists():
        raise ImportError(
            f"tf_cudnn_rnn has no shared library: {_PATH} is missing. {_how_to_build()}"
        )
    return str(_PATH.resolve())


def instruction_set() -> str:
    """The instruction set that the kernels of this process use, for reports and logs.

    It is the best one of this CPU that the environment variable TF_CUDNN_RNN_ISA allows when
    the first op runs or this function is first called, and stays.

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
            f'build; got "{wanted}". Unset it for the best one.'
        )
    return name.decode()


def release_scratch() -> int:
    """Gives the scratch memory that is kept for the next calls back to the system.

    Calls hand their scratch memory on, as much as there were calls at once, up to 256 MB in
    all: a process that has computed what it had to, and lives on, need not keep it. Calls that
    run meanwhile keep theirs. The next ones take new memory, the first of them a little longer.

    Returns:
      How many bytes were kept.

    Raises:
      ImportError: there is no TensorFlow, no library, or the one was not built for the other.
    """
    load()
    release = ctypes.CDLL(library_path()).tf_cudnn_rnn_release_scratch
    release.restype = ctypes.c_int64
    return release()


def _built_for() -> str:
    """Returns the version of TensorFlow that the shared library was built for."""
    library_path()  # which refuses a missing one
    try:
        from tf_cudnn_rnn._build_info import TF_VERSION
    except ImportError as error:
        raise ImportError(
            f"tf_cudnn_rnn does not know what {_PATH} was built for: "
            f"{_PATH.with_name('_build_info.py')} is missing. {_how_to_build()}"
        ) from error
    return TF_VERSION


@functools.cache
def load() -> types.ModuleType:
    """Loads the library into TensorFlow; returns the generated functions of its ops.

    From then on the CudnnRNN ops that TensorFlow itself defines run on the CPU, too.

    Raises:
      ImportError: there is no TensorFlow, no library, or the one was not built for
        the other. The message names both versions and the way out.
    """
    if not has_tensorflow():
        raise needs_tensorflow("tf_cudnn_rnn")
    import tensorflow as tf

    built_for = _built_for()
    # Binaries do not cross minor versions of TensorFlow, and some of the failures
    # come later than the load, so the versions are compared first.
    if _minor(built_for) != _minor(tf.__version__):
        raise ImportError(
            f"tf_cudnn_rnn was built for TensorFlow {built_for}, but TensorFlow "
            f"{tf.__version__} is installed, and compiled ops work with one minor "
            f"version only. Install tensorflow=={_minor(built_for)}.*, or a "
            f"tf_cudnn_rnn for TensorFlow {_minor(tf.__version__)}. {_how_to_build()}"
        )
    try:
        return tf.load_op_library(str(_PATH))
    except tf.errors.OpError as error:
        raise ImportError(
            f"TensorFlow {tf.__version__} cannot load {_PATH}, built for TensorFlow "
            f"{built_for}: {error.message} {_how_to_build()}"
        ) from error
