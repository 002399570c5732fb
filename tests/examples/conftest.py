"""Lets the tests import the modules of examples/ as its programs do."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "examples"))
