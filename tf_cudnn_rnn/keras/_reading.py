"""Values of a layer's variables, whatever layer is being called around it."""

from typing import Any

import keras
import tensorflow as tf


def value_of(variable: Any, layer: keras.Layer) -> tf.Tensor:
    """The value of a variable of `layer`: in the variable's type, or in that the layer computes in.

    Keras casts each variable that is read to the compute dtype of the layer whose __call__ runs. A
    wrapper that runs its layer's `call` instead, as TimeDistributed does, may have another one:
    weights of float32 would lose bits on the way through its bfloat16.
    """
    value = tf.convert_to_tensor(variable)
    if value.dtype.name in (layer.variable_dtype, layer.compute_dtype):
        return value

    def read(_: tf.Tensor) -> tf.Tensor:
        return tf.convert_to_tensor(variable)

    # What Keras casts is not for others to say; but any layer of the right type will do.
    reader = keras.layers.Lambda(read, dtype=layer.dtype_policy, name="reader")
    return reader(tf.zeros([]))
