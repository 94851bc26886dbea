"""Slurm's HealthCheckProgram, as `radrm slurm setup` prints it."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from benchmarks.cluster.place import OF_NODES, prepare
from radrm.slurm.setup import HEALTH, health
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_until

NODE = "g1"
MORE = "HealthCheckProgram={program}\nHealthCheckInterval=2\nHealthCheckNodeState=ANY"


def state(cluster: Cluster) -> str:
    return cluster.scontrol("-o", "show", "node", NODE)


@pytest.mark.nightly
def test_a_node_without_its_daemon_is_drained_and_resumed() -> None:
    need_slurm()
    site = Cluster()
    program, real = site.folder / HEALTH, site.folder / f"real-{HEALTH}"
    site.more = MORE.format(program=program)
    radrm = Path(sys.executable).parent / "radrm"
    real.write_text(health(str(radrm), str(site.folder)))
    try:
        prepare(site)
        # slurmd gives it no environment; here Slurm and radrm are not at their usual places.
        names = "SLURM_CONF", "RADRM_CONFIG", "PYTHONPATH", "PATH"
        lines = "".join(f"export {name}={shlex.quote(site.env[name])}\n" for name in names)
        program.write_text(f"#!/bin/sh\n{lines}exec sh {real}\n")
        program.chmod(0o755)
        site.start()
        home = site.daemon(NODE, [each.replace("%n", NODE) for each in OF_NODES])
        wait_until(lambda: "DRAIN" not in state(site), "it to take jobs", 120.0)
        home.kill()
        wait_until(lambda: "Reason=radrm: " in state(site), "it to be drained", 120.0)
        home.start()
        wait_until(lambda: "DRAIN" not in state(site), "it to be resumed", 120.0)
    finally:
        site.stop()
