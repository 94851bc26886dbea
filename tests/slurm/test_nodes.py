"""Nodes that cannot serve a job: a bad one, one that is too small, one without its daemon."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.cluster.place import OF_NODES, prepare
from radrm.config import SlurmConfig
from radrm.slurm.asking import record
from radrm.slurm.setup import job_submit_lua
from tests.forks import daemons
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_until

OFF, SMALL, GOOD = "g1", "g2", "g3"
"""A node whose radrm takes no jobs of Slurm; one with small GPUs; a good one."""


@pytest.fixture(scope="module")
def site() -> Iterator[Cluster]:
    need_slurm()
    place = Cluster(lua=job_submit_lua(SlurmConfig()))
    try:
        place.start()
        prepare(place)
        # Slurm takes the node of the lowest weight that has room: the bad one first.
        place.scontrol("update", f"NodeName={SMALL}", "Weight=10")
        place.scontrol("update", f"NodeName={GOOD}", "Weight=20")
        for node, enabled, gpus in (
            (OFF, "false", "sim:2xA100-40GB"),
            (SMALL, "true", "sim:4xA30-24GB"),
            (GOOD, "true", "sim:2xA100-40GB"),
        ):
            settings = [s.replace("%n", node) for s in OF_NODES if "enabled" not in s]
            place.daemon(node, [*settings, f"slurm.enabled={enabled}"], gpus, scale=20.0)
        yield place
    finally:
        place.stop()


def test_no_job_fails_while_one_node_is_bad_and_that_one_is_drained(site: Cluster) -> None:
    ran = site.work / "ran"
    script = f'#!/bin/sh\necho "$SLURM_ARRAY_TASK_ID $SLURMD_NODENAME" >>{ran}\n'
    words = "--array=0-39", f"--output={site.work}/%A_%a.out", "--gres=gpumem:2048"
    array = site.sbatch(script, *words)
    wait_until(lambda: not site.query("squeue", "--noheader", f"--jobs={array}"), "all to end")
    lines = [line.split() for line in ran.read_text().splitlines()]
    assert Counter(int(number) for number, _ in lines) == Counter(range(40))
    assert OFF not in {node for _, node in lines}
    node = site.scontrol("-o", "show", "node", OFF)
    assert "DRAIN" in node and "Reason=radrm: its radrm takes no jobs of Slurm" in node


def test_a_job_that_does_not_fit_a_node_goes_to_one_where_it_does(site: Cluster) -> None:
    site.scontrol("update", f"NodeName={OFF}", "State=DRAIN", "Reason=test")
    body = "#!/bin/sh\n#RAD --gpu-memory=30G\necho $SLURMD_NODENAME\n"
    job = site.sbatch(body, "--comment=site:7")
    assert site.wait(job) == ("COMPLETED", "0:0")
    shown = site.job(job)
    assert (shown["ExcNodeList"], shown["Comment"]) == (SMALL, "site:7")
    assert site.output(job) == f"{GOOD}\n"


def test_one_that_fits_none_fails_with_the_reason(site: Cluster) -> None:
    body = "#!/bin/sh\n#RAD --gpu-memory=60G\necho\n"
    job = site.sbatch(body, "--exclude", f"{OFF},{SMALL}")
    assert site.wait(job)[0] == "FAILED"
    assert "no other node is left" in site.output(job)


def test_a_job_in_another_partition_is_refused_at_its_step(site: Cluster) -> None:
    """An administrator moves it there past the rules; Slurm gives it nothing of ours."""
    held = site.sbatch("#!/bin/sh\necho ran\n", "--hold")
    done = site.run("scontrol", "update", f"JobId={held}", "Partition=whole")
    assert done.returncode != 0, "the rules refuse it"
    script = site.scontrol("write", "batch_script", str(held), "-")
    site.run("scancel", str(held))
    job = site.sbatch(script, "-p", "whole", "-w", GOOD)
    assert site.wait(job)[0] == "FAILED"
    said = site.output(job)
    assert "is in partition whole" in said and "ran" not in said.split()


def test_a_job_that_waits_says_so_and_its_limit_begins_at_its_start(site: Cluster) -> None:
    end = site.work / "end"
    body = (
        f"#!/bin/sh\n#RAD --gpus=2 --collocation=exclusive\nuntil [ -e {end} ]; do sleep 0.1; done"
    )
    taken = site.sbatch(f"{body}\n", "-w", GOOD)
    home = site.daemons[GOOD]
    wait_until(lambda: home.json("status", "--state=running"), "the GPUs to be taken")
    job = site.sbatch("#!/bin/sh\nsleep 1\n", "-w", GOOD, "--time=1", "--comment=site:7")

    def shown() -> dict[str, str]:
        return record(site.scontrol("-o", "show", "job", str(job)))

    def waits() -> bool:
        return "radrm: waits: " in shown()["AdminComment"]

    wait_until(lambda: "AdminComment" in shown() and waits(), "it to be shown")
    assert f"Slurm job {taken}" in shown()["AdminComment"]
    assert shown()["TimeLimit"] == "00:31:00"
    rows = json.loads(daemons.run(("status", "--cluster", "--json"), site.env, site.work).stdout)
    (row,) = [row for row in rows if row["id"] == str(job)]
    assert row["state"] == "WAITING" and f"Slurm job {taken}" in row["reason"]
    end.touch()
    wait_until(lambda: shown()["TimeLimit"] == "00:02:00", "the time that it has waited")
    assert site.wait(job) == ("COMPLETED", "0:0")
    assert "radrm:gpu_s=" in shown()["AdminComment"] and shown()["Comment"].strip() == "site:7"


@pytest.mark.nightly
def test_slurms_limit_ends_a_job_and_says_so(site: Cluster) -> None:
    """An administrator's change counts, and so does the limit of the script."""
    body = "#!/bin/sh\n#RAD --time=1m\nwhile :; do sleep 0.2; done\n"
    job = site.sbatch(body, "-w", GOOD)
    shown = site.wait_state(job, "RUNNING")
    assert shown["TimeLimit"] == "00:01:00"
    home = site.daemons[GOOD]
    wait_until(lambda: home.json("status", "--state=running"), "it to run")
    site.scontrol("update", f"JobId={job}", "TimeLimit=0:01")
    assert site.wait(job, 120.0)[0] == "TIMEOUT"
    (document,) = [d for d in home.json("status", "--all") if f":{job}." in (d["outer"] or "")]
    assert document["state"] == "TIMEOUT"


def test_a_node_without_radrm_gives_the_job_back(site: Cluster) -> None:
    path = ":".join(p for p in site.env["PATH"].split(":") if not os.path.exists(f"{p}/radrm"))
    script = "#!/bin/sh\necho on $SLURMD_NODENAME\n"
    words = f"--export=ALL,PATH={path}", "--exclude", f"{OFF},{SMALL}"
    job = site.sbatch(script, *words)

    def excluded() -> list[str]:
        return site.scontrol("show", "hostnames", site.job(job)["ExcNodeList"]).split()

    wait_until(lambda: GOOD in excluded(), "it to be kept from this node")
    said = site.output(job)
    assert site.job(job)["Restarts"] == "1"
    site.run("scancel", str(job))
    assert f"node {GOOD} cannot run" in said and "on " + GOOD not in said.splitlines()


@pytest.mark.nightly
def test_a_dead_daemon_is_seen_and_its_job_goes_elsewhere(site: Cluster) -> None:
    site.scontrol("update", f"NodeName={SMALL}", "Weight=1")
    site.daemons[SMALL].kill()
    job = site.sbatch("#!/bin/sh\necho on $SLURMD_NODENAME\n", "--time=5", "--gres=gpumem:2048")

    def comment() -> str:
        return site.scontrol("-o", "show", "job", str(job)).partition(" Comment=")[2]

    wait_until(lambda: comment().startswith("radrm: waits: the daemon of node"), "it to be seen")
    assert site.wait(job, 180.0) == ("COMPLETED", "0:0")
    assert site.output(job).splitlines()[-1] == f"on {GOOD}"
    assert comment().startswith("radrm: returned on node")
