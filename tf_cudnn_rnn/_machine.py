"""What Linux tells of the processors, for reports."""

import contextlib
import os
import pathlib
import platform
import re
import time
from typing import NamedTuple

CPUS = pathlib.Path("/sys/devices/system/cpu")


def _read(path: pathlib.Path) -> str:
    """The text of a small file; "" if there is none."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        return path.read_text().strip()
    return ""


def cpu_facts(*names: str) -> str:
    """What /proc/cpuinfo says under the first of these names that it has; "" if under none."""
    text = _read(pathlib.Path("/proc/cpuinfo"))
    match = re.search(rf"^(?:{'|'.join(names)})\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else ""


def cpu_name() -> str:
    """The model of the processor."""
    return cpu_facts("model name") or platform.processor() or platform.machine()


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


class Cache(NamedTuple):
    """A cache of a processor.

    Attributes:
      level: 1 is the nearest.
      is_for_data: whether it holds data alone; others hold instructions, too.
      nbytes: of it.
      shared_by: how many processors.
    """

    level: int
    is_for_data: bool
    nbytes: int
    shared_by: int

    def __str__(self) -> str:
        """Such as "L2 512 KiB for 2 processors"."""
        letter = "d" if self.is_for_data else ""
        by = f" for {self.shared_by} processors" if self.shared_by > 1 else ""
        return f"L{self.level}{letter} {self.nbytes // 1024} KiB{by}"


def caches(cpus: pathlib.Path = CPUS) -> list[Cache]:
    """The caches of the first processor that hold data, as far as the system tells.

    Args:
      cpus: the system's folder of processors.
    """
    found = []
    for folder in sorted((cpus / "cpu0" / "cache").glob("index*")):
        level, kind = (_read(folder / name) for name in ("level", "type"))
        size = re.fullmatch(r"(\d+)([KMG]?)", _read(folder / "size"))
        if level.isdigit() and size and kind != "Instruction":
            nbytes = int(size[1]) * 1024 ** " KMG".index(size[2] or " ")
            shared = _num_in_list(_read(folder / "shared_cpu_list"))
            found.append(Cache(int(level), kind == "Data", nbytes, shared))
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
