"""Limits of CPUs and host memory, end to end: a real daemon, and jobs that exceed them."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from radrm.host.processes import cgroups
from radrm.host.processes.controllers import prepare
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

SPIN = "import os\nos.fork()\nwhile True: pass"
"""Two processes that use all the CPU time that they get."""
HOG = "x = bytearray(200 << 20)"
"""Uses 200 MiB."""


CAPPER = """
from radrm.rules import Plan, SetShares, events, replace

class Capper:
    name, version, starts_jobs = "capper", 1, False
    listens = frozenset({events.AttemptStarted})

    def plan(self, view, event, state):
        return Plan([
            SetShares(job_id=job.id, shares=tuple(
                replace(share, cpus=0.1) for share in attempt.placement.shares))
            for job, attempt in view.running() if attempt.placement.shares[0].cpus is None
        ])

    def explain(self, view, job):
        return ()
"""
"""A planner that gives 0.1 CPUs to each job that starts without a cap."""


@pytest.fixture(autouse=True)
def controllers() -> None:
    """Those of version 1, which leave this process where it is."""
    if None in (cgroups.own_group("cpu"), cgroups.own_group("memory")) or prepare().reasons:
        pytest.skip("no cpu and memory controller of cgroup v1 can be used here")


def python(code: str) -> tuple[str, ...]:
    return "--gpus=0", "--", sys.executable, "-I", "-S", "-c", code


def groups(daemon: DaemonHome, job: int) -> dict[str, str]:
    """The groups of a running job, by controller."""
    daemon.wait_state(job, "RUNNING")
    folder = daemon.folder / "home" / "attempts"
    for path in folder.glob("*/launch.json"):
        record = json.loads(path.read_text())
        if record["job_id"] == job:
            return {key: record["limits"][key] for key in ("cpu", "memory")}
    raise AssertionError(f"job {job} has no attempt in {folder}")


def test_a_job_that_burns_more_cpus_than_it_asked_for_gets_only_its_share(
    daemon: DaemonHome,
) -> None:
    job = daemon.submit("--cpus=0.1", *python(SPIN))
    beside = daemon.submit(*python(SPIN))
    group = groups(daemon, job)["cpu"]
    wait_until(lambda: cgroups.counts(group, "cpu.stat").get("nr_throttled", 0) > 3)
    assert not os.path.exists(groups(daemon, beside)["cpu"])
    assert daemon.job(job)["cpus"] == 0.1 and daemon.job(job)["not_enforced"] is None
    assert "0.1 CPUs" in daemon.radrm("status", str(job)).stdout
    findings = json.loads(daemon.radrm("doctor", "--json").stdout)
    assert [f["level"] for f in findings if f["check"] == "limits"] == ["ok"]
    daemon.kill()
    assert Path(group, "cpu.cfs_quota_us").read_text() == "10000\n"
    daemon.start()
    before = cgroups.counts(group, "cpu.stat")["nr_throttled"]
    wait_until(lambda: cgroups.counts(group, "cpu.stat")["nr_throttled"] > before)
    daemon.radrm("cancel", str(job), str(beside))
    daemon.wait_end(job)
    assert not os.path.exists(group)


@pytest.mark.parametrize(
    "words",
    [python(HOG), ("--gpus=0", "--", "sh", "-c", f"{sys.executable} -I -S -c '{HOG}'; true")],
    ids=["the job itself", "only a child"],
)
def test_a_job_that_exceeds_its_host_memory_fails_and_says_so(
    daemon: DaemonHome, words: tuple[str, ...]
) -> None:
    os.mkfifo(daemon.work / "fifo")
    beside = daemon.submit("--memory=512M", "--gpus=0", "--", "sh", "-c", "read x <fifo; exit 3")
    job = daemon.submit("--memory=64M", *words)
    found = daemon.wait_end(job)
    assert found["state"] == "FAILED" and found["outcome"] == "failed"
    assert found["reason"] == "host memory limit (64M) reached; ask for more with --memory"
    assert found["oom_count"] == 0, "no GPU ran out of memory"
    daemon.wait_state(beside, "RUNNING")
    with open(daemon.work / "fifo", "w") as fifo:
        fifo.write("x\n")
    assert daemon.wait_end(beside)["exit_code"] == 3


def test_a_job_is_told_its_cpus(daemon: DaemonHome) -> None:
    daemon.environment.pop("OMP_NUM_THREADS", None)
    words = "RADRM_CPUS", "OMP_NUM_THREADS", "PYTHON_CPU_COUNT"
    script = "; ".join(f"echo {word}=${word}" for word in words)
    told = {}
    for option in ("--cpus=1.5", "--cpus=0.5", "--gpus=1"):
        job = daemon.submit(option, "--env=PYTHON_CPU_COUNT=7", "--", "sh", "-c", script)
        assert daemon.wait_end(job)["state"] == "COMPLETED"
        told[option] = daemon.output(job).split()
    assert told["--cpus=1.5"] == ["RADRM_CPUS=1.5", "OMP_NUM_THREADS=1", "PYTHON_CPU_COUNT=7"]
    assert told["--cpus=0.5"] == ["RADRM_CPUS=0.5", "OMP_NUM_THREADS=1", "PYTHON_CPU_COUNT=7"]
    assert told["--gpus=1"][0] == "RADRM_CPUS="


def with_planner(home: DaemonHome, name: str, code: str) -> None:
    """Have the daemon run this planner of a third party beside the default."""
    home.install({"radrm.planners": {name: f"{name}:{name.title()}"}}, **{name: code})
    home.settings = [f'planner=["strict", "{name}"]', "progress.interval_s=1"]


def test_a_planner_caps_running_jobs_and_the_caps_outlive_the_daemon(home: DaemonHome) -> None:
    with_planner(home, "capper", CAPPER)
    home.start()
    job = home.submit(*python(SPIN))
    group = groups(home, job)["cpu"]
    wait_until(lambda: cgroups.counts(group, "cpu.stat").get("nr_throttled", 0) > 3)
    assert len(cgroups.processes(group)) == 2
    home.kill()
    limit = Path(group, "cpu.cfs_quota_us")
    assert limit.read_text() == "10000\n"
    limit.write_text("-1")
    home.start()
    assert limit.read_text() == "10000\n", "what is saved holds"
    home.radrm("cancel", str(job))
    home.wait_end(job)
    assert not os.path.exists(group)


WEIGHER = """
from radrm.rules import Plan, SetShares, events, replace

class Weigher:
    name, version, starts_jobs = "weigher", 1, False
    listens = frozenset({events.HostUsed})

    def plan(self, view, event, state):
        return Plan([
            SetShares(job_id=job.id, shares=tuple(
                replace(share, cpu_weight=0.5) for share in attempt.placement.shares))
            for job, attempt in view.running()
            if attempt.host_use and attempt.host_use.cpu_s > 0.05
            and attempt.placement.shares[0].cpu_weight is None
        ])

    def explain(self, view, job):
        return ()
"""
"""A planner that gives the weight 0.5 to each job that has used CPU time."""


def test_a_planner_sees_the_cpu_time_of_jobs_and_weighs_them(home: DaemonHome) -> None:
    with_planner(home, "weigher", WEIGHER)
    home.start()
    job = home.submit(*python(SPIN))
    weight = Path(groups(home, job)["cpu"], "cpu.shares")
    wait_until(lambda: weight.read_text() == "512\n")
    wait_until(lambda: home.job(job)["cpu_share"] is not None)
    share = home.job(job)["cpu_share"]
    assert share["cpus"] is None and share["weight"] == 0.5
    assert "100% of the server" in home.radrm("status", str(job)).stdout
    home.radrm("cancel", str(job))
    home.wait_end(job)
    assert home.job(job)["cpu_share"] is None
