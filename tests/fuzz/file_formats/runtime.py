"""The runtime's files, read whole by its library in C++, and in Python.

The reference of safetensors judges.
"""

import numpy as np
import safetensors

from tests.fuzz.file_formats import command_line
from tests.fuzz.file_formats.format import Format, Process, refuses, written
from tf_cudnn_rnn import weights

_MOST = 1000  # units of a network that is run


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
    ((name, entry),) = safetensors.deserialize(content)
    assert (name, entry["shape"]) == ("params", [network.layout.size])
    assert len(entry["data"]) == network.layout.size * network.dtype.itemsize
    if max(network.layout.num_units, network.layout.input_size) < _MOST:
        y, _ = network(np.zeros([1, 2, network.layout.input_size], network.dtype))
        assert y.shape[:2] == (1, 2)
    return "read"


FORMATS = {"runtime": Format(_read, process=Process.APART)}
