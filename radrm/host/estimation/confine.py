"""What is taken from a tracer before it runs a user's code: the network, time, processes.

The limits are the kernel's and stay with the tracer, whatever becomes of those who started
it. What this machine refuses is left out: the trace goes on without.
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

from radrm.host.attempts.procfs import read_stat

NEW_USER, NEW_NET = 0x10000000, 0x40000000
WAYS = (NEW_USER | NEW_NET, NEW_NET, 0)
"""What to try, the best first. In a user namespace of its own every user may have a network
namespace, and processes are counted for that trace alone."""
MOST_PROCESSES = 512
"""Processes and threads of one trace."""
_CPUS = 4
"""A trace uses one; so many may be busy all of its time before that is its end."""
_COUNTED_APART = 5, 14
"""Since this kernel RLIMIT_NPROC counts those in the same user namespace."""
_EVERYBODY = (1 << 32) - 1
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> bool:
    """Go into namespaces of our own; False where we may not."""
    return not flags or _libc.unshare(ctypes.c_int(flags)) == 0


def map_users(pid: int) -> None:
    """Let a child in a new user namespace be who it was: by root everybody keeps their number
    there, by anybody else just its own. Raises `OSError` where that is refused."""
    if os.geteuid() == 0:
        users = groups = f"0 0 {_EVERYBODY}\n"
    else:
        users, groups = (f"{n} {n} 1\n" for n in (os.geteuid(), os.getegid()))
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
    """Have 127.0.0.1 in a new network namespace: some code talks to itself."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_:
        name = struct.pack("16sh", b"lo", 0).ljust(40, b"\0")
        (flags,) = struct.unpack_from("16xh", fcntl.ioctl(any_, _SIOCGIFFLAGS, name))
        up = struct.pack("16sh", b"lo", flags | _IFF_UP).ljust(40, b"\0")
        fcntl.ioctl(any_, _SIOCSIFFLAGS, up)


def limit(uid: int, memory_mib: int, seconds: float, apart: bool) -> None:
    """Set the limits of this process, which are those of all that it becomes and starts.

    `apart`: it is in a user namespace of its own. Elsewhere the kernel counts all processes of
    the user, so that what they have now is added to what a trace may have.
    """
    memory_bytes = memory_mib << 20
    cpu_s = math.ceil(seconds) * _CPUS
    processes = MOST_PROCESSES if apart and _kernel() >= _COUNTED_APART else None
    if processes is None:
        processes = tasks_of(uid) + MOST_PROCESSES
    _set(resource.RLIMIT_CORE, 0)
    # Of what is written to alone: PyTorch maps far more than it ever touches.
    _set(resource.RLIMIT_DATA, memory_bytes)
    _set(resource.RLIMIT_CPU, cpu_s)
    _set(resource.RLIMIT_NPROC, processes)
    # The kernel ends it then (SIGALRM), should nobody else be there to do so.
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _set(which: int, most: int) -> None:
    """A lower limit that is in force already stays."""
    _, hard = resource.getrlimit(which)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(which, (most, most))


def tasks_of(uid: int) -> int:
    """How many processes and threads a user has now."""
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
    """Have all orphans among our descendants become our children, so that none escapes."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with(parent: int) -> None:
    """Have the kernel KILL this process when its parent dies. To be called when it has the
    user that it keeps: a change of user takes that back."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
