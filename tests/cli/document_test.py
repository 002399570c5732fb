"""docs/command-line.md: its commands run, and print what it says."""

import pathlib
import re
import shlex
import shutil

import numpy as np
import pytest

from tests.cli.conftest import canonical_of
from tf_cudnn_rnn import weights

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "command-line.md"
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory):
    """Where all commands run, one after the other, as somebody types them."""
    folder = tmp_path_factory.mktemp("document") / "files"
    shutil.copytree(files, folder)
    vector = weights.to_mxnet(canonical_of("gru", 2)).arrays
    np.savez(folder / "old.npz", parameters=vector)
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(run, folder, monkeypatch, command):
    monkeypatch.chdir(folder)
    program, *arguments = shlex.split(command)
    assert program == "tf-cudnn-rnn"
    if arguments[0] == "bench":
        short = ["--seconds", "0.2", "--batch", "2", "--steps", "3"]
        arguments += short if "--seconds" not in arguments else ["--seconds", "0.2"]
    result = run(*arguments)
    # One of the example's layers does not run here, as the page shows.
    expected = 1 if arguments[:2] == ["inspect", "model.keras"] else 0
    assert result.code == expected, result.err


def test_every_command_is_there():
    assert {shlex.split(command)[1] for command in COMMANDS} == {
        "info",
        "inspect",
        "convert",
        "bench",
    }


def test_what_inspect_prints(run, folder, monkeypatch):
    monkeypatch.chdir(folder)
    (shown,) = re.findall(r"^```text\n(model\.keras: .*?)^```$", DOCUMENT.read_text(), re.M | re.S)
    printed = run("inspect", "model.keras").out

    def without_size(text: str) -> str:
        # Which depends on Keras' version.
        return re.sub(r"[\d.]+ KB", "", text)

    assert without_size(printed) == without_size(shown)


def test_every_format_is_named():
    from tf_cudnn_rnn._cli import formats

    section = DOCUMENT.read_text().partition("## convert")[2].partition("## bench")[0]
    assert [name for name in formats.FORMATS if f"`{name}`" not in section] == []
