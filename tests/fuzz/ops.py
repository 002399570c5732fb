"""Fuzzes all ops: draws calls, makes them in another process, and compares with the rules.

    .venv/bin/python -m tests.fuzz.ops --calls=20000
    .venv/bin/python -m tests.fuzz.ops --seconds=600 --seed=7 --ops CudnnRNNV3 "own CudnnRNNV3"
    .venv/bin/python -m tests.fuzz.ops --replay='{"op": ...}'

Calls come from Hypothesis, which makes those that fail smaller. Each is made in a worker process,
so that one that ends its process is told by name; a worker serves one batch. Exits with 1 if
anything was found. What is valid, and what an error must say, op_rules.py knows.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import select
import subprocess
import sys
import tempfile
import time

import hypothesis

from tests.fuzz import drawing, op_calls, op_draws, op_rules

_ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 1000
# Seconds, for what hangs; a call takes milliseconds.
_TIME_LIMIT = 1200
_SHRINKING_LIMIT = 60  # seconds
_MOST_FINDINGS = 5

ENVIRONMENT = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "TF_ENABLE_ONEDNN_OPTS": "0",
    # A kernel's first call and its second then drop the same, so that the judge knows what.
    "TF_CUDNN_RESET_RND_GEN_STATE": "1",
    # malloc fills memory with 0xFE, which the judge would see in any output; see op_worker.py.
    "MALLOC_PERTURB_": "1",
}


class Worker:
    """A process that makes calls."""

    def __init__(self):
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.op_worker"],
            cwd=_ROOT,
            env={**os.environ, **ENVIRONMENT},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def make(self, call: dict) -> dict:
        """Returns "outcome", a word, and "finding", None if all is well. Ends with the call."""
        self._process.stdin.write(json.dumps(call).encode() + b"\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], _TIME_LIMIT)
        line = self._process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)
        if not ready:
            self._process.kill()
        status = self._process.wait()
        self._log.seek(0)
        text = self._log.read().decode(errors="replace")[-3000:]
        what = f"the process ended with {status}" if ready else f"no answer in {_TIME_LIMIT} s"
        return {"outcome": "ended", "finding": f"{what}\n{text}"}

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()


class Fuzzer:
    """Makes batches of calls, and counts them."""

    def __init__(self, ops=op_calls.OPS):
        self._ops = ops
        self.calls = 0
        self.counts = collections.Counter()  # by (op, mode, outcome)
        self.findings = []
        self._worker = None

    def run_batch(self, seed: int, size: int, deadline: float = math.inf) -> None:
        """Makes `size` calls, as many of each op, as the seed has them, in one new process."""
        self._worker = Worker()
        try:
            for i, op in enumerate(self._ops):
                share = size * (i + 1) // len(self._ops) - size * i // len(self._ops)
                if share > 0:
                    self._run_op(op, seed, share, deadline)
        finally:
            self._worker.close()

    def _run_op(self, op: str, seed: int, size: int, deadline: float) -> None:
        failed, smallest_by = None, 0.0

        @drawing.draws(op_draws.calls_of(op), seed, size)
        def make_all(call):
            nonlocal failed, smallest_by
            if time.monotonic() > (deadline if failed is None else smallest_by):
                return
            if not self._worker.is_alive:
                self._worker.close()
                self._worker = Worker()
            reply = self._worker.make(call)
            self.calls += 1
            if failed is None:
                self.counts[op, call["mode"], reply["outcome"]] += 1
            if reply["finding"] is not None:
                if failed is None:
                    smallest_by = time.monotonic() + _SHRINKING_LIMIT
                failed = (call, reply["finding"])  # the last one is the smallest
                raise AssertionError

        try:
            make_all()
        except (AssertionError, hypothesis.errors.Flaky):  # flaky: there was no time
            call, finding = failed
            self.findings.append(f"seed {seed}: {finding}\n  --replay='{json.dumps(call)}'")


def _summary(fuzzer: Fuzzer) -> str:
    lines = []
    modes = ("eager", "function", "graph")
    head = "".join(f"{title:>10}" for title in (*modes, "valid", "invalid", "all"))
    lines.append(f"{'op':32}{head}")
    for op in op_calls.OPS:
        counts = {key[1:]: n for key, n in fuzzer.counts.items() if key[0] == op}
        by_mode = [sum(n for (mode, _), n in counts.items() if mode == m) for m in modes]
        valid = sum(n for (_, outcome), n in counts.items() if outcome in ("judged", "accepted"))
        total = sum(by_mode)
        numbers = (*by_mode, valid, total - valid, total)
        lines.append(f"{op:32}" + "".join(f"{number:10}" for number in numbers))
    outcomes = collections.Counter()
    for (_, _, outcome), number in fuzzer.counts.items():
        outcomes[str(outcome)] += number
    lines.append(", ".join(f"{outcome}: {n}" for outcome, n in outcomes.most_common()))
    return "\n".join(lines)


def _replay(text: str) -> int:
    worker = Worker()
    call = json.loads(text)
    print("breaks:", [rule.rule for rule in op_rules.broken_rules(call)] or "nothing")
    reply = worker.make(call)
    worker.close()
    print(reply["finding"] or reply["outcome"])
    return reply["finding"] is not None


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=float, help="20,000 unless --seconds says when to stop")
    parser.add_argument("--seconds", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=1, help="of the first batch")
    parser.add_argument(
        "--ops", nargs="+", metavar="OP", default=op_calls.OPS, choices=op_calls.OPS
    )
    parser.add_argument("--replay", help="one call, as a finding prints it")
    arguments = parser.parse_args()
    if arguments.replay is not None:
        raise SystemExit(_replay(arguments.replay))
    if arguments.calls is None:
        arguments.calls = math.inf if arguments.seconds < math.inf else 20_000
    start = time.monotonic()
    fuzzer, seed = Fuzzer(arguments.ops), arguments.seed
    try:
        while (
            fuzzer.calls < arguments.calls
            and time.monotonic() - start < arguments.seconds
            and len(fuzzer.findings) < _MOST_FINDINGS
        ):
            found = len(fuzzer.findings)
            size = int(min(BATCH, arguments.calls - fuzzer.calls))
            fuzzer.run_batch(seed, size, start + arguments.seconds)
            for finding in fuzzer.findings[found:]:
                print(f"FINDING {finding}", flush=True)
            seconds = time.monotonic() - start
            print(f"{fuzzer.calls} calls, {seconds:.0f} s, seed {seed}", flush=True)
            seed += 1
    except KeyboardInterrupt:
        pass  # what has been done is told
    seconds = time.monotonic() - start
    print(_summary(fuzzer))
    print(f"{fuzzer.calls} calls, {seconds:.0f} s, {len(fuzzer.findings)} findings")
    raise SystemExit(len(fuzzer.findings) > 0)


if __name__ == "__main__":
    main()
