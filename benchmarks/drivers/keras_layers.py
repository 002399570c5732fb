"""Layers of Keras on TensorFlow, in three ways to run them; and what this library's share."""

import abc

import keras
import numpy as np
import tensorflow as tf

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers import tensorflow
from benchmarks.drivers.interface import Driver, Step, require
from tf_cudnn_rnn import weights

_CLASSES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "SimpleRNN", "rnn_relu": "SimpleRNN"}


def new_layer(module, case: Case, dtype: str, **options):
    """A layer of `module`, which is keras.layers or tf_cudnn_rnn.keras."""
    if case.rnn_mode == "rnn_relu":
        options["activation"] = "relu"
    layer = getattr(module, _CLASSES[case.rnn_mode])(
        case.num_units, return_sequences=True, return_state=True, dtype=dtype, **options
    )
    # The ops' rule for padding, and Bidirectional's.
    layer.zero_output_for_mask = True
    return layer


def stack(module, case: Case, dtype: str, params: np.ndarray, **options) -> list:
    """The layers of a case with their weights; `options` are further arguments of a layer."""
    layers = []
    size = case.input_size
    for arrays in weights.to_keras(cases.canonical_of(case, params)).arrays:
        layer = new_layer(module, case, dtype, **options)
        if case.num_dirs == 2:
            layer = module.Bidirectional(layer, dtype=dtype)
        layer.build([case.batch, case.seq_length, size])
        layer.set_weights(arrays)
        layers.append(layer)
        size = case.num_dirs * case.num_units
    return layers


def state_count(case: Case) -> int:
    return 2 if case.rnn_mode == "lstm" else 1


def _run_stack(layers, dropouts, mask, training: bool, x, *states):
    """Returns y and all final states, of the first ones, [B, H] each, as the layers take them."""
    final = []
    per_layer = len(states) // len(layers)
    for l, layer in enumerate(layers):
        if l > 0 and dropouts:
            x = dropouts[l - 1](x, training=training)
        initial = list(states[l * per_layer : (l + 1) * per_layer])
        x, *after = layer(x, initial_state=initial, mask=mask, training=training)
        final += after
    return x, final


class Keras(Driver):
    """A stack of layers."""

    layers = keras.layers

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    @abc.abstractmethod
    def wrap(self, function):
        """Makes of the pass what is called."""

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(case.output_size == case.num_units, "no layer of Keras projects")
        arrays = cases.arrays_of(case)
        layers = stack(self.layers, case, dtype, arrays.params)
        dropouts = [keras.layers.Dropout(case.dropout, dtype=dtype) for _ in layers[1:]]
        if case.dropout == 0:
            dropouts = []
        mask = tf.sequence_mask(arrays.lengths, case.seq_length) if case.is_ragged else None
        training = pass_ == cases.TRAINING

        def forward(x, *states):
            return _run_stack(layers, dropouts, mask, training, x, *states)

        step = self.wrap(
            tensorflow.step_function(
                forward,
                pass_,
                tf.cast(arrays.dy.transpose(1, 0, 2), dtype),
                [variable.value for layer in layers for variable in layer.trainable_variables],
            )
        )
        kinds = (arrays.h0, arrays.c0)[: state_count(case)]
        states = [kind[k] for k in range(len(arrays.h0)) for kind in kinds]
        tensors = [tf.cast(a, dtype) for a in (arrays.x.transpose(1, 0, 2), *states)]

        def as_arrays(results) -> dict:
            y, final, *gradients = results
            named = {"y": time_major(y)} | by_kind(case, final, "h_n", "c_n")
            if gradients:
                dx, *others = gradients[0]
                named |= {"dx": time_major(dx)}
                named |= by_kind(case, others[: len(states)], "dh0", "dc0")
                named |= weight_gradients(case, others[len(states) :])
            return named

        return Step(lambda: step(*tensors), as_arrays)


def by_kind(case: Case, states, *names: str) -> dict[str, np.ndarray]:
    """Stacked states of layers, which have their own: for each direction h and, of an LSTM, c."""
    count = state_count(case)
    return {
        name: np.stack([tensorflow.to_array(state) for state in states[kind::count]])
        for kind, name in enumerate(names[:count])
    }


def time_major(tensor) -> np.ndarray:
    return tensorflow.to_array(tensor).transpose(1, 0, 2)


def weight_gradients(case: Case, gradients) -> dict[str, np.ndarray]:
    """Of the variables of all layers, in their order."""
    arrays = [tensorflow.to_array(gradient) for gradient in gradients]
    count = len(arrays) // case.num_layers
    layers = [arrays[start : start + count] for start in range(0, len(arrays), count)]
    return cases.weight_gradients(
        weights.from_keras(layers, case.rnn_mode, direction=case.direction, of="gradients")
    )


class Function(Keras):
    """keras.layers in a tf.function."""

    def wrap(self, function):
        return tf.function(function, autograph=False)


class Xla(Keras):
    """keras.layers compiled by XLA."""

    def wrap(self, function):
        return tf.function(function, autograph=False, jit_compile=True)


class Eager(Keras):
    """keras.layers, op by op."""

    def wrap(self, function):
        return function
