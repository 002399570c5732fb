"""`inspect`: what in a file is recurrent, and how to run it here."""

import argparse
import dataclasses

from tf_cudnn_rnn._cli import contents, files, output
from tf_cudnn_rnn._formats import untrusted

EPILOG = """\
examples:
  tf-cudnn-rnn inspect saved_model_folder
  tf-cudnn-rnn inspect model.keras
  tf-cudnn-rnn inspect weights.safetensors --json

PATH is a SavedModel's folder, a checkpoint (its path without ending, or its
folder), or a file .keras, .h5, .weights.h5, .safetensors, .onnx or .npz. It
may come from anybody: nothing of it is run, and no pickle is loaded. ONNX
models and SavedModels are read whole, up to 2 GiB; of the others only what
describes the arrays is. (TensorFlow itself reads a checkpoint's index; it has
to be installed for that.)

The exit code is 0 if this library runs all that was found, and 1 if not, or
if there was nothing.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="what to look into")
    parser.add_argument("--json", action="store_true", help="write a JSON object")


def _sizes(found: contents.Found) -> str:
    """The network in words: what the file tells of it."""
    parts = []
    if found.rnn_mode:
        parts.append(found.rnn_mode)
    if found.num_layers:
        parts.append(output.count(found.num_layers, "layer"))
    for label, size in (
        ("input", found.input_size),
        ("units", found.num_units),
        ("projected to", found.num_proj),
    ):
        if size:
            parts.append(f"{label} {size}")
    if found.direction:
        parts.append(found.direction)
    if found.parameters:
        parts.append(output.count(found.parameters, "parameter"))
    return ", ".join(parts)


def _print(path: str, kind: files.Kind, nbytes: int, found: list[contents.Found]) -> None:
    number = output.count(len(found), "recurrent part") if found else "nothing recurrent"
    print(output.wrapped(f"{path}: {kind.value}, {output.size(nbytes)}, {number}"))
    for item in found:
        print()
        print(f"{untrusted.shown(item.name)} ({untrusted.shown(item.kind)})")
        if sizes := _sizes(item):
            print(output.wrapped(sizes, 2))
        label = "runs here: " if item.runs else "not here: "
        print(output.wrapped(label + item.how, 2))


def run(options: argparse.Namespace) -> int:
    """Prints what is in a file; returns the exit code."""
    kind, path = files.recognise(options.path)
    nbytes = files.size_of(kind, path)
    with output.progress_of(f"Reading {options.path}", nbytes):
        found, loops = contents.find(kind, path, options.path)
    if options.json:
        output.print_json(
            {
                "path": options.path,
                "kind": kind.value,
                "bytes": nbytes,
                "loops": loops,
                "found": [dataclasses.asdict(item) for item in found],
            }
        )
    else:
        _print(options.path, kind, nbytes, found)
        if loops:
            print()
            print(
                output.wrapped(
                    f"{output.count(loops, 'loop')} of small ops besides, as Keras exports its own "
                    "recurrent layers: TensorFlow runs them as before. To have them run fused, "
                    "export the model with tf_cudnn_rnn.keras.export."
                )
            )
    return output.GOOD if found and all(item.runs for item in found) else output.FAILED
