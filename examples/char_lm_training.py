"""The training of char_lm.py: optimiser, steps, and the loop around them."""

import math
import pathlib
import signal
import time
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf
from char_lm_corpus import Corpus, Streams
from char_lm_distribution import ALONE, Team
from char_lm_model import RNN_MODES, CharLM, Config, Dropout, Generator, State
from char_lm_options import Options, RunDirectory, UsageError
from char_lm_report import Log, Progress, Row, clock, quote

if TYPE_CHECKING:
    from char_lm_keras import Comparison

DRY_RUN_STEPS = 4
SAMPLE_LENGTH = 200  # of the samples between epochs, at most
WARM_UP_STEPS = 50  # in which the learning rate rises
_HELD_OUT_STREAMS = 16
_HELD_OUT_STEPS = 256
_IDS = tf.TensorSpec([None, None], tf.int32)  # [T, B]
_LENGTHS = tf.TensorSpec([None], tf.int32)  # [B]
_STATE = tf.TensorSpec([None, None, None], tf.float32)  # [L, B, H]


class Adam(tf.Module):
    """Adam over the variables of a module, applied by TensorFlow's fused op."""

    BETA1 = 0.9
    BETA2 = 0.999
    EPSILON = 1e-8

    def __init__(self, variables: tuple[tf.Variable, ...]):
        super().__init__()
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._m = [_zeros_like(variable) for variable in variables]
        self._v = [_zeros_like(variable) for variable in variables]

    def apply(
        self,
        gradients: list[tf.Tensor],
        variables: tuple[tf.Variable, ...],
        learning_rate: tf.Tensor,
    ) -> None:
        steps = tf.cast(self.steps.assign_add(1), tf.float32)
        for gradient, variable, m, v in zip(gradients, variables, self._m, self._v, strict=True):
            tf.raw_ops.ResourceApplyAdam(
                var=variable.handle,
                m=m.handle,
                v=v.handle,
                beta1_power=self.BETA1**steps,
                beta2_power=self.BETA2**steps,
                lr=learning_rate,
                beta1=self.BETA1,
                beta2=self.BETA2,
                epsilon=self.EPSILON,
                grad=gradient,
            )


def _zeros_like(variable: tf.Variable) -> tf.Variable:
    return tf.Variable(tf.zeros(variable.shape), trainable=False)


class Learner(tf.Module):
    """A model that learns: its optimiser, and what its streams have read."""

    def __init__(
        self, model: CharLM, num_streams: int, dropout: float, clip: float, team: Team = ALONE
    ):
        """Makes a learner of the streams that are this worker's.

        Args:
          model: made in the scope of the team's strategy.
          num_streams: of all workers.
          dropout: share of the features to drop.
          clip: the largest global norm of the gradients, 0 for no limit.
          team: the workers.
        """
        super().__init__()
        self.model = model
        self.optimizer = Adam(model.trainable_variables)
        zeros = model.zero_state(num_streams)
        self.h = tf.Variable(zeros.h, trainable=False)
        self.c = tf.Variable(zeros.c, trainable=False)
        self._dropout = dropout
        self._clip = clip
        self._strategy = team.strategy
        self._share = team.share(num_streams)
        # Masks depend on a row's place in the batch, and every worker counts from 0.
        self._seed_offset = tf.constant([0, team.index << 32], tf.int64)

    def reset_streams(self) -> None:
        """Forgets what the streams have read."""
        self.h.assign(tf.zeros_like(self.h))
        self.c.assign(tf.zeros_like(self.c))

    @tf.function(
        input_signature=[
            _IDS,
            _IDS,
            _LENGTHS,
            tf.TensorSpec([2], tf.int64),
            tf.TensorSpec([], tf.float32),
        ]
    )
    def step(self, inputs, targets, lengths, seed, learning_rate):
        """Learns from one chunk and carries the state on. Returns its mean loss.

        The gradient ends where the chunk begins (truncated backpropagation). Every
        worker is given the chunk of all streams and learns from its share.
        """
        arguments = (inputs, targets, lengths, seed, learning_rate)
        return self._strategy.run(self._learn, arguments)

    def _learn(self, inputs, targets, lengths, seed, learning_rate):
        variables = self.model.trainable_variables
        share = self._share
        with tf.GradientTape() as tape:
            nats, state = self.model.nats(
                inputs[:, share],
                targets[:, share],
                lengths[share],
                State(self.h[:, share], self.c[:, share]),
                Dropout(self._dropout, seed + self._seed_offset),
            )
            # Divided by the characters of all workers, so that the sums are means.
            loss = nats / tf.cast(tf.reduce_sum(lengths), tf.float32)
        gradients = [
            tf.convert_to_tensor(gradient)  # the embedding's comes as slices
            for gradient in tape.gradient(loss, variables)
        ]
        replica = tf.distribute.get_replica_context()
        loss, *gradients = replica.all_reduce("SUM", [loss, *gradients])
        if self._clip > 0.0:
            gradients, _ = tf.clip_by_global_norm(gradients, self._clip)
        self.optimizer.apply(gradients, variables, learning_rate)
        self.h[:, share].assign(state.h)
        self.c[:, share].assign(state.c)
        return loss

    @tf.function
    def gather_streams(self):
        """Fetches what the streams of the other workers have read."""
        self._strategy.run(self._gather_streams)

    def _gather_streams(self):
        replica = tf.distribute.get_replica_context()
        for state in (self.h, self.c):
            state.assign(replica.all_gather(state[:, self._share], axis=1))

    @tf.function(input_signature=[_IDS, _IDS, _LENGTHS, _STATE, _STATE])
    def _evaluate(self, inputs, targets, lengths, h, c):
        return self.model.nats(inputs, targets, lengths, State(h, c))

    def bits_per_character(self, streams: Streams) -> float:
        """The mean cost of a character of `streams`, unknown ones spelt out."""
        nats = 0.0
        unknown = 0
        state = self.model.zero_state(streams.num_streams)
        for chunk in streams:
            chunk_nats, state = self._evaluate(*chunk, *state)
            nats += float(chunk_nats)
            unknown += chunk.num_unknown
        return streams.bits_per_character(nats, unknown)


class Interrupt:
    """Catches the first Ctrl-C; a second one ends the program as usual."""

    def __init__(self):
        self.requested = False

    def __enter__(self) -> "Interrupt":
        self._previous = signal.signal(signal.SIGINT, self._handle)
        return self

    def _handle(self, signal_number: int, frame: FrameType | None) -> None:
        self.requested = True
        signal.signal(signal.SIGINT, self._previous)

    def __exit__(self, *error) -> None:
        signal.signal(signal.SIGINT, self._previous)


class Interval:
    """Sums over the training batches of one line of the log."""

    def __init__(self):
        self.batches = 0
        self._characters = 0
        self._nats = 0.0
        self._seconds = 0.0
        self._learning_rate = 0.0

    def add(self, loss: float, characters: int, seconds: float, learning_rate: float) -> None:
        self.batches += 1
        self._characters += characters
        self._nats += loss * characters
        self._seconds += seconds
        self._learning_rate = learning_rate

    def row(self, step: int, epoch: float, seconds: float) -> Row:
        return Row(
            "train",
            step,
            epoch,
            seconds,
            loss=self._nats / self._characters,
            learning_rate=self._learning_rate,
            ms_per_batch=1e3 * self._seconds / self.batches,
            characters_per_second=self._characters / self._seconds,
        )


class Training:
    """One run: trains until a limit or Ctrl-C, and keeps the log and checkpoints.

    A checkpoint holds all that the rest of the run depends on: the model, the
    optimiser with the number of steps (which is the position in the text and, with
    --seed, the state of the random numbers), what the streams have read, the best
    result and the seconds spent.
    """

    def __init__(
        self,
        options: Options,
        corpus: Corpus,
        directory: RunDirectory,
        progress: Progress,
        start: float,
        team: Team = ALONE,
    ):
        """`start`: the value of time.monotonic() when the program started."""
        with team.strategy.scope():  # all workers get the chief's initial weights
            self.model = CharLM(
                corpus.vocabulary,
                Config(RNN_MODES[options.model], options.nlayers, options.nhid, options.emsize),
                options.seed,
            )
        self.generator = Generator(self.model)
        self._options = options
        self._directory = directory
        self._progress = progress
        self._train = corpus.train_streams(options.batch_size, options.bptt)
        self._held_out = corpus.held_out_streams(_HELD_OUT_STREAMS, _HELD_OUT_STEPS)
        self._team = team
        self._learner = Learner(self.model, options.batch_size, options.dropout, options.clip, team)
        self._best_bpc = tf.Variable(math.inf, dtype=tf.float64)
        self._seconds = tf.Variable(0.0, dtype=tf.float64)
        self._checkpoint = tf.train.Checkpoint(
            learner=self._learner, best_bpc=self._best_bpc, seconds=self._seconds
        )
        self._latest = self._manager(directory.latest)
        self._best = self._manager(directory.best)
        self._start = start
        self._team_seconds = 0.0  # the chief's `seconds` when the last batch began
        self._log = Log(directory.log)
        self._interval = Interval()
        self._last_step = options.epochs * len(self._train)
        self._validated_step = -1

    def resume(self) -> None:
        """Goes back to where the latest checkpoint was written."""
        path = self._latest.latest_checkpoint
        if not path:
            raise UsageError(f"{self._directory.latest} holds no checkpoint to resume")
        try:
            self._checkpoint.restore(path).assert_consumed()
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise UsageError(f"the checkpoint {path} cannot be used") from error
        self._start -= float(self._seconds)
        if self._team.is_chief:
            self._log.resume(self.step)
        self._validated_step = self.step

    @property
    def step(self) -> int:
        """The number of training batches so far."""
        return int(self._learner.optimizer.steps)

    @property
    def seconds(self) -> float:
        """The time spent on this run, earlier sessions included."""
        return time.monotonic() - self._start

    @property
    def best_bpc(self) -> float:
        """Bits per held-out character of the best weights so far."""
        return float(self._best_bpc)

    @property
    def rows(self) -> list[Row]:
        return self._log.rows

    def run(self) -> None:
        """Trains, and leaves the best weights in the chief's model."""
        self._learner.step.get_concrete_function()  # traced now, not while timed
        if self._options.dry_run:
            self._last_step = min(self._last_step, self.step + DRY_RUN_STEPS)
        with Interrupt() as interrupt:
            while not (reason := self._reason_to_stop(interrupt)):
                self._train_one_batch()
                if self.step % len(self._train) == 0:
                    self._validate()
            self._end_interval()
            self._progress.say(f"Stopped after {self.step:,} batches: {reason}.")
            if self._validated_step != self.step:
                self._validate()
        if self._team.is_chief:
            best = tf.train.Checkpoint(learner=tf.train.Checkpoint(model=self.model))
            best.restore(self._best.latest_checkpoint).expect_partial()

    def compare_with_keras(self) -> "Comparison":
        """Times steps of the same model in stock Keras, beside those of this library."""
        from char_lm_keras import compare  # which loads Keras

        vocabulary, options = self.model.vocabulary.numpy(), self._options
        return compare(
            vocabulary,
            self.model.config,
            self._train,
            options.dropout,
            options.clip,
            options.seed,
        )

    def _reason_to_stop(self, interrupt: Interrupt) -> str:
        """Says why no batch should follow; empty if one should. All workers agree."""
        seconds = self.seconds if self._team.is_chief else 0.0
        self._team_seconds, interrupts = self._team.sum(seconds, interrupt.requested)
        if interrupts:
            return "Ctrl-C"
        if self.step >= self._last_step:
            return "dry run" if self._options.dry_run else f"{self._options.epochs} epochs done"
        if 0 < self._options.max_seconds <= self._team_seconds:
            return f"{self._options.max_seconds:g} seconds are over"
        return ""

    def _train_one_batch(self) -> None:
        index = self.step % len(self._train)
        if index == 0:
            self._learner.reset_streams()
        chunk = self._train[index]
        learning_rate = self._learning_rate()
        begin = time.monotonic()
        seed = np.array([self._options.seed, self.step])
        loss = float(self._learner.step(*chunk, seed, learning_rate))
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"the loss of batch {self.step} is {loss}: try a smaller --lr or --clip"
            )
        seconds = time.monotonic() - begin
        self._interval.add(loss, int(sum(chunk.lengths)), seconds, learning_rate)
        if (index + 1) % self._options.log_interval == 0 or index + 1 == len(self._train):
            self._end_interval()
        else:
            row = self._interval_row()
            self._progress.show(row, len(self._train), self._seconds_left(row))

    def _learning_rate(self) -> float:
        """Rises for some steps, then falls to almost 0 along a cosine.

        The fall is measured in batches or in seconds, whichever limit is nearer. The
        rise is not: Adam needs its first steps small, however late they come.
        """
        done = self.step / (self._options.epochs * len(self._train))
        if self._options.max_seconds > 0:
            done = max(done, self._team_seconds / self._options.max_seconds)
        rise = min((self.step + 1) / WARM_UP_STEPS, 1.0)
        fall = 0.5 + 0.5 * math.cos(math.pi * min(done, 1.0))
        return self._options.lr * rise * max(fall, 0.01)

    def _interval_row(self) -> Row:
        return self._interval.row(self.step, self.step / len(self._train), self.seconds)

    def _end_interval(self) -> None:
        """Logs the batches since the last row, if there are any."""
        if self._interval.batches:
            row = self._interval_row()
            self._interval = Interval()
            if self._team.is_chief:
                self._log.add(row)
            self._progress.line(row, len(self._train), self._seconds_left(row))

    def _seconds_left(self, row: Row) -> float:
        left = (self._last_step - self.step) * row.ms_per_batch / 1e3
        if self._options.max_seconds > 0:
            left = min(left, self._options.max_seconds - self.seconds)
        return left

    def _validate(self) -> None:
        """Measures the held-out text, saves, and shows a sample: the chief does."""
        self._learner.gather_streams()
        self._validated_step = self.step
        if not self._team.is_chief:
            return
        bpc = self._learner.bits_per_character(self._held_out)
        if not math.isfinite(bpc):
            raise FloatingPointError(f"the held-out text costs {bpc} bits per character")
        row = Row(
            "valid",
            self.step,
            self.step / len(self._train),
            self.seconds,
            loss=bpc * math.log(2.0),
        )
        self._log.add(row)
        is_best = bpc < self.best_bpc
        if is_best:
            self._best_bpc.assign(bpc)
        self._seconds.assign(self.seconds)
        # `latest` tells the best result: if the program ends here, it must not be of weights that
        # are nowhere.
        if is_best:
            self._best.save(checkpoint_number=self.step)
        self._latest.save(checkpoint_number=self.step)
        self._progress.say(
            f"epoch {row.epoch:.2f} | {clock(row.seconds)} | "
            f"held out: loss {row.loss:.3f} | bpc {bpc:.3f} | "
            f"ppl {row.perplexity:.2f}" + (" | best" if is_best else "")
        )
        self._progress.say(quote(self.sample(min(SAMPLE_LENGTH, self._options.length))))

    def sample(self, length: int) -> str:
        text = self.generator.generate(
            tf.constant(self._options.prime),
            tf.constant(length),
            tf.constant(self._options.temperature),
            tf.constant(self._options.seed),
        )["text"]
        return text.numpy().decode()

    def _manager(self, path: pathlib.Path) -> tf.train.CheckpointManager:
        return tf.train.CheckpointManager(self._checkpoint, str(path), max_to_keep=1)
