"""The sides of `bench` for a network of given sizes: this library, Keras, PyTorch, ONNX Runtime."""

import dataclasses
import importlib.util
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli import output
from tf_cudnn_rnn._cli.timing import PREDICTION, TRAINING, Side
from tf_cudnn_rnn._formats import keras_config, onnx_file, vectors
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Array

OP, LAYERS, KERAS = "tf_cudnn_rnn, the op", "tf_cudnn_rnn.keras", "Keras"
_TITLES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "tanh RNN", "rnn_relu": "ReLU RNN"}
_TORCH = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}
_TOLERANCE = 1e-3  # of outputs around 1; libraries differ by 1e-6


@dataclasses.dataclass(frozen=True)
class Case:
    """A network, and the batch that it runs on."""

    layout: Layout
    batch: int
    steps: int

    @property
    def title(self) -> str:
        """Its name in words."""
        layout = self.layout
        count = f"{layout.num_layers} x " if layout.num_layers > 1 else ""
        both = ", bidirectional" if layout.direction == "bidirectional" else ""
        return (
            f"{_TITLES[layout.rnn_mode]} {count}{layout.num_units}{both}, input "
            f"{layout.input_size}, batch {self.batch}, {output.count(self.steps, 'step')}"
        )

    @property
    def nbytes(self) -> int:
        """About what all sides together take of memory, in training."""
        layout = self.layout
        D = layout.num_directions
        activations = layout.input_size + 12 * layout.num_layers * D * layout.num_units
        return 4 * (20 * layout.size + 8 * self.steps * self.batch * activations)


class Prepared(NamedTuple):
    """What all sides of a case compute with.

    Attributes:
      x: [T, B, I].
      dy: the gradient of the output, [T, B, D*H].
      canonical: the weights.
      threads: of each.
    """

    x: Array
    dy: Array
    canonical: weights.Canonical
    threads: int


class Runner(NamedTuple):
    """A side, and the output [T, B, D*H] that it computes."""

    side: Side
    output: Callable[[], Array]


def prepare(case: Case, threads: int) -> Prepared:
    """Draws weights and data of a case."""
    random = np.random.default_rng(1)
    layout = case.layout
    scale = layout.num_units**-0.5
    params = random.uniform(-scale, scale, layout.size).astype(np.float32)
    D = layout.num_directions
    return Prepared(
        random.normal(size=[case.steps, case.batch, layout.input_size]).astype(np.float32),
        random.normal(size=[case.steps, case.batch, D * layout.num_units]).astype(np.float32),
        vectors.of_layout(params, layout),
        threads,
    )


def runners(tf: types.ModuleType, prepared: Prepared) -> list[Runner]:
    """All sides that are installed, this library's first."""
    found = [_op(tf, prepared), _layers(tf, prepared, LAYERS), _layers(tf, prepared, KERAS)]
    if importlib.util.find_spec("torch"):
        found.append(_torch(prepared))
    if importlib.util.find_spec("onnxruntime"):
        found.append(_onnx_runtime(prepared))
    return found


def disagreement(found: list[Runner]) -> str | None:
    """Says which side's output differs from that of the first one; None if all agree."""
    expected = found[0].output()
    for runner in found[1:]:
        error = float(np.max(np.abs(runner.output() - expected)))
        if not error <= _TOLERANCE:  # NaN, too
            return f"{runner.side.name} computes other outputs than {found[0].side.name}: {error}"
    return None


def _calls(
    tf: types.ModuleType,
    forward: Callable[[Any, bool], Any],
    x: Any,
    dy: Any,
    variables: list[Any],
) -> dict[str, Callable[[], Array]]:
    """Both passes of a function of x, in graphs."""

    def train(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = forward(x, True)
        return tape.gradient(y, [x, *variables], dy)

    predict_graph = tf.function(lambda x: forward(x, False), autograph=False)
    train_graph = tf.function(train, autograph=False)
    return {
        TRAINING: lambda: train_graph(x)[-1].numpy(),
        PREDICTION: lambda: predict_graph(x).numpy(),
    }


def _op(tf: types.ModuleType, prepared: Prepared) -> Runner:
    from tf_cudnn_rnn import raw_ops

    layout = prepared.canonical.layout
    T, B, _ = prepared.x.shape
    D = layout.num_directions
    params = tf.Variable(prepared.canonical.params)
    zeros = tf.zeros([layout.num_layers * D, B, layout.num_units])

    def forward(x: Any, training: bool) -> Any:
        return raw_ops.CudnnRNNV3(
            input=x,
            input_h=zeros,
            input_c=zeros if layout.rnn_mode == "lstm" else tf.zeros([]),
            params=params,
            sequence_lengths=[T] * B,
            rnn_mode=layout.rnn_mode,
            direction=layout.direction,
            is_training=training,
        ).output

    calls = _calls(tf, forward, tf.constant(prepared.x), tf.constant(prepared.dy), [params])
    return Runner(Side(OP, calls), calls[PREDICTION])


def _layers(tf: types.ModuleType, prepared: Prepared, name: str) -> Runner:
    """Layers of this library, or of Keras."""
    import keras

    module = keras.layers
    if name == LAYERS:
        import tf_cudnn_rnn.keras

        module = tf_cudnn_rnn.keras
    layout = prepared.canonical.layout
    activation = {"activation": "relu"} if layout.rnn_mode == "rnn_relu" else {}
    cls = getattr(module, keras_config.LAYERS[layout.rnn_mode])
    x = tf.constant(prepared.x.transpose(1, 0, 2))
    layers = []
    size = layout.input_size
    for arrays in weights.to_keras(prepared.canonical).arrays:
        layer = cls(
            layout.num_units,
            return_sequences=True,
            kernel_initializer="zeros",
            recurrent_initializer="zeros",
            **activation,
        )
        if layout.direction == "bidirectional":
            layer = keras.layers.Bidirectional(layer)
        layer.build([None, None, size])
        layer.set_weights(arrays)
        layers.append(layer)
        size = layout.num_directions * layout.num_units

    def forward(x: Any, training: bool) -> Any:
        for layer in layers:
            x = layer(x, training=training)
        return x

    variables = [variable.value for layer in layers for variable in layer.trainable_variables]
    calls = _calls(tf, forward, x, tf.constant(prepared.dy.transpose(1, 0, 2)), variables)
    return Runner(Side(name, calls), lambda: calls[PREDICTION]().transpose(1, 0, 2))


def _torch(prepared: Prepared) -> Runner:
    import torch

    torch.set_num_threads(prepared.threads)
    layout = prepared.canonical.layout
    options = {"nonlinearity": layout.rnn_mode[4:]} if layout.rnn_mode.startswith("rnn_") else {}
    module = getattr(torch.nn, _TORCH[layout.rnn_mode])(
        layout.input_size,
        layout.num_units,
        num_layers=layout.num_layers,
        bidirectional=layout.direction == "bidirectional",
        **options,
    )
    state = weights.to_torch(prepared.canonical).arrays
    module.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    x, dy = torch.from_numpy(prepared.x), torch.from_numpy(prepared.dy)
    learned = x.clone().requires_grad_()

    def train() -> Any:
        y, _ = module(learned)
        return torch.autograd.grad(y, [learned, *module.parameters()], dy)

    def predict() -> Array:
        with torch.inference_mode():
            return module(x)[0].numpy()

    name = f"PyTorch {torch.__version__.split('+')[0]}"
    return Runner(Side(name, {TRAINING: train, PREDICTION: predict}), predict)


def _onnx_runtime(prepared: Prepared) -> Runner:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = prepared.threads
    options.inter_op_num_threads = 1
    # Its threads would take time from whose turn is next.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    model = onnx_file.model_bytes(weights.to_onnx(prepared.canonical).arrays)
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def predict() -> Array:
        return session.run(None, {"x": prepared.x})[0]

    name = f"ONNX Runtime {onnxruntime.__version__}"
    return Runner(Side(name, {PREDICTION: predict}), predict)
