"""`radrm pilot --here`: the batch process of a pilot's Slurm job."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from radrm.host.gpus.readings import open_gpus
from radrm.host.wall import wall_s
from radrm.slurm.outer import moment, shown, this_job
from radrm.slurm.pilot.gpus import given
from radrm.slurm.pilot.running import Pilot
from radrm.slurm.pilot.server import Server, make_home
from radrm.slurm.pilot.shared import Shared, shared_root
from radrm.slurm.pilot.starting import own_jobs
from radrm.slurm.settings import cluster_config

_OUTSIDE = (
    "radrm pilot --here runs inside a job of Slurm, and this is none; start one: "
    "radrm pilot --gpus 2 --time 8h"
)
_LONGEST_MARGIN_S, _MARGIN = 120.0, 0.1


def until_of(end_s: float | None, now_s: float) -> float | None:
    """Return until when jobs may run in a Slurm job that ends at `end_s`: two minutes before that,
    or a tenth of a short one."""
    if end_s is None:
        return None
    return end_s - min(_LONGEST_MARGIN_S, max(0.0, _MARGIN * (end_s - now_s)))


def main(simulated: str | None, idle_s: float | None) -> int:
    """Run the pilot in the Slurm job of this process. `simulated`: GPUs in place of real ones.
    Returns the exit code. Raises `RadrmError`."""
    job = this_job(os.environ, _OUTSIDE)
    end_s = moment(shown(job.id).get("EndTime", ""))
    shared = Shared(shared_root(os.environ))
    shared.make()
    words = ["--set", "slurm.enabled=false", *host_words(os.environ)]
    if simulated is not None:
        words += ["--gpus", simulated]
    else:
        source = open_gpus(cluster_config(os.environ).readings)
        try:
            own = given(source.devices(), os.environ)
        finally:
            source.close()
        words += ["--set", f"gpus.only={json.dumps(own)}"]
    shared.make_pilot(job.id)
    home = make_home(job.id, f"{shared.of(job.id)}/checkpoints")
    server = Server(home, words)
    until_s = until_of(end_s, wall_s())
    return Pilot(shared, job.id, job.node, server, until_s, idle_s, own_ids).run()


def host_words(environ: Mapping[str, str]) -> list[str]:
    """Return the settings of the CPUs and the host memory that Slurm has given."""
    cpus, per_node, per_cpu = (
        int(text) if (text := environ.get(name, "")).isascii() and text.isdigit() else 0
        for name in ("SLURM_CPUS_ON_NODE", "SLURM_MEM_PER_NODE", "SLURM_MEM_PER_CPU")
    )
    mib = per_node or per_cpu * cpus
    words = ["--set", f"node.cpus={cpus}"] if cpus else []
    return [*words, "--set", f"node.memory={mib}"] if mib else words


def own_ids() -> set[str]:
    """Return the numbers of this user's Slurm jobs that have not ended. Raises `RadrmError`."""
    return set(own_jobs())
