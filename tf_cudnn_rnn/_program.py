"""How this process came here: as the command line, `tf-cudnn-rnn` or `python -m tf_cudnn_rnn`?"""

import os
import signal
import sys
import types

NAME = "tf-cudnn-rnn"
INTERRUPTED = 130  # the exit code after Ctrl-C


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


def begin() -> None:
    """Lets Ctrl-C end the command line while it is still importing, where nobody catches it."""
    if is_command_line() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def catch_interrupts() -> None:
    """Makes Ctrl-C a KeyboardInterrupt again, for whoever catches it."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: types.FrameType | None) -> None:
    del number, frame
    os._exit(INTERRUPTED)  # an exception would become a traceback, and nothing was done so far


def is_imported_for(module: str) -> bool:
    """Whether the package is being imported because `module`, a module in it, is.

    Python imports a package first, and does not tell it what for; its importer's frames do.
    `from tf_cudnn_rnn import weights` asks for the package alone.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_find_and_load" and frame.f_locals.get("name") == module:
            return "importlib" in frame.f_code.co_filename
        frame = frame.f_back
    return False
