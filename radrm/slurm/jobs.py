"""What Slurm says of the jobs of the partition, with what their steps have written there."""

from __future__ import annotations

import re

from radrm.core.units import show_mib
from radrm.errors import Refused
from radrm.slurm.asking import SlurmRefused, run
from radrm.slurm.comment import why_waiting
from radrm.slurm.documents import ClusterJob
from radrm.slurm.outer import count_in, shown

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.config import SlurmConfig

_BETWEEN = "\x1f"
_COLUMNS = {
    "JobArrayID": 40,
    "UserName": 64,
    "State": 20,
    "NodeList": 100,
    "tres-per-node": 200,
    "TimeUsed": 20,
    "TimeLimit": 20,
    "Reason": 100,
    "Name": 200,
    "Comment": 300,
    "admin_comment": 300,
    "AdminComment": 300,
}
"""What squeue is asked for, and the width of each. The last two are one column, whose name differs
between releases: squeue leaves out the other."""
_FORMAT = ",".join(f"{name}:{width}{_BETWEEN}" for name, width in _COLUMNS.items())
_ASK_S = 30.0
MOST_ROWS = 10_000

UNFINISHED = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED")

REASONS = {
    "Resources": "no node has so much free now; it starts when jobs there end",
    "Priority": "jobs of higher priority are before it",
    "Dependency": "it waits for another job (--after)",
    "DependencyNeverSatisfied": "the job that it waits for has ended otherwise; cancel it: scancel",
    "BeginTime": "it may not start before its begin time; after a return to Slurm that is two "
    "minutes (cred_expire of AuthInfo in slurm.conf)",
    "JobHeldUser": "it is held; release it: scontrol release",
    "JobHeldAdmin": "an administrator holds it",
    "PartitionTimeLimit": "its time limit is above the partition's; lower --time",
    "ReqNodeNotAvail": "a node that it needs is down, drained or reserved; see sinfo",
    "BadConstraints": "no node of the partition can ever run it; ask for less",
    "PartitionDown": "the partition is down; ask the administrator",
    "PartitionInactive": "the partition is inactive; ask the administrator",
    "AssocGrpGRES": "your account has its limit of GPU memory in use",
    "QOSMaxJobsPerUserLimit": "you have as many running jobs as the QOS allows",
    "launch failed requeued held": "its start failed on a node, so Slurm holds it; ask the "
    "administrator, then: scontrol release",
}
"""What Slurm's reasons mean for users of a partition that shares GPUs."""


def listed(config: SlurmConfig, user: str | None = None) -> list[ClusterJob]:
    """Return the jobs of the partition that have not ended. Raises `Refused`."""
    words = ["--noheader", f"--partition={config.partition}", f"--Format={_FORMAT}"]
    if user is not None:
        words.append(f"--user={user}")
    lines = run("squeue", *words, timeout_s=_ASK_S).splitlines()[:MOST_ROWS]
    rows = ([word.strip() for word in line.split(_BETWEEN)] for line in lines)
    return [_row(config.gres, *row[:11]) for row in rows if len(row) > 11]


def _row(gres: str, *words: str) -> ClusterJob:
    job, user, state, node, asked, time, limit, reason, name, comment, note = words
    waits = (why_waiting(note) or why_waiting(comment)) if state == "RUNNING" else reason
    return ClusterJob(
        id=job,
        name=name,
        user=user,
        state=state if waits is None or state != "RUNNING" else "WAITING",
        node=node or None,
        gpumem_mib=count_in(asked, gres),
        time=time,
        time_limit=limit,
        reason=None if waits in (None, "None", "") else waits,
    )


def nodes_of(
    partition: str, gres: str, *words: str, timeout_s: float = 10.0
) -> list[tuple[str, int]]:
    """Return the nodes of a partition, each with the MiB that it has of GRES. `words`: other
    options of sinfo. Raises `Refused`."""
    asked = "--noheader", "--Node", f"--partition={partition}", *words, "--format=%N %G"
    rows = (row.partition(" ") for row in run("sinfo", *asked, timeout_s=timeout_s).splitlines())
    return [(name, count_in(has, gres) or 0) for name, _, has in rows]


def explained(job_id: str, config: SlurmConfig) -> dict[str, str]:
    """Return what Slurm says of one job, in words for users. Raises `Refused`."""
    found = the_job(job_id)
    asked = count_in(found.get("TresPerNode", ""), config.gres)
    state, reason = found.get("JobState", "unknown"), found.get("Reason", "None")
    lines = {
        "job": f"{job_id} ({found.get('JobName', '')}), of {found.get('UserId', '').split('(')[0]}",
        "state": state,
        "partition": found.get("Partition", ""),
    }
    if asked is not None:
        lines["asks for"] = f"{show_mib(asked)} of GPU memory ({config.gres}:{asked})"
    notes = [found.get(name, "") for name in ("AdminComment", "Comment")]
    waits = next(filter(None, map(why_waiting, notes)), None)
    if found.get("BatchHost"):
        lines["node"] = found["BatchHost"]
    if state == "RUNNING" and waits is not None:
        lines["waits there"] = waits
        lines["see"] = f"radrm status, on {lines['node']}" if "node" in lines else "radrm status"
    elif reason not in ("None", "") and state != "RUNNING":
        meaning = REASONS.get(reason)
        lines["why"] = reason if meaning is None else f"{reason}: {meaning}"
        before = waits or next((n for n in notes if n.startswith("radrm: returned")), "")
        if before:
            lines["before"] = before.removeprefix("radrm: ")
    if found.get("Restarts", "0") != "0":
        lines["started again"] = f"{found['Restarts']} times"
    if found.get("StdOut"):
        lines["log"] = found["StdOut"]
    return lines


def the_job(job_id: str) -> dict[str, str]:
    """Return what `scontrol show job` says of a job. Raises `Refused`."""
    if not re.fullmatch(r"[0-9]{1,10}(_[0-9]{1,7})?", job_id):
        raise Refused(f"{job_id[:40]!r} is no number of a Slurm job; see radrm status --cluster")
    try:
        return shown(job_id)
    except SlurmRefused as error:
        if "Invalid job id" in str(error):
            raise Refused(
                f"Slurm does not know job {job_id}, or has forgotten it after its end; see: "
                f"sacct -j {job_id}"
            ) from None
        raise


def log_of(job_id: str, stderr: bool) -> tuple[str, int]:
    """Return the path of a job's log, and the job's user. Raises `Refused`."""
    found = the_job(job_id)
    path = found.get("StdErr" if stderr else "StdOut", "")
    if not path.startswith("/"):
        raise Refused(f"Slurm names no log of job {job_id}")
    owner = re.search(r"\(([0-9]{1,10})\)$", found.get("UserId", ""))  # alice(1000)
    if owner is None:
        raise Refused(f"Slurm names no user of job {job_id}, so its log is not shown: {path}")
    return path, int(owner[1])
