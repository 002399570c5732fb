"""Runs processes that form a cluster by TF_CONFIG, on free ports of this machine."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
from typing import NamedTuple

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


def run(commands: list[list[str]], *, timeout: float = 1200.0) -> list[Output]:
    """Runs one command for each worker, together, until all have ended.

    None of them outlives the call: when one fails or time is up, the others are killed.
    Another program may take a port before the worker does, so then all start again.
    """
    for _ in range(_ATTEMPTS):
        outputs = _run_once(commands, _free_addresses(len(commands)), timeout)
        if not any(_PORT_IS_TAKEN in output.stderr for output in outputs):
            break
    return outputs


def _free_addresses(count: int) -> list[str]:
    sockets = [socket.create_server(("", 0)) for _ in range(count)]
    addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in sockets]
    for server in sockets:
        server.close()
    return addresses


def _run_once(commands, addresses, timeout) -> list[Output]:
    with tempfile.TemporaryDirectory() as directory:
        files = [
            [open(pathlib.Path(directory, f"{index}.{name}"), "w+") for name in ("out", "err")]
            for index in range(len(commands))
        ]
        processes = []
        try:
            for index, (command, (out, err)) in enumerate(zip(commands, files, strict=True)):
                cluster = {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
                variables = {
                    "TF_CONFIG": json.dumps(cluster),
                    "TF_CPP_MIN_LOG_LEVEL": "2",
                    "PYTHONPATH": str(EXAMPLES),
                }
                processes.append(
                    subprocess.Popen(
                        command,
                        cwd=_ROOT,
                        env={**os.environ, **variables},
                        stdout=out,
                        stderr=err,
                        start_new_session=True,  # so that its children end with it
                    )
                )
            _wait(processes, timeout)
        finally:
            for process in processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            outputs = [
                Output(process.returncode, *map(_content, pair))
                for process, pair in zip(processes, files, strict=False)
            ]
        return outputs


def _wait(processes: list[subprocess.Popen], timeout: float) -> None:
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
