"""Records one training step with TensorFlow's profiler, and tells where its time went.

  python examples/profile_step.py
  python examples/profile_step.py --picture=step.png --units=256

While a trace runs, each call of this library is a range, and so is each phase of each layer
and direction: packing of weights, the product with the input, the steps, the gradients of
weights and of the input. The program adds them up, and draws them on a line of time. The same
trace opens in TensorBoard (with its profile plugin), from the folder --trace.

It fails if the phases explain less than three quarters of the time of the library's calls.
"""

import argparse
import collections
import dataclasses
import pathlib
import re
import sys
import tempfile

import keras
import learning_curve
import number_options
import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from tf_cudnn_rnn.keras import CudnnRNN

REQUIRED_SHARE = 0.75
_CALL = re.compile(r"tf_cudnn_rnn (training|backward) .* T=.*")
_PHASE = re.compile(r"tf_cudnn_rnn (\w+), layer (\d+), direction (\d+), ([a-z ]+)")
_PICOSECONDS = 1e-9  # as milliseconds
_COLOURS = {
    "pack weights": "#999999",
    "input product": "#4477aa",
    "steps": "#ee6677",
    "weight gradients": "#228833",
    "input gradient": "#ccbb44",
}


@dataclasses.dataclass(frozen=True)
class Phase:
    """A range of the trace: what was done for one direction of one layer."""

    run: str  # "training", which is forward, or "backward"
    layer: int
    direction: int
    name: str
    begin: float  # milliseconds from the beginning of the first call
    milliseconds: float


def main(arguments=None) -> int:
    options = _options(arguments)
    model, x, y = _network(options)
    for _ in range(3):  # traced and warm
        model.train_on_batch(x, y)
    with tempfile.TemporaryDirectory() as folder:
        folder = options.trace or folder
        tf.profiler.experimental.start(str(folder))
        model.train_on_batch(x, y)
        tf.profiler.experimental.stop()
        calls, phases = read(pathlib.Path(folder))
    _print(calls, phases)
    if options.picture:
        draw(phases, str(options.picture))
    share = time_with_a_phase(phases) / sum(calls.values())
    print(f"result: calls={len(calls)} phases={len(phases)} share={share:.2f}")
    return int(share < REQUIRED_SHARE)


def read(folder: pathlib.Path) -> tuple[dict[str, float], list[Phase]]:
    """The milliseconds of each call, and all phases, of the newest trace in a folder."""
    path = max(folder.rglob("*.xplane.pb"), key=lambda it: it.stat().st_mtime)
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    events = [
        (
            plane.event_metadata[event.metadata_id].name,
            line.timestamp_ns * 1000 + event.offset_ps,
            event.duration_ps * _PICOSECONDS,
        )
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    ]
    calls = [
        (begin, time, match[1]) for name, begin, time in events if (match := _CALL.match(name))
    ]
    start = min(begin for begin, *_ in calls)
    phases = [
        Phase(
            match[1], int(match[2]), int(match[3]), match[4], (begin - start) * _PICOSECONDS, time
        )
        for name, begin, time in events
        if (match := _PHASE.fullmatch(name))
    ]
    return {name: time for _, time, name in calls}, sorted(phases, key=lambda it: it.begin)


def time_with_a_phase(phases: list[Phase]) -> float:
    """The milliseconds in which at least one phase ran: they nest, and run at the same time."""
    total, end = 0.0, 0.0
    for phase in phases:
        phase_end = phase.begin + phase.milliseconds
        total += max(0.0, phase_end - max(end, phase.begin))
        end = max(end, phase_end)
    return total


def _print(calls: dict[str, float], phases: list[Phase]) -> None:
    print("This library's calls in the step took:")
    for name, time in calls.items():
        print(f"{time:9.2f} ms  {'forward' if name == 'training' else name}")
    milliseconds = collections.Counter()
    for phase in phases:
        milliseconds[phase.run, phase.name, phase.layer] += phase.milliseconds
    print("\nThe phases in them (of all threads together; packing may lie inside others):")
    for (run, name, layer), time in milliseconds.most_common():
        run = "forward" if run == "training" else run
        print(f"{time:9.2f} ms  {run:8}  layer {layer}  {name}")


def draw(phases: list[Phase], path: str) -> None:
    """Draws the phases on a line of time; prints where, or why not."""
    pyplot = learning_curve.drawing_by()
    if pyplot is None:
        return
    rows = sorted({(phase.layer, phase.direction) for phase in phases})
    figure, axes = pyplot.subplots(figsize=(10, 1.6 + 0.5 * len(rows)), layout="constrained")
    labelled = set()
    for phase in phases:
        axes.barh(
            rows.index((phase.layer, phase.direction)),
            phase.milliseconds,
            left=phase.begin,
            height=0.4 if phase.name == "pack weights" else 0.8,
            color=_COLOURS[phase.name],
            label=None if phase.name in labelled else phase.name,
        )
        labelled.add(phase.name)
    turn = min(phase.begin for phase in phases if phase.run == "backward")
    axes.axvline(turn, color="black", linewidth=0.8, linestyle=":")
    axes.text(turn, len(rows) - 0.45, " backward", va="top")
    axes.text(0, len(rows) - 0.45, " forward", va="top")
    axes.set_ylim(-0.6, len(rows) - 0.2)
    axes.set_yticks(range(len(rows)), [f"layer {k}, direction {d}" for k, d in rows])
    axes.set_xlabel("milliseconds since the forward call began")
    axes.set_title("One training step of a bidirectional stack")
    figure.legend(loc="outside lower center", ncols=len(labelled), frameon=False)
    learning_curve.save(figure, path)


def _network(options):
    rng = np.random.default_rng(1)
    shape = [options.batch, options.steps, options.features]
    model = keras.Sequential(
        [
            keras.Input(shape[1:]),
            CudnnRNN(options.units, num_layers=2, rnn_mode="lstm", direction="bidirectional"),
            keras.layers.Dense(1),
        ]
    )
    model.compile("sgd", "mse")
    return model, rng.normal(size=shape).astype(np.float32), np.zeros([options.batch, 1])


def _options(arguments):
    description, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--batch", type=int, default=32, help="sequences of a step of training (%(default)s)"
    )
    parser.add_argument(
        "--steps", type=int, default=100, help="time steps of a sequence (%(default)s)"
    )
    parser.add_argument("--features", type=int, default=64, help="of each time step (%(default)s)")
    parser.add_argument("--units", type=int, default=128, help="of the LSTM (%(default)s)")
    parser.add_argument("--picture", type=pathlib.Path, help="a file such as step.png to draw into")
    parser.add_argument("--trace", type=pathlib.Path, help="a folder to leave the trace in")
    options = parser.parse_args(arguments)
    number_options.check(parser, options, batch=1, steps=1, features=1, units=1)
    return options


if __name__ == "__main__":
    sys.exit(main())
