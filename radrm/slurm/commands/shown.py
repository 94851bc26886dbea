"""Jobs as Slurm's commands show them: the fields of `scontrol show job`, `sacct`, `squeue -O`.

What radrm does not know is shown as Slurm shows what it does not know, never guessed.
"""

from __future__ import annotations

import contextlib
import os

from radrm.cli.show.formats import moment
from radrm.client.connection import Client, every_job
from radrm.client.text import WAITING, label
from radrm.daemon.slurm_variables import PARTITION
from radrm.errors import Refused

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    Job = dict[str, Any]

_STATES = {"RECOVERING": "PENDING", "LAUNCHING": "CONFIGURING", "STOPPING": "COMPLETING"}
NO_JOB = "Invalid job id specified"


class NoJob(Refused):
    """None of the jobs is known, in Slurm's words."""


def known(jobs: Sequence[str]) -> list[str]:
    """Return those of these jobs that radrm knows. Raises `RadrmError` if no daemon answers."""
    found = []
    with Client() as client:
        client.connect()
        for job in jobs:
            with contextlib.suppress(Refused):
                client.ask("status", jobs=[job], all=True, after=0)
                found.append(job)
    return found


def asked(jobs: Sequence[str], **words: Any) -> list[Job]:
    """Return the documents of jobs, ended ones too; unknown ones are left out.

    Raises `NoJob` if jobs are named and none is known.
    """
    with Client() as client:
        if not jobs:
            return every_job(client.ask, jobs=[], all=True, **words)
        found: dict[int, Job] = {}
        for job in jobs:
            try:
                every = every_job(client.ask, jobs=[job], all=True, **words)
            except Refused:
                continue
            found |= {each["id"]: each for each in every}
    if not found and not any(words.values()):
        raise NoJob(NO_JOB)
    return list(found.values())


def state(job: Job) -> str:
    """Return a job's state by Slurm's name."""
    if job["outcome"] == "oom" and job["state"] == "FAILED":
        return "OUT_OF_MEMORY"
    name: str = job["state"]
    return _STATES.get(name, name)


def host() -> str:
    return os.uname().nodename


def exit_code(job: Job) -> str:
    """Return `CODE:SIGNAL`."""
    code = job["exit_code"] or 0
    return f"0:{code - 128}" if code > 128 else f"{code}:0"


def time(seconds: float) -> str:
    """A time as sacct and scontrol write it: `[D-]HH:MM:SS`."""
    minutes, second = divmod(int(max(0.0, seconds)), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-" * bool(days) + f"{hour:02}:{minute:02}:{second:02}"


def nodes(job: Job) -> str:
    return "" if job["state"] in WAITING else host()


def tres(job: Job) -> str:
    """What it has booked, as `cpu=4,mem=8192M,node=1,gres/gpu=2`."""
    found = [f"cpu={cpus(job)}"]
    if job.get("memory_mib"):
        found.append(f"mem={job['memory_mib']}M")
    found.append("node=1")
    if job["gpus"]:
        found.append(f"gres/gpu={job['gpus']}")
    return ",".join(found)


def cpus(job: Job) -> str:
    """The CPUs that it asked for; 0 if it asked for none, and may use all."""
    return f"{job.get('cpus') or 0:g}"


def limit(job: Job) -> str:
    seconds = job.get("time_limit_s")
    return "UNLIMITED" if seconds is None else time(seconds)


def started(job: Job) -> str:
    return _moment(job["started_at"])


def ended(job: Job) -> str:
    return _moment(job["ended_at"])


def submitted(job: Job) -> str:
    return _moment(job["submitted_at"])


def elapsed(job: Job) -> str:
    return time(0.0 if job["started_at"] is None else job.get("ran_s") or 0.0)


def number(job: Job) -> str:
    """What Slurm calls it: `12`, or `12_3` in an array."""
    return label(job)


def _moment(at_s: float | None) -> str:
    return "Unknown" if at_s is None else moment(at_s)


def files(job: Job) -> dict[str, str]:
    """Return the files of a job, by Slurm's names. None before its start."""
    with Client() as client:
        try:
            found = client.ask("logs", jobs=[str(job["id"])])
        except Refused:
            return {}
    paths = {
        "Command": found.get("file") or "(null)",
        "WorkDir": found.get("cwd"),
        "StdErr": found["stderr"],
        "StdIn": os.devnull,
        "StdOut": found["stdout"],
    }
    return {name: path for name, path in paths.items() if path}


def record(job: Job, detailed: bool = False, files: Mapping[str, str] | None = None) -> list[str]:
    """Return the lines of `scontrol show job`."""
    user, where = job["user"], nodes(job)
    array = ""
    if job.get("array_id") is not None:
        array = f"ArrayJobId={job['array_id']} ArrayTaskId={job.get('array_index')} "
    why = (job["reason"] if job["state"] in WAITING else None) or "None"
    found = [
        f"JobId={job['id']} {array}JobName={job['name']}",
        f"UserId={user} Priority={job['priority']} Partition={PARTITION}",
        f"JobState={state(job)} Reason={why.replace(' ', '_')} Dependency={_after(job)}",
        f"Requeue={int(job['attempts'] > 1)} Restarts={max(0, job['attempts'] - 1)} BatchFlag=1 "
        f"ExitCode={exit_code(job)}",
        f"RunTime={elapsed(job)} TimeLimit={limit(job)} TimeMin=N/A",
        f"SubmitTime={submitted(job)} StartTime={started(job)} EndTime={ended(job)}",
        f"NodeList={where} BatchHost={where}" if where else "NodeList=",
        f"NumNodes=1 NumCPUs={cpus(job)} NumTasks=1 ReqTRES={tres(job)}",
    ]
    if detailed and job["devices"]:
        found.append(f"  Nodes={where} GRES=gpu:{len(job['devices'])}({','.join(job['devices'])})")
    if job.get("comment"):
        found.append(f"Comment={job['comment']}")
    return found + [f"{name}={path}" for name, path in (files or {}).items()]


def _after(job: Job) -> str:
    ends = {"ok": "afterok", "failed": "afternotok", "any": "afterany"}
    others = job.get("after") or ()
    return ",".join(f"{ends[each['condition']]}:{each['job']}" for each in others) or "(null)"
