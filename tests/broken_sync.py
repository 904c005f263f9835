"""A disk whose syncs fail: from now on the kernel answers EIO to every fsync and fdatasync of this process.

A seccomp filter does it, so everything above the kernel is real.  It cannot be taken back: use it in a process that ends.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

__all__ = ["AVAILABLE", "break_syncs"]

_NUMBERS = {"x86_64": (74, 75), "aarch64": (82, 83)}  # fsync, fdatasync
AVAILABLE = platform.system() == "Linux" and platform.machine() in _NUMBERS

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_LOAD_NUMBER, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _FAIL = 0x7FFF0000, 0x00050000 | errno.EIO


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))


def break_syncs() -> None:
    """For every thread of this process, and for good."""
    first, second = _NUMBERS[platform.machine()]
    code = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in (
            (_LOAD_NUMBER, 0, 0, 0),
            (_IF_EQUAL, 1, 0, first),
            (_IF_EQUAL, 0, 1, second),
            (_RETURN, 0, 0, _FAIL),
            (_RETURN, 0, 0, _ALLOW),
        )
    )
    program = _Program(len(code) // 8, code)
    libc = ctypes.CDLL(None, use_errno=True)
    syscall = {"x86_64": 317, "aarch64": 277}[platform.machine()]  # seccomp(2), which can reach the other threads
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.syscall(syscall, 1, 1, ctypes.byref(program)):
        raise OSError(ctypes.get_errno(), "the filter was refused")
