"""tools/release_check.py: what it takes for passed, and what not."""

import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = "| `make fuzz` | 2026-11-25, {} | clean |"


@pytest.fixture
def release_check(load):
    return load("tools/release_check.py")


def page(*rows: str) -> str:
    return "\n".join(
        ["## Long runs", "", "| a | b | c |", "| --- | --- | --- |", *rows, "", "## End"]
    )


def test_runs_that_are_whole(release_check):
    rows = [ROW.format(text) for text in ("2 cores", "in parts", "in two parts. Before, in parts")]
    for since in ("", "2026-11-24", "2026-11-25"):
        assert "from 2026-11-25 to 2026-11-25" in release_check.long_runs(page(*rows), since)


def test_runs_of_the_release_before(release_check):
    rows = [ROW.format("2 cores"), ROW.format("in parts; 2026-11-27, the rest")]
    with pytest.raises(
        release_check.commands.Failure, match="`make fuzz` last ran on 2026-11-25, before"
    ):
        release_check.long_runs(page(*rows), "2026-11-26")
    with pytest.raises(release_check.commands.Failure, match="last ran on 2026-11-27"):
        release_check.long_runs(page(*rows[1:]), "2026-11-28")
    assert release_check.long_runs(page(*rows[1:]), "2026-11-27")
    changelog = "## [Unreleased]\n\n## [1.3.0] - 2026-02-28\n\n## [1.2.3] - 2026-01-31\n"
    assert release_check.release_notes.date_before("1.3.0", changelog) == "2026-01-31"
    assert release_check.release_notes.date_before("1.4.0.dev0", changelog) == "2026-02-28"
    assert release_check.release_notes.date_before("1.2.3", "## [1.2.3] - 2026-01-31\n") == ""


def test_what_was_left_out(release_check, monkeypatch, tmp_path):
    log = "12 passed\nSkipping buildifier: it could not be had from npm.\nThe end.\n"
    needs = "The Arm tests need an emulator: apt-get install qemu-user"
    assert release_check.left_out("12 passed\nThe end.\n") == []
    assert release_check.left_out(f"{log}{needs}\n{log}") == [log.splitlines()[1], needs]
    monkeypatch.setattr(release_check, "LOGS", tmp_path)
    with pytest.raises(
        release_check.commands.Failure, match="left something out: Skipping buildifier: it"
    ):
        release_check.run("lint", "printf", log.replace("\n", "\\n"))


@pytest.mark.parametrize("text", ["in part: the rest needs 20 GB", "not run yet", "not yet"])
def test_runs_that_are_not(release_check, text):
    with pytest.raises(release_check.commands.Failure, match="`make fuzz` has not run as a whole"):
        release_check.long_runs(page(ROW.format(text)), "")
    with pytest.raises(release_check.commands.Failure, match="no date"):
        release_check.long_runs(page("| `make fuzz` | never | |"), "")


@pytest.mark.parametrize("line", ["12 passed in 3.45s", "=== 12 passed, 1 skipped in 3.45s ===="])
def test_what_pytest_says_at_its_end(release_check, line):
    said = release_check.closing_of_pytest(f"1 passed in 1s\n{line}\nThe end.\n")
    assert said == line.strip("= ")
    skips = "SKIPPED [2] tests/a_test.py:7: needs a|b\n"
    said = release_check.closing_of_pytest(f"{skips}{line}\n")
    assert said == f"{line.strip('= ')}; skipped [2] tests/a_test.py:7: needs a/b"
    with pytest.raises(release_check.commands.Failure, match="how many tests passed"):
        release_check.closing_of_pytest("12 failed in 3.45s\n")


def test_a_release_leaves_nothing_unreleased(release_check, tmp_path, monkeypatch):
    monkeypatch.setattr(release_check, "ROOT", tmp_path)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / ".gitignore").write_text("*\n")
    heading = "## [1.2.3] - 2026-01-31"
    monkeypatch.setattr(release_check.release_notes, "read_version", lambda: "1.2.3")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(f"## [Unreleased]\n\n- new\n\n{heading}\n\n- old\n")
    with pytest.raises(
        release_check.commands.Failure, match=r"nothing under \[Unreleased\]; it has 1 line"
    ):
        release_check.check_sources()
    changelog.write_text(f"## [Unreleased]\n\n{heading}\n\n- old\n")
    assert "2026-01-31" in release_check.check_sources()


def test_what_bazel_says_at_its_end(release_check):
    log = "//tests/a_test PASSED in 1.2s\n\nExecuted 2 out of 3 tests: 3 tests pass.\nINFO: done\n"
    assert release_check.closing_of_bazel(log) == "3 tests pass"
    assert release_check.closing_of_bazel("Executed 0 out of 1 test: 1 test passes.\n")
    with pytest.raises(release_check.commands.Failure, match="how many tests passed"):
        release_check.closing_of_bazel("INFO: done\n")


def test_what_writers_say(release_check, monkeypatch):
    said = "keras: as before\ntorch: as before\nNot run: tf1, cntk.\n"
    monkeypatch.setattr(release_check, "run", lambda *_: said)
    assert release_check.check_writers() == "as before: keras, torch; not run: tf1, cntk"
    monkeypatch.setattr(release_check, "run", lambda *_: "Not run: keras, torch.\n")
    with pytest.raises(release_check.commands.Failure, match="no golden file was written"):
        release_check.check_writers()


def test_each_kind_of_tests_runs_before_a_release_or_each_week():
    targets = re.findall(r"^(test-[\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    commands = [
        command
        for path in workflows
        for command in re.findall(r"^ *command: (.*)$", path.read_text(), re.MULTILINE)
    ]
    steps = (ROOT / "tools" / "release_check.py").read_text()
    commands += re.findall(r"""run\(['"][\w-]+['"], (.*?)\)""", steps)
    never = [
        it for it in targets if not any(re.search(rf"\b{it}(?![\w-])", each) for each in commands)
    ]
    assert never == ["test-quick"]  # a part of `test`
