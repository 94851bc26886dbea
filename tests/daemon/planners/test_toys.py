"""A slow toy planner of the contract tests in a real daemon."""

from __future__ import annotations

from tests.daemon.harness import DaemonHome, simjob
from tests.waiting import wait_until


def test_a_slow_planner_preempts_and_the_job_says_so(home: DaemonHome) -> None:
    home.gpus = "sim:1xA100-40GB"
    home.install({"radrm.planners": {"slow-andreas": "tests.contract.systems.slow:SlowAndreas"}})
    home.settings = ["planner=strict+slow-andreas"]
    home.start()
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
