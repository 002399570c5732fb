"""The processes that train one model of char_lm.py together, as TF_CONFIG names them.

Each worker learns from its share of the streams, and the sums of the gradients are the
same for all. Worker 0, the chief, is the one that evaluates, reports and writes files.
"""

import contextlib
import dataclasses
import functools
import json
import os
import zlib
from collections.abc import Iterator

from char_lm_options import UsageError


class LostWorkerError(Exception):
    """A worker has ended before the others."""


@dataclasses.dataclass(frozen=True)
class Team:
    """The place of this process among the workers; by default it is alone."""

    index: int = 0
    size: int = 1

    @classmethod
    def from_environment(cls) -> "Team":
        """Reads TF_CONFIG, as MultiWorkerMirroredStrategy does later."""
        try:
            config = json.loads(os.environ.get("TF_CONFIG") or "{}")
            cluster = config.get("cluster")
            if not cluster:
                return cls()
            sizes = {job: len(addresses) for job, addresses in cluster.items()}
            task = config["task"]
            job, number = task["type"], int(task["index"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"TF_CONFIG cannot be understood: {error!r}") from error
        chiefs = sizes.get("chief", 0)
        if chiefs > 1 or not sizes.keys() <= {"chief", "worker"}:
            jobs = ", ".join(f"{size} {job}" for job, size in sizes.items())
            raise UsageError(
                f"TF_CONFIG may name jobs of type worker and one chief; it names {jobs}"
            )
        if not 0 <= number < sizes.get(job, 0):
            raise UsageError(f"TF_CONFIG gives this process task {task}, which its cluster lacks")
        return cls(number + (chiefs if job == "worker" else 0), sum(sizes.values()))

    @property
    def is_chief(self) -> bool:
        return self.index == 0

    def share(self, num_streams: int) -> slice:
        """The streams of this worker: equal shares, give or take one; maybe none."""
        return slice(
            num_streams * self.index // self.size, num_streams * (self.index + 1) // self.size
        )

    @functools.cached_property
    def strategy(self):
        """The tf.distribute.Strategy of the team. All workers must ask, at their start."""
        import tensorflow as tf  # here, for it takes seconds to load

        if self.size == 1:
            return tf.distribute.get_strategy()
        tf.config.set_visible_devices([], "GPU")  # a GPU would become the worker's replica
        return tf.distribute.MultiWorkerMirroredStrategy()

    def sum(self, *values: float) -> list[float]:
        """Adds each value up over the workers."""
        if self.size == 1:
            return list(values)
        return self._sum(values).numpy().tolist()

    @functools.cached_property
    def _sum(self):
        import tensorflow as tf

        strategy = self.strategy

        def replica_sum(values):
            values = tf.identity(values)  # places them on the device of the replica
            return tf.distribute.get_replica_context().all_reduce("SUM", values)

        @tf.function(input_signature=[tf.TensorSpec([None], tf.float64)])
        def team_sum(values):
            return strategy.run(replica_sum, (values,))

        return team_sum

    def wait(self) -> None:
        """Returns when all workers have come here."""
        self.sum(0.0)

    def agree(self, *facts: object) -> bool:
        """Whether `repr(facts)` is the same for all workers."""
        checksum = zlib.crc32(repr(facts).encode())
        [total] = self.sum(checksum)
        [objections] = self.sum(total != self.size * checksum)
        return not objections

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Where the workers exchange what they have learnt: each needs all of the others."""
        import tensorflow as tf

        try:
            yield
            self.wait()  # TensorFlow would report a worker that leaves early as lost
        except tf.errors.UnavailableError as error:
            raise LostWorkerError(
                "a worker was lost; --resume goes on from the last checkpoint"
            ) from error


ALONE = Team()
