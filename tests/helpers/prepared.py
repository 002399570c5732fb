"""A process that has imported TensorFlow and Keras, and run nothing: its forks are fresh processes.

Importing both takes some seconds, most of the time of a small test in a process of its own.
This program reads requests from the socket that is its standard input, and forks for each of them.
`subprocesses` is the other end.
"""

import gc
import json
import os
import socket
import sys
import types

_LONGEST_REQUEST = 1 << 20


def fork_for_each_request() -> dict:
    """Returns a request in the child that was forked for it; elsewhere never."""
    requests = socket.socket(fileno=0)
    while True:
        message, descriptors, *_ = socket.recv_fds(requests, _LONGEST_REQUEST, maxfds=3)
        if not message:  # the other end has gone
            os._exit(0)
        out, err, reply = descriptors
        # The one that waits for the child and tells its status.
        if os.fork() == 0:
            if (child := os.fork()) == 0:
                os.setsid()  # whoever kills it kills its children, too
                requests.detach()
                os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
                os.dup2(out, 1)
                os.dup2(err, 2)
                os.closerange(3, max(descriptors) + 1)
                return json.loads(message)
            os.write(reply, str(child).encode())
            _, status = os.waitpid(child, 0)
            os.write(reply, str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        for descriptor in descriptors:
            os.close(descriptor)
        _reap()


def _reap() -> None:
    """Takes note of children that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def become(request: dict) -> str:
    """Makes this process what the request says; returns the code that it is to run."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["cwd"])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:1] = ["", *filter(None, paths)]
    # As after `python -c`.
    sys.argv = ["-c"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    return request["code"]


if __name__ == "__main__":
    import keras  # noqa: F401
    import tensorflow  # noqa: F401

    gc.collect()
    gc.freeze()  # a child that ends need not free all this
    code = become(fork_for_each_request())
    # At the top, so that the interpreter ends as it always does.
    exec(compile(code, "<string>", "exec"), sys.modules["__main__"].__dict__)
