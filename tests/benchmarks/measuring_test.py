"""benchmarks/measuring.py, with made-up drivers: turns, failures, and rows measured again."""

import dataclasses

import pytest

from benchmarks import experiments, measuring, records
from benchmarks.experiments import MEMORY, Row
from benchmarks.measured import Results
from benchmarks.processes import Pool, Side, SideError
from tests.benchmarks import fakes
from tests.benchmarks.fakes import GRU, LSTM


@pytest.fixture(scope="module", autouse=True)
def without_tensorflow():
    with fakes.without_tensorflow():
        yield


SECONDS = 0.05  # of a turn


def side(name: str) -> Side:
    return Side(name, name)


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    with Pool(2, tmp_path_factory.mktemp("logs"), 1200, fakes.DRIVERS) as made:
        yield made


def measure(pool, case, *names: str) -> dict[str, records.Record]:
    row = Row("test", case, "training", tuple(map(side, names)))
    return {each.side: each for each in measuring.measure(pool, row, 3, SECONDS, 0.0)}


# ------------------------------------------------------------------------------------
# Measuring
# ------------------------------------------------------------------------------------


def test_sides_take_turns(pool):
    found = measure(pool, LSTM, "sleeper", "snail")
    assert [each.error for each in found.values()] == ["", ""]
    assert 1 <= found["sleeper"].median < found["snail"].median
    assert found["snail"].median >= 100
    assert {each.rounds for each in found.values()} == {3}
    # Each sleep may take longer than it should.
    assert found["sleeper"].steps > found["snail"].steps >= 3
    for each in found.values():
        assert each.minimum <= each.lower <= each.median <= each.upper
        assert (each.base, each.threads, each.unit) == ("sleeper", 2, "ms")
        assert each.flops == LSTM.flops("training")
        assert each.to_case() == LSTM


class Diary:
    """A pool that notes whose turn it is; each turn has a slow step that a median leaves out."""

    threads = 2

    def __init__(self):
        self.turns: list[str] = []

    def start(self, sides):
        return {}

    def build(self, sides, case, pass_):
        return {}

    def times(self, side, seconds):
        self.turns.append(side.name)
        return [len(self.turns) * 1e-3, 5.0, 0.0]

    def drop(self, sides):
        self.turns.append("drop")


def test_the_order_of_turns_rotates():
    diary = Diary()
    row = Row("test", LSTM, "training", (side("a"), side("b"), side("c")))
    a, _, _ = measuring.measure(diary, row, 4, 0.1, 0.0)
    assert "".join(name[0] for name in diary.turns) == "abcbcacababcd"
    # Its turns were the first, sixth, eighth and tenth.
    assert (a.minimum, a.median, a.rounds, a.steps) == (1.0, 7.0, 4, 12)


class Twice(Diary):
    """Each turn has time for two steps, the second one slower."""

    def times(self, side, seconds):
        return [1e-3, 2e-3]


def test_the_median_of_two_steps_is_between_them():
    row = Row("test", LSTM, "training", (side("a"),))
    (a,) = measuring.measure(Twice(), row, 3, 0.1, 0.0)
    assert (a.minimum, a.median, a.upper) == (1.5, 1.5, 1.5)


def test_failing_sides_leave_empty_cells(pool):
    found = measure(pool, GRU, "snail", "raiser", "mortal", "stillborn")
    assert {name: each.median for name, each in found.items()} == dict.fromkeys(found)
    assert found["snail"].error == f"{records.UNSUPPORTED}sleeps through no GRU"
    assert found["raiser"].error == "RuntimeError: no such thing"
    assert found["mortal"].error.startswith("the process ended with status 7; its last words")
    assert found["stillborn"].error == "does not start: ImportError: its library is not there"
    row = records.to_row(found["raiser"])
    assert (row["median"], row["minimum"], row["gflops_per_s"]) == ("", "", "")
    # The next row finds them well again, all but one.
    found = measure(pool, LSTM, "snail", "mortal", "stillborn")
    assert found["snail"].median >= 100 and found["mortal"].median < 100
    assert found["stillborn"].median is None


def test_a_silent_side_is_ended(tmp_path):
    with Pool(1, tmp_path, 1200, fakes.DRIVERS) as pool:
        assert pool.start([side("mute")]) == {}
        pool.answer_seconds = 0.2
        assert pool.build([side("mute")], LSTM, "training") == {"mute": "no answer within 0 s"}
        with pytest.raises(SideError, match="the process has ended"):
            pool.times(side("mute"), 1)


def test_peers_that_are_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.peers.python", lambda: None)
    with Pool(1, tmp_path) as pool:
        assert pool.start([side("torch")]) == {"torch": "PyTorch is not installed"}
        row = Row("test", LSTM, "training", (side("torch"),))
        assert measuring.measure(pool, row, 1, 0.01, 0.0)[0].error == "PyTorch is not installed"


def test_memory(pool):
    row = Row("test", LSTM, "training", (side("glutton"), side("raiser")), MEMORY)
    glutton, raiser = measuring.measure(pool, row, 5, 0.1, 0.0)
    assert glutton.unit == "MiB" and 63 < glutton.median < 80
    assert (raiser.median, raiser.error) == (None, "RuntimeError: no such thing")


class Streamer(Diary):
    """Of ten steps the first and the last one are slow."""

    def times(self, side, seconds):
        return [9e-3, *[1e-3] * 8, 5e-3]


def test_what_nearly_all_steps_take():
    row = Row("test", LSTM, "inference", (side("a"), side("b")), tails=("a",))
    a, slow, b = measuring.measure(Streamer(), row, 2, 0.1, 0.0)
    assert (a.side, slow.side, b.side) == ("a", "a, 99.9 %", "b")
    # The first tenth of a turn is left out.
    assert a.median == 1.0 and 4.8 < slow.median <= 5.0


def test_failing_sides_have_no_tail(pool):
    row = Row("test", GRU, "inference", (side("sleeper"), side("snail")), tails=("sleeper",))
    sleeper, slow, _ = measuring.measure(pool, row, 1, SECONDS, 0.0)
    assert sleeper.error == slow.error != "" and slow.median is None


# ------------------------------------------------------------------------------------
# Once more
# ------------------------------------------------------------------------------------


def test_rows_that_fail_a_bar_are_found():
    rows, _ = experiments.plan(["gate"], 2)

    def speed(name, case, pass_):
        return 10 if (name, case.name, pass_) == ("op", "lstm_64_b32", "training") else 1000

    results = Results(fakes.PREAMBLE, fakes.figures_of(rows, speed))
    slow = [row for row in rows if row.case.name == "lstm_64_b32" and row.pass_ == "training"]
    fast = [row for row in rows if row not in slow]
    found = measuring.failed(rows, results)
    assert set(slow) <= set(found)
    equal = measuring.failed(fast, results)  # as fast as PyTorch is not enough in training
    assert {row.pass_ for row in equal} == {"training"}
    assert measuring.failed(rows, Results(fakes.PREAMBLE, [])) == []


def test_rows_are_measured_again_in_turns(capsys):
    rows = [Row("test", case, "training", (side("a"), side("b"))) for case in (LSTM, GRU)]
    milliseconds = iter([1.0, 10.0, 7.0, 20.0, None, 60.0])
    order = []

    def measure_row(row):
        order.append(row.case.name)
        value = next(milliseconds)
        a, b = fakes.figures_of([row])
        error = "it ended" if value is None else ""
        return [dataclasses.replace(a, median=value, rounds=2, error=error), b]

    a, b, other, _ = list(measuring.again(rows, 3, measure_row))
    assert order == ["tiny_lstm", "tiny_gru"] * 3
    # Of the first one 1 and 7 ms, of the second one 10, 20 and 60.
    assert (a.side, a.median, a.rounds, a.error) == ("a", 4.0, 4, "")
    assert (b.side, b.case, other.median) == ("b", "tiny_lstm", 20.0)
    assert "[6/6, 0 min left] test tiny_gru training: a 60 ms" in capsys.readouterr().out


def test_a_peer_that_fails_each_time_keeps_its_figure():
    """Or a row that fails a bar would pass by failing."""
    row = Row("test", LSTM, "training", (side("a"), side("b")))
    a, b = fakes.figures_of([row])
    failed = dataclasses.replace(b, median=None, error="it ended")
    found = list(measuring.again([row], 2, lambda _: [a, failed]))
    assert [each.side for each in found] == ["a"]
    assert records.counted([a, b, *found])[1] == b


def test_if_this_library_fails_once_it_has_failed():
    row = Row("test", LSTM, "training", (Side("op", "own_op"), side("b")), tails=("op",))
    op, b, tail = fakes.figures_of([row])
    failed = dataclasses.replace(op, median=None, error="it ended")
    failed_tail = dataclasses.replace(tail, median=None, error="it ended")
    runs = iter([[op, tail, b], [failed, failed_tail, b], [op, tail, b]])
    found = list(measuring.again([row], 3, lambda _: next(runs)))
    assert found[:2] == [failed, failed_tail] and found[2].side == "b"
    # Nor is it measured until it does not fail.
    rows, _ = experiments.plan(["gate"], 2)
    all_found = fakes.figures_of(rows)
    slow = measuring.failed(rows, Results(fakes.PREAMBLE, all_found))
    first = (slow[0].case.name, slow[0].pass_)
    some = [
        dataclasses.replace(r, median=None, error="it ended")
        if (r.case, r.pass_, r.side) == (*first, "op")
        else r
        for r in all_found
    ]
    assert measuring.failed(rows, Results(fakes.PREAMBLE, some)) == slow[1:]
