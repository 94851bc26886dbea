"""Which process is which: identity, all processes of an attempt, and how to end them.

A pid alone names nobody, for it is given out again. Pid, start time and boot id name
one process for ever. The runner imports this before it starts a job, so the file keeps
to what Python has loaded anyway.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from radrm.host.attempts import cgroups
from radrm.host.attempts.procfs import Stat, is_of, read_stat, start_of, token_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

ENVIRONS_BYTES = 256 << 20
"""Bytes of environments that one look at all processes reads, the short ones first. Only an
attempt's own user can make it run out, and could as well remove the token."""
_LOOKS_AT_THE_NEWEST = 20


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


# ------------------------------------------------------------------ an attempt's


def attempt_processes(
    token: str | None,
    root: Identity | None,
    known: Iterable[int] = (),
    users: Iterable[int] = (),
) -> set[int]:
    """The pids of all living processes of an attempt.

    They are the descendants of `root` (the runner, itself left out), those of `users` and of
    the caller's own user that carry `token` in their environment, the `known` ones, and of
    all these the descendants and the members of the sessions they lead. The caller is never
    among them.
    """
    return _gather(Census(token, users).take(), root, known)


def signal_tree(
    number: int,
    token: str | None,
    root: Identity | None,
    known: Iterable[int] = (),
    users: Iterable[int] = (),
) -> None:
    """Send a signal to all processes of an attempt, and wake those that are stopped."""
    everything = Census(token, users).take()
    for pid in _gather(everything, root, known):
        if send_signal(pid, everything[pid].start_ticks, number):
            send_signal(pid, everything[pid].start_ticks, signal.SIGCONT)


def signal_catchers(
    number: int,
    token: str | None,
    root: Identity | None,
    known: Iterable[int] = (),
    users: Iterable[int] = (),
) -> int:
    """Send a signal to those processes of an attempt that have a handler for it.

    It would only end the others: the shell around a program that saves its state, say.
    Returns how many got it.
    """
    everything = Census(token, users).take()
    found = [pid for pid in _gather(everything, root, known) if _catches(pid, number)]
    return sum(send_signal(pid, everything[pid].start_ticks, number) for pid in found)


def _catches(pid: int, number: int) -> bool:
    for line in start_of(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"SigCgt:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def kill_tree(
    token: str | None,
    root: Identity | None,
    known: Iterable[int] = (),
    cgroup: str | None = None,
    seconds: float = 2.0,
    users: Iterable[int] = (),
) -> set[int]:
    """KILL all processes of an attempt; return the pids that survive it for `seconds`.

    All are stopped before the first is killed: what is stopped does not fork, and the
    death of a parent cannot hide its children before they are known.
    """
    deadline = time.monotonic() + seconds
    census = Census(token, users)
    everything = census.take()
    caught = {pid: everything[pid].start_ticks for pid in known if pid in everything}
    pause, clean = 0.001, 0
    while True:
        if cgroup is not None:
            cgroups.kill(cgroup)
        stopped: set[int] = set()
        while True:
            everything = census.take()
            same = {
                pid
                for pid, ticks in caught.items()
                if pid in everything and everything[pid].start_ticks == ticks
            }
            if cgroup is not None:
                same |= cgroups.processes(cgroup)
            found = _gather(everything, root, same)
            late = time.monotonic() > deadline
            if late or found <= stopped:
                break
            for pid in found - stopped:
                caught[pid] = everything[pid].start_ticks
            _signal_all(signal.SIGSTOP, found - stopped, found, everything)
            stopped |= found
        # A process that forks and exits all the time can hide from one look, hardly from two.
        clean = 0 if found else clean + 1
        if clean == 2:
            return set()
        _signal_all(signal.SIGKILL, found, found, everything)
        if late and found:
            return found
        if found:
            time.sleep(pause)
            pause = min(pause * 2, 0.05)


def _signal_all(number: int, pids: set[int], ours: set[int], everything: dict[int, Stat]) -> None:
    """Signal these pids, and the process groups that hold nobody but `ours`: no member of a
    group escapes its signal by forking."""
    strangers = {stat.group for pid, stat in everything.items() if pid not in ours}
    for group in {everything[pid].group for pid in pids} - strangers - {0, os.getpgrp()}:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    for pid in pids:
        send_signal(pid, everything[pid].start_ticks, number)


def _gather(everything: dict[int, Stat], root: Identity | None, known: Iterable[int]) -> set[int]:
    excluded = {1, os.getpid()}
    found = {pid for pid in known if pid in everything}
    found.update(pid for pid, stat in everything.items() if stat.marked)
    rooted = root is not None and root.pid in everything and alive(root)
    if root is not None and rooted:
        excluded.add(root.pid)
    found -= excluded
    under: dict[int, list[int]] = {}
    """The children of each process, and the members of each session by its leader."""
    for pid, stat in everything.items():
        under.setdefault(stat.parent, []).append(pid)
        under.setdefault(stat.session, []).append(pid)
    above = [*found, root.pid] if root is not None and rooted else [*found]
    if root is not None and rooted:
        # The members of the runner's own session need not be its descendants.
        under[root.pid] = [p for p in under.get(root.pid, ()) if everything[p].parent == root.pid]
    while above:
        fresh = set(under.get(above.pop(), ())) - found - excluded
        found |= fresh
        above += fresh
    return found


class Census:
    """All living processes of the machine, those with the token marked, as often as one asks.

    An environment is read of processes of `users` and of the caller's own user alone, and
    once: what a process got with its `execve` stays what it is.
    """

    def __init__(self, token: str | None, users: Iterable[int] = ()) -> None:
        self._token = token
        self._users = frozenset((os.geteuid(), *users))
        self._marked: dict[tuple[int, int, tuple[int, int] | None], bool] = {}

    def take(self) -> dict[int, Stat]:
        """By pid."""
        everything: dict[int, Stat] = {}

        def look(pid: int) -> None:
            stat = read_stat(pid)
            if stat is not None and not stat.dead:
                everything[pid] = stat

        for name in os.listdir("/proc"):
            if name.isdigit():
                look(int(name))
        # What forks and exits all the time is gone before its turn comes: it is the newest.
        for _ in range(_LOOKS_AT_THE_NEWEST):
            newest = int(start_of("/proc/loadavg").split()[-1])
            look(newest)
            look(newest + 1)
        if self._token is not None:
            self._mark(everything)
        return everything

    def _mark(self, everything: dict[int, Stat]) -> None:
        left = ENVIRONS_BYTES
        seen = {}
        for pid, stat in sorted(everything.items(), key=lambda each: each[1].environ_bytes):
            if not stat.environ_bytes:
                continue  # one of the kernel's own, or hidden from us
            key = pid, stat.start_ticks, stat.environ
            marked = self._marked.get(key)
            if marked is None:
                if left <= 0:
                    continue
                marked = False
                if is_of(pid, self._users):
                    left -= stat.environ_bytes
                    marked = token_of(pid, most=stat.environ_bytes) == self._token
            seen[key] = stat.marked = marked
        self._marked = seen
