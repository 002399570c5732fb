"""Few cases in which every two option values meet: a pairwise covering array."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence

Case = dict[str, object]


def pairs_of(case: Case) -> set[tuple]:
    """Every two (option, value) of `case`."""
    return set(itertools.combinations(sorted(case.items(), key=lambda item: item[0]), 2))


def all_pairs(options: dict[str, tuple]) -> Iterator[Case]:
    """Every two values of two options."""
    for one, two in itertools.combinations(options, 2):
        for a, b in itertools.product(options[one], options[two]):
            yield {one: a, two: b}


def covering_array(
    options: dict[str, tuple],
    allowed: Callable[[Case], bool],
    applies: Callable[[Case, str], bool] = lambda case, option: True,
    covered: Sequence[Case] = (),
) -> list[Case]:
    """Returns cases that hold every two values that can stand together.

    Greedy and deterministic: each case starts from a pair that is missing yet and takes, option
    by option, the value that adds most pairs; the first of those that add equally many.

    Args:
      options: the values of each option, the usual one first.
      allowed: whether a case, possibly incomplete, may be. It must not paint itself into a
        corner: an allowed case has an allowed value of every other option.
      applies: whether a case has this option, given its values of the first two.
      covered: cases whose pairs need not be covered again.
    """
    rng = random.Random(1)
    first, second, *others = options

    missing: dict[tuple, list[Case]] = {}  # and how a case with the pair can start
    for a, b in itertools.product(options[first], options[second]):
        start = {first: a, second: b}
        present = sorted([first, second, *(name for name in others if applies(start, name))])
        for one, two in itertools.combinations(present, 2):
            for pair in itertools.product(
                [(one, value) for value in options[one]], [(two, value) for value in options[two]]
            ):
                case = start | dict(pair)
                if case.items() >= start.items() and allowed(case):
                    missing.setdefault(pair, []).append(case)
    for case in covered:
        for pair in pairs_of(case):
            missing.pop(pair, None)

    def gain(case: Case, name: str, value: object) -> int:
        item = (name, value)
        return sum(
            ((item, other) if name < other[0] else (other, item)) in missing
            for other in case.items()
        )

    def complete(case: Case) -> Case:
        names = [name for name in others if name not in case and applies(case, name)]
        for name in rng.sample(names, len(names)):
            choices = [value for value in options[name] if allowed(case | {name: value})]
            case[name] = max(choices, key=lambda value, name=name: gain(case, name, value))
        return case

    cases = []
    while missing:
        tries = []
        for pair in rng.sample(sorted(missing, key=repr), min(len(missing), 10)):
            tries.append(complete(dict(rng.choice(missing[pair]))))
        best = max(tries, key=lambda case: len(pairs_of(case) & missing.keys()))
        for pair in pairs_of(best):
            missing.pop(pair, None)
        cases.append(best)
    return cases
