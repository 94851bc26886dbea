"""The runs of several servers as one. The devices of one server are adjacent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from radrm.simulator.run import AttemptRun, JobRun, Run


def joined(jobs: tuple[JobRun, ...], runs: Sequence[Run]) -> Run:
    """Return one run of these jobs, whose attempts have the devices of all servers."""
    placed = [(a.started_s, at, a.devices) for at, job in enumerate(jobs) for a in job.attempts]
    return Run(
        jobs=jobs,
        devices=tuple(
            replace(device, node=f"{number} {device.node}")
            for number, run in enumerate(runs)
            for device in run.devices
        ),
        ended_s=max(run.ended_s for run in runs),
        oom_count=sum(run.oom_count for run in runs),
        decisions=tuple((at, devices) for _, at, devices in sorted(placed)),
    )


def with_devices_from(first: int, attempt: AttemptRun) -> AttemptRun:
    """Return the attempt with its devices counted from `first`."""

    def moved(devices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(first + at for at in devices)

    sizes = tuple((from_s, moved(devices)) for from_s, devices in attempt.sizes)
    return replace(attempt, devices=moved(attempt.devices), sizes=sizes)
