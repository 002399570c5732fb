"""Calls as users write them, for the type checker alone; nothing runs this.

A line with `type: ignore` is a mistake that must be seen: mypy complains of those that it does
not need.
"""

import functools

import numpy as np

import tf_cudnn_rnn
from tf_cudnn_rnn import raw_ops, runtime, weights
from tf_cudnn_rnn.keras import GRU, LSTM, CudnnLSTM, CudnnRNN, accelerate, export, export_as

# What is right.

size: int = tf_cudnn_rnn.params_size("lstm", 2, 32, 16, direction="bidirectional")
isa: str = tf_cudnn_rnn.instruction_set()

named = weights.params_to_canonical(np.zeros(size), "lstm", 2, 32, 16)
vector: np.ndarray = weights.canonical_to_params(dict(named), "lstm", 2, 32, 16)
also: np.ndarray = weights.canonical_to_params(named, "lstm", 2, 32, 16)
layout = weights.Layout("gru", 1, 32, 16)
canonical = weights.Canonical(layout, named)
kernel: np.ndarray = canonical.named[tf_cudnn_rnn.ParamName(0, "forward", "new", "input_kernel")]
for name, array in named:
    text, sum_of = f"{name.layer} {name.gate}", array.sum()

one = weights.from_keras([np.zeros([16, 128]), np.zeros([32, 128])], "lstm")
stack = weights.from_keras([[np.zeros([16, 32])], [np.zeros([32, 32])]], "rnn_tanh", of="gradients")
legacy = weights.from_keras_cudnn(weights.read_keras_h5("old.h5")["lstm"], "lstm")
state = weights.from_torch({"weight_ih_l0": np.zeros([128, 16])}, "lstm")
params: np.ndarray = weights.from_torch("model.safetensors", "gru").params
back: tuple[str, ...] = weights.to_onnx(one).notes
loaded = weights.load("model.keras", layer=["a", "b"], rnn_mode="rnn_tanh")
vector_file = weights.load("a.npz", format="mxnet", num_layers=2, forget_bias=None)
small: weights.Int8Weights = weights.quantize(loaded)
rounded: np.ndarray = weights.quantize(vector, layout).dequantized().params
is_small: bool = runtime.Network(small, num_threads=2).has_int8_weights
network = runtime.Network.load("a.npz", num_threads=2, format="mxnet", num_layers=2, layer=["a"])
frame: np.ndarray = network.stream().step(np.zeros(16))
node = weights.OnnxNode("LSTM", {"hidden_size": 32}, np.zeros(1), np.zeros(1))
nodes = weights.from_onnx(node), weights.from_onnx([node])
read = functools.partial(weights.from_keras, rnn_mode="lstm")
slots = weights.convert_slots({"m": [np.zeros(3)]}, read, weights.to_torch)

y, h, c, *_ = raw_ops.CudnnRNNV3(input=0, input_h=0, input_c=0, params=0, sequence_lengths=[1])
reserve_space = raw_ops.KerasRNN(
    input=0, input_h=0, input_c=0, kernel=0, recurrent_kernel=0, sequence_lengths=[1]
).reserve_space
y_of_int8 = raw_ops.CudnnRNNInt8(
    input=0, input_h=0, input_c=0, weights=[1], scales=[1], biases=[1], sequence_lengths=[1]
).output


def make_zeros(shape: tuple[int, ...], dtype: str | None = None) -> np.ndarray:
    return np.zeros(shape, dtype)


layers = [
    LSTM(32, "tanh", return_sequences=True, use_fused=True),
    GRU(units=32, reset_after=False, name="gru"),
    CudnnRNN(32, 2, "lstm", "bidirectional", num_proj=16),
    CudnnLSTM(32, num_layers=2, dropout=0.1, dtype="bfloat16"),
    CudnnRNN(32, dtype=np.float64, kernel_initializer=make_zeros, bias_regularizer="l2"),
    LSTM(32, activation=None, kernel_initializer=np.zeros([16, 128])),
    GRU(32, "relu", recurrent_initializer={"class_name": "Ones", "config": {}}),
]
for cell in CudnnLSTM(32, separate_weights=True).cells:
    cell.trainable = False
why: str | None = LSTM(32).fallback_reason
tf_cudnn_rnn.keras.to_keras(CudnnRNN(32))
tf_cudnn_rnn.keras.to_fused(layers[0])
with accelerate(), export_as("builtin"):
    export(layers[0], "exported", as_="stock")

# What is wrong.

tf_cudnn_rnn.parms_size("lstm", 2, 32, 16)  # type: ignore[attr-defined]
tf_cudnn_rnn.params_size("LSTM", 2, 32, 16)  # type: ignore[arg-type]
tf_cudnn_rnn.params_size("lstm", 2, 32, 16, "bidirectional")  # type: ignore[call-arg]
tf_cudnn_rnn.params_size("lstm", 2.5, 32, 16)  # type: ignore[arg-type]
tf_cudnn_rnn.params_size("lstm", 2, 32, 16, direction="both")  # type: ignore[arg-type]
weights.to_keras(named)  # type: ignore[arg-type]
weights.from_cudnn(vector, "lstm", 2, 32, 16, of="biases")  # type: ignore[arg-type]
weights.load("model.h5", mode="lstm")  # type: ignore[call-arg]
weights.quantize(loaded, bits=4)  # type: ignore[call-arg]
weights.load("model.h5", format="hdf5")  # type: ignore[arg-type]
notes = weights.to_torch(canonical).remarks  # type: ignore[attr-defined]
raw_ops.CudnnRNNV3(0, 0, 0, 0, [1])  # type: ignore[call-arg]
raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=1, input_size=1)  # type: ignore[call-arg]
LSTM(32, reset_after=True, use_fused="always")  # type: ignore[arg-type]
CudnnRNN(32, rnn_mode="vanilla")  # type: ignore[arg-type]
CudnnLSTM(32, 2, "bidirectional")  # type: ignore[call-arg]
CudnnLSTM(32, dtype=16)  # type: ignore[arg-type]
CudnnLSTM(32, kernel_regularizer=0.01)  # type: ignore[arg-type]
LSTM(32, activation=True)  # type: ignore[arg-type]
runtime.Network.load("model.h5", mode="lstm")  # type: ignore[call-arg]
runtime.Network.load("model.h5", format="hdf5")  # type: ignore[arg-type]
export_as("onnx")  # type: ignore[arg-type]
