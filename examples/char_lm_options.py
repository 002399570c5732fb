"""What makes a run of char_lm.py, and the directory that it lives in."""

import dataclasses
import json
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any


class UsageError(Exception):
    """Something that the user asked for cannot be done. The message is one line."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The flags of these names."""

    # Where the text is: --resume finds it elsewhere, but takes no other text.
    corpus: str = ""
    # What a checkpoint depends on: --resume does not let it change.
    model: str = "LSTM"
    nhid: int = 128
    nlayers: int = 2
    emsize: int = 64
    batch_size: int = 32
    bptt: int = 32
    seed: int = 1
    # What --resume changes if the flag is given.
    dropout: float = 0.05
    clip: float = 1.0
    lr: float = 0.01
    epochs: int = 20
    max_seconds: float = 120.0
    log_interval: int = 100
    prime: str = "The "
    length: int = 400
    temperature: float = 0.7
    # What each session says for itself.
    dry_run: bool = False

    def resumed(self, given: Mapping[str, Any]) -> "Options":
        """These options of an earlier session, changed by the flags given now."""
        for name in FIXED:
            earlier = getattr(self, name)
            if given.get(name, earlier) != earlier:
                raise UsageError(
                    f"--{name}={given[name]} cannot be resumed: the run has --{name}={earlier}"
                )
        return dataclasses.replace(self, **{"dry_run": False, **given})


FIXED = (
    "model",
    "nhid",
    "nlayers",
    "emsize",
    "batch_size",
    "bptt",
    "seed",
)


class RunDirectory:
    """Where the files of a run are."""

    def __init__(self, path: str):
        self.path = pathlib.Path(path)
        self.log = self.path / "log.csv"
        self.picture = self.path / "loss.png"
        self.latest = self.path / "latest"  # checkpoint to resume from
        self.best = self.path / "best"  # checkpoint to export
        self.saved_model = self.path / "saved_model"
        self._run = self.path / "run.json"

    def start(self, options: Options, corpus_sha256: str, overwrite: bool = False) -> None:
        """Makes the directory ready for a new run.

        Args:
          options: of the run.
          corpus_sha256: of its text.
          overwrite: whether the run may take the place of an earlier one with a checkpoint.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if any(self.path.iterdir()) and not self._run.exists():
                raise UsageError(
                    f"--save={self.path} is in use: it holds files, but no earlier run"
                )
            if any(self.latest.glob("*.index")) and not overwrite:
                raise UsageError(
                    f"--save={self.path} holds an earlier run: go on with it by --resume, erase it "
                    "by --overwrite, or take another directory"
                )
            self.write_run(options, corpus_sha256)
        except OSError as error:
            raise UsageError(f"--save={self.path} cannot be used: {error.strerror}") from error
        for directory in (self.latest, self.best, self.saved_model):
            shutil.rmtree(directory, ignore_errors=True)
        for file in (self.log, self.picture):
            file.unlink(missing_ok=True)

    def write_run(self, options: Options, corpus_sha256: str) -> None:
        run = {"corpus_sha256": corpus_sha256, **dataclasses.asdict(options)}
        # In one step, for other workers may be reading it.
        unfinished = self._run.with_suffix(".tmp")
        unfinished.write_text(json.dumps(run, indent=2) + "\n")
        unfinished.replace(self._run)

    def read_run(self) -> tuple[Options, str]:
        """The options of the run that is here, and the SHA-256 of its text."""
        try:
            run = json.loads(self._run.read_text())
            corpus_sha256 = run.pop("corpus_sha256")
            return Options(**run), corpus_sha256
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"--save={self.path} holds no run to resume") from error
