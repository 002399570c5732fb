"""How long a step of streaming.py's network takes: in C and Python, beside others."""

import os
import pathlib
import re
import shutil
import subprocess
import time
from typing import NamedTuple

import keras
import learning_curve
import numpy as np
import tensorflow as tf

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import runtime, weights

PERCENTS = (50, 99, 99.9)
_EXAMPLES = pathlib.Path(__file__).parent
_STREAM_C = _EXAMPLES / "runtime" / "stream.c"
_SERVE_C = sorted((_EXAMPLES / "serving").glob("*.c"))


class Latency(NamedTuple):
    """Microseconds of a step, below which so many per cent are: PERCENTS."""

    name: str
    percentiles: list[float]

    @property
    def median(self) -> float:
        return self.percentiles[0]

    @property
    def spread(self) -> float:
        """How many times the median it is that nearly all steps stay below."""
        return self.percentiles[-1] / self.median


def of_times(name: str, seconds: np.ndarray) -> Latency:
    return Latency(name, list(np.percentile(seconds, PERCENTS) * 1e6))


def timed(name: str, step, frames: np.ndarray, steps: int) -> Latency:
    """Calls `step` with one frame after another, over and over."""
    times = np.empty(steps)
    for i in range(-_warm_up(steps), steps):  # times of the first ones are overwritten
        frame = frames[i % len(frames)]
        begin = time.perf_counter()
        step(frame)
        times[i] = time.perf_counter() - begin
    return of_times(name, times)


def _warm_up(steps: int) -> int:
    return min(steps, 1000)


def has_compiler() -> bool:
    if shutil.which("gcc") is None:
        print("There is no gcc: C is left out.")
        return False
    return True


def in_c(network: pathlib.Path, frames: np.ndarray, steps: int) -> tuple[Latency, np.ndarray]:
    """What examples/runtime/stream.c says of itself, and its outputs for the frames."""
    folder = runtime.include_path()
    program = network.with_name("stream")
    flags = [f"-I{folder}", f"-L{folder}", f"-Wl,-rpath,{folder}", "-lrnn_runtime"]
    subprocess.run(["gcc", "-O2", _STREAM_C, *flags, "-o", program], check=True)
    frames.tofile(network.with_name("frames"))
    steps = max(steps, len(frames))
    ran = subprocess.run(
        [program, network, network.with_name("frames"), str(steps)],
        check=True,
        capture_output=True,
        text=True,
    )
    numbers = re.search(
        r"median ([\d.]+) us, 99 % below ([\d.]+) us, 99.9 % below ([\d.]+)", ran.stderr
    )
    outputs = np.array([line.split() for line in ran.stdout.splitlines()], np.float32)
    return Latency("this library's runtime, C", [float(n) for n in numbers.groups()]), outputs


def in_onnx_runtime(
    canonical: weights.Canonical, frames: np.ndarray, steps: int, folder: pathlib.Path
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
    path = folder / "step.onnx"
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


class OneStep:
    """The same layer in TensorFlow, for one step, whose states go in and out."""

    def __init__(self, layer: keras.layers.Layer) -> None:
        arrays = layer.get_weights()
        x_shape, state_shape = [1, 1, len(arrays[0])], [1, layer.units]
        self._layer = tf_cudnn_rnn.keras.LSTM(layer.units, return_state=True)
        self._layer.build(x_shape)
        self._layer.set_weights(arrays)
        shapes = {"x": x_shape, "h": state_shape, "c": state_shape}
        self._signature = [tf.TensorSpec(shape, name=name) for name, shape in shapes.items()]
        self.traced = tf.function(self.eager, input_signature=self._signature)

    def eager(self, x, h, c) -> list[tf.Tensor]:
        return self._layer(x, initial_state=[h, c])

    def save(self, folder: pathlib.Path) -> None:
        """Writes a SavedModel of the signature `step`, from x, h, c to y, h, c."""

        def named(x, h, c):
            return dict(zip("yhc", self.eager(x, h, c), strict=True))

        archive = keras.export.ExportArchive()
        archive.track(self._layer)
        archive.add_endpoint("step", named, self._signature)
        archive.write_out(folder, verbose=False)


def in_tensorflow(
    layer: keras.layers.Layer, params: np.ndarray, frames: np.ndarray, steps: int
) -> list[Latency]:
    """The layer in TensorFlow, from Python, called in five ways."""
    vector, lengths = tf.constant(params), tf.constant([1])

    def calling(op):
        def call(x, h, c):
            result = op(
                input=x,
                input_h=h,
                input_c=c,
                params=vector,
                sequence_lengths=lengths,
                is_training=False,
                dropout=0.0,  # of the integer 0, the default, TensorFlow takes a slow way
            )
            return result.output, result.output_h, result.output_c

        return call

    one = OneStep(layer)
    flat, deep = [1, layer.units], [1, 1, layer.units]
    latencies = []
    for name, call, shape in [
        ("op called eagerly", calling(tf_cudnn_rnn.raw_ops.CudnnRNNV3), deep),
        ("built-in op called eagerly", calling(tf.raw_ops.CudnnRNNV3), deep),
        ("concrete function", one.traced.get_concrete_function(), flat),
        ("tf.function", one.traced, flat),
        ("layer called eagerly", one.eager, flat),
    ]:
        states = [tf.zeros(shape)] * 2

        def step(frame, call=call, states=states):
            _, *states[:] = call(tf.constant(frame[np.newaxis, np.newaxis]), *states)

        latencies.append(timed(f"TensorFlow, {name}", step, frames, steps))
    return latencies


def in_tensorflow_c(
    layer: keras.layers.Layer, frame: np.ndarray, steps: int, folder: pathlib.Path
) -> Latency:
    """The same function as a SavedModel, called by the C program of docs/serving.md.

    It takes the same frame and states each time: how long a step takes depends on neither.
    """
    tensorflow = tf.sysconfig.get_lib()
    program = folder / "serve"
    flags = ["-isystem", f"{tensorflow}/include", f"-L{tensorflow}", f"-Wl,-rpath,{tensorflow}"]
    flags += ["-l:libtensorflow_cc.so.2", "-l:libtensorflow_framework.so.2"]
    if shutil.which("ld.gold"):
        flags.append("-fuse-ld=gold")  # the usual linker takes seconds longer
    subprocess.run(["gcc", "-O2", *_SERVE_C, *flags, "-o", program], check=True)

    OneStep(layer).save(folder / "model")
    zeros = np.zeros([1, layer.units], np.float32)
    inputs = {"x": frame[np.newaxis, np.newaxis], "h": zeros, "c": zeros}
    for name, array in inputs.items():
        np.save(folder / name, array)
    calls = str(_warm_up(steps) + steps)
    options = ["-c", "-l", tf_cudnn_rnn.library_path(), "-s", "step", "-n", calls]
    arrays = [f"{name}={folder / name}.npy" for name in inputs]
    times_file = folder / "times"  # a pipe's reader would take turns with the program
    with open(times_file, "w") as file:
        served = subprocess.run(
            [program, *options, folder / "model", *arrays],
            env={**os.environ, "TF_NUM_INTRAOP_THREADS": "1"},
            stdout=subprocess.DEVNULL,
            stderr=file,
        )
    said = times_file.read_text()
    if served.returncode != 0:
        raise RuntimeError(said)
    times = [float(ms) * 1e-3 for ms in re.findall(r"^call \d+: ([\d.]+) ms$", said, re.M)]
    return of_times("TensorFlow, C API", np.array(times[-steps:]))


def print_table(latencies: list[Latency]) -> None:
    print(f"\n{'microseconds of a step':40}  median    99 %  99.9 %  99.9 % / median")
    for latency in latencies:
        numbers = "".join(f"{value:8.1f}" for value in latency.percentiles)
        print(f"{latency.name:40}{numbers}{latency.spread:17.1f}")
    threads = tf.config.threading.get_intra_op_parallelism_threads() or os.cpu_count()
    print(f"Each has one thread; TensorFlow in Python, which has trained, has up to {threads}.")


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
