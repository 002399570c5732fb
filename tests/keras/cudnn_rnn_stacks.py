"""CudnnRNN layers, and stacks of stock Keras layers with their weights."""

import keras
import numpy as np
import tensorflow as tf

from tf_cudnn_rnn import weights
from tf_cudnn_rnn.keras import CudnnRNN

T, B, I, H, P, L = 5, 4, 3, 6, 2, 2
MODES = ("lstm", "gru", "rnn_tanh", "rnn_relu")
DIRECTIONS = ("unidirectional", "bidirectional")

LENGTHS = np.array([3, 0, 5, 1], np.int32)
# Padded at the end, without a valid step, with a hole and padded on both sides, full.
MASK = np.array([[1, 1, 1, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 1, 0], [1, 1, 1, 1, 1]], bool)


def inputs(size=I, dtype="float64", seed=0, time_major=False) -> np.ndarray:
    x = np.random.default_rng(seed).normal(size=[B, T, size]).astype(dtype)
    return x.swapaxes(0, 1) if time_major else x


def states(layer: CudnnRNN, seed=1) -> list[tf.Tensor]:
    rng = np.random.default_rng(seed)
    zeros = layer.get_initial_state(B)
    return [tf.constant(rng.normal(size=zero.shape), layer.compute_dtype) for zero in zeros]


def randomise(layer: keras.layers.Layer, seed=2) -> None:
    """Random values in every weight, biases included: equal ones would hide swapped gates."""
    rng = np.random.default_rng(seed)
    layer.set_weights([rng.normal(scale=0.5, size=w.shape) for w in layer.get_weights()])


def built(rnn_mode="lstm", *, input_size=I, num_layers=L, **options) -> CudnnRNN:
    options = {"dtype": "float64", **options}
    layer = CudnnRNN(H, num_layers, rnn_mode, **options)
    layer.build((T, B, input_size) if layer.time_major else (B, T, input_size))
    randomise(layer)
    return layer


class Stack:
    """Stock layers that compute what a batch-major `layer` computes."""

    def __init__(self, layer: CudnnRNN):
        self._D = 2 if layer.direction == "bidirectional" else 1
        self._return_sequences = layer.return_sequences
        canonical = weights.Canonical(layer.layout, layer.canonical_weights())
        self.layers = []
        for l, arrays in enumerate(weights.to_keras(canonical).arrays):
            sequences = layer.return_sequences or l < layer.num_layers - 1
            stock = self._stock(layer.rnn_mode, sequences, layer.compute_dtype)
            stock.build((None, None, arrays[0].shape[0]))
            stock.set_weights(arrays)
            self.layers.append(stock)

    def _stock(self, rnn_mode: str, sequences: bool, dtype: str) -> keras.layers.Layer:
        options = {
            "return_sequences": sequences,
            "return_state": True,
            "zero_output_for_mask": sequences,
            "dtype": dtype,
        }
        if rnn_mode == "lstm":
            stock = keras.layers.LSTM(H, **options)
        elif rnn_mode == "gru":
            stock = keras.layers.GRU(H, **options)
        else:
            stock = keras.layers.SimpleRNN(H, activation=rnn_mode[4:], **options)
        if self._D == 2:
            stock = keras.layers.Bidirectional(stock, dtype=dtype)
        return stock

    def __call__(self, x, initial_state=None, mask=None):
        finals = []
        for l, stock in enumerate(self.layers):
            start = None
            if initial_state is not None:
                entries = range(l * self._D, (l + 1) * self._D)
                start = [state[:, k] for k in entries for state in initial_state]
            x, *of_layer = stock(x, initial_state=start, mask=mask)
            finals += of_layer
        each = len(finals) // (len(self.layers) * self._D)
        return (x, *(tf.stack(finals[k::each], axis=1) for k in range(each)))

    @property
    def variables(self) -> list[tf.Variable]:
        return [v.value for stock in self.layers for v in stock.trainable_variables]

    def params_gradient(self, gradients, layer: CudnnRNN) -> np.ndarray:
        """The gradient of `params`, from those of `variables`."""
        arrays = iter([gradient.numpy() for gradient in gradients])
        layers = [[next(arrays) for _ in stock.trainable_variables] for stock in self.layers]
        canonical = weights.from_keras(
            layers, layer.rnn_mode, direction=layer.direction, of="gradients"
        )
        if not layer.layout.skips_input:
            return canonical.params
        named = canonical.named
        return np.concatenate(
            [
                named[region.name].ravel()
                for region in layer.layout.regions
                if region.size  # no input kernels in the first layer
            ]
        )


def weighed(outputs) -> tf.Tensor:
    """A loss to which each element of each output contributes differently."""
    return tf.add_n(
        [
            tf.reduce_sum(
                tf.cast(output, tf.float64) * np.random.default_rng(k).normal(size=output.shape)
            )
            for k, output in enumerate(tf.nest.flatten(outputs))
        ]
    )


def assert_close(actual, expected, tolerance=1e-12, label="") -> None:
    """Compares; `tolerance` is relative to the largest value."""
    actual, expected = np.asarray(actual, np.float64), np.asarray(expected, np.float64)
    assert actual.shape == expected.shape, label
    largest = max(1.0, np.max(np.abs(expected), initial=0.0))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * largest, err_msg=label)


def operations(graph_def) -> list:
    """All nodes of a graph and its functions."""
    nodes = list(graph_def.node)
    for function in graph_def.library.function:
        nodes += function.node_def
    return nodes
