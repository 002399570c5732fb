"""Recurrent networks of several layers and directions, run as one op."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import keras
import tensorflow as tf
from numpy.typing import ArrayLike

from tf_cudnn_rnn._formats import params_header
from tf_cudnn_rnn._formats.vectors import check_are_weights
from tf_cudnn_rnn._layout import Layout, ParamName
from tf_cudnn_rnn._types import (
    Array,
    Constraint,
    Direction,
    DType,
    Initializer,
    InputMode,
    Named,
    Regularizer,
    RnnMode,
    Shape,
    TensorLike,
)
from tf_cudnn_rnn.keras import (
    _cells,
    _files,
    _graphs,
    _lengths,
    _masks,
    _onnx_nodes,
    _op_call,
    _options,
    _params,
    _signatures,
    _states,
    _warnings,
)
from tf_cudnn_rnn.keras._dropout_seed import DropoutSeed
from tf_cudnn_rnn.keras._reading import value_of
from tf_cudnn_rnn.keras._shapes import Shapes, check_real, swap
from tf_cudnn_rnn.weights import Canonical, canonical_to_params, params_to_canonical

_FROZEN_CELLS = "frozen_cells"  # in the config


class _NotThere(AttributeError, ValueError):
    """What a layer does not have, or not yet; so that hasattr says so."""


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

    All weights are in one vector `params` [N], as cuDNN's ops take them. `canonical_weights`
    takes it apart by names. The layer makes it when it first sees an input, whose size it
    depends on. With `separate_weights` the weights are variables by layer, direction and kind,
    which can be frozen, constrained and trained one by one: see `cells`. Checkpoints and files
    are the same, but for `.h5` ones.

    In shapes, B stands for the rows of the batch, T for time steps, I for the input's features,
    and G for the gates of a cell (4 of an LSTM, 3 of a GRU, else 1). H, L, D and P are among
    the arguments.

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
      separate_weights: whether each kernel and bias of each layer and direction is a variable of
        its own, for fine tuning; see `cells`. A call then joins them first.
      kernel_constraint: for each input kernel and projection, as it is drawn; held after each
        step of an optimiser.
      recurrent_constraint: for each recurrent kernel.
      bias_constraint: for each of the two biases.
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

    __signature__ = _signatures.OfConstructor()

    if not TYPE_CHECKING:  # which would believe that it takes anything

        def __new__(cls, *args, **kwargs):
            """Checks the names of arguments, before Python finds `num_units` missing."""
            if cls.__init__.__module__ == __name__:  # not that of somebody's subclass
                _options.check_names(cls, kwargs, _options.OF_CUDNN_RNN)
            return super().__new__(cls, *args, **kwargs)

    def __init__(
        self,
        num_units: int,
        num_layers: int = 1,
        rnn_mode: RnnMode = "lstm",
        direction: Direction = "unidirectional",
        input_mode: InputMode = "linear_input",
        num_proj: int | None = None,
        dropout: float = 0.0,
        seed: int | None = None,
        time_major: bool = False,
        return_sequences: bool = False,
        return_state: bool = False,
        stateful: bool = False,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Regularizer | None = None,
        recurrent_regularizer: Regularizer | None = None,
        bias_regularizer: Regularizer | None = None,
        dtype: DType | None = None,
        name: str | None = None,
        separate_weights: bool = False,
        kernel_constraint: Constraint | None = None,
        recurrent_constraint: Constraint | None = None,
        bias_constraint: Constraint | None = None,
        **kwargs: Any,
    ) -> None:
        _options.check_go_backwards(type(self), kwargs)
        super().__init__(dtype=dtype, name=name, **kwargs)
        _options.check_types(self.compute_dtype, self.variable_dtype)
        options = _options.Options(
            num_units=num_units,
            num_layers=num_layers,
            rnn_mode=rnn_mode,
            direction=direction,
            input_mode=input_mode,
            num_proj=num_proj,
            dropout=dropout,
            seed=seed,
            time_major=time_major,
            return_sequences=return_sequences,
            return_state=return_state,
            stateful=stateful,
            kernel_initializer=kernel_initializer,
            recurrent_initializer=recurrent_initializer,
            bias_initializer=bias_initializer,
            unit_forget_bias=unit_forget_bias,
            kernel_regularizer=kernel_regularizer,
            recurrent_regularizer=recurrent_regularizer,
            bias_regularizer=bias_regularizer,
            separate_weights=separate_weights,
            kernel_constraint=kernel_constraint,
            recurrent_constraint=recurrent_constraint,
            bias_constraint=bias_constraint,
        )
        if dropout and options.num_layers == 1:
            _warnings.warn(
                f"Layer {self.name!r} has dropout={dropout} and one layer. Dropout acts between "
                "layers, so it does nothing here: put a keras.layers.Dropout before or after."
            )
        self.supports_jit = False  # XLA knows no custom ops
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self._layout: Layout | None = None
        self._state_holder: Any = None  # StateVariables, of a stateful layer that is built
        self._dropout_seed: Any = None  # DropoutSeed, where dropout has layers to act between
        if options.has_dropout:
            self._dropout_seed = DropoutSeed(seed)
            self.seed_generator = self._dropout_seed.generator
        self._cells: list[_cells.Cell] = []
        if options.separate_weights:
            self._cells = _cells.made(options.num_layers, direction, self.dtype_policy)
        options.set_on(self)  # last, as the setter of `dropout` asks for the seed

    @property
    def dropout(self) -> float:
        """The probability of an output between layers to be zeroed in training.

        It can be set, but not in a layer that was made without dropout.
        """
        return self._dropout

    @dropout.setter
    def dropout(self, dropout: float) -> None:
        probability = _options.probability(dropout)
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
            raise _NotThere(
                f"Layer {self.name!r} must be built before its weights are known. Call it on "
                "data, or `build` with an input shape."
            )
        return self._layout

    @property
    def _shapes(self) -> Shapes:
        return Shapes.of(self)

    @property
    def state_size(self) -> list[int]:
        """The features of h and, for an LSTM, c."""
        return self._shapes.state_size

    def compute_output_shape(self, input_shape: Shape) -> Shape | tuple[Shape, ...]:
        """As of Keras' layers: a shape, or a tuple of shapes if return_state."""
        return self._shapes.returned(input_shape)

    def compute_output_spec(
        self,
        inputs: TensorLike,
        initial_state: Sequence[TensorLike] | TensorLike | None = None,
        sequence_lengths: TensorLike | None = None,
        mask: TensorLike | None = None,
        training: bool = False,
    ) -> Any:
        """As of Keras' layers; checks the arguments as `call` does."""
        del training
        check_real(inputs, self.name)
        _lengths.check(inputs, sequence_lengths, _masks.single(mask), self._shapes, self.name)
        _states.checked(initial_state, inputs, self._shapes, self.name)

        def spec(shape: Shape) -> keras.KerasTensor:
            return keras.KerasTensor(shape, dtype=self.compute_dtype)

        shapes: Any = self.compute_output_shape(tuple(inputs.shape))
        return tuple(map(spec, shapes)) if self.return_state else spec(shapes)

    def compute_mask(self, inputs: TensorLike, mask: TensorLike | None) -> Any:
        """The mask of the sequences, if these are returned; states have none."""
        output_mask = _masks.single(mask) if self.return_sequences else None
        return [output_mask, *[None] * len(self.state_size)] if self.return_state else output_mask

    # --------------------------------------------------------------------------------
    # Variables
    # --------------------------------------------------------------------------------

    def build(self, input_shape: Shape) -> None:
        """Makes `params`, for inputs of this shape."""
        input_size = input_shape[-1]
        if input_size is None:
            raise ValueError(
                f"The last dimension of the inputs of layer {self.name!r}, the input size, must "
                f"be known; got shape {tuple(input_shape)}."
            )
        self._layout = _options.layout_of(self, input_size)
        self.input_spec = keras.layers.InputSpec(ndim=3, axes={-1: input_size})
        # First, so that a checkpoint restored later is checked before it is read.
        self.params_header = _params.Header(self._layout, self.name)
        initializers = _params.initializers_of(
            self._layout,
            self.kernel_initializer,
            self.recurrent_initializer,
            self.bias_initializer,
            self.unit_forget_bias,
        )
        regularizers = _params.regularizers_of(
            self._layout,
            self.kernel_regularizer,
            self.recurrent_regularizer,
            self.bias_regularizer,
        )
        constraints = _params.constraints_of(
            self._layout,
            self.kernel_constraint,
            self.recurrent_constraint,
            self.bias_constraint,
        )
        if self.separate_weights:
            self.params = _cells.Joined(
                self._layout, self._cells, initializers, regularizers, constraints
            )
        else:
            self.params = self.add_weight(
                shape=(_params.size_of(self._layout, self.variable_dtype),),
                initializer=_params.joined_initializer(self._layout, initializers),
                regularizer=_params.joined_regularizer(self._layout, regularizers),
                constraint=_params.joined_constraint(self._layout, constraints),
                name="params",
            )
        if self.stateful:
            shapes = self._shapes
            self._state_holder = _states.StateVariables(
                shapes, input_shape[shapes.batch_axis], self.variable_dtype, self.name
            )

    @property
    def cells(self) -> list[_cells.Cell]:
        """The weights of each layer and direction, of a layer with `separate_weights`.

        Entry k = layer * D + direction. Each is a small Keras layer with the variables
        `input_kernel` [G*H, in], `recurrent_kernel` [G*H, P], `input_bias`, `recurrent_bias`
        [G*H] and, of an LSTM that projects, `projection` [P, H]. Set its `trainable` to False
        to freeze them, and compile anew.

        Raises:
          ValueError: the layer was made without `separate_weights`.
        """
        if not self.separate_weights:
            raise _NotThere(
                f"`separate_weights` of layer {self.name!r} must be True for it to have `cells`; "
                "got False, by which all weights are one variable. Make it anew with the option, "
                "and move the weights: `new.set_canonical_weights(old.canonical_weights())`."
            )
        return list(self._cells)

    @property
    def states(self) -> list[keras.Variable] | None:
        """The variables of a stateful layer: h and, for an LSTM, c."""
        return None if self._state_holder is None else list(self._state_holder.states)

    def reset_state(self) -> None:
        """Sets the states of a stateful layer to zero."""
        if self._state_holder is not None:
            self._state_holder.reset()

    def reset_states(self) -> None:
        """Another name of `reset_state`."""
        self.reset_state()

    def get_initial_state(self, batch_size: TensorLike) -> list[tf.Tensor]:
        """The states that a call starts with by default: zeros."""
        return [tf.zeros(shape, self.compute_dtype) for shape in self._shapes.states(batch_size)]

    def canonical_weights(self) -> dict[ParamName, Array]:
        """Returns all weights by layer, direction, gate and kind: copies.

        `weights.Canonical(layer.layout, layer.canonical_weights())` is what the converters to
        other libraries take.

        Raises:
          ValueError: the layer has not been built.
        """
        options = dataclasses.asdict(self.layout)
        return dict(params_to_canonical(self._params_array(), **options))

    def set_canonical_weights(self, canonical: Canonical | Named[ParamName, ArrayLike]) -> None:
        """Sets all weights.

        Args:
          canonical: what `canonical_weights` returns, or a weights.Canonical, which the readers
            of other libraries' weights return. The latter must be of the same network.

        Raises:
          ValueError: the layer has not been built, weights are missing or of another network,
            or have another shape, or these are gradients.
        """
        layout = self.layout
        if isinstance(canonical, Canonical):
            check_are_weights(canonical, "canonical")
            params_header.check_same(
                params_header.to_text(canonical.layout), layout, self.name, "`canonical`"
            )
            canonical = canonical.named
        self.params.assign(canonical_to_params(canonical, **dataclasses.asdict(layout)))

    def _params_array(self) -> Array:
        self.layout  # noqa: B018 raises if there is no vector yet
        return self.params.numpy()

    # --------------------------------------------------------------------------------
    # Files
    # --------------------------------------------------------------------------------

    def save_own_variables(self, store: Any) -> None:
        """Writes named matrices, for .keras and .weights.h5, and a header that explains them."""
        if not self.built:
            return
        seed = self._dropout_seed
        seed_state = None if seed is None else seed.state.numpy()
        _files.write(store, self.layout, self._params_array(), seed_state)

    def load_own_variables(self, store: Any) -> None:
        """Reads what `save_own_variables` wrote.

        A layer made with the `seed` that the file's had goes on with its dropout masks; another
        one keeps its own.

        Raises:
          ValueError: the weights are of another network, or of another kind of layer; or the layer
            has not been built, and the file has weights for it.
        """
        if not self.built and len(store.keys()) == 0:  # as it was when it was saved
            return
        params = _files.read_params(store, self.layout, self.name)
        self.params.assign(params)
        if self._dropout_seed is not None and self.seed is not None:
            seed_state = _files.read_dropout_seed(store)
            if seed_state is not None and seed_state[0] == self.seed:
                self._dropout_seed.state.assign(seed_state)

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> CudnnRNN:
        """Makes a layer of what `get_config` returned."""
        _options.check_go_backwards(cls, config)  # Keras buries what the constructor says in a page
        config = _options.without_unset_flags(config)
        frozen = config.pop(_FROZEN_CELLS, [])
        layer = super().from_config(config)
        for k in frozen:
            layer.cells[k].trainable = False
        return layer

    def get_config(self) -> dict[str, Any]:
        """The arguments of the constructor, and which cells are frozen, if any are."""
        frozen = [k for k, cell in enumerate(self._cells) if not cell.trainable]
        more = {_FROZEN_CELLS: frozen} if frozen else {}
        return {**super().get_config(), **_options.config_of(self), **more}

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> dict[str, Any]:
        children = super()._trackable_children(save_type, **kwargs)
        if self.separate_weights:  # a checkpoint has the vector, a SavedModel what its ops read
            children.pop("_cells" if save_type == "checkpoint" else "params", None)
        return children

    # --------------------------------------------------------------------------------
    # The call
    # --------------------------------------------------------------------------------

    def __call__(self, inputs: TensorLike, *args: Any, **kwargs: Any) -> Any:
        """Hands the mask of `inputs`, if it has one, to `call`.

        Keras itself does so only if no other argument is a tensor.

        Raises:
          ValueError: `inputs` or the mask are ragged, or `inputs` sparse.
        """
        if isinstance(inputs, tf.RaggedTensor):
            raise ValueError(
                f"`inputs` of layer {self.name!r} must be a tensor, padded to one length; got a "
                "RaggedTensor. Pass inputs.to_tensor(), and "
                "sequence_lengths=tf.cast(inputs.row_lengths(), tf.int32)."
            )
        if isinstance(inputs, tf.SparseTensor):
            raise ValueError(
                f"`inputs` of layer {self.name!r} must be a dense tensor; got a SparseTensor. Pass "
                "tf.sparse.to_dense(inputs)."
            )
        arguments = [*self._call_signature.parameters]
        given = dict(zip(arguments[1:], args, strict=False)) | kwargs
        if isinstance(given.get("mask"), tf.RaggedTensor):
            raise ValueError(
                f"`mask` of layer {self.name!r} must be a tensor, of the steps of the inputs; got "
                "a RaggedTensor. Pass mask.to_tensor(shape=[None, T])."
            )
        # Somebody's subclass may take none, and then none is handed to it, as Keras has it.
        if "mask" in arguments and len(args) < arguments.index("mask"):
            if kwargs.get("mask") is None:
                kwargs["mask"] = getattr(inputs, "_keras_mask", None)
        return super().__call__(inputs, *args, **kwargs)

    def call(
        self,
        inputs: TensorLike,
        initial_state: Sequence[TensorLike] | TensorLike | None = None,
        sequence_lengths: TensorLike | None = None,
        mask: TensorLike | None = None,
        training: bool = False,
    ) -> Any:
        """Runs the network; see the class."""
        shapes, mask = self._shapes, _masks.single(mask)
        _lengths.check(inputs, sequence_lengths, mask, shapes, self.name)
        check_real(inputs, self.name)
        inputs = self._as_tensor(inputs)
        states = self._first_states(initial_state, inputs)
        if mask is not None:
            outputs, states, lengths = self._run_masked(inputs, states, mask, training)
        else:
            lengths = None if sequence_lengths is None else _lengths.as_int32(sequence_lengths)
            outputs, states = self._run(inputs, self.time_major, states, lengths, training)
        if not self.return_sequences:
            outputs = _states.last_output(states[0], lengths, shapes)

        # What the ops' shape functions could not tell.
        outputs.set_shape(shapes.output(tuple(inputs.shape)))
        expected = shapes.states(inputs.shape[shapes.batch_axis])
        for state, shape in zip(states, expected, strict=True):
            state.set_shape(shape)
        if self.stateful:
            self._state_holder.keep(states)
        return (outputs, *states) if self.return_state else outputs

    def _as_tensor(self, value: TensorLike) -> tf.Tensor:
        return tf.cast(keras.ops.convert_to_tensor(value), self.compute_dtype)

    def _first_states(self, initial_state: Any, inputs: tf.Tensor) -> list[tf.Tensor]:
        """The states of a call: those that it was given, kept ones, or zeros."""
        shapes = self._shapes
        if initial_state is None and self.stateful:
            self._state_holder.check_batch(inputs, shapes, self.name)
            initial_state = self.states
        states = _states.checked(initial_state, inputs, shapes, self.name)
        if states is None:
            states = self.get_initial_state(tf.shape(inputs)[shapes.batch_axis])
        return [self._as_tensor(state) for state in states]

    def _run_masked(
        self, inputs: tf.Tensor, states: list[tf.Tensor], mask: TensorLike, training: bool
    ) -> tuple[tf.Tensor, list[tf.Tensor], tf.Tensor]:
        """Runs the valid steps of any mask; returns outputs, states and lengths."""
        mask = _masks.as_matrix(mask, inputs, self.name)
        is_for_own_kernel = _graphs.is_for_own_kernel(_onnx_nodes.builds_graph())
        # What is not seldom gathered, but always, is so as it lies best.
        swaps = self.time_major and not is_for_own_kernel
        time_major = self.time_major and not swaps
        compaction = _masks.Compaction(
            swap(mask) if swaps else mask,
            is_for_own_kernel=is_for_own_kernel,
            time_major=time_major,
        )
        sequences = compaction.compact(swap(inputs) if swaps else inputs)
        outputs, states = self._run(sequences, time_major, states, compaction.lengths, training)
        if self.return_sequences:
            outputs = compaction.expand(outputs, zero_output=True)
            outputs = swap(outputs) if swaps else outputs
        return outputs, states, compaction.lengths

    def _run(
        self,
        inputs: tf.Tensor,
        is_time_major: bool,
        states: list[tf.Tensor],
        lengths: tf.Tensor | None,
        training: bool,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Calls the op.

        Args:
          inputs: [B, T, I] or [T, B, I], as `is_time_major` says.
          states: as the layer's user has them.
          lengths: int32 [B]; None if all rows have all steps.

        Returns:
          The output in the order of axes of `inputs`, the states in that of `states`.
        """
        _graphs.check_not_stock(self)
        dropout = self.dropout if training and self.num_layers > 1 else 0.0
        if _graphs.builds_builtin_graph():
            problems = _graphs.cudnn_rnn_problems(
                self.layout, self.compute_dtype, lengths is not None, dropout
            )
            _graphs.warn_about_gpus(self, problems)
        for_onnx = _onnx_nodes.builds_graph()
        if for_onnx:
            reason = _onnx_nodes.obstacle_of_stack(self)
            if reason is not None:
                raise _onnx_nodes.cannot_be_node(self, reason)
            params = _onnx_nodes.constant(self.params, self, inputs.dtype)
        else:
            params = self._as_tensor(value_of(self.params, self))
        return _op_call.run(
            self.layout,
            params,
            inputs,
            states,
            lengths,
            inputs_time_major=is_time_major,
            states_time_major=self.time_major,
            training=training,
            dropout=dropout,
            rng_seed=self._dropout_seed.next(self.name) if dropout else None,
            for_onnx=for_onnx,
        )


def _constructor(cls: Any) -> Any:
    """The constructor of a class of one mode: CudnnRNN's, by its own name, without `rnn_mode`."""

    def __init__(self: CudnnRNN, num_units: int, num_layers: int = 1, **kwargs: Any) -> None:
        _options.check_mode(type(self), cls._mode, kwargs)
        super(cls, self).__init__(num_units, num_layers, cls._mode, **kwargs)

    __init__.__qualname__ = f"{cls.__qualname__}.__init__"  # which Python's errors say
    setattr(  # noqa: B010 type checkers know no such attribute
        __init__, "__signature__", _signatures.of_one_mode(CudnnRNN.__init__)
    )
    return __init__


class _OfOneMode(CudnnRNN):
    """A CudnnRNN of which the class tells the mode."""

    _mode: RnnMode

    if TYPE_CHECKING:  # what `_constructor` makes

        def __init__(
            self,
            num_units: int,
            num_layers: int = 1,
            *,
            direction: Direction = "unidirectional",
            input_mode: InputMode = "linear_input",
            num_proj: int | None = None,
            dropout: float = 0.0,
            seed: int | None = None,
            time_major: bool = False,
            return_sequences: bool = False,
            return_state: bool = False,
            stateful: bool = False,
            kernel_initializer: Initializer = "glorot_uniform",
            recurrent_initializer: Initializer = "orthogonal",
            bias_initializer: Initializer = "zeros",
            unit_forget_bias: bool = True,
            kernel_regularizer: Regularizer | None = None,
            recurrent_regularizer: Regularizer | None = None,
            bias_regularizer: Regularizer | None = None,
            dtype: DType | None = None,
            name: str | None = None,
            separate_weights: bool = False,
            kernel_constraint: Constraint | None = None,
            recurrent_constraint: Constraint | None = None,
            bias_constraint: Constraint | None = None,
            **kwargs: Any,
        ) -> None: ...

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "_mode" in vars(cls):  # of ours, not a subclass of these
            setattr(cls, "__init__", _constructor(cls))  # noqa: B010 type checkers know another

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["rnn_mode"]
        return config


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnLSTM(_OfOneMode):
    """A stack of LSTM layers as one fused op: CudnnRNN with rnn_mode="lstm".

    It takes all other arguments of CudnnRNN. The layer of this name in tf.contrib.cudnn_rnn took
    `num_layers` before `num_units`, so pass both by name. It is not the CuDNNLSTM of Keras 2, a
    single layer: for that take `tf_cudnn_rnn.keras.LSTM`.

    >>> tf_cudnn_rnn.keras.CudnnLSTM(64, num_layers=2, num_proj=16)(tf.zeros([8, 20, 5])).shape
    TensorShape([8, 16])
    """

    _mode = "lstm"


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnGRU(_OfOneMode):
    """A stack of GRU layers as one fused op: CudnnRNN with rnn_mode="gru".

    It takes all other arguments of CudnnRNN. Each layer computes what keras.layers.GRU does with
    reset_after=True.
    """

    _mode = "gru"


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnRNNTanh(_OfOneMode):
    """A stack of simple RNN layers with tanh as one fused op: CudnnRNN with rnn_mode="rnn_tanh".

    It takes all other arguments of CudnnRNN.
    """

    _mode = "rnn_tanh"


@keras.saving.register_keras_serializable(package="tf_cudnn_rnn")
class CudnnRNNRelu(_OfOneMode):
    """A stack of simple RNN layers with ReLU as one fused op: CudnnRNN with rnn_mode="rnn_relu".

    It takes all other arguments of CudnnRNN.
    """

    _mode = "rnn_relu"
