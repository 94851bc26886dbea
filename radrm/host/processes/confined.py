"""Limits that a short process sets itself before it becomes a user (`errand.py`)."""

from __future__ import annotations

import os
import resource
import signal

from radrm.host.processes import cgroups

_MEMORY_BYTES = 1 << 30
_FILE_BYTES = 64 << 20
_CPU_S = 30


def confine(limit_s: int, cgroup: str | None) -> None:
    """Limit this process and its children: memory, files, CPU time; `limit_s` seconds for itself.

    SIGALRM must have no handler. Raises `OSError`.
    """
    signal.alarm(limit_s)
    os.nice(10)  # jobs come first
    if cgroup is not None:
        cgroups.join(cgroup, os.getpid())
    for kind, limit in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, _MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CPU, _CPU_S),
    ):
        _, most = resource.getrlimit(kind)
        if most != resource.RLIM_INFINITY:
            limit = min(limit, most)
        resource.setrlimit(kind, (limit, limit))
