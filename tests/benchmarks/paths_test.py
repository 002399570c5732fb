"""benchmarks/paths.py: what paths buy is measured of what takes them, and published as it was."""

import json
import stat

import pytest

from benchmarks import paths
from benchmarks.results import files as result_files
from benchmarks.results import paths as files

HEADER = (result_files.ROOT / "kernels" / "engine" / "thresholds.h").read_text()

HEAD = """# cpu: A processor
# date: 2026-01-02
# threads: 4
"""
COLUMNS = ",".join(files.Call._fields)
GROUPS = "the batch is split into groups of rows"
PACKED = "what one product uses is packed in its turn"


def written(folder, *lines: str, columns=COLUMNS, name="a-cpu-2026-01-02.csv"):
    path = folder / name
    path.write_text("\n".join([HEAD + columns, *lines]) + "\n")
    return path


def test_each_path_has_thresholds_and_a_page():
    assert [path.name for path in paths.PATHS] == list(files.PAGES)
    for path in paths.PATHS:
        assert paths.with_thresholds(HEADER, path.without) != HEADER
        page = result_files.ROOT / "docs" / "decisions" / f"{files.PAGES[path.name]}.md"
        assert page.exists(), page


def test_a_threshold_has_another_value():
    text = "constexpr int64_t kA = 2 * kB;\nconstexpr int kAb = 3;\n"
    assert paths.with_thresholds(text, {"kA": 7}) == (
        "constexpr int64_t kA = 7;\nconstexpr int kAb = 3;\n"
    )


def test_a_threshold_that_is_not_there_is_an_error():
    with pytest.raises(ValueError, match="must set `kNone` once; it does so 0 times"):
        paths.with_thresholds(HEADER, {"kNone": 1})


def binary(folder, name: str, figures: dict[str, tuple[float, str]]):
    """A benchmark that prints these times and plans, by the name of the benchmark."""
    report = {
        "benchmarks": [
            {"name": f"{key}/real_time", "real_time": time, "time_unit": "us", "label": plan}
            for key, (time, plan) in figures.items()
        ]
    }
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps(report)}\nEND\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_calls_that_are_planned_alike_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "_WORK", tmp_path)
    taken, other = paths.Call("lstm", 8, 1, 1), paths.Call("gru", 8, 1, 1)
    names = [call.benchmark("avx2", 2) for call in (taken, other)]
    plans = ("R=rows scratch_bytes=5", "R=packed scratch_bytes=7")
    sides = (
        binary(tmp_path, "with", {names[0]: (1000, plans[0]), names[1]: (10, plans[1])}),
        binary(tmp_path, "without", {names[0]: (1500, plans[1]), names[1]: (20, f"{plans[1]}1")}),
    )
    path = paths.Path(GROUPS, {}, (taken, other))
    found, left_out = paths.measure(path, sides, "avx2", 2, rounds=2)
    assert found == [(taken, 1.0, 1.5)]
    assert left_out == [other]


def test_the_table(tmp_path):
    file = written(
        tmp_path,
        f'{GROUPS},0123abc,"LSTM 8, inference",2,3',
        f'{GROUPS},0123abc,"LSTM 9, inference",4,3',
        f"{PACKED},unknown,LSTM 8,1,1.2",
    )
    lines = files.table([files.read(file)]).splitlines()
    assert lines[0] == f"| path | [A processor](../results/paths/{file.name}) |"
    rows = dict(line.strip("| ").split(" | ") for line in lines[2:] if not line.endswith(") | |"))
    assert rows == {
        f"[{GROUPS}](split-of-work.md)": "0.75 to 1.50x, mean 1.06x",
        f"[{PACKED}](packing-in-turn.md)": "1.20x",
    }
    assert len(lines) == 2 + len(files.PAGES)


def test_a_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "a-cpu-2026-01-02.csv"
    preamble = {"cpu": "A processor", "date": "2026-01-02", "threads": "4"}
    calls = [files.Call(GROUPS, "0123abc", "LSTM 8, batch 2, inference", 0.25, 0.5)]
    file = files.File(path, preamble, ["It was cold."], calls)
    files.write(file)
    assert files.read(path) == file


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "another,0123abc,LSTM,1,2",
            r":5: `path` must be one of forward of small calls.*'another'",
        ),
        (f"{GROUPS},today,LSTM,1,2", r":5: `version` must be a commit; got 'today'"),
        (f"{GROUPS},0123abc,,1,2", r":5: `call` must not be empty"),
        (f"{GROUPS},0123abc,LSTM,1,nan", r":5: `without_path` must be a positive number"),
        (f"{GROUPS},0123abc,LSTM,0,1", r":5: `with_path` must be a positive number"),
        (f"{GROUPS},0123abc,LSTM,1", r":5: must have 5 cells"),
    ],
)
def test_a_malformed_line_is_an_error(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        files.read(written(tmp_path, line))


def test_a_call_that_is_there_twice_is_an_error(tmp_path):
    line = f"{GROUPS},0123abc,LSTM,1,2"
    with pytest.raises(ValueError, match=":6: .*LSTM is there twice"):
        files.read(written(tmp_path, line, line))


def test_other_columns_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="must have the columns"):
        files.read(written(tmp_path, columns="path,call"))


def test_a_copy_of_the_sources_has_no_others(tmp_path):
    """A file that was deleted, or came from elsewhere, would be compiled on."""
    root, tree = tmp_path / "root", tmp_path / "tree"
    for folder in ("kernels", "network", "benchmarks", "tests/engine", "third_party"):
        (root / folder).mkdir(parents=True)
    for name in ("kernels/old.cc", "kernels/new.cc", ".bazelrc"):
        (root / name).write_text(name)
    paths.copy_sources(root, tree)
    assert (tree / "kernels" / "old.cc").exists() and (tree / ".bazelrc").exists()
    for name in ("kernels/old.cc", ".bazelrc"):
        (root / name).unlink()
    paths.copy_sources(root, tree)
    files_of_tree = sorted(path.name for path in tree.rglob("*") if path.is_file())
    assert files_of_tree == ["BUILD", "new.cc"]


def test_options_are_told_when_they_are_wrong(capsys, monkeypatch):
    for text in ("0", "-3", "many", "1.5"):
        monkeypatch.setattr("sys.argv", ["paths", f"--rounds={text}"])
        with pytest.raises(SystemExit, match="2"):
            paths.main()
        expected = f"argument --rounds: must be a whole number, at least 1; got '{text}'"
        assert expected in capsys.readouterr().err
