"""What is refused, and what the messages say: which array, what it must be, what it is."""

import json
import re
import tracemalloc

import h5py
import numpy as np
import pytest

from tf_cudnn_rnn import weights
from tf_cudnn_rnn.weights import Layout, OnnxNode


def zeros(*shape: int, dtype=np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def refused(message: str, error=ValueError):
    """Expects `error` with exactly this text somewhere in it."""
    return pytest.raises(error, match=re.escape(message))


def canonical(*fields, **options) -> weights.Canonical:
    layout = Layout(*fields, **options)
    named = {region.name: zeros(*region.shape) + 1 for region in layout.regions}
    return weights.Canonical(layout, named)


# ------------------------------------------------------------------------------------
# Options that all share
# ------------------------------------------------------------------------------------

READERS = {
    "from_keras": lambda mode, **o: weights.from_keras([], mode, **o),
    "from_keras_cudnn": lambda mode, **o: weights.from_keras_cudnn([], mode, **o),
    "from_torch": lambda mode, **o: weights.from_torch({}, mode, **o),
    "from_mxnet": lambda mode, **o: weights.from_mxnet(zeros(1), mode, 1, 1, 1, **o),
    "from_cntk": lambda mode, **o: weights.from_cntk(zeros(1), mode, 1, 1, 1, **o),
    "from_cudnn": lambda mode, **o: weights.from_cudnn(zeros(1), mode, 1, 1, 1, **o),
    "from_tf1_cudnn": lambda mode, **o: weights.from_tf1_cudnn({}, mode, **o),
}
WRITERS = [
    weights.to_cudnn,
    weights.to_keras,
    weights.to_keras_cudnn,
    weights.to_torch,
    weights.to_onnx,
    weights.to_mxnet,
    weights.to_cntk,
    weights.to_tf1_cudnn,
    weights.to_tf1_lstm_cell,
]


@pytest.mark.parametrize("name", READERS)
def test_unknown_modes(name):
    with refused("`rnn_mode` must be one of rnn_relu, rnn_tanh, lstm, gru; got 'rnn'."):
        READERS[name]("rnn")


@pytest.mark.parametrize(
    "name", ["from_keras", "from_keras_cudnn", "from_mxnet", "from_cntk", "from_cudnn"]
)
def test_unknown_directions(name):
    with refused("`direction` must be one of unidirectional, bidirectional; got 'both'."):
        READERS[name]("lstm", direction="both")


def test_unknown_contents():
    message = "`of` must be one of weights, gradients; got 'moments'."
    for read in (
        lambda **o: weights.from_keras([zeros(3, 8), zeros(2, 8), zeros(8)], "lstm", **o),
        lambda **o: weights.from_cudnn(zeros(56), "lstm", 1, 2, 3, **o),
        lambda **o: weights.from_torch({}, "lstm", **o),
        lambda **o: weights.from_onnx([], **o),
        lambda **o: weights.from_tf1_cudnn({}, "lstm", **o),
        lambda **o: weights.from_tf1_lstm_cell({}, **o),
    ):
        with refused(message):
            read(of="moments")


@pytest.mark.parametrize("write", WRITERS)
def test_what_is_not_canonical(write):
    with refused("`canonical` must be a weights.Canonical; got ndarray.", TypeError):
        write(zeros(4))


@pytest.mark.parametrize(
    ("write", "text"),
    [
        (weights.to_keras, "Keras cannot hold `num_proj` = 2 of Layout("),
        (weights.to_keras_cudnn, "no layer of Keras projects. PyTorch and MXNet do."),
        (weights.to_onnx, "ONNX cannot hold `num_proj` = 2 of Layout("),
        (weights.to_cntk, "there is no [hiddenDims, n] view of it"),
        (weights.to_tf1_lstm_cell, "only LSTMCell projects, `cell_name` lstm_cell."),
    ],
)
def test_projections_that_a_format_cannot_hold(write, text):
    with refused(text):
        write(canonical("lstm", 1, 4, 3, num_proj=2))


def test_biases_that_would_be_lost():
    one = canonical("lstm", 2, 4, 3)
    with refused("`use_bias` must be True: layer 0 has biases other than zero"):
        weights.to_keras(one, use_bias=False)
    with refused("`bias` must be True: layer 0 has biases other than zero"):
        weights.to_torch(one, bias=False)


def test_a_prefix_of_torch_ends_with_a_dot():
    with refused("`prefix` must end with a dot, as what precedes the names of a module does; got "):
        weights.to_torch(canonical("gru", 1, 4, 3), prefix="encoder.rnn")


def test_modes_that_a_format_cannot_hold():
    with refused("`rnn_mode` must be lstm or gru, got rnn_tanh: Keras 2 had CuDNNLSTM"):
        weights.to_keras_cudnn(canonical("rnn_tanh", 1, 4, 3))
    with refused("TensorFlow 1's LSTM cells cannot hold Layout(rnn_mode='gru'"):
        weights.to_tf1_lstm_cell(canonical("gru", 1, 4, 3))
    with refused("`cell_name` must be one of basic_lstm_cell, lstm_cell, lstm_fused_cell; got"):
        weights.to_tf1_lstm_cell(canonical("lstm", 1, 4, 3), cell_name="gru_cell")


@pytest.mark.parametrize("read", [weights.from_keras, weights.from_keras_cudnn])
def test_layers_instead_of_their_arrays(read):
    class GRU:
        def get_weights(self):
            return [zeros(3, 6), zeros(2, 6), zeros(2, 6)]

    message = "`layers` must hold the arrays of layers; got a GRU itself. Pass its get_weights()."
    for layers in (GRU(), [GRU(), GRU()], (GRU().get_weights(), GRU())):
        with refused(message, TypeError):
            read(layers, "gru")


def test_arrays_that_are_no_weights():
    integers = [zeros(3, 8, dtype=np.int32), zeros(2, 8, dtype=np.int32)]
    with refused("The arrays must have a floating-point dtype; got int32."):
        weights.from_keras(integers, "lstm")
    mixed = [zeros(3, 8), zeros(2, 8, dtype=np.float64), zeros(8)]
    message = "All arrays must have one dtype; got float32 (`bias`), float64 (`recurrent_kernel`)."
    with refused(message):
        weights.from_keras(mixed, "lstm")


def test_canonicals_of_integers():
    named = {
        name: array.astype(np.int32) for name, array in canonical("lstm", 1, 4, 3).named.items()
    }
    with refused("The arrays must have a floating-point dtype; got int32."):
        weights.Canonical(Layout("lstm", 1, 4, 3), named)


def test_canonical_checks_what_it_is_made_of():
    one = canonical("lstm", 1, 4, 3)
    first = next(iter(one.named))
    with refused("layer_0/forward/input/input_kernel must have shape [4, 3] in Layout("):
        weights.Canonical(one.layout, {**one.named, first: zeros(3, 4)})
    with refused("missing layer_0/forward/input/input_kernel."):
        weights.Canonical(one.layout, list(one.named.items())[1:])
    with refused("All arrays in `named` must have one dtype; got float32, float64."):
        weights.Canonical(one.layout, {**one.named, first: zeros(4, 3, dtype=np.float64)})


# ------------------------------------------------------------------------------------
# Vectors
# ------------------------------------------------------------------------------------


def test_vectors_of_the_wrong_size():
    with refused("`params` must have shape [56], cuDNN's weight space of Layout(rnn_mode='lstm'"):
        weights.from_cudnn(zeros(55), "lstm", 1, 2, 3)
    with refused("got [55]."):
        weights.from_cudnn(zeros(55), "lstm", 1, 2, 3)
    with refused("`parameters` must have shape [56], MXNet's fused vector of Layout("):
        weights.from_mxnet(zeros(28, 2), "lstm", 1, 2, 3)
    with refused("`num_proj` must differ from `num_units`, got 2 for both: MXNet would project"):
        weights.from_mxnet(zeros(56), "lstm", 1, 2, 3, num_proj=2)
    message = (
        "`matrix` must have shape [n, hiddenDims] = [28, 2], or [hiddenDims, n] as CNTK itself "
        "calls it, for the 56 weights of Layout("
    )
    for shape in ((56,), (7, 8), (27, 2)):
        with refused(message):
            weights.from_cntk(zeros(*shape), "lstm", 1, 2, 3)


# ------------------------------------------------------------------------------------
# Keras
# ------------------------------------------------------------------------------------


def keras_layer(G: int, I: int, H: int, *bias: int) -> list[np.ndarray]:
    return [zeros(I, G * H), zeros(H, G * H), zeros(*(bias or (G * H,)))]


@pytest.mark.parametrize(
    ("layers", "mode", "direction", "message"),
    [
        (keras_layer(3, 5, 2, 2, 6), "lstm", 1, "got [2, 6]. 3 gates make a GRU."),
        (keras_layer(4, 5, 2), "gru", 1, "[H, 3H] for `rnn_mode` gru; got [2, 8]. 4 gates make an"),
        (keras_layer(1, 5, 2), "lstm", 1, "got [2, 2]. 1 gates make a simple RNN."),
        (
            [zeros(8, 5), zeros(8, 2), zeros(8)],
            "lstm",
            1,
            "`recurrent_kernel` must have shape [H, 4H] for `rnn_mode` lstm; got [8, 2]. "
            "That is the transpose of an LSTM's.",
        ),
        (
            [zeros(8, 5), zeros(2, 8), zeros(8)],
            "lstm",
            1,
            "`kernel` must have shape [I, 4H] = [8, 8]; got [8, 5].",
        ),
        (
            [zeros(5), zeros(2, 8), zeros(8)],
            "lstm",
            1,
            "`kernel` must have shape [I, 4H] = [any, 8]; got [5].",
        ),
        (
            keras_layer(4, 5, 2, 16),
            "lstm",
            1,
            "`bias` must have shape [4H] = [8]; got [16]. CuDNNLSTM has such a bias: use "
            "from_keras_cudnn.",
        ),
        (keras_layer(3, 5, 2, 12), "gru", 1, "got [12]. CuDNNGRU has such a bias"),
        (
            keras_layer(3, 5, 2, 6),
            "gru",
            1,
            "`bias` must have shape [2, 3H] = [2, 6]; got [6]. It is that of a GRU with "
            "reset_after=False",
        ),
        (keras_layer(4, 5, 2)[:1], "lstm", 1, "must hold 3 or 2 arrays, kernel, recurrent_kernel"),
        ([], "lstm", 1, "`layers`[0] must hold 3 or 2 arrays"),
        (
            keras_layer(4, 5, 2) * 2,
            "lstm",
            1,
            "got 6. Bidirectional layers have 4 or 6: pass `direction`='bidirectional'.",
        ),
        (
            keras_layer(4, 5, 2),
            "lstm",
            2,
            "must hold 6 or 4 arrays, kernel, recurrent_kernel and, if any, bias of either "
            "direction; got 3. An unidirectional layer has 2 or 3.",
        ),
        (
            keras_layer(4, 5, 2) + keras_layer(4, 6, 2),
            "lstm",
            2,
            "`backward kernel` must have shape [I, 4H] = [5, 8]; got [6, 8].",
        ),
        (
            [keras_layer(4, 5, 2), keras_layer(4, 5, 2)],
            "lstm",
            1,
            "`layers[1] kernel` must have shape [H, 4H] = [2, 8]; got [5, 8].",
        ),
        (
            [keras_layer(4, 5, 2) * 2, keras_layer(4, 2, 2) * 2],
            "lstm",
            2,
            "`layers[1] forward kernel` must have shape [2H, 4H] = [4, 8]; got [2, 8].",
        ),
        (
            [keras_layer(4, 5, 2), keras_layer(4, 2, 3)],
            "lstm",
            1,
            "All `layers` must have the same number of units, as cuDNN's networks have; layers[0] "
            "has 2, layers[1] has 3. Read each of them alone.",
        ),
    ],
)
def test_keras(layers, mode, direction, message):
    direction = ("unidirectional", "bidirectional")[direction - 1]
    with refused(message):
        weights.from_keras(layers, mode, direction=direction)


def test_keras_cudnn():
    with refused("`bias` must have shape [8H] = [16]; got [8]. LSTM has such a bias"):
        weights.from_keras_cudnn(keras_layer(4, 5, 2), "lstm")
    with refused("`bias` must have shape [6H] = [12]; got [2, 6]. GRU has such a bias"):
        weights.from_keras_cudnn(keras_layer(3, 5, 2, 2, 6), "gru")
    with refused("`bias` must have shape [6H] = [12]; got [6]. It is that of a GRU with reset_aft"):
        weights.from_keras_cudnn(keras_layer(3, 5, 2, 6), "gru")
    with refused("`layers`[0] must hold 3 arrays, kernel, recurrent_kernel and bias; got 2."):
        weights.from_keras_cudnn(keras_layer(4, 5, 2)[:2], "lstm")
    with refused("`rnn_mode` must be lstm or gru, got rnn_relu"):
        weights.from_keras_cudnn(keras_layer(1, 5, 2), "rnn_relu")


def test_keras_files(tmp_path):
    path = tmp_path / "model.h5"
    path.write_bytes(b"PK\x03\x04")
    with refused(f"{path} is no HDF5 file."):
        weights.read_keras_h5(path)
    with h5py.File(path, "w") as file:
        file.create_dataset("layers/lstm/cell/vars/0", data=zeros(3, 8))
    with refused("must be an .h5 file of Keras 2, with `layer_names`; found layers. Keras 3 reads"):
        weights.read_keras_h5(path)


# ------------------------------------------------------------------------------------
# PyTorch
# ------------------------------------------------------------------------------------


def torch_state(G: int, I: int, H: int, P: int = 0, L: int = 1, D: int = 1, prefix="") -> dict:
    state = {}
    for layer in range(L):
        for suffix in ("", "_reverse")[:D]:
            columns = I if layer == 0 else D * (P or H)
            state[f"{prefix}weight_ih_l{layer}{suffix}"] = zeros(G * H, columns)
            state[f"{prefix}weight_hh_l{layer}{suffix}"] = zeros(G * H, P or H)
            state[f"{prefix}bias_ih_l{layer}{suffix}"] = zeros(G * H)
            state[f"{prefix}bias_hh_l{layer}{suffix}"] = zeros(G * H)
            if P:
                state[f"{prefix}weight_hr_l{layer}{suffix}"] = zeros(P, H)
    return state


def without(state: dict, *keys: str) -> dict:
    return {key: value for key, value in state.items() if key not in keys}


@pytest.mark.parametrize(
    ("state", "mode", "prefix", "message"),
    [
        (
            {},
            "lstm",
            None,
            "`state` must hold weight_ih_l0 and its kind; found no RNN but nothing.",
        ),
        (
            {"fc.weight": zeros(2, 2)},
            "lstm",
            None,
            "`state` must hold weight_ih_l0 and its kind; found no RNN but fc.weight.",
        ),
        (
            torch_state(4, 3, 2, prefix="a.") | torch_state(4, 3, 2, prefix="b."),
            "lstm",
            None,
            "`prefix` must say which RNN to read; there are 'a.', 'b.'.",
        ),
        (
            torch_state(4, 3, 2, prefix="a."),
            "lstm",
            "a",
            "`state` must hold aweight_ih_l0 and its kind; found RNNs at 'a.'. Pass `prefix` as it "
            "stands there.",
        ),
        (
            torch_state(4, 3, 2),
            "lstm",
            "a.",
            "must hold a.weight_ih_l0 and its kind; found weight_ih_l0. Leave `prefix` out.",
        ),
        (
            torch_state(3, 3, 2),
            "lstm",
            None,
            "`weight_hh_l0` must have shape [4H, H] for `rnn_mode` lstm; got [6, 2]. 3 gates make "
            "a GRU.",
        ),
        (
            torch_state(4, 3, 2) | {"weight_ih_l0": zeros(6, 3)},
            "lstm",
            None,
            "`weight_ih_l0` must have shape [4H, I]; got [6, 3].",
        ),
        (
            torch_state(3, 3, 4),
            "lstm",
            None,
            "`weight_hh_l0` must have shape [4H, H] for `rnn_mode` lstm; got [12, 4]. 3 gates make "
            "a GRU.",
        ),
        (
            torch_state(4, 3, 3),
            "gru",
            None,
            "must have shape [3H, H] for `rnn_mode` gru; got [12, 3]. 4 gates make an LSTM.",
        ),
        (
            torch_state(4, 3, 2) | {"weight_hh_l0": zeros(2, 8)},
            "lstm",
            None,
            "got [2, 8]. That is the transpose of an LSTM's.",
        ),
        (
            torch_state(4, 3, 2, L=2, D=2) | {"weight_ih_l1_reverse": zeros(8, 2)},
            "lstm",
            None,
            "`weight_ih_l1_reverse` must have shape [4H, 2P] = [8, 4]; got [8, 2].",
        ),
        (
            without(torch_state(4, 3, 2, L=2, D=2), "weight_hh_l1_reverse", "bias_ih_l0"),
            "lstm",
            None,
            "of each of 2 layers and 2 directions; missing bias_ih_l0, weight_hh_l1_reverse.",
        ),
        (
            without(torch_state(4, 3, 2, L=3), "weight_ih_l1"),
            "lstm",
            None,
            "missing weight_ih_l1.",
        ),
        (
            torch_state(3, 3, 4) | {"weight_hr_l0": zeros(2, 4)},
            "gru",
            None,
            "Only an LSTM projects; got weight_hr for `rnn_mode` gru.",
        ),
        (
            torch_state(4, 3, 4, P=2) | {"weight_hr_l0": zeros(4, 4)},
            "lstm",
            None,
            "`weight_hr_l0` must have shape [P, H] with H = 4 and P less; got [4, 4].",
        ),
        (
            torch_state(4, 3, 4, P=2) | {"weight_hh_l0": zeros(16, 4)},
            "lstm",
            None,
            "`weight_hh_l0` must have shape [4H, P] = [16, 2]; got [16, 4].",
        ),
        (
            torch_state(4, 3, 2) | {"bias_hh_l0": zeros(16)},
            "lstm",
            None,
            "`bias_hh_l0` must have shape [4H] = [8]; got [16].",
        ),
    ],
)
def test_torch(state, mode, prefix, message):
    with refused(message):
        weights.from_torch(state, mode, prefix=prefix)


def test_torch_files(tmp_path):
    for name in ("model.bin", "model.npz"):
        path = tmp_path / name
        path.write_bytes(b"\x80\x02}q\x00.")
        with refused(f"{path} must be a .safetensors, an .npz, or a .pt or .pth file. If torch"):
            weights.from_torch(path, "lstm")
    with refused("`state` must be a mapping or a path; got list.", TypeError):
        weights.from_torch([], "lstm")


def safetensors_bytes(header, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


ENTRY = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "its first 8 bytes must tell the size of a header within its 0 bytes"),
        (b"\x01" * 20, "within its 20 bytes; they say 72340172838076673."),
        (safetensors_bytes(b"{]"), "its header is no JSON."),
        (safetensors_bytes(b"\xff\xfe"), "its header is no JSON."),
        (safetensors_bytes([1]), "its header is no JSON object."),
        (safetensors_bytes({"a": 3}), "must give dtype, shape and data_offsets of a; it says 3."),
        (safetensors_bytes({"a": {**ENTRY, "shape": [-2]}}), "data_offsets of a; it says {"),
        (safetensors_bytes({"a": {**ENTRY, "shape": [True]}}), "data_offsets of a; it says {"),
        (safetensors_bytes({"a": {**ENTRY, "data_offsets": [0]}}), "data_offsets of a; it says {"),
        (
            safetensors_bytes({"a": {**ENTRY, "dtype": "F8_E4M3"}}, b"\0" * 8),
            "must have one of the types F64, F32, F16",
        ),
        (
            safetensors_bytes({"a": ENTRY}, b"\0" * 7),
            "must lie in 8 bytes from byte 0 of 7; its offsets are 0 and 8.",
        ),
        (
            safetensors_bytes({"a": {**ENTRY, "data_offsets": [0, 4]}}, b"\0" * 8),
            "must lie in 8 bytes from byte 0 of 8; its offsets are 0 and 4.",
        ),
        (
            safetensors_bytes({"a": ENTRY, "b": {**ENTRY, "data_offsets": [4, 12]}}, b"\0" * 12),
            "must lie in 8 bytes from byte 8 of 12; its offsets are 4 and 12.",
        ),
        (
            safetensors_bytes({"a": ENTRY}, b"\0" * 9),
            "must end with its last array, at byte 8 of its data; it has 9.",
        ),
    ],
)
def test_damaged_safetensors(content, message, tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with refused(message):
        weights.read_safetensors(path)


def test_a_type_that_numpy_lacks_is_in_nobodys_way(tmp_path):
    path = tmp_path / "model.safetensors"
    arrays = weights.to_torch(canonical("lstm", 1, 4, 3)).arrays
    weights.write_safetensors(path, arrays)
    size = int.from_bytes(path.read_bytes()[:8], "little")
    header, data = json.loads(path.read_bytes()[8:][:size]), path.read_bytes()[8 + size :]
    for name, dtype, count in (("a.scale", "F8_E4M3", 6), ("b.scale", "F4", 3)):
        offsets = [len(data), len(data) + count]
        header[name] = {"dtype": dtype, "shape": [6], "data_offsets": offsets}
        data += bytes(count)
    path.write_bytes(safetensors_bytes(header, data))
    for network in (weights.load(path), weights.from_torch(path, "lstm")):
        assert network.layout == Layout("lstm", 1, 4, 3)
    with refused("a.scale in "):
        weights.read_safetensors(path)
    for entry in header.values():
        entry["dtype"] = "F8_E4M3" if entry["dtype"] == "F32" else entry["dtype"]
    path.write_bytes(safetensors_bytes(header, data))
    with refused("got F8_E4M3."):
        weights.load(path, rnn_mode="lstm")


def test_writing_safetensors_copies_nothing(tmp_path):
    array = np.ones([2**22], np.float32)
    tracemalloc.start()
    weights.write_safetensors(tmp_path / "model.safetensors", {"a": array, "b": array[::2]})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.6 * array.nbytes  # of `b`, whose elements are apart


def test_safetensors_hold_arrays_of_any_shape(tmp_path):
    arrays = {
        "none": zeros(0, 3),
        "scalar": np.array(2.5, np.float64),
        "transposed": np.arange(6, dtype=np.int16).reshape(2, 3).T,
        "big-endian": np.arange(3, dtype=">f4"),
        "ö": np.array([True, False]),
    }
    path = tmp_path / "a.safetensors"
    weights.write_safetensors(path, arrays)
    again = weights.read_safetensors(path)
    assert again.keys() == arrays.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(again[name], array)
        assert again[name].dtype == array.dtype.newbyteorder("<")
        again[name][...] = 0  # writable
    with refused("`arrays`['c'] must be of a type that safetensors files hold"):
        weights.write_safetensors(path, {"c": np.zeros(2, np.complex64)})
    exported = weights.Exported(arrays, ())
    with pytest.raises(TypeError, match="`arrays` must be a dict .*; got Exported. .* `arrays`"):
        weights.write_safetensors(path, exported)


# ------------------------------------------------------------------------------------
# ONNX
# ------------------------------------------------------------------------------------


def onnx_node(op_type="LSTM", G=4, I=3, H=2, D=1, **attributes) -> OnnxNode:
    if D == 2:
        attributes["direction"] = "bidirectional"
    if op_type == "GRU":
        attributes.setdefault("linear_before_reset", 1)
    return OnnxNode(
        op_type, attributes, zeros(D, G * H, I), zeros(D, G * H, H), zeros(D, 2 * G * H)
    )


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "`nodes` must hold at least one node; got none."),
        ([onnx_node("Gemm")], "`nodes`[0] must be an LSTM, GRU or RNN; got op_type 'Gemm'."),
        (
            [onnx_node(), onnx_node(direction="reverse")],
            "`nodes`[1] must have direction forward or bidirectional; got reverse. Read it as",
        ),
        (
            [onnx_node("GRU", 3, linear_before_reset=0)],
            "`nodes`[0] must have linear_before_reset = 1; got 0, the default, which resets before",
        ),
        (
            [onnx_node("GRU", 3)._replace(attributes={})],
            "`nodes`[0] must have linear_before_reset = 1; got 0, the default, which resets before",
        ),
        (
            [onnx_node(activations=["HardSigmoid", "Tanh", "Tanh"])],
            "must have the activations of cuDNN's LSTM, the default ones (or Relu for RNN); got "
            "hardsigmoid, tanh, tanh.",
        ),
        (
            [onnx_node("RNN", 1, D=2, activations=["Relu", "Tanh"])],
            "got relu, tanh.",
        ),
        ([onnx_node(input_forget=1)], "`nodes`[0] must have input_forget = 0; got 1."),
        ([onnx_node(clip=3.0)], "`nodes`[0] must not clip; got clip = 3.0."),
        (
            [onnx_node()._replace(P=zeros(1, 6) + 1)],
            "`nodes`[0] must have no peepholes P, or zeros; cuDNN's LSTM has none.",
        ),
        (
            [onnx_node(), onnx_node("GRU", 3)],
            "All `nodes` must have the same kind and activations; got lstm, gru.",
        ),
        (
            [onnx_node(), onnx_node(D=2)],
            "All `nodes` must have the same direction; got forward, bidirectional.",
        ),
        ([onnx_node(hidden_size=3)], "`nodes`[0] must have hidden_size 2; got 3."),
        (
            [onnx_node(G=3)],
            "`nodes[0].R` must have shape [1, 4H, H] for `rnn_mode` lstm; got [1, 6, 2]. 3 gates "
            "make a GRU.",
        ),
        (
            [onnx_node(), onnx_node(I=3)],
            "`nodes[1].W` must have shape [D, 4H, H] = [1, 8, 2]; got [1, 8, 3].",
        ),
        (
            [onnx_node()._replace(W=zeros(8, 3))],
            "`nodes[0].W` must have shape [D, 4H, I] = [1, 8, any]; got [8, 3].",
        ),
        (
            [onnx_node()._replace(B=zeros(1, 8))],
            "`nodes[0].B` must have shape [D, 8H] = [1, 16]; got [1, 8].",
        ),
        (
            [onnx_node(D=2)._replace(W=zeros(1, 8, 3))],
            "`nodes[0].W` must have shape [D, 4H, I] = [2, 8, 3]; got [1, 8, 3].",
        ),
    ],
)
def test_onnx(nodes, message):
    with refused(message):
        weights.from_onnx(nodes)


def test_onnx_defaults():
    """Attributes left out, biases left out, peepholes of zeros, activations in any case."""
    plain = onnx_node()._replace(B=None, P=zeros(1, 6))
    read = weights.from_onnx(plain)
    assert read.layout.rnn_mode == "lstm"
    assert read.notes == ("There are no biases; they were taken to be zero.",)
    relu = onnx_node("RNN", 1, D=2, activations=[b"RELU", b"Relu"])
    assert weights.from_onnx(relu).layout.rnn_mode == "rnn_relu"
    assert weights.from_onnx(onnx_node("RNN", 1)).layout.rnn_mode == "rnn_tanh"


# ------------------------------------------------------------------------------------
# TensorFlow 1
# ------------------------------------------------------------------------------------

CELL = "rnn/multi_rnn_cell/cell_{}/cudnn_compatible_lstm_cell/"


def tf1_lstm(L=2, I=3, H=2, scope="", pattern=CELL) -> dict:
    variables = {}
    for layer in range(L):
        columns = I if layer == 0 else H
        variables[scope + pattern.format(layer) + "kernel"] = zeros(columns + H, 4 * H)
        variables[scope + pattern.format(layer) + "bias"] = zeros(4 * H)
    return variables


@pytest.mark.parametrize(
    ("variables", "mode", "scope", "message"),
    [
        ({}, "lstm", None, "those of a cudnn_compatible_lstm_cell; found nothing."),
        (
            {"dense/kernel": zeros(2, 2)},
            "gru",
            None,
            "`variables` must hold those of a cudnn_compatible_gru_cell; found dense/kernel.",
        ),
        (
            tf1_lstm(1),
            "gru",
            None,
            "cudnn_compatible_gru_cell; found rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell",
        ),
        (
            tf1_lstm(1, pattern="rnn/multi_rnn_cell/cell_{}/basic_lstm_cell/"),
            "lstm",
            None,
            "must hold those of a cudnn_compatible_lstm_cell; found",
        ),
        (
            {"cudnn_lstm/opaque_kernel": zeros(7)},
            "lstm",
            None,
            "found cudnn_lstm/opaque_kernel. For an opaque_kernel, pass from_tf1_cudnn the "
            "network's `layout`.",
        ),
        (
            tf1_lstm(scope="a/") | tf1_lstm(scope="b/"),
            "lstm",
            None,
            "`scope` must say which network to read; there are 'a', 'b'.",
        ),
        (tf1_lstm(scope="a/"), "lstm", "b", "`scope` must be one of 'a'; got 'b'."),
        (tf1_lstm(), "lstm", "b", "`scope` must be left out; got 'b'."),
        ({}, "lstm", "b", "those of a cudnn_compatible_lstm_cell in 'b'; found nothing."),
        (
            without(tf1_lstm(3), CELL.format(1) + "bias"),
            "lstm",
            None,
            f"Layer 1, of 3 layers and 1 directions, must have kernel, bias; missing bias besides "
            f"{CELL.format(1)}kernel.",
        ),
        (
            without(tf1_lstm(3), CELL.format(1) + "bias", CELL.format(1) + "kernel"),
            "lstm",
            None,
            "Layer 1, of 3 layers and 1 directions, must have kernel, bias; missing kernel, bias.",
        ),
        (
            tf1_lstm() | {CELL.format(0) + "bias": zeros(7)},
            "lstm",
            None,
            "cell/bias` must have shape [4H]; got [7].",
        ),
        (
            tf1_lstm() | {CELL.format(0) + "kernel": zeros(8, 5)},
            "lstm",
            None,
            "cell/kernel` must have shape [in + P, 4H] with 8 columns and more than 2 rows; got "
            "[8, 5]. It is transposed",
        ),
        (
            tf1_lstm() | {CELL.format(1) + "kernel": zeros(5, 8)},
            "lstm",
            None,
            "cell/kernel` must have shape [in + P, 4H] = [4, 8]; got [5, 8].",
        ),
        (
            tf1_lstm()
            | {CELL.format(1) + "bias": zeros(12), CELL.format(1) + "kernel": zeros(5, 12)},
            "lstm",
            None,
            "All layers must have the same H and P; `rnn/multi_rnn_cell/cell_1/cudnn_compatible_"
            "lstm_cell/kernel` has 3 and 3, the first layer 2 and 2.",
        ),
        (
            tf1_lstm() | {CELL.format(0) + "projection/kernel": zeros(3, 2)},
            "lstm",
            None,
            "projection/kernel` must have shape [H, P] = [2, 2]; got [3, 2].",
        ),
        (
            tf1_lstm() | {CELL.format(0) + "projection/kernel": zeros(2, 2)},
            "lstm",
            None,
            "must have shape [H, P] with P less than H, got [2, 2]: cuDNN takes a projection",
        ),
        (
            tf1_lstm() | {CELL.format(0) + "w_i_diag": zeros(2)},
            "lstm",
            None,
            "cuDNN's networks have no rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/w_i_di",
        ),
        (
            tf1_lstm(1, pattern="rnn/cudnn_compatible_lstm_cell/")
            | tf1_lstm(1, pattern="rnn/cudnn_compatible_lstm_cell_1/"),
            "lstm",
            None,
            "must hold one cell in each place; rnn/cudnn_compatible_lstm_cell/kernel and "
            "rnn/cudnn_compatible_lstm_cell_1/kernel are in the same.",
        ),
    ],
)
def test_tf1_cudnn(variables, mode, scope, message):
    with refused(message):
        weights.from_tf1_cudnn(variables, mode, scope=scope)


def test_a_cell_of_keras_is_none_of_tensorflow_1():
    """It has the same name, and a kernel that may be as large as that of another cell."""
    variables = tf1_lstm(1, pattern="rnn/lstm_cell/") | {
        "rnn/lstm_cell/recurrent_kernel": zeros(2, 8)
    }
    with refused("cuDNN's networks have no rnn/lstm_cell/recurrent_kernel"):
        weights.from_tf1_lstm_cell(variables)


def test_tf1_gru_shapes():
    names = weights.to_tf1_cudnn(canonical("gru", 1, 2, 3)).arrays
    expected = {
        "gates/kernel": "[in + H, 2H] with 4 columns and more than 2 rows",
        "gates/bias": "[2H] = [4]",
        "candidate/input_projection/kernel": "[in, H] = [3, 2]",
        "candidate/input_projection/bias": "[H] = [2]",
        "candidate/hidden_projection/kernel": "[H, H] = [2, 2]",
        "candidate/hidden_projection/bias": "[H]",
    }
    assert len(names) == len(expected)
    for key in names:
        leaf = key.split("cudnn_compatible_gru_cell/")[1]
        with refused(f"`{key}` must have shape {expected[leaf]}"):
            weights.from_tf1_cudnn({**names, key: zeros(5, 5)}, "gru")


def test_tf1_opaque_kernels():
    layout = Layout("lstm", 1, 2, 3)
    with refused("`variables` must hold one opaque_kernel; found nothing."):
        weights.from_tf1_cudnn({}, "lstm", layout=layout)
    two = {"a/opaque_kernel": zeros(56), "b/opaque_kernel": zeros(56)}
    with refused("one opaque_kernel; found a/opaque_kernel, b/opaque_kernel. `scope` can say"):
        weights.from_tf1_cudnn(two, "lstm", layout=layout)
    assert weights.from_tf1_cudnn(two, "lstm", layout=layout, scope="a").layout == layout
    with refused("`a/opaque_kernel` must have shape [56], cuDNN's weight space of Layout("):
        weights.from_tf1_cudnn({"a/opaque_kernel": zeros(57)}, "lstm", layout=layout)
    with refused("`layout` must be of an lstm; got Layout(rnn_mode='gru'"):
        weights.from_tf1_cudnn(two, "lstm", layout=Layout("gru", 1, 2, 3))
    with refused("`variables` must hold one a/opaque_kernel/Adam; found"):
        weights.from_tf1_cudnn(two, "lstm", layout=layout, scope="a", slot="Adam")


def test_tf1_lstm_cells_of_two_stacks():
    """Stacks that read one direction each, up to the top, are two networks."""
    pattern = "bidirectional_rnn/{}/multi_rnn_cell/cell_{{}}/basic_lstm_cell/"
    ways = [tf1_lstm(pattern=pattern.format(way)) for way in ("fw", "bw")]
    message = "there are 'bidirectional_rnn/bw', 'bidirectional_rnn/fw'."
    with refused(f"`scope` must say which network to read; {message}"):
        weights.from_tf1_lstm_cell(ways[0] | ways[1])
    one = weights.from_tf1_lstm_cell(ways[0] | ways[1], scope="bidirectional_rnn/bw")
    assert one.layout == Layout("lstm", 2, 2, 3)
