"""The file of int8 weights on the command line: written, looked into, and read again."""

import keras
import numpy as np
import pytest

from tests.cli.conftest import canonical_of
from tests.weights import golden, hostile
from tf_cudnn_rnn import weights

BOTH = "bidirectional"


@pytest.fixture
def made(run, tmp_path, files):
    """What `convert` makes of a file of ONNX."""
    path = tmp_path / "int8.safetensors"
    result = run("convert", files / "gru.onnx", path, "--to", "runtime", "--int8")
    assert result.code == 0, result.err
    said = " ".join(result.out.split())
    assert "int8.safetensors (runtime): " in said
    assert "note: Each weight of a matrix was rounded to int8: by 1/254 of the largest" in said
    return path


def expected_of(canonical) -> weights.Canonical:
    return weights.quantize(canonical).dequantized()


def test_convert_writes_what_quantize_makes(made, files):
    found = weights.quantize(weights.load(files / "gru.onnx"))
    arrays = weights.read_safetensors(made)
    assert set(arrays) == {"weights", "scales", "biases"}
    for name, array in arrays.items():
        golden.assert_bits(array, getattr(found, name))
    assert found.nbytes <= made.stat().st_size < found.nbytes + 1000


def test_inspect_says_int8(run, made):
    result = run("inspect", made, "--json")
    (found,) = result.json["found"]
    assert result.code == 0 and result.json["kind"] == "file of tf_cudnn_rnn.runtime"
    assert (found["kind"], found["name"]) == ("tf_cudnn_rnn.runtime, int8 weights", "weights")
    assert (found["rnn_mode"], found["num_units"], found["direction"]) == ("gru", 4, BOTH)
    assert found["parameters"] == canonical_of("gru", 2, direction=BOTH).layout.size
    assert f"runtime.Network.load({str(made)!r})" in found["how"]
    assert "weights (tf_cudnn_rnn.runtime, int8 weights)" in run("inspect", made).out


@pytest.mark.parametrize("renamed", [False, True])
def test_its_header_tells_the_file_whatever_it_is_called(renamed, made, files, tmp_path):
    if renamed:
        made = made.rename(tmp_path / "network.bin")
    loaded = weights.load(made)
    expected = expected_of(weights.load(files / "gru.onnx"))
    assert loaded.layout == expected.layout and loaded.notes == expected.notes
    golden.assert_bits(loaded.params, expected.params)
    golden.assert_bits(weights.load(made, format="runtime").params, expected.params)


@pytest.mark.parametrize("to, ending", [("params", "npz"), ("runtime", "safetensors")])
def test_convert_reads_it_as_float32(run, made, tmp_path, to, ending):
    target = tmp_path / f"a.{ending}"
    result = run("convert", made, target, "--to", to)
    assert result.code == 0 and "note: The matrices are of int8" in result.out
    golden.assert_bits(weights.load(target).params, weights.load(made).params)


def test_another_library_gets_its_weights(run, made, tmp_path):
    assert run("convert", made, tmp_path / "a.keras", "--to", "keras").code == 0
    layers = [layer.get_weights() for layer in keras.saving.load_model(tmp_path / "a.keras").layers]
    expected = weights.to_keras(weights.load(made)).arrays
    golden.assert_same(layers, expected)


def test_what_is_not_rounded_twice(run, made, tmp_path):
    target = tmp_path / "again.safetensors"
    result = run("convert", made, target, "--to", "runtime", "--int8")
    assert result.code == 2 and not target.exists()
    assert "SRC has int8 weights already: copy it, or omit --int8." in result.err


def test_int8_is_of_the_runtime_alone(run, files, tmp_path):
    result = run("convert", files / "gru.onnx", tmp_path / "a.npz", "--to", "params", "--int8")
    assert (
        result.code == 2
        and "--int8 would change nothing when this file is read as onnx" in result.err
    )


def test_weights_that_are_not_finite(run, tmp_path):
    canonical = canonical_of("gru")
    name = weights.ParamName(0, "forward", "new", "recurrent_kernel")
    canonical.named[name][2, 1] = np.nan
    weights.write_safetensors(tmp_path / "a.safetensors", weights.to_torch(canonical).arrays)
    target = tmp_path / "int8.safetensors"
    result = run("convert", tmp_path / "a.safetensors", target, "--to", "runtime", "--int8")
    assert result.code == 2 and not target.exists()
    assert "layer_0/forward/new/recurrent_kernel has nan at [2, 1]" in result.err


def test_rows_that_are_too_long(run, tmp_path):
    """They could be written, and nothing could load them."""
    state = {
        "weight_ih_l0": np.ones([1, 2**17 + 1], np.float32),
        "weight_hh_l0": np.ones([1, 1], np.float32),
    }
    weights.write_safetensors(tmp_path / "a.safetensors", state)
    target = tmp_path / "int8.safetensors"
    arguments = ("--to", "runtime", "--mode", "rnn_tanh")
    result = run("convert", tmp_path / "a.safetensors", target, *arguments, "--int8")
    assert result.code == 2 and not target.exists()
    assert "rows of at most 131072 elements to be quantized; got 131073" in result.err
    assert run("convert", tmp_path / "a.safetensors", target, *arguments).code == 0


HOSTILE = [name for name in hostile.CASES if name.startswith("int8")]
# Of which `inspect` reads nothing.
VALUES = (
    *("int8_of_a_scale_that_is_no_number", "int8_of_an_infinite_scale"),
    "int8_of_a_negative_scale",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_damaged_files_end_in_a_sentence(run, tmp_path, name):
    attack = hostile.CASES[name](tmp_path)
    (path,) = attack.arguments
    result = run("convert", path, tmp_path / "a.npz", "--to", "params")
    assert result.code == 2 and not (tmp_path / "a.npz").exists()
    for text in attack.names:
        assert text in result.err
    result = run("inspect", path)
    assert result.code == (0 if name in VALUES else 2)
    if name not in VALUES:
        for text in attack.names:
            assert text in result.err
