"""A step of training under the profiler."""

import profile_step

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


def test_overlapping_phases_count_once():
    def phase(begin, milliseconds):
        return profile_step.Phase("training", 0, 0, "steps", begin, milliseconds)

    phases = [phase(0, 4), phase(1, 2), phase(3, 2), phase(7, 1)]
    assert profile_step.time_with_a_phase(phases) == 6
