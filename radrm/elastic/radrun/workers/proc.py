"""What /proc tells about the processes of workers: who belongs to whom, and what they use.

Theory of operation. A worker leads a session of its own. Its tree are its descendants, all members
of its session, and their descendants. An orphan of it becomes a child of `radrun`, which is a
subreaper. A process is identified by its pid and start time. All reads are bounded, and a process
that ends meanwhile is left out.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Iterable
from typing import NamedTuple

_TICKS_S = 1.0 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_MOST_READ = 4096
_MOST_PROCESSES = 1 << 17


class Process(NamedTuple):
    """One process now. `cpu_s`: its own CPU seconds and those of children that it waited for."""

    parent: int
    session: int
    start_ticks: int
    cpu_s: float
    memory_bytes: int


Census = dict[int, Process]


def read(pid: int, proc: str = "/proc") -> Process | None:
    """A living process; None if it has ended, a zombie too."""
    try:
        fd = os.open(f"{proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, _MOST_READ)
    except OSError:
        return None
    finally:
        os.close(fd)
    # The command's name stands in parentheses and may itself hold any character.
    fields = text.rpartition(b")")[2].split()
    try:
        numbers = list(map(int, fields[1:22]))
        if fields[0] in (b"Z", b"X") and numbers[16] <= 1:
            return None
        cpu_s = sum(numbers[10:14]) * _TICKS_S
        return Process(numbers[0], numbers[2], numbers[18], cpu_s, numbers[20] * _PAGE)
    except (ValueError, IndexError, OverflowError):  # no kernel's
        return None


def census() -> Census:
    """All living processes."""
    found = {}
    for name in os.listdir("/proc")[:_MOST_PROCESSES]:
        if name.isdigit() and (process := read(int(name))) is not None:
            found[int(name)] = process
    return found


def tree(everything: Census, leaders: Collection[int]) -> set[int]:
    """The living processes of these workers. Those of a session count if its leader has ended."""
    children: dict[int, list[int]] = {}
    for pid, process in everything.items():
        children.setdefault(process.parent, []).append(pid)
    sessions = set(leaders)
    left = [pid for pid, each in everything.items() if pid in sessions or each.session in sessions]
    found: set[int] = set()
    while left:
        pid = left.pop()
        if pid not in found:
            found.add(pid)
            left += children.get(pid, ())
    return found


def orphans(everything: Census, parent: int, leaders: Collection[int]) -> set[int]:
    """The children of `parent` that belong to no worker: their workers have ended."""
    return {
        pid
        for pid, each in everything.items()
        if each.parent == parent and pid not in leaders and each.session not in leaders
    }


def kill(everything: Census, pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Signal these very processes, and none that has got the pid of one of them since."""
    for pid in pids:
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            try:
                now = read(pid)
                if now is not None and now.start_ticks == everything[pid].start_ticks:
                    signal.pidfd_send_signal(fd, number)
            finally:
                os.close(fd)


def handles(pid: int, number: int, proc: str = "/proc") -> bool:
    """Whether a process has a handler for a signal."""
    try:
        with open(f"{proc}/{pid}/status", "rb") as file:
            text = file.read(1 << 16)
        # In a process's own name the kernel escapes nothing but `\\n`.
        line = text.partition(b"\nSigCgt:")[2].partition(b"\n")[0]
        return bool(int(line, 16) >> (number - 1) & 1)
    except (OSError, ValueError):
        return False


def out_of_memory_kills() -> int:
    """How often the kernel has killed in this process's own memory group; 0 if nobody counts."""
    try:
        with open("/proc/self/cgroup", "rb") as file:
            lines = file.read(1 << 16).decode("utf-8", "surrogateescape").split("\n")
    except OSError:
        return 0
    for _, controllers, path in (line.split(":", 2) for line in lines if line.count(":") > 1):
        if not controllers:
            name = f"/sys/fs/cgroup{path}/memory.events"
        elif "memory" in controllers.split(","):
            name = f"/sys/fs/cgroup/memory{path}/memory.oom_control"
        else:
            continue
        try:
            with open(name, "rb") as file:
                words = file.read(_MOST_READ).split()
        except OSError:
            continue
        pairs = dict(zip(words[::2], words[1::2], strict=False))
        if b"oom_kill" in pairs:
            return int(pairs[b"oom_kill"])
    return 0
