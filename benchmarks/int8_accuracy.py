"""What weights in int8 cost in accuracy, on the networks of two examples.

    python -m benchmarks.int8_accuracy
    python -m benchmarks.int8_accuracy --char_lm=runs/char_lm

The first one trains the network of examples/streaming.py, and prints its mean square error on
held-out sequences, in multiples of the Kalman filter's. The second one takes what
examples/char_lm.py has trained, and prints bits per character of the held-out text. Both do so in
float32, with `weights.quantize`, and as PyTorch and ONNX Runtime quantize the network. Beside it
stands how far the network's outputs are from those of float32, in the mean square. Needs
.venv-peers for the last two (`python -m benchmarks.peers`), and leaves out what does not quantize
the kind of network: PyTorch quantizes LSTM and GRU, ONNX Runtime LSTM. Exits with 1 if this
library's outputs are further from float32's than PyTorch's are.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from benchmarks import options as option_types
from benchmarks import peers
from benchmarks.cases import Case
from tf_cudnn_rnn import weights

_OWN, _PYTORCH, _ONNX = "this library, int8", "PyTorch, int8", "ONNX Runtime, int8"
# What a peer quantizes; of other networks it would compute in float32.
_QUANTIZED = {_PYTORCH: ("lstm", "gru"), _ONNX: ("lstm",)}
_ROOT = pathlib.Path(__file__).resolve().parents[1]


class Trained(NamedTuple):
    """A network, and what it is for.

    Attributes:
      canonical: its weights; one direction.
      x: held-out sequences, [T, B, I].
      error: of the outputs [T, B, H].
      unit: of the error.
    """

    canonical: weights.Canonical
    x: np.ndarray
    error: Callable[[np.ndarray], float]
    unit: str


def _case(x: np.ndarray, layout: weights.Layout) -> Case:
    T, B, I = x.shape
    L, H = layout.num_layers, layout.num_units
    return Case("network", (), layout.rnn_mode, L, 1, H, 0, I, T, B, 0.0)


def _streaming(units: int, steps: int) -> Trained:
    """The network of examples/streaming.py, trained for so many steps."""
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

    x = np.ascontiguousarray(sensors.swapaxes(0, 1))
    return Trained(canonical, x, error, "error / filter's")


def of_char_lm(folder: str | pathlib.Path) -> Trained:
    """The network that examples/char_lm.py has left in a folder."""
    import char_lm_corpus
    import tensorflow as tf
    from char_lm_options import RunDirectory

    import tf_cudnn_rnn  # noqa: F401 runs the ops of the saved model

    directory = RunDirectory(folder)
    options, _ = directory.read_run()
    corpus = char_lm_corpus.load(options.corpus)
    streams = corpus.held_out_streams(num_streams=16, steps=len(corpus.held_out))
    [chunk] = streams  # whole streams, from a state of zeros
    model = tf.saved_model.load(str(directory.saved_model)).model
    canonical = weights.from_cudnn(
        model.rnn_params.numpy(),
        rnn_mode=options.model.lower(),
        num_layers=options.nlayers,
        num_units=options.nhid,
        input_size=options.emsize,
    )

    def bits(outputs: np.ndarray) -> float:
        logits = tf.tensordot(outputs, model.softmax_kernel, 1) + model.softmax_bias
        nats = tf.nn.sparse_softmax_cross_entropy_with_logits(chunk.targets, logits).numpy()
        total = float(np.sum(nats[chunk.valid], dtype=np.float64))
        return streams.bits_per_character(total, chunk.num_unknown)

    return Trained(canonical, model.embedding.numpy()[chunk.inputs], bits, "bits a character")


def _of_char_lm_or_exit(folder: str) -> Trained:
    from char_lm_corpus import CorpusError
    from char_lm_options import UsageError

    try:
        return of_char_lm(folder)
    except (CorpusError, OSError, UsageError) as error:
        sys.exit(f"benchmarks.int8_accuracy: --char_lm={folder}: {error}")


def _own(canonical: weights.Canonical, x: np.ndarray) -> dict[str, np.ndarray]:
    import tf_cudnn_rnn.runtime as runtime

    networks = {"float32": canonical, _OWN: weights.quantize(canonical)}
    return {
        name: runtime.Network(network)(x, time_major=True)[0] for name, network in networks.items()
    }


def peers_of(rnn_mode: str) -> list[str]:
    """The peers that quantize such a network."""
    return [peer for peer, modes in _QUANTIZED.items() if rnn_mode in modes]


def _of_peers(canonical: weights.Canonical, x: np.ndarray) -> dict[str, np.ndarray]:
    """Runs this module in the environment of the peers."""
    able = peers_of(canonical.layout.rnn_mode)
    for peer in sorted(set(_QUANTIZED) - set(able)):
        print(f"{peer}: left out, as it does not quantize {canonical.layout.rnn_mode}.")
    if not able:
        return {}
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
    with np.load(path) as arrays:
        params, x = arrays["params"], arrays["x"]
        layout = weights.Layout(**json.loads(str(arrays["layout"])))
    case = _case(x, layout)
    outputs = {
        peer: run(case, params, x)
        for peer, run in ((_PYTORCH, _in_pytorch), (_ONNX, _in_onnx_runtime))
        if peer in peers_of(layout.rnn_mode)
    }
    np.savez(path, **outputs)


def _in_pytorch(case: Case, params: np.ndarray, x: np.ndarray) -> np.ndarray:
    import torch

    from benchmarks.drivers import pytorch

    module = pytorch.module_of(case, torch.float32, params)
    with torch.inference_mode():
        y, _ = pytorch.with_int8_weights(module)(torch.from_numpy(x))
    return y.numpy()


def _in_onnx_runtime(case: Case, params: np.ndarray, x: np.ndarray) -> np.ndarray:
    import onnxruntime

    from benchmarks.drivers import onnx_runtime

    model = onnx_runtime.with_int8_weights(onnx_runtime.model_of(case, params))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    zeros = np.zeros([1, case.batch, case.num_units], np.float32)
    states = {node.name: zeros for node in session.get_inputs() if node.name != "x"}
    return session.run(["y"], {"x": x, **states})[0]


def main() -> None:
    """Runs all, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--units", type=option_types.from_1, default=128)
    parser.add_argument("--steps", type=option_types.from_1, default=300, help="of training")
    parser.add_argument("--char_lm", metavar="FOLDER", help="what examples/char_lm.py has written")
    parser.add_argument("--peers", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peers:
        _run_peers(options.peers)
        return
    sys.path.insert(0, str(_ROOT / "examples"))
    if options.char_lm:
        trained = _of_char_lm_or_exit(options.char_lm)
    else:
        trained = _streaming(options.units, options.steps)
    canonical, x, error, unit = trained
    outputs = _own(canonical, x) | _of_peers(canonical, x)
    print(f"\n{'':24}{unit:>18}{'difference from float32':>26}")
    differences = {
        name: float(np.sqrt(np.mean((y - outputs["float32"]) ** 2))) for name, y in outputs.items()
    }
    for name, y in outputs.items():
        print(f"{name:24}{error(y):18.4f}{differences[name]:26.1e}")
    if _PYTORCH in outputs:
        passes = differences[_OWN] <= differences[_PYTORCH]
        print(f"no further from float32 than PyTorch's: {'pass' if passes else 'FAIL'}")
        sys.exit(not passes)


if __name__ == "__main__":
    main()
