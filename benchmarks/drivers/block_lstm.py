"""tf.raw_ops.BlockLSTMV2, TensorFlow's own fused LSTM on CPUs."""

import tensorflow as tf

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers import tensorflow
from benchmarks.drivers.interface import Driver, Step, require
from tf_cudnn_rnn import weights


class BlockLSTM(Driver):
    """One layer, one direction, full batches, in a tf.function."""

    def __init__(self, threads: int):
        tensorflow.set_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(case.rnn_mode == "lstm", "BlockLSTMV2 is an LSTM")
        require(case.num_layers == 1, "BlockLSTMV2 has one layer")
        require(case.num_dirs == 1, "BlockLSTMV2 has one direction")
        require(case.output_size == case.num_units, "BlockLSTMV2 does not project")
        require(not case.is_ragged, "BlockLSTMV2 has one length for all rows")
        require(dtype == "float32", f"BlockLSTMV2 does not take {dtype}")
        arrays = cases.arrays_of(case)
        # The order of gates is Keras'.
        ((kernel, recurrent_kernel, bias),) = weights.to_keras(
            cases.canonical_of(case, arrays.params)
        ).arrays
        no_peephole = tf.zeros([case.num_units])

        def forward(x, h0, c0, w, b):
            return tf.raw_ops.BlockLSTMV2(cs_prev=c0, h_prev=h0, **common(x, w, b))

        def common(x, w, b):
            return {
                "seq_len_max": tf.constant(case.seq_length, tf.int64),
                "x": x,
                "w": w,
                "wci": no_peephole,
                "wcf": no_peephole,
                "wco": no_peephole,
                "b": b,
                "use_peephole": False,
            }

        def infer(x, h0, c0, w, b):
            result = forward(x, h0, c0, w, b)
            return result.h, (result.h[-1], result.cs[-1])

        dy = tf.constant(arrays.dy)

        def train(x, h0, c0, w, b):
            # TensorFlow registers the gradient of BlockLSTM, whose gates have another order.
            result = forward(x, h0, c0, w, b)
            gradients = tf.raw_ops.BlockLSTMGradV2(
                cs_prev=c0,
                h_prev=h0,
                cs_grad=tf.zeros_like(result.cs),
                h_grad=dy,
                **result._asdict(),
                **common(x, w, b),
            )
            return (
                result.h,
                (result.h[-1], result.cs[-1]),
                (gradients.x_grad, gradients.h_prev_grad, gradients.cs_prev_grad)
                + (gradients.w_grad, gradients.b_grad),
            )

        step = tf.function(infer if pass_ == cases.INFERENCE else train, autograph=False)
        tensors = [
            tf.constant(array)
            for array in (
                arrays.x,
                arrays.h0[0],
                arrays.c0[0],
                tf.concat([kernel, recurrent_kernel], axis=0),
                bias,
            )
        ]

        def as_arrays(results) -> dict:
            y, final, *gradients = results
            h, c = (state.numpy()[None] for state in final)
            named = {"y": y.numpy(), "h_n": h, "c_n": c}
            if gradients:
                dx, dh0, dc0, dw, db = (tensor.numpy() for tensor in gradients[0])
                named |= {"dx": dx, "dh0": dh0[None], "dc0": dc0[None]}
                as_keras = [dw[: case.input_size], dw[case.input_size :], db]
                named |= cases.weight_gradients(
                    weights.from_keras(as_keras, "lstm", of="gradients")
                )
            return named

        return Step(lambda: step(*tensors), as_arrays)
