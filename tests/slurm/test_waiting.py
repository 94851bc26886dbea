"""What becomes of jobs that wait on their node, whose node is cut off, or that are preempted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.cluster.place import OF_NODES, prepare, through_radrm
from tests.daemon.harness import DaemonHome
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_until

MORE = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=urgent Nodes=g3 OverSubscribe=NO PriorityTier=9 MaxTime=INFINITE State=UP
"""
SETTINGS = """
fence = true
local_wait_s = 3
"""
UP = 'echo up\nwhile [ ! -e "$SLURM_JOB_ID.end" ]; do sleep 0.05; done'
WHOLE = ("--gpu-memory=4G", "--gpus=2", "--collocation=exclusive")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_slurm()
    place = Cluster(MORE, slurmd_timeout_s=8)
    try:
        place.start()
        prepare(place)
        config = place.folder / "radrm.toml"
        config.write_text(config.read_text() + SETTINGS)
        yield place
    finally:
        place.stop()


@pytest.fixture(scope="module")
def homes(cluster: Cluster) -> dict[str, DaemonHome]:
    """Daemons of g1 and g2; that of g2 takes jobs of Slurm alone."""
    one = [each.replace("%n", "g1") for each in OF_NODES]
    two = [each.replace("%n", "g2") for each in OF_NODES]
    return {
        "g1": cluster.daemon("g1", one, scale=20.0),
        "g2": cluster.daemon("g2", [*two, "slurm.only=true"], scale=20.0),
    }


def runs_of(home: DaemonHome, job: int) -> list[dict[str, Any]]:
    """What a daemon says of the runs of a Slurm job."""
    return [d for d in home.json("status", "--all") if f":{job}." in (d["outer"] or "")]


def runs(home: DaemonHome, job: int) -> None:
    def up() -> bool:
        found = runs_of(home, job)
        return bool(found) and found[-1]["state"] == "RUNNING"

    wait_until(up, f"job {job} to run")


def let_end(cluster: Cluster, job: int) -> None:
    (cluster.work / f"{job}.end").touch()


def test_a_job_that_waits_too_long_goes_to_another_node(
    cluster: Cluster, homes: dict[str, DaemonHome]
) -> None:
    first = cluster.sbatch(through_radrm(UP, *WHOLE), "-w", "g1", "--gres=gpumem:2")
    runs(homes["g1"], first)
    for node in ("g2", "g3"):
        cluster.scontrol("update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    script = through_radrm('echo "on $SLURMD_NODENAME"', *WHOLE)
    job = cluster.sbatch(script, "--requeue", "--gres=gpumem:2", "--open-mode=append")
    wait_until(lambda: runs_of(homes["g1"], job), "it to wait there")
    cluster.scontrol("update", "NodeName=g2", "State=RESUME")
    assert cluster.wait(job) == ("COMPLETED", "0:0")
    said = cluster.output(job)
    assert "on node g1: " in said and "it goes back to Slurm, for another node" in said
    assert said.endswith("on g2\n")
    (waited,) = runs_of(homes["g1"], job)
    assert (waited["state"], waited["started_at"]) == ("CANCELLED", None)
    let_end(cluster, first)
    assert cluster.wait(first) == ("COMPLETED", "0:0")


def test_after_three_returns_it_fails_with_the_reason(
    cluster: Cluster, homes: dict[str, DaemonHome]
) -> None:
    first = cluster.sbatch(through_radrm(UP, *WHOLE), "-w", "g1", "--gres=gpumem:2")
    runs(homes["g1"], first)
    script = through_radrm("echo never", *WHOLE)
    job = cluster.sbatch(script, "--requeue", "-w", "g1", "--hold", "--gres=gpumem:2")
    cluster.scontrol("update", f"JobId={job}", "Comment=radrm: waits: x (returned 3 of 3 times)")
    cluster.scontrol("release", str(job))
    assert cluster.wait(job)[0] == "FAILED"
    assert "it was returned to Slurm 3 times already, and fails" in cluster.output(job)
    let_end(cluster, first)
    assert cluster.wait(first) == ("COMPLETED", "0:0")


def test_a_node_can_take_jobs_of_slurm_alone(
    cluster: Cluster, homes: dict[str, DaemonHome]
) -> None:
    done = homes["g2"].radrm("submit", "--gpu-memory=1G", "--", "true")
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    assert "radrm submit --cluster" in done.stderr
    job = cluster.sbatch(through_radrm("exit 2", "--gpu-memory=1G"), "-w", "g2", "--gres=gpumem:2")
    assert cluster.wait(job) == ("FAILED", "2:0")


def test_a_preempted_job_runs_again_from_slurm(
    cluster: Cluster, homes: dict[str, DaemonHome]
) -> None:
    cluster.scontrol("update", "NodeName=g3", "State=RESUME")
    home = cluster.daemon("g3", [each.replace("%n", "g3") for each in OF_NODES], scale=20.0)
    job = cluster.sbatch(
        through_radrm(UP, "--gpu-memory=4G"), "-w", "g3", "--requeue", "--gres=gpumem:2"
    )
    runs(home, job)
    words = ("-p", "urgent", "--exclusive")
    urgent = cluster.sbatch("true", *words)
    assert cluster.wait(urgent) == ("COMPLETED", "0:0")
    let_end(cluster, job)
    assert cluster.wait(job) == ("COMPLETED", "0:0")
    first, second = runs_of(home, job)
    assert first["state"] == "CANCELLED"
    assert first["reason"] == f"Slurm runs job {job} again later: it was preempted or requeued"
    assert second["state"] == "COMPLETED"


def test_the_jobs_of_a_node_end_that_slurm_has_given_up(
    cluster: Cluster, homes: dict[str, DaemonHome]
) -> None:
    job = cluster.sbatch(
        through_radrm(UP, "--gpu-memory=4G"), "-w", "g1", "--requeue", "--gres=gpumem:2"
    )
    runs(homes["g1"], job)
    cluster.stop_slurmctld()

    def over() -> dict[str, Any] | None:
        found = runs_of(homes["g1"], job)[-1]
        return found if found["ended_at"] is not None else None

    document = wait_until(over, "its end", patience_s=90)
    cluster.start_slurmctld()
    assert document is not None and document["state"] == "CANCELLED"
    assert "Slurm's controller has been silent for" in document["reason"]
