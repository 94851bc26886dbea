"""The road of docs/cluster.md, from a bare Slurm, by its own commands."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.cluster.place import OF_NODES, prepare
from tests.forks import daemons
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_until

OURS = ("GresTypes=", "JobSubmitPlugins=", "PartitionName=shared", "SchedulerParameters=")
NODES = ("--node", "g[1-2]:2x40G", "--node", "g3:40G")


class Bare(Cluster):
    """A cluster that has never heard of radrm: one partition, no GRES, no rules."""

    def write_conf(self, conf: str) -> None:
        kept = [line for line in conf.splitlines() if not line.startswith(OURS)]
        text = re.sub(r" Gres=gpumem:\d+", "", "\n".join(kept))
        (self.folder / "slurm.conf").write_text(f"{text}\n")

    def radrm(self, *words: str, conf: Path | None = None) -> subprocess.CompletedProcess[str]:
        """A command on the controller."""
        conf = conf or self.folder / "slurm.conf"
        return daemons.run(words, {**self.env, "SLURM_CONF": str(conf)}, self.work)

    def doctor(self, conf: Path | None = None) -> dict[str, str]:
        """The level of each check."""
        said = self.radrm("doctor", "--slurm", "--json", conf=conf)
        return {each["check"]: each["level"] for each in json.loads(said.stdout)}


@pytest.fixture(scope="module")
def site() -> Iterator[Bare]:
    need_slurm()
    place = Bare()
    try:
        place.start()
        prepare(place)
        yield place
    finally:
        place.stop()


def merged(conf: str, printed: str) -> str:
    """The site's file with the lines of setup, as these say: whole ones, and what is appended."""
    whole = [line for line in printed.splitlines() if line and not line.startswith("#")]
    for name, gres in re.findall(r"append to your line NodeName=(\S+): (Gres=\S+)", printed):
        own = r"g[12]" if name == "g[1-2]" else name
        conf = re.sub(rf"^(NodeName={own} .*)$", rf"\1 {gres}", conf, flags=re.MULTILINE)
    whole += re.findall(r"or write it: (\S+)", printed)
    return conf + "\n".join(whole) + "\n"


def test_from_a_bare_slurm_to_jobs_that_share_gpus(site: Bare) -> None:
    conf = site.folder / "slurm.conf"
    assert site.doctor()["partition"] == "fail"
    printed = site.radrm("slurm", "setup", *NODES, "--only", "slurm.conf")
    assert "the nodes differ" in printed.stderr
    draft = site.folder / "slurm.conf.new"
    text = merged(conf.read_text(), printed.stdout)

    # A line of a node that a site has already is fatal.
    draft.write_text(f"{text}NodeName=g3 Gres=gpumem:40960\n")
    assert site.doctor(draft)["slurm.conf"] == "fail"

    nodes = *NODES[:3], "g3:1x40G"
    draft.write_text(text)
    for name in "gres.conf", "job_submit.lua":
        (site.folder / name).write_text(site.radrm("slurm", "setup", *nodes, "--only", name).stdout)
    levels = site.doctor(draft)
    assert "fail" not in levels.values()
    assert levels["slurm.conf"] == levels["job_submit.lua"] == "ok"

    draft.rename(conf)
    assert site.doctor()["slurm.conf"] == "warn", "it is not live"
    site.stop_slurmctld()
    for node in site.nodes:
        site.kill_slurmd(node)
    site.start_slurmctld()
    for node in site.nodes:
        site.start_slurmd(node)
    idle = "sinfo", "-h", "-p", "shared", "-t", "idle", "-o", "%D"
    wait_until(lambda: site.query(*idle) == "3\n", "all nodes to take jobs")
    assert site.doctor()["slurm.conf"] == "ok"

    for node, gpus in ("g1", "sim:2xA100-40GB"), ("g3", "sim:1xA100-40GB"):
        site.daemon(node, [each.replace("%n", node) for each in OF_NODES], gpus, scale=20.0)
    body = "#!/bin/sh\n#RAD --gpus=2 --gpu-memory=10G\necho $SLURMD_NODENAME\n"
    job = site.sbatch(body, "-p", "shared", "--exclude=g2")
    assert site.wait(job) == ("COMPLETED", "0:0")
    assert site.output(job) == "g1\n" and site.job(job)["ExcNodeList"] == "g[2-3]"
