"""benchmarks/labels.py: sides and networks have one name in texts and charts."""

import pytest

from benchmarks import cases, experiments, labels, records


@pytest.mark.parametrize(
    ("side", "label", "alone"),
    [
        ("op", "op", "tf_cudnn_rnn's op"),
        ("stream_from_c", "stream, from C", "tf_cudnn_rnn's stream, from C"),
        ("keras", "Keras", "Keras"),
        ("op_4", "op_4", "op_4"),
        ("onnx, 99.9 %", "ONNX Runtime, 99.9 %", "ONNX Runtime, 99.9 %"),
    ],
)
def test_sides(side, label, alone):
    assert (labels.of_side(side), labels.with_owner(side)) == (label, alone)


def test_no_two_sides_of_a_group_have_one_label():
    rows, _ = experiments.plan(["all"], 8)
    for row in rows:
        names = [side.name for side in row.sides]
        names += [records.tail_of(name) for name in row.tails]
        assert len({labels.of_side(name) for name in names}) == len(names)


def test_peers_are_called_as_their_sides():
    assert labels.of_driver("torch") == labels.of_side("torch") == "PyTorch"
    assert labels.of_driver("onnxruntime") == labels.of_side("onnx") == "ONNX Runtime"


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("lstm_512_b16", "LSTM 512, batch 16, 25 steps"),
        ("gru_512_b32_t1", "GRU 512, batch 32, 1 step"),
        ("blstm_512x3_b16", "3 bidirectional LSTMs 512, batch 16, 100 steps, input 40"),
        ("tanh_512_b64", "tanh RNN 512, batch 64, 25 steps"),
        ("lstm_650x2_b20", "2 LSTMs 650, batch 20, 35 steps, dropout 0.5"),
    ],
)
def test_network_labels(name, label):
    case = cases.read_cases()[name]
    assert labels.of_network(case) == label
    ragged = labels.of_network(case.ragged()) if case.seq_length > 1 else ""
    assert not ragged or ragged == f"{label}, 60% of it without padding"
