"""Several replicas come to the losses and weights of one process with the same global batch."""

import functools
import pathlib
import pickle

import numpy as np
import pytest
import tensorflow as tf

from tests.distribution import trainings, workers
from tests.helpers import subprocesses

TOLERANCE = 1e-5
SHARES = [[3, 2], [3, 2], [1, 0]]  # the last replica gets an empty batch


@functools.cache
def in_one_process(loop: str, *case: str) -> trainings.Outcome:
    return getattr(trainings, loop)(tf.distribute.get_strategy(), *case)


@pytest.fixture(scope="module")
def mirrored(tmp_path_factory) -> dict[tuple[str, ...], trainings.Outcome]:
    path = tmp_path_factory.mktemp("mirrored") / "outcomes"
    subprocesses.run(trainings.run_on_two_virtual_cpus, str(path))
    return pickle.loads(path.read_bytes())


@pytest.fixture(scope="module")
def of_workers(tmp_path_factory) -> list[dict[tuple[str, ...], trainings.Outcome]]:
    path = tmp_path_factory.mktemp("workers")
    code = f"from tests.distribution import trainings; trainings.run_as_worker({str(path)!r})"
    for output in workers.run([code] * 2):
        assert output.returncode == 0, output.stderr
    return [pickle.loads(pathlib.Path(path, str(index)).read_bytes()) for index in range(2)]


def assert_same(outcome: trainings.Outcome, expected: trainings.Outcome) -> None:
    assert len(outcome.losses) > 1
    np.testing.assert_allclose(outcome.losses, expected.losses, rtol=0, atol=TOLERANCE)
    for weight, expected_weight in zip(outcome.weights, expected.weights, strict=True):
        np.testing.assert_allclose(weight, expected_weight, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("case", trainings.CASES, ids=", ".join)
def test_custom_loop_on_two_virtual_cpus_equals_one_process(mirrored, case):
    outcome = mirrored[("train", *case)]
    assert outcome.shares.tolist() == SHARES * trainings.EPOCHS
    assert_same(outcome, in_one_process("train", *case))


@pytest.mark.parametrize("case", trainings.FIT_CASES, ids=", ".join)
def test_keras_fit_on_two_virtual_cpus_equals_one_process(mirrored, case):
    assert_same(mirrored[("fit", *case)], in_one_process("fit", *case))


@pytest.mark.parametrize("case", trainings.WORKER_CASES, ids=", ".join)
def test_custom_loop_of_two_workers_equals_one_process(of_workers, case):
    for outcomes in of_workers:
        outcome = outcomes[("train", *case)]
        assert outcome.shares.tolist() == SHARES * trainings.EPOCHS
        assert_same(outcome, in_one_process("train", *case))


@pytest.mark.parametrize("case", trainings.CASES, ids=", ".join)
def test_training_moves_every_weight(case):
    """Were the gradients nil, all of the above would be equal for no reason."""
    before = trainings.build_model(case[0]).get_weights()
    for weight, start in zip(in_one_process("train", *case).weights, before, strict=True):
        assert np.median(np.abs(weight - start)) > 10 * TOLERANCE
