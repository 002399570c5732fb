"""`info`: what is here. It says what it can where TensorFlow does not fit, or is not there."""

import argparse
import contextlib
import math
import os
import pathlib
import platform
import sys
import time
import types
from typing import Any

import tf_cudnn_rnn
from tf_cudnn_rnn import _library, _machine
from tf_cudnn_rnn._cli import output, self_test, tensorflow

EPILOG = """\
examples:
  tf-cudnn-rnn info                what to paste into a report
  tf-cudnn-rnn info --json         the same, for programs

It takes a second longer than TensorFlow takes to start. If the library does
not load into TensorFlow, or a self-test fails, the exit code is 1. It tests
tf_cudnn_rnn.runtime in any case, which needs no TensorFlow.
"""
_PACKAGES = ("numpy", "keras", "tf_keras", "h5py", "protobuf", "torch", "onnx", "onnxruntime")
_PREFIX = "TF_CUDNN_RNN_"
# Those that mean something; docs/environment.md says what.
VARIABLES = tuple(_PREFIX + name for name in ("ISA", "MACHINE", "LOG", "BATCH_MAJOR_STATES"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's options."""
    parser.add_argument("--json", action="store_true", help="write a JSON object")


def _versions() -> dict[str, str]:
    """Versions of what is installed, without an import."""
    names = ("tensorflow", "tensorflow_cpu", "tf_nightly", "tf_nightly_cpu", *_PACKAGES)
    return {name: version for name in names if (version := _library.installed_version(name))}


def _library_facts() -> dict[str, Any]:
    """The libraries that there are, which one fits, and what built it."""
    facts: dict[str, Any] = {"for": list(_library.libraries()), "path": None}
    try:
        path = _library.library_path()
        facts |= {"path": path, "bytes": os.stat(path).st_size}
    except Exception as error:  # of a broken TensorFlow, whose version it asks
        return facts | {"error": str(error)}
    with contextlib.suppress(ImportError):
        built = _library.build_info()
        facts |= {"built_for": built.tensorflow, "compiler": built.compiler}
    return facts


def _runtime_facts() -> dict[str, Any]:
    """The library for use without TensorFlow, and whether it computes what it should."""
    facts: dict[str, Any] = {"path": None}
    try:
        from tf_cudnn_rnn import runtime

        path = runtime.library_path()
        facts |= {"path": path, "bytes": os.stat(path).st_size}
        facts["instruction_set"] = runtime.instruction_set()
        errors = self_test.run_runtime()
    except (ImportError, OSError, ValueError) as error:
        return facts | {"error": str(error)}
    networks = [
        {"rnn_mode": mode, "passed": self_test.is_right(error), "forward_error": _number(error)}
        for mode, error in errors.items()
    ]
    passed = all(network["passed"] for network in networks)
    return facts | {"self_test": {"passed": passed, "networks": networks}}


def _instruction_set() -> dict[str, str]:
    """Which one is in use, and why."""
    name = _library.instruction_set()
    wanted = os.environ.get("TF_CUDNN_RNN_ISA")
    if wanted:
        reason = f"the fastest one of this CPU that TF_CUDNN_RNN_ISA={wanted} allows"
    else:
        reason = "the fastest one of this CPU that the library knows"
    return {"name": name, "reason": reason}


def _ops_of_the_cpu() -> dict[str, list[str]]:
    """TensorFlow's own ops of cuDNN's networks: those with a CPU kernel now, and those without."""
    import tensorflow as tf
    from tensorflow.python.framework import kernels

    every = {name for name in dir(tf.raw_ops) if name.startswith("CudnnRNN")}
    on_cpu = {
        kernel.op
        for kernel in kernels.get_all_registered_kernels().kernel
        if kernel.op in every and kernel.device_type == "CPU"
    }
    return {"on_cpu": sorted(on_cpu), "not_on_cpu": sorted(every - on_cpu)}


def _threads(tf: types.ModuleType) -> dict[str, int]:
    """The threads of a call: TensorFlow's pool, of which 0 stands for all processors."""
    threading = tf.config.threading
    return {
        "intra_op": threading.get_intra_op_parallelism_threads() or _machine.num_cpus(),
        "inter_op": threading.get_inter_op_parallelism_threads() or _machine.num_cpus(),
    }


def _number(value: float) -> float | None:
    """For JSON, which has no NaN."""
    return value if math.isfinite(value) else None


def _loaded_facts() -> dict[str, Any]:
    """What only TensorFlow with the library in it can tell."""
    tf = tensorflow.load()
    facts: dict[str, Any] = {
        "instruction_set": _instruction_set(),
        "threads": _threads(tf),
        "built_in_ops": _ops_of_the_cpu(),
    }
    start = time.monotonic()
    results = self_test.run(tf)
    facts["self_test"] = {
        "passed": all(result.passed for result in results),
        "seconds": round(time.monotonic() - start, 2),
        "networks": [
            {
                "rnn_mode": result.rnn_mode,
                "passed": result.passed,
                "forward_error": _number(result.forward_error),
                "backward_error": _number(result.backward_error),
            }
            for result in results
        ],
    }
    return facts


def collect() -> dict[str, Any]:
    """Everything that can be found out; "problem" is a sentence if the library does not run."""
    tensorflow.quiet()  # before anything asks for its version
    facts: dict[str, Any] = {
        "version": tf_cudnn_rnn.__version__,
        "library": _library_facts(),
        "runtime": _runtime_facts(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "system": platform.platform(),
        "packages": _versions(),
        "cpu": {
            "name": _machine.cpu_name(),
            "processors": _machine.num_cpus(),
            "limit": _machine.cpu_limit(),
            "caches": [str(cache) for cache in _machine.caches()],
        },
        "environment": {
            name: value for name, value in sorted(os.environ.items()) if name.startswith(_PREFIX)
        },
        "problem": None,
    }
    try:
        facts |= _loaded_facts()
    except Exception as error:  # a broken TensorFlow may raise anything, and the rest is of use
        facts["problem"] = tensorflow.reason(error)
    return facts


def _self_test_text(test: dict[str, Any]) -> str:
    failed = [network for network in test["networks"] if not network["passed"]]
    if not failed:
        return (
            "passed: outputs and gradients of all four modes are those of a NumPy loop "
            f"({test['seconds']} s)"
        )
    named = ", ".join(
        f"{network['rnn_mode']} (outputs off by {network['forward_error']}, gradients by "
        f"{network['backward_error']})"
        for network in failed
    )
    return f"FAILED for {named}: results on this machine are wrong. Please report this."


def _runtime_text(runtime: dict[str, Any]) -> str:
    if "error" in runtime:
        return f"does not run: {runtime['error']}"
    where = f"{runtime['path']} ({output.size(runtime['bytes'])})"
    failed = [network for network in runtime["self_test"]["networks"] if not network["passed"]]
    if not failed:
        return f"{where}, which needs no TensorFlow; self-test passed"
    named = ", ".join(
        f"{network['rnn_mode']} (outputs off by {network['forward_error']})" for network in failed
    )
    return f"{where}: self-test FAILED for {named}. Please report this."


def _print(facts: dict[str, Any]) -> None:
    library, cpu, packages = facts["library"], facts["cpu"], facts["packages"]
    lines = [("tf_cudnn_rnn", facts["version"])]
    if library["path"]:
        lines.append(("library", f"{library['path']} ({output.size(library['bytes'])})"))
        if "built_for" in library:
            built_by = f"TensorFlow {library['built_for']}, by {library['compiler']}"
            lines.append(("  built for", built_by))
    else:
        lines.append(("library", "none that can be used"))
    lines.append(("  there are", f"for TensorFlow {', '.join(library['for']) or '(none)'}"))
    lines.append(("runtime", _runtime_text(facts["runtime"])))
    lines.append(("package", str(pathlib.Path(tf_cudnn_rnn.__file__).parent)))
    lines += [
        ("Python", f"{facts['python']}, {facts['executable']}"),
        ("packages", ", ".join(f"{name} {version}" for name, version in packages.items())),
        ("system", facts["system"]),
        ("CPU", cpu["name"]),
        ("  caches", ", ".join(cpu["caches"]) or "not told by the system"),
    ]
    limit = "" if cpu["limit"] is None else f"; a container limits them to {cpu['limit']:g}"
    lines.append(("  processors", f"{cpu['processors']} for this process{limit}"))
    environment = [
        f"{name}={value}" + ("" if name in VARIABLES else " (unknown: it does nothing)")
        for name, value in facts["environment"].items()
    ]
    lines.append(("environment", ", ".join(environment) or f"no variable {_PREFIX}..."))
    if "self_test" in facts:
        isa, threads, ops = facts["instruction_set"], facts["threads"], facts["built_in_ops"]
        lines += [
            ("instruction set", f"{isa['name']}: {isa['reason']}"),
            ("threads", f"{threads['intra_op']} for a call, {threads['inter_op']} calls at once"),
            ("ops on the CPU", ", ".join(ops["on_cpu"]) or "none"),
        ]
        if ops["not_on_cpu"]:
            lines.append(("  not on the CPU", ", ".join(ops["not_on_cpu"])))
        lines.append(("self-test", _self_test_text(facts["self_test"])))
    for label, text in lines:
        print(output.labelled(label, text))
    if facts["problem"]:
        print()
        print(output.wrapped(f"It does not run in TensorFlow here: {facts['problem']}"))


def run(options: argparse.Namespace) -> int:
    """Prints what is here; returns the exit code."""
    facts = collect()
    if options.json:
        output.print_json(facts)
    else:
        _print(facts)
    runs = facts["problem"] is None and facts["self_test"]["passed"]
    return output.GOOD if runs and _runtime_is_right(facts["runtime"]) else output.FAILED


def _runtime_is_right(runtime: dict[str, Any]) -> bool:
    """Whether it passed its test, or the package was built without it."""
    if "self_test" in runtime:
        return runtime["self_test"]["passed"]
    folder = pathlib.Path(tf_cudnn_rnn.__file__).with_name("_libraries")
    return not (folder / "librnn_runtime.so").exists()
