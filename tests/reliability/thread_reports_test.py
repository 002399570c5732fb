"""Which reports of ThreadSanitizer are taken for this library's own races."""

import pathlib
import shutil
import subprocess

import pytest

from tests.reliability import thread_reports

LIBRARY = "library.so"
_OWN = (
    "    #0 <null> <null> (libtsan.so+0x1)\n    #1 <null> <null> (libstdc++.so.6+0xa741c)\n"
    "    #2 <null> <null> (library.so+0x20)"
)
_KERNEL = "    #0 Forward::~ForwardKernel() at a.cc:1 (/b/library.so+0x30)"
_TENSORFLOW = "    #0 <null> <null> (/c/libtensorflow_framework.so.2+0x40)"
_UNKNOWN = "    [failed to restore the stack]"


def _report(first, second):
    return (
        f"WARNING: ThreadSanitizer: data race (pid=1)\n  Write of size 8 at 0x7b by thread T1:\n"
        f"{first}\n\n  Previous atomic read of size 4 at 0x7b by main thread:\n{second}\n\n"
        f"  Location is heap block of size 9 allocated by thread T2:\n{_TENSORFLOW}\n\nSUMMARY: .\n"
    )


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (_OWN, _OWN, True),
        (_OWN, _KERNEL, True),
        (_OWN, _TENSORFLOW, False),
        (_TENSORFLOW, _OWN, False),
        (_OWN, _UNKNOWN, False),
        (_UNKNOWN, _UNKNOWN, False),
    ],
)
def test_reports_of_the_library(first, second, expected):
    assert thread_reports.is_of_library(_report(first, second), LIBRARY) == expected


@pytest.mark.parametrize(
    ("access", "expected"),
    [
        (_OWN, False),
        (_KERNEL, True),
        ("    #0 OpKernel* NewKernelOfType<A>(B*) at a.cc:1 (/b/library.so+0x30)", True),
        ("    #0 NewForwardKernel(A*) at a.cc:1 (/b/library.so+0x30)", True),
        ("    #0 GuardedKernel::Compute(A*) at a.cc:1 (/b/library.so+0x30)", False),
    ],
)
def test_kernels_are_made_and_destroyed_alone(access, expected):
    assert thread_reports.is_ordered_by_tensorflow(_report(_OWN, access)) == expected


def test_a_log_is_split():
    line = "=" * 18
    log = (
        f"{line}\n{_report(_OWN, _OWN)}{line}\n{line}\n{_report(_OWN, _UNKNOWN)}{line}\nThe end.\n"
    )
    assert len(thread_reports.split(log)) == 2


@pytest.mark.skipif(not shutil.which("gcc"), reason="needs a compiler")
def test_frames_of_the_library_have_names(tmp_path):
    source, library = tmp_path / "a.c", tmp_path / LIBRARY
    source.write_text("int first(void) { return 1; }\nint second(void) { return 2; }\n")
    subprocess.run(["gcc", "-shared", "-g", "-o", library, source], check=True)
    symbols = subprocess.run(["nm", library], check=True, capture_output=True, text=True).stdout
    [begin] = [line.split()[0] for line in symbols.splitlines() if line.endswith(" T second")]
    frame = f"#0 <null> <null> ({library}+{hex(int(begin, 16) + 4)})"
    [named] = thread_reports.with_names([f"{frame}\n{_TENSORFLOW}"], pathlib.Path(library))
    assert f"second at {source}:2" in named
    assert _TENSORFLOW in named
