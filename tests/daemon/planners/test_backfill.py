"""What `backfill` has told a job holds in a real daemon, also after a kill."""

from __future__ import annotations

from typing import Any

from tests.daemon.harness import DaemonHome, simjob
from tests.waiting import wait_until


def test_a_killed_daemon_keeps_the_bound_of_a_passed_job(home: DaemonHome) -> None:
    home.gpus = "sim:2xA100-40GB"
    home.settings = ["policy=exclusive", "planner=backfill", "core.smact_warm_s=0"]
    home.start()
    words = ("--gpu-memory=20G", "--smact=0.1")
    running = home.submit(*words, "--duration=40000", "--", *simjob(8, 0.1, 40_000))
    home.wait_state(running, "RUNNING")
    head = home.submit(*words, "--gpus=2", "--duration=100", "--", *simjob(8, 0.1, 100))
    long = home.submit(*words, "--duration=90000", "--", *simjob(8, 0.1, 100))

    def reasons(job: int) -> list[str]:
        found: list[dict[str, Any]] = home.json("explain", str(job))["reasons"]
        return [each["message"] for each in found if each["rule"] in ("order", "backfill")]

    served, delay = reasons(long)
    assert served.startswith(f"Job {head} ") and "is served first" in served
    assert delay.startswith(f"Job {head} could start in ")
    short = home.submit(*words, "--duration=30000", "--", *simjob(8, 0.1, 30_000))
    home.wait_state(short, "RUNNING")
    (passed,) = reasons(head)
    assert passed.startswith(f"Other jobs may start before job {head} for ")
    assert "may start before" not in home.job(head)["reason"], (
        "what it waits for, not what passes it"
    )
    assert ".0 of " not in home.radrm("explain", str(long)).stdout, "seconds are shown as times"
    home.kill()
    home.start()
    wait_until(lambda: any("may start before" in each for each in reasons(head)), "the note")
    home.radrm("cancel", str(short))
    home.wait_state(short, "CANCELLED")
    assert home.job(long)["state"] == "PENDING"
    home.radrm("cancel", str(running))
    assert home.wait_end(head)["state"] == "COMPLETED"
    assert home.wait_end(long)["state"] == "COMPLETED"
    ends = {job: home.job(job) for job in (head, long)}
    assert ends[head]["started_at"] <= ends[long]["started_at"]
