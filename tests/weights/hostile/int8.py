"""Files of weights of int8."""

import numpy as np

from tests.weights.hostile.attack import Attack, case, of_file
from tf_cudnn_rnn import weights

LAYOUT = weights.Layout("lstm", 2, 4, 3, "bidirectional", num_proj=2)


def quantized() -> weights.Int8Weights:
    params = np.random.default_rng(6).normal(size=LAYOUT.size)
    return weights.quantize(params, LAYOUT)


def int8(folder, *names: str, arrays=None, **metadata) -> Attack:
    """A file whose metadata or arrays are changed, and what its message says besides the file.

    Args:
      arrays: in place of those of this name; None is none.
      metadata: likewise.
    """
    path = folder / "model.safetensors"
    every = {name: getattr(quantized(), name) for name in ("weights", "scales", "biases")}
    every |= arrays or {}
    texts = {
        "format": "tf_cudnn_rnn/int8",
        "version": "1",
        "rnn_mode": "lstm",
        "num_layers": "2",
        "num_units": "4",
        "input_size": "3",
        "direction": "bidirectional",
        "input_mode": "linear_input",
        "num_proj": "2",
    } | metadata
    weights.write_safetensors(
        path,
        {name: array for name, array in every.items() if array is not None},
        {name: text for name, text in texts.items() if text is not None},
    )
    return of_file(weights.load, path, names=names)


def with_scale(folder, value: float) -> Attack:
    scales = quantized().scales.copy()
    scales[7] = value
    says = f"`scales` must be finite, and not negative; the one at 7 is {scales[7]!s}."
    return int8(folder, says, arrays={"scales": scales})


@case
def int8_of_a_scale_that_is_no_number(folder):
    return with_scale(folder, np.nan)


@case
def int8_of_an_infinite_scale(folder):
    return with_scale(folder, np.inf)


@case
def int8_of_a_negative_scale(folder):
    return with_scale(folder, -0.1)


@case
def int8_of_a_scale_too_few(folder):
    return int8(folder, "scales in", "it has [", arrays={"scales": quantized().scales[1:]})


@case
def int8_of_a_weight_too_many(folder):
    values = np.append(quantized().weights, np.int8(1))
    return int8(folder, "weights in", "it has [", arrays={"weights": values})


@case
def int8_of_a_matrix_of_biases(folder):
    return int8(folder, "biases in", arrays={"biases": quantized().biases.reshape(2, -1)})


@case
def int8_without_scales(folder):
    return int8(folder, "it holds biases of float32, weights of int8.", arrays={"scales": None})


@case
def int8_without_anything(folder):
    arrays = dict.fromkeys(("weights", "scales", "biases"))
    return int8(folder, "it holds nothing.", arrays=arrays)


@case
def int8_of_more_than_it_needs(folder):
    return int8(folder, "params of float32", arrays={"params": np.zeros(1, np.float32)})


@case
def int8_of_bytes_without_sign(folder):
    says = "must hold weights of int8, scales of float32, biases of float32 and nothing else"
    return int8(folder, says, arrays={"weights": quantized().weights.view(np.uint8)})


@case
def int8_of_scales_of_float64(folder):
    return int8(folder, "scales of float64", arrays={"scales": quantized().scales.astype(float)})


@case
def int8_of_the_vector_of_the_other_file(folder):
    arrays = dict.fromkeys(("weights", "scales", "biases"))
    arrays["params"] = np.zeros(LAYOUT.size, np.float32)
    return int8(folder, "it holds params of float32.", arrays=arrays)


@case
def int8_that_says_to_be_the_other_file(folder):
    return int8(folder, "must hold params alone", format="tf_cudnn_rnn/params")


@case
def int8_of_a_later_version(folder):
    return int8(folder, "version 1; it has tf_cudnn_rnn/int8, version 2", version="2")


@case
def int8_of_another_network(folder):
    return int8(folder, "weights in", "num_units=5", num_units="5")


@case
def int8_of_a_billion_layers(folder):
    return int8(folder, "must have at most 2000 layers", num_layers=str(10**9))


@case
def int8_of_a_number_of_many_digits(folder):
    return int8(folder, "a number as num_units in its metadata", num_units="9" * 4000)


@case
def int8_without_its_mode(folder):
    return int8(folder, "as rnn_mode in its metadata; it has nothing", rnn_mode=None)


@case
def int8_with_a_text_for_a_size(folder):
    return int8(folder, "a number as input_size in its metadata; it has 3.0", input_size="3.0")


@case
def int8_that_projects_to_more(folder):
    return int8(folder, "`num_proj` must be at most `num_units`", num_proj="9")


@case
def int8_of_a_scale_for_a_kernel_that_is_skipped(folder):
    """The input kernels of layer 0 have no scales then."""
    return int8(folder, "weights in", input_size="4", input_mode="skip_input")
