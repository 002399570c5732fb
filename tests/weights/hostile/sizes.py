"""Numbers of layers, which would be as many loops."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.weights.hostile.attack import Attack, case
from tf_cudnn_rnn import weights
from tf_cudnn_rnn.weights import Layout, ParamName


def many_layers(read: Callable, value: Any, mode: str = "lstm", names=("[4]",)) -> Attack:
    return Attack(read, (value, mode, 10**9, 2, 2), 16, names)


@case
def params_of_a_billion_layers(folder):
    return many_layers(weights.params_to_canonical, np.zeros(4))


@case
def cudnn_of_a_billion_layers(folder):
    return many_layers(weights.from_cudnn, np.zeros(4))


@case
def mxnet_of_a_billion_layers(folder):
    return many_layers(weights.from_mxnet, np.zeros(4))


@case
def cntk_of_a_billion_layers(folder):
    return many_layers(weights.from_cntk, np.zeros(4))


@case
def named_weights_of_a_billion_layers(folder):
    named = {ParamName(0, "forward", "input", "input_kernel"): np.zeros([2, 2])}
    return many_layers(weights.canonical_to_params, named, names=("missing",))


@case
def no_weights_of_a_billion_layers(folder):
    return many_layers(weights.canonical_to_params, {}, names=("missing",))


@case
def canonical_of_a_billion_layers(folder):
    return Attack(weights.Canonical, (Layout("gru", 10**9, 1, 1), {}), 0, ("missing",))


@case
def named_weights_of_other_types(folder):
    named = [(ParamName([], {}, 3.5, None), np.zeros(3))]
    return Attack(weights.canonical_to_params, (named, "lstm", 1, 2, 2), 24, ("named",))
