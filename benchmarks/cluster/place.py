"""A Slurm of three nodes with a radrm daemon on each, on simulated GPUs.

Slurm and daemons are those of the tests (`tests/slurm/cluster.py`), as root. A job is a script
that `radrm slurm-step` runs, as job_submit.lua makes it for the partition.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.paths import REPOSITORY
from tests.slurm.cluster import Cluster

SECTION = """\
[slurm]
enabled = true
partition = "shared"
gres = "gpumem"
home = "{home}"
"""


@contextmanager
def running_cluster(
    settings: Sequence[str] = (), scale: float = 1.0, more: str = ""
) -> Iterator[Cluster]:
    """Slurm and three daemons that answer; all ends with the block."""
    cluster = Cluster(more)
    try:
        cluster.start()
        prepare(cluster)
        for node in cluster.nodes:
            cluster.daemon(node, settings, scale=scale)
        yield cluster
    finally:
        cluster.stop()


def prepare(cluster: Cluster) -> None:
    """Write the configuration that daemons and steps read, and let jobs find radrm."""
    config = cluster.folder / "radrm.toml"
    config.write_text(SECTION.format(home=cluster.home))
    cluster.env["RADRM_CONFIG"] = str(config)
    cluster.env["PYTHONPATH"] = str(REPOSITORY)
    cluster.env["PATH"] = f"{Path(sys.executable).parent}:{cluster.env['PATH']}"
    cluster.env.pop("PYTHONDONTWRITEBYTECODE", None)


def through_radrm(cluster: Cluster, name: str, script: str) -> str:
    """The batch script whose step runs `script` under the node's daemon."""
    place = cluster.work / name
    place.write_text(f"#!/bin/sh\n{script}\n")
    place.chmod(0o755)
    return f"exec radrm slurm-step {place}"
