"""The messages that docs/troubleshooting.md quotes are those that the library gives."""

import contextlib
import itertools
import logging
import re
import textwrap
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.docs import pages
from tests.helpers import subprocesses
from tf_cudnn_rnn import _library, raw_ops, runtime, weights

PAGE = (pages.ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
# What stands in bold, as code, before an answer.
QUOTED = [
    next(filter(None, match))
    for line in re.findall(r"^\*\*`.+", PAGE, re.MULTILINE)
    for match in re.findall(r"\*\*(?:`` (.+?) ``|`(.+?)`)\*\*", line)
]


ARGUMENTS = {
    "input": np.zeros([3, 2, 4], np.float32),
    "input_h": np.zeros([1, 2, 4], np.float32),
    "input_c": np.zeros([1, 2, 4], np.float32),
    "params": np.zeros([tf_cudnn_rnn.params_size("lstm", 1, 4, 4)], np.float32),
    "sequence_lengths": [3, 3],
}


def op(ops=raw_ops, **changes):
    return ops.CudnnRNNV3(**{**ARGUMENTS, **changes})


def backward_after_inference():
    forward = op(is_training=False)
    raw_ops.CudnnRNNBackpropV3(
        **ARGUMENTS,
        **forward._asdict(),
        output_backprop=forward.output,
        output_h_backprop=forward.output_h,
        output_c_backprop=forward.output_c,
    )


def gradient_after_inference():
    x = tf.zeros([3, 2, 4])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = op(input=x, is_training=False).output
    tape.gradient(y, x)


def library_of_older_sources():
    older = _library.build_info()._replace(ops="those of other sources")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(_library, "build_info", lambda: older)
        _library.load.__wrapped__()


def without_a_runtime(folder):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runtime, "_FOLDER", folder)
        return runtime.library_path()


def damaged_runtime(folder):
    folder.mkdir()
    (folder / "librnn_runtime.so").write_text("no library")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runtime, "_FOLDER", folder)
        return runtime._load_library()


def op_of_int8(**changes):
    arguments = {key: value for key, value in ARGUMENTS.items() if key != "params"}
    small = weights.quantize(ARGUMENTS["params"], weights.Layout("lstm", 1, 4, 4))
    three = {"weights": small.weights, "scales": small.scales, "biases": small.biases}
    return raw_ops.CudnnRNNInt8(**{**arguments, **three, **changes})


def tf1_checkpoint(path):
    canonical = weights.from_cudnn(ARGUMENTS["params"], "lstm", 1, 4, 4)
    arrays, _ = weights.to_tf1_cudnn(canonical)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        saver = tf.compat.v1.train.Saver({key: tf.Variable(arrays[key]) for key in arrays})
        session.run(tf.compat.v1.global_variables_initializer())
        saver.save(session, str(path))
    return weights.load(str(path))


def torch_state(prefix):
    canonical = weights.from_cudnn(ARGUMENTS["params"], "lstm", 1, 4, 4)
    return weights.to_torch(canonical, prefix=prefix).arrays


def call_by_position(folder):
    """A signature of two inputs, called as if they had no names."""
    model = tf.Module()
    spec = tf.TensorSpec([2])
    model.add = tf.function(lambda x, y: x + y, input_signature=[spec, spec])
    tf.saved_model.save(model, str(folder), model.add)
    return tf.saved_model.load(str(folder)).signatures["serving_default"](tf.zeros([2]))


def in_a_process(*attempts, **environment):
    """What each attempt prints or raises in a process of its own, one after another."""
    code = "".join(
        f"try:\n{textwrap.indent(attempt, '  ')}\nexcept Exception as e:\n  print(e)\n"
        for attempt in attempts
    )
    return subprocesses.run_code(code, environment=environment, prepared=True)


BUILTIN_CALL = """
import tensorflow as tf
z = tf.zeros([2, 2, 4])  # two steps, two rows; two layers, between which dropout acts
def call(**options):
    return tf.raw_ops.CudnnRNNV3(
        input=z, input_h=z, input_c=z, params=tf.zeros([320]), sequence_lengths=[1, 1], **options
    )
call()
"""


def without_the_library_and_then_with_it(folder):
    """What is said of built-in ops, eager and in a graph, of a graph of own ops; of no seed."""
    model = tf.Module()
    model.call = tf.function(lambda: op(is_training=False).output)
    model.call.get_concrete_function()
    tf.saved_model.save(model, str(folder))
    return in_a_process(
        BUILTIN_CALL,
        "tf.function(call)()",
        f"tf.saved_model.load({str(folder)!r})",
        "import tf_cudnn_rnn\ntf.config.experimental.enable_op_determinism()\ncall(dropout=0.5)",
        "import tf_cudnn_rnn.keras\n"
        "layer = tf_cudnn_rnn.keras.CudnnLSTM(3, num_layers=2, dropout=0.5)\n"
        "layer(tf.zeros([2, 3, 4]), training=True)",
    )


class MadeInCode(keras.Model):
    """A model whose config names no layers."""

    def __init__(self):
        super().__init__()
        self.rnn = keras.layers.LSTM(2)
        self.rnn.build((None, 5, 3))
        self.built = True


@keras.saving.register_keras_serializable(package="troubleshooting_test")
class RegisteredMadeInCode(MadeInCode):
    """One that Keras makes again."""

    def get_config(self):
        return {}  # __init__() takes no name


def frozen_after_compiling(x):
    """A trained model, of which not all can be trained now."""
    model = keras.Sequential([keras.Input([5, 3]), keras.layers.LSTM(2), keras.layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, np.zeros([2, 1]), verbose=0)
    model.layers[0].trainable = False
    return model


def accelerated_for_xla(x):
    layer = keras.layers.LSTM(2)
    with tf_cudnn_rnn.keras.accelerate():
        return tf.function(lambda x: layer(x), jit_compile=True)(x)


def said(function, *arguments, **options) -> str:
    """The message of an error, a warning or a record of the log."""
    records = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())
    logger = logging.getLogger("tf_cudnn_rnn")
    logger.addHandler(handler)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = function(*arguments, **options)
        except Exception as error:  # noqa: BLE001 whatever it is
            result = str(error)
        finally:
            logger.removeHandler(handler)
    return "\n".join([str(result), *records, *(str(it.message) for it in caught)])


@contextlib.contextmanager
def other_tensorflow(monkeypatch, found):
    with monkeypatch.context() as patched:
        patched.setattr(_library, "libraries", lambda: found)
        yield


def h5_without_the_layers(path):
    """Loads a drop-in's file as a process does that has not imported the drop-ins."""
    keras.Sequential([keras.Input([2, 3]), tf_cudnn_rnn.keras.LSTM(2)]).save(path)
    registered = keras.saving.get_custom_objects()
    known = dict(registered)
    registered.clear()
    try:
        keras.saving.load_model(path)
    finally:
        registered.update(known)


def messages(folder):
    """All that the library and TensorFlow say in the cases of the page."""
    pickle = folder / "model.pt"
    pickle.write_bytes(b"\x80\x04.")
    x = tf.zeros([2, 5, 3])
    states = tf.zeros([1, 2, 4])
    two_types = {
        "input": tf.zeros([3, 2, 4], tf.float64),
        "input_h": states,
        "input_c": states,
        "params": tf.zeros([160]),
    }
    layers = tf_cudnn_rnn.keras
    texts = [
        without_the_library_and_then_with_it(folder / "own"),
        str(_library.needs_tensorflow("tf_cudnn_rnn.raw_ops")),
        said(layers.LSTM(2, activation="relu"), x),
        said(layers.LSTM, 2, activation="relu", use_fused=True),
        said(layers.CudnnLSTM, 2, dropout=0.3),
        *(
            said(function, keras.Sequential([keras.Input([3]), keras.layers.Dense(1)]))
            for function in (layers.accelerate, layers.to_fused)
        ),
        said(layers.to_fused, keras.Sequential([keras.layers.LSTM(2)])),
        *(said(layers.to_fused, model()) for model in (MadeInCode, RegisteredMadeInCode)),
        said(layers.to_fused, frozen_after_compiling(x)),
        said(accelerated_for_xla, x),
        said(layers.LSTM(2), x, mask=np.ones([2, 4], bool)),
        said(layers.LSTM(2), x, initial_state=[tf.zeros([2, 2])]),
        said(op, sequence_lengths=tf.constant([3, 3], tf.int64)),
        said(op, sequence_lengths=[4, 3]),
        said(op, params=np.zeros([5], np.float32)),
        said(op, input=np.zeros([3, 4], np.float32)),
        said(tf.function(op), ops=tf.raw_ops, input=np.zeros([3, 4], np.float32)),
        *(
            said(call, **wrong)
            for call in (op, tf.function(op))
            for wrong in ({"rnn_mode": "LSTM"}, two_types)
        ),
        said(op, input_h=np.zeros([1, 3, 4], np.float32)),
        said(op, seed=1, rng_seed=[1, 2]),
        said(gradient_after_inference),
        said(backward_after_inference),
        said(library_of_older_sources),
        said(without_a_runtime, folder),
        said(damaged_runtime, folder / "damaged"),
        said(op_of_int8, input=tf.zeros([3, 2, 4], tf.float64)),
        said(layers.LSTM(2), np.zeros([2, 0, 3], np.float32)),
        said(tf1_checkpoint, folder / "tf1"),
        *(
            said(weights.from_torch, torch_state(prefix), "lstm", prefix="b.")
            for prefix in ("", "a.")
        ),
        said(call_by_position, folder / "signature"),
        said(keras.saving.load_model, folder / "signature"),
        said(keras.saving.load_model, pages.ROOT / "tests" / "golden" / "tf_keras" / "lstm.h5"),
        said(h5_without_the_layers, folder / "drop_in.h5"),
        said(weights.from_torch, str(pickle), "lstm"),
        said(layers.load_model, str(folder / "model.h5")),
        said(weights.write_safetensors, str(folder / "model.keras"), {}),
        # What Keras says of a class that nobody registered, as this library's are.
        said(
            keras.saving.deserialize_keras_object,
            keras.saving.serialize_keras_object(layers.LSTM(2)) | {"registered_name": "no>LSTM"},
        ),
        in_a_process(
            "import tf_cudnn_rnn\ntf_cudnn_rnn.instruction_set()",
            "import tf_cudnn_rnn.keras",
            TF_CUDNN_RNN_ISA="sse",
            KERAS_BACKEND="numpy",
        ),
    ]
    patched = pytest.MonkeyPatch()
    for found in ({}, {"2.3": folder}):
        with other_tensorflow(patched, found):
            texts.append(said(_library.library_path))
    with patched.context() as context:
        context.setattr(keras, "__version__", "3.999.0")
        texts.append(said(layers.accelerate))
    return texts


def test_quotes_are_what_the_library_says(tmp_path):
    assert len(QUOTED) >= 25
    texts = messages(tmp_path)
    for quoted in QUOTED:
        pattern = ".*".join(re.escape(piece) for piece in quoted.split("..."))
        assert any(re.search(pattern, text, re.DOTALL) for text in texts), quoted


# What has no answer of its own, and what stands above it.
THE_SAME = {
    "Could not find device for node: {{node CudnnRNNV3}}": "No OpKernel was registered",
    "Shape must be rank 3 but is rank 2": "RNN input must be a 3-D vector.",
    "passed string 'LSTM' not in": "is not in the list of allowed values",
    "has type float32 that does not match": "was expected to be a double tensor",
    "reserve_space must have rank 1": "in gradients, is_training must be set to True",
}


def test_the_same_is_said_of_the_message_above():
    entries = re.findall(r"^\*\*`+ ?(.+?) ?`+\*\*.*\n\n(.+)$", PAGE, re.MULTILINE)
    same = {
        message: above
        for (above, _), (message, answer) in itertools.pairwise(entries)
        if answer.startswith("The same")
    }
    assert len(same) == len(THE_SAME)
    for message, above in same.items():
        (expected,) = [THE_SAME[start] for start in THE_SAME if message.startswith(start)]
        assert above.startswith(expected), message
