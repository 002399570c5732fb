"""What numbers on the command line of the examples have to be."""

import argparse
import math

MAX_SEED = 2**32 - 1  # NumPy's


def check(
    parser: argparse.ArgumentParser,
    options: argparse.Namespace,
    positive: tuple[str, ...] = (),
    **least: int,
) -> None:
    """Ends the program with a message if an option is out of range; `seed` is always checked.

    Args:
      parser: of the options.
      options: parsed ones.
      positive: names of those that must be more than 0, and finite.
      least: the least value of each other option.
    """
    for name, value in least.items():
        got = getattr(options, name)
        if got < value:
            parser.error(f"--{name} must be at least {value}; got {got}")
    for name in positive:
        got = getattr(options, name)
        if not 0 < got < math.inf:
            parser.error(f"--{name} must be more than 0, and finite; got {got}")
    seed = getattr(options, "seed", 0)
    if not 0 <= seed <= MAX_SEED:
        parser.error(f"--seed must be from 0 to {MAX_SEED}; got {seed}")
