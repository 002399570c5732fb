"""Runs the engine's own benchmark, which knows no TensorFlow: //benchmarks:engine_benchmark."""

import json
import os
import pathlib
import re
import subprocess
from collections.abc import Iterable

from benchmarks import cases, records
from benchmarks.records import GIGABYTES, GIGAFLOPS, MILLISECONDS, Record

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_BINARY = pathlib.Path("bazel-bin") / "benchmarks" / "engine_benchmark"
_TARGET = "//benchmarks:engine_benchmark"

# Sets of cases.csv that the bars and charts look at.
SETS = ("roofline", "huge", "small")

_ANY_NAME = "[a-z0-9_]+"

_ENGINE_NAME = re.compile(
    r"Engine/(?P<case>\w+)/(?P<pass>\w+)/(?P<isa>\w+)/threads:(?P<threads>\d+)"
)
_PEAK_NAME = re.compile(
    r"(?P<kind>Peak|Bandwidth)/(?P<case>\w+)/(?P<isa>\w+)/threads:(?P<threads>\d+)"
)
# In multiples of the forward pass.
_WORK = {"forward": 1, "inference": 1, "backward": 2, "training": 3}
_UNITS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}


class EngineError(Exception):
    """The engine's benchmark cannot be built or run; the message says why."""


def build() -> pathlib.Path:
    """Builds the binary, and returns its path.

    Raises:
      EngineError: Bazel is missing, or the build fails.
    """
    return build_in(_ROOT)


def build_in(tree: pathlib.Path) -> pathlib.Path:
    """Builds the binary of a tree of these sources, and returns its path.

    Raises:
      EngineError: Bazel is missing, or the build fails.
    """
    found = subprocess.run(
        [_ROOT / "tools" / "find_bazel.sh"], cwd=_ROOT, capture_output=True, text=True
    )
    if found.returncode != 0:
        raise EngineError("there is no Bazel")
    result = subprocess.run(
        [found.stdout.strip(), "build", _TARGET], cwd=tree, capture_output=True, text=True
    )
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise EngineError(f"{_TARGET} does not build: {last}")
    return tree / _BINARY


def _engine_filter(passes: str, isa: str, threads: int) -> str:
    names = [case.name for name in SETS for case in cases.in_set(name)]
    return f"Engine/({'|'.join(dict.fromkeys(names))})/({passes})/{isa}/threads:{threads}"


def run(binary: pathlib.Path, threads: int, repetitions: int) -> list[Record]:
    """Runs the binary, and returns its figures: with the best instruction set, and with AVX2.

    Raises:
      EngineError: it fails, writes no JSON, or has nothing to run.
    """
    engine = _engine_filter("forward|inference|backward", _ANY_NAME, threads)
    peaks = f"(Peak|Bandwidth)/{_ANY_NAME}/{_ANY_NAME}/threads:{threads}"
    found = _run(binary, f"^({engine}|{peaks})(/real_time)?$", threads, repetitions, {})
    if not found:
        raise EngineError(f"{binary.name} has no benchmark with {threads} thread(s)")
    if not any(record.side == "engine avx2" for record in found):
        engine = _engine_filter("forward", "avx2", threads)
        limit = {"TF_CUDNN_RNN_ISA": "avx2"}
        found += _run(binary, f"^{engine}(/real_time)?$", threads, repetitions, limit)
    return found


def again(
    binary: pathlib.Path,
    rows: Iterable[tuple[str, str]],
    threads: int,
    repetitions: int,
    times: int,
) -> list[Record]:
    """Runs rows, (case, pass), so many times more, in turns; returns medians of these runs.

    Raises:
      EngineError: it fails, or writes no JSON.
    """
    names = "|".join(f"{case}/{pass_}" for case, pass_ in rows)
    which = f"^Engine/({names})/{_ANY_NAME}/threads:{threads}(/real_time)?$"
    runs = [_run(binary, which, threads, repetitions, {}) for _ in range(times)]
    return records.medians_of(runs, is_own=lambda record: True)


def _run(
    binary: pathlib.Path, which: str, threads: int, repetitions: int, environment: dict
) -> list[Record]:
    flags = (f"--threads={threads}", f"--benchmark_repetitions={repetitions}")
    try:
        return parse(run_binary(binary, which, *flags, environment=environment))
    except KeyError as error:
        raise _no_json(binary, error) from None


def run_binary(binary: pathlib.Path, which: str, *flags: str, environment: dict | None = None):
    """Runs the benchmarks whose names match `which`; returns what Google Benchmark writes.

    Raises:
      EngineError: it fails, or writes no JSON.
    """
    command = [
        binary,
        f"--benchmark_filter={which}",
        "--benchmark_min_time=0.2",
        "--benchmark_format=json",
        *flags,
    ]
    result = subprocess.run(
        command, cwd=_ROOT, env=os.environ | (environment or {}), capture_output=True, text=True
    )
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise EngineError(f"{binary.name} ended with {result.returncode}: {last}")
    if not result.stdout.strip():
        return {"benchmarks": []}  # none has such a name
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError as error:
        raise _no_json(binary, error) from None


def _no_json(binary: pathlib.Path, error: Exception) -> EngineError:
    return EngineError(f"{binary.name} wrote no JSON of Google Benchmark: {error!r}")


def milliseconds_of(entry: dict) -> float:
    """Of one of Google Benchmark's entries."""
    return entry["real_time"] * _UNITS[entry["time_unit"]]


def parse(report: dict) -> list[Record]:
    """Makes records of Google Benchmark's JSON; names that are not known are left out."""
    repeated: dict[str, list[dict]] = {}
    for entry in report["benchmarks"]:
        if entry.get("run_type", "iteration") == "iteration":
            name = re.sub(r"/repeats:\d+|/real_time|/iterations:\d+", "", entry["name"])
            repeated.setdefault(name, []).append(entry)
    known = cases.read_cases()
    found = []
    for name, entries in repeated.items():
        error = next((e["error_message"] for e in entries if e.get("error_occurred")), "")
        engine, peak = _ENGINE_NAME.fullmatch(name), _PEAK_NAME.fullmatch(name)
        if engine and engine["case"] in known and engine["pass"] in _WORK:
            case = known[engine["case"]]
            times = [milliseconds_of(e) for e in entries if not error]
            found.append(
                Record(
                    experiment="engine",
                    case=case.name,
                    pass_=engine["pass"],
                    side=f"engine {engine['isa']}",
                    base="",
                    unit=MILLISECONDS,
                    flops=_WORK[engine["pass"]] * case.flops(cases.INFERENCE),
                    network=records.network_of(case),
                    **_common(engine, times, entries, error),
                )
            )
        elif peak:
            is_bandwidth = peak["kind"] == "Bandwidth"
            counter = "bytes_per_second" if is_bandwidth else "flops_per_second"
            rates = [e[counter] * 1e-9 for e in entries if not error]
            found.append(
                Record(
                    experiment=records.PEAK,
                    case=peak["case"],
                    pass_="",
                    side=f"{peak['kind']} {peak['isa']}",
                    base="",
                    unit=GIGABYTES if is_bandwidth else GIGAFLOPS,
                    **_common(peak, rates, entries, error),
                )
            )
    return found


def _common(name: re.Match, values: list[float], entries: list[dict], error: str) -> dict:
    figures = records.figures(values) if values else {"median": None}
    return {
        "dtype": "float32",
        "threads": int(name["threads"]),
        "isa": name["isa"],
        "rounds": len(entries),
        "steps": sum(e.get("iterations", 0) for e in entries),
        "error": error,
        **figures,
    }
