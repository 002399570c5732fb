"""What TensorFlow's profiler records of a call."""

import collections
import pathlib
import re

import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import subprocesses

# Not at the same place in all versions of TensorFlow.
xplane_pb2 = pytest.importorskip("tensorflow.tsl.profiler.protobuf.xplane_pb2")

T, B, I, H, L = 60, 16, 32, 64, 2


def _train(folder: str | None) -> None:
    """A training step and an inference of a network; recorded, if there is a folder."""
    layer = tf_cudnn_rnn.keras.CudnnRNN(
        H, rnn_mode="lstm", num_layers=L, direction="bidirectional", return_sequences=True
    )
    x = tf.random.stateless_normal([B, T, I], [1, 2])
    layer(x)
    if folder:
        tf.profiler.experimental.start(folder)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x, training=True))
    tape.gradient(loss, layer.trainable_variables)
    layer(x, training=False)
    if folder:
        tf.profiler.experimental.stop()


def _ranges(folder) -> list:
    """(thread, name, begin, end) of what the library recorded, in picoseconds."""
    (path,) = pathlib.Path(folder).rglob("*.xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    ranges = []
    for plane in space.planes:
        names = {key: metadata.name for key, metadata in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                name = names[event.metadata_id]
                if name.startswith("tf_cudnn_rnn "):
                    begin = line.timestamp_ns * 1000 + event.offset_ps
                    ranges.append((line.id, name, begin, begin + event.duration_ps))
    return ranges


# Two threads take a direction each; each of four takes a part of the batch through all layers.
@pytest.fixture(scope="module", params=[2, 4])
def ranges(tmp_path_factory, request):
    folder = tmp_path_factory.mktemp("trace")
    environment = {"TF_NUM_INTRAOP_THREADS": str(request.param)}
    subprocesses.run(_train, str(folder), environment=environment)
    return _ranges(folder)


def test_each_call_is_a_range_that_tells_its_plan(ranges):
    calls = [name for _, name, *_ in ranges if " T=" in name]
    assert sorted(name.split()[1] for name in calls) == ["backward", "inference", "training"]
    for name in calls:
        assert f" lstm float32 {tf_cudnn_rnn.instruction_set()} T={T} B={B} " in name


def _phase_of(name: str) -> tuple[str | None, str | None]:
    """The pseudo-layer and the phase that a range is named by, if it is."""
    match = re.fullmatch(r"(tf_cudnn_rnn \w+, layer \d+, direction \d+)(?:, ([a-z ]+))?", name)
    return (match[1], match[2]) if match else (None, None)


_PHASES = {
    "training": ("input product", "pack weights", "steps"),
    "inference": ("input product", "pack weights", "steps"),
    "backward": ("input gradient", "pack weights", "steps", "weight gradients"),
}


def test_each_phase_of_each_pseudo_layer_is_a_range(ranges):
    phases = collections.defaultdict(set)
    for _, name, *_ in ranges:
        pseudo_layer, phase = _phase_of(name)
        if phase:
            phases[pseudo_layer].add(phase)
    assert {key: tuple(sorted(value)) for key, value in phases.items()} == {
        f"tf_cudnn_rnn {name}, layer {layer}, direction {direction}": expected
        for name, expected in _PHASES.items()
        for layer in range(L)
        for direction in range(2)
    }


def test_ranges_lie_inside_one_another(ranges):
    by_name = collections.defaultdict(list)
    for thread, name, begin, end in ranges:
        by_name[name].append((thread, begin, end))
    calls = {name.split()[1]: spans for name, spans in by_name.items() if " T=" in name}
    num_checked = 0
    for name, spans in by_name.items():
        pseudo_layer, phase = _phase_of(name)
        for thread, begin, end in spans:
            if phase:
                outer = by_name[pseudo_layer]
                lies_inside = any(o[0] == thread and o[1] <= begin and end <= o[2] for o in outer)
                # Where threads take parts of the batch, weights are packed before all layers.
                is_before = end <= min(o[1] for o in outer) and "backward" not in name
                assert lies_inside or (phase == "pack weights" and is_before), name
            elif pseudo_layer:
                # Directions that run at the same time are on threads of their own.
                outer = calls[name.split()[1].rstrip(",")]
                assert any(o[1] <= begin and end <= o[2] for o in outer), name
            num_checked += 1
    assert num_checked > 3 * L * 2
