"""Trains the model of char_lm.py in this process, which is alone or a worker."""

import dataclasses
import pathlib
import pickle
import signal
import time

import numpy as np
from char_lm_corpus import Corpus
from char_lm_distribution import ALONE, Team
from char_lm_model import CharLM, Config
from char_lm_options import Options, RunDirectory
from char_lm_report import Silence
from char_lm_training import Learner, Training

CORPUS = Corpus("a test", "".join(f"{i} times {i} is {i * i}.\n" for i in range(150)))
TINY = Options(
    nhid=8,
    nlayers=2,
    emsize=4,
    batch_size=3,  # of two workers the chief has one stream, the other two
    bptt=50,
    dropout=0.0,
    epochs=2,
    max_seconds=0.0,
    log_interval=5,
    length=20,
)
LONELY = dataclasses.replace(TINY, model="GRU", batch_size=1, bptt=100)  # the chief has none
INTERRUPTED_AFTER = 10  # within an epoch


class CtrlC(Silence):
    """Interrupts the training after a given step."""

    def __init__(self, step: int | None):
        self._step = step

    def line(self, row, num_batches, seconds_left):
        if row.step == self._step:
            signal.raise_signal(signal.SIGINT)


def train(options, path, team=ALONE, *, resume=False, ctrl_c_after=None) -> list[tuple]:
    """Returns (kind, step, loss) of every row of the log; none if this is not the chief."""
    directory = RunDirectory(path)
    if team.is_chief and not resume:
        directory.start(options, CORPUS.sha256)
    training = Training(options, CORPUS, directory, CtrlC(ctrl_c_after), time.monotonic(), team)
    if resume:
        training.resume()
    training.run()
    return [(row.kind, row.step, row.loss) for row in training.rows]


def states_of_equal_streams(team: Team) -> np.ndarray:
    """h [L, 2, H] of two streams that differ in their dropout masks alone."""
    with team.strategy.scope():
        model = CharLM(CORPUS.vocabulary, Config("lstm", 2, 8, 4), seed=1)
    learner = Learner(model, num_streams=2, dropout=0.5, clip=0.0, team=team)
    ids = np.arange(1, 11, dtype=np.int32)[:, np.newaxis].repeat(2, 1)
    learner.step(ids, ids, np.array([10, 10], np.int32), np.array([1, 0]), 0.0)
    learner.gather_streams()
    return learner.h.numpy()


def run_as_worker(path: str) -> None:
    """Writes what the test asks of a worker; for a process that has a TF_CONFIG."""
    team = Team.from_environment()
    facts = {"agrees": team.agree("same"), "disagrees": not team.agree(team.index)}
    facts["lonely"] = train(LONELY, f"{path}/lonely", team)
    # Ctrl-C reaches the worker that is not the chief.
    step = None if team.is_chief else INTERRUPTED_AFTER
    train(TINY, f"{path}/resumed", team, ctrl_c_after=step)
    team.wait()  # for the checkpoint
    facts["resumed"] = train(TINY, f"{path}/resumed", team, resume=True)
    facts["states"] = states_of_equal_streams(team)
    pathlib.Path(path, str(team.index)).write_bytes(pickle.dumps(facts))
    team.wait()
