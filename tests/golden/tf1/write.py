"""Writes, with TensorFlow 1.15, what the tests of from_tf1_* read: write.py FOLDER.

The cells of tf.contrib.cudnn_rnn for the CPU have the variables that checkpoints of its GPU
layers hold. The conversion of the GPU's weights to these is tf.contrib's own, too.
"""

import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.contrib import rnn as contrib_rnn  # noqa: E402
from tensorflow.contrib.cudnn_rnn.python.ops import cudnn_rnn_ops  # noqa: E402

tf.compat.v1.logging.set_verbosity(tf.compat.v1.logging.ERROR)

SEED = 2105
T, B, I, H, L = 5, 2, 3, 4, 2
RNN = tf.compat.v1.nn.rnn_cell

# Name: cell, layers, bidirectional, variable scope.
CASES = {
    "cudnn_lstm": (lambda: cudnn_rnn_ops.CudnnCompatibleLSTMCell(H), L, False, ""),
    "cudnn_lstm_bidirectional": (lambda: cudnn_rnn_ops.CudnnCompatibleLSTMCell(H), L, True, "en"),
    "cudnn_gru": (lambda: cudnn_rnn_ops.CudnnCompatibleGRUCell(H), L, False, "encoder"),
    "cudnn_gru_bidirectional": (lambda: cudnn_rnn_ops.CudnnCompatibleGRUCell(H), L, True, ""),
    "cudnn_tanh": (lambda: RNN.BasicRNNCell(H, tf.nn.tanh), L, False, ""),
    "cudnn_relu_bidirectional": (lambda: RNN.BasicRNNCell(H, tf.nn.relu), L, True, ""),
    "basic_lstm": (lambda: RNN.BasicLSTMCell(H), L, False, "decoder/inner"),
    "basic_lstm_one_layer": (lambda: RNN.BasicLSTMCell(H), 1, False, ""),
    "basic_lstm_bidirectional": (lambda: RNN.BasicLSTMCell(H), 1, True, ""),
    "lstm_proj": (lambda: RNN.LSTMCell(5, num_proj=2, forget_bias=0.5), L, True, ""),
    "lstm_block": (lambda: contrib_rnn.LSTMBlockCell(H), L, False, ""),
}
# Cells that are refused.
REFUSED = {
    "gru_block": (lambda: contrib_rnn.GRUBlockCellV2(H), L, False, ""),
    "lstm_peephole": (lambda: RNN.LSTMCell(H, use_peepholes=True), L, False, ""),
}
CONVERTERS = {
    "lstm": cudnn_rnn_ops.CudnnParamsFormatConverterLSTM,
    "gru": cudnn_rnn_ops.CudnnParamsFormatConverterGRU,
    "rnn_tanh": cudnn_rnn_ops.CudnnParamsFormatConverterTanh,
}


def write_network(folder, name, random, make_cell, layers, bidirectional, scope):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        arrays = {"x": random.randn(T, B, I).astype(np.float32)}
        x = tf.constant(arrays["x"])
        with tf.compat.v1.variable_scope(scope) if scope else tf.name_scope(None):
            if bidirectional and layers > 1:
                y, _, _ = contrib_rnn.stack_bidirectional_dynamic_rnn(
                    [make_cell() for _ in range(layers)],
                    [make_cell() for _ in range(layers)],
                    x,
                    dtype=tf.float32,
                    time_major=True,
                )
            elif bidirectional:
                y, _ = tf.compat.v1.nn.bidirectional_dynamic_rnn(
                    make_cell(), make_cell(), x, dtype=tf.float32, time_major=True
                )
                y = tf.concat(y, axis=2)
            else:
                cell = RNN.MultiRNNCell([make_cell() for _ in range(layers)])
                if layers == 1:
                    cell = make_cell()
                y, _ = tf.compat.v1.nn.dynamic_rnn(cell, x, dtype=tf.float32, time_major=True)
        weights = tf.compat.v1.trainable_variables()
        session.run(tf.compat.v1.global_variables_initializer())
        for variable in weights:
            variable.load((random.randn(*variable.shape) * 0.5).astype(np.float32), session)
        arrays["out_y"] = session.run(y)
        # The checkpoint's keys, read back as users would.
        path = tf.compat.v1.train.Saver().save(session, str(folder / "model"))
        reader = tf.compat.v1.train.NewCheckpointReader(path)
        for key in sorted(reader.get_variable_to_shape_map()):
            arrays["variables/" + key] = reader.get_tensor(key)
        for file in [folder / "checkpoint"] + list(folder.glob("model.*")):
            file.unlink()
        np.savez_compressed(str(folder / (name + ".npz")), **arrays)


def write_conversion(folder, name, random, converter_class, bidirectional, num_proj):
    """Saves cuDNN's matrices as the op would hand them out, and the variables made of them."""
    D = 2 if bidirectional else 1
    P = num_proj or H
    direction = "bidirectional" if bidirectional else "unidirectional"
    converter = converter_class(L, H, I, direction=direction, num_proj=num_proj)
    G = converter._num_params_per_layer // 2
    matrices, biases = [], []
    for layer in range(L):
        for _ in range(D):
            columns = I if layer == 0 else D * P
            matrices += [random.randn(H, columns) for _ in range(G)]
            matrices += [random.randn(H, P) for _ in range(G)]
            matrices += [random.randn(P, H)] if num_proj else []
            biases += [random.randn(H) for _ in range(2 * G)]
    matrices = [matrix.astype(np.float32) for matrix in matrices]
    biases = [bias.astype(np.float32) for bias in biases]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        constants = [tf.constant(it) for it in matrices], [tf.constant(it) for it in biases]
        outputs = session.run(converter._cu_canonical_to_tf_canonical(*constants))
    vector = np.concatenate([it.ravel() for it in matrices + biases])
    arrays = {"params": vector}
    kinds = ("weights", "biases", "projections")
    for kind, tensors in {kinds[i]: outputs[i] for i in range(len(outputs))}.items():
        for i, tensor in enumerate(tensors):
            arrays[f"{kind}/{i:02}"] = tensor
    np.savez_compressed(str(folder / (name + ".npz")), **arrays)


def main():
    folder = pathlib.Path(sys.argv[1])
    random = np.random.RandomState(SEED)
    for cases in (CASES, REFUSED):
        for name, case in cases.items():
            write_network(folder, name, random, *case)
    for name, converter_class in CONVERTERS.items():
        for bidirectional in (False, True):
            file = "converter_" + name + ("_bidirectional" if bidirectional else "")
            write_conversion(folder, file, random, converter_class, bidirectional, None)
    lstm = CONVERTERS["lstm"]
    write_conversion(folder, "converter_lstm_proj", random, lstm, True, 2)


if __name__ == "__main__":
    main()
