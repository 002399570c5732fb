"""`bench`: how fast it is here, beside what is installed, or with somebody's own model."""

import argparse
import contextlib
import dataclasses
import logging
import math
import statistics
import types
from collections.abc import Iterator
from typing import Any, TypedDict

from tf_cudnn_rnn import _library, _machine
from tf_cudnn_rnn._cli import models, networks, numbers, output, tensorflow, timing
from tf_cudnn_rnn._layout import GATES, Layout

EPILOG = """\
examples:
  tf-cudnn-rnn bench                       a minute: some networks
  tf-cudnn-rnn bench model.keras           your own model, with random data
  tf-cudnn-rnn bench --mode gru --units 128 --batch 1 --steps 50
  tf-cudnn-rnn bench --seconds 10 --json

It measures milliseconds of a call: the medians of rounds, in which all sides
take turns. "2.0x" is twice as fast as Keras. PyTorch and ONNX Runtime take
part if they are installed. Close other programs: they take time from all.

Of a model, sizes that it leaves open are --batch and --steps. It is loaded by
Keras in safe mode. A step of training is loss, gradients and Adam. If the
outputs differ from those of Keras' layers, the exit code is 1.
"""
_MOST_SECONDS = 86_400
_BUSY = 0.15  # of all processors' time; a desktop takes some hundredths


class _Result(TypedDict):
    """What was measured of a network or a model; of each side a row."""

    title: str
    rounds: int
    rows: list[dict[str, Any]]


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 < value <= _MOST_SECONDS:
        raise ValueError
    return value


_seconds.__name__ = "number of seconds"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("model", metavar="MODEL", nargs="?", help="a .keras file")
    parser.add_argument("--json", action="store_true", help="write a JSON object")
    parser.add_argument(
        "--seconds", type=_seconds, default=60.0, help="to measure for, about (%(default)g)"
    )
    parser.add_argument("--threads", type=numbers.positive, help="of each side (all processors)")
    parser.add_argument("--batch", type=numbers.positive, metavar="B", help="rows (32)")
    parser.add_argument("--steps", type=numbers.positive, metavar="T", help="time steps (100)")
    network = parser.add_argument_group("a network instead of those of the default")
    network.add_argument("--mode", choices=GATES, metavar="MODE", help=f"{', '.join(GATES)} (lstm)")
    network.add_argument(
        "--layers", type=numbers.positive, metavar="L", help="number of layers (1)"
    )
    network.add_argument("--units", type=numbers.positive, metavar="H", help="hidden units (256)")
    network.add_argument(
        "--input-size", type=numbers.positive, metavar="I", help="as many as units"
    )
    network.add_argument("--bidirectional", action="store_true", help="in both directions")


def _cases(options: argparse.Namespace) -> list[networks.Case]:
    given = (options.mode, options.layers, options.units, options.input_size)
    if not any(given) and not options.bidirectional:
        steps = options.steps or 100
        batches = [options.batch] if options.batch else [1, 32]
        lstm = Layout("lstm", num_layers=1, num_units=256, input_size=256)
        gru = dataclasses.replace(lstm, rnn_mode="gru")
        cases = [networks.Case(lstm, batch, steps) for batch in batches]
        return [*cases, networks.Case(gru, batches[-1], steps)]
    units = options.units or 256
    layout = Layout(
        options.mode or "lstm",
        num_layers=options.layers or 1,
        num_units=units,
        input_size=options.input_size or units,
        direction="bidirectional" if options.bidirectional else "unidirectional",
    )
    return [networks.Case(layout, options.batch or 32, options.steps or 100)]


def _start(options: argparse.Namespace) -> tuple[types.ModuleType, int]:
    """Loads TensorFlow with as many threads as are asked for; returns it, and their number."""
    tf = tensorflow.load()
    threads = options.threads or _machine.num_cpus()
    try:
        # Keras would take the GPU, and TensorFlow's default is not always all processors.
        tf.config.set_visible_devices([], "GPU")
        if options.threads:
            tf.config.threading.set_intra_op_parallelism_threads(threads)
    except RuntimeError as error:
        if options.threads:
            raise output.UserError("--threads must be set before TensorFlow runs.") from error
    import tf_cudnn_rnn.keras  # noqa: F401 says what is wrong with Keras, if anything

    return tf, threads


def _rows(names: list[str], times: timing.Times) -> list[dict[str, Any]]:
    """What was measured of each side, for tables and programs."""
    rows = []
    for name in names:
        row: dict[str, Any] = {"name": name}
        for pass_ in timing.PASSES:
            seconds = times.seconds.get((name, pass_))
            row[f"{pass_}_ms"] = None if seconds is None else 1e3 * seconds
            row[f"{pass_}_vs_keras"] = times.ratio(name, networks.KERAS, pass_)
        rows.append(row)
    return rows


def _table(rows: list[dict[str, Any]]) -> str:
    def ms(value: float | None) -> str:
        return "" if value is None else f"{value:.3g}" if value < 100 else f"{value:.0f}"

    def times(value: float | None) -> str:
        return "" if value is None else f"{value:.2f}x"

    lines = [["", "training, ms", "", "prediction, ms", ""]]
    for row in rows:
        cells = [row["name"]]
        for pass_ in timing.PASSES:
            cells += [ms(row[f"{pass_}_ms"]), times(row[f"{pass_}_vs_keras"])]
        lines.append(cells)
    return output.table(lines)


def _sentence(ratios: dict[str, float]) -> str:
    """What people show each other."""
    named = [f"{pass_} {ratio:.1f}x" for pass_, ratio in ratios.items()]
    return f"{', '.join(named)} as fast as Keras on this machine"


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(map(math.log, ratios)))


def _machine_facts(threads: int) -> dict[str, Any]:
    return {
        "cpu": _machine.cpu_name(),
        "instruction_set": _library.instruction_set(),
        "threads": threads,
    }


def _print_machine(facts: dict[str, Any], seconds: float) -> None:
    text = (
        f"{facts['cpu']}, {facts['instruction_set']}, {output.count(facts['threads'], 'thread')}, "
        f"about {seconds:.0f} s"
    )
    print(output.wrapped(text), flush=True)
    if facts["busy"] > _BUSY:
        note = (
            f"note: other programs take {facts['busy']:.0%} of the processors' time; the figures "
            "will say little"
        )
        print(output.wrapped(note), flush=True)


def _of_networks(
    options: argparse.Namespace, tf: types.ModuleType, threads: int
) -> tuple[dict[str, Any], int]:
    cases = _cases(options)
    available = _machine.available_memory()
    for case in cases:
        if available is not None and case.nbytes > available:
            raise output.UserError(
                f"{case.title} would take about {output.size(case.nbytes)} of memory; "
                f"{output.size(available)} are there."
            )
    results: list[_Result] = []
    problems = []
    progress = output.Progress()
    for case in cases:
        runners = networks.runners(tf, networks.prepare(case, threads))
        problem = networks.disagreement(runners)
        if problem:
            problems.append(f"{case.title}: {problem}")
        sides = [runner.side for runner in runners]
        times = timing.measure(sides, options.seconds / len(cases), progress, case.title)
        rows = _rows([side.name for side in sides], times)
        results.append({"title": case.title, "rounds": times.rounds, "rows": rows})
        if not options.json:
            rounds = output.count(times.rounds, "round")
            print(f"\n{output.wrapped(f'{case.title} ({rounds})')}\n{_table(rows)}", flush=True)
    ratios = {
        pass_: _mean(
            [
                row[f"{pass_}_vs_keras"]
                for result in results
                for row in result["rows"]
                if row["name"] == networks.LAYERS
            ]
        )
        for pass_ in timing.PASSES
    }
    return _finish(options, results, problems, [], ratios)


def _of_model(options: argparse.Namespace, tf: types.ModuleType) -> tuple[dict[str, Any], int]:
    stock, ours = models.load(options.model)
    data = models.inputs(tf, ours, options.batch or 32, options.steps or 100)
    title = f"{options.model}, input {', '.join(str(list(x.shape)) for x in tf.nest.flatten(data))}"
    fixed = [
        f"--{name} {value} is not used, for the model's own input says how many."
        for name, value, is_open in zip(
            ("batch", "steps"),
            (options.batch, options.steps),
            models.leaves_open(tf, ours),
            strict=True,
        )
        if value and not is_open
    ]
    progress = output.Progress()
    try:
        keras_side, expected = models.side(tf, models.KERAS, stock, data)
        our_side, found = models.side(tf, models.OURS, ours, data)
        problem = models.disagreement(expected(), found())
        notes = fixed + models.fallbacks(ours)
        times = timing.measure([our_side, keras_side], options.seconds, progress, options.model)
    except (tf.errors.OpError, ValueError, TypeError) as error:
        raise output.UserError(
            "The model does not run on random data of its input's shape: "
            f"{tensorflow.reason(error)}"
        ) from error
    finally:
        progress.clear()
    rows = _rows([models.OURS, models.KERAS], times)
    if not options.json:
        rounds = output.count(times.rounds, "round")
        print(f"\n{output.wrapped(f'{title} ({rounds})')}\n{_table(rows)}", flush=True)
    ratios = {
        pass_: ratio
        for pass_ in timing.PASSES
        if (ratio := times.ratio(models.OURS, models.KERAS, pass_)) is not None
    }
    results: list[_Result] = [{"title": title, "rounds": times.rounds, "rows": rows}]
    # What falls back in training shows only once it has run.
    notes += [note for note in models.fallbacks(ours) if note not in notes]
    return _finish(options, results, [problem] if problem else [], notes, ratios)


def _finish(
    options: argparse.Namespace,
    results: list[_Result],
    problems: list[str],
    notes: list[str],
    ratios: dict[str, float],
) -> tuple[dict[str, Any], int]:
    """Prints what is behind the tables; returns the results, and the exit code."""
    sentence = _sentence(ratios)
    if not options.json:
        print()
        for note in notes:
            print(output.wrapped(f"note: {note}"))
        for problem in problems:
            print(output.wrapped(f"WRONG: {problem}. Please report this."))
        print(sentence)
    facts = {"results": results, "notes": notes, "problems": problems, "summary": sentence}
    return facts, output.FAILED if problems else output.GOOD


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences what is printed as a note, layers in Keras' loop, and advice on tf.function."""
    loggers = [logging.getLogger(name) for name in ("tf_cudnn_rnn", "tensorflow")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def run(options: argparse.Namespace) -> int:
    """Measures, and prints tables; returns the exit code."""
    network = ("mode", "layers", "units", "input_size", "bidirectional")
    given = [f"--{name.replace('_', '-')}" for name in network if getattr(options, name)]
    if options.model is not None and given:
        raise output.UserError(f"MODEL has a network of its own, without {', '.join(given)}.")
    if options.model is not None:
        models.check(options.model)  # before anything takes time
    most = _machine.num_cpus()
    if options.threads is not None and options.threads > most:  # TensorFlow would start them all
        raise output.UserError(
            f"--threads must be at most {most}, the processors of this process; got "
            f"{options.threads}."
        )
    tf, threads = _start(options)
    facts = _machine_facts(threads)
    facts["busy"] = round(_machine.busy_part(), 2)
    if not options.json:
        _print_machine(facts, options.seconds)
    try:
        with _quiet():
            if options.model is None:
                results, code = _of_networks(options, tf, threads)
            else:
                results, code = _of_model(options, tf)
    except tf.errors.OpError as error:
        raise output.UserError(f"TensorFlow says: {tensorflow.reason(error)}") from error
    if options.json:
        output.print_json({"machine": facts, **results})
    return code
