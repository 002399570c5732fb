"""The program; benchmarks/results/__init__.py tells what it does."""

import pathlib
import sys

from benchmarks import results
from benchmarks.results.files import ROOT
from benchmarks.results.rendering import render
from benchmarks.results.runs import add, measure


def main(arguments: list[str]) -> None:
    """Does what the command line says."""
    # None is the name of a CPU: `measure --help` must not measure for an hour.
    if any(argument.startswith("-") for argument in arguments):
        sys.exit(results.__doc__)
    try:
        match arguments:
            case ["render"]:
                for path in render():
                    print(path.relative_to(ROOT))
            case ["add", *names] if names:
                paths = [pathlib.Path(name) for name in names if name.endswith(".csv")]
                cpus = [name for name in names if not name.endswith(".csv")]
                if not paths or len(cpus) > 1:
                    sys.exit(results.__doc__)
                print(add(paths, *(cpus or [None])))
            case ["measure"]:
                print(measure(None))
            case ["measure", cpu]:
                print(measure(cpu))
            case _:
                sys.exit(results.__doc__)
    except (OSError, ValueError) as error:
        sys.exit(f"benchmarks.results: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
