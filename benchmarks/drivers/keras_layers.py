"""Keras layers on TensorFlow: Keras' own, in three ways to run them, and this library's."""

import abc

import keras
import numpy as np
import tensorflow as tf

import tf_cudnn_rnn.keras
from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers import tensorflow
from benchmarks.drivers.interface import Driver, Step, require
from tf_cudnn_rnn import weights

_CLASSES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "SimpleRNN", "rnn_relu": "SimpleRNN"}


def _new_layer(module, case: Case, dtype: str, **options):
    """A layer of `module`, which is keras.layers or tf_cudnn_rnn.keras."""
    if case.rnn_mode == "rnn_relu":
        options["activation"] = "relu"
    layer = getattr(module, _CLASSES[case.rnn_mode])(
        case.num_units, return_sequences=True, return_state=True, dtype=dtype, **options
    )
    # The ops' rule for padding, and Bidirectional's.
    layer.zero_output_for_mask = True
    return layer


def _stack(module, case: Case, dtype: str, params: np.ndarray) -> list:
    """The layers of a case with their weights."""
    layers = []
    size = case.input_size
    for arrays in weights.to_keras(cases.canonical_of(case, params)).arrays:
        layer = _new_layer(module, case, dtype)
        if case.num_dirs == 2:
            layer = module.Bidirectional(layer, dtype=dtype)
        layer.build([case.batch, case.seq_length, size])
        layer.set_weights(arrays)
        layers.append(layer)
        size = case.num_dirs * case.num_units
    return layers


def _state_count(case: Case) -> int:
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


class _Keras(Driver):
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
        layers = _stack(self.layers, case, dtype, arrays.params)
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
        # Layers have states of their own, not pieces of those of all: for each layer and direction
        # h and, for an LSTM, c.
        kinds = (arrays.h0, arrays.c0)[: _state_count(case)]
        states = [kind[k] for k in range(len(arrays.h0)) for kind in kinds]
        tensors = [tf.cast(a, dtype) for a in (arrays.x.transpose(1, 0, 2), *states)]

        def as_arrays(results) -> dict:
            y, _, *gradients = results
            named = {"y": _time_major(y)}
            if gradients:
                dx, *others = gradients[0]
                dh0 = others[: len(states) : len(kinds)]
                named |= {
                    "dx": _time_major(dx),
                    "dh0": np.stack(list(map(tensorflow.to_array, dh0))),
                }
                named |= _weight_gradients(case, others[len(states) :])
            return named

        return Step(lambda: step(*tensors), as_arrays)


def _time_major(tensor) -> np.ndarray:
    return tensorflow.to_array(tensor).transpose(1, 0, 2)


def _weight_gradients(case: Case, gradients) -> dict[str, np.ndarray]:
    """Of the variables of all layers, in their order."""
    arrays = [tensorflow.to_array(gradient) for gradient in gradients]
    count = len(arrays) // case.num_layers
    layers = [arrays[start : start + count] for start in range(0, len(arrays), count)]
    return cases.weight_gradients(
        weights.from_keras(layers, case.rnn_mode, direction=case.direction, of="gradients")
    )


class Function(_Keras):
    """keras.layers in a tf.function."""

    def wrap(self, function):
        return tf.function(function, autograph=False)


class Xla(_Keras):
    """keras.layers compiled by XLA."""

    def wrap(self, function):
        return tf.function(function, autograph=False, jit_compile=True)


class Eager(_Keras):
    """keras.layers, op by op."""

    def wrap(self, function):
        return function


class DropIn(Function):
    """tf_cudnn_rnn.keras in a tf.function."""

    layers = tf_cudnn_rnn.keras


class DropInHalves(Driver):
    """The two layers that a Bidirectional drop-in is made of, one after the other."""

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(case.num_dirs == 2, "only a bidirectional layer has halves")
        require(case.num_layers == 1, "the halves of one layer are measured")
        require(case.output_size == case.num_units, "no layer of Keras projects")
        require(not case.is_ragged, "the halves of full batches are measured")
        arrays = cases.arrays_of(case)
        ((*halves,),) = weights.to_keras(cases.canonical_of(case, arrays.params)).arrays
        H, training = case.num_units, pass_ == cases.TRAINING
        dy = arrays.dy.transpose(1, 0, 2)
        steps = []
        for d in range(2):
            layer = _new_layer(tf_cudnn_rnn.keras, case, dtype, go_backwards=d == 1)
            layer.build([case.batch, case.seq_length, case.input_size])
            layer.set_weights(halves[d * len(halves) // 2 : (d + 1) * len(halves) // 2])

            def forward(x, *states, layer=layer):
                y, *final = layer(x, initial_state=list(states), training=training)
                return y, final

            # The backward layer's output begins with the last step.
            own_dy = dy[..., :H] if d == 0 else dy[:, ::-1, H:]
            step = tf.function(
                tensorflow.step_function(
                    forward,
                    pass_,
                    tf.cast(own_dy, dtype),
                    [variable.value for variable in layer.trainable_variables],
                ),
                autograph=False,
            )
            states = (arrays.h0[d], arrays.c0[d])[: _state_count(case)]
            tensors = [tf.cast(a, dtype) for a in (arrays.x.transpose(1, 0, 2), *states)]
            steps.append((step, tensors))

        def as_arrays(results) -> dict:
            forward, backward = results
            named = {
                "y": np.concatenate(
                    [_time_major(forward[0]), _time_major(backward[0])[::-1]], axis=-1
                )
            }
            if training:
                named["dx"] = _time_major(forward[2][0]) + _time_major(backward[2][0])
                named["dh0"] = np.stack([tensorflow.to_array(half[2][1]) for half in results])
                of_halves = [half[2][1 + _state_count(case) :] for half in results]
                named |= _weight_gradients(case, [*of_halves[0], *of_halves[1]])
            return named

        return Step(lambda: [step(*tensors) for step, tensors in steps], as_arrays)
