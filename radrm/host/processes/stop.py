"""Ask the processes of an attempt to end, in an order that lets them save their work.

Theory of operation. A trainer whose data loaders die first cannot save: PyTorch raises
"DataLoader worker killed by signal" in it. And the loaders inherit the trainer's own handler. So
TERM goes in waves:

    1. to the topmost processes that handle it: not to what is below them
    2. when these have ended: to the topmost of those that are left, and so on
    3. when none is left that handles it, or shortly before the grace time ends: to the rest

A process handles TERM if it catches it, or blocks it: then it waits for it (`sigwait`).

Shells are special, because they wait for their command. One without a trap gets TERM with the
rest, and stands still until then (SIGSTOP): else it would go on to its next command. One with a
trap runs it only when its command has ended, so TERM goes to both. A shell that stands still
reads nothing of its command: `$(...)` takes 64 KiB until the rest gets TERM.

Nobody gets TERM twice in one stop. A signal goes only to the process that was found (pid and
start time). The processes may fork and exit meanwhile: each wave looks anew, and the deadline
ends the waves. A kill of the daemon changes nothing, because the runner stops its job. A kill of
the runner leaves processes that may stand still; the daemon then kills them all.

The runner imports this file before it starts a job, so it imports only what Python has loaded
anyway. With `threading` each fork of a runner would take three times as long.
"""

from __future__ import annotations

import os
import signal
import time

from radrm.host.processes.identity import send_signal
from radrm.host.processes.procfs import Stat, read_stat
from radrm.host.processes.tree import has_signal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

LOOK_S = 0.1
"""Seconds between two looks at the processes that were asked. Most are no children of the
runner, so no signal says that they have ended."""
_LAST_PART = 0.25
"""The part of a short grace time that is kept for the rest."""
_SHELLS = frozenset(
    {"ash", "bash", "busybox", "csh", "dash", "fish", "ksh", "ksh93", "mksh", "sh", "tcsh", "zsh"}
)


class Stop:
    """A stop under way. `find` returns the attempt's living processes by pid.

    After `seconds` from now the host kills what is left. The rest gets TERM `patience_s` before,
    and sooner in a short grace time.
    """

    def __init__(
        self,
        find: Callable[[], dict[int, Stat]],
        seconds: float,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._find = find
        self._clock = clock
        self._patience_s = patience_s
        self._rest_s = clock() + seconds - min(patience_s, seconds * _LAST_PART)
        self._asked: dict[int, int] = {}
        """Who got TERM: pid and start time."""
        self._ends_s = float("inf")

    @property
    def left_s(self) -> float:
        """The seconds that the rest has left to end; infinite before it gets TERM."""
        return self._ends_s - self._clock()

    def look(self) -> float | None:
        """Take the next step if it is due. Returns the seconds until the next look, or None."""
        if self._ends_s < float("inf"):
            return None
        left_s = self._rest_s - self._clock()
        if left_s > 0 and any(_lives(*each) for each in self._asked.items()):
            return min(left_s, LOOK_S)
        members = self._find()
        asked: list[int] = []
        if left_s > 0:
            parents = {pid: stat.parent for pid, stat in members.items()}
            handling = set(filter(_handles, members))
            asked, still = topmost(parents, handling, set(filter(is_shell, members)))
            for pid in still:
                send_signal(pid, members[pid].start_ticks, signal.SIGSTOP)
        if not asked:
            self._ends_s = self._clock() + self._patience_s
        for pid in asked or members:
            self._ask(pid, members[pid].start_ticks)
        return LOOK_S if asked else None

    def _ask(self, pid: int, start_ticks: int) -> None:
        """Send TERM, once, and wake the process if it stands still."""
        if self._asked.get(pid) != start_ticks:
            self._asked[pid] = start_ticks
            send_signal(pid, start_ticks, signal.SIGTERM)
        send_signal(pid, start_ticks, signal.SIGCONT)


def topmost(
    parents: Mapping[int, int], handling: Collection[int], shells: Collection[int]
) -> tuple[list[int], set[int]]:
    """Return which processes get TERM first, and which shells stand still meanwhile.

    `parents`: the parent of each process. `handling`: those that handle TERM. A shell comes before
    its command, or it could go on to the next one before it has TERM.
    """
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    asked: list[int] = []
    # The processes to look at, each with True if only the commands of a shell count.
    left = [(pid, False) for pid, parent in parents.items() if parent not in parents]
    while left:
        pid, commands = left.pop()
        if pid in handling:
            asked.append(pid)
        if pid in shells:
            commands = commands or pid in handling
        elif pid in handling or commands:
            continue
        left += [(child, commands) for child in children.get(pid, ())]
    above: set[int] = set()
    for pid in asked:
        parent = parents[pid]
        while parent in parents and parent not in above:
            above.add(parent)
            parent = parents[parent]
    return asked, {pid for pid in above if pid in shells and pid not in handling}


def _handles(pid: int) -> bool:
    return has_signal(pid, signal.SIGTERM, b"SigCgt", b"SigBlk")


def is_shell(pid: int) -> bool:
    """Return whether a process is a shell, by the name of its program."""
    try:
        program = os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return False
    return os.path.basename(program).removesuffix(" (deleted)") in _SHELLS


def _lives(pid: int, start_ticks: int) -> bool:
    stat = read_stat(pid)
    return stat is not None and stat.start_ticks == start_ticks and not stat.dead


# ------------------------------------------------------------------
# Send a signal that asks a running job to save its work.
#
# It goes to the topmost processes of the attempt that handle it, in the sense of `stop.topmost`: a
# data loader inherits the handler of its trainer, and must not act on it.


def signal_topmost(members: Mapping[int, Stat], number: int) -> int:
    """Send a signal to the topmost of these processes that handle it. Returns how many got it."""
    parents = {pid: stat.parent for pid, stat in members.items()}
    handling = {pid for pid in members if has_signal(pid, number, b"SigCgt")}
    asked, _ = topmost(parents, handling, set(filter(is_shell, members)))
    return sum(send_signal(pid, members[pid].start_ticks, number) for pid in asked)
