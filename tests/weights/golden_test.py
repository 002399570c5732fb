"""Every converter against what the real libraries wrote, and what they computed with it."""

import numpy as np
import pytest

from tests.weights import golden
from tf_cudnn_rnn import weights
from tf_cudnn_rnn.weights import KerasLayer, OnnxNode, ParamName

SIZES = {"lstm": 4, "lstm_proj": 5, "gru": 4, "rnn_tanh": 4, "rnn_relu": 4}


def mode_of(name: str) -> str:
    return "lstm" if name.startswith("lstm") else name


def direction_of(name: str) -> str:
    # As in the writers: all but these run both ways.
    one_way = ("lstm_no_bias", "rnn_tanh")
    return "unidirectional" if name in one_way else "bidirectional"


# ------------------------------------------------------------------------------------
# PyTorch
# ------------------------------------------------------------------------------------

TORCH = ("lstm", "lstm_proj", "lstm_no_bias", "gru", "rnn_tanh", "rnn_relu")


@pytest.mark.parametrize("name", TORCH)
def test_torch(name):
    path = golden.FOLDER / "torch" / f"{name}.safetensors"
    canonical = weights.from_torch(path, mode_of(name))
    layout = canonical.layout
    assert (layout.num_layers, layout.input_size) == (2, 3)
    assert layout.num_units == SIZES.get(name, 4)
    assert layout.num_proj == (2 if name == "lstm_proj" else 0)
    assert layout.direction == direction_of(name)
    calls = golden.load(f"torch/{name}_calls.npz")
    golden.check_outputs(canonical, calls["x"], outputs(calls))

    bias = name != "lstm_no_bias"
    assert canonical.notes == (
        () if bias else ("There are no biases; they were taken to be zero.",)
    )
    exported = weights.to_torch(canonical, bias=bias)
    assert exported.notes == ()
    golden.assert_same(exported.arrays, weights.read_safetensors(path))


def outputs(calls: dict) -> dict:
    names = ("out_y", "out_h_n", "out_c_n")
    return {name.removeprefix("out_"): calls[name] for name in names if name in calls}


@pytest.mark.parametrize("name", [*TORCH, "model", "gru_bfloat16", "mixed"])
def test_safetensors_files_are_written_as_by_the_reference_implementation(name, tmp_path):
    path = golden.FOLDER / "torch" / f"{name}.safetensors"
    metadata = {"format": "pt"} if name in TORCH else None
    if name == "mixed":
        metadata = {"a": "ö"}
    arrays = weights.read_safetensors(path)
    weights.write_safetensors(tmp_path / "again", dict(reversed(arrays.items())), metadata)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("ending", ["safetensors", "npz"])
def test_torch_finds_an_rnn_among_others(ending):
    path = golden.FOLDER / "torch" / f"model.{ending}"
    alone = weights.from_torch(golden.FOLDER / "torch" / "gru.safetensors", "gru")
    for prefix in (None, "encoder.rnn."):
        canonical = weights.from_torch(path, "gru", prefix=prefix)
        # model.safetensors holds the weights after the step of Adam.
        assert canonical.layout == alone.layout
        assert not np.array_equal(canonical.params, alone.params)
        np.testing.assert_allclose(canonical.params, alone.params, rtol=0, atol=0.011)
    exported = weights.to_torch(canonical, prefix="encoder.rnn.").arrays
    both = weights.read_safetensors(golden.FOLDER / "torch" / "model.safetensors")
    assert set(both) - set(exported) == {"head.weight", "head.bias"}
    golden.assert_same(exported, {key: both[key] for key in exported})


def test_torch_bfloat16():
    half = weights.from_torch(golden.FOLDER / "torch" / "gru_bfloat16.safetensors", "gru")
    single = weights.from_torch(golden.FOLDER / "torch" / "model.safetensors", "gru")
    assert half.dtype.name == half.params.dtype.name == "bfloat16"
    golden.assert_bits(half.params, single.params.astype(half.dtype))


# ------------------------------------------------------------------------------------
# ONNX
# ------------------------------------------------------------------------------------


def onnx_nodes(arrays: dict) -> list[OnnxNode]:
    nodes = []
    for i in range(2):
        node = golden.under(arrays, f"node_{i}/")
        attributes = {
            key: value.tolist() for key, value in golden.under(node, "attribute/").items()
        }
        nodes.append(OnnxNode(str(node["op_type"]), attributes, node["W"], node["R"], node["B"]))
    return nodes


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_onnx(name):
    arrays = golden.load(f"onnx/{name}.npz")
    nodes = onnx_nodes(arrays)
    canonical = weights.from_onnx(nodes)
    assert canonical.layout.rnn_mode == name
    assert canonical.layout.direction == direction_of(name)
    golden.check_outputs(canonical, arrays["x"], {"y": arrays["out_y"]})

    # The exporter's nodes hold what PyTorch held.
    exporter_had = weights.from_torch(golden.under(arrays, "torch/"), name)
    golden.assert_bits(canonical.params, exporter_had.params)

    exported = weights.to_onnx(canonical)
    assert exported.notes == ()
    for ours, theirs in zip(exported.arrays, nodes, strict=True):
        golden.assert_same([ours.W, ours.R, ours.B], [theirs.W, theirs.R, theirs.B])
        assert ours.op_type == theirs.op_type
        for key in ("hidden_size", "linear_before_reset"):
            assert ours.attributes.get(key) == theirs.attributes.get(key)
        # RNN's default is tanh, which the exporter says anyway; and it writes bytes.
        activations = [b"Relu", b"Relu"] if name == "rnn_relu" else None
        if activations:
            assert theirs.attributes["activations"] == activations
            assert ours.attributes["activations"] == ["Relu", "Relu"]


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_onnx_models_whose_graph_computes_the_weights(name):
    canonical = weights.load(golden.FOLDER / "onnx" / f"{name}.onnx")
    arrays = golden.load(f"onnx/{name}.npz")
    exporter_had = weights.from_torch(golden.under(arrays, "torch/"), name)
    assert canonical.layout == exporter_had.layout
    golden.assert_bits(canonical.params, exporter_had.params)
    golden.check_outputs(canonical, arrays["x"], {"y": arrays["out_y"]})


# ------------------------------------------------------------------------------------
# MXNet, CNTK
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["lstm", "lstm_proj", "gru", "rnn_tanh", "rnn_relu"])
def test_mxnet(name):
    arrays = golden.load(f"mxnet/{name}.npz")
    canonical = weights.from_mxnet(
        arrays["parameters"],
        mode_of(name),
        2,
        SIZES[name],
        3,
        direction=direction_of(name),
        num_proj=2 if name == "lstm_proj" else 0,
    )
    golden.check_outputs(canonical, arrays["x"], outputs(arrays), arrays["h0"], arrays["c0"])
    exported = weights.to_mxnet(canonical)
    assert exported.notes == ()
    golden.assert_bits(exported.arrays, arrays["parameters"])


@pytest.mark.parametrize("name", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_cntk(name):
    arrays = golden.load(f"cntk/{name}.npz")
    sizes = (name, 2, 4, 3)
    canonical = weights.from_cntk(arrays["matrix"], *sizes, direction=direction_of(name))
    if "out_y" in arrays:
        golden.check_outputs(canonical, arrays["x"][:, None], {"y": arrays["out_y"][:, None]})
    else:
        assert name == "gru"  # CNTK cannot run it on the CPU; the order is that of the others
    exported = weights.to_cntk(canonical)
    assert exported.notes == ()
    assert exported.arrays.shape == (4, canonical.layout.size // 4)
    golden.assert_bits(exported.arrays.T, arrays["matrix"])
    again = weights.from_cntk(exported.arrays, *sizes, direction=direction_of(name))
    golden.assert_bits(again.params, canonical.params)


# ------------------------------------------------------------------------------------
# Keras
# ------------------------------------------------------------------------------------


def keras_layers(arrays: dict, prefix: str = "") -> list[list[np.ndarray]]:
    layers = []
    for i in range(2):
        layer = golden.under(arrays, f"{prefix}layer_{i}/")
        layers.append([layer[str(j)] for j in range(len(layer))])
    return layers


def batch_major(array: np.ndarray) -> np.ndarray:
    return np.swapaxes(array, 0, 1)


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("name", ["lstm", "lstm_no_bias", "gru", "rnn_tanh", "rnn_relu"])
def test_keras(name, direction):
    suffix = "_bidirectional" if direction == "bidirectional" else ""
    arrays = golden.load(f"keras/{name}{suffix}.npz")
    layers = keras_layers(arrays)
    canonical = weights.from_keras(layers, mode_of(name), direction=direction)
    golden.check_outputs(canonical, batch_major(arrays["x"]), {"y": batch_major(arrays["out_y"])})
    exported = weights.to_keras(canonical, use_bias=name != "lstm_no_bias")
    assert exported.notes == ()
    golden.assert_same(exported.arrays, layers)
    one = weights.from_keras(layers[0], mode_of(name), direction=direction)
    assert one.layout.num_layers == 1
    golden.assert_bits(
        one.named[ParamName(0, "forward", one_gate(name), "recurrent_bias")],
        canonical.named[ParamName(0, "forward", one_gate(name), "recurrent_bias")],
    )


def one_gate(name: str) -> str:
    return {"lstm": "cell", "gru": "new"}.get(mode_of(name), "")


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", ["lstm", "gru"])
def test_keras_cudnn(mode, direction):
    name = mode + ("_bidirectional" if direction == "bidirectional" else "")
    layers = weights.read_keras_h5(golden.FOLDER / "tf_keras" / f"{name}.h5")
    assert list(layers) == ["first", "second"]
    legacy = {"lstm": "CuDNNLSTM", "gru": "CuDNNGRU"}[mode]
    expected = legacy if direction == "unidirectional" else f"Bidirectional({legacy})"
    assert {layer.class_name for layer in layers.values()} == {expected}

    canonical = weights.from_keras_cudnn(list(layers.values()), mode, direction=direction)
    arrays = golden.load(f"tf_keras/{name}.npz")
    golden.check_outputs(canonical, batch_major(arrays["x"]), {"y": batch_major(arrays["out_y"])})
    exported = weights.to_keras_cudnn(canonical)
    assert exported.notes == ()
    golden.assert_same(exported.arrays, [layer.arrays for layer in layers.values()])

    # Keras' own conversion to its other layers.
    plain = weights.to_keras(canonical)
    converted = golden.under(arrays, "converted/")
    golden.assert_same(sum(plain.arrays, []), [converted[key] for key in sorted(converted)])
    assert bool(plain.notes) == (mode == "lstm")


def test_keras_weights_without_a_model():
    whole = weights.read_keras_h5(golden.FOLDER / "tf_keras" / "lstm.h5")
    alone = weights.read_keras_h5(golden.FOLDER / "tf_keras" / "lstm_weights.h5")
    assert list(alone) == list(whole)
    for name, layer in whole.items():
        assert alone[name].class_name == ""
        golden.assert_same(alone[name].arrays, layer.arrays)
    one = weights.from_keras_cudnn(alone["first"], "lstm")
    golden.assert_bits(one.params, weights.from_keras_cudnn(whole["first"].arrays, "lstm").params)


def test_keras_layers_of_a_known_class_are_not_taken_for_others():
    layers = weights.read_keras_h5(golden.FOLDER / "tf_keras" / "gru.h5")
    with pytest.raises(ValueError, match="must be a GRU; got a CuDNNGRU. CuDNNLSTM and CuDNNGRU"):
        weights.from_keras(layers["first"], "gru")
    with pytest.raises(ValueError, match="must be a CuDNNLSTM; got a CuDNNGRU"):
        weights.from_keras_cudnn(layers["first"], "lstm")
    with pytest.raises(ValueError, match=r"must be a Bidirectional\(CuDNNGRU\); got a CuDNNGRU"):
        weights.from_keras_cudnn(layers["first"], "gru", direction="bidirectional")
    plain = KerasLayer("GRU", layers["first"].arrays)
    with pytest.raises(ValueError, match="must be a CuDNNGRU; got a GRU. LSTM, GRU"):
        weights.from_keras_cudnn(plain, "gru")


# ------------------------------------------------------------------------------------
# TensorFlow 1
# ------------------------------------------------------------------------------------

TF1_CUDNN = {
    "cudnn_lstm": ("lstm", ""),
    "cudnn_lstm_bidirectional": ("lstm", "en"),
    "cudnn_gru": ("gru", "encoder"),
    "cudnn_gru_bidirectional": ("gru", ""),
    "cudnn_tanh": ("rnn_tanh", ""),
    "cudnn_relu_bidirectional": ("rnn_relu", ""),
}


@pytest.mark.parametrize("name", TF1_CUDNN)
def test_tf1_cudnn(name):
    mode, scope = TF1_CUDNN[name]
    arrays = golden.load(f"tf1/{name}.npz")
    variables = golden.under(arrays, "variables/")
    canonical = weights.from_tf1_cudnn({"global_step": 7, **variables}, mode)
    golden.check_outputs(canonical, arrays["x"], {"y": arrays["out_y"]})
    golden.assert_bits(
        weights.from_tf1_cudnn(variables, mode, scope=scope).params, canonical.params
    )
    exported = weights.to_tf1_cudnn(canonical, scope=scope)
    assert exported.notes == ()
    golden.assert_same(exported.arrays, variables)


TF1_CELLS: dict[str, dict] = {
    "basic_lstm": {"scope": "decoder/inner"},
    "basic_lstm_one_layer": {},
    "basic_lstm_bidirectional": {},
    "lstm_proj": {"cell_name": "lstm_cell", "forget_bias": 0.5},
    "lstm_block": {"cell_name": "lstm_cell"},
}


@pytest.mark.parametrize("name", TF1_CELLS)
def test_tf1_lstm_cell(name):
    arrays = golden.load(f"tf1/{name}.npz")
    variables = golden.under(arrays, "variables/")
    options = TF1_CELLS[name]
    forget_bias = {key: value for key, value in options.items() if key == "forget_bias"}
    canonical = weights.from_tf1_lstm_cell(variables, **forget_bias)
    golden.check_outputs(canonical, arrays["x"], {"y": arrays["out_y"]})
    exported = weights.to_tf1_lstm_cell(canonical, **options)
    assert exported.notes == ()
    golden.assert_same(exported.arrays, variables)


def test_tf1_cells_that_cudnn_does_not_have():
    gru = golden.under(golden.load("tf1/gru_block.npz"), "variables/")
    with pytest.raises(ValueError, match="candidate/kernel is that of GRUCell and GRUBlockCell"):
        weights.from_tf1_cudnn(gru, "gru")
    peephole = golden.under(golden.load("tf1/lstm_peephole.npz"), "variables/")
    with pytest.raises(ValueError, match="cuDNN's networks have no .*/w_f_diag"):
        weights.from_tf1_lstm_cell(peephole)


@pytest.mark.parametrize("direction", ["unidirectional", "bidirectional"])
@pytest.mark.parametrize("mode", ["lstm", "gru", "rnn_tanh", "lstm_proj"])
def test_tf1_conversion_of_cudnns_weights(mode, direction):
    """Against tf.contrib's own, from the matrices that its op hands out."""
    if mode == "lstm_proj" and direction == "unidirectional":
        return
    suffix = "_bidirectional" if direction == "bidirectional" and mode != "lstm_proj" else ""
    arrays = golden.load(f"tf1/converter_{mode}{suffix}.npz")
    canonical = weights.from_cudnn(
        arrays["params"],
        mode_of(mode),
        2,
        4,
        3,
        direction=direction,
        num_proj=2 if mode == "lstm_proj" else 0,
    )
    exported = weights.to_tf1_cudnn(canonical)
    assert len(exported.notes) == 1 and exported.notes[0].startswith("Biases were added up")

    # By layer, direction and leaf; here keys come in that order.
    def theirs(kind: str) -> list[np.ndarray]:
        found = golden.under(arrays, f"{kind}/")
        return [found[key] for key in sorted(found)]

    kernels = {key: array for key, array in exported.arrays.items() if key.endswith("/kernel")}
    projections = [
        kernels.pop(key) for key in list(kernels) if key.endswith("cell/projection/kernel")
    ]
    golden.assert_same(list(kernels.values()), theirs("weights"))
    golden.assert_same(
        [array for key, array in exported.arrays.items() if key.endswith("/bias")],
        theirs("biases"),
    )
    golden.assert_same(projections, theirs("projections"))
    assert bool(projections) == (mode == "lstm_proj")
