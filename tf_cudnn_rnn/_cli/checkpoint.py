"""The variables of a TensorFlow checkpoint, read by TensorFlow one by one."""

import math
from collections.abc import Iterator, Mapping

from tf_cudnn_rnn import _library
from tf_cudnn_rnn._cli import files, tensorflow
from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import Array


class Variables(Mapping[str, Array]):
    """A mapping of keys to arrays, each of which is read when it is asked for."""

    def __init__(self, path: str) -> None:
        """Opens the checkpoint whose files begin with `path`.

        Raises:
          ImportError: there is no TensorFlow.
          ValueError: it cannot be read.
        """
        tensorflow.quiet()
        if not _library.has_tensorflow():
            raise _library.needs_tensorflow("A checkpoint")
        import tensorflow as tf

        self._path = path
        with untrusted.named(path), untrusted.read_by("TensorFlow", path):
            self._reader = tf.train.load_checkpoint(path)
            self._shapes = self._reader.get_variable_to_shape_map()
            self._dtypes = self._reader.get_variable_to_dtype_map()
        self._size = files.size_of(files.Kind.CHECKPOINT, path)

    @property
    def shapes(self) -> dict[str, list[int]]:
        """The shape of each."""
        return dict(self._shapes)

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
        with untrusted.read_by("TensorFlow", where):
            return self._reader.get_tensor(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)
