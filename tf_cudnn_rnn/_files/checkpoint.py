"""The variables of a TensorFlow checkpoint, read by TensorFlow one by one."""

import math
import os
import stat
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tf_cudnn_rnn import _library
from tf_cudnn_rnn._files import kinds
from tf_cudnn_rnn._formats import bundle, untrusted, wire
from tf_cudnn_rnn._types import Array

_MAX_DIMENSIONS = 254  # of TensorFlow
_MAX_ELEMENTS = 2**63
_CHECKSUM_BYTES = 4
_PATTERN = frozenset("[\\")
_MAX_SIZES = 1_000_000  # in all shapes and slices of a checkpoint


def _check_entry(entry: Any) -> None:
    """Raises wire.Damage for what TensorFlow does not expect, and ends the process."""
    sizes = [dimension.size for dimension in entry.shape.dim]
    if entry.shape.unknown_rank or len(sizes) > _MAX_DIMENSIONS or min(sizes, default=0) < 0:
        raise wire.Damage(f"it has the shape {untrusted.shown(sizes)}")
    # TensorFlow multiplies before it looks for zeros.
    if math.prod(filter(None, sizes)) >= _MAX_ELEMENTS:
        raise wire.Damage(f"it has the shape {untrusted.shown(sizes)}")
    if min(entry.shard_id, entry.offset, entry.size) < 0:
        raise wire.Damage("it has a negative place or size")
    for part in entry.slices:
        if len(part.extent) != len(sizes):
            raise wire.Damage(f"it has a slice of {len(part.extent)} extents")
        for extent, size in zip(part.extent, sizes, strict=True):
            length = extent.length if extent.HasField("length") else size
            if extent.start < 0 or length < 0 or extent.start > size - length:
                raise wire.Damage(f"it has a slice [{extent.start}, +{length}) of {size}")


class _Place(NamedTuple):
    """Where the bytes of a variable are: file, offset, size; and how many elements it has."""

    shard_id: int
    offset: int
    size: int
    elements: int


def _entries(prefix: str) -> tuple[dict[str, _Place], int]:
    """The places in a checkpoint's index, which TensorFlow can read, and the number of shards.

    Raises:
      OSError: it cannot be opened.
      ValueError: it is damaged.
    """
    from google.protobuf import message
    from tensorflow.core.protobuf import tensor_bundle_pb2

    path = f"{prefix}.index"
    found = {}
    num_shards = 1
    sizes = 0
    for key, value in bundle.entries(path):
        cls = tensor_bundle_pb2.BundleEntryProto if key else tensor_bundle_pb2.BundleHeaderProto
        try:
            entry = cls.FromString(bytes(value))
            if key:
                sizes += 1 + len(entry.shape.dim) + len(entry.slices)
                if sizes <= _MAX_SIZES:
                    sizes += sum(len(part.extent) for part in entry.slices)
                if sizes > _MAX_SIZES:
                    raise wire.Damage(f"there are more than {_MAX_SIZES} sizes up to here")
                _check_entry(entry)
                # Not the message, which takes fifty times its bytes.
                count = math.prod(dimension.size for dimension in entry.shape.dim)
                place = _Place(entry.shard_id, entry.offset, entry.size, count)
                found[key.decode(errors="surrogateescape")] = place
            else:
                num_shards = entry.num_shards
        except (message.DecodeError, wire.Damage) as error:
            name = untrusted.shown(key.decode(errors="replace"))
            raise ValueError(f"{name} in {path} is damaged, or forged: {error}.") from None
    return found, num_shards


def _check_files(prefix: str, folder: str) -> None:
    """Raises ValueError if TensorFlow would open another file than those of a checkpoint.

    Args:
      prefix: what the names of its files begin with.
      folder: what they must be in.
    """
    if not _PATTERN.isdisjoint(prefix):
        raise ValueError(
            f"{prefix}.index must have a path without [ and \\, which TensorFlow takes for a "
            "pattern of other paths. Copy it and its data to another one."
        )
    parent, name = os.path.split(prefix)
    kinds.check_inside(folder, f"{prefix}.index")
    for other in os.listdir(parent or "."):
        if other.startswith(f"{name}.data-"):
            path = os.path.join(parent, other)
            kinds.check_inside(folder, path)
            if not stat.S_ISREG(os.stat(path).st_mode):
                raise ValueError(f"{path} must be a file; it is a pipe or a device.")


class Variables(Mapping[str, Array]):
    """A mapping of keys to arrays, each of which is read when it is asked for."""

    def __init__(self, path: str, folder: str | None = None) -> None:
        """Opens the checkpoint whose files begin with `path`.

        Args:
          path: of the files, without their endings.
          folder: what they must be in, and not only links; None for the one that `path` names.

        Raises:
          ImportError: there is no TensorFlow.
          ValueError: it cannot be read.
        """
        if not _library.has_tensorflow():
            raise _library.needs_tensorflow("A checkpoint")
        import tensorflow as tf

        self._path = path
        _check_files(path, os.path.dirname(path) if folder is None else folder)
        self._entries, self._num_shards = _entries(path)
        # load_checkpoint() would follow a file "checkpoint"; and a path that begins with a scheme
        # would be that of another file system.
        prefix = os.path.join(os.getcwd(), path)
        with untrusted.named(path), untrusted.read_by("TensorFlow", path):
            self._reader = tf.compat.v1.train.NewCheckpointReader(prefix)
            self._shapes = self._reader.get_variable_to_shape_map()
            self._dtypes = self._reader.get_variable_to_dtype_map()
        self._size = kinds.size_of(kinds.Kind.CHECKPOINT, path)

    @property
    def shapes(self) -> Mapping[str, list[int]]:
        """The shape of each."""
        return types.MappingProxyType(self._shapes)

    def dtype_name(self, key: str) -> str:
        """The name of the type of one."""
        return self._dtypes[key].name

    def nbytes(self, key: str) -> int:
        """The bytes of one."""
        return math.prod(self._shapes[key]) * max(1, self._dtypes[key].size)

    def __getitem__(self, key: str) -> Array:
        if key not in self._shapes:
            raise KeyError(key)
        where = f"{untrusted.shown(key)} in {self._path}"
        # TensorFlow allocates what the index says.
        needed = self.nbytes(key)
        if needed > self._size:
            raise ValueError(f"{where} must have {needed} bytes; all files have {self._size}.")
        self._check_content(key, where)
        with untrusted.read_by("TensorFlow", where):
            return self._reader.get_tensor(key)

    def _check_content(self, key: str, where: str) -> None:
        """Raises ValueError for what TensorFlow would end the process on, when it is read."""
        import tensorflow as tf

        dtype = self._dtypes[key]
        is_known = dtype.is_floating or dtype.is_integer or dtype.is_bool or dtype == tf.string
        if not is_known or dtype != dtype.base_dtype:  # that of a reference
            raise ValueError(f"{where} must hold numbers or texts; it holds {dtype.name}.")
        if dtype == tf.string:
            self._check_texts(self._entries[key], where)

    def _check_texts(self, entry: _Place, where: str) -> None:
        """Compares the lengths of texts, for which TensorFlow asks for memory, with their bytes."""
        count = entry.elements
        path = f"{self._path}.data-{entry.shard_id:05d}-of-{self._num_shards:05d}"
        with untrusted.opened(path) as (file, size):
            if entry.offset + entry.size > size or count > entry.size:
                raise ValueError(
                    f"{where} must have {entry.size} bytes at {entry.offset} of {path}, which has "
                    f"{size}."
                )
            file.seek(entry.offset)
            content = memoryview(file.read(min(entry.size, count * wire.MAX_VARINT)))
        position = total = 0
        try:
            for _ in range(count):
                length, position = wire.varint(content, position, len(content))
                total += length
        except wire.Damage as error:
            raise ValueError(f"{where} is damaged, or forged: {error}.") from None
        # The lengths, their checksum, and the texts.
        if count and position + _CHECKSUM_BYTES + total != entry.size:
            raise ValueError(f"{where} must have texts of {entry.size} bytes; it has {total}.")

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)
