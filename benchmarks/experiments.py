"""The groups of measurements, each a name for CASES=; what is compared with what in each."""

import dataclasses

from benchmarks import cases, drivers, records
from benchmarks.cases import INFERENCE, PASSES, TRAINING, Case
from benchmarks.processes import AVX2_ENVIRONMENT, Side

TIME = "time"
MEMORY = "memory"

OP = Side("op", "own_op")
LAYER = Side("layer", "own_layer")
KERAS = Side("keras", "keras_function")
TORCH = Side("torch", "torch")
ONNX = Side("onnx", "onnxruntime")
ALL_PEERS = (
    KERAS,
    Side("keras_xla", "keras_xla"),
    Side("keras_eager", "keras_eager"),
    Side("block_lstm", "block_lstm"),
    TORCH,
    ONNX,
)


@dataclasses.dataclass(frozen=True)
class Row:
    """One measurement: a pass of a case by several sides, which take turns.

    Attributes:
      sides: the first is the base, by which the others are divided.
      measure: TIME, or MEMORY of fresh processes.
      tails: names of sides whose tail (records.tail_of) is measured, too.
    """

    experiment: str
    case: Case
    pass_: str
    sides: tuple[Side, ...]
    measure: str = TIME
    tails: tuple[str, ...] = ()

    def own_sides(self) -> set[str]:
        """The names of the sides that are this library, and of their tails."""
        own = {side.name for side in self.sides if side.is_own}
        return own | {records.tail_of(name) for name in own}


def _rows(experiment: str, some_cases, sides, passes=PASSES) -> list[Row]:
    return [Row(experiment, case, pass_, tuple(sides)) for case in some_cases for pass_ in passes]


def _quick(_) -> list[Row]:
    return _rows("quick", cases.in_set("quick"), (OP, KERAS, TORCH, ONNX))


def _gate(_) -> list[Row]:
    return _rows("gate", cases.in_set("gate"), (OP, *ALL_PEERS))


def _ragged(_) -> list[Row]:
    ragged = [case.ragged() for case in cases.in_set("gate") if case.seq_length > 1]
    return _rows("ragged", ragged, (OP, LAYER, KERAS, TORCH, ONNX))


def _projection(_) -> list[Row]:
    return _rows("projection", cases.in_set("projection"), (OP, TORCH))


def _bidirectional(_) -> list[Row]:
    some = [case for case in cases.read_cases().values() if case.num_dirs == 2]
    return _rows("bidirectional", some, (OP, LAYER, KERAS, TORCH, ONNX))


def _bfloat16(_) -> list[Row]:
    some = [*cases.in_set("roofline"), cases.read_cases()["lstm_2048_b32"]]
    sides = [
        Side("op_bfloat16", "own_op", "bfloat16"),
        Side("op_float32", "own_op"),
        Side("torch_bfloat16", "torch", "bfloat16"),
    ]
    return _rows("bfloat16", some, sides)


def _threads(threads: int) -> list[Row]:
    counts = [threads]
    while counts[-1] > 1:
        counts.append(counts[-1] // 2)
    sides = [Side(f"op_{n}", "own_op", threads=n) for n in counts]
    sides += [Side(f"torch_{n}", "torch", threads=n) for n in counts]
    some = [*cases.in_set("roofline"), *cases.in_set("small")]
    return _rows("threads", some, sides)


def _scaling(_) -> list[Row]:
    base = cases.read_cases()["lstm_512_b16"]

    def varied(name: str, **fields) -> Case:
        return dataclasses.replace(base, name=name, **fields)

    some = [varied(f"steps_{T}", seq_length=T) for T in (25, 50, 100, 200)]
    some += [varied(f"batch_{B}", batch=B) for B in (16, 32, 64, 128)]
    some += [varied(f"units_{H}", num_units=H, input_size=H) for H in (128, 256, 512, 1024)]
    some += [
        varied(f"lengths_{percent}", batch=64, seq_length=100, fill=percent / 100)
        for percent in (12.5, 25, 50, 100)
    ]
    return _rows("scaling", some, (OP,))


def _avx2(_) -> list[Row]:
    sides = [dataclasses.replace(side, environment=AVX2_ENVIRONMENT) for side in (OP, TORCH)]
    return _rows("avx2", cases.in_set("roofline"), sides)


def _one_step_cases(sizes: tuple[int, ...]) -> list[Case]:
    """One step of one sequence."""
    return [
        Case(f"stream_{mode}_{H}", (), mode, 1, 1, H, 0, H, 1, 1, 0.0)
        for mode in ("lstm", "gru")
        for H in sizes
    ]


def _streaming(_) -> list[Row]:
    some = _one_step_cases((64, 128, 256, 512, 1024))
    empty = Side("empty_call", drivers.EMPTY_CALL)
    streams = (Side("stream_from_c", "own_stream_c"), Side("stream", "own_stream"))
    eager = (Side("eager", "own_eager"), Side("eager_built_in", "built_in_eager"))
    loop = Side("counting_loop", drivers.COUNTING_LOOP)
    sides = (*streams, ONNX, TORCH, Side("op_from_c", "own_c"), *eager, OP, empty, KERAS, loop)
    tails = ("stream", "stream_from_c", "onnx", "counting_loop")
    return [Row("streaming", case, INFERENCE, sides, tails=tails) for case in some]


def _int8(_) -> list[Row]:
    steps = _one_step_cases((128, 256, 512, 1024, 2048))
    sequences = [
        Case(f"lstm_{H}_t50_b{B}", (), "lstm", 1, 1, H, 0, H, 50, B, 0.0)
        for H in (128, 512)
        for B in (1, 16)
    ]
    peers = (
        Side("onnx_int8", "onnxruntime", "int8"),
        ONNX,
        Side("torch_int8", "torch", "int8"),
        TORCH,
    )
    streams = (Side("int8", "own_stream_c", "int8"), Side("float32", "own_stream_c"))
    networks = (Side("int8", "own_runtime", "int8"), Side("float32", "own_runtime"))
    return _rows("int8", steps, (*streams, *peers), (INFERENCE,)) + _rows(
        "int8", sequences, (*networks, *peers), (INFERENCE,)
    )


def _runtime(_) -> list[Row]:
    cold = Side("cold_call", drivers.COLD_CALL)
    sides = (Side("runtime", "own_runtime"), TORCH, ONNX, cold)
    return _rows("runtime", cases.random_cases(200), sides, (INFERENCE,))


def _training_flag(_) -> list[Row]:
    names = ("lstm_256_b1", "lstm_256_b16", "lstm_512_b1", "lstm_512_b16", "lstm_1024_b16")
    some = [cases.read_cases()[name] for name in names]
    sides = (
        Side("is_training", "own_saved_training"),
        Side("is_inference", "own_saved"),
    )
    return _rows("training_flag", some, sides, (INFERENCE,))


def _skip_input(_) -> list[Row]:
    names = (
        *("lstm_512_b1", "lstm_512_b16", "lstm_512_b64", "lstm_256_b16", "lstm_650x2_b20"),
        *("gru_1024_b1", "gru_512_b64", "gru_512_b32_t1", "relu_1760_b16", "tanh_512_b64"),
    )
    sides = (Side("skip_input", drivers.SKIP_INPUT), Side("linear_input", "own_op"))
    return _rows("skip_input", [cases.read_cases()[name] for name in names], sides)


def _layer(_) -> list[Row]:
    gate = [c for c in cases.in_set("gate") if c.output_size == c.num_units]
    # No stateful layers are measured with dropout between them.
    gate += [
        dataclasses.replace(c, name=f"{c.name}_no_dropout", dropout=0.0)
        for c in gate
        if c.dropout > 0 and c.num_dirs == 1
    ]
    others = (Side("stateful_layer", "own_stateful"), Side("cudnn_layer", "own_cudnn_layer"))
    return _rows("layer", gate, (LAYER, KERAS, OP, *others))


def _memory(_) -> list[Row]:
    return [Row("memory", case, TRAINING, (OP, TORCH), MEMORY) for case in cases.in_set("gate")]


def _sweep(_, seed: int = 0) -> list[Row]:
    rows = []
    for case in cases.random_cases(200, seed):
        projects = case.output_size != case.num_units
        sides = (OP, TORCH) if projects else (OP, LAYER, KERAS, TORCH, ONNX)
        rows += _rows("sweep", [case], sides)
    return rows


# In the order of `all`. The engine's own benchmark (engine.py) is one more.
EXPERIMENTS = {
    "quick": _quick,
    "gate": _gate,
    "ragged": _ragged,
    "projection": _projection,
    "bidirectional": _bidirectional,
    "bfloat16": _bfloat16,
    "threads": _threads,
    "scaling": _scaling,
    "avx2": _avx2,
    "streaming": _streaming,
    "runtime": _runtime,
    "int8": _int8,
    "training_flag": _training_flag,
    "skip_input": _skip_input,
    "layer": _layer,
    "memory": _memory,
    "sweep": _sweep,
}
ENGINE = "engine"
ALL = "all"


def own_sides(threads: int) -> set[str]:
    """The sides of all groups that are this library, and their tails, for a run's threads."""
    rows, _ = plan([ALL, "quick"], threads)
    return set().union(*(row.own_sides() for row in rows))


def all_cases() -> dict[str, Case]:
    """The cases of all groups, by their names."""
    rows, _ = plan([ALL, "quick"], threads=1)
    return {row.case.name: row.case for row in rows} | cases.read_cases()


def plan(names: list[str], threads: int) -> tuple[list[Row], bool]:
    """Returns the measurements of experiments and single cases, and whether the engine's belong.

    Args:
      names: of EXPERIMENTS, of cases, "engine" or "all"; "sweep:SEED" draws other shapes.
      threads: of the run.

    Raises:
      ValueError: there is no such name.
    """
    known = cases.read_cases()
    rows: list[Row] = []
    has_engine = False
    everything = [*(e for e in EXPERIMENTS if e != "quick"), ENGINE]  # `gate` has its cases
    meant = [one for name in names for one in (everything if name == ALL else [name])]
    for name in dict.fromkeys(meant):
        group, _, seed = name.partition(":")
        if name == ENGINE:
            has_engine = True
            rows += _rows("engine", cases.in_set("roofline"), (OP,), (INFERENCE,))
        elif group == "sweep" and seed.isdecimal():
            rows += _sweep(threads, int(seed))
        elif name in EXPERIMENTS:
            rows += EXPERIMENTS[name](threads)
        elif name in known:
            rows += _rows("single", [known[name]], (OP, LAYER, *ALL_PEERS))
        else:
            raise ValueError(
                f"There is no case or group of cases {name!r}; the groups are "
                f"{', '.join([*EXPERIMENTS, ENGINE, ALL])}; cases are in benchmarks/cases.csv."
            )
    return rows, has_engine
