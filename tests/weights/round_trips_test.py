"""There and back over random networks: every bit where the formats hold the same."""

import dataclasses

import ml_dtypes
import numpy as np
import pytest

from tests.reference import cases
from tests.weights import golden
from tf_cudnn_rnn import weights

COUNT = 40


class Format:
    """How to write and read one format, and what it can hold."""

    def __init__(self, write, read, modes=None, projects=False, merges=()):
        self.write = write  # Canonical to Exported
        self.read = read  # (arrays, layout, of) to Canonical
        self.modes = modes or ("lstm", "gru", "rnn_tanh", "rnn_relu")
        self.projects = projects
        self.merges = merges  # modes with a bias for two

    def holds(self, layout: weights.Layout) -> bool:
        return layout.rnn_mode in self.modes and (self.projects or not layout.has_projection)


def sizes(layout: weights.Layout) -> tuple:
    return layout.rnn_mode, layout.num_layers, layout.num_units, layout.input_size


ALL_BUT_GRU = ("lstm", "rnn_tanh", "rnn_relu")
FORMATS = {
    "torch": Format(
        weights.to_torch,
        lambda state, layout, of: weights.from_torch(state, layout.rnn_mode, of=of),
        projects=True,
    ),
    "onnx": Format(weights.to_onnx, lambda nodes, layout, of: weights.from_onnx(nodes, of=of)),
    "keras": Format(
        weights.to_keras,
        lambda layers, layout, of: weights.from_keras(
            layers, layout.rnn_mode, direction=layout.direction, of=of
        ),
        merges=ALL_BUT_GRU,
    ),
    "keras_cudnn": Format(
        weights.to_keras_cudnn,
        lambda layers, layout, of: weights.from_keras_cudnn(
            layers, layout.rnn_mode, direction=layout.direction, of=of
        ),
        modes=("lstm", "gru"),
    ),
    "mxnet": Format(
        weights.to_mxnet,
        lambda vector, layout, of: weights.from_mxnet(
            vector,
            *sizes(layout),
            direction=layout.direction,
            num_proj=layout.num_proj if layout.has_projection else 0,
            of=of,
        ),
        projects=True,
    ),
    "cntk": Format(
        weights.to_cntk,
        lambda matrix, layout, of: weights.from_cntk(
            matrix, *sizes(layout), direction=layout.direction, of=of
        ),
    ),
    "tf1_cudnn": Format(
        weights.to_tf1_cudnn,
        lambda variables, layout, of: weights.from_tf1_cudnn(variables, layout.rnn_mode, of=of),
        projects=True,
        merges=("lstm", "gru", "rnn_tanh", "rnn_relu"),
    ),
    "tf1_lstm_cell": Format(
        lambda canonical: weights.to_tf1_lstm_cell(
            canonical, cell_name="lstm_cell", forget_bias=0.7
        ),
        lambda variables, layout, of: weights.from_tf1_lstm_cell(variables, forget_bias=0.7, of=of),
        modes=("lstm",),
        projects=True,
        merges=("lstm",),
    ),
}


def random_canonicals(seed: int, of: str = "weights", dtype=np.float32):
    rng = np.random.default_rng(seed)
    for _ in range(COUNT):
        config = cases.random_config(rng, max_size=7)
        params = cases.random_params(rng, config).astype(dtype)
        matrices = params[: -2 * config.L * config.D * config.G * config.H]
        matrices[rng.random(matrices.size) < 0.1] = -0.0
        yield weights.from_cudnn(
            params,
            config.rnn_mode,
            config.L,
            config.H,
            config.I,
            direction=config.direction,
            input_mode=config.input_mode,
            num_proj=config.num_proj,
            of=of,
        )


def test_params_come_back():
    for canonical in random_canonicals(91):
        exported = weights.to_cudnn(canonical)
        assert exported.notes == ()
        layout = canonical.layout
        again = weights.from_cudnn(
            exported.arrays,
            *sizes(layout),
            direction=layout.direction,
            input_mode=layout.input_mode,
            num_proj=layout.num_proj,
        )
        golden.assert_same(again.named, canonical.named)
        golden.assert_bits(canonical.params, exported.arrays)
        opaque = weights.to_tf1_cudnn(canonical, scope="a/cudnn_lstm", opaque=True)
        assert list(opaque.arrays) == ["a/cudnn_lstm/opaque_kernel"] and not opaque.notes
        again = weights.from_tf1_cudnn(opaque.arrays, layout.rnn_mode, layout=layout)
        golden.assert_bits(again.params, canonical.params)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("name", FORMATS)
def test_what_a_format_holds_comes_back_to_the_bit(name, dtype):
    """From the format and back to it, whatever was lost on the way there the first time."""
    form = FORMATS[name]
    ran = 0
    for of in ("weights", "gradients"):
        for canonical in random_canonicals(92, of, dtype):
            layout = canonical.layout
            if not form.holds(layout):
                continue
            first = form.write(canonical)
            read = form.read(first.arrays, layout, of)
            assert read.dtype == dtype and read.of == of
            second = form.write(read)
            assert second.notes == (), f"{name} {layout}"
            golden.assert_same(second.arrays, first.arrays, f"{name} {layout}")
            ran += 1
    assert ran > 10


@pytest.mark.parametrize("name", FORMATS)
def test_nothing_is_lost_without_a_note(name):
    form = FORMATS[name]
    lost = kept = 0
    for canonical in random_canonicals(93):
        layout = canonical.layout
        if not form.holds(layout):
            continue
        exported = form.write(canonical)
        read = form.read(exported.arrays, layout, "weights")
        merges = layout.rnn_mode in form.merges
        label = f"{name} {layout}: {exported.notes}"
        assert len(exported.notes) == merges + layout.skips_input, label
        if exported.notes:
            lost += 1
        else:
            kept += 1
            golden.assert_bits(read.params, canonical.params, label)
        # In any case it computes the same.
        rng = np.random.default_rng(94)
        x = rng.normal(size=[3, 2, layout.input_size])
        ours, theirs = (golden.run(it, x) for it in (canonical, read))
        np.testing.assert_allclose(ours.y, theirs.y, rtol=0, atol=1e-6, err_msg=label)
    assert lost > 3 and (kept > 3 or "lstm" in form.merges)


@pytest.mark.parametrize("name", FORMATS)
def test_random_networks_differ_everywhere(name):
    """Each element has a value of its own, so that one out of place is seen."""
    form = FORMATS[name]
    compared = 0
    for canonical in random_canonicals(95):
        layout = canonical.layout
        if not form.holds(layout) or layout.skips_input:
            continue
        compared += 1
        index = np.arange(layout.size, dtype=np.float64) + 1
        numbered = weights.from_cudnn(
            index, *sizes(layout), direction=layout.direction, num_proj=layout.num_proj
        )
        exported = form.write(numbered)
        read = form.read(exported.arrays, layout, "weights")
        if layout.rnn_mode in form.merges:
            assert_equal_but_for_biases(read, numbered)
            continue
        golden.assert_bits(read.params, index)
        seen = np.concatenate([array.ravel() for array in arrays_of(exported.arrays)])
        np.testing.assert_array_equal(np.sort(seen), index)
    assert compared


def assert_equal_but_for_biases(read, expected) -> None:
    """Matrices are the same, and the sum of the two biases of each gate."""
    assert read.layout == expected.layout
    for name, array in expected.named.items():
        if not name.kind.endswith("_bias"):
            golden.assert_bits(read.named[name], array)
        elif name.kind == "input_bias":
            other = name._replace(kind="recurrent_bias")
            total = read.named[name] + read.named[other]
            # A forget bias is taken off and added again.
            np.testing.assert_allclose(total, array + expected.named[other], rtol=1e-12)


def arrays_of(exported):
    """All arrays in whatever a format returns."""
    if isinstance(exported, np.ndarray):
        yield exported
    elif isinstance(exported, dict):
        for value in exported.values():
            yield from arrays_of(value)
    elif isinstance(exported, list | tuple):
        for value in exported:
            if not isinstance(exported, weights.OnnxNode) or isinstance(value, np.ndarray):
                yield from arrays_of(value)


@pytest.mark.parametrize("name", FORMATS)
def test_results_are_copies(name):
    """Writing into what came out changes nothing that went in."""
    form = FORMATS[name]
    narrow = weights.Layout("lstm", 1, 3, 2, num_proj=1)  # a column is contiguous either way
    named = {region.name: np.ones(region.shape, np.float32) for region in narrow.regions}
    for canonical in [weights.Canonical(narrow, named), *random_canonicals(96)][:20]:
        if not form.holds(canonical.layout):
            continue
        before = canonical.params
        exported = form.write(canonical)
        copies = [array.copy() for array in arrays_of(exported.arrays)]
        read = form.read(exported.arrays, canonical.layout, "weights")
        for array in read.named.values():
            array[...] = 7
        golden.assert_same(list(arrays_of(exported.arrays)), copies)
        for array in arrays_of(exported.arrays):
            array[...] = 8
        golden.assert_bits(canonical.params, before)


def test_zeros_do_not_change_the_other_bias():
    """-0 and subnormal numbers come through a sum with zero."""
    tiny = np.finfo(np.float32).smallest_subnormal
    bias = np.array([-0.0, 0.0, tiny, -tiny, np.inf, np.nan, 1, 2], np.float32)
    layer = [np.ones([3, 8], np.float32), np.ones([2, 8], np.float32), bias]
    canonical = weights.from_keras(layer, "lstm")
    golden.assert_same(weights.to_keras(canonical).arrays, [layer])
    swap = {"input_bias": "recurrent_bias", "recurrent_bias": "input_bias"}
    mirrored = {
        name._replace(kind=swap.get(name.kind, name.kind)): array
        for name, array in canonical.named.items()
    }
    other = dataclasses.replace(canonical, named=mirrored)
    exported = weights.to_keras(other)
    for ours, theirs in zip(exported.arrays[0], layer, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    (note,) = exported.notes
    assert note.startswith("Biases were added up, input_bias + recurrent_bias: Keras' LSTM")


def test_bfloat16():
    bfloat16 = np.dtype(ml_dtypes.bfloat16)
    for canonical in list(random_canonicals(97, dtype=bfloat16))[:30]:
        for form in FORMATS.values():
            if form.holds(canonical.layout):
                first = form.write(canonical)
                read = form.read(first.arrays, canonical.layout, "weights")
                assert read.dtype == bfloat16
                golden.assert_same(form.write(read).arrays, first.arrays)
