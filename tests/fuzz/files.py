"""Fuzzes the readers of files: mutations of golden files, and inputs that coverage leads to.

    .venv/bin/python -m tests.fuzz.files --mutations=10000
    .venv/bin/python -m tests.fuzz.files --seconds=60
    .venv/bin/python -m tests.fuzz.files --replay=FILE --formats=npz

--mutations changes each golden file, which other libraries wrote, so many times, and reads the
corpus, tests/fuzz/corpus, as it is. --seconds runs atheris for so long in all (with --mutations,
for half of it; these are then as many as the other half has time for), which needs
tests/fuzz/requirements.txt: where it is missing, mutations have all of the time, and that is a
failure in the end. What reaches new lines of ours is put into build/fuzz, from where `--merge`
takes it into the corpus. Every input must be read rightly, or be refused with a ValueError or an
OSError that says where, within 2 seconds (more on a slow core: tests/weights/measured.py) and
200 MB and twice its size. Exits with 1 if one is not, and leaves it in build/fuzz/findings.
"""

import argparse
import collections
import contextlib
import hashlib
import importlib.util
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Iterator

sys.modules.setdefault("tensorflow", None)  # the readers need none, and forks are cheaper without

from tests.fuzz import file_formats  # noqa: E402
from tests.fuzz.file_formats import Process  # noqa: E402
from tests.weights import measured  # noqa: E402

_ROOT = pathlib.Path(__file__).resolve().parents[2]
FOUND = _ROOT / "build" / "fuzz"
_BATCH = 500
_MOST_FINDINGS = 20
_MOST_KEPT = 3000  # bytes of a file of the corpus


def check(name: str, seed: str, content: bytes) -> str:
    """Reads one input in this process: returns "read", "refused", or what is wrong."""
    meter = measured.Meter()
    try:
        outcome = file_formats.FORMATS[name].read(content, seed)
    except BaseException:
        return traceback.format_exc()
    seconds, grown = meter.seconds(), meter.peak_bytes()
    if seconds > measured.seconds_allowed(seconds):
        return f"it took {seconds:.1f} s"
    if grown > measured.BASE_BYTES + 2 * len(content):
        return f"it took {grown / 1e6:.0f} MB"
    return outcome


def check_apart(name: str, seed: str, content: bytes) -> str:
    """`check` in a forked process; see `Process`."""
    process = file_formats.FORMATS[name].process
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(check(name, seed, content).encode(errors="replace"))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        outcome = pipe.read().decode()
    _, status, usage = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        seconds = usage.ru_utime + usage.ru_stime
        if process is not Process.LIMITED:
            return f"it crashed with signal {os.WTERMSIG(status)}"
        if seconds > measured.seconds_allowed(seconds):
            return f"it took {seconds:.1f} s until signal {os.WTERMSIG(status)}"
        late = os.WTERMSIG(status) == signal.SIGPROF
        return "refused, as it took too long" if late else "refused, as the library crashed"
    return outcome


def _batch(job: tuple[str, str, int, int]) -> tuple[collections.Counter, list]:
    """Checks the mutations from `begin` to `end` of a seed."""
    name, seed, begin, end = job
    warnings.simplefilter("ignore")  # of zipfile and NumPy, about what we do on purpose
    content = {**file_formats.golden_files(name), **file_formats.corpus(name)}[seed]
    one = check if file_formats.FORMATS[name].process is Process.OWN else check_apart
    outcomes = collections.Counter()
    findings = []
    for number in range(begin, end):
        mutated = file_formats.mutation(name, seed, content, number)
        outcome = one(name, seed, mutated)
        if not outcome.startswith(("read", "refused")):
            findings.append((name, f"{seed}, mutation {number}", mutated, outcome))
            outcome = "found"
        outcomes[outcome] += 1
    return outcomes, findings


def _report(name: str, what: str, content: bytes, outcome: str) -> None:
    folder = FOUND / "findings"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{hashlib.sha256(content).hexdigest()[:12]}"
    path.write_bytes(content)
    print(f"FOUND in {what}: {path}\n{outcome}", flush=True)


def run_mutations(names: list[str], count: int, processes: int, seconds: float) -> int:
    """Checks `count` mutations of each golden file, or as many as there is time for, of all alike.

    Returns how many findings there are.
    """
    jobs = [(name, seed, 0, 1) for name in names for seed in file_formats.corpus(name)]
    jobs += [
        (name, seed, begin, min(begin + _BATCH, count + 1))
        for begin in range(1, count + 1, _BATCH)
        for name in names
        for seed in file_formats.golden_files(name)
    ]
    start = time.monotonic()
    totals = collections.defaultdict(collections.Counter)
    found = 0
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=20) as pool:
        for done, (job, result) in enumerate(zip(jobs, pool.imap(_batch, jobs), strict=True), 1):
            outcomes, findings = result
            totals[job[0]] += outcomes
            for finding in findings:
                found += 1
                if found <= _MOST_FINDINGS:
                    _report(*finding)
            passed = time.monotonic() - start
            if done % 50 == 0 or done == len(jobs) or passed > seconds:
                print(f"{done} of {len(jobs)} batches, {passed:.0f} s, {found} found", flush=True)
            if passed > seconds:
                break
    for name, outcomes in totals.items():
        listed = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
        files = len(file_formats.golden_files(name))
        print(f"{name}: {files} files, {outcomes.total()} inputs: {listed}")
    return found


# ------------------------------------------------------------------------------------
# Coverage-guided
# ------------------------------------------------------------------------------------


def run_atheris(names: list[str], seconds: float) -> int:
    """Lets atheris look for inputs of each format; returns how many formats have a finding."""
    found = 0
    # Coverage does not come home from a fork; --mutations has the others.
    names = [name for name in names if file_formats.FORMATS[name].process is Process.OWN]
    for name in names:
        result = subprocess.run(
            _atheris_command(name, max(1, int(seconds / len(names)))), cwd=_ROOT
        )
        found += result.returncode != 0
        print(f"{name}: {'found' if result.returncode else 'nothing found'}", flush=True)
    return found


def merge(names: list[str]) -> None:
    """Puts what atheris kept, as it reached other lines than all before, into the corpus."""
    for name in names:
        for path in FOUND.glob(f"{name}/*"):
            if path.stat().st_size <= _MOST_KEPT:
                keep(name, path.read_bytes())


def keep(name: str, content: bytes) -> None:
    """Puts an input into the corpus, by the name that atheris gives it."""
    digest = hashlib.sha1(content, usedforsecurity=False).hexdigest()
    path = file_formats.CORPUS / name / digest[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _atheris_command(name: str, seconds: int) -> list[str]:
    new, kept = FOUND / name, file_formats.CORPUS / name
    seeds = FOUND / "seeds" / name
    for folder in (new, kept, seeds, FOUND / "findings"):
        folder.mkdir(parents=True, exist_ok=True)
    for path, content in file_formats.golden_files(name).items():
        (seeds / path.replace("/", "-")).write_bytes(content)
    options = [
        f"-max_total_time={seconds}",
        "-max_len=40000",
        "-timeout=20",
        "-rss_limit_mb=1000",
        "-print_final_stats=1",
    ]
    options += [f"-artifact_prefix={FOUND}/findings/{name}-", "-verbosity=0"]
    module = [sys.executable, "-m", "tests.fuzz.files", f"--target={name}"]
    return [*module, *options, str(new), str(kept), str(seeds)]


def run_target(name: str, options: list[str]) -> None:
    """What atheris runs."""
    import atheris

    def one(content: bytes) -> None:
        outcome = check(name, f"torch/model.{name}", content)
        if outcome not in ("read", "refused"):
            raise AssertionError(outcome)

    instrument(atheris)
    atheris.Setup([sys.argv[0], *options], one)
    atheris.Fuzz()


def instrument(atheris) -> None:
    """Counts the lines of all readers, which are loaded already."""
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(
            ("tf_cudnn_rnn._formats.", "tf_cudnn_rnn._files.", "tf_cudnn_rnn._cli.")
        ):
            if module_name != "json.decoder":
                continue
        owners = [module, *(item for item in vars(module).values() if isinstance(item, type))]
        for owner in owners:
            for function in vars(owner).values():
                if getattr(function, "__module__", None) == module_name:
                    if isinstance(function, types.FunctionType):
                        atheris.instrument_func(function)


def main() -> None:
    """Parses the flags."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--mutations", type=int, default=0, help="of each golden file")
    parser.add_argument("--seconds", type=int, default=0, help="in all; half of them for mutations")
    parser.add_argument("--formats", nargs="*", default=list(file_formats.FORMATS))
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--merge", action="store_true", help="takes what is new into the corpus")
    parser.add_argument("--replay", help="a file to read as each of --formats")
    parser.add_argument("--target", help=argparse.SUPPRESS)
    flags, rest = parser.parse_known_args()
    if flags.target:
        run_target(flags.target, rest)
        return
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    found = 0
    if flags.replay:
        content = pathlib.Path(flags.replay).read_bytes()
        for name in flags.formats:
            outcome = check_apart(name, flags.replay, content)
            print(f"{name}: {outcome}")
            found += not outcome.startswith(("read", "refused"))
    has_atheris = importlib.util.find_spec("atheris") is not None
    share = flags.seconds / (2 if flags.mutations and has_atheris else 1)
    if flags.mutations:
        limit = share or float("inf")
        found += run_mutations(flags.formats, flags.mutations, flags.processes, limit)
    is_complete = has_atheris or not flags.seconds
    if flags.seconds and has_atheris:
        found += run_atheris(flags.formats, share)
    if flags.merge:
        merge(flags.formats)
    print(f"{found} found" if found else "Nothing was found.")
    if not is_complete:
        print("No input was led by coverage: atheris (tests/fuzz/requirements.txt) is missing.")
    sys.exit(0 if is_complete and not found else 1)


@contextlib.contextmanager
def scratch_in_memory() -> Iterator[None]:
    """Has all processes put their inputs into a folder, in memory if possible, and removes it."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as made:
        tempfile.tempdir = made
        yield


if __name__ == "__main__":
    with scratch_in_memory():
        main()
