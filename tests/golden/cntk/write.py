"""Writes, with CNTK, what the tests of from_cntk read: write.py FOLDER.

CNTK infers the shape of the matrix. OptimizedRNNStack itself runs on GPUs only; the outputs are
those of CNTK's own conversion for the CPU, which knows no GRU.
"""

import os
import pathlib
import sys
import warnings

import mpi_stub

mpi_stub.restart_with_stub()
os.environ["CUDA_VISIBLE_DEVICES"] = ""
warnings.simplefilter("ignore")

import cntk as C  # noqa: E402
import numpy as np  # noqa: E402
from cntk.misc import optimized_rnnstack_converter  # noqa: E402

SEED = 2104
T, I = 5, 3

# Name: recurrent_op, hiddenDims, layers, bidirectional.
CASES = {
    "lstm": ("lstm", 4, 2, True),
    "gru": ("gru", 4, 2, True),
    "rnn_tanh": ("rnnTanh", 4, 2, False),
    "rnn_relu": ("rnnReLU", 4, 2, True),
}


def main():
    folder = pathlib.Path(sys.argv[1])
    random = np.random.RandomState(SEED)
    for name, (recurrent_op, H, L, bidirectional) in CASES.items():
        x = C.sequence.input_variable(I)
        W = C.parameter((C.InferredDimension, H), init=0.5)
        stack = C.optimized_rnnstack(x, W, H, L, bidirectional, recurrent_op, name="stack")
        W = stack.parameters[0]
        W.value = (random.randn(*W.shape) * 0.5).astype(np.float32)
        arrays = {"x": random.randn(T, I).astype(np.float32), "matrix": W.value}
        if recurrent_op != "gru":
            converted = optimized_rnnstack_converter.convert_optimized_rnnstack(stack)
            arrays["out_y"] = converted.eval({converted.arguments[0]: [arrays["x"]]})[0]
        np.savez_compressed(str(folder / (name + ".npz")), **arrays)


if __name__ == "__main__":
    main()
