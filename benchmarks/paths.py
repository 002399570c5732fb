"""What each path through the engine buys: calls that take it, beside an engine that never does.

    python -m benchmarks.paths                     all paths
    python -m benchmarks.paths --paths=groups      those whose names have this in them
    python -m benchmarks.paths --publish --cpu=amd-epyc-zen4
                                                   at a commit without changes: also writes
                                                   docs/results/paths/<CPU>-<date>.csv and the
                                                   table of docs/decisions/README.md

The engine without a path is this one with a threshold that no call reaches
(kernels/engine/thresholds.h). Both run the same calls in turns, in several rounds; times are
medians over rounds. A call that both plan alike does not take the path on this machine, and is left
out. TF_CUDNN_RNN_ISA=avx2 measures what is written for AVX2.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import statistics
import sys

from benchmarks import engine, labels, options
from benchmarks.cases import Case, write_cases
from benchmarks.results import paths as files
from benchmarks.results import rendering
from benchmarks.results.files import ROOT

NEVER = 0
ALWAYS = 1 << 40

_HEADER = pathlib.Path("kernels/engine/thresholds.h")
# What the engine's benchmark is made of.
_SOURCES = ("kernels", "network", "benchmarks", "tests/engine", "third_party")
_FILES = ("WORKSPACE", ".bazelrc", ".tf_configure.bazelrc")
_WORK = ROOT / "build" / "paths"

INFERENCE, TRAINING, BACKWARD = "inference", "training", "backward"
# What the benchmark calls them, and what is said of them.
_WEIGHTS = {
    "params": "",
    "keras_weights": ", weights in Keras' order",
    "prepared": ", prepared weights",
}


@dataclasses.dataclass(frozen=True)
class Call:
    """A call of the engine; the letters are those of `tf_cudnn_rnn.raw_ops`."""

    mode: str
    H: int
    T: int
    B: int
    pass_: str = INFERENCE
    I: int = 0  # H if 0
    D: int = 1
    weights: str = "params"  # one of _WEIGHTS

    @property
    def case(self) -> Case:
        I = self.I or self.H
        name = f"{self.mode}_h{self.H}_i{I}_d{self.D}_t{self.T}_b{self.B}"
        # The benchmark measures Keras' order of weights, and prepared ones, in cases of this set.
        return Case(name, ("gate",), self.mode, 1, self.D, self.H, 0, I, self.T, self.B, 0.0)

    def benchmark(self, isa: str, threads: int) -> str:
        variant = "" if self.weights == "params" else f"/{self.weights}"
        return f"Engine/{self.case.name}/{self.pass_}/{isa}/threads:{threads}{variant}"

    def __str__(self) -> str:
        return f"{labels.of_network(self.case)}, {self.pass_}{_WEIGHTS[self.weights]}"


@dataclasses.dataclass(frozen=True)
class Path:
    """A path through the engine, and calls that take it.

    Attributes:
      name: one of results.paths.PAGES.
      without: the thresholds with which no call takes it.
      beside: thresholds of both sides, so that no other path takes its calls.
      calls: of users, on one machine at least.
    """

    name: str
    without: dict[str, int]
    calls: tuple[Call, ...]
    beside: dict[str, int] = dataclasses.field(default_factory=dict)


PATHS = (
    Path(
        "forward of small calls reads weights in place",
        {"kMaxSmallCallRows": NEVER},
        (
            Call("lstm", 256, 1, 1),
            Call("lstm", 512, 1, 1),
            Call("gru", 512, 1, 8),
            Call("lstm", 1024, 4, 1),
            Call("lstm", 512, 25, 1, I=128),
        ),
    ),
    Path(
        "the same in the order of Keras",
        {"kMaxSmallCallRows": NEVER},
        (
            Call("lstm", 256, 1, 1, weights="keras_weights"),
            Call("lstm", 512, 1, 1, weights="keras_weights"),
            Call("gru", 512, 2, 8, weights="keras_weights"),
            Call("lstm", 1024, 4, 1, weights="keras_weights"),
        ),
    ),
    Path(
        "prepared weights of small calls lie in dot panels",
        {"kMinFewRowsPanelColumns": ALWAYS, "kMinManyRowsPanelColumns": ALWAYS},
        (
            Call("lstm", 64, 1, 1, weights="prepared"),
            Call("lstm", 128, 1, 1, weights="prepared"),
            Call("lstm", 250, 1, 1, I=40, weights="prepared"),
            Call("gru", 300, 4, 2, I=100, weights="prepared"),
            Call("lstm", 512, 1, 8, weights="prepared"),
            Call("gru", 700, 1, 30, I=1000, weights="prepared"),
            Call("lstm", 1024, 1, 1, weights="prepared"),
            Call("lstm", 512, 25, 1, I=128, weights="prepared"),
        ),
    ),
    Path(
        "small calls of some more steps read a large R in place",
        {"kMaxPackedBytes": ALWAYS},
        (
            Call("lstm", 512, 12, 1),
            Call("lstm", 768, 25, 1),
            Call("gru", 1024, 12, 2),
            Call("lstm", 1024, 25, 1),
            Call("lstm", 1536, 12, 1),
        ),
    ),
    Path(
        "backward of small calls reads weights in place",
        {"kMaxLeftRowsInPlace": NEVER, "kMaxLeftRowsOfStepsInPlace": NEVER},
        (
            Call("lstm", 512, 1, 1, BACKWARD),
            Call("gru", 1024, 1, 4, BACKWARD),
            Call("lstm", 512, 2, 8, BACKWARD),
        ),
    ),
    Path(
        "backward of several steps reads Keras' R in place",
        {"kMaxStepsInPlace": NEVER, "kMaxPackedBytes": ALWAYS},
        (
            Call("lstm", 256, 5, 4, BACKWARD, weights="keras_weights"),
            Call("lstm", 512, 3, 1, BACKWARD, weights="keras_weights"),
            Call("gru", 700, 4, 8, BACKWARD, weights="keras_weights"),
            Call("lstm", 1024, 8, 2, BACKWARD, weights="keras_weights"),
            Call("lstm", 1024, 25, 1, BACKWARD, weights="keras_weights"),
        ),
    ),
    Path(
        "backward of some more steps reads a large R in place",
        {"kMaxBackwardStepsOfFarInPlace": NEVER},
        (
            Call("lstm", 768, 8, 2, BACKWARD),
            Call("lstm", 1024, 12, 2, BACKWARD),
            Call("gru", 1024, 4, 8, BACKWARD),
            Call("lstm", 2048, 15, 1, BACKWARD),
        ),
    ),
    Path(
        "what one product uses is packed in its turn",
        {"kMinPanelsPerThread": ALWAYS, "kMaxRowsInTurn": NEVER},
        (
            Call("lstm", 1024, 12, 4),
            Call("rnn_relu", 605, 11, 4, I=4840),
            Call("gru", 512, 1, 64),
            Call("gru", 512, 1, 64, BACKWARD),
            Call("lstm", 512, 6, 16),
            Call("lstm", 1024, 5, 24, BACKWARD),
        ),
    ),
    Path(
        "the batch is split into groups of rows",
        {"kMaxGroupedBytes": NEVER},
        (
            Call("lstm", 64, 100, 32, TRAINING, I=32),
            Call("lstm", 256, 100, 64, TRAINING),
            Call("gru", 512, 50, 64, TRAINING),
            Call("lstm", 1024, 25, 64, TRAINING),
            Call("lstm", 128, 100, 16),
        ),
        beside={"kMinBatchPartRows": ALWAYS},
    ),
    Path(
        "threads take parts of the batch through all layers",
        {"kMinBatchPartRows": ALWAYS},
        (
            Call("lstm", 15, 132, 20, TRAINING, I=120),
            Call("gru", 48, 100, 64),
            Call("gru", 48, 100, 64, TRAINING),
            Call("lstm", 128, 100, 32),
            Call("lstm", 128, 100, 32, TRAINING),
            Call("lstm", 256, 100, 64, TRAINING),
            Call("lstm", 64, 100, 32, D=2),
            Call("lstm", 512, 50, 64, TRAINING),
        ),
    ),
    Path(
        "two directions run at once",
        {"kMaxTogetherBatch": NEVER},
        (
            Call("lstm", 128, 100, 1, I=64, D=2),
            Call("gru", 64, 100, 8, I=32, D=2),
            Call("lstm", 96, 50, 4, I=64, D=2),
        ),
    ),
    Path(
        "threads take short steps in lockstep",
        {"kMaxLockstepWork": NEVER},
        (
            Call("lstm", 160, 100, 1),
            Call("lstm", 256, 100, 1),
            Call("gru", 256, 100, 2),
            Call("lstm", 512, 50, 1),
            Call("lstm", 192, 100, 1, TRAINING),
            Call("lstm", 512, 50, 4, TRAINING),
        ),
    ),
    Path(
        "floats are multiplied in bfloat16 parts",
        {"kMinPartsRows": ALWAYS},
        (
            Call("lstm", 512, 25, 16, TRAINING),
            Call("lstm", 512, 25, 64, TRAINING),
            Call("gru", 256, 100, 16, TRAINING),
        ),
    ),
)


def with_thresholds(header: str, values: dict[str, int]) -> str:
    """The header, with other values of some thresholds.

    Raises:
      ValueError: it has no such threshold.
    """
    for name, value in values.items():
        header, count = re.subn(rf"( {name} =)[^;]*;", rf"\1 {value};", header)
        if count != 1:
            raise ValueError(f"{_HEADER} must set `{name}` once; it does so {count} times.")
    return header


def copy_sources(root: pathlib.Path, tree: pathlib.Path) -> None:
    """Makes a tree of what the engine's benchmark is made of; what it had before is gone."""
    for path in _SOURCES:
        shutil.rmtree(tree / path, ignore_errors=True)
        # Times stay as they are: Bazel looks at what a file holds.
        shutil.copytree(root / path, tree / path, ignore=shutil.ignore_patterns("*.pyc"))
    for path in _FILES:
        (tree / path).unlink(missing_ok=True)
        if (root / path).exists():
            shutil.copy2(root / path, tree / path)
    (tree / "BUILD").write_text("")


def _build(name: str, thresholds: dict[str, int]) -> pathlib.Path:
    """Builds the engine's benchmark with other thresholds, from a copy of the sources."""
    tree = _WORK / "tree"
    header = with_thresholds((ROOT / _HEADER).read_text(), thresholds)
    copy_sources(ROOT, tree)
    (tree / _HEADER).write_text(header)
    binary = _WORK / re.sub(r"\W+", "_", name)
    binary.unlink(missing_ok=True)
    shutil.copy2(engine.build_in(tree), binary)
    return binary


def _run(
    binary: pathlib.Path, names: list[str], cases: pathlib.Path, threads: int
) -> dict[str, tuple[float, str]]:
    """Returns the milliseconds and the plan of each of these benchmarks."""
    which = f"^({'|'.join(names)})(/real_time)?$"
    report = engine.run_binary(binary, which, f"--cases={cases}", f"--threads={threads}")
    return {
        entry["name"].removesuffix("/real_time"): (
            engine.milliseconds_of(entry),
            re.sub(r" scratch_bytes=\d+", "", entry["label"]),
        )
        for entry in report["benchmarks"]
    }


def measure(
    path: Path, binaries: tuple[pathlib.Path, pathlib.Path], isa: str, threads: int, rounds: int
) -> tuple[list[tuple[Call, float, float]], list[Call]]:
    """Measures one path.

    Args:
      binaries: with the path, and without it.

    Returns:
      The calls that take it with the milliseconds of both, and those that do not.
    """
    list_of_cases = _WORK / "cases.csv"
    write_cases(list_of_cases, dict.fromkeys(call.case for call in path.calls))
    names = {call: call.benchmark(isa, threads) for call in path.calls}
    times: dict[tuple, list[float]] = {}
    plans: dict[tuple, str] = {}
    for turn in range(rounds):
        for side in (0, 1) if turn % 2 == 0 else (1, 0):
            found = _run(binaries[side], list(names.values()), list_of_cases, threads)
            for call, name in names.items():
                milliseconds, plan = found[name]
                times.setdefault((call, side), []).append(milliseconds)
                plans[call, side] = plan
        if turn == 0:
            names = {c: name for c, name in names.items() if plans[c, 0] != plans[c, 1]}
            if not names:
                break
    taken = [
        (call, statistics.median(times[call, 0]), statistics.median(times[call, 1]))
        for call in names
    ]
    return taken, [call for call in path.calls if call not in names]


def main() -> None:
    """Measures, prints, and publishes if it is asked to."""
    # Needs the built library, which nothing else here does.
    import tf_cudnn_rnn
    from benchmarks import machine

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--paths", default="", help="only those that have this in their names")
    parser.add_argument("--rounds", type=options.from_1, default=7)
    parser.add_argument("--publish", action="store_true", help="write docs/results/paths")
    parser.add_argument("--cpu", help="for the file's name; default what the CPU calls itself")
    arguments = parser.parse_args()
    if arguments.publish and arguments.paths:
        parser.error("--publish: takes all paths; got --paths, too")
    chosen = [path for path in PATHS if arguments.paths in path.name]
    if not chosen:
        parser.error(f"--paths: must be in a name of {', '.join(p.name for p in PATHS)}")
    isa, threads = tf_cudnn_rnn.instruction_set(), machine.num_cpus()
    preamble = machine.stamp(threads, [])
    if "TF_CUDNN_RNN_ISA" in os.environ:
        preamble["cpu"] += f", {os.environ['TF_CUDNN_RNN_ISA']}"
    commit = machine.commit()
    if arguments.publish:
        rendering.check_publish_option(parser, files, commit, preamble, arguments.cpu)
    _WORK.mkdir(parents=True, exist_ok=True)
    print("Building the engine as it is ...", flush=True)
    as_it_is = _build("nothing", {})
    calls, notes = [], [f"Medians of {arguments.rounds} rounds."]
    for path in chosen:
        print(f"\n{path.name}\n  building the engine without it ...", flush=True)
        beside = _build(f"beside {path.name}", path.beside) if path.beside else as_it_is
        without = _build(path.name, path.beside | path.without)
        taken, others = measure(path, (beside, without), isa, threads, arguments.rounds)
        for call, before, after in taken:
            calls.append(files.Call(path.name, commit, str(call), before, after))
            print(f"  {call}: {before:.3g} ms, without {after:.3g} ms, {after / before:.2f}x")
        for call in others:
            print(f"  {call}: does not take it on this machine")
            notes.append(f"{call} does not take the path: {path.name}.")
    if arguments.publish:
        print(rendering.publish(files, preamble, notes, calls, arguments.cpu))


if __name__ == "__main__":
    try:
        main()
    except engine.EngineError as error:
        sys.exit(f"benchmarks.paths: {error}")
