"""The judge's networks as the library names them."""

from tests.reference import judge
from tf_cudnn_rnn import weights


def layout_of(config: judge.Config) -> weights.Layout:
    return weights.Layout(
        config.rnn_mode,
        config.num_layers,
        config.num_units,
        config.input_size,
        config.direction,
        config.input_mode,
        config.num_proj,
    )
