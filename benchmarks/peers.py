"""The environment of the peers that do not live in TensorFlow's: .venv-peers.

    python -m benchmarks.peers

makes it. What cannot be installed is left out of the comparison, with a line that says so.
"""

import hashlib
import pathlib
import re
import shutil
import subprocess
import sys

from benchmarks import labels

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / ".venv-peers"
_PYTHON = _FOLDER / "bin" / "python"
_REQUIREMENTS = pathlib.Path(__file__).with_name("requirements.txt")

# Modules, and the drivers (drivers.DRIVERS) that need them.
_DRIVER_OF = {"torch": "torch", "onnxruntime": "onnxruntime", "onnx": "onnxruntime"}


def python() -> str | None:
    """Returns the interpreter of the environment, None if there is none."""
    return str(_PYTHON) if _PYTHON.exists() else None


def versions() -> dict[str, str]:
    """Returns the versions of the packages in the environment that the requirements name."""
    if python() is None:
        return {}
    names = re.findall(r"^([\w.-]+)==", _REQUIREMENTS.read_text(), re.MULTILINE)
    code = (
        "import importlib.metadata as m, sys\n"
        "for name in sys.argv[1:]:\n"
        "  try: print(name, m.version(name))\n"
        "  except m.PackageNotFoundError: pass"
    )
    output = subprocess.run(
        [_PYTHON, "-c", code, *names], check=True, capture_output=True, text=True
    ).stdout
    return dict(line.split() for line in output.splitlines())


def _pip(*arguments) -> bool:
    command = [_PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return subprocess.run([*command, *arguments]).returncode == 0


def lacking() -> list[str]:
    """The peers' modules that the environment cannot import: all if it is not there."""
    if python() is None:
        return list(_DRIVER_OF)
    code = (
        "import importlib, sys\n"
        "for name in sys.argv[1:]:\n"
        "  try: importlib.import_module(name)\n"
        "  except Exception: print(name)"
    )
    result = subprocess.run([_PYTHON, "-c", code, *_DRIVER_OF], capture_output=True, text=True)
    return list(_DRIVER_OF) if result.returncode else result.stdout.split()


def _install() -> None:
    # PyTorch's GPU builds ask for gigabytes that a CPU does not need. Its CPU builds ask for
    # nothing that the file does not list.
    if not _pip("--no-deps", "-r", _REQUIREMENTS):
        print("Installing the packages of benchmarks/requirements.txt one by one.", flush=True)
        for line in re.findall(r"^[\w.-]+==\S+", _REQUIREMENTS.read_text(), re.MULTILINE):
            if not _pip("--no-deps", line):  # this Python has other versions, if any
                _pip("--no-deps", line.split("==")[0])
    if "torch" in lacking():
        print(
            "PyTorch does not load without its dependencies, as its GPU builds: installing these, "
            "some gigabytes. pip gets the CPU build alone if its index has that first.",
            flush=True,
        )
        _pip("-r", _REQUIREMENTS)


def ensure() -> list[str]:
    """Makes the environment unless it is there; returns the drivers that cannot run in it."""
    content = _REQUIREMENTS.read_bytes() + sys.version.encode()
    stamp = _FOLDER / f"installed-{hashlib.sha256(content).hexdigest()[:16]}"
    if not stamp.exists():
        print("Making .venv-peers, once.", flush=True)
        shutil.rmtree(_FOLDER, ignore_errors=True)
        made = subprocess.run([sys.executable, "-m", "venv", _FOLDER]).returncode == 0
        if made:
            _install()
            stamp.touch()
    return list(dict.fromkeys(_DRIVER_OF[module] for module in lacking()))


def main() -> None:
    """Makes the environment, and says what it lacks."""
    for driver in ensure():
        name = labels.of_driver(driver)
        print(f"{name} could not be installed. To try again, remove {_FOLDER}.")


if __name__ == "__main__":
    main()
