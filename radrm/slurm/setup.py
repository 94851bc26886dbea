"""The lines that Slurm's own configuration needs: `radrm slurm setup`. It writes nothing."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence

from msgspec import Struct

from radrm.core.records import DECLARED_MARGIN
from radrm.core.units import parse_mib
from radrm.slurm.asking import NAME
from radrm.slurm.scripts import filled, wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from radrm.config import SlurmConfig


MARGIN_MIB = 2048
"""What the policies keep free beside a job's need (`margin_mib`), at least. Beside a declared need
without a limit it is `DECLARED_MARGIN` of that, if that is more."""


class ClusterNode(Struct, frozen=True):
    """A node of the partition, by Slurm's name or range of names, and the MiB of all its GPUs.
    `gpus`: how many they are, all of one size; 0: unknown, or of several sizes."""

    name: str
    gpumem_mib: int
    gpus: int = 0


def slurm_conf(config: SlurmConfig, nodes: Sequence[ClusterNode]) -> str:
    """Return the lines for slurm.conf: whole ones, and what is to be appended to lines of yours."""
    named = ",".join(node.name for node in nodes)
    own = "\n".join(
        f"# append to your line NodeName={node.name}: Gres={config.gres}:{node.gpumem_mib}"
        f"  (to its Gres=: ,{config.gres}:{node.gpumem_mib})"
        for node in nodes
    )
    return f"""\
# 1. What Slurm counts: the GPU memory of each node. Then restart slurmctld and all slurmd.
# append to your line GresTypes=, or write it: GresTypes={config.gres}
{own}
# Needed, and likely yours already: SelectType=select/cons_tres SelectTypeParameters=CR_Core_Memory
#
# 2. The partition. Then: scontrol reconfigure. FORCE:1 gives each core to one job; without
# DefMemPerCPU each job would take all of a node's memory, and be alone there.
PartitionName={config.partition} Nodes={named} OverSubscribe=FORCE:1 MaxNodes=1 \
DefMemPerCPU=4096 State=UP
#
# 3. The partition's rules: {NAME}, beside slurm.conf. Then: scontrol reconfigure.
# append to your line JobSubmitPlugins=, or write it: JobSubmitPlugins=lua
#
# 4. A node whose radrm takes no jobs is drained, and resumed. Slurm has one such program: if yours
# is another, call this one from it. Then: scontrol reconfigure.
# HealthCheckProgram=/etc/slurm/{HEALTH} HealthCheckInterval=60 HealthCheckNodeState=ANY
#
# If you like. Slurm waits 3 s for more jobs before it starts one; append to SchedulerParameters=:
# batch_sched_delay=0. With slurmdbd, what jobs have asked for is counted; append to
# AccountingStorageTRES=: gres/{config.gres}; to the partition, 1000 MiB as a CPU:
# TRESBillingWeights="CPU=1.0,GRES/{config.gres}=0.001". Slurm does not start with these without it.
"""


def unequal(nodes: Sequence[ClusterNode]) -> str | None:
    """Return the advice for nodes with different GPUs; None if all have equal or declared ones."""
    if len({node.gpumem_mib for node in nodes}) < 2 or all(node.gpus for node in nodes):
        return None
    return (
        "the nodes differ, and their sum does not tell Slurm how large one GPU is; name number and "
        "size, so that Slurm chooses right: --node 'g[1-8]:8x80G'"
    )


def gres_conf(config: SlurmConfig, nodes: Sequence[ClusterNode]) -> str:
    """Return the lines for gres.conf."""
    return "".join(
        f"NodeName={node.name} Name={config.gres} Count={node.gpumem_mib} Flags=CountOnly\n"
        for node in nodes
    )


def job_submit_lua(
    config: SlurmConfig, nodes: Sequence[ClusterNode] = (), radrm: str = "radrm"
) -> str:
    """Return job_submit.lua with the names and amounts of the configuration. `nodes`: none, if they
    are unknown. `radrm`: where it is on the nodes."""
    known = {
        "PARTITION": config.partition,
        "GRES": config.gres,
        "DEFAULT_MIB": str(parse_mib(config.default_gpumem)),
        "MARGIN_MIB": str(MARGIN_MIB),
        "MARGIN": f"{DECLARED_MARGIN:g}",
        "MOST_MIB": str(max((node.gpumem_mib for node in nodes), default=0)),
        "NODES": "".join(
            f'      {{ names = "{node.name}", gpus = {node.gpus}, '
            f"mib = {node.gpumem_mib // node.gpus} }},\n"
            for node in nodes
            if node.gpus
        ),
        "WRAPPER": wrapper(radrm),
    }
    return filled(NAME, known)


HEALTH = "radrm-health.sh"
"""The name of the program that Slurm runs on each node."""


def health(radrm: str = "radrm", run: str = "/run") -> str:
    """Return the program by which slurmd drains a node whose radrm takes no jobs. `run`: where it
    counts its failures; only root may write there."""
    return filled("health.sh", {"RADRM": shlex.quote(radrm), "RUN": shlex.quote(run)})


def program() -> str:
    """Return the path of the `radrm` that runs: on the nodes it is likely at the same place."""
    import shutil

    found = shutil.which("radrm") or os.path.join(os.path.dirname(sys.executable), "radrm")
    return os.path.abspath(found)
