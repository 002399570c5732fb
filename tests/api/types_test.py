"""What type checkers are told, and Python is not, agrees with what happens."""

import ast
import inspect
import pathlib
import pydoc

import keras
import pytest
import tensorflow as tf

import tf_cudnn_rnn
import tf_cudnn_rnn.keras
from tf_cudnn_rnn import raw_ops

PACKAGE = pathlib.Path(tf_cudnn_rnn.__file__).parent
T, B, I, H = 3, 2, 4, 5


@pytest.mark.parametrize("name", ["", "LSTM", "GRU", "SimpleRNN", "CudnnRNN", "Bidirectional"])
def test_there_is_help(name):
    """For the module, too; a signature that cannot be told would end it."""
    thing = getattr(tf_cudnn_rnn.keras, name) if name else tf_cudnn_rnn.keras
    assert f"class {name}" in pydoc.render_doc(thing)


def told(file: str, cls: str) -> dict[str, object]:
    """The parameters of a constructor that stands below TYPE_CHECKING, with their defaults."""
    (found,) = [
        node
        for node in ast.parse((PACKAGE / file).read_text()).body
        if isinstance(node, ast.ClassDef) and node.name == cls
    ]
    (block,) = [node for node in found.body if isinstance(node, ast.If)]
    (function,) = block.body
    assert isinstance(function, ast.FunctionDef)
    arguments = function.args
    positional = arguments.args[1:]  # without `self`
    defaults = [inspect.Parameter.empty] * (len(positional) - len(arguments.defaults))
    defaults += map(ast.literal_eval, arguments.defaults)
    result = dict(zip([it.arg for it in positional], defaults, strict=True))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        result[argument.arg] = ast.literal_eval(default)
    return result


def taken(cls: type) -> dict[str, object]:
    """The parameters of a constructor, with their defaults; without `**kwargs`."""
    parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
    return {it.name: it.default for it in parameters if it.kind is not it.VAR_KEYWORD}


@pytest.mark.parametrize("name", ["LSTM", "GRU", "SimpleRNN"])
def test_drop_ins_tell_what_keras_takes(name):
    found = told("keras/layers.py", name)
    assert found.pop("use_fused") == "auto"
    assert list(found.items()) == list(taken(getattr(keras.layers, name)).items())


def test_classes_of_one_mode_tell_what_cudnn_rnn_takes():
    expected = taken(tf_cudnn_rnn.keras.CudnnRNN)
    del expected["rnn_mode"]
    assert list(told("keras/cudnn_rnn.py", "_OfOneMode").items()) == list(expected.items())


DROP_INS = ("LSTM", "GRU", "SimpleRNN")
OF_ONE_MODE = ("CudnnLSTM", "CudnnGRU", "CudnnRNNTanh", "CudnnRNNRelu")


@pytest.mark.parametrize("name", DROP_INS + OF_ONE_MODE)
def test_editors_complete_what_type_checkers_are_told(name):
    file = "layers" if name in DROP_INS else "cudnn_rnn"
    expected = told(f"keras/{file}.py", name if name in DROP_INS else "_OfOneMode")
    *found, rest = inspect.signature(getattr(tf_cudnn_rnn.keras, name)).parameters.values()
    assert rest.kind is rest.VAR_KEYWORD
    assert [(it.name, it.default) for it in found] == list(expected.items())
    positional = [it.name for it in found if it.kind is it.POSITIONAL_OR_KEYWORD]
    if name in DROP_INS:
        assert "use_fused" not in positional
    else:
        assert positional == ["num_units", "num_layers"]


def test_editors_complete_cudnn_rnn_and_subclasses():
    cls = tf_cudnn_rnn.keras.CudnnRNN
    parameters = list(inspect.signature(cls).parameters)
    assert parameters == [*taken(cls), "kwargs"]

    class Mine(tf_cudnn_rnn.keras.CudnnGRU):
        def __init__(self, units, **kwargs):
            super().__init__(units, **kwargs)

    class Inherits(tf_cudnn_rnn.keras.CudnnGRU):
        pass

    assert str(inspect.signature(Mine)) == "(units, **kwargs)"
    assert list(inspect.signature(Inherits).parameters) == [
        p for p in parameters if p != "rnn_mode"
    ]
    assert list(inspect.signature(Mine(units=2)).parameters)[:1] == ["inputs"]


def test_ops_return_the_fields_that_are_told():
    x, state = tf.zeros([T, B, I]), tf.zeros([1, B, H])
    lengths = [T] * B
    sizes = {"num_layers": 1, "num_units": H, "input_size": I}
    params = tf.zeros([tf_cudnn_rnn.params_size("lstm", 1, H, I)])
    matrices = {"kernel": tf.zeros([I, 4 * H]), "recurrent_kernel": tf.zeros([H, 4 * H])}
    given = {"input": x, "input_h": state, "input_c": state, "sequence_lengths": lengths}

    forward = raw_ops.CudnnRNNV3(**given, params=params)
    keras_forward = raw_ops.KerasRNN(**given, **matrices)

    def backward(result):
        names = ("output", "output_h", "output_c")
        outputs = {name: getattr(result, name) for name in names}
        return outputs | {f"{name}_backprop": value for name, value in outputs.items()}

    results = {
        "CudnnRNNV3": forward,
        "CudnnRNNBackpropV3": raw_ops.CudnnRNNBackpropV3(
            **given,
            **backward(forward),
            params=params,
            reserve_space=forward.reserve_space,
            host_reserved=forward.host_reserved,
        ),
        "CudnnRNNParamsToCanonicalV2": raw_ops.CudnnRNNParamsToCanonicalV2(
            **sizes, params=params, num_params_weights=8, num_params_biases=8
        ),
        "CudnnRNNInt8": raw_ops.CudnnRNNInt8(
            **given,
            weights=tf.zeros([4 * H * (I + H)], tf.int8),
            scales=tf.zeros([8 * H]),
            biases=tf.zeros([8 * H]),
        ),
        "KerasRNN": keras_forward,
        "KerasRNNBackprop": raw_ops.KerasRNNBackprop(
            **given,
            **matrices,
            **backward(keras_forward),
            reserve_space=keras_forward.reserve_space,
        ),
        "KerasToParamsBackprop": raw_ops.KerasToParamsBackprop(params_backprop=params, num_units=H),
    }
    for name in raw_ops.__all__:
        annotation = inspect.signature(getattr(raw_ops, name), eval_str=True).return_annotation
        if annotation is tf.Tensor:
            assert name not in results
        else:
            assert results[name]._fields == annotation._fields  # type: ignore[attr-defined]


MODULES = [tf_cudnn_rnn.weights, tf_cudnn_rnn.runtime, raw_ops, tf_cudnn_rnn.keras]


@pytest.mark.parametrize("module", MODULES)
def test_signatures_show_the_names_of_types(module):
    """And not what they stand for, which fills a screen of help()."""
    for name in module.__all__:
        value = getattr(module, name)
        members = [value]
        if inspect.isclass(value):
            members = [getattr(value, own) for own in vars(value)]
        for function in filter(inspect.isroutine, members):
            if inspect.isbuiltin(function) or not function.__module__.startswith("tf_cudnn_rnn"):
                continue
            assert "typing" not in str(inspect.signature(function)), (name, function)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_completed_is_what_is_public(module):
    assert dir(module) == sorted(module.__all__)


def test_the_package_completes_its_modules():
    assert set(dir(tf_cudnn_rnn)) - set(tf_cudnn_rnn.__all__) == {"__version__", "keras", "runtime"}
