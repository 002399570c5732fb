"""Installs a wheel of dist/ into clean environments, one after another, and tests it there.

Each has another TensorFlow or Python, no compiler, and no source of this package. Its tests are
README's programs, ops against the judge, a SavedModel of built-in ops, networks of the runtime, and
Keras layers; where there is tf_keras, its cuDNN layers, too. A table says what passed; --publish
writes it into docs/compatibility.md, with the date.

--all tests each TensorFlow with each Python that it is made for.
"""

import argparse
import dataclasses
import datetime
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time

import commands
import libraries
import pythons
import wheels

FOLDER = libraries.ROOT / "build" / "matrix"
PAGE = libraries.ROOT / "docs" / "compatibility.md"
# Python -> the first TensorFlow that is made for it.
PYTHONS = {"3.10": "2.16", "3.11": "2.16", "3.12": "2.16", "3.13": "2.20"}

# What the tests of each environment are, and what they need beside the wheel.
TESTS = [
    "tests/docs/readme_test.py",
    "tests/python/saved_model_test.py",
    "tests/python/kernels_test.py",
    "tests/runtime/python_calls_test.py",
    "tests/keras/accelerate_test.py",
    "tests/keras/cudnn_rnn_api_test.py",
]
# Other instruction sets, and what is large, is the same code in every environment.
LEFT_OUT = "not grid and not large and not lesser_instruction_sets"
PACKAGES = ["pytest", "pytest-xdist"]


@dataclasses.dataclass(frozen=True)
class Environment:
    """What a user may have."""

    tensorflow: str
    python: str
    distribution: str = wheels.MACHINES.get(platform.machine(), "tensorflow")
    tf_keras: bool = False

    @property
    def name(self) -> str:
        """A folder's name."""
        legacy = "-tf_keras" if self.tf_keras else ""
        return f"{self.distribution}-{self.tensorflow}-python-{self.python}{legacy}"


# Every TensorFlow, every Python, both distributions, and tf_keras at both ends.
SOME = [
    Environment("2.16", "3.10", "tensorflow", tf_keras=True),
    Environment("2.17", "3.11"),
    Environment("2.18", "3.12"),
    Environment("2.19", "3.12", "tensorflow"),
    Environment("2.20", "3.13"),
    Environment("2.21", "3.10"),
    Environment("2.21", "3.13", "tensorflow", tf_keras=True),
]
ALL = SOME + [
    Environment(tensorflow, python)
    for number, tensorflow in enumerate(wheels.TENSORFLOWS)
    for python, oldest in PYTHONS.items()
    if wheels.TENSORFLOWS.index(oldest) <= number
    and (tensorflow, python) not in [(it.tensorflow, it.python) for it in SOME]
]


@dataclasses.dataclass
class Outcome:
    """What came of an environment."""

    environment: Environment
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    install_seconds: float = 0.0
    passed: int = 0
    problem: str = ""  # empty if all went well


def find_wheel() -> pathlib.Path:
    """Returns the wheel of all TensorFlows for this machine."""
    found = sorted((libraries.ROOT / "dist").glob(f"*_{platform.machine()}.whl"))
    if len(found) != 1:
        sys.exit(
            f"dist/ must hold one wheel for {platform.machine()}, which `make wheels` makes; it "
            f"holds {', '.join(path.name for path in found) or 'none'}."
        )
    return found[0]


def copy_tests() -> pathlib.Path:
    """Returns a folder with the tests, but not the package."""
    tree = FOLDER / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in ("README.md", "pyproject.toml", "examples", "tests"):
        source = libraries.ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)
    return tree


def check(environment: Environment, wheel: pathlib.Path, tree: pathlib.Path) -> Outcome:
    """Makes an environment, tests it, and removes it."""
    outcome = Outcome(environment)
    interpreter = pythons.find(environment.python)
    if interpreter is None:
        outcome.problem = f"not run: there is no Python {environment.python} here"
        return outcome
    folder = FOLDER / environment.name
    log = FOLDER / f"{environment.name}.log"
    log.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([interpreter, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    # No compiler, no Bazel; and nothing of the environment that calls.
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "TF_", "VIRTUAL_ENV"))
    }
    variables["PATH"] = str(folder / "bin")
    variables["TF_CPP_MIN_LOG_LEVEL"] = "2"

    def run(command: list, folder: pathlib.Path = FOLDER, more: dict | None = None) -> str:
        return commands.run(command, log, folder, variables | (more or {}))

    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        tensorflow = f"{environment.distribution}=={environment.tensorflow}.*"
        run([*pip, tensorflow])
        start = time.monotonic()
        run([*pip, wheel])
        outcome.install_seconds = time.monotonic() - start
        legacy = [f"tf_keras=={environment.tensorflow}.*"] if environment.tf_keras else []
        if legacy:
            # It asks for the distribution `tensorflow`, whichever is there.
            run([*pip, "--no-deps", *legacy])
        run([*pip, *PACKAGES])
        run([python, "-m", "pip", "check"])
        code = (
            "import importlib.metadata as m, platform, tensorflow as tf, tf_cudnn_rnn\n"
            "print('versions', platform.python_version(), tf.__version__, m.version('keras'),"
            " m.version('numpy'), tf_cudnn_rnn.instruction_set())"
        )
        printed = run([python, "-c", code])
        words = re.search(r"^versions (.+)$", printed, re.MULTILINE)[1].split()
        names = ("Python", "TensorFlow", "Keras", "NumPy", "instruction set")
        outcome.versions = dict(zip(names, words, strict=True))
        tests = TESTS + (["tests/legacy"] if environment.tf_keras else [])
        pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", LEFT_OUT]
        # Other versions warn of other things, which are not ours to mend.
        pytest += ["-o", "filterwarnings=default", "--numprocesses=2", "--dist=worksteal", *tests]
        printed = run(pytest, tree, {"TF_CUDNN_RNN_TEST_WARNINGS": "default"})
        outcome.passed = int(re.search(r"(\d+) passed", printed)[1])
    except commands.Failure as failure:
        outcome.problem = str(failure)
    shutil.rmtree(folder, ignore_errors=True)
    return outcome


_HEAD = [
    "| TensorFlow | Python | | Keras | NumPy | date | tests | |",
    "| --- | --- | --- | --- | --- | --- | --- | --- |",
]


def row(outcome: Outcome) -> str:
    """Returns an outcome as a row of the table."""
    e, v = outcome.environment, outcome.versions
    return (
        f"| {v.get('TensorFlow', e.tensorflow)} | {v.get('Python', e.python)} "
        f"| {e.distribution}{', tf_keras' if e.tf_keras else ''} "
        f"| {v.get('Keras', '')} | {v.get('NumPy', '')} | {datetime.date.today().isoformat()} "
        f"| {outcome.passed or ''} | {outcome.problem or 'passed'} |"
    )


def key(line: str) -> tuple[str, str, str]:
    """Returns what environment a row is of: minor versions, distribution."""
    tensorflow, python, distribution = (cell.strip() for cell in line.split("|")[1:4])
    minors = [".".join(version.split(".")[:2]) for version in (tensorflow, python)]
    return minors[0], minors[1].rjust(5), distribution


def table(rows: list[str]) -> str:
    """Returns the rows as a table in Markdown."""
    return "\n".join([*_HEAD, *sorted(rows, key=key)]) + "\n"


def publish(outcomes: list[Outcome]) -> None:
    """Puts what passed into the page's table, in place of older rows of the same environments.

    A row of what did not pass now would hide what passed at its date.
    """
    text = PAGE.read_text(encoding="utf-8")
    begin, end = "<!-- Made by `make test-matrix ARGS=--publish` -->\n", "<!-- end -->"
    before, _, rest = text.partition(begin)
    old, _, after = rest.partition(end)
    rows = {key(line): line for line in old.splitlines() if line.startswith("| 2.")}
    passed = [outcome for outcome in outcomes if not outcome.problem]
    rows |= {key(line): line for line in map(row, passed)}
    PAGE.write_text(
        f"{before}{begin}\n{table(list(rows.values()))}\n{end}{after}", encoding="utf-8"
    )


def main() -> None:
    """Tests the environments that the flags name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="every TensorFlow with every Python")
    parser.add_argument("--only", default="", help="those whose name has this, such as 2.16")
    parser.add_argument("--publish", action="store_true", help=f"what passed, into {PAGE.name}")
    options = parser.parse_args()
    environments = [it for it in (ALL if options.all else SOME) if options.only in it.name]
    wheel = find_wheel()
    FOLDER.mkdir(parents=True, exist_ok=True)
    tree = copy_tests()
    outcomes = []
    for number, environment in enumerate(environments, 1):
        wheels.say(f"{number} of {len(environments)}: {environment.name}")
        outcome = check(environment, wheel, tree)
        outcomes.append(outcome)
        seconds = f"installed in {outcome.install_seconds:.0f} s, {outcome.passed} tests"
        wheels.say(f"  {outcome.problem or 'passed'}; {seconds}")
    print(table(list(map(row, outcomes))), end="")
    if options.publish:
        publish(outcomes)
    if any(outcome.problem for outcome in outcomes):
        sys.exit(f"Not all passed; {FOLDER} has the logs.")


if __name__ == "__main__":
    main()
