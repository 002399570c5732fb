"""The runtime's files, read whole by its library in C++, and in Python.

The reference of safetensors judges.
"""

import numpy as np
import safetensors

from tests.fuzz.file_formats import command_line
from tests.fuzz.file_formats.format import Format, Process, refuses, written
from tests.fuzz.file_formats.safetensors import mutate
from tf_cudnn_rnn import weights

_MOST = 1000  # units of a network that is run
_INT8 = {"weights": np.int8, "scales": np.float32, "biases": np.float32}


def _read(content: bytes, seed: str) -> str:
    from tf_cudnn_rnn import runtime

    path = written(content, "model.safetensors")
    try:
        command_line.inspected(path)
    except (ValueError, OSError) as error:
        refuses(error, path)
    canonical = None
    try:
        canonical = weights.load(path)
    except (ValueError, OSError) as error:
        refuses(error, path)
    try:
        network = runtime.Network.load(path)
    except (ValueError, OSError) as error:
        return refuses(error, path)
    # The reader in Python is the stricter one, of JSON and of what tensors may be called.
    if canonical is not None:
        assert canonical.layout == network.layout
    entries = dict(safetensors.deserialize(content))
    if network.has_int8_weights:
        arrays = {
            name: np.frombuffer(entry["data"], _INT8[name]) for name, entry in entries.items()
        }
        assert arrays.keys() == _INT8.keys()
        if arrays["weights"].min() >= -127:  # which C does not ask for
            expected = weights.Int8Weights(network.layout, **arrays).dequantized()
            if canonical is not None:
                assert canonical.params.tobytes() == expected.params.tobytes()
    else:
        assert list(entries) == ["params"] and entries["params"]["shape"] == [network.layout.size]
        assert len(entries["params"]["data"]) == network.layout.size * network.dtype.itemsize
    if max(network.layout.num_units, network.layout.input_size) < _MOST:
        y, _ = network(np.zeros([1, 2, network.layout.input_size], network.dtype))
        assert y.shape[:2] == (1, 2)
    return "read"


FORMATS = {
    "runtime": Format(_read, process=Process.APART),
    "runtime_int8": Format(_read, mutate=mutate, process=Process.APART),
}
