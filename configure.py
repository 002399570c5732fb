"""Tells Bazel about a TensorFlow: writes .tf_configure.bazelrc.

Run it with the Python whose TensorFlow the library is to be built against. It asks no questions.

With --tensorflow=FOLDER it takes that of a wheel unpacked there, which need not run here: of
another version, or for another machine.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))
import libraries  # noqa: E402

OUTPUT = ROOT / ".tf_configure.bazelrc"

# The smaller one, where there are two.
DISTRIBUTION = "tensorflow-cpu" if platform.machine() == "x86_64" else "tensorflow"

# The GCC whose warnings these sources are free of. Those of another one are no reason not to build.
KNOWN_GCC = "12"

# Asked in a process of its own, because TensorFlow writes to stderr as it is imported.
PROBE = """
import json, tensorflow as tf
print(json.dumps({
    "include": tf.sysconfig.get_include(),
    "compile_flags": tf.sysconfig.get_compile_flags(),
    "link_flags": tf.sysconfig.get_link_flags(),
    "version": tf.__version__,
    "abi": tf.sysconfig.CXX11_ABI_FLAG,
}))
"""


def find_tensorflow():
    """Returns what PROBE prints about this interpreter's TensorFlow."""
    probe = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True)
    if probe.returncode != 0:
        reason = (probe.stderr.strip().splitlines() or ["no message"])[-1]
        sys.exit(
            f"configure.py: {sys.executable} cannot import TensorFlow ({reason}); "
            f"install it with: pip install '{DISTRIBUTION}==2.21.*'"
        )
    found = json.loads(probe.stdout.splitlines()[-1])
    if not pathlib.Path(found["include"], "tensorflow/core/framework/op_kernel.h").exists():
        sys.exit(
            f"configure.py: TensorFlow {found['version']} lacks C++ headers in {found['include']}; "
            f"install its wheel with: pip install --force-reinstall '{DISTRIBUTION}==2.21.*'"
        )
    return found


def find_unpacked(folder):
    """Returns the same about the wheel of TensorFlow that is unpacked in a folder."""
    [metadata] = folder.glob("tensorflow*.dist-info/METADATA")
    version = re.search(r"^Version: (.+)$", metadata.read_text(encoding="utf-8"), re.MULTILINE)[1]
    package = folder.resolve() / "tensorflow"
    # What tf.sysconfig says of every release for Linux since 2.16, on x86-64 and Arm.
    return {
        "include": str(package / "include"),
        "compile_flags": [
            "-D_GLIBCXX_USE_CXX11_ABI=1",
            "--std=c++17",
            "-DEIGEN_MAX_ALIGN_BYTES=64",
        ],
        "link_flags": [f"-L{package}", "-l:libtensorflow_framework.so.2"],
        "version": version,
        "abi": 1,
    }


def bazel_version():
    """Returns Bazel's version as text ("no_version" from Debian's build)."""
    output = subprocess.run(
        [libraries.find_bazel(), "--version"],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    ).stdout
    return output.removeprefix("bazel ").strip()


def has_known_gcc():
    """Returns whether Bazel takes a GCC whose warnings are known."""
    try:
        # Of GCC alone.
        command = [os.environ.get("CC") or "gcc", "-dumpfullversion"]
        result = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return False
    return result.returncode == 0 and result.stdout.split(".")[0] == KNOWN_GCC


def main():
    """Writes the output and prints what it holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tensorflow", type=pathlib.Path, help="a folder; see above")
    parser.add_argument("--output", type=pathlib.Path, default=OUTPUT, help=f"not {OUTPUT.name}")
    options = parser.parse_args()
    tf = find_unpacked(options.tensorflow) if options.tensorflow else find_tensorflow()
    try:
        bazel = bazel_version()
    except libraries.BuildError as error:  # of use without it, too
        bazel = f"not found. {error}"
    # The include directory reaches Bazel as a repository (third_party/tf), not as a flag.
    compile_flags = [flag for flag in tf["compile_flags"] if not flag.startswith("-I")]

    environment = {
        "TF_INCLUDE": tf["include"],
        "TF_LINK_FLAGS": " ".join(tf["link_flags"]),
        "TF_VERSION": tf["version"],
        "TF_CXX11_ABI": tf["abi"],
    }
    lines = ["# Written by configure.py: do not edit."]
    lines += [f'build --repo_env="{name}={value}"' for name, value in environment.items()]
    lines += [f'build --cxxopt="{flag}"' for flag in compile_flags]
    if has_known_gcc():
        lines.append("build --per_file_copt=^//@-Werror")
    # Newer Bazels read WORKSPACE only when asked to; older ones reject the question.
    version = re.match(r"\d+", bazel)
    major = int(version[0]) if version else 0
    if major >= 7:
        lines.append("common --noenable_bzlmod")
    if major >= 8:
        lines.append("common --enable_workspace")

    print(f"Python      {sys.version.split()[0]}, {sys.executable}")
    print(f"TensorFlow  {tf['version']}, {tf['include']}")
    print(f"Flags       {' '.join(compile_flags + tf['link_flags'])}")
    print(f"Bazel       {bazel}")

    # An unchanged file keeps its time, and with it all that make derives from it.
    text = "\n".join(lines) + "\n"
    if not options.output.exists() or options.output.read_text() != text:
        options.output.write_text(text)


if __name__ == "__main__":
    main()
