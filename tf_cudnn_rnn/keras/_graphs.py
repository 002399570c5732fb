"""What graphs and SavedModels hold for each fused layer, and what GPUs make of it."""

import contextvars
from collections.abc import Iterable

import keras
import tensorflow as tf

from tf_cudnn_rnn._layout import Layout
from tf_cudnn_rnn._types import Contents
from tf_cudnn_rnn.keras import _warnings

try:
    from tensorflow.python.eager.record import could_possibly_record
except ImportError:  # not a public function

    def could_possibly_record() -> bool:
        """Says yes, for nobody knows."""
        return True


# What a graph gets for such a layer: "own" ops, "builtin" ops or the "stock" loop. None, if nobody
# chose, is "own" for the drop-ins, but for those that Keras runs on a GPU, and "builtin" for the
# layers of cudnn_rnn.
graph_contents: contextvars.ContextVar[Contents | None] = contextvars.ContextVar(
    "tf_cudnn_rnn_graph_contents", default=None
)

WRONG_IN_BFLOAT16 = "computes in bfloat16, which TensorFlow's GPU kernel gets wrong"


def may_need_gradients() -> bool:
    """Whether the op must keep what its gradient needs.

    A graph can be differentiated after it is built, so there the answer is yes; when it
    runs the op sees whether that was done, and keeps nothing if it was not.
    """
    return not tf.executing_eagerly() or could_possibly_record()


def builds_builtin_graph() -> bool:
    """Whether a graph is being built inside export_as("builtin")."""
    return graph_contents.get() == "builtin" and not tf.executing_eagerly()


def keras_has_cudnn() -> bool:
    """Whether layers of Keras find a GPU with cuDNN here, and nobody chose what a graph holds.

    They look for any GPU. Without CUDA they would order a GRU's gates in another way, for a GPU
    kernel that there may not be.
    """
    return (
        graph_contents.get() is None
        and bool(tf.config.list_logical_devices("GPU"))
        and bool(tf.sysconfig.get_build_info().get("is_cuda_build"))
    )


def is_for_own_kernel(for_onnx: bool) -> bool:
    """Whether this library computes what is being built: no graph for GPUs, nor for ONNX."""
    return not for_onnx and not builds_builtin_graph()


def warn_about_gpus(layer: keras.layers.Layer, problems: Iterable[str]) -> None:
    """Warns, once for each layer and problem, of a graph that may be meant for GPUs.

    Args:
      layer: whose ops are built-in ones, some options of which are broken there.
      problems: predicates of which the layer is the subject.
    """
    # In __dict__, for Keras and TensorFlow track what is set as an attribute.
    told = layer.__dict__.setdefault("_tf_cudnn_rnn_told_about_gpus", set())
    for problem in problems:
        if problem not in told:
            told.add(problem)
            _warnings.warn(
                f"Layer {layer.name!r} {problem}. On CPUs with this library the graph is right."
            )


def lengths_can_be_0(source: str) -> str:
    """The problem of a layer that has `source`."""
    return (
        f"has {source}, so lengths can be 0, which TensorFlow's GPU kernel refuses: each row "
        "needs a valid step there"
    )


def cudnn_rnn_problems(
    layout: Layout, compute_dtype: str, has_lengths: bool, dropout: float
) -> list[str]:
    """What of a graph of built-in ops for a CudnnRNN does not run on GPUs.

    Args:
      layout: of the network.
      compute_dtype: of the layer.
      has_lengths: whether rows may be shorter than the sequence.
      dropout: between layers, as far as it acts in this graph.
    """
    problems = []
    if layout.has_projection:
        problems.append(f"has num_proj={layout.num_proj}, which recent GPU builds refuse")
    if compute_dtype == "bfloat16":
        problems.append(WRONG_IN_BFLOAT16)
    if has_lengths:
        problems.append(lengths_can_be_0("a mask or sequence_lengths"))
    if dropout:
        problems.append(
            "is traced for training with dropout, for which the graph holds an own op that "
            "needs this library; pass training=False"
        )
    return problems


def check_not_stock(layer: keras.layers.Layer) -> None:
    """Refuses to trace a CudnnRNN inside export_as("stock"): it always runs as an op.

    Raises:
      ValueError: that is what is being done.
    """
    if graph_contents.get() != "stock":
        return
    if layer.layout.has_projection:
        raise has_no_stock_layer(layer)
    raise ValueError(
        f"Layer {layer.name!r} ({type(layer).__name__}) cannot be traced as 'stock': it "
        "always runs as an op. Export tf_cudnn_rnn.keras.to_keras(model), an equal model "
        "of stock Keras layers, instead."
    )


def has_no_stock_layer(layer: keras.layers.Layer) -> ValueError:
    """The error for asking for stock layers in the place of a CudnnRNN that projects."""
    return ValueError(
        f"Layer {layer.name!r} has num_proj={layer.num_proj}, and no stock Keras layer "
        "projects. Train without a projection; or export the model with as_='builtin', for "
        "TensorFlow with this library; or take the weights to PyTorch or MXNet with "
        "tf_cudnn_rnn.weights."
    )
