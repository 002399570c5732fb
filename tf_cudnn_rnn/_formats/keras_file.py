"""Models in Keras 3's files: what a `.keras` file says, and whose the arrays are.

Nothing is built of it: a config is JSON, and weights are arrays in HDF5.
"""

import contextlib
import functools
import os
import pathlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn._formats import hdf5, keras_config, params_header, untrusted
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Array, Direction

_CONFIG = "config.json"
_WEIGHTS = "model.weights.h5"
_PIECE = 1 << 20
_MAX_PACKED = 1 << 18  # bytes of JSON, besides those of the file
_MAX_ALL_HEADERS = 1 << 20  # bytes; one has some 300
_HEADER = "header"
# Of the names of a config's layers. Each layer in a model has the path of that model in its own.
_MAX_NAME = 1000
_MAX_LAYERS = 20_000
_MAX_PATHS = 4 << 20  # characters of all paths together
_CELL = re.compile(
    r"(?P<layer>.+?)(?:/(?P<way>forward_layer|backward_layer))?(?P<cell>/cell)?"
    r"/vars/(?P<index>[^/]+)"
)
# Of variables of layers in a cell, such as one that normalises. What only draws numbers is none.
_IN_CELL = re.compile(
    r"(?P<layer>.+?)(?:/(?:forward|backward)_layer)?/cell/(?!vars/|seed_generator/).+"
)
_NETWORK = re.compile(r"(?P<layer>.+)/vars/(?P<name>header|layer_\d{1,9}/.+)")


def _pieces(path: str, name: str) -> Iterator[bytes]:
    """The bytes of a member of a zip file."""
    with untrusted.opened(path) as (file, size):
        archive = untrusted.open_zip(file, size, path)
        if name not in archive.namelist():
            raise ValueError(f"{path} is no .keras file: it has no {name}.")
        with contextlib.ExitStack() as stack:
            where = f"{name} in {path}"
            with untrusted.read_by("zipfile", where):
                member = stack.enter_context(archive.open(name))
            while True:
                with untrusted.read_by("zipfile", where):
                    piece = member.read(_PIECE)
                if not piece:
                    return
                yield piece


def _read_json(path: str, name: str, most: int) -> Any:
    """Reads JSON of at most so many bytes."""
    content = bytearray()
    for piece in _pieces(path, name):
        content += piece
        if len(content) > most:
            raise ValueError(
                f"{name} in {path} must unpack to at most {most} bytes of JSON; it has more. If "
                "it is to be trusted, write the file without compression."
            )
        if len(content) > untrusted.MAX_JSON_BYTES:
            break  # which load_json refuses
    return untrusted.load_json(bytes(content), f"{name} in {path}")


def read_config(path: str | os.PathLike[str]) -> Any:
    """Returns the config of the model in a `.keras` file.

    Raises:
      OSError: it cannot be opened.
      ValueError: it is no such file, or is damaged.
    """
    path = os.fspath(path)
    # Keras does not pack it; and a few bytes could unpack to what takes much memory.
    return _read_json(path, _CONFIG, untrusted.stored_bytes(path) + _MAX_PACKED)


@contextlib.contextmanager
def _weights_of(path: str) -> Iterator[tuple[str, str | None]]:
    """The HDF5 file of a model: yields its path, and that of the archive that it is packed in."""
    with untrusted.opened(path) as (file, _):
        is_packed = file.read(2) == b"PK"
    if not is_packed:
        yield path, None
        return
    with tempfile.TemporaryDirectory() as folder:
        unpacked = pathlib.Path(folder) / _WEIGHTS
        with open(unpacked, "wb") as file:
            file.writelines(_pieces(path, _WEIGHTS))
        try:
            yield str(unpacked), path
        except ValueError as error:
            text = str(error).replace(str(unpacked), f"{_WEIGHTS} in {path}")
            raise ValueError(text) from error


def read_arrays(
    path: str | os.PathLike[str], names: Sequence[str] | None = None
) -> dict[str, Array]:
    """Returns the arrays of a `.keras` or `.weights.h5` file, by their paths in it.

    Args:
      path: of the file.
      names: of those to read; None for all.

    Raises:
      ImportError: h5py is missing.
      OSError: it cannot be opened.
      ValueError: it is no such file, or is damaged.
    """
    with _weights_of(os.fspath(path)) as (weights, archive):
        return hdf5.read_arrays(weights, names, archive)


def read_array_headers(path: str | os.PathLike[str]) -> dict[str, untrusted.ArrayHeader]:
    """Reads what `read_arrays` would, but for the arrays: their types and shapes."""
    with _weights_of(os.fspath(path)) as (weights, archive):
        return hdf5.read_array_headers(weights, archive)


class Named(NamedTuple):
    """A layer that a config names.

    Attributes:
      path: where the arrays are in the file, as Keras counts: by class, in the order of layers.
      config: of the layer, as the model's config has it.
    """

    path: str
    config: dict[str, Any]


def named_layers(config: Any) -> list[tuple[str, Named]]:
    """The names of the layers in a model's config, and of those in its models, with their places.

    Models of classes that are not Keras' own may keep layers elsewhere, and have none here.

    Raises:
      ValueError: the names are longer than anybody's; the text does not name the file.
    """
    found = []
    left = _MAX_PATHS
    for name, layer in _named_layers(config, "layers"):
        left -= len(layer.path)
        if left < 0:
            raise ValueError(
                f"The paths of its layers must have at most {_MAX_PATHS} characters together; "
                f"they have more up to {untrusted.shown(name)}."
            )
        if isinstance(name, str):
            found.append((name, layer))
        if len(found) > _MAX_LAYERS:
            raise ValueError(f"A model must have at most {_MAX_LAYERS} layers with names.")
    return found


def _named_layers(config: Any, path: str) -> Iterator[tuple[Any, Named]]:
    inner = config.get("config") if isinstance(config, dict) else None
    entries = inner.get("layers") if isinstance(inner, dict) else None
    counts: dict[str, int] = {}
    for entry in entries if isinstance(entries, list) else []:
        class_name = entry.get("class_name") if isinstance(entry, dict) else None
        if not isinstance(class_name, str) or not isinstance(entry.get("config"), dict):
            continue
        if len(class_name) > _MAX_NAME:
            raise ValueError(
                f"The name of a layer's class must have at most {_MAX_NAME} characters; "
                f"{untrusted.shown(class_name)} has {len(class_name)}."
            )
        base_name = _snake_case(class_name)
        number = counts.get(base_name, 0)
        counts[base_name] = number + 1
        place = f"{path}/{base_name}{f'_{number}' if number else ''}"
        yield entry["config"].get("name"), Named(place, entry)
        inner_layer = entry["config"].get("layer")
        if class_name != "Bidirectional" and isinstance(inner_layer, dict):  # TimeDistributed
            name = keras_config.config_of(inner_layer).get("name")
            yield name, Named(f"{place}/layer", inner_layer)
            yield from _named_layers(inner_layer, f"{place}/layer/layers")
        yield from _named_layers(entry, f"{place}/layers")


@functools.lru_cache(maxsize=256)
def _snake_case(name: str) -> str:
    """As Keras writes names of classes."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


class Layer(NamedTuple):
    """The arrays of a layer LSTM, GRU or SimpleRNN, CuDNNLSTM or CuDNNGRU, or of Bidirectional.

    Attributes:
      direction: "bidirectional" or "unidirectional".
      arrays: in the order of `layer.get_weights()`.
    """

    direction: Direction
    arrays: list[Any]


def layers(arrays: Mapping[str, Any]) -> dict[str, Layer]:
    """The recurrent layers of Keras among the arrays of a file, or their headers, by path.

    Those whose cells have further variables are other networks, and are left out.
    """
    # Those of Keras 2 that are for cuDNN have no cell, as a layer of any other kind has none.
    parts: dict[tuple[str, bool], dict[str, dict[str, Any]]] = {}
    others = set()
    for name, array in arrays.items():
        if match := _IN_CELL.fullmatch(name):
            others.add(match["layer"])
        if match := _CELL.fullmatch(name):
            ways = parts.setdefault((match["layer"], match["cell"] is None), {})
            ways.setdefault(match["way"] or "", {})[match["index"]] = array
    found = {}
    for (path, is_legacy), ways in parts.items():
        both = ("forward_layer", "backward_layer")
        if set(ways) not in ({""}, set(both)) or (path in others and not is_legacy):
            continue
        order = both if len(ways) == 2 else ("",)
        if all(set(ways[way]) in ({*"01"}, {*"012"}) for way in order):
            direction: Direction = "bidirectional" if len(ways) == 2 else "unidirectional"
            values = [ways[way][index] for way in order for index in sorted(ways[way])]
            if not is_legacy or keras_config.is_legacy("", values):
                found[path] = Layer(direction, values)
    return found


def networks(arrays: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The layers tf_cudnn_rnn.keras.CudnnRNN among the arrays of a file, by path.

    Their arrays go by the names in docs/guide/weights.md, of which "header" tells the network.

    Raises:
      ValueError: the headers are long.
    """
    found: dict[str, dict[str, Any]] = {}
    for name, array in arrays.items():
        if match := _NETWORK.fullmatch(name):
            found.setdefault(match["layer"], {})[match["name"]] = array
    found = {path: named for path, named in found.items() if _HEADER in named}
    nbytes = sum(named[_HEADER].nbytes for named in found.values())
    if nbytes > _MAX_ALL_HEADERS:
        raise ValueError(
            f"The headers of all CudnnRNN layers must have at most {_MAX_ALL_HEADERS} bytes; they "
            f"have {nbytes}."
        )
    return found


def header_names(paths: Iterable[str]) -> list[str]:
    """The names of the arrays that tell of `networks`, by paths, what `layout_of` needs."""
    return [f"{path}/vars/{_HEADER}" for path in paths]


def names_of(path: str, names: Iterable[str]) -> list[str]:
    """Those of a file's arrays that are of a layer or network, by its path."""
    return [name for name in names if name.startswith(f"{path}/")]


def layout_of(network: Mapping[str, Any], where: str) -> Layout:
    """The network that one of `networks` is; ValueError if its header is damaged."""
    header = network[_HEADER]
    if header.dtype != "uint8" or header.nbytes > params_header.MAX_BYTES:
        raise ValueError(f"{where} must have a header of at most {params_header.MAX_BYTES} bytes.")
    return params_header.from_text(header.tobytes(), where)[0]


def params_of(network: Mapping[str, Any], where: str) -> tuple[Layout, Array]:
    """The network that one of `networks` is, and its `params` [N].

    Raises:
      ValueError: the header is damaged, or arrays are missing or have other shapes.
    """
    layout = layout_of(network, where)
    parts = []
    # More groups than arrays would be as many as the header says.
    if layout.num_layers > len(network):
        raise ValueError(f"{where} must have the arrays of {layout}; it has {len(network)}.")
    for group in params_header.groups(layout):
        if not group.size:
            continue
        array = network.get(str(group.name))
        if array is None or array.shape != group.shape:
            found = "missing" if array is None else f"of shape {list(array.shape)}"
            raise ValueError(
                f"{where} must have {group.name} of shape {list(group.shape)}; it is {found}."
            )
        parts.append(array.ravel())
    return layout, np.concatenate(parts)
