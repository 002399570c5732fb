"""Brings an LSTM, GRU or RNN of PyTorch here, and back.

  python examples/from_pytorch.py
  python examples/from_pytorch.py --network=gru

In PyTorch save the state_dict without pickle, which runs code when it is read:

  safetensors.torch.save_file(model.state_dict(), "model.safetensors")
  numpy.savez("model.npz", **{k: v.numpy() for k, v in model.state_dict().items()})

`weights.from_torch` reads either, and with `prefix="encoder.rnn."` one network out of many.
PyTorch need not be installed here.

The files in tests/golden/torch were written by PyTorch (write.py beside them), which also
recorded an input with the output and the final states that it computed. The program fails
if those of the layer here, or of a stack of Keras' own layers, differ by more than rounding
explains, or if what goes back to PyTorch differs at all.
"""

import argparse
import pathlib
import sys

import keras
import numpy as np

from tf_cudnn_rnn import weights
from tf_cudnn_rnn.keras import CudnnRNN

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "torch"
RNN_MODES = {  # of the networks there
    "lstm": "lstm",
    "lstm_proj": "lstm",
    "gru": "gru",
    "rnn_tanh": "rnn_tanh",
    "rnn_relu": "rnn_relu",
}
CLOSE = 1e-6  # largest difference, as a part of the largest value


def layer_of(canonical: weights.Canonical) -> CudnnRNN:
    """One layer for the whole network; like PyTorch's, it takes and returns [T, B, .]."""
    layout = canonical.layout
    layer = CudnnRNN(
        layout.num_units,
        layout.num_layers,
        layout.rnn_mode,
        direction=layout.direction,
        num_proj=layout.num_proj,
        time_major=True,
        return_sequences=True,
        return_state=True,
    )
    layer.build([None, None, layout.input_size])
    layer.set_canonical_weights(canonical)
    return layer


def keras_stack_of(canonical: weights.Canonical) -> keras.Model:
    """Keras' own layers, one on the other; they take and return [B, T, .]."""
    layout = canonical.layout
    classes = {
        "lstm": keras.layers.LSTM,
        "gru": keras.layers.GRU,
        "rnn_tanh": keras.layers.SimpleRNN,
        "rnn_relu": keras.layers.SimpleRNN,
    }
    options = {"activation": "relu"} if layout.rnn_mode == "rnn_relu" else {}
    model = keras.Sequential([keras.Input([None, layout.input_size])])
    for _ in range(layout.num_layers):
        layer = classes[layout.rnn_mode](layout.num_units, return_sequences=True, **options)
        if layout.direction == "bidirectional":
            layer = keras.layers.Bidirectional(layer)
        model.add(layer)
    arrays, notes = weights.to_keras(canonical)
    for layer, values in zip(model.layers, arrays, strict=True):
        layer.set_weights(values)
    for note in notes:
        print(f"  Keras: {note}")
    return model


def differences(canonical: weights.Canonical, calls: dict[str, np.ndarray]) -> dict[str, float]:
    """How far each result is from what PyTorch recorded, relatively."""
    results = dict(zip(("y", "h_n", "c_n"), layer_of(canonical)(calls["x"]), strict=False))
    if not canonical.layout.num_proj:  # which Keras' layers lack
        stack = keras_stack_of(canonical)
        results["y, Keras"] = np.swapaxes(stack(np.swapaxes(calls["x"], 0, 1)), 0, 1)
    found = {}
    for name, ours in results.items():
        theirs = calls["out_" + name.removesuffix(", Keras")]
        found[name] = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    return found


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Brings an RNN of PyTorch here.")
    parser.add_argument(
        "--network", choices=RNN_MODES, default="lstm", help="the kind of network (%(default)s)"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    path = GOLDEN / f"{options.network}.safetensors"
    canonical = weights.from_torch(path, RNN_MODES[options.network])
    print(f"{path.name}: {canonical.layout}")

    with np.load(GOLDEN / f"{options.network}_calls.npz") as calls:
        found = differences(canonical, dict(calls))
    for name, difference in found.items():
        print(f"  {name}: {difference:.1e} from PyTorch")

    there = weights.read_safetensors(path)
    back, _ = weights.to_torch(canonical)
    exact = all(back[key].tobytes() == there[key].tobytes() for key in there)

    worst = max(found.values())
    print(f"result: difference={worst:.1e} allowed={CLOSE} back_to_pytorch_exact={exact}")
    return 0 if worst <= CLOSE and exact else 1


if __name__ == "__main__":
    sys.exit(main())
