"""Reads the formats that are arrays in an .npz file and, but for canonical ones, tell little."""

import re
from collections.abc import Mapping

from tf_cudnn_rnn._files import chosen
from tf_cudnn_rnn._files.choices import Choices, Mistake
from tf_cudnn_rnn._files.kinds import Kind
from tf_cudnn_rnn._formats import canonical as base
from tf_cudnn_rnn._formats import npz, params_header, untrusted, vectors
from tf_cudnn_rnn._formats.canonical import Canonical
from tf_cudnn_rnn._layout import Layout, ParamName
from tf_cudnn_rnn._types import Array

HEADER = params_header.NPZ_KEY
# The array that is all weights of a network, by the format.
VECTORS = {"params": "params", "mxnet": "parameters", "cntk": "matrix"}


def _npz(kind: Kind, path: str, name: str, choices: Choices) -> dict[str, Array]:
    chosen.check_kind(kind, (Kind.NPZ,), name, choices)
    return npz.read_npz(path)


def _array(arrays: Mapping[str, Array], name: str, path: str) -> Array:
    if name not in arrays:
        found = base.listed(arrays) or "nothing"
        raise Mistake(f"{path} must hold an array {name}; it holds {found}.")
    return arrays[name]


def _header_of(arrays: dict[str, Array], path: str) -> Layout:
    layout, _ = params_header.from_text(arrays[HEADER].tobytes(), f"{HEADER} in {path}")
    return layout


def read_params(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads the vector of the ops."""
    arrays = _npz(kind, path, "params", choices)
    vector = _array(arrays, VECTORS["params"], path)
    if HEADER in arrays:
        layout = _header_of(arrays, path)
        with untrusted.named(path):
            return vectors.of_layout(vector, layout)
    arguments = chosen.vector_arguments(choices) | {
        "input_mode": choices.input_mode or "linear_input",
        "num_proj": choices.num_proj or 0,
    }
    with untrusted.named(path):
        return vectors.from_cudnn(vector, **arguments)


def read_canonical(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads the weights by their canonical names."""
    arrays = _npz(kind, path, "canonical", choices)
    if HEADER not in arrays:
        raise Mistake(
            f"{path} must hold a {HEADER}, as {choices.face.convert}--to canonical writes it."
        )
    layout = _header_of(arrays, path)
    named = {}
    for name, array in arrays.items():
        if name != HEADER:
            named[_param_name(name, path)] = array
    with untrusted.named(path):
        if layout.num_regions > len(named):
            raise ValueError(f"It must hold all of the {layout.num_regions} weights of {layout}.")
        return Canonical(layout, named)


def _param_name(text: str, path: str) -> ParamName:
    """The inverse of ParamName.__str__."""
    layer, *rest = text.split("/")
    number = layer.removeprefix("layer_")
    if len(rest) in (2, 3) and re.fullmatch(base.INDEX, number):
        direction, *gate, kind = rest
        name = ParamName(int(number), direction, gate[0] if gate else "", kind)
        if str(name) == text:
            return name
    raise ValueError(
        f"{path} must hold weights by names such as layer_0/forward/input/input_kernel; it holds "
        f"{untrusted.shown(text)}."
    )


def read_mxnet(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads the vector of MXNet."""
    vector = _array(_npz(kind, path, "mxnet", choices), VECTORS["mxnet"], path)
    arguments = chosen.vector_arguments(choices)
    with untrusted.named(path):
        return vectors.from_mxnet(vector, **arguments, num_proj=choices.num_proj or 0)


def read_cntk(kind: Kind, path: str, choices: Choices) -> Canonical:
    """Reads the matrix of CNTK."""
    matrix = _array(_npz(kind, path, "cntk", choices), VECTORS["cntk"], path)
    arguments = chosen.vector_arguments(choices)
    with untrusted.named(path):
        return vectors.from_cntk(matrix, **arguments)


def measure(kind: Kind, path: str, choices: Choices) -> int:
    """The bytes of all arrays; 0 if the file is none of .npz."""
    del choices
    if kind is not Kind.NPZ:
        return 0
    return sum(header.nbytes for header in npz.read_npz_headers(path).values())
