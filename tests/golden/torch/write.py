"""Writes, with PyTorch, what the tests of from_torch and to_torch read: write.py FOLDER."""

import pathlib
import sys

import numpy as np
import torch
from safetensors.torch import save_file

SEED = 2101
T, B, I = 5, 2, 3

CASES = {
    "lstm": torch.nn.LSTM(I, 4, 2, bidirectional=True),
    "lstm_proj": torch.nn.LSTM(I, 5, 2, bidirectional=True, proj_size=2),
    "lstm_no_bias": torch.nn.LSTM(I, 4, 2, bias=False),
    "gru": torch.nn.GRU(I, 4, 2, bidirectional=True),
    "rnn_tanh": torch.nn.RNN(I, 4, 2, nonlinearity="tanh"),
    "rnn_relu": torch.nn.RNN(I, 4, 2, nonlinearity="relu", bidirectional=True),
}


class Model(torch.nn.Module):
    """An RNN that is not alone in its file."""

    def __init__(self, rnn):
        super().__init__()
        self.encoder = torch.nn.ModuleDict({"rnn": rnn})
        self.head = torch.nn.Linear(4, 2)


def as_arrays(state):
    return {name: tensor.numpy() for name, tensor in state.items()}


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(SEED)
    torch.use_deterministic_algorithms(True)
    for name, module in CASES.items():
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.5)
        x = torch.randn(T, B, I)
        y, states = module(x)
        h_n, c_n = states if name.startswith("lstm") else (states, torch.zeros(0))
        calls = {"x": x, "out_y": y, "out_h_n": h_n, "out_c_n": c_n}

        # One step of Adam leaves its moments: (1 - beta) times the gradient, and its square.
        state = {key: value.clone() for key, value in module.state_dict().items()}
        optimizer = torch.optim.Adam(module.parameters(), lr=0.01, betas=(0.5, 0.75))
        calls["dy"] = torch.randn_like(y)
        (y * calls["dy"]).sum().backward()
        optimizer.step()
        for key, parameter in module.named_parameters():
            calls["out_exp_avg/" + key] = optimizer.state[parameter]["exp_avg"]
            calls["out_exp_avg_sq/" + key] = optimizer.state[parameter]["exp_avg_sq"]

        save_file(state, folder / f"{name}.safetensors", metadata={"format": "pt"})
        calls = {key: value.detach().numpy() for key, value in calls.items()}
        np.savez_compressed(folder / f"{name}_calls.npz", **calls)

    model = Model(CASES["gru"])
    save_file(model.state_dict(), folder / "model.safetensors")
    np.savez_compressed(folder / "model.npz", **as_arrays(model.state_dict()))
    half = {name: tensor.bfloat16() for name, tensor in CASES["gru"].state_dict().items()}
    save_file(half, folder / "gru_bfloat16.safetensors")
    # All types that the library here can read, in no order.
    types = (
        "float64 bool int8 uint8 bfloat16 int64 float16 uint16 int16 int32 uint64 float32 uint32"
    )
    mixed = {name: torch.arange(3).to(getattr(torch, name)) for name in types.split()}
    mixed["another_float32"] = torch.ones(2, 0, 3)
    save_file(mixed, folder / "mixed.safetensors", metadata={"a": "ö"})


if __name__ == "__main__":
    main()
