"""This library's op: in a tf.function, eager, in SavedModels; and a tf.function without it."""

import tempfile

import tensorflow as tf

import tf_cudnn_rnn
from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers import tensorflow
from benchmarks.drivers.interface import Driver, Step, by_state, require


def _call(
    op, case: Case, is_training: bool, lengths, x, h0, c0, params, input_mode: str = "linear_input"
):
    result = op(
        input=x,
        input_h=h0,
        input_c=c0,
        params=params,
        sequence_lengths=lengths,
        rnn_mode=case.rnn_mode,
        direction=case.direction,
        input_mode=input_mode,
        num_proj=case.num_proj,
        dropout=case.dropout,
        is_training=is_training,
    )
    return result.output, (result.output_h, result.output_c)


def _tensors(case: Case, arrays: cases.Arrays, dtype: str) -> list[tf.Tensor]:
    """The op's x, h0, c0 and params."""
    c0 = arrays.c0 if case.rnn_mode == "lstm" else arrays.h0[:0]  # not read
    return [tf.cast(array, dtype) for array in (arrays.x, arrays.h0, c0, arrays.params)]


def _outputs(case: Case, y, h, c) -> dict:
    y, *states = map(tensorflow.to_array, (y, h, c))
    return {"y": y} | by_state(case, states, "h_n", "c_n")


class Op(Driver):
    """tf_cudnn_rnn.raw_ops.CudnnRNNV3 in a tf.function."""

    input_mode = "linear_input"

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        arrays = cases.arrays_of(case)
        lengths = tf.constant(arrays.lengths)
        op = tf_cudnn_rnn.raw_ops.CudnnRNNV3

        def forward(*tensors):
            is_training = pass_ == cases.TRAINING
            return _call(op, case, is_training, lengths, *tensors, input_mode=self.input_mode)

        step = tensorflow.traced_step(forward, pass_, tf.cast(arrays.dy, dtype))
        *inputs, params = _tensors(case, arrays, dtype)
        tensors = (*inputs, params[: case.layout_of(self.input_mode).size])

        def as_arrays(results) -> dict:
            y, final, *gradients = results
            named = _outputs(case, y, *final)
            if gradients:
                dx, *of_states, dparams = map(tensorflow.to_array, gradients[0])
                named |= {"dx": dx} | by_state(case, of_states, "dh0", "dc0")
                canonical = cases.canonical_of(case, dparams, self.input_mode)
                named |= cases.weight_gradients(canonical)
            return named

        return Step(lambda: step(*tensors), as_arrays)


class SkipInputOp(Op):
    """The same with input_mode="skip_input": another network, whose layer 0 has no input kernel.

    Its params are the first of the case's.
    """

    input_mode = "skip_input"

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(case.input_size == case.num_units, "an input that is skipped has H features")
        return super().build(case, pass_, dtype)


class EagerOp(Driver):
    """tf_cudnn_rnn.raw_ops.CudnnRNNV3, called without a tf.function."""

    op = staticmethod(tf_cudnn_rnn.raw_ops.CudnnRNNV3)

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(pass_ == cases.INFERENCE, "what is measured is the call")
        arrays = cases.arrays_of(case)
        lengths = tf.constant(arrays.lengths)
        tensors = _tensors(case, arrays, dtype)

        def call():
            return _call(self.op, case, False, lengths, *tensors)

        return Step(call, lambda results: _outputs(case, results[0], *results[1]))


class EagerBuiltInOp(EagerOp):
    """tf.raw_ops.CudnnRNNV3, likewise, by this library's kernel."""

    op = staticmethod(tf.raw_ops.CudnnRNNV3)


class EmptyCall(Driver):
    """A tf.function of the op's inputs that adds 1 to them: what the call itself costs.

    It gets one step of one sequence, for what adding takes is not the call's.
    """

    reads_weights = False  # whether before each call all weights are read, which is not timed

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(pass_ == cases.INFERENCE, "an empty call has no gradients")

        def add_one(x, h0, c0, params):
            del params
            return x + 1, (h0 + 1, c0 + 1)

        step = tf.function(add_one, autograph=False)
        arrays = cases.arrays_of(case)
        x, h0, c0, params = _tensors(case, arrays, dtype)
        tensors = (x[:1, :1], h0[:, :1], c0[:, :1], params)
        before = arrays.params.sum if self.reads_weights else lambda: None
        return Step(lambda: step(*tensors), lambda results: {}, before)


class ColdCall(EmptyCall):
    """The same after a thread has read the weights, which may drive code out of the caches."""

    reads_weights = True


class _Saved(Driver):
    """A SavedModel of TensorFlow's CudnnRNNV3, as GPUs write them; predicts."""

    is_training: bool

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(pass_ == cases.INFERENCE, "a SavedModel predicts")
        arrays = cases.arrays_of(case)
        x, h0, c0, params = _tensors(case, arrays, dtype)
        with tempfile.TemporaryDirectory() as folder:
            save(case, folder, x, h0, c0, params, tf.raw_ops.CudnnRNNV3, self.is_training)
            model = tf.saved_model.load(folder)
        lengths = tf.constant(arrays.lengths)

        def predict():  # holds `model`, whose variables the signature needs
            return model.signatures["serving_default"](x=x, h0=h0, c0=c0, lengths=lengths)

        return Step(predict, lambda results: _outputs(case, *(results[name] for name in "yhc")))


class SavedInference(_Saved):
    """... with is_training=False."""

    is_training = False


class SavedTraining(_Saved):
    """... with is_training=True, as Keras writes it on GPUs."""

    is_training = True


def save(case: Case, folder: str, x, h0, c0, params, op, is_training: bool) -> None:
    """Writes a SavedModel with the inputs x, h0, c0 and lengths, the outputs y, h and c."""
    module = tf.Module()
    module.params = tf.Variable(params)

    @tf.function(
        input_signature=[
            tf.TensorSpec(x.shape, x.dtype, "x"),
            tf.TensorSpec(h0.shape, h0.dtype, "h0"),
            tf.TensorSpec(c0.shape, c0.dtype, "c0"),
            tf.TensorSpec([case.batch], tf.int32, "lengths"),
        ]
    )
    def serve(x, h0, c0, lengths):
        y, (h, c) = _call(op, case, is_training, lengths, x, h0, c0, module.params)
        return {"y": y, "h": h, "c": c}

    module.serve = serve
    tf.saved_model.save(module, folder, signatures=serve)
