"""What Slurm does with jobs that share GPUs: returns, preemption, arrays, a silent controller."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from benchmarks.cluster.place import OF_NODES, prepare, through_radrm
from radrm.client.connection import every_job
from tests.daemon.harness import DaemonHome
from tests.paths import REPOSITORY
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_until

FULL, FREE, FENCED = "g1", "g2", "g3"
"""Nodes with a daemon: the GPUs of the first are taken. That of the third one comes last."""
PREEMPTION = """\
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=urgent Nodes=g1,g2,g3 PriorityTier=10 OverSubscribe=NO State=UP"""
GPUMEM = "--gres=gpumem:4096"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    need_slurm()
    place = Cluster(PREEMPTION)
    try:
        place.start()
        prepare(place)
        # Slurm takes the node of the lowest weight that has room.
        place.scontrol("update", "NodeName=g2,g3", "Weight=10")
        yield place
    finally:
        place.stop()


@dataclass
class Jobs:
    """Daemons, and jobs that wait for several seconds beside each other."""

    full: DaemonHome
    free: DaemonHome
    returned: int
    preempted: int


@pytest.fixture(scope="module")
def jobs(cluster: Cluster) -> Jobs:
    def daemon(node: str, *more: str) -> DaemonHome:
        return cluster.daemon(node, [*(s.replace("%n", node) for s in OF_NODES), *more], scale=20.0)

    full, free = daemon(FULL, "slurm.local_wait_s=15"), daemon(FREE, "slurm.only=true")
    taken = through_radrm(UP, "--gpus=2", "--gpu-memory=4G", "--collocation=exclusive")
    first = cluster.sbatch(taken, "-w", FULL)
    wait_until(lambda: said_of(full, first, "RUNNING"), "the GPUs to be taken")
    once = f"if mkdir {cluster.work}/once; then {UP}; fi; echo again"
    return Jobs(
        full,
        free,
        cluster.sbatch(
            through_radrm('echo "on $SLURMD_NODENAME"', "--gpu-memory=4G"),
            *(GPUMEM, "--exclude=g3"),
        ),
        cluster.sbatch(through_radrm(once, "--gpu-memory=4G"), GPUMEM, "-w", FREE, "--requeue"),
    )


UP = 'while [ ! -e "$0.end" ]; do sleep 0.05; done'
"""A job that runs until it is ended."""


def said_of(home: DaemonHome, job: int, *states: str) -> list[dict[str, Any]]:
    """What the daemon says of all runs of a Slurm job that are in one of these states."""
    found = [d for d in every_job(home.ask, all=True) if f":{job}." in d.get("outer", "")]
    return [document for document in found if document["state"] in states]


def test_a_node_for_slurm_alone_refuses_other_jobs(cluster: Cluster, jobs: Jobs) -> None:
    done = jobs.free.radrm("submit", "--gpu-memory=1G", "--", "true")
    assert done.returncode != 0 and done.stderr.count("\n") == 1
    assert "radrm submit --cluster FILE, or sbatch" in done.stderr


def test_an_element_of_an_array_is_one_job(cluster: Cluster, jobs: Jobs) -> None:
    """The last element has the number of the array: what is asked for it must not hold for all."""
    script = f"""\
echo "$RADRM_ARRAY_ID $RADRM_ARRAY_TASK_ID"
[ $SLURM_ARRAY_TASK_ID = 1 ] || until [ -e {cluster.work}/array ]; do sleep 0.05; done"""
    array = cluster.sbatch(
        through_radrm(script),
        *(GPUMEM, "-w", FREE, "--array=0-1", f"--output={cluster.work}/%A_%a.out"),
    )

    def comment(element: int) -> str:
        shown = cluster.scontrol("-o", "show", "job", f"{array}_{element}")
        return shown.partition("AdminComment=")[2].partition(" ")[0]

    wait_until(lambda: "gpu_s" in comment(1), "the last element's end")
    first, last = (cluster.work / f"{array}_{element}.out" for element in (0, 1))
    wait_until(first.exists, "the first element")
    assert "gpu_s" not in comment(0)
    (cluster.work / "array").touch()
    wait_until(lambda: "gpu_s" in comment(0), "the first element's end")
    assert (first.read_text(), last.read_text()) == (f"{array} 0\n", f"{array} 1\n")
    (document,) = said_of(jobs.free, array, "COMPLETED")
    assert (document["estimate_mib"], document["estimate_source"]) == (4096, "declared")


OTHER = "nobody"
HERE = sys.hexversion >> 16
AS_OTHER: dict[str, Any] = {"user": OTHER, "group": "nogroup", "extra_groups": []}


@pytest.fixture(scope="module")
def radrm_of_others(cluster: Cluster) -> Path:
    """A folder with `radrm` for users who cannot enter the folder of this Python."""
    modules = f"{REPOSITORY}:{sysconfig.get_path('purelib')}"
    for python in (sys.executable, "/usr/bin/python3"):
        runs = [python, "-c", f"import sys, radrm.cli.main; assert sys.hexversion >> 16 == {HERE}"]
        environment = {"PYTHONPATH": modules, "PYTHONDONTWRITEBYTECODE": "1"}
        try:
            subprocess.run(runs, env=environment, capture_output=True, check=True, **AS_OTHER)
        except (OSError, subprocess.CalledProcessError):
            continue
        folder = cluster.folder / "bin"
        folder.mkdir()
        (folder / "radrm").write_text(
            f'#!/bin/sh\nPYTHONPATH={modules} exec {python} -m radrm.cli.main "$@"\n'
        )
        (folder / "radrm").chmod(0o755)
        return folder
    pytest.skip(f"{OTHER} can run no Python with these modules")


def open_to_all(home: Path) -> None:
    """Give a daemon's folder the modes of the system's."""
    for names, mode in (
        ((".", "attempts", "checkpoints", "elastic", "run/progress"), 0o711),
        (("run",), 0o755),
        (("spool",), 0o1777),
        (("run/radrm.sock",), 0o666),
    ):
        for name in names:
            (home / name).chmod(mode)


def test_a_job_of_another_user_is_that_users(
    cluster: Cluster, jobs: Jobs, radrm_of_others: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has no home on the node."""
    monkeypatch.setitem(cluster.env, "HOME", "/nonexistent")
    open_to_all(jobs.free.folder / "home")
    script = through_radrm(
        'id -un; [ "$RADRM_ATTEMPT" = 2 ] && exit 7', "--gpu-memory=4G", "--retries=1"
    )
    # Its own line, as Slurm 25.11 gets a user's environment by a login for --export=ALL,PATH=...
    theirs = f"#!{radrm_of_others}/radrm slurm-step\n" + script.partition("\n")[2]
    job = cluster.sbatch(theirs, GPUMEM, "-w", FREE, user=OTHER)
    assert cluster.wait(job) == ("FAILED", "7:0")
    assert cluster.output(job).splitlines().count(OTHER) == 2
    (document,) = said_of(jobs.free, job, "FAILED")
    assert (document["user"], document["attempts"], document["exit_code"]) == (OTHER, 2, 7)


def test_a_preempted_job_runs_again(cluster: Cluster, jobs: Jobs) -> None:
    wait_until(lambda: said_of(jobs.free, jobs.preempted, "RUNNING"), "it to run")
    cluster.sbatch("true", "-p", "urgent", "-w", FREE, "--mem=64000")
    assert cluster.wait(jobs.preempted) == ("COMPLETED", "0:0")
    assert cluster.output(jobs.preempted).splitlines()[-1] == "again"
    wait_until(lambda: said_of(jobs.free, jobs.preempted, "COMPLETED"), "its second run to end")
    (first,) = said_of(jobs.free, jobs.preempted, "CANCELLED")
    assert "it was preempted or requeued" in first["reason"]


def test_a_job_that_waits_too_long_goes_to_another_node(cluster: Cluster, jobs: Jobs) -> None:
    assert cluster.wait(jobs.returned) == ("COMPLETED", "0:0")
    assert cluster.output(jobs.returned) == f"on {FREE}\n"
    assert cluster.job(jobs.returned)["ExcNodeList"] == "g1,g3"
    (waited,) = said_of(jobs.full, jobs.returned, "CANCELLED")
    assert waited["started_at"] is None and f"on node {FULL}" in waited["reason"]


@pytest.mark.nightly
def test_a_silent_controller_ends_jobs_that_are_fenced(cluster: Cluster, jobs: Jobs) -> None:
    conf = cluster.folder / "slurm.conf"
    text = conf.read_text()
    conf.write_text(text.replace("SlurmdTimeout=20", "SlurmdTimeout=4"))
    cluster.scontrol("reconfigure")
    home = cluster.daemon(
        FENCED, [*(s.replace("%n", FENCED) for s in OF_NODES), "slurm.fence=true"]
    )
    job = cluster.sbatch(through_radrm(UP, "--gpu-memory=4G"), GPUMEM, "-w", FENCED)
    wait_until(lambda: said_of(home, job, "RUNNING"), "it to run")
    cluster.stop_slurmctld()
    conf.write_text(text)
    ended = wait_until(lambda: said_of(home, job, "CANCELLED"), "its end")
    cluster.start_slurmctld()
    assert "Slurm's controller has been silent for" in ended[0]["reason"]
    assert cluster.wait(job)[0] in ("FAILED", "CANCELLED")
    assert "has been silent" in cluster.output(job)
