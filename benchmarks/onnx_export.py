"""How fast ONNX Runtime runs what `export_onnx` writes, beside what Keras' own export does.

    python -m benchmarks.onnx_export                    LSTM, GRU and SimpleRNN, 128 units
    python -m benchmarks.onnx_export --threads=2 --steps=30

Each model is one stock layer of Keras, of 64 features, with its last output, exported in both ways;
with a mask, too, of rows that are padded at the end. Prints the medians of rounds in which both
run in turns.
"""

import argparse
import itertools
import pathlib
import tempfile
import time

import keras
import numpy as np
import onnx
import onnxruntime

import tf_cudnn_rnn.keras
from benchmarks import machine

LAYERS = ("LSTM", "GRU", "SimpleRNN")
FEATURES = 64
SECONDS = 0.2  # of a file in a round


def exported(layer: str, masked: bool, units: int, folder: pathlib.Path) -> tuple[str, str]:
    """Writes a model in both ways: Keras' file, and that of export_onnx."""
    layers = [keras.Input([None, FEATURES]), getattr(keras.layers, layer)(units)]
    if masked:
        layers.insert(1, keras.layers.Masking())
    model = keras.Sequential(layers)
    model(np.zeros([1, 2, FEATURES], np.float32))
    paths = str(folder / "keras.onnx"), str(folder / "nodes.onnx")
    model.export(paths[0], format="onnx", verbose=False)
    tf_cudnn_rnn.keras.export_onnx(model, paths[1])
    return paths


def session(path: str, threads: int) -> onnxruntime.InferenceSession:
    """Loads a file."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def medians(sessions, x: np.ndarray, rounds: int) -> list[float]:
    """The milliseconds of a call of each session."""
    calls = [lambda s=s: s.run(None, {s.get_inputs()[0].name: x})[0] for s in sessions]
    np.testing.assert_allclose(calls[0](), calls[1](), rtol=0, atol=1e-5)
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, own in zip(calls, times, strict=True):
            end = time.perf_counter() + SECONDS
            while (start := time.perf_counter()) < end:
                call()
                own.append(1e3 * (time.perf_counter() - start))
    return [float(np.median(own)) for own in times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()

    cpu = machine.stamp(args.threads, [])["cpu"]
    print(f"{cpu}; {args.threads} threads; ONNX Runtime {onnxruntime.__version__}")
    print(f"{args.units} units, {args.steps} steps, {FEATURES} features; milliseconds a call\n")
    print("| layer | B | Keras' export | export_onnx | |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for layer, masked in itertools.product(LAYERS, [False, True]):
            paths = exported(layer, masked, args.units, pathlib.Path(folder))
            types = {node.op_type for node in onnx.load(paths[0]).graph.node}
            kind = "loop" if "Loop" in types else "node"
            sessions = [session(path, args.threads) for path in paths]
            for batch in args.batches:
                x = np.random.default_rng(1).normal(size=[batch, args.steps, FEATURES])
                if masked:
                    for b, length in enumerate(np.linspace(args.steps, args.steps / 2, batch)):
                        x[b, int(length) :] = 0.0
                theirs, ours = medians(sessions, x.astype(np.float32), args.rounds)
                name = f"`{layer}`, masked" if masked else f"`{layer}`"
                print(f"| {name} | {batch} | {theirs:.2f} ({kind}) | {ours:.2f} |", end="")
                print(f" {theirs / ours:.1f}× |", flush=True)


if __name__ == "__main__":
    main()
