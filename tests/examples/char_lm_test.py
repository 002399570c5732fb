"""The character language model: its text, its model, its training, the program."""

import csv
import gzip
import io
import itertools
import math
import pathlib
import re
import signal
import subprocess
import sys
import time

import char_lm
import char_lm_corpus
import char_lm_keras
import numpy as np
import pytest
import tensorflow as tf
from absl.testing import flagsaver
from char_lm_corpus import Corpus, CorpusError, Streams
from char_lm_distribution import Team
from char_lm_model import RNN_MODES, CharLM, Config, Generator
from char_lm_options import Options, RunDirectory, UsageError
from char_lm_report import Log, Progress, Row, clock, draw, keras_rows, keras_seconds
from char_lm_training import Learner, Training

from benchmarks import int8_accuracy
from tf_cudnn_rnn import runtime

PROGRAM = pathlib.Path(__file__).parents[2] / "examples" / "char_lm.py"
TEXT = "".join(f"{i} times {i} is {i * i}.\n" for i in range(150))
TINY = Options(
    nhid=8, nlayers=2, emsize=4, batch_size=4, bptt=25, epochs=2, max_seconds=0.0, length=20
)
TINY_FLAGS = [
    f"--{name}={getattr(TINY, name)}"
    for name in ("nhid", "nlayers", "emsize", "batch_size", "bptt", "length")
]


@pytest.fixture(scope="module")
def corpus():
    return Corpus("a test", TEXT)


# ---------------------------------------------------------------------------------
# The text
# ---------------------------------------------------------------------------------


def test_default_corpus_is_the_same_every_time_and_holds_out_the_last_tenth():
    corpus = char_lm_corpus.load()
    assert corpus.sha256 == char_lm_corpus.load().sha256
    assert corpus.train + corpus.held_out == corpus.text
    assert len(corpus.held_out) == len(corpus.text) // 10 > 40_000


def test_encode_knows_the_characters_of_the_training_text_only():
    corpus = Corpus("", "abcabcabc" + "z")
    assert corpus.encode("cab").tolist() == [3, 1, 2]
    assert corpus.encode("aZz\U0001f600").tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize("num_ids", [2, 9, 100, 101, 102, 121])
@pytest.mark.parametrize(("num_streams", "steps"), [(1, 1), (3, 7), (5, 100), (8, 4)])
def test_streams_deal_out_every_character_once_and_in_order(num_ids, num_streams, steps):
    ids = np.arange(1, num_ids + 1)
    streams = Streams(ids, num_streams, steps)
    inputs = [[] for _ in range(num_streams)]
    targets = [[] for _ in range(num_streams)]
    for chunk in streams:
        assert chunk.inputs.shape == chunk.targets.shape == (len(chunk.inputs), num_streams)
        assert len(chunk.inputs) <= steps
        for row, length in enumerate(chunk.lengths):
            inputs[row] += chunk.inputs[:length, row].tolist()
            targets[row] += chunk.targets[:length, row].tolist()
    assert sum(inputs, []) == ids[:-1].tolist()
    assert sum(targets, []) == ids[1:].tolist()
    assert streams.num_targets == num_ids - 1
    with pytest.raises(IndexError):
        streams[len(streams)]


def test_held_out_streams_predict_all_of_the_held_out_text_and_nothing_else(corpus):
    streams = corpus.held_out_streams(16, 10)
    assert streams.num_targets == len(corpus.held_out)
    first = streams[0]
    assert first.inputs[0, 0] == corpus.encode(corpus.train[-1])[0]
    assert first.targets[0, 0] == corpus.encode(corpus.held_out[0])[0]


def test_baseline_is_what_the_held_out_text_adds_to_the_compressed_training_text(corpus):
    line = char_lm_corpus.baseline("gzip", corpus)
    train, text = (gzip.compress(part.encode()) for part in (corpus.train, corpus.text))
    assert line.after == 8 * (len(text) - len(train)) / len(corpus.held_out)
    assert line.alone == 8 * len(gzip.compress(corpus.held_out.encode())) / len(corpus.held_out)
    assert line.after < line.alone


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file"),
        (b"", "is empty"),
        (b"too short", "is too short: it has 9 characters"),
        (b"ab\xff" * 100, "is not UTF-8: byte 0xff at offset 2"),
    ],
)
def test_unusable_corpus_is_refused(tmp_path, content, message):
    path = tmp_path / "corpus"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CorpusError, match=message):
        char_lm_corpus.load(str(path))


# ---------------------------------------------------------------------------------
# The model
# ---------------------------------------------------------------------------------


def tiny_model(corpus, model="LSTM"):
    return CharLM(corpus.vocabulary, Config(RNN_MODES[model], 2, 8, 4), seed=1)


def test_bits_per_character_of_a_uniform_model_is_log2_of_the_number_of_symbols(corpus):
    model = tiny_model(corpus)
    model.softmax_kernel.assign(tf.zeros_like(model.softmax_kernel))
    symbols = len(corpus.vocabulary) + 1
    bits = Learner(model, 4, 0.0, 1.0).bits_per_character(corpus.held_out_streams(7, 10))
    assert bits == pytest.approx(math.log2(symbols), rel=1e-5)


def test_unknown_characters_pay_for_naming_a_code_point():
    corpus = Corpus("", "ab" * 50 + "\n" * 80 + "xy" * 10)
    model = tiny_model(corpus)
    model.softmax_kernel.assign(tf.zeros_like(model.softmax_kernel))
    bits = Learner(model, 4, 0.0, 1.0).bits_per_character(corpus.held_out_streams(3, 10))
    assert bits == pytest.approx(math.log2(4) + math.log2(0x110000), rel=1e-5)


def test_bits_per_character_do_not_depend_on_the_length_of_the_chunks(corpus):
    learner = Learner(tiny_model(corpus), 4, 0.0, 1.0)
    bits = [learner.bits_per_character(corpus.held_out_streams(5, steps)) for steps in (7, 1000)]
    assert bits[0] == pytest.approx(bits[1], rel=1e-5)


@pytest.mark.parametrize("model", RNN_MODES)
def test_every_kind_of_model_learns(corpus, model):
    learner = Learner(tiny_model(corpus, model), 4, 0.1, 1.0)
    streams = corpus.train_streams(4, 25)
    before = learner.bits_per_character(streams)
    for step in range(60):
        learner.step(*streams[step % len(streams)], np.array([1, step]), 0.02)
    assert learner.bits_per_character(streams) < 0.8 * before


def test_initial_weights_are_orthogonal_and_forget_gates_open(corpus):
    model = tiny_model(corpus)
    named = model.named_weights()
    R = named[1, "forward", "cell", "recurrent_kernel"].numpy()
    np.testing.assert_allclose(R @ R.T, np.eye(8), atol=1e-5)
    assert np.all(named[0, "forward", "forget", "input_bias"] == 1)
    assert np.all(named[0, "forward", "forget", "recurrent_bias"] == 0)
    assert np.all(named[0, "forward", "input", "input_bias"] == 0)


@pytest.fixture(scope="module", params=["LSTM", "GRU"])
def saved_model(request, corpus, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("saved_model"))
    Generator(tiny_model(corpus, request.param)).export(path)
    return tf.saved_model.load(path).signatures["serving_default"]


def generate(saved_model, prime="1 ", length=30, temperature=1.0, seed=1):
    text = saved_model(
        prime=tf.constant(prime),
        length=tf.constant(length),
        temperature=tf.constant(temperature),
        seed=tf.constant(seed),
    )["text"]
    return text.numpy().decode()


def test_saved_model_continues_any_prime(saved_model, corpus):
    for prime in ("", "1 times", "never seen: \u20ac \U0001f600", "\n"):
        text = generate(saved_model, prime)
        assert text.startswith(prime)
        assert len(text) == len(prime) + 30
        assert set(text[len(prime) :]) <= set(corpus.train)
    assert generate(saved_model, "1 times", length=0) == "1 times"


def test_saved_model_draws_by_seed_and_temperature(saved_model):
    assert generate(saved_model, seed=1) == generate(saved_model, seed=1)
    assert generate(saved_model, seed=1) != generate(saved_model, seed=2)
    likeliest = generate(saved_model, temperature=0.0)
    assert likeliest == generate(saved_model, temperature=0.0, seed=2)
    assert likeliest == generate(saved_model, temperature=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"length": -1}, "`length` must not be negative"),
        ({"temperature": -0.5}, "`temperature` must be finite"),
        ({"temperature": math.nan}, "`temperature` must be finite"),
    ],
)
def test_saved_model_refuses(saved_model, arguments, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        generate(saved_model, **arguments)


# ---------------------------------------------------------------------------------
# The training
# ---------------------------------------------------------------------------------


class CtrlC(Progress):
    """Interrupts the training after a given step."""

    def __init__(self, step):
        super().__init__(io.StringIO())
        self._step = step

    def line(self, row, num_batches, seconds_left):
        if row.step == self._step:
            signal.raise_signal(signal.SIGINT)


def train(corpus, path, options, resume=False, ctrl_c_after=None):
    directory = RunDirectory(path)
    if not resume:
        directory.start(options, corpus.sha256)
    training = Training(options, corpus, directory, CtrlC(ctrl_c_after), time.monotonic())
    if resume:
        training.resume()
    training.run()
    return training


def losses(training, kind="train"):
    """(step, exact loss, learning rate) of every batch."""
    return [(r.step, r.loss, r.learning_rate) for r in training.rows if r.kind == kind]


def test_interrupted_and_resumed_run_continues_exactly(corpus, tmp_path):
    options = Options(**{**vars(TINY), "dropout": 0.2, "log_interval": 1})
    whole = train(corpus, tmp_path / "whole", options)
    train(corpus, tmp_path / "parts", options, ctrl_c_after=10)  # within an epoch
    parts = train(corpus, tmp_path / "parts", options, resume=True, ctrl_c_after=33)
    assert losses(parts)[-1][0] == 33
    parts = train(corpus, tmp_path / "parts", options, resume=True)
    assert losses(parts) == losses(whole)
    assert losses(parts, "valid")[-1] == losses(whole, "valid")[-1]
    assert parts.sample(30) == whole.sample(30)
    seconds = [row.seconds for row in parts.rows]
    assert seconds == sorted(seconds)


def test_log_and_checkpoints_hold_what_was_reported(corpus, tmp_path):
    options = Options(**{**vars(TINY), "log_interval": 10})
    training = train(corpus, tmp_path, options)
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss"]) for row in rows] == [row.loss for row in training.rows]
    valid = [float(row["bpc"]) for row in rows if row["kind"] == "valid"]
    assert len(valid) == options.epochs
    assert training.best_bpc == pytest.approx(min(valid), rel=1e-12)
    kept = {str(path.relative_to(tmp_path)) for path in tmp_path.glob("*/*.index")}
    assert kept == {f"{name}/ckpt-{rows[-1]['step']}.index" for name in ("latest", "best")}


def test_learning_rate_starts_low_however_late_the_training_starts(corpus, tmp_path):
    options = Options(**{**vars(TINY), "max_seconds": 1000.0, "log_interval": 1, "dry_run": True})
    directory = RunDirectory(tmp_path)
    directory.start(options, corpus.sha256)
    training = Training(options, corpus, directory, CtrlC(None), time.monotonic() - 500.0)
    training.run()
    rates = [row.learning_rate for row in training.rows if row.kind == "train"]
    assert 0 < rates[0] < rates[1] < rates[2] < 0.1 * options.lr


def test_the_best_weights_are_kept_before_a_checkpoint_tells_of_them(corpus, tmp_path, monkeypatch):
    """A program that ended between the two would resume with a best result of lost weights."""
    saved = []
    save = tf.train.CheckpointManager.save

    def noted(manager, *arguments, **options):
        saved.append(pathlib.Path(manager.directory).name)
        return save(manager, *arguments, **options)

    monkeypatch.setattr(tf.train.CheckpointManager, "save", noted)
    train(corpus, tmp_path, Options(**{**vars(TINY), "dry_run": True}))
    assert saved == ["best", "latest"]


def test_dry_run_trains_a_few_batches_more(corpus, tmp_path):
    options = Options(**{**vars(TINY), "model": "GRU", "dry_run": True})
    training = train(corpus, tmp_path, options)
    assert (training.step, [row.kind for row in training.rows]) == (4, ["train", "valid"])
    assert train(corpus, tmp_path, options, resume=True).step == 8


def test_best_weights_are_kept_when_later_ones_are_worse(corpus, tmp_path):
    best = train(corpus, tmp_path, Options(**{**vars(TINY), "epochs": 1}))
    text = best.sample(30)
    ruined = train(
        corpus, tmp_path, Options(**{**vars(TINY), "lr": 30.0, "clip": 0.0}), resume=True
    )
    assert losses(ruined, "valid")[-1][1] > losses(ruined, "valid")[0][1]
    assert ruined.best_bpc == best.best_bpc
    assert ruined.sample(30) == text


def test_what_int8_costs_is_measured_on_the_weights_and_the_text_of_the_run(tmp_path):
    text = tmp_path / "text"
    text.write_text(TEXT + "\u20ac")  # unknown, and paid for
    options = Options(**{**vars(TINY), "corpus": str(text), "model": "GRU", "dry_run": True})
    training = train(char_lm_corpus.load(str(text)), tmp_path / "run", options)
    training.generator.export(str(RunDirectory(tmp_path / "run").saved_model))
    trained = int8_accuracy.of_char_lm(tmp_path / "run")
    y, _ = runtime.Network(trained.canonical)(trained.x, time_major=True)
    assert trained.error(y) == pytest.approx(training.best_bpc, rel=1e-5)


def test_options_of_the_run_survive_and_fixed_ones_cannot_change(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.start(TINY, "abc")
    options, sha256 = directory.read_run()
    assert (options, sha256) == (TINY, "abc")
    assert options.resumed({"epochs": 9, "nhid": 8}).epochs == 9
    with pytest.raises(UsageError, match="--nhid=9 cannot be resumed"):
        options.resumed({"nhid": 9})
    assert options.resumed({"corpus": "elsewhere.txt"}).corpus == "elsewhere.txt"


def test_directory_that_holds_something_else_is_left_alone(tmp_path):
    (tmp_path / "best").mkdir()
    with pytest.raises(UsageError, match="is in use"):
        RunDirectory(tmp_path).start(TINY, "abc")
    assert (tmp_path / "best").exists()


def test_an_earlier_run_is_erased_only_where_that_is_asked_for(tmp_path):
    directory = RunDirectory(tmp_path / "run")
    directory.start(TINY, "abc")
    directory.start(TINY, "abc")  # nothing is lost: it has no checkpoint yet
    directory.latest.mkdir()
    checkpoint = directory.latest / "ckpt-3.index"
    checkpoint.touch()
    with pytest.raises(UsageError, match="holds an earlier run: go on with it by --resume, erase"):
        directory.start(TINY, "def")
    assert checkpoint.exists() and directory.read_run() == (TINY, "abc")
    directory.start(TINY, "def", overwrite=True)
    assert not checkpoint.exists() and directory.read_run() == (TINY, "def")


# ---------------------------------------------------------------------------------
# The report
# ---------------------------------------------------------------------------------


def test_row_converts_nats():
    row = Row("valid", 1, 1.0, 1.0, loss=math.log(8))
    assert row.bpc == pytest.approx(3)
    assert row.perplexity == pytest.approx(8)


def test_resumed_log_forgets_rows_after_the_checkpoint(tmp_path):
    log = Log(tmp_path / "log.csv")
    for step in (1, 2, 3):
        log.add(Row("train", step, step / 3, 1.0, 1 / 3, 0.1, 2.0, 3.0))
    resumed = Log(tmp_path / "log.csv")
    resumed.resume(2)
    resumed.add(Row("valid", 2, 1.0, 1.0, 0.1))
    again = Log(tmp_path / "log.csv")
    again.resume(9)
    assert again.rows == resumed.rows == [*log.rows[:2], Row("valid", 2, 1.0, 1.0, 0.1)]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_bar_fits_the_terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    row = Row("train", 150, 0.5, 1.0, 1.2, 0.1, 40.0, 50_000.0)
    for columns in (20, 80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        terminal = Terminal()
        Progress(terminal).show(row, num_batches=100, seconds_left=61)
        bar = terminal.getvalue().removeprefix("\r").removesuffix("\x1b[K")
        assert len(bar) < columns
    assert bar.startswith("epoch 2 [====================>   ")
    assert bar.endswith("] 40 ms/batch 50k chars/s loss 1.200 bpc 1.731 ppl 3.32 ETA 1:01")


def test_other_output_gets_lines(capsys):
    progress = Progress()
    row = Row("train", 150, 0.5, 1.0, 1.2, 0.1, 40.0, 50_000.0)
    progress.show(row, 100, 61)
    progress.line(row, 100, 61)
    out = capsys.readouterr().out
    assert out.startswith("epoch 2  50/100 | 40 ms/batch | 50k chars/s | loss 1.200 |")
    assert out.count("\n") == 1


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0:00"), (59.6, "1:00"), (3600, "1:00:00"), (3725, "1:02:05")]
)
def test_clock(seconds, text):
    assert clock(seconds) == text


def test_the_model_is_exported_whatever_fails_behind_it(corpus, tmp_path, monkeypatch):
    directory = RunDirectory(tmp_path / "run")
    options = Options(**{**vars(TINY), "dry_run": True})
    training = train(corpus, directory.path, options)
    said = io.StringIO()
    baselines = [char_lm_corpus.Baseline("gzip", 2.1, 1.9)]

    def report(with_keras):
        rest = (training, options, corpus, baselines, directory, Progress(said), with_keras)
        char_lm.report(*rest)

    def no_memory():
        assert (directory.saved_model / "saved_model.pb").exists()
        raise MemoryError

    monkeypatch.setattr(training, "compare_with_keras", no_memory)
    with pytest.raises(MemoryError):
        report(with_keras=True)
    # A picture that cannot be written costs the picture alone.
    directory.picture.mkdir()
    monkeypatch.setattr(char_lm, "generate_in_fresh_process", lambda *_: training.sample(20))
    report(with_keras=False)
    assert f"There is no picture: {directory.picture} cannot be written" in said.getvalue()
    assert said.getvalue().splitlines()[-1].startswith("result: valid_bpc=")


def test_a_run_is_resumed_where_its_text_is_now(tmp_path, monkeypatch):
    old, new, other = (tmp_path / name for name in ("old", "new", "other"))
    old.write_text(TEXT)
    new.write_text(TEXT)
    other.write_text(TEXT.replace("times", "x"))
    directory = RunDirectory(tmp_path / "run")
    directory.start(Options(corpus=str(old)), char_lm_corpus.load(str(old)).sha256)
    old.unlink()

    def prepare(*arguments):
        with flagsaver.flagsaver():
            char_lm.FLAGS(["char_lm", "--resume", *arguments])
            return char_lm.prepare(directory, Team())

    with pytest.raises(CorpusError, match="cannot be read"):
        prepare()
    with pytest.raises(UsageError, match="other is another text than the run began with; if"):
        prepare(f"--corpus={other}")
    with pytest.raises(UsageError, match="choose one"):
        prepare("--overwrite")
    options, corpus = prepare(f"--corpus={new}")
    assert (options.corpus, corpus.text) == (str(new), TEXT)
    assert directory.read_run()[0].corpus == str(new)


@pytest.mark.parametrize("num_rows", [0, 1, 30])
def test_picture_is_drawn_however_short_the_run(tmp_path, num_rows):
    rows = [Row("train", i, i / 9, i, 5 / (i + 1), 0.1, 1.0, 1.0) for i in range(num_rows)]
    rows += [Row("valid", row.step, row.epoch, row.seconds, row.loss) for row in rows[::9]]
    path = tmp_path / "loss.png"
    comparison = char_lm_keras.Comparison(2.0, 4.0, "a CPU") if num_rows > 1 else None
    draw(rows, [char_lm_corpus.Baseline("gzip", 2.1, 1.9)], "a test", path, comparison)
    assert path.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("model", RNN_MODES)
def test_stock_keras_has_the_same_losses(corpus, model):
    config = Config(RNN_MODES[model], 2, 8, 4)
    streams = Streams(corpus.encode(corpus.train), 3, 7)
    ours = CharLM(corpus.vocabulary, config, 1)
    theirs = char_lm_keras.KerasLearner(ours, 3, 0.0, 1.0)
    ours = Learner(ours, 3, 0.0, 1.0)
    seed = np.zeros([2], np.int64)
    for chunk in itertools.islice(streams, 3):
        # Without learning: of cuDNN's two biases Adam moves each as far as Keras' one.
        losses = [float(learner.step(*chunk, seed, 0.0)) for learner in (ours, theirs)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_comparison_says_where_keras_would_be():
    rows = [Row("train", 10, 1, 10.0, 5.0, 0.1, 500.0)]  # after 5 seconds of preparation
    rows += [Row("valid", 10 * i, i, 5.0 + 5.0 * i, 5 / i) for i in range(1, 5)]
    assert keras_seconds(rows, rows[4], 2.0) == 45.0
    assert keras_rows(rows, 2.0) == rows[:3]
    assert keras_rows(rows, 10.0) == []
    comparison = char_lm_keras.Comparison(2.0, 4.0, "a CPU")
    text = char_lm.describe_comparison(comparison, rows)
    assert "2.0 times as long, on a CPU." in text
    assert f"about 20, and have come to {rows[2].bpc:.2f} bits" in text


# ---------------------------------------------------------------------------------
# The program
# ---------------------------------------------------------------------------------

RESULT = re.compile(
    r"result: valid_bpc=(\d+\.\d\d) gzip_bpc=(\d+\.\d\d) seconds=(\d+) saved_model=(\S+)"
)


def start(path, *arguments):
    corpus = path / "corpus.txt"
    corpus.write_text(TEXT)
    return subprocess.Popen(
        [sys.executable, PROGRAM, f"--corpus={corpus}", f"--save={path / 'run'}"]
        + [*TINY_FLAGS, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_ctrl_c_stops_evaluates_saves_and_exports(tmp_path):
    process = start(tmp_path, "--epochs=1000000", "--max_seconds=0", "--log_interval=5")
    head = ""
    while "ms/batch" not in head:
        line = process.stdout.readline()
        assert line, f"It ended: {head}{process.stderr.read()}"
        head += line
    assert re.search(r"Text: .*3,\d\d\d characters, SHA-256", head)
    assert re.search(r"Model: LSTM 2 x 8, embedding 4: [\d,]+ parameters", head)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=1200)
    assert (process.returncode, err) == (0, "")
    assert "batches: Ctrl-C." in out
    assert "times as long, on " in out
    assert "A fresh process loads" in out
    assert "  Beats: " in out and "  Does not beat: " in out
    bpc, gzip_bpc, _, saved_model = RESULT.fullmatch(out.splitlines()[-1]).groups()
    assert float(bpc) > float(gzip_bpc) > 0
    assert (pathlib.Path(saved_model) / "saved_model.pb").exists()
    written = {path.name for path in (tmp_path / "run").iterdir()}
    assert written == {"run.json", "log.csv", "loss.png", "latest", "best", "saved_model"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--nhid=0"], "flag --nhid=0: 0 is not a positive integer"),
        (["--dropout=1"], "flag --dropout=1.0: must be at least 0 and less than 1"),
        (["--lr=nan"], "flag --lr=nan: must be more than 0"),
        (["--width=3"], "Unknown command line flag 'width'"),
        (["text.txt"], "unexpected argument 'text.txt'"),
        (["--resume", "--save=/nowhere"], "--save=/nowhere holds no run to resume"),
        (["--corpus=/nowhere"], "--corpus=/nowhere cannot be read: No such file or directory"),
        (["--batch_size=10000"], "2,911 characters for --batch_size=10000 streams"),
    ],
)
def test_mistake_gets_one_line(tmp_path, arguments, message):
    process = start(tmp_path, *arguments)
    out, err = process.communicate(timeout=1200)
    assert (process.returncode, out) == (2, "")
    assert err.startswith("char_lm: ")
    assert err.removesuffix("\n").endswith(message)
    assert err.count("\n") == 1
