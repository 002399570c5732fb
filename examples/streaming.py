"""Trains a network, exports it, and streams it one step at a time, without TensorFlow.

Eight sensors see a pendulum that is pushed at random, each through noise. The network says at
every step where the pendulum is, from what the sensors have said so far. The program

1. trains an LSTM with Keras and this library,
2. writes it by `export_runtime`, and loads it with `tf_cudnn_rnn.runtime`,
3. streams held-out sensors through it: the answers must be those of the Keras model,
4. streams the same sensors in C (examples/runtime/stream.c): the outputs must have the same bits,
5. measures how long a step takes, in Python and in C, beside ONNX Runtime and TensorFlow.

  python examples/streaming.py
  python examples/streaming.py --units=256 --latency_steps=10000 --picture=latency.png

Of such a source the best possible estimate is known: the Kalman filter, which is told all that
the network has to learn. The program fails unless the network's mean square error is at most
1.1 times the filter's. What one look at the sensors tells, without the past, is far worse.

C is streamed and measured where there is gcc, ONNX Runtime where the packages onnx and
onnxruntime are. streaming_latency.py has how each is called.
"""

import argparse
import os
import pathlib
import sys
import tempfile

import keras
import number_options
import numpy as np
import streaming_latency

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import runtime, weights

REQUIRED = 1.1  # times the error of the Kalman filter
SENSORS = 8
PYTHON = "this library's runtime, Python"


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


def streamed(network: runtime.Network, sensors: np.ndarray) -> np.ndarray:
    """The network's outputs for one sequence [T, SENSORS], a step at a time."""
    stream = network.stream()
    return np.array([stream.step(frame) for frame in sensors])


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

    frames, steps = sensors[0], options.latency_steps
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "network.safetensors"
        tf_cudnn_rnn.keras.export_runtime(layer, path)
        network = runtime.Network.load(path)
        outputs = streamed(network, frames)
        kernel, bias = dense.get_weights()
        apart = float(np.abs(outputs @ kernel + bias - estimates[0]).max())
        print(f"streamed: {len(outputs)} steps, at most {apart:.1e} from the Keras model's answers")

        canonical = weights.from_keras([layer.get_weights()], "lstm")
        params, _ = weights.to_cudnn(canonical)
        few = max(steps // 10, 1)  # of TensorFlow, whose steps take up to two milliseconds
        measured = [
            streaming_latency.timed(PYTHON, network.stream().step, frames, steps),
            streaming_latency.in_onnx_runtime(canonical, frames, steps, folder),
            *streaming_latency.in_tensorflow(layer, params, frames, few),
        ]
        same_bits = True
        if streaming_latency.has_compiler():
            in_c, outputs_of_c = streaming_latency.in_c(path, frames, steps)
            same_bits = outputs_of_c.tobytes() == outputs.tobytes()
            print(f"streamed in C: {'the same' if same_bits else 'other'} bits")
            measured += [in_c, streaming_latency.in_tensorflow_c(layer, frames[0], few, folder)]
    latencies = [latency for latency in measured if latency is not None]
    latencies.sort(key=lambda latency: latency.median)
    streaming_latency.print_table(latencies)
    streaming_latency.draw(latencies, options.units, options.picture)

    (python,) = [latency.median for latency in latencies if latency.name == PYTHON]
    print(
        f"result: of_kalman={reached / best:.3f} glance_of_kalman={glance / best:.3f} "
        f"required={REQUIRED} apart={apart:.1e} python_us={python:.1f}"
    )
    if reached > REQUIRED * best:
        print(f"above the required {REQUIRED} of Kalman: train longer (--steps)", file=sys.stderr)
    elif apart > 1e-4 or not same_bits:
        print("the runtime gives other results than the layer", file=sys.stderr)
    else:
        return 0
    return 1


def _options(argv: list[str] | None) -> argparse.Namespace:
    description, _, details = __doc__.partition("\n\n")
    parser = argparse.ArgumentParser(
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--units", type=int, default=128, help="of the LSTM (%(default)s)")
    parser.add_argument("--steps", type=int, default=300, help="of training (%(default)s)")
    parser.add_argument(
        "--latency_steps", type=int, default=100_000, help="to measure (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of weights and signals (%(default)s)")
    parser.add_argument(
        "--picture", default="runs/streaming.png", help='where to draw latencies; "" for nowhere'
    )
    options = parser.parse_args(argv)
    number_options.check(parser, options, units=1, steps=1, latency_steps=1)
    return options


if __name__ == "__main__":
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    sys.exit(main())
