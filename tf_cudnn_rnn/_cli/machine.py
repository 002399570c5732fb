"""What Linux tells of the processor."""

import contextlib
import os
import pathlib
import platform
import re
import time

CPUS = pathlib.Path("/sys/devices/system/cpu")


def _read(path: pathlib.Path) -> str:
    """The text of a small file; "" if there is none."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text().strip()
    return ""


def cpu_name() -> str:
    """The model of the processor."""
    match = re.search(r"^model name\s*:\s*(.+)$", _read(pathlib.Path("/proc/cpuinfo")), re.M)
    return match[1] if match else platform.processor() or platform.machine()


def num_cpus() -> int:
    """The processors that this process may use."""
    with contextlib.suppress(AttributeError):  # not on Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cpu_limit() -> float | None:
    """How many processors' time a container lets its processes have; None if as much as there is.

    More threads than that wait for each other.
    """
    quota, _, period = _read(pathlib.Path("/sys/fs/cgroup/cpu.max")).partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        return int(quota) / int(period)
    return None


def caches(cpus: pathlib.Path = CPUS) -> list[str]:
    """The caches of the first processor, such as "L2 512 KiB", and how many share each.

    Args:
      cpus: the system's folder of processors.
    """
    found = []
    for folder in sorted((cpus / "cpu0" / "cache").glob("index*")):
        level, kind, kib = (_read(folder / name) for name in ("level", "type", "size"))
        if not level or not kib or kind == "Instruction":
            continue
        letter = "d" if kind == "Data" else ""
        shared = _num_in_list(_read(folder / "shared_cpu_list"))
        size = re.sub(r"K$", " KiB", kib)
        by = f" for {shared} processors" if shared > 1 else ""
        found.append(f"L{level}{letter} {size}{by}")
    return found


def _num_in_list(text: str) -> int:
    """How many numbers a list such as "0-3,8" has."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        if not first.isdigit() or (last and not last.isdigit()):
            return 0
        count += int(last or first) - int(first) + 1
    return count


def busy_part(seconds: float = 0.3) -> float:
    """The part of all processors' time that goes to programs now; 0 where nobody counts.

    Args:
      seconds: to watch, in which this process has nothing to do.
    """
    before = _ticks()
    time.sleep(seconds)
    idle, all_ticks = (after - first for after, first in zip(_ticks(), before, strict=True))
    return 1 - idle / all_ticks if all_ticks > 0 else 0.0


def _ticks() -> tuple[int, int]:
    """Of the system's clock: those of processors without work, and all."""
    match = re.match(r"cpu((?: +\d+){5,})", _read(pathlib.Path("/proc/stat")))
    if not match:
        return 0, 0
    ticks = [int(number) for number in match[1].split()][:8]
    return ticks[3] + ticks[4], sum(ticks)  # idle, and waiting for a disk


def available_memory() -> int | None:
    """The bytes that programs can still have; None where the system does not tell."""
    match = re.search(r"^MemAvailable:\s*(\d+) kB$", _read(pathlib.Path("/proc/meminfo")), re.M)
    return int(match[1]) * 1024 if match else None
