"""The settings `[slurm]`: a daemon on a node of a Slurm cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SlurmConfig:
    """Jobs of a Slurm partition whose GPUs radrm shares. Commands on login nodes read this, too."""

    enabled: bool = False
    """Take the jobs of this node that Slurm has started."""
    partition: str = "shared"
    """The partition of Slurm whose jobs share GPUs."""
    gres: str = "gpumem"
    """The name of the counted GRES by which Slurm chooses the node: MiB of GPU memory."""
    default_gpumem: str = "6G"
    """What a job asks of it of which nothing is known, for each GPU."""
    local_wait_s: float = 1800.0
    """Time that a job waits on a node for its GPU. Then it goes back to Slurm, for another node, at
    most three times; then it fails. Slurm's time limit is the job's own and this time."""
    only: bool = False
    """Refuse jobs that do not come from Slurm."""
    node: str = ""
    """The name of this node in Slurm; empty: what Slurm takes this server for."""
    home: str = ""
    """The folder of the node's daemon (its RADRM_HOME); `%n` is the node's name. Empty: the daemon
    of the server, else that of the user."""
    fence: bool = False
    """End the jobs of a node that Slurm's controller has not answered for `SlurmdTimeout`: it may
    have started them on another node."""
