"""Files that are there whole, or not at all."""

import contextlib
import os
import pathlib
import signal
import stat
import tempfile
import threading
import types
from collections.abc import Iterator

from tf_cudnn_rnn._cli import output

_PREFIX = ".tf_cudnn_rnn."
_LONGEST_ENDING = 100  # bytes


def check(path: str, force: bool) -> None:
    """Raises UserError unless a file may be written there."""
    target = pathlib.Path(os.path.realpath(path))
    if target.is_dir():
        raise output.UserError(f"{path} must be a file; it is a folder.")
    if not target.parent.is_dir():
        raise output.UserError(f"{path} must be in a folder that exists; {target.parent} does not.")
    if not force and os.path.lexists(path):
        raise output.UserError(f"{path} exists already; --force replaces it.")
    if target.exists() and not target.is_file():
        raise output.UserError(f"{path} must be a file; it is a pipe or a device.")
    if not os.access(target.parent, os.W_OK | os.X_OK):
        raise output.UserError(
            f"{path} must be in a folder that you may write to; {target.parent} is not, and the "
            "file is written beside its place first. Name another folder."
        )


@contextlib.contextmanager
def replacing(path: str, force: bool) -> Iterator[str]:
    """Yields the path of a file beside `path`, of the same ending, which takes its place.

    That happens at the end of the block. If the block fails or is interrupted, nothing of it is
    left, and `path` is what it was.

    Args:
      path: of the file. A link stays one, and what it leads to is replaced.
      force: whether a file that is there may be replaced.

    Raises:
      OSError: the folder cannot be written.
      UserError: the file must not be replaced.
    """
    check(path, force)
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    # Some writers go by the ending. Of the name no more is kept, as it may have 255 bytes.
    ending = pathlib.PurePath(name).suffix
    ending = ending if len(os.fsencode(ending)) <= _LONGEST_ENDING else ""
    with interruptible():
        with _about(folder):
            descriptor, new = tempfile.mkstemp(prefix=_PREFIX, suffix=ending, dir=folder)
        try:
            os.close(descriptor)
            with _about(path):
                yield new
                _settle(new, target)
                _place(new, target, path, force)
            with contextlib.suppress(OSError):
                _sync(folder)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(new)


@contextlib.contextmanager
def _about(path: str) -> Iterator[None]:
    """Lets errors of the file beside `path`, which nobody knows of, name `path`."""
    try:
        yield
    except OSError as error:
        name = error.filename
        is_ours = name is None or os.path.basename(os.fsdecode(name)).startswith(_PREFIX)
        if is_ours and error.errno is not None:
            raise OSError(error.errno, error.strerror, path) from error
        raise


def _place(new: str, target: str, path: str, force: bool) -> None:
    """Renames a file to its target, which `path` leads to."""
    if force:
        os.replace(new, target)
        return
    # Unlike a rename, a link does not replace what somebody else wrote meanwhile.
    try:
        os.link(new, target)
    except FileExistsError:
        raise output.UserError(f"{path} exists already; --force replaces it.") from None
    except OSError:  # some file systems have no links
        check(path, force)
        os.replace(new, target)


def _settle(new: str, target: str) -> None:
    """Gives a file the permissions that it is to have, and puts it on the disk."""
    if os.path.exists(target):
        mode = stat.S_IMODE(os.stat(target).st_mode)
    else:
        mask = os.umask(0)
        os.umask(mask)
        mode = 0o666 & ~mask
    os.chmod(new, mode)
    _sync(new)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Lets SIGTERM and SIGHUP end the block as an exception, as Ctrl-C does."""

    def stop(number: int, frame: types.FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    # What is ignored, as nohup does, stays so; None is a handler that Python cannot put back.
    changed = {n: old for n, old in before.items() if old not in (signal.SIG_IGN, None)}
    if threading.current_thread() is not threading.main_thread():  # which alone may change them
        changed = {}
    for number in changed:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, old in changed.items():
            signal.signal(number, old)
