"""A step of training under the profiler."""

import profile_step
import pytest
from matplotlib import pyplot

from tests.examples import results

PHASES = {
    "training": {"pack weights", "input product", "steps"},
    "backward": {"pack weights", "steps", "weight gradients", "input gradient"},
}


def test_a_step_is_recorded_added_up_and_drawn(tmp_path, capsys):
    picture = tmp_path / "step.png"
    trace = tmp_path / "trace"
    profile_step.main(["--units=16", "--steps=20", f"--picture={picture}", f"--trace={trace}"])
    printed = capsys.readouterr().out
    calls, phases = profile_step.read(trace)
    assert set(calls) == set(PHASES)
    for run, names in PHASES.items():
        for layer in range(2):
            for direction in range(2):
                place = (run, layer, direction)
                found = {it.name for it in phases if (it.run, it.layer, it.direction) == place}
                assert found == names, place
    assert int(results.of(printed)["phases"]) == len(phases)
    assert printed.count("weight gradients") == 2
    assert picture.read_bytes().startswith(b"\x89PNG")


def a_phase(begin, milliseconds, run="training", name="steps", layer=0):
    return profile_step.Phase(run, layer, 0, name, begin, milliseconds)


MADE_UP = [
    a_phase(0, 2, name="input product"),
    a_phase(2, 3),
    a_phase(5, 1, layer=1),
    a_phase(8, 2, run="backward"),
]


def with_made_up_phases(monkeypatch, calls, *arguments):
    """Runs the program, which records no step."""
    monkeypatch.setattr(profile_step, "read", lambda folder: (calls, MADE_UP))
    monkeypatch.setattr(profile_step.tf.profiler.experimental, "start", lambda folder: None)
    monkeypatch.setattr(profile_step.tf.profiler.experimental, "stop", lambda: None)
    return profile_step.main(["--units=2", "--steps=2", "--batch=1", "--features=1", *arguments])


def test_the_table_adds_phases_up(monkeypatch, capsys):
    assert with_made_up_phases(monkeypatch, {"training": 7.0, "backward": 3.0}) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["7.00", "ms", "forward"] in lines and ["3.00", "ms", "backward"] in lines
    phases = [line for line in lines if "layer" in line]
    assert phases == [
        ["3.00", "ms", "forward", "layer", "0", "steps"],
        ["2.00", "ms", "forward", "layer", "0", "input", "product"],
        ["2.00", "ms", "backward", "layer", "0", "steps"],
        ["1.00", "ms", "forward", "layer", "1", "steps"],
    ]
    assert lines[-1] == ["result:", "calls=2", "phases=4", "share=0.80"]


def test_calls_that_phases_do_not_explain_are_a_failure(monkeypatch, capsys):
    assert with_made_up_phases(monkeypatch, {"training": 8.0, "backward": 3.0}) == 1
    assert results.of(capsys.readouterr().out)["share"] == "0.73"


def test_the_picture_has_a_bar_for_each_phase_in_the_row_of_its_layer(monkeypatch, tmp_path):
    figures = []
    monkeypatch.setattr(
        profile_step.learning_curve, "save", lambda figure, path: figures.append(figure)
    )
    profile_step.draw(MADE_UP, str(tmp_path / "step.png"))
    [axes] = figures[0].axes
    bars = sorted(
        (bar.get_x(), bar.get_width(), round(bar.get_y() + bar.get_height() / 2))
        for bar in axes.patches
    )
    assert bars == [(0, 2, 0), (2, 3, 0), (5, 1, 1), (8, 2, 0)]
    assert [text.get_text() for text in axes.get_yticklabels()] == [
        "layer 0, direction 0",
        "layer 1, direction 0",
    ]
    pyplot.close(figures[0])


@pytest.mark.parametrize("option", ["batch", "steps", "features", "units"])
def test_mistake_is_told(option, capsys):
    with pytest.raises(SystemExit, match="2"):
        profile_step.main([f"--{option}=0"])
    assert f"--{option} must be at least 1; got 0" in capsys.readouterr().err


def test_overlapping_phases_count_once():
    phases = [a_phase(0, 4), a_phase(1, 2), a_phase(3, 2), a_phase(7, 1)]
    assert profile_step.time_with_a_phase(phases) == 6
