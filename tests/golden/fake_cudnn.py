"""Stands in for libcudnn and libcudart: the judge's answers behind C functions of the same types.

What make_cudnn_golden.py passes is converted by ctypes as for the real libraries, and what lies in
"device" memory is reached through addresses alone.
"""

import ctypes
import itertools
from typing import Any

import numpy as np

from tests.golden import make_cudnn_golden as program
from tests.reference import judge

SUCCESS, BAD_PARAM, NOT_SUPPORTED = 0, 2000, 3000
NAMES = {number: name for name, number in program.CUDNN_RNN_MODES.items()}


class Fake:
    """A library whose functions are the methods named like them, with an underscore in front."""

    table: dict

    def __init__(self):
        self.errors: list[Exception] = []
        for name, (restype, argtypes) in self.table.items():
            prototype = ctypes.CFUNCTYPE(restype, *argtypes)
            setattr(self, name, prototype(self._guarded(getattr(self, f"_{name}"))))

    def _guarded(self, method):
        def call(*arguments):
            try:
                result = method(*arguments)
            except Exception as error:  # ctypes would print it and go on
                self.errors.append(error)
                return BAD_PARAM
            return SUCCESS if result is None else result

        return call


class FakeCudart(Fake):
    """Device memory is the host's."""

    table = program.CUDART

    def __init__(self, devices: int = 1):
        super().__init__()
        self._devices = devices
        self.memory = {}
        self._text = ctypes.create_string_buffer(b"no such device")

    def _cudaGetErrorString(self, status):
        return ctypes.addressof(self._text)

    def _cudaGetDeviceCount(self, count):
        count[0] = self._devices

    def _cudaDeviceGetAttribute(self, value, attribute, device):
        value[0] = {75: 9, 76: 0}[attribute]

    def _cudaRuntimeGetVersion(self, value):
        value[0] = 12090

    def _cudaDriverGetVersion(self, value):
        value[0] = 13000

    def _cudaMalloc(self, address, size):
        room = ctypes.create_string_buffer(size)
        address[0] = ctypes.addressof(room)
        self.memory[ctypes.addressof(room)] = room

    def _cudaFree(self, address):
        del self.memory[address]

    def _cudaMemset(self, address, value, size):
        assert size <= len(self.memory[address])
        ctypes.memset(address, value, size)

    def _cudaMemcpy(self, to, source, size, kind):
        on_device = {program.CUDA_HOST_TO_DEVICE: to, program.CUDA_DEVICE_TO_HOST: source}[kind]
        assert size <= len(self.memory[on_device])
        ctypes.memmove(to, source, size)

    def _cudaDeviceSynchronize(self):
        pass


class FakeCudnn(Fake):
    """The judge as cuDNN.

    Args:
      version: of cuDNN.
      refuses_zero: whether forward refuses sequences of length 0.
      refuses_dropout: whether no rate above 0 may be set.
      wrong: a result that is a thousandth off, such as "dx"; "" for none.
    """

    table = program.CUDNN

    def __init__(
        self,
        version: int = 92700,
        refuses_zero: bool = False,
        refuses_dropout: bool = False,
        wrong: str = "",
    ):
        super().__init__()
        self._version, self._wrong = version, wrong
        self._refuses_zero, self._refuses_dropout = refuses_zero, refuses_dropout
        self._ids = itertools.count(1)
        self._objects: dict[int, dict] = {}
        self._texts = {}
        self._tapes = {}

    def _cudnnGetVersion(self):
        return self._version

    def _cudnnGetErrorString(self, status):
        text = ctypes.create_string_buffer(f"STATUS_{status}".encode())
        self._texts[status] = text
        return ctypes.addressof(text)

    def _cudnnGetLastErrorString(self, message, size):
        message[0] = b"\0"

    def _create(self, made):
        made[0] = next(self._ids)
        self._objects[made[0]] = {}

    _cudnnCreate = _cudnnCreateRNNDescriptor = _cudnnCreateRNNDataDescriptor = _create
    _cudnnCreateTensorDescriptor = _cudnnCreateDropoutDescriptor = _create

    def _destroy(self, made):
        del self._objects[made]

    _cudnnDestroy = _cudnnDestroyRNNDescriptor = _cudnnDestroyRNNDataDescriptor = _destroy
    _cudnnDestroyTensorDescriptor = _cudnnDestroyDropoutDescriptor = _destroy

    def _cudnnDropoutGetStatesSize(self, handle, size):
        assert handle in self._objects
        size[0] = 48

    def _cudnnSetDropoutDescriptor(self, descriptor, handle, rate, states, size, seed):
        assert handle in self._objects
        assert rate == 0 or (states and size == 48)
        if self._refuses_dropout and rate > 0:
            return NOT_SUPPORTED
        self._objects[descriptor] |= {"rate": rate, "seed": seed, "calls": 0}
        return SUCCESS

    def _cudnnSetRNNDescriptor_v8(self, rnn, *options):
        *enums, I, H, P, L, dropout, flags = options
        algo, mode, bias, direction, input_mode, dtype, precision, math = enums
        assert (algo, bias, math, flags, precision) == (0, 2, 3, 1, {0: 0, 1: 1, 2: 0}[dtype])
        dropout = {"rate": 0} if dropout is None else self._objects[dropout]
        self._objects[rnn] |= {
            "dropout": dropout,
            "dtype": {0: np.float32, 1: np.float64, 2: np.float16}[dtype],
            "config": judge.Config(
                NAMES[mode],
                L,
                H,
                I,
                judge.DIRECTIONS[direction],
                judge.INPUT_MODES[input_mode],
                num_proj=0 if P == H else P,
                dropout=dropout["rate"],
            ),
        }

    def _cudnnSetRNNDataDescriptor(self, data, dtype, layout, steps, batch, size, lengths, fill):
        lengths = lengths[:batch]
        assert all(0 <= length <= steps for length in lengths)
        kinds: dict[int, Any] = {0: ctypes.c_float, 1: ctypes.c_double, 2: ctypes.c_int16}
        assert kinds[dtype].from_address(fill).value == 0
        batch_major = {0: False, 2: True}[layout]
        shape = (batch, steps, size) if batch_major else (steps, batch, size)
        self._objects[data] |= {"shape": shape, "lengths": lengths, "batch_major": batch_major}

    def _cudnnSetTensorNdDescriptor(self, tensor, dtype, count, dims, strides):
        assert strides[:count] == [dims[1] * dims[2], dims[2], 1]
        self._objects[tensor]["shape"] = tuple(dims[:count])

    def _cudnnGetTensorNdDescriptor(self, tensor, most, dtype, count, dims, strides):
        shape = self._objects[tensor]["shape"]
        count[0] = len(shape)
        for i, size in enumerate(shape):
            dims[i], strides[i] = size, int(np.prod(shape[i + 1 :]))

    def _cudnnGetRNNWeightSpaceSize(self, handle, rnn, size):
        rnn = self._objects[rnn]
        size[0] = judge.params_size(rnn["config"]) * np.dtype(rnn["dtype"]).itemsize

    def _cudnnGetRNNWeightParams(self, handle, rnn, k, size, start, i, matrix, m, bias, b):
        rnn = self._objects[rnn]
        config, itemsize = rnn["config"], np.dtype(rnn["dtype"]).itemsize
        count = judge.params_size(config)
        assert size == count * itemsize
        weights = judge.split_params(config, np.arange(count))[k]
        matrices = [*weights.W, *weights.R]
        matrices += [] if weights.projection is None else [weights.projection]
        m[0] = b[0] = None
        if matrices[i].size:
            m[0] = start + int(matrices[i].flat[0]) * itemsize
            self._objects[matrix]["shape"] = (1, *matrices[i].shape)
        biases = [*weights.bW, *weights.bR]
        if i < len(biases):
            b[0] = start + int(biases[i][0]) * itemsize
            self._objects[bias]["shape"] = (1, config.H, 1)

    def _cudnnGetRNNTempSpaceSizes(self, handle, rnn, mode, data, work, reserve):
        work[0], reserve[0] = 0, {0: 0, 1: 24}[mode]

    def _view(self, rnn, address, shape) -> np.ndarray:
        """Device memory as an array."""
        dtype = np.dtype(self._objects[rnn]["dtype"])
        size = int(np.prod(shape)) * dtype.itemsize
        return np.frombuffer((ctypes.c_char * size).from_address(address), dtype).reshape(shape)

    def _data(self, rnn, descriptor, address) -> np.ndarray:
        """Device memory of x or y, time-major."""
        descriptor = self._objects[descriptor]
        view = self._view(rnn, address, descriptor["shape"])
        return view.swapaxes(0, 1) if descriptor["batch_major"] else view

    def _state(self, rnn, descriptor, address):
        return self._view(rnn, address, self._objects[descriptor]["shape"]) if descriptor else 0.0

    def _store(self, name: str, to: np.ndarray, value: np.ndarray):
        to[...] = value * (1.001 if name == self._wrong else 1)

    def _store_state(self, name: str, to: np.ndarray, value: np.ndarray, lengths: list[int]):
        """Of rows of length 0 it is 0, other than the judge's."""
        self._store(name, to, np.where(np.array(lengths)[:, None] > 0, value, 0))

    def _cudnnRNNForward(self, handle, rnn, mode, lengths, *rest):
        x_desc, x, y_desc, y, h_desc, hx, hy, c_desc, cx, cy, size, weights, *spaces = rest
        training = {0: False, 1: True}[mode]
        assert len(spaces) == 4 and (spaces[3] is not None) == training
        config, dropout = self._objects[rnn]["config"], self._objects[rnn]["dropout"]
        of_rows = self._objects[x_desc]["lengths"]
        assert of_rows == list((ctypes.c_int32 * len(of_rows)).from_address(lengths))
        if self._refuses_zero and 0 in of_rows:
            return NOT_SUPPORTED
        key = None
        if training and config.dropout:
            key = judge.builtin_key(0, dropout["seed"], dropout["calls"])
            dropout["calls"] += 1
        result = judge.forward(
            config,
            self._data(rnn, x_desc, x),
            self._state(rnn, h_desc, hx),
            self._state(rnn, c_desc, cx),
            self._view(rnn, weights, [judge.params_size(config)]),
            of_rows,
            key,
        )
        self._store("y", self._data(rnn, y_desc, y), result.y)
        self._store_state("h_n", self._state(rnn, h_desc, hy), result.h_n, of_rows)
        if c_desc:
            self._store_state("c_n", self._state(rnn, c_desc, cy), result.c_n, of_rows)
        self._tapes[spaces[3]] = {"tape": result.tape}

    def _cudnnRNNBackwardData_v8(self, handle, rnn, lengths, *rest):
        y_desc, y, dy, x_desc, dx, h_desc, hx, dhy, dhx, c_desc, cx, dcy, dcx, *spaces = rest
        config, kept = self._objects[rnn]["config"], self._tapes[spaces[-1]]
        result = judge.backward(
            config,
            kept["tape"],
            self._data(rnn, y_desc, dy),
            self._state(rnn, h_desc, dhy),
            self._state(rnn, c_desc, dcy),
        )
        self._store("dx", self._data(rnn, x_desc, dx), result.dx)
        of_rows = self._objects[x_desc]["lengths"]
        self._store_state("dh0", self._state(rnn, h_desc, dhx), result.dh0, of_rows)
        if c_desc:
            self._store_state("dc0", self._state(rnn, c_desc, dcx), result.dc0, of_rows)
        kept["dparams"] = result.dparams

    def _cudnnRNNBackwardWeights_v8(self, handle, rnn, mode, lengths, *rest):
        x_desc, x, h_desc, hx, y_desc, y, size, dweights, *spaces = rest
        assert mode == program.CUDNN_WGRAD_MODE_ADD
        dparams = self._tapes[spaces[-1]]["dparams"]
        view = self._view(rnn, dweights, dparams.shape)
        self._store("dparams", view, view + dparams)
