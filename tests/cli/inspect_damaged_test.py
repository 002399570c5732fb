"""`inspect` of files that are damaged or forged: it says what `weights.load` says, and no more."""

import json
import zipfile

import numpy as np
import pytest

from tests.weights.hostile import worst
from tests.weights.protobufs import field
from tf_cudnn_rnn import weights
from tf_cudnn_rnn._cli.finders import found as parts
from tf_cudnn_rnn._formats import params_header


def onnx(folder, *attributes: bytes, W=(1, 16, 3), R=(1, 16, 4)):
    node = worst.onnx_node("n", "xWR", "y", *attributes)
    return worst.onnx(folder, [worst.onnx_tensor("W", *W), worst.onnx_tensor("R", *R), node])


def safetensors(folder, **arrays):
    path = folder / "model.safetensors"
    weights.write_safetensors(path, arrays)
    return path


def of_zeros(**shapes):
    return {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}


def npz(folder, **arrays):
    np.savez(folder / "model.npz", **arrays)
    return folder / "model.npz"


def header() -> np.ndarray:
    return np.frombuffer(params_header.to_text(weights.Layout("lstm", 1, 2, 2)).encode(), np.uint8)


@pytest.mark.parametrize(
    "write, says",
    [
        (
            lambda folder: onnx(folder, field(1, "hidden_size") + field(4, "4")),
            "must have an integer for hidden_size; got 4",
        ),
        (
            lambda folder: onnx(folder, field(1, "hidden_size") + field(3, -(2**63))),
            f"must have hidden_size 4; got {-(2**63)}",
        ),
        (lambda folder: onnx(folder, W=(), R=()), "R` must have shape [1, 4H, H]"),
        (lambda folder: onnx(folder, W=(1, 16, 3, 1)), "W` must have shape [D, 4H, I]"),
        (
            lambda folder: safetensors(
                folder,
                weight_ih_l0=np.zeros([4, 1], np.float32),
                weight_hh_l0=np.zeros([4, 1], np.float64),
            ),
            "All arrays must have one dtype; got float",
        ),
        (
            lambda folder: safetensors(
                folder, **of_zeros(weight_ih_l0=[4, 3], weight_hh_l0=[4, 1], bias_ih_l0=[4])
            ),
            "missing bias_hh_l0",
        ),
        (
            lambda folder: npz(folder, header=header(), params=np.full(48, "a")),
            "must have a floating-point dtype; got <U1",
        ),
        (
            lambda folder: npz(folder, header=header(), params=np.zeros(48, np.complex64)),
            "must have a floating-point dtype; got complex64",
        ),
        (
            lambda folder: npz(folder, header=header(), params=np.zeros(3)),
            "`params` must have shape [48]",
        ),
    ],
)
@pytest.mark.filterwarnings("default")
def test_what_load_refuses_has_no_command(run, tmp_path, write, says):
    path = write(tmp_path)
    with pytest.raises(ValueError) as raised:
        weights.load(path)
    assert str(path) in str(raised.value) and says in str(raised.value)
    result = run("inspect", path)
    assert result.code == 1, result.err
    assert f"{says}" in " ".join(result.out.split())
    assert "not by this library" in result.out and "tf-cudnn-rnn convert" not in result.out


@pytest.mark.parametrize("values", [np.full(48, "a"), np.zeros(48, np.complex64)])
def test_vectors_that_are_no_weights(run, tmp_path, values):
    path = npz(tmp_path, params=values)
    with pytest.raises(ValueError, match="must have a floating-point dtype"):
        weights.load(path, rnn_mode="lstm", num_layers=1, num_units=2, input_size=2)
    result = run("inspect", path)
    assert result.code == 1
    assert "must have a floating-point dtype" in " ".join(result.out.split())


def test_a_projection_of_no_matrix(run, tmp_path):
    shapes = {"weight_ih_l0": [4, 3], "weight_hh_l0": [4, 1], "weight_hr_l0": []}
    path = safetensors(tmp_path, **of_zeros(**shapes))
    with pytest.raises(ValueError, match=str(path)):
        weights.load(path)
    result = run("inspect", path)
    assert result.code == 1
    assert "weight_hr_l0 a matrix; they have other shapes" in " ".join(result.out.split())


def test_shapes_beyond_any_number(run, tmp_path):
    inputs = b"".join(field(3, f"i{number}") for number in range(6))
    shapes = [(1, 1, 1), (1, 1), (1, 1), (3, 5), (5, 1), (2**62,) * 20]
    nodes = [worst.constant(f"i{number}", *shape) for number, shape in enumerate(shapes)]
    nodes.append(field(1, field(1, "k") + field(2, "TfCudnnRnn>KerasRNN") + inputs))
    path = worst.saved_model(tmp_path, nodes)
    (found,) = run("inspect", path, "--json").json["found"]
    assert found["biases"] is None and found["num_units"] == 5


@pytest.mark.parametrize("more", [{}, {"build_config": {"input_shape": [3]}}])
@pytest.mark.parametrize("size", ["num_units", "num_layers", "num_proj"])
def test_sizes_of_thousands_of_digits(run, tmp_path, size, more):
    config = {"name": "x", "rnn_mode": "lstm", "num_units": 3, "num_layers": 3, size: 123454321}
    text = json.dumps({"class_name": "CudnnRNN", "config": config, **more})
    path = tmp_path / "model.keras"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("config.json", text.replace("123454321", "9" * 4000))
    result = run("inspect", path)
    assert result.code == 1 and len(result.out) < 1000
    assert f"`{size}` must be below 2147483648" in " ".join(result.out.split())


def test_an_input_of_more_than_any_op_takes(run, tmp_path):
    config = {"class_name": "CudnnLSTM", "config": {"num_units": 3}}
    worst.keras(tmp_path, json.dumps({**config, "build_config": {"input_shape": [2**40]}}))
    result = run("inspect", tmp_path / "model.keras")
    assert result.code == 1
    assert "`input_size` must be below 2147483648" in " ".join(result.out.split())


PARTS = 1234
MANY = {
    "npz": lambda folder: worst.npz(
        folder, ((f"{i}.weight_ih_l0", worst.NOTHING) for i in range(PARTS))
    ),
    "safetensors": lambda folder: worst.safetensors(
        folder, ((f"{i}.weight_ih_l0", [0]) for i in range(PARTS))
    ),
    "onnx": lambda folder: worst.onnx(folder, (worst.onnx_node(f"{i}") for i in range(PARTS))),
    "keras": lambda folder: worst.keras(
        folder, worst.model_of("F", [worst.layer_of("b", "LSTM")] * PARTS)
    ),
    "saved_model": lambda folder: worst.saved_model(
        folder, (field(1, field(1, f"{i}") + field(2, "CudnnRNNV3")) for i in range(PARTS))
    ),
}


@pytest.mark.parametrize("kind", MANY)
def test_the_first_parts_are_shown(run, tmp_path, kind):
    path = MANY[kind](tmp_path)
    report = run("inspect", path, "--json").json
    assert len(report["found"]) == parts.MOST and report["more"] == PARTS - parts.MOST
    result = run("inspect", path)
    assert result.code == 1
    assert "And 234 more parts, which nothing here looked at." in result.out
    assert "1,234 recurrent parts" in " ".join(result.out.split())


def test_the_order_of_layers_is_that_of_the_model(run, tmp_path):
    inner = worst.model_of("F", [worst.layer_of(name, "LSTM") for name in "bc"])
    layers = [worst.layer_of("a", "GRU"), inner, worst.layer_of("d", "LSTM")]
    path = worst.keras(tmp_path, worst.model_of("F", layers))
    found = run("inspect", path, "--json").json
    assert [item["name"] for item in found["found"]] == ["a", "b", "c", "d"]
    assert found["more"] == found["more_weights"] == 0
