"""PyTorch: nn.LSTM, nn.GRU and nn.RNN."""

import warnings

import numpy as np
import torch

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers.interface import Driver, Step, by_state, require
from tf_cudnn_rnn import weights

_CLASSES = {"lstm": "LSTM", "gru": "GRU", "rnn_tanh": "RNN", "rnn_relu": "RNN"}


def module_of(case: Case, dtype: torch.dtype, params: np.ndarray) -> torch.nn.Module:
    options = {"nonlinearity": case.rnn_mode[4:]} if case.rnn_mode.startswith("rnn_") else {}
    if case.output_size != case.num_units:
        options["proj_size"] = case.num_proj
    module = getattr(torch.nn, _CLASSES[case.rnn_mode])(
        case.input_size,
        case.num_units,
        num_layers=case.num_layers,
        bidirectional=case.num_dirs == 2,
        dropout=case.dropout,
        **options,
    )
    state = weights.to_torch(cases.canonical_of(case, params)).arrays
    module.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    return module.to(dtype)


def with_int8_weights(module: torch.nn.Module) -> torch.nn.Module:
    """The same, quantized "dynamically": rows of x and h are rounded to 8 bits as they come."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is to move to another package
        quantized = torch.ao.quantization.quantize_dynamic(
            torch.nn.Sequential(module.eval()), {type(module)}, dtype=torch.qint8
        )
    return quantized[0]


def _to_array(tensor: torch.Tensor) -> np.ndarray:
    """The tensor as float64 if it is, else as float32."""
    tensor = tensor.detach()
    return (tensor if tensor.dtype == torch.float64 else tensor.float()).numpy()


class PyTorch(Driver):
    """The module as users write it: padded tensors if full, a PackedSequence if ragged."""

    def __init__(self, threads: int):
        torch.set_num_threads(threads)

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        arrays = cases.arrays_of(case)
        torch_dtype = torch.float32 if dtype == "int8" else getattr(torch, dtype)
        module = module_of(case, torch_dtype, arrays.params)
        if dtype == "int8":
            require(pass_ == cases.INFERENCE, "weights in int8 infer")
            require(case.rnn_mode in ("lstm", "gru"), "PyTorch quantizes LSTM and GRU alone")
            require(case.output_size == case.num_units, "PyTorch quantizes no projection")
            module = with_int8_weights(module)
        x, h0, c0, dy = (
            torch.from_numpy(array).to(torch_dtype)
            for array in (arrays.x, arrays.h0, arrays.c0, arrays.dy)
        )
        states = (h0, c0) if case.rnn_mode == "lstm" else (h0,)
        lengths = torch.from_numpy(arrays.lengths.astype(np.int64))

        def forward():
            initial = states if len(states) == 2 else states[0]
            if not case.is_ragged:
                return module(x, initial)
            packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            packed_y, final = module(packed, initial)
            y, _ = torch.nn.utils.rnn.pad_packed_sequence(packed_y, total_length=case.seq_length)
            return y, final

        def infer():
            with torch.inference_mode():
                return forward()

        sources = [x, *states, *module.parameters()]

        def train():
            y, final = forward()
            return y, final, torch.autograd.grad(y, sources, dy)

        def as_arrays(results) -> dict:
            y, final, *gradients = results
            final = final if len(states) == 2 else [final]
            named = {"y": _to_array(y)} | by_state(case, map(_to_array, final), "h_n", "c_n")
            if gradients:
                dx, *found = [_to_array(tensor) for tensor in gradients[0]]
                names = [name for name, _ in module.named_parameters()]
                state = dict(zip(names, found[len(states) :], strict=True))
                named |= {"dx": dx} | by_state(case, found, "dh0", "dc0")
                named |= cases.weight_gradients(
                    weights.from_torch(state, case.rnn_mode, of="gradients")
                )
            return named

        if pass_ == cases.INFERENCE:
            module.eval()
            return Step(infer, as_arrays)
        for tensor in (x, *states):
            tensor.requires_grad_()
        return Step(train, as_arrays)
