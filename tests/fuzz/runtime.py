"""Fuzzes tf_cudnn_rnn.runtime from Python: networks, calls and streams, of which some are wrong.

    .venv/bin/python -m tests.fuzz.runtime --calls=20000
    .venv/bin/python -m tests.fuzz.runtime --seconds=600 --seed=7

A call whose arguments are right gives the bits that plain arrays give, however its own lie in
memory; any other raises an error that names what is wrong. Exits with 1 if anything was found.
`faulthandler` tells where a process ended.
"""

import argparse
import collections
import faulthandler
import math
import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import tf_cudnn_rnn.runtime as runtime
from tests.fuzz import drawing
from tf_cudnn_rnn import weights

_BATCH = 100
_DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
_ERRORS = (TypeError, ValueError)
_OF_NUMPY = ("inhomogeneous shape", "setting an array element with a sequence")


class Given(NamedTuple):
    """An argument: what is passed, and the plain array that it stands for, None if it is wrong."""

    value: Any
    plain: Any


def _lies_elsewhere(draw, array: np.ndarray) -> np.ndarray:
    """The same values, in any order of memory."""
    kinds: list[Callable[[], np.ndarray]] = [
        lambda: array,
        lambda: np.asfortranarray(array),
        lambda: np.repeat(array, 2, axis=-1)[..., ::2],
        lambda: np.ascontiguousarray(array[::-1])[::-1],
        lambda: np.frombuffer(b"\0" + array.tobytes(), array.dtype, offset=1).reshape(array.shape),
    ]
    if array.dtype.isnative and array.dtype != ml_dtypes.bfloat16:
        kinds.append(lambda: array.astype(array.dtype.newbyteorder()))
    return draw(st.sampled_from(kinds))() if array.size else array


def _spoiled(draw, array: np.ndarray) -> Any:
    """Something else that a caller might pass in its place."""
    other = np.float32 if array.dtype == np.float64 else np.float64
    longer = [*array.shape[:-1], array.shape[-1] + 1]
    return draw(
        st.sampled_from(
            [
                array.astype(other),
                array.astype(np.int32),
                array[None, None],
                np.zeros(longer, array.dtype),
                array.ravel()[0] if array.size else array.astype(object),
                array.astype(object),
                np.ma.masked_array(array),
                "x",
                b"x",
                object(),
                {},
                [[["a"]]],
                [[1], [2, 3]],
            ]
        )
    )


def _floats(draw, shape: tuple[int, ...], dtype: Any, name: str, wrong: set[str]) -> Given:
    seed = draw(st.integers(0, 2**32 - 1))
    array = np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)
    if draw(st.integers(0, 11)) == 0:
        wrong.add(name)
        return Given(_spoiled(draw, array), None)
    if draw(st.integers(0, 7)) == 0 and dtype != ml_dtypes.bfloat16 and array.size:
        return Given(array.tolist(), array)
    return Given(_lies_elsewhere(draw, array), array)


def _network(draw) -> runtime.Network:
    mode = draw(st.sampled_from(["lstm", "gru", "rnn_relu", "rnn_tanh"]))
    units, inputs = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    skips = draw(st.integers(0, 5)) == 0
    projection = draw(st.integers(0, units - 1)) if mode == "lstm" else 0
    layout = weights.Layout(
        mode,
        draw(st.integers(1, 2)),
        units,
        units if skips else inputs,
        direction=draw(st.sampled_from(["unidirectional", "bidirectional"])),
        input_mode="skip_input" if skips else "linear_input",
        num_proj=projection,
    )
    values = np.random.default_rng(draw(st.integers(0, 99))).uniform(-0.5, 0.5, layout.size)
    num_threads = draw(st.integers(1, 2))
    if draw(st.integers(0, 4)) == 0:
        return runtime.Network(weights.quantize(values, layout), num_threads=num_threads)
    params = values.astype(draw(st.sampled_from(_DTYPES)))
    return runtime.Network(params, layout, num_threads=num_threads)


def _state(draw, network: runtime.Network, B: int, wrong: set[str]) -> Given:
    layout = network.layout
    planes = layout.num_layers * (2 if layout.direction == "bidirectional" else 1)
    shapes = {"state.h": (planes, B, layout.num_proj or layout.num_units)}
    if layout.rnn_mode == "lstm":
        shapes["state.c"] = (planes, B, layout.num_units)
    kind = draw(st.integers(0, 19))
    if kind == 0:
        wrong.add("state")
        return Given(draw(st.sampled_from([5, "ab", {}, object()])), None)
    parts = [_floats(draw, shape, network.dtype, name, wrong) for name, shape in shapes.items()]
    if kind == 1:
        wrong.add("state")
        return Given(tuple(part.value for part in parts) * 2, None)
    make = runtime.State if kind % 2 else lambda *given: tuple(given)
    return Given(make(*(part.value for part in parts)), tuple(part.plain for part in parts))


def _lengths(draw, B: int, T: int, wrong: set[str]) -> Given:
    plain = np.array(draw(st.lists(st.integers(0, T), min_size=B, max_size=B)), np.int32)
    kind = draw(st.integers(0, 9))
    if kind == 0:
        wrong.add("lengths")
        bad: list[Any] = [
            np.append(plain, 0),
            plain[None],
            "ab",
            object(),
        ]
        if B:
            for length in (-1, T + 1, 2**31 - 1, 2**32, 2**63 - 1):
                spoiled = plain.astype(np.int64)
                spoiled[draw(st.integers(0, B - 1))] = length
                bad += [spoiled, spoiled.tolist()]
            bad += [plain > 0, plain.astype(np.float32)]
        return Given(draw(st.sampled_from(bad)), None)
    types = [np.int8 if T < 100 else np.int32, np.int32, np.int64, np.uint64, ">i4"]
    value = plain.astype(draw(st.sampled_from(types)))
    return Given(value.tolist() if kind == 1 else _lies_elsewhere(draw, value), plain)


def _call(draw, network: runtime.Network) -> str:
    """Calls the network, and returns how it ended."""
    wrong: set[str] = set()
    T, B = draw(st.integers(0, 6)), draw(st.integers(0, 5))
    time_major = draw(st.booleans())
    x = _floats(
        draw,
        (T, B, network.layout.input_size) if time_major else (B, T, network.layout.input_size),
        network.dtype,
        "x",
        wrong,
    )
    lengths, state = Given(None, None), Given(None, None)
    if not wrong:  # or T and B are those of another array
        if draw(st.booleans()):
            lengths = _lengths(draw, B, T, wrong)
        if draw(st.booleans()):
            state = _state(draw, network, B, wrong)
    order: Any = time_major
    if draw(st.integers(0, 19)) == 0:
        wrong.add("time_major")
        order = draw(st.sampled_from([2, None, "yes", 0.0]))
    try:
        y, after = network(x.value, lengths.value, state.value, time_major=order)
    except _ERRORS as error:
        return _refused(error, wrong)
    assert not wrong, f"{wrong} were taken: {x.value!r:.99}, {lengths.value!r}, {state.value!r:.99}"
    expected_y, expected = network(x.plain, lengths.plain, state.plain, time_major=time_major)
    _assert_same(y, expected_y)
    _assert_same(after.h, expected.h)
    if expected.c is not None:
        _assert_same(after.c, expected.c)
    return "valid"


def _refused(error: Exception, wrong: set[str]) -> str:
    message = str(error)
    assert wrong, f"refused for no reason: {message}"
    # What NumPy makes no array of, it tells itself.
    tells = any(text in message for text in _OF_NUMPY)
    names = any(re.search(rf"\b{re.escape(name)}\b", message) for name in wrong)
    assert names or tells, f"{wrong} are wrong, but the error says: {message}"
    return type(error).__name__


def _assert_same(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape and found.dtype == expected.dtype
    assert found.tobytes() == expected.tobytes()


def _stream(draw, network: runtime.Network) -> str:
    """Goes through some steps, and compares them with calls of one step."""
    batch = draw(st.sampled_from([1, 1, 2, 3, 5, 0, -1, 2**63, 1.5, None, True]))
    is_right = isinstance(batch, int) and batch is not True and 1 <= batch <= 5
    wrong = set() if is_right else {"batch"}
    if network.layout.direction == "bidirectional":
        wrong.add("one direction")
    try:
        stream = network.stream(batch)
    except _ERRORS as error:
        return _refused(error, wrong)
    assert not wrong, f"{wrong} were taken"
    state = stream.state
    outcome = "valid"
    for _ in range(draw(st.integers(1, 4))):
        wrong = set()
        try:
            match draw(st.sampled_from(["step", "step", "reset", "state"])):
                case "step":
                    shape = (batch, network.layout.input_size)
                    x = _floats(draw, shape, network.dtype, "x", wrong)
                    y = stream.step(x.value)
                    assert not wrong, f"{x.value!r:.99} was taken"
                    expected, state = network(x.plain[:, None], state=state)
                    _assert_same(y, expected[:, 0])
                case "reset":
                    rows = _rows(draw, batch, wrong)
                    stream.reset(rows)
                    assert not wrong, f"{rows} were taken"
                    state = _after_reset(state, range(batch) if rows is None else rows)
                case "state":
                    given = _state(draw, network, batch, wrong)
                    stream.state = given.value
                    assert not wrong, f"{given.value!r:.99} was taken"
                    state = runtime.State(*given.plain)
        except _ERRORS as error:
            outcome = _refused(error, wrong)
        found = stream.state
        _assert_same(found.h, state.h)
        if state.c is not None:
            _assert_same(found.c, state.c)
    return outcome


def _rows(draw, batch: int, wrong: set[str]) -> Any:
    kind = draw(st.integers(0, 7))
    if kind == 0:
        wrong.add("rows")
        return draw(
            st.sampled_from([[batch], [0, -1], [2**63], [-(2**63)], [0.0], "0", 0, {0}, [[0]]])
        )
    if kind == 1:
        return None
    rows = draw(st.lists(st.integers(0, batch - 1), max_size=6))
    return np.array(rows, draw(st.sampled_from([np.int64, np.uint8]))) if kind == 2 else rows


def _after_reset(state: runtime.State, rows: Any) -> runtime.State:
    parts = [None if part is None else part.copy() for part in state]
    for part in parts:
        if part is not None:
            part[:, list(rows)] = 0
    return runtime.State(*parts)


class Fuzzer:
    """Draws networks and what is done with them, and counts how that ends."""

    def __init__(self):
        self.counts = collections.Counter()
        self.finding = None

    def run(self, seed: int, size: int) -> None:
        """Goes through `size` draws, as the seed has them; what fails becomes `finding`."""

        @drawing.draws(st.data(), seed, size)
        def use_network(data):
            network = _network(data.draw)
            use = data.draw(st.sampled_from([_call, _stream]))
            self.counts[use.__name__[1:], use(data.draw, network)] += 1

        try:
            use_network()
        except Exception as error:  # that no caller should see is a finding as well
            self.finding = f"seed {seed}: {type(error).__name__}: {error}"


def main():
    faulthandler.enable()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=float, help="20,000 unless --seconds says when to stop")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=1, help="of the first batch")
    arguments = parser.parse_args()
    if arguments.calls is None:
        arguments.calls = math.inf if arguments.seconds < math.inf else 20_000
    start, fuzzer, seed = time.monotonic(), Fuzzer(), arguments.seed
    while (
        fuzzer.finding is None
        and fuzzer.counts.total() < arguments.calls
        and time.monotonic() - start < arguments.seconds
    ):
        size = int(min(_BATCH, arguments.calls - fuzzer.counts.total()))
        # As a whole, for a draw that ends early is an error to Hypothesis.
        fuzzer.run(seed, size)
        seed += 1
        print(f"{fuzzer.counts.total()} calls, {time.monotonic() - start:.0f} s", flush=True)
    for (use, outcome), count in sorted(fuzzer.counts.items()):
        print(f"{use:8}{outcome:12}{count:8}")
    if fuzzer.finding is not None:
        print(f"FINDING {fuzzer.finding}")
    raise SystemExit(fuzzer.finding is not None)


if __name__ == "__main__":
    main()
