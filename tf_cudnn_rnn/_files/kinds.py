"""What kind of file a path leads to, told by what is in it."""

import enum
import errno
import os
import pathlib
import re
import zipfile

from tf_cudnn_rnn._formats import hdf5, runtime_file, untrusted

_DATA = re.compile(r"\.data-\d{5}-of-\d{5}$")
_HDF5 = b"\x89HDF\r\n\x1a\n"
# What files of others begin with, at this byte, and what they are called.
_OTHERS = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (0, b"%PDF-", "a PDF document"),
    (0, b"\x7fELF", "a program or library (ELF)"),
    (0, b"\x1f\x8b", "a gzip archive; unpack it first"),
    (0, b"BZh", "a bzip2 archive; unpack it first"),
    (0, b"\xfd7zXZ\0", "an xz archive; unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive; unpack it first"),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (257, b"ustar", "a tar archive; unpack it first"),
    (0, b"\x93NUMPY", "a NumPy array alone (.npy); an .npz has names"),
    (0, b"PAR1", "a Parquet table"),
    (0, b"GGUF", "a GGUF model"),
    (4, b"TFL3", "a TFLite model, which runs on its own"),
    (0, b"RIFF", "a RIFF file, of sound or images"),
    (0, b"SQLite format 3\0", "an SQLite database"),
)
_PICKLE_PROTOCOLS = (b"\2", b"\3", b"\4", b"\5")
_SNIFFED = 512  # bytes
_KNOWN = (
    "a SavedModel's folder, a checkpoint, or a file .keras, .h5, .weights.h5, .safetensors, "
    ".onnx, .npz or .pt"
)


class Kind(enum.Enum):
    """Kinds of files, and how they are called."""

    SAVED_MODEL = "SavedModel"
    CHECKPOINT = "TensorFlow checkpoint"
    KERAS = "Keras model"
    KERAS_2_H5 = "HDF5 file of Keras"
    KERAS_3_H5 = "weights of Keras 3"
    SAFETENSORS = "safetensors file"
    RUNTIME = "file of tf_cudnn_rnn.runtime"
    ONNX = "ONNX model"
    NPZ = "NumPy file"
    PICKLE = "pickle"  # such as torch.save writes


def recognise(path: str) -> tuple[Kind, str]:
    """Returns the kind of a file, and the path to read: of a checkpoint that without an ending.

    Raises:
      ImportError: something that is needed to tell is not installed.
      OSError: there is none.
      ValueError: it is of no kind that is known here, or damaged.
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
        begin = file.read(_SNIFFED)
        # A header's size may look like anything; what follows it does not.
        is_safetensors = begin[8:9] == b"{" and 8 + int.from_bytes(begin[:8], "little") <= size
        if begin.startswith(b"PK") and not is_safetensors:
            return _zip(path, untrusted.open_zip(file, size, path)), path
    name = os.path.basename(path)
    if runtime_file.is_one(path):  # whatever it is called
        return Kind.RUNTIME, path
    if begin.startswith(_HDF5):
        return Kind.KERAS_3_H5 if hdf5.is_of_keras_3(path) else Kind.KERAS_2_H5, path
    if is_safetensors:
        return Kind.SAFETENSORS, path
    if begin[:1] == b"\x80" and begin[1:2] in _PICKLE_PROTOCOLS:
        return Kind.PICKLE, path
    if other := _other(begin):
        raise ValueError(f"{path} is {other}. It must be {_KNOWN}.")
    if name.endswith(".safetensors"):
        return Kind.SAFETENSORS, path
    if name.endswith(".onnx"):
        return Kind.ONNX, path
    if name.endswith(".pb"):
        if name != "saved_model.pb":
            raise ValueError(
                f"{path} is a protocol buffer, of a frozen graph perhaps, which does not tell what "
                f"its weights are. It must be a SavedModel's saved_model.pb, or {_KNOWN}."
            )
        return Kind.SAVED_MODEL, path
    raise ValueError(f"{path} is {_unknown(begin)}. It must be {_KNOWN}.")


def refusal_of_pickle(path: str, remedy: str) -> str:
    """What is wrong with a pickle where nobody asked for PyTorch, and what to do.

    Args:
      path: of the file.
      remedy: how to have PyTorch read it.
    """
    return (
        f"{path} is a pickle, which may run code when it is loaded, and so is not read unasked. If "
        f"torch.save wrote it, {remedy}: PyTorch, if it is installed here, then reads the tensors "
        "and nothing else. Or write these anew where there is PyTorch: "
        'safetensors.torch.save_file(torch.load(path, weights_only=True), "model.safetensors").'
    )


def _other(begin: bytes) -> str | None:
    """What a file is by its first bytes, if it is nothing that is read here."""
    for place, magic, what in _OTHERS:
        if begin.startswith(magic, place):
            return what
    return None


def _unknown(begin: bytes) -> str:
    if not begin:
        return "empty"
    try:
        text = begin[:-3].decode() if len(begin) == _SNIFFED else begin.decode()
    except UnicodeDecodeError:
        text = "\0"
    if text.replace("\n", "").replace("\t", "").replace("\r", "").isprintable():
        kinds = {"{": "a JSON text", "<": "a text of XML or HTML"}
        if (first := text.lstrip()[:1]) in kinds:
            return kinds[first]
        return f"a text file, which begins with {text[:20]!a}"
    return f"of no kind that is known here; it begins with {begin[:4]!r}"


def check_inside(folder: str, path: str) -> None:
    """Raises ValueError if a link leads from a path in a folder to a file that is not in it."""
    real, found = os.path.realpath(folder), os.path.realpath(path)
    if os.path.commonpath([real, found]) != real:
        raise ValueError(
            f"{path} must be in {folder or '.'} itself; a link leads elsewhere. If it is to be "
            "trusted, copy what it leads to: `cp -rL` does."
        )


def _folder(path: str) -> tuple[Kind, str]:
    graph = os.path.join(path, "saved_model.pb")
    if os.path.exists(graph):
        check_inside(path, graph)
        return Kind.SAVED_MODEL, graph
    state = pathlib.Path(path) / "checkpoint"
    if state.is_file():
        check_inside(path, str(state))
        with untrusted.opened(state) as (file, _):
            text = file.read(1 << 16).decode(errors="replace")
        match = re.search(r'^model_checkpoint_path: "([^"/\\]+)"', text, re.MULTILINE)
        # A name in this folder; a path could lead anywhere.
        if match and os.path.exists(os.path.join(path, f"{match[1]}.index")):
            return Kind.CHECKPOINT, os.path.join(path, match[1])
    prefixes = (name.removesuffix(".index") for name in os.listdir(path) if name.endswith(".index"))
    if names := sorted(prefixes):
        listed = ", ".join(untrusted.shown(os.path.join(path, name)) for name in names[:4])
        raise ValueError(
            f"{path} is a folder whose file `checkpoint`, which tells the latest one, is missing "
            f"or names none that is there. Name a checkpoint in it: {listed}"
            f"{', ...' if len(names) > 4 else ''}."
        )
    raise ValueError(
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
        return Kind.PICKLE
    first = ", ".join(map(untrusted.shown, names[:4])) or "nothing"
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    raise ValueError(f"{path} is a zip archive of {first}{more}. It must be {_KNOWN}.")


def size_of(kind: Kind, path: str) -> int:
    """The bytes of a file, or of all files of a checkpoint."""
    if kind is Kind.CHECKPOINT:
        folder, name = os.path.split(path)
        parts = [part for part in os.listdir(folder or ".") if part.startswith(f"{name}.")]
        return sum(os.path.getsize(os.path.join(folder, part)) for part in parts)
    return os.path.getsize(path)
