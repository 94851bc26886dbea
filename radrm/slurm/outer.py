"""The Slurm job in which this process runs, and the radrm daemon of its node.

Each job's start imports this file, so it imports little.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress

from radrm.core.units import parse_seconds
from radrm.errors import UsageError
from radrm.host.processes.identity import Identity, identify
from radrm.host.storage.paths import Paths, client_paths, servers_own
from radrm.jobfile.record import Record
from radrm.slurm.asking import record, run
from radrm.slurm.comment import returned

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from radrm.config import Config

_OUTSIDE = (
    "radrm slurm-step runs inside a job of Slurm, and this is none; submit it: "
    "sbatch -p PARTITION FILE, or radrm submit --cluster FILE"
)


class SlurmJob(Record):
    """The Slurm job of the step `process`. `nodes` is the number of its nodes. `element` of an
    array: `4711_3`, else nothing."""

    id: str
    cluster: str
    restart: int
    name: str
    partition: str
    node: str
    nodes: int
    process: Identity
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
        }


class Told(Record):
    """What Slurm's controller says of a job that was asked for as `named`. `restart`: how often it
    has been run again. `limit_s`: its time limit, None without one; `ran_s`: how long this run has
    taken. `gpumem_mib`: what it has asked for, None for nothing; `note`: its AdminComment, where
    the daemon writes."""

    named: str
    id: str
    restart: str
    uid: int | None
    name: str
    partition: str
    node: str
    limit_s: float | None
    ran_s: float
    gpumem_mib: int | None
    note: str

    @property
    def run(self) -> str:
        """What names this run of the job on this node."""
        return f"{self.id}.{self.restart}"

    @property
    def document(self) -> dict[str, object]:
        """The step's view of its Slurm job."""
        return {
            "name": self.name,
            "limit_s": self.limit_s,
            "gpumem_mib": self.gpumem_mib,
            "returned": returned(self.note),
        }


def told_of(named: str, fields: Mapping[str, str], gres: str) -> Told:
    """Return what the fields of `scontrol show job NAMED` say."""
    owner = re.search(r"\(([0-9]{1,10})\)$", fields.get("UserId", ""))  # alice(1000)
    return Told(
        named=named,
        id=fields.get("JobId", ""),
        restart=fields.get("Restarts", "0"),
        uid=int(owner[1]) if owner else None,
        name=fields.get("JobName", ""),
        partition=fields.get("Partition", ""),
        node=fields.get("BatchHost", ""),
        limit_s=length_s(fields.get("TimeLimit", "")),
        ran_s=length_s(fields.get("RunTime", "")) or 0.0,
        gpumem_mib=count_in(fields.get("TresPerNode", ""), gres),
        note=fields.get("AdminComment", "").strip(),
    )


def length_s(text: str) -> float | None:
    """Return a length of time of Slurm's, `1-02:03:04`, in seconds; None for `UNLIMITED`."""
    try:
        return parse_seconds(text)
    except ValueError:
        return None


def count_in(text: str, gres: str) -> int | None:
    """Return the number in what a job asks of GRES, as `gres:gpumem:6144` or `gpumem=6G`."""
    found = re.search(rf"(?:^|[:,/]){re.escape(gres)}[:=]([0-9]{{1,15}})(?![0-9])([KMGT]?)", text)
    if found is None:
        return None
    return int(found[1]) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}[found[2]]


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


# ------------------------------------------------------------------
# Which configuration holds for commands of a cluster, and where the daemon of a node is.


_SITE = "/etc/radrm/radrm.toml"
_MOST_READ = 1 << 20


def cluster_config(environ: Mapping[str, str]) -> Config:
    """Return the configuration of `RADRM_CONFIG`, else of the site, else of the user.

    Raises `BadConfig`.
    """
    from radrm.config import load_config  # late, see `daemon_home`

    site = not environ.get("RADRM_CONFIG") and os.path.exists(_SITE)
    return load_config(environ, system=site)


def daemon_home(environ: Mapping[str, str]) -> str:
    """Return `slurm.home`. Each job's start pays for it, so nothing else is read or checked.

    Raises `BadConfig` and OSError.
    """
    with suppress(FileNotFoundError), open(environ.get("RADRM_CONFIG") or _SITE, "rb") as file:
        text = file.read(_MOST_READ)
        if b"home" not in text:
            return ""
        from radrm.toml import parse_toml  # where there is one to read

        with suppress(ValueError, RecursionError, AttributeError):
            home = parse_toml(text.decode()).get("slurm", {}).get("home", "")
            if isinstance(home, str) and home[:1] in ("", "/"):
                return home
    return cluster_config(environ).slurm.home  # or say what is wrong


def daemon_paths(home: str, environ: Mapping[str, str], uid: int) -> tuple[Paths, ...]:
    """Return where the daemon of this node may be: `slurm.home`, where that is set; else that of
    the server, also while it is down; else the user's."""
    if home:
        home = home.replace("%n", environ.get("SLURMD_NODENAME", ""))
        return client_paths({**environ, "RADRM_HOME": home}, uid)
    # A job's environment is that of its submission: RADRM_HOME may name another daemon.
    server = servers_own()
    return client_paths(environ, uid) if server is None else (server,)
