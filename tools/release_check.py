"""Runs all that a release needs, and writes a page of what passed: dist/release-check.md.

It takes more than two hours on two cores. Each step's output is in build/release-check; a step
that fails does not keep the next from running. --only=lint,wheels runs some. Fuzzing, sanitizers,
slow tests and measurements take longer and are not repeated: the page says when they last ran.
"""

import argparse
import dataclasses
import hashlib
import pathlib
import re
import subprocess
import sys
import time
from collections.abc import Callable

import commands
import libraries
import release_notes
import wheels

ROOT = libraries.ROOT
LOGS = ROOT / "build" / "release-check"
MAX_MEGABYTES = 30


def run(step: str, *command: str) -> str:
    """Runs a command, with its output in the step's log, and returns that."""
    log = LOGS / f"{step}.log"
    log.unlink(missing_ok=True)
    text = commands.run(list(command), log)
    if missing := left_out(text):
        raise commands.Failure(f"`{' '.join(command)}` left something out: {' '.join(missing)}")
    return text


def left_out(log: str) -> list[str]:
    """What scripts say of what they skip, for want of a tool."""
    lines = re.findall(r"^(?:Skipping .+|.+: apt-get install .+)$", log, re.MULTILINE)
    return list(dict.fromkeys(lines))


def check_sources() -> str:
    """Nothing is left to commit, versions agree, and CHANGELOG tells all of this one."""
    changed = subprocess.run(
        ["git", "status", "--porcelain"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if changed:
        raise commands.Failure(
            f"{len(changed)} files are not committed, {changed[0][3:]} among them"
        )
    version = release_notes.read_version()
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    date = release_notes.date_of(version, changelog)
    if left := release_notes.unreleased(changelog):
        raise commands.Failure(
            f"CHANGELOG.md must have nothing under [Unreleased]; it has {len(left.splitlines())} "
            f"line(s), which the page of version {version} would not tell. Move them to its section"
        )
    return f"version {version} of {date}, nothing to commit"


def check_lint() -> str:
    """Formats, lints and types."""
    run("lint", "make", "lint")
    return "clean"


def check_tests() -> str:
    """All tests, as CI runs them."""
    return closing_of_pytest(run("tests", "bash", ".ci/run"))


def closing_of_pytest(log: str) -> str:
    """What its last line says, between rules or by itself; and which tests it skipped, and why."""
    closing = _last_match(r"^(?:=+ )?(\d+ passed.*?)(?: =+)?$", log)
    skipped = re.findall(r"^SKIPPED (\[\d+\] .+)$", log, re.MULTILINE)
    return "; ".join([closing, *(f"skipped {it}" for it in skipped)]).replace("|", "/")


def digests(folder: pathlib.Path) -> dict[str, str]:
    """The SHA-256 of each wheel of a folder."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.glob("*.whl"))
    }


def check_wheels() -> str:
    """The wheels, built twice from nothing: equal, and small."""
    found = []
    for name in ("dist", "build/release-check/again"):
        for wheel in (ROOT / name).glob("*.whl"):
            wheel.unlink()
        for machine in wheels.MACHINES:
            libraries.remove(ROOT / "build" / "wheels" / machine)
        python = str(ROOT / ".venv" / "bin" / "python")
        run("wheels", python, "tools/wheels.py", f"--output={name}")
        found.append(digests(ROOT / name))
    if found[0] != found[1]:
        raise commands.Failure(f"built again, wheels differ: {found}")
    for name in found[0]:
        megabytes = (ROOT / "dist" / name).stat().st_size / 1e6
        if megabytes > MAX_MEGABYTES:
            raise commands.Failure(f"{name} has {megabytes:.1f} MB, more than {MAX_MEGABYTES}")
    return "twice the same; " + "; ".join(f"`{name}` sha256 {it}" for name, it in found[0].items())


def check_matrix() -> str:
    """The wheel for this machine, in clean environments."""
    return f"{run('matrix', 'make', 'test-matrix').count('| passed |')} environments"


def check_arm() -> str:
    """The wheel for 64-bit Arm, under emulation."""
    return closing_of_pytest(run("arm", "make", "test-matrix-arm"))


def check_systems() -> str:
    """The wheel on other releases of Debian, without a compiler; needs root."""
    said = run("systems", "make", "test-systems")
    return ", ".join(re.findall(r"^== (Debian [^,]+)", said, re.MULTILINE))


def check_instruction_sets() -> str:
    """The engine's tests on AVX-512, with BF16 and AMX too, all of it emulated."""
    return closing_of_bazel(run("avx512", "make", "test-avx512"))


def closing_of_bazel(log: str) -> str:
    """What it says of all tests at its end."""
    return _last_match(r"^Executed \d+ out of \d+ tests?: (.+?)\.?$", log)


def _last_match(pattern: str, log: str) -> str:
    """What the last line says that tells how many tests passed."""
    found = re.findall(pattern, log, re.MULTILINE)
    if not found:
        raise commands.Failure("no line says how many tests passed")
    return found[-1]


def check_engine_on_arm() -> str:
    """The engine's tests on 64-bit Arm, under emulation."""
    return f"{len(re.findall(r'^== ', run('engine-arm', 'make', 'test-arm'), re.MULTILINE))} tests"


def check_writers() -> str:
    """The golden files, written anew where their Pythons are."""
    said = run("writers", "make", "test-writers")
    written = re.findall(r"^(\w+): as before$", said, re.MULTILINE)
    missing = re.findall(r"^Not run: (.+)\.$", said, re.MULTILINE)
    if not written:
        raise commands.Failure("no golden file was written, for want of their Pythons")
    return "; ".join([f"as before: {', '.join(written)}", *(f"not run: {it}" for it in missing)])


def check_long_runs() -> str:
    """What takes longer than this program, and when it last ran: since the release before."""
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    return long_runs(text, release_notes.date_before(release_notes.read_version(), changelog))


def long_runs(text: str, since: str) -> str:
    """`check_long_runs` of such a page; `since` is a day, as 2026-01-31."""
    section = re.search(r"^## Long runs\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if section is None:
        raise commands.Failure("docs/reliability.md has no section `Long runs`")
    rows = [line for line in section[1].splitlines() if line.startswith("| ")][2:]
    if not rows:
        raise commands.Failure("docs/reliability.md has no rows in its section `Long runs`")
    for row in rows:
        command = row.split("|")[1].strip()
        dates = re.findall(r"\d{4}-\d\d-\d\d", row)
        if not dates:
            raise commands.Failure(f"no date of the last run of {command}")
        if max(dates) < since:
            raise commands.Failure(
                f"{command} last ran on {max(dates)}, before the release of {since}; run it "
                "again, or take its row out if another stands for it"
            )
        if re.search(r"\b(not run yet|not yet|in part)\b", row):
            raise commands.Failure(f"{command} has not run as a whole")
    dates = re.findall(r"\d{4}-\d\d-\d\d", section[1])
    return f"docs/reliability.md, section Long runs: from {min(dates)} to {max(dates)}"


@dataclasses.dataclass
class Step:
    """One thing that a release needs."""

    name: str
    check: Callable[[], str]
    outcome: str = ""
    passed: bool = False
    minutes: float = 0.0


STEPS = [
    Step("sources", check_sources),
    Step("lint", check_lint),
    Step("tests", check_tests),
    Step("wheels", check_wheels),
    Step("matrix", check_matrix),
    Step("arm", check_arm),
    Step("systems", check_systems),
    Step("instruction-sets", check_instruction_sets),
    Step("engine-arm", check_engine_on_arm),
    Step("writers", check_writers),
    Step("long-runs", check_long_runs),
]


def page(steps: list[Step]) -> str:
    """Returns the page, in Markdown."""
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()
    lines = [
        "# Release check",
        "",
        f"Commit {commit}, {time.strftime('%Y-%m-%d %H:%M')}.",
        "",
        "| step | | minutes | |",
        "| --- | --- | --- | --- |",
    ]
    for step in steps:
        verdict = "passed" if step.passed else "FAILED"
        lines.append(
            f"| {step.name}: {step.check.__doc__} | {verdict} | {step.minutes:.1f} "
            f"| {step.outcome} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs the steps that the flags name."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [step.name for step in STEPS]
    parser.add_argument("--only", default=",".join(names), help=f"some of {', '.join(names)}")
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := set(chosen) - set(names):
        parser.error(f"there is no step {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    steps = [step for step in STEPS if step.name in chosen]
    (LOGS / "again").mkdir(parents=True, exist_ok=True)
    (ROOT / "dist").mkdir(exist_ok=True)
    for step in steps:
        wheels.say(f"{step.name} ...")
        start = time.monotonic()
        try:
            step.outcome = step.check()
            step.passed = True
        except (commands.Failure, ValueError) as failure:
            step.outcome = str(failure)
        except Exception as error:  # the next step runs all the same
            step.outcome = f"{type(error).__name__}: {error}"
        step.minutes = (time.monotonic() - start) / 60
        wheels.say(f"  {'passed' if step.passed else 'FAILED'}: {step.outcome}")
    text = page(steps)
    (ROOT / "dist" / "release-check.md").write_text(text, encoding="utf-8")
    print(text)
    if not all(step.passed for step in steps):
        sys.exit(1)


if __name__ == "__main__":
    main()
