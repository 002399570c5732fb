"""Where the kernel refuses AMX's registers, another instruction set computes, and rightly.

A filter of system calls (seccomp) refuses them here, as a sandbox may. On a CPU without AMX the
kernel would refuse them as well, and nobody asks: there this only shows that the filter does no
harm. tests/engine/cpu_features_test.cc has what is chosen on a CPU that has AMX.
"""

import ctypes
import errno
import platform
import struct

import pytest

import tf_cudnn_rnn
from tests.helpers import subprocesses
from tests.python import kernels_test

pytestmark = pytest.mark.skipif(
    (platform.system(), platform.machine()) != ("Linux", "x86_64"), reason="AMX is of x86-64"
)

_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA = 158, 0x1023, 18  # of Linux
_ANSWER = errno.EXDEV  # which no kernel gives: it is the filter's
_NO_FILTER = "no filter"


def _refuse() -> bool:
    """Lets the kernel refuse tile registers to this process from now on."""
    load, jump_if_equal, end = 0x20, 0x15, 0x06
    allow, fail = 0x7FFF0000, 0x00050000
    number, architecture, first_argument = 0, 4, 16  # places in the kernel's struct seccomp_data
    instructions = [
        (load, 0, 0, architecture),
        (jump_if_equal, 0, 5, 0xC000003E),  # x86-64
        (load, 0, 0, number),
        (jump_if_equal, 0, 3, _ARCH_PRCTL),
        (load, 0, 0, first_argument),
        (jump_if_equal, 0, 1, _REQUEST_PERMISSION),
        (end, 0, 0, fail | _ANSWER),
        (end, 0, 0, allow),
    ]
    filters = b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(filters)
    program = struct.pack("@HP", len(instructions), ctypes.addressof(buffer))
    set_no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    return (
        libc.prctl(set_no_new_privileges, 1, 0, 0, 0) == 0
        and libc.prctl(set_seccomp, filter_mode, program, 0, 0) == 0
    )


def _answer() -> int:
    """The error with which the kernel refuses tile registers; 0 if it does not."""
    libc = ctypes.CDLL(None, use_errno=True)
    refused = libc.syscall(_ARCH_PRCTL, _REQUEST_PERMISSION, _TILE_DATA) != 0
    return ctypes.get_errno() if refused else 0


def judge_where_tile_registers_are_refused() -> None:
    """Prints the instruction set that was taken, after its results have been judged."""
    if not _refuse():
        print(_NO_FILTER)
        return
    assert _answer() == _ANSWER
    kernels_test.assert_tails_judged(tf_cudnn_rnn.instruction_set())
    print(tf_cudnn_rnn.instruction_set())


def test_amx_that_the_kernel_refuses_is_not_used():
    taken = subprocesses.run(judge_where_tile_registers_are_refused).strip()
    if taken == _NO_FILTER:
        pytest.skip("this system takes no filters of system calls (seccomp)")
    best = tf_cudnn_rnn.instruction_set()
    if best == "avx512_amx":
        assert taken in ("avx512_bf16", "avx512")
    else:
        assert taken == best
