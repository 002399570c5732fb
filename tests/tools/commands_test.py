"""tools/commands.py: output goes into a log; tools/pythons.py: interpreters are asked."""

import sys

import pytest


def test_a_command_with_its_log(load, tmp_path):
    commands = load("tools/commands.py")
    log = tmp_path / "log"
    assert commands.run(["echo", "one"], log) == "one\n"
    assert commands.run(["pwd"], log, folder=tmp_path) == f"{tmp_path}\n"
    assert commands.run(["env"], log, environment={"A": "b"}) == "A=b\n"
    assert log.read_text() == f"$ echo one\none\n$ pwd\n{tmp_path}\n$ env\nA=b\n"


def test_a_command_that_fails(load, tmp_path):
    commands = load("tools/commands.py")
    script = "echo first\necho 'second | third' >&2\nexit 3"
    with pytest.raises(commands.Failure) as raised:
        commands.run(["sh", "-c", script], tmp_path / "log")
    text = str(raised.value)
    assert text.endswith("ended with 3; see log: first / second / third")
    assert "\n" not in text and "|" not in text


def test_an_interpreter_is_the_one_asked_for(load, monkeypatch, tmp_path):
    pythons = load("tools/pythons.py")
    here = "{}.{}".format(*sys.version_info)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pythons.find(here) is None
    other = tmp_path / "python2.0"
    other.symlink_to(sys.executable)  # says that it is another version
    assert pythons.find("2.0") is None
    (tmp_path / f"python{here}").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / f"python{here}").chmod(0o755)
    assert pythons.find(here) == sys._base_executable  # type: ignore[attr-defined]
    shim = tmp_path / f"python{here}"
    shim.write_text("#!/bin/sh\nexit 127\n")  # as pyenv's are
    pyenv = tmp_path / ".pyenv" / "versions" / f"{here}.1" / "bin"
    pyenv.mkdir(parents=True)
    (pyenv / "python").symlink_to(sys.executable)
    assert pythons.find(here)
