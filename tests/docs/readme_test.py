"""The programs of README.md run, from top to bottom, as somebody would who follows it."""

import re

from tests.docs import pages
from tests.helpers import subprocesses

_README = pages.ROOT / "README.md"

# What a reader has when a program is not a whole one.
_BEFORE = """
import keras
import tf_cudnn_rnn
keras_lstm = keras.layers.LSTM(4)
keras_lstm.build([None, None, 3])
"""


def test_programs_run(tmp_path):
    text = _README.read_text()
    programs = [code for _, code in pages.blocks("README.md", "python")]
    assert len(programs) >= 4
    # The sources may not be installed, but nothing else of this folder is needed.
    root = {"PYTHONPATH": str(_README.parent)}

    def run(code: str) -> str:
        return subprocesses.run_code(code, cwd=tmp_path, environment=root, prepared=True)

    # The model from a GPU, by the command that stands beside its program.
    script, folder = re.search(r"`python (examples/\S+)\s+(\S+)` writes one", text).groups()
    run(f"""
import runpy, sys
sys.argv = [{script!r}, {folder!r}]
runpy.run_path({str(_README.parent / script)!r}, run_name="__main__")
""")
    # Those that begin with TensorFlow are whole programs; the others go on from one another.
    whole = [program for program in programs if program.startswith("import tensorflow")]
    rest = [program for program in programs if program not in whole]
    printed = [run(code) for code in [*whole, "\n".join([_BEFORE, *rest])]]
    assert "'frames': TensorSpec(" in printed[0]
    assert "<tf.Tensor: shape=(8, 4)" in printed[0]
    assert "(14848,)" in printed[1]  # the shape of the gradient
