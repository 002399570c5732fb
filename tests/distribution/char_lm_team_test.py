"""examples/char_lm.py under TF_CONFIG: the workers learn what one process would."""

import csv
import dataclasses
import json
import pickle
import re

import numpy as np
import pytest
from char_lm_distribution import Team
from char_lm_options import UsageError

from tests.distribution import char_lm_teams, workers

TOLERANCE = 1e-5
PROGRAM = workers.EXAMPLES / "char_lm.py"
_RUN_PROGRAM = """
import runpy, sys
sys.argv = {}
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def assert_same_rows(rows, expected):
    """Rows are (kind, step, loss)."""
    assert len(expected) > 2
    assert [row[:2] for row in rows] == [row[:2] for row in expected]
    np.testing.assert_allclose(
        [row[2] for row in rows], [row[2] for row in expected], rtol=0, atol=TOLERANCE
    )


@pytest.fixture(scope="module")
def in_one_process(tmp_path_factory):
    return char_lm_teams.train(char_lm_teams.TINY, tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def facts(tmp_path_factory):
    """What char_lm_teams.run_as_worker wrote: a dict for each worker."""
    path = tmp_path_factory.mktemp("workers")
    code = (
        f"from tests.distribution import char_lm_teams\nchar_lm_teams.run_as_worker({str(path)!r})"
    )
    for output in workers.run([code] * 2):
        assert output.returncode == 0, output.stderr
    return [pickle.loads((path / str(index)).read_bytes()) for index in range(2)]


def test_program_trains_as_one_process_does_and_the_chief_alone_speaks(in_one_process, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(char_lm_teams.CORPUS.text)
    options = dataclasses.asdict(char_lm_teams.TINY) | {"corpus": corpus}
    del options["dry_run"]
    flags = [f"--{name}={value}" for name, value in options.items()]
    arguments = [[str(PROGRAM), f"--save={tmp_path / str(i)}", *flags] for i in range(2)]
    chief, other = workers.run([_RUN_PROGRAM.format(argv) for argv in arguments])
    assert (chief.returncode, chief.stderr) == (0, "")
    assert other == (0, "", "")
    written = {path.name for path in tmp_path.glob("*/*")}
    assert written == {"run.json", "log.csv", "loss.png", "latest", "best", "saved_model"}
    assert not (tmp_path / "1").exists()
    with (tmp_path / "0" / "log.csv").open() as file:
        rows = [(row["kind"], int(row["step"]), float(row["loss"])) for row in csv.DictReader(file)]
    assert_same_rows(rows, in_one_process)
    assert "A fresh process loads" in chief.stdout
    score = min(loss for kind, _, loss in in_one_process if kind == "valid") / np.log(2.0)
    assert re.search(rf"^result: valid_bpc={score:.2f} ", chief.stdout, re.MULTILINE)


def test_worker_without_a_stream_learns_with_the_others(facts, tmp_path):
    assert_same_rows(facts[0]["lonely"], char_lm_teams.train(char_lm_teams.LONELY, tmp_path))
    assert facts[1]["lonely"] == []  # the log is the chief's


def test_ctrl_c_at_any_worker_stops_all_and_resume_goes_on_exactly(facts, in_one_process):
    resumed = facts[0]["resumed"]
    stop = resumed.index(
        next(row for row in resumed if row[:2] == ("valid", char_lm_teams.INTERRUPTED_AFTER))
    )
    assert_same_rows(resumed[:stop] + resumed[stop + 1 :], in_one_process)


def test_workers_draw_different_dropout_masks(facts):
    for states in (facts[0]["states"], facts[1]["states"]):
        assert np.all(np.any(states[:, 0] != states[:, 1], axis=-1))
        np.testing.assert_array_equal(states, facts[0]["states"])  # gathered by both


def test_workers_notice_that_they_differ(facts):
    for fact in facts:
        assert fact["agrees"] and fact["disagrees"]


def test_shares_are_all_streams_once_and_as_equal_as_can_be():
    for size in range(1, 6):
        for num_streams in range(1, 12):
            shares = [Team(index, size).share(num_streams) for index in range(size)]
            streams = [list(range(num_streams))[share] for share in shares]
            assert sum(streams, []) == list(range(num_streams))
            assert max(map(len, streams)) - min(map(len, streams)) <= 1


@pytest.mark.parametrize(
    ("config", "index", "size"),
    [
        ({}, 0, 1),
        ({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 0}}, 0, 1),
        ({"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}, 1, 2),
        (
            {
                "cluster": {"chief": ["a:1"], "worker": ["b:1", "c:1"]},
                "task": {"type": "worker", "index": 1},
            },
            2,
            3,
        ),
        (
            {
                "cluster": {"chief": ["a:1"], "worker": ["b:1"]},
                "task": {"type": "chief", "index": 0},
            },
            0,
            2,
        ),
    ],
)
def test_tf_config_names_the_place_of_a_worker(monkeypatch, config, index, size):
    monkeypatch.setenv("TF_CONFIG", json.dumps(config))
    assert Team.from_environment() == Team(index, size)


def test_without_tf_config_a_process_is_alone(monkeypatch):
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert Team.from_environment() == Team(0, 1)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("{", "TF_CONFIG cannot be understood: JSONDecodeError"),
        ("[]", "TF_CONFIG cannot be understood: AttributeError"),
        ('{"cluster": {"worker": ["a:1"]}}', "cannot be understood: KeyError('task')"),
        (
            '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
            "task {'type': 'worker', 'index': 2}, which its cluster lacks",
        ),
        (
            '{"cluster": {"worker": ["a:1"]}, "task": {"type": "chief", "index": 0}}',
            "task {'type': 'chief', 'index': 0}, which its cluster lacks",
        ),
        (
            '{"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "task": {"type": "ps", "index": 0}}',
            "and one chief; it names 1 worker, 1 ps",
        ),
        (
            '{"cluster": {"chief": ["a:1", "b:1"]}, "task": {"type": "chief", "index": 1}}',
            "and one chief; it names 2 chief",
        ),
    ],
)
def test_tf_config_that_makes_no_sense_is_refused(monkeypatch, config, message):
    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UsageError, match=re.escape(message)):
        Team.from_environment()
