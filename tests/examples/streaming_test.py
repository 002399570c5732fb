"""The streaming example: what it learns, what it streams, and how long a step takes."""

import shutil
import sys

import numpy as np
import pytest
import streaming

from tests.examples import results

SHORT = ["--units=32", "--latency_steps=20"]


def test_the_stream_answers_as_the_model_that_was_trained(tmp_path, capsys):
    picture = tmp_path / "latency.png"
    assert streaming.main(["--steps=200", *SHORT, f"--picture={picture}"]) == 0
    printed = capsys.readouterr().out
    result = {name: float(value) for name, value in results.of(printed).items()}
    # The task is no trivial one: what the past tells halves the error.
    assert 1 <= result["of_kalman"] <= streaming.REQUIRED < 2 < result["glance_of_kalman"]
    assert result["apart"] <= 1e-5
    assert picture.read_bytes().startswith(b"\x89PNG")
    sides = ["runtime, Python", "concrete function", "tf.function", "op called", "layer called"]
    sides += ["runtime, C"] if shutil.which("gcc") else []
    for side in sides:
        (line,) = [line for line in printed.splitlines() if side in line]
        median, most, nearly_all = map(float, line.split()[-3:])
        assert 0 < median <= most <= nearly_all


def test_too_little_training_is_a_failure(capsys):
    assert streaming.main(["--steps=1", "--picture=", *SHORT]) == 1
    assert float(results.of(capsys.readouterr().out)["of_kalman"]) > streaming.REQUIRED


def test_other_answers_are_a_failure(monkeypatch, capsys):
    monkeypatch.setattr(streaming, "streamed", lambda network, dense, sensors: np.zeros([300, 1]))
    monkeypatch.setattr(streaming, "REQUIRED", np.inf)
    assert streaming.main(["--steps=1", "--picture=", *SHORT]) == 1
    capsys.readouterr()


def test_what_is_not_installed_is_left_out(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    streaming.main(["--steps=1", *SHORT])
    printed = capsys.readouterr().out
    assert "There is no gcc" in printed and "There is no package onnxruntime" in printed
    assert "matplotlib is not installed" in printed
    assert "runtime, Python" in printed and "runtime, C" not in printed


@pytest.mark.parametrize("option", ["units", "steps", "latency_steps"])
def test_mistake_is_told(option, capsys):
    with pytest.raises(SystemExit, match="2"):
        streaming.main([f"--{option}=0"])
    assert f"--{option} must be at least 1" in capsys.readouterr().err


def test_the_filter_is_the_best_estimate():
    source = streaming.Pendulum(np.random.default_rng(0))
    sensors, positions = source.draw(300, 100)
    best = streaming.error(source.filtered(sensors), positions)
    assert best < streaming.error(source.glanced(sensors), positions)
    # Other noise than there is makes it worse, to either side.
    for factor in (0.5, 2):
        source.noise *= factor
        assert best < streaming.error(source.filtered(sensors), positions)
        source.noise /= factor
