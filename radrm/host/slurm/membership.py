"""Whether a process is in a job of Slurm, and that is its user's.

Theory of operation. Where Slurm names control groups by its jobs, the kernel says it: only root
makes groups at these places. Else (proctrack/linuxproc; groups named by SLUID, as from 26.05 on)
Slurm's own command says it, which asks the slurmd of this node. Nothing that a process can write
about itself (its environment, its name) counts.

Whose job it is, only the controller knows. While that is away, membership suffices: Slurm starts
no process of another user in a job.

Source: cgroup.conf(5) and the plugins cgroup/v1 and cgroup/v2 of Slurm 22.05 to 26.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from radrm.errors import Refused
from radrm.host.processes.procfs import groups_of_process
from radrm.host.slurm.programs import run

_V1 = re.compile(r"/slurm(?:_[^/]+)?/uid_\d+/job_(\d+)(?:/|$)")
_V2 = re.compile(r"/system\.slice/(?:[^/]+_)?slurmstepd\.scope/job_(\d+)(?:/|$)")
_ASK_S = 10.0
_LONGEST = 11
"""More digits than a pid has."""

Asked = Callable[..., str]


def _groups_of(pid: int) -> list[str]:
    """Return the paths of the control groups of a process."""
    return [path for _, _, path in groups_of_process(f"/proc/{pid}")]


def is_in_job(
    pid: int,
    uid: int,
    job_id: str,
    groups_of: Callable[[int], Iterable[str]] = _groups_of,
    asked: Asked = run,
    node: str = "",
) -> bool:
    """Return whether a process of user `uid` is in this job of Slurm, and the job is that user's.
    Raises `RadrmError` if Slurm does not say.

    `groups_of` returns the control groups of a process, `asked` the output of a command of
    Slurm's. `node`: this node's name in Slurm, where it is not known by the server's name.
    """
    jobs = jobs_of(groups_of(pid))
    if jobs:
        inside = jobs == {job_id}
    else:
        words = ["scontrol", "listpids", job_id, *([node] if node else [])]
        inside = pid in pids_in(asked(*words, timeout_s=_ASK_S), job_id)
    return inside and _is_of(uid, job_id, asked)


def _is_of(uid: int, job_id: str, asked: Asked) -> bool:
    """Return whether a job is this user's, as far as the controller says."""
    words = "squeue", "--noheader", "--states=all", f"--jobs={job_id}", "--format=%U"
    try:
        users = set(asked(*words, timeout_s=_ASK_S).split())
    except Refused:
        return True
    return users == {str(uid)}


def jobs_of(groups: Iterable[str]) -> set[str]:
    """Return the jobs of Slurm to which these control groups belong."""
    found = (pattern.match(group) for group in groups for pattern in (_V1, _V2))
    return {match[1] for match in found if match is not None}


def pids_in(text: str, job_id: str) -> set[int]:
    """Return the processes of a job in the output of `scontrol listpids`."""
    rows = (line.split() for line in text.splitlines())
    found = (row[0] for row in rows if len(row) >= 2 and row[1] == job_id)
    return {int(pid) for pid in found if pid.isascii() and pid.isdigit() and len(pid) < _LONGEST}
