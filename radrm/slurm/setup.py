"""What a cluster's configuration says, and the lines that Slurm's own needs."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files

from msgspec import Struct

from radrm.config import Config, SlurmConfig, load_config
from radrm.core.records import DECLARED_MARGIN
from radrm.core.units import parse_mib, show_seconds
from radrm.host.storage.paths import Paths, client_paths, servers_own

# ------------------------------------------------------------------
# The lines for Slurm's own configuration: `radrm slurm setup`. It writes nothing.


# ------------------------------------------------------------------
# Which configuration holds for commands of a cluster, and where the daemon of a node is.


MARGIN_MIB = 2048
"""What the policies keep free beside a job's need (`margin_mib`), at least. Beside a declared need
without a limit it is `DECLARED_MARGIN` of that, if that is more."""
_SITE = "/etc/radrm/radrm.toml"


def cluster_config(environ: Mapping[str, str]) -> Config:
    """Return the configuration of `RADRM_CONFIG`, else of the site, else of the user.

    Raises `BadConfig`.
    """
    site = not environ.get("RADRM_CONFIG") and os.path.exists(_SITE)
    return load_config(environ, system=site)


def daemon_paths(config: SlurmConfig, environ: Mapping[str, str], uid: int) -> tuple[Paths, ...]:
    """Return where the daemon of this node may be: where the configuration says; else that of the
    server, also while it is down; else the user's."""
    if config.home:
        home = config.home.replace("%n", environ.get("SLURMD_NODENAME", ""))
        return client_paths({**environ, "RADRM_HOME": home}, uid)
    # A job's environment is that of its submission: RADRM_HOME may name another daemon.
    server = servers_own()
    return client_paths(environ, uid) if server is None else (server,)


class ClusterNode(Struct, frozen=True):
    """A node of the partition, by Slurm's name or range of names, and the MiB of all its GPUs."""

    name: str
    gpumem_mib: int


def slurm_conf(config: SlurmConfig, nodes: list[ClusterNode]) -> str:
    """Return the lines for slurm.conf."""
    named = ",".join(node.name for node in nodes)
    own = "\n".join(
        f"NodeName={node.name} Gres={config.gres}:{node.gpumem_mib}   # and what it has already"
        for node in nodes
    )
    return f"""\
# The GPU memory of each node is counted, so that Slurm chooses the node; radrm there the GPU.
# Where a line exists already, add to it: GresTypes=gpu,{config.gres}
GresTypes={config.gres}
{own}
# Several jobs on a node, each with its CPUs and host memory. Without DefMemPerCPU each job would
# take all of a node's memory, and be alone there. FORCE:1 gives each core to one job; FORCE alone
# is FORCE:4.
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=4096
PartitionName={config.partition} Nodes={named} OverSubscribe=FORCE:1 MaxNodes=1 State=UP
# The step gives a job back that waits for its GPU for {show_seconds(config.local_wait_s)}.
# MaxTime of the partition includes this wait.
JobRequeue=1
# Slurm waits 3 s for more jobs before it starts one, unless it is told not to.
SchedulerParameters=batch_sched_delay=0
# A partition's rules (job_submit.lua lies beside slurm.conf).
JobSubmitPlugins=lua
# With slurmdbd: what jobs have used of their GPUs is kept with their comments, for sacct and
# radrm report. Two more lines keep what they asked for, and count it for fair share, 1000 MiB as
# a CPU. Slurm does not start with them without slurmdbd, so they are comments here.
AccountingStoreFlags=job_comment
#AccountingStorageTRES=gres/{config.gres}
#PartitionName=... TRESBillingWeights="CPU=1.0,GRES/{config.gres}=0.001"
"""


def gres_conf(config: SlurmConfig, nodes: list[ClusterNode]) -> str:
    """Return the lines for gres.conf."""
    return "".join(
        f"NodeName={node.name} Name={config.gres} Count={node.gpumem_mib} Flags=CountOnly\n"
        for node in nodes
    )


def job_submit_lua(config: SlurmConfig, nodes: Sequence[ClusterNode] = ()) -> str:
    """Return job_submit.lua with the names and amounts of the configuration. `nodes`: none, if they
    are unknown."""
    text = files("radrm.slurm").joinpath("job_submit.lua").read_text("utf-8")
    known = {
        "PARTITION": config.partition,
        "GRES": config.gres,
        "DEFAULT_MIB": str(parse_mib(config.default_gpumem)),
        "MARGIN_MIB": str(MARGIN_MIB),
        "MARGIN": f"{DECLARED_MARGIN:g}",
        "MOST_MIB": str(max((node.gpumem_mib for node in nodes), default=0)),
        "WAIT_MIN": str(math.ceil(config.local_wait_s / 60)),
    }
    for name, value in known.items():
        text = text.replace(f"@{name}@", value)
    return text
