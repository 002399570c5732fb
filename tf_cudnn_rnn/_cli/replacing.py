"""Files that are there whole, or not at all."""

import contextlib
import os
import pathlib
import signal
import stat
import tempfile
import types
from collections.abc import Iterator

from tf_cudnn_rnn._cli import output


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
    # Some writers go by the ending.
    ending = "".join(pathlib.PurePath(name).suffixes[-2:])
    descriptor, new = tempfile.mkstemp(prefix=f".{name[:100]}.", suffix=ending, dir=folder)
    os.close(descriptor)
    try:
        with _interruptible():
            yield new
        _settle(new, target)
        if force:
            os.replace(new, target)
        else:
            # Unlike a rename, a link does not replace what somebody else wrote meanwhile.
            try:
                os.link(new, target)
            except FileExistsError:
                raise output.UserError(f"{path} exists already; --force replaces it.") from None
            except OSError:  # some file systems have no links
                check(path, force)
                os.replace(new, target)
        with contextlib.suppress(OSError):
            _sync(folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


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
def _interruptible() -> Iterator[None]:
    """Lets SIGTERM end the block as an exception, as Ctrl-C does."""

    def stop(number: int, frame: types.FrameType | None) -> None:
        del frame
        raise SystemExit(128 + number)

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
