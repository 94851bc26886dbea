"""Identify a process, and signal that very process.

Theory of operation. A pid alone identifies nothing, for the kernel gives it out again. Pid,
start time and boot id identify one process for ever. To signal it, open a pidfd first and
compare the start time after: had the pid changed hands before, the start time would differ,
and after that the pidfd stays with its process. The runner imports this file before it starts
a job, so it imports only what Python has loaded anyway.
"""

from __future__ import annotations

import contextlib
import os
import signal
from functools import cache

from radrm.host.processes.procfs import read_stat


class Identity:
    """Names one process for ever. `start_ticks`: clock ticks since boot."""

    __slots__ = ("boot_id", "pid", "start_ticks")

    def __init__(self, pid: int, start_ticks: int, boot_id: str) -> None:
        self.pid = pid
        self.start_ticks = start_ticks
        self.boot_id = boot_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Identity{self._key()}"

    def _key(self) -> tuple[int, int, str]:
        return self.pid, self.start_ticks, self.boot_id


@cache
def boot_id() -> str:
    """Names this boot of the machine. (`clock.boot_id` would import half of Python.)"""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def identify(pid: int) -> Identity | None:
    """The process that has this pid now, a zombie too; None when there is none."""
    stat = read_stat(pid)
    return Identity(pid, stat.start_ticks, boot_id()) if stat else None


def alive(identity: Identity) -> bool:
    """True while that very process runs; a zombie counts as dead."""
    if identity.boot_id != boot_id():
        return False
    stat = read_stat(identity.pid)
    return stat is not None and stat.start_ticks == identity.start_ticks and not stat.dead


WAKE = signal.SIGRTMAX
"""Tells a step that there is news: nothing else sends this signal, and the step blocks it."""


def wake(pidfd: int | None) -> None:
    """Tell a step that there is news for it."""
    if pidfd is not None:
        with contextlib.suppress(OSError):  # it has ended
            signal.pidfd_send_signal(pidfd, WAKE)


def open_pidfd(identity: Identity) -> int | None:
    """A descriptor of that very process; None when it is dead. Raises `OSError` when the
    kernel gives none for another reason, such as too many open files."""
    try:
        fd = os.pidfd_open(identity.pid)
    except OSError:
        if alive(identity):
            raise
        return None
    # Checked after opening: had the pid changed hands before, the start time would tell.
    if alive(identity):
        return fd
    os.close(fd)
    return None


def send_signal(pid: int, start_ticks: int, number: int) -> bool:
    """Signal that very process of this boot; False when it is gone or not ours to signal."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        stat = read_stat(pid)
        if stat is None or stat.start_ticks != start_ticks:
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    finally:
        os.close(fd)
    return True
