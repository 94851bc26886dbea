"""Slurm's variables in jobs that were submitted as Slurm's.

What an option of sbatch says, the submitter's client sets (`radrm.jobfile.slurm`); here is what
only the daemon knows. As in Slurm, a variable whose option was not given stays unset.

Source: sbatch(1) of Slurm 25.11, "Output environment variables".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from radrm.core.actions import Launch
from radrm.core.records import Device, Job
from radrm.jobfile.shell import SHELLS, base

PARTITION, CLUSTER = "gpu", "radrm"
"""There is one of each; squeue and sinfo show the same names."""


COMMANDS = "RADRM_COMMANDS"
"""The folder of the programs with Slurm's names."""
_LOGIN = re.compile("-[A-Za-z]*l[A-Za-z]*|--login")
_IN_LOGIN_SHELL = f'PATH=${COMMANDS}:$PATH; . "$0"'


def login_shell(interpreter: Sequence[str]) -> list[str] | None:
    """Return the words that begin a script of `#!/bin/bash -l`; None for other interpreters.

    A login shell reads /etc/profile, which sets the PATH anew on Debian and Ubuntu. So the folder
    of Slurm's commands is put there after that, and before the script. Functions of the profile,
    as `module` and `conda`, stay known.
    """
    if len(interpreter) != 2 or base(interpreter[0]) not in SHELLS:
        return None
    return [*interpreter, "-c", _IN_LOGIN_SHELL] if _LOGIN.fullmatch(interpreter[1]) else None


def slurm_variables(
    action: Launch,
    job: Job,
    submitted: Mapping[str, str],
    devices: Sequence[Device],
    cpus: int,
    memory_mib: int | None,
    host: str,
    now_s: float,
) -> dict[str, str]:
    """Return what the batch shell of an attempt gets.

    `submitted`: the environment of the submission. `devices`: those of the attempt, in order.
    `cpus`: CPUs that it may use. `memory_mib`: host memory that it booked; None: none. `now_s`: its
    start, in seconds since the epoch.
    """
    number, spec = str(job.id), job.spec
    found = {
        "SLURM_JOB_ID": number,
        "SLURM_JOBID": number,
        "SLURM_JOB_NAME": spec.name,
        "SLURM_JOB_USER": spec.user,
        "SLURM_JOB_UID": str(spec.uid),
        "SLURM_JOB_PARTITION": PARTITION,
        "SLURM_CLUSTER_NAME": CLUSTER,
        "SLURM_JOB_START_TIME": str(int(now_s)),
        **_of_node(host),
        # The batch shell is task 0 of 1, however many tasks its steps will have.
        **dict.fromkeys(("SLURM_PROCID", "SLURM_LOCALID", "SLURM_GTIDS"), "0"),
        "SLURM_TASKS_PER_NODE": submitted.get("SLURM_NTASKS") or "1",
        "SLURM_CPUS_ON_NODE": str(cpus),
        "SLURM_JOB_CPUS_PER_NODE": str(cpus),
    }
    if job.limit_s is not None:
        found["SLURM_JOB_END_TIME"] = str(int(now_s + job.limit_s))
    if devices:
        found["SLURM_GPUS_ON_NODE"] = str(len(devices))
        found["SLURM_JOB_GPUS"] = ",".join(str(device.index) for device in devices)
    if memory_mib is not None and not any(name in submitted for name in _MEMORY):
        found["SLURM_MEM_PER_NODE"] = str(memory_mib)
    if action.number > 1:
        found["SLURM_RESTART_COUNT"] = str(action.number - 1)
    if (of := job.array) is not None:
        found |= {"SLURM_ARRAY_JOB_ID": str(of.array_id), "SLURM_ARRAY_TASK_ID": str(of.index)}
    return found


def _of_node(host: str) -> dict[str, str]:
    """The variables that name the only node."""
    names = ("SLURM_JOB_NODELIST", "SLURM_NODELIST", "SLURMD_NODENAME", "SLURM_TOPOLOGY_ADDR")
    return {
        **dict.fromkeys(names, host),
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        **dict.fromkeys(("SLURM_JOB_NUM_NODES", "SLURM_NNODES"), "1"),
        "SLURM_NODEID": "0",
    }


_MEMORY = ("SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU")
