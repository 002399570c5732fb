"""Lets the tests import the modules of examples/ as its programs do."""

import sys

from tests.distribution.workers import EXAMPLES

sys.path.insert(0, str(EXAMPLES))
