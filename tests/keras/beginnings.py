"""Keras' names and seeds as in a new process.

keras.utils.clear_session and set_random_seed have TensorFlow forget the kernels of all eager ops,
which it then makes again: that takes longer than most tests.
"""

import random

from keras.src.utils import naming


def reset_names() -> None:
    """Automatic names are counted from the first again, those of seed generators, too."""
    naming.reset_uids()


def seed(number: int) -> None:
    """What Keras' initialisers and seed generators draw: their seeds come from Python's generator.

    NumPy's and TensorFlow's own generators are left as they are.
    """
    random.seed(number)
