"""Small trainings that run under any tf.distribute strategy, and what they come to.

Batches are global: the strategy shares them among its replicas. Of 5 rows one of two
replicas gets 3 and the other 2; the last batch is a single row and leaves an empty one.
"""

import pathlib
import pickle
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

import tf_cudnn_rnn
import tf_cudnn_rnn.keras

T, I, H, OUTPUTS = 6, 5, 7, 3
GLOBAL_BATCH = 5
ROWS = 2 * GLOBAL_BATCH + 1
EVEN_BATCH, EVEN_ROWS = 4, 8  # for Keras' fit
EPOCHS = 2


class FusedOp(keras.layers.Layer):
    """A bidirectional network of two layers as one op of a `params` vector."""

    def __init__(self, op, rnn_mode: str):
        super().__init__()
        self.supports_masking = True
        self._op = op
        self._network = {"rnn_mode": rnn_mode, "direction": "bidirectional"}
        self._params = self.add_weight(
            shape=[tf_cudnn_rnn.params_size(rnn_mode, 2, H, I, direction="bidirectional")],
            initializer=keras.initializers.RandomNormal(stddev=0.3, seed=5),
        )

    def call(self, x, mask=None):
        states = tf.zeros([4, tf.shape(x)[0], H])
        outputs = self._op(
            input=tf.transpose(x, [1, 0, 2]),
            input_h=states,
            input_c=states,
            params=self._params.value,
            sequence_lengths=tf.reduce_sum(tf.cast(mask, tf.int32), 1),
            **self._network,
        )
        return tf.reduce_sum(outputs.output, 0)

    def compute_mask(self, *_):
        return None


def _layer(name: str, **options):
    return getattr(tf_cudnn_rnn.keras, name)(
        H,
        kernel_initializer=keras.initializers.GlorotUniform(seed=1),
        recurrent_initializer=keras.initializers.Orthogonal(seed=2),
        **options,
    )


# Each op and each kind of layer. CudnnLSTM calls the built-in op, so that two of them show it.
RNNS = {
    "LSTM": lambda: _layer("LSTM", use_fused=True),
    "GRU": lambda: _layer("GRU", use_fused=True),
    "CudnnLSTM": lambda: _layer("CudnnLSTM", num_layers=2, direction="bidirectional"),
    "own op, gru": lambda: FusedOp(tf_cudnn_rnn.raw_ops.CudnnRNNV3, "gru"),
    "built-in op, lstm": lambda: FusedOp(tf.raw_ops.CudnnRNNV3, "lstm"),
}
OPTIMIZERS = {
    "SGD": lambda: keras.optimizers.SGD(0.02, momentum=0.9),
    "Adam": lambda: keras.optimizers.Adam(0.01),
}
CASES = [
    ("LSTM", "SGD"),
    ("GRU", "Adam"),
    ("CudnnLSTM", "SGD"),
    ("own op, gru", "Adam"),
    ("built-in op, lstm", "Adam"),
]
FIT_CASES = [
    ("LSTM", "Adam"),
    ("CudnnLSTM", "SGD"),
    ("own op, gru", "Adam"),
]
WORKER_CASES = [
    ("LSTM", "SGD"),
    ("CudnnLSTM", "SGD"),
    ("own op, gru", "Adam"),
]


class Outcome(NamedTuple):
    """What a training comes to."""

    losses: np.ndarray  # of each step of `train`, of each epoch of `fit`
    weights: list[np.ndarray]
    shares: np.ndarray | None = None  # [steps, replicas]: the rows of each replica


def build_model(rnn: str) -> keras.Model:
    linear = keras.layers.Dense(
        OUTPUTS, kernel_initializer=keras.initializers.GlorotUniform(seed=3)
    )
    return keras.Sequential([keras.Input([T, I]), keras.layers.Masking(), RNNS[rnn](), linear])


def data() -> tuple[np.ndarray, np.ndarray]:
    """x [ROWS, T, I], zero at and past a row's length, and the values to predict."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=[ROWS, T, I])
    lengths = rng.integers(0, T + 1, ROWS)
    lengths[-1] = T
    x[np.arange(T) >= lengths[:, np.newaxis]] = 0.0
    return x.astype(np.float32), rng.normal(size=[ROWS, OUTPUTS]).astype(np.float32)


def train(strategy: tf.distribute.Strategy, rnn: str, optimizer_name: str) -> Outcome:
    """A custom loop: losses summed over the rows, divided by the global batch."""
    with strategy.scope():
        model = build_model(rnn)
        optimizer = OPTIMIZERS[optimizer_name]()
        optimizer.build(model.trainable_variables)

    def replica_step(x, targets):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((model(x) - targets) ** 2, -1)  # [rows of this replica]
            loss = tf.reduce_sum(losses) / GLOBAL_BATCH
        variables = model.trainable_variables
        # Sums the gradients over the replicas, then applies them.
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss, tf.shape(x)[:1]

    dataset = tf.data.Dataset.from_tensor_slices(data()).batch(GLOBAL_BATCH)
    batches = strategy.experimental_distribute_dataset(dataset)

    @tf.function(input_signature=[batches.element_spec])  # one graph for batches of any size
    def step(batch):
        loss, rows = strategy.run(replica_step, batch)
        return strategy.reduce("SUM", loss, axis=None), strategy.gather(rows, axis=0)

    steps = [step(batch) for _ in range(EPOCHS) for batch in batches]
    losses, shares = (np.array(values) for values in zip(*steps, strict=True))
    return Outcome(losses, model.get_weights(), shares)


def fit(strategy: tf.distribute.Strategy, rnn: str, optimizer: str) -> Outcome:
    """Keras' loop, with even batches."""
    with strategy.scope():
        model = build_model(rnn)
        model.compile(OPTIMIZERS[optimizer](), "mse")
    x, targets = (values[:EVEN_ROWS] for values in data())
    history = model.fit(x, targets, batch_size=EVEN_BATCH, epochs=EPOCHS, shuffle=False, verbose=0)
    return Outcome(np.array(history.history["loss"]), model.get_weights())


def run_on_two_virtual_cpus(path: str) -> None:
    """Writes the outcomes of all cases; for a process of its own."""
    [cpu] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    outcomes = {("train", *case): train(strategy, *case) for case in CASES}
    outcomes |= {("fit", *case): fit(strategy, *case) for case in FIT_CASES}
    pathlib.Path(path).write_bytes(pickle.dumps(outcomes))


def run_as_worker(path: str) -> None:
    """Writes the outcomes of one worker of several; for a process that has a TF_CONFIG."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    outcomes = {("train", *case): train(strategy, *case) for case in WORKER_CASES}
    index = strategy.cluster_resolver.task_id
    pathlib.Path(path, str(index)).write_bytes(pickle.dumps(outcomes))
