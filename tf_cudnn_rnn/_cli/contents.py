"""The recurrent nodes, layers and sets of weights in a file. Nothing is loaded or run."""

from collections.abc import Callable, Iterator

from tf_cudnn_rnn import _library
from tf_cudnn_rnn._cli.finders import arrays, graphs, layers, variable_parts
from tf_cudnn_rnn._cli.finders.found import Contents, Look, Loop, looked_at
from tf_cudnn_rnn._files import variables
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import untrusted


def find(kind: Kind, path: str, shown_path: str) -> Contents:
    """Returns what is recurrent in a file.

    Args:
      kind, path: of the file; see `kinds.recognise`.
      shown_path: what the user called it, for the calls that are recommended.

    Raises:
      ImportError: something that is needed to read it is not installed.
      OSError: it cannot be opened.
      ValueError: it is damaged.
    """
    with untrusted.named(path):
        return looked_at(FINDERS[kind](path, shown_path))


def weights(kind: Kind, path: str, shown_path: str) -> Contents:
    """The weights beside a graph, which `convert` reads; none where TensorFlow is not installed.

    Raises: as `find`.
    """
    if kind is not Kind.SAVED_MODEL or not variables.has_variables(kind, path):
        return Contents([])
    if not _library.has_tensorflow():
        return Contents([])
    with untrusted.named(path):
        return looked_at(variable_parts.parts(kind, path, shown_path, variables.opened(kind, path)))


FINDERS: dict[Kind, Callable[[str, str], Iterator[Look] | Iterator[Look | Loop]]] = {
    Kind.SAVED_MODEL: graphs.in_saved_model,
    Kind.ONNX: graphs.in_onnx,
    Kind.KERAS: layers.in_keras,
    Kind.KERAS_2_H5: layers.in_keras_2,
    Kind.KERAS_3_H5: layers.in_keras_3,
    Kind.SAFETENSORS: arrays.in_safetensors,
    Kind.RUNTIME: arrays.in_runtime,
    Kind.NPZ: arrays.in_npz,
    Kind.CHECKPOINT: variable_parts.in_checkpoint,
    Kind.PICKLE: arrays.in_pickle,
}
