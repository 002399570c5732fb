"""How exact results in float32 are: this library's, Keras' and PyTorch's, beside float64.

    python -m benchmarks.accuracy                      all cases, all sides
    python -m benchmarks.accuracy --cases=gru_128_t32_b16 --sides=op,keras
    python -m benchmarks.accuracy --publish            at a commit without changes: also writes
                                                       docs/results/accuracy/<CPU>-<date>.csv and
                                                       the table of docs/accuracy.md

The truth is what the judge (tests/reference/judge.py) computes in float64 of the same inputs. The
error of a tensor is the root mean square of what it differs by, divided by that of the truth.
"""

import datetime
import pathlib
import re

import numpy as np
from absl import app, flags

from benchmarks import cases, drivers, peers
from benchmarks.cases import TRAINING, Case
from benchmarks.processes import Pool, Side, SideError
from benchmarks.results import accuracy as files
from benchmarks.results.accuracy import Error
from tests.reference import judge

SIDES = (
    Side("op", "own_op"),
    Side("layer", "own_layer"),
    Side("keras", "keras_function"),
    Side("torch", "torch"),
)

_CASES = flags.DEFINE_list("cases", None, "names of cases.accuracy_cases(); default all")
_SIDES = flags.DEFINE_list("sides", None, "of op, layer, keras, torch; default all there are")
_THREADS = flags.DEFINE_integer("threads", None, "of every side; default all CPUs", lower_bound=1)
_PUBLISH = flags.DEFINE_bool("publish", False, "write docs/results/accuracy and docs/accuracy.md")
_CPU = flags.DEFINE_string("cpu", None, "for the file's name; default what the CPU calls itself")


def truth(case: Case) -> dict[str, np.ndarray]:
    """The judge's results, named as the drivers name theirs; float64."""
    arrays = cases.arrays_of(case)
    config = judge.Config(
        case.rnn_mode,
        case.num_layers,
        case.num_units,
        case.input_size,
        case.direction,
        num_proj=case.num_proj,
    )
    forward = judge.forward(config, arrays.x, arrays.h0, arrays.c0, arrays.params, arrays.lengths)
    none = (np.zeros_like(forward.h_n), np.zeros_like(forward.c_n))
    gradients = judge.backward(config, forward.tape, arrays.dy, *none)
    of_weights = cases.weight_gradients(cases.canonical_of(case, gradients.dparams))
    return {"y": forward.y, "dx": gradients.dx, "dh0": gradients.dh0, **of_weights}


def relative_error(found: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square of the difference, divided by that of `expected`."""
    if found.shape != expected.shape:
        raise ValueError(f"must have shape {expected.shape}; got {found.shape}.")
    difference = found.astype(np.float64) - expected
    return float(np.sqrt(np.mean(difference**2) / np.mean(expected**2)))


def measure(pool: Pool, case: Case, sides) -> tuple[list[Error], dict[str, str]]:
    """The errors of a training step, and why a side has none, by its name."""
    refused = pool.start(sides)
    alive = [side for side in sides if side.name not in refused]
    refused |= pool.build(alive, case, TRAINING)
    expected = truth(case)
    found = []
    for side in sides:
        if side.name in refused:
            continue
        try:
            results = pool.arrays(side)
        except SideError as error:
            refused[side.name] = str(error)
            continue
        for tensor in files.TENSORS:
            value = relative_error(results[tensor], expected[tensor])
            found.append(Error(case.name, side.name, tensor, value))
    pool.drop([side for side in sides if side.name not in refused])
    return found, refused


def lines(errors: list[Error]) -> list[str]:
    """Those of one case, a line a tensor; behind an error how many times as large the op's is."""
    by_tensor: dict[str, dict[str, float]] = {}
    for error in errors:
        by_tensor.setdefault(error.tensor, {})[error.side] = error.value
    found = []
    for tensor, by_side in by_tensor.items():
        cells = []
        for side, value in by_side.items():
            has_ratio = side != "op" and "op" in by_side
            ratio = f" ({by_side['op'] / value:.2f}x)" if has_ratio else ""
            cells.append(f"{side} {value:.2e}{ratio}")
        found.append(f"{errors[0].case:<32}{tensor:<4} {', '.join(cells)}")
    return found


def _chosen(option: str, names: list[str] | None, known: dict) -> list:
    """The values of these names, in their order; all if there are no names."""
    unknown = sorted(set(names or ()) - set(known))
    if unknown:
        raise app.UsageError(f"--{option}: must be of {', '.join(known)}; got {unknown}")
    return [value for name, value in known.items() if not names or name in names]


def main(argv: list[str]) -> None:
    """Measures, prints, and publishes if it is asked to."""
    if len(argv) > 1:
        raise app.UsageError(f"unknown arguments {argv[1:]}")
    # Needs the built library, which nothing else here does.
    from benchmarks import machine

    chosen = _chosen("cases", _CASES.value, {c.name: c for c in cases.accuracy_cases()})
    sides = _chosen("sides", _SIDES.value, {side.name: side for side in SIDES})
    commit = machine.commit()
    if _PUBLISH.value and not re.fullmatch("[0-9a-f]+", commit):
        raise app.UsageError(f"--publish: there must be a commit without changes; got {commit!r}")
    if any(drivers.DRIVERS[side.driver].environment == drivers.PEERS for side in sides):
        peers.ensure()
    threads = _THREADS.value or machine.num_cpus()
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    found: list[Error] = []
    notes: dict[str, None] = {}
    with Pool(threads, files.ROOT / "runs" / "bench" / f"accuracy-{now}.logs") as pool:
        for case in chosen:
            errors, refused = measure(pool, case, sides)
            found += errors
            for line in lines(errors):
                print(line, flush=True)
            for side, reason in refused.items():
                print(f"{case.name:<32}{side}: {reason}", flush=True)
                notes[f"{side} of {case.name}: {reason}"] = None
    if _PUBLISH.value:
        preamble = machine.stamp(threads, []) | {"commit": commit}
        print(publish(preamble, list(notes), found, _CPU.value))


def publish(
    preamble: dict[str, str], notes: list[str], errors: list[Error], cpu: str | None
) -> pathlib.Path:
    """Writes the file and the page; returns the file's path."""
    from benchmarks.results.rendering import render
    from benchmarks.results.runs import slug

    date = preamble["date"].split()[0]
    kept = {key: preamble[key] for key in files.PREAMBLE if preamble.get(key)} | {"date": date}
    path = files.folder(files.ROOT) / f"{cpu or slug(preamble['cpu'])}-{date}.csv"
    files.write(files.File(path, kept, notes, errors))
    render()
    return path


if __name__ == "__main__":
    app.run(main)
