"""Calls of the C library for which Python has no function.

`ctypes` is imported at the first call, which takes milliseconds: a forker makes that one, and its
runners have them for nothing.
"""

from __future__ import annotations

import os
import signal
import struct
from functools import cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_CLONE3 = 435
"""The number of the system call, on x86-64 and on ARM."""
_INTO_CGROUP = 0x200000000
_ARGUMENTS = struct.Struct("=11Q")
"""flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid, set_tid_size,
cgroup"""


@cache
def library() -> Any:
    """The C library, and Python's own functions for C."""
    import ctypes

    found = ctypes.PyDLL(None)
    found.syscall.restype = ctypes.c_long
    found.syscall.argtypes = (ctypes.c_long, ctypes.c_char_p, ctypes.c_size_t)
    found.prctl.argtypes = (ctypes.c_int, *(ctypes.c_ulong,) * 4)
    return found


def prctl(option: int, value: int) -> bool:
    """Set an attribute of this process; False where the kernel refuses it."""
    try:
        return bool(library().prctl(option, value, 0, 0, 0) == 0)
    except (ImportError, OSError):
        return False


def clone_into(group: str) -> int | None:
    """Fork a child directly into a cgroup v2. Return its pid, and 0 in the child; None if that
    fails.

    The kernel needs some 10 ms to move a process into a group: it waits until no fork is under way
    on any CPU. A process that is born there costs nothing (`clone3` with `CLONE_INTO_CGROUP`, Linux
    5.7; source: clone(2)). The raw call does not reset the C library's locks, so the
    caller must have one thread. Python's fork hooks (`PyOS_BeforeFork` and so on) are called around
    it. Older kernels and the seccomp filters of containers refuse the call.
    """
    try:
        python = library()
        folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (ImportError, OSError):
        return None
    arguments = _ARGUMENTS.pack(_INTO_CGROUP, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, folder)
    python.PyOS_BeforeFork()
    pid: int = python.syscall(_CLONE3, arguments, len(arguments))
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    os.close(folder)
    return None if pid < 0 else pid
