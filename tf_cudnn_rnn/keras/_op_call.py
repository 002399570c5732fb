"""The one op that a CudnnRNN runs: which it is, and the order of axes that it takes."""

import contextlib
from typing import Any

import tensorflow as tf

from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn.keras import _graphs, _onnx_nodes
from tf_cudnn_rnn.keras._shapes import full_lengths, swap


def run(
    layout: Layout,
    params: tf.Tensor,
    inputs: tf.Tensor,
    states: list[tf.Tensor],
    lengths: tf.Tensor | None,
    *,
    inputs_time_major: bool,
    states_time_major: bool,
    training: Any,
    dropout: float,
    rng_seed: tf.Tensor | None,
    for_onnx: bool,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Calls the op.

    Args:
      layout: of the network.
      params: its weights [N].
      inputs: [T, B, I] if `inputs_time_major`, else [B, T, I].
      states: h and, for an LSTM, c; [L*D, B, .] if `states_time_major`, else [B, L*D, .].
      lengths: int32 [B]; None if all rows have all steps.
      inputs_time_major, states_time_major: the orders of axes.
      training: of the layer's call.
      dropout: the probability with which it acts in this call.
      rng_seed: of its masks, int64 [2]; None where it does not act.
      for_onnx: whether nodes of ONNX will take the place of the op.

    Returns:
      The output in the order of axes of `inputs`, the final states in that of `states`.
    """
    has_lengths = lengths is not None
    if lengths is None:
        lengths = full_lengths(inputs, batch_axis=1 if inputs_time_major else 0)
    options: dict[str, Any] = {
        "rnn_mode": layout.rnn_mode,
        "direction": layout.direction,
        "input_mode": layout.input_mode,
        "num_proj": layout.num_proj,
    }
    if for_onnx:
        op, time_major = raw_ops.CudnnRNNV3, inputs_time_major
        options["is_training"] = False
    elif dropout or _graphs.graph_contents.get() == "own":
        op, time_major = raw_ops.CudnnRNNV3, inputs_time_major
        options["is_training"] = dropout > 0 or _graphs.may_need_gradients()
        if dropout:
            options |= {"dropout": dropout, "rng_seed": rng_seed}
    else:
        # TensorFlow's GPU kernel mistakes the axes of batch-major states of more than one entry.
        num_states = layout.num_directions * layout.num_layers
        op, time_major = tf.raw_ops.CudnnRNNV3, inputs_time_major or num_states > 1
        options["is_training"] = (
            bool(training) if _graphs.builds_builtin_graph() else _graphs.may_need_gradients()
        )

    swaps_inputs = time_major != inputs_time_major
    swaps_states = time_major != states_time_major
    states = [swap(state) for state in states] if swaps_states else states
    onnx = _onnx_nodes.Options(all_steps=not has_lengths)
    with _onnx_nodes.scope(onnx) if for_onnx else contextlib.nullcontext():
        result = op(
            input=swap(inputs) if swaps_inputs else inputs,
            input_h=states[0],
            input_c=states[1] if layout.rnn_mode == "lstm" else tf.zeros([], inputs.dtype),
            params=params,
            sequence_lengths=lengths,
            time_major=time_major,
            **options,
        )
    finals = [result.output_h, result.output_c][: len(states)]
    return (
        swap(result.output) if swaps_inputs else result.output,
        [swap(state) for state in finals] if swaps_states else finals,
    )
