"""The gradient of the backward pass, made of differentiable TensorFlow ops.

Let J be the Jacobian of a forward call at its inputs (input, input_h, input_c, params). The
backward op takes gradients u of the outputs to J^T u. Gradients v of its results ask for the
derivatives of <v, J^T u> = <J v, u>:

  by u           J v, how the outputs change as the inputs move along v: the tangents of the
                 outputs. They are computed forward in time, together with the outputs.
  by the inputs  TensorFlow's gradient of that computation.

So there is one loop over time and its gradient, where two nested gradients of the network
would make four loops. As it is all made of TensorFlow ops, any derivative can follow.

The letters are those of _layout.py; G is the number of gates.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tf_cudnn_rnn import _library, raw_ops
from tf_cudnn_rnn._layout import DIRECTIONS, GATES, Layout, split_by_layer


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of a forward call; fields go by the ops' names.

    Attributes:
      may_follow_cudnn: whether the memory of batch-major states may be that of
        time-major ones, as the built-in CudnnRNNV3 can be told to read it.
    """

    rnn_mode: str
    input_mode: str
    direction: str
    dropout: float
    num_proj: int
    time_major: bool
    may_follow_cudnn: bool

    @property
    def num_directions(self) -> int:
        return len(DIRECTIONS[self.direction])

    def of_network(self) -> dict:
        """The attributes of the ops on params."""
        names = ("rnn_mode", "input_mode", "direction", "num_proj")
        return {name: getattr(self, name) for name in names}


def backprop_gradients(
    options: Options,
    inputs: Sequence[tf.Tensor],
    output_gradients: Sequence[tf.Tensor],
    upstream: Sequence[tf.Tensor],
    sequence_lengths: tf.Tensor,
    reserve_space: tf.Tensor,
) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Returns the gradients of a backward op for `inputs` and for `output_gradients`.

    Shapes and types are those of CudnnRNNBackpropV3.

    Args:
      options: of the call.
      inputs: input, input_h, input_c (of an lstm only) and params.
      output_gradients: output_backprop, output_h_backprop, and output_c_backprop (of an lstm only).
      upstream: the gradients of the backward op's results, one for each of `inputs`.
      sequence_lengths: int32 [B].
      reserve_space: what the forward call returned.
    """
    sizes = (
        _known_size(inputs[0], 2),
        _known_size(inputs[1], 0 if options.time_major else 1),
        *(_known_size(state, 2) for state in inputs[1:-1]),
    )
    function = function_for(options, reserve_space.dtype, sizes)
    results = function(
        tuple(inputs), tuple(output_gradients), tuple(upstream), sequence_lengths, reserve_space
    )
    for gradients, tensors in zip(results, (inputs, output_gradients), strict=True):
        for gradient, tensor in zip(gradients, tensors, strict=True):
            gradient.set_shape(tensor.shape)
    return results


@functools.lru_cache(maxsize=64)
def function_for(options: Options, dtype: tf.DType, sizes: tuple):
    """Returns `_gradients` as a graph, for networks of these sizes.

    TensorFlow builds the gradient of each backward pass that a tape watches, whether or not
    it will be asked for. So it is traced once for all of them; anew for the first change of
    time or batch, and then for any.
    """
    del dtype, sizes  # Networks do not share a function, lest it is traced for any size of theirs.
    return tf.function(
        functools.partial(_gradients, options), autograph=False, reduce_retracing=True
    )


def _gradients(options, inputs, output_gradients, upstream, lengths, reserve_space):
    dtype = inputs[0].dtype
    compute_dtype = tf.float64 if dtype == tf.float64 else tf.float32
    masks, follows_cudnn = _read_reserve(options, compute_dtype, inputs, lengths, reserve_space)

    def cast(tensors, dtype):
        return [tf.cast(tensor, dtype) for tensor in tensors]

    ranks = [3] * (len(inputs) - 1) + [1]
    inputs, upstream = (
        [tf.ensure_shape(t, [None] * rank) for t, rank in zip(tensors, ranks, strict=True)]
        for tensors in (inputs, upstream)
    )
    lengths = tf.ensure_shape(lengths, [None])
    inputs = cast(inputs, compute_dtype)
    output_gradients = cast(output_gradients, compute_dtype)
    upstream = cast(upstream, compute_dtype)
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        moving = [Dual(*pair) for pair in zip(inputs, upstream, strict=True)]
        outputs = _run(options, moving, lengths, masks, follows_cudnn)
        tangents = [output.tangent for output in outputs]
    input_gradients = tape.gradient(
        tangents, inputs, output_gradients, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    return cast(input_gradients, dtype), cast(tangents, dtype)


def _read_reserve(options, compute_dtype, inputs, lengths, reserve_space):
    """Returns the dropout masks [L-1, T, B, D*P] and whether batch-major states follow cuDNN."""
    if options.dropout == 0 and not options.may_follow_cudnn:
        return None, None  # what all reserves of such calls say
    x, h0, *c0, params = inputs
    return _library.load().tf_cudnn_rnn_cudnn_rnn_read_reserve(
        input=x,
        input_h=h0,
        input_c=c0[0] if c0 else tf.zeros([], x.dtype),
        params=params,
        sequence_lengths=lengths,
        reserve_space=reserve_space,
        M=compute_dtype,
        dropout=options.dropout,
        time_major=options.time_major,
        **options.of_network(),
    )


# ------------------------------------------------------------------------------------
# Dual numbers
# ------------------------------------------------------------------------------------


class Dual(NamedTuple):
    """A tensor and its tangent, the rate at which it changes."""

    value: tf.Tensor
    tangent: tf.Tensor

    def __add__(self, other: "Dual") -> "Dual":
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __sub__(self, other: "Dual") -> "Dual":
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __mul__(self, other: "Dual") -> "Dual":
        return Dual(
            self.value * other.value, self.tangent * other.value + self.value * other.tangent
        )

    def times_transposed(self, matrix: "Dual") -> "Dual":
        """Each row multiplied by `matrix` from the left."""
        product = functools.partial(tf.matmul, transpose_b=True)
        return Dual(
            product(self.value, matrix.value),
            product(self.tangent, matrix.value) + product(self.value, matrix.tangent),
        )

    def split(self, sizes) -> "list[Dual]":
        """Parts of the last axis; `sizes` are theirs, or the number of equal ones."""
        return list(map(Dual, *(tf.split(tensor, sizes, axis=-1) for tensor in self)))


def _linear(function: Callable, *duals: Dual) -> Dual:
    """What a function makes of `duals` that is linear in all of them together."""
    return Dual(function(*(d.value for d in duals)), function(*(d.tangent for d in duals)))


def _join(duals: Iterable[Dual]) -> Dual:
    """One after another along the first axis."""
    return _linear(lambda *tensors: tf.concat(tensors, 0), *duals)


def _sigmoid(x: Dual) -> Dual:
    y = tf.sigmoid(x.value)
    return Dual(y, y * (1 - y) * x.tangent)


def _tanh(x: Dual) -> Dual:
    y = tf.tanh(x.value)
    return Dual(y, (1 - y * y) * x.tangent)


def _relu(x: Dual) -> Dual:
    # At 0 the derivative is 0, as it is in the engine.
    return Dual(tf.nn.relu(x.value), tf.where(x.value > 0, x.tangent, 0))


# ------------------------------------------------------------------------------------
# Cells: (W x + bW, R h + bR, states) -> states, the first of them not yet projected
# ------------------------------------------------------------------------------------


def _lstm(from_input: Dual, from_h: Dual, h: Dual, c: Dual) -> tuple[Dual, ...]:
    i, f, g, o = (from_input + from_h).split(4)
    c = _sigmoid(f) * c + _sigmoid(i) * _tanh(g)
    return _sigmoid(o) * _tanh(c), c


def _gru(from_input: Dual, from_h: Dual, h: Dual) -> tuple[Dual, ...]:
    (r_x, z_x, n_x), (r_h, z_h, n_h) = from_input.split(3), from_h.split(3)
    z = _sigmoid(z_x + z_h)
    n = _tanh(n_x + _sigmoid(r_x + r_h) * n_h)
    return (n + z * (h - n),)


def _rnn_tanh(from_input: Dual, from_h: Dual, h: Dual) -> tuple[Dual, ...]:
    return (_tanh(from_input + from_h),)


def _rnn_relu(from_input: Dual, from_h: Dual, h: Dual) -> tuple[Dual, ...]:
    return (_relu(from_input + from_h),)


_CELLS: dict[str, Callable[..., Any]] = {
    "lstm": _lstm,
    "gru": _gru,
    "rnn_tanh": _rnn_tanh,
    "rnn_relu": _rnn_relu,
}


# ------------------------------------------------------------------------------------
# The network
# ------------------------------------------------------------------------------------


def _known_size(tensor: tf.Tensor, axis: int) -> int | None:
    """A dimension of a tensor of rank 3, if the graph tells it."""
    # Of a program with the behaviour of TensorFlow 1 it is no int, but an object around one.
    return tf.compat.dimension_value(tensor.shape.with_rank(3)[axis])


def _size(tensor: tf.Tensor, axis: int):
    """An int where the shape is known, else a scalar tensor."""
    known = _known_size(tensor, axis)
    return tf.shape(tensor)[axis] if known is None else known


def _if_equal(a, b, then: Callable, otherwise: Callable):
    """Calls one of two functions; builds both in a graph where the sizes are not known."""
    if tf.is_tensor(a) or tf.is_tensor(b):
        return tf.cond(tf.equal(a, b), then, otherwise)
    return then() if a == b else otherwise()


def _swap(tensor: tf.Tensor) -> tf.Tensor:
    """[A, B, C] as [B, A, C]."""
    return tf.transpose(tensor, [1, 0, 2])


def _run(options, inputs, lengths, masks, follows_cudnn) -> list[Dual]:
    """The outputs of a forward call: output, output_h, and output_c of an lstm."""
    x, *states, params = inputs

    def swap_states(states):
        swapped = _swap(states)
        if follows_cudnn is None:
            return swapped
        return tf.where(follows_cudnn, tf.reshape(states, tf.shape(swapped)), swapped)

    if not options.time_major:
        x = _linear(_swap, x)
        states = [_linear(swap_states, state) for state in states]

    y, *states = _run_layers(options, x, states, params=params, lengths=lengths, masks=masks)
    if not options.time_major:
        y = _linear(_swap, y)
        states = [_linear(swap_states, state) for state in states]
    return [y, *states]


def _run_layers(options, x, states, params, lengths, masks) -> list[Dual]:
    """As `_run`, time-major."""
    D = options.num_directions
    valid = tf.range(tf.shape(x.value)[0])[:, None] < lengths  # [T, B]
    num_layers = _size(states[0].value, 0) // D
    first_weights, weights, biases = _params_by_layer(options, x, states, params, num_layers)

    def run_layer(options, layer, x, weights):
        params = _join([weights, _linear(lambda t: t[layer], biases)])
        initial = [_linear(lambda t: t[layer * D : (layer + 1) * D], state) for state in states]
        return _run_layer(options, x, initial, params=params, valid=valid, lengths=lengths)

    def run_next(layer, y, finals):
        x = y if options.dropout == 0 else _linear(lambda t: t * masks[layer - 1], y)
        above = dataclasses.replace(options, input_mode="linear_input")
        y, new = run_layer(above, layer, x, _linear(lambda t: t[layer - 1], weights))
        return layer + 1, y, tuple(map(_join, zip(finals, new, strict=True)))

    # Padding may hold anything.
    x = _linear(lambda t: tf.where(valid[:, :, None], t, 0), x)
    loop = (1, *run_layer(options, 0, x, first_weights))
    if tf.is_tensor(num_layers):
        invariants = tf.nest.map_structure(lambda _: tf.TensorShape([None] * 3), loop[1:])
        loop = tf.while_loop(
            lambda layer, *_: layer < num_layers,
            run_next,
            loop,
            shape_invariants=(tf.TensorShape([]), *invariants),
        )
    else:
        while loop[0] < num_layers:
            loop = run_next(*loop)
    _, y, finals = loop
    return [y, *finals]


def _params_by_layer(options, x, states, params, num_layers) -> list[Dual]:
    """Returns the matrices of layer 0 [.], of each layer above [L-1, .], all biases [L, .]."""
    num_units = _size(states[-1].value, 2)

    def params_size(num_layers):
        size = raw_ops.CudnnRNNParamsSize(
            num_layers=num_layers,
            num_units=num_units,
            input_size=_size(x.value, 2),
            T=params.value.dtype,
            S=tf.int64,
            **options.of_network(),
        )
        return size[0]

    first, upper, biases = split_by_layer(
        options.rnn_mode, options.direction, tf.cast(num_units, tf.int64), params_size
    )
    layers = tf.cast(num_layers, tf.int64)
    parts = params.split([first, (layers - 1) * upper, layers * biases])
    return [
        parts[0],
        _linear(lambda t: tf.reshape(t, tf.stack([layers - 1, upper])), parts[1]),
        _linear(lambda t: tf.reshape(t, tf.stack([layers, biases])), parts[2]),
    ]


class _Weights(NamedTuple):
    """Of one layer: one axis for the directions, the gates below one another."""

    input_kernel: Dual  # [D, G*H, in], or no columns if the layer skips the input product
    recurrent_kernel: Dual  # [D, G*H, P]
    input_bias: Dual  # [D, 1, G*H]
    recurrent_bias: Dual  # [D, 1, G*H]
    projection: Dual | None  # [D, P, H]


def _weights(options, input_size, num_units, params) -> _Weights:
    """Takes the `params` of one layer apart."""

    def unprojected():
        return _named_weights(
            dataclasses.replace(options, num_proj=0), input_size, num_units, params
        )

    def projected():
        return _named_weights(options, input_size, num_units, params)

    def projected_by_identity():
        one = tf.eye(num_units, batch_shape=[options.num_directions], dtype=params.value.dtype)
        return unprojected()._replace(projection=Dual(one, tf.zeros_like(one)))

    if options.num_proj == 0:
        return unprojected()
    # A projection to the same size is none, as in Layout.has_projection.
    if tf.is_tensor(num_units):
        return tf.cond(tf.equal(num_units, options.num_proj), projected_by_identity, projected)
    return unprojected() if num_units == options.num_proj else projected()


def _named_weights(options, input_size, num_units, params) -> _Weights:
    """As `_weights`; `num_proj` is 0 unless it projects."""
    # The names and their order are the same for all sizes.
    projects = options.num_proj != 0
    layout = Layout(
        options.rnn_mode,
        num_layers=1,
        num_units=2,
        input_size=2,
        direction=options.direction,
        num_proj=int(projects),
    )

    def tensors(params):
        canonical = raw_ops.CudnnRNNParamsToCanonicalV2(
            num_layers=1,
            num_units=num_units,
            input_size=input_size,
            params=params,
            num_params_weights=len(layout.weights),
            num_params_biases=len(layout.biases),
            **options.of_network(),
        )
        return [*canonical.weights, *canonical.biases]

    parts = map(Dual, tensors(params.value), tensors(params.tangent))
    named = list(zip([region.name for region in layout.regions], parts, strict=True))

    def of_kind(kind):
        of_directions = [
            _join([d for name, d in named if (name.direction, name.kind) == (direction, kind)])
            for direction in DIRECTIONS[options.direction]
        ]
        return _linear(lambda *tensors: tf.stack(tensors), *of_directions)

    def bias(kind):
        return _linear(lambda t: t[:, None], of_kind(kind))

    return _Weights(
        of_kind("input_kernel"),
        of_kind("recurrent_kernel"),
        bias("input_bias"),
        bias("recurrent_bias"),
        of_kind("projection") if projects else None,
    )


def _run_layer(options, x, states, params, valid, lengths) -> tuple[Dual, tuple[Dual, ...]]:
    """Returns the outputs [T, B, D*P] and the final states [D, B, .] of one layer.

    Args:
      x: [T, B, in].
      states: [D, B, P], and [D, B, H] of an lstm.
      params: [N] of the layer.
      valid: bool [T, B].
      lengths: [B].
    """
    D, G = options.num_directions, len(GATES[options.rnn_mode])
    T, B = tf.unstack(tf.shape(valid))
    in_size, num_units = _size(x.value, 2), _size(states[-1].value, 2)
    weights = _weights(options, in_size, num_units, params)

    def reverse(t):
        return tf.reverse_sequence(t, lengths, seq_axis=0, batch_axis=1)

    def in_order_of_steps(t):  # [T, B, in] -> [D, T*B, in]
        return tf.reshape(tf.stack([t] if D == 1 else [t, reverse(t)]), [D, T * B, in_size])

    def by_step(t):  # [D, T*B, G*H] -> [T, D, B, G*H]
        return tf.transpose(tf.reshape(t, [D, T, B, G * num_units]), [1, 0, 2, 3])

    rows = _linear(in_order_of_steps, x)

    def input_itself():
        return _linear(lambda t: tf.tile(t, [1, 1, G]), rows)

    def input_product():
        return rows.times_transposed(weights.input_kernel)

    if options.input_mode == "auto_select":  # see Layout.skips_input
        products = _if_equal(in_size, num_units, input_itself, input_product)
    else:
        skips_input = options.input_mode == "skip_input"
        products = input_itself() if skips_input else input_product()
    from_input = _linear(by_step, products + weights.input_bias)

    def step(states, element):
        from_input, valid = element
        from_h = states[0].times_transposed(weights.recurrent_kernel) + weights.recurrent_bias
        h, *others = _CELLS[options.rnn_mode](from_input, from_h, *states)
        if weights.projection is not None:
            h = h.times_transposed(weights.projection)

        def hold(new, old):  # rows that have ended keep their states
            return tf.ensure_shape(tf.where(valid[None, :, None], new, old), old.shape)

        return tuple(_linear(hold, *pair) for pair in zip([h, *others], states, strict=True))

    all_states = tf.scan(step, (from_input, valid), tuple(states))

    def outputs(h):  # [T, D, B, P] -> [T, B, D*P]
        forward, *backward = tf.unstack(tf.where(valid[:, None, :, None], h, 0), D, axis=1)
        return tf.concat([forward, *map(reverse, backward)], -1)

    finals = tuple(_linear(lambda t: t[-1], state) for state in all_states)
    return _linear(outputs, all_states[0]), finals
