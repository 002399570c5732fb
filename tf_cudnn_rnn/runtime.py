"""Recurrent networks on NumPy arrays, without TensorFlow: inference by the ops' own engine.

    import tf_cudnn_rnn.runtime as runtime

    network = runtime.Network.load("speech.safetensors")
    y, state = network(x)  # whole sequences [B, T, I]

    stream = network.stream()
    for frame in frames:  # [I] each
        y = stream.step(frame)

A network comes from any file of weights that `weights.load` reads, or from a Canonical. The file
that `save` writes is for programs in C, too, and tells all of itself:

    runtime.Network.load("model.onnx").save("speech.safetensors")

`weights.quantize` makes weights of int8, a quarter of float32, which a network takes likewise:

    runtime.Network(weights.quantize(canonical)).save("int8.safetensors")

The results have the bits of the ops' on the same machine. Calls let other Python threads run,
and any number of threads may call one network. The letters are those of the ops:

  T  time steps       B  batch            I  input features
  H  hidden units     P  features of h: `num_proj` if the LSTM projects, else H
  L  layers           D  directions, 1 or 2

Imported so, it takes no TensorFlow, and needs none to be installed. A program that wants
TensorFlow's built-in ops on the CPU, too, imports `tf_cudnn_rnn` before it.

The library behind it, librnn_runtime.so, serves programs in C as well: `include_path` and
`library_path` tell where it is.
"""

from __future__ import annotations

import ctypes
import os
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tf_cudnn_rnn import _elf
from tf_cudnn_rnn._formats import bfloat16, params_header, runtime_file, vectors
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._formats.int8 import Int8Weights
from tf_cudnn_rnn._layout import Layout, integer
from tf_cudnn_rnn._types import Array, Direction, FileFormat, InputMode, RnnMode

__all__ = ["Network", "State", "Stream", "include_path", "instruction_set", "library_path"]


def __dir__() -> list[str]:
    return __all__


_ABI_VERSION = 3
_PYTHON_VERSION = 2  # of librnn_python.so: kVersion of runtime/python_calls.cc
_FOLDER = pathlib.Path(__file__).with_name("_libraries")
_MODES: tuple[RnnMode, ...] = ("rnn_relu", "rnn_tanh", "lstm", "gru")  # as rnn_mode numbers them
_TYPES = runtime_file.TYPES
_OUT_OF_MEMORY = 2  # of rnn_status
_INT32 = np.dtype(np.int32)


class _Error(ctypes.Structure):
    _fields_ = [("message", ctypes.c_char * 512)]


class _Config(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("mode", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("bidirectional", ctypes.c_int32),
        ("skip_input", ctypes.c_int32),
        ("int8_weights", ctypes.c_int32),
        ("num_layers", ctypes.c_int64),
        ("num_units", ctypes.c_int64),
        ("input_size", ctypes.c_int64),
        ("num_proj", ctypes.c_int64),
    ]


class _Int8Weights(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_int32),
        ("weights", ctypes.c_void_p),
        ("num_weights", ctypes.c_int64),
        ("scales", ctypes.c_void_p),
        ("num_scales", ctypes.c_int64),
        ("biases", ctypes.c_void_p),
        ("num_biases", ctypes.c_int64),
    ]


_GET_ANOTHER = (
    "Install the wheel of tf_cudnn_rnn anew, or run `make build` if this is a source tree."
)


def library_path() -> str:
    """The path of librnn_runtime.so, for programs in C.

    Raises:
      ImportError: this package was built without it.
    """
    return _path_of("librnn_runtime.so")


def _path_of(name: str) -> str:
    path = _FOLDER / name
    if not path.exists():
        raise ImportError(f"tf_cudnn_rnn.runtime needs {path}, which is not there. {_GET_ANOTHER}")
    return str(path)


def include_path() -> str:
    """The folder of rnn_runtime.h, for `-I`, and of what pkg-config and CMake look for.

    Raises:
      ImportError: this package was built without the runtime.
    """
    library_path()
    return str(_FOLDER)


def _opened(kind: type[ctypes.CDLL], path: str) -> ctypes.CDLL:
    try:
        if fault := _elf.fault(path):
            raise ImportError(f"{fault} {_GET_ANOTHER}")
        return kind(path)
    except OSError as error:  # damaged, or of another machine
        raise ImportError(
            f"tf_cudnn_rnn.runtime cannot load its library: {error}. {_GET_ANOTHER}"
        ) from error


def _load_library() -> ctypes.CDLL:
    library = _opened(ctypes.CDLL, library_path())
    found = library.rnn_abi_version()
    if found < _ABI_VERSION:
        raise ImportError(
            f"{library_path()} has version {found} of its interface, but this package needs "
            f"{_ABI_VERSION} at least. {_GET_ANOTHER}"
        )
    pointer = ctypes.c_void_p
    arguments_of: dict[str, list[Any]] = {
        "rnn_instruction_set": [ctypes.POINTER(ctypes.c_char_p)],
        "rnn_network_create": [
            ctypes.POINTER(_Config),
            pointer,
            ctypes.c_int64,
            ctypes.c_int32,
            ctypes.POINTER(pointer),
        ],
        "rnn_network_create_int8": [
            ctypes.POINTER(_Config),
            ctypes.POINTER(_Int8Weights),
            ctypes.c_int32,
            ctypes.POINTER(pointer),
        ],
        "rnn_network_load": [ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(pointer)],
        "rnn_network_config": [pointer, ctypes.POINTER(_Config)],
        "rnn_network_params": [pointer, ctypes.POINTER(pointer), ctypes.POINTER(ctypes.c_int64)],
        "rnn_network_int8_weights": [pointer, ctypes.POINTER(_Int8Weights)],
        "rnn_stream_create": [pointer, ctypes.c_int64, ctypes.POINTER(pointer)],
        "rnn_stream_reset": [pointer, pointer, ctypes.c_int64],
        "rnn_stream_get_state": [pointer, pointer, pointer],
        "rnn_stream_set_state": [pointer, pointer, pointer],
    }
    for name, arguments in arguments_of.items():
        function = getattr(library, name)
        function.argtypes = [*arguments, ctypes.POINTER(_Error)]
        function.restype = ctypes.c_int
    for name in ("rnn_network_free", "rnn_stream_free"):
        function = getattr(library, name)
        function.argtypes = [pointer]
        function.restype = None
    return library


def _load_functions(library: ctypes.CDLL) -> tuple[Callable[..., None], Callable[..., None]]:
    """What a program calls in its loop, without what ctypes adds: see runtime/python_calls.cc.

    Both raise what the library's status stands for.
    """
    path = _path_of("librnn_python.so")
    python = _opened(ctypes.PyDLL, path)
    found = python.rnn_python_version()
    if found != _PYTHON_VERSION:
        raise ImportError(
            f"{path} has version {found}, but this package needs {_PYTHON_VERSION}. {_GET_ANOTHER}"
        )
    make = python.rnn_python_functions
    make.argtypes = [ctypes.c_void_p] * 3
    make.restype = ctypes.py_object
    names = ("rnn_network_config", "rnn_network_run", "rnn_stream_step")
    return make(*(ctypes.cast(getattr(library, name), ctypes.c_void_p) for name in names))


_library = _load_library()
_run, _step = _load_functions(_library)


def _call(name: str, *arguments: Any) -> None:
    """Calls a function of the library, and raises what its status stands for."""
    error = _Error()
    status = getattr(_library, name)(*arguments, ctypes.byref(error))
    if status == 0:
        return
    message = error.message.decode(errors="replace")
    if status == _OUT_OF_MEMORY:
        raise MemoryError(message)
    raise ValueError(message)


def _created(name: str, *arguments: Any) -> int:
    """The handle that a function of the library makes, whose last argument is where it goes."""
    handle = ctypes.c_void_p()
    _call(name, *arguments, ctypes.byref(handle))
    assert handle.value is not None
    return handle.value


def instruction_set() -> str:
    """What the engine uses of this CPU: "avx512", "avx2", "neon", ... TF_CUDNN_RNN_ISA limits it.

    Raises:
      ValueError: TF_CUDNN_RNN_ISA names no instruction set of this build, or TF_CUDNN_RNN_MACHINE
        no numbers of a machine.
    """
    name = ctypes.c_char_p()
    _call("rnn_instruction_set", ctypes.byref(name))
    assert name.value is not None
    return name.value.decode()


class State(NamedTuple):
    """States between steps, of all layers and directions.

    Attributes:
      h: [L*D, B, P].
      c: [L*D, B, H] of an LSTM; None of others.
    """

    h: Array
    c: Array | None = None


# Makes a State in half the time that its own function takes.
_NEW_TUPLE: Callable[..., Any] = tuple.__new__


class _Handled:
    """What owns a handle of the library, which can be in one object and one process alone."""

    _handle: int
    _free: str  # the function that frees it

    def __del__(self) -> None:
        if handle := self.__dict__.pop("_handle", None):
            getattr(_library, self._free)(handle)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """What `copy` and `pickle` ask for: there is no such thing."""
        raise TypeError(
            f"A {type(self).__name__} can be neither copied nor pickled. Threads can share a "
            "Network; another process makes its own: `Network.load(path)`."
        )


class Network(_Handled):
    """A network with its weights, which do not change."""

    _free = "rnn_network_free"

    def __init__(
        self,
        weights: Canonical | Int8Weights | ArrayLike,
        layout: Layout | None = None,
        *,
        num_threads: int = 1,
    ) -> None:
        """Copies the weights.

        Args:
          weights: what `weights.load` or a `weights.from_*` returned, or `weights.quantize`; or the
            ops' vector `params` [N].
          layout: of the vector.
          num_threads: that a call may have, the calling one included. All calls at once share
            the others.

        Raises:
          TypeError: `weights` are of no type that the ops have, `layout` is missing or no Layout,
            or `num_threads` is no integer.
          ValueError: the vector is not one of such a network, or `num_threads` is out of range.
          MemoryError: there is no memory for the copy.
        """
        num_threads = _integer("num_threads", num_threads, 32)
        if isinstance(weights, Int8Weights):
            if layout is not None:
                raise TypeError("`layout` must be left out: `weights` say it.")
            self._adopt(_created_of_int8(weights, num_threads))
            return
        params, layout = vectors.with_layout(weights, layout)
        if params.dtype.name not in _TYPES:
            raise TypeError(
                f"`weights` must be of type {', '.join(_TYPES)}; got {params.dtype.name}."
            )
        if params.ndim != 1:
            raise ValueError(f"`weights` must be a vector [N]; got shape {list(params.shape)}.")
        params = _dense(params)
        config = _config_of(params_header.resolved(layout), params.dtype)
        vectors.check_vector(params, "weights", "cuDNN's weight space", layout)
        handle = _created(
            "rnn_network_create", ctypes.byref(config), params.ctypes.data, params.size, num_threads
        )
        self._adopt(handle)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        num_threads: int = 1,
        format: FileFormat | None = None,
        rnn_mode: RnnMode | None = None,
        num_layers: int | None = None,
        num_units: int | None = None,
        input_size: int | None = None,
        direction: Direction | None = None,
        input_mode: InputMode | None = None,
        num_proj: int | None = None,
        layer: str | Sequence[str] | None = None,
        prefix: str | None = None,
        scope: str | None = None,
        forget_bias: float | None = None,
    ) -> Network:
        """Reads a network from a file of any kind that `weights.load` reads.

        The kind is told by what is in the file. Of one that `save` wrote, the library reads all:
        it needs no other argument. TensorFlow is imported for checkpoints and SavedModels alone.

        >>> network = runtime.Network.load("model.keras", layer="encoder", num_threads=2)

        Args:
          path: of the file.
          num_threads: see the constructor.
          format, rnn_mode, num_layers, num_units, input_size, direction, input_mode, num_proj,
            layer, prefix, scope, forget_bias: what the file does not tell, and which of several
            networks to read: see `weights.load`.

        Raises:
          OSError: it cannot be opened.
          ImportError: something that is needed to read it is not installed: h5py for HDF5,
            ml_dtypes for bfloat16, TensorFlow for checkpoints.
          TypeError: a size is no integer.
          ValueError: it is damaged, or of no kind that is known; or the arguments do not fit it,
            or would change nothing.
          MemoryError: there is no memory for the weights.
        """
        from tf_cudnn_rnn._files import readers  # which a program without files does not need
        from tf_cudnn_rnn._files.choices import in_python
        from tf_cudnn_rnn._formats import hdf5

        num_threads = _integer("num_threads", num_threads, 32)
        choices = in_python(
            format=format,
            rnn_mode=rnn_mode,
            num_layers=num_layers,
            num_units=num_units,
            input_size=input_size,
            direction=direction,
            input_mode=input_mode,
            num_proj=num_proj,
            layer=layer,
            prefix=prefix,
            scope=scope,
            forget_bias=forget_bias,
        )
        with hdf5.one_call():
            found = readers.find(path, choices)
            canonical = None if found.is_of_the_runtime else found.read()
        if canonical is not None:
            return cls(canonical, num_threads=num_threads)
        handle = _created("rnn_network_load", os.fsencode(found.path), num_threads)
        network = cls.__new__(cls)
        network._adopt(handle)
        return network

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a safetensors file, for `load` and for rnn_network_load() of C.

        It has one tensor, `params`, and the layout as metadata; or the three of Int8Weights.

        Args:
          path: of the file, which is overwritten in place: where others may read it meanwhile, save
            beside it and rename. Its ending is `.safetensors`, or one that no other format has.

        Raises:
          OSError: it cannot be written.
          ValueError: `path` has the ending of another format.
        """
        if self._has_int8_weights:
            runtime_file.write_int8(path, self._int8_weights())
        else:
            runtime_file.write(path, self._params(), self._layout)

    # What the library was told cannot be set: it would read and write other sizes of memory.

    @property
    def layout(self) -> Layout:
        """The network; its fields go by the ops' names."""
        return self._layout

    @property
    def dtype(self) -> np.dtype:
        """Of what it takes and gives, and of its weights unless they are of int8; float32 then."""
        return self._dtype

    @property
    def has_int8_weights(self) -> bool:
        """Whether its matrices are of int8, as `weights.quantize` makes them."""
        return self._has_int8_weights

    def __call__(
        self,
        x: ArrayLike,
        lengths: ArrayLike | None = None,
        state: State | None = None,
        *,
        time_major: bool = False,
    ) -> tuple[Array, State]:
        """Runs whole sequences.

        Args:
          x: [B, T, I], or [T, B, I] if `time_major`: an array of the network's type, or lists
            of numbers.
          lengths: [B], the steps of each row, 0 to T; all T if None. What is behind them is
            never read, and is zero in y.
          state: where the sequences begin, a State or a tuple of h and c; zeros if None.
          time_major: True or False, the order of x and y.

        Returns:
          y [B, T, D*P] (or [T, B, D*P]), and the states after the last step of each row.

        Raises:
          TypeError: `state` is neither a State nor a tuple, `time_major` no bool, or an array is
            masked.
          ValueError: a shape or a type does not fit, or a length is out of range.
          MemoryError: there is no memory for the results or for what the call needs meanwhile.
        """
        if time_major is not True and time_major is not False:
            time_major = _boolean("time_major", time_major)
        x = self._array("x", x)
        shape = x.shape
        if len(shape) != 3 or shape[2] != self._I:
            order = "[T, B, I]" if time_major else "[B, T, I]"
            raise ValueError(f"`x` must have shape {order} with I = {self._I}; got {list(shape)}.")
        first, second, _ = shape
        T, B = (first, second) if time_major else (second, first)
        if lengths is not None:
            lengths = _lengths(lengths, B, T)
        h0, c0 = (None, None) if state is None else self._checked(state, B)
        y = np.empty((first, second, self._DP), self._dtype)
        h, c = after = self._empty_state(B)
        _run(self._handle, time_major, T, B, x, lengths, h0, c0, y, h, c)
        return y, after

    def stream(self, batch: int = 1) -> Stream:
        """Starts `batch` sequences that come a step at a time, with states of zeros.

        Raises:
          TypeError: `batch` is no integer.
          ValueError: the network is bidirectional, or `batch` is below 1.
          MemoryError: there is no memory for the states.
        """
        return Stream(self, batch)

    def __repr__(self) -> str:
        kind = "int8 weights, " if self._has_int8_weights else ""
        return f"<Network {kind}{self._dtype.name} {self._layout}>"

    # ------------------------------------------------------------------------------------

    def _adopt(self, handle: int) -> None:
        self._handle = handle
        config = _Config(struct_size=ctypes.sizeof(_Config))
        _call("rnn_network_config", handle, ctypes.byref(config))
        self._layout = Layout(
            _MODES[config.mode],
            num_layers=config.num_layers,
            num_units=config.num_units,
            input_size=config.input_size,
            direction="bidirectional" if config.bidirectional else "unidirectional",
            input_mode="skip_input" if config.skip_input else "linear_input",
            num_proj=config.num_proj,
        )
        self._has_int8_weights = bool(config.int8_weights)
        name = _TYPES[config.type]
        self._dtype = bfloat16.dtype("The network") if name == "bfloat16" else np.dtype(name)
        self._D = config.bidirectional + 1
        self._LD = config.num_layers * self._D
        self._I = config.input_size
        self._H = config.num_units
        self._P = config.num_proj or config.num_units
        self._DP = self._D * self._P
        self._has_c = self._layout.rnn_mode == "lstm"

    def _params(self) -> Array:
        """The library's copy, which lives as long as the network."""
        address, size = ctypes.c_void_p(), ctypes.c_int64()
        _call("rnn_network_params", self._handle, ctypes.byref(address), ctypes.byref(size))
        return _array_at(address.value, size.value, self._dtype)

    def _int8_weights(self) -> Int8Weights:
        """The library's copy, which lives as long as the network."""
        found = _Int8Weights(struct_size=ctypes.sizeof(_Int8Weights))
        _call("rnn_network_int8_weights", self._handle, ctypes.byref(found))
        return Int8Weights(
            self._layout,
            _array_at(found.weights, found.num_weights, np.dtype(np.int8)),
            _array_at(found.scales, found.num_scales, np.dtype(np.float32)),
            _array_at(found.biases, found.num_biases, np.dtype(np.float32)),
        )

    def _array(self, name: str, value: ArrayLike) -> Array:
        array = value if type(value) is np.ndarray else self._converted(name, value)
        # Of most calls, and quicker than what follows: names of types take microseconds.
        if array.dtype == self._dtype and (array.flags.carray or _is_dense(array)):
            return array
        if array.dtype.name != self._dtype.name:
            raise ValueError(
                f"`{name}` must be of the network's type, {self._dtype.name}; got "
                f"{array.dtype.name}. Convert it by `astype`."
            )
        return _dense(array)

    def _converted(self, name: str, value: ArrayLike) -> Array:
        array = _unmasked(name, value)
        if isinstance(value, list | tuple) and array.dtype.kind in "if":
            return array.astype(self._dtype)  # numbers of Python have no type of their own
        return array

    def _empty_state(self, B: int) -> State:
        h = np.empty((self._LD, B, self._P), self._dtype)
        c = np.empty((self._LD, B, self._H), self._dtype) if self._has_c else None
        return _NEW_TUPLE(State, (h, c))

    def _checked(self, state: Sequence[ArrayLike | None], B: int) -> tuple[Array, Array | None]:
        """Returns h and c as the library reads them."""
        given_h, given_c = self._given(state)
        h = self._state_array("state.h", given_h, (self._LD, B, self._P))
        if given_c is None:
            return h, None
        return h, self._state_array("state.c", given_c, (self._LD, B, self._H))

    def _given(self, state: Sequence[ArrayLike | None]) -> tuple[ArrayLike, ArrayLike | None]:
        # Of most calls, and quicker than what follows.
        if isinstance(state, State) and state.h is not None:
            if (state.c is not None) is self._has_c:
                return state
        parts = "h and c" if self._has_c else "h alone"
        if not isinstance(state, tuple | list):
            raise TypeError(
                f"`state` must be a State or a tuple, with {parts}; got {type(state).__name__}."
            )
        given = [value for value in state if value is not None]
        if len(given) != 1 + self._has_c:
            raise ValueError(f"`state` must have {parts}; got {len(given)} arrays.")
        return given[0], given[1] if self._has_c else None

    def _state_array(self, name: str, value: ArrayLike, shape: tuple[int, int, int]) -> Array:
        array = self._array(name, value)
        if array.shape != shape:
            raise ValueError(f"`{name}` must have shape {list(shape)}; got {list(array.shape)}.")
        return array


class Stream(_Handled):
    """Sequences of a network that come a step at a time.

    One thread may use it at a time: a call that comes while another thread is in one raises a
    ValueError. Threads that have a stream each share the network.
    """

    _free = "rnn_stream_free"

    def __init__(self, network: Network, batch: int = 1) -> None:
        """Use `network.stream(batch)`."""
        batch = _integer("batch", batch, 64)
        self._network = network
        self._batch = batch
        self._handle = _created("rnn_stream_create", network._handle, batch)
        self._x_shape = (batch, network._I)
        self._y_shape = (batch, network._P)
        # The library sees them once more, where nothing can resize an array any longer.
        self._x_bytes = batch * network._I * network._dtype.itemsize
        self._y_bytes = batch * network._P * network._dtype.itemsize

    def __repr__(self) -> str:
        return f"<Stream batch={self._batch} of {self._network!r}>"

    def step(self, x: ArrayLike) -> Array:
        """Runs the next step of each sequence.

        Args:
          x: [B, I], or [I] if B is 1.

        Returns:
          y [B, P], or [P] for an x of [I].

        Raises:
          TypeError: `x` is a masked array.
          ValueError: the shape or the type does not fit.
          MemoryError: there is no memory for y.
        """
        array = self._network._array("x", x)
        if array.shape == self._x_shape:
            y_shape: tuple[int, ...] = self._y_shape
        elif self._batch == 1 and array.shape == self._x_shape[1:]:
            y_shape = self._y_shape[1:]
        else:
            or_a_row = f" or [I] = {list(self._x_shape[1:])}" if self._batch == 1 else ""
            raise ValueError(
                f"`x` must have shape [B, I] = {list(self._x_shape)}{or_a_row}; got "
                f"{list(array.shape)}."
            )
        y = np.empty(y_shape, self._network._dtype)
        _step(self._handle, self._x_bytes, self._y_bytes, array, y)
        return y

    def reset(self, rows: Sequence[int] | None = None) -> None:
        """Begins these rows anew, with states of zeros; all of them if None.

        Raises:
          TypeError: `rows` is a masked array.
          ValueError: there is no such row, or they are no integers.
        """
        if rows is None:
            _call("rnn_stream_reset", self._handle, None, 0)
            return
        array = _unmasked("rows", rows)
        if array.ndim != 1 or not _are_integers(array):
            raise ValueError(
                f"`rows` must be a list of integers, such as [0, 2]; got {rows!r:.99}."
            )
        array = np.ascontiguousarray(array, np.int64)
        _call("rnn_stream_reset", self._handle, array.ctypes.data, array.size)

    @property
    def state(self) -> State:
        """A copy of the states; set it to go on from others.

        Raises:
          TypeError: what is set is neither a State nor a tuple.
          ValueError: a shape or a type does not fit.
          MemoryError: there is no memory for the copy.
        """
        state = self._network._empty_state(self._batch)
        _call("rnn_stream_get_state", self._handle, _address(state.h), _address(state.c))
        return state

    @state.setter
    def state(self, state: State) -> None:
        h, c = self._network._checked(state, self._batch)
        _call("rnn_stream_set_state", self._handle, _address(h), _address(c))


def _address(array: Array | None) -> int | None:
    return None if array is None else array.ctypes.data


def _integer(name: str, value: int, bits: int) -> int:
    """An integer for the library: ctypes would cut off what is larger."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"`{name}` must be an integer; got {value!r}.")
    value = integer(name, value)
    if not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
        raise ValueError(f"`{name}` must be a {bits}-bit integer; got {value}.")
    return value


def _is_dense(array: Array) -> bool:
    """Whether its values lie as the library reads them; carray asks for more, but sooner."""
    flags = array.flags
    return flags.c_contiguous and flags.aligned


def _dense(array: Array) -> Array:
    """The values in the order of memory and of bytes that the library reads."""
    return np.require(array, array.dtype.newbyteorder("="), ["C_CONTIGUOUS", "ALIGNED"])


def _boolean(name: str, value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"`{name}` must be True or False; got {value!r}.")


def _array_at(address: int | None, size: int, dtype: np.dtype) -> Array:
    """What is there in memory of the library; nothing at no address."""
    memory: Any = (ctypes.c_char * (size * dtype.itemsize)).from_address(address or 0)
    return np.frombuffer(memory, dtype)


def _unmasked(name: str, value: Any) -> Array:
    """The value as an array, which a mask would be lost of."""
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(
            f"`{name}` must not be a masked array, whose mask would be lost; pass its `filled()`."
        )
    return np.asarray(value)


def _are_integers(array: Array) -> bool:
    """Whether they are, but for bools; of nothing, NumPy says that they are floats."""
    return array.dtype.kind in "iu" or not array.size


def _lengths(lengths: ArrayLike, B: int, T: int) -> Array:
    array = lengths if type(lengths) is np.ndarray else _unmasked("lengths", lengths)
    # Of most calls, and quicker than what follows; the library looks at each.
    if array.dtype == _INT32 and array.shape == (B,) and (array.flags.carray or _is_dense(array)):
        return array
    if array.shape != (B,):
        raise ValueError(f"`lengths` must have shape [B] = [{B}]; got {list(array.shape)}.")
    if not _are_integers(array):
        raise ValueError(f"`lengths` must be integers; got {array.dtype.name}.")
    _check_range(array, T)  # before bits are cut off
    return _dense(array.astype(_INT32))


def _check_range(lengths: Array, T: int) -> None:
    wrong = np.flatnonzero((lengths < 0) | (lengths > T))
    if wrong.size:
        row = wrong[0]
        raise ValueError(f"`lengths[{row}]` must be in [0, T] = [0, {T}]; got {lengths[row]}.")


def _created_of_int8(weights: Int8Weights, num_threads: int) -> int:
    """The handle of a network, which copies its weights."""
    config = _config_of(params_header.resolved(weights.layout), weights.biases.dtype)
    config.int8_weights = 1
    arrays = _Int8Weights(
        struct_size=ctypes.sizeof(_Int8Weights),
        weights=weights.weights.ctypes.data,
        num_weights=weights.weights.size,
        scales=weights.scales.ctypes.data,
        num_scales=weights.scales.size,
        biases=weights.biases.ctypes.data,
        num_biases=weights.biases.size,
    )
    return _created(
        "rnn_network_create_int8", ctypes.byref(config), ctypes.byref(arrays), num_threads
    )


def _config_of(layout: Layout, dtype: np.dtype) -> _Config:
    # The sizes have been seen to be positive.
    sizes = {
        name: _integer(name, getattr(layout, name), 64)
        for name in ("num_layers", "num_units", "input_size", "num_proj")
    }
    return _Config(
        struct_size=ctypes.sizeof(_Config),
        mode=_MODES.index(layout.rnn_mode),
        type=_TYPES.index(dtype.name),
        bidirectional=layout.direction == "bidirectional",
        skip_input=layout.skips_input,
        **sizes,
    )
