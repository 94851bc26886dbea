"""PyTorch jobs placed by a real daemon on a real GPU."""

from __future__ import annotations

import pytest

from tests.gpu.conftest import MakeServer
from tests.gpu.requirements import missing
from tests.gpu.server import RealServer

pytestmark = pytest.mark.gpu

PACKING = ("policy=first-fit", "policies.sharing.conditions=false", "estimator=none")
CONTEXT_MIB = 2048
"""A process holds more than PyTorch reserves: its CUDA context, cuBLAS' workspace."""
BESIDE_MIB = 8192


def test_a_job_runs_on_its_gpu_and_is_measured(server: RealServer) -> None:
    job = server.run("matmul.py", "--seconds", 15, "--memory", 4096)
    done = server.wait_end(job)
    assert done["state"] == "COMPLETED", server.output(job)
    report = server.report(job)
    assert report["devices"] == server.uuid
    assert done["devices"] == [server.uuid]
    if done["peak_mib"] is None:
        missing("processes", "this driver does not tell what a single process holds")
    assert report["reserved_mib"] <= done["peak_mib"] <= report["reserved_mib"] + CONTEXT_MIB
    assert done["energy_j"] is None or done["energy_j"] > 0


def test_its_processes_are_known_as_its_own(server: RealServer) -> None:
    job = server.run("matmul.py", "--seconds", 300, "--memory", 2048)
    server.until(lambda: "step" in server.output(job), "the program to be at work")
    server.until(lambda: (server.device()["used_mib"] or 0) > 2048, "its memory in the readings")
    device = server.device()
    assert device["jobs"] == [job]
    assert device["unmanaged_mib"] < 2048
    server.radrm("cancel", str(job))
    assert server.wait_end(job)["state"] == "CANCELLED"
    server.until(lambda: (server.device()["used_mib"] or 0) < 2048, "its memory to be free again")


def test_two_jobs_share_the_gpu(make_server: MakeServer) -> None:
    server = make_server(*PACKING)
    jobs = [
        server.run(
            "matmul.py", "--seconds", 20, "--size", 1024, options=("--collocation=timeslice",)
        )
        for _ in range(2)
    ]
    server.until(lambda: sorted(server.device()["jobs"]) == jobs, "both jobs on the GPU")
    for job in jobs:
        done = server.wait_end(job)
        assert (done["state"], done["collocation"]) == ("COMPLETED", "timeslice")
        assert done["oom_count"] == 0


def test_default_rules_put_a_second_light_job_beside_the_first(server: RealServer) -> None:
    if not server.counted():
        missing("gpm", "without hardware counters jobs do not share GPUs by default")
    light = ("--seconds", 240, "--size", 1024, "--busy", 0.2)
    first, second = (server.run("matmul.py", *light, options=("--gpu-memory=4G",)) for _ in "ab")
    server.wait_state(first, "RUNNING")
    server.wait_state(second, "RUNNING")
    assert server.job(first)["state"] == "RUNNING"
    assert sorted(server.device()["jobs"]) == [first, second]


def test_a_real_out_of_memory_death_is_recovered(make_server: MakeServer) -> None:
    """One job holds nearly all of the GPU; the other dies, waits, and runs once it has gone."""
    server = make_server(*PACKING)
    free = server.device()["free_mib"]
    if free < 3 * BESIDE_MIB:
        missing("memory", f"too small a GPU for this test: {free} MiB are free")
    go = server.work / "go"
    holder = server.run("hold.py", "--memory", free - BESIDE_MIB, "--until", go)
    server.until(lambda: "holding" in server.output(holder), "the first job to hold its memory")
    victim = server.run("hold.py", "--memory", 2 * BESIDE_MIB)
    server.wait_state(victim, "RECOVERING")
    explained = server.json("explain", str(victim))
    assert explained["attempts"][0]["outcome"] == "oom"
    assert "OutOfMemoryError" in server.output(victim)
    go.touch()
    assert server.wait_end(holder)["state"] == "COMPLETED"
    done = server.wait_end(victim)
    assert (done["state"], done["attempts"], done["oom_count"]) == ("COMPLETED", 2, 1)
