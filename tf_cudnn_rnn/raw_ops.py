"""This library's own ops. They take and return what their namesakes in tf.raw_ops do.

Three things differ. The ops are stateless: the dropout mask is a function of the
input `rng_seed`, so that graphs that hold them can be saved, retraced and repeated.
Shapes are inferred and checked as far as they are known when a graph is traced. And
the canonical ops have gradients.

Pass every argument by its name. `T` before a shape is a type: float16, bfloat16,
float32 or float64. Types of 16 bits are computed in float32.

A wrong shape or value raises tf.errors.InvalidArgumentError in eager mode and when a
graph runs. While a graph is traced, it is a ValueError or TypeError. In either mode it is a
TypeError if `sequence_lengths` are a tensor of another type than int32, or if a number that must
be an integer is none, and a ValueError if lengths do not fit in an int32.

The letters of the docstrings:

  T  time steps       B  batch            I  input features
  H  hidden units     P  features of h: `num_proj` if the LSTM projects, else H
  L  layers           D  directions: 2 if bidirectional, else 1
  k  pseudo-layer, k = layer * D + direction; direction 0 is forward
  N  number of elements of `params`

The equations are cuDNN's (cudnnRNNMode_t in NVIDIA's documentation), with both bias
vectors. W, R, bW, bR are a gate's input kernel, recurrent kernel and two biases:

  rnn_relu, rnn_tanh   h' = act(W x + bW + R h + bR)
  lstm                 i, f, o = sigmoid(W x + bW + R h + bR), g = tanh(likewise)
                       c' = f * c + i * g
                       h' = o * tanh(c'), multiplied by the projection if there is one
  gru                  r, z = sigmoid(W x + bW + R h + bR)
                       n = tanh(W_n x + bW_n + r * (R_n h + bR_n))
                       h' = (1 - z) * n + z * h
"""

from __future__ import annotations

import functools
import numbers
from collections.abc import Sequence

import numpy as np

from tf_cudnn_rnn import _library
from tf_cudnn_rnn._layout import integer
from tf_cudnn_rnn._types import Direction, DType, InputMode, RnnMode, TensorLike

_ops = _library.load()  # which says what to do if there is no TensorFlow

import tensorflow as tf  # noqa: E402

from tf_cudnn_rnn._op_results import (  # noqa: E402
    CudnnRNNBackpropV3Result,
    CudnnRNNInt8Result,
    CudnnRNNParamsToCanonicalV2Result,
    CudnnRNNV3Result,
    KerasRNNBackpropResult,
    KerasRNNResult,
    KerasToParamsBackpropResult,
)

__all__ = [
    "CudnnRNNBackpropV3",
    "CudnnRNNCanonicalToParamsV2",
    "CudnnRNNInt8",
    "CudnnRNNParamsSize",
    "CudnnRNNParamsToCanonicalV2",
    "CudnnRNNV3",
    "KerasRNN",
    "KerasRNNBackprop",
    "KerasToParams",
    "KerasToParamsBackprop",
]


def __dir__() -> list[str]:
    return __all__


def _rng_seed(seed: int, seed2: int) -> TensorLike:
    """Returns the `rng_seed` of TensorFlow's two seed attributes.

    A built-in op with these attributes uses the same mask in its first call. The
    64-bit seed is made as TensorFlow makes it: a negative seed2 is extended to 64
    bits and so covers seed.
    """
    for name, value in (("seed", seed), ("seed2", seed2)):
        if not -(2**31) <= integer(name, value) < 2**31:
            raise ValueError(f"`{name}` must fit in an int32; got {value}.")
    # As Python's integers are signed and unbounded, so is this; it fits in an int64.
    key = (integer("seed", seed) << 32) | integer("seed2", seed2)
    # A graph has it as a constant, of which no tensor from outside would be one.
    return _eager_rng_seed(key) if tf.executing_eagerly() else [key, 0]


@functools.lru_cache(maxsize=16)
def _eager_rng_seed(key: int) -> tf.Tensor:
    """A tensor that is at hand: TensorFlow's fast way for eager ops takes no list in its place."""
    with tf.device("/cpu:0"):  # whichever device the first call was to be on
        return tf.constant([key, 0], tf.int64)


def _lengths(sequence_lengths: TensorLike) -> TensorLike:
    """Returns them, checked."""
    return _integers("sequence_lengths", sequence_lengths, tf.int32)


def _integers(name: str, values: TensorLike, dtype: tf.DType) -> TensorLike:
    """Returns an argument that the ops take as `dtype`; TensorFlow would not name the argument.

    Of arrays and lists it would drop fractions, and what does not fit.
    """
    found = getattr(values, "dtype", None)
    if found is dtype:  # an eager tensor: nothing slower may come before
        return values
    its_dtype = getattr(found, "base_dtype", None)  # a tensor's
    if its_dtype is not None:
        if its_dtype != dtype:
            raise TypeError(
                f"`{name}` must be {dtype.name}; got {its_dtype.name}. Pass "
                f"tf.cast({name}, tf.{dtype.name})."
            )
    elif isinstance(values, np.ndarray | np.generic):
        if values.dtype != dtype.as_numpy_dtype:
            _check_integers(name, values.dtype, values.ravel().tolist(), dtype)
            return values.astype(dtype.as_numpy_dtype)
    elif isinstance(values, list | tuple):
        kinds = set(map(type, values))
        if kinds == {int}:  # most lists
            _check_range(name, values, dtype)
            return values
        if wrong := [kind for kind in kinds if issubclass(kind, float | np.floating)]:
            _check_integers(name, np.dtype(wrong[0]), [], dtype)
        if any(issubclass(kind, int | np.integer) for kind in kinds):
            integers = [int(n) for n in values if isinstance(n, int | np.integer)]
            _check_range(name, integers, dtype)
    return values


def _check_integers(name: str, found: np.dtype, values: Sequence[int], dtype: tf.DType) -> None:
    """Checks integers that are no tensor, and were of the type `found`."""
    if found.kind not in "iu":
        raise TypeError(
            f"`{name}` must be {dtype.name}; got {found.name}. Pass "
            f"np.asarray({name}, np.{dtype.name})."
        )
    _check_range(name, values, dtype)


def _check_range(name: str, values: Sequence[int], dtype: tf.DType) -> None:
    limit = 1 << (8 * dtype.size - 1)
    if values and not -limit <= min(values) <= max(values) < limit:
        raise ValueError(
            f"`{name}` must fit in an {dtype.name}; got numbers from {min(values)} to "
            f"{max(values)}."
        )


def _int8_weights(weights: TensorLike) -> TensorLike:
    """Returns them, of the type that the op takes.

    Of arrays and lists TensorFlow would drop fractions, and so all of weights that nobody has
    quantized; and what does not fit in 8 bits.
    """
    if hasattr(weights, "scales"):  # what quantize returned, as it is
        raise TypeError(
            f"`weights` must be int8; got {type(weights).__name__}, which holds all three: pass "
            "its `weights`, `scales` and `biases`."
        )
    dtype = getattr(weights, "dtype", None)
    if dtype is None:  # a list
        array = np.asarray(weights)
        dtype = array.dtype
        if dtype.kind in "iu" and (not array.size or -128 <= array.min() <= array.max() <= 127):
            return array.astype(np.int8)
    elif tf.as_dtype(dtype).base_dtype == tf.int8:
        return weights
    raise TypeError(
        f"`weights` must be int8; got {tf.as_dtype(dtype).name}. tf_cudnn_rnn.weights.quantize "
        "makes such weights, and the `scales` and `biases` that go with them."
    )


def _check_float32(**tensors: TensorLike) -> None:
    """Checks types after a call has failed: TensorFlow does not tell which tensor it was."""
    for name, tensor in tensors.items():
        if isinstance(tensor, tf.Tensor | tf.Variable) and tensor.dtype.base_dtype != tf.float32:
            raise TypeError(
                f"`{name}` must be float32; got {tensor.dtype.name}. Pass "
                f"tf.cast({name}, tf.float32)."
            ) from None  # TensorFlow's error may show all values


def _dropout(dropout: float) -> float:
    """Returns it as TensorFlow's fast way for eager ops takes it; the op checks the rest."""
    if not isinstance(dropout, numbers.Real):
        return dropout
    if isinstance(dropout, int) and not -(2**63) <= dropout < 2**63:
        raise ValueError(
            f"`dropout` must be in [0, 1]; got an integer of {dropout.bit_length()} bits."
        )
    return float(dropout)


def CudnnRNNV3(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
    sequence_lengths: TensorLike,
    rnn_mode: RnnMode = "lstm",
    input_mode: InputMode = "linear_input",
    direction: Direction = "unidirectional",
    dropout: float = 0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    is_training: bool = True,
    time_major: bool = True,
    rng_seed: TensorLike | None = None,
    name: str | None = None,
) -> CudnnRNNV3Result:
    """Runs a recurrent network over a batch of sequences.

    Shapes below are time-major. With `time_major=False` the first two dimensions of
    `input`, `output` and the states are swapped: [B, T, .] and [B, L*D, .].

    Rows may have any length, in any order. Steps at or past a row's length are padding:
    they are never read, and `output` is zero there. A row of length 0 keeps its initial
    states. The backward direction starts at a row's last valid step.

    Dropout acts in training only, on the output of every layer but the last. Its mask
    depends on `rng_seed` alone. So **fixed seeds repeat the mask at each call**: to train,
    pass a new `rng_seed` for each step, for instance
    `tf.random.Generator.make_seeds()[:, 0]`.

    Args:
      input: T [T, B, I], T > 0.
      input_h: T [L*D, B, P], initial states; L follows from its shape.
      input_c: T [L*D, B, H], initial cell states of an LSTM; not read in other modes,
        which take any shape.
      params: T [N], weights and biases; see params_size and canonical_to_params.
      sequence_lengths: int32 [B], each in [0, T].
      rnn_mode: "rnn_relu", "rnn_tanh", "lstm" or "gru".
      input_mode: "linear_input"; "skip_input", by which layer 0 adds its input to
        every gate, without a kernel (needs I == H); or "auto_select", which skips
        if I == H.
      direction: "unidirectional" or "bidirectional".
      dropout: probability of an element to be zeroed, in [0, 1].
      seed: int32; makes `rng_seed`, together with `seed2`.
      seed2: int32.
      num_proj: P, the size to which an LSTM projects h; 0 (or H) for none.
      is_training: pass True (the default) if you will compute gradients; otherwise
        TensorFlow raises a ValueError then. Pass False for inference: it saves memory.
      time_major: see above.
      rng_seed: int64 [2], the dropout key; None for the one that `seed` and `seed2`
        give, by which the first call of the built-in op has the same mask.
      name: a name for the operation.

    Returns:
      A named tuple.

      output: T [T, B, D*P], the states h of the last layer; forward direction first.
      output_h: T [L*D, B, P], the state h after each row's last step.
      output_c: T [L*D, B, H], the cell state likewise; rank 0 for other modes.
      reserve_space: T, rank 1, for CudnnRNNBackpropV3; rank 0 if not training.
      host_reserved: int8, rank 0, unused.

    Raises:
      TypeError: `num_proj` or a seed is not an integer, `sequence_lengths` not int32, or
        `rng_seed` not int64.
      ValueError: a seed or a length does not fit in an int32, or `rng_seed` in an int64; or a
        seed comes along with `rng_seed`.
    """
    if rng_seed is None:
        rng_seed = _rng_seed(seed, seed2)
    elif seed != 0 or seed2 != 0:
        raise ValueError(
            "`rng_seed` takes the place of `seed` and `seed2`, so both must be 0 with "
            f"it; got seed={seed}, seed2={seed2}."
        )
    else:
        rng_seed = _integers("rng_seed", rng_seed, tf.int64)
    return _ops.tf_cudnn_rnn_cudnn_rnnv3(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        sequence_lengths=_lengths(sequence_lengths),
        rng_seed=rng_seed,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=_dropout(dropout),
        num_proj=integer("num_proj", num_proj),
        is_training=is_training,
        time_major=time_major,
        name=name,
    )


def CudnnRNNInt8(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    weights: TensorLike,
    scales: TensorLike,
    biases: TensorLike,
    sequence_lengths: TensorLike,
    rnn_mode: RnnMode = "lstm",
    input_mode: InputMode = "linear_input",
    direction: Direction = "unidirectional",
    num_proj: int = 0,
    time_major: bool = True,
    name: str | None = None,
) -> CudnnRNNInt8Result:
    """Runs a recurrent network over a batch of sequences, with weights of one byte each.

    It is CudnnRNNV3 for inference, with matrices in int8: a weight is its integer times the scale
    of its row. Inputs, states, gates and biases are float32. `tf_cudnn_rnn.weights.quantize` makes
    `weights`, `scales` and `biases` of the weights of a network.

    In products each row of x or h is rounded, too: to integers of 16 bits, or of fewer if it has
    more than 512 elements. Their sums are exact. So nearly all that is lost is what int8 loses of
    the weights. A row of the batch with a value that is not finite becomes NaN.

    There is no gradient: asking for one is a LookupError. Pass its outputs on through
    tf.stop_gradient where only what follows learns.

    Args:
      input: float32 [T, B, I], T > 0; as of CudnnRNNV3, and so are the next two.
      input_h: float32 [L*D, B, P].
      input_c: float32 [L*D, B, H]; not read in modes other than lstm, which take any shape.
      weights: int8 [N], all matrices in the order that they have in `params`, without the biases.
      scales: float32 [M], one for each row of each matrix, in the same order: by k, G*H for W (none
        in layer 0 with skip input), G*H for R, and P for the projection if there is one. Finite,
        and not negative.
      biases: float32 [2*G*H*L*D], those at the end of `params`.
      sequence_lengths: int32 [B], each in [0, T].
      rnn_mode, input_mode, direction, num_proj, time_major: as in CudnnRNNV3.
      name: a name for the operation.

    Returns:
      A named tuple: output, output_h and output_c, as of CudnnRNNV3.

    Raises:
      TypeError: `weights` are not int8, `sequence_lengths` not int32, another tensor is not
        float32, or `num_proj` is not an integer.
      ValueError: a length does not fit in an int32.
    """
    try:
        return _ops.tf_cudnn_rnn_cudnn_rnn_int8(
            input=input,
            input_h=input_h,
            input_c=input_c,
            weights=_int8_weights(weights),
            scales=scales,
            biases=biases,
            sequence_lengths=_lengths(sequence_lengths),
            rnn_mode=rnn_mode,
            input_mode=input_mode,
            direction=direction,
            num_proj=integer("num_proj", num_proj),
            time_major=time_major,
            name=name,
        )
    except (TypeError, ValueError, tf.errors.InvalidArgumentError):
        _check_float32(input=input, input_h=input_h, input_c=input_c, scales=scales, biases=biases)
        raise


def CudnnRNNBackpropV3(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    params: TensorLike,
    sequence_lengths: TensorLike,
    output: TensorLike,
    output_h: TensorLike,
    output_c: TensorLike,
    output_backprop: TensorLike,
    output_h_backprop: TensorLike,
    output_c_backprop: TensorLike,
    reserve_space: TensorLike,
    host_reserved: TensorLike,
    rnn_mode: RnnMode = "lstm",
    input_mode: InputMode = "linear_input",
    direction: Direction = "unidirectional",
    dropout: float = 0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    time_major: bool = True,
    name: str | None = None,
) -> CudnnRNNBackpropV3Result:
    """The gradient of CudnnRNNV3; tf.GradientTape and tf.gradients call it.

    Args:
      input, input_h, input_c, params, sequence_lengths: what CudnnRNNV3 was given.
      output, output_h, output_c: what it returned.
      output_backprop: T [T, B, D*P], the gradient of `output`; not read at or past a
        row's length.
      output_h_backprop: T [L*D, B, P], the gradient of `output_h`.
      output_c_backprop: T [L*D, B, H], the gradient of `output_c`; not read in modes
        other than lstm.
      reserve_space, host_reserved: what CudnnRNNV3 returned, with is_training=True
        and the same sizes and options. It also carries the dropout key.
      rnn_mode, input_mode, direction, dropout, num_proj, time_major: as CudnnRNNV3
        was given.
      seed, seed2: unused, here for likeness with tf.raw_ops.
      name: a name for the operation.

    Returns:
      A named tuple: input_backprop, input_h_backprop, input_c_backprop and
      params_backprop, each with the shape of the tensor that it is the gradient of.
      `input_backprop` is zero at or past a row's length, `input_c_backprop` is zero
      for modes other than lstm. `params_backprop` sums over batch and time.
    """
    del seed, seed2
    return _ops.tf_cudnn_rnn_cudnn_rnn_backprop_v3(
        input=input,
        input_h=input_h,
        input_c=input_c,
        params=params,
        sequence_lengths=_lengths(sequence_lengths),
        output=output,
        output_h=output_h,
        output_c=output_c,
        output_backprop=output_backprop,
        output_h_backprop=output_h_backprop,
        output_c_backprop=output_c_backprop,
        reserve_space=reserve_space,
        host_reserved=host_reserved,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=_dropout(dropout),
        num_proj=integer("num_proj", num_proj),
        time_major=time_major,
        name=name,
    )


def CudnnRNNParamsSize(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    T: DType,
    S: DType,
    rnn_mode: RnnMode = "lstm",
    input_mode: InputMode = "linear_input",
    direction: Direction = "unidirectional",
    dropout: float = 0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    name: str | None = None,
) -> tf.Tensor:
    """Returns N, the number of elements of `params`, as a tensor.

    `tf_cudnn_rnn.params_size` returns it as a Python int.

    Args:
      num_layers: int32 scalar, L.
      num_units: int32 scalar, H.
      input_size: int32 scalar, I.
      T: the type of `params`; the size, in elements, is the same for all.
      S: the type of the result, int32 or int64.
      rnn_mode, input_mode, direction, num_proj: as in CudnnRNNV3.
      dropout: checked; the size does not depend on it.
      seed, seed2: unused, here for likeness with tf.raw_ops.
      name: a name for the operation.

    Returns:
      S [1]. A size that S cannot hold is an InvalidArgumentError.
    """
    del seed, seed2
    return _ops.tf_cudnn_rnn_cudnn_rnn_params_size(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        T=T,
        S=S,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=_dropout(dropout),
        num_proj=integer("num_proj", num_proj),
        name=name,
    )


def CudnnRNNParamsToCanonicalV2(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    params: TensorLike,
    num_params_weights: int,
    num_params_biases: int,
    rnn_mode: RnnMode = "lstm",
    input_mode: InputMode = "linear_input",
    direction: Direction = "unidirectional",
    dropout: float = 0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    name: str | None = None,
) -> CudnnRNNParamsToCanonicalV2Result:
    """Takes `params` apart: copies the matrices and bias vectors out of it.

    `tf_cudnn_rnn.params_to_canonical` does the same and tells their names. By k, the
    matrices are: W [H, in] of each gate, R [H, P] of each gate, and the projection
    [P, H] if there is one; the biases bW [H] of each gate and bR [H] of each gate.
    `in` is I in layer 0 (0 with skip input) and D*P above it. Gates are in the order
    input, forget, cell, output (lstm) or reset, update, new (gru).

    Args:
      num_layers: int32 scalar, L.
      num_units: int32 scalar, H.
      input_size: int32 scalar, I.
      params: T [N].
      num_params_weights: the number of matrices, L*D*2G, and L*D more with a
        projection; G = 4 (lstm), 3 (gru), 1.
      num_params_biases: the number of biases, L*D*2G.
      rnn_mode, input_mode, direction, num_proj: as in CudnnRNNV3.
      dropout: checked; nothing depends on it.
      seed, seed2: unused, here for likeness with tf.raw_ops.
      name: a name for the operation.

    Returns:
      A named tuple of two lists, weights and biases.
    """
    del seed, seed2
    return _ops.tf_cudnn_rnn_cudnn_rnn_params_to_canonical_v2(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        params=params,
        num_params_weights=integer("num_params_weights", num_params_weights),
        num_params_biases=integer("num_params_biases", num_params_biases),
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=_dropout(dropout),
        num_proj=integer("num_proj", num_proj),
        name=name,
    )


def CudnnRNNCanonicalToParamsV2(
    *,
    num_layers: TensorLike,
    num_units: TensorLike,
    input_size: TensorLike,
    weights: Sequence[TensorLike],
    biases: Sequence[TensorLike],
    rnn_mode: RnnMode = "lstm",
    input_mode: InputMode = "linear_input",
    direction: Direction = "unidirectional",
    dropout: float = 0,
    seed: int = 0,
    seed2: int = 0,
    num_proj: int = 0,
    name: str | None = None,
) -> tf.Tensor:
    """Makes `params` of matrices and bias vectors: the inverse of CudnnRNNParamsToCanonicalV2.

    Args:
      num_layers: int32 scalar, L.
      num_units: int32 scalar, H.
      input_size: int32 scalar, I.
      weights: the matrices, in the order that CudnnRNNParamsToCanonicalV2 describes.
        Of each only the number of elements counts, so they may come flattened.
      biases: the bias vectors.
      rnn_mode, input_mode, direction, num_proj: as in CudnnRNNV3.
      dropout: checked; nothing depends on it.
      seed, seed2: unused, here for likeness with tf.raw_ops.
      name: a name for the operation.

    Returns:
      T [N].
    """
    del seed, seed2
    return _ops.tf_cudnn_rnn_cudnn_rnn_canonical_to_params_v2(
        num_layers=num_layers,
        num_units=num_units,
        input_size=input_size,
        weights=weights,
        biases=biases,
        rnn_mode=rnn_mode,
        input_mode=input_mode,
        direction=direction,
        dropout=_dropout(dropout),
        num_proj=integer("num_proj", num_proj),
        name=name,
    )


def KerasRNN(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    sequence_lengths: TensorLike,
    biases: Sequence[TensorLike] = (),
    rnn_mode: RnnMode = "lstm",
    is_training: bool = True,
    time_major: bool = True,
    masks: Sequence[TensorLike] = (),
    go_backwards: bool = False,
    zero_output_for_mask: bool = True,
    backward_weights: Sequence[TensorLike] = (),
    name: str | None = None,
) -> KerasRNNResult:
    """Runs one recurrent layer, with the weights of a Keras layer or, in both directions, of two.

    It computes what CudnnRNNV3 computes with the `params` that KerasToParams returns, without
    making them, and knows masks and directions as layers of Keras do. The drop-in Keras layers
    call it.

    Args:
      input, input_h, input_c, sequence_lengths, is_training, time_major: as in CudnnRNNV3;
        the states are those of one layer, T [D, B, H].
      kernel, recurrent_kernel, biases, rnn_mode: as in KerasToParams.
      masks: none or one, bool [T, B], or [B, T] unless `time_major`: of the steps within
        `sequence_lengths` those are valid where it is true.
      go_backwards: whether steps are taken from the last to the first. `output` then begins with
        the last step of `input`.
      zero_output_for_mask: whether `output` is zero at steps that are not valid. Otherwise it is
        there what it is at the step before, and zero before the first valid one.
      backward_weights: none, and D is 1; or those of the backward direction, and D is 2: its
        kernel, its recurrent kernel and, if there are `biases`, its bias. Then `go_backwards` must
        be False and `zero_output_for_mask` True.
      name: a name for the operation.

    Returns:
      A named tuple: output, output_h, output_c and reserve_space, as of CudnnRNNV3.
    """
    return _ops.tf_cudnn_rnn_keras_rnn(
        input=input,
        input_h=input_h,
        input_c=input_c,
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        biases=biases,
        sequence_lengths=_lengths(sequence_lengths),
        rnn_mode=rnn_mode,
        is_training=is_training,
        time_major=time_major,
        masks=masks,
        go_backwards=go_backwards,
        zero_output_for_mask=zero_output_for_mask,
        backward_weights=backward_weights,
        name=name,
    )


def KerasRNNBackprop(
    *,
    input: TensorLike,
    input_h: TensorLike,
    input_c: TensorLike,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    sequence_lengths: TensorLike,
    output: TensorLike,
    output_h: TensorLike,
    output_c: TensorLike,
    output_backprop: TensorLike,
    output_h_backprop: TensorLike,
    output_c_backprop: TensorLike,
    reserve_space: TensorLike,
    biases: Sequence[TensorLike] = (),
    rnn_mode: RnnMode = "lstm",
    time_major: bool = True,
    masks: Sequence[TensorLike] = (),
    go_backwards: bool = False,
    zero_output_for_mask: bool = True,
    backward_weights: Sequence[TensorLike] = (),
    name: str | None = None,
) -> KerasRNNBackpropResult:
    """The gradient of KerasRNN; tf.GradientTape and tf.gradients call it.

    Args:
      input, input_h, input_c, kernel, recurrent_kernel, biases, sequence_lengths: what KerasRNN
        was given.
      output, output_h, output_c, reserve_space: what it returned, with is_training=True.
      output_backprop, output_h_backprop, output_c_backprop: the gradients of its outputs.
      rnn_mode, time_major, masks, go_backwards, zero_output_for_mask, backward_weights: as KerasRNN
        was given. Another value is an error, which `reserve_space` reveals; only a wrong
        `zero_output_for_mask` goes unnoticed.
      name: a name for the operation.

    Returns:
      A named tuple: input_backprop, input_h_backprop, input_c_backprop, kernel_backprop,
      recurrent_kernel_backprop, and the lists biases_backprop and backward_weights_backprop, as
      long as `biases` and `backward_weights`; each with the shape of the tensor that it is the
      gradient of.
    """
    return _ops.tf_cudnn_rnn_keras_rnn_backprop(
        input=input,
        input_h=input_h,
        input_c=input_c,
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        biases=biases,
        sequence_lengths=_lengths(sequence_lengths),
        output=output,
        output_h=output_h,
        output_c=output_c,
        output_backprop=output_backprop,
        output_h_backprop=output_h_backprop,
        output_c_backprop=output_c_backprop,
        reserve_space=reserve_space,
        rnn_mode=rnn_mode,
        time_major=time_major,
        masks=masks,
        go_backwards=go_backwards,
        zero_output_for_mask=zero_output_for_mask,
        backward_weights=backward_weights,
        name=name,
    )


def KerasToParams(
    *,
    kernel: TensorLike,
    recurrent_kernel: TensorLike,
    biases: Sequence[TensorLike] = (),
    rnn_mode: RnnMode = "lstm",
    name: str | None = None,
) -> tf.Tensor:
    """Returns `params` of one layer in one direction, from the weights of a Keras layer.

    Args:
      kernel: T [I, G*H], the gates side by side in Keras' order: input, forget, cell, output
        (lstm) or update, reset, new (gru). G is 4, 3 or 1.
      recurrent_kernel: T [H, G*H].
      biases: none or one tensor of type T: [G*H], or [2, 3*H] of a gru (with reset_after=True).
        A single bias becomes the input bias, and the recurrent one is zero.
      rnn_mode: as in CudnnRNNV3.
      name: a name for the operation.

    Returns:
      T [N], for CudnnRNNV3 with linear_input.
    """
    return _ops.tf_cudnn_rnn_keras_to_params(
        kernel=kernel,
        recurrent_kernel=recurrent_kernel,
        biases=biases,
        rnn_mode=rnn_mode,
        name=name,
    )


def KerasToParamsBackprop(
    *,
    params_backprop: TensorLike,
    num_units: TensorLike,
    num_biases: int = 1,
    rnn_mode: RnnMode = "lstm",
    name: str | None = None,
) -> KerasToParamsBackpropResult:
    """The gradient of KerasToParams.

    Args:
      params_backprop: T [N], the gradient of `params`.
      num_units: int32 scalar, H.
      num_biases: how many biases KerasToParams was given, 0 or 1.
      rnn_mode: as in KerasToParams.
      name: a name for the operation.

    Returns:
      A named tuple: kernel_backprop [I, G*H], recurrent_kernel_backprop [H, G*H] and
      biases_backprop, a list of `num_biases` tensors [G*H], or [2, 3*H] of a gru.
    """
    return _ops.tf_cudnn_rnn_keras_to_params_backprop(
        params_backprop=params_backprop,
        num_units=num_units,
        num_biases=integer("num_biases", num_biases),
        rnn_mode=rnn_mode,
        name=name,
    )
