"""Trains a character language model on the CPU and exports it.

An embedding, stacked fused RNN layers and a softmax predict the next character of a
text: Python's own documentation, or any UTF-8 file.

  python examples/char_lm.py
  python examples/char_lm.py --corpus=FILE --model=GRU --epochs=50 --max_seconds=0
  python examples/char_lm.py --resume --max_seconds=600

Everything goes to the directory --save: log.csv, loss.png, the checkpoints `best` and
`latest`, and a SavedModel that generates text. At the end some training steps of the same
model in stock Keras are timed, and loss.png shows where Keras would be. Ctrl-C stops the
training, then evaluates, saves and exports; --resume goes on from there, and --overwrite
begins anew in the same directory. The learning rate
follows the clock while --max_seconds sets a limit; without one a run repeats exactly.

Where TF_CONFIG names several workers, they share the streams of each batch and learn what
one process would (docs/scaling.md). All get the same flags; worker 0, the chief, reports
and writes to --save. To --resume, the others must be able to read --save.
"""

import dataclasses
import math
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import char_lm_corpus
from absl import app, flags, logging
from char_lm_corpus import COMPRESSORS, Baseline, Corpus, CorpusError, baseline
from char_lm_distribution import LostWorkerError, Team
from char_lm_options import Options, RunDirectory, UsageError
from char_lm_report import Progress, Row, Silence, draw, keras_rows, quote

if TYPE_CHECKING:
    from char_lm_keras import Comparison
    from char_lm_training import Training

START = time.monotonic()
FLAGS = flags.FLAGS
DEFAULTS = Options()

_SAVE = flags.DEFINE_string("save", "runs/char_lm", "Directory of all output.")
_RESUME = flags.DEFINE_bool("resume", False, "Go on with the run in --save.")
_OVERWRITE = flags.DEFINE_bool("overwrite", False, "Erase an earlier run in --save.")
_KERAS = flags.DEFINE_bool("keras", True, "Time the same model in stock Keras, too.")

# The rest are the fields of Options.
flags.DEFINE_string("corpus", DEFAULTS.corpus, "UTF-8 text file (default: pydoc_data.topics).")
flags.DEFINE_enum(
    "model",
    DEFAULTS.model,
    ["LSTM", "GRU", "RNN_TANH", "RNN_RELU"],
    "Kind of the recurrent layers.",
)
flags.DEFINE_integer("nhid", DEFAULTS.nhid, "Units of a layer.", lower_bound=1)
flags.DEFINE_integer("nlayers", DEFAULTS.nlayers, "Layers.", lower_bound=1)
flags.DEFINE_integer("emsize", DEFAULTS.emsize, "Size of the embedding.", lower_bound=1)
flags.DEFINE_integer("batch_size", DEFAULTS.batch_size, "Streams side by side.", lower_bound=1)
flags.DEFINE_integer("bptt", DEFAULTS.bptt, "Characters of a batch.", lower_bound=1)
flags.DEFINE_integer(
    "seed",
    DEFAULTS.seed,
    "Seed of weights, dropout and samples.",
    lower_bound=0,
    upper_bound=2**31 - 1,
)
flags.DEFINE_float("dropout", DEFAULTS.dropout, "Share of the features to drop.")
flags.DEFINE_float("clip", DEFAULTS.clip, "Largest norm of the gradients (0: any).")
flags.DEFINE_float("lr", DEFAULTS.lr, "Highest learning rate of Adam.")
flags.DEFINE_integer("epochs", DEFAULTS.epochs, "Passes over the text.", lower_bound=1)
flags.DEFINE_float("max_seconds", DEFAULTS.max_seconds, "When to stop (0: never).")
flags.DEFINE_integer(
    "log_interval", DEFAULTS.log_interval, "Batches of a line of the log.", lower_bound=1
)
flags.DEFINE_string("prime", DEFAULTS.prime, "Beginning of the samples.")
flags.DEFINE_integer("length", DEFAULTS.length, "Characters to add to it.", lower_bound=0)
flags.DEFINE_float("temperature", DEFAULTS.temperature, "Below 1 samples are safer, above wilder.")
flags.DEFINE_bool("dry_run", DEFAULTS.dry_run, "Train on a few batches only.")


def _check(name: str, rule: str, holds: Callable[[float], bool]) -> None:
    """Registers what the number of a flag has to be."""
    flags.register_validator(
        name, lambda value: math.isfinite(value) and holds(value), f"must be {rule}"
    )


_check("dropout", "at least 0 and less than 1", lambda value: 0 <= value < 1)
_check("clip", "0 or more", lambda value: value >= 0)
_check("lr", "more than 0", lambda value: value > 0)
_check("max_seconds", "0 or more", lambda value: value >= 0)
_check("temperature", "0 or more", lambda value: value >= 0)


@flags.validator("prime", "must be UTF-8")
def _is_text(value: str) -> bool:
    # Python reads undecodable bytes of the command line as lone surrogates.
    return not any("\ud800" <= character <= "\udfff" for character in value)


def given_options() -> dict[str, Any]:
    """The fields of Options for which there is a flag on the command line."""
    names = [field.name for field in dataclasses.fields(Options)]
    return {name: FLAGS[name].value for name in names if FLAGS[name].present}


class ExportError(Exception):
    """The exported model does not do what the trained one does."""


def main(argv: list[str]) -> int:
    if not FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # TensorFlow says much when it saves
    try:
        if len(argv) > 1:
            raise UsageError(f"unexpected argument {argv[1]!r}")
        run(RunDirectory(_SAVE.value), Team.from_environment())
    except (UsageError, CorpusError) as error:
        return fail(str(error), status=2)
    except (ExportError, FloatingPointError, LostWorkerError) as error:
        return fail(str(error), status=1)
    except KeyboardInterrupt:
        return fail("interrupted", status=130)
    return 0


def parse_flags(argv: list[str]) -> list[str]:
    try:
        return FLAGS(argv)
    except flags.Error as error:
        sys.exit(fail(" ".join(str(error).split()), status=2))


def fail(message: str, status: int) -> int:
    print(f"char_lm: {message}", file=sys.stderr)
    return status


def run(directory: RunDirectory, team: Team) -> None:
    """Trains, reports and exports."""
    options, corpus = prepare(directory, team)
    progress = Progress() if team.is_chief else Silence()
    progress.say(describe_corpus(corpus))
    baselines = [baseline(compressor, corpus) for compressor in COMPRESSORS]
    progress.say(describe_baselines(baselines))

    # TensorFlow takes seconds to load, so mistakes are found and told before. Without
    # oneDNN, which has no part in the RNN, its results repeat and it loads in silence.
    progress.say("Loading TensorFlow ...")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    from char_lm_training import Training

    if team.size > 1:
        progress.say(f"Waiting for {team.size} workers ...")
    with team.together():
        if not team.agree(options, corpus.sha256):
            raise UsageError("the workers differ in their flags or in their text")
        training = Training(options, corpus, directory, progress, START, team)
        if _RESUME.value:
            training.resume()
        progress.say(training.model.describe())
        progress.say(describe_options(options))
        training.run()
        if team.is_chief:
            with_keras = _KERAS.value and team.size == 1  # a step of several is another thing
            report(training, options, corpus, baselines, directory, progress, with_keras)


def report(
    training: "Training",
    options: Options,
    corpus: Corpus,
    baselines: list[Baseline],
    directory: RunDirectory,
    progress: Progress,
    with_keras: bool,
) -> None:
    """Draws, exports, and tells what the training came to."""
    seconds = training.seconds
    # Before all that may fail: the model is what the time was spent on.
    training.generator.export(str(directory.saved_model))
    comparison = None
    if with_keras:
        progress.say("Timing the same model in stock Keras ...")
        comparison = training.compare_with_keras()
        progress.say(describe_comparison(comparison, training.rows))
    title = f"{options.model} on {corpus.name}"
    try:
        draw(training.rows, baselines, title, directory.picture, comparison)
    except ImportError:
        progress.say("There is no picture: matplotlib is not installed.")
    except (OSError, ValueError) as error:
        progress.say(f"There is no picture: {directory.picture} cannot be written: {error}")
    text = generate_in_fresh_process(directory.saved_model, options)
    if text != training.sample(options.length):
        raise ExportError("the exported model writes another text in a fresh process")
    progress.say(f"A fresh process loads {directory.saved_model} and writes:")
    progress.say(quote(text))
    validations = sum(row.kind == "valid" for row in training.rows)
    progress.say(compare(training.best_bpc, validations, baselines))
    progress.say(f"Log and picture: {directory.log}, {directory.picture}")
    progress.say(
        f"result: valid_bpc={training.best_bpc:.2f} gzip_bpc={baselines[0].after:.2f} "
        f"seconds={seconds:.0f} saved_model={directory.saved_model}"
    )


def prepare(directory: RunDirectory, team: Team) -> tuple[Options, Corpus]:
    """Settles what the run is; the chief makes its directory ready."""
    if _RESUME.value and _OVERWRITE.value:
        raise UsageError("--resume goes on with a run, which --overwrite would erase: choose one")
    if _RESUME.value:
        earlier, sha256 = directory.read_run()
        options = earlier.resumed(given_options())
    else:
        options = Options(**given_options())
    corpus = char_lm_corpus.load(options.corpus)
    if len(corpus.train) <= options.batch_size:
        raise CorpusError(
            f"the training text is too short: {len(corpus.train):,} characters for "
            f"--batch_size={options.batch_size} streams"
        )
    if _RESUME.value:
        if corpus.sha256 != sha256:
            raise UsageError(
                f"{corpus.name} is another text than the run began with; if that is elsewhere now, "
                "say where by --corpus"
            )
        if team.is_chief:
            directory.write_run(options, sha256)
    elif team.is_chief:
        directory.start(options, corpus.sha256, overwrite=_OVERWRITE.value)
    return options, corpus


def describe_corpus(corpus: Corpus) -> str:
    return (
        f"Text: {corpus.name}, {len(corpus.text):,} characters, "
        f"SHA-256 {corpus.sha256[:16]}...\n"
        f"  {len(corpus.train):,} to train on, the last {len(corpus.held_out):,} held "
        f"out; {len(corpus.vocabulary)} symbols"
    )


def describe_baselines(baselines: list[Baseline]) -> str:
    """A table of bits per held-out character."""
    lines = ["Bits per held-out character   alone   after the training text"]
    for line in baselines:
        lines.append(f"  {line.compressor:26}  {line.alone:6.3f}   {line.after:6.3f}")
    lines.append("  (To find repeats gzip looks back 32 KB, bz2 and xz much further.)")
    return "\n".join(lines)


def describe_options(options: Options) -> str:
    limits = [f"{options.epochs} epochs"]
    if options.max_seconds > 0:
        limits.append(f"{options.max_seconds:g} seconds")
    return (
        f"Training: {options.batch_size} streams x {options.bptt} characters a batch, "
        f"Adam {options.lr:g}, dropout {options.dropout:g}, clip {options.clip:g}, "
        f"seed {options.seed}; at most {' or '.join(limits)}"
    )


def describe_comparison(comparison: "Comparison", rows: list[Row]) -> str:
    """What a step takes in both, and where Keras would be after the time of this run."""
    text = (
        f"A batch takes {comparison.ours_ms:.1f} ms here and {comparison.keras_ms:.1f} ms in stock "
        f"Keras, {comparison.ratio:.1f} times as long, on {comparison.cpu}."
    )
    if not rows:
        return text
    reached = keras_rows(rows, comparison.ratio)
    batches = max((row.step for row in reached), default=0)
    bpc = [row.bpc for row in reached if row.kind == "valid"]
    come_to = f", and have come to {min(bpc):.2f} bits per held-out character" if bpc else ""
    return (
        f"{text}\n  In the time of this run's {rows[-1].step:,} batches Keras would have made "
        f"about {batches:,}{come_to}."
    )


FRESH_PROCESS = """
import sys
import tensorflow as tf
import tf_cudnn_rnn

path, prime, length, temperature, seed = sys.argv[1:]
generate = tf.saved_model.load(path).signatures["serving_default"]
text = generate(
    prime=tf.constant(prime),
    length=tf.constant(int(length)),
    temperature=tf.constant(float(temperature)),
    seed=tf.constant(int(seed)),
)["text"]
sys.stdout.buffer.write(text.numpy())
"""


def generate_in_fresh_process(saved_model: pathlib.Path, options: Options) -> str:
    """The text that the exported model writes in a process of its own."""
    arguments = [
        saved_model,
        options.prime,
        options.length,
        options.temperature,
        options.seed,
    ]
    process = subprocess.run(
        [sys.executable, "-c", FRESH_PROCESS, *map(str, arguments)],
        capture_output=True,
        check=False,
    )
    if process.returncode != 0:
        raise ExportError(
            f"the exported model failed in a fresh process:\n{process.stderr.decode()}"
        )
    return process.stdout.decode()


def compare(bpc: float, validations: int, baselines: list[Baseline]) -> str:
    """Says plainly which compressors the model beats and which it does not."""
    beaten = []
    unbeaten = []
    for line in baselines:
        for how, bits in (("alone", line.alone), ("after the training text", line.after)):
            names = beaten if bpc < bits else unbeaten
            names.append(f"{line.compressor} {how} ({bits:.3f})")
    return (
        f"Held-out text: {bpc:.3f} bits per character, the best of {validations} "
        "validations, not counting the size of the model.\n"
        f"  Beats: {', '.join(beaten) or 'no compressor'}.\n"
        f"  Does not beat: {', '.join(unbeaten) or 'none of the compressors tried'}."
    )


if __name__ == "__main__":
    sys.stdout.reconfigure(errors="replace")
    app.run(main, flags_parser=parse_flags)
