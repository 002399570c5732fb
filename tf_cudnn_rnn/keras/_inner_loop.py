"""The loop over time steps of a Keras layer, as one op.

`inner_loop` takes the place of the method of that name of keras.layers.LSTM, GRU and
SimpleRNN, in the drop-ins and in accelerate(). Everything before and after it (states,
files, wrappers) stays Keras' own.
"""

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn._types import RnnMode, UseFused
from tf_cudnn_rnn.keras import _graphs, _masks, _onnx_nodes, _warnings
from tf_cudnn_rnn.keras._options import TYPES
from tf_cudnn_rnn.keras._packing import pack
from tf_cudnn_rnn.keras._reading import value_of
from tf_cudnn_rnn.keras._shapes import check_real, full_lengths

try:
    from tensorflow.python.ops.control_flow_util import GraphOrParentsInXlaContext as _is_for_xla
except ImportError:  # not a public function

    def _is_for_xla(graph: Any) -> bool:
        del graph
        return False


_logger = logging.getLogger("tf_cudnn_rnn")

_TANH = (keras.activations.tanh, keras.ops.tanh, tf.tanh)
_RELU = (keras.activations.relu, keras.ops.relu, tf.nn.relu)
_CELLS = (keras.layers.LSTMCell, keras.layers.GRUCell, keras.layers.SimpleRNNCell)
_SIGMOID = (keras.activations.sigmoid, keras.ops.sigmoid, tf.sigmoid)
# Those that try cuDNN; accelerate() puts another method in their place.
_KERAS_INNER_LOOPS = {cls: cls.inner_loop for cls in (keras.layers.LSTM, keras.layers.GRU)}
# Layers that XLA could have compiled before they ran fused.
_without_xla: weakref.WeakSet[keras.layers.RNN] = weakref.WeakSet()


def _name_of(activation: Any) -> str:
    return getattr(activation, "__name__", None) or repr(activation)


def rnn_mode_of(layer: keras.layers.RNN) -> RnnMode:
    """The mode that `layer` has if it can run fused."""
    if isinstance(layer, keras.layers.LSTM):
        return "lstm"
    if isinstance(layer, keras.layers.GRU):
        return "gru"
    return "rnn_relu" if layer.activation in _RELU else "rnn_tanh"


def obstacle(layer: keras.layers.RNN, training: bool) -> str | None:
    """Says what of `layer` the op cannot do; None if nothing."""
    if type(layer.cell) not in _CELLS:  # a subclass may compute anything
        return f"the cell must be Keras' own; got {type(layer.cell).__name__}"
    if "call" in vars(layer.cell):  # as profilers and quantisers set it
        return "the cell's call must be Keras' own; got another, set on the cell"
    if isinstance(layer, keras.layers.SimpleRNN):
        if layer.activation not in _TANH + _RELU:
            return f"activation must be tanh or relu; got {_name_of(layer.activation)}"
    else:
        if layer.activation not in _TANH:
            return f"activation must be tanh; got {_name_of(layer.activation)}"
        if layer.recurrent_activation not in _SIGMOID:
            return (
                f"recurrent_activation must be sigmoid; got {_name_of(layer.recurrent_activation)}"
            )
    if isinstance(layer, keras.layers.GRU) and not layer.reset_after:
        return "reset_after must be True; got False"
    if layer.unroll:
        return "unroll must be False; got True"
    if not tf.executing_eagerly() and _is_for_xla(tf.compat.v1.get_default_graph()):
        return "jit_compile must be False, for XLA cannot compile the op; got True"
    if layer.compute_dtype != layer.cell.compute_dtype:  # Keras' loop computes in the cell's
        return (
            f"the cell must have the layer's compute dtype, {layer.compute_dtype}; got "
            f"{layer.cell.compute_dtype}"
        )
    if layer.compute_dtype not in TYPES:
        return f"the compute dtype must be one of {', '.join(TYPES)}; got {layer.compute_dtype}"
    if training:
        if layer.recurrent_dropout:
            return (
                f"recurrent_dropout must be 0 in training; got {layer.recurrent_dropout} "
                "(it runs fused in inference)"
            )
        if layer.dropout == 1.0:
            return "dropout must be less than 1 in training; got 1.0"
        if layer.dropout and getattr(layer.cell, "implementation", 2) == 1:
            return "implementation must be 2 for dropout in training; got 1, a mask for each gate"
    return None


def wanted(layer: keras.layers.RNN) -> UseFused:
    """What the layer's `use_cudnn`, if it has one, says: see `layers.LSTM.use_fused`."""
    value = getattr(layer, "use_cudnn", "auto")
    return "auto" if isinstance(value, str) else bool(value)  # Keras takes 0 and 1, too


def is_left_to_gpu(layer: keras.layers.RNN, mask: Any, training: bool) -> bool:
    """Whether Keras' own method is to run, as it calls cuDNN on a GPU; our ops are for CPUs.

    TensorFlow's kernel there takes other masks than ours, and gets bfloat16 wrong: such calls stay.
    """
    asks_for_op = wanted(layer) is True and hasattr(layer, "use_fused")  # Keras' own: for cuDNN
    return (
        not asks_for_op
        and wanted(layer) is not False
        and _graphs.keras_has_cudnn()
        and isinstance(layer, keras.layers.LSTM | keras.layers.GRU)
        and layer.use_bias
        and not layer.recurrent_dropout
        and mask is None
        and layer.compute_dtype != "bfloat16"
        and obstacle(layer, training) is None
    )


def obstacle_of_input(sequences: tf.Tensor) -> str | None:
    """The same of an input [B, T, I]."""
    return "the input must have at least one feature; got 0" if sequences.shape[-1] == 0 else None


def _argument_of(layer: keras.layers.RNN) -> str:
    """What the layer's constructor calls `use_cudnn`, which Keras' own layers have alone."""
    return "use_fused" if hasattr(layer, "use_fused") else "use_cudnn"


def cannot_run_fused(layer: keras.layers.RNN, reason: str) -> ValueError:
    """The error for use_fused=True."""
    argument = _argument_of(layer)
    return ValueError(
        f"Layer {layer.name!r} has {argument}=True but cannot run fused: {reason}. Pass "
        f"{argument}='auto' to let Keras' loop run where the fused op cannot."
    )


def _warn_of_loop(layer: keras.layers.RNN, reason: str) -> None:
    """Warns once for each layer and reason."""
    # In __dict__, for Keras and TensorFlow track what is set as an attribute.
    told = layer.__dict__.setdefault("_tf_cudnn_rnn_told_of_loop", set())
    if reason not in told:
        told.add(reason)
        _logger.warning("Layer %r runs in Keras' loop: %s.", layer.name, reason)


def check_features(layer: keras.layers.RNN, sequences: tf.Tensor) -> None:
    """Raises ValueError unless each step has the real features that the layer was built for."""
    check_real(sequences, layer.name)
    built_for, found = layer.cell.kernel.shape[0], sequences.shape[-1]
    if found not in (None, built_for):
        raise ValueError(
            f"The input of layer {layer.name!r} must have {built_for} features in each step, as "
            f"when the layer was built; got shape {sequences.shape.as_list()}. Make another layer "
            "for other inputs."
        )


def weights_of(
    layer: keras.layers.RNN, dtype: tf.DType, are_constants: bool = False
) -> list[tf.Tensor]:
    """kernel, recurrent_kernel and, if there is one, bias."""

    def value(variable: Any) -> tf.Tensor:
        if are_constants:
            return _onnx_nodes.constant(variable, cell, dtype)
        return tf.cast(value_of(variable, cell), dtype)

    cell = layer.cell
    variables = (cell.kernel, cell.recurrent_kernel, cell.bias)
    return [value(variable) for variable in variables if variable is not None]


def _run_op(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    states: list[tf.Tensor],
    lengths: tf.Tensor,
    mask: tf.Tensor | None,
    training: bool,
    onnx: _onnx_nodes.Options | None,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Calls the op; returns its output, batch-major, and its final states.

    The own op knows masks and goes backwards; for the built-in one, and for nodes of ONNX, `mask`
    is None and the caller does what the layer's options say of both. With options for ONNX the op
    stands for a node, which may do what the op does not.
    """
    rnn_mode = rnn_mode_of(layer)
    dtype = sequences.dtype
    kernel, recurrent_kernel, *biases = weights_of(layer, dtype, are_constants=onnx is not None)
    arguments = dict(
        input=sequences,
        input_h=tf.expand_dims(states[0], 1),  # [B, 1, H]
        input_c=tf.expand_dims(states[1], 1) if rnn_mode == "lstm" else tf.zeros([], dtype),
        sequence_lengths=lengths,
        rnn_mode=rnn_mode,
        time_major=False,
    )
    if onnx is not None:
        if onnx.resets_before:  # one bias, and the op has two
            biases = [tf.constant(np.stack([bias, np.zeros_like(bias)])) for bias in biases]
        with _onnx_nodes.scope(onnx):
            result = raw_ops.KerasRNN(
                kernel=kernel,
                recurrent_kernel=recurrent_kernel,
                biases=biases,
                is_training=False,
                **arguments,
            )
    elif _graphs.builds_builtin_graph():
        result = tf.raw_ops.CudnnRNNV3(
            params=pack(rnn_mode, kernel, recurrent_kernel, *biases),
            # On GPUs the built-in op of inference is another, quicker one.
            is_training=bool(training),
            **arguments,
        )
    else:
        result = raw_ops.KerasRNN(
            kernel=kernel,
            recurrent_kernel=recurrent_kernel,
            biases=biases,
            is_training=_graphs.may_need_gradients(),
            masks=[] if mask is None else [mask],
            go_backwards=layer.go_backwards,
            # Nobody reads what stands in padding if only the last output is returned.
            zero_output_for_mask=(
                mask is None or not layer.return_sequences or bool(layer.zero_output_for_mask)
            ),
            **arguments,
        )
    output = result.output
    output.set_shape([*sequences.shape[:2], layer.units])
    finals = [result.output_h, result.output_c] if rnn_mode == "lstm" else [result.output_h]
    return output, [tf.squeeze(final, 1) for final in finals]


def _gpu_problems(layer: keras.layers.RNN, mask: Any) -> list[str]:
    problems = [_graphs.WRONG_IN_BFLOAT16] if layer.compute_dtype == "bfloat16" else []
    return problems if mask is None else [*problems, _graphs.lengths_can_be_0("a mask")]


def states_of(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    rnn_mode: RnnMode,
) -> list[tf.Tensor]:
    """The states of all rows; checks their number, and what is known of their shapes.

    The op would speak of tensors that the layer's user never saw. As in Keras a GRU ignores
    states that it does not need, and one row is for the whole batch.
    """
    needed = ["h", "c"] if rnn_mode == "lstm" else ["h"]
    if len(initial_state) != len(needed) and rnn_mode != "gru":
        raise ValueError(
            f"`initial_state` of layer {layer.name!r} must be [{', '.join(needed)}]; got "
            f"{len(initial_state)} tensors."
        )
    expected = [sequences.shape[0], layer.units]
    states = [tf.cast(keras.ops.convert_to_tensor(s), sequences.dtype) for s in initial_state]
    for k, state in enumerate(states[: len(needed)]):
        if state.shape.as_list() in ([1, layer.units], [layer.units]):
            states[k] = tf.broadcast_to(state, [tf.shape(sequences)[0], layer.units])
        elif not state.shape.is_compatible_with(expected):
            raise ValueError(
                f"`initial_state`[{k}] of layer {layer.name!r} must have shape [B, units] = "
                f"{expected}; got {state.shape.as_list()}."
            )
    return states


def _skips_masked_steps(mask: tf.Tensor | None, for_onnx: bool) -> bool:
    """Whether the op gets the valid steps alone; our own kernel takes a mask itself."""
    return mask is not None and not _graphs.is_for_own_kernel(for_onnx)


def _run_all_steps(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    states: list[tf.Tensor],
    *,
    mask: tf.Tensor | None,
    training: bool,
    onnx: Any,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns outputs and states of the op, which sees all steps, and the mask if there is one."""
    if onnx is not None:
        onnx = onnx._replace(reverse=layer.go_backwards, all_steps=True)
    elif layer.go_backwards and not _graphs.is_for_own_kernel(for_onnx=False):
        sequences = tf.reverse(sequences, [1])
    outputs, states = _run_op(
        layer,
        sequences,
        states,
        lengths=full_lengths(sequences, batch_axis=0),
        mask=mask,
        training=training,
        onnx=onnx,
    )
    if onnx is not None and onnx.reverse:
        outputs = tf.reverse(outputs, [1])
    return outputs, states


def _run_masked_out(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    states: list[tf.Tensor],
    *,
    mask: tf.Tensor,
    training: bool,
    onnx: Any,
) -> tuple[tf.Tensor, list[tf.Tensor]]:
    """Returns outputs and states of an op that knows lengths alone: it gets the valid steps."""
    compaction = _masks.Compaction(mask, is_for_own_kernel=False, go_backwards=layer.go_backwards)
    outputs, states = _run_op(
        layer,
        compaction.compact(sequences),
        states,
        lengths=compaction.lengths,
        mask=None,
        training=training,
        onnx=onnx,
    )
    if layer.return_sequences:
        outputs = compaction.expand(outputs, layer.zero_output_for_mask)
    return outputs, states


def _fused(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: Any,
    training: bool,
    for_onnx: bool,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    check_features(layer, sequences)
    rnn_mode = rnn_mode_of(layer)
    dtype = layer.compute_dtype
    if training and layer.dropout:
        # One mask a row, for all steps; call() has drawn it.
        sequences = sequences * layer.cell.get_dropout_mask(sequences[:, 0, :])[:, None, :]
    sequences = tf.cast(sequences, dtype)
    states = states_of(layer, sequences, initial_state, rnn_mode)
    if _graphs.builds_builtin_graph():
        _graphs.warn_about_gpus(layer, _gpu_problems(layer, mask))

    onnx = _onnx_nodes.options_of(layer) if for_onnx else None
    if mask is not None:
        mask = _masks.as_matrix(mask, sequences, layer.name, one_row_will_do=True)
    run = _run_masked_out if _skips_masked_steps(mask, for_onnx) else _run_all_steps
    outputs, states = run(layer, sequences, states, mask=mask, training=training, onnx=onnx)
    last_output = states[0]
    if mask is not None:
        last_output = _masks.last_output(
            last_output, mask, layer.go_backwards, layer.zero_output_for_mask
        )
    if not layer.return_sequences:
        outputs = tf.expand_dims(last_output, 1)  # what Keras' loop gives; nobody reads it
    return last_output, outputs, states


def tell(layer: keras.layers.RNN, fallback_reason: str | None) -> None:
    """Lets a layer say how its call runs: fused, unless there is a reason against it."""
    layer.fallback_reason = fallback_reason
    layer.runs_fused = fallback_reason is None
    if layer.runs_fused and layer.supports_jit:
        layer.supports_jit = False  # XLA knows no custom ops; Keras' cuDNN path says so here, too
        _without_xla.add(layer)


def layers_without_xla() -> list[keras.layers.RNN]:
    """Those that tell() has kept from XLA."""
    return list(_without_xla)


def let_xla_compile(layer: keras.layers.RNN) -> None:
    """Takes back what tell() told of XLA, for a layer that runs in Keras' loop again."""
    if layer in _without_xla:
        _without_xla.remove(layer)
        layer.supports_jit = True


def inner_loop(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: Any,
    training: bool = False,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """What RNN.inner_loop returns, computed by one op if that is possible and wanted.

    Args:
      layer: an LSTM, GRU or SimpleRNN. Its attribute `use_cudnn`, if any, says what is
        wanted; see `layers.LSTM.use_fused`.
      sequences: [B, T, I].
      initial_state: a list of [B, H].
      mask: [B, T], None, or a list of one of them.
      training: whether dropout acts.

    Raises:
      ValueError: the layer must run fused, and cannot.
    """
    try:
        return _run(layer, sequences, initial_state, _masks.single(mask), training)
    except BaseException:  # an interruption, too
        # Keras does it after the loop alone, and the next call would take masks of this one.
        if isinstance(layer.cell, _CELLS):
            layer.cell.reset_dropout_mask()
            layer.cell.reset_recurrent_dropout_mask()
        raise


def _run(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: tf.Tensor | None,
    training: bool,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    """Chooses how the steps are computed, and tells it."""
    if _onnx_nodes.builds_graph():
        reason = _onnx_nodes.obstacle(layer) or obstacle_of_input(sequences)
        if reason is None:
            return _fused(layer, sequences, initial_state, mask, bool(training), for_onnx=True)
        if _onnx_nodes.is_exporting.get():
            raise _onnx_nodes.cannot_be_node(layer, reason)
        _warnings.warn(str(_onnx_nodes.cannot_be_node(layer, reason)))
        return _keras_loop(layer, sequences, initial_state, mask, training)
    if is_left_to_gpu(layer, mask, bool(training)):
        tell(layer, "TensorFlow has a GPU here, on which Keras calls cuDNN")
        (run,) = (run for cls, run in _KERAS_INNER_LOOPS.items() if isinstance(layer, cls))
        return run(layer, sequences, initial_state, mask=mask, training=training)
    use_fused = wanted(layer)
    if use_fused is False:
        reason = f"{_argument_of(layer)} is False"
    elif _graphs.graph_contents.get() == "stock":
        reason = "the graph is built for stock TensorFlow, by export_as('stock')"
    else:
        reason = obstacle(layer, bool(training)) or obstacle_of_input(sequences)
        if reason and use_fused is True:
            raise cannot_run_fused(layer, reason)
        if reason:
            _warn_of_loop(layer, reason)
    tell(layer, reason)
    if reason is None:
        return _fused(layer, sequences, initial_state, mask, training, for_onnx=False)
    return _keras_loop(layer, sequences, initial_state, mask, training)


def _keras_loop(
    layer: keras.layers.RNN,
    sequences: tf.Tensor,
    initial_state: Sequence[tf.Tensor],
    mask: Any,
    training: bool,
) -> tuple[tf.Tensor, tf.Tensor, list[tf.Tensor]]:
    # The loop itself: the methods of LSTM and GRU would look for a GPU first. GRU's ignores what
    # follows its state, too.
    if isinstance(layer, keras.layers.GRU):
        initial_state = initial_state[:1]
    return keras.layers.RNN.inner_loop(
        layer, sequences, initial_state, mask=mask, training=training
    )
