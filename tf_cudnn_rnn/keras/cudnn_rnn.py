"""Recurrent networks of several layers and directions, run as one op."""

import numbers
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tf_cudnn_rnn import raw_ops
from tf_cudnn_rnn._formats import params_header
from tf_cudnn_rnn._layout import DIRECTIONS, Layout, ParamName
from tf_cudnn_rnn.keras import _masks, _params, _warnings
from tf_cudnn_rnn.keras._dropout_seed import DropoutSeed
from tf_cudnn_rnn.keras._inner_loop import (
    WRONG_IN_BFLOAT16,
    _may_need_gradients,
    builds_builtin_graph,
    graph_contents,
    lengths_can_be_0,
    warn_about_gpus,
)
from tf_cudnn_rnn.weights import Canonical, canonical_to_params, params_to_canonical

_FILE_HEADER = "header"
_FILE_DROPOUT_SEED = "dropout_seed"


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnRNN(keras.layers.Layer):
    """A stack of LSTM, GRU or simple RNN layers, in one or both directions, as one fused op.

    It is for what Keras' own layers lack: several layers in one op, with dropout between them,
    projected LSTMs, the skipped input product, and cuDNN's weights. For a single plain layer
    take `tf_cudnn_rnn.keras.LSTM`, `GRU` or `SimpleRNN`, which are Keras' own, run fused.

    For each layer and direction, with W, R, bW and bR the gates' input kernels, recurrent
    kernels and two biases, the equations are those of cuDNN:

      rnn_relu, rnn_tanh   h' = act(W x + bW + R h + bR)
      lstm                 i, f, o = sigmoid(W x + bW + R h + bR), g = tanh(likewise)
                           c' = f * c + i * g
                           h' = o * tanh(c'), multiplied by the projection if there is one
      gru                  r, z = sigmoid(W x + bW + R h + bR)
                           n = tanh(W_n x + bW_n + r * (R_n h + bR_n))
                           h' = (1 - z) * n + z * h

    They are those of keras.layers.LSTM, of GRU with reset_after=True, and of SimpleRNN, and
    so are the initial weights, but for the second bias. The output of a bidirectional layer
    is that of both directions side by side, forward first; the layer above reads it so.

    All weights are in one vector `params` [N], which cuDNN's ops take; `canonical_weights`
    takes it apart. Its length is known, and it is made, when the layer first sees an input.

    >>> layer = tf_cudnn_rnn.keras.CudnnLSTM(
    ...     32, num_layers=2, direction="bidirectional", dropout=0.2, return_sequences=True,
    ...     return_state=True)
    >>> y, h, c = layer(tf.random.normal([8, 20, 16]), sequence_lengths=[20, 7, 3, 9, 1, 20, 2, 4])
    >>> y.shape, h.shape, c.shape
    (TensorShape([8, 20, 64]), TensorShape([8, 4, 32]), TensorShape([8, 4, 32]))

    **Masks.** A mask, of Masking, Embedding or the caller, may have any pattern: padding at the
    end or the beginning, holes, rows without a valid step. Masked steps do not exist for the
    recurrence, and the output is zero there: cuDNN's rule, not that of keras.layers.LSTM, which
    repeats the last output. `sequence_lengths` does the same for padding at the end. They
    cost less than full rows, as work follows the sum of the lengths.

    **Dropout** acts in training, between layers: on the output of each layer but the last,
    each element by itself. Keras' `dropout` of LSTM is another one, on the inputs.

    **Graphs** hold the op CudnnRNNV3 of TensorFlow itself, which runs on GPUs with stock
    TensorFlow and on CPUs with this library. TensorFlow's GPU kernel gets projections, bfloat16
    and lengths of 0 wrong; only `export_as("builtin")` warns of these. In training with
    dropout graphs hold this library's own op, whose masks are repeatable. Batch-major
    sequences of more than one layer or direction are transposed around the built-in op,
    because TensorFlow's GPU kernel mistakes the axes of their states.

    **Both directions** are direction="bidirectional"; keras.layers.Bidirectional cannot wrap
    these layers.

    Args:
      num_units: H, the hidden units of each layer and direction.
      num_layers: L, the number of layers.
      rnn_mode: "lstm", "gru", "rnn_tanh" or "rnn_relu".
      direction: "unidirectional" or "bidirectional"; D is 1 or 2.
      input_mode: "linear_input"; "skip_input", by which layer 0 adds its input to every gate,
        without a kernel (needs I == H); or "auto_select", which skips if I == H.
      num_proj: P, the size to which an LSTM projects h; None, 0 or H for none (then P = H).
      dropout: the probability of an element to be zeroed between layers, in [0, 1].
      seed: of dropout; None for a random one.
      time_major: whether sequences are [T, B, I] and states [L*D, B, .], instead of
        [B, T, I] and [B, L*D, .].
      return_sequences: whether to return the output of each step, and not of the last one.
      return_state: whether to return the final states besides.
      stateful: whether a batch starts with the final states of the one before. Needs a fixed
        batch size; see `reset_state`.
      kernel_initializer: for the input kernels, drawn as [in, G*H] for all G gates of a layer
        and direction, and the projections, drawn as [H, P].
      recurrent_initializer: for the recurrent kernels, drawn as [P, G*H]. Either is drawn in
        float32 if the weights have 16 bits. A seed in an initialiser counts up from matrix to
        matrix, or all layers would start alike.
      bias_initializer: for both biases.
      unit_forget_bias: whether the recurrent bias of an LSTM's forget gate starts at one.
      kernel_regularizer: for each input kernel and projection, as it is drawn.
      recurrent_regularizer: for each recurrent kernel.
      bias_regularizer: for each of the two biases.
      dtype: a type or policy; float16, bfloat16, float32, float64 and mixed ones.
      name: of the layer.
      **kwargs: of keras.layers.Layer, such as `trainable` and `activity_regularizer`.

    Call arguments:
      inputs: [B, T, I].
      initial_state: (h, c) of an LSTM, (h,) otherwise; h is [B, L*D, P] and c is [B, L*D, H],
        where entry k = layer * D + direction. None for zeros.
      sequence_lengths: integers [B], in [0, T], if rows are padded at the end.
      mask: boolean [B, T], true where a step is valid; by default that of `inputs`. A mask
        and `sequence_lengths` together are an error.
      training: whether dropout acts.

    Returns:
      The output: [B, T, D*P] if return_sequences, zero at masked steps; else [B, D*P], what
      either direction of the last layer put out at its last valid step (for the backward
      direction that is the first), zero in rows without a valid step. If return_state, a
      tuple of it and the final states h and (LSTM) c.

    Raises:
      TypeError: a size is not an integer, or `dropout` is not a real number.
      ValueError: an option or argument is out of range, or two contradict each other.
      RuntimeError: dropout without `seed` while op determinism is enabled.
    """

    def __init__(
        self,
        num_units: int,
        num_layers: int = 1,
        rnn_mode: str = "lstm",
        direction: str = "unidirectional",
        input_mode: str = "linear_input",
        num_proj: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        time_major: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        stateful: bool = False,
        kernel_initializer="glorot_uniform",
        recurrent_initializer="orthogonal",
        bias_initializer="zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer=None,
        recurrent_regularizer=None,
        bias_regularizer=None,
        dtype=None,
        name: str | None = None,
        **kwargs,
    ):
        _check_go_backwards(type(self), kwargs)
        super().__init__(dtype=dtype, name=name, **kwargs)
        # All rules but those on the input size, which is not known yet.
        features = 0 if num_proj is None else num_proj
        layout = Layout(rnn_mode, num_layers, num_units, num_units, direction, input_mode, features)
        self._dropout = _probability(dropout)
        if dropout and layout.num_layers == 1:
            _warnings.warn(
                f"Layer {self.name!r} has dropout={dropout} and one layer. Dropout acts between "
                "layers, so it does nothing here: put a keras.layers.Dropout before or after."
            )
        self.num_units = layout.num_units
        self.num_layers = layout.num_layers
        self.rnn_mode = rnn_mode
        self.direction = direction
        self.input_mode = input_mode
        self.num_proj = None if num_proj is None else layout.num_proj
        self.seed = seed
        self.time_major = time_major
        self.return_sequences = return_sequences
        self.return_state = return_state
        self.stateful = stateful
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.recurrent_initializer = keras.initializers.get(recurrent_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.unit_forget_bias = unit_forget_bias
        self.kernel_regularizer = keras.regularizers.get(kernel_regularizer)
        self.recurrent_regularizer = keras.regularizers.get(recurrent_regularizer)
        self.bias_regularizer = keras.regularizers.get(bias_regularizer)
        self.supports_jit = False  # XLA knows no custom ops
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self._layout = None
        self._state_holder = None
        self._dropout_seed = None
        if self.dropout and self.num_layers > 1:
            self._dropout_seed = DropoutSeed(seed)
            self.seed_generator = self._dropout_seed.generator

    @property
    def dropout(self) -> float:
        """The probability of an output between layers to be zeroed in training.

        It can be set, but not in a layer that was made without dropout.
        """
        return self._dropout

    @dropout.setter
    def dropout(self, dropout: float) -> None:
        probability = _probability(dropout)
        if probability and self.num_layers > 1 and self._dropout_seed is None:
            raise ValueError(
                f"`dropout` of layer {self.name!r} must stay 0, for the layer was made without "
                f"dropout and has no seed for its masks; got {dropout}. Make it with dropout and "
                "set 0 where it shall not act, or make another one: `from_config(get_config() | "
                f"{{'dropout': {dropout}}})`."
            )
        self._dropout = probability

    # --------------------------------------------------------------------------------
    # Sizes and shapes
    # --------------------------------------------------------------------------------

    @property
    def layout(self) -> Layout:
        """The network's options and sizes, as `tf_cudnn_rnn.weights` takes them.

        Raises:
          ValueError: the layer has not been built.
        """
        if self._layout is None:
            raise ValueError(
                f"Layer {self.name!r} must be built before its weights are known. Call it on "
                "data, or `build` with an input shape."
            )
        return self._layout

    @property
    def _batch_axis(self) -> int:
        return 1 if self.time_major else 0

    @property
    def _num_states(self) -> int:
        return len(DIRECTIONS[self.direction]) * self.num_layers

    @property
    def state_size(self) -> list[int]:
        """The features of h and, for an LSTM, c."""
        sizes = [self.num_proj or self.num_units]
        return sizes + [self.num_units] if self.rnn_mode == "lstm" else sizes

    def _state_shapes(self, batch) -> list[tuple]:
        k = self._num_states
        return [(k, batch, n) if self.time_major else (batch, k, n) for n in self.state_size]

    def compute_output_shape(self, input_shape):
        """As of Keras' layers: a shape, or a tuple of shapes if return_state."""
        batch = input_shape[self._batch_axis]
        features = len(DIRECTIONS[self.direction]) * self.state_size[0]
        shape = (*input_shape[:2], features) if self.return_sequences else (batch, features)
        return (shape, *self._state_shapes(batch)) if self.return_state else shape

    def compute_output_spec(
        self, inputs, initial_state=None, sequence_lengths=None, mask=None, training=False
    ):
        """As of Keras' layers; checks the arguments as `call` does."""
        del training
        self._check_steps(inputs)
        self._check_lengths(inputs, sequence_lengths, mask)
        self._checked_state(inputs, initial_state)

        def spec(shape):
            return keras.KerasTensor(shape, dtype=self.compute_dtype)

        shapes = self.compute_output_shape(tuple(inputs.shape))
        return tuple(map(spec, shapes)) if self.return_state else spec(shapes)

    def compute_mask(self, inputs, mask):
        """The mask of the sequences, if these are returned; states have none."""
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        output_mask = mask if self.return_sequences else None
        return [output_mask, *[None] * len(self.state_size)] if self.return_state else output_mask

    # --------------------------------------------------------------------------------
    # Variables
    # --------------------------------------------------------------------------------

    def build(self, input_shape):
        """Makes `params`, for inputs of this shape."""
        input_size = input_shape[-1]
        if input_size is None:
            raise ValueError(
                f"The last dimension of the inputs of layer {self.name!r}, the input size, must "
                f"be known; got shape {tuple(input_shape)}."
            )
        self._layout = Layout(
            self.rnn_mode,
            self.num_layers,
            self.num_units,
            input_size,
            self.direction,
            self.input_mode,
            self.num_proj or 0,
        )
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: input_size})
        # First, so that a checkpoint restored later is checked before it is read.
        self.params_header = _params.Header(self._layout, self.name)
        self.params = self.add_weight(
            shape=(self._params_size(),),
            initializer=_params.initializer_of(
                self._layout,
                self.kernel_initializer,
                self.recurrent_initializer,
                self.bias_initializer,
                self.unit_forget_bias,
            ),
            regularizer=_params.regularizer_of(
                self._layout,
                self.kernel_regularizer,
                self.recurrent_regularizer,
                self.bias_regularizer,
            ),
            name="params",
        )
        if self.stateful:
            self._build_states(input_shape[self._batch_axis])

    def _params_size(self) -> int:
        layout = self.layout
        with tf.init_scope():
            size = raw_ops.CudnnRNNParamsSize(
                num_layers=layout.num_layers,
                num_units=layout.num_units,
                input_size=layout.input_size,
                T=self.variable_dtype,
                S=tf.int64,
                rnn_mode=layout.rnn_mode,
                input_mode=layout.input_mode,
                direction=layout.direction,
                num_proj=layout.num_proj,
            )
            return int(size[0])

    def _build_states(self, batch_size: int | None) -> None:
        if batch_size is None:
            raise ValueError(
                f"Layer {self.name!r} has stateful=True, so its batch size must be known; got "
                "None. Give the model a keras.Input(batch_shape=...)."
            )
        # As in Keras' layers the states are not among the weights, which fit any batch size.
        # TensorFlow finds them in the module.
        holder = tf.Module()
        holder.states = [
            keras.Variable(
                tf.zeros(shape),
                trainable=False,
                dtype=self.variable_dtype,
                name="rnn_state",
            )
            for shape in self._state_shapes(batch_size)
        ]
        self._state_holder = holder

    @property
    def states(self) -> list[keras.Variable] | None:
        """The variables of a stateful layer: h and, for an LSTM, c."""
        return None if self._state_holder is None else list(self._state_holder.states)

    def reset_state(self) -> None:
        """Sets the states of a stateful layer to zero."""
        for state in self.states or []:
            state.assign(tf.zeros_like(state.value))

    def reset_states(self) -> None:
        """Another name of `reset_state`."""
        self.reset_state()

    def get_initial_state(self, batch_size) -> list[tf.Tensor]:
        """The states that a call starts with by default: zeros."""
        return [tf.zeros(shape, self.compute_dtype) for shape in self._state_shapes(batch_size)]

    def canonical_weights(self) -> dict[ParamName, np.ndarray]:
        """Returns all weights by layer, direction, gate and kind: copies.

        `weights.Canonical(layer.layout, layer.canonical_weights())` is what the converters to
        other libraries take.

        Raises:
          ValueError: the layer has not been built.
        """
        return dict(params_to_canonical(self._params_array(), **self._layout_options()))

    def set_canonical_weights(self, canonical) -> None:
        """Sets all weights.

        Args:
          canonical: what `canonical_weights` returns, or a weights.Canonical, which the readers
            of other libraries' weights return. The latter must be of the same network.

        Raises:
          ValueError: the layer has not been built, weights are missing or of another network,
            or have another shape.
        """
        layout = self.layout
        if isinstance(canonical, Canonical):
            params_header.check_same(
                params_header.to_text(canonical.layout), layout, self.name, "`canonical`"
            )
            canonical = canonical.named
        self.params.assign(canonical_to_params(canonical, **self._layout_options()))

    def _layout_options(self) -> dict[str, Any]:
        return {field: getattr(self.layout, field) for field in Layout.__dataclass_fields__}

    def _params_array(self) -> np.ndarray:
        self.layout  # noqa: B018 raises if there is no vector yet
        return self.params.numpy()

    # --------------------------------------------------------------------------------
    # Files
    # --------------------------------------------------------------------------------

    def save_own_variables(self, store) -> None:
        """Writes named matrices, for .keras and .weights.h5, and a header that explains them."""
        if not self.built:
            return
        text = params_header.to_text(self.layout)
        store[_FILE_HEADER] = np.frombuffer(text.encode(), np.uint8)
        params = self._params_array()
        for group in params_header.groups(self.layout):
            if group.size:
                values = params[group.offset : group.offset + group.size]
                store[str(group.name)] = values.reshape(group.shape)
        if self._dropout_seed is not None:
            store[_FILE_DROPOUT_SEED] = self._dropout_seed.state.numpy()

    def load_own_variables(self, store) -> None:
        """Reads what `save_own_variables` wrote.

        A layer made with the `seed` that the file's had goes on with its dropout masks; another
        one keeps its own.

        Raises:
          ValueError: the weights are of another network, or of another kind of layer.
        """
        layout = self.layout
        where = "the file"

        # Keras' sharded store loses its place when it is asked for a key that it does not have.
        keys = set(store.keys())
        if _FILE_HEADER not in keys:
            raise ValueError(
                f"Layer {self.name!r} must find the named matrices of a CudnnRNN and their "
                f"`{_FILE_HEADER}` in the file; found {', '.join(sorted(keys)) or 'nothing'}. "
                "Weights of other layers: tf_cudnn_rnn.weights and set_canonical_weights."
            )
        header = np.asarray(store[_FILE_HEADER]).tobytes()
        params_header.check_same(header, layout, self.name, where)
        flat = []
        for group in params_header.groups(layout):
            if group.size:
                flat.append(_group_array(store, group, where).ravel())
        self.params.assign(np.concatenate(flat))
        if self._dropout_seed is not None and _FILE_DROPOUT_SEED in keys:
            seed_state = store[_FILE_DROPOUT_SEED]
            if self.seed is not None and seed_state[0] == self.seed:
                self._dropout_seed.state.assign(seed_state)

    @classmethod
    def from_config(cls, config: dict[str, Any]):
        """Makes a layer of what `get_config` returned."""
        _check_go_backwards(cls, config)  # Keras buries what the constructor says in a page
        return super().from_config(config)

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor."""
        return {
            **super().get_config(),
            "num_units": self.num_units,
            "num_layers": self.num_layers,
            "rnn_mode": self.rnn_mode,
            "direction": self.direction,
            "input_mode": self.input_mode,
            "num_proj": self.num_proj,
            "dropout": self.dropout,
            "seed": self.seed,
            "time_major": self.time_major,
            "return_sequences": self.return_sequences,
            "return_state": self.return_state,
            "stateful": self.stateful,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "recurrent_initializer": keras.initializers.serialize(self.recurrent_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "unit_forget_bias": self.unit_forget_bias,
            "kernel_regularizer": keras.regularizers.serialize(self.kernel_regularizer),
            "recurrent_regularizer": keras.regularizers.serialize(self.recurrent_regularizer),
            "bias_regularizer": keras.regularizers.serialize(self.bias_regularizer),
        }

    # --------------------------------------------------------------------------------
    # The call
    # --------------------------------------------------------------------------------

    def __call__(self, inputs, *args, **kwargs):
        """Hands the mask of `inputs`, if it has one, to `call`.

        Keras itself does so only if no other argument is a tensor.
        """
        position = list(self._call_signature.parameters).index("mask") - 1
        if len(args) <= position and kwargs.get("mask") is None:
            kwargs["mask"] = getattr(inputs, "_keras_mask", None)
        return super().__call__(inputs, *args, **kwargs)

    def call(self, inputs, initial_state=None, sequence_lengths=None, mask=None, training=False):
        """Runs the network; see the class."""
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        self._check_steps(inputs)
        self._check_lengths(inputs, sequence_lengths, mask)
        inputs = tf.cast(keras.ops.convert_to_tensor(inputs), self.compute_dtype)
        if initial_state is None and self.stateful:
            self._check_batch(inputs)
            initial_state = self.states
        states = self._checked_state(inputs, initial_state)
        if states is None:
            states = self.get_initial_state(tf.shape(inputs)[self._batch_axis])
        states = [tf.cast(keras.ops.convert_to_tensor(s), self.compute_dtype) for s in states]

        lengths = None
        if mask is not None:
            outputs, states, lengths = self._run_masked(inputs, states, mask, training)
        else:
            if sequence_lengths is not None:
                lengths = _as_int32(sequence_lengths)
            outputs, states = self._run(inputs, self.time_major, states, lengths, training)

        if not self.return_sequences:
            outputs = self._last_output(states[0], lengths)
        shapes = self.compute_output_shape(tuple(inputs.shape))
        outputs.set_shape(shapes[0] if self.return_state else shapes)
        state_shapes = self._state_shapes(inputs.shape[self._batch_axis])
        for state, shape in zip(states, state_shapes, strict=True):
            state.set_shape(shape)
        if self.stateful:
            for variable, state in zip(self.states, states, strict=True):
                variable.assign(tf.cast(state, self.variable_dtype))
        return (outputs, *states) if self.return_state else outputs

    def _check_steps(self, inputs) -> None:
        if inputs.shape[0 if self.time_major else 1] == 0:
            raise ValueError(
                f"`inputs` of layer {self.name!r} must have shape "
                f"{'[T, B, I]' if self.time_major else '[B, T, I]'} with T at least 1; got "
                f"{list(inputs.shape)}."
            )

    def _check_lengths(self, inputs, sequence_lengths, mask) -> None:
        """Checks what is known of `mask` and `sequence_lengths`."""
        mask = mask[0] if isinstance(mask, list | tuple) else mask
        if mask is not None:
            _masks.check_shape(mask, inputs, self.name)
        if sequence_lengths is None:
            return
        if mask is not None:
            raise ValueError(
                f"Layer {self.name!r} must be given either `mask` or `sequence_lengths`; got "
                "both. A mask may also have come with `inputs` from an earlier layer: leave "
                "`sequence_lengths` out then."
            )
        if _is_plain(sequence_lengths):
            sequence_lengths = np.asarray(sequence_lengths)
        batch, shape = inputs.shape[self._batch_axis], tf.TensorShape(sequence_lengths.shape)
        if not shape.is_compatible_with([batch]):
            raise ValueError(
                f"`sequence_lengths` must have shape [B] = [{batch}]; got {shape.as_list()}."
            )
        dtype = tf.as_dtype(sequence_lengths.dtype)
        if not dtype.is_integer:
            raise ValueError(f"`sequence_lengths` must be integers; got {dtype.name}.")

    def _checked_state(self, inputs, initial_state) -> list | None:
        """Returns `initial_state` as a list, its number and known shapes checked."""
        if initial_state is None:
            return None
        if not isinstance(initial_state, list | tuple):
            initial_state = [initial_state]
        names = "(h, c)" if self.rnn_mode == "lstm" else "(h,)"
        if len(initial_state) != len(self.state_size):
            raise ValueError(
                f"`initial_state` of layer {self.name!r}, rnn_mode {self.rnn_mode}, must be "
                f"{names}; got {len(initial_state)} tensors."
            )
        shapes = self._state_shapes(inputs.shape[self._batch_axis])
        letters = "[L*D, B, {}]" if self.time_major else "[B, L*D, {}]"
        for k, (state, shape) in enumerate(zip(initial_state, shapes, strict=True)):
            if not tf.TensorShape(state.shape).is_compatible_with(shape):
                raise ValueError(
                    f"`initial_state`[{k}] of layer {self.name!r} must have shape "
                    f"{letters.format('PH'[k])} = {list(shape)}; got {list(state.shape)}."
                )
        return list(initial_state)

    def _check_batch(self, inputs) -> None:
        batch, expected = inputs.shape[self._batch_axis], self.states[0].shape[self._batch_axis]
        if batch is not None and batch != expected:
            raise ValueError(
                f"Layer {self.name!r} has stateful=True, so each batch must have the size of its "
                f"states, {expected}; got {batch}."
            )

    def _run_masked(self, inputs, states, mask, training):
        """Runs the valid steps of any mask; returns outputs, states and lengths."""
        mask = _masks.as_matrix(mask, inputs, self.name)
        compaction = _masks.Compaction(_swap(mask) if self.time_major else mask)
        sequences = compaction.compact(_swap(inputs) if self.time_major else inputs)
        outputs, states = self._run(sequences, False, states, compaction.lengths, training)
        if self.return_sequences:
            outputs = compaction.expand(outputs, zero_output=True)
            outputs = _swap(outputs) if self.time_major else outputs
        return outputs, states, compaction.lengths

    def _last_output(self, h: tf.Tensor, lengths: tf.Tensor | None) -> tf.Tensor:
        """[B, D*P]: the final h of the last layer; zero in rows of no length, if known."""
        h = h if self.time_major else _swap(h)
        D = len(DIRECTIONS[self.direction])
        last = tf.concat(tf.unstack(h[-D:], num=D), axis=-1)
        if lengths is None:
            return last
        return tf.where((lengths > 0)[:, None], last, tf.zeros_like(last))

    def _run(self, inputs, is_time_major: bool, states, lengths: tf.Tensor | None, training):
        """Calls the op.

        Args:
          inputs: [B, T, I] or [T, B, I], as `is_time_major` says.
          states: as the layer's user has them.
          lengths: int32 [B]; None if all rows have all steps.

        Returns:
          The output in the order of axes of `inputs`, the states in that of `states`.
        """
        contents = graph_contents.get()
        if contents == "stock":
            if self.layout.has_projection:
                raise has_no_stock_layer(self)
            raise ValueError(
                f"Layer {self.name!r} ({type(self).__name__}) cannot be traced as 'stock': it "
                "always runs as an op. Export tf_cudnn_rnn.keras.to_keras(model), an equal model "
                "of stock Keras layers, instead."
            )
        dropout = self.dropout if training and self.num_layers > 1 else 0.0
        exporting = builds_builtin_graph()
        if exporting:
            warn_about_gpus(self, self._gpu_problems(lengths is None, dropout))
        if lengths is None:
            batch, time = (1, 0) if is_time_major else (0, 1)
            lengths = tf.fill([tf.shape(inputs)[batch]], tf.shape(inputs)[time])
        layout = self.layout
        options = {
            "rnn_mode": layout.rnn_mode,
            "direction": layout.direction,
            "input_mode": layout.input_mode,
            "num_proj": layout.num_proj,
        }
        if dropout or contents == "own":
            op, op_time_major = raw_ops.CudnnRNNV3, is_time_major
            options["is_training"] = dropout > 0 or _may_need_gradients()
            if dropout:
                options |= {"dropout": dropout, "rng_seed": self._dropout_seed.next(self.name)}
        else:
            op, op_time_major = tf.raw_ops.CudnnRNNV3, is_time_major or self._num_states > 1
            options["is_training"] = bool(training) if exporting else _may_need_gradients()

        swap_inputs = op_time_major != is_time_major
        swap_states = op_time_major != self.time_major
        states = [_swap(state) for state in states] if swap_states else states
        result = op(
            input=_swap(inputs) if swap_inputs else inputs,
            input_h=states[0],
            input_c=states[1] if self.rnn_mode == "lstm" else tf.zeros([], inputs.dtype),
            params=tf.cast(keras.ops.convert_to_tensor(self.params), inputs.dtype),
            sequence_lengths=lengths,
            time_major=op_time_major,
            **options,
        )
        finals = [result.output_h, result.output_c][: len(states)]
        return (
            _swap(result.output) if swap_inputs else result.output,
            [_swap(state) for state in finals] if swap_states else finals,
        )

    def _gpu_problems(self, full: bool, dropout: float) -> list[str]:
        """What of a graph of built-in ops does not run on GPUs."""
        problems = []
        if self.layout.has_projection:
            problems.append(f"has num_proj={self.num_proj}, which recent GPU builds refuse")
        if self.compute_dtype == "bfloat16":
            problems.append(WRONG_IN_BFLOAT16)
        if not full:
            problems.append(lengths_can_be_0("a mask or sequence_lengths"))
        if dropout:
            problems.append(
                "is traced for training with dropout, for which the graph holds an own op that "
                "needs this library; pass training=False"
            )
        return problems


def has_no_stock_layer(layer: CudnnRNN) -> ValueError:
    """The error for asking for stock layers in the place of one that projects."""
    return ValueError(
        f"Layer {layer.name!r} has num_proj={layer.num_proj}, and no stock Keras layer "
        "projects. Train without a projection; or export the model with as_='builtin', for "
        "TensorFlow with this library; or take the weights to PyTorch or MXNet with "
        "tf_cudnn_rnn.weights."
    )


def _probability(dropout) -> float:
    if not isinstance(dropout, numbers.Real):
        raise TypeError(f"`dropout` must be a real number; got {dropout!r}.")
    if not 0 <= dropout <= 1:
        raise ValueError(f"`dropout` must be in [0, 1]; got {dropout}.")
    return float(dropout)


def _check_go_backwards(cls: type, options: dict[str, Any]) -> None:
    """Explains what Bidirectional asks for."""
    if "go_backwards" in options:
        raise ValueError(
            f"`go_backwards` must be left out of {cls.__name__}; got {options['go_backwards']!r}. "
            "Pass direction='bidirectional' instead of putting the layer inside "
            "keras.layers.Bidirectional."
        )


def _group_array(store, group: params_header.Group, where: str) -> np.ndarray:
    """Reads one group of a file, checked."""
    try:
        array = np.asarray(store[str(group.name)])
    except KeyError:
        raise ValueError(f"{where} must hold {group.name}, which is missing.") from None
    if array.shape != group.shape:
        raise ValueError(
            f"{group.name} in {where} must have shape {list(group.shape)}; got {list(array.shape)}."
        )
    return array


def _swap(tensor: tf.Tensor) -> tf.Tensor:
    """Exchanges the first two axes."""
    return tf.transpose(tensor, [1, 0, *range(2, tensor.shape.rank)])


def _as_int32(lengths: Any) -> tf.Tensor:
    """Lengths of any integer type; what int32 does not hold stays out of range."""
    lengths = tf.convert_to_tensor(np.asarray(lengths) if _is_plain(lengths) else lengths)
    if lengths.dtype == tf.int32:
        return lengths
    return tf.cast(tf.clip_by_value(tf.cast(lengths, tf.int64), -1, tf.int32.max), tf.int32)


def _is_plain(lengths: Any) -> bool:
    """Whether these are numbers of Python, not a tensor or array."""
    return isinstance(lengths, list | tuple)


class _OfOneMode(CudnnRNN):
    """A CudnnRNN of which the class tells the mode."""

    _mode: str

    def __init__(self, num_units: int, num_layers: int = 1, **kwargs):
        if "rnn_mode" in kwargs:
            raise ValueError(
                f"`rnn_mode` must be left out of {type(self).__name__}, which is always "
                f"{self._mode!r}; got {kwargs['rnn_mode']!r}. CudnnRNN takes any."
            )
        super().__init__(num_units, num_layers, self._mode, **kwargs)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["rnn_mode"]
        return config


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnLSTM(_OfOneMode):
    """CudnnRNN with rnn_mode="lstm"; all other arguments are its.

    >>> tf_cudnn_rnn.keras.CudnnLSTM(64, num_layers=2, num_proj=16)(tf.zeros([8, 20, 5])).shape
    TensorShape([8, 16])
    """

    _mode = "lstm"


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnGRU(_OfOneMode):
    """CudnnRNN with rnn_mode="gru"; all other arguments are its.

    It is that of keras.layers.GRU with reset_after=True.
    """

    _mode = "gru"


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnRNNTanh(_OfOneMode):
    """CudnnRNN with rnn_mode="rnn_tanh"; all other arguments are its."""

    _mode = "rnn_tanh"


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnRNNRelu(_OfOneMode):
    """CudnnRNN with rnn_mode="rnn_relu"; all other arguments are its."""

    _mode = "rnn_relu"
