"""Whether all sides compute the same: outputs and gradients on small cases, beside the op's."""

import numpy as np

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.processes import Pool, Side, SideError
from benchmarks.records import UNSUPPORTED

# Of the largest value. All sides compute in float32, in another order each.
TOLERANCE = 1e-4
_EQUAL = "equal"


def check_cases() -> list[Case]:
    """Small cases of all kinds: modes, layers, directions, projection, padding; no dropout."""
    full = [
        Case("lstm", (), "lstm", 1, 1, 17, 0, 5, 6, 4, 0.0),
        Case("gru", (), "gru", 1, 1, 16, 0, 24, 6, 3, 0.0),
        Case("tanh", (), "rnn_tanh", 1, 1, 9, 0, 9, 6, 2, 0.0),
        Case("relu", (), "rnn_relu", 1, 1, 9, 0, 3, 6, 2, 0.0),
        Case("lstm_stack", (), "lstm", 2, 1, 8, 0, 5, 4, 3, 0.0),
        Case("gru_both_ways", (), "gru", 2, 2, 8, 0, 5, 4, 3, 0.0),
        Case("lstm_both_ways", (), "lstm", 1, 2, 8, 0, 5, 4, 3, 0.0),
        Case("lstm_projection", (), "lstm", 1, 1, 12, 5, 7, 5, 3, 0.0),
        Case("one_step", (), "lstm", 2, 1, 11, 0, 7, 1, 3, 0.0),
    ]
    names = ("lstm", "gru_both_ways", "lstm_projection")
    return full + [case.ragged() for case in full if case.name in names]


def differences(own: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> list[str]:
    """What differs between two sides' results; empty if nothing does."""
    found = []
    for name in sorted(other):
        if own[name].shape != other[name].shape:
            found.append(f"{name} has shape {other[name].shape}, the op's {own[name].shape}")
            continue
        error = np.max(np.abs(own[name] - other[name]), initial=0)
        largest = max(1.0, np.max(np.abs(own[name]), initial=0))
        if not error <= TOLERANCE * largest:
            found.append(f"{name} differs from the op's by {error:.2g}")
    if not other:
        found.append("there are no results")
    return found


def outcomes(pool: Pool, keys: list[str], some_cases: list[Case]):
    """Yields (driver, case, pass, outcome, whether it failed); equal results are "equal".

    A side that lacks what a case needs has not failed.
    """
    own = Side("own", "own_op")
    for case in some_cases:
        for pass_ in cases.PASSES:
            sides = [own, *(Side(key, key) for key in keys if key != own.driver)]
            errors = pool.start(sides)
            alive = [side for side in sides if side.name not in errors]
            errors |= pool.build(alive, case, pass_)
            if own.name in errors:
                raise SideError(f"the op itself: {errors[own.name]}")
            expected = pool.arrays(own)
            for side in sides[1:]:
                if side.name in errors:
                    outcome = errors[side.name]
                else:
                    try:
                        found = differences(expected, pool.arrays(side))
                        outcome = "; ".join(found) or _EQUAL
                    except SideError as error:
                        outcome = str(error)
                failed = outcome != _EQUAL and not outcome.startswith(UNSUPPORTED)
                yield side.driver, case, pass_, outcome, failed


def report(pool: Pool, keys: list[str], some_cases: list[Case] | None = None) -> int:
    """Prints what was found of these drivers; returns 1 if one failed, else 0."""
    status = 0
    for key, case, pass_, outcome, failed in outcomes(pool, keys, some_cases or check_cases()):
        print(f"{case.name:<24}{pass_:<11}{key:<20}{outcome}", flush=True)
        status |= failed
    return int(status)
