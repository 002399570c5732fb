"""benchmarks/results: the published results are what their csv files say, and files are read."""

import argparse
import collections
import dataclasses
import re
import subprocess

import numpy as np
import pytest

from benchmarks import bars, cases, experiments, records
from benchmarks.results import __main__ as program
from benchmarks.results import accuracy, files, pages, paths, rendering, runs, tables
from tests.benchmarks import fakes

CPU = pages.README_CPU
DATE = fakes.PREAMBLE["date"].split()[0]
BEGIN = "<!-- Made of docs/results by `python -m benchmarks.results render`: {} -->"

HEAD = """# cpu: A processor
# date: 2026-01-02
# threads: 4
# versions: torch 9.8
# note: It was cold.
"""
COLUMNS = ",".join(files.COLUMNS)
OP = "gate,0123abc,lstm_512_b16,training,float32,op,op,median,,ms,4"
TORCH = "gate,0123abc,lstm_512_b16,training,float32,torch,op,median,,x,1.5"
KERAS = "gate,0123abc,lstm_512_b16,training,float32,keras,op,median,,ms,10"
MEAN = 'ragged,unknown,,inference,float32,torch,op,mean,"batch 1, 8 rows",x,2.25'


def written(folder, *lines: str, head=HEAD, columns=COLUMNS, name="a-cpu-2026-01-02.csv"):
    path = folder / name
    path.write_text("\n".join([head + columns, *lines]) + "\n")
    return path


# ------------------------------------------------------------------------------------
# What is published
# ------------------------------------------------------------------------------------


def test_no_page_is_stale():
    """If this fails: `.venv/bin/python -m benchmarks.results render`."""
    found = pages.texts()
    assert {"benchmarks.md", "accuracy.md"} < {path.name for path in found}
    assert {files.ROOT / "README.md", files.ROOT / "docs" / "decisions" / "README.md"} < set(found)
    for path, text in found.items():
        assert path.read_text() == text, f"{path} is not what docs/results/*.csv say: render them."


def test_no_chart_is_stale():
    wanted = set()
    for file in files.read_all():
        for path, _, _ in rendering.charts(file):
            wanted.add(path)
            assert rendering.stamp_of(path) == rendering.digest(file), f"{path}: render it."
    assert wanted == set((files.ROOT / "docs" / "results").glob("*.png"))


def test_figures_are_of_commits_that_there_are():
    """Typed by hand, a commit may be none."""
    git = ["git", "-C", files.ROOT]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True
    )
    if shallow.stdout.strip() != "false":
        pytest.skip("there is no history to look them up in")
    versions = {figure.version for file in files.read_all() for figure in file.figures}
    for version in versions - {files.UNKNOWN}:
        found = subprocess.run([*git, "cat-file", "-e", f"{version}^{{commit}}"])
        assert found.returncode == 0, f"docs/results name the commit {version}, which is none."


def test_pages_link_to_what_there_is():
    for path, text in pages.texts().items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", prose):
            assert (path.parent / target).exists(), f"{path}: {target}"


def test_the_method_holds_no_figure():
    """Ratios stand between the markers, where they are made of the csv files."""
    text = (files.ROOT / "docs" / "benchmarks.md").read_text()
    begin = text.index(BEGIN.format("summary"))
    end = text.index("<!-- End of summary -->")
    by_hand = text[:begin] + text[end:]
    # What 2.00x and 1.00x mean is said in words.
    assert set(re.findall(r"\d+\.\d+x", by_hand)) <= {"1.00x", "2.00x"}


# ------------------------------------------------------------------------------------
# Files
# ------------------------------------------------------------------------------------


def test_a_file_is_read(tmp_path):
    file = files.read(written(tmp_path, OP, TORCH, KERAS, MEAN))
    assert file.preamble == {
        "cpu": "A processor",
        "date": "2026-01-02",
        "threads": "4",
        "versions": "torch 9.8",
    }
    assert file.notes == ["It was cold."]
    assert file.figures[1] == files.Figure(
        group="gate",
        version="0123abc",
        case="lstm_512_b16",
        pass_="training",
        dtype="float32",
        side="torch",
        base="op",
        statistic="median",
        rows="",
        unit="x",
        value=1.5,
    )
    assert file.figures[3].rows == "batch 1, 8 rows"
    assert file.page.name == "a-cpu-2026-01-02.md"


def test_a_file_comes_back(tmp_path):
    file = files.read(written(tmp_path, OP, TORCH, MEAN))
    (tmp_path / "other").mkdir()
    other = file._replace(path=tmp_path / "other" / file.path.name)
    files.write(other)
    assert files.read(other.path) == other
    assert other.path.read_text() == file.path.read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (OP.replace("gate", "fast"), ":7: `group` must be one of quick, .*; got 'fast'"),
        (OP.replace("0123abc", "unknown"), ":7: `version` must be a commit.*; got 'unknown'"),
        (OP.replace("0123abc", "0123abc with changes"), "`version` must be a commit"),
        (MEAN.replace("unknown", "main"), "`version` must be a commit, .*; got 'main'"),
        (OP.replace("lstm_512_b16", "lstm_5"), "`case` must be one of .*; got 'lstm_5'"),
        (OP.replace("lstm_512_b16", ""), "`case` must be one of .*; got ''"),
        (MEAN.replace("known,,", "known,lstm_5,"), "`case` must be one of .*; got 'lstm_5'"),
        (OP.replace("training", "sleeping"), "`pass` must be one of training, .*'sleeping'"),
        (OP.replace("median", "mode"), "`statistic` must be one of median, .*; got 'mode'"),
        (OP.replace("median,,", "median,all,"), "`rows` must be empty of a median.*'all'"),
        (MEAN.replace('"batch 1, 8 rows"', ""), "`rows` must be empty of a median"),
        (OP.replace("ms", "s"), "`unit` must be one of x, ms, .*; got 's'"),
        (OP.replace(",op,op,", ",,op,"), "`side` and `dtype` must not be empty"),
        (OP.replace(",op,op,", ",op,,"), "`base` must not be empty of a median, nor of a ratio"),
        (MEAN.replace(",op,mean", ",,mean"), "`base` must not be empty of a median, nor of a"),
        *(
            (OP.replace("ms,4", f"ms,{value}"), f"`value` must be .*; got '{value}'")
            for value in ("", "four", "0", "-4", "nan", "inf")
        ),
        (OP + ",5", ":7: must have 11 cells"),
        (OP.removesuffix(",4"), ":7: must have 11 cells"),
    ],
)
def test_a_malformed_line_is_refused(tmp_path, line, message):
    with pytest.raises(ValueError, match=message):
        files.read(written(tmp_path, line))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([OP, TORCH, OP], "gate lstm_512_b16 training op is there twice"),
        ([OP, KERAS, TORCH.replace("torch", "keras")], "training keras is there twice"),
        ([MEAN, MEAN], "ragged inference torch, mean of batch 1, 8 rows is there twice"),
        ([TORCH], "training torch has no line of its base 'op' with a time"),
        ([OP.replace("ms", "x")], "training op has no line of its base 'op' with a time"),
        (
            [OP, TORCH.replace("0123abc", "4567def")],
            "all rows of 'gate' must be of one commit; got 0123abc and 4567def",
        ),
    ],
)
def test_lines_that_do_not_go_together_are_refused(tmp_path, lines, message):
    with pytest.raises(ValueError, match=message):
        files.read(written(tmp_path, *lines))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": COLUMNS.replace("base", "basis")}, "must have the columns .*; got .*'basis'"),
        ({"columns": ""}, "must have the columns"),
        ({"head": HEAD.replace("# cpu: A processor\n", "")}, "must begin with lines .* for cpu"),
        ({"head": HEAD.replace("cpu: A", "cpu A")}, ":1: must be `# key: value`; got '# cpu A"),
        ({"head": HEAD + "# cpu: B\n"}, ":6: 'cpu' is there twice"),
        ({"head": HEAD.replace("4", "four")}, "`threads` must be a number; got 'four'"),
        ({"name": "a-cpu-2026-01-03.csv"}, "must be called <cpu>-<date>.csv"),
        ({"name": "2026-01-02.csv"}, "must be called <cpu>-<date>.csv"),
        ({"name": "A CPU-2026-01-02.csv"}, "must be called <cpu>-<date>.csv"),
        (
            {"head": HEAD.replace("2026-01-02", "today"), "name": "a-cpu-today.csv"},
            "must be called <cpu>-<date>.csv, .*; its `date` is 'today'",
        ),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        files.read(written(tmp_path, OP, **change))


# ------------------------------------------------------------------------------------
# Tables
# ------------------------------------------------------------------------------------


def line(name: str, side: str, unit: str, value: float) -> str:
    return f"gate,0123abc,{name},training,float32,{side},op,median,,{unit},{value}"


def test_means_are_by_kind(tmp_path):
    lines = []
    for name, ratio in (
        ("lstm_512_b1", 2.0),
        ("lstm_512_b4", 8.0),
        ("lstm_512_b16", 3.0),
        ("gru_1024_b1", 5.0),
        ("relu_1760_b16", 20.0),
    ):
        # A ratio and a time say the same.
        lines += [
            line(name, "op", "ms", 4),
            line(name, "torch", "x", ratio),
            line(name, "keras", "ms", 4 * ratio),
        ]
    # A row that Keras cannot do.
    name = "lstmp_1024_512_b16"
    lines += [line(name, "op", "ms", 7), line(name, "torch", "x", 12.0)]
    file = files.read(written(tmp_path, *lines))
    means = {mean.kind: mean for mean in tables.of_group(file, "gate").means("training")}
    assert {kind: mean.count for kind, mean in means.items()} == {
        "LSTM, batch 1 to 4": 2,
        "LSTM, larger batches": 2,
        "GRU and simple RNN": 2,
        "all": 6,
    }
    torch = [mean.by_side["torch"] for mean in means.values()]
    assert np.allclose(torch, [4, 6, 10, (16 * 36 * 100) ** (1 / 6)])
    keras = [mean.by_side["keras"] for mean in means.values()]
    assert np.allclose(keras, [4, 3, 10, (16 * 3 * 100) ** (1 / 5)])
    text = pages.page(file)
    row = "| `lstm_512_b4` | LSTM 512, batch 4, 25 steps | 4 | 8.00x | 8.00x |"
    assert row in text.splitlines()
    row = (
        "| `lstmp_1024_512_b16` | LSTM 1024 projected to 512, batch 16, 25 steps, input 512 "
        "| 7 | 12.00x | |"
    )
    assert row in text.splitlines()
    row = "| | **geometric mean of LSTM, larger batches: 2 rows** | | 6.00x | 3.00x |"
    assert row in text.splitlines()
    assert "\n* It was cold.\n" in text


def test_ranges(tmp_path):
    least = "memory,0123abc,gru_2816_b32,training,float32,torch,op,least,8 rows,x,1.2"
    most = "memory,0123abc,,training,float32,torch,op,most,8 rows,x,4.5"
    peak = "engine,unknown,,,float32,peak,,most,two threads,GFLOP/s,227"
    file = files.read(written(tmp_path, least, most, MEAN, peak))
    assert tables.of_file(file) == [] and rendering.charts(file) == []
    lines = pages.page(file).splitlines()
    row = "| `memory` | 0123abc | 8 rows | training | PyTorch / op "
    assert row + "| 1.2x (`gru_2816_b32`) | | 4.5x |" in lines
    row = "| `ragged` | unknown | batch 1, 8 rows | inference | PyTorch / op | | 2.25x | |"
    assert row in lines
    assert "| `engine` | unknown | two threads | | peak, GFLOP/s | | | 227 |" in lines


def test_the_summary_computes_its_means(tmp_path):
    gate = 'gate,0123abc,,training,float32,torch,op,mean,"all",x,1.25'
    noted = files.read(written(tmp_path, gate, name="b-cpu-2026-01-02.csv"))
    text = pages.summary([noted, files.read(written(tmp_path, OP, TORCH, KERAS))])
    assert "| LSTM, larger batches: 1 row | 2.50x | 1.50x | | | |" in text.splitlines()
    # What was noted by hand does not stand beside what is computed.
    assert "1.25x" not in text
    assert text.splitlines()[-1] == "* [A processor](results/b-cpu-2026-01-02.md), 2026-01-02"


def test_markers():
    begin, end = BEGIN.format("speed"), "<!-- End of speed -->"
    text = f"before\n{begin}\nold\n{end}\nafter\n"
    found = pages.between_markers(text, "speed", "| new |")
    assert found == f"before\n{begin}\n\n| new |\n\n{end}\nafter\n"
    assert pages.between_markers(found, "speed", "| new |") == found
    for wrong in ("", begin, end, f"{end}{begin}", f"{text}{text}"):
        with pytest.raises(ValueError, match="there must be one line .*: speed -->"):
            pages.between_markers(wrong, "speed", "")


# ------------------------------------------------------------------------------------
# From a run to its page
# ------------------------------------------------------------------------------------


def run_file(path, **preamble: str):
    """What `make bench CASES=gate,streaming` would write, with a row that was not measured."""
    rows, _ = experiments.plan(["gate", "streaming"], 2)
    writer = records.Writer(path, fakes.PREAMBLE | {"versions": "torch 9.8"} | preamble)
    for record in fakes.figures_of(rows, fakes.varied_speed):
        if record.side in ("op", "keras", "torch", "onnx", "stream_from_c"):
            writer.write(record)
    writer.finish()
    return path


@pytest.fixture
def root(tmp_path):
    (tmp_path / "docs" / "decisions").mkdir(parents=True)
    for name, path in (
        ("speed", "README.md"),
        ("summary", "docs/benchmarks.md"),
        ("accuracy", "docs/accuracy.md"),
        ("paths", "docs/decisions/README.md"),
    ):
        (tmp_path / path).write_text(f"{BEGIN.format(name)}\n<!-- End of {name} -->\n")
    return tmp_path


def test_a_run_is_published(root):
    run = run_file(root / "run.csv", rounds="5 of 0.1 s", warning="others used the machine")
    page = runs.add([run], CPU, root)
    folder = root / "docs" / "results"
    stem = f"{CPU}-{DATE}"
    charts = {
        f"{stem}-{name}.png" for name in ("gate-training", "gate-inference", "streaming-inference")
    }
    assert {path.name for path in folder.iterdir()} == {f"{stem}.csv", f"{stem}.md", *charts}
    for chart in charts:
        content = (folder / chart).read_bytes()
        assert content.startswith(b"\x89PNG\r\n\x1a\n") and len(content) > 10_000
    text = page.read_text()
    assert text.startswith("<!-- Made of ") and f"# A processor, {DATE}" in text
    assert "\n* Rounds: 5 of 0.1 s.\n* Others used the machine.\n" in text
    assert "| `stream_lstm_64` | LSTM 64, batch 1, 1 step |" in text
    assert "\n## Bars\n" in text and "| gate, training against PyTorch | 1.10 | 2.00 |" in text
    assert "Commit 0123456" in text
    gate = len(cases.in_set("gate"))
    readme = (root / "README.md").read_text()
    assert f"**mean of all: {gate} rows**" in readme and "| LSTM 512, batch 1, 25 " in readme
    assert f"| all: {gate} rows |" in (root / "docs" / "benchmarks.md").read_text()
    # Times, of which the ratios are made, are as in the run.
    _, found = records.read(run)
    of_run = {(r.case, r.pass_, r.side): r for r in found}
    file = files.read(folder / f"{stem}.csv")
    assert {f.unit for f in file.figures} == {"ms"}
    for f in file.figures:
        assert np.isclose(f.value, of_run.pop((f.case, f.pass_, f.side)).median, rtol=1e-5)
    assert all(record.median is None for record in of_run.values())
    # A second time there is nothing to do; a page of nothing goes, what people wrote stays.
    assert rendering.render(root) == []
    (folder / "b-cpu-2026-01-01.md").write_text(text)
    (folder / "README.md").write_text("Measured in the cold.\n")
    assert rendering.render(root) == [folder / "b-cpu-2026-01-01.md"]
    assert (folder / "README.md").exists()


def test_a_changed_file_is_rendered_anew(root):
    runs.add([run_file(root / "run.csv")], CPU, root)
    file = files.read_all(root)[0]
    before = [path.read_bytes() for path, _, _ in rendering.charts(file)]
    figures = [
        dataclasses.replace(f, value=20 * f.value) if f.side == "torch" else f for f in file.figures
    ]
    files.write(file._replace(figures=figures))
    changed = {path.name for path in rendering.render(root)}
    names = {path.name for path, _, _ in rendering.charts(file)}
    assert changed == {"README.md", "benchmarks.md", file.page.name, *names}
    after = [path.read_bytes() for path, _, _ in rendering.charts(file)]
    assert len(before) == 3 and all(a != b for a, b in zip(before, after, strict=True))


def test_a_run_without_peers(root):
    """Rows of the op alone have no chart, and those without the op are left out."""
    run = run_file(root / "run.csv")
    preamble, found = records.read(run)
    missing = ("lstm_512_b1", "training")
    writer = records.Writer(run, preamble)
    for record in found:
        if record.experiment == "gate" and (record.pass_ == "training" or record.side == "op"):
            no_figure = (record.case, record.pass_, record.side) == (*missing, "op")
            writer.write(dataclasses.replace(record, median=None) if no_figure else record)
    writer.finish()
    file = runs.from_runs([run], CPU, root)
    files.write(file)
    assert files.read(file.path) == file._replace(figures=files.read(file.path).figures)
    assert not [f for f in file.figures if (f.case, f.pass_) == missing]
    assert [pass_ for _, _, pass_ in rendering.charts(file)] == ["training"]
    assert "| `lstm_512_b1` | LSTM 512, batch 1, 25 steps |" in pages.page(file)
    with pytest.raises(ValueError, match="README's table needs lstm_512_b1 training, which"):
        rendering.render(root)


def test_of_random_networks_there_are_ranges(root):
    rows, _ = experiments.plan(["gate", "sweep"], 2)
    writer = records.Writer(root / "run.csv", fakes.PREAMBLE | {"versions": "torch 9.8"})
    times = collections.defaultdict(list)  # of each pass, those of the op and of PyTorch
    for record in fakes.figures_of(rows, fakes.varied_speed):
        if record.side not in ("op", "torch"):
            continue
        if record.case == "random_3":
            record = dataclasses.replace(record, median=None)
        writer.write(record)
        if record.experiment == "sweep" and record.median is not None:
            times[record.pass_, record.side].append(record.median)
    writer.finish()
    file = runs.from_runs([root / "run.csv"], CPU, root)
    files.write(file)
    assert files.read(file.path).notes == file.notes == []
    found = list(tables.random_ranges(files.read(file.path)))
    ranges = {(f.pass_, f.rows, f.statistic): f.value for f in found}
    for pass_ in ("inference", "training"):
        pairs = list(zip(times[pass_, "op"], times[pass_, "torch"], strict=True))
        assert len(pairs) == 199
        long = [pair for pair in pairs if pair[0] >= 1]
        assert 0 < len(long) < 199
        for chosen, rows in (
            (pairs, "199 random networks"),
            (long, f"{len(long)} random networks of 1 ms and more"),
        ):
            ratios = [torch / op for op, torch in chosen]
            assert ranges[pass_, rows, "least"] == pytest.approx(min(ratios), rel=1e-5)
            assert ranges[pass_, rows, "most"] == pytest.approx(max(ratios), rel=1e-5)
            mean = np.exp(np.mean(np.log(ratios)))
            assert ranges[pass_, rows, "mean"] == pytest.approx(mean, rel=1e-5)
    assert len(ranges) == 12
    text = pages.page(file)
    assert "| 199 random networks | training | PyTorch / op |" in text
    # They have no tables of their own, and the bars are about them.
    assert "## sweep" not in text and "| random shapes of 1 ms and more, training " in text


def test_runs_on_one_machine_make_one_page(root):
    """Each group is of its run's commit; the engine's rows and the machine's peaks are there."""
    versions = {"versions": "torch 9.8"}
    gate = run_file(root / "gate.csv", warning="others used the machine")
    later = {"tf_cudnn_rnn": "0.1.0, commit 89abcdef0123", "date": "2026-01-03 04:05 UTC"}
    writer = records.Writer(root / "engine.csv", fakes.PREAMBLE | versions | later)
    for record in fakes.engine_figures():
        writer.write(record)
    writer.finish()
    file = runs.from_runs([gate, root / "engine.csv"], CPU, root)
    assert file.path.name == f"{CPU}-2026-01-03.csv"
    commits = {figure.group: figure.version for figure in file.figures}
    assert commits["gate"] == "0123456789ab" and commits["engine"] == "89abcdef0123"
    files.write(file)
    assert files.read(file.path) == file._replace(figures=files.read(file.path).figures)
    text = pages.page(file)
    assert "When 1 of the 2 runs of this page began, others used the machine" in text
    assert "| engine, share of the least time, forward; H >= 512, B >= 16 | 0.85 |" in text
    failed = next(v for v in bars.verdicts(tables.results_of(file)) if v.failed)
    worst = failed.worst
    assert f"* *{failed.bar.what}*, {failed.bar.every:.2f}: {len(failed.failed)} of " in text
    assert f"`{worst.row}` {worst.value:.2f}" in text.replace("\n  ", " ")
    assert "## engine, backward" in text and "| multiply-add | 500 GFLOP/s |" in text
    results = tables.results_of(files.read(file.path))
    assert results.best_isa() == "avx512" and results.rate("l3", "avx2") == pytest.approx(120)
    other = records.Writer(root / "other.csv", fakes.PREAMBLE | versions | {"cpu": "Another one"})
    for record in fakes.engine_figures():
        other.write(record)
    other.finish()
    with pytest.raises(ValueError, match="other.csv: must have the same `cpu` as .*'Another one'"):
        runs.from_runs([gate, root / "other.csv"], CPU, root)


@pytest.mark.parametrize(
    ("group", "side", "is_refused"),
    [
        ("gate", "op", True),
        ("bidirectional", "op", True),  # no bar is about it
        ("layer", "stateful_layer", True),  # the others are divided by the op
        ("gate", "torch", False),
    ],
)
def test_a_run_in_which_this_library_failed_is_not_published(root, group, side, is_refused):
    rows, _ = experiments.plan([group], 2)
    writer = records.Writer(root / "run.csv", fakes.PREAMBLE | {"versions": "torch 9.8"})
    name = rows[0].case.name
    for record in fakes.figures_of(rows, fakes.varied_speed):
        if (record.case, record.side) == (name, side):
            record = dataclasses.replace(record, median=None, error="InternalError: no")
        writer.write(record)
    writer.finish()
    if is_refused:
        with pytest.raises(ValueError, match=f"these failed: {group}, {name} "):
            runs.from_runs([root / "run.csv"], CPU, root)
    else:
        assert runs.from_runs([root / "run.csv"], CPU, root).figures


def test_what_is_not_published(root, monkeypatch):
    # That charts are drawn is tested above, and takes most of the time.
    monkeypatch.setattr("benchmarks.charts.draw_speed", lambda *_, **__: None)
    folder = root / "docs" / "results"
    for commit in ("0123456789ab with changes", "unknown"):
        run = run_file(root / "run.csv", tf_cudnn_rnn=f"0.1.0, commit {commit}")
        with pytest.raises(ValueError, match=f"must be of a commit, .*; got '{commit}'"):
            runs.add([run], CPU, root)
    records.Writer(root / "run.csv", fakes.PREAMBLE).finish()
    with pytest.raises(ValueError, match="has no figures of groups"):
        runs.add([root / "run.csv"], CPU, root)
    run = run_file(root / "run.csv")
    run.write_text(run.read_text().replace(f"# {records.FINISHED}: yes\n", ""))
    with pytest.raises(ValueError, match="run.csv: the run was cut short. Run its groups again"):
        runs.add([run], CPU, root)
    run.write_text(run.read_text().replace("# threads: 2\n", ""))
    with pytest.raises(ValueError, match="run.csv must have a line `# threads: "):
        runs.add([run], CPU, root)
    assert not folder.exists()
    # README has no table without its CPU; what was written is taken back.
    run = run_file(root / "run.csv")
    with pytest.raises(ValueError, match=f"README's table needs .*/{CPU}-<date>.csv"):
        runs.add([run], None, root)
    assert list(folder.iterdir()) == []
    runs.add([run], CPU, root)
    with pytest.raises(ValueError, match="is there already"):
        runs.add([run], CPU, root)
    # Its own name, if it is given none.
    assert runs.add([run], None, root).name == f"a-processor-{DATE}.md"


@pytest.mark.parametrize(
    ("kind", "lines", "table", "shown"),
    [
        (
            accuracy,
            [accuracy.Error("gru_128_t32_b16", "op", "dW", 3e-7)],
            "docs/accuracy.md",
            "| GRU 128, batch 16, 32 steps |",
        ),
        (
            paths,
            [paths.Call("two directions run at once", "0123abc", "LSTM 8", 2.0, 3.0)],
            "docs/decisions/README.md",
            "| [two directions run at once](split-of-work.md) | 1.50x |",
        ),
    ],
)
def test_accuracy_and_paths_are_published(root, kind, lines, table, shown):
    runs.add([run_file(root / "run.csv")], CPU, root)  # README needs one
    preamble = fakes.PREAMBLE | {"commit": "0123456789ab", "versions": "torch 9.8", "memory": "1"}
    path = rendering.publish(kind, preamble, ["It was cold."], lines, "a-cpu", root)
    assert path == kind.folder(root) / f"a-cpu-{DATE}.csv"
    file = kind.read(path)
    assert file.notes == ["It was cold."] and file[-1] == lines and "memory" not in file.preamble
    assert shown in (root / table).read_text()
    with pytest.raises(ValueError, match=f"a-cpu-{DATE}.csv is there already; to replace it"):
        rendering.publish(kind, preamble, [], lines[:0], "a-cpu", root)
    assert kind.read(path) == file


def test_what_publish_would_refuse_is_an_error_of_the_option(root, monkeypatch, capsys):
    monkeypatch.setattr(rendering, "ROOT", root)
    parser = argparse.ArgumentParser("prog")
    preamble = fakes.PREAMBLE | {"versions": "torch 9.8"}

    def message(commit: str) -> str:
        with pytest.raises(SystemExit):
            rendering.check_publish_option(parser, paths, commit, preamble, "a-cpu")
        return capsys.readouterr().err

    rendering.check_publish_option(parser, paths, "0123456789ab", preamble, "a-cpu")
    for commit in ("0123456789ab with changes", "unknown"):
        refused = "--publish: results must be of a commit, without changes to it; here is"
        assert f"{refused} {commit!r}" in message(commit)
    path = paths.folder(root) / f"a-cpu-{DATE}.csv"
    path.parent.mkdir(parents=True)
    path.touch()
    assert f"--publish: {path} is there already" in message("0123456789ab")


def test_a_kernel_is_not_named(root):
    system = "Linux-6.1.0-of-some-host-x86_64-with-glibc2.36, Python 3.11.7"
    named = "Linux, glibc 2.36, Python 3.11.7"
    file = runs.from_runs([run_file(root / "run.csv", system=system)], CPU, root)
    assert file.preamble["system"] == named
    # Nor by files of paths and of accuracy.
    preamble = {"date": "2026-01-02 03:04", "system": system, "build": ""}
    kept = files.published(preamble, ("system", "build", "date"))
    assert kept == {"date": "2026-01-02", "system": named}


def test_names_of_cpus():
    assert files.slug("Intel(R) Xeon(R) Platinum 8488C @ 2.40GHz") == "intel-xeon-platinum-8488c"
    assert files.slug("AMD EPYC 9V74 80-Core Processor") == "amd-epyc-9v74-80-core-processor"


def test_measure_refuses_changes_before_it_runs(monkeypatch):
    monkeypatch.setattr("benchmarks.machine.commit", lambda: "0123456789ab with changes")
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("it ran"))
    with pytest.raises(ValueError, match="here is '0123456789ab with changes'"):
        runs.measure(None)


def test_measure_publishes_no_run_that_failed(monkeypatch):
    monkeypatch.setattr("benchmarks.machine.commit", lambda: "0123456789ab")
    ended = subprocess.CompletedProcess([], 130)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: ended)
    with pytest.raises(ValueError, match="nothing is published: the run ended with status 130"):
        runs.measure(None)


def test_a_file_that_is_missing_gets_one_line(tmp_path):
    with pytest.raises(SystemExit, match="benchmarks.results: .*No such file .*/none.csv"):
        program.main(["add", str(tmp_path / "none.csv")])


def test_the_program(capsys, monkeypatch):
    monkeypatch.setattr(program, "render", lambda: [files.ROOT / "README.md"])
    program.main(["render"])
    assert capsys.readouterr().out == "README.md\n"
    monkeypatch.setattr(program, "measure", lambda *_: pytest.fail("It measures."))
    for arguments in ([], ["add"], ["paint"], ["measure", "--help"], ["--help"]):
        with pytest.raises(SystemExit, match="Published results"):
            program.main(arguments)
    for arguments in (["add", "amd"], ["add", "run.csv", "amd", "intel"]):
        with pytest.raises(SystemExit, match="Published results"):
            program.main(arguments)
    monkeypatch.setattr(program, "add", lambda paths, cpu: (cpu, *map(str, paths)))
    program.main(["add", "a.csv", "b.csv", "amd"])
    assert capsys.readouterr().out == "('amd', 'a.csv', 'b.csv')\n"
    monkeypatch.setattr(program, "add", lambda *_: files.read(files.ROOT / "README.md"))
    with pytest.raises(SystemExit, match="benchmarks.results: .*README.md"):
        program.main(["add", "run.csv"])
