"""`.pt` files, as bytes and as the objects in them.

PyTorch reads them. What is ours comes before (a zip file must not unpack to far more than it has)
and after (which of the objects are taken, and how large they become). Where PyTorch is installed it
does its part, and a crash is its own; elsewhere a stand-in does. That one makes the same network of
any file that is a zip file to PyTorch. So bytes make objects, too (`pt_objects`), as torch.load may
return them.
"""

import contextlib
import importlib.util
import math
import random
import struct
import sys
from collections.abc import Iterator
from typing import Any
from unittest import mock

import ml_dtypes
import numpy as np

from tests.fuzz.file_formats import command_line, mutations
from tests.fuzz.file_formats.format import Format, Process, mode_of, refuses, written
from tests.fuzz.file_formats.steps import Steps
from tests.weights import pytorch as stand_in
from tf_cudnn_rnn import weights

if importlib.util.find_spec("torch"):
    import torch as pytorch
else:
    pytorch = None

# ------------------------------------------------------------------------------------
# Bytes
# ------------------------------------------------------------------------------------

_ZIP, _LEGACY = b"PK\3\4", b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_MEMBER, _END_64, _LOCATOR, _END = b"PK\1\2", b"PK\6\6", b"PK\6\7", b"PK\5\6"
_LONG = 2**32 - 1  # in place of a size that follows in 64 bits
_UNPACKED = 48 << 20  # beyond one and a half times the file


class _Directory:
    """The directory of a zip file, as PyTorch's reader (miniz) looks for it; struct.error if not.

    Attributes:
      begin, end: where the directory is.
      places: of its address: of the two that may tell it, and of the address of the second.
      members: names and sizes.
    """

    def __init__(self, content: bytes) -> None:
        end = content.rfind(_END, 0, max(0, len(content) - 18))
        if end < 0:
            raise struct.error("there is no end")
        count, size, self.begin = struct.unpack_from("<H2L", content, end + 10)
        self.places = {end + 16: "<L"}
        if content[max(0, end - 20) : end].startswith(_LOCATOR):
            (end_64,) = struct.unpack_from("<Q", content, end - 12)
            if content[end_64 : end_64 + 4] == _END_64:
                count, size, self.begin = struct.unpack_from("<3Q", content, end_64 + 32)
                self.places |= {end_64 + 48: "<Q", end - 12: "<Q"}
        self.end = self.begin + size
        self.members: list[tuple[bytes, int]] = []
        place = self.begin
        for _ in range(count):
            (unpacked,) = struct.unpack_from("<L", content, place + 24)
            lengths = struct.unpack_from("<3H", content, place + 28)
            name_end = place + 46 + lengths[0]
            if unpacked == _LONG:
                unpacked = _long_size(content[name_end : name_end + lengths[1]])
            self.members.append((content[place + 46 : name_end], unpacked))
            place += 46 + sum(lengths)


def _long_size(extra: bytes) -> int:
    """A size of 64 bits, which stands among what a directory has beside names."""
    while extra:
        kind, length = struct.unpack_from("<2H", extra)
        if kind == 1:
            return struct.unpack_from("<Q", extra, 4)[0]
        extra = extra[4 + length :]
    return _LONG


def _check_unpacked(content: bytes) -> None:
    """Checks what PyTorch was given: it takes as much memory for a member as the directory says."""
    try:
        members = _Directory(content).members if content.startswith(_ZIP) else []
    except struct.error:  # PyTorch will not find any, too
        return
    unpacked = sum(size for _, size in members)
    assert unpacked <= _UNPACKED + 1.5 * len(content), f"torch.load would take {unpacked} bytes"


def _load(file: Any, *, map_location: str, weights_only: bool) -> dict[str, stand_in.Tensor]:
    """In place of torch.load: a network, or what PyTorch raises if there is none to be found."""
    content = file.read()
    if content.startswith(_ZIP):
        names = [name for name, _ in _Directory(content).members]
        if not any(name.endswith(b"/data.pkl") for name in names):
            raise RuntimeError("PytorchStreamReader failed locating file data.pkl")
    elif not content.startswith(_LEGACY):
        raise ValueError("Invalid magic number; corrupt file?")
    canonical = weights.from_cudnn(np.linspace(-1, 1, 64, dtype=np.float32), "lstm", 1, 2, 4)
    return {name: stand_in.Tensor(a) for name, a in weights.to_torch(canonical).arrays.items()}


@contextlib.contextmanager
def _loading(load: Any) -> Iterator[None]:
    """Has torch.load replaced."""
    if pytorch is None:
        with mock.patch.dict(sys.modules, torch=stand_in.module(load)):
            yield
    else:
        with mock.patch.object(pytorch, "load", load):
            yield


def _read(content: bytes, seed: str) -> str:
    path = written(content, "model.pt")
    assert command_line.read(path) == "refused"  # as a pickle, which they leave alone
    given = []

    def load(file: Any, **options: Any) -> Any:
        assert file.tell() == 0
        given.append(file)
        return real(file, **options)

    real = _load if pytorch is None else pytorch.load
    try:
        with _loading(load):
            canonical = weights.from_torch(path, "lstm" if pytorch is None else mode_of(seed))
    except (ValueError, OSError) as error:
        outcome = refuses(error, path)
    else:
        assert canonical.params.size == canonical.layout.size
        outcome = "read"
    if given:  # not before: what is raised there, from_torch takes for PyTorch's
        _check_unpacked(content)
    return outcome


def _mutate(rng: random.Random, content: bytes) -> bytes:
    """Changes a member; or adds a directory, and lets some of what leads to the old one lead to it.

    Readers that look for a directory in other ways find another one then.
    """
    if not content.startswith(_ZIP):
        return mutations.mutate(rng, content)
    if rng.random() < 0.5:
        return mutations.mutate_member(rng, content, lambda member: mutations.mutate(rng, member))
    old = _Directory(content)
    directory = bytearray(content[old.begin : old.end])
    member = directory.find(_MEMBER, rng.randrange(len(directory) - 46))
    struct.pack_into("<L", directory, member + 24, rng.choice((0, 1 << 20, 1 << 31, _LONG)))
    after = bytearray(content)
    for place, form in old.places.items():
        if rng.random() < 0.5:
            address = struct.unpack_from(form, after, place)[0]
            struct.pack_into(form, after, place, address + len(directory))
    return bytes(after[: old.begin] + directory + after[old.begin :])


# ------------------------------------------------------------------------------------
# Objects
# ------------------------------------------------------------------------------------

_PREFIXES = ["", "rnn.", "state_dict.", "state_dict.rnn.", "é\x1b.", "\ud800."]
_KINDS = ["weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr", "head.weight"]
_LAYERS = ["_l0", "_l1", "_l0_reverse", "_l1_reverse", "_l2000", "_l" + "9" * 30, "_l00", ""]
_SHAPES: list[tuple[int, ...]] = [
    *((8, 3), (8, 2), (8,), (8, 1), (1, 2), (6, 3), (6, 2), (6,), (2, 3), (2, 2), (2,), (8, 4)),
    *(
        (),
        (0,),
        (8, 0),
        (1, 1, 1),
        (1 << 20, 1 << 20),
        (1 << 58,),
        (1 << 14, 1 << 13),
        (4800, 1500),
    ),
]
_DTYPES = ["float32", "bfloat16", "float16", "float64", "int16", "bool", "complex64", "float8_e5m2"]
_MODES: list[Any] = ["lstm", "gru", "rnn_tanh", "rnn_relu"]
_WAYS = ["plain", "plain", "transposed", "view", "sparse", "meta"]
_MOST_ELEMENTS = 1000  # that are really there
_MOST_STEPS = 80


def _deep() -> Any:
    """A name that is many tuples in each other; such can be keys."""
    name: Any = ()
    for _ in range(3000):
        name = (name,)
    return name


_ODD_NAMES: list[Any] = [0, None, b"rnn", 10**5000, _deep(), ("a", 1.5), float("nan"), "a" * 300]
_ODD_VALUES: list[Any] = [3, None, "text", [1, 2], (3,), 1.5, b"", {}]


def _tensor(steps: Steps) -> tuple[Any, np.ndarray | None]:
    """A tensor, and its values; None if NumPy cannot have them."""
    dtype, shape, way = (steps.one_of(choices) for choices in (_DTYPES, _SHAPES, _WAYS))
    if way in ("plain", "transposed") and np.prod(shape, dtype=float) > _MOST_ELEMENTS:
        way = "view"
    numbers = np.linspace(-1, 1, math.prod(shape) if way in ("plain", "transposed") else 1)
    if pytorch is not None:
        return _real_tensor(numbers, dtype, shape, way)
    types = {"bfloat16": ml_dtypes.bfloat16, "float8_e5m2": np.int8}
    numbers = numbers.astype(types.get(dtype, dtype))
    if way in ("plain", "transposed"):
        values = numbers.reshape(shape, order="F" if way == "transposed" else "C")
    else:  # one number, again and again
        values = np.broadcast_to(numbers[0], shape)
    layout = "torch.sparse_coo" if way == "sparse" else "torch.strided"
    kind = "meta" if way == "meta" else "torch.float8_e5m2" if dtype == "float8_e5m2" else ""
    bits = values.view(np.int16) if dtype == "bfloat16" else values
    is_array = layout == "torch.strided" and not kind
    return stand_in.Tensor(bits, f"torch.{dtype}", layout, kind), values if is_array else None


def _real_tensor(
    numbers: np.ndarray, dtype: str, shape: tuple[int, ...], way: str
) -> tuple[Any, np.ndarray | None]:
    kind = getattr(pytorch, dtype)
    if way == "meta":
        return pytorch.empty(shape, dtype=kind, device="meta"), None
    if way == "sparse":
        return pytorch.sparse_coo_tensor(size=shape, dtype=kind), None
    tensor = pytorch.from_numpy(numbers).to(kind)
    if way == "view":
        tensor = tensor[0].expand(shape)
    elif way == "plain":
        tensor = tensor.reshape(shape)
    else:
        tensor = tensor.reshape(shape[::-1]).permute(*range(len(shape))[::-1])
    if dtype == "bfloat16":
        return tensor, tensor.view(pytorch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor, tensor.numpy() if dtype != "float8_e5m2" else None


def build(steps: Steps) -> tuple[Any, dict[str, np.ndarray | None]]:
    """What torch.load returns, and the arrays of RNNs in it, by name."""
    is_mapping = steps.number(32) < 31
    state: dict[Any, Any] = {}
    made: dict[int, tuple[Any, np.ndarray | None]] = {}  # by a tensor's id, with the tensor
    mapping = state
    for _ in range(_MOST_STEPS):
        if not steps.left():
            break
        # What PyTorch does not make of it is left out.
        with contextlib.suppress(RuntimeError, TypeError):
            mapping = _step(steps, state, mapping, made)
    mappings = {id(value): value for value in [state, *state.values()]}
    inside = {key: _named(value, made) for key, value in mappings.items()}
    arrays = dict(inside[id(state)])
    for name, value in state.items():
        if isinstance(name, str):
            arrays |= {f"{name}.{inner}": array for inner, array in inside[id(value)]}
    return state if is_mapping else [state], arrays


def _named(value: Any, made: dict[int, Any]) -> list[tuple[str, np.ndarray | None]]:
    """Those of RNNs in a mapping; of other objects none."""
    items = value.items() if isinstance(value, dict) else ()
    return [
        (name, made[id(tensor)][1])
        for name, tensor in items
        if isinstance(name, str) and "_l" in name and id(tensor) in made
    ]


def _step(
    steps: Steps, state: dict[Any, Any], mapping: dict[Any, Any], made: dict[int, Any]
) -> dict[Any, Any]:
    """Adds to a mapping; returns the one to be added to next."""
    kind = steps.number(8)
    if kind < 4:
        name: Any = "".join(steps.one_of(choices) for choices in (_PREFIXES, _KINDS, _LAYERS))
        tensor, values = _tensor(steps)
        mapping[name] = tensor
        made[id(tensor)] = tensor, values
    elif kind == 4:
        name = steps.one_of([*_PREFIXES, *_ODD_NAMES])
        name = name.rstrip(".") if isinstance(name, str) else name
        mapping = state.setdefault(name, {})
        mapping = mapping if isinstance(mapping, dict) else state
    elif kind == 5:
        mapping = state
    elif kind == 6:
        name = steps.one_of([*_ODD_NAMES, *_KINDS])
        mapping[name] = steps.one_of([*_ODD_VALUES, *mapping.values()])
    else:  # the same again and again, which takes a few bytes of a file
        value = steps.one_of([mapping, *mapping.values()])
        outer, count = steps.number(256), steps.one_of([1, 30, 3000])
        mapping |= {f"{outer}.{i}": value for i in range(count)}
    return mapping


def _read_objects(content: bytes, seed: str) -> str:
    steps = Steps(content)
    mode, prefix = steps.one_of(_MODES), steps.one_of([None, *_PREFIXES])
    holds, arrays = build(steps)
    path = written(b"objects", "model.pt")
    try:
        with _loading(lambda file, **options: holds):
            canonical = weights.from_torch(path, mode, prefix=prefix)
    except (ValueError, OSError) as error:
        return refuses(error, path)
    expected = weights.from_torch(arrays, mode, prefix=prefix)
    assert canonical.dtype == expected.dtype and canonical.layout == expected.layout
    assert canonical.params.tobytes() == expected.params.tobytes()
    return "read"


FORMATS = {
    "pt": Format(
        _read, mutate=_mutate, process=Process.OWN if pytorch is None else Process.LIMITED
    ),
    "pt_objects": Format(_read_objects),
}
