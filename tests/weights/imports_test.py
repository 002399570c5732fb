"""The converters need NumPy alone, but for two kinds of file."""

import subprocess
import sys

from tests.weights import golden

CODE = """
import importlib.abc, pathlib, sys

import numpy as np

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        blocked = ("tensorflow", "keras", "h5py", "ml_dtypes", "torch", "onnx", "safetensors")
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
from tf_cudnn_rnn import weights

folder = pathlib.Path(sys.argv[1])
canonical = weights.from_torch(folder / "torch" / "lstm.safetensors", "lstm")
assert weights.load(folder / "torch" / "lstm.safetensors").layout == canonical.layout
for write in (
    weights.to_cudnn, weights.to_keras, weights.to_keras_cudnn, weights.to_torch, weights.to_onnx,
    weights.to_mxnet, weights.to_cntk, weights.to_tf1_cudnn, weights.to_tf1_lstm_cell,
):
    write(canonical)
for read, name in (
    (weights.read_safetensors, "torch/gru_bfloat16.safetensors"),
    (weights.read_keras_h5, "tf_keras/lstm.h5"),
):
    try:
        read(folder / name)
    except ImportError as error:
        print(error)
"""


def test_numpy_is_enough():
    result = subprocess.run(
        [sys.executable, "-c", CODE, golden.FOLDER],
        cwd=golden.FOLDER.parent.parent,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    bfloat16, h5 = result.stdout.splitlines()
    assert bfloat16.startswith("bias_hh_l0 in ")
    assert bfloat16.endswith(
        "is of type bfloat16, which needs ml_dtypes: run `pip install ml_dtypes`."
    )
    assert h5 == "read_keras_h5 needs h5py, which is not installed."
