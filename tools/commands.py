"""Runs commands whose output goes into a log."""

import pathlib
import subprocess
import textwrap

import libraries


class Failure(Exception):
    """What went wrong, in a sentence."""


def run(
    command: list,
    log: pathlib.Path,
    folder: pathlib.Path = libraries.ROOT,
    environment: dict | None = None,
) -> str:
    """Runs a command, adds its output to a log, and returns that.

    Raises:
      Failure: it ended with another status than 0; with the end of its output.
    """
    program, *arguments = map(str, command)
    words = " ".join([program, *arguments])
    with log.open("ab") as file:
        file.write(f"$ {words}\n".encode())
        file.flush()
        begin = file.tell()
        code = subprocess.run(
            list(map(str, command)),
            cwd=folder,
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        ).returncode
    output = log.read_bytes()[begin:].decode("utf-8", "replace")
    if code != 0:
        end = " / ".join(output.strip().splitlines()[-2:])[-300:]
        # Without folders of this machine, for a page may show it.
        short = textwrap.shorten(" ".join([pathlib.Path(program).name, *arguments]), 80)
        shown = log.relative_to(libraries.ROOT) if log.is_relative_to(libraries.ROOT) else log.name
        text = f"`{short}` ended with {code}; see {shown}: {end}"
        raise Failure(text.replace("|", "/"))  # a cell of a table
    return output
