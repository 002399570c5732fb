"""Runs processes that form a cluster by TF_CONFIG, on free ports of this machine."""

import json
import pathlib
import socket
import tempfile
import time
from typing import NamedTuple

from tests.helpers import subprocesses

_ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = _ROOT / "examples"
_PORT_IS_TAKEN = "Could not start gRPC server"  # TensorFlow's words
_ATTEMPTS = 3
_SECONDS_TO_FOLLOW = 10.0  # how long the others of a failed worker may take to end by themselves


class Output(NamedTuple):
    """What a process left."""

    returncode: int
    stdout: str
    stderr: str


def run(codes: list[str], *, timeout: float = 1200.0) -> list[Output]:
    """Runs one piece of Python code for each worker, together, until all have ended.

    None of them outlives the call: when one fails or time is up, the others are killed.
    Another program may take a port before the worker does, so then all start again.
    """
    for _ in range(_ATTEMPTS):
        outputs = _run_once(codes, _free_addresses(len(codes)), timeout)
        if not any(_PORT_IS_TAKEN in output.stderr for output in outputs):
            break
    return outputs


def _free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in sockets]
    for server in sockets:
        server.close()
    return addresses


def _run_once(codes, addresses, timeout) -> list[Output]:
    with tempfile.TemporaryDirectory() as directory:
        files = [
            [open(pathlib.Path(directory, f"{index}.{name}"), "w+") for name in ("out", "err")]
            for index in range(len(codes))
        ]
        processes = []
        try:
            for index, (code, (out, err)) in enumerate(zip(codes, files, strict=True)):
                cluster = {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
                variables = {"TF_CONFIG": json.dumps(cluster), "PYTHONPATH": str(EXAMPLES)}
                processes.append(
                    subprocesses.start(code, variables, _ROOT, out, err, prepared=True)
                )
            _wait(processes, timeout)
        finally:
            for process in processes:
                subprocesses.end(process)
            outputs = [
                Output(process.returncode, *map(_content, pair))
                for process, pair in zip(processes, files, strict=False)
            ]
        return outputs


def _wait(processes: list, timeout: float) -> None:
    """Returns when all have ended, some time after one has failed, or when time is up."""
    deadline = time.monotonic() + timeout
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        if any(process.poll() for process in processes):
            deadline = min(deadline, time.monotonic() + _SECONDS_TO_FOLLOW)
        time.sleep(0.05)


def _content(file) -> str:
    with file:
        file.seek(0)
        return file.read()
