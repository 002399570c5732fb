"""Writes what NVIDIA's cuDNN 9 says and computes, for tests/golden/cudnn_results_test.py.

    python make_cudnn_golden.py                  needs an NVIDIA GPU
    python make_cudnn_golden.py --layout-only    needs none: where weights lie, and no results

Beside numpy it needs libcudnn.so.9 and libcudart.so, which are found where the dynamic linker
looks, in pip's packages (nvidia-cudnn-cu12, nvidia-cuda-runtime-cu12) or where --cudnn and
--cudart say. Into the folder `cudnn` beside this file, or into FOLDER, it writes two files .npz,
results-* and dropout-*, or layout-* alone:

  about               JSON: versions, device, seed
  cases               JSON: the fields of each Case
  <case>/size         elements of the weight space
  <case>/matrices     [L*D, ids, 3]: offset in elements, rows and columns; -1 where there is none
  <case>/biases       [L*D, ids, 2]: offset, size; -1 where there is none
  <case>/status       "" or the call that cuDNN refused, with its status
  <case>/x, h0, c0, params, dy, dh_n, dc_n            what went in
  <case>/y, h_n, c_n, dx, dh0, dc0, dparams           what came out

dropout-* has networks that drop between their two layers, and the y of more calls:

  <case>/y_undropped    of a training call with rate 0
  <case>/y_next         of the training call after that of y, with the same dropout descriptor
  <case>/y_restarted    of a training call after the descriptor was set again, with the same seed
  <case>/y_inference    of a call for inference with this descriptor

cuDNN's random stream is its own, so these networks let y show what was dropped (`transparent`).

Tensors are time-major, [T, B, features], or batch-major, [B, T, features], as the case says; states
are [L*D, B, size]. Padding holds 100 in x and dy, so that it shows if somebody reads it. `params`
is the weight space; its values are drawn one matrix after the other, at cuDNN's addresses.
"""

import argparse
import ctypes
import dataclasses
import datetime
import glob
import json
import pathlib
import re
import sys
from collections.abc import Iterator
from ctypes import (
    POINTER,
    c_char,
    c_double,
    c_float,
    c_int,
    c_int32,
    c_size_t,
    c_uint32,
    c_ulonglong,
    c_void_p,
)

import numpy as np

# ------------------------------------------------------------------------------------
# cuDNN's numbers (cudnn_graph.h, cudnn_adv.h) and those of the CUDA runtime
# ------------------------------------------------------------------------------------

CUDNN_DATA = {"float32": 0, "float64": 1, "float16": 2}
# The type of its sums.
CUDNN_PRECISION = CUDNN_DATA | {"float16": CUDNN_DATA["float32"]}
CUDNN_FMA_MATH = 3  # neither tensor cores nor TF32
CUDNN_RNN_ALGO_STANDARD = 0
CUDNN_RNN_MODES = {"rnn_relu": 0, "rnn_tanh": 1, "lstm": 2, "gru": 3}
CUDNN_RNN_DOUBLE_BIAS = 2
CUDNN_DIRECTIONS = {1: 0, 2: 1}  # by the number of directions
CUDNN_LINEAR_INPUT, CUDNN_SKIP_INPUT = 0, 1
CUDNN_RNN_PADDED_IO_ENABLED = 1
CUDNN_SEQ_MAJOR_UNPACKED, CUDNN_BATCH_MAJOR_UNPACKED = 0, 2
CUDNN_FWD_MODE_INFERENCE, CUDNN_FWD_MODE_TRAINING = 0, 1
CUDNN_WGRAD_MODE_ADD = 0
CUDA_HOST_TO_DEVICE, CUDA_DEVICE_TO_HOST = 1, 2
CUDA_CAPABILITY_MAJOR, CUDA_CAPABILITY_MINOR = 75, 76

# What each function returns and takes. `const int32_t devSeqLengths[]` lies on the device: an
# address. So do all tensors.
_CREATE = (c_int, [POINTER(c_void_p)])
CUDNN = {
    "cudnnGetVersion": (c_size_t, []),
    "cudnnGetErrorString": (c_void_p, [c_int]),
    "cudnnGetLastErrorString": (None, [POINTER(c_char), c_size_t]),
    "cudnnCreate": _CREATE,
    "cudnnDestroy": (c_int, [c_void_p]),
    "cudnnCreateRNNDescriptor": _CREATE,
    "cudnnCreateRNNDataDescriptor": _CREATE,
    "cudnnCreateTensorDescriptor": _CREATE,
    "cudnnCreateDropoutDescriptor": _CREATE,
    "cudnnDestroyRNNDescriptor": (c_int, [c_void_p]),
    "cudnnDestroyRNNDataDescriptor": (c_int, [c_void_p]),
    "cudnnDestroyTensorDescriptor": (c_int, [c_void_p]),
    "cudnnDestroyDropoutDescriptor": (c_int, [c_void_p]),
    # handle, sizeInBytes
    "cudnnDropoutGetStatesSize": (c_int, [c_void_p, POINTER(c_size_t)]),
    # dropoutDesc, handle, dropout, states, stateSizeInBytes, seed
    "cudnnSetDropoutDescriptor": (
        c_int,
        [c_void_p, c_void_p, c_float, c_void_p, c_size_t, c_ulonglong],
    ),
    # rnnDesc, algo, cellMode, biasMode, dirMode, inputMode, dataType, mathPrec, mathType,
    # inputSize, hiddenSize, projSize, numLayers, dropoutDesc, auxFlags
    "cudnnSetRNNDescriptor_v8": (
        c_int,
        [c_void_p, *[c_int] * 8, *[c_int32] * 4, c_void_p, c_uint32],
    ),
    # rnnDataDesc, dataType, layout, maxSeqLength, batchSize, vectorSize, seqLengthArray,
    # paddingFill
    "cudnnSetRNNDataDescriptor": (c_int, [c_void_p, *[c_int] * 5, POINTER(c_int), c_void_p]),
    # tensorDesc, dataType, nbDims, dimA, strideA
    "cudnnSetTensorNdDescriptor": (
        c_int,
        [c_void_p, c_int, c_int, POINTER(c_int), POINTER(c_int)],
    ),
    # tensorDesc, nbDimsRequested, dataType, nbDims, dimA, strideA
    "cudnnGetTensorNdDescriptor": (c_int, [c_void_p, c_int, *[POINTER(c_int)] * 4]),
    # handle, rnnDesc, weightSpaceSize
    "cudnnGetRNNWeightSpaceSize": (c_int, [c_void_p, c_void_p, POINTER(c_size_t)]),
    # handle, rnnDesc, pseudoLayer, weightSpaceSize, weightSpace, linLayerID, mDesc, mAddr, bDesc,
    # bAddr
    "cudnnGetRNNWeightParams": (
        c_int,
        [c_void_p, c_void_p, c_int32, c_size_t, c_void_p, c_int32]
        + [c_void_p, POINTER(c_void_p), c_void_p, POINTER(c_void_p)],
    ),
    # handle, rnnDesc, fwdMode, xDesc, workSpaceSize, reserveSpaceSize
    "cudnnGetRNNTempSpaceSizes": (
        c_int,
        [c_void_p, c_void_p, c_int, c_void_p, POINTER(c_size_t), POINTER(c_size_t)],
    ),
    # handle, rnnDesc, fwdMode, devSeqLengths, xDesc, x, yDesc, y, hDesc, hx, hy, cDesc, cx, cy,
    # weightSpaceSize, weightSpace, workSpaceSize, workSpace, reserveSpaceSize, reserveSpace
    "cudnnRNNForward": (
        c_int,
        [c_void_p, c_void_p, c_int, *[c_void_p] * 11, *[c_size_t, c_void_p] * 3],
    ),
    # handle, rnnDesc, devSeqLengths, yDesc, y, dy, xDesc, dx, hDesc, hx, dhy, dhx, cDesc, cx, dcy,
    # dcx, weightSpaceSize, weightSpace, workSpaceSize, workSpace, reserveSpaceSize, reserveSpace
    "cudnnRNNBackwardData_v8": (c_int, [*[c_void_p] * 16, *[c_size_t, c_void_p] * 3]),
    # handle, rnnDesc, addGrad, devSeqLengths, xDesc, x, hDesc, hx, yDesc, y, weightSpaceSize,
    # dweightSpace, workSpaceSize, workSpace, reserveSpaceSize, reserveSpace
    "cudnnRNNBackwardWeights_v8": (
        c_int,
        [c_void_p, c_void_p, c_int, *[c_void_p] * 7, *[c_size_t, c_void_p] * 3],
    ),
}
CUDART = {
    "cudaGetErrorString": (c_void_p, [c_int]),
    "cudaGetDeviceCount": (c_int, [POINTER(c_int)]),
    "cudaDeviceGetAttribute": (c_int, [POINTER(c_int), c_int, c_int]),
    "cudaRuntimeGetVersion": (c_int, [POINTER(c_int)]),
    "cudaDriverGetVersion": (c_int, [POINTER(c_int)]),
    "cudaMalloc": (c_int, [POINTER(c_void_p), c_size_t]),
    "cudaFree": (c_int, [c_void_p]),
    "cudaMemset": (c_int, [c_void_p, c_int, c_size_t]),
    "cudaMemcpy": (c_int, [c_void_p, c_void_p, c_size_t, c_int]),
    "cudaDeviceSynchronize": (c_int, []),
}


class Unavailable(Exception):
    """Something that the program cannot do without is not there; the message says what."""


class Refused(Exception):
    """A call returned another status than success."""


class Library:
    """The functions of a table; a call that fails raises Refused.

    Args:
      loaded: what has the functions as attributes, such as a ctypes.CDLL.
      table: CUDNN or CUDART.
      error_string: the function that names a status.
    """

    def __init__(self, loaded, table: dict, error_string: str):
        self._functions = {}
        for name, (restype, argtypes) in table.items():
            try:
                function = getattr(loaded, name)
            except AttributeError:
                raise Unavailable(f"The library has no function {name}.") from None
            function.restype, function.argtypes = restype, argtypes
            self._functions[name] = function
        self._error_string = error_string

    def get(self, name: str, *arguments):
        """Calls a function that returns no status."""
        return self._functions[name](*arguments)

    def __call__(self, name: str, *arguments) -> None:
        status = self._functions[name](*arguments)
        if status != 0:
            text = ctypes.string_at(self.get(self._error_string, status)).decode()
            raise Refused(f"{name}: {status} {text}")

    def create(self, name: str) -> c_void_p:
        """Calls a function that makes a handle or a descriptor."""
        made = c_void_p()
        self(name, ctypes.byref(made))
        return made


def load(path: str | None, names: list[str], folder: str, table: dict, error_string: str):
    """Loads the first of these libraries that there is, or the one at `path`.

    Raises:
      Unavailable: there is none.
    """
    found = [path] if path else [*names]
    if not path:
        for root in sys.path:
            found += [f for name in names for f in glob.glob(f"{root}/nvidia/{folder}/lib/{name}")]
        found += [f for name in names for f in glob.glob(f"/usr/local/cuda*/lib64/{name}")]
    for each in found:
        try:
            # cuDNN looks for the functions of the CUDA runtime.
            loaded = ctypes.CDLL(each, mode=ctypes.RTLD_GLOBAL)
        except OSError:
            continue
        return Library(loaded, table, error_string)
    raise Unavailable(f"There is no library {' or '.join([path] if path else names)}.")


# ------------------------------------------------------------------------------------
# Cases
# ------------------------------------------------------------------------------------

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}
I, H, P, T, B = 3, 5, 2, 4, 3
FULL, RAGGED, WITH_ZERO = (T,) * B, (2, T, 1), (2, 0, T)


@dataclasses.dataclass(frozen=True)
class Case:
    """One call; the fields are those of the ops, num_proj is num_units if it does not project."""

    rnn_mode: str
    num_layers: int
    num_dirs: int
    num_proj: int = H
    skip: bool = False
    lengths: tuple[int, ...] = FULL
    batch_major: bool = False
    dtype: str = "float64"
    num_units: int = H
    dropout: float = 0.0

    @property
    def input_size(self) -> int:
        return self.num_units if self.skip else I

    @property
    def num_ids(self) -> int:
        """Matrices of a pseudo-layer: of the input, of h, and the projection."""
        return 2 * GATES[self.rnn_mode] + (self.num_proj != self.num_units)

    @property
    def name(self) -> str:
        words = [self.rnn_mode, f"{self.num_layers}x{self.num_dirs}"]
        words += [f"proj{self.num_proj}"] if self.num_proj != self.num_units else []
        words += ["skip"] if self.skip else []
        words += [] if self.lengths == FULL else ["_".join(map(str, self.lengths))]
        words += ["batch_major"] if self.batch_major else []
        words += [f"dropout{self.dropout}"] if self.dropout else []
        return "-".join([*words, self.dtype])


def layout_cases() -> list[Case]:
    """Networks of all kinds."""
    found = []
    for rnn_mode in GATES:
        for num_layers in (1, 2, 3):
            for num_dirs in (1, 2):
                found += [Case(rnn_mode, num_layers, num_dirs, skip=s) for s in (False, True)]
                if rnn_mode == "lstm":
                    found.append(Case(rnn_mode, num_layers, num_dirs, num_proj=P))
                    found.append(Case(rnn_mode, num_layers, num_dirs, num_proj=P, skip=True))
    return found


def result_cases() -> list[Case]:
    """Calls of all kinds."""
    found = []
    for rnn_mode in GATES:
        found += [Case(rnn_mode, layers, dirs) for layers in (1, 2) for dirs in (1, 2)]
        both_ways = Case(rnn_mode, 2, 2)
        changes = [
            {"skip": True},
            {"lengths": RAGGED},
            {"lengths": RAGGED, "batch_major": True},
            {"lengths": RAGGED, "skip": True},
            {"lengths": WITH_ZERO},
            {"dtype": "float32"},
            {"dtype": "float32", "lengths": RAGGED},
            {"dtype": "float16"},
            {"dtype": "float16", "lengths": RAGGED},
        ]
        if rnn_mode == "lstm":
            changes += [{"num_proj": P}, {"num_proj": P, "lengths": RAGGED}]
            changes += [{"num_proj": P, "dtype": "float32"}, {"num_proj": P, "skip": True}]
            found.append(Case(rnn_mode, 1, 1, num_proj=P))
        found += [dataclasses.replace(both_ways, **change) for change in changes]
    return found


def dropout_cases() -> list[Case]:
    """Calls of networks that drop between layers, for `transparent`."""
    case = Case("rnn_relu", 2, 2, num_units=32, num_proj=32, dropout=0.25)
    return [case, dataclasses.replace(case, lengths=RAGGED)]


# ------------------------------------------------------------------------------------
# What cuDNN says
# ------------------------------------------------------------------------------------


def new_rnn_descriptor(cudnn: Library, case: Case, dropout: c_void_p | None) -> c_void_p:
    """Describes the network of a case."""
    descriptor = cudnn.create("cudnnCreateRNNDescriptor")
    cudnn(
        "cudnnSetRNNDescriptor_v8",
        descriptor,
        CUDNN_RNN_ALGO_STANDARD,
        CUDNN_RNN_MODES[case.rnn_mode],
        CUDNN_RNN_DOUBLE_BIAS,
        CUDNN_DIRECTIONS[case.num_dirs],
        CUDNN_SKIP_INPUT if case.skip else CUDNN_LINEAR_INPUT,
        CUDNN_DATA[case.dtype],
        CUDNN_PRECISION[case.dtype],
        CUDNN_FMA_MATH,
        case.input_size,
        case.num_units,
        case.num_proj,
        case.num_layers,
        dropout,
        CUDNN_RNN_PADDED_IO_ENABLED,
    )
    return descriptor


def layout_of(cudnn: Library, handle: c_void_p, rnn: c_void_p, case: Case) -> dict:
    """Where each matrix and bias lies: size, matrices and biases."""
    size = c_size_t()
    cudnn("cudnnGetRNNWeightSpaceSize", handle, rnn, ctypes.byref(size))
    itemsize = np.dtype(case.dtype).itemsize
    # Nobody reads what is there.
    start = 1 << 30
    matrix = cudnn.create("cudnnCreateTensorDescriptor")
    bias = cudnn.create("cudnnCreateTensorDescriptor")
    matrices = np.full([case.num_layers * case.num_dirs, case.num_ids, 3], -1)
    biases = np.full([case.num_layers * case.num_dirs, case.num_ids, 2], -1)
    for k, i in np.ndindex(matrices.shape[:2]):
        of_matrix, of_bias = c_void_p(), c_void_p()
        cudnn(
            *("cudnnGetRNNWeightParams", handle, rnn, k, size, start, i),
            *(matrix, ctypes.byref(of_matrix), bias, ctypes.byref(of_bias)),
        )
        if of_matrix.value:
            matrices[k, i] = ((of_matrix.value - start) // itemsize, *dims_of(cudnn, matrix)[-2:])
        if of_bias.value:
            dims = dims_of(cudnn, bias)
            biases[k, i] = ((of_bias.value - start) // itemsize, np.prod(dims))
    for descriptor in (matrix, bias):
        cudnn("cudnnDestroyTensorDescriptor", descriptor)
    return {"size": np.array(size.value // itemsize), "matrices": matrices, "biases": biases}


def dims_of(cudnn: Library, tensor: c_void_p) -> list[int]:
    """The dimensions of a tensor, which must be one after the other in memory."""
    most = 8
    dtype, count = c_int(), c_int()
    dims, strides = (c_int * most)(), (c_int * most)()
    numbers = (ctypes.byref(dtype), ctypes.byref(count), dims, strides)
    cudnn("cudnnGetTensorNdDescriptor", tensor, most, *numbers)
    found = list(dims[: count.value])
    for i, stride in enumerate(strides[: count.value]):
        if found[i] > 1 and stride != np.prod(found[i + 1 :]):
            raise Refused(f"a matrix has dimensions {found} and strides {list(strides)}")
    return found


# ------------------------------------------------------------------------------------
# What cuDNN computes
# ------------------------------------------------------------------------------------


class Gpu:
    """Memory of the device, given back all at once."""

    def __init__(self, cudart: Library):
        self._cudart = cudart
        self._taken: list[c_void_p] = []

    def room(self, num_bytes: int, fill: int = 0xFF) -> c_void_p:
        """Memory with each byte `fill`: by default what nobody writes is NaN."""
        address = c_void_p()
        self._cudart("cudaMalloc", ctypes.byref(address), max(num_bytes, 1))
        self._taken.append(address)
        self._cudart("cudaMemset", address, fill, max(num_bytes, 1))
        return address

    def upload(self, array: np.ndarray) -> c_void_p:
        array = np.ascontiguousarray(array)
        address = self.room(array.nbytes)
        self._cudart("cudaMemcpy", address, array.ctypes.data, array.nbytes, CUDA_HOST_TO_DEVICE)
        return address

    def download(self, address: c_void_p, shape, dtype) -> np.ndarray:
        self._cudart("cudaDeviceSynchronize")
        array = np.empty(shape, dtype)
        self._cudart("cudaMemcpy", array.ctypes.data, address, array.nbytes, CUDA_DEVICE_TO_HOST)
        return array

    def free(self) -> None:
        while self._taken:
            self._cudart("cudaFree", self._taken.pop())


def drawn(rng: np.random.Generator, case: Case, layout: dict) -> dict[str, np.ndarray]:
    """The inputs of a call."""
    params = np.zeros([int(layout["size"])])
    for offset, rows, columns in layout["matrices"].reshape(-1, 3):
        if offset >= 0:
            count = rows * columns
            params[offset:][:count] = rng.normal(size=count) / np.sqrt(columns)
    for offset, count in layout["biases"].reshape(-1, 2):
        if offset >= 0:
            params[offset:][:count] = rng.normal(size=count) * 0.3
    k = case.num_layers * case.num_dirs
    arrays = {
        "x": rng.normal(size=[T, B, case.input_size]),
        "h0": rng.normal(size=[k, B, case.num_proj]) * 0.5,
        "params": params,
        "dy": rng.normal(size=[T, B, case.num_dirs * case.num_proj]),
        "dh_n": rng.normal(size=[k, B, case.num_proj]),
    }
    if case.rnn_mode == "lstm":
        arrays["c0"] = rng.normal(size=[k, B, case.num_units]) * 0.5
        arrays["dc_n"] = rng.normal(size=[k, B, case.num_units])
    for name in ("x", "dy"):
        arrays[name][np.arange(T)[:, None] >= np.array(case.lengths)] = 100
        if case.batch_major:
            arrays[name] = arrays[name].swapaxes(0, 1)
    return {name: np.ascontiguousarray(a, case.dtype) for name, a in arrays.items()}


def transparent(rng: np.random.Generator, case: Case, layout: dict) -> dict[str, np.ndarray]:
    """The inputs of a call with dropout, whose y shows what was dropped.

    Layer 1 has positive outputs. Both directions of layer 2 pass on its forward half.
    """
    arrays = drawn(rng, case, layout)
    arrays |= {name: np.abs(arrays[name]) for name in ("x", "h0", "params")}
    arrays["h0"][case.num_dirs :] = 0
    for k, i in np.ndindex(layout["matrices"].shape[:2]):
        offset, rows, columns = layout["matrices"][k, i]
        matrix = arrays["params"][offset:][: rows * columns].reshape(rows, columns)
        if k >= case.num_dirs:
            matrix[...] = np.eye(rows, columns) if i == 0 else 0
        elif i == 1:
            matrix *= 0.1
    for offset, count in layout["biases"][case.num_dirs :].reshape(-1, 2):
        arrays["params"][offset:][:count] = 0
    return arrays


class Call:
    """The descriptors of a call and its memory."""

    def __init__(self, cudnn: Library, gpu: Gpu, handle: c_void_p, case: Case, rnn: c_void_p):
        self._cudnn, self._gpu, self._handle, self._case, self._rnn = cudnn, gpu, handle, case, rnn

    def _data_descriptor(self, features: int) -> c_void_p:
        descriptor = self._cudnn.create("cudnnCreateRNNDataDescriptor")
        zero = c_double(0)  # whose first bytes are a zero of the other types, too
        self._cudnn(
            "cudnnSetRNNDataDescriptor",
            descriptor,
            CUDNN_DATA[self._case.dtype],
            CUDNN_BATCH_MAJOR_UNPACKED if self._case.batch_major else CUDNN_SEQ_MAJOR_UNPACKED,
            T,
            B,
            features,
            (c_int * B)(*self._case.lengths),
            ctypes.addressof(zero),
        )
        return descriptor

    def _state_descriptor(self, features: int) -> c_void_p:
        descriptor = self._cudnn.create("cudnnCreateTensorDescriptor")
        dims = (c_int * 3)(self._case.num_layers * self._case.num_dirs, B, features)
        strides = (c_int * 3)(B * features, features, 1)
        dtype = CUDNN_DATA[self._case.dtype]
        self._cudnn("cudnnSetTensorNdDescriptor", descriptor, dtype, 3, dims, strides)
        return descriptor

    def run(self, arrays: dict[str, np.ndarray], training: bool = True) -> dict[str, np.ndarray]:
        """A training step: outputs and gradients. Without `training` inference: outputs alone."""
        case, cudnn, gpu = self._case, self._cudnn, self._gpu
        is_lstm = case.rnn_mode == "lstm"
        mode = CUDNN_FWD_MODE_TRAINING if training else CUDNN_FWD_MODE_INFERENCE
        x_desc = self._data_descriptor(case.input_size)
        y_desc = self._data_descriptor(case.num_dirs * case.num_proj)
        h_desc = self._state_descriptor(case.num_proj)
        c_desc = self._state_descriptor(case.num_units) if is_lstm else None
        given = {name: gpu.upload(array) for name, array in arrays.items()}
        lengths = gpu.upload(np.array(case.lengths, np.int32))
        # What comes out, and the input that it is as large as.
        like = {"y": "dy", "h_n": "h0"} | ({"c_n": "c0"} if is_lstm else {})
        if training:
            like |= {"dx": "x", "dh0": "h0"} | ({"dc0": "c0"} if is_lstm else {})
        found = {name: gpu.room(arrays[other].nbytes) for name, other in like.items()}
        num_bytes = arrays["params"].nbytes
        work, reserve = c_size_t(), c_size_t()
        cudnn(
            *("cudnnGetRNNTempSpaceSizes", self._handle, self._rnn, mode),
            *(x_desc, ctypes.byref(work), ctypes.byref(reserve)),
        )
        # Inference wants no reserve space.
        reserved = gpu.room(reserve.value) if reserve.value else None
        spaces = (work, gpu.room(work.value), reserve, reserved)
        weights = (num_bytes, given["params"])
        cudnn(
            *("cudnnRNNForward", self._handle, self._rnn, mode, lengths),
            *(x_desc, given["x"], y_desc, found["y"]),
            *(h_desc, given["h0"], found["h_n"], c_desc, given.get("c0"), found.get("c_n")),
            *(*weights, *spaces),
        )
        if training:
            cudnn(
                *("cudnnRNNBackwardData_v8", self._handle, self._rnn, lengths),
                *(y_desc, found["y"], given["dy"], x_desc, found["dx"]),
                *(h_desc, given["h0"], given["dh_n"], found["dh0"]),
                *(c_desc, given.get("c0"), given.get("dc_n"), found.get("dc0")),
                *(*weights, *spaces),
            )
            # Gradients are added to what is there.
            found["dparams"] = gpu.room(num_bytes, fill=0)
            cudnn(
                *("cudnnRNNBackwardWeights_v8", self._handle, self._rnn, CUDNN_WGRAD_MODE_ADD),
                *(lengths, x_desc, given["x"], h_desc, given["h0"], y_desc, found["y"]),
                *(num_bytes, found["dparams"], *spaces),
            )
            like["dparams"] = "params"
        results = {
            name: gpu.download(found[name], arrays[other].shape, case.dtype)
            for name, other in like.items()
        }
        for descriptor in (x_desc, y_desc):
            cudnn("cudnnDestroyRNNDataDescriptor", descriptor)
        for descriptor in (h_desc, c_desc) if is_lstm else (h_desc,):
            cudnn("cudnnDestroyTensorDescriptor", descriptor)
        return results


def dropped(
    cudnn: Library, gpu: Gpu, handle: c_void_p, case: Case, arrays: dict, seed: int
) -> Iterator[dict[str, np.ndarray]]:
    """Yields what calls with dropout compute, one call after the other."""
    size = c_size_t()
    cudnn("cudnnDropoutGetStatesSize", handle, ctypes.byref(size))
    states = gpu.room(size.value)
    dropout = cudnn.create("cudnnCreateDropoutDescriptor")

    def restarted() -> c_void_p:
        # The RNN descriptor may copy the dropout descriptor, so it comes second.
        cudnn("cudnnSetDropoutDescriptor", dropout, handle, case.dropout, states, size, seed)
        return new_rnn_descriptor(cudnn, case, dropout)

    rnn = restarted()
    call = Call(cudnn, gpu, handle, case, rnn)
    yield call.run(arrays)
    yield {"y_next": call.run(arrays)["y"]}
    again = restarted()
    call = Call(cudnn, gpu, handle, case, again)
    yield {"y_restarted": call.run(arrays)["y"]}
    yield {"y_inference": call.run(arrays, training=False)["y"]}
    for descriptor in (rnn, again):
        cudnn("cudnnDestroyRNNDescriptor", descriptor)
    cudnn("cudnnDestroyDropoutDescriptor", dropout)


# ------------------------------------------------------------------------------------
# The files
# ------------------------------------------------------------------------------------


def layouts(cudnn: Library) -> dict:
    """The arrays of the file that tells layouts alone."""
    # A handle wants a GPU. For the layout cuDNN asks no more of it than that it is not NULL.
    room = ctypes.create_string_buffer(1 << 20)
    handle = c_void_p(ctypes.addressof(room))
    arrays = {}
    for case in layout_cases():
        rnn = new_rnn_descriptor(cudnn, case, None)
        for name, array in layout_of(cudnn, handle, rnn, case).items():
            arrays[f"{case.name}/{name}"] = array
        cudnn("cudnnDestroyRNNDescriptor", rnn)
    return arrays


def results(cudnn: Library, cudart: Library, cases: list[Case], seed: int) -> dict:
    """The arrays of a file that has results, too."""
    handle = cudnn.create("cudnnCreate")
    dropout = cudnn.create("cudnnCreateDropoutDescriptor")
    cudnn("cudnnSetDropoutDescriptor", dropout, handle, 0, None, 0, 0)  # there is none
    arrays = {}
    for number, case in enumerate(cases):
        rnn = new_rnn_descriptor(cudnn, case, dropout)
        found = layout_of(cudnn, handle, rnn, case)
        draw = transparent if case.dropout else drawn
        inputs = draw(np.random.default_rng([seed, number]), case, found)
        found |= inputs
        gpu = Gpu(cudart)
        status = ""
        try:
            computed = Call(cudnn, gpu, handle, case, rnn).run(inputs)
            if case.dropout:
                found["y_undropped"] = computed["y"]
                for of_call in dropped(cudnn, gpu, handle, case, inputs, seed):
                    found |= of_call
            else:
                found |= computed
        except Refused as error:
            status = str(error)
        gpu.free()
        cudnn("cudnnDestroyRNNDescriptor", rnn)
        print(f"{case.name}: {status or 'computed'}", flush=True)
        arrays |= {f"{case.name}/{name}": array for name, array in found.items()}
        arrays[f"{case.name}/status"] = np.array(status)
    cudnn("cudnnDestroyDropoutDescriptor", dropout)
    cudnn("cudnnDestroy", handle)
    return arrays


def about_gpu(cudart: Library) -> dict:
    """Says which GPU it is.

    Raises:
      Unavailable: there is none.
    """
    count = c_int()
    try:
        cudart("cudaGetDeviceCount", ctypes.byref(count))
    except Refused as error:
        raise Unavailable(f"There is no NVIDIA GPU that CUDA can use ({error}).") from None
    if count.value == 0:
        raise Unavailable("There is no NVIDIA GPU that CUDA can use.")
    numbers = {}
    for name, function in (
        ("runtime", "cudaRuntimeGetVersion"),
        ("driver", "cudaDriverGetVersion"),
    ):
        value = c_int()
        cudart(function, ctypes.byref(value))
        numbers[name] = value.value
    capability = []
    for attribute in (CUDA_CAPABILITY_MAJOR, CUDA_CAPABILITY_MINOR):
        value = c_int()
        cudart("cudaDeviceGetAttribute", ctypes.byref(value), attribute, 0)
        capability.append(str(value.value))
    return numbers | {"compute_capability": ".".join(capability)}


def save(
    folder: pathlib.Path, stem: str, arrays: dict, cases: list[Case], about: dict
) -> pathlib.Path:
    """Writes a file; returns its path."""
    arrays["about"] = np.array(json.dumps(about))
    arrays["cases"] = np.array(json.dumps({case.name: dataclasses.asdict(case) for case in cases}))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}.npz"
    np.savez_compressed(path, **arrays)
    return path


def write(
    folder: pathlib.Path, cudnn: Library, cudart: Library | None, seed: int
) -> list[pathlib.Path]:
    """Writes the files; without `cudart` layouts alone. Returns their paths.

    Raises:
      Unavailable: there is no GPU, or another cuDNN than 9.
    """
    number = cudnn.get("cudnnGetVersion")
    # 9.1.2 is 90102, and 8.9.7 was 8907.
    thousands = 10000 if number >= 90000 else 1000
    major, minor, patch = number // thousands, number % thousands // 100, number % 100
    if major != 9:
        raise Unavailable(f"The library must be cuDNN 9; it is {major}.{minor}.{patch}.")
    version = f"{major}.{minor}.{patch}"
    about = {"cudnn": version, "numpy": np.__version__, "date": str(datetime.date.today())}
    if cudart is None:
        return [save(folder, f"layout-{version}", layouts(cudnn), layout_cases(), about)]
    about |= about_gpu(cudart) | {"seed": seed}
    place = f"{version}-sm{about['compute_capability'].replace('.', '')}"
    return [
        save(folder, f"{kind}-{place}", results(cudnn, cudart, cases, seed), cases, about)
        for kind, cases in (("results", result_cases()), ("dropout", dropout_cases()))
    ]


def main() -> None:
    """Writes the files, or says in one sentence why it cannot."""
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__)[0])
    parser.add_argument("folder", nargs="?", metavar="FOLDER", help="default: cudnn, beside this")
    parser.add_argument("--cudnn", help="the file libcudnn.so.9")
    parser.add_argument("--cudart", help="the file libcudart.so.12 or the like")
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--layout-only", action="store_true", help="needs no GPU")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.folder or pathlib.Path(__file__).with_name("cudnn"))
    try:
        names = ["libcudart.so.13", "libcudart.so.12", "libcudart.so"]
        cudart = load(arguments.cudart, names, "cu*", CUDART, "cudaGetErrorString")
    except Unavailable as error:
        sys.exit(f"make_cudnn_golden.py: {error}")
    try:
        names = ["libcudnn.so.9"]
        cudnn = load(arguments.cudnn, names, "cudnn", CUDNN, "cudnnGetErrorString")
        paths = write(folder, cudnn, None if arguments.layout_only else cudart, arguments.seed)
    except (Unavailable, Refused) as error:
        sys.exit(f"make_cudnn_golden.py: {error}")
    print(*paths, sep="\n")


if __name__ == "__main__":
    main()
