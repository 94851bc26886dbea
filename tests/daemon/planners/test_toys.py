"""The toy planners of the contract tests in a real daemon: two at a time, one of them slow."""

from __future__ import annotations

import pytest

from tests.daemon.harness import DaemonHome, simjob
from tests.daemon.planners.package import install
from tests.waiting import wait_until

SYSTEMS = "tests.contract.systems"
TOYS = {
    "flowcon": f"{SYSTEMS}.test_flowcon:FlowCon",
    "specon": f"{SYSTEMS}.test_specon:SpeCon",
    "elastic": f"{SYSTEMS}.test_elastic:Elastic",
    "slow-starter": f"{SYSTEMS}.slow:SlowStarter",
    "slow-andreas": f"{SYSTEMS}.slow:SlowAndreas",
}


def start(home: DaemonHome, planners: str) -> None:
    install(home, TOYS)
    home.settings = [f"planner={planners}"]
    home.start()


@pytest.mark.parametrize(
    ("planners", "starter"),
    [
        pytest.param("strict+flowcon+slow-andreas", "strict", marks=pytest.mark.nightly),
        pytest.param("specon+elastic+slow-starter", "slow-starter", marks=pytest.mark.nightly),
        pytest.param("andreas+slow-andreas", "andreas", marks=pytest.mark.nightly),
    ],
)
def test_jobs_of_everybody_run(home: DaemonHome, planners: str, starter: str) -> None:
    start(home, planners)
    jobs = [home.submit("--gpu-memory=30G", "--", *simjob(8, 0.5, 60)) for _ in range(3)]
    for job in jobs:
        home.wait_state(job, "RUNNING", "COMPLETED")
    home.kill()
    home.start()
    for job in jobs:
        assert home.wait_end(job)["state"] == "COMPLETED"
        (attempt,) = home.json("explain", str(job))["attempts"]
        assert attempt["planner"] == starter
    assert "failed (" not in home.said()
    if starter == "andreas":
        words = (
            "replay",
            "--policy",
            "lug",
            "--planner",
            "strict,strict+flowcon",
            "--seeds",
            "1",
        )
        found = home.json(*words)["policies"]
        named = [(each["policy"], each["planner"]) for each in found]
        plans = ("strict", "strict+flowcon")
        assert named == [(policy, plan) for plan in plans for policy in ("packing", "lug")]
    if "slow-starter" in planners:
        assert home.radrm("explain", str(jobs[0])).stdout.count("slow-starter") == 1


def test_a_slow_planner_preempts_and_the_job_says_so(home: DaemonHome) -> None:
    home.gpus = "sim:1xA100-40GB"
    start(home, "strict+slow-andreas")
    words = ("--gpu-memory=30G", "--requeue")
    patient = home.submit(*words, "--", *simjob(8, 0.5, 10_000))
    home.wait_state(patient, "RUNNING")
    urgent = home.submit(*words, "--priority=9", "--", *simjob(8, 0.5, 10_000))
    home.wait_state(urgent, "RUNNING")
    first = home.json("explain", str(patient))["attempts"][0]
    assert first["outcome"] == "preempted"
    assert first["reason"] == "preempted: the planner slow-andreas asked for a preemption"
    assert first["requested"] == {"kind": "a preemption", "planner": "slow-andreas"}
    reasons = home.json("explain", str(patient))
    reasons = [r for r in (*reasons["reasons"], *reasons["devices"]) if r["rule"] != "bound"]
    assert {r["planner"] for r in reasons} == {None}
    assert "strict: " not in home.radrm("explain", str(patient)).stdout, "it needs no name"
    wait_until(lambda: home.job(patient)["state"] == "PENDING", "the patient job to wait")


@pytest.mark.nightly
def test_simulations_compare_planners(home: DaemonHome) -> None:
    install(home, TOYS)
    trace = home.file(
        "trace.csv", "submit_s,name,gpus,duration_s,memory_mib,smact\n0,a,1,900,8000,0.5\n"
    )
    words = ["compare", str(trace), "--policy", "exclusive,magm"]
    found = home.json(*words, "--planner", "strict,strict+slow-andreas+flowcon")
    named = [(each["policy"], each["planner"]) for each in found]
    assert named == [
        ("packing", "backfill"),
        ("exclusive", "strict"),
        ("magm", "strict"),
        ("magm", "strict+slow-andreas+flowcon"),
    ]
    table = home.radrm(*words, "--planner", "strict,slow-starter").stdout
    assert "PLANNER" in table and "slow-starter" in table
    whole = home.json("simulate", str(trace), "--planner", "slow-starter")
    assert whole["planner"] == "slow-starter" and whole["unfinished"] == 0
