"""Mappings of arrays, whose keys and texts come from a file."""

import functools
from typing import Any

import numpy as np

from tests.weights.hostile.attack import Attack, case, of_mapping
from tf_cudnn_rnn import weights
from tf_cudnn_rnn.weights import OnnxNode


def state(**more: np.ndarray) -> dict:
    of_layer = {"weight_ih_l0": [8, 3], "weight_hh_l0": [8, 2]}
    return {name: np.zeros(shape, np.float32) for name, shape in of_layer.items()} | more


MATRIX = np.zeros([8, 2], np.float32)


@case
def torch_layer_far_away(folder):
    far = "weight_ih_l999999999"
    return of_mapping(weights.from_torch, state(**{far: MATRIX}), "lstm", names=(far,))


@case
def torch_of_many_layers_without_end(folder):
    far = {f"weight_ih_l{2 * i}": np.zeros([0], np.float32) for i in range(20_000)}
    return of_mapping(weights.from_torch, state(**far), "lstm", names=("weight_ih_l1",))


@case
def torch_with_a_long_key(folder):
    far = {"a." * 500_000 + "weight_ih_l0": MATRIX}
    return of_mapping(weights.from_torch, state(**far), "lstm", names=("prefix",))


TF1 = "rnn/multi_rnn_cell/cell_{}/cudnn_compatible_lstm_cell/"


def tf1(layer) -> dict:
    cell = TF1.format(layer)
    return {cell + "kernel": np.zeros([5, 8], np.float32), cell + "bias": np.zeros(8, np.float32)}


@case
def tf1_layer_far_away(folder):
    variables = tf1(0) | tf1(999999999)
    return of_mapping(weights.from_tf1_cudnn, variables, "lstm", names=("999999999",))


@case
def tf1_layer_of_5000_digits(folder):
    variables = tf1("9" * 5000)
    return of_mapping(weights.from_tf1_cudnn, variables, "lstm", names=("cell_9999",))


@case
def tf1_of_texts(folder):
    variables = {key: np.full(array.shape, "a") for key, array in tf1(0).items()}
    return of_mapping(weights.from_tf1_cudnn, variables, "lstm", names=("floating-point",))


@case
def tf1_of_times(folder):
    names = {key.replace("cudnn_compatible", "basic"): array for key, array in tf1(0).items()}
    variables = {k: np.zeros(array.shape, "m8[s]") for k, array in names.items()}
    return of_mapping(weights.from_tf1_lstm_cell, variables, names=("floating-point",))


@case
def tf1_with_a_long_key(folder):
    key = "rnn/" * 100_000 + TF1.format(0) + "kernel/a"
    return of_mapping(weights.from_tf1_cudnn, {key: MATRIX}, "lstm", names=("found",))


def onnx(attributes: dict, op_type: Any = "LSTM", names=(), **arrays) -> Attack:
    shapes = {"W": [1, 8, 3], "R": [1, 8, 2], "B": [1, 16]}
    arrays = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()} | arrays
    read = functools.partial(weights.from_onnx, OnnxNode(op_type, attributes, **arrays))
    return Attack(read, (), 1000, ("nodes", *names))


@case
def onnx_activations_of_numbers(folder):
    return onnx({"activations": [1, 2, 3]}, names=("activations",))


@case
def onnx_activations_of_a_number(folder):
    return onnx({"activations": 3}, names=("activations",))


@case
def onnx_activations_that_are_no_text(folder):
    return onnx({"activations": [b"\xff", b"Tanh", b"Tanh"]}, names=("activations",))


@case
def onnx_direction_of_a_number(folder):
    return onnx({"direction": 1}, names=("direction",))


@case
def onnx_hidden_size_of_an_array(folder):
    return onnx({"hidden_size": np.arange(3)}, names=("hidden_size",))


@case
def onnx_flag_of_a_text(folder):
    return onnx({"linear_before_reset": b"\xff"}, "GRU", names=("linear_before_reset",))


@case
def onnx_flag_of_an_array(folder):
    return onnx({"input_forget": np.arange(3)}, names=("input_forget",))


@case
def onnx_op_type_of_a_list(folder):
    return onnx({}, ["LSTM"], names=("op_type",))


@case
def onnx_kernel_of_none(folder):
    return onnx({}, names=("W",), W=None)


@case
def onnx_peepholes_of_texts(folder):
    return onnx({}, names=("P",), P=np.array(["a"]))
