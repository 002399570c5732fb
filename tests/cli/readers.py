"""What reads a file, for processes that may lack TensorFlow."""

from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli.main import main


def load(path) -> None:
    """Reads the only layer; ValueError if it is refused."""
    weights.load(path)


def inspect(path) -> None:
    """Shows what is in a file; ValueError if it is refused."""
    if main(["inspect", str(path)]) == 2:
        raise ValueError(f"{path.parent}, as stderr says")
