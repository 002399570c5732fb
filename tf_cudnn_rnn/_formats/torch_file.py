"""Files that torch.save wrote, read by PyTorch itself where it is installed."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from tf_cudnn_rnn._formats import bfloat16, untrusted
from tf_cudnn_rnn._types import Array

ENDINGS = (".pt", ".pth")
# Before it, files could run code in spite of weights_only=True (CVE-2025-32434).
_SAFE = (2, 6)
_ZIP_BEGINS = b"PK\x03\x04"
# For the names of all tensors, each with 100 bytes of its own; a character takes up to four.
_MAX_NAMES_BYTES = 16 << 20


def read(path: str) -> tuple[dict[str, Any], int]:
    """Returns the tensors of a file by name, and its size, without running code from it.

    Those of a mapping inside, such as a checkpoint's "state_dict", have its name and a dot in
    front. What is no tensor, or has another name than a text, is left out.

    Raises:
      ImportError: there is no PyTorch, or one that may run code from files.
      OSError: the file cannot be opened.
      ValueError: it is damaged, or needs code, or is no mapping.
    """
    with untrusted.opened(path) as (file, size):
        torch = _pytorch(path)
        if file.read(len(_ZIP_BEGINS)) == _ZIP_BEGINS:  # and not of a PyTorch before 1.6
            # Refuses what PyTorch would unpack to any size, though it writes all as it is.
            archive = untrusted.open_zip(file, size, path)
            untrusted.check_unambiguous(archive, file, size, path)
        file.seek(0)
        with untrusted.read_by("torch.load", path):
            try:
                state = torch.load(file, map_location="cpu", weights_only=True)
            except Exception as error:
                if (more := _what_needs_code(str(error))) is None:
                    raise
                raise untrusted.Refused(
                    f"{path} must hold tensors alone, such as a state_dict; it holds {more}, which "
                    "is not loaded, for that may run code. Where that code is, save the tensors: "
                    'safetensors.torch.save_file(model.state_dict(), "model.safetensors").'
                ) from error
    if not isinstance(state, Mapping):
        raise ValueError(
            f"{path} must hold a mapping of names to tensors, such as a state_dict; it holds "
            f"{untrusted.shown(type(state).__name__)}."
        )
    return _named(state, torch.is_tensor, path), size


def _what_needs_code(error: str) -> str | None:
    """What a sound file holds besides tensors, as torch.load says; None if it does not say so."""
    if "TorchScript archives" in error:
        return "a model of TorchScript"
    match = re.search(r"Unsupported global: GLOBAL ([\w.]+) was not an allowed global", error)
    return f"an object {untrusted.shown(match[1])}" if match else None


def _named(state: Mapping[Any, Any], is_tensor: Callable[[Any], bool], path: str) -> dict[str, Any]:
    """The tensors of a mapping and of the mappings in it, by name."""

    def tensors_of(mapping: Mapping[Any, Any]) -> dict[str, Any]:
        return {
            name: value
            for name, value in mapping.items()
            if isinstance(name, str) and is_tensor(value)
        }

    tensors = tensors_of(state)
    left = _MAX_NAMES_BYTES - sum(100 + len(name) for name in tensors)
    # One may be there under many names, each of which takes a few bytes of a file.
    inside: dict[int, dict[str, Any]] = {}
    for outer, value in state.items():
        if not isinstance(outer, str) or not isinstance(value, Mapping):
            continue
        if id(value) not in inside:
            inside[id(value)] = tensors_of(value)
        left -= sum(101 + len(outer) + len(name) for name in inside[id(value)])
        if left < 0:
            break
        tensors |= {f"{outer}.{name}": tensor for name, tensor in inside[id(value)].items()}
    if left < 0:
        raise ValueError(
            f"{path} must have names of tensors of {_MAX_NAMES_BYTES} bytes at most, with 100 for "
            "each tensor."
        )
    return tensors


def arrays(tensors: Mapping[str, Any], size: int, path: str) -> dict[str, Array]:
    """The values of the tensors of an RNN.

    A tensor may be a view that has a few numbers of the file again and again, and would become
    an array of any size. So their bytes are compared with the file's before one is copied.

    Args:
      tensors: by name.
      size: of their file.
      path: of it, for messages.

    Raises:
      ImportError: one is of bfloat16, and there is no ml_dtypes.
      ValueError: they have far more bytes than the file, or NumPy has no such type or layout.
    """
    used = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    untrusted.check_shared(used, size, f"The tensors of the RNN in {path}")
    return {name: as_array(tensor, name) for name, tensor in tensors.items()}


def as_array(tensor: Any, name: str) -> Array:
    """The values of a tensor of PyTorch, as a parameter has, too.

    Raises:
      ImportError: it is of bfloat16, and there is no ml_dtypes.
      ValueError: NumPy has no such type or layout.
    """
    is_bfloat16 = str(tensor.dtype) == "torch.bfloat16"
    bits = bfloat16.dtype(f"`{untrusted.shown(name)}`") if is_bfloat16 else None
    try:
        values = tensor.detach().cpu()
        if bits is not None:
            import torch

            return values.contiguous().view(torch.int16).numpy().view(bits)
        return values.numpy()
    except (RuntimeError, TypeError) as error:  # quantised, sparse, of 8 bits, or without values
        raise ValueError(
            f"`{untrusted.shown(name)}` must be an array of floats; got {tensor.dtype}, "
            f"{tensor.layout} ({error})."
        ) from error


def _pytorch(path: str) -> Any:
    """The module torch, checked."""
    remedy = (
        "Write the file anew where there is PyTorch, with "
        "safetensors.torch.save_file(state, path), or install PyTorch here."
    )
    try:
        import torch
    except ImportError as error:
        raise ImportError(
            f"{path} can be read by PyTorch alone, which cannot be imported: {error}. {remedy}"
        ) from error
    version = re.match(r"(\d+)\.(\d+)", torch.__version__)
    if version is None or tuple(map(int, version.groups())) < _SAFE:
        raise ImportError(
            f"{path} needs PyTorch {_SAFE[0]}.{_SAFE[1]} or later, for earlier ones may run code "
            f"from a file; found {torch.__version__}. {remedy}"
        )
    return torch
