"""What calls give, as digests that processes and pools of threads are compared by."""

import contextlib
import hashlib
import itertools
import json

import keras

import tf_cudnn_rnn.keras
from tests.reliability import calls, crowd

# In these, work is cut in all ways.
_OF_POOLS = ("panels", "groups", "together", "in_place", "chunks", "projected", "bfloat16")


def print_digests() -> None:
    """Of all calls, made eagerly and by a tf.function, which agree; and of dropout with seeds."""
    print(json.dumps(_digests()))


def print_digests_of_pools(sizes) -> None:
    """The same, and those of some ops in sessions with so many threads each, by op and size.

    TF_OVERRIDE_GLOBAL_THREADPOOL must be set.
    """
    alone = _digests()
    of_pools = {}
    graphs = {name: crowd.Graph(calls.make(name)) for name in _OF_POOLS}
    for size, (name, graph) in itertools.product(sizes, graphs.items()):
        with contextlib.closing(graph.session(intra_op_parallelism_threads=size)) as session:
            [arrays] = graph.run(session)
        of_pools.setdefault(name, {})[size] = _digest(arrays)
    print(json.dumps([alone, of_pools]))


def _digests() -> dict[str, str]:
    digests = {}
    for call in map(calls.make, calls.NAMES):
        digests[call.name] = _digest(call.compute(*call.tensors))
        assert _digest(call.function()()) == digests[call.name], call.name
    call = calls.make_with_state(seed=7)
    layer = tf_cudnn_rnn.keras.CudnnLSTM(
        24,
        num_layers=2,
        dropout=0.5,
        seed=8,
        kernel_initializer=keras.initializers.GlorotUniform(seed=9),
        recurrent_initializer=keras.initializers.Orthogonal(seed=10),
    )
    x = calls.make("layer").tensors[0]
    for step in range(3):
        digests[f"built-in dropout, step {step}"] = _digest(call.compute(*call.tensors))
        digests[f"dropout of a layer, step {step}"] = _digest([layer(x, training=True)])
    return digests


def _digest(tensors) -> str:
    return hashlib.sha256(b"".join(calls.bits(tensors))).hexdigest()
