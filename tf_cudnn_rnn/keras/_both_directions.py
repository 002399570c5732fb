"""Both halves of a Bidirectional layer as one op.

Keras calls one layer after the other, reverses the second's output and joins the two. One op
takes the input once, runs short steps of both directions at once, and writes what is joined.

So the halves are not called. What their __call__ and call do in Keras is done here: they take
states from the caller, from themselves or zeros, keep them if they are stateful, cast them, and
draw dropout masks. What else they do (build themselves, add an activity regulariser, read weights
in another type than the wrapper, whatever a subclass does), _can_run leaves to Keras.
"""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn._types import RnnMode
from tf_cudnn_rnn.keras import _graphs, _inner_loop, _masks, _onnx_nodes
from tf_cudnn_rnn.keras._drop_in import DropIn
from tf_cudnn_rnn.keras._shapes import full_lengths

_KERAS_CALL = keras.layers.Bidirectional.call  # accelerate() puts another in its place
_LOOPS = (DropIn.inner_loop, _inner_loop.inner_loop)  # the other, of accelerated layers
_CALLS_OF_HALVES = tuple(
    cls.call for cls in (keras.layers.LSTM, keras.layers.GRU, keras.layers.SimpleRNN)
)


def call(
    wrapper: keras.layers.Bidirectional,
    sequences: tf.Tensor,
    initial_state: Any = None,
    mask: Any = None,
    training: bool | None = None,
) -> Any:
    """Takes the place of Bidirectional.call; sets `runs_as_one`."""
    wrapper.runs_as_one = _can_run(wrapper, sequences, initial_state, mask, bool(training))
    if wrapper.runs_as_one:
        return _run(wrapper, sequences, initial_state, mask)
    return _KERAS_CALL(wrapper, sequences, initial_state, mask, training)


def _can_run(
    wrapper: keras.layers.Bidirectional,
    sequences: tf.Tensor,
    initial_state: Any,
    mask: Any,
    training: bool,
) -> bool:
    """Whether one op can do what two calls do. What is wrong with a call, Keras is to say."""
    halves = wrapper.forward_layer, wrapper.backward_layer
    if _onnx_nodes.builds_graph() or _graphs.graph_contents.get() not in (None, "own"):
        return False
    if not all(_is_plain(half, training) for half in halves):
        return False
    if any(_inner_loop.is_left_to_gpu(half, _masks.single(mask), training) for half in halves):
        return False
    num_states = 2 * len(halves[0].state_size)
    return (
        not (training and _may_run_at_once())
        and [half.go_backwards for half in halves] == [False, True]
        # Variables are cast to the type of what is called, and then are those of the halves.
        and all(half.compute_dtype == wrapper.compute_dtype for half in halves)
        and _kind(halves[0]) == _kind(halves[1])
        and _inner_loop.obstacle_of_input(sequences) is None
        and len(sequences.shape) == 3
        and (
            initial_state is None
            or (isinstance(initial_state, list | tuple) and len(initial_state) == num_states)
        )
        and not (wrapper.stateful and sequences.shape[0] != halves[0].states[0].shape[0])
    )


def _may_run_at_once() -> bool:
    """Whether TensorFlow may run two ops of what is being built at once, as good as one op."""
    return (
        not tf.executing_eagerly() and tf.config.threading.get_inter_op_parallelism_threads() != 1
    )


def _is_plain(half: keras.layers.RNN, training: bool) -> bool:
    """Whether a half runs fused, as Keras or a drop-in has it, and draws nothing by itself."""
    return (
        type(half).__call__ is keras.layers.RNN.__call__
        and type(half).call in _CALLS_OF_HALVES
        and type(half).get_initial_state is keras.layers.RNN.get_initial_state
        # What somebody has set; the cell's own call is for obstacle() to see.
        and vars(half).keys().isdisjoint(("call", "get_initial_state"))
        and "get_initial_state" not in vars(half.cell)
        and half.built
        and getattr(half.inner_loop, "__func__", None) in _LOOPS
        and _inner_loop.wanted(half) is not False
        and _inner_loop.obstacle(half, training) is None
        and half.activity_regularizer is None
        and not (training and half.dropout)
        and not (half.return_sequences and not half.zero_output_for_mask)
    )


def _kind(half: keras.layers.RNN) -> tuple[RnnMode, int, bool]:
    return _inner_loop.rnn_mode_of(half), half.units, half.use_bias


def _run(
    wrapper: keras.layers.Bidirectional,
    sequences: tf.Tensor,
    initial_state: Sequence[tf.Tensor] | None,
    mask: Any,
) -> Any:
    """What Bidirectional.call returns.

    Args:
      wrapper: of two built LSTM, GRU or SimpleRNN layers.
      sequences: [B, T, I].
      initial_state: [B, H] each, those of the forward layer first; None for the layers' own.
      mask: [B, T], None, or a list of one of them.
    """
    halves = forward, backward = wrapper.forward_layer, wrapper.backward_layer
    _inner_loop.check_features(forward, sequences)
    rnn_mode = _inner_loop.rnn_mode_of(forward)
    sequences = tf.cast(sequences, forward.compute_dtype)
    mask = _masks.single(mask)
    if mask is not None:
        mask = _masks.as_matrix(mask, sequences, wrapper.name, one_row_will_do=True)
    if initial_state is None and wrapper.stateful:
        initial_state = [*forward.states, *backward.states]
    states = _joined(halves, sequences, initial_state, rnn_mode)
    for half in halves:
        _draw_dropout_masks(half.cell, sequences, states[0])
    kernel, recurrent_kernel, *biases = _inner_loop.weights_of(forward, sequences.dtype)
    result = raw_ops.KerasRNN(
        input=sequences,
        input_h=states[0],
        input_c=states[-1],
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        biases=biases,
        sequence_lengths=full_lengths(sequences, batch_axis=0),
        rnn_mode=rnn_mode,
        is_training=_graphs.may_need_gradients(),
        time_major=False,
        masks=[] if mask is None else [mask],
        backward_weights=_inner_loop.weights_of(backward, sequences.dtype),
    )
    finals = [result.output_h, result.output_c][: len(states)]
    for half in halves:
        _inner_loop.tell(half, fallback_reason=None)
    outputs = _merged(wrapper, _outputs(wrapper, result, mask))
    if not (wrapper.return_state or wrapper.stateful):
        return outputs
    by_half = [[final[:, k] for final in finals] for k in range(2)]
    if wrapper.stateful:
        for half, kept in zip(halves, by_half, strict=True):
            for variable, state in zip(half.states, kept, strict=True):
                variable.assign(state)
    if not wrapper.return_state:
        return outputs
    outputs = outputs if isinstance(outputs, tuple) else (outputs,)
    return (*outputs, *by_half[0], *by_half[1])


def _draw_dropout_masks(cell: keras.Layer, sequences: tf.Tensor, states: tf.Tensor) -> None:
    """Moves the seeds on as Keras does, which draws masks even where dropout does not act."""
    if cell.dropout or cell.recurrent_dropout:
        cell.get_dropout_mask(sequences[:, 0, :])
        cell.get_recurrent_dropout_mask(states[:, 0])
        cell.reset_dropout_mask()
        cell.reset_recurrent_dropout_mask()


def _joined(
    halves: tuple[keras.layers.RNN, keras.layers.RNN],
    sequences: tf.Tensor,
    initial_state: Sequence[tf.Tensor] | None,
    rnn_mode: RnnMode,
) -> list[tf.Tensor]:
    """The states of both directions, [B, 2, H] each: h and, for an LSTM, c."""
    if initial_state is None:
        zeros = tf.zeros([tf.shape(sequences)[0], 2, halves[0].units], sequences.dtype)
        return [zeros] * len(halves[0].state_size)
    count = len(initial_state) // 2
    by_half = [
        _inner_loop.states_of(half, sequences, states, rnn_mode)
        for half, states in zip(halves, (initial_state[:count], initial_state[count:]), strict=True)
    ]
    return [tf.stack(both, axis=1) for both in zip(*by_half, strict=True)]


def _outputs(wrapper: keras.layers.Bidirectional, result: Any, mask: tf.Tensor | None) -> tf.Tensor:
    """[B, T, 2*H], or [B, 2*H] of the last steps that each direction takes."""
    if wrapper.return_sequences:
        return result.output
    last = result.output_h
    if mask is not None:
        last = tf.stack(
            [
                _masks.last_output(last[:, k], mask, half.go_backwards, half.zero_output_for_mask)
                for k, half in enumerate((wrapper.forward_layer, wrapper.backward_layer))
            ],
            axis=1,
        )
    return tf.reshape(last, [-1, 2 * wrapper.forward_layer.units])


def _merged(wrapper: keras.layers.Bidirectional, outputs: tf.Tensor) -> Any:
    outputs = tf.cast(outputs, wrapper.compute_dtype)
    if wrapper.merge_mode == "concat":
        return outputs
    forward, backward = tf.split(outputs, 2, axis=-1)
    if wrapper.merge_mode is None:
        return forward, backward
    if wrapper.merge_mode == "mul":
        return forward * backward
    total = forward + backward
    return total / 2 if wrapper.merge_mode == "ave" else total
