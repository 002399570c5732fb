"""What kind of file a path leads to, told by what is in it."""

import enum
import errno
import os
import pathlib
import re
import zipfile

from tf_cudnn_rnn._cli import output
from tf_cudnn_rnn._formats import hdf5, untrusted

_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")
_HDF5 = b"\x89HDF\r\n\x1a\n"
_PICKLE = (
    "is a pickle, which runs code when it is loaded; this reads none. Write the weights anew in "
    "PyTorch: safetensors.torch.save_file(model.state_dict(), path)."
)
_KNOWN = (
    "a SavedModel's folder, a checkpoint, or a file .keras, .h5, .weights.h5, .safetensors, "
    ".onnx or .npz"
)


class Kind(enum.Enum):
    """Kinds of files, and how they are called."""

    SAVED_MODEL = "SavedModel"
    CHECKPOINT = "TensorFlow checkpoint"
    KERAS = "Keras model"
    KERAS_2_H5 = "HDF5 file of Keras"
    KERAS_3_H5 = "weights of Keras 3"
    SAFETENSORS = "safetensors file"
    ONNX = "ONNX model"
    NPZ = "NumPy file"


def recognise(path: str) -> tuple[Kind, str]:
    """Returns the kind of a file, and the path to read: of a checkpoint that without an ending.

    Raises:
      OSError: there is none.
      UserError: it is of no kind that is known here.
      ValueError: it is damaged.
    """
    if os.path.isdir(path):
        return _folder(path)
    if path.endswith(".index") or _DATA.search(path):
        prefix = path.removesuffix(".index") if path.endswith(".index") else _DATA.sub("", path)
        if not os.path.exists(path) or not os.path.exists(f"{prefix}.index"):
            missing = path if not os.path.exists(path) else f"{prefix}.index"
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), missing)
        return Kind.CHECKPOINT, prefix
    if not os.path.exists(path) and os.path.exists(f"{path}.index"):
        return Kind.CHECKPOINT, path
    with untrusted.opened(path) as (file, size):
        begin = file.read(16)
        if begin.startswith(b"PK"):
            return _zip(path, untrusted.open_zip(file, size, path)), path
    name = os.path.basename(path)
    if begin.startswith(_HDF5):
        return Kind.KERAS_3_H5 if hdf5.is_of_keras_3(path) else Kind.KERAS_2_H5, path
    if begin.startswith(b"\x80") and name.endswith((".pt", ".pth", ".bin", ".pkl", ".ckpt")):
        raise output.UserError(f"{path} {_PICKLE}")
    if name.endswith(".safetensors"):
        return Kind.SAFETENSORS, path
    if name.endswith(".onnx"):
        return Kind.ONNX, path
    if name.endswith(".pb"):
        if name != "saved_model.pb":
            raise output.UserError(
                f"{path} must be a SavedModel's saved_model.pb, or {_KNOWN}; a frozen graph tells "
                "too little of its weights."
            )
        return Kind.SAVED_MODEL, path
    what = f"it begins with {begin[:4]!r}" if begin else "it is empty"
    raise output.UserError(f"{path} must be {_KNOWN}; {what}.")


def _folder(path: str) -> tuple[Kind, str]:
    graph = os.path.join(path, "saved_model.pb")
    if os.path.exists(graph):
        return Kind.SAVED_MODEL, graph
    state = pathlib.Path(path) / "checkpoint"
    if state.is_file():
        with untrusted.opened(state) as (file, _):
            text = file.read(1 << 16).decode(errors="replace")
        match = re.search(r'^model_checkpoint_path: "([^"/\\]+)"', text, re.MULTILINE)
        # A name in this folder; a path could lead anywhere.
        if match and os.path.exists(os.path.join(path, f"{match[1]}.index")):
            return Kind.CHECKPOINT, os.path.join(path, match[1])
    raise output.UserError(
        f"{path} is a folder with neither a saved_model.pb nor a checkpoint in it; it must be "
        f"{_KNOWN}."
    )


def _zip(path: str, archive: zipfile.ZipFile) -> Kind:
    names = archive.namelist()
    if "config.json" in names:
        return Kind.KERAS
    if names and all(name.endswith(".npy") for name in names):
        return Kind.NPZ
    if any(name.endswith("data.pkl") for name in names):
        raise output.UserError(f"{path} {_PICKLE}")
    first = ", ".join(map(untrusted.shown, names[:4])) or "nothing"
    raise output.UserError(f"{path} must be {_KNOWN}; it is a zip file of {first}.")


def size_of(kind: Kind, path: str) -> int:
    """The bytes of a file, or of all files of a checkpoint."""
    if kind is Kind.CHECKPOINT:
        folder, name = os.path.split(path)
        parts = [part for part in os.listdir(folder or ".") if part.startswith(f"{name}.")]
        return sum(os.path.getsize(os.path.join(folder, part)) for part in parts)
    return os.path.getsize(path)
