"""The files of a Slurm cluster on one host: slurm.conf, gres.conf and job_submit.lua.

Debian's Slurm 22.05.8 takes them. Three nodes have one NodeHostname and a Port each, so three
`slurmd -N gN` run side by side. What they say they have (CPUs, memory, `gpumem`) is counted only:
`config_overrides` keeps Slurm from comparing it with the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

NODES = ("g1", "g2", "g3")
GPUMEM_MIB = 2 * 40960
"""The `gpumem` of a node: that of `sim:2xA100-40GB`."""

CPUS = 16
MEMORY_MIB = 64_000
SLURMD_TIMEOUT_S = 20
KILL_WAIT_S = 30
CRED_EXPIRE_S = 5
"""A requeued job may start so many seconds (plus one) after its end; 120 where nothing is set, or
less than 5."""

ACCEPT = """\
function slurm_job_submit(job, partitions, user) return slurm.SUCCESS end
function slurm_job_modify(job, record, partitions, user) return slurm.SUCCESS end
return slurm.SUCCESS
"""
"""A job_submit.lua that changes nothing."""


def slurm_conf(
    folder: Path,
    host: str,
    controller_port: int,
    ports: Sequence[int],
    more: str = "",
    names: Sequence[str] = NODES,
) -> str:
    """The text of slurm.conf. `more` are lines of a test, the last ones."""
    nodes = "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS}"
        f" RealMemory={MEMORY_MIB} Gres=gpumem:{GPUMEM_MIB}"
        for name, port in zip(names, ports, strict=True)
    )
    listed = ",".join(names)
    return f"""\
ClusterName=radrm-test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/socket,cred_expire={CRED_EXPIRE_S}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0,bf_interval=1
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/filetxt
JobCompLoc={folder}/jobcomp.log
JobSubmitPlugins=lua
GresTypes=gpumem
DefMemPerCPU=100
JobRequeue=1
ReturnToService=2
SlurmdTimeout={SLURMD_TIMEOUT_S}
SlurmctldTimeout=10
KillWait={KILL_WAIT_S}
OverTimeLimit=0
InactiveLimit=0
MinJobAge=300
Waittime=0
MessageTimeout=10
TCPTimeout=2
{nodes}
PartitionName=shared Nodes={listed} OverSubscribe=FORCE:1 MaxTime=INFINITE State=UP Default=YES
PartitionName=whole Nodes={listed} OverSubscribe=NO MaxTime=INFINITE State=UP
{more}
"""


def gres_conf() -> str:
    return f"Name=gpumem Count={GPUMEM_MIB} Flags=CountOnly\n"
