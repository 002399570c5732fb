"""Writes, with Keras 3, what the tests of from_keras and to_keras read: write.py FOLDER."""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "tensorflow"

import keras  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

SEED = 2107
T, B, I, H = 5, 2, 3, 4
LAYERS = {
    "lstm": lambda **o: keras.layers.LSTM(H, **o),
    "lstm_no_bias": lambda **o: keras.layers.LSTM(H, use_bias=False, **o),
    "gru": lambda **o: keras.layers.GRU(H, **o),
    "rnn_tanh": lambda **o: keras.layers.SimpleRNN(H, **o),
    "rnn_relu": lambda **o: keras.layers.SimpleRNN(H, activation="relu", **o),
}


def build(make_layer, bidirectional):
    layers = [keras.Input([T, I])]
    for _ in range(2):
        layer = make_layer(return_sequences=True)
        layers.append(keras.layers.Bidirectional(layer) if bidirectional else layer)
    return keras.Sequential(layers)


def main():
    folder = pathlib.Path(sys.argv[1])
    random = np.random.RandomState(SEED)
    for mode, make_layer in LAYERS.items():
        for bidirectional in (False, True):
            model = build(make_layer, bidirectional)
            shapes = [weight.shape for weight in model.get_weights()]
            model.set_weights([(random.randn(*s) * 0.5).astype(np.float32) for s in shapes])
            arrays = {
                "x": random.randn(B, T, I).astype(np.float32),
                "dy": random.randn(B, T, 2 * H if bidirectional else H).astype(np.float32),
            }
            for i, layer in enumerate(model.layers):
                for j, array in enumerate(layer.get_weights()):
                    arrays[f"layer_{i}/{j}"] = array

            # One step of Adam leaves its moments: (1 - beta) times the gradient, and its square.
            with tf.GradientTape() as tape:
                y = model(arrays["x"])
                loss = tf.reduce_sum(y * arrays["dy"])
            variables = model.trainable_variables
            optimizer = keras.optimizers.Adam(0.01, beta_1=0.5, beta_2=0.75)
            optimizer.build(variables)
            optimizer.apply(tape.gradient(loss, variables), variables)
            arrays["out_y"] = y.numpy()
            j = 0
            for i, layer in enumerate(model.layers):
                for k in range(len(layer.weights)):
                    arrays[f"out_m/layer_{i}/{k}"] = optimizer._momentums[j].numpy()
                    arrays[f"out_v/layer_{i}/{k}"] = optimizer._velocities[j].numpy()
                    j += 1
            name = mode + ("_bidirectional" if bidirectional else "")
            np.savez_compressed(folder / f"{name}.npz", **arrays)


if __name__ == "__main__":
    main()
