"""The peers, one small file each, and where each of them lives."""

from typing import NamedTuple

# Environments: that of this library, and that of the others (benchmarks/peers.py).
LIBRARY = "library"
PEERS = "peers"


class Entry(NamedTuple):
    """Where a driver is.

    Attributes:
      label: for tables and charts.
      environment: LIBRARY or PEERS.
      module, class_name: a subclass of interface.Driver.
    """

    label: str
    environment: str
    module: str
    class_name: str


# These compute no network, so there is nothing to compare.
EMPTY_CALL, COLD_CALL, COUNTING_LOOP = "empty_call", "cold_call", "counting_loop"
WITHOUT_NETWORK = (EMPTY_CALL, COLD_CALL, COUNTING_LOOP)

DRIVERS = {
    "own_op": Entry("op", LIBRARY, "benchmarks.drivers.own", "Op"),
    "own_eager": Entry("op, eager", LIBRARY, "benchmarks.drivers.own", "EagerOp"),
    "built_in_eager": Entry(
        "built-in op, eager", LIBRARY, "benchmarks.drivers.own", "EagerBuiltInOp"
    ),
    "own_layer": Entry("drop-in layer", LIBRARY, "benchmarks.drivers.own_layers", "DropIn"),
    "own_stateful": Entry(
        "stateful drop-in layer", LIBRARY, "benchmarks.drivers.own_layers", "Stateful"
    ),
    "own_cudnn_layer": Entry(
        "CudnnRNN layer", LIBRARY, "benchmarks.drivers.own_layers", "CudnnLayer"
    ),
    "own_saved": Entry(
        "SavedModel, is_training=False", LIBRARY, "benchmarks.drivers.own", "SavedInference"
    ),
    "own_saved_training": Entry(
        "SavedModel, is_training=True", LIBRARY, "benchmarks.drivers.own", "SavedTraining"
    ),
    "own_c": Entry("op, from C", LIBRARY, "benchmarks.drivers.c_program", "CProgram"),
    "own_runtime": Entry("runtime", LIBRARY, "benchmarks.drivers.runtime", "Runtime"),
    "own_stream": Entry("stream", LIBRARY, "benchmarks.drivers.runtime", "Stream"),
    "own_stream_c": Entry("stream, from C", LIBRARY, "benchmarks.drivers.runtime", "CStream"),
    EMPTY_CALL: Entry("empty tf.function", LIBRARY, "benchmarks.drivers.own", "EmptyCall"),
    COLD_CALL: Entry(
        "empty tf.function after weights", LIBRARY, "benchmarks.drivers.own", "ColdCall"
    ),
    COUNTING_LOOP: Entry(
        "counting loop", LIBRARY, "benchmarks.drivers.counting_loop", "CountingLoop"
    ),
    "keras_function": Entry(
        "Keras, tf.function", LIBRARY, "benchmarks.drivers.keras_layers", "Function"
    ),
    "keras_xla": Entry("Keras, XLA", LIBRARY, "benchmarks.drivers.keras_layers", "Xla"),
    "keras_eager": Entry("Keras, eager", LIBRARY, "benchmarks.drivers.keras_layers", "Eager"),
    "block_lstm": Entry("BlockLSTMV2", LIBRARY, "benchmarks.drivers.block_lstm", "BlockLSTM"),
    "torch": Entry("PyTorch", PEERS, "benchmarks.drivers.pytorch", "PyTorch"),
    "onnxruntime": Entry("ONNX Runtime", PEERS, "benchmarks.drivers.onnx_runtime", "OnnxRuntime"),
}
