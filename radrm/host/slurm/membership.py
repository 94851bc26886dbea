"""Whether a process is in a job of Slurm.

Theory of operation. Where Slurm uses control groups, the kernel says it: only root makes groups at
these places. Else Slurm's own command says it, which asks the slurmd of this node. Nothing that a
process can write about itself (its environment, its name) counts.

Source: cgroup.conf(5) and the plugins cgroup/v1 and cgroup/v2 of Slurm 22.05 to 24.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from radrm.host.processes.procfs import groups_of_process
from radrm.host.slurm.programs import run

_V1 = re.compile(r"/slurm(?:_[^/]+)?/uid_\d+/job_(\d+)(?:/|$)")
_V2 = re.compile(r"/system\.slice/(?:[^/]+_)?slurmstepd\.scope/job_(\d+)(?:/|$)")
_ASK_S = 10.0
_LONGEST = 11
"""More digits than a pid has."""

Listed = Callable[..., str]


def _groups_of(pid: int) -> list[str]:
    """Return the paths of the control groups of a process."""
    return [path for _, _, path in groups_of_process(f"/proc/{pid}")]


def is_in_job(
    pid: int,
    job_id: str,
    groups_of: Callable[[int], Iterable[str]] = _groups_of,
    listed: Listed = run,
    node: str = "",
) -> bool:
    """Return whether a process is in this job of Slurm. Raises `RadrmError` if Slurm does not say.

    `groups_of` returns the control groups of a process, `listed` the output of a command of
    Slurm's. `node`: this node's name in Slurm, where it is not known by the server's name.
    """
    jobs = jobs_of(groups_of(pid))
    if jobs:
        return jobs == {job_id}
    words = ["scontrol", "listpids", job_id, *([node] if node else [])]
    return pid in pids_in(listed(*words, timeout_s=_ASK_S), job_id)


def jobs_of(groups: Iterable[str]) -> set[str]:
    """Return the jobs of Slurm to which these control groups belong."""
    found = (pattern.match(group) for group in groups for pattern in (_V1, _V2))
    return {match[1] for match in found if match is not None}


def pids_in(text: str, job_id: str) -> set[int]:
    """Return the processes of a job in the output of `scontrol listpids`."""
    rows = (line.split() for line in text.splitlines())
    found = (row[0] for row in rows if len(row) >= 2 and row[1] == job_id)
    return {int(pid) for pid in found if pid.isascii() and pid.isdigit() and len(pid) < _LONGEST}
