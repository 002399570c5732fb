"""Every function that writes a file refuses a path that promises another format."""

import keras
import numpy as np
import pytest

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import runtime, weights

pytest.importorskip("tf2onnx")

pytestmark = pytest.mark.filterwarnings(
    "ignore:In the future `np.object` will be defined:FutureWarning"  # Keras and tf2onnx
)

LAYOUT = weights.Layout("gru", 1, 4, 3)


@pytest.fixture(scope="module")
def model():
    return keras.Sequential([keras.Input([None, 3]), keras.layers.GRU(4)])


def network(model):
    del model
    return runtime.Network(np.zeros(LAYOUT.size, np.float32), LAYOUT)


# What each writes, what it is called with, and its own ending.
WRITERS = {
    "export_onnx": (tf_cudnn_rnn.keras.export_onnx, ".onnx"),
    "export_runtime": (tf_cudnn_rnn.keras.export_runtime, ".safetensors"),
    "export": (tf_cudnn_rnn.keras.export, "no ending"),
    "save": (lambda model, path: network(model).save(path), ".safetensors"),
    "write_safetensors": (
        lambda model, path: weights.write_safetensors(path, {"a": np.zeros(3)}),
        ".safetensors",
    ),
}
# What a message says of each; None if nothing that there is writes such a file.
ENDINGS = {
    ".keras": "For a file of Keras call model.save(path).",
    ".weights.h5": "For a file of Keras' weights call model.save_weights(path).",
    ".h5": "call model.save(path).",
    ".H5": "call model.save(path).",
    ".onnx": "For an ONNX file call tf_cudnn_rnn.keras.export_onnx(model, path).",
    ".safetensors": "For a safetensors file call tf_cudnn_rnn.keras.export_runtime(model, path) or",
    ".tflite": 'call model.export(path, format="litert").',
    ".npz": "call numpy.savez(path, **arrays).",
    ".pt": "call torch.save(state_dict, path).",
    ".txt": None,
}


@pytest.mark.parametrize(
    "name, ending",
    [(name, ending) for name in WRITERS for ending in ENDINGS if ending != WRITERS[name][1]],
)
def test_an_ending_of_another_format(name, ending, model, tmp_path):
    write, own = WRITERS[name]
    with pytest.raises(ValueError, match="must not end in") as raised:
        write(model, tmp_path / f"model{ending}")
    message, says = str(raised.value), ENDINGS[ending]
    argument = "filepath" if name == "export" else "path"
    assert message.startswith(f"`{argument}` must not end in {ending.lower()}, as ")
    assert f"{own}; got model{ending}." in message
    assert (" For " in message) == (says is not None) and (says or "") in message
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [name for name in WRITERS if name != "export"])
@pytest.mark.parametrize("ending", ["its own", "", ".bin", ".v2"])
def test_any_other_ending(name, ending, model, tmp_path):
    write, own = WRITERS[name]
    path = tmp_path / f"model{own if ending == 'its own' else ending}"
    write(model, path)
    assert path.stat().st_size


def test_a_folder_may_have_a_dot(model, tmp_path):
    tf_cudnn_rnn.keras.export(model, tmp_path / "model.v2", verbose=False)
    assert (tmp_path / "model.v2" / "saved_model.pb").exists()


def test_export_in_another_format_of_keras(model, tmp_path):
    model(np.zeros([2, 5, 3], np.float32))
    path = tmp_path / "model.onnx"
    tf_cudnn_rnn.keras.export(model, path, format="onnx", verbose=False)
    assert path.exists()
