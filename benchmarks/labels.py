"""What texts and charts call sides and networks."""

from benchmarks import records
from benchmarks.cases import Case

# Of a side; others are called by their names.
_SIDES = {
    "op": "op",
    "op_bfloat16": "op, bfloat16",
    "op_float32": "op, float32",
    "op_from_c": "op, from C",
    "eager": "op, eager",
    "eager_built_in": "built-in op, eager",
    "layer": "drop-in layer",
    "stateful_layer": "stateful drop-in layer",
    "cudnn_layer": "CudnnRNN layer",
    "runtime": "runtime",
    "int8": "runtime, int8",
    "float32": "runtime, float32",
    "stream": "stream",
    "stream_from_c": "stream, from C",
    "skip_input": "op, skipped input",
    "linear_input": "op, linear input",
    "is_training": "is_training=True",
    "is_inference": "is_training=False",
    "keras": "Keras",
    "keras_xla": "Keras, XLA",
    "keras_eager": "Keras, eager",
    "block_lstm": "BlockLSTMV2",
    "torch": "PyTorch",
    "torch_bfloat16": "PyTorch, bfloat16",
    "torch_int8": "PyTorch, int8",
    "onnx": "ONNX Runtime",
    "onnx_int8": "ONNX Runtime, int8",
    "empty_call": "empty tf.function",
    "cold_call": "empty tf.function after weights",
    "counting_loop": "counting loop",
}
# Those of this library whose labels do not say so to somebody who sees a chart alone.
_OWN = (
    *("op", "op_bfloat16", "op_float32", "op_from_c", "eager", "skip_input", "linear_input"),
    *("layer", "stateful_layer", "cudnn_layer", "runtime", "int8", "float32"),
    *("stream", "stream_from_c"),
)

# Of rnn_mode.
MODES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "tanh RNN", "rnn_relu": "ReLU RNN"}


def of_side(side: str) -> str:
    """A side, or the tail of one (`records.tail_of`)."""
    if records.is_tail(side):
        return records.tail_of(of_side(records.without_tail(side)))
    return _SIDES.get(side, side)


def of_driver(driver: str) -> str:
    """A driver of a peer; others are called by their keys."""
    return of_side({"onnxruntime": "onnx"}.get(driver, driver))


def with_owner(side: str) -> str:
    """The same where nothing around it says whose op, layer or stream it is."""
    return f"tf_cudnn_rnn's {of_side(side)}" if side in _OWN else of_side(side)


def of_network(case: Case) -> str:
    """A network and a batch, such as "LSTM 512, batch 16, 25 steps"."""
    name = MODES[case.rnn_mode]
    if case.num_dirs == 2:
        name = f"bidirectional {name}"
    if case.num_layers > 1:
        name = f"{case.num_layers} {name}s"
    projected = f" projected to {case.output_size}" if case.layout.has_projection else ""
    steps = f"{case.seq_length} step{'s' if case.seq_length > 1 else ''}"
    sizes = f"{case.num_units}{projected}, batch {case.batch}, {steps}"
    different = f", input {case.input_size}" if case.input_size != case.num_units else ""
    ragged = f", {case.fill:.0%} of it without padding" if case.is_ragged else ""
    one_sign = ", one sign" if case.one_sign else ""
    dropout = f", dropout {case.dropout:g}" if case.dropout > 0 else ""
    return f"{name} {sizes}{different}{dropout}{ragged}{one_sign}"
