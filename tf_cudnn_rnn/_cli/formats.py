"""The files of weights that `convert` reads and writes."""

import argparse
import importlib.util
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli import needs, output, tensorflow
from tf_cudnn_rnn._files import choices, npz_files
from tf_cudnn_rnn._files.choices import Choices
from tf_cudnn_rnn._formats import (
    hdf5,
    keras_config,
    onnx_file,
    params_header,
    runtime_file,
    untrusted,
)
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Array
from tf_cudnn_rnn.weights import Canonical, Exported

_HEADER = params_header.NPZ_KEY
# The options that not every format has, by what they choose or change.
OPTIONS = {
    "rnn_mode": "--mode",
    "num_layers": "--layers",
    "num_units": "--units",
    "input_size": "--input-size",
    "direction": "--direction",
    "input_mode": "--input-mode",
    "num_proj": "--projection",
    "layer": "--layer",
    "prefix": "--prefix",
    "scope": "--scope",
    "to_prefix": "--to-prefix",
    "forget_bias": "--forget-bias",
    "without_bias": "--without-bias",
    "int8": "--int8",
}
FACE = choices.Face(
    names={"format": "--from", **OPTIONS},
    value=" {}",
    file="SRC",
    inspect="inspect",
    convert="",
    read="Convert",
)


def choices_of(options: argparse.Namespace) -> Choices:
    """What the options of a command say of the file to read."""
    return Choices(FACE, **{name: getattr(options, name) for name in choices.NAMES})


class Format(NamedTuple):
    """What of a format is the command's alone; readers.READERS has what reads it.

    Attributes:
      about: what it is, and what it needs, for the help.
      write: takes a path, the weights and the options, and returns notes; None if it is only read.
      endings: those that a file to write may have.
      write_options: of the options that not all formats have, those that `write` uses.
      max_bytes: of the weights, which a file can hold; None for any number.
    """

    about: str
    write: Callable[[str, Canonical, argparse.Namespace], tuple[str, ...]] | None = None
    endings: tuple[str, ...] = ()
    write_options: tuple[str, ...] = ()
    max_bytes: int | None = None


# ------------------------------------------------------------------------------------
# Writers
# ------------------------------------------------------------------------------------


def _header(canonical: Canonical) -> Array:
    return np.frombuffer(params_header.to_text(canonical.layout).encode(), np.uint8)


def _save_npz(path: str, arrays: Mapping[str, Array]) -> None:
    for array in arrays.values():
        if array.dtype.kind == "V":
            raise output.UserError(
                f"{array.dtype} cannot be kept in .npz files; .safetensors and .onnx can."
            )
    named: dict[str, Any] = dict(arrays)  # NumPy has keywords of other types, which no name is
    with open(path, "wb") as file:
        np.savez(file, **named)


def _write_params(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    vector, notes = weights.to_cudnn(canonical)
    _save_npz(path, {npz_files.VECTORS["params"]: vector, _HEADER: _header(canonical)})
    return notes


def _write_canonical(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    del options
    layout = params_header.resolved(canonical.layout)
    named = {str(name): array for name, array in canonical.named.items()}
    _save_npz(path, {**named, _HEADER: _header(Canonical(layout, canonical.named))})
    return ()


def _write_runtime(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    if not options.int8:
        runtime_file.write(path, canonical.params, canonical.layout)
        return ()
    runtime_file.write_int8(path, weights.quantize(canonical))
    return (
        "Each weight of a matrix was rounded to int8: by 1/254 of the largest one of its row, at "
        "most. Biases are of float32.",
    )


def check_options(options: argparse.Namespace) -> None:
    """Raises UserError if an option of a writer has a value that the format cannot have."""
    prefix = options.to_prefix
    if options.to == "torch" and prefix and not prefix.endswith("."):
        raise output.UserError(
            "--to-prefix must end with a dot for --to torch, as what precedes the names of a "
            f"module does; got {untrusted.shown(prefix)}."
        )


def _check_no_bias(canonical: Canonical) -> None:
    for name, array in canonical.named.items():
        if name.kind.endswith("_bias") and np.any(array != 0):
            raise output.UserError(
                f"--without-bias must be left out: {name} is not zero, and would be lost."
            )


def _write_torch(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    if options.without_bias:
        _check_no_bias(canonical)
    state, notes = weights.to_torch(
        canonical, prefix=options.to_prefix, bias=not options.without_bias
    )
    if path.endswith(".npz"):
        _save_npz(path, state)
    else:
        weights.write_safetensors(path, state, {"format": "pt"})
    return notes


def _write_keras(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    if options.without_bias:
        _check_no_bias(canonical)
    layers, notes = weights.to_keras(canonical, use_bias=not options.without_bias)
    dtype = canonical.dtype.name
    tensorflow.quiet()
    if importlib.util.find_spec(needs.KERAS) is None:
        raise ImportError("--to keras needs Keras 3, which is not installed.")
    try:
        import keras
    except ImportError as error:
        raise ImportError(
            "--to keras needs Keras 3, which cannot be imported here with the backend "
            f"{needs.keras_backend()}: {error}. Install what is missing, or name another backend "
            "in KERAS_BACKEND."
        ) from error
    layout = canonical.layout
    settings = {"dtype": dtype, "return_sequences": True, "use_bias": not options.without_bias}
    if layout.rnn_mode == "rnn_relu":
        settings["activation"] = "relu"
    model = keras.Sequential([keras.Input([None, layout.input_size], dtype=dtype)])
    cls = getattr(keras.layers, keras_config.LAYERS[layout.rnn_mode])
    # Zeros, since orthogonal matrices take long, and are not there in 16 bits.
    initializers = {"kernel_initializer": "zeros", "recurrent_initializer": "zeros"}
    for arrays in layers:
        layer = cls(layout.num_units, **settings, **initializers)
        if layout.direction == "bidirectional":
            layer = keras.layers.Bidirectional(layer, dtype=dtype)
        model.add(layer)
        layer.set_weights(arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what Keras calls in NumPy
        model.save(path)
    return notes


def _write_keras_cudnn(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    del options
    if importlib.util.find_spec("h5py") is None:
        raise ImportError("--to keras-cudnn needs h5py, which is not installed.")
    if canonical.dtype.name == "bfloat16":
        raise ValueError(
            "--to keras-cudnn must have weights of float16, float32 or float64; got bfloat16, "
            "which no layer of Keras 2 can read. Cast them first."
        )
    layers, notes = weights.to_keras_cudnn(canonical)
    class_name = keras_config.LEGACY_LAYERS[canonical.layout.rnn_mode]
    hdf5.write_layers(path, class_name, layers)
    return notes


def _write_onnx(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    check_size("onnx", canonical.layout.size * canonical.dtype.itemsize)
    nodes, notes = weights.to_onnx(canonical)
    content = onnx_file.model_bytes(nodes)
    with open(path, "wb") as file:
        file.write(content)
    return notes


def _write_mxnet(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    return _write_exported(path, npz_files.VECTORS["mxnet"], weights.to_mxnet(canonical))


def _write_cntk(path: str, canonical: Canonical, options: argparse.Namespace) -> tuple[str, ...]:
    del options
    return _write_exported(path, npz_files.VECTORS["cntk"], weights.to_cntk(canonical))


def _write_exported(path: str, name: str, exported: Exported) -> tuple[str, ...]:
    _save_npz(path, {name: exported.arrays})
    return exported.notes


def _write_tf1_cudnn(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    variables, notes = weights.to_tf1_cudnn(canonical, scope=options.to_prefix.rstrip("/"))
    _save_npz(path, variables)
    return notes


def _write_tf1_lstm_cell(
    path: str, canonical: Canonical, options: argparse.Namespace
) -> tuple[str, ...]:
    projects = canonical.layout.has_projection
    variables, notes = weights.to_tf1_lstm_cell(
        canonical,
        forget_bias=options.forget_bias,
        # The one that projects.
        cell_name="lstm_cell" if projects else "basic_lstm_cell",
        scope=options.to_prefix.rstrip("/"),
    )
    _save_npz(path, variables)
    return notes


def check_size(name: str, nbytes: int) -> None:
    """Raises UserError if a file of a format cannot hold weights of so many bytes."""
    max_bytes = FORMATS[name].max_bytes
    if max_bytes is not None and nbytes > max_bytes:
        raise output.UserError(
            f"The weights must have at most {output.size(max_bytes)} for --to {name}, as a "
            f"protocol buffer ends at 2 GiB; they have {output.size(nbytes)}. --to torch has no "
            "limit."
        )


_NPZ = (".npz",)
FORMATS = {
    "params": Format(
        "the ops' vector: an .npz with `params`, and a header that tells the network; without the "
        "header pass --mode --layers --units --input-size",
        write=_write_params,
        endings=_NPZ,
    ),
    "canonical": Format(
        "each gate's matrix and bias by name: an .npz with a header",
        write=_write_canonical,
        endings=_NPZ,
    ),
    "runtime": Format(
        "the same vector for tf_cudnn_rnn.runtime and for programs in C: .safetensors; --int8 "
        "writes one of int8 weights",
        write=_write_runtime,
        endings=(".safetensors",),
        write_options=("int8",),
    ),
    "torch": Format(
        "a state_dict of nn.LSTM, nn.GRU or nn.RNN: .safetensors, .npz or, read by PyTorch, .pt; "
        "nn.RNN needs --mode, several networks --prefix",
        write=_write_torch,
        endings=(".safetensors", ".npz"),
        write_options=("to_prefix", "without_bias"),
    ),
    "keras": Format(
        "LSTM, GRU, SimpleRNN, CudnnRNN: .keras, .weights.h5, .h5; several layers need --layer; "
        "written is a .keras model of stock layers, by Keras",
        write=_write_keras,
        endings=(".keras",),
        write_options=("without_bias",),
    ),
    "keras-cudnn": Format(
        "CuDNNLSTM and CuDNNGRU of Keras 2: .h5",
        write=_write_keras_cudnn,
        endings=(".h5",),
    ),
    "onnx": Format(
        "nodes LSTM, GRU and RNN, which must feed each other unless --layer chooses: .onnx",
        write=_write_onnx,
        endings=(".onnx",),
        # Names and sizes take some more.
        max_bytes=onnx_file.MAX_BYTES - (1 << 20),
    ),
    "mxnet": Format(
        "the fused operator RNN: an .npz with `parameters`; needs --mode --layers --units "
        "--input-size",
        write=_write_mxnet,
        endings=_NPZ,
    ),
    "cntk": Format(
        "OptimizedRNNStack: an .npz with `matrix`; needs the same",
        write=_write_cntk,
        endings=_NPZ,
    ),
    "tf1-cudnn": Format(
        "tf.contrib.cudnn_rnn: a checkpoint, or an .npz by its keys; simple RNNs need --mode",
        write=_write_tf1_cudnn,
        endings=_NPZ,
        write_options=("to_prefix",),
    ),
    "tf1-lstm-cell": Format(
        "BasicLSTMCell and its kind: likewise; see --forget-bias",
        write=_write_tf1_lstm_cell,
        endings=_NPZ,
        write_options=("forget_bias", "to_prefix"),
    ),
    "checkpoint": Format(
        "tf.train.Checkpoint, or a SavedModel, with layers CudnnRNN, or LSTM, GRU, SimpleRNN; "
        "several need --layer; is read only",
    ),
}


def describe(layout: Layout) -> str:
    """A network in words."""
    projected = f", projected to {layout.num_proj}" if layout.has_projection else ""
    return (
        f"{layout.rnn_mode}, {output.count(layout.num_layers, 'layer')}, input "
        f"{layout.input_size}, units {layout.num_units}{projected}, {layout.direction}, "
        f"{output.parameters(layout.size, 2)}"
    )
