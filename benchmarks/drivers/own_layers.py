"""This library's Keras layers, in a tf.function."""

import tensorflow as tf

import tf_cudnn_rnn.keras
from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers import keras_layers, tensorflow
from benchmarks.drivers.interface import Driver, Step, by_state, require
from benchmarks.drivers.keras_layers import by_kind, state_count, time_major, weight_gradients


class DropIn(keras_layers.Function):
    """Drop-in layers, which get their first states."""

    layers = tf_cudnn_rnn.keras


class Stateful(Driver):
    """Stateful drop-in layers: a batch begins with the final states of the one before."""

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(case.num_dirs == 1, "a stateful layer of one direction is measured")
        require(case.output_size == case.num_units, "no layer of Keras projects")
        require(case.dropout == 0, "there is no layer of dropout between them")
        arrays = cases.arrays_of(case)
        layers = keras_layers.stack(tf_cudnn_rnn.keras, case, dtype, arrays.params, stateful=True)
        mask = tf.sequence_mask(arrays.lengths, case.seq_length) if case.is_ragged else None

        def forward(x):
            final = []
            for layer in layers:
                x, *after = layer(x, mask=mask, training=pass_ == cases.TRAINING)
                final += after
            return x, final

        step = tensorflow.traced_step(
            forward,
            pass_,
            tf.cast(arrays.dy.transpose(1, 0, 2), dtype),
            [variable.value for layer in layers for variable in layer.trainable_variables],
        )
        x = tf.cast(arrays.x.transpose(1, 0, 2), dtype)

        def as_arrays(_) -> dict:
            for layer, *first in zip(layers, arrays.h0, arrays.c0, strict=True):
                for variable, state in zip(layer.states, first, strict=False):
                    variable.assign(tf.cast(state, dtype))
            y, final, *gradients = step(x)
            named = {"y": time_major(y)} | by_kind(case, final, "h_n", "c_n")
            if gradients:
                dx, *of_weights = gradients[0]
                named |= {"dx": time_major(dx)} | weight_gradients(case, of_weights)
            return named

        return Step(lambda: step(x), as_arrays)


class CudnnLayer(Driver):
    """tf_cudnn_rnn.keras.CudnnRNN: all layers and directions in one layer, batch-major."""

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        arrays = cases.arrays_of(case)
        layer = tf_cudnn_rnn.keras.CudnnRNN(
            case.num_units,
            num_layers=case.num_layers,
            rnn_mode=case.rnn_mode,
            direction=case.direction,
            num_proj=case.num_proj,
            dropout=case.dropout,
            return_sequences=True,
            return_state=True,
            dtype=dtype,
        )
        layer.build([case.batch, case.seq_length, case.input_size])
        layer.params.assign(tf.cast(arrays.params, dtype))
        lengths = tf.constant(arrays.lengths) if case.is_ragged else None

        def forward(x, *states):
            y, *final = layer(
                x,
                initial_state=list(states),
                sequence_lengths=lengths,
                training=pass_ == cases.TRAINING,
            )
            return y, final

        step = tensorflow.traced_step(
            forward,
            pass_,
            tf.cast(arrays.dy.transpose(1, 0, 2), dtype),
            [layer.params.value],
        )
        batch_major = (arrays.x, arrays.h0, arrays.c0)[: 1 + state_count(case)]
        tensors = [tf.cast(array.transpose(1, 0, 2), dtype) for array in batch_major]

        def as_arrays(results) -> dict:
            y, final, *gradients = results
            named = {"y": time_major(y)} | by_state(case, map(time_major, final), "h_n", "c_n")
            if gradients:
                dx, *of_states, dparams = gradients[0]
                named |= {"dx": time_major(dx)}
                named |= by_state(case, map(time_major, of_states), "dh0", "dc0")
                params = tensorflow.to_array(dparams)
                named |= cases.weight_gradients(cases.canonical_of(case, params))
            return named

        return Step(lambda: step(*tensors), as_arrays)
