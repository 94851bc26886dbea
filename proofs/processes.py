"""Processes as `/proc` shows them: what a harness has started, and what that has left.

Only what Python brings is imported: the acceptance run needs this before it has its packages.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from radrm.host.processes.procfs import read_stat

_TICKS_S = os.sysconf("SC_CLK_TCK")
_PAUSE_S, _KILLED_S = 0.05, 60.0


@dataclass(frozen=True, slots=True)
class Process:
    """A process, known by its pid and start time."""

    pid: int
    parent: int
    start_ticks: int
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.pid} ({' '.join(self.words)[:60]})"


def every_process(zombies: bool = False) -> Iterator[Process]:
    """All processes in no order. Zombies do not live."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        stat = read_stat(int(name))
        if stat is not None and (zombies or not stat.dead):
            yield Process(int(name), stat.parent, stat.start_ticks, _words(name))


def _words(pid: str) -> tuple[str, ...]:
    try:
        data = Path("/proc", pid, "cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(word.decode(errors="replace") for word in data.rstrip(b"\0").split(b"\0"))


def descendants(root: int) -> list[Process]:
    """All living processes below `root`, parents first."""
    children: dict[int, list[Process]] = {}
    for each in every_process():
        children.setdefault(each.parent, []).append(each)
    found: list[Process] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += [each.pid for each in below]
    return found


def end_all(grace_s: float = 0.0) -> None:
    """End and reap all descendants of this process: TERM, and KILL once `grace_s` is over.

    It must be their reaper, or one whose parent ends has left.
    """
    now_s = time.monotonic()
    kill_s, give_up_s = now_s + grace_s, now_s + grace_s + _KILLED_S
    told: set[Process] = set()
    while (left := descendants(os.getpid())) and now_s < give_up_s:
        for each in left:
            if now_s >= kill_s:
                send(each, signal.SIGKILL)
            elif each not in told:
                send(each, signal.SIGTERM)
        told.update(left)
        time.sleep(_PAUSE_S)
        reap()
        now_s = time.monotonic()
    reap()


def send(process: Process, number: int) -> None:
    """Send a signal, if the pid is still this process's."""
    now = read_stat(process.pid)
    if now is not None and now.start_ticks == process.start_ticks:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(process.pid, number)


def reap(besides: int = 0) -> None:
    """Reap children that have ended; one of them (`besides`) is its Popen's affair."""
    for each in every_process(zombies=True):
        if each.parent == os.getpid() and each.pid != besides:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(each.pid, os.WNOHANG)


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and its ended children."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(word) for word in words[11:15]) / _TICKS_S


def figures(pid: int) -> dict[str, int]:
    """The numbers of a process's status, as `VmRSS` and `VmHWM` (KiB) and `Threads`."""
    pairs = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {
        name.rstrip(":"): int(rest[0])
        for name, *rest in pairs
        if name.startswith(("Vm", "Threads")) and rest
    }
