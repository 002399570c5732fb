"""The streaming example: what it learns, what it streams, and how long a step takes."""

import shutil
import sys

import numpy as np
import pytest
import streaming
import streaming_latency

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
    sides = ["runtime, Python", "concrete function", "tf.function", "layer called"]
    sides += ["Flow, op called", "built-in op called"]
    if shutil.which("gcc"):
        sides += ["runtime, C", "C API"]
        assert "streamed in C: the same bits" in printed
    assert "Each has one thread; TensorFlow in Python, which has trained, has up to " in printed
    medians = {}
    for side in sides:
        (line,) = [line for line in printed.splitlines() if side in line]
        medians[line], most, nearly_all, ratio = map(float, line.split()[-4:])
        assert 0 < medians[line] <= most <= nearly_all
        assert ratio == pytest.approx(nearly_all / medians[line], rel=0.1)
    in_order = sorted(medians, key=printed.index)
    assert in_order == sorted(in_order, key=medians.get)


def test_too_little_training_is_a_failure(capsys):
    assert streaming.main(["--steps=1", "--picture=", *SHORT]) == 1
    assert float(results.of(capsys.readouterr().out)["of_kalman"]) > streaming.REQUIRED


def test_other_answers_are_a_failure(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(streaming, "streamed", lambda network, sensors: np.zeros([300, 32]))
    monkeypatch.setattr(streaming, "REQUIRED", np.inf)
    assert streaming.main(["--steps=1", "--picture=", *SHORT]) == 1
    capsys.readouterr()


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not installed")
def test_other_bits_in_c_are_a_failure(monkeypatch, capsys):
    in_c = streaming_latency.in_c

    def off_by_one_bit(*arguments):
        latency, outputs = in_c(*arguments)
        outputs[-1, -1] = np.nextafter(outputs[-1, -1], np.float32(2))
        return latency, outputs

    monkeypatch.setattr(streaming_latency, "in_c", off_by_one_bit)
    monkeypatch.setattr(streaming, "REQUIRED", np.inf)
    assert streaming.main(["--steps=1", "--picture=", *SHORT]) == 1
    assert "streamed in C: other bits" in capsys.readouterr().out


def test_what_is_not_installed_is_left_out(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    streaming.main(["--steps=1", *SHORT])
    printed = capsys.readouterr().out
    assert "There is no gcc" in printed and "There is no package onnxruntime" in printed
    assert "matplotlib is not installed" in printed
    assert "runtime, Python" in printed and "runtime, C" not in printed
    assert "C API" not in printed


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
