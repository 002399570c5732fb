"""What a run is stamped with: the machine, the versions, the sources; and who else is at work."""

import datetime
import os
import pathlib
import platform
import re
import subprocess

import tf_cudnn_rnn
from benchmarks import peers
from tf_cudnn_rnn import _library, _machine

_ROOT = pathlib.Path(__file__).resolve().parents[1]

# Of the flags in /proc/cpuinfo, those that the libraries choose their kernels by.
_ISA_FLAGS = r"(avx|avx2|fma|avx512\w+|avx_vnni|amx\w*|asimd|sve|bf16)"


def num_cpus() -> int:
    """The CPUs that this process may use."""
    return _machine.num_cpus()


def isa_flags() -> list[str]:
    """The vector instruction sets of the CPU."""
    flags = _machine.cpu_facts("flags", "Features").split()
    return sorted(flag for flag in flags if re.fullmatch(_ISA_FLAGS, flag))


def caches() -> dict[str, int]:
    """Bytes of each level: of one core, but of all cores for a level that cores share."""
    sizes = {}
    for cache in _machine.caches():
        is_shared = cache.shared_by > 1 and cache.level > 2
        sizes[f"l{cache.level}{' (shared)' if is_shared else ''}"] = cache.nbytes
    return sizes


def _git(*arguments: str) -> str:
    try:
        result = subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return ""
    return result.stdout.strip() if result.returncode == 0 else ""


def commit() -> str:
    """That of the sources, and whether they have changes."""
    head = _git("rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    return f"{head} with changes" if _git("status", "--porcelain") else head


def stamp(threads: int, groups: list[str]) -> dict[str, str]:
    """Returns the preamble of a run's CSV file."""
    packages = ("tensorflow_cpu", "tensorflow", "keras", "numpy")
    versions = {name: found for name in packages if (found := _library.installed_version(name))}
    versions |= {n: v for n, v in peers.versions().items() if n in ("torch", "onnxruntime", "onnx")}
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    environment = {k: v for k, v in os.environ.items() if k.startswith("TF_CUDNN_RNN_")}
    build = _library.build_info()
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "groups": ", ".join(groups),
        "cpu": _machine.cpu_name(),
        "isa": " ".join(isa_flags()),
        "instruction_set": tf_cudnn_rnn.instruction_set(),
        "cpus": str(num_cpus()),
        "threads": str(threads),
        "caches": ", ".join(f"{level}={size}" for level, size in caches().items()),
        "memory": f"{memory / 2**30:.0f} GiB",
        "system": f"{platform.platform()}, Python {platform.python_version()}",
        "tf_cudnn_rnn": f"{tf_cudnn_rnn.__version__}, commit {commit()}",
        "build": f"{build.compiler}, for TensorFlow {build.tensorflow}",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "environment": ", ".join(f"{k}={v}" for k, v in environment.items()) or "nothing set",
        "load": f"{os.getloadavg()[0]:.2f} (1 minute), {busy_cpus():.2f} CPUs busy",
    }


def busy_cpus(seconds: float = 1.0) -> float:
    """How many CPUs are at work while this process waits."""
    return _machine.busy_part(seconds) * (os.cpu_count() or 1)
