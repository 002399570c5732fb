"""The programs of README.md run, from top to bottom, as somebody would who follows it."""

import pathlib
import re

from tests.python import subprocesses

_README = pathlib.Path(__file__).parents[2] / "README.md"

# A model as a program for GPUs writes it, which has never heard of this library.
_EXPORT = """
import tensorflow as tf

class Model(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 20, 16])])
    def __call__(self, x):
        with tf.device("/GPU:0"):
            return tf.raw_ops.CudnnRNNV3(
                input=x, input_h=tf.zeros([tf.shape(x)[0], 1, 4]),
                input_c=tf.zeros([tf.shape(x)[0], 1, 4]), params=tf.ones([352]),
                sequence_lengths=tf.fill([tf.shape(x)[0]], 20), time_major=False,
            ).output

model = Model()
tf.saved_model.save(model, "exported_on_a_gpu", {"serving_default": model.__call__})
"""

# What a reader has when a program is not a whole one.
_BEFORE = """
import keras
import tf_cudnn_rnn
keras_lstm = keras.layers.LSTM(4)
keras_lstm.build([None, None, 3])
"""


def test_programs_run(tmp_path):
    programs = re.findall(r"^```python\n(.*?)^```$", _README.read_text(), re.M | re.S)
    assert len(programs) >= 4
    # The sources may not be installed, but nothing else of this folder is needed.
    root = {"PYTHONPATH": str(_README.parent)}
    subprocesses.run_code(_EXPORT, cwd=tmp_path, environment=root, prepared=True)
    # Those that begin with TensorFlow are whole programs; the others go on from one another.
    whole = [program for program in programs if program.startswith("import tensorflow")]
    rest = [program for program in programs if program not in whole]
    printed = [
        subprocesses.run_code(code, cwd=tmp_path, environment=root, prepared=True)
        for code in [*whole, "\n".join([_BEFORE, *rest])]
    ]
    assert "'output_0': <tf.Tensor" in printed[0]  # the SavedModel's output
    assert "(14848,)" in printed[1]  # the shape of the gradient


def test_the_inputs_of_the_example_are_those_of_its_writer(tmp_path):
    text = " ".join(_README.read_text().split())
    pattern = r"`python (examples/\S+) (\S+)` writes one, .*? by name: `(.*?)`"
    script, folder, inputs = re.search(pattern, text).groups()
    code = f"""
import runpy, sys
sys.argv = [{script!r}, {folder!r}]
runpy.run_path({str(_README.parent / script)!r}, run_name="__main__")
import tensorflow as tf
import tf_cudnn_rnn
print(tf.saved_model.load({folder!r}).signatures["serving_default"]({inputs}))
"""
    root = {"PYTHONPATH": str(_README.parent)}
    printed = subprocesses.run_code(code, cwd=tmp_path, environment=root, prepared=True)
    assert "<tf.Tensor: shape=(8, 4)" in printed
