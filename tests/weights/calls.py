"""What tests measure of a file, in processes that have no TensorFlow."""

import contextlib
import io

from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli import inspect as _inspect  # noqa: F401 now, and not in each process
from tf_cudnn_rnn._cli import main

# Of characters, beyond four times the file: a command shows names, and JSON has each twice.
MOST_PRINTED = 1_500_000


def load(path, choices):
    weights.load(path, **choices)


def inspect(path, choices, *options):
    del choices
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main(["inspect", str(path), *options])
    printed = len(out.getvalue())
    assert printed < MOST_PRINTED + 4 * path.stat().st_size, printed
    if code == 2:
        raise ValueError(err.getvalue())


def inspect_json(path, choices):
    inspect(path, choices, "--json")
