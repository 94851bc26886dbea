"""The processes of workers: who belongs to whom.

Theory of operation. A worker leads a session of its own. Its tree are its descendants, all members
of its session, and their descendants. An orphan of it becomes a child of `radrun`, which is a
subreaper. What is read of a process, and how it is signalled, is the server's
(`radrm.host.processes`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from radrm.host.processes import cgroups
from radrm.host.processes.identity import send_signal
from radrm.host.processes.procfs import Stat, groups_of_process
from radrm.host.processes.tree import Census, gather

Processes = dict[int, Stat]
"""All living processes, by pid."""


def census() -> Processes:
    """All living processes."""
    return Census(None).take()


def tree(everything: Processes, leaders: Collection[int]) -> set[int]:
    """The living processes of these workers. Those of a session count if its leader has ended."""
    its = [pid for pid, s in everything.items() if pid in leaders or s.session in leaders]
    return gather(everything, None, its)


def orphans(everything: Processes, parent: int, leaders: Collection[int]) -> set[int]:
    """The children of `parent` that belong to no worker: their workers have ended."""
    return {
        pid
        for pid, each in everything.items()
        if each.parent == parent and pid not in leaders and each.session not in leaders
    }


def kill(everything: Processes, pids: Iterable[int], number: int) -> None:
    """Signal these very processes, and none that has got the pid of one of them since."""
    for pid in pids:
        send_signal(pid, everything[pid].start_ticks, number)


def out_of_memory_kills() -> int:
    """How often the kernel has killed in this process's own memory group; 0 if nobody counts."""
    for _, controllers, path in groups_of_process():
        if not controllers:
            found = cgroups.counts(f"/sys/fs/cgroup{path}", "memory.events")
        elif "memory" in controllers.split(","):
            found = cgroups.counts(f"/sys/fs/cgroup/memory{path}", "memory.oom_control")
        else:
            continue
        if "oom_kill" in found:
            return found["oom_kill"]
    return 0
