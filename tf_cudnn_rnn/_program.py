"""Whether this process is the command line, `tf-cudnn-rnn` or `python -m tf_cudnn_rnn`."""

import os
import sys

NAME = "tf-cudnn-rnn"


def is_command_line() -> bool:
    """Whether Python was started for the command line, and for nothing else.

    Python imports a package before any module in it, and so the command line, wherever it stands,
    finds `import tf_cudnn_rnn` done. That takes TensorFlow's seconds, and it raises where
    TensorFlow does not fit, which is when `info` is needed most. So the package asks this, and
    leaves TensorFlow to the commands that need it. A module beside the package could do it for the
    script, not for `python -m`, which would be another way to begin.
    """
    program = sys.argv[0] if sys.argv else ""
    if os.path.basename(program) == NAME:
        return True
    if program != "-m":  # as it is until Python has found the module
        return False
    options = sys.orig_argv[1:]
    module = next(
        (
            option[2:] or following
            for option, following in zip(options, [*options[1:], ""], strict=True)
            if option.startswith("-m")
        ),
        "",
    )
    return module in ("tf_cudnn_rnn", "tf_cudnn_rnn.__main__")
