"""`.weights.h5` and `.keras` files from strangers: what layers and load_model read of them."""

import json
import zipfile

import h5py
import keras
import numpy as np
import pytest

from tests.weights import hostile
from tf_cudnn_rnn.keras import CudnnLSTM, load_model

H, I, T = 3, 2, 4
VARS = "layers/cudnn_lstm/vars"


def model() -> keras.Model:
    keras.utils.set_random_seed(1)
    layer = CudnnLSTM(H, 2, dropout=0.5, seed=3, name="cudnn_lstm")
    return keras.Sequential([keras.Input([T, I]), layer])


def load(tmp_path, change, name: str) -> str:
    """Changes one array of a file of weights, and returns what is said when it is loaded."""
    path = tmp_path / "a.weights.h5"
    model().save_weights(path)
    with h5py.File(path, "r+") as file:
        del file[f"{VARS}/{name}"]
        change(file[VARS])
    with pytest.raises(ValueError) as error:
        model().load_weights(path)
    assert str(path) in str(error.value)
    return str(error.value)


def claims(name: str, shape, dtype="<f4", **options):
    """Makes a dataset that says a size and holds nothing."""
    return lambda group: group.create_dataset(name, shape, dtype, **options)


KERNEL = "layer_0/forward/input_kernel"
HUGE = "must have at most"


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("header", claims("header", (10**9,), "u1"), f"header in the file {HUGE} 65536 bytes"),
        ("header", claims("header", (1000,), "u1"), "says 1000 and has 0"),
        ("header", claims("header", (3, 3), "<f4", data=np.zeros([3, 3], "<f4")), "JSON"),
        ("header", claims("header", (3,), h5py.string_dtype()), "header in the file must hold num"),
        (KERNEL, claims(KERNEL, (10**9,)), f"{KERNEL} in the file {HUGE} 192 bytes"),
        (KERNEL, claims(KERNEL, (10**9,), chunks=(1000,), compression="gzip"), HUGE),
        (KERNEL, claims(KERNEL, (12, 2)), "says 96 and has 0"),
        (KERNEL, claims(KERNEL, (2, 12), data=np.zeros([2, 12])), "must have shape [12, 2]"),
        ("dropout_seed", claims("dropout_seed", (10**9,), "<i8"), f"{HUGE} 16 bytes"),
        ("dropout_seed", claims("dropout_seed", (1,), data=np.zeros(1)), "must have two integers"),
    ],
)
def test_weights(name, change, text, tmp_path):
    assert text in load(tmp_path, change, name)


def keras_file(tmp_path, name: str, content: bytes) -> str:
    """A file whose member `name` has other contents."""
    good, path = tmp_path / "good.keras", tmp_path / "a.keras"
    model().save(good)
    with zipfile.ZipFile(good) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.namelist():
            new.writestr(entry, content if entry == name else old.read(entry))
    return str(path)


def refused(path: str, *texts: str) -> None:
    with pytest.raises(ValueError) as error:
        load_model(path)
    for text in (path, *texts):
        assert text in str(error.value)


def test_models(tmp_path):
    config = "config.json"
    refused(keras_file(tmp_path, config, b"[" * 5000 + b"]" * 5000), config, "100 levels")
    refused(keras_file(tmp_path, config, b"{]"), config, "no JSON")
    refused(keras_file(tmp_path, config, b"[[]," * 600_000 + b"1]"), config, "values")
    refused(keras_file(tmp_path, "metadata.json", bytes(100 << 20)), "metadata.json", "would take")


def test_archives(tmp_path):
    path = tmp_path / "a.keras"
    config = json.dumps({}).encode()
    wrong = hostile.npz.stored("config.json", config)
    for member, text in (
        (wrong._replace(crc=1), "CRC"),
        (wrong._replace(method=14), "method 14"),
        (wrong._replace(flags=1), "not encrypted"),
    ):
        path.write_bytes(hostile.npz.zip_bytes([member]))
        refused(str(path), "config.json", text)
    path.write_bytes(hostile.npz.zip_bytes([wrong, wrong]))
    refused(str(path), "config.json", "twice")
