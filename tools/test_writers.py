"""Writes the golden files anew with the libraries they come from, and compares.

  test_writers.py [--update] [NAME ...]

Each folder NAME of tests/golden has a write.py and its requirements.txt, whose first line names
the Python that it needs. Pythons are looked for on PATH, with pyenv and with uv; writers whose
Python is missing are skipped, and listed. --update keeps what was written.
"""

import argparse
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import pythons

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
VENVS = ROOT / "build" / "writers"
DATA = (".npz", ".h5", ".safetensors", ".onnx")

# Results of arithmetic, whose names begin with out_, may differ by rounding.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}


def make_venv(name: str) -> pathlib.Path | None:
    """Returns the Python of a venv with what the writer needs; None if there is no such Python."""
    requirements = GOLDEN / name / "requirements.txt"
    version = re.match(r"# Python (\d+\.\d+)\n", requirements.read_text())[1]
    folder = VENVS / name
    stamp = folder / f"installed-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]}"
    if not stamp.exists():
        python = pythons.find(version)
        if python is None:
            print(f"{name}: skipped, there is no Python {version}.")
            return None
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", folder], check=True)
        install = [folder / "bin" / "python", "-m", "pip", "install", "-q", "-r", requirements]
        subprocess.run(install, check=True)
        stamp.touch()
    return folder / "bin" / "python"


def read(path: pathlib.Path) -> dict[str, np.ndarray]:
    """Returns all arrays of a file; of attributes, too."""
    if path.suffix == ".npz":
        with np.load(path) as file:
            return dict(file)
    if path.suffix == ".h5":
        import h5py

        arrays = {}
        with h5py.File(path) as file:

            def visit(name, item):
                if isinstance(item, h5py.Dataset):
                    arrays[name] = item[()]
                for key in ("layer_names", "weight_names"):
                    if key in item.attrs:
                        arrays[f"{name}@{key}"] = np.asarray(item.attrs[key])

            file.visititems(visit)
        return arrays
    return {"bytes": np.frombuffer(path.read_bytes(), np.uint8)}


def compare(written: pathlib.Path, kept: pathlib.Path) -> list[str]:
    """Returns what differs between two folders."""
    names = [
        {path.name for path in folder.iterdir() if path.suffix in DATA}
        for folder in (written, kept)
    ]
    problems = [f"{name} is not written any more" for name in sorted(names[1] - names[0])]
    problems += [f"{name} is not kept" for name in sorted(names[0] - names[1])]
    for name in sorted(names[0] & names[1]):
        new, old = read(written / name), read(kept / name)
        if new.keys() != old.keys():
            problems.append(f"{name} holds other names: {sorted(new.keys() ^ old.keys())}")
            continue
        for key, array in new.items():
            if key.startswith("out_"):
                same = array.shape == old[key].shape and np.allclose(array, old[key], **TOLERANCE)
            else:
                same = array.dtype == old[key].dtype and np.array_equal(array, old[key])
            if not same:
                problems.append(f"{name}: {key} differs")
    return problems


def main() -> None:
    """Runs the writers that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--update", action="store_true", help="keep what was written")
    names = sorted(path.parent.name for path in GOLDEN.glob("*/write.py"))
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    arguments = parser.parse_args()
    skipped, failed = [], []
    for name in arguments.names or names:
        python = make_venv(name)
        if python is None:
            skipped.append(name)
            continue
        kept = GOLDEN / name
        with tempfile.TemporaryDirectory() as temporary:
            written = pathlib.Path(temporary)
            result = subprocess.run(
                [python, kept / "write.py", written], cwd=temporary, capture_output=True, text=True
            )
            if result.returncode != 0:
                print(result.stdout + result.stderr)
                problems = ["write.py failed"]
            elif arguments.update:
                for path in [*kept.iterdir()]:
                    if path.suffix in DATA:
                        path.unlink()
                for path in written.iterdir():
                    if path.suffix in DATA:
                        shutil.copyfile(path, kept / path.name)
                problems = []
            else:
                problems = compare(written, kept)
        print(f"{name}: " + ("; ".join(problems) or "as before"))
        if problems:
            failed.append(name)
    if skipped:
        print(f"Not run: {', '.join(skipped)}.")
    if failed:
        sys.exit(f"Different: {', '.join(failed)}.")


if __name__ == "__main__":
    main()
