"""Models saved without this library, their ops placed on a GPU, run with it.

Each process below is a fresh one. This file must not import the library: the process
that saves imports this file, and stands for one that has never heard of the library.
"""

import pathlib
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import subprocesses
from tests.reference import cases, judge

B, T = 4, 6

CONFIGS = {
    "V3_lstm": judge.Config("lstm", 2, 5, 3, "bidirectional", num_proj=2, time_major=False),
    "V3_gru": judge.Config("gru", 2, 5, 3),
    "V3_tanh": judge.Config("rnn_tanh", 1, 5, 5, "bidirectional", "skip_input"),
    "V3_dropout": judge.Config("lstm", 2, 5, 3, dropout=0.5),
    "V2_gru": judge.Config("gru", 2, 5, 3, "bidirectional"),
    "V1_lstm": judge.Config("lstm", 2, 5, 3),
    "V1_relu": judge.Config("rnn_relu", 2, 5, 3),
}
SEEDS = {"seed": 11, "seed2": -12}


def _case(name: str) -> cases.Case:
    rng = np.random.default_rng(60)
    lengths = [6, 2, 0, 5] if name.startswith("V3") else None
    return cases.random_case(rng, CONFIGS[name], T, B, lengths).astype(np.float32)


class _Model(tf.Module):
    """A network of built-in ops only, as a program for a GPU would have made it.

    Its variables are canonical weights, which the graph packs and unpacks. As Keras
    does, it sets is_training even to predict.
    """

    def __init__(self, name: str):
        super().__init__()
        self._name = name
        self._config = CONFIGS[name]
        case = _case(name)
        weights, biases = judge.canonical(self._config, case.params)
        self._canonical = [len(weights), len(biases)]
        self.weights = [tf.Variable(matrix) for matrix in weights]
        self.biases = [tf.Variable(vector) for vector in biases]

    def _params(self):
        options = self._config.layout_options()
        op = tf.raw_ops.CudnnRNNCanonicalToParamsV2
        if not self._name.startswith("V3"):
            op = tf.raw_ops.CudnnRNNCanonicalToParams
            del options["num_proj"]
        with tf.device("/GPU:0"):
            return op(
                weights=[matrix.value() for matrix in self.weights],
                biases=[vector.value() for vector in self.biases],
                **options,
            )

    def _rnn(self, x, h0, c0, params, lengths):
        config = self._config
        arguments = {
            "input": x,
            "input_h": h0,
            "input_c": c0,
            "params": params,
            "rnn_mode": config.rnn_mode,
            "direction": config.direction,
            "input_mode": config.input_mode,
            "dropout": config.dropout,
            "is_training": True,
            **SEEDS,
        }
        if self._name.startswith("V3"):
            return tf.raw_ops.CudnnRNNV3(
                sequence_lengths=lengths,
                num_proj=config.num_proj,
                time_major=config.time_major,
                **arguments,
            )
        op = tf.raw_ops.CudnnRNNV2 if self._name.startswith("V2") else tf.raw_ops.CudnnRNN
        return op(**arguments)

    def predict(self, x, h0, c0, lengths):
        with tf.device("/GPU:0"):
            outputs = self._rnn(x, h0, c0, self._params(), lengths)
        return {"y": outputs.output, "h_n": outputs.output_h, "c_n": outputs.output_c}

    def gradients(self, x, h0, c0, lengths, dy, dh_n, dc_n):
        sources = [x, h0, c0, self._params()]
        with tf.device("/GPU:0"), tf.GradientTape() as tape:
            tape.watch(sources)
            outputs = self._rnn(*sources, lengths)
        # TensorFlow's own gradient functions build the Backprop nodes.
        with tf.device("/GPU:0"):
            dx, dh0, dc0, dparams = tape.gradient(list(outputs[:3]), sources, [dy, dh_n, dc_n])
        return {"dx": dx, "dh0": dh0, "dc0": dc0, "dparams": dparams}

    def sizes(self, x):
        del x
        with tf.device("/GPU:0"):
            options = self._config.layout_options()
            size = tf.raw_ops.CudnnRNNParamsSize(T=tf.float32, S=tf.int32, **options)
            if self._name.startswith("V3"):
                weights, biases = tf.raw_ops.CudnnRNNParamsToCanonicalV2(
                    params=self._params(),
                    num_params_weights=self._canonical[0],
                    num_params_biases=self._canonical[1],
                    **options,
                )
            else:
                del options["num_proj"]
                weights, biases = tf.raw_ops.CudnnRNNParamsToCanonical(
                    params=self._params(), num_params=self._canonical[0], **options
                )
        tensors = {f"canonical_{i}": t for i, t in enumerate([*weights, *biases])}
        return {"size": size, "params": self._params(), **tensors}


def save_models(directory: str) -> None:
    """Writes one SavedModel for each config, without the library."""
    assert "tf_cudnn_rnn" not in sys.modules
    for name in CONFIGS:
        case = _case(name)
        model = _Model(name)

        def spec(tensor, unknown=True):
            # Batch and time are unknown, as in an exported model.
            shape = [None] * 2 + [tensor.shape[2]] if tensor.ndim == 3 else tensor.shape
            return tf.TensorSpec(shape, tensor.dtype)

        inputs = [spec(tensor) for tensor in (case.x, case.h0, case.c0)]
        inputs.append(tf.TensorSpec([None], tf.int32))
        gradients = [spec(tensor) for tensor in (case.dy, case.dh_n, case.dc_n)]
        signatures = {
            "predict": tf.function(model.predict).get_concrete_function(*inputs),
            "gradients": tf.function(model.gradients).get_concrete_function(*inputs, *gradients),
            "sizes": tf.function(model.sizes).get_concrete_function(inputs[0]),
        }
        tf.saved_model.save(model, str(pathlib.Path(directory, name)), signatures=signatures)
    assert "tf_cudnn_rnn" not in sys.modules


def run_models(directory: str) -> None:
    """Runs them, with the library, and writes what they return."""
    import tf_cudnn_rnn  # noqa: F401

    for name in CONFIGS:
        case = _case(name)
        model = tf.saved_model.load(str(pathlib.Path(directory, name)))
        inputs = {
            "x": case.x,
            "h0": case.h0,
            "c0": case.c0,
            "lengths": case.sequence_lengths,
        }
        inputs = {key: tf.constant(value) for key, value in inputs.items()}
        gradients = {key: tf.constant(getattr(case, key)) for key in ("dy", "dh_n", "dc_n")}
        results = {
            **model.signatures["predict"](**inputs),
            **model.signatures["gradients"](**inputs, **gradients),
            **model.signatures["sizes"](x=inputs["x"]),
        }
        np.savez(
            pathlib.Path(directory, f"{name}.npz"),
            **{key: value.numpy() for key, value in results.items()},
        )


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("saved_models"))
    subprocesses.run(save_models, path)
    subprocesses.run(run_models, path)
    return path


@pytest.mark.parametrize("name", CONFIGS)
def test_saved_model_gives_the_judges_numbers(name, directory):
    from tests.helpers import running

    case = _case(name)
    config = case.config
    results = dict(np.load(pathlib.Path(directory, f"{name}.npz")))
    key = judge.builtin_key(*SEEDS.values()) if config.dropout > 0 else None
    rnn = {key: results.pop(key) for key in running.OUTPUTS + running.GRADIENTS}
    running.assert_judged(rnn, case, name, key)

    assert results.pop("size").tolist() == [judge.params_size(config)]
    np.testing.assert_array_equal(results.pop("params"), case.params)
    weights, biases = judge.canonical(config, case.params)
    for i, expected in enumerate([*weights, *biases]):
        np.testing.assert_array_equal(results.pop(f"canonical_{i}"), expected)
    assert not results


def test_the_nodes_ask_for_a_gpu(directory):
    """Otherwise the test above would say less than it claims."""
    model = tf.saved_model.load(str(pathlib.Path(directory, "V3_lstm")))
    nodes = {}
    for name in ("predict", "gradients", "sizes"):
        graph = model.signatures[name].graph.as_graph_def()
        for node in [*graph.node, *(n for f in graph.library.function for n in f.node_def)]:
            if node.op.startswith("CudnnRNN"):
                nodes[node.op] = node.device
    assert nodes.keys() == {
        "CudnnRNNV3",
        "CudnnRNNBackpropV3",
        "CudnnRNNParamsSize",
        "CudnnRNNParamsToCanonicalV2",
        "CudnnRNNCanonicalToParamsV2",
    }
    assert all("GPU:0" in device for device in nodes.values()), nodes


# ------------------------------------------------------------------------------------
# Own ops
# ------------------------------------------------------------------------------------


def save_own_model(directory: str) -> None:
    """Writes a SavedModel that holds this library's own ops."""
    import tf_cudnn_rnn

    case = _case("V3_dropout")
    config = case.config
    size = (config.rnn_mode, config.num_layers, config.num_units, config.input_size)

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.params = tf.Variable(case.params)

        @tf.function
        def run(self, x, h0, c0, lengths, rng_seed):
            named = tf_cudnn_rnn.params_to_canonical(self.params, *size)
            params = tf_cudnn_rnn.canonical_to_params(named, *size)
            with tf.GradientTape() as tape:
                tape.watch(params)
                outputs = tf_cudnn_rnn.raw_ops.CudnnRNNV3(
                    input=x,
                    input_h=h0,
                    input_c=c0,
                    params=params,
                    sequence_lengths=lengths,
                    dropout=config.dropout,
                    rng_seed=rng_seed,
                )
            return {
                "y": outputs.output,
                "h_n": outputs.output_h,
                "c_n": outputs.output_c,
                "dparams": tape.gradient(outputs.output, params),
            }

    model = Model()
    signature = model.run.get_concrete_function(
        tf.TensorSpec([None, None, config.input_size]),
        tf.TensorSpec([config.num_layers, None, config.num_units]),
        tf.TensorSpec([config.num_layers, None, config.num_units]),
        tf.TensorSpec([None], tf.int32),
        tf.TensorSpec([2], tf.int64),
    )
    tf.saved_model.save(model, directory, signatures=signature)


def run_own_model(directory: str) -> None:
    """Runs it in a process of its own."""
    import tf_cudnn_rnn  # noqa: F401

    case = _case("V3_dropout")
    results = tf.saved_model.load(directory).signatures["serving_default"](
        x=tf.constant(case.x),
        h0=tf.constant(case.h0),
        c0=tf.constant(case.c0),
        lengths=tf.constant(case.sequence_lengths),
        rng_seed=tf.constant([8, 9], tf.int64),
    )
    np.savez(
        pathlib.Path(directory, "results.npz"),
        **{key: value.numpy() for key, value in results.items()},
    )


def test_own_ops_in_a_saved_model(tmp_path):
    from tests.helpers import running

    subprocesses.run(save_own_model, str(tmp_path))
    subprocesses.run(run_own_model, str(tmp_path))
    case = _case("V3_dropout")
    results = dict(np.load(tmp_path / "results.npz"))
    dparams = results.pop("dparams")
    key = judge.own_key([8, 9])
    running.assert_judged(results, case, "own model", key)
    forward = case.forward(key)
    expected = judge.backward(
        case.config, forward.tape, np.ones_like(case.dy), 0 * case.dh_n, 0 * case.dc_n
    ).dparams
    allowed = running.tolerance(case, "dparams", expected)
    np.testing.assert_allclose(dparams, expected, rtol=0, atol=allowed)
