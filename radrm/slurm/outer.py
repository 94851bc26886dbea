"""The Slurm job in which this process runs."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from msgspec import Struct

from radrm.errors import UsageError
from radrm.host.processes.identity import Identity, identify
from radrm.slurm.asking import record, run

_OUTSIDE = (
    "radrm slurm-step runs inside a job of Slurm, and this is none; submit it: "
    "sbatch -p PARTITION FILE, or radrm submit --cluster FILE"
)


class SlurmJob(Struct, frozen=True):
    """The Slurm job of the step `process`. `end_s`: when Slurm ends it, in epoch seconds; None:
    unknown. `comment` is its comment, `nodes` the number of its nodes, `gpumem_mib` the GPU memory
    that it has on its node, None without any. `requeue`: Slurm may run it again. `element` of an
    array: `4711_3`, else nothing."""

    id: str
    cluster: str
    restart: int
    name: str
    partition: str
    node: str
    nodes: int
    process: Identity
    end_s: float | None = None
    comment: str = ""
    gpumem_mib: int | None = None
    requeue: bool = True
    element: str = ""

    @property
    def named(self) -> str:
        """What Slurm's commands call it: the number of an array's last element is the array's."""
        return self.element or self.id

    @property
    def fields(self) -> dict[str, object]:
        """What an envelope and a request say about it (`host/storage/spool.py`, `OUTER`)."""
        own = self.process
        return {
            "engine": "slurm",
            "cluster": self.cluster,
            "id": self.id,
            "restart": self.restart,
            "pid": own.pid,
            "start_ticks": own.start_ticks,
            "boot_id": own.boot_id,
            "end_s": self.end_s,
        }


def this_job(environ: Mapping[str, str], outside: str = _OUTSIDE) -> SlurmJob:
    """Return the Slurm job of this process, as its environment says. Raises `UsageError` with the
    text `outside` if there is none."""
    job_id = environ.get("SLURM_JOB_ID", "")
    if not _is_number(job_id):
        raise UsageError(outside)
    element = [environ.get(f"SLURM_ARRAY_{name}_ID", "") for name in ("JOB", "TASK")]
    me = identify(os.getpid())
    assert me is not None
    return SlurmJob(
        id=job_id,
        cluster=environ.get("SLURM_CLUSTER_NAME") or "cluster",
        restart=_number(environ.get("SLURM_RESTART_COUNT")),
        name=environ.get("SLURM_JOB_NAME", ""),
        partition=environ.get("SLURM_JOB_PARTITION", ""),
        node=environ.get("SLURMD_NODENAME", ""),
        nodes=_number(environ.get("SLURM_JOB_NUM_NODES")) or 1,
        process=me,
        element="_".join(element) if all(map(_is_number, element)) else "",
    )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _number(text: str | None) -> int:
    return int(text) if text and _is_number(text) and len(text) < 10 else 0


def shown(job: str, timeout_s: float = 10.0) -> dict[str, str]:
    """Return what `scontrol show job` says. Raises `Refused`."""
    text = run("scontrol", "-o", "show", "job", job, timeout_s=timeout_s)
    return record(text.partition("\n")[0])


def moment(text: str) -> float | None:
    """Return a date of Slurm's, `2026-11-23T23:05:44` in local time, in epoch seconds; None for
    `Unknown` and the like."""
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):
        return None
