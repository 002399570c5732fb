"""Writes a SavedModel as a program on a GPU machine does.

  python examples/gpu_saved_model_writer.py PATH

It uses TensorFlow alone and has never heard of tf_cudnn_rnn. It needs no GPU either:
making a graph runs none of its nodes. On a machine with a GPU it writes the same nodes,
and there it would train the model first; here its weights are random. Its signature:

  frames float32 [B, T, 8], lengths int32 [B]  ->  logits [B, 4]

The nodes are those that Keras makes for its layers where it finds a GPU: CudnnRNNV3,
time-major, with is_training=True even to predict.
"""

import argparse

import tensorflow as tf

FEATURES, CLASSES = 8, 4
LAYERS, UNITS = 2, 32  # in either direction
SEED = 1


def params_size() -> int:
    """The weights of the LSTM: 4 gates, with two matrices and two biases each."""
    size = 0
    for layer in range(LAYERS):
        inputs = FEATURES if layer == 0 else 2 * UNITS
        size += 2 * 4 * UNITS * (inputs + UNITS + 2)
    return size


class Classifier(tf.Module):
    """Two bidirectional LSTM layers, and a decision from their final states."""

    def __init__(self):
        super().__init__()
        random = tf.random.Generator.from_seed(SEED)
        self.params = tf.Variable(random.normal([params_size()], stddev=0.2), name="params")
        self.kernel = tf.Variable(random.normal([2 * UNITS, CLASSES], stddev=0.2), name="kernel")
        self.bias = tf.Variable(tf.zeros([CLASSES]), name="bias")

    @tf.function(
        input_signature=[
            tf.TensorSpec([None, None, FEATURES], tf.float32, "frames"),
            tf.TensorSpec([None], tf.int32, "lengths"),
        ]
    )
    def predict(self, frames, lengths):
        zeros = tf.zeros([2 * LAYERS, tf.shape(frames)[0], UNITS])
        rnn = tf.raw_ops.CudnnRNNV3(
            input=tf.transpose(frames, [1, 0, 2]),
            input_h=zeros,
            input_c=zeros,
            params=self.params,
            sequence_lengths=lengths,
            direction="bidirectional",
            is_training=True,
        )
        # States come layer by layer, forward before backward: the last two are the top's.
        top = tf.concat([rnn.output_h[-2], rnn.output_h[-1]], axis=1)
        return {"logits": top @ self.kernel + self.bias}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("path", help="the folder to write")
    path = parser.parse_args(arguments).path
    model = Classifier()
    tf.saved_model.save(model, path, signatures=model.predict)


if __name__ == "__main__":
    main()
