"""Limits a tracer before it runs a user's code: no network, limited time, memory and processes.

The kernel enforces the limits, so they hold even if the tracer's parent and the daemon die. If
this machine refuses a limit, the trace runs without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import os
import re
import resource
import signal
import socket
import struct

from radrm.host.processes.procfs import read_stat

NEW_USER, NEW_NET = 0x10000000, 0x40000000
WAYS = (NEW_USER | NEW_NET, NEW_NET, 0)
"""Namespaces to try, the best first. In its own user namespace any user may have a network
namespace, and the kernel counts only that trace's processes."""
MOST_PROCESSES = 512
"""Processes and threads of one trace."""
_CPUS = 4
"""The limit of CPU time is this many CPUs, busy for the trace's whole time. A trace uses one."""
_COUNTED_APART = 5, 14
"""Since this kernel RLIMIT_NPROC counts only processes in the same user namespace."""
_EVERYBODY = (1 << 32) - 1
_PR_SET_CHILD_SUBREAPER = 36
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> bool:
    """Move this process into namespaces of its own. False if the kernel refuses."""
    return not flags or _libc.unshare(ctypes.c_int(flags)) == 0


def map_users(pid: int) -> None:
    """Let a child in a new user namespace keep its user.

    Root maps all users to themselves, another user only itself. Raises `OSError` if the kernel
    refuses.
    """
    if os.geteuid() == 0:
        users = groups = f"0 0 {_EVERYBODY}\n"
    else:
        users, groups = (f"{n} {n} 1\n" for n in (os.geteuid(), os.getegid()))
        # The kernel demands this before an unprivileged user may write `gid_map`.
        _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", users)
    _write(f"/proc/{pid}/gid_map", groups)


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def open_loopback() -> None:
    """Switch on 127.0.0.1 in a new network namespace: some programs connect to themselves."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        name = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(any_, _SIOCGIFFLAGS, name))
        up = struct.pack("16sh", b"lo", flags | _IFF_UP).ljust(40, b"\0")
        fcntl.ioctl(any_, _SIOCSIFFLAGS, up)


def limit(uid: int, memory_mib: int, seconds: float, apart: bool) -> None:
    """Set the limits of this process. Programs that it executes or starts inherit them.

    `apart`: it has a user namespace of its own. Without one the kernel counts all processes of
    the user, so the limit is their present number plus those of a trace.
    """
    memory_bytes = memory_mib << 20
    cpu_s = math.ceil(seconds) * _CPUS
    processes = MOST_PROCESSES if apart and _kernel() >= _COUNTED_APART else None
    if processes is None:
        processes = tasks_of(uid) + MOST_PROCESSES
    _set(resource.RLIMIT_CORE, 0)
    # RLIMIT_DATA and not RLIMIT_AS: PyTorch maps far more address space than it writes to.
    _set(resource.RLIMIT_DATA, memory_bytes)
    _set(resource.RLIMIT_CPU, cpu_s)
    _set(resource.RLIMIT_NPROC, processes)
    # SIGALRM ends the process even if its parent and the daemon are dead.
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _set(which: int, most: int) -> None:
    """Set the soft and the hard limit, but never above the present hard limit."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def tasks_of(uid: int) -> int:
    """The number of processes and threads that a user has now."""
    found = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    stat = read_stat(int(name))
                    found += stat.threads if stat is not None else 0
    return found


def _kernel() -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])


def become_reaper() -> None:
    """Make this process the parent of its orphaned descendants, so that it can end them all."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
