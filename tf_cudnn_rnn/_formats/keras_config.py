"""What the config of a recurrent layer of Keras tells that its weights do not.

A layer is what a model's config has of it: an object with its class_name and its config. Files
may come from anybody, and a config has what its writer liked.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tf_cudnn_rnn._formats import untrusted
from tf_cudnn_rnn._types import RnnMode

LAYERS = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "SimpleRNN", "rnn_relu": "SimpleRNN"}
LEGACY_LAYERS = {"lstm": "CuDNNLSTM", "gru": "CuDNNGRU"}
_CELLS = {"LSTMCell": "LSTM", "GRUCell": "GRU", "SimpleRNNCell": "SimpleRNN"}
_WRAPPER = "Bidirectional"
# What this library's layers are registered with; `.h5` files put it before their names.
PACKAGE = "tf_cudnn_rnn>"
NO_RESET_AFTER = "reset_after must be True; a GRU without it is another network"


def class_of(layer: Any) -> str:
    """The class that a layer names; of a drop-in, that of its parent; "" if it names none."""
    name = layer.get("class_name") if isinstance(layer, dict) else None
    return name.removeprefix(PACKAGE) if isinstance(name, str) else ""


def config_of(layer: Any) -> dict[str, Any]:
    """The config of a layer; empty if it has none."""
    config = layer.get("config") if isinstance(layer, dict) else None
    return config if isinstance(config, dict) else {}


def bare(class_name: str) -> str:
    """LSTM of both LSTM and Bidirectional(LSTM)."""
    return class_name.removeprefix(f"{_WRAPPER}(").removesuffix(")")


def is_wrapped(class_name: str) -> bool:
    """Whether it is one of a layer in Bidirectional."""
    return class_name.startswith(f"{_WRAPPER}(")


def is_legacy(class_name: str, arrays: list[Any]) -> bool:
    """Whether a layer is CuDNNLSTM or CuDNNGRU, which its bias tells where no class is told."""
    if class_name:
        return "CuDNN" in class_name
    shapes = [tuple(array.shape) for array in arrays]
    return len(shapes) in (3, 6) and all(
        _are_legacy(*shapes[first : first + 3]) for first in range(0, len(shapes), 3)
    )


def _are_legacy(kernel: tuple[int, ...], recurrent: tuple[int, ...], bias: tuple[int, ...]) -> bool:
    """Whether arrays of such shapes are CuDNNLSTM's or CuDNNGRU's, whose bias is twice as long."""
    if len(kernel) != 2 or len(recurrent) != 2 or not recurrent[0]:
        return False
    gates, columns = recurrent[1] / recurrent[0], recurrent[1]
    return gates in (3, 4) and kernel[1] == columns and bias == (2 * columns,)


def inner_of(layer: Any) -> Any:
    """The forward layer of one in Bidirectional, and any other itself."""
    return config_of(layer).get("layer") if class_of(layer) == _WRAPPER else layer


def names_legacy(layer: Any) -> bool:
    """Whether a layer names CuDNNLSTM or CuDNNGRU, in Bidirectional or not."""
    return class_of(inner_of(layer)) in LEGACY_LAYERS.values()


def cell_obstacle(class_name: str, config: Mapping[str, Any]) -> str | None:
    """What makes an LSTM, GRU or SimpleRNN another cell than cuDNN's, if anything."""
    activation, recurrent = config.get("activation"), config.get("recurrent_activation")
    allowed = ("tanh", "relu") if class_name == "SimpleRNN" else ("tanh",)
    if activation not in allowed:
        return f"activation must be {' or '.join(allowed)}; it is {untrusted.shown(activation)}"
    if class_name != "SimpleRNN" and recurrent != "sigmoid":
        return f"recurrent_activation must be sigmoid; it is {untrusted.shown(recurrent)}"
    if class_name == "GRU" and config.get("reset_after") is not True:
        return NO_RESET_AFTER
    return None


def network_obstacle(layer: Any) -> str | None:
    """What makes a layer another network than cuDNN's with the same weights, if anything.

    That is another cell, another order of time, or halves that are not laid side by side. Of a
    class that is not Keras' own nothing is known.
    """
    if class_of(layer) != _WRAPPER:
        return _way_obstacle(layer, goes_backwards=False)
    config = config_of(layer)
    merge_mode = config.get("merge_mode", "concat")
    if merge_mode != "concat":
        return f"merge_mode must be concat; it is {untrusted.shown(merge_mode)}"
    forward, backward = config.get("layer"), config.get("backward_layer")
    if reason := _way_obstacle(forward, goes_backwards=False):
        return f"of its forward layer {reason}"
    if backward is not None:
        if _kind_of(backward) != _kind_of(forward):
            return "its backward layer must have the class and activation of its forward layer"
        if reason := _way_obstacle(backward, goes_backwards=True):
            return f"of its backward layer {reason}"
    return None


def weights_are_of_use(obstacle: str) -> bool:
    """Whether cuDNN's network could have the weights of a layer with such an obstacle."""
    return not obstacle.endswith(NO_RESET_AFTER)


def _kind_of(layer: Any) -> tuple[str, Any]:
    return class_of(layer), config_of(layer).get("activation")


def _way_obstacle(layer: Any, goes_backwards: bool) -> str | None:
    class_name, config = class_of(layer), config_of(layer)
    if class_name.startswith("ConvLSTM"):
        return f"{class_name} has a cell of its own"
    if class_name == "RNN":
        cell = class_of(config.get("cell"))
        if cell not in _CELLS:
            return f"its cell must be {', '.join(_CELLS)}; it is {untrusted.shown(cell)}"
        if reason := cell_obstacle(_CELLS[cell], config_of(config["cell"])):
            return reason
    elif class_name in LAYERS.values():
        if reason := cell_obstacle(class_name, config):
            return reason
    elif class_name not in LEGACY_LAYERS.values():
        return None
    value = config.get("go_backwards", False)
    if value is not goes_backwards:
        return f"go_backwards must be {goes_backwards}; it is {untrusted.shown(value)}"
    return None


def simple_modes(layers: Iterable[Any], without: Iterable[Any] = ()) -> set[RnnMode]:
    """The modes of the simple RNNs in layers or models, at any depth, by their activations.

    Args:
      layers: their configs.
      without: configs in these that are left out.
    """
    modes: dict[Any, RnnMode] = {"tanh": "rnn_tanh", "relu": "rnn_relu"}
    left_out = {id(config) for config in without}
    activations = (config.get("activation") for config in _simple_configs(layers, left_out))
    return {modes[each] for each in activations if isinstance(each, str) and each in modes}


def _simple_configs(layers: Iterable[Any], left_out: set[int]) -> Iterator[dict[str, Any]]:
    left = [*layers]
    while left:
        value = left.pop()
        if isinstance(value, list):
            left += value
        elif isinstance(value, dict) and id(value) not in left_out:
            left += value.values()
            if class_of(value) in ("SimpleRNN", "SimpleRNNCell"):
                yield config_of(value)
