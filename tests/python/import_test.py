"""The Python package: what importing it does, its functions, its messages."""

import importlib.metadata
import inspect
import os
import pathlib
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tf_cudnn_rnn
from tests.helpers import running, subprocesses
from tests.reference import cases, judge
from tf_cudnn_rnn import ParamName, _elf, _library, raw_ops, weights

PACKAGE = pathlib.Path(tf_cudnn_rnn.__file__).parent
SOURCES = pathlib.Path(__file__).resolve().parents[2]
MINOR = ".".join(tf.__version__.split(".")[:2])
# Those with namesakes in tf.raw_ops.
OPS = (
    "CudnnRNNV3",
    "CudnnRNNBackpropV3",
    "CudnnRNNParamsSize",
    "CudnnRNNParamsToCanonicalV2",
    "CudnnRNNCanonicalToParamsV2",
)

# ------------------------------------------------------------------------------------
# Importing
# ------------------------------------------------------------------------------------

# Stands for an interpreter in which TensorFlow is not installed.
WITHOUT_TENSORFLOW = """
import importlib.abc, sys

class Blocker(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in ("tensorflow", "keras"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Blocker())
"""


def test_gradients_come_with_the_ops_after_the_runtime_alone():
    code = """
import sys
import tf_cudnn_rnn.runtime
assert "tensorflow" not in sys.modules
import keras
import numpy as np
import tf_cudnn_rnn.keras
model = keras.Sequential([tf_cudnn_rnn.keras.GRU(3), keras.layers.Dense(1)])
model.compile(loss="mse")
model.fit(np.ones([2, 5, 4], np.float32), np.ones([2, 1], np.float32), verbose=0)
print("trained")
"""
    assert subprocesses.run_code(code).endswith("trained\n")


def test_without_tensorflow_the_numpy_parts_work():
    """Those that the error names which the other parts raise."""
    code = """
import numpy as np
import tf_cudnn_rnn
assert tf_cudnn_rnn.runtime.instruction_set()
assert tf_cudnn_rnn.library_path().endswith(".so")

config = ("lstm", 2, 7, 3)
size = tf_cudnn_rnn.params_size(*config, direction="bidirectional", num_proj=3)
assert size == 1148
params = np.arange(size, dtype=np.float32)
options = {"direction": "bidirectional", "num_proj": 3}
named = tf_cudnn_rnn.weights.params_to_canonical(params, *config, **options)
back = tf_cudnn_rnn.weights.canonical_to_params(reversed(named), *config, **options)
assert (back == params).all()
assert isinstance(named[0][0], tf_cudnn_rnn.ParamName)
assert "tensorflow" not in sys.modules
"""
    subprocesses.run_code(WITHOUT_TENSORFLOW + code)


@pytest.mark.parametrize(
    "use",
    [
        "tf_cudnn_rnn.raw_ops",
        "tf_cudnn_rnn.params_to_canonical",
        "tf_cudnn_rnn.canonical_to_params",
        "from tf_cudnn_rnn import raw_ops",
        "import tf_cudnn_rnn.raw_ops",
    ],
)
def test_without_tensorflow_the_rest_says_so(use):
    code = f"""
import tf_cudnn_rnn
try:
    {use}
except ImportError as error:
    print(error)
"""
    message = subprocesses.run_code(WITHOUT_TENSORFLOW + code)
    assert re.match(
        r"tf_cudnn_rnn\S* needs TensorFlow, which is not installed: run `pip install "
        r"tensorflow(-cpu)?`\. Without it",
        message,
    )
    assert "only tf_cudnn_rnn.runtime, weights, params_size and library_path work." in message


def test_without_tensorflow_other_names_are_simply_unknown():
    code = "import tf_cudnn_rnn\nassert not hasattr(tf_cudnn_rnn, 'no_such_name')"
    subprocesses.run_code(WITHOUT_TENSORFLOW + code)


def _import_error_of_copy(directory, change) -> str:
    """The ImportError of a copy of the package, after `change(copy)`."""
    copy = directory / "tf_cudnn_rnn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    change(copy)
    return subprocesses.run_code(
        "try:\n    import tf_cudnn_rnn\nexcept ImportError as error:\n    print(error)",
        cwd=directory,
        prepared=True,
    )


def test_a_tensorflow_that_it_was_not_built_for(tmp_path):
    def change(copy):
        # None of them may be loaded to see whether it fits.
        for path in (copy / "_libraries").glob("*.so"):
            path.unlink()
        for minor in (10, 7, 9):
            (copy / "_libraries" / f"tensorflow_2_{minor}.so").write_text("not a library")

    message = _import_error_of_copy(tmp_path, change)
    assert message.startswith(
        "tf_cudnn_rnn was built for TensorFlow 2.7, 2.9 or 2.10, but TensorFlow "
        f"{tf.__version__} is installed"
    )
    assert re.search(r"\(`pip install 'tensorflow(-cpu)?==2.10.\*'`\), or a tf_cudnn_rnn", message)
    assert f"for TensorFlow {MINOR}. To build it" in message
    assert "`pip install --no-build-isolation --force-reinstall --no-deps .`" in message


# Of a TensorFlow, what the package asks before it loads anything.
UNFIT = {
    "does not fit": ("__version__ = '2.7.3'", "but TensorFlow 2.7.3 is installed"),
    "is broken": ("raise RuntimeError('It is broken.')", "It is broken."),
}


def _beside(tmp_path, tensorflow, code) -> str:
    """What code prints where `tensorflow` stands for TensorFlow."""
    (tmp_path / "tensorflow.py").write_text(tensorflow)
    path = os.pathsep.join([str(tmp_path), str(PACKAGE.parent)])
    return subprocesses.run_code(code, {"PYTHONPATH": path}, cwd=tmp_path)


@pytest.mark.parametrize("case", UNFIT)
@pytest.mark.parametrize(
    "statement",
    [
        "import tf_cudnn_rnn.weights",
        "from tf_cudnn_rnn.weights import params_size",
        "import importlib; importlib.import_module('tf_cudnn_rnn.weights')",
    ],
)
def test_weights_beside_an_unfit_tensorflow(tmp_path, case, statement):
    """They need NumPy alone; what needs TensorFlow says what it said before."""
    tensorflow, error = UNFIT[case]
    code = f"""
{statement}
import sys
print(sys.modules["tf_cudnn_rnn.weights"].params_size("lstm", 1, 4, 3))
try:
    sys.modules["tf_cudnn_rnn"].raw_ops
except Exception as error:
    print(error)
"""
    size, message = _beside(tmp_path, tensorflow, code).splitlines()
    assert size == "144" and error in message


@pytest.mark.parametrize("case", UNFIT)
@pytest.mark.parametrize(
    "statement", ["import tf_cudnn_rnn", "from tf_cudnn_rnn import weights, raw_ops"]
)
def test_the_package_is_refused_beside_an_unfit_tensorflow(tmp_path, case, statement):
    """Or SavedModels would find no kernels, and nothing would say why."""
    tensorflow, error = UNFIT[case]
    code = f"""
try:
    {statement}
except Exception as error:
    print(error)
else:
    print("imported")
"""
    message = _beside(tmp_path, tensorflow, code)
    assert error in message
    works = "`import tf_cudnn_rnn.runtime` and `import tf_cudnn_rnn.weights`, which need NumPy"
    assert "fit" not in case or works in message


def test_the_runtime_beside_an_unfit_tensorflow(tmp_path):
    tensorflow, _ = UNFIT["does not fit"]
    code = "import tf_cudnn_rnn.runtime as runtime; print(runtime.library_path())"
    assert _beside(tmp_path, tensorflow, code).endswith("librnn_runtime.so\n")


def _cut_off(path: pathlib.Path, size: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(size)


def test_a_library_that_is_cut_off(tmp_path):
    """A loader maps what headers say: a bus error ends the process without a word."""
    sizes = []

    def change(copy):
        path = copy / "_libraries" / pathlib.Path(tf_cudnn_rnn.library_path()).name
        sizes.append(path.stat().st_size // 2)
        _cut_off(path, sizes[0])

    message = _import_error_of_copy(tmp_path, change)
    assert re.search(
        rf"is not whole: it must have \d+ bytes, as its headers say; it has {sizes[0]}\. Install "
        "the wheel of tf_cudnn_rnn anew, with `pip install --force-reinstall",
        message,
    )


def test_how_long_a_library_has_to_be(tmp_path):
    path = tmp_path / "a.so"
    shutil.copyfile(tf_cudnn_rnn.library_path(), path)
    size = path.stat().st_size
    assert 0 < _elf.needed_bytes(path) <= size
    for left in (size - 1, size * 99 // 100, size // 2, 1000, 63, 6):
        _cut_off(path, left)
        assert left < _elf.needed_bytes(path) <= size
    for left in (5, 0):  # which may be anything
        _cut_off(path, left)
        assert _elf.needed_bytes(path) == 0


def test_libraries_for_other_versions_do_no_harm(tmp_path):
    def change(copy):
        for minor in ("2_7", "2_99", "nonsense"):
            (copy / "_libraries" / f"tensorflow_{minor}.so").write_text("not a library")

    assert _import_error_of_copy(tmp_path, change) == ""


@pytest.mark.parametrize("name", ["tf-nightly", "tf-nightly-cpu"])
def test_a_nightly_that_it_was_not_built_for(monkeypatch, name):
    """A release beside it would write over its files, and the other way round."""
    version = importlib.metadata.version

    def installed(wanted):
        if wanted.startswith("tensorflow"):
            raise importlib.metadata.PackageNotFoundError(wanted)
        return "2.99.0.dev20260101" if wanted == name else version(wanted)

    monkeypatch.setattr(importlib.metadata, "version", installed)
    monkeypatch.setattr(tf, "__version__", "2.99.0-dev20260101")
    with pytest.raises(ImportError) as error:
        tf_cudnn_rnn.library_path()
    release = name.replace("tf-nightly", "tensorflow")
    assert "but TensorFlow 2.99.0-dev20260101 is installed" in str(error.value)
    assert f"(`pip uninstall -y {name} && pip install '{release}=={MINOR}.*'`)" in str(error.value)


@pytest.mark.parametrize("suffix", [".99", ".0rc1", ".0-dev20260101"])
def test_another_patch_release_a_candidate_or_a_nightly_is_fine(suffix):
    assert tf_cudnn_rnn.library_path(MINOR + suffix) == tf_cudnn_rnn.library_path()


def test_library_path_of_another_version():
    """Which is that of another program: what is installed here has nothing to do with it."""
    with pytest.raises(ImportError) as error:
        tf_cudnn_rnn.library_path("1.15.5")
    message = str(error.value)
    assert "`tensorflow_version` must be one that this tf_cudnn_rnn has a library for" in message
    assert MINOR in message and "got 1.15.5. The wheels that `make wheels` makes" in message
    assert "is installed" not in message and "pip install 'tensorflow" not in message


def test_library_path_without_tensorflow(tmp_path):
    copy = tmp_path / "tf_cudnn_rnn"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__", "_libraries"))
    (copy / "_libraries").mkdir()
    ask = """
import tf_cudnn_rnn
try:
    print(tf_cudnn_rnn.library_path())
except ValueError as error:
    print(error)
print(tf_cudnn_rnn.library_path("2.20.1"))
"""
    path = copy / "_libraries" / "tensorflow_2_20.so"
    path.touch()
    code = WITHOUT_TENSORFLOW + ask
    assert subprocesses.run_code(code, cwd=tmp_path) == f"{path}\n{path}\n"
    (copy / "_libraries" / "tensorflow_2_19.so").touch()
    message, asked_for = subprocesses.run_code(code, cwd=tmp_path).splitlines()
    assert "where no TensorFlow is installed: 2.19 or 2.20, that of the program" in message
    assert asked_for == str(path)


def test_a_library_that_is_missing(tmp_path):
    def change(copy):
        shutil.rmtree(copy / "_libraries")

    message = _import_error_of_copy(tmp_path, change)
    assert message.startswith("tf_cudnn_rnn has no shared library: ")
    assert "`pip install --no-build-isolation" in message


def test_a_source_tree_says_that_it_is_one(tmp_path):
    def change(copy):
        shutil.rmtree(copy / "_libraries")
        for name in ("configure.py", "WORKSPACE"):
            (copy.parent / name).touch()

    message = _import_error_of_copy(tmp_path, change)
    assert f"This is the source tree {tmp_path}, not an installed package" in message
    assert "run `make build` in it" in message
    assert "run Python from another folder to use the package that is installed" in message
    assert "pip install" not in message  # which has perhaps just been done


@pytest.mark.parametrize(
    "change_of_ops, says",
    [
        (lambda ops: None, ""),
        (lambda ops: (ops / "BUILD").write_text("of no interest"), ""),
        (lambda ops: (ops / "int8_ops.cc").write_text("another"), "was built of other sources"),
        (lambda ops: (ops / "one_more.h").write_text("more"), "was built of other sources"),
    ],
    ids=["none", "no source", "changed", "added"],
)
def test_a_library_of_older_sources(tmp_path, change_of_ops, says):
    """It would show only at a call that does not fit."""

    def change(copy):
        for name in ("configure.py", "WORKSPACE"):
            (copy.parent / name).touch()
        change_of_ops(shutil.copytree(SOURCES / "ops", copy.parent / "ops"))

    message = _import_error_of_copy(tmp_path, change)
    assert says in message and bool(says) == bool(message)
    if says:
        assert f"This is the source tree {tmp_path}, not an installed" in message
        assert "run `make build` in it" in message


def test_a_library_that_cannot_be_loaded(tmp_path):
    def change(copy):
        name = pathlib.Path(tf_cudnn_rnn.library_path()).name
        (copy / "_libraries" / name).write_text("not a library")

    message = _import_error_of_copy(tmp_path, change)
    assert message.startswith(f"TensorFlow {tf.__version__} cannot load ")
    assert "`pip install --no-build-isolation" in message


def test_build_info_names_this_tensorflow():
    info = _library.build_info()
    assert info.tensorflow == tf.__version__
    assert info.cxx11_abi == tf.sysconfig.CXX11_ABI_FLAG
    assert info.compiler


def test_public_names_exist():
    for module in (tf_cudnn_rnn, raw_ops, weights):
        for name in module.__all__:
            assert getattr(module, name).__doc__, name
    assert set(OPS) < set(raw_ops.__all__)


# ------------------------------------------------------------------------------------
# raw_ops
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPS)
def test_arguments_are_those_of_tensorflow(name):
    ours = dict(inspect.signature(getattr(raw_ops, name)).parameters)
    if name == "CudnnRNNV3":
        assert ours.pop("rng_seed").default is None
    theirs = inspect.signature(getattr(tf.raw_ops, name)).parameters
    assert {key: p.default for key, p in ours.items()} == {
        key: p.default for key, p in theirs.items()
    }
    assert all(p.kind == inspect.Parameter.KEYWORD_ONLY for p in ours.values())


def _arguments(**config_options) -> dict:
    """Arguments of V3 for a small case."""
    config = judge.Config("lstm", 2, 4, 3, **config_options)
    case = running.random_case(70, config, 5, 2, np.float32)
    names = ("input", "input_h", "input_c", "params", "sequence_lengths")
    return dict(zip(names, running.tensors_of(case), strict=True))


@pytest.mark.parametrize("graph", [False, True], ids=["eager", "graph"])
def test_results_are_named_as_in_tensorflow(graph):
    arguments = _arguments()
    weights_and_biases = {"num_params_weights": 16, "num_params_biases": 16}
    sizes = {"num_layers": 2, "num_units": 4, "input_size": 3}

    def fields(ops):
        forward = ops.CudnnRNNV3(**arguments)
        outputs = forward._asdict()
        gradients = {
            f"{name}_backprop": outputs[name] for name in ("output", "output_h", "output_c")
        }
        backward = ops.CudnnRNNBackpropV3(**arguments, **outputs, **gradients)
        canonical = ops.CudnnRNNParamsToCanonicalV2(
            params=arguments["params"], **sizes, **weights_and_biases
        )
        params = ops.CudnnRNNCanonicalToParamsV2(**sizes, **canonical._asdict())
        size = ops.CudnnRNNParamsSize(**sizes, T=tf.float32, S=tf.int64)
        assert tf.is_tensor(params) and tf.is_tensor(size) and size.dtype == tf.int64
        return [result._fields for result in (forward, backward, canonical)]

    def both():
        assert fields(raw_ops) == fields(tf.raw_ops)

    (tf.function(both) if graph else both)()


def test_arguments_are_keyword_only():
    with pytest.raises(TypeError, match="positional"):
        raw_ops.CudnnRNNV3(*_arguments().values())


@pytest.mark.parametrize("seeds", [{"seed": 2**31}, {"seed2": -(2**31) - 1}, {"seed": 2**40}])
def test_seeds_must_fit_in_an_int32(seeds):
    (name, value), *_ = seeds.items()
    with pytest.raises(ValueError, match=rf"`{name}` must fit in an int32; got {value}"):
        raw_ops.CudnnRNNV3(**_arguments(), **seeds)


@pytest.mark.parametrize("name", ["num_proj", "seed", "seed2"])
def test_integers_must_be_integers(name):
    for value in (2.5, 1.0, "1", None):
        with pytest.raises(TypeError, match=f"`{name}` must be an integer; got {value!r}"):
            raw_ops.CudnnRNNV3(**_arguments(), **{name: value})
    result = raw_ops.CudnnRNNV3(**_arguments(), **{name: np.int64(0)})
    np.testing.assert_array_equal(result.output, raw_ops.CudnnRNNV3(**_arguments()).output)


@pytest.mark.parametrize("name", OPS)
def test_all_ops_check_their_integers(name):
    op = getattr(raw_ops, name)
    names = inspect.signature(op).parameters
    integers = {"num_proj", "num_params_weights", "num_params_biases"} & set(names)
    assert "num_proj" in integers
    tensors = {parameter: None for parameter, p in names.items() if p.default is p.empty}
    for wrong in integers:
        with pytest.raises(TypeError, match=f"`{wrong}` must be an integer; got 2.5"):
            op(**{**tensors, **dict.fromkeys(integers, 2), wrong: 2.5})


def test_rng_seed_and_seeds_exclude_each_other():
    with pytest.raises(ValueError, match="`rng_seed` takes the place of `seed` and `seed2`"):
        raw_ops.CudnnRNNV3(**_arguments(), seed=1, rng_seed=[1, 2])


def test_ops_are_stateless():
    @tf.function
    def run():
        return raw_ops.CudnnRNNV3(**_arguments()).output

    (op,) = [
        op
        for op in run.get_concrete_function().graph.get_operations()
        if op.type == "TfCudnnRnn>CudnnRNNV3"
    ]
    assert not op.op_def.is_stateful
    assert [arg.name for arg in op.op_def.input_arg][-1] == "rng_seed"


def test_names_reach_the_graph():
    with tf.Graph().as_default():
        assert raw_ops.CudnnRNNV3(**_arguments(), name="encoder").output.op.name == "encoder"


# ------------------------------------------------------------------------------------
# Gradients
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ops", "name"),
    [(raw_ops, "TfCudnnRnn>CudnnRNNV3"), (tf.raw_ops, "CudnnRNNV3")],
    ids=["own", "built-in"],
)
def test_inference_has_no_gradient(ops, name):
    arguments = _arguments()
    message = f"^To use {name} in gradients, is_training must be set to True.$"

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(arguments["params"])
            y = ops.CudnnRNNV3(**arguments, is_training=False).output
        return tape.gradient(y, arguments["params"])

    for function in (gradient, tf.function(gradient, autograph=False)):
        with pytest.raises(ValueError, match=message):
            function()


def test_only_what_is_asked_for_needs_a_gradient():
    """A loss of a single output leaves None, not zeros, for the others."""
    arguments = _arguments()
    names = ("input", "input_h", "input_c", "params")
    for graph in (False, True):
        for used in ("output", "output_h", "output_c"):

            def gradients(ops, used=used):
                sources = [arguments[name] for name in names]
                with tf.GradientTape() as tape:
                    tape.watch(sources)
                    loss = tf.reduce_sum(getattr(ops.CudnnRNNV3(**arguments), used) ** 2)
                return tape.gradient(loss, sources)

            run = tf.function(gradients) if graph else gradients
            for ours, theirs in zip(run(raw_ops), run(tf.raw_ops), strict=True):
                np.testing.assert_array_equal(ours, theirs)


def test_integers_have_no_gradient():
    arguments = _arguments()
    rng_seed = tf.constant([1, 2], tf.int64)
    with tf.GradientTape() as tape:
        tape.watch(arguments["params"])
        y = raw_ops.CudnnRNNV3(**arguments, rng_seed=rng_seed).output
    with tf.Graph().as_default():
        num_layers = tf.constant(2)
        size = raw_ops.CudnnRNNParamsSize(
            num_layers=num_layers, num_units=4, input_size=3, T=tf.float32, S=tf.int32
        )
        assert tf.gradients(size, num_layers) == [None]
    assert tape.gradient(y, [arguments["sequence_lengths"], rng_seed]) == [None, None]


# ------------------------------------------------------------------------------------
# Weights: the layout here against the one in the ops
# ------------------------------------------------------------------------------------


def _random_layouts(count: int):
    rng = np.random.default_rng(71)
    for _ in range(count):
        config = cases.random_config(rng, max_size=12)
        yield (
            (config.rnn_mode, config.num_layers, config.num_units, config.input_size),
            {
                "direction": config.direction,
                "input_mode": config.input_mode,
                "num_proj": config.num_proj,
            },
        )


def test_layouts_agree_with_the_ops_element_by_element():
    projected = skipped = 0
    for sizes, options in _random_layouts(150):
        label = f"{sizes} {options}"
        size = tf_cudnn_rnn.params_size(*sizes, **options)
        names = ("rnn_mode", "num_layers", "num_units", "input_size")
        for ops in (raw_ops, tf.raw_ops):
            op_size = ops.CudnnRNNParamsSize(
                **dict(zip(names, sizes, strict=True)), **options, T=tf.double, S=tf.int32
            )
            assert op_size.numpy().tolist() == [size], label
        # Each element holds its own index, so values are offsets.
        indices = np.arange(size, dtype=np.float64)
        ours = weights.params_to_canonical(indices, *sizes, **options)
        theirs = tf_cudnn_rnn.params_to_canonical(indices, *sizes, **options)
        assert [name for name, _ in ours] == [name for name, _ in theirs], label
        for (name, one), (_, other) in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other.numpy(), err_msg=f"{name} of {label}")
        back = tf_cudnn_rnn.canonical_to_params(theirs, *sizes, **options)
        np.testing.assert_array_equal(back, indices, err_msg=label)
        back = weights.canonical_to_params(ours, *sizes, **options)
        np.testing.assert_array_equal(back, indices, err_msg=label)
        projected += any(name.kind == "projection" for name, _ in ours)
        skipped += any(tensor.size == 0 for _, tensor in ours)
    assert projected > 10 and skipped > 10


def test_names_say_which_weight_it_is():
    """Against the judge, which tells gates by constants."""
    config = judge.Config("lstm", 2, 4, 3, "bidirectional", num_proj=2)
    params = running.random_case(72, config, 1, 1).params
    named = dict(
        weights.params_to_canonical(params, "lstm", 2, 4, 3, direction="bidirectional", num_proj=2)
    )
    for k, w in enumerate(judge.split_params(config, params)):
        layer, direction = k // 2, ("forward", "backward")[k % 2]
        for gate, index in [
            ("input", judge.INPUT),
            ("forget", judge.FORGET),
            ("cell", judge.CELL),
            ("output", judge.OUTPUT),
        ]:
            for kind, tensor in [
                ("input_kernel", w.W),
                ("recurrent_kernel", w.R),
                ("input_bias", w.bW),
                ("recurrent_bias", w.bR),
            ]:
                name = ParamName(layer, direction, gate, kind)
                np.testing.assert_array_equal(named.pop(name), tensor[index], err_msg=str(name))
        name = ParamName(layer, direction, "", "projection")
        np.testing.assert_array_equal(named.pop(name), w.projection)
    assert not named


def test_gru_and_rnn_names():
    gru = [name.gate for name, _ in weights.params_to_canonical(np.zeros(108), "gru", 1, 4, 3)]
    assert gru == ["reset", "update", "new"] * 4
    names = [name for name, _ in weights.params_to_canonical(np.zeros(36), "rnn_tanh", 1, 4, 3)]
    assert names == [
        ParamName(0, "forward", "", "input_kernel"),
        ParamName(0, "forward", "", "recurrent_kernel"),
        ParamName(0, "forward", "", "input_bias"),
        ParamName(0, "forward", "", "recurrent_bias"),
    ]
    assert str(names[0]) == "layer_0/forward/input_kernel"


# Of cuDNN's documentation and public models: the sizes are known to be right.
@pytest.mark.parametrize(
    ("sizes", "options", "expected"),
    [
        (("lstm", 1, 4, 3), {}, 144),
        (("lstm", 2, 7, 3), {}, 784),
        (("lstm", 2, 7, 3), {"direction": "bidirectional"}, 1960),
        (("gru", 1, 4, 3), {}, 108),
        (("gru", 2, 7, 3), {}, 588),
        (("gru", 2, 7, 3), {"direction": "bidirectional"}, 1470),
        (("rnn_tanh", 1, 4, 3), {}, 36),
        (("rnn_relu", 2, 7, 3), {"direction": "bidirectional"}, 490),
        (("lstm", 4, 200, 300), {}, 1366400),
        (("lstm", 1, 100, 28), {}, 52000),
        (("lstm", 2, 7, 3), {"num_proj": 3}, 490),
        (("lstm", 2, 7, 3), {"num_proj": 3, "direction": "bidirectional"}, 1148),
        (("lstm", 2, 7, 3), {"num_proj": 7}, 784),
        (("lstm", 1, 4, 4), {"input_mode": "skip_input"}, 96),
        (("gru", 2, 4, 4), {"input_mode": "auto_select", "direction": "bidirectional"}, 480),
        (("gru", 1, 4, 3), {"input_mode": "auto_select"}, 108),
        # At once: layers are not counted one by one.
        (("lstm", 10**9, 4, 4), {}, 160 * 10**9),
    ],
)
def test_params_size(sizes, options, expected):
    assert tf_cudnn_rnn.params_size(*sizes, **options) == expected


@pytest.mark.parametrize("module", [tf_cudnn_rnn, weights], ids=["tensors", "arrays"])
def test_canonical_to_params_takes_any_order_and_mappings(module):
    params = np.arange(144.0)
    named = module.params_to_canonical(params, "lstm", 1, 4, 3)
    shuffled = [named[i] for i in np.random.default_rng(73).permutation(len(named))]
    for given in (shuffled, dict(shuffled), [(tuple(name), value) for name, value in shuffled]):
        np.testing.assert_array_equal(module.canonical_to_params(given, "lstm", 1, 4, 3), params)


@pytest.mark.parametrize("module", [tf_cudnn_rnn, weights], ids=["tensors", "arrays"])
def test_canonical_to_params_says_what_is_wrong(module):
    named = module.params_to_canonical(np.arange(144.0), "lstm", 1, 4, 3)
    first = "layer_0/forward/input/input_kernel"
    second = "layer_0/forward/forget/input_kernel"
    other = ParamName(1, "forward", "input", "input_kernel")
    for given, message in [
        (named[1:], f"each of the 16 weights .* once: missing {first}"),
        ([*named[1:], named[1]], f"missing {first}; given more than once {second}"),
        ([*named, (other, 0.0)], f"not part of this network {other}"),
        ([(named[0][0], np.zeros([3, 4])), *named[1:]], rf"{first} must have shape \[4, 3\]"),
        ([value for _, value in named], r"must hold \(ParamName, value\) pairs"),
        ({("input", 0): 1.0}, r"must hold \(ParamName, value\) pairs"),
        ({("input", 0): 1.0}, r"value named \(.input., 0\), which is no ParamName"),
    ]:
        with pytest.raises(ValueError, match=message):
            module.canonical_to_params(given, "lstm", 1, 4, 3)


def test_arrays_must_agree_in_type():
    (name, array), *rest = weights.params_to_canonical(np.arange(144.0), "lstm", 1, 4, 3)
    with pytest.raises(ValueError, match="must have one dtype; got float32, float64"):
        weights.canonical_to_params([(name, array.astype(np.float32)), *rest], "lstm", 1, 4, 3)


def test_arrays_are_copies():
    params = np.zeros(144)
    for _, array in weights.params_to_canonical(params, "lstm", 1, 4, 3):
        array[...] = 1.0
    assert not params.any()


def test_params_of_another_size():
    with pytest.raises(ValueError, match=r"`params` must have shape \[144\] .* got \[143\]"):
        weights.params_to_canonical(np.zeros(143), "lstm", 1, 4, 3)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf_cudnn_rnn.params_to_canonical(np.zeros(143), "lstm", 1, 4, 3)


@pytest.mark.parametrize(
    ("sizes", "options", "message"),
    [
        (("foo", 1, 4, 3), {}, "`rnn_mode` must be one of rnn_relu, .*; got 'foo'"),
        (("lstm", 0, 4, 3), {}, "`num_layers` must be positive; got 0"),
        (("lstm", 1, -4, 3), {}, "`num_units` must be positive; got -4"),
        (("lstm", 1, 4, 0), {}, "`input_size` must be positive; got 0"),
        (("lstm", 1, 2**31, 1), {}, r"`num_units` must be below 2\^31, .*; got 2147483648"),
        (("lstm", 1, 4, 3), {"num_proj": -1}, "`num_proj` must not be negative; got -1"),
        (("lstm", 1, 4, 3), {"num_proj": 5}, "`num_proj` must be at most `num_units`; got 5 and 4"),
        (("gru", 1, 4, 3), {"num_proj": 2}, "`num_proj` must be 0 .* got 2 for gru"),
        (("gru", 1, 4, 3), {"direction": "up"}, "`direction` must be one of"),
        (("gru", 1, 4, 3), {"input_mode": "skip_input"}, "`input_size` must equal `num_units`"),
        (("gru", 1, 4, 3), {"input_mode": "none"}, "`input_mode` must be one of"),
    ],
)
def test_options_out_of_range(sizes, options, message):
    for function in (
        tf_cudnn_rnn.params_size,
        lambda *sizes, **options: weights.params_to_canonical(np.zeros(1), *sizes, **options),
        lambda *sizes, **options: tf_cudnn_rnn.canonical_to_params([], *sizes, **options),
    ):
        with pytest.raises(ValueError, match=message):
            function(*sizes, **options)


@pytest.mark.parametrize("dtype", running.DTYPES)
def test_tensor_functions_work_in_graphs_and_all_types(dtype):
    params = tf.constant(np.arange(144), running.DTYPES[dtype])

    @tf.function
    def run(params):
        named = tf_cudnn_rnn.params_to_canonical(params, "lstm", 1, 4, 3)
        assert named[0][1].shape == [4, 3]  # known while tracing
        back = tf_cudnn_rnn.canonical_to_params(named, "lstm", 1, 4, 3)
        assert back.shape == [144]
        return back

    np.testing.assert_array_equal(run(params), params)
