"""The peers, one small file each, and where each of them lives."""

from typing import NamedTuple

# Environments: that of this library, and that of the others (benchmarks/peers.py).
LIBRARY = "library"
PEERS = "peers"


class Entry(NamedTuple):
    """Where a driver is.

    Attributes:
      environment: LIBRARY or PEERS.
      module, class_name: a subclass of interface.Driver.
    """

    environment: str
    module: str
    class_name: str


# These compute no network, or another than the rest, so there is nothing to compare.
EMPTY_CALL, COLD_CALL, COUNTING_LOOP = "empty_call", "cold_call", "counting_loop"
SKIP_INPUT = "own_skip_input"
NOT_COMPARED = (EMPTY_CALL, COLD_CALL, COUNTING_LOOP, SKIP_INPUT)

DRIVERS = {
    "own_op": Entry(LIBRARY, "benchmarks.drivers.own", "Op"),
    SKIP_INPUT: Entry(LIBRARY, "benchmarks.drivers.own", "SkipInputOp"),
    "own_eager": Entry(LIBRARY, "benchmarks.drivers.own", "EagerOp"),
    "built_in_eager": Entry(LIBRARY, "benchmarks.drivers.own", "EagerBuiltInOp"),
    "own_layer": Entry(LIBRARY, "benchmarks.drivers.own_layers", "DropIn"),
    "own_stateful": Entry(LIBRARY, "benchmarks.drivers.own_layers", "Stateful"),
    "own_cudnn_layer": Entry(LIBRARY, "benchmarks.drivers.own_layers", "CudnnLayer"),
    "own_saved": Entry(LIBRARY, "benchmarks.drivers.own", "SavedInference"),
    "own_saved_training": Entry(LIBRARY, "benchmarks.drivers.own", "SavedTraining"),
    "own_c": Entry(LIBRARY, "benchmarks.drivers.c_program", "CProgram"),
    "own_runtime": Entry(LIBRARY, "benchmarks.drivers.runtime", "Runtime"),
    "own_stream": Entry(LIBRARY, "benchmarks.drivers.runtime", "Stream"),
    "own_stream_c": Entry(LIBRARY, "benchmarks.drivers.runtime", "CStream"),
    EMPTY_CALL: Entry(LIBRARY, "benchmarks.drivers.own", "EmptyCall"),
    COLD_CALL: Entry(LIBRARY, "benchmarks.drivers.own", "ColdCall"),
    COUNTING_LOOP: Entry(LIBRARY, "benchmarks.drivers.counting_loop", "CountingLoop"),
    "keras_function": Entry(LIBRARY, "benchmarks.drivers.keras_layers", "Function"),
    "keras_xla": Entry(LIBRARY, "benchmarks.drivers.keras_layers", "Xla"),
    "keras_eager": Entry(LIBRARY, "benchmarks.drivers.keras_layers", "Eager"),
    "block_lstm": Entry(LIBRARY, "benchmarks.drivers.block_lstm", "BlockLSTM"),
    "torch": Entry(PEERS, "benchmarks.drivers.pytorch", "PyTorch"),
    "onnxruntime": Entry(PEERS, "benchmarks.drivers.onnx_runtime", "OnnxRuntime"),
}
