"""What `inspect` and `convert` make of a file."""

import argparse
import contextlib
import functools
import io
import json

import numpy as np

from tests.fuzz.file_formats.format import refuses, scratch
from tf_cudnn_rnn._cli import convert, inspect, output
from tf_cudnn_rnn._files import choices
from tf_cudnn_rnn._formats import params_header

_MOST_CONVERTED = 3  # parts of a file


@functools.cache
def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers()
    for module in (inspect, convert):
        command = commands.add_parser(module.__name__.rpartition(".")[2])
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


def _run(*arguments: str) -> str:
    """What a command prints; it raises what main() makes a sentence of."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        options = _parser().parse_args(arguments)
        options.run(options)
    return printed.getvalue()


def inspected(path: str) -> list[dict]:
    """Inspects a file, and returns what was found; ValueError or OSError if it is refused."""
    found = json.loads(_run("inspect", path, "--json"))["found"]
    text = _run("inspect", path)
    assert text.replace("\n", "").isprintable(), f"it prints {text!r}"
    return found


def read(path: str, *options: str) -> str:
    """Inspects a file, and converts what is found in it.

    Args:
      path: of the file.
      options: of `convert`.
    """
    try:
        found = inspected(path)
    except (output.UserError, choices.Mistake) as error:
        return refuses(error, "")
    except (ValueError, OSError) as error:
        return refuses(error, path)
    layers = [item["layer"] for item in found if item["layer"] is not None]
    outcomes = {
        _converted(path, [f"--layer={layer}", *options]) for layer in layers[:_MOST_CONVERTED]
    }
    return "read" if "read" in outcomes or not layers else "refused"


def _converted(path: str, options: list[str]) -> str:
    target = scratch("converted.npz")
    try:
        _run("convert", path, target, "--to", "params", "--force", *options)
    except (output.UserError, choices.Mistake) as error:  # which is about the only file there is
        return refuses(error, "")
    except (ValueError, OSError) as error:
        return refuses(error, path)
    with np.load(target) as arrays:
        header = arrays[params_header.NPZ_KEY].tobytes()
        assert arrays["params"].size == params_header.from_text(header, target)[0].size
    return "read"
