"""The jobs of a trace through a real daemon on simulated GPUs, in scaled time."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from radrm.config import Config
from radrm.lab.simulator.scenario import Known, Life, Scenario
from radrm.lab.simulator.traces.job import TraceJob
from radrm.simulated.spec import parse
from tests.daemon.harness import DaemonHome
from tests.waiting import wait_until

SIMJOBS = Life(0.0, 5.0, 0.0, 0.0, (1.0, 1.0), spread=0.0, work_sd=0.0)
"""How `radrm-simjob` lives: at its peak five seconds after it began, and no start-up."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of a job: device indices; seconds since the first was submitted."""

    devices: tuple[int, ...]
    started_s: float
    ended_s: float | None


def submitted(home: DaemonHome, jobs: Sequence[TraceJob]) -> list[int]:
    """All of them given at once to a daemon that runs; their ids, in the order of the trace."""
    files = []
    for number, job in enumerate(jobs):
        text = (
            f"#RAD --name={job.name} --gpus={job.gpus} --gpu-memory={job.memory_mib:.0f} "
            f"--smact={job.smact}\n"
            f"radrm-simjob --gpu-memory {job.memory_mib:.0f} --smact {job.smact} "
            f"--seconds {job.duration_s} --gpus {job.gpus}\n"
        )
        files.append(home.file(f"{number:03}.rad", text).name)
    done = home.radrm("submit", "--json", *files)
    assert done.returncode == 0, done.stderr
    ids = [found["id"] for found in json.loads(done.stdout)]
    # A submission may outrun the daemon's answer: then its ticket tells.
    assert all(isinstance(job_id, int) for job_id in ids), done.stdout
    return ids


def devices_of(home: DaemonHome, ids: Sequence[int]) -> list[tuple[int, ...]]:
    """The indices of each job's devices; of one that never began, none."""
    index = {each["uuid"]: each["index"] for each in home.ask("gpus")}
    found = {each["id"]: each for each in home.ask("status", jobs=[str(each) for each in ids])}
    return [tuple(index[uuid] for uuid in found[job_id]["devices"]) for job_id in ids]


def through_daemon(home: DaemonHome, jobs: Sequence[TraceJob]) -> list[Seen]:
    """All of them submitted at once to a daemon that runs, to their ends; in the trace's order."""
    home.radrm("drain", "--help")  # the first command of a fresh tree compiles what it imports
    ids = submitted(home, jobs)

    def found() -> list[dict[str, object]]:
        shown = home.ask("status", jobs=[str(job_id) for job_id in ids])
        ended = {"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED"}
        return shown if all(each["state"] in ended for each in shown) else []

    documents = {each["id"]: each for each in wait_until(found, "the jobs", patience_s=600.0)}
    begun_s = min(float(each["submitted_at"]) for each in documents.values())
    return [
        Seen(
            devices=devices,
            started_s=documents[job_id]["started_at"] - begun_s,
            ended_s=None if (end := documents[job_id]["ended_at"]) is None else end - begun_s,
        )
        for job_id, devices in zip(ids, devices_of(home, ids), strict=True)
    ]


def same_scenario(gpus: str, config: Config, mps: bool = False) -> Scenario:
    """The simulator's side of it. Such jobs declare memory and SM activity."""
    return Scenario(
        parse(gpus), config, estimator="declared", known=Known(smact=0.0), mps=mps, life=SIMJOBS
    )
