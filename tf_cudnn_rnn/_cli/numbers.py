"""Numbers on the command line, whose rules argparse says after the option's name."""

import argparse

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._layout import SIZE_LIMIT

_LARGEST = SIZE_LIMIT - 1


def positive(text: str) -> int:
    """Returns a size or a count."""
    rule = f"must be a whole number from 1 to {_LARGEST}; got {untrusted.shown(text)}"
    try:
        value = int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(rule) from error
    if not 0 < value <= _LARGEST:
        raise argparse.ArgumentTypeError(rule)
    return value
