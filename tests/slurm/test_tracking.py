"""Slurm's own limits hold for jobs that share GPUs, and all their processes end with them.

By control groups, as most sites have it, where Slurm can make some here (version 1).
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from benchmarks.cluster.place import OF_NODES, prepare, through_radrm
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import need_slurm
from tests.waiting import wait_text, wait_until

NODE = "g1"
HERE = ("-w", NODE, "--gres=gpumem:4096")
GROUPS = Path("/sys/fs/cgroup")
CONTROLLERS = ("freezer", "memory", "cpuacct")
SLURM_CONF = """\
ProctrackType=proctrack/cgroup
TaskPlugin=task/cgroup
JobAcctGatherType=jobacct_gather/cgroup
"""
CGROUP_CONF = f"""\
CgroupPlugin=cgroup/v1
CgroupMountpoint={GROUPS}
ConstrainRAMSpace=yes
"""
BY_GROUPS = all(os.access(GROUPS / name, os.W_OK) for name in CONTROLLERS)
KINDS = [
    pytest.param("linuxproc", marks=[pytest.mark.nightly] if BY_GROUPS else []),
    *(["cgroup"] if BY_GROUPS else []),
]


@contextmanager
def cluster_of(by_groups: bool) -> Iterator[Cluster]:
    """A cluster that tracks processes by control groups, or without. Others on this server would
    have groups of the same names, so they wait."""
    with open(f"{tempfile.gettempdir()}/radrm-tests-slurm-groups.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield from _cluster_of(by_groups)


def _cluster_of(by_groups: bool) -> Iterator[Cluster]:
    place = Cluster(SLURM_CONF if by_groups else "")
    (place.folder / "cgroup.conf").write_text(CGROUP_CONF if by_groups else "")
    own = [GROUPS / name / f"slurm_{node}" for name in CONTROLLERS for node in place.nodes]
    new = [group for group in own if by_groups and not group.exists()]
    try:
        place.start()
        prepare(place)
        place.daemon(NODE, [each.replace("%n", NODE) for each in OF_NODES], scale=20.0)
        yield place
    finally:
        place.stop()
        for group in new:
            for folder in sorted(group.rglob("*"), reverse=True):
                if folder.is_dir():
                    with suppress(OSError):
                        folder.rmdir()
            with suppress(OSError):
                group.rmdir()


@pytest.mark.parametrize("kind", KINDS)
def test_slurm_tracks_and_limits_the_processes_of_a_job(kind: str) -> None:
    need_slurm()
    by_groups = kind == "cgroup"
    with cluster_of(by_groups) as cluster:
        assert is_in_a_group(cluster) == by_groups
        assert is_limited(cluster) == by_groups
        all_end_with_it(cluster)


def is_in_a_group(cluster: Cluster) -> bool:
    """Whether a job is in the control group of its Slurm job."""
    job = cluster.sbatch(through_radrm("cat /proc/self/cgroup", "--gpu-memory=2G"), *HERE)
    assert cluster.wait(job) == ("COMPLETED", "0:0")
    return f"memory:/slurm_{NODE}/uid_0/job_{job}/step_batch" in cluster.output(job)


def is_limited(cluster: Cluster) -> bool:
    """Whether a job that takes more host memory than it has asked for is killed."""
    script = "/usr/bin/env python3 -c 'bytearray(400 << 20)'"
    job = cluster.sbatch(through_radrm(script, "--gpu-memory=2G"), *HERE, "--mem=100M")
    return cluster.wait(job)[0] in ("FAILED", "OUT_OF_MEMORY")


def all_end_with_it(cluster: Cluster) -> None:
    """Cancel a job of which a process has left the session."""
    pids = cluster.work / "pids"
    leaves = f"setsid sh -c 'echo $$ > {pids}; sleep 600' > /dev/null 2>&1 &"
    job = cluster.sbatch(through_radrm(f"({leaves})\nsleep 600", "--gpu-memory=2G"), *HERE)
    pid = int(wait_text(pids))
    cluster.run("scancel", str(job))
    assert cluster.wait(job)[0] == "CANCELLED"
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the end of its process")
