"""The settings `[slurm]`: a daemon on a node of a Slurm cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """Jobs of a Slurm partition whose GPUs radrm shares. Commands on login nodes read this, too."""

    enabled: bool = False
    """Take the jobs of this node that Slurm has started.

    A node of a cluster whose partition radrm shares."""
    partition: str = "shared"
    """The partition of Slurm whose jobs share GPUs.

    A site that has named it otherwise."""
    gres: str = "gpumem"
    """The name of the counted GRES by which Slurm chooses the node: MiB of GPU memory.

    A site that has named it otherwise."""
    default_gpumem: str = "6G"
    """What a job asks of it of which nothing is known, for each GPU.

    A site whose usual job is smaller or larger."""
    local_wait_s: float = 1800.0
    """Time that a job waits on a node for its GPU. Then it goes back to Slurm, for another node, at
    most three times; then it fails. Slurm's time limit is the job's own and this time.

    A site with many nodes: elsewhere a GPU may be free sooner."""
    only: bool = False
    """Refuse jobs that do not come from Slurm.

    A site whose users must not pass Slurm's accounting."""
    node: str = ""
    """The name of this node in Slurm; empty: what Slurm takes this server for.

    A site whose host names are not Slurm's names."""
    home: str = ""
    """The folder of the node's daemon (its RADRM_HOME); `%n` is the node's name. Empty: the daemon
    of the server, else that of the user.

    A site whose nodes share a file system, or keep state elsewhere."""
    fence: bool = False
    """End the jobs of a node that Slurm's controller has not answered for `SlurmdTimeout`: it may
    have started them on another node.

    A site that requeues jobs of nodes that are down."""
