"""Between the weights of a Keras layer and params, by NumPy and the judge's layout alone."""

import numpy as np

from tests.reference import judge

# Where Keras has the gates of params.
_PLACES = {"rnn_relu": (0,), "rnn_tanh": (0,), "lstm": (0, 1, 2, 3), "gru": (1, 0, 2)}


def to_params(rnn_mode: str, weights: list, direction: str = "unidirectional") -> np.ndarray:
    """Returns params of the weights' type; biases that Keras does not have are zero.

    Args:
      weights: kernel, recurrent_kernel and maybe a bias, of one direction after the other.
    """
    kernel, recurrent_kernel = weights[:2]
    config = judge.Config(rnn_mode, 1, len(recurrent_kernel), len(kernel), direction)
    params = np.zeros([judge.params_size(config)], kernel.dtype)
    for one, other in _places(config, params, weights):
        one[...] = other
    return params


def from_params(rnn_mode: str, params: np.ndarray, num_units: int, num_biases: int) -> list:
    """Returns what of `params` is at each weight's place: kernel, recurrent_kernel, biases."""
    # N = G H (I + H + 2)
    columns = len(_PLACES[rnn_mode]) * num_units
    input_size = len(params) // columns - num_units - 2
    config = judge.Config(rnn_mode, 1, num_units, input_size)
    kernel = np.zeros([input_size, columns], params.dtype)
    recurrent_kernel = np.zeros([num_units, columns], params.dtype)
    bias = np.zeros([2, columns] if rnn_mode == "gru" else [columns], params.dtype)
    weights = [kernel, recurrent_kernel, *[bias] * num_biases]
    for one, other in _places(config, params, weights):
        other[...] = one
    return weights


def _places(config: judge.Config, params, weights: list):
    """Pairs of views: a gate in params, and the same one in Keras' weights."""
    count = len(weights) // config.D
    for k, layer in enumerate(judge.split_params(config, params)):
        kernel, recurrent_kernel, *biases = weights[k * count : (k + 1) * count]
        for gate, place in enumerate(_PLACES[config.rnn_mode]):
            columns = slice(place * config.H, (place + 1) * config.H)
            yield layer.W[gate], kernel[:, columns].T
            yield layer.R[gate], recurrent_kernel[:, columns].T
            for bias in biases:
                if config.rnn_mode != "gru":
                    yield layer.bW[gate], bias[columns]
                else:
                    yield layer.bW[gate], bias[0, columns]
                    yield layer.bR[gate], bias[1, columns]
