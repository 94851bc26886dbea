"""`radrm doctor --slurm` on a real cluster, with a daemon on one node."""

from __future__ import annotations

import json
from typing import Any

import pytest

from radrm.config import SlurmConfig
from radrm.slurm.setup import job_submit_lua
from tests.forks import daemons
from tests.slurm.cluster import Cluster

pytestmark = pytest.mark.daemon


def findings(cluster: Cluster, node: str) -> dict[str, dict[str, Any]]:
    settings = cluster.folder / f"{node}.toml"
    settings.write_text(f'[slurm]\nenabled = true\nnode = "{node}"\nhome = "{cluster.home}"\n')
    environment = {**cluster.env, "RADRM_CONFIG": str(settings)}
    done = daemons.run(("doctor", "--slurm", "--json"), environment, cluster.work)
    assert done.stderr == ""
    found = {each["check"]: each for each in json.loads(done.stdout)}
    failed = any(each["level"] == "fail" for each in found.values())
    assert done.returncode == (1 if failed else 0)
    return found


def test_a_cluster_and_the_daemon_of_a_node(cluster: Cluster) -> None:
    cluster.daemon("g1")
    found = findings(cluster, "g1")
    judged = [name for name, each in found.items() if each["level"] != "ok"]
    assert judged == ["HealthCheckProgram", "job_submit.lua", "ProctrackType", "accounting"]
    assert found["GPU memory"]["finding"] == "g1 has gpumem:81920, and its GPUs have 81920 MiB"
    cluster.lua.write_text(job_submit_lua(SlurmConfig()))
    assert findings(cluster, "g2")["job_submit.lua"]["level"] == "ok"
