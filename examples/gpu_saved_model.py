"""Takes a SavedModel made for GPUs, and runs and trains it on the CPU.

  python examples/gpu_saved_model.py

1. Another process, with TensorFlow alone, writes the model (gpu_saved_model_writer.py).
   No GPU took part in making it, but its nodes are those that a GPU machine writes.
2. A third process, again with TensorFlow alone, tries to run it and shows why it fails.
3. This one has imported tf_cudnn_rnn. It loads the model, predicts, and compares with
   layers of Keras itself that got the same weights.
4. It goes on to train the model, on a task with a known answer: which of four features
   stood out in the first frame of a sequence, however many frames of noise follow.

The program fails if a logit differs by more than rounding explains, before or after the
training, or if less than 99 % of held-out sequences are classified rightly in the end.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import keras
import number_options
import numpy as np
import tensorflow as tf

import tf_cudnn_rnn  # all it takes: now the CPU has kernels for CudnnRNN*

WRITER = pathlib.Path(__file__).with_name("gpu_saved_model_writer.py")
CLOSE = 1e-5  # largest difference of logits, as a part of the largest logit
REQUIRED = 0.99
FEATURES, CLASSES, LAYERS, UNITS = 8, 4, 2, 32  # of the model
HELD_OUT = 1000

RUN_WITH_TENSORFLOW_ALONE = """
import sys
import tensorflow as tf

predict = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
try:
    predict(frames=tf.zeros([1, 3, 8]), lengths=tf.constant([3]))
except tf.errors.OpError as error:
    sys.exit(error.message.splitlines()[0])
"""


def with_tensorflow_alone(*arguments) -> subprocess.CompletedProcess:
    """Runs Python in a process that sees no GPU and does not import tf_cudnn_rnn."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"},
        capture_output=True,
        text=True,
        check=False,
    )


def draw(count: int, rng: np.random.Generator):
    """Returns frames [B, T, FEATURES] of noise, lengths [B] and labels [B]."""
    lengths = rng.integers(1, 16, count, dtype=np.int32)
    labels = rng.integers(CLASSES, size=count, dtype=np.int32)
    frames = rng.normal(size=[count, 15, FEATURES]).astype(np.float32)
    frames[np.arange(count), 0, labels] += 5
    return frames, lengths, labels


def keras_twin(model) -> keras.Model:
    """Keras' own layers, with Keras' own loop over time, and the weights of the SavedModel."""
    canonical = tf_cudnn_rnn.weights.from_cudnn(
        model.params.numpy(), "lstm", LAYERS, UNITS, FEATURES, direction="bidirectional"
    )
    layers, _ = tf_cudnn_rnn.weights.to_keras(canonical)

    frames = keras.Input([None, FEATURES])
    mask = keras.Input([None], dtype="bool")
    y = frames
    for layer in range(LAYERS):
        lstm = keras.layers.LSTM(UNITS, return_sequences=layer < LAYERS - 1, use_cudnn=False)
        y = keras.layers.Bidirectional(lstm)(y, mask=mask)
    twin = keras.Model([frames, mask], keras.layers.Dense(CLASSES)(y))
    twin.set_weights([*layers[0], *layers[1], model.kernel.numpy(), model.bias.numpy()])
    return twin


def logits_of(model, frames: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    serve = model.signatures["serving_default"]
    return serve(frames=tf.constant(frames), lengths=tf.constant(lengths))["logits"].numpy()


def largest_difference(model, data) -> float:
    """How far the SavedModel's logits are from those of its twin in Keras, relatively."""
    frames, lengths, _ = data
    mask = np.arange(frames.shape[1]) < lengths[:, np.newaxis]
    theirs = keras_twin(model).predict_on_batch([frames, mask])
    difference = np.abs(logits_of(model, frames, lengths) - theirs).max()
    return float(difference / np.abs(theirs).max())


def accuracy(model, data) -> float:
    frames, lengths, labels = data
    return float(np.mean(logits_of(model, frames, lengths).argmax(axis=1) == labels))


def fine_tune(model, held_out, options: argparse.Namespace) -> None:
    """Trains all variables of the SavedModel."""
    rng = np.random.default_rng(options.seed + 1)
    optimizer = keras.optimizers.Adam(0.01)
    variables = [model.params, model.kernel, model.bias]

    @tf.function
    def step(frames, lengths, labels):
        with tf.GradientTape() as tape:
            logits = model.predict(frames, lengths)["logits"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        optimizer.apply(tape.gradient(loss, variables), variables)
        return loss

    start = time.monotonic()
    for i in range(options.steps):
        loss = step(*map(tf.constant, draw(64, rng)))
        if (i + 1) % max(1, options.steps // 5) == 0:
            print(
                f"   step {i + 1} | loss {loss:.3f} | "
                f"held out: {accuracy(model, held_out):.1%} right | "
                f"{time.monotonic() - start:.0f} s",
                flush=True,
            )


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Runs and trains a GPU's SavedModel on the CPU.")
    parser.add_argument(
        "--steps", type=int, default=100, help="batches of fine-tuning (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (%(default)s)")
    options = parser.parse_args(argv)
    number_options.check(parser, options, steps=0)
    return options


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    held_out = draw(HELD_OUT, np.random.default_rng(options.seed))
    with tempfile.TemporaryDirectory() as path:
        print("1. TensorFlow alone writes the model ...", flush=True)
        written = with_tensorflow_alone(WRITER, path)
        if written.returncode != 0:
            sys.exit(f"{WRITER.name} ended with status {written.returncode}:\n{written.stderr}")

        print("2. TensorFlow alone tries to run it:", flush=True)
        attempt = with_tensorflow_alone("-c", RUN_WITH_TENSORFLOW_ALONE, path)
        said = attempt.stderr.strip().splitlines() or [
            f"it said nothing, and ended with status {attempt.returncode}"
        ]
        print(f"   {said[-1]}")
        fails_without = attempt.returncode != 0

        model = tf.saved_model.load(path)
        difference = largest_difference(model, held_out)
        print(f"3. With tf_cudnn_rnn it runs. Largest difference from Keras: {difference:.1e}")

    print("4. Fine-tuning ...")
    fine_tune(model, held_out, options)
    score = accuracy(model, held_out)
    difference = max(difference, largest_difference(model, held_out))
    print(
        f"result: accuracy={score:.4f} required={REQUIRED} difference={difference:.1e} "
        f"allowed={CLOSE} fails_without_the_library={fails_without}"
    )
    return 0 if fails_without and difference <= CLOSE and score >= REQUIRED else 1


if __name__ == "__main__":
    sys.exit(main())
