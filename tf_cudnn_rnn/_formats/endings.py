"""Endings of paths, which must not promise another format than that of what is written.

None, or one that stands for no format here, promises nothing.
"""

import os

SAFETENSORS, ONNX, SAVED_MODEL = "a safetensors file", "an ONNX file", "the folder of a SavedModel"

# What has each ending, and what writes it. A longer ending stands before the one that it ends with.
_KNOWN: dict[str, tuple[str, str | None]] = {
    ".safetensors": (
        SAFETENSORS,
        "tf_cudnn_rnn.keras.export_runtime(model, path) or weights.write_safetensors(path, arrays)",
    ),
    ".onnx": (ONNX, "tf_cudnn_rnn.keras.export_onnx(model, path)"),
    ".keras": ("a file of Keras", "model.save(path)"),
    ".weights.h5": ("a file of Keras' weights", "model.save_weights(path)"),
    ".h5": ("a file of Keras", "model.save(path)"),
    ".tflite": ("a file of LiteRT", 'model.export(path, format="litert")'),
    ".npz": ("an archive of NumPy's arrays", "numpy.savez(path, **arrays)"),
    ".npy": ("an array of NumPy", "numpy.save(path, array)"),
    ".pt": ("a file of PyTorch", "torch.save(state_dict, path)"),
    ".pth": ("a file of PyTorch", "torch.save(state_dict, path)"),
    ".pb": ("the graph of a SavedModel", "tf_cudnn_rnn.keras.export(model, folder)"),
    ".index": ("a part of a checkpoint", "tf.train.Checkpoint(model=model).write(prefix)"),
    ".ckpt": ("a checkpoint", "tf.train.Checkpoint(model=model).write(prefix)"),
    ".pkl": ("a pickle", None),
    ".json": ("a text", None),
    ".csv": ("a text", None),
    ".txt": ("a text", None),
}


def check(argument: str, path: str | os.PathLike[str], what: str) -> None:
    """Raises ValueError if a path ends as those of another format do.

    Args:
      argument: the name of the path where the caller stands.
      path: of what will be written.
      what: SAFETENSORS, ONNX or SAVED_MODEL: what that will be.
    """
    name = os.path.basename(os.fspath(path))
    ending = next((known for known in _KNOWN if name.lower().endswith(known)), None)
    if ending is None or _KNOWN[ending][0] == what:
        return
    promised, writer = _KNOWN[ending]
    own = next((f"ends in {known}" for known, (of, _) in _KNOWN.items() if of == what), None)
    message = (
        f"`{argument}` must not end in {ending}, as {promised} does: {what} is written, which "
        f"{own or 'has no ending'}; got {name}."
    )
    raise ValueError(f"{message} For {promised} call {writer}." if writer else message)
