"""Writes, with PyTorch's ONNX exporters, what the tests of ONNX read: write.py FOLDER.

The .npz files hold what the older exporter put into the nodes, and what ONNX Runtime makes of them.
The .onnx files are what the newer one writes of the same modules, with nothing computed ahead.
"""

import io
import pathlib
import sys
import warnings

import numpy as np
import onnx
import onnxruntime
import torch

SEED = 2102
T, B, I = 5, 2, 3

CASES = {
    "lstm": torch.nn.LSTM(I, 4, 2, bidirectional=True),
    "gru": torch.nn.GRU(I, 4, 2, bidirectional=True),
    "rnn_tanh": torch.nn.RNN(I, 4, 2, nonlinearity="tanh"),
    "rnn_relu": torch.nn.RNN(I, 4, 2, nonlinearity="relu", bidirectional=True),
}


def write_model(module: torch.nn.Module, path: pathlib.Path) -> None:
    """Exports a module, without what the exporter notes of the sources."""
    program = torch.onnx.export(
        module.eval(), (torch.zeros(T, B, I),), dynamo=True, optimize=False, verbose=False
    )
    model = program.model_proto
    for message in (model.graph, *model.graph.node, *model.graph.value_info):
        message.ClearField("metadata_props")
    model.ClearField("producer_version")  # which tells for which devices PyTorch was built
    onnx.checker.check_model(model)
    path.write_bytes(model.SerializeToString(deterministic=True))


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(SEED)
    warnings.simplefilter("ignore")
    for name, module in CASES.items():
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        x = torch.randn(T, B, I)
        file = io.BytesIO()
        torch.onnx.export(module, (x,), file, dynamo=False, opset_version=17, input_names=["x"])
        model = onnx.load_from_string(file.getvalue())
        onnx.checker.check_model(model)
        session = onnxruntime.InferenceSession(file.getvalue())
        y = session.run(None, {"x": x.numpy()})[0]

        # Nodes take constants from initialisers, or from nodes such as Concat of constants.
        nodes = [n for n in model.graph.node if n.op_type in ("LSTM", "GRU", "RNN")]
        wanted = [key for node in nodes for key in list(node.input)[1:4]]
        values = {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}
        missing = [key for key in wanted if key not in values]
        if missing:
            del model.graph.output[:]
            for key in missing:
                model.graph.output.append(onnx.ValueInfoProto(name=key))
            probe = onnxruntime.InferenceSession(model.SerializeToString())
            results = probe.run(missing, {"x": x.numpy()})
            values.update({key: results[i] for i, key in enumerate(missing)})

        arrays = {"x": x.numpy(), "out_y": y}
        for i, node in enumerate(nodes):
            arrays[f"node_{i}/op_type"] = np.array(node.op_type)
            for attribute in node.attribute:
                value = onnx.helper.get_attribute_value(attribute)
                arrays[f"node_{i}/attribute/{attribute.name}"] = np.array(value)
            for j, letter in enumerate("WRB"):
                arrays[f"node_{i}/{letter}"] = values[node.input[1 + j]]
        # What was exported, to compare with.
        for key, value in module.state_dict().items():
            arrays["torch/" + key] = value.numpy()
        np.savez_compressed(folder / f"{name}.npz", **arrays)
    for name in ("lstm", "gru"):
        write_model(CASES[name], folder / f"{name}.onnx")


if __name__ == "__main__":
    main()
