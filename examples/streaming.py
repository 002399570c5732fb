"""Trains a network, exports it, and streams it one step at a time, without TensorFlow.

Eight sensors see a pendulum that is pushed at random, each through noise. The network says at
every step where the pendulum is, from what the sensors have said so far. The program

1. trains an LSTM with Keras and this library,
2. writes it by `export_runtime`, and loads it with `tf_cudnn_rnn.runtime`,
3. streams held-out sensors through it: the answers must be those of the Keras model,
4. measures how long a step takes, in Python and in C, beside ONNX Runtime and TensorFlow.

  python examples/streaming.py
  python examples/streaming.py --units=256 --latency_steps=10000 --picture=latency.png

Of such a source the best possible estimate is known: the Kalman filter, which is told all that
the network has to learn. The program fails unless the network's mean square error is at most
1.1 times the filter's. What one look at the sensors tells, without the past, is far worse.

C is measured where there is gcc, ONNX Runtime where the packages onnx and onnxruntime are.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import keras
import learning_curve
import numpy as np
import tensorflow as tf

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import runtime, weights

REQUIRED = 1.1  # times the error of the Kalman filter
SENSORS = 8
PERCENTS = (50, 99, 99.9)
_STREAM_C = pathlib.Path(__file__).parent / "runtime" / "stream.c"


class Pendulum:
    """A linear source: what moves, and what the sensors see of it.

    Attributes:
      turn: [2, 2], from one state (position, velocity) to the next, before the push.
      gains: [SENSORS, 2], how each sensor sees the state.
      push, noise: standard deviations, of each element of the state and of each sensor.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        angle = 0.2
        self.turn = 0.98 * np.array(
            [[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]
        )
        self.gains = rng.normal(size=[SENSORS, 2])
        self.push, self.noise = 0.1, 2.0
        self._rng = rng

    def draw(self, count: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
        """Sensors [count, steps, SENSORS], and positions [count, steps, 1]."""
        states = np.zeros([count, steps, 2])
        state = self._rng.normal(scale=0.5, size=[count, 2])
        for t in range(steps):
            state = state @ self.turn.T + self.push * self._rng.normal(size=[count, 2])
            states[:, t] = state
        sensors = states @ self.gains.T
        sensors += self.noise * self._rng.normal(size=sensors.shape)
        return sensors.astype(np.float32), states[..., :1].astype(np.float32)

    def filtered(self, sensors: np.ndarray) -> np.ndarray:
        """The Kalman filter's estimates of the positions: the best that the past can give."""
        state = np.zeros([len(sensors), 2])
        covariance = 0.25 * np.eye(2)
        estimates = np.zeros([*sensors.shape[:2], 1])
        for t in range(sensors.shape[1]):
            state = state @ self.turn.T
            covariance = self.turn @ covariance @ self.turn.T + self.push**2 * np.eye(2)
            seen = self.gains @ covariance @ self.gains.T + self.noise**2 * np.eye(SENSORS)
            gain = covariance @ self.gains.T @ np.linalg.inv(seen)
            state = state + (sensors[:, t] - state @ self.gains.T) @ gain.T
            covariance = (np.eye(2) - gain @ self.gains) @ covariance
            estimates[:, t, 0] = state[:, 0]
        return estimates

    def glanced(self, sensors: np.ndarray) -> np.ndarray:
        """The best estimates of the positions from one step's sensors alone."""
        # The state's covariance in the long run is a multiple of the identity, as it only turns.
        variance = self.push**2 / (1 - 0.98**2)
        seen = variance * self.gains @ self.gains.T + self.noise**2 * np.eye(SENSORS)
        return sensors @ np.linalg.solve(seen, variance * self.gains[:, :1])


def error(estimates: np.ndarray, positions: np.ndarray) -> float:
    """The mean square error, without the first steps, which have no past."""
    return float(np.mean((estimates - positions)[:, 20:] ** 2))


def trained(source: Pendulum, options: argparse.Namespace) -> keras.Model:
    model = keras.Sequential(
        [
            keras.Input([None, SENSORS]),
            tf_cudnn_rnn.keras.LSTM(options.units, return_sequences=True),
            keras.layers.Dense(1),
        ]
    )
    rates = keras.optimizers.schedules.CosineDecay(3e-3, options.steps)
    model.compile(keras.optimizers.Adam(rates), "mse")
    for step in range(1, options.steps + 1):
        loss = model.train_on_batch(*source.draw(32, 150))
        if step % 50 == 0 or step == options.steps:
            print(f"step {step} of {options.steps}: mean square error {float(loss):.4f}")
    return model


def streamed(network: runtime.Network, dense: list[np.ndarray], sensors: np.ndarray) -> np.ndarray:
    """The estimates for one sequence [T, SENSORS], a step at a time."""
    kernel, bias = dense
    stream = network.stream()
    return np.array([stream.step(frame) @ kernel + bias for frame in sensors])


# ------------------------------------------------------------------------------------
# How long a step takes
# ------------------------------------------------------------------------------------


class Latency(NamedTuple):
    """Microseconds of a step, below which so many per cent are: PERCENTS."""

    name: str
    percentiles: list[float]


def timed(name: str, step, frames: np.ndarray, steps: int) -> Latency:
    """Calls `step` with one frame after another, over and over."""
    times = np.empty(steps)
    for i in range(-min(steps, 1000), steps):  # the first ones warm up
        frame = frames[i % len(frames)]
        begin = time.perf_counter()
        step(frame)
        times[i] = time.perf_counter() - begin
    return Latency(name, list(np.percentile(times, PERCENTS) * 1e6))


def in_c(path: pathlib.Path, steps: int) -> Latency | None:
    """What examples/runtime/stream.c says of itself, if there is a compiler."""
    if shutil.which("gcc") is None:
        print("There is no gcc: C is left out.")
        return None
    folder = runtime.include_path()
    program = path.with_name("stream")
    flags = [f"-I{folder}", f"-L{folder}", f"-Wl,-rpath,{folder}", "-lrnn_runtime", "-lm"]
    subprocess.run(["gcc", "-O2", _STREAM_C, *flags, "-o", program], check=True)
    said = subprocess.run(
        [program, path, str(steps)], check=True, capture_output=True, text=True
    ).stderr
    numbers = re.search(r"median ([\d.]+) us, 99 % below ([\d.]+) us, 99.9 % below ([\d.]+)", said)
    return Latency("this library's runtime, C", [float(number) for number in numbers.groups()])


def in_onnx_runtime(
    canonical: weights.Canonical, frames: np.ndarray, steps: int, path: pathlib.Path
) -> Latency | None:
    """The same layer as a node of ONNX, whose states go in and out."""
    try:
        import onnx
        import onnxruntime
    except ImportError as missing:
        print(f"There is no package {missing.name}: ONNX Runtime is left out.")
        return None
    (node,), _ = weights.to_onnx(canonical)
    constants = [
        onnx.numpy_helper.from_array(array, name)
        for name, array in {"W": node.W, "R": node.R, "B": node.B}.items()
    ]
    I, H = canonical.layout.input_size, canonical.layout.num_units
    shapes = {"x": [1, 1, I], "h": [1, 1, H], "c": [1, 1, H]}
    outputs = {"y": [1, 1, 1, H], "h_n": [1, 1, H], "c_n": [1, 1, H]}

    def infos(shapes):
        return [
            onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
            for name, shape in shapes.items()
        ]

    lstm = onnx.helper.make_node(
        node.op_type, ["x", "W", "R", "B", "", "h", "c"], list(outputs), **node.attributes
    )
    graph = onnx.helper.make_graph([lstm], "step", infos(shapes), infos(outputs), constants)
    versions = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=versions, ir_version=8), path)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    states = {"h": np.zeros([1, 1, H], np.float32), "c": np.zeros([1, 1, H], np.float32)}

    def step(frame):
        feeds = {"x": frame[np.newaxis, np.newaxis], **states}
        _, states["h"], states["c"] = session.run(None, feeds)

    return timed("ONNX Runtime, Python", step, frames, steps)


def in_tensorflow(
    layer: keras.layers.Layer, params: np.ndarray, frames: np.ndarray, steps: int
) -> list[Latency]:
    """The same layer in TensorFlow, called in four ways."""
    one = tf_cudnn_rnn.keras.LSTM(layer.units, return_state=True)
    one.build([1, 1, SENSORS])
    one.set_weights(layer.get_weights())
    vector, lengths = tf.constant(params), tf.constant([1])

    def eager(x, h, c):
        return one(x, initial_state=[h, c])[1:]

    def eager_op(x, h, c):
        result = tf_cudnn_rnn.raw_ops.CudnnRNNV3(
            input=x,
            input_h=h,
            input_c=c,
            params=vector,
            sequence_lengths=lengths,
            is_training=False,
        )
        return result.output_h, result.output_c

    state = tf.TensorSpec([1, layer.units])
    function = tf.function(eager, input_signature=[tf.TensorSpec([1, 1, SENSORS]), state, state])
    latencies = []
    for name, call, shape in [
        ("op called eagerly", eager_op, [1, 1, layer.units]),
        ("concrete function", function.get_concrete_function(), [1, layer.units]),
        ("tf.function", function, [1, layer.units]),
        ("layer called eagerly", eager, [1, layer.units]),
    ]:
        states = [tf.zeros(shape)] * 2

        def step(frame, call=call, states=states):
            states[:] = call(tf.constant(frame[np.newaxis, np.newaxis]), *states)

        latencies.append(timed(f"TensorFlow, {name}", step, frames, steps))
    return latencies


def draw(latencies: list[Latency], units: int, path: str) -> None:
    """Draws the percentiles of each; prints where, or why not."""
    if not path:
        return
    pyplot = learning_curve.drawing_by()
    if pyplot is None:
        return
    from matplotlib import ticker

    figure, axes = pyplot.subplots(figsize=(8, 1.4 + 0.5 * len(latencies)), layout="constrained")
    markers = dict(zip(PERCENTS, "o|x", strict=True))
    for row, latency in enumerate(reversed(latencies)):
        colour = "tab:red" if "this library" in latency.name else "tab:gray"
        axes.plot(latency.percentiles, [row] * len(PERCENTS), color=colour)
        for percent, value in zip(PERCENTS, latency.percentiles, strict=True):
            axes.plot(value, row, color=colour, marker=markers[percent], markersize=8, linestyle="")
    for percent, marker in markers.items():
        label = "median" if percent == 50 else f"{percent} % are below"
        axes.plot([], [], color="black", marker=marker, linestyle="", label=label)
    axes.set_yticks(range(len(latencies)), [latency.name for latency in reversed(latencies)])
    axes.set_ylim(-0.6, len(latencies) - 0.4)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("microseconds")
    axes.set_title(f"One step of an LSTM of {units} units, batch 1")
    axes.grid(alpha=0.3, axis="x", which="both")
    figure.legend(loc="outside lower center", ncols=len(PERCENTS), frameon=False)
    learning_curve.save(figure, path)


# ------------------------------------------------------------------------------------


def main(argv: list[str] | None = None) -> int:
    options = _options(argv)
    keras.utils.set_random_seed(options.seed)
    source = Pendulum(np.random.default_rng(options.seed))
    sensors, positions = source.draw(200, 300)
    best = error(source.filtered(sensors), positions)
    glance = error(source.glanced(sensors), positions)
    print(f"held out: Kalman filter {best:.4f}, one look alone {glance:.4f}")

    model = trained(source, options)
    layer, dense = model.layers
    estimates = model.predict(sensors, verbose=0)
    reached = error(estimates, positions)
    print(f"held out: network {reached:.4f}, {reached / best:.2f} times the Kalman filter's")

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "network.safetensors"
        tf_cudnn_rnn.keras.export_runtime(layer, path)
        network = runtime.Network.load(path)
        answers = streamed(network, dense.get_weights(), sensors[0])
        apart = float(np.abs(answers - estimates[0]).max())
        print(f"streamed: {len(answers)} steps, at most {apart:.1e} from the Keras model's answers")

        steps = options.latency_steps
        canonical = weights.from_keras([layer.get_weights()], "lstm")
        measured = [
            in_c(path, steps),
            timed("this library's runtime, Python", network.stream().step, sensors[0], steps),
            in_onnx_runtime(canonical, sensors[0], steps, path.with_suffix(".onnx")),
            *in_tensorflow(layer, weights.to_cudnn(canonical)[0], sensors[0], max(steps // 10, 1)),
        ]
    latencies = [latency for latency in measured if latency is not None]
    print("\nmicroseconds of a step:           median   99 %  99.9 % are below")
    for latency in latencies:
        numbers = "".join(f"{value:8.1f}" for value in latency.percentiles)
        print(f"{latency.name:32}{numbers}")
    draw(latencies, options.units, options.picture)

    medians = {latency.name: latency.percentiles[0] for latency in latencies}
    python = medians["this library's runtime, Python"]
    print(
        f"result: of_kalman={reached / best:.3f} glance_of_kalman={glance / best:.3f} "
        f"apart={apart:.1e} python_us={python:.1f}"
    )
    return int(reached > REQUIRED * best or apart > 1e-4)


def _options(argv: list[str] | None) -> argparse.Namespace:
    description, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--latency_steps", type=int, default=100_000, help="to measure")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--picture", default="runs/streaming.png", help='where to draw latencies; "" for nowhere'
    )
    options = parser.parse_args(argv)
    for name in ("units", "steps", "latency_steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    return options


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(main())
