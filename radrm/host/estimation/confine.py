"""Limits a trace before it runs a user's code: no network, limited time, memory and processes.

The kernel enforces the limits, so they hold even if the trace's parent and the daemon die.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import math
import os
import re
import resource
import socket
import struct

from radrm.host.estimation.kernel import (
    NEW_IPC,
    NEW_MOUNTS,
    NEW_NET,
    NEW_PIDS,
    NEW_USER,
    NEW_UTS,
)
from radrm.host.processes.procfs import read_stat

_OWN = NEW_MOUNTS | NEW_NET | NEW_PIDS | NEW_IPC | NEW_UTS
WAYS = (_OWN, _OWN | NEW_USER)
"""Namespaces to try. Root needs no user namespace, and other users have no rights without one."""
MOST_PROCESSES = 512
"""Processes and threads of one trace."""
_CPUS = 4
"""The limit of CPU time is this many CPUs, busy for the trace's whole time. A trace uses one."""
_COUNTED_APART = 5, 14
"""Since this kernel RLIMIT_NPROC counts only processes in the same user namespace."""
_PR_SET_CHILD_SUBREAPER = 36
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1
_MOST_SETTING = 64
_SETTINGS = {
    "user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=10000"),
    "kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""Settings of the kernel by which users may have no namespaces, or may mount nothing there."""

_libc = ctypes.CDLL(None, use_errno=True)


def cause(refusal: str) -> str:
    """Why this machine allows no sandbox, and what to do. `refusal` is what the kernel said."""
    step = "in a container, give it CAP_SYS_ADMIN; else let root run the daemon"
    for name, (value, change) in _SETTINGS.items() if os.geteuid() else ():
        with contextlib.suppress(OSError), open(f"/proc/sys/{name}") as file:
            if file.read(_MOST_SETTING).strip() == value:
                step = f"{change}, or let root run the daemon"
    return f"this machine allows no sandbox for traces ({refusal}); {step}"


def map_users(pid: int) -> None:
    """Let a child in a new user namespace keep its user.

    Root maps all users to themselves, another user only itself. Raises `OSError` if the kernel
    refuses.
    """
    if os.geteuid() == 0:
        users, groups = map(_everybody, ("uid_map", "gid_map"))
    else:
        users, groups = (f"{n} {n} 1\n" for n in (os.geteuid(), os.getegid()))
        # The kernel demands this before an unprivileged user may write `gid_map`.
        _write(f"/proc/{pid}/setgroups", "deny")
    _write(f"/proc/{pid}/uid_map", users)
    _write(f"/proc/{pid}/gid_map", groups)


def _everybody(name: str) -> str:
    """All users or groups that there are here, each as itself."""
    with open(f"/proc/self/{name}") as file:
        rows = [line.split() for line in file]
    return "".join(f"{start} {start} {count}\n" for start, _, count in rows)


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


def limit(uid: int, memory_bytes: int, seconds: float, apart: bool) -> None:
    """Set the limits of this process. Programs that it executes or starts inherit them.

    `apart`: it has a user namespace of its own. Without one the kernel counts all processes of
    the user, so the limit is their present number plus those of a trace.
    """
    processes = MOST_PROCESSES if apart and _kernel() >= _COUNTED_APART else None
    if processes is None:
        processes = tasks_of(uid) + MOST_PROCESSES
    _set(resource.RLIMIT_CORE, 0)
    # RLIMIT_DATA and not RLIMIT_AS: PyTorch maps far more address space than it writes to.
    _set(resource.RLIMIT_DATA, memory_bytes)
    _set(resource.RLIMIT_FSIZE, memory_bytes // 2)
    _set(resource.RLIMIT_CPU, math.ceil(seconds) * _CPUS)
    _set(resource.RLIMIT_NPROC, processes)


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
