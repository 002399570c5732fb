"""Brings a Keras 2 model of CuDNNLSTM or CuDNNGRU layers to Keras 3.

  python examples/cudnn_lstm_h5.py
  python examples/cudnn_lstm_h5.py --h5=tests/golden/tf_keras/gru.h5

CuDNNLSTM and CuDNNGRU ran on GPUs only, and Keras 3 has dropped them. Their weights are
those of LSTM and GRU(reset_after=True), in another order and with two biases each. So
build the same model with the new layers, by the old names, and fill it from the file.

The files here were written by Keras 2 (tests/golden/tf_keras/write.py), and so was what
the program compares with: the predictions that Keras 2 itself made from the same file.
It fails if they differ by more than rounding explains, or if stock Keras, which loads the
model from a file of Keras 3, predicts something else.
"""

import argparse
import pathlib
import re
import sys
import tempfile

import keras
import numpy as np

import tf_cudnn_rnn.keras
from tf_cudnn_rnn import weights

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "tf_keras"
CLOSE = 1e-6  # largest difference; predictions are in -1 .. 1

NEW_LAYERS = {
    "CuDNNLSTM": ("lstm", tf_cudnn_rnn.keras.LSTM),
    "CuDNNGRU": ("gru", tf_cudnn_rnn.keras.GRU),
}


def rebuild(stored: dict[str, weights.KerasLayer]) -> keras.Model:
    """A model with the layers and weights of the file.

    The files here hold nothing but recurrent layers, all of which return sequences. In a
    model of your own write the layers down as they were. Those that are not recurrent take
    their arrays as they are: `model.get_layer(name).set_weights(stored[name].arrays)`.
    """
    model = keras.Sequential()
    for name, old in stored.items():
        inner, bidirectional = re.fullmatch(
            r"(?:Bidirectional\()?(\w+)(\))?", old.class_name
        ).groups()
        rnn_mode, new_class = NEW_LAYERS[inner]
        canonical = weights.from_keras_cudnn(
            old, rnn_mode, direction="bidirectional" if bidirectional else "unidirectional"
        )
        layout = canonical.layout
        (arrays,), notes = weights.to_keras(canonical)
        print(f"  {name}: {old.class_name}, {layout.num_units} units")
        for note in notes:
            print(f"    {note}")

        if not model.layers:
            model.add(keras.Input([None, layout.input_size]))
        layer = new_class(layout.num_units, return_sequences=True, name=name)
        if bidirectional:
            layer = keras.layers.Bidirectional(layer, name=name)
        model.add(layer)
        layer.set_weights(arrays)
    return model


def stock_copy(model: keras.Model) -> keras.Model:
    """Saves the model as one of stock layers, and loads it as anybody would."""
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/model.keras"
        tf_cudnn_rnn.keras.to_keras(model).save(path)
        return keras.saving.load_model(path)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Brings CuDNNLSTM and CuDNNGRU to Keras 3.")
    parser.add_argument(
        "--h5",
        type=pathlib.Path,
        default=GOLDEN / "lstm_bidirectional.h5",
        help="the file to read (%(default)s)",
    )
    parser.add_argument(
        "--expected",
        type=pathlib.Path,
        help="npz with inputs `x` and predictions `out_y` (default: beside the .h5 file)",
    )
    options = parser.parse_args(argv)
    options.expected = options.expected or options.h5.with_suffix(".npz")
    for path in (options.h5, options.expected):
        if not path.is_file():
            parser.error(f"{path} is no file")
    return options


def main(argv: list[str] | None = None) -> int:
    options = parse(argv)
    print(f"{options.h5.name} holds:")
    model = rebuild(weights.read_keras_h5(options.h5))

    with np.load(options.expected) as expected:
        x, y = expected["x"], expected["out_y"]
    ours = model.predict(x, verbose=0)
    stock = stock_copy(model).predict(x, verbose=0)
    difference = float(np.abs(ours - y).max())
    stock_difference = float(np.abs(stock - y).max())
    print(
        f"result: difference={difference:.1e} stock_keras_difference={stock_difference:.1e} "
        f"allowed={CLOSE} predictions={y.size}"
    )
    return 0 if difference <= CLOSE and stock_difference <= CLOSE else 1


if __name__ == "__main__":
    sys.exit(main())
