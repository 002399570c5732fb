"""Every Python block of every page runs: page by page, in order, as a reader would run it."""

import pathlib
import runpy
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn.keras
from tests.docs import pages
from tf_cudnn_rnn import weights

# Pages whose blocks have tests of their own.
ELSEWHERE = {
    "README.md": "tests/docs/readme_test.py",
    "docs/guide/faq.md": "tests/docs/faq_test.py",
    "docs/scaling.md": "tests/distribution/scaling_document_test.py",
    "docs/serving.md": "tests/python/saved_model_signatures_test.py",
}
# Blocks that cannot run here, by a line of theirs, and why.
SKIPPED = {
    "from safetensors.torch import save_file": "PyTorch is not installed",
    "tensors = {t.name: onnx.numpy_helper": "`model` is one of Keras on this page",
}
GOLDEN = pages.ROOT / "tests" / "golden"
PAGES = [
    page for page in pages.PAGES if page not in ELSEWHERE and any(pages.blocks(page, "python"))
]


def migration() -> dict:
    """The files that a reader of migration.md has."""
    exported_on_a_gpu()
    legacy_h5("made_on_a_gpu.h5")
    safetensors("encoder.rnn.")
    tf1_checkpoint("contrib_checkpoint")
    vector = np.zeros(tf_cudnn_rnn.params_size("lstm", 2, 64, 40), "float32")
    np.savez("mxnet.npz", parameters=vector)
    np.save("cntk.npy", vector.reshape(-1, 64))
    return {}


def exported_on_a_gpu() -> None:
    """A SavedModel of `CudnnRNNV3`, as the pages say that it can be had."""
    writer = runpy.run_path(str(pages.ROOT / "examples" / "gpu_saved_model_writer.py"))
    writer["main"](["exported_on_a_gpu"])


def legacy_h5(path: str) -> None:
    shutil.copy(GOLDEN / "tf_keras" / "lstm.h5", path)


def safetensors(prefix: str) -> None:
    layout = weights.Layout("lstm", 2, 64, 40, "bidirectional")
    arrays, _ = weights.to_torch(random_canonical(layout), prefix=prefix)
    weights.write_safetensors("model.safetensors", arrays)


def random_canonical(layout: weights.Layout) -> weights.Canonical:
    rng = np.random.default_rng(1)
    named = {r.name: rng.normal(size=r.shape).astype("float32") for r in layout.regions}
    return weights.Canonical(layout, named)


def tf1_checkpoint(path: str) -> None:
    arrays, _ = weights.to_tf1_cudnn(random_canonical(weights.Layout("lstm", 2, 8, 5)))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        for key, array in arrays.items():
            tf.compat.v1.get_variable(key, initializer=array)
        session.run(tf.compat.v1.global_variables_initializer())
        tf.compat.v1.train.Saver().save(session, path)


def keras_layers() -> dict:
    """The file that a reader of keras.md has."""
    legacy_h5("made_on_a_gpu.h5")
    return {}


def weights_in_and_out() -> dict:
    """The files that a reader of weights.md has, the Keras model and an optimiser's moments."""
    safetensors("encoder.rnn.")
    legacy_h5("model.h5")
    tf1_checkpoint("contrib_checkpoint")
    np.savez("from_somebody.npz", parameters=np.zeros(tf_cudnn_rnn.params_size("lstm", 2, 64, 40)))
    rnn = keras.layers.LSTM(64, return_sequences=True)
    model = keras.Sequential([keras.Input([None, 40])])
    for _ in range(2):
        model.add(keras.layers.Bidirectional(keras.layers.LSTM.from_config(rnn.get_config())))
    trained = keras.Sequential(
        [keras.Input([5, 3]), tf_cudnn_rnn.keras.CudnnLSTM(4, name="encoder")]
    )
    trained.compile("adam", "mse")
    trained.fit(np.zeros([2, 5, 3]), np.zeros([2, 4]), verbose=0)
    tf.train.Checkpoint(trained).write("trained")
    moments, _ = weights.to_torch(random_canonical(weights.Layout("lstm", 2, 64, 40)))
    return {
        "model": model,
        "exp_avg": moments,
        "exp_avg_sq": moments,
    }


def runtime_files() -> dict:
    """The files that a reader of runtime.md has."""
    safetensors("")
    arrays, _ = weights.to_torch(random_canonical(weights.Layout("rnn_tanh", 1, 8, 5)))
    weights.write_safetensors("simple.safetensors", arrays)
    layers = [
        keras.layers.GRU(4, return_sequences=True, name=name) for name in ("encoder", "decoder")
    ]
    keras.Sequential([keras.Input([None, 3]), *layers]).save("model.keras")
    legacy_h5("model.h5")
    return {}


# What readers of a page have before its first block: names and files.
BEFORE = {
    "docs/guide/keras.md": keras_layers,
    "docs/guide/weights.md": weights_in_and_out,
    "docs/migration.md": migration,
    "docs/runtime.md": runtime_files,
    "docs/start.md": lambda: exported_on_a_gpu() or {},
}


# What must be there after the last block of a page: names that nothing else looks at.
AFTER = {"docs/profiling.md": ["milliseconds", "phases"]}


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("default")
def test_code_of(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    namespace |= BEFORE.get(page, dict)()
    for line, code in pages.blocks(page, "python"):
        if not any(skipped in code for skipped in SKIPPED):
            pages.run(page, line, code, namespace)
    for name in AFTER.get(page, []):
        assert namespace[name], name


def test_what_is_skipped_is_there():
    blocks = [code for page in pages.PAGES for _, code in pages.blocks(page, "python")]
    for skipped in SKIPPED:
        assert sum(skipped in code for code in blocks) == 1, skipped


def test_pages_that_are_tested_elsewhere_are():
    for page, test in ELSEWHERE.items():
        assert pathlib.PurePath(page).name in (pages.ROOT / test).read_text(encoding="utf-8")
