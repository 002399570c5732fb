"""Writes, with MXNet, what the tests of from_mxnet read: write.py FOLDER."""

import pathlib
import sys

import mxnet as mx
import numpy as np

SEED = 2103
T, B, I = 5, 2, 3

# Name: mode, state_size, layers, bidirectional, projection_size.
CASES = {
    "lstm": ("lstm", 4, 2, True, None),
    "lstm_proj": ("lstm", 5, 2, True, 2),
    "gru": ("gru", 4, 2, True, None),
    "rnn_tanh": ("rnn_tanh", 4, 2, False, None),
    "rnn_relu": ("rnn_relu", 4, 2, True, None),
}


def get_size(mode, H, L, bidirectional, projection):
    """Returns the size of the fused vector that MXNet infers."""
    x, p, h, c = (mx.sym.Variable(name) for name in "xphc")
    inputs = [x, p, h, c] if mode == "lstm" else [x, p, h]
    rnn = mx.sym.RNN(
        *inputs,
        state_size=H,
        num_layers=L,
        mode=mode,
        bidirectional=bidirectional,
        projection_size=projection,
    )
    shapes, _, _ = rnn.infer_shape(x=(T, B, I))
    return shapes[rnn.list_arguments().index("p")][0]


def main():
    folder = pathlib.Path(sys.argv[1])
    random = np.random.RandomState(SEED)
    for name, (mode, H, L, bidirectional, projection) in CASES.items():
        D = 2 if bidirectional else 1
        P = projection or H
        size = get_size(mode, H, L, bidirectional, projection)
        arrays = {
            "x": random.randn(T, B, I),
            "parameters": random.randn(size) * 0.5,
            "h0": random.randn(L * D, B, P) * 0.5,
            "c0": random.randn(L * D, B, H) * 0.5 if mode == "lstm" else np.zeros([0]),
        }
        arrays = {key: value.astype(np.float32) for key, value in arrays.items()}
        inputs = [mx.nd.array(arrays[key]) for key in ("x", "parameters", "h0")]
        if mode == "lstm":
            inputs.append(mx.nd.array(arrays["c0"]))
        results = mx.nd.RNN(
            *inputs,
            state_size=H,
            num_layers=L,
            mode=mode,
            bidirectional=bidirectional,
            projection_size=projection,
            state_outputs=True,
        )
        for i, key in enumerate(("out_y", "out_h_n", "out_c_n")[: len(results)]):
            arrays[key] = results[i].asnumpy()
        np.savez_compressed(str(folder / (name + ".npz")), **arrays)


if __name__ == "__main__":
    main()
