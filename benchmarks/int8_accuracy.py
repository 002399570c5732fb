"""What weights in int8 cost in accuracy, on the network that examples/streaming.py trains.

    python -m benchmarks.int8_accuracy

Prints the mean square error on held-out sequences, in multiples of the Kalman filter's: of the
network in float32, with `weights.quantize`, and as PyTorch and ONNX Runtime quantize it. Beside it
stands how far the network's outputs are from those of float32, in the mean square. Needs
.venv-peers for the last two (`python -m benchmarks.peers`).
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks import peers
from benchmarks.cases import Case
from tf_cudnn_rnn import weights

_ROOT = pathlib.Path(__file__).resolve().parents[1]


def _case(x: np.ndarray, layout: weights.Layout) -> Case:
    T, B, I = x.shape
    return Case("network", (), layout.rnn_mode, 1, 1, layout.num_units, 0, I, T, B, 0.0)


def _trained(units: int, steps: int):
    """The network's layer and what follows it, held-out sequences, and the filter's error."""
    sys.path.insert(0, str(_ROOT / "examples"))
    import keras
    import streaming

    keras.utils.set_random_seed(1)
    source = streaming.Pendulum(np.random.default_rng(1))
    sensors, positions = source.draw(200, 300)
    best = streaming.error(source.filtered(sensors), positions)
    options = argparse.Namespace(units=units, steps=steps)
    layer, dense = streaming.trained(source, options).layers
    canonical = weights.from_keras([layer.get_weights()], "lstm")

    def error(outputs: np.ndarray) -> float:
        kernel, bias = dense.get_weights()
        return streaming.error(outputs.swapaxes(0, 1) @ kernel + bias, positions) / best

    return canonical, np.ascontiguousarray(sensors.swapaxes(0, 1)), error


def _own(canonical: weights.Canonical, x: np.ndarray) -> dict[str, np.ndarray]:
    import tf_cudnn_rnn.runtime as runtime

    networks = {"float32": canonical, "this library, int8": weights.quantize(canonical)}
    return {
        name: runtime.Network(network)(x, time_major=True)[0] for name, network in networks.items()
    }


def _of_peers(canonical: weights.Canonical, x: np.ndarray) -> dict[str, np.ndarray]:
    """Runs this module in the environment of the peers."""
    if peers.python() is None:
        print("There is no .venv-peers: PyTorch and ONNX Runtime are left out.")
        return {}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "arrays.npz"
        np.savez(
            path,
            params=canonical.params,
            x=x,
            layout=json.dumps(dataclasses.asdict(canonical.layout)),
        )
        command = [peers.python(), "-m", "benchmarks.int8_accuracy", f"--peers={path}"]
        subprocess.run(command, check=True, cwd=_ROOT)
        with np.load(path) as arrays:
            return dict(arrays)


def _run_peers(path: pathlib.Path) -> None:
    """Replaces the arrays in a file by the outputs of the peers."""
    import onnxruntime
    import torch

    from benchmarks.drivers import onnx_runtime, pytorch

    with np.load(path) as arrays:
        params, x = arrays["params"], arrays["x"]
        layout = weights.Layout(**json.loads(str(arrays["layout"])))
    case = _case(x, layout)
    module = pytorch.module_of(case, torch.float32, params)
    with torch.inference_mode():
        y_torch, _ = pytorch.with_int8_weights(module)(torch.from_numpy(x))
    model = onnx_runtime.with_int8_weights(onnx_runtime.model_of(case, params))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    zeros = np.zeros([1, case.batch, case.num_units], np.float32)
    y_onnx = session.run(["y"], {"x": x, "h0_0": zeros, "c0_0": zeros})[0]
    np.savez(path, **{"PyTorch, int8": y_torch.numpy(), "ONNX Runtime, int8": y_onnx})


def main() -> None:
    """Trains, runs all, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--steps", type=int, default=300, help="of training")
    parser.add_argument("--peers", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peers:
        _run_peers(options.peers)
        return
    canonical, x, error = _trained(options.units, options.steps)
    outputs = _own(canonical, x) | _of_peers(canonical, x)
    print(f"\n{'':24}{'error':>9}{'difference from float32':>26}")
    for name, y in outputs.items():
        difference = float(np.sqrt(np.mean((y - outputs["float32"]) ** 2)))
        print(f"{name:24}{error(y):9.4f}{difference:26.1e}")


if __name__ == "__main__":
    main()
