"""What jobs have used is in Slurm's own accounting: a real slurmdbd keeps it, and sacct has it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.cluster.place import OF_NODES, prepare, through_radrm
from tests.forks import daemons
from tests.slurm.accounts.database import MISSING, RecordingCluster, installed
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_until

NODE = "g1"
SIMJOB = "exec radrm-simjob --gpu-memory 5G --smact 0.4 --seconds 60"


@pytest.fixture(scope="module")
def cluster() -> Iterator[RecordingCluster]:
    need_slurm()
    if not installed():
        pytest.skip(MISSING)
    place = RecordingCluster()
    try:
        place.start()
        prepare(place)
        for words in (("account", "vision"), ("user", "root", "account=vision")):
            place.run("sacctmgr", "-i", "add", *words)
        weights = "TRESBillingWeights=CPU=1.0,GRES/gpumem=0.001"
        place.scontrol("update", "PartitionName=shared", weights)
        yield place
    finally:
        place.stop()


def radrm(cluster: RecordingCluster, *words: str) -> str:
    return daemons.run(words, cluster.env, cluster.work).stdout


@pytest.mark.nightly
def test_a_report_sums_what_sacct_has(cluster: RecordingCluster) -> None:
    cluster.daemon(NODE, [each.replace("%n", NODE) for each in OF_NODES], scale=20.0)
    words = "-w", NODE, "--gres=gpumem:9000", "--account=vision"
    job = cluster.sbatch(through_radrm(SIMJOB, "--gpu-memory=6G", "--smact=0.4"), *words)
    assert cluster.wait(job) == ("COMPLETED", "0:0")
    assert "billing=10," in cluster.scontrol("-o", "show", "job", str(job))

    def reported() -> list[dict[str, Any]] | None:
        document = json.loads(radrm(cluster, "report", "--cluster", "--by=account", "--json"))
        assert document["source"] == "sacct"
        rows: list[dict[str, Any]] = document["rows"]
        return rows if rows and rows[0]["measured"] else None

    rows = wait_until(reported, "slurmdbd to have the comment")
    (row,) = rows
    assert (row["name"], row["runs"], row["completed"]) == ("vision", 1, 1)
    assert row["gpumem_gib_h"] == pytest.approx(9000 / 1024 * row["elapsed_s"] / 3600)
    assert row["gpu_s"] >= 60 and 0 < row["smact"] <= 0.4 and row["energy_j"] > 0
    assert row["peak_mib"] == 5 * 1024


@pytest.mark.nightly
def test_doctor_finds_no_fault_with_it(cluster: RecordingCluster) -> None:
    said = radrm(cluster, "doctor", "--slurm", "--all")
    assert "ok    accounting: sacct has the GPU memory of jobs" in said
