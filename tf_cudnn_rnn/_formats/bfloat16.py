"""The type bfloat16, which NumPy has from a package that may be missing."""

from typing import Any

import numpy as np


def dtype(where: str) -> np.dtype[Any]:
    """bfloat16 of ml_dtypes.

    Args:
      where: what is of that type, for the message.

    Raises:
      ImportError: there is no ml_dtypes.
    """
    try:
        import ml_dtypes
    except ImportError as error:
        raise ImportError(
            f"{where} is of type bfloat16, which needs ml_dtypes: run `pip install ml_dtypes`."
        ) from error
    return np.dtype(ml_dtypes.bfloat16)
