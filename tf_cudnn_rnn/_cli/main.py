"""The program: arguments, and what becomes of errors."""

import argparse
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import tf_cudnn_rnn
from tf_cudnn_rnn import _program
from tf_cudnn_rnn._cli import output, tensorflow

# A module each, imported when it is needed: help should not wait.
_COMMANDS = {
    "info": "versions, library, CPU, ops, and a self-test: what to paste into a report",
    "inspect": "the recurrent layers in a file, and how to run them here",
    "convert": "weights from one library's file to another's",
    "bench": "how fast it is here, beside Keras, or with your own model",
}
_DESCRIPTION = "Fused recurrent networks for TensorFlow on CPUs: what is here, and how fast."
_EPILOG = """\
examples:
  tf-cudnn-rnn info
  tf-cudnn-rnn inspect model.keras
  tf-cudnn-rnn convert torch.safetensors model.keras --to keras
  tf-cudnn-rnn bench model.keras

exit codes:
  0    good
  1    a check failed: the self-test, a comparison, or what was found cannot run;
       or something is not installed, or does not fit
  2    wrong use, or input that cannot be read
  130  interrupted (Ctrl-C)
  141  the reader of the output has gone, as `| head` does

`tf-cudnn-rnn COMMAND --help` has the options and examples of each command.
"""


class _Help(argparse.RawDescriptionHelpFormatter):
    """Help for terminals of 80 columns, as long lines are hard to read."""

    def __init__(self, prog: str):
        super().__init__(prog, width=output.width() - 2)


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are a sentence, and not the usage, which takes many lines."""

    see: str | None = None  # whose help is of use; this one's if None

    def error(self, message: str) -> NoReturn:
        output.say(f"{message}. See `{self.see or self.prog} --help`.")
        raise SystemExit(output.WRONG)


def _parser(wanted: str | None) -> argparse.ArgumentParser:
    """The parser; of the commands, only the one that is wanted has its options."""
    parser = _Parser(
        prog=_program.NAME,
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--version", action="version", version=f"tf_cudnn_rnn {tf_cudnn_rnn.__version__}"
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(
            name,
            help=summary,
            description=f"{summary[0].upper()}{summary[1:]}.",
            formatter_class=_Help,
            allow_abbrev=False,
        )
        if name == wanted:
            module = importlib.import_module(f"tf_cudnn_rnn._cli.{name}")
            command.epilog = module.EPILOG
            module.add_arguments(command)
            command.set_defaults(run=module.run)
            parser.see = command.prog  # of options that nobody knows
    return parser


def _open_closed_streams() -> None:
    """Gives streams that the caller has closed to the null device.

    The files that are opened next would have their numbers, and take what TensorFlow logs.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    # Python has None for what was closed when it started.
    if sys.stdout is None:
        sys.stdout = open(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = open(2, "w", closefd=False)


def _drop_output() -> None:
    """Forgets what is left for stdout: Python would write it at its end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _is_stdout_full() -> bool:
    """Whether what is left for stdout cannot be written; it is then dropped."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_output()
        return True
    return False


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program; returns its exit code.

    Args:
      arguments: of the command line, without the program's name; None for those of the process.
    """
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    wanted = next((argument for argument in arguments if not argument.startswith("-")), None)
    try:
        _program.catch_interrupts()
        _open_closed_streams()
        for stream in (sys.stdout, sys.stderr):
            # Names in files are in any script, and names of files are any bytes.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        code: int
        try:
            options = _parser(wanted).parse_args(arguments)
        except SystemExit as end:  # of argparse, which has said all
            if not isinstance(end.code, int):
                raise
            code = end.code
        else:
            code = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _drop_output()
        return output.PIPE_CLOSED
    except KeyboardInterrupt:
        return output.INTERRUPTED
    except MemoryError:
        output.say("There is not enough memory.")
        return output.WRONG
    except OSError as error:
        if error.filename is None:
            name = "standard output: " if _is_stdout_full() else ""
        else:
            # '' is a path, too: that of a variable of the shell that is not set.
            name = f"{error.filename or repr('')}: "
        output.say(f"{name}{error.strerror or error}.")
        return output.WRONG
    except ImportError as error:
        output.say(str(error))
        return output.FAILED
    except (output.UserError, ValueError) as error:
        output.say(str(error))
        return output.WRONG
    except Exception as error:  # of others' code: a model's layers, TensorFlow, ONNX Runtime
        output.say(f"{type(error).__name__}: {tensorflow.reason(error)}")
        return output.FAILED
