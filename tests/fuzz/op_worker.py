"""Makes calls that come in as lines of JSON, and says of each whether it went as the rules say.

Run by tests/fuzz/ops.py in a process of its own, which a call may end.
"""

import json
import os
import re
import resource
import sys
import traceback

import tensorflow as tf

from tests.fuzz import op_calls, op_results, op_rules, op_runs, op_values

# What may be allocated besides what TensorFlow has when the first call comes.
_MEMORY_LIMIT = 2 << 30


def _check_refusal(call: dict, broken: list, refused: op_runs.Refused) -> None:
    kind = type(refused.error).__name__
    own = {each for rule in broken for each in rule.eager}
    allowed = {"InvalidArgumentError"}
    if refused.phase == "tracing":
        allowed = {"ValueError", "TypeError"} | (own & {"IndexError"})
    elif call["mode"] == "eager":
        allowed |= own
    if kind not in allowed:
        raise op_results.Finding(f"{refused}, not one of {sorted(allowed)}")
    if refused.phase == "tracing" and call["known"] == "nonzero":
        return  # what comes first may not be seen, and so another rule's words are right
    texts = [text for rule in broken for text in rule.texts]
    if all(rule.texts for rule in broken) and not any(text in str(refused) for text in texts):
        raise op_results.Finding(f"{refused}\nsays none of {texts}")
    if (
        call["mode"] == "function"
        and call["known"] == "all"
        and op_calls.is_own(call["op"])
        and any(rule.is_static for rule in broken)
        and refused.phase != "tracing"
    ):
        raise op_results.Finding(f"{refused}\ncould have been told while tracing")


def make(call: dict) -> str:
    """Makes the call; returns what came of it in a word, raises if that is wrong."""
    broken = op_rules.broken_rules(call)
    arrays = op_values.arrays_of(call, is_valid=not broken)
    try:
        outputs = op_runs.RUN[call["mode"]](call, arrays)
    except op_runs.Refused as refused:
        if not broken:
            raise op_results.Finding(f"a valid call was refused: {refused}") from refused
        _check_refusal(call, broken, refused)
        return type(refused.error).__name__
    if broken:
        raise op_results.Finding(f"accepted, but breaks: {[rule.rule for rule in broken]}")
    op_results.check(call, arrays, outputs)
    return "judged" if op_rules.is_judged(call) else "accepted"


def _limit_memory() -> None:
    with open("/proc/self/status") as status:
        kilobytes = int(re.search(r"VmSize:\s*(\d+) kB", status.read()).group(1))
    limit = kilobytes * 1024 + _MEMORY_LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def main():
    # Nobody else may write among the replies.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    tf.function(lambda: tf.zeros([3]))()
    _limit_memory()
    for line in sys.stdin:
        reply = {"outcome": "finding", "finding": None}
        try:
            reply["outcome"] = make(json.loads(line))
        except Exception as error:
            reply["finding"] = f"{type(error).__name__}: {error}"
            if not isinstance(error, op_results.Finding | AssertionError):
                reply["finding"] += "\n" + traceback.format_exc()
        print(json.dumps(reply), file=replies, flush=True)


if __name__ == "__main__":
    main()
