"""The CPUs and the host memory that jobs can have on this server.

They are what the daemon itself may use, since jobs are its descendants: the CPUs of its affinity,
the memory of the machine, and the limits of its control group and of all groups above. A CPU may
be unplugged and a limit changed while the daemon runs, so it looks again every minute.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psutil

from radrm.config import NodeConfig
from radrm.core.records import LOCAL_NODE, Node
from radrm.core.units import parse_mib
from radrm.host.processes import procfs

LOOK_EVERY_S = 60.0
"""Real seconds between two looks."""
_MIB = 1 << 20


class NodeWatch:
    """This server as jobs can use it; `config` may replace what is found.

    `proc`: the folder of the process whose limits count. `shares_refused`: why no CPU share can be
    set here; None: they can.
    """

    def __init__(
        self, config: NodeConfig, proc: str = "/proc/self", shares_refused: str | None = None
    ) -> None:
        self._config = config
        self._shares_refused = shares_refused
        self._proc = proc
        self._next_s = 0.0
        self._last: Node | None = None

    def changed(self) -> Node | None:
        """Return the server as it is now, if it is time to look again and it has changed."""
        if time.monotonic() < self._next_s:
            return None
        before = self._last
        return found if (found := self.look()) != before else None

    def look(self) -> Node:
        """Return the server's CPUs and host memory now. What cannot be read limits nothing."""
        self._next_s = time.monotonic() + LOOK_EVERY_S
        cpus, memory = self._config.cpus, self._config.memory
        self._last = Node(
            LOCAL_NODE,
            cpus=self._cpus() if isinstance(cpus, str) else cpus,
            memory_mib=self._memory_mib() if memory == "auto" else parse_mib(memory),
            shares_refused=self._shares_refused,
        )
        return self._last

    def _cpus(self) -> float:
        found = [float(len(os.sched_getaffinity(0)))]
        for group in _groups(self._proc, "cpu"):
            limit = _read(group, "cpu.max").split()
            quota, period = limit if len(limit) == 2 else ("", "")
            quota = quota or _read(group, "cpu.cfs_quota_us")
            period = period or _read(group, "cpu.cfs_period_us")
            if quota.isdecimal() and period.isdecimal() and int(quota) and int(period):
                found.append(int(quota) / int(period))
        return min(found)

    def _memory_mib(self) -> int:
        found = [int(psutil.virtual_memory().total)]
        for group in _groups(self._proc, "memory"):
            for name in ("memory.max", "memory.limit_in_bytes"):
                limit = _read(group, name)
                if limit.isdecimal() and int(limit):
                    found.append(int(limit))
        return max(1, min(found) // _MIB)


def _groups(proc: str, controller: str) -> Iterator[str]:
    """Yield the folders of a process's groups that could limit this, and of those above.

    In a container the path may lead out of what is mounted; then the mounted part counts.
    """
    own: dict[str, str] = {}
    for number, controllers, group in procfs.groups_of_process(proc):
        own.update(dict.fromkeys(controllers.split(",") if number != "0" else [""], group))
    for root, mounted, kind, options in procfs.mounts_of(proc):
        path: str | None = None
        if kind == "cgroup2":
            path = own.get("")
        elif kind == "cgroup" and controller in options.split(","):
            path = own.get(controller)
        if path is not None:
            yield from _upwards(mounted, root, path)


def _upwards(mounted: str, root: str, path: str) -> Iterator[str]:
    """Yield the folders of a group and of those above it, up to the mount's."""
    root = root.rstrip("/")
    inside = path[len(root) :] if (path + "/").startswith(root + "/") else ""
    names = [name for name in inside.split("/") if name not in ("", "..")]
    for depth in range(len(names), -1, -1):
        yield os.path.join(mounted, *names[:depth])


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""
