"""Reads what ThreadSanitizer reports of a process in which this library alone is watched.

    .venv/bin/python -m tests.reliability.thread_reports LIBRARY REPORT...

TensorFlow, Python and NumPy were compiled without ThreadSanitizer, which then does not see their
locks: most of what it reports is ordered by them. So a report counts if all accesses in it are this
library's, and none is in a kernel's constructor or destructor: TensorFlow calls no kernel before it
is made, or after it is gone. Prints what counts, with functions and lines, and fails if there is
any. Races on what all kernels share are not seen where one of them is just made or destroyed.
The reports come from TSAN_OPTIONS=symbolize=0: names of TensorFlow's functions would take minutes.
"""

import pathlib
import re
import subprocess

from absl import app

# Libraries of C and C++, whose functions watched code calls.
_CALLED = ("libtsan.so", "libc.so", "libstdc++.so")
_ACCESS = re.compile(r"(?:atomic )?(?:read|write) of size", re.IGNORECASE)
_FRAME = re.compile(r"\(([^()]+)\+(0x[0-9a-f]+)\)")
_LIFE_OF_A_KERNEL = re.compile(r"::~\w*Kernel\(|\bNewKernelOfType<|\bNew\w+Kernel\(")


def split(text: str) -> list[str]:
    """The reports in what ThreadSanitizer writes."""
    return [part for part in text.split("=" * 18) if "WARNING: ThreadSanitizer: " in part]


def is_of_library(report: str, library: str) -> bool:
    """Whether code of the library, given by the name of its file, made all accesses."""
    makers = {_maker(access) for access in _accesses(report)}
    return makers == {library}


def is_ordered_by_tensorflow(report_with_names: str) -> bool:
    """Whether a kernel is made or destroyed in one of the accesses."""
    return any(_LIFE_OF_A_KERNEL.search(access) for access in _accesses(report_with_names))


def with_names(reports: list[str], library: pathlib.Path) -> list[str]:
    """The reports with functions and lines of the library in front of its frames."""
    frames = {
        match[0]: match[2]
        for report in reports
        for match in _FRAME.finditer(report)
        if pathlib.PurePath(match[1]).name == library.name
    }
    lines = subprocess.run(
        ["addr2line", "-Cfpe", library],
        input="\n".join(frames.values()),
        check=True,
        capture_output=True,
        text=True,
    ).stdout.splitlines()
    names = dict(zip(frames, lines, strict=True))
    return [
        _FRAME.sub(lambda match: f"{names.get(match[0], '')} {match[0]}".lstrip(), report)
        for report in reports
    ]


def _accesses(report: str) -> list[str]:
    return [part for part in report.split("\n\n") if _ACCESS.search(part)]


def _maker(access: str) -> str | None:
    """The file whose code made an access; None if ThreadSanitizer no longer knows."""
    names = [pathlib.PurePath(path).name for path, _ in _FRAME.findall(access)]
    return next((name for name in names if not name.startswith(_CALLED)), None)


def main(arguments):
    library, *paths = map(pathlib.Path, arguments[1:])
    reports = [report for path in paths for report in split(path.read_text(errors="replace"))]
    own = with_names([r for r in reports if is_of_library(r, library.name)], library)
    found = [report for report in own if not is_ordered_by_tensorflow(report)]
    print(*found, sep="\n")
    if not own:  # of kernels that are made and destroyed there are always some
        raise SystemExit("There are no reports of this library: was it watched?")
    print(f"{len(reports)} reports, {len(own)} of this library's code alone, {len(found)} count.")
    return 1 if found else 0


if __name__ == "__main__":
    app.run(main)
