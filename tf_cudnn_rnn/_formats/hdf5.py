"""The arrays of Keras' HDF5 files, read in a process of its own.

HDF5 is a file system in a file, and its library trusts it. A few flipped bytes can send it round
in circles, or let it ask for gigabytes, where no check of ours comes between. So another process
reads, with limits on its time and memory, and hands the arrays over; when it ends early, the file
is refused. What the library would do in good faith, we refuse: it opens other files that a link
or a dataset names, and believes what the file says of its sizes.

`read` is for the process that wants the arrays, most else for the one that reads.
"""

import contextlib
import contextvars
import importlib.util
import io
import itertools
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._formats import bfloat16, keras_config, untrusted
from tf_cudnn_rnn._types import Array

# Of the processor, besides that for the bytes there are, for all that a call asks: some thousand
# arrays. What is left of it may be less than another process needs to tell that.
_SECONDS = 1.0
_LEAST_SECONDS = 0.1
_BYTES_PER_SECOND = 20e6  # fewer than any machine reads
_MEMORY = 48 << 20  # bytes, besides half the file
_PIECE = 4 << 20  # bytes that are handed over at once
_MAX_NAMES = 10_000
_MAX_DEPTH = 32
_MAX_MEMBERS = 100_000
# How NumPy sees bfloat16 in a file of Keras.
_OPAQUE = "|V2"
# What the other process hands over: layers of Keras 2 or arrays of Keras 3, or what they are.
_LAYERS, _ARRAYS, _LAYER_HEADERS, _ARRAY_HEADERS = "layers", "arrays", "layer_headers", "headers"
# Which of the headers a file has, and those.
_HEADERS = "either"
# Of a file of Keras 3, what the model's weights are in; others are called as its attributes are.
_MODEL_GROUPS = ("layers", "_layer_checkpoint_dependencies", "vars")
# What in such a file is none of the model's weights.
_OPTIMIZER = "optimizer"
# Of one of Keras 2 that holds a model and not only its weights, what the weights are in.
_WHOLE_MODEL = "model_weights"
_MAX_NUMBER = 40  # characters
# gzip, shuffle, fletcher32 and h5py's lzf. For others the library would look for plug-ins.
_FILTERS = (1, 2, 3, 32000)

# Of the other process. TensorFlow takes seconds to import, and is not needed.
_CODE = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
sys.modules["tensorflow"] = None
from tf_cudnn_rnn._formats import hdf5
hdf5.main(*sys.argv[2:])
"""
# Before it on stderr stands what others say.
_ERROR = "\n--- "


class Stored(NamedTuple):
    """A layer of Keras 2 with weights, or an array of Keras 3.

    Attributes:
      name: of the layer, or the path of the array.
      class_name: of the layer, such as "LSTM" or "Bidirectional(LSTM)"; "" if unknown.
      arrays: those of the layer, or the one; or what stands for them: datasets, or headers.
      config: what the file's model says of the layer, an object with class_name and config; None
        if it says nothing.
      has_halves: whether the arrays' names are those of both halves of a Bidirectional.
    """

    name: str
    class_name: str
    arrays: list[Any]
    config: dict[str, Any] | None = None
    has_halves: bool = False

    @property
    def is_one(self) -> bool:
        """Whether the arrays can be those of one recurrent layer, and not of a model of several.

        A file of weights alone lists those of a model in the model as it does a layer's.
        """
        return bool(self.class_name) or len(self.arrays) <= 3 or self.has_halves


class _Call:
    """What is asked of files until a caller has what it wants.

    Attributes:
      seconds: of processors' time that other processes have used.
      headers: that are known, by the file and what was asked.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self.headers: dict[tuple[str, str], list[Stored]] = {}


_CALL: contextvars.ContextVar[_Call | None] = contextvars.ContextVar("_CALL", default=None)


@contextlib.contextmanager
def one_call() -> Iterator[None]:
    """Bounds the time of all that is asked in it together, and asks nothing twice."""
    if _CALL.get() is not None:
        yield
        return
    token = _CALL.set(_Call())
    try:
        yield
    finally:
        _CALL.reset(token)


def read(path: str, names: Sequence[str] | None = None) -> list[Stored]:
    """Returns the layers with weights of a file of Keras 2.

    Args:
      path: of the file.
      names: of the layers to read; None for all.

    Raises:
      ImportError: there is no Python to start, or h5py is missing.
      OSError: the file cannot be opened.
      ValueError: it is no file of Keras 2, or is damaged.
    """
    return ask(path, _LAYERS, names)


def read_headers(path: str) -> list[Stored]:
    """Reads what `read` would, but for the arrays: their types and shapes, ArrayHeader."""
    return ask(path, _LAYER_HEADERS)


def read_arrays(
    path: str, names: Sequence[str] | None = None, packed_in: str | None = None
) -> dict[str, Array]:
    """Returns the model's arrays in a file of Keras 3, by their paths in it.

    Args:
      path: of the file.
      names: of those to read; None for all.
      packed_in: the archive that the file comes from, if it does.

    Raises: as `read`.
    """
    return {array.name: array.arrays[0] for array in ask(path, _ARRAYS, names, packed_in)}


def read_array_headers(path: str, packed_in: str | None = None) -> dict[str, untrusted.ArrayHeader]:
    """Reads what `read_arrays` would, but for the arrays: their types and shapes."""
    found = ask(path, _ARRAY_HEADERS, packed_in=packed_in)
    return {array.name: array.arrays[0] for array in found}


def is_of_keras_3(path: str) -> bool:
    """Whether a file has the arrays of a model of Keras 3, and not layers of Keras 2.

    In `one_call`, the headers of either need not be read again.

    Raises: as `read`.
    """
    which, *found = ask(path, _HEADERS)
    call = _CALL.get()
    if call is not None:
        call.headers[path, which.name] = found
    return which.name == _ARRAY_HEADERS


def ask(
    path: str, what: str, names: Sequence[str] | None = None, packed_in: str | None = None
) -> list[Stored]:
    """Lets another process read a file, or what of it has these names; see `send`."""
    call = _CALL.get() or _Call()
    source = packed_in or path
    if (source, what) in call.headers:
        return call.headers[source, what]
    if not sys.executable:
        raise ImportError("HDF5 files are read by another Python; there is no sys.executable.")
    if importlib.util.find_spec("h5py") is None:
        raise ImportError("HDF5 files need h5py, which is not installed: run `pip install h5py`.")
    with contextlib.ExitStack() as stack:
        _, size = stack.enter_context(untrusted.opened(path))
        seconds = _SECONDS + untrusted.stored_bytes(source) / _BYTES_PER_SECOND - call.seconds
        seconds = max(_LEAST_SECONDS, seconds)
        errors, wanted = (stack.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        wanted.write(json.dumps(names).encode())
        wanted.seek(0)
        paths = [os.path.abspath(entry) for entry in sys.path]
        with subprocess.Popen(
            [sys.executable, "-I", "-c", _CODE, json.dumps(paths), path, what, str(seconds)],
            stdin=wanted,
            stdout=subprocess.PIPE,
            stderr=errors,
            # It multiplies nothing; and reads nothing but the file.
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "HDF5_PLUGIN_PRELOAD": "::"},
        ) as child:
            stdout: Any = child.stdout  # a pipe
            try:
                layers = received(stdout, what, size)
                call.seconds += float(stdout.read(_MAX_NUMBER) or _SECONDS)
            except EOFError:
                layers = None
                call.seconds += seconds
            finally:
                stdout.close()
        if layers is None or child.returncode:
            errors.seek(0)
            raise ValueError(_reason(path, child.returncode, errors.read()))
    if what in (_LAYER_HEADERS, _ARRAY_HEADERS):
        call.headers[source, what] = layers
    return layers


def _reason(path: str, status: int, errors: bytes) -> str:
    """Says why the other process did not hand all over."""
    said = errors.decode(errors="replace")
    if _ERROR in said:
        return said.rpartition(_ERROR)[2]
    if status == -signal.SIGPROF:
        return f"{path} is damaged, or forged: to read it takes longer than its size explains."
    if status < 0:
        return f"{path} is damaged, or forged: HDF5's library crashed on it (signal {-status})."
    return f"{path} could not be read by {sys.executable}: {untrusted.shown(said[-200:])}"


def received(stream: io.BufferedIOBase, what: str, size: int) -> list[Stored]:
    """Reads all that `send` wrote when it was asked for `what`, of a file of `size` bytes.

    Raises:
      EOFError: it ends too early.
    """
    if what in (_LAYERS, _ARRAYS):
        return list(receive(stream, size))
    found = list(_receive_headers(stream))
    if what == _HEADERS:
        found[:0] = _receive_headers(stream)
    return found


def receive(stream: io.BufferedIOBase, size: int) -> Iterator[Stored]:
    """Reads what `send` wrote of a file of `size` bytes.

    Raises:
      EOFError: it ends too early.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    allowance = untrusted.Allowance(size)
    for name, class_name, headers, *rest in json.loads(line):
        arrays = []
        for dtype, shape in headers:
            array = np.empty(shape, _dtype(dtype, name))
            allowance.take(array.nbytes, name)
            if array.size:
                content = array.reshape(-1).view(np.uint8).data
                if stream.readinto(content) != array.nbytes:
                    raise EOFError
            arrays.append(array)
        yield Stored(name, class_name, arrays, *rest)


def _receive_headers(stream: io.BufferedIOBase) -> Iterator[Stored]:
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    for name, class_name, arrays, *rest in json.loads(line):
        headers = [
            untrusted.ArrayHeader(_dtype(dtype, name), tuple(shape)) for dtype, shape in arrays
        ]
        yield Stored(name, class_name, headers, *rest)


# ------------------------------------------------------------------------------------
# In the other process
# ------------------------------------------------------------------------------------


def main(path: str, what: str, seconds: str) -> None:
    """Reads the file under limits, and writes what of it is asked for to stdout."""
    import h5py  # noqa: F401 before the limits

    names = json.load(sys.stdin)
    begin = time.process_time()
    limit(untrusted.stored_bytes(path), float(seconds))
    try:
        with open(sys.stdout.fileno(), "wb", closefd=False) as out:
            send(path, out, what, names)
            out.write(str(time.process_time() - begin).encode())
    except BrokenPipeError:
        pass
    except ValueError as error:
        sys.stderr.write(f"{_ERROR}{error}")
        sys.exit(1)


def limit(size: int, seconds: float | None = None) -> None:
    """Bounds what this process can take from now on to read a file of `size` bytes.

    Args:
      size: of the file.
      seconds: of the processor; None for those of a call that asks for nothing else.
    """
    with open("/proc/self/statm") as file:
        memory = int(file.read().split()[0]) * resource.getpagesize()
    memory += _MEMORY + size // 2
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        memory = min(memory, most)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Ends the process, wherever it is.
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGPROF})
    if seconds is None:
        seconds = _SECONDS + size / _BYTES_PER_SECOND
    signal.setitimer(signal.ITIMER_PROF, seconds)


def send(
    path: str,
    out: io.BufferedIOBase,
    what: str = _LAYERS,
    names: Sequence[str] | None = None,
) -> None:
    """Writes a line of JSON about all layers, and then, if they are asked for, their arrays.

    If either headers are asked for, which ones these are comes last, as a line of its own.

    Args:
      path, what: of the file, and of what is asked for.
      out: where to write it.
      names: of the layers or arrays that are asked for; None for all.

    Raises:
      ValueError: the file is another one, or is damaged.
    """
    import h5py

    if not h5py.is_hdf5(path):
        raise ValueError(f"{path} is no HDF5 file.")
    with untrusted.read_by("h5py", path):
        file = h5py.File(path, "r")
    with file, untrusted.named(path):
        is_either = what == _HEADERS
        if is_either:
            what = _LAYER_HEADERS if _is_of_keras_2(file, path) else _ARRAY_HEADERS
        if what in (_LAYERS, _LAYER_HEADERS):
            layers = _layers(file, path, names)
        else:
            layers = _arrays(file, path) if names is None else _named_arrays(file, path, names)
        about = [
            layer._replace(arrays=[(dataset.dtype.str, dataset.shape) for dataset in layer.arrays])
            for layer in layers
        ]
        out.write(json.dumps(about).encode() + b"\n")
        if is_either:
            out.write(json.dumps([Stored(what, "", [])]).encode() + b"\n")
        for layer in layers if what in (_LAYERS, _ARRAYS) else []:
            for dataset in layer.arrays:
                with untrusted.read_by("h5py", f"{untrusted.shown(layer.name)} in {path}"):
                    for piece in _pieces(dataset):
                        out.write(np.ascontiguousarray(piece).data)


def _is_of_keras_2(file: Any, path: str) -> bool:
    """Judged by what those of Keras 2 have."""
    if _has_link(file, _WHOLE_MODEL, path):
        return True
    return bool(_parts(file, "layer_names", path))


def _layers(file: Any, path: str, names: Sequence[str] | None) -> list[Stored]:
    """Finds layers with weights, and their datasets, which are known to be sound."""
    group = file
    if _has_link(file, _WHOLE_MODEL, path):
        group = member(file, _WHOLE_MODEL, path, "Group")
    if not _parts(group, "layer_names", path):
        raise ValueError(
            f"{path} must be an .h5 file of Keras 2, with `layer_names`; found "
            f"{_some(group, path) or 'nothing'}. Keras 3 reads its own .weights.h5: "
            "load the model there and pass `layer.get_weights()` to from_keras."
        )
    configs = _configs(file, path)
    bounds = _Bounds(path)
    layers = []
    wanted = None if names is None else set(names)
    for name in _once(_texts(group, "layer_names", path), f"`layer_names` in {path}"):
        if wanted is not None and name not in wanted:
            continue
        where = f"{untrusted.shown(name)} in {path}"
        layer = member(group, name, where, "Group")
        datasets = []
        keys, has_halves = _forward_first(_texts(layer, "weight_names", where))
        for key in keys:
            place = f"{untrusted.shown(key)} of {where}"
            dataset = member(layer, key, place, "Dataset")
            bounds.check(dataset, place)
            datasets.append(dataset)
        if datasets:
            class_name, config = configs.get(name, ("", None))
            layers.append(Stored(name, class_name, datasets, config, has_halves))
    return layers


def _forward_first(keys: Sequence[str]) -> tuple[Sequence[str], bool]:
    """The names of a layer's weights, and whether they are those of a Bidirectional's two halves.

    These are put in order: Keras lists frozen weights last, and so may have the backward half
    first.
    """
    halves = [re.match(r"(?:(.*)/)?(?:forward|(backward))_[^/]*/", key) for key in keys]
    if None in halves or len({half[1] for half in halves if half}) != 1:
        return keys, False
    backward = {key: half[2] is not None for key, half in zip(keys, halves, strict=True) if half}
    has_halves = 2 * sum(backward.values()) == len(keys)
    return sorted(keys, key=backward.__getitem__), has_halves


class _Bounds:
    """What all datasets of a file may take together."""

    def __init__(self, path: str) -> None:
        self._allowance = untrusted.Allowance(os.stat(path).st_size)
        self._seen: set[tuple[int, int]] = set()

    def check(self, dataset: Any, place: str) -> None:
        """Raises ValueError unless a dataset is an array of its own, and in the file."""
        address = _address(dataset, place)
        nbytes, stored = sizes(dataset, place)
        if address in self._seen:
            raise ValueError(f"{place} must stand for one array; it is that of another, too.")
        self._seen.add(address)
        self._allowance.take(nbytes, place)
        if stored is not None and stored < nbytes:
            raise ValueError(f"{place} must have {nbytes} bytes; {stored} are in the file.")


def _arrays(file: Any, path: str) -> list[Stored]:
    """Finds the arrays of a model of Keras 3: datasets that are known to be sound."""
    if not any(_has_link(file, name, path) for name in _MODEL_GROUPS):
        raise ValueError(
            f"{path} must be a file of Keras, with `layers` or `layer_names`; found "
            f"{_some(file, path) or 'nothing'}."
        )
    groups = [name for name in _names(file, _MAX_MEMBERS + 1, path) if name != _OPTIMIZER]
    bounds = _Bounds(path)
    found = []
    members = len(groups)
    # Each with the group that it is in, as to look it up from the top takes as long as it is deep.
    pending = [(file, name, name, 1) for name in reversed(groups)]
    while pending:
        group, key, name, depth = pending.pop()
        where = f"{untrusted.shown(name)} in {path}"
        if depth > _MAX_DEPTH:
            raise ValueError(f"{where} must have a path of at most {_MAX_DEPTH} names.")
        item = member(group, key, where, "Group or Dataset")
        if _is_dataset(item):
            bounds.check(item, where)
            found.append(Stored(name, "", [item]))
            continue
        inner = _names(item, _MAX_MEMBERS + 1, where)
        members += len(inner)
        if members > _MAX_MEMBERS:
            raise ValueError(f"{path} must have at most {_MAX_MEMBERS} groups and arrays.")
        pending += [(item, key, f"{name}/{key}", depth + 1) for key in reversed(inner)]
    return found


def _named_arrays(file: Any, path: str, names: Sequence[str]) -> list[Stored]:
    """Finds some of what `_arrays` does, and looks at no others."""
    bounds = _Bounds(path)
    found = []
    for name in names:
        where = f"{untrusted.shown(name)} in {path}"
        item = member(file, name, where, "Dataset")
        bounds.check(item, where)
        found.append(Stored(name, "", [item]))
    return found


def _is_dataset(item: Any) -> bool:
    import h5py

    return isinstance(item, h5py.Dataset)


def _once(names: list[str], where: str) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError(
            f"{where} must name each layer once; {len(names)} names are those of {len(set(names))}."
        )
    return names


def _names(group: Any, limit: int, where: str) -> list[str]:
    """The first names in a group. h5py gives bytes for those that are not UTF-8."""
    with untrusted.read_by("h5py", where):
        names = list(itertools.islice(group, limit))
    if wrong := [name for name in names if not isinstance(name, str)]:
        raise ValueError(f"{where} must have names in UTF-8; it has {untrusted.shown(wrong[0])}.")
    return names


def _some(group: Any, where: str) -> str:
    """The first members of a group, for a message."""
    with untrusted.read_by("h5py", where):
        return ", ".join(sorted(map(untrusted.shown, itertools.islice(group, 8))))


def _has_link(group: Any, name: str, where: str) -> bool:
    """Whether there is a link of this name, which it does not follow; it must be a hard one."""
    import h5py

    with untrusted.read_by("h5py", where):
        links, encoded = group.id.links, name.encode()
        if not links.exists(encoded):
            return False
        kind = links.get_info(encoded).type
    if kind != h5py.h5l.TYPE_HARD:
        names = {h5py.h5l.TYPE_SOFT: "SoftLink", h5py.h5l.TYPE_EXTERNAL: "ExternalLink"}
        raise ValueError(
            f"{where} must be in the file itself; {untrusted.shown(name)} is a "
            f"{names.get(kind, 'link of another kind')}, which leads elsewhere."
        )
    return True


def member(group: Any, name: str, where: str, kind: str) -> Any:
    """Returns an object that is in the file itself, by its path.

    Args:
      group: of h5py.
      name: the path.
      where: of it, for messages.
      kind: "Group", "Dataset" or "Group or Dataset".

    Raises:
      ValueError: it is elsewhere, of another kind, or not there.
    """
    import h5py

    parts = name.removeprefix("/").split("/")
    if len(parts) > _MAX_DEPTH:
        raise ValueError(f"{where} must have a path of at most {_MAX_DEPTH} names.")
    for part in parts:
        if part in ("", ".") or not isinstance(group, h5py.Group):
            raise ValueError(f"{where} must be a path of groups; {untrusted.shown(part)} is none.")
        if not _has_link(group, part, where):
            raise ValueError(f"{where} must be there; there is no {untrusted.shown(part)}.")
        with untrusted.read_by("h5py", where):
            group = group[part]
    if not isinstance(group, tuple(getattr(h5py, name) for name in kind.split(" or "))):
        raise ValueError(f"{where} must be a {kind}; it is a {type(group).__name__}.")
    return group


def _address(dataset: Any, where: str) -> tuple[int, int]:
    import h5py

    with untrusted.read_by("h5py", where):
        info = h5py.h5o.get_info(dataset.id)
    return info.fileno, info.addr


def sizes(dataset: Any, where: str) -> tuple[int, int | None]:
    """Returns the bytes of a dataset, and those of it in the file, None if it is compressed.

    Raises:
      ValueError: it is not in the file itself, or holds no numbers.
    """
    import h5py

    with untrusted.read_by("h5py", where):
        properties = dataset.id.get_create_plist()
        filters = [properties.get_filter(i)[0] for i in range(properties.get_nfilters())]
        external, layout = properties.get_external_count(), properties.get_layout()
        shape, dtype = dataset.shape, dataset.dtype
        stored = dataset.id.get_storage_size()
    if external:
        raise ValueError(f"{where} must be in the file itself; it is in an external file.")
    if layout not in (h5py.h5d.COMPACT, h5py.h5d.CONTIGUOUS, h5py.h5d.CHUNKED):
        raise ValueError(f"{where} must be in the file itself; it is a virtual dataset.")
    if not set(filters) <= set(_FILTERS):
        raise ValueError(
            f"{where} must be stored as it is, or with gzip or lzf; it has the filters {filters}."
        )
    is_number = (dtype.kind in "biuf" and dtype.itemsize <= 8) or _is_bfloat16(dataset, where)
    if not is_number or shape is None:
        raise ValueError(f"{where} must hold numbers; it holds {untrusted.shown(str(dtype))}.")
    return math.prod(shape) * dtype.itemsize, None if filters else stored


def _is_bfloat16(dataset: Any, where: str) -> bool:
    """Whether it is what Keras makes of bfloat16: two bytes each, and a text that says so."""
    return (
        dataset.dtype.str == _OPAQUE
        and dataset.dtype.names is None
        and _has_attribute(dataset, "dtype", where)
        and str(_attribute(dataset, "dtype", where)) == "bfloat16"
    )


def _dtype(text: str, name: str) -> np.dtype[Any]:
    """The type that the other process tells of an array."""
    # It hands over no others that are opaque.
    return (
        bfloat16.dtype(f"{untrusted.shown(name)} in the file")
        if text == _OPAQUE
        else np.dtype(text)
    )


def _pieces(dataset: Any) -> Iterator[Array]:
    """Yields a dataset, some rows at a time."""
    nbytes = dataset.nbytes
    if nbytes <= _PIECE:
        yield dataset[()]
        return
    rows = max(1, _PIECE // (nbytes // dataset.shape[0]))
    if dataset.chunks:  # of which each is read once
        rows = -(-rows // dataset.chunks[0]) * dataset.chunks[0]
    for begin in range(0, dataset.shape[0], rows):
        yield dataset[begin : begin + rows]


def _has_attribute(group: Any, name: str, where: str) -> bool:
    with untrusted.read_by("h5py", where):
        return name in group.attrs


def _attribute(group: Any, name: str, where: str) -> Any:
    """Reads an attribute, which must be of texts; None for one of nothing."""
    import h5py

    where = f"`{name}` of {where}"
    if not _has_attribute(group, name, where):
        raise ValueError(f"{where} must be there; it is missing.")
    with untrusted.read_by("h5py", where):
        attribute = h5py.h5a.open(group.id, name.encode())
        count = attribute.get_space().get_simple_extent_npoints()
        is_text = isinstance(attribute.get_type(), h5py.h5t.TypeStringID)
        dtype = attribute.dtype
    if count == 0:
        return None
    if count > _MAX_NAMES:
        raise ValueError(f"{where} must have at most {_MAX_NAMES} texts; it has {count}.")
    if not is_text:
        raise ValueError(f"{where} must hold texts; it holds {untrusted.shown(str(dtype))}.")
    with untrusted.read_by("h5py", where):
        return group.attrs[name]


def _parts(group: Any, name: str, where: str) -> list[str]:
    """The attributes that hold a list of texts: Keras splits one of more than 63 KiB."""
    if _has_attribute(group, name, where):
        return [name]
    parts = (f"{name}{number}" for number in itertools.count())
    return list(itertools.takewhile(lambda part: _has_attribute(group, part, where), parts))


def _texts(group: Any, name: str, where: str) -> list[str]:
    """Reads a list of texts, which is one attribute or several."""
    texts: list[str] = []
    for part in _parts(group, name, where) or [name]:  # of which the first is said to be missing
        value = _attribute(group, part, where)
        if value is None:
            continue
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            raise ValueError(
                f"`{part}` of {where} must be a list of texts; its shape is {np.shape(value)}."
            )
        texts += [_text(text, part, where) for text in value]
        if len(texts) > _MAX_NAMES:
            raise ValueError(
                f"`{name}` of {where} must have at most {_MAX_NAMES} texts; it has more."
            )
    return texts


def _text(value: str | bytes, name: str, where: str) -> str:
    try:
        value = value if isinstance(value, bytes) else value.encode()
        return value.decode()
    except UnicodeError:
        raise ValueError(
            f"`{name}` of {where} must hold texts in UTF-8; got {untrusted.shown(value)}."
        ) from None


def _configs(file: Any, path: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The class and the config of each layer of the model, by name; none if there is no model."""
    if not _has_attribute(file, "model_config", path):
        return {}
    where = f"`model_config` of {path}"
    value = _attribute(file, "model_config", path)
    if not isinstance(value, str | bytes):
        raise ValueError(f"{where} must be one text; got {untrusted.shown(value)}.")
    config = untrusted.load_json(_text(value, "model_config", path), where)
    layers = _get(config, "config", where)
    if isinstance(layers, dict):
        layers = layers.get("layers", [])
    if not isinstance(layers, list):
        raise ValueError(f"{where} must have a list of layers; got {untrusted.shown(layers)}.")
    configs = {}
    for layer in layers:
        class_name, of_layer = _get(layer, "class_name", where), _get(layer, "config", where)
        name, inner = _get(of_layer, "name", where), of_layer.get("layer")
        if not isinstance(name, str) or not isinstance(class_name, str):
            raise ValueError(
                f"{where} must give texts for name and class; got {untrusted.shown(layer)}."
            )
        class_name = keras_config.class_of(layer)
        if keras_config.class_of(inner):  # a layer of somebody's own may have any `layer`
            class_name = f"{class_name}({keras_config.class_of(inner)})"
        configs[name] = (class_name, layer)
    return configs


def _get(value: Any, key: str, where: str) -> Any:
    if not isinstance(value, dict) or key not in value:
        raise ValueError(f"{where} must have {key} in {untrusted.shown(value)}.")
    return value[key]


# ------------------------------------------------------------------------------------
# Writing
# ------------------------------------------------------------------------------------


def write_layers(path: str, class_name: str, layers: list[list[Array]]) -> None:
    """Writes the weights of a stack of layers, as `save_weights` of Keras 2 does.

    Args:
      path: is overwritten.
      class_name: of the layers, such as "CuDNNLSTM"; names are made of it as Keras makes them.
      layers: of each the arrays kernel, recurrent_kernel and bias, of one or both directions.
    """
    import h5py

    # Keras' rule for a capital after a small letter; CuDNNLSTM becomes cu_dnnlstm.
    base_name = re.sub("([a-z])([A-Z])", r"\1_\2", class_name).lower()
    # In memory first: where the disk is full, the HDF5 library cannot let go of its file, and ends
    # the process.
    whole = io.BytesIO()
    with h5py.File(whole, "w") as file:
        names = []
        for index, arrays in enumerate(layers):
            own = base_name if index == 0 else f"{base_name}_{index}"
            is_wrapped = len(arrays) == 6
            name = own if not is_wrapped else f"bidirectional{f'_{index}' if index else ''}"
            names.append(name)
            group = file.create_group(name)
            keys = []
            for place, array in enumerate(arrays):
                kind = ("kernel", "recurrent_kernel", "bias")[place % 3]
                way = ("forward_", "backward_")[place // 3] if is_wrapped else ""
                keys.append(f"{name}/{way}{own}/{kind}:0" if way else f"{name}/{kind}:0")
                group.create_dataset(keys[-1], data=array)
            group.attrs["weight_names"] = [key.encode() for key in keys]
        file.attrs["layer_names"] = [name.encode() for name in names]
        file.attrs["backend"] = b"tensorflow"
        file.attrs["keras_version"] = b"2.15.0"
    with open(path, "wb") as target:
        target.write(whole.getbuffer())
