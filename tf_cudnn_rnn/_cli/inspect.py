"""`inspect`: what in a file is recurrent, and how to run it here."""

import argparse
import dataclasses
import shlex

from tf_cudnn_rnn._cli import contents, output, replacing, tensorflow
from tf_cudnn_rnn._cli.finders import calls
from tf_cudnn_rnn._cli.finders.calls import Conversion
from tf_cudnn_rnn._cli.finders.found import SIMPLE, Contents, Found
from tf_cudnn_rnn._files import kinds
from tf_cudnn_rnn._formats import hdf5, untrusted

EPILOG = """\
examples:
  tf-cudnn-rnn inspect saved_model_folder
  tf-cudnn-rnn inspect model.keras
  tf-cudnn-rnn inspect weights.safetensors --json

PATH is a SavedModel's folder, a checkpoint (its path without ending, or its
folder), or a file .keras, .h5, .weights.h5, .safetensors, .onnx or .npz. It
may come from anybody: nothing of it is run, and no pickle is loaded. ONNX
models and SavedModels are read whole, up to 2 GiB; of the others only what
describes the arrays is. (TensorFlow itself reads checkpoints, and the variables
of a SavedModel; it has to be installed for that.)

A layer that has a name to tell it from others can be converted by it: see
`tf-cudnn-rnn convert --help`, --layer.

The exit code is 0 if this library runs all that was found, and 1 if not, or
if there was nothing. It is 1, too, where TensorFlow or Keras is missing or does
not fit: then the calls are shown that would run it, and the reason. Of a file
with more than 1,000 parts the first ones are shown, and the exit code is 1.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("path", metavar="PATH", help="what to look into")
    parser.add_argument("--json", action="store_true", help="write a JSON object")


def _sizes(found: Found) -> str:
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
        parts.append(output.parameters(found.parameters, found.biases))
    return ", ".join(parts)


def _label(found: Found) -> str:
    if found.lacks:
        return "would run with"
    if not found.runs:
        return "not by this library"
    return "its weights" if isinstance(found.how, Conversion) else "runs here"


def _print_items(every: Contents) -> None:
    found = every.found
    for item in found:
        can_be_read = item.converts and (item.runs or bool(item.lacks))
        print()
        print(f"{untrusted.shown(item.name)} ({untrusted.shown(item.kind)})")
        if sizes := _sizes(item):
            print(output.wrapped(sizes, 2))
        if item.runs or item.lacks:
            # To be pasted: a line that is broken would be two commands.
            print(f"  {_label(item)}: {output.printable(item.how)}")
        else:
            print(output.wrapped(f"{_label(item)}: {item.how}", 2))
        options = item.how.options if isinstance(item.how, Conversion) else frozenset()
        if item.runs and item.rnn_mode == SIMPLE and "mode" in options:
            other = "--mode rnn_relu if it is ReLU: the file does not tell the activation"
            print(output.wrapped(other, 2))
        # Commands that are shown have it already, if it is needed.
        if item.layer is not None and can_be_read and len(found) > 1 and "layer" not in options:
            option = shlex.join(calls.option("layer", item.layer))
            print(f"  convert it alone: {output.printable(option)}")
    # Of parts of one file it is mostly the same.
    for lacks in dict.fromkeys(item.lacks for item in found if item.lacks):
        print()
        print(output.wrapped(f'What "would run with" shows does not run here: {lacks}'))
    if every.more:
        print()
        print(f"And {output.count(every.more, 'more part')}, which nothing here looked at.")


def _print(
    path: str,
    kind: kinds.Kind,
    nbytes: int,
    every: Contents,
    weights: Contents,
) -> None:
    nothing = "no recurrent op" if kind is kinds.Kind.SAVED_MODEL else "nothing recurrent"
    parts = len(every.found) + every.more
    number = output.count(parts, "recurrent part") if parts else nothing
    print(output.wrapped(f"{path}: {kind.value}, {output.size(nbytes)}, {number}"))
    _print_items(every)
    if weights.found:
        print()
        print(output.wrapped("Weights in its variables, which convert reads:"))
        _print_items(weights)


@replacing.interruptible()  # of what is unpacked to be read nothing is left
@hdf5.one_call()
def run(options: argparse.Namespace) -> int:
    """Prints what is in a file; returns the exit code."""
    tensorflow.quiet()
    kind, path = kinds.recognise(options.path)
    nbytes = kinds.size_of(kind, path)
    with output.progress_of(f"Reading {options.path}", nbytes):
        every = contents.find(kind, path, options.path)
        weights = contents.weights(kind, path, options.path)
    if options.json:
        output.print_json(
            {
                "path": options.path,
                "kind": kind.value,
                "bytes": nbytes,
                "loops": every.loops,
                "found": [dataclasses.asdict(item) for item in every.found],
                "more": every.more,
                "weights": [dataclasses.asdict(item) for item in weights.found],
                "more_weights": weights.more,
            }
        )
    else:
        _print(options.path, kind, nbytes, every, weights)
        if every.loops:
            print()
            print(
                output.wrapped(
                    f"The graph has {output.count(every.loops, 'loop')} of small ops, which is how "
                    "Keras exports its LSTM, GRU and SimpleRNN. TensorFlow runs them as it does "
                    "without this library. To make them fast, load the model with "
                    "tf_cudnn_rnn.keras.load_model, and export it with tf_cudnn_rnn.keras.export."
                )
            )
    runs = every.found and not every.more and all(item.runs for item in every.found)
    return output.GOOD if runs else output.FAILED
