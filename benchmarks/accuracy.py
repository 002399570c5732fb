"""How exact results in float32 are: this library's, Keras' and PyTorch's, beside float64.

    python -m benchmarks.accuracy                      all cases, all sides
    python -m benchmarks.accuracy --cases=gru_128_t32_b16 --sides=op,keras
    python -m benchmarks.accuracy --publish            at a commit without changes: also writes
                                                       docs/results/accuracy/<CPU>-<date>.csv and
                                                       the table of docs/accuracy.md

The truth is what the judge (tests/reference/judge.py) computes in float64 of the same inputs. The
error of a tensor is the root mean square of what it differs by, divided by that of the truth.
Exits with 1 if one of this library's is more than twice that of Keras, or is not finite, and if a
side of this library has none.
"""

import argparse
import datetime
import math
import sys

import numpy as np

from benchmarks import cases, drivers, options, peers
from benchmarks.cases import TRAINING, Case
from benchmarks.processes import Pool, Side, SideError
from benchmarks.results import accuracy as files
from benchmarks.results import rendering
from benchmarks.results.accuracy import Error
from benchmarks.results.files import ROOT
from tests.reference import judge

SIDES = (
    Side("op", "own_op"),
    Side("layer", "own_layer"),
    Side("keras", "keras_function"),
    Side("torch", "torch"),
)
OWN = tuple(side.name for side in SIDES if side.is_own)

# Times Keras' error, what is promised.
MOST = 2.0


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


def failures(errors: list[Error]) -> list[str]:
    """A sentence for each error of this library's that is larger than promised, or no number."""
    keras = {(error.case, error.tensor): error.value for error in errors if error.side == "keras"}
    found = []
    for error in errors:
        if error.side not in OWN:
            continue
        what = f"FAILED: {error.tensor} of {error.case}, {error.side}: the error must be"
        theirs = keras.get((error.case, error.tensor), math.inf)
        if not math.isfinite(error.value):
            found.append(f"{what} finite; it is {error.value}.")
        elif error.value > MOST * theirs:
            found.append(
                f"{what} at most {MOST:g} times Keras', {theirs:.2e}; it is {error.value:.2e}."
            )
    return found


def own_refusals(case: Case, refused: dict[str, str]) -> list[str]:
    """A sentence for each side of this library that has no errors; every side has all cases."""
    return [
        f"FAILED: {case.name}, {side}: there must be results; {reason}."
        for side, reason in refused.items()
        if side in OWN
    ]


def _names(option: str, known: dict):
    """Returns the type of an option that is a list of these names, of which "" stands for all."""

    def values(text: str) -> list:
        unknown = sorted(set(filter(None, text.split(","))) - set(known))
        if unknown:
            raise argparse.ArgumentTypeError(f"must be of {', '.join(known)}; got {unknown}")
        return [value for name, value in known.items() if not text or name in text.split(",")]

    values.__name__ = option
    return values


def main() -> int:
    """Measures, prints, and publishes if it is asked to. Returns the status to exit with."""
    # Needs the built library, which nothing else here does.
    from benchmarks import machine

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    known = {case.name: case for case in cases.accuracy_cases()}
    parser.add_argument(
        "--cases", type=_names("cases", known), default="", help=f"all, or of {', '.join(known)}"
    )
    known = {side.name: side for side in SIDES}
    parser.add_argument(
        "--sides", type=_names("sides", known), default="", help=f"all, or of {', '.join(known)}"
    )
    parser.add_argument("--threads", type=options.from_1, help="of every side; default all CPUs")
    parser.add_argument(
        "--publish", action="store_true", help="write docs/results/accuracy and docs/accuracy.md"
    )
    parser.add_argument("--cpu", help="for the file's name; default what the CPU calls itself")
    arguments = parser.parse_args()
    chosen, sides = arguments.cases, arguments.sides
    if arguments.publish and (len(chosen), len(sides)) != (len(cases.accuracy_cases()), len(SIDES)):
        parser.error("--publish: takes all cases and sides; got --cases or --sides, too")
    threads = arguments.threads or machine.num_cpus()
    commit = machine.commit()
    preamble = machine.stamp(threads, []) | {"commit": commit}
    if arguments.publish:
        rendering.check_publish_option(parser, files, commit, preamble, arguments.cpu)
    if any(drivers.DRIVERS[side.driver].environment == drivers.PEERS for side in sides):
        peers.ensure()
    now = datetime.datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    found: list[Error] = []
    failed: list[str] = []
    notes: dict[str, None] = {}
    with Pool(threads, ROOT / "runs" / "bench" / f"accuracy-{now}.logs") as pool:
        for case in chosen:
            errors, refused = measure(pool, case, sides)
            found += errors
            failed += own_refusals(case, refused)
            for line in lines(errors):
                print(line, flush=True)
            for side, reason in refused.items():
                print(f"{case.name:<32}{side}: {reason}", flush=True)
                notes[f"{side} of {case.name}: {reason}"] = None
    failed += failures(found)
    print(*failed, sep="\n", end="\n" if failed else "")
    if arguments.publish and not failed:
        print(rendering.publish(files, preamble, list(notes), found, arguments.cpu))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
