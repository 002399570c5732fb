"""`convert`: weights from one library's file to another's."""

import argparse
import dataclasses
import math
import os
import textwrap

from tf_cudnn_rnn._cli import formats, numbers, output, replacing, tensorflow
from tf_cudnn_rnn._files import kinds, readers
from tf_cudnn_rnn._formats import hdf5, runtime_file, untrusted
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, INPUT_MODES


def _formats_text() -> str:
    lines = []
    for name, entry in formats.FORMATS.items():
        about = textwrap.wrap(entry.about, output.WIDTH - 18, break_on_hyphens=False)
        lines.append(f"  {name:<14}  {about[0]}")
        lines += [" " * 18 + line for line in about[1:]]
    return "\n".join(lines)


EPILOG = f"""\
formats:
{_formats_text()}

examples:
  tf-cudnn-rnn convert torch.safetensors model.keras --to keras
  tf-cudnn-rnn convert model.keras lstm.safetensors --to torch --layer lstm
  tf-cudnn-rnn convert model.onnx params.npz --to params
  tf-cudnn-rnn convert model.onnx int8.safetensors --to runtime --int8
  tf-cudnn-rnn convert old.npz new.onnx --from mxnet --to onnx \\
      --mode gru --layers 2 --units 128 --input-size 40

SRC may come from anybody: nothing in it is run. A pickle, such as torch.save
writes, is read with --from torch alone, and then by PyTorch, which takes the
tensors and nothing else. DST is written beside its place and then renamed, so
that a failure, or Ctrl-C, leaves what was there. Notes say what the other
format cannot keep.
"""


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


_finite.__name__ = "finite number"  # as argparse calls it in its messages

# What stands for an option of a writer that is not given.
_DEFAULTS = {"to_prefix": "", "forget_bias": 1.0, "without_bias": False, "int8": False}


def _settle(options: argparse.Namespace, used: set[str], name: str) -> None:
    """Gives options of writers that are not there their defaults.

    Raises:
      Mistake: one would change nothing.
    """
    used = used | set(formats.FORMATS[options.to].write_options)
    given = [option for option in formats.OPTIONS if getattr(options, option) is not None]
    what = f"this file is read as {name}, and {options.to} is written"
    formats.FACE.check_used(given, used, what)
    for option, value in _DEFAULTS.items():
        if option not in given:
            setattr(options, option, value)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    writable = [name for name, entry in formats.FORMATS.items() if entry.write]
    parser.add_argument("source", metavar="SRC", help="the file to read")
    parser.add_argument("target", metavar="DST", help="the file to write")
    parser.add_argument(
        "--to", required=True, choices=writable, metavar="FORMAT", help="the format of DST"
    )
    parser.add_argument(
        "--from",
        dest="format",
        choices=list(formats.FORMATS),
        metavar="FORMAT",
        help="the format of SRC, if the file does not tell",
    )
    parser.add_argument("--force", action="store_true", help="replace DST if it exists")
    parser.add_argument("--json", action="store_true", help="write a JSON object")
    network = parser.add_argument_group("the network, where the file does not tell")
    modes = ", ".join(GATES)
    network.add_argument("--mode", dest="rnn_mode", choices=GATES, metavar="MODE", help=modes)
    network.add_argument(
        "--layers", dest="num_layers", type=numbers.positive, metavar="L", help="number of layers"
    )
    network.add_argument(
        "--units", dest="num_units", type=numbers.positive, metavar="H", help="hidden units"
    )
    network.add_argument(
        "--input-size", type=numbers.positive, metavar="I", help="features of the input"
    )
    network.add_argument(
        "--direction",
        choices=DIRECTIONS,
        metavar="D",
        help=" or ".join(DIRECTIONS),
    )
    network.add_argument(
        "--input-mode",
        choices=INPUT_MODES,
        metavar="M",
        help=f"{', '.join(INPUT_MODES)} (params)",
    )
    network.add_argument(
        "--projection",
        dest="num_proj",
        type=numbers.positive,
        metavar="P",
        help="num_proj of an LSTM",
    )
    part = parser.add_argument_group("which of several networks, and names")
    part.add_argument(
        "--layer", action="append", metavar="NAME", help="of SRC; several times for a stack"
    )
    part.add_argument("--prefix", help="what precedes the names of SRC (torch)")
    part.add_argument("--scope", help="the variable scope of SRC (tf1-*)")
    part.add_argument("--to-prefix", help="what precedes the names of DST (torch, tf1-*)")
    part.add_argument(
        "--forget-bias",
        type=_finite,
        metavar="X",
        help="what TensorFlow 1's cells add (tf1-lstm-cell; 1.0)",
    )
    part.add_argument(
        "--without-bias",
        action="store_true",
        default=None,
        help="write no biases, which must be 0 (torch, keras)",
    )
    parser.add_argument(
        "--int8",
        action="store_true",
        default=None,
        help="round matrices to int8, a quarter of float32 (runtime)",
    )


@replacing.interruptible()  # of what is unpacked to be read nothing is left, either
@hdf5.one_call()
def run(options: argparse.Namespace) -> int:
    """Converts a file; returns the exit code."""
    target_format = formats.FORMATS[options.to]
    write = target_format.write
    if write is None:
        raise output.UserError(f"--to {options.to} is impossible: it can only be read.")
    if not options.target.endswith(target_format.endings):
        endings = " or ".join(target_format.endings)
        raise output.UserError(
            f"DST must end with {endings} for --to {options.to}; got "
            f"{untrusted.shown(options.target)}."
        )
    # Before minutes are spent.
    replacing.check(options.target, options.force)
    tensorflow.quiet()
    kind, path = kinds.recognise(options.source)
    nbytes = kinds.size_of(kind, path)
    choices = formats.choices_of(options)
    with output.progress_of(f"Reading {options.source}", nbytes):
        name = options.format or readers.guess(kind, path, choices)
        _settle(options, readers.choices_of(kind, path, name), name)
        formats.check_options(options)
        # Rounded again, a scale may differ in its last bit.
        if options.int8 and kind is kinds.Kind.RUNTIME:
            if runtime_file.read_header(path).has_int8_weights:
                raise output.UserError("SRC has int8 weights already: copy it, or omit --int8.")
        reader = readers.READERS[name]
        if reader.measure is not None and target_format.max_bytes is not None:
            formats.check_size(options.to, reader.measure(kind, path, choices))
        canonical = reader.read(kind, path, choices)
    weight_bytes = canonical.layout.size * canonical.dtype.itemsize
    with output.progress_of(f"Writing {options.target}", weight_bytes):
        with replacing.replacing(options.target, options.force) as new:
            notes = write(new, canonical, options)
    written = os.path.getsize(options.target)
    every_note = [*canonical.notes, *notes]
    if options.json:
        output.print_json(
            {
                "source": options.source,
                "from": name,
                "target": options.target,
                "to": options.to,
                "bytes": written,
                "layout": dataclasses.asdict(canonical.layout),
                "parameters": canonical.layout.size,
                "notes": every_note,
            }
        )
        return output.GOOD
    print(output.wrapped(f"{options.source} ({name}): {formats.describe(canonical.layout)}"))
    print(output.wrapped(f"{options.target} ({options.to}): {output.size(written)} written"))
    for note in every_note:
        print(output.wrapped(f"note: {note}"))
    return output.GOOD
