"""Find all processes of an attempt, signal them, end them.

Theory of operation. Any process may fork, exit, leave its session or clear its environment
while we look. So no single look is believed: `kill_tree` stops what it finds until a look
finds nothing new, since a stopped process cannot fork, then kills, and only two looks in a
row that find nothing are the end. A signal goes only to the process that was found (pid and
start time). The runner imports this file before it starts a job, so it imports only what
Python has loaded anyway.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from radrm.host.processes import cgroups
from radrm.host.processes.calls import prctl
from radrm.host.processes.identity import Identity, alive, send_signal
from radrm.host.processes.procfs import (
    Stat,
    is_of,
    read_stat,
    start_of,
    status_of,
    token_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ENVIRONS_BYTES = 256 << 20
"""Bytes of environments that one look at all processes reads, the short ones first. Only an
attempt's own user can make it run out, and could as well remove the token."""
_LOOKS_AT_THE_NEWEST = 20
_MOST_NEW_PIDS = 1000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def become_subreaper() -> bool:
    """Make orphans of this process's descendants its children, so that none escapes unseen."""
    return prctl(_PR_SET_CHILD_SUBREAPER, 1)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; end at once if it has.

    A change of user undoes it.
    """
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


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
    return set(attempt_stats(token, root, known, users))


def attempt_stats(
    token: str | None,
    root: Identity | None,
    known: Iterable[int] = (),
    users: Iterable[int] = (),
) -> dict[int, Stat]:
    """What the kernel says about the `attempt_processes`, by pid."""
    everything = Census(token, users).take()
    return {pid: everything[pid] for pid in gather(everything, root, known)}


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
    found = attempt_stats(token, root, known, users)
    catching = [pid for pid in found if has_signal(pid, number, b"SigCgt")]
    return sum(send_signal(pid, found[pid].start_ticks, number) for pid in catching)


def has_signal(pid: int, number: int, *sets: bytes) -> bool:
    """True if one of these sets of a process's signals (`SigCgt`: the caught ones) has this."""
    return any(_has(status_of(pid, each), number) for each in sets)


def dies_of(pid: int, number: int) -> bool:
    """Return whether a signal ends a process at once: it neither catches, blocks nor ignores it."""
    return not has_signal(pid, number, b"SigCgt", b"SigBlk", b"SigIgn")


def _has(signals: bytes, number: int) -> bool:
    try:
        return bool(int(signals, 16) >> (number - 1) & 1)
    except ValueError:  # the process is gone
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
            found = gather(everything, root, same)
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
    """Signal these pids, and the process groups that hold only `ours`: no member of a group
    escapes its signal by forking."""
    groups = {everything[pid].group for pid in pids} - {0, os.getpgrp()}
    for pid, stat in everything.items():
        # One that ended before its environment could be read is of no other attempt.
        if stat.group in groups and pid not in ours and _lives(pid, stat):
            groups.discard(stat.group)
    for group in groups:
        with contextlib.suppress(OSError):
            os.killpg(group, number)
    for pid in pids:
        send_signal(pid, everything[pid].start_ticks, number)


def _lives(pid: int, stat: Stat) -> bool:
    now = read_stat(pid)
    return now is not None and not now.dead and now.start_ticks == stat.start_ticks


def _newest_pid() -> int:
    """The pid that the kernel gave last, to a process or a thread."""
    return int(start_of("/proc/loadavg").split()[-1])


def gather(everything: dict[int, Stat], root: Identity | None, known: Iterable[int]) -> set[int]:
    """Return what belongs to an attempt, of all processes: see `attempt_processes`."""
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
        marked_before, self._marked = self._marked, {}
        left = ENVIRONS_BYTES

        def mark(pid: int, stat: Stat) -> None:
            nonlocal left
            if self._token is None or not stat.environ_bytes:
                return  # or one of the kernel's own, or hidden from us
            key = pid, stat.start_ticks, stat.environ
            marked = marked_before.get(key)
            if marked is None:
                if left <= 0:
                    return
                marked = False
                if is_of(pid, self._users):
                    left -= stat.environ_bytes
                    marked = token_of(pid, most=stat.environ_bytes) == self._token
            self._marked[key] = stat.marked = marked

        newest = _newest_pid()
        everything = dict(_living(int(name) for name in os.listdir("/proc") if name.isdigit()))
        for pid, stat in sorted(everything.items(), key=lambda each: each[1].environ_bytes):
            mark(pid, stat)
        # What forks and exits all the time is gone before its turn comes, but its child has a
        # newer pid. Once no pid was given meanwhile, whatever lives has been looked at.
        for _ in range(_LOOKS_AT_THE_NEWEST):
            known, newest = newest, _newest_pid()
            if newest == known:
                break
            first = known + 1 if newest > known else 1  # pids start anew after the greatest
            for pid, stat in _living(range(max(first, newest - _MOST_NEW_PIDS), newest + 1)):
                everything[pid] = stat
                mark(pid, stat)
        return everything


def _living(pids: Iterable[int]) -> Iterator[tuple[int, Stat]]:
    for pid in pids:
        stat = read_stat(pid)
        if stat is not None and not stat.dead:
            yield pid, stat
