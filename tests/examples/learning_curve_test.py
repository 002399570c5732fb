"""The pictures that the examples draw."""

import argparse
import sys

import learning_curve
import pytest


@pytest.mark.parametrize("scores", [[], [0.5], [0.1, 0.5, 0.9]])
def test_a_curve_is_drawn_however_short(scores, tmp_path, capsys):
    curve = learning_curve.LearningCurve("a score", 0.9, {"chance": 0.5})
    for score in scores:
        curve.add(score)
    path = tmp_path / "runs" / "curve.png"
    curve.draw(str(path), "a test")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out == f"Picture: {path}\n"


def test_no_picture_is_asked_for_or_possible(monkeypatch, capsys):
    curve = learning_curve.LearningCurve("a score", 0.9)
    curve.draw("", "a test")
    assert capsys.readouterr().out == ""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    curve.draw("curve.png", "a test")
    assert "matplotlib is not installed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "reason"), [("folder.png", "Is a directory"), ("curve.xyz", "'xyz' is not supported")]
)
def test_a_picture_that_cannot_be_written_costs_the_picture_alone(name, reason, tmp_path, capsys):
    (tmp_path / "folder.png").mkdir()
    path = tmp_path / name
    learning_curve.LearningCurve("a score", 0.9).draw(str(path), "a test")
    printed = capsys.readouterr().out
    assert printed.startswith(f"There is no picture: {path} cannot be written: ")
    assert reason in printed


def test_the_option_says_where():
    parser = argparse.ArgumentParser()
    learning_curve.add_option(parser, "sums")
    assert parser.parse_args([]).picture == "runs/sums.png"
    assert parser.parse_args(["--picture="]).picture == ""
