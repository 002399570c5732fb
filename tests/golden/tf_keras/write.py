"""Writes, with Keras 2, what the tests of from_keras_cudnn read: write.py FOLDER.

CuDNNLSTM and CuDNNGRU run on GPUs only. The outputs are those of LSTM and GRU layers into which
Keras loads the same file, by its own conversion.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tf_keras as keras  # noqa: E402
from tf_keras.src.layers import CuDNNGRU, CuDNNLSTM  # noqa: E402

SEED = 2106
T, B, I, H = 5, 2, 3, 4
LAYERS = {
    "lstm": (CuDNNLSTM, lambda **o: keras.layers.LSTM(H, **o)),
    "gru": (CuDNNGRU, lambda **o: keras.layers.GRU(H, reset_after=True, **o)),
}


def build(make_layer, bidirectional):
    """Two layers, named alike whatever they are."""
    layers = [keras.Input([T, I])]
    for name in ("first", "second"):
        if bidirectional:
            layer = make_layer(return_sequences=True, name="inner_" + name)
            layers.append(keras.layers.Bidirectional(layer, name=name))
        else:
            layers.append(make_layer(return_sequences=True, name=name))
    return keras.Sequential(layers, name="model")


def main():
    folder = pathlib.Path(sys.argv[1])
    random = np.random.RandomState(SEED)
    for mode, (legacy, plain) in LAYERS.items():
        for bidirectional in (False, True):
            name = mode + ("_bidirectional" if bidirectional else "")
            model = build(lambda legacy=legacy, **o: legacy(H, **o), bidirectional)
            shapes = [weight.shape for weight in model.get_weights()]
            model.set_weights([(random.randn(*s) * 0.5).astype(np.float32) for s in shapes])
            path = str(folder / (name + ".h5"))
            model.save(path, include_optimizer=False)
            if name == "lstm":
                model.save_weights(str(folder / "lstm_weights.h5"))

            cpu_model = build(plain, bidirectional)
            cpu_model.load_weights(path)
            x = random.randn(B, T, I).astype(np.float32)
            arrays = {"x": x, "out_y": cpu_model.predict(x, verbose=0)}
            for i, array in enumerate(cpu_model.get_weights()):
                arrays[f"converted/{i:02}"] = array
            np.savez_compressed(str(folder / (name + ".npz")), **arrays)


if __name__ == "__main__":
    main()
