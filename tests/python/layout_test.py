"""The parts of `params` by layer, against the layout's regions."""

import pytest

from tf_cudnn_rnn._layout import DIRECTIONS, Layout, split_by_layer


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("num_layers", [1, 2, 4])
@pytest.mark.parametrize(
    ("rnn_mode", "input_mode", "num_proj"),
    [
        ("lstm", "linear_input", 0),
        ("lstm", "linear_input", 2),
        ("lstm", "auto_select", 5),
        ("gru", "linear_input", 0),
        ("gru", "skip_input", 0),
        ("rnn_tanh", "auto_select", 0),
    ],
)
def test_split_by_layer(rnn_mode, input_mode, num_proj, num_layers, direction):
    def layout_of(num_layers):
        input_size = 3 if input_mode == "linear_input" else 5
        return Layout(rnn_mode, num_layers, 5, input_size, direction, input_mode, num_proj)

    layout = layout_of(num_layers)
    split = split_by_layer(rnn_mode, direction, 5, lambda L: layout_of(L).size)
    of_layers = [split.first_weights, *[split.upper_weights] * (num_layers - 1)]
    parts = [(layer, "weights", size) for layer, size in enumerate(of_layers)]
    parts += [(layer, "biases", split.layer_biases) for layer in range(num_layers)]
    offset = 0
    for layer, kind, size in parts:
        regions = [region for region in getattr(layout, kind) if region.name.layer == layer]
        assert min(region.offset for region in regions) == offset
        assert sum(region.size for region in regions) == size
        offset += size
    assert offset == layout.size
