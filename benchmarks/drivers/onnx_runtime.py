"""ONNX Runtime, which infers: a graph of ONNX's LSTM, GRU and RNN nodes."""

import logging
import pathlib
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks import cases
from benchmarks.cases import Case
from benchmarks.drivers.interface import Driver, Step, by_state, require
from tf_cudnn_rnn import weights

_OPSET = 17
_IR_VERSION = 8


def _states_of(case: Case) -> str:
    return "hc" if case.rnn_mode == "lstm" else "h"


def model_of(case: Case, params: np.ndarray) -> onnx.ModelProto:
    """A graph from x [T, B, I], h0, c0 and lengths [B] to y [T, B, D*H] and the final states."""
    T, B, H, D = case.seq_length, case.batch, case.num_units, case.num_dirs
    state_names = _states_of(case)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [T, B, case.input_size])]
    if case.is_ragged:
        inputs.append(helper.make_tensor_value_info("lengths", TensorProto.INT32, [B]))
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [T, B, D * H])]
    nodes = []
    initializers = [
        numpy_helper.from_array(np.array([1], np.int64), "directions"),
        numpy_helper.from_array(np.array([T, B, D * H], np.int64), "y_shape"),
    ]
    x = "x"
    layers = weights.to_onnx(cases.canonical_of(case, params)).arrays
    for l, layer in enumerate(layers):
        for name in ("W", "R", "B"):
            initializers.append(numpy_helper.from_array(getattr(layer, name), f"{name}_{l}"))
        for state in state_names:
            shape = [D, B, H]
            for side, kind in ((inputs, "0"), (outputs, "_n")):
                side.append(
                    helper.make_tensor_value_info(f"{state}{kind}_{l}", TensorProto.FLOAT, shape)
                )
        nodes.append(
            helper.make_node(
                layer.op_type,
                [
                    *(x, f"W_{l}", f"R_{l}", f"B_{l}", "lengths" if case.is_ragged else ""),
                    *(f"{state}0_{l}" for state in state_names),
                ],
                [f"Y_{l}", *(f"{state}_n_{l}" for state in state_names)],
                **layer.attributes,
            )
        )
        # Y is [T, D, B, H].
        x = "y" if l == len(layers) - 1 else f"x_{l + 1}"
        if D == 1:
            nodes.append(helper.make_node("Squeeze", [f"Y_{l}", "directions"], [x]))
        else:
            nodes.append(helper.make_node("Transpose", [f"Y_{l}"], [f"Y_{l}_T"], perm=[0, 2, 1, 3]))
            nodes.append(helper.make_node("Reshape", [f"Y_{l}_T", "y_shape"], [x]))
    graph = helper.make_graph(nodes, case.rnn_mode, inputs, outputs, initializers)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION
    )


def with_int8_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with DynamicQuantizeLSTM in place of LSTM."""
    from onnxruntime import quantization

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.onnx"
        logging.disable(logging.WARNING)  # it says what else one might do before
        try:
            quantization.quantize_dynamic(
                model, path, per_channel=True, weight_type=quantization.QuantType.QInt8
            )
        finally:
            logging.disable(logging.NOTSET)
        return onnx.load(path)


class OnnxRuntime(Driver):
    """A session whose inputs are bound, so that no call copies them."""

    def __init__(self, threads: int):
        self._options = onnxruntime.SessionOptions()
        self._options.intra_op_num_threads = threads
        self._options.inter_op_num_threads = 1

    def build(self, case: Case, pass_: str, dtype: str) -> Step:
        require(pass_ == cases.INFERENCE, "ONNX Runtime infers")
        require(dtype in ("float32", "int8"), f"ONNX Runtime's CPU kernels do not take {dtype}")
        require(dtype != "int8" or case.rnn_mode == "lstm", "ONNX Runtime quantizes LSTM alone")
        require(case.output_size == case.num_units, "ONNX's LSTM does not project")
        arrays = cases.arrays_of(case)
        model = model_of(case, arrays.params)
        if dtype == "int8":
            model = with_int8_weights(model)
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), self._options, providers=["CPUExecutionProvider"]
        )
        binding = session.io_binding()
        values = {"x": arrays.x, "lengths": arrays.lengths}
        D = case.num_dirs
        for l in range(case.num_layers):
            values[f"h0_{l}"] = arrays.h0[l * D : (l + 1) * D]
            values[f"c0_{l}"] = arrays.c0[l * D : (l + 1) * D]
        for argument in session.get_inputs():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(values[argument.name])
            binding.bind_ortvalue_input(argument.name, value)
        for argument in session.get_outputs():
            binding.bind_output(argument.name, "cpu")

        def infer():
            session.run_with_iobinding(binding)
            return binding

        def as_arrays(bound) -> dict:
            names = [output.name for output in session.get_outputs()]
            found = dict(zip(names, bound.copy_outputs_to_cpu(), strict=True))
            states = (
                np.concatenate([found[f"{state}_n_{l}"] for l in range(case.num_layers)])
                for state in _states_of(case)
            )
            return {"y": found["y"]} | by_state(case, states, "h_n", "c_n")

        return Step(infer, as_arrays)
